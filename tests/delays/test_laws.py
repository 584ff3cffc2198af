import json
import math

import numpy as np
import pytest

from delayzero.delays import (
    MM1,
    Callback,
    Categorical,
    Channel,
    Constant,
    DelayStream,
    Exponential,
    Gamma,
    GilbertElliott,
    HyperExponential,
    InSteps,
    Jitter,
    LogNormal,
    MarkovChain,
    Outage,
    PerEpisode,
    Sum,
    Trace,
    Uniform,
    Walk,
    parse,
)

from .examples import ALL, LATENCIES, STEP_LAWS

DETERMINISTIC = ("constant", "trace")


def draw(law, steps, seed=0):
    stream = DelayStream(law, seed)
    return np.array([stream.next() for _ in range(steps)])


def milliseconds(law, steps, seed=0, period=20.0, blocks=1):
    """A path of a latency, drawn in several blocks that hand their memory on."""
    rng, memory, paths = np.random.default_rng(seed), None, []
    for _ in range(blocks):
        path, memory = law.path(rng, steps // blocks, memory, period)
        paths.append(path)
    return np.concatenate(paths)


def correlation(values):
    return np.corrcoef(values[:-1], values[1:])[0, 1]


def mean_and_error(law, steps=2_000, runs=60, burn=200):
    """The mean over independent runs and its standard error, in milliseconds."""
    means = [milliseconds(law, steps, seed, blocks=100)[burn:].mean() for seed in range(runs)]
    return np.mean(means), np.std(means, ddof=1) / math.sqrt(runs)


# Every law.


@pytest.fixture(params=ALL)
def law(request, traces):
    return ALL[request.param](traces)


def test_delays_are_whole_and_within_the_bound(law):
    stream = DelayStream(law, 4)
    delays = [stream.next() for _ in range(1500)]
    assert all(type(delay) is int for delay in delays)
    assert min(delays) >= 0
    assert max(delays) <= law.largest == law.max_delay


def test_equal_seeds_give_equal_delays(law):
    assert draw(law, 600, seed=3).tolist() == draw(law, 600, seed=3).tolist()


@pytest.mark.parametrize("name", [name for name in ALL if name not in DETERMINISTIC])
def test_different_seeds_give_different_delays(name, traces):
    law = ALL[name](traces)
    assert len({tuple(draw(law, 300, seed)) for seed in range(8)}) > 1


def test_reseeded_stream_begins_anew(law):
    stream = DelayStream(law, 8)
    for _ in range(300):
        stream.next()
    stream.reseed(3)
    assert [stream.next() for _ in range(300)] == draw(law, 300, seed=3).tolist()


@pytest.mark.parametrize("position", [0, 1, 100, 255, 256, 257, 600])
def test_restored_stream_continues_exactly(law, position):
    original = DelayStream(law, 7)
    for _ in range(position):
        original.next()
    restored = DelayStream(law, 1234)
    for _ in range(position // 3):
        restored.next()
    restored.restore(json.loads(json.dumps(original.state())))
    assert [restored.next() for _ in range(600)] == [original.next() for _ in range(600)]
    assert restored.state() == original.state()


def test_saving_at_random_places_changes_nothing(law):
    plain, rng = draw(law, 900, seed=2), np.random.default_rng(0)
    stream, delays = DelayStream(law, 2), []
    for _ in range(900):
        if rng.random() < 0.05:
            saved = json.dumps(stream.state())
            stream = DelayStream(law, int(rng.integers(100)))
            stream.restore(json.loads(saved))
        delays.append(stream.next())
    assert delays == plain.tolist()


def test_restored_stream_continues_exactly_after_a_restart(law):
    original = DelayStream(law, 7)
    for _ in range(10):
        original.next()
    original.restart()
    for _ in range(20):
        original.next()
    restored = DelayStream(law, 0)
    restored.restore(json.loads(json.dumps(original.state())))
    assert [restored.next() for _ in range(600)] == [original.next() for _ in range(600)]


def test_laws_are_values(law, request):
    again = ALL[request.node.callspec.params["law"]](request.getfixturevalue("traces"))
    assert law == again
    assert hash(law) == hash(again)
    assert law != Constant(77)


@pytest.mark.parametrize(
    "name", ["walk", "walk with options", "markov", "trace", "uniform", "categorical"]
)
def test_blocks_of_steps_join_without_a_seam(name, traces):
    law = STEP_LAWS[name](traces)
    whole = milliseconds(law, 240, seed=1)
    for blocks in (2, 60, 240):
        assert milliseconds(law, 240, seed=1, blocks=blocks).tolist() == whole.tolist()


@pytest.mark.parametrize("name", ["exponential", "jitter", "outage", "trace in ms"])
def test_blocks_of_milliseconds_join_without_a_seam(name, traces):
    law = LATENCIES[name](traces)
    whole = milliseconds(law, 240, seed=1)
    for blocks in (2, 60, 240):
        assert milliseconds(law, 240, seed=1, blocks=blocks).tolist() == whole.tolist()


# Laws in steps.


def test_constant():
    assert set(draw(Constant(4), 300)) == {4}


def test_uniform_reaches_both_ends_equally():
    counts = np.bincount(draw(Uniform(2, 5), 20_000), minlength=6)
    assert counts[:2].sum() == 0
    assert counts[2:] / 20_000 == pytest.approx([0.25] * 4, abs=4 * math.sqrt(0.19 / 20_000))


def test_categorical_frequencies():
    counts = np.bincount(draw(Categorical((4, 0, 2), (0.2, 0.5, 0.3)), 20_000), minlength=5)
    assert counts / 20_000 == pytest.approx([0.5, 0, 0.3, 0, 0.2], abs=4 * math.sqrt(0.25 / 20_000))


def test_wifi_frequencies():
    counts = np.bincount(draw(parse("wifi"), 20_000), minlength=7)
    expected = [0, 0.3082, 0.5927, 0.0829, 0.0075, 0.0031, 0.0056]
    assert counts / 20_000 == pytest.approx(expected, abs=4 * math.sqrt(0.25 / 20_000))


def test_walk_is_uniform_and_stays_at_both_ends():
    limit, runs = 4, []
    for seed in range(20):
        runs.append(draw(Walk(limit), 5_000, seed))
    shares = np.array([np.bincount(run[200:], minlength=limit + 1) / 4_800 for run in runs])
    error = shares.std(axis=0, ddof=1) / math.sqrt(len(runs))
    assert np.all(np.abs(shares.mean(axis=0) - 0.2) < 4 * error)
    assert np.all(error < 0.01)
    now = np.concatenate([run[:-1] for run in runs])
    after = np.concatenate([run[1:] for run in runs])
    for end in (0, limit):
        stays = (after == now)[now == end]
        assert stays.mean() == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / len(stays)))
    for move in (1, -1):
        moves = (after == now + move)[(now > 0) & (now < limit)]
        assert moves.mean() == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / len(moves)))


