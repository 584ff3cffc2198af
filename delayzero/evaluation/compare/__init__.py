"""Comparing agents: many runs, their scores with intervals, a table and pictures."""

from delayzero.extras import require_training

require_training()  # whatever of this package is imported first
