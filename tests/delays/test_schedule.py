import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delayzero.delays import (
    RULES,
    Callback,
    Channel,
    Constant,
    DelayError,
    DelayStream,
    Sum,
    Uniform,
    Walk,
    make_schedule,
)

from .simulator import Simulator

STOCHASTIC_RULES = ("latest-generated", "lag-index", "latest-arrival")


def executed(rule, max_delay, delays):
    schedule = make_schedule(rule, max_delay)
    return [schedule.push(delay) for delay in delays]


def draw(law, steps, seed=0):
    stream = DelayStream(law, seed)
    return [stream.next() for _ in range(steps)]


def assert_follows_simulator(rule, max_delay, delays):
    schedule, simulator = make_schedule(rule, max_delay), Simulator(rule, max_delay)
    for time, delay in enumerate(delays):
        assert schedule.time == time
        for steps in range(max_delay + 1):
            assert schedule.pending(steps) == simulator.pending(steps), (time, steps)
        assert schedule.push(delay) == simulator.push(delay), time
        assert schedule.dropped == simulator.dropped, time
        assert schedule.repeated == simulator.repeated, time


@st.composite
def delay_sequences(draw, largest=12, longest=60):
    max_delay = draw(st.integers(0, largest))
    delays = draw(st.lists(st.integers(0, max_delay), min_size=1, max_size=longest))
    return max_delay, delays


@st.composite
def walks(draw, largest=12, longest=60, begins_at_limit=False):
    max_delay = draw(st.integers(0, largest))
    delay = max_delay if begins_at_limit else draw(st.integers(0, max_delay))
    delays = [delay]
    for move in draw(st.lists(st.integers(-1, 1), max_size=longest)):
        delay = min(max(delay + move, 0), max_delay)
        delays.append(delay)
    return max_delay, delays


# The paper's worked example: M = 5 and the decisions 0 .. 4 take 5, 4, 4, 4 and 3 steps.


@pytest.mark.parametrize(
    ("delay", "pending"),
    [
        (5, [1, 2, 4, 4, 4]),
        (4, [1, 2, 4, 4]),
        (3, [1, 2, 4]),
        (2, [1, 2]),
        (1, [1]),
        (0, []),
    ],
)
def test_worked_example(delay, pending):
    schedule = make_schedule("latest-generated", 5)
    assert [schedule.push(z) for z in (5, 4, 4, 4, 3)] == [-5, -4, -3, -2, -1]
    assert schedule.pending(delay) == pending
    assert schedule.push(delay) == (1 if delay else 5)


def test_worked_example_drops_decisions_0_and_3():
    ran = executed("latest-generated", 5, [5, 4, 4, 4, 3] + [5] * 10)
    assert ran[5:9] == [1, 2, 4, 4]
    assert 0 not in ran
    assert 3 not in ran


# Schedule and definition.


@pytest.mark.parametrize("max_delay", [0, 1, 2, 3])
def test_latest_generated_is_tau_for_every_delay_sequence(max_delay):
    initial = [(time, max_delay) for time in range(-max_delay, 0)]
    for delays in itertools.product(range(max_delay + 1), repeat=6):
        decisions = initial + list(enumerate(delays))
        tau = [max(s for s, z in decisions if s <= t and s + z <= t) for t in range(6)]
        assert executed("latest-generated", max_delay, delays) == tau


@pytest.mark.parametrize("max_delay", [0, 1, 2, 3])
@pytest.mark.parametrize("rule", RULES)
def test_every_short_delay_sequence_follows_the_definition(rule, max_delay):
    for delays in itertools.product(range(max_delay + 1), repeat=6 if max_delay < 3 else 5):
        assert_follows_simulator(rule, max_delay, delays)


@pytest.mark.parametrize("rule", RULES)
@given(case=delay_sequences())
@settings(max_examples=60)
def test_any_delay_sequence_follows_the_definition(rule, case):
    assert_follows_simulator(rule, *case)


