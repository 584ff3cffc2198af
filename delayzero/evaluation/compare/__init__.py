"""Comparing agents: many runs, their scores with intervals, a table and pictures."""
