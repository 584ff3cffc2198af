import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.learning.health import action_sensitivity, effective_rank, explained, measure_health
from delayzero.learning.learner import weight_health

from . import oracle

ROWS, LENGTH, STACK = 48, 60, 2
PLAN = oracle.Plan(unroll=2, td_steps=2, stack=STACK)
LEARNER = oracle.small_learner(batch_size=1000)
BEGIN = oracle.first_state(LEARNER, jnp.zeros((1, STACK, 3)))


@oracle.quick_jit
def measure(variables, replay, key):
    return measure_health(LEARNER, BEGIN._replace(variables=variables), replay, key)


def test_explained():
    target = jnp.array([[1.0, 10.0], [2.0, 30.0], [6.0, 20.0]])
    assert explained(target, target) == 1
    constant = jnp.broadcast_to(target.mean(axis=0), target.shape)
    assert explained(constant, target) == pytest.approx(0, abs=1e-6)
    assert explained(jnp.zeros_like(target), target) < 0
    for constant in (1.0, 0.1, -0.01, 1e5):
        same = jnp.full((256, 5), constant) * jnp.arange(1, 6)
        assert np.isnan(explained(same + 0.01, same)), constant
    constant = jnp.broadcast_to(target.mean(axis=0), target.shape)
    half = explained(constant, target, jnp.array([[True, False]] * 3))
    assert half == pytest.approx(0, abs=1e-6)
    wrong_elsewhere = target.at[:, 1].add(100)
    assert explained(wrong_elsewhere, target, jnp.array([[True, False]] * 3)) == 1
    with pytest.raises(AssertionError, match="different shapes"):
        explained(target[:, :1], target)


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_effective_rank(rank):
    directions = jnp.linalg.qr(jax.random.normal(jax.random.key(rank), (12, 12)))[0][:rank]
    latents = jnp.concatenate([directions, -directions]) + 5.0
    assert effective_rank(latents) == pytest.approx(rank, rel=1e-3)


def test_latents_that_are_all_alike_have_the_smallest_rank():
    assert effective_rank(jnp.ones((6, 4))) == pytest.approx(1, abs=0.01)


def test_weight_health():
    equal = weight_health(jnp.full(8, 0.3))
    assert equal["health/weight_mean"] == pytest.approx(0.3)
    assert equal["health/weight_effective"] == pytest.approx(8)
    one = weight_health(jnp.array([1.0, *[1e-6] * 7]))
    assert one["health/weight_effective"] == pytest.approx(1, rel=1e-4)


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=3, length=LENGTH)


def rare(replay):
    """The same with most rewards taken away, and the others rounded away from zero."""
    reward = np.asarray(replay.transitions.reward)
    few = np.where(np.random.default_rng(0).random(reward.shape) < 0.2, np.sign(reward), 0)
    transitions = replay.transitions._replace(reward=jnp.asarray(few, jnp.float32))
    return replay._replace(transitions=transitions)


@pytest.fixture(scope="module")
def variables():
    example = jnp.zeros((1, STACK, 3))
    return oracle.random_variables(LEARNER.planner.model, example, seed=1)


def slow_health(history, replay, variables):
    """Over all rows that can be drawn, one after the other."""
    model, unroll, happened = LEARNER.planner.model, PLAN.unroll, replay.transitions
    decode = model.support.decode

    @oracle.quick_jit
    def first(stack):
        latent = model.bind(variables).represent(stack[None])
        return latent, decode(model.bind(variables).predict(latent).value_logits)[0]

    @oracle.quick_jit
    def further(latent, action, memory):
        latent = model.bind(variables).step(latent, action[None])
        logits, memory = model.bind(variables).value_prefix(latent, memory)
        return latent, decode(logits)[0], memory

    values, targets, hits = [], [], []
    prefixes, sums = [[] for _ in range(unroll)], [[] for _ in range(unroll)]
    for time, env in oracle.complete_rows(history, ROWS, LENGTH, PLAN):
        if time < LENGTH - ROWS + STACK - 1:
            continue
        episode, i = history.find(time, env)
        latent, value = first(oracle.stack_at(episode, i, STACK))
        values.append(float(value))
        memory, earned, said_before, alive = model.initial_memory(1), 0.0, 0.0, True
        for k in range(unroll):
            slot = (time + k) % ROWS
            latent, said, memory = further(latent, happened.action[slot, env], memory)
            reward, said = float(happened.reward[slot, env]), float(said)
            if alive:
                earned += reward
                prefixes[k].append(said)
                sums[k].append(earned)
                if reward:
                    hits.append((said - said_before) * np.sign(reward) >= abs(reward) / 2)
            said_before = said
            alive &= not (happened.terminated[slot, env] or happened.truncated[slot, env])
        targets.append(slow_value(replay, episode, range(i, len(episode)), env))
    share = 1 - np.sum(np.square(np.subtract(values, targets))) / np.sum(
        np.square(targets - np.mean(targets))
    )
    wrong = sum(np.sum(np.square(np.subtract(p, s))) for p, s in zip(prefixes, sums, strict=True))
    spread = sum(np.sum(np.square(np.array(s) - np.mean(s))) for s in sums)
    return share, 1 - wrong / spread, np.mean(hits)