@pytest.mark.parametrize("seed", range(5))
def test_walk_begins_at_its_limit(seed):
    assert draw(Walk(7), 1, seed) == [7]
    assert draw(Walk(7, start=2), 1, seed) == [2]
    assert draw(Walk(7, start=0), 1, seed) == [0]


def test_walk_moves_by_its_step_across_blocks_too():
    assert set(np.abs(np.diff(draw(Walk(5), 5_000)))) == {0, 1}
    moves = np.diff(draw(Walk(9, step=3, start=0), 5_000))
    assert set(np.abs(moves)) == {0, 3}


def test_walk_with_a_step_is_clipped_at_its_limit():
    delays = draw(Walk(5, step=3, start=0), 5_000)
    assert set(delays) == {0, 3, 5, 2}


def test_walk_respects_up_and_down():
    moves = np.diff(draw(Walk(2_000, up=0.3, down=0.05, start=500), 4_000))
    tolerance = 4 * math.sqrt(0.21 / 4_000)
    assert (moves == 1).mean() == pytest.approx(0.3, abs=tolerance)
    assert (moves == -1).mean() == pytest.approx(0.05, abs=tolerance)


@pytest.mark.parametrize(("up", "down", "end"), [(1.0, 0.0, 6), (0.0, 1.0, 0)])
def test_walk_in_one_direction(up, down, end):
    delays = draw(Walk(6, up=up, down=down, start=3), 20).tolist()
    steps = [3, 4, 5, 6] if end else [3, 2, 1, 0]
    assert delays == steps + [end] * 16


