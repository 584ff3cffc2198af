"""Episodes made by hand."""

import io

import numpy as np
from PIL import Image

from delayzero.watching.moments import Episode, Moment, Sent


def png(width=30, height=20, shade=0):
    file = io.BytesIO()
    Image.fromarray(np.full((height, width, 3), shade, np.uint8)).save(file, "PNG")
    return file.getvalue()


def moment(time=0, delay=2, actions=2, **changes):
    values = {
        **{"time": time, "seen": time, "delay": delay, "told": True, "dropped": ()},
        "lane": tuple(Sent(time - delay + k, k % actions) for k in range(delay + 1)),
        **{"repeated": False, "action": delay % actions, "target": time + delay},
        "policy": tuple(1 / actions for _ in range(actions)),
        **{"foreseen": 3.0, "realised": 2.5, "met": None, "there": None},
        **{"reward": 1.0, "score": float(time)},
    }
    return Moment(**{**values, **changes})


def episode(steps=4, names=("left", "right"), longest=2, frame=png, moments=None, **changes):
    count = len(names)
    moments = moments or [moment(t, longest, count) for t in range(steps)]
    values = {
        **{"agent": "dez", "run": "a-run", "env": "CartPole-v1", "law": f"walk:{longest}"},
        **{"names": tuple(names), "longest": longest, "number": 0, "score": float(steps)},
        "moments": tuple(moments),
        "frames": tuple(frame(shade=20 * t % 256) for t in range(len(moments) + 1)),
        "ending": "ended",
    }
    return Episode(**{**values, **changes})
