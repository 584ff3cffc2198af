import re
from dataclasses import fields

import pytest

from delayzero.settings import LearnerConfig, ReanalysisConfig

NUMBERS = [f.name for f in fields(LearnerConfig) if "bool" not in f.type and "Lit" not in f.type]
COUNTS = ["batch_size", "unroll", "td_steps", "prefix_horizon", "warmup", "target_period"]


@pytest.mark.parametrize("name", [*COUNTS, "learning_rate", "clip_norm"])
def test_learner_refuses_what_is_not_positive(name):
    wanted = "at least 1" if name in COUNTS else "above 0"
    option = name.replace("_", "-")
    with pytest.raises(ValueError, match=rf"^--learner\.{option} is 0; it should be {wanted}$"):
        LearnerConfig(**{name: 0})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30, -1.0], ids=str)
def test_learner_refuses_what_is_no_number_of_a_run(name, value):
    with pytest.raises(
        ValueError, match=rf"^--learner\.{name.replace('_', '-')} is {re.escape(str(value))}; it"
    ):
        LearnerConfig(**{name: value})


def test_learner_refuses_a_drop_outside_the_run():
    with pytest.raises(ValueError, match=r"--learner\.drop-at is 1.5; .* 0 and at most 1"):
        LearnerConfig(drop_at=1.5)


@pytest.mark.parametrize(
    ("name", "least"), [("positions_per_update", "above 0"), ("roots", "at least 1")]
)
def test_reanalysis_refuses_nothing_to_do(name, least):
    option = name.replace("_", "-")
    with pytest.raises(ValueError, match=rf"--reanalysis\.{option} is 0; it should be {least}"):
        ReanalysisConfig(**{name: 0})


def test_window():
    assert LearnerConfig(unroll=3, td_steps=4).window == 7