def test_markov_chain_follows_its_matrix():
    delays = (2, 0, 5)
    matrix = np.array([[0.5, 0.5, 0.0], [0.1, 0.6, 0.3], [0.9, 0.0, 0.1]])
    path = draw(MarkovChain(delays, tuple(map(tuple, matrix)), start=5), 40_000)
    assert path[0] == 5
    eigenvalues, vectors = np.linalg.eig(matrix.T)
    stationary = np.real(vectors[:, np.argmax(np.real(eigenvalues))])
    shares = [(path == delay).mean() for delay in delays]
    assert shares == pytest.approx(stationary / stationary.sum(), abs=0.015)
    for row, delay in zip(matrix, delays, strict=True):
        after = path[1:][path[:-1] == delay]
        moved = [(after == other).mean() for other in delays]
        assert moved == pytest.approx(row, abs=4 * math.sqrt(0.25 / len(after)))
        assert all((share == 0) == (p == 0) for share, p in zip(moved, row, strict=True))


def test_markov_chain_begins_at_the_first_delay_named():
    law = MarkovChain((3, 1), ((0.0, 1.0), (1.0, 0.0)))
    assert draw(law, 600).tolist() == [3, 1] * 300


def gilbert_elliott_statistics(law, runs=20, steps=4_000):
    paths = [draw(law, steps, seed)[200:] == law.bad for seed in range(runs)]
    shares = [path.mean() for path in paths]
    return np.mean(shares), np.std(shares, ddof=1) / math.sqrt(runs), np.concatenate(paths)


def test_gilbert_elliott_fraction_and_correlation():
    p, r = 0.05, 0.2
    share, error, path = gilbert_elliott_statistics(GilbertElliott(1, 23, p, r))
    assert error < 0.01
    assert abs(share - p / (p + r)) < 4 * error
    assert correlation(path) == pytest.approx(1 - p - r, abs=0.02)


def test_gilbert_elliott_from_moments():
    law = GilbertElliott.from_moments(1, 8, bad_fraction=0.3, correlation=0.6)
    assert (law.p, law.r) == pytest.approx((0.12, 0.28))
    share, error, path = gilbert_elliott_statistics(law)
    assert abs(share - 0.3) < 4 * error
    assert correlation(path) == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_gilbert_elliott_begins_good(seed):
    assert draw(GilbertElliott(1, 9, 1.0, 1.0), 600, seed).tolist() == [1, 9] * 300


def test_gilbert_elliott_loses_at_the_rate_of_its_state():
    law = GilbertElliott(1, 2, 0.1, 0.1, loss_good=0.02, loss_bad=0.6, lost=9)
    lost = [np.mean(draw(law, 4_000, seed) == 9) for seed in range(20)]
    error = np.std(lost, ddof=1) / math.sqrt(20)
    assert abs(np.mean(lost) - 0.31) < 4 * error
    good_only = draw(GilbertElliott(1, 2, 0.0, 1.0, loss_good=0.1, lost=9), 10_000)
    assert set(good_only) == {1, 9}
    assert np.mean(good_only == 9) == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 10_000))


def test_lost_decision_can_be_shorter_than_the_others():
    law = GilbertElliott(3, 5, 0.5, 0.5, loss_good=0.5, loss_bad=0.5, lost=0)
    assert set(draw(law, 500)) == {0, 3, 5}
    assert law.max_delay == 5


def test_per_episode_holds_one_draw_until_restarted():
    stream = DelayStream(PerEpisode(Uniform(0, 9)), 0)
    held = []
    for _ in range(300):
        episode = {stream.next() for _ in range(300)}
        assert len(episode) == 1
        held.append(episode.pop())
        stream.restart()
    assert np.bincount(held, minlength=10) / 300 == pytest.approx([0.1] * 10, abs=0.07)


def test_per_episode_changes_at_the_episodes_of_a_channel():
    channel = Channel(PerEpisode(Uniform(0, 9)), "latest-generated", 9, seed=0)
    held = []
    for _ in range(40):
        channel.begin_episode()
        episode = []
        for _ in range(5):
            episode.append(channel.delay)
            channel.decide()
            channel.observe()
        assert len(set(episode)) == 1
        held.append(episode[0])
    assert len(set(held)) > 5


