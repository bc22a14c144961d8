"""The image ranks run in: built here, brought to every host, compared by content."""
