import numpy as np
import pytest

from delayzero.delays import Callback, DelayError
from delayzero.delays.settings import LATENCY_SETTINGS
from delayzero.delays.statistics import characterise, simulate

GILBERT_ELLIOTT = "gilbert-elliott:good=1,bad=23,p=0.02,r=0.1"


@pytest.mark.parametrize(
    ("law", "drop_rate"),
    [
        # The walk's drop rate is the chance of a step down, 0.2, from all but the lowest delay.
        ("walk:5", 0.2 * 5 / 6),
        ("walk:15", 0.2 * 15 / 16),
        ("walk:25", 0.2 * 25 / 26),
        ("uniform:0-5", 0.538),
        ("uniform:0-15", 0.706),
        ("uniform:0-25", 0.766),
        ("wifi", 0.276),
        # A bad decision is dropped if the channel turns good within 22 steps.
        (GILBERT_ELLIOTT, 1 / 6 * (1 - 0.9**22)),
    ],
)
def test_drop_rates_are_the_published_ones(law, drop_rate):
    assert characterise(law, streams=256).drop_rate == pytest.approx(drop_rate, abs=0.004)


def test_wifi():
    values = characterise("wifi")
    assert values.mean == pytest.approx(1.82, abs=0.01)
    assert values.effective_lag == pytest.approx(1.76, abs=0.01)
    assert (values.p50, values.p95, values.p99, values.largest) == (2, 3, 4, 6)
    assert values.delay_shares == pytest.approx(
        (0, 0.3082, 0.5927, 0.0829, 0.0075, 0.0031, 0.0056), abs=0.004
    )
    assert values.autocorrelation == pytest.approx(0, abs=0.01)


def test_gilbert_elliott_holds_and_correlation():
    values = characterise(GILBERT_ELLIOTT)
    # A decision holds until the end of a bad spell, or until the first bad decision arrives.
    assert values.hold_largest == 23
    assert values.autocorrelation == pytest.approx(1 - 0.02 - 0.1, abs=0.01)
    assert values.mean == pytest.approx(1 + 22 * 0.02 / 0.12, abs=0.3)


def test_walk_moves_by_one_and_forgets_its_beginning():
    values = characterise("walk:25")
    assert values.jump_rate == 0
    assert values.mean == pytest.approx(12.5, abs=1)  # it begins at 25
    assert values.autocorrelation == pytest.approx(1, abs=0.01)
    assert values.hold_largest == 2


def test_constant():
    values = characterise("constant:3", streams=2, steps=50, burn_in=0)
    assert values.autocorrelation is None
    assert (values.mean, values.largest, values.effective_lag) == (3, 3, 3)
    assert (values.drop_rate, values.repeat_rate, values.jump_rate) == (0, 0, 0)
    assert values.hold_shares == (1.0,)


def test_the_initial_queue_is_not_counted():
    values = characterise("constant:1", max_delay=5, streams=1, steps=4, burn_in=0)
    assert values.effective_lag == 1


def test_shares_and_rates_agree():
    values = characterise("uniform:0-5")
    assert sum(values.hold_shares) == pytest.approx(1)
    assert sum(values.delay_shares) == pytest.approx(1)
    lengths = np.arange(1, len(values.hold_shares) + 1)
    assert values.hold_mean == pytest.approx(float(lengths @ np.array(values.hold_shares)))
    # In the long run as many decisions are dropped as steps are repeated.
    assert values.repeat_rate == pytest.approx(values.drop_rate, abs=0.002)


def test_fixed_rule_trades_drops_for_lag():
    values = characterise("uniform:0-5", rule="fixed", streams=4, steps=200, burn_in=0)
    assert (values.drop_rate, values.repeat_rate, values.effective_lag) == (0, 0, 5)
    assert 2 < values.mean < 3  # the law's own delays, before the buffer


def test_lag_index_runs_decisions_of_the_drawn_age():
    values = characterise("uniform:0-5", rule="lag-index")
    # Decision t runs at t + k with chance 1/6 for each k, independently: never with (5/6)^6.
    assert values.drop_rate == pytest.approx((5 / 6) ** 6, abs=0.004)
    assert values.effective_lag == pytest.approx(values.mean, abs=0.01)


def test_a_law_that_restarts_is_drawn_in_many_episodes():
    values = characterise("per-episode:uniform:0-4")
    assert values.delay_shares == pytest.approx((0.2,) * 5, abs=0.03)
    assert values.autocorrelation == pytest.approx(1)


def test_a_long_trace_is_seen_in_all_its_parts(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("delay_steps\n" + "0\n" * 30_000 + "4\n" * 30_000)
    assert characterise(f"trace:{path}").mean == pytest.approx(2, abs=0.7)


def test_equal_seeds_give_equal_figures():
    small = {"streams": 3, "steps": 100, "burn_in": 10}
    assert characterise("wifi", seed=4, **small) == characterise("wifi", seed=4, **small)
    assert characterise("wifi", seed=4, **small) != characterise("wifi", seed=5, **small)


def test_history():
    history = simulate("constant:2", steps=5)
    assert history.delays.tolist() == [2] * 5
    assert history.running.tolist() == [-2, -1, 0, 1, 2]


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (Callback(lambda context: 1, 2), "looks at observations"),
        ("exponential:mean=10@20ms", "max=10"),
        ("constant:100000", "at most 2000 are supported"),
    ],
)
def test_what_cannot_be_simulated_says_why(law, message):
    with pytest.raises(DelayError, match=message):
        characterise(law)


def test_max_delay_bounds_a_law_without_one():
    assert characterise("exponential:mean=50@20ms", max_delay=3).largest == 3


@pytest.mark.parametrize(
    ("name", "mean", "p50", "p90", "p99"),
    [("4g", 53, 24, 120, 463), ("5g", 22, 12, 43, 157)],
)
def test_mobile_latencies_are_the_published_ones(name, mean, p50, p90, p99):
    latency = LATENCY_SETTINGS[name].latency
    sample, _ = latency.path(np.random.default_rng(0), 2_000_000, None, 0.0)
    assert sample.mean() == pytest.approx(mean, rel=0.025)
    quantiles = np.quantile(sample, (0.5, 0.9, 0.99))
    assert quantiles == pytest.approx((p50, p90, p99), rel=0.025, abs=0.6)
