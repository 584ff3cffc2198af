import pytest

from delayzero.learning import LearnerConfig, ReanalysisConfig


@pytest.mark.parametrize(
    "name",
    [
        *("batch_size", "unroll", "td_steps", "prefix_horizon", "warmup", "target_period"),
        *("learning_rate", "clip_norm"),
    ],
)
def test_learner_refuses_what_is_not_positive(name):
    with pytest.raises(ValueError, match=rf"learner\.{name} is 0; it should be above 0"):
        LearnerConfig(**{name: 0})


def test_learner_refuses_a_drop_outside_the_run():
    with pytest.raises(ValueError, match=r"learner\.drop_at is 1.5"):
        LearnerConfig(drop_at=1.5)


@pytest.mark.parametrize("name", ["sweep_updates", "roots"])
def test_reanalysis_refuses_nothing_to_do(name):
    with pytest.raises(ValueError, match=rf"reanalysis\.{name} is 0; at least 1"):
        ReanalysisConfig(**{name: 0})


def test_window():
    assert LearnerConfig(unroll=3, td_steps=4).window == 7
