"""Trajectories on the device: one frame a step, stacked when they are read."""

from delayzero.replay.frames import FrameWriter, HostFrames
from delayzero.replay.sampling import (
    Sample,
    draw_uniformly,
    sample,
    window_slots,
    with_priorities,
)
from delayzero.replay.steps import Step, rows_of
from delayzero.replay.storage import (
    Arrays,
    Decisions,
    Layout,
    Replay,
    Targets,
    Transitions,
    append,
    arrays_of,
    can_be_sampled,
    create,
    cut_off,
    observations_at,
    queues_at,
    release,
    row_times,
    stacked_frames,
    with_arrays,
)

__all__ = [
    "Arrays",
    "Decisions",
    "FrameWriter",
    "HostFrames",
    "Layout",
    "Replay",
    "Sample",
    "Step",
    "Targets",
    "Transitions",
    "append",
    "arrays_of",
    "can_be_sampled",
    "create",
    "cut_off",
    "draw_uniformly",
    "observations_at",
    "queues_at",
    "release",
    "row_times",
    "rows_of",
    "sample",
    "stacked_frames",
    "window_slots",
    "with_arrays",
    "with_priorities",
]