@pytest.mark.parametrize("rule", RULES)
@given(case=walks())
@settings(max_examples=40)
def test_any_walk_follows_the_definition(rule, case):
    assert_follows_simulator(rule, *case)


@pytest.mark.parametrize("rule", RULES)
@given(case=delay_sequences(longest=100))
@settings(max_examples=60)
def test_dropped_counts_exactly_the_decisions_that_never_run(rule, case):
    max_delay, delays = case
    schedule, simulator = make_schedule(rule, max_delay), Simulator(rule, max_delay)
    # M further decisions that overtake nothing let everything under way land.
    for delay in delays + [max_delay] * max_delay:
        schedule.push(delay)
        simulator.push(delay)
    lost = [time for time in simulator.never_ran if time < len(delays)]
    assert schedule.dropped == len(lost)


@pytest.mark.parametrize("rule", RULES)
@given(case=delay_sequences())
@settings(max_examples=40)
def test_how_old_a_decision_can_be_when_it_runs(rule, case):
    max_delay, delays = case
    oldest = max_delay
    if rule == "latest-arrival":  # what lands M steps late may be held for M - 1 steps more
        oldest = max(0, 2 * max_delay - 1)
    for time, decided in enumerate(executed(rule, max_delay, delays)):
        assert time - oldest <= decided <= time


def test_latest_arrival_holds_a_decision_for_up_to_2m_minus_1_steps():
    assert executed("latest-arrival", 4, [4] * 4 + [4, 0, 0, 0, 4, 3, 2, 1])[8:] == [4, 4, 4, 4]


@given(case=delay_sequences(longest=150))
def test_latest_generated_never_goes_back(case):
    ran = executed("latest-generated", *case)
    assert all(before <= after for before, after in itertools.pairwise(ran))


@pytest.mark.parametrize("rule", ["lag-index", "latest-arrival"])
def test_other_rules_go_back(rule):
    ran = executed(rule, 5, draw(Uniform(0, 5), 300))
    assert any(before > after for before, after in itertools.pairwise(ran))


@given(case=delay_sequences())
def test_initial_queue_runs_in_order_until_the_first_landing(case):
    max_delay, delays = case
    first = min(time + delay for time, delay in enumerate(delays))
    ran = executed("latest-generated", max_delay, delays)
    assert ran[:first] == [time - max_delay for time in range(min(first, len(delays)))]
    assert all(decided >= 0 for decided in ran[first:])


# Constant delays.


@pytest.mark.parametrize("max_delay", [0, 1, 5, 12])
@pytest.mark.parametrize("rule", RULES)
def test_constant_delay_of_m_is_a_fifo(rule, max_delay):
    schedule = make_schedule(rule, max_delay)
    for time in range(50):
        assert schedule.pending(max_delay) == list(range(time - max_delay, time))
        assert schedule.push(max_delay) == time - max_delay
    assert (schedule.dropped, schedule.repeated) == (0, 0)


@pytest.mark.parametrize("rule", STOCHASTIC_RULES)
def test_constant_delay_shorter_than_m_is_a_fifo_in_the_end(rule):
    ran = executed(rule, 5, [2] * 30)
    assert ran[5:] == [time - 2 for time in range(5, 30)]


@pytest.mark.parametrize("rule", STOCHASTIC_RULES)
def test_no_delay_runs_every_decision_at_once(rule):
    assert executed(rule, 0, [0] * 20) == list(range(20))


@pytest.mark.parametrize("law", [Uniform(0, 5), Walk(5), Constant(2)], ids=str)
def test_fixed_channel_holds_everything_for_m_steps(law):
    channel = Channel(law, "fixed", 5, seed=0)
    channel.begin_episode()
    for time in range(40):
        assert channel.delay == 5
        assert channel.schedule.pending(5) == list(range(time - 5, time))
        assert channel.decide() == time - 5
        channel.observe()


# What tells the rules apart.


