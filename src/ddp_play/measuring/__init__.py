"""Measurements of collectives and bandwidth: their runs, the findings, the chart."""
