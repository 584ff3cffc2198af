"""Comparing agents: runs with several seeds, scores with intervals, tables and pictures."""

from delayzero.extras import require_training

require_training()  # here, so that importing any module of this package checks it
