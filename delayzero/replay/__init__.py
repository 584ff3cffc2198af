"""Trajectories on the device: one frame a step, stacked when they are read."""

from delayzero.replay.frames import FrameWriter, HostFrames
from delayzero.replay.sampling import (
    Sample,
    draw_uniformly,
    sample,
    window_slots,
    with_priorities,
)
from delayzero.replay.storage import (
    Decisions,
    Replay,
    Targets,
    Transitions,
    append,
    arrays_of,
    can_be_sampled,
    create,
    cut_off,
    queues_at,
    release,
    row_times,
    stacked_frames,
    with_arrays,
)

__all__ = [
    "Decisions",
    "FrameWriter",
    "HostFrames",
    "Replay",
    "Sample",
    "Targets",
    "Transitions",
    "append",
    "arrays_of",
    "can_be_sampled",
    "create",
    "cut_off",
    "draw_uniformly",
    "queues_at",
    "release",
    "row_times",
    "sample",
    "stacked_frames",
    "window_slots",
    "with_arrays",
    "with_priorities",
]