def test_callback_gets_observation_and_action():
    seen = []

    def remember(context):
        seen.append((context.observation, context.action))
        return context.observation % 3

    stream = DelayStream(Callback(remember, 2), 0)
    assert [stream.next(observation, 10 * observation) for observation in range(4)] == [0, 1, 2, 0]
    assert seen == [(0, 0), (1, 10), (2, 20), (3, 30)]


def test_callback_in_a_sum_is_added_to_the_rest():
    law = Sum((Callback(lambda context: context.observation, 5), Constant(2)))
    stream = DelayStream(law, 0)
    assert [stream.next(observation) for observation in (0, 5, 3)] == [2, 7, 5]


def test_randomness_of_a_callback_does_not_repeat():
    stream = DelayStream(Callback(lambda context: int(context.rng.integers(1000)), 1000), 0)
    assert len({stream.next() for _ in range(600)}) > 350


# Latencies in milliseconds.


@pytest.mark.parametrize(
    ("law", "mean"),
    [
        (Exponential(10.0, 15.0), 25),
        (Gamma(1.9, 38.0, 25.0), 25 + 1.9 * 38),
        (LogNormal(4.47, 0.47, 3.0), 3 + math.exp(4.47 + 0.47**2 / 2)),
        (HyperExponential((0.8, 0.2), (10.0, 150.0), 15.0), 53),
        (HyperExponential((0.8, 0.2), (5.0, 50.0), 7.5), 21.5),
        (Jitter(50.0, 5.0, 0.8), 50),
        (MM1(5.0, 0.5), 5 / 0.5),
        (MM1(5.0, 0.8), 5 / 0.2),
        (Sum((Exponential(10.0), MM1(5.0, 0.5), Gamma(2.0, 3.0))), 26),
    ],
    ids=str,
)
def test_mean_in_milliseconds(law, mean):
    measured, error = mean_and_error(law)
    assert error < 0.05 * mean
    assert abs(measured - mean) < 4 * error


@pytest.mark.parametrize(
    ("law", "quantiles"),
    [
        (Exponential(10.0, 15.0), {0.5: 15 + 10 * math.log(2), 0.9: 15 + 10 * math.log(10)}),
        (Gamma(1.0, 38.0, 25.0), {0.5: 25 + 38 * math.log(2), 0.99: 25 + 38 * math.log(100)}),
        (
            LogNormal(4.47, 0.47),
            {0.5: math.exp(4.47), 0.8413447: math.exp(4.94), 0.1586553: math.exp(4.0)},
        ),
        (parse("4g").latency, {0.5: 24, 0.9: 120, 0.99: 463}),
        (parse("5g").latency, {0.5: 12, 0.9: 43, 0.99: 157}),
        (parse("geo").latency, {0.5: 600, 0.8413447: 630}),
        (Jitter(50.0, 10.0, 0.3), {0.1586553: 40, 0.5: 50, 0.8413447: 60}),
    ],
    ids=str,
)
def test_quantiles_in_milliseconds(law, quantiles):
    sample = milliseconds(law, 60_000)
    for share, expected in quantiles.items():
        below = np.mean(sample < expected * 1.02), np.mean(sample < expected * 0.98)
        noise = 4 * math.sqrt(share * (1 - share) / 60_000)
        assert below[1] - noise <= share <= below[0] + noise, (share, expected)


def test_starlink_has_the_quartiles_that_were_measured():
    sample = milliseconds(parse("starlink").latency, 60_000)
    assert sample.min() >= 20
    assert np.quantile(sample, [0.25, 0.5, 0.75]) == pytest.approx([40, 50, 60], rel=0.05)


@pytest.mark.parametrize("law", [Exponential(5.0, 15.0), Gamma(2.0, 3.0, 25.0)], ids=str)
def test_shift_is_the_shortest_latency(law):
    assert law.shift <= milliseconds(law, 20_000).min() < law.shift + 1


@pytest.mark.parametrize("wanted", [0.0, 0.5, 0.9])
def test_jitter_is_correlated_from_packet_to_packet(wanted):
    law = Jitter(500.0, 10.0, wanted)
    sample = milliseconds(law, 40_000, blocks=400)
    assert correlation(sample) == pytest.approx(wanted, abs=0.03)
    assert sample.std() == pytest.approx(10, rel=0.05)


