import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.replay import (
    Targets,
    Transitions,
    append,
    can_be_sampled,
    create,
    cut_off,
    row_times,
)
from delayzero.settings import ReplayConfig

from ..learning import oracle
from ..made import spaces_of

ROWS = 48


def stored_times(rows, length):
    return range(max(length - rows, 0), length)


@pytest.mark.parametrize(
    ("length", "chunks"),
    [
        pytest.param(40, (1, 4, 3), id="not-full"),
        pytest.param(48, (4,), id="just-full"),
        pytest.param(200, (3, 4, 1), id="wrapped"),
    ],
)
def test_every_field_of_every_row_is_in_its_slot(length, chunks):
    history = oracle.random_history(seed=length, length=length)
    replay = oracle.filled(history, ROWS, length, chunks)
    assert replay.length == length
    assert (replay.rows, replay.num_envs) == (ROWS, 3)
    fields = jax.tree.map(np.asarray, replay)
    for time in stored_times(ROWS, length):
        for env in range(3):
            episode, i = history.find(time, env)
            row, slot = episode[i], (time % ROWS, env)
            assert np.array_equal(fields.frames[slot], row.frame)
            assert fields.start[slot] == episode[0].time
            assert fields.transitions.first[slot] == (i == 0)
            for name in ("final", "action", "terminated", "truncated"):
                assert getattr(fields.transitions, name)[slot] == getattr(row, name)
            assert fields.transitions.reward[slot] == np.float32(row.reward)
            assert np.array_equal(fields.targets.policy[slot], row.policy)
            for name in ("search_value", "network_value", "made_at"):
                assert getattr(fields.targets, name)[slot] == getattr(row, name)


@pytest.mark.parametrize("length", [0, 1, 6, 7, 8, 13, 14, 700])
def test_row_times(length):
    replay = create(7, 1, spaces_of((3,), np.float32, 3))._replace(length=jnp.int32(length))
    times = np.asarray(row_times(replay))
    for slot, time in enumerate(times):
        wanted = [t for t in stored_times(7, length) if t % 7 == slot]
        assert [time] == wanted if wanted else time < 0


@pytest.mark.parametrize("part", ["frames", "reward", "policy", "made_at"])
def test_rows_of_another_shape_are_refused(part):
    """Without the check some of them would be broadcast in silence."""
    replay = create(ROWS, 3, spaces_of((3,), np.float32, oracle.ACTIONS))
    frames, rows, targets = oracle.to_arrays(oracle.random_history(seed=0), 0, 4)
    append(replay, frames, rows, targets)
    if part == "frames":
        frames = frames[..., :1]
    elif part == "reward":
        rows = rows._replace(reward=rows.reward[:1])
    elif part == "policy":
        targets = targets._replace(policy=targets.policy[..., :1])
    else:
        targets = targets._replace(made_at=targets.made_at[0])
    with pytest.raises(AssertionError, match="shape compatibility"):
        append(replay, frames, rows, targets)


def test_more_rows_than_slots_are_refused():
    replay = create(3, 3, spaces_of((3,), np.float32, oracle.ACTIONS))
    with pytest.raises(AssertionError, match="4 rows do not fit into 3 slots"):
        append(replay, *oracle.to_arrays(oracle.random_history(seed=0), 0, 4))


def test_chunks_make_no_difference():
    history = oracle.random_history(seed=3, length=96)
    one = oracle.filled(history, ROWS, 96, chunks=(1,))
    many = oracle.filled(history, ROWS, 96, chunks=(4, 3, 1))
    assert oracle.leaves_equal(one, many)


