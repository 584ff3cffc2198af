import math

import pytest

from delayzero.evaluation.compare.pictures import (
    delays_picture,
    interactions_picture,
    prediction_picture,
    save_pictures,
)
from delayzero.evaluation.compare.results import Estimate, mean_curve
from delayzero.evaluation.panels import EVENTS
from delayzero.evaluation.way import Events

from .made_up import made_up

LAWS = ("constant:0", "constant:5")
PREDICTION = {
    "horizon": [1, 2],
    "similarity": [0.99, 0.98],
    "policy_agreement": [0.9, 0.8],
    "value_error": [1.0, 2.0],
    "stale_similarity": [0.9, 0.8],
    "stale_policy_agreement": [0.7, 0.6],
    "stale_value_error": [3.0, 4.0],
}


@pytest.fixture
def results():
    laws = {law: Estimate(100, 90, 110) for law in LAWS}
    return [
        made_up("dez", 400, 500, by_delay=laws, prediction=PREDICTION),
        made_up("augmented", 60, 90),
        made_up("undelayed", 500, 500, by_delay={}),
    ]


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_the_mean_over_seeds():
    one, other = [(100, 1.0), (200, 3.0)], [(100, 3.0), (202, 5.0)]
    (first, at), (second, late) = mean_curve([one, other])
    assert (first, at, second) == (100, 2.0, 200)
    assert late == pytest.approx(4, abs=0.05)
    assert mean_curve([[], one]) == one
    assert mean_curve([[]]) == []


def test_every_agent_and_every_seed_has_its_line(results):
    axes = interactions_picture(results).axes[0]
    assert labels(axes) == ["dez", "augmented", "undelayed"]
    assert len(axes.lines) == 3 * (5 + 1)


def test_the_law_of_training_stands_beside_the_others(results):
    axes = delays_picture(results, "walk:5", LAWS).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "5", "walk:5\n(training)"]
    drawn = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(drawn["dez"]) == [100, 100]
    assert list(drawn["augmented"]) == [75]
    assert set(drawn["undelayed"]) == {500}


def test_an_agent_without_other_laws_is_shown_at_that_of_training(results):
    axes = delays_picture([*results, made_up("oblivious", 1, 3, by_delay={})], "walk:5", LAWS).axes[
        0
    ]
    assert labels(axes) == ["dez", "augmented", "oblivious", "undelayed"]
    places = {float(line.get_xdata()[0]) for line in axes.lines if list(line.get_ydata()) == [2]}
    assert len(places) == 1
    assert places.pop() > len(LAWS) - 0.5


def test_only_agents_with_a_model_have_errors(results):
    figure = prediction_picture(results)
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 2]
    rolled, stale = (list(line.get_ydata()) for line in figure.axes[2].lines)
    assert (rolled, stale) == ([1.0, 2.0], [3.0, 4.0])


def test_a_measure_that_results_have_has_its_panel(results):
    worth = {"action_worth": [0.7, 0.6], "stale_action_worth": [0.5, 0.4]}
    newer = made_up("oblivious-executed", 1, 2, prediction={**PREDICTION, **worth})
    panels = prediction_picture([*results, newer]).axes
    assert [len(axes.lines) for axes in panels] == [4, 4, 2, 4]
    assert list(panels[2].lines[0].get_ydata()) == [0.7, 0.6]


def test_agreement_by_events_is_drawn_for_each_agent_that_has_it(results):
    curves = {f"{event}_policy_agreement": [0.5, None] for event in EVENTS}
    several = [made_up("dez", 1, 2, prediction={**PREDICTION, **curves}) for _ in range(4)]
    panels = prediction_picture([*several, *results]).axes
    assert [len(axes.lines) for axes in panels] == [10, 10, 10, 4, 4, 4, 4, 0, 0]
    assert [axes.axison for axes in panels[3:]] == [True] * 4 + [False] * 2
    drawn = panels[3].lines[0].get_ydata()
    assert drawn[0] == 0.5
    assert math.isnan(drawn[1])


def test_events_of_one_kind_are_not_drawn():
    """In CartPole every step has a reward."""
    curves = {f"{event}_policy_agreement": [None, None] for event in EVENTS}
    curves["reward_policy_agreement"] = [0.5, 0.4]
    one = made_up("dez", 1, 2, prediction={**PREDICTION, **curves})
    assert len(prediction_picture([one]).axes) == 3
    curves["quiet_policy_agreement"] = [0.3, None]
    two = made_up("dez", 1, 2, prediction={**PREDICTION, **curves})
    assert [len(axes.lines) for axes in prediction_picture([two]).axes[3:]] == [2, 0, 0]


def test_the_legend_has_the_events_of_all_agents():
    quiet = {"quiet_policy_agreement": [0.5, 0.4], "reward_policy_agreement": [0.5, 0.4]}
    life = {"life_policy_agreement": [0.5, 0.4], "reward_policy_agreement": [0.5, 0.4]}
    results = [made_up("dez", 1, 2, prediction={**PREDICTION, **met}) for met in (quiet, life)]
    legend = prediction_picture(results).axes[4].get_legend()
    told = {text.get_text() for text in legend.get_texts()}
    assert told == {"nothing special", "a reward", "a lost life"}


def test_every_event_has_a_style():
    assert set(EVENTS) == set(Events._fields)


def test_missing_measurements_are_gaps():
    curves = {**PREDICTION, "value_error": [1.0, None]}
    figure = prediction_picture([made_up("dez", 400, 500, prediction=curves)])
    drawn = figure.axes[2].lines[0].get_ydata()
    assert drawn[0] == 1
    assert math.isnan(drawn[1])


def test_pictures_without_results_are_not_saved(results, tmp_path):
    saved = save_pictures(results, "walk:5", LAWS, tmp_path)
    assert {path.name for path in saved} == {
        *("interactions.png", "delays.png", "overview.png", "prediction.png")
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in saved)
    fewer = save_pictures(results[1:], "walk:5", (), tmp_path)
    assert [path.name for path in fewer] == ["interactions.png"]
