"""Remote self-play in environments that end or stop their process when a file says so."""

import importlib.util
import sys

import pytest

from .small import small

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="type: pip install 'delayzero[ray]'"
)
MORTAL = """
import os, pathlib, signal, time
import gymnasium as gym

FOLDER = pathlib.Path(__file__).parent

class Mortal(gym.Wrapper):
    steps = 0
    def step(self, action):
        self.steps += 1
        if (FOLDER / f"kill-{self.steps}").exists():
            try:
                (FOLDER / f"kill-{self.steps}").unlink()
            except FileNotFoundError:  # another one was faster
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        if (FOLDER / f"wait-{self.steps}").exists():
            (FOLDER / f"waits.{os.getppid()}").touch()
            while (FOLDER / f"wait-{self.steps}").exists():
                time.sleep(0.02)
        return super().step(action)

def make():
    return Mortal(gym.make("CartPole-v1"))

class Forgetful(Mortal):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None, options=options)

def make_forgetful():
    return Forgetful(gym.make("CartPole-v1"))
"""


def remotely(folder=None, **changes):
    """A small run with two actors, which need no more than one core together."""
    settings = {"env": "mortal:make", "delay": "walk:2", "engine": "ray", "actors": 2}
    return small(folder, **{**settings, "actor_cores": 0.5, **changes})


def mortal_in(folder, patch):
    """Make a folder with the module ``mortal``, and go there."""
    folder.mkdir(exist_ok=True)
    (folder / "mortal.py").write_text(MORTAL)
    patch.chdir(folder)
    patch.syspath_prepend(folder)
    patch.delitem(sys.modules, "mortal", raising=False)
