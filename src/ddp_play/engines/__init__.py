"""Engines: where a run's hosts come from, and how they are reached."""
