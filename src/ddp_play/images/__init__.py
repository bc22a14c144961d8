"""Rank image: build on the controller, distribution to all hosts, comparison by content."""
