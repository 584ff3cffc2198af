import pytest

from delayzero.settings import SearchConfig


@pytest.mark.parametrize(
    ("num_actions", "simulations", "considered"),
    [
        (1, 4, 1),
        (2, 4, 2),
        (3, 4, 2),
        (4, 16, 4),
        (6, 16, 4),
        (15, 16, 4),
        (16, 16, 8),
        (18, 16, 8),
    ],
)
def test_gumbel_takes_as_many_actions_and_simulations_as_there_are_actions_for(
    num_actions, simulations, considered
):
    config = SearchConfig().resolved(num_actions)
    assert config.simulations == simulations
    assert config.considered_actions == considered
    assert config.dirichlet_fraction == 0


@pytest.mark.parametrize("num_actions", [1, 3, 18])
def test_puct_takes_fifty_simulations_and_noise(num_actions):
    config = SearchConfig("puct").resolved(num_actions)
    assert (config.simulations, config.dirichlet_fraction) == (50, 0.25)


@pytest.mark.parametrize("method", ["gumbel", "puct"])
def test_what_was_set_stays(method):
    config = SearchConfig(
        method,
        simulations=7,
        considered_actions=3,
        dirichlet_fraction=0.125,
        q_floor=0.5,
        q_range="node",
        c_init=2.0,
    )
    assert config.resolved(6) == config
    assert config.resolved(6).resolved(6) == config


def test_noise_set_to_none_stays_off():
    assert SearchConfig("puct", dirichlet_fraction=0.0).resolved(3).dirichlet_fraction == 0


def test_no_more_actions_are_considered_than_there_are():
    assert SearchConfig(considered_actions=16).resolved(6).considered_actions == 6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("simulations", 0),
        ("simulations", -1),
        ("simulations", 10_001),
        ("considered_actions", 0),
        ("considered_actions", -2),
        ("q_floor", 0.0),
        ("q_floor", -0.01),
        ("dirichlet_fraction", -0.1),
        ("dirichlet_fraction", 1.1),
        ("q_scale", float("nan")),
        ("c_base", float("inf")),
    ],
)
def test_impossible_settings_are_refused_by_name(field, value):
    option = field.replace("_", "-")
    with pytest.raises(ValueError, match=rf"^--search\.{option} is {value}; it should be"):
        SearchConfig(**{field: value})
