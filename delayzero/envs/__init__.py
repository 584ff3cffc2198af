"""Environments by id: classic control, MinAtar, Atari. Nothing about delay."""
