import math

import pytest

from delayzero.settings.options import options
from delayzero.training.alarms import COLLAPSED, SETTLED, SYMPTOMS, Alarms, collapse_warning

HEALTHY = {
    "policy/target_entropy": 1.0,
    "health/weight_mean": 0.7,
    "health/weight_effective": 230.0,
    "health/value_explained": 0.8,
    "health/prefix_explained": 0.9,
    "health/reward_recall": 0.7,
    "health/action_sensitivity": 0.7,
    "health/dead_units": 0.02,
    "health/latent_rank": 100.0,
}
SICK = {
    "health/weight_mean": 0.1,
    "health/value_explained": -0.3,
    "health/prefix_explained": 0.0,
    "health/reward_recall": 0.0,
    "health/dead_units": 0.95,
    "health/latent_rank": 1.1,
}


def test_a_healthy_run_is_left_alone():
    alarms = Alarms(18)
    for line in range(10):
        assert alarms.check(HEALTHY, SETTLED + line) == []
    assert alarms.counts == {}


def test_every_symptom_has_an_example():
    assert set(SICK) == {symptom.metric for symptom in SYMPTOMS}


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=lambda symptom: symptom.metric)
def test_a_symptom_is_told_when_it_has_lasted(symptom):
    alarms, line = Alarms(18), {**HEALTHY, symptom.metric: SICK[symptom.metric]}
    for _ in range(symptom.lines - 1):
        assert alarms.check(line, SETTLED) == []
    [warning] = alarms.check(line, SETTLED)
    assert warning.startswith(f"{symptom.metric}: ")
    assert f"{SICK[symptom.metric]:.2f}" in warning
    assert "; try " in warning
    assert alarms.check(HEALTHY, SETTLED) == []
    assert symptom.lines == 1 or alarms.check(line, SETTLED) == []  # it must last again


def test_nothing_but_a_collapse_is_told_in_the_beginning():
    alarms = Alarms(18)
    for _ in range(5):
        assert alarms.check({**HEALTHY, **SICK}, SETTLED - 1) == []
    [warning] = alarms.check({"policy/target_entropy": 0.0}, 1)
    assert warning.startswith("policy/target_entropy: ")


def test_what_was_not_measured_says_nothing():
    """As in a game without any reward: nothing to explain, and nothing to recall."""
    alarms = Alarms(18)
    silent = {"policy/target_entropy": 2.89, "health/weight_mean": 1.0, "health/dead_units": 0.3}
    for _ in range(10):
        assert alarms.check(silent, 10 * SETTLED) == []


def test_a_line_without_the_metric_neither_counts_nor_clears():
    alarms, sick = Alarms(18), {**HEALTHY, "health/value_explained": -1.0}
    missing = {name: value for name, value in HEALTHY.items() if name != "health/value_explained"}
    for line in (missing, sick, missing):
        assert alarms.check(line, SETTLED) == []
    assert len(alarms.check(sick, SETTLED)) == 1


def test_the_count_goes_on_where_it_was():
    one, other = Alarms(18), Alarms(18)
    line = {**HEALTHY, "health/reward_recall": 0.0}
    assert one.check(line, SETTLED) == one.check(line, SETTLED) == []
    other.counts = dict(one.counts)
    assert other.check(line, SETTLED) == one.check(line, SETTLED) != []


def test_options_that_are_named_exist():
    known = set(options("dez"))
    words = " ".join([*(s.remedy for s in SYMPTOMS), collapse_warning(0.0, 4)])
    named = {word.strip(",;.") for word in words.split() if word.startswith("--")}
    assert named <= known


@pytest.mark.parametrize("actions", [2, 6, 18])
def test_the_collapse_warning(actions):
    largest = math.log(actions)
    assert collapse_warning(largest, actions) is None
    assert collapse_warning(COLLAPSED * largest * 1.001, actions) is None
    warning = collapse_warning(COLLAPSED * largest * 0.999, actions)
    assert "5.0 % of the largest possible" in warning
    assert "--search.q-floor" in warning
    assert collapse_warning(0.0, actions) is not None


def test_one_action_is_no_collapse():
    assert collapse_warning(0.0, 1) is None
