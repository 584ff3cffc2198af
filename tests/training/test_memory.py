"""A run that does not fit says so, with figures, before anything is played."""

from dataclasses import replace

import jax
import pytest

from delayzero.arguments import UsageError
from delayzero.envs.recording import ActionLog
from delayzero.playing.environments import make_training_env
from delayzero.playing.system import build_system
from delayzero.spaces import Spaces
from delayzero.training import memory
from delayzero.training.loop import train
from delayzero.training.memory import (
    Need,
    allowed_bytes,
    check_fits,
    frame_bytes,
    frames_on_host,
    search_need,
    working_bytes,
)
from delayzero.training.programs import Programs

from .small import small


@pytest.fixture(scope="module")
def system():
    config = small()
    return build_system(config, Spaces.of(make_training_env(config)))


def with_memory(monkeypatch, device, host):
    monkeypatch.setattr(memory, "device_bytes", lambda: device)
    monkeypatch.setattr(memory, "host_bytes", lambda: host)


def test_the_bytes_of_frames(system):
    assert frame_bytes(system) == system.replay_rows * 4 * 4 * 4


def test_where_frames_stay(system, monkeypatch):
    needed = frame_bytes(system)
    with_memory(monkeypatch, round(needed / 0.6) + 1, 0)
    assert frames_on_host(system) == (False, "")
    with_memory(monkeypatch, round(needed / 0.6) - 1, needed)
    on_host, message = frames_on_host(system)
    assert on_host
    assert "they stay on the host" in message


def test_the_budget_is_the_users_if_one_is_given(system, monkeypatch):
    needed = frame_bytes(system)
    with_memory(monkeypatch, 0, 2**40)
    for gigabytes, expected in ((needed / 1e9, False), (0.99 * needed / 1e9, True), (0.0, True)):
        replay = replace(system.config.replay, device_gigabytes=gigabytes)
        config = replace(system.config, replay=replay)
        assert frames_on_host(replace(system, config=config))[0] is expected


def test_a_run_keeps_to_the_memory_that_it_may_take(system, monkeypatch):
    needed = frame_bytes(system)
    with_memory(monkeypatch, 2 * needed, 2**40)
    assert allowed_bytes(system.config) == 2 * needed
    for share, expected in ((1.7, False), (1.6, True), (100.0, False)):
        config = replace(system.config, memory_gigabytes=share * needed / 1e9)
        assert allowed_bytes(config) == min(2 * needed, round(share * needed))
        assert frames_on_host(replace(system, config=config))[0] is expected
    config = replace(small(), memory_gigabytes=1e-6)
    with pytest.raises(UsageError, match=r"and 0.00 GB are free or allowed"):
        Programs(replace(system, config=config), print, lambda *_: [])


def test_frames_that_fit_nowhere(system, monkeypatch):
    big = replace(system, spaces=replace(system.spaces, shape=(10**6,)))
    total = frame_bytes(big)
    with_memory(monkeypatch, 10**9, total - 1)
    with pytest.raises(UsageError) as refused:
        frames_on_host(big)
    assert f"take {total / 1e9:.2f} GB" in str(refused.value)
    assert "more than the 0.60 GB" in str(refused.value)
    assert f"the host has {(total - 1) / 1e9:.2f} GB free" in str(refused.value)
    assert "--replay.capacity" in str(refused.value)


def test_check_fits_has_the_figures():
    needs = [Need(4 * 10**9, "to compute", "--b"), Need(6 * 10**9, "for the replay", "--a or --c")]
    check_fits(needs, 10 * 10**9)
    with pytest.raises(UsageError) as refused:
        check_fits(needs, 10 * 10**9 - 1)
    assert str(refused.value) == (
        "this run needs 10.00 GB (6.00 GB for the replay, 4.00 GB to compute), and 10.00 GB are "
        "free or allowed by --memory-gigabytes; type a smaller --a or --c"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"width": 20_000}}, r"GB for weights and .* smaller --model.width, --model.l"),
        ({"search": {"simulations": 10_000}}, r"GB for searches .* smaller --search.simulations"),
        ({"replay": {"capacity": 10**9}}, r"GB for the replay.* smaller --replay.capacity"),
    ],
    ids=["weights", "searches", "replay"],
)
def test_what_takes_the_most_is_named_before_anything_is_compiled(changes, words, monkeypatch):
    def never(*_):
        raise AssertionError("something was compiled")

    config = small(**changes)
    big = build_system(config, Spaces.of(make_training_env(config)))
    monkeypatch.setattr(Programs, "_compiled", never)
    with_memory(monkeypatch, 2 * 10**7, 2**60)
    with pytest.raises(UsageError, match=rf"this run needs [0-9.]+ GB \([0-9.]+ {words}"):
        Programs(big, print, never)


def test_the_estimate_of_searches_is_what_they_take_at_least():
    config = small(search={"simulations": 200})
    system = build_system(config, Spaces.of(make_training_env(config)))
    programs = Programs.__new__(Programs)
    programs._system, programs._mesh = system, None
    programs._replay = programs._new_replay(False)
    learner = jax.eval_shape(programs._new_learner)
    estimated = search_need(system, learner.variables)
    taken = working_bytes(programs._lower_sweep(learner).compile())
    assert f"from {config.sweep_roots} positions" in estimated.purpose
    assert taken / 2 < estimated.size <= taken


def test_too_little_memory_is_told_before_the_first_step(tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("something was played")

    monkeypatch.setattr(ActionLog, "reset", never)
    monkeypatch.setattr(ActionLog, "step", never)
    with_memory(monkeypatch, 100_000, 2**40)
    config = small(tmp_path / "run")
    with pytest.raises(UsageError, match=r"this run needs .* GB are free or .*; type a smaller"):
        train(config, ["delayzero"])
    with_memory(monkeypatch, 1, 1)
    with pytest.raises(UsageError, match=r"and the host has 0.00 GB free; type --replay.capacity"):
        train(small(tmp_path / "other"), ["delayzero"])
    # What the message asks for may be typed: nothing has begun in that folder.
    changed = replace(config, replay=replace(config.replay, capacity=100))
    with pytest.raises(UsageError, match=r"this run needs|the host has"):
        train(changed, ["delayzero"])
