import json

import numpy as np
import pytest

from delayzero.evaluation.over_seeds import band
from delayzero.evaluation.statistics import mean_intervals
from delayzero.report.against_paper import human_share, normalised, our_cells
from delayzero.report.gather import gather
from delayzero.report.groups import final_score, group_runs, law_order

from .made import make_run


def groups_of(tmp_path):
    return group_runs(gather([tmp_path]).runs)


def test_seeds_are_one_group_and_other_settings_another(tmp_path):
    for seed in range(3):
        make_run(tmp_path / f"a{seed}", seed=seed)
        make_run(tmp_path / f"b{seed}", seed=seed, learner={"td_steps": 7}, log_every=9)
    make_run(tmp_path / "c", agent="oblivious")
    first, second, third = groups_of(tmp_path)
    assert [len(group.runs) for group in (first, second, third)] == [3, 3, 1]
    assert first.label == "dez 1: learner.td_steps 30"
    assert second.label == "dez 2: learner.td_steps 7"
    assert third.label == "oblivious"


def test_unknown_settings_are_not_taken_for_the_same(tmp_path):
    """Runs that only a comparison knows are grouped with those of that comparison alone."""
    runs = {}
    for seed in (0, 1):
        runs[f"dez-seed{seed}"] = {
            **{"env": "CartPole-v1", "agent": "dez", "delay": "walk:5", "seed": seed},
            **{"interactions": 100, "updates": 9, "scores": [1.0, 2.0], "train_seconds": 3.0},
            **{"versions": {}, "command": "delayzero train", "by_delay": {}},
        }
    comparison = {"command": "delayzero compare", "plan": {"seeds": [0, 1]}, "outcome": []}
    for name, seconds in (("short", 3.0), ("long", 30.0)):
        stored = {run: {**entry, "train_seconds": seconds} for run, entry in runs.items()}
        text = json.dumps({**comparison, "agents": {}, "runs": stored})
        (tmp_path / f"{name}.json").write_text(text)
    make_run(tmp_path / "run", delay="walk:5")
    groups = group_runs(gather([tmp_path, tmp_path / "run"]).runs)
    assert {group.label: len(group.runs) for group in groups} == {
        f"dez in {tmp_path.name}": 1,
        "dez in long.json": 2,
        "dez in short.json": 2,
    }


def test_final_scores(tmp_path):
    for seed, level in enumerate((100.0, 300.0)):
        make_run(tmp_path / f"{seed}", seed=seed, level=level)
    (group,) = groups_of(tmp_path)
    score = final_score(group)
    means = [np.mean(scores) for scores in group.scores]
    assert score.mean == pytest.approx(np.mean(means))
    assert score.spread == pytest.approx(np.std(means, ddof=1))
    assert score.interval[0] < score.iqm < score.interval[1]


def test_one_seed_has_the_spread_of_its_episodes_and_no_interval(tmp_path):
    make_run(tmp_path / "one")
    (group,) = groups_of(tmp_path)
    score = final_score(group)
    assert score.interval is None
    assert score.spread == pytest.approx(np.std(group.scores[0], ddof=1))
    assert str(score).endswith(")")


def test_a_band_is_the_mean_where_seeds_are_a_round_apart():
    curves = [[(10, 1.0), (20, 3.0), (30, 5.0)], [(11, 2.0), (21, 4.0), (31, 9.0)]]
    curve = band(curves, 100)
    assert curve.x == [10, 20, 30]
    assert curve.mean[-1] == pytest.approx((5 + 8.5) / 2)
    assert all(
        low < mean < high for low, mean, high in zip(curve.low, curve.mean, curve.high, strict=True)
    )


def test_a_shorter_run_has_no_value_where_it_has_none():
    curve = band([[(10, 1.0), (20, 1.0), (30, 1.0), (40, 1.0)], [(10, 3.0), (20, 3.0)]], 100)
    assert curve.mean == [2, 2, 1, 1]
    assert curve.low[2:] == [None, None]
    assert curve.each[1] == [3, 3, None, None]
    assert band([[], []], 10) is None


def test_long_curves_are_thinned_and_keep_their_ends():
    rng = np.random.default_rng(0)
    curve = [(float(x), float(np.sin(x / 500) + 0.01 * rng.normal())) for x in range(5000)]
    thin = band([curve], 50)
    assert len(thin.x) == 50
    assert (thin.x[0], thin.x[-1]) == (0, 4999)
    assert thin.mean[-1] == pytest.approx(curve[-1][1], rel=1e-3)
    np.testing.assert_allclose(thin.mean, np.sin(np.array(thin.x) / 500), atol=0.12)


def test_intervals_of_means_contain_them_and_need_two_seeds():
    values = np.array([[1.0, 2.0, np.nan], [3.0, 2.0, 5.0], [8.0, 2.0, np.nan]])
    low, high = mean_intervals(values)
    assert low[0] < 4 < high[0]
    assert (low[0], high[0]) == (pytest.approx(1.0), pytest.approx(8.0))
    assert low[1] == high[1] == 2
    assert np.isnan(low[2])
    assert np.isnan(high[2])


def test_laws_are_in_the_order_of_their_delays():
    laws = ["walk:15", "walk:5", "constant:25", "none", "constant:5"]
    assert sorted(laws, key=law_order) == [
        *("constant:5", "constant:25", "none", "walk:5", "walk:15"),
    ]


def test_cells_of_the_paper(tmp_path):
    for seed in (0, 1):
        make_run(tmp_path / f"{seed}", env="atari:ms_pacman", delay="walk:15", seed=seed, level=9e3)
    make_run(tmp_path / "long", env="atari:Asterix", delay="walk:45")
    make_run(tmp_path / "other", env="minatar:asterix", delay="walk:15")
    cells = {(cell.game, cell.law): cell for cell in our_cells(groups_of(tmp_path))}
    assert set(cells) == {("MsPacman", "walk:15"), ("Asterix", "walk:45")}
    pacman = cells["MsPacman", "walk:15"]
    assert (pacman.verdict, pacman.ours.seeds) == ("above", 2)
    assert cells["Asterix", "walk:45"].paper is None
    assert cells["Asterix", "walk:45"].verdict == ""
    row = next(row for row in normalised([pacman]) if row.largest == 15)
    assert row.mean == pytest.approx(human_share("MsPacman", pacman.ours.mean))
    assert row.paper_mean == pytest.approx(human_share("MsPacman", pacman.paper.mean))
