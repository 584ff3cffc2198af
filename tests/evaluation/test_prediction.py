"""Foresight against a slow version, on a world that is known and on one that is not."""

import itertools
import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.evaluation.prediction import Nearness, foresight
from delayzero.evaluation.way import JUMP, Events
from delayzero.files import plain
from delayzero.playing.environments import make_training_env
from delayzero.playing.system import build_system
from delayzero.spaces import Spaces

from ..training.small import small, stirred
from ..training.test_collector import play

HORIZON = 4


SHORT = small(max_steps=15, rows=1, random_interactions=72, interactions=900)


@pytest.fixture(scope="module")
def measuring():
    """The variables of a model, and the compiled measurement of 20 places."""
    system = build_system(SHORT, Spaces.of(make_training_env(SHORT)))
    variables = stirred(jax.jit(system.first_state)(jax.random.key(0)).variables)
    model = system.planner.model
    return variables, jax.jit(lambda v, r, k: foresight(model, HORIZON, 20, v, r, k))


@pytest.mark.parametrize("rows", [3, 4, 5])
def test_without_positions_nothing_is_measured(rows, measuring):
    """A position needs as many rows behind it as the horizon has: one of five has them."""
    _, replay, *_ = play(SHORT, rows)
    assert not np.asarray(replay.transitions.final)[:rows].any()
    variables, measure = measuring
    lists = measure(variables, replay, jax.random.key(7)).lists()
    expected = 20 if rows > HORIZON else 0
    assert lists["positions"] == [expected] * HORIZON
    parts = [lists[f"{event}_positions"] for event in Events._fields]
    assert np.sum(parts, axis=0).tolist() == [expected] * HORIZON
    assert len(lists) == 5 + 5 + 3 + 4 * 3
    for name in Nearness._fields:
        for curve in (lists[name], lists[f"stale_{name}"]):
            assert all((entry is None) == (expected == 0) for entry in curve)
    assert json.loads(json.dumps(lists)) == lists
    assert plain(lists["similarity"]) == lists["similarity"], "as metrics are written"


