"""Measurements of collectives and bandwidth: which runs, what their results mean, the chart."""