def test_jitter_begins_in_its_stationary_law():
    first = [milliseconds(Jitter(100.0, 10.0, 0.9), 1, seed)[0] for seed in range(3_000)]
    assert np.std(first) == pytest.approx(10, rel=0.06)


def test_jitter_never_falls_below_its_floor():
    sample = milliseconds(Jitter(20.0, 30.0, floor=8.0), 5_000)
    assert sample.min() == 8
    assert np.mean(sample == 8) == pytest.approx(0.3446, abs=0.03)


def test_mm1_sojourn_is_exponential_and_correlated():
    sample = np.concatenate([milliseconds(MM1(5.0, 0.5), 3_000, seed)[200:] for seed in range(20)])
    assert np.mean(sample > 10) == pytest.approx(math.exp(-1), abs=0.02)
    assert np.mean(sample > 30) == pytest.approx(math.exp(-3), abs=0.01)
    assert correlation(sample) > 0.5


@pytest.mark.parametrize("period", [7.0, 20.0, 130.0])
def test_outage_share_and_bound(period):
    law = Outage(400.0, 300.0)
    runs = [milliseconds(law, 6_000, seed, period, blocks=4)[100:] for seed in range(20)]
    assert max(run.max() for run in runs) <= 300
    shares = [np.mean(run > 0) for run in runs]
    error = np.std(shares, ddof=1) / math.sqrt(len(runs))
    assert error < 0.01
    assert abs(np.mean(shares) - 150 / 550) < 4 * error


def test_packets_of_one_outage_arrive_together():
    waits = milliseconds(Outage(100.0, 200.0), 2_000, period=10.0, blocks=100)
    arrivals = waits + 10 * np.arange(2_000)
    during = (waits[:-1] > 10) & (waits[1:] > 0)
    assert during.sum() > 500
    assert arrivals[:-1][during] == pytest.approx(arrivals[1:][during], abs=1e-6)


def test_clock_of_an_outage_runs_in_a_sum_too():
    alone, summed = Outage(100.0, 200.0), Sum((Outage(100.0, 200.0), Exponential(0.0)))
    for law in (InSteps(alone, 10.0), InSteps(summed, 10.0, 20)):
        assert 0.3 < np.mean(draw(law, 5_000) > 0) < 0.7


def test_no_outage_without_length():
    assert not milliseconds(Outage(30.0, 0.0), 500).any()


def test_netfi_outage_is_out_for_a_tenth_to_a_sixth_of_the_time():
    waits = milliseconds(Outage(8500.0, 3000.0), 300_000)
    assert np.mean(waits > 0) == pytest.approx(1500 / 10_000, abs=0.01)


# Traces.


def write_trace(folder, column, values):
    path = folder / "trace.csv"
    path.write_text("\n".join([f"time,{column}", *(f"0,{value}" for value in values)]) + "\n")
    return str(path)


def test_trace_loops_from_its_beginning(tmp_path):
    values = [3, 1, 4, 1, 5, 9, 2]
    law = Trace(write_trace(tmp_path, "delay_steps", values))
    assert law.max_delay == 9
    assert draw(law, 700, seed=11).tolist() == values * 100


def test_trace_begins_at_an_offset_and_loops(tmp_path):
    values = list(range(50))
    law = Trace(write_trace(tmp_path, "delay_steps", values), "offset")
    begins = set()
    for seed in range(60):
        path = draw(law, 600, seed)
        assert path.tolist() == [(path[0] + step) % 50 for step in range(600)]
        begins.add(int(path[0]))
    assert len(begins) > 25


def test_trace_begins_elsewhere_in_each_episode(tmp_path):
    law = Trace(write_trace(tmp_path, "delay_steps", range(50)), "episode")
    channel = Channel(law, "latest-generated", 49, seed=0)
    begins = []
    for _ in range(40):
        channel.begin_episode()
        begins.append(channel.delay)
        for step in range(5):
            assert channel.delay == (begins[-1] + step) % 50
            channel.decide()
            channel.observe()
    assert len(set(begins)) > 20


