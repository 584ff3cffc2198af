"""The training loop, its configuration, run folders and checkpoints."""