def share_of_steps_that_differ(rule, other, law, steps=60_000):
    delays = draw(law, steps)
    max_delay = law.max_delay
    return np.mean(
        np.array(executed(rule, max_delay, delays)) != executed(other, max_delay, delays)
    )


@given(case=walks(longest=150, begins_at_limit=True))
def test_latest_arrival_is_latest_generated_under_the_walk(case):
    assert executed("latest-arrival", *case) == executed("latest-generated", *case)


@given(case=walks(longest=150))
def test_latest_arrival_is_latest_generated_once_the_initial_queue_has_landed(case):
    # A walk that begins below M overtakes the initial queue, which takes M steps.
    max_delay, _ = case
    arrived, generated = executed("latest-arrival", *case), executed("latest-generated", *case)
    assert arrived[max_delay:] == generated[max_delay:]


def test_lag_index_differs_on_a_third_of_the_steps_of_the_walk():
    share = share_of_steps_that_differ("lag-index", "latest-generated", Walk(4))
    assert share == pytest.approx(0.34, abs=0.01)


@pytest.mark.parametrize(("rule", "other"), [*itertools.combinations(STOCHASTIC_RULES, 2)])
def test_all_rules_differ_under_independent_delays(rule, other):
    assert share_of_steps_that_differ(rule, other, Uniform(0, 4), 5_000) > 0.1


def test_delay_that_jumps_up_and_down_tells_all_rules_apart():
    delays = [3, 0, 3, 2, 0, 3, 3, 3]
    assert executed("latest-generated", 3, delays) == [-3, 1, 1, 1, 4, 4, 4, 4]
    assert executed("latest-arrival", 3, delays) == [-3, 1, -1, 0, 4, 3, 3, 3]
    assert executed("lag-index", 3, delays) == [-3, 1, -1, 1, 4, 2, 3, 4]


# The walk.


def batch_rates(law, steps=3_000, batches=40):
    """Rates of dropped and repeated decisions in independent runs, shape [batches, 2]."""
    rates = []
    for seed in range(batches):
        # A start from the uniform stationary law, so that there is nothing to warm up.
        start = seed % (law.limit + 1)
        schedule = make_schedule("latest-generated", law.limit)
        for delay in draw(Walk(law.limit, start=start), steps, seed):
            schedule.push(delay)
        rates.append((schedule.dropped / steps, schedule.repeated / steps))
    return np.array(rates)


@pytest.mark.parametrize("max_delay", [1, 5, 15])
def test_walk_drops_and_repeats_a_known_share(max_delay):
    rates = batch_rates(Walk(max_delay))
    error = rates.std(axis=0, ddof=1) / math.sqrt(len(rates))
    expected = 0.2 * max_delay / (max_delay + 1)
    assert np.all(error < 0.01)
    assert np.all(np.abs(rates.mean(axis=0) - expected) < 4 * error + max_delay / 3_000)


@given(case=walks(longest=120))
def test_walk_drops_on_the_way_down_and_repeats_on_the_way_up(case):
    max_delay, delays = case
    ran = executed("latest-generated", max_delay, delays + [delays[-1]] * (max_delay + 1))
    for time, (delay, after) in enumerate(itertools.pairwise(delays)):
        assert ran.count(time) == 1 + after - delay


@given(case=walks(longest=120))
def test_pending_queue_is_certain_under_the_walk(case):
    max_delay, delays = case
    schedule = make_schedule("latest-generated", max_delay)
    known, ran = [], []
    for delay in delays:
        known.append(schedule.pending(delay))
        ran.append(schedule.push(delay))
    for time, queue in enumerate(known):
        assert queue[: len(ran) - time] == ran[time : time + len(queue)]


def test_pending_queue_is_provisional_under_independent_delays():
    schedule = make_schedule("latest-generated", 5)
    known, ran = [], []
    for delay in draw(Uniform(0, 5), 500):
        known.append(schedule.pending(delay))
        ran.append(schedule.push(delay))
    exact = [queue == ran[time : time + len(queue)] for time, queue in enumerate(known[:-5])]
    assert 0.5 < np.mean(exact) < 0.75  # 0.627 of the steps


