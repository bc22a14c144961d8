"""The run directory: its paths, what writes it, and what reads it."""