def slow_sensitivity(history, replay, variables):
    """How often the executed actions lead nearer to what was seen than those of all rows do."""
    bound, happened, places = LEARNER.planner.model.bind(variables), replay.transitions, []
    for time, env in oracle.complete_rows(history, ROWS, LENGTH, PLAN):
        if time >= LENGTH - ROWS + STACK - 1:
            places.append((time, env))
    steps = np.arange(PLAN.unroll)
    actions = jnp.array([happened.action[(t + steps) % ROWS, n] for t, n in places])

    @oracle.quick_jit
    def distances(stack, seen):
        latent = jnp.repeat(bound.represent(stack[None]), len(places), axis=0)
        for k in range(PLAN.unroll):
            latent = bound.step(latent, actions[:, k])
        return jnp.linalg.norm(latent - bound.represent(seen[None]), axis=1)

    won = []
    for row, (time, env) in enumerate(places):
        episode, i = history.find(time, env)
        if any(e.ends for e in episode[i : i + PLAN.unroll]):
            continue
        after = oracle.stack_at(episode, i + PLAN.unroll, STACK)
        far = np.asarray(distances(oracle.stack_at(episode, i, STACK), after))
        same = np.abs(far - far[row]) <= 1e-5 * far[row]
        won.append(np.mean(np.where(same, 0.5, far[row] < far)))
    return np.mean(won)


def slow_value(replay, episode, rows, env):
    """Two rewards and the value of what follows, by the rules of an end."""
    total, happened = 0.0, replay.transitions
    for j, row in enumerate(rows[:2]):
        slot = episode[row].time % ROWS
        total += PLAN.discount**j * float(happened.reward[slot, env])
        if happened.terminated[slot, env]:
            return total
        after = (episode[row].time + 1) % ROWS
        if happened.truncated[slot, env] or j == 1:
            return total + PLAN.discount ** (j + 1) * float(replay.targets.search_value[after, env])
    raise AssertionError


def test_against_the_slow_version(history, variables):
    replay = rare(oracle.filled(history, ROWS, LENGTH, stack=STACK))
    found = measure(variables, replay, jax.random.key(0))
    value, prefix, recall = slow_health(history, replay, variables)
    # Drawn with replacement, many times over: what is left is the error of drawing.
    assert found["health/value_explained"] == pytest.approx(value, rel=0.15, abs=0.1)
    assert found["health/prefix_explained"] == pytest.approx(prefix, rel=0.15, abs=0.1)
    assert found["health/reward_recall"] == pytest.approx(recall, abs=0.08)
    told = slow_sensitivity(history, replay, variables)
    assert found["health/action_sensitivity"] == pytest.approx(told, abs=0.08)
    assert found["health/dead_units"] == 0
    assert 1 <= found["health/latent_rank"] <= 8.1


def test_without_rewards_nothing_is_said_of_them(history, variables):
    replay = oracle.filled(history, ROWS, LENGTH, stack=STACK)
    nothing = jax.tree.map(jnp.zeros_like, (replay.transitions.reward, replay.targets.search_value))
    replay = replay._replace(
        transitions=replay.transitions._replace(reward=nothing[0]),
        targets=replay.targets._replace(search_value=nothing[1]),
    )
    found = measure(variables, replay, jax.random.key(0))
    missing = {name for name, value in found.items() if np.isnan(value)}
    rewards = {"value_explained", "prefix_explained", "reward_recall"}
    assert missing == {f"health/{name}" for name in rewards}


def test_a_model_that_ignores_actions_tells_none_apart(history, variables):
    replay = oracle.filled(history, ROWS, LENGTH, stack=STACK)
    deaf = jax.tree.map(lambda x: x, variables)
    kernel = deaf["params"]["dynamics"]["Linear_0"]["kernel"]
    silenced = kernel.at[-oracle.ACTIONS :].set(0.0)
    deaf["params"]["dynamics"]["Linear_0"]["kernel"] = silenced
    found = measure(deaf, replay, jax.random.key(0))
    assert found["health/action_sensitivity"] == 0.5


def test_sensitivity_counts_who_is_nearer_among_rows_that_last(history, variables):
    learner = oracle.small_learner(batch_size=40)
    replay = oracle.filled(history, ROWS, LENGTH, stack=STACK)
    batch = oracle.quick_jit(learner.batch)(BEGIN, replay, jax.random.key(0))[1]
    batch = batch._replace(following=batch.following[:, -1:])
    seen = learner.planner.model.bind(variables).represent(batch.following[:, 0])
    far = seen + 1.0
    assert action_sensitivity(learner, variables, batch, seen, far) == 1
    assert action_sensitivity(learner, variables, batch, far, seen) == 0
    assert action_sensitivity(learner, variables, batch, far, far) == 0.5
    lasting = batch.alive[:, -1]
    assert 0 < lasting.sum() < lasting.size
    mixed = jnp.where(lasting[:, None], seen, far + 1)  # rows that end do not count
    assert action_sensitivity(learner, variables, batch, mixed, far) == 1
    ended = batch._replace(alive=jnp.zeros_like(batch.alive))
    assert np.isnan(action_sensitivity(learner, variables, ended, seen, far))


def test_units_that_never_change_are_dead(history, variables):
    replay = oracle.filled(history, ROWS, LENGTH, stack=STACK)
    numb = jax.tree.map(lambda x: x, variables)
    norm = numb["params"]["encoder"]["Norm_1"]["LayerNorm_0"]
    norm["scale"] = norm["scale"].at[:3].set(0.0)
    found = measure(numb, replay, jax.random.key(0))
    assert found["health/dead_units"] == pytest.approx(3 / norm["scale"].size)
