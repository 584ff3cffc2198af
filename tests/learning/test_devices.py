"""How many devices a learner uses, and that it learns the same on all of them."""

from pathlib import Path

import jax
import pytest

from delayzero.arguments import UsageError
from delayzero.learning.devices import learner_devices
from delayzero.settings import changed, compose

from ..on_devices import run_on_four

FILE = Path(__file__).with_name("on_devices.py")
QUICK = "test_four_devices_draw_and_gather_what_one_does"


@pytest.fixture
def eight(monkeypatch):
    monkeypatch.setattr(jax, "local_device_count", lambda: 8)


def test_four_devices():
    run_on_four(FILE, QUICK)


@pytest.mark.slow
def test_everything_on_four_devices():
    run_on_four(FILE, f"not {QUICK}")


def test_one_device_is_no_matter():
    assert learner_devices(compose(["atari"])) == 1


def test_all_devices_that_divide_what_they_share(eight):
    assert learner_devices(compose(["atari"])) == 8
    assert learner_devices(compose(["cartpole"])) == 4  # 500 roots
    assert learner_devices(changed(compose(["cartpole"]), reanalysis={"mode": "batch"})) == 8
    assert learner_devices(changed(compose(["atari"]), envs=7)) == 1
    assert learner_devices(compose(["atari"], "delayed-q")) == 8
    assert learner_devices(compose(["atari"], "random")) == 1
    assert learner_devices(changed(compose(["atari"]), devices=2)) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": 16}, r"--devices is 16; JAX finds 8 here .*: type --devices 8, or leave"),
        ({"devices": 3}, r"--devices is 3, which does not divide --envs 32, --learner.batch-size"),
        ({"devices": 8, "envs": 12}, r"divide --envs 12; type multiples of 8, or --devices 4"),
        (
            {"devices": 8, "reanalysis": {"roots": 100}},
            r"divide --reanalysis.roots 100; type multiples of 8, or --devices 4",
        ),
        ({"devices": 8, "random_interactions": 1004}, r"divide --random-interactions 1004; type"),
    ],
)
def test_devices_that_do_not_divide_are_refused(changes, message, eight):
    with pytest.raises(UsageError, match=message):
        learner_devices(changed(compose(["atari"]), **changes))


def test_a_number_of_devices_is_positive():
    with pytest.raises(ValueError, match=r"--devices is 0; it should be at least 1"):
        changed(compose(["atari"]), devices=0)
