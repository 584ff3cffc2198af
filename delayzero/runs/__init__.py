"""Runs on disk: folders, checkpoints, weights and curves."""
