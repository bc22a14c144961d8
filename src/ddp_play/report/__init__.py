"""Pages that show what a run did, and the look that all pages share."""