@pytest.mark.parametrize("mode", ["loop", "offset"])
def test_trace_goes_on_over_episodes(tmp_path, mode):
    law = Trace(write_trace(tmp_path, "delay_steps", range(50)), mode)
    channel = Channel(law, "latest-generated", 49, seed=0)
    delays = []
    for _ in range(30):
        channel.begin_episode()
        for _ in range(7):
            delays.append(channel.delay)
            channel.decide()
            channel.observe()
    assert delays == [(delays[0] + step) % 50 for step in range(210)]


def test_trace_in_milliseconds_becomes_steps(tmp_path):
    law = InSteps(Trace(write_trace(tmp_path, "delay_ms", [0, 0.5, 20, 20.5, 79, 300])), 20.0)
    assert law.max_delay == 15
    assert draw(law, 6).tolist() == [0, 1, 1, 2, 4, 15]


def test_numpy_traces_of_whole_numbers_are_steps_and_of_floats_milliseconds(tmp_path):
    np.save(tmp_path / "steps.npy", np.array([1, 2, 3], np.uint8))
    np.save(tmp_path / "ms.npy", np.array([1, 2, 3], np.float32))
    steps, ms = Trace(str(tmp_path / "steps.npy")), Trace(str(tmp_path / "ms.npy"))
    assert (steps.unit, ms.unit) == ("steps", "ms")
    assert draw(steps, 3).tolist() == [1, 2, 3]
    assert draw(InSteps(ms, 2.0), 3).tolist() == [1, 1, 2]


# From milliseconds to steps, and sums.


def latency_of(tmp_path, values):
    np.save(tmp_path / "values.npy", np.array(values, float))
    return Trace(str(tmp_path / "values.npy"))


def test_steps_are_rounded_up_and_clipped(tmp_path):
    latency = latency_of(tmp_path, [0, 0.001, 9.99, 10, 10.01, 20, 25, 2e4])
    expected = [0, 1, 1, 1, 2, 2, 3, 4]
    assert draw(InSteps(latency, 10.0, 4), 8).tolist() == expected
    assert draw(InSteps(latency, 10.0), 8).tolist()[-1] == 2_000


def test_whole_multiples_of_the_step_are_not_rounded_further_up(tmp_path):
    latency = latency_of(tmp_path, [1.4 * steps for steps in range(30)])
    assert draw(InSteps(latency, 1.4), 30).tolist() == list(range(30))


def test_milliseconds_are_added_before_they_are_rounded(tmp_path):
    latency = latency_of(tmp_path, [6.0, 12.0])
    together = InSteps(Sum((latency, latency, latency)), 10.0)
    apart = Sum((InSteps(latency, 10.0), InSteps(latency, 10.0), InSteps(latency, 10.0)))
    assert draw(together, 2).tolist() == [2, 4]
    assert draw(apart, 2).tolist() == [3, 6]
    assert together.max_delay == 4
    assert apart.max_delay == 6


def test_parts_of_a_sum_are_independent():
    single = draw(Uniform(0, 9), 10_000).astype(float)
    double = draw(Sum((Uniform(0, 9), Uniform(0, 9))), 10_000).astype(float)
    assert double.var() == pytest.approx(2 * single.var(), rel=0.08)


def test_sum_of_walks_moves_by_up_to_two():
    path = draw(Sum((Walk(5), Walk(3))), 4_000)
    assert path[0] == 8
    assert set(np.abs(np.diff(path))) == {0, 1, 2}


def test_memories_of_a_sum_stay_apart(tmp_path):
    path = write_trace(tmp_path, "delay_steps", [0, 10, 20])
    law = Sum((Constant(1), Trace(path), Walk(3, up=0.0, down=0.0), Trace(path), Uniform(2, 2)))
    assert draw(law, 600).tolist() == [6, 26, 46] * 200


@pytest.mark.parametrize(
    ("name", "clip"), [("4g", 500), ("5g", 200), ("starlink", 200), ("geo", 720)]
)
@pytest.mark.parametrize("period", [10, 20, 33])
def test_named_latencies_are_clipped_at_their_longest(name, clip, period):
    law = parse(f"{name}@{period}ms")
    assert law.max_delay == math.ceil(clip / period)
    assert draw(law, 30_000).max() <= law.max_delay