# The relevance lemma: what was known is right for each decision that runs at all.


@given(case=delay_sequences(longest=100))
@settings(max_examples=150)
def test_what_is_known_is_right_whenever_the_decision_matters(case):
    max_delay, delays = case
    schedule = make_schedule("latest-generated", max_delay)
    known, ran = [], []
    for delay in delays:
        known.append(schedule.pending(delay))
        ran.append(schedule.push(delay))
    landings = [time + delay for time, delay in enumerate(delays)]
    for time, landing in enumerate(landings):
        overtaken = min(landings[time + 1 :], default=len(delays))
        steps = [step for step, decided in enumerate(ran) if decided == time]
        assert steps == list(range(landing, min(overtaken, len(delays))))
        if steps:
            assert known[time] == ran[time:landing]


# Saving and restoring.


@pytest.mark.parametrize("rule", RULES)
@given(case=delay_sequences(), cut=st.integers(0, 60))
@settings(max_examples=40)
def test_restored_schedule_continues_exactly(rule, case, cut):
    max_delay, delays = case
    original = make_schedule(rule, max_delay)
    for delay in delays[:cut]:
        original.push(delay)
    saved = json.dumps(original.state())
    restored = make_schedule(rule, max_delay)
    restored.push(max_delay)  # whatever was there before is gone
    restored.restore(json.loads(saved))
    for delay in [*delays[cut:], 0, max_delay, max_delay]:
        assert restored.pending(max_delay) == original.pending(max_delay)
        assert restored.push(delay) == original.push(delay)
        assert restored.state() == original.state()


@pytest.mark.parametrize("rule", RULES)
def test_saved_state_does_not_change_afterwards(rule):
    schedule = make_schedule(rule, 4)
    schedule.push(2)
    saved = schedule.state()
    before = json.dumps(saved)
    schedule.push(0)
    assert json.dumps(saved) == before
    other = make_schedule(rule, 4)
    other.restore(saved)
    other.push(1)
    assert json.dumps(saved) == before


@pytest.mark.parametrize("rule", RULES)
def test_reset_begins_a_new_episode(rule):
    used, fresh = make_schedule(rule, 4), make_schedule(rule, 4)
    for delay in draw(Uniform(0, 4), 30):
        used.push(delay)
    used.reset()
    assert used.state() == fresh.state()
    assert used.pending(4) == [-4, -3, -2, -1]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("cut", [1, 5, 255, 256, 300])
def test_restored_channel_continues_exactly(rule, cut):
    def advance(channel):
        decided = channel.decide()
        channel.observe()
        return decided, channel.delay, channel.last_delay, channel.schedule.pending(6)

    original = Channel(Uniform(0, 6), rule, 6, seed=3)
    original.begin_episode()
    for _ in range(cut):
        advance(original)
    restored = Channel(Uniform(0, 6), rule, 6, seed=99)
    restored.restore(json.loads(json.dumps(original.state())))
    assert [advance(restored) for _ in range(300)] == [advance(original) for _ in range(300)]


@pytest.mark.parametrize(
    "law",
    [Walk(6), Sum((Walk(6), Constant(0))), Sum((Walk(6), Callback(lambda context: 0, 0)))],
    ids=["walk", "sum", "sum with a callback"],
)
def test_walk_goes_on_over_episodes_one_step_at_a_time(law):
    channel = Channel(law, "latest-generated", 6, seed=1)
    delays = []
    for _ in range(60):
        channel.begin_episode()
        assert channel.schedule.pending(6) == list(range(-6, 0))
        for _ in range(7):
            delays.append(channel.delay)
            channel.decide()
            channel.observe()
    assert delays == draw(law, 420, seed=1)


def test_wrong_rule_is_named_with_the_valid_ones():
    with pytest.raises(DelayError, match=r"'latest-generate'.*did you mean 'latest-generated'"):
        make_schedule("latest-generate", 3)