def test_new_rows_get_the_largest_priority_of_those_that_can_be_sampled():
    history = oracle.random_history(seed=4, length=60)
    rows = [oracle.to_arrays(history, t, t + 4) for t in range(0, 60, 4)]
    replay = create(ROWS, 3, spaces_of((3,), np.float32, oracle.ACTIONS))
    # What lies in slots that were never written must not count.
    replay = replay._replace(priority=jnp.full((ROWS, 3), 9.0))
    replay = oracle.jitted_append(replay, *rows[0])
    assert np.all(np.asarray(replay.priority)[:4] == 1)
    final = np.asarray(replay.transitions.final)[:4]
    (row, env), (last, over) = np.argwhere(~final)[-1], np.argwhere(final)[0]
    for chunk, largest in ((1, 0.25), (2, 3.5)):
        priority = replay.priority.at[:4].set(0.125).at[row, env].set(largest)
        priority = priority.at[last, over].set(7.0)  # never sampled: its priority never changes
        replay = oracle.jitted_append(replay._replace(priority=priority), *rows[chunk])
        assert np.all(np.asarray(replay.priority)[4 * chunk : 4 * chunk + 4] == largest)
    assert np.all(np.asarray(replay.priority)[4:8] == 0.25)
    old = np.asarray(replay.priority)[:4]
    assert old[row, env] == 3.5
    assert np.count_nonzero(old == 0.125) == 10


def test_the_largest_priority_is_forgotten_when_all_rows_have_less():
    history = oracle.random_history(seed=4, length=48)
    replay = create(ROWS, 3, spaces_of((3,), np.float32, oracle.ACTIONS), stack=2)
    for t in range(0, 40, 4):
        replay = append(replay, *oracle.to_arrays(history, t, t + 4), ahead=6)
    sampled = can_be_sampled(replay, 6)
    replay = replay._replace(priority=jnp.where(sampled, 0.01, replay.priority))
    replay = append(replay, *oracle.to_arrays(history, 40, 44), ahead=6)
    assert np.all(np.asarray(replay.priority)[40 % ROWS : 40 % ROWS + 4] == np.float32(0.01))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"capacity": 0}, "replay.capacity is 0", id="capacity"),
        pytest.param(
            {"priority_exponent": 1.5}, "1.5; it should be at least 0 and at most 1", id="alpha"
        ),
        pytest.param({"priority_correction": -0.1}, "--replay.priority-correction", id="beta"),
        pytest.param({"device_gigabytes": float("nan")}, "--replay.device-gigabytes", id="memory"),
    ],
)
def test_config_refuses(changes, message):
    with pytest.raises(ValueError, match=message):
        ReplayConfig(**changes)


def test_cut_off_makes_the_newest_rows_the_last_of_their_episodes():
    grid = [  # first, final, terminated, truncated of rows 0 and 1, for five environments
        ((1, 0, 0, 0), (0, 0, 0, 0)),  # in the middle of an episode
        ((1, 0, 0, 0), (0, 0, 1, 0)),  # the last step ended it
        ((1, 0, 0, 0), (0, 0, 0, 1)),  # the last step was the time limit's
        ((0, 1, 0, 0), (1, 0, 0, 0)),  # an episode has just begun
        ((1, 0, 1, 0), (0, 0, 0, 0)),  # a life was lost on the way
    ]
    first, final, terminated, truncated = np.array(grid, bool).transpose(2, 1, 0)
    rows = Transitions(
        first, final, np.zeros((2, 5), np.int32), np.ones((2, 5)), terminated, truncated
    )
    targets = Targets(
        np.ones((2, 5, 2)), np.zeros((2, 5)), np.zeros((2, 5)), np.zeros((2, 5), np.int32)
    )
    replay = append(
        create(4, 5, spaces_of((1,), np.float32, 2)), np.zeros((2, 5, 1)), rows, targets
    )
    happened = cut_off(replay).transitions
    np.testing.assert_array_equal(happened.final[:2], [[0, 0, 0, 1, 0], [1, 0, 1, 1, 1]])
    np.testing.assert_array_equal(happened.terminated[:2], [[0, 0, 0, 0, 1], [0, 1, 0, 0, 0]])
    np.testing.assert_array_equal(happened.truncated[:2], [[1, 0, 1, 0, 0], [0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(happened.reward[1], [0, 1, 0, 0, 0])