def test_it_is_what_a_slow_version_says():
    config = small(stack=2, max_steps=15, rows=6, random_interactions=72, interactions=900)
    _, replay, *_ = play(replace(config, delay="walk:3"), 12)
    replay = with_lives_and_rewards(replay)
    env = make_training_env(config)
    system = build_system(config, Spaces.of(env))
    model = system.planner.model
    variables = stirred(jax.jit(system.first_state)(jax.random.key(0)).variables)
    places = 60
    measured = jax.jit(lambda v, r, k: foresight(model, HORIZON, places, v, r, k))(
        variables, replay, jax.random.key(7)
    )

    length, rows = int(replay.length), replay.rows
    assert length < rows
    represent = jax.jit(lambda seen: model.bind(variables).represent(seen))
    step = jax.jit(lambda latent, action: model.bind(variables).step(latent, action))
    predict = jax.jit(lambda latent: model.bind(variables).predict(latent))
    project = jax.jit(lambda latent: model.bind(variables).project(latent))
    predicted = jax.jit(lambda projection: model.bind(variables).predict_projection(projection))
    value_prefix = jax.jit(
        lambda latent, memory: model.bind(variables).value_prefix(latent, memory)
    )
    decode = jax.jit(model.support.decode)
    t = jax.tree.map(np.asarray, replay.transitions)
    usable = np.zeros((rows, config.envs))
    usable[: length - HORIZON] = ~t.final[: length - HORIZON]
    chosen = jax.random.choice(
        jax.random.key(7), usable.size, (places,), p=jnp.asarray(usable.ravel() / usable.sum())
    )
    frames, first = np.asarray(replay.frames), t.first

    def stack_at(time, env):
        begin = max(k for k in range(time + 1) if first[k, env])
        return np.stack([frames[max(begin, time - 1), env], frames[time, env]])

    def nearness(latent, real):
        guess, truth = predict(latent), predict(real)
        imagined, projected = predicted(project(latent)), project(real)
        return [
            np.linalg.norm(latent - real) / np.linalg.norm(real),
            float(np.vdot(imagined, projected))
            / np.linalg.norm(imagined)
            / np.linalg.norm(projected),
            float(guess.policy_logits.argmax() == truth.policy_logits.argmax()),
            float(abs(decode(guess.value_logits) - decode(truth.value_logits))[0]),
            worth(int(guess.policy_logits.argmax()), truth.policy_logits[0]),
        ]

    def worth(action, logits):
        probabilities = np.exp(np.float64(logits)) / np.exp(np.float64(logits)).sum()
        return probabilities[action] / probabilities.max()

    def last_reward(latent):
        logits, _ = value_prefix(latent, model.initial_memory(1))
        return float(decode(logits)[0])

    def steps_of_one_game(time, i):
        return itertools.takewhile(lambda k: not t.final[time + k + 1, i], range(HORIZON))

    places_of = [divmod(int(place), config.envs) for place in np.asarray(chosen)]
    moves = {
        (time + k, i): np.abs(frames[time + k + 1, i] - frames[time + k, i]).mean()
        for time, i in places_of
        for k in steps_of_one_game(time, i)
    }
    every = [moves[time + k, i] for time, i in places_of for k in steps_of_one_game(time, i)]
    threshold = np.quantile(np.float32(every), JUMP)

    sums = [[] for _ in range(HORIZON)]
    recalled = [[] for _ in range(HORIZON)]
    by_event = {(event, k): [] for event in Events._fields for k in range(HORIZON)}
    for time, i in places_of:
        latent = now = represent(jnp.asarray(stack_at(time, i))[None])
        lives = rewards = jumps = 0
        for k in steps_of_one_game(time, i):
            reward = t.reward[time + k, i]
            lives += t.terminated[time + k, i]
            rewards += reward != 0
            jumps += moves[time + k, i] > threshold
            latent = step(latent, jnp.asarray(t.action[time + k, i])[None])
            real = represent(jnp.asarray(stack_at(time + k + 1, i))[None])
            near = nearness(latent, real)
            event = "life" if lives else "reward" if rewards else "jump" if jumps else "quiet"
            by_event[event, k].append(near[2:4])
            if not lives:
                sums[k].append([near, nearness(now, real)])
                if reward:
                    recalled[k].append(last_reward(latent) * np.sign(reward) >= abs(reward) / 2)
    for k in range(HORIZON):
        assert int(measured.positions[k]) == len(sums[k])
        found = [[float(field[k]) for field in part] for part in measured[:2]]
        np.testing.assert_allclose(found, np.mean(sums[k], axis=0), rtol=2e-3, atol=1e-4)
        assert int(measured.rewards[k]) == len(recalled[k]) > 0
        assert float(measured.reward_recall[k]) == pytest.approx(np.mean(recalled[k]))
        for event, part in measured.by_event._asdict().items():
            wanted = by_event[event, k]
            assert int(part.positions[k]) == len(wanted)
            if wanted:
                found = [float(part.policy_agreement[k]), float(part.value_error[k])]
                np.testing.assert_allclose(found, np.mean(wanted, axis=0), rtol=2e-3, atol=1e-4)
    assert all(any(by_event[event, k] for k in range(HORIZON)) for event in Events._fields)
    assert len(sums[-1]) < places, "some episodes end on the way"


def with_lives_and_rewards(replay):
    """The same replay, in which lives are lost on the way and most steps have no reward."""
    rng, t = np.random.default_rng(0), replay.transitions
    final, grid = np.asarray(t.final), t.reward.shape
    goes_on = ~final & ~np.roll(final, -1, axis=0)
    lost = (rng.random(grid) < 0.1) & goes_on
    reward = rng.choice([0.0, 0.3, -0.3], p=[0.7, 0.2, 0.1], size=grid) * ~final
    return replay._replace(
        transitions=t._replace(
            terminated=t.terminated | lost, reward=jnp.asarray(reward, jnp.float32)
        )
    )
