"""What the loss sees of an unrolled model is what a search sees of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from . import oracle

UNROLL = 3


@pytest.mark.slow
@pytest.mark.parametrize(("normalise", "learned"), [("together", True), ("by_step", False)])
def test_a_reward_in_every_step_is_predicted_outside_of_training(normalise, learned):
    """Prefixes are 1, 2, 3: only the step tells them apart, and statistics by step hide it."""
    rng = np.random.default_rng(0)
    frames = rng.random((40, 10, 10, 2)).astype(np.float32)
    history = oracle.random_history(seed=0, length=40)
    replay = oracle.filled(history, 40, 40, frame=lambda row: frames[row.time])
    plain = jnp.zeros_like(replay.transitions.terminated)
    transitions = replay.transitions._replace(
        reward=jnp.ones_like(replay.transitions.reward),
        **dict.fromkeys(("terminated", "truncated", "final"), plain),
    )
    replay = replay._replace(transitions=transitions)
    learner = oracle.small_learner(
        "conv", unroll=UNROLL, normalise=normalise, batch_size=16, learning_rate=0.1
    )
    state = oracle.first_state(learner, jnp.zeros((1, 1, 10, 10, 2)))
    state, replay, _ = oracle.quick_jit(learner.update)(state, replay, jax.random.key(0), 150)
    model = learner.planner.model.bind(state.variables)
    latent = model.represent(jnp.asarray(frames[:20, None]))
    memory, prefixes = model.initial_memory(20), []
    for _ in range(UNROLL):
        latent = model.step(latent, jnp.zeros(20, int))
        logits, memory = model.value_prefix(latent, memory)
        prefixes.append(float(model.support.decode(logits).mean()))
    errors = np.abs(np.array(prefixes) - np.arange(1, UNROLL + 1))
    assert (errors.max() < 0.3) == learned, prefixes
