import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.replay import FrameWriter, HostFrames, episode_starts, stacked_frames
from delayzero.replay.frames import empty_frames, gather_frames

from ..learning import oracle


def test_host_frames_are_the_device_frames():
    history = oracle.random_history(seed=0, length=100)
    device = oracle.filled(history, 48, 100, stack=4)
    host = oracle.filled(history, 48, 100, host=True, stack=4)
    assert isinstance(host.frames, HostFrames)
    assert host.frames.shape == device.frames.shape
    assert host.frames.dtype == device.frames.dtype
    assert np.array_equal(host.frames.array, device.frames)
    assert oracle.leaves_equal(host._replace(frames=0), device._replace(frames=0))

    @oracle.quick_jit
    def read(replay):
        times = jnp.arange(60, 90, dtype=jnp.int32)
        envs = times % 3
        return stacked_frames(replay, times, envs, episode_starts(replay, times, envs))

    assert np.array_equal(read(host), read(device))


def test_a_compiled_reader_sees_what_was_written_since():
    frames = HostFrames(np.zeros((5, 2, 3), np.uint8))
    slots, envs = jnp.array([[1, 4]]), jnp.array([[0, 1]])
    read = jax.jit(lambda s: gather_frames(frames, s, envs))
    assert not read(slots).any()
    frames.write(np.array([4, 1]), [np.full((2, 3), 4), np.full((2, 3), 1)])
    assert np.array_equal(read(slots), [[[1] * 3, [4] * 3]])


@pytest.mark.parametrize("host", [False, True], ids=["device", "host"])
def test_a_row_of_another_shape_is_refused(host):
    writer = FrameWriter(empty_frames(5, 2, (3,), np.uint8, host))
    for wrong in (np.zeros((2, 1), np.uint8), np.zeros(3, np.uint8)):
        with pytest.raises(AssertionError, match="shape compatibility"):
            writer.write(wrong)


def test_stacks_need_indices_of_one_rank():
    replay = oracle.filled(oracle.random_history(seed=0, length=20), 48, 20)
    times = envs = jnp.zeros(4, jnp.int32)
    with pytest.raises(AssertionError, match="different rank"):
        stacked_frames(replay, times, envs, jnp.int32(0))
    with pytest.raises(AssertionError, match="type compatibility"):
        stacked_frames(replay, times, envs, jnp.zeros(4))
    with pytest.raises(AssertionError, match="different shapes"):
        episode_starts(replay, times, envs[:1])


def test_large_reads_in_a_compiled_loop_come_back():
    array = np.random.default_rng(0).integers(0, 256, (64, 4, 32, 32, 3), np.uint8)
    frames = HostFrames(array)

    @oracle.quick_jit
    def total(device):
        def body(carry):
            i, different = carry
            slots = (jnp.arange(256).reshape(32, 8) * (i + 3)) % 64
            envs = jnp.broadcast_to(jnp.arange(32)[:, None] % 4, slots.shape)
            one, two = gather_frames(frames, slots, envs), gather_frames(device, slots, envs)
            work = jnp.dot(one.reshape(256, -1).astype(jnp.float32), jnp.ones((3072, 64)))
            return i + 1, different + jnp.sum(one != two) + jnp.sum(jnp.isnan(work))

        return jax.lax.while_loop(lambda carry: carry[0] < 20, body, (0, 0))

    assert total(jnp.asarray(array)) == (20, 0)


@pytest.mark.parametrize("host", [False, True], ids=["device", "host"])
@pytest.mark.parametrize("written", [3, 4, 7, 23])
def test_rows_are_written_where_a_run_wrote_them(written, host):
    """Some at a time, round and round in a ring of seven; what is shown may be overwritten."""
    rows = np.random.default_rng(0).integers(0, 256, (written, 2, 3), np.uint8)
    writer, shown = FrameWriter(empty_frames(7, 2, (3,), np.uint8, host), 4), np.empty_like(rows[0])
    for row in rows:
        shown[...] = row
        writer.write(shown)
    shown[...] = 0
    writer.finish()
    expected = np.zeros((7, 2, 3), np.uint8)
    for time, row in enumerate(rows):
        expected[time % 7] = row
    kept = writer.frames.array if isinstance(writer.frames, HostFrames) else writer.frames
    np.testing.assert_array_equal(kept, expected)
