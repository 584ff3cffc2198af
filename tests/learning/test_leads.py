from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.agents import build_agent
from delayzero.learning import leads, loss
from delayzero.learning.in_training import InTraining
from delayzero.learning.leads import draw_leads, lead_queues, rolled_latents
from delayzero.planning import Planner, roll
from delayzero.replay import Sample
from delayzero.settings import LearnerConfig
from delayzero.settings.keywords import configure

from ..made import spaces_of
from . import oracle

ROWS, LENGTH, STACK, LONGEST, LEADS = 48, 60, 2, 6, 3
KEY = jax.random.key(5)
LEARNER = replace(oracle.small_learner(batch_size=8), leads=LEADS, longest_lead=LONGEST)
update = oracle.quick_jit(LEARNER.update)
next_batch = oracle.quick_jit(LEARNER.batch)


@pytest.fixture(scope="module")
def history():
    return oracle.random_history(seed=3, length=LENGTH)


@pytest.fixture(scope="module")
def stored(history):
    filled = oracle.filled(history, ROWS, LENGTH, stack=STACK)
    priority = np.random.default_rng(0).uniform(0.1, 2, filled.priority.shape)
    return filled._replace(priority=jnp.asarray(priority, jnp.float32))


@pytest.fixture(scope="module")
def begin():
    return oracle.first_state(LEARNER, jnp.zeros((1, STACK, 3)))


def steps_back(episode, i, wanted):
    """How many steps lead to row i: no end on the way, and a whole stack to begin with."""
    steps = 0
    while steps < wanted and i - steps > 0:
        before = episode[i - steps - 1]
        if before.ends or before.time < LENGTH - ROWS + STACK - 1:
            break
        steps += 1
    return steps


def test_leads_are_the_executed_actions_since_the_last_end(history, stored):
    plan = oracle.Plan(unroll=2, td_steps=2, stack=STACK)
    rows = oracle.complete_rows(history, ROWS, LENGTH, plan)
    lengths = set()
    for wanted in (0, 1, 4, LONGEST):
        times, envs = (np.array(column, np.int32) for column in zip(*rows, strict=True))
        queue = lead_queues(
            stored, Sample(times, envs, np.ones(len(rows))), np.full(len(rows), wanted), LONGEST
        )
        for b, (time, env) in enumerate(rows):
            episode, i = history.find(time, env)
            steps = steps_back(episode, i, wanted)
            lengths.add(steps)
            assert queue.row(b) == [row.action for row in episode[i - steps : i]]
            assert queue.mask[b, :steps].all()
    assert lengths == set(range(LONGEST + 1)), "the history is too short for this test"


def test_half_of_the_leads_are_delays(stored):
    for delay, kept in ((4, 4), (0, 1), (9, LONGEST)):
        delays = jnp.full(stored.priority.shape, delay)
        replay = stored._replace(decisions=stored.decisions._replace(delay=delays))
        drawn = np.asarray(draw_leads(replay, KEY, 20_000, LONGEST))
        assert drawn.min() == 1
        assert drawn.max() == LONGEST
        shares = np.bincount(drawn, minlength=LONGEST + 1)[1:] / len(drawn)
        final = float(np.mean(replay.transitions.final))  # no decision there
        wanted = np.full(LONGEST, 0.5 * (1 + final) / LONGEST)
        wanted[kept - 1] += 0.5 * (1 - final)
        assert np.abs(shares - wanted).max() < 0.02


def test_delays_of_empty_slots_are_not_drawn(history):
    short = oracle.filled(history, ROWS, 10, stack=STACK)
    delay = jnp.where(jnp.arange(ROWS)[:, None] < 10, 5, 2) + 0 * short.decisions.delay
    replay = short._replace(decisions=short.decisions._replace(delay=delay))
    drawn = np.asarray(draw_leads(replay, KEY, 5000, LONGEST))
    assert np.mean(drawn == 5) > 0.4
    assert np.mean(drawn == 2) < 0.2


def test_latents_are_rolled_as_they_are_while_acting(begin):
    queue = oracle.random_queues(0, 5, LONGEST)
    model, variables = LEARNER.planner.model, begin.variables
    observation = jnp.asarray(np.random.default_rng(1).normal(size=(5, STACK, 3)), jnp.float32)
    latent = model.bind(variables).represent(observation)
    wanted = roll(model, variables, latent, queue)
    found = rolled_latents(model, variables, latent, jax.tree.map(jnp.asarray, queue))
    assert np.allclose(found, wanted, atol=1e-6)
    assert not np.allclose(found, latent, atol=1e-3)


def test_the_gradient_flows_through_the_actions_of_each_queue(begin):
    queue = oracle.random_queues(0, 5, LONGEST)
    model, variables = LEARNER.planner.model, begin.variables
    random = np.random.default_rng(1)
    observation = jnp.asarray(random.normal(size=(5, STACK, 3)), jnp.float32)
    latent = model.bind(variables).represent(observation)
    weights = jnp.asarray(random.normal(size=latent.shape), jnp.float32)

    def rolled(latent):
        after = rolled_latents(model, variables, latent, jax.tree.map(jnp.asarray, queue))
        return jnp.sum(weights * after)

    def one_by_one(latent):
        total = 0.0
        for i in range(5):
            row = latent[i : i + 1]
            for action in queue.row(i):
                row = model.bind(variables).step(row, jnp.array([action]))
            total += jnp.sum(weights[i] * row[0])
        return total

    assert {len(queue.row(i)) for i in range(5)} == {1, 2, 3, 4, 5}
    assert np.allclose(jax.grad(rolled)(latent), jax.grad(one_by_one)(latent), atol=1e-5)


def test_the_batch_observes_where_the_lead_begins(history, stored, begin):
    plan, lengths = oracle.Plan(unroll=2, td_steps=2, stack=STACK), set()
    for updates in range(25):
        state = begin._replace(updates=jnp.int32(updates))
        chosen, batch = next_batch(state, stored, KEY)
        assert batch.lead.mask.shape == (LEADS, LONGEST)
        steps = [*np.asarray(batch.lead.lengths), *(8 - LEADS) * [0]]
        lengths.update(steps)
        places = zip(np.asarray(chosen.times), np.asarray(chosen.envs), strict=True)
        for b, (time, env) in enumerate(places):
            episode, i = history.find(time, env)
            observed = oracle.stack_at(episode, i - steps[b], STACK)
            assert np.array_equal(batch.observation[b], observed)
            wanted = oracle.value_target(episode, i, 0, 2, plan)
            assert batch.value[b, 0] == pytest.approx(wanted, abs=2e-6)
            assert batch.action[b, 0] == episode[i].action
            assert np.allclose(batch.policy[b, 0], episode[i].policy)
    assert len(lengths) > 3


def test_leads_are_not_the_rows_of_highest_priority(stored, begin):
    plain = replace(LEARNER, leads=0)
    sample, _ = oracle.quick_jit(plain.batch)(begin, stored, KEY)
    first = [set(zip(*(np.asarray(x)[:LEADS] for x in sample[:2]), strict=True))]
    everyone = set(zip(*map(np.asarray, sample[:2]), strict=True))
    led = oracle.quick_jit(LEARNER.batch)(begin, stored, KEY)[0]
    assert set(zip(*map(np.asarray, led[:2]), strict=True)) == everyone
    assert set(zip(*(np.asarray(x)[:LEADS] for x in led[:2]), strict=True)) not in first


@dataclass(frozen=True)
class PolicyOfTheLatent(Planner):
    """Finds what tells every latent from others, in place of a policy."""

    def search(self, variables, key, latent, **options):
        result = super().search(variables, key, latent, **options)
        weights = np.random.default_rng(2).normal(0, 1, (latent.shape[-1], oracle.ACTIONS))
        return result._replace(policy=latent @ weights)


def test_rolled_policies_are_those_of_searches_where_leads_end(stored, begin):
    plain = oracle.small_learner(batch_size=8, target_period=3, lead_policy="rolled")
    model = plain.planner.model
    planner = PolicyOfTheLatent(model, plain.planner.config, 0.9, plain.planner.prefix_horizon)
    learner = replace(plain, planner=planner, leads=4, longest_lead=LONGEST)
    program = oracle.quick_jit(learner.batch)
    target = jax.tree.map(lambda x: 1.1 * x, begin.variables)
    real = oracle.quick_jit(
        replace(learner, config=replace(learner.config, lead_policy="real")).batch
    )
    lengths = set()
    for updates in range(6):
        state = begin._replace(target=target, updates=jnp.int32(updates))
        _, batch = program(state, stored, KEY)
        lengths.update(np.asarray(batch.lead.lengths))
        wanted, bound = np.zeros_like(batch.policy[:4]), model.bind(target)
        for b in range(4):
            latent = bound.represent(batch.observation[b : b + 1])
            for action in batch.lead.row(b):
                latent = bound.step(latent, jnp.array([action]))
            for k in range(wanted.shape[1]):
                wanted[b, k] = planner.search(target, KEY, latent, explore=True).policy[0]
                if k < batch.action.shape[1]:
                    latent = bound.step(latent, batch.action[b : b + 1, k])
        np.testing.assert_allclose(batch.policy[:4], wanted, atol=1e-5)
        rows = wanted.reshape(-1, oracle.ACTIONS)
        distances = np.abs(rows[:, None] - rows).max(axis=-1) + np.eye(len(rows))
        assert np.mean(distances > 1e-3) > 0.9, "the policies do not tell latents apart"
        _, others = real(state, stored, KEY)
        np.testing.assert_array_equal(batch.policy[4:], others.policy[4:])
        assert oracle.leaves_equal(batch._replace(policy=0), others._replace(policy=0))
    assert len(lengths) > 3


@pytest.mark.parametrize("lead_gradient", [False, True])
def test_unrolls_begin_with_rolled_latents_then_with_encoded_ones(lead_gradient, stored, begin):
    _, batch = next_batch(begin, stored, KEY)
    model, variables = LEARNER.planner.model, begin.variables
    config = replace(LEARNER.config, lead_gradient=lead_gradient)

    @oracle.quick_jit
    def first(batch):
        return loss._first_latents(InTraining(model, variables), batch, config)

    encoded = model.bind(variables).represent(batch.observation)
    rolled = roll(model, variables, encoded[:LEADS], batch.lead)
    assert batch.lead.mask.any()
    assert not np.allclose(rolled, encoded[:LEADS], atol=1e-3)
    wanted = np.concatenate([rolled, encoded[LEADS:]])
    np.testing.assert_allclose(first(batch), wanted, atol=1e-5)


def test_rolled_latents_train_dynamics_and_heads_but_not_the_encoder(stored, begin):
    _, batch = next_batch(begin, stored, KEY)
    only_leads = batch._replace(weight=jnp.where(jnp.arange(8) < LEADS, batch.weight, 0.0))
    gradient, _ = oracle.quick_jit(LEARNER.gradients)(begin.variables, only_leads)
    sizes = {name: optax_norm(part) for name, part in gradient.items()}
    assert sizes["encoder"] == 0.0
    assert sizes["dynamics"] > 1e-4
    assert sizes["prediction"] > 1e-4
    assert sizes["prefix"] > 1e-4


def test_with_a_gradient_through_their_rolls_leads_train_the_encoder_too(stored, begin):
    learner = replace(LEARNER, config=replace(LEARNER.config, lead_gradient=True))
    _, batch = next_batch(begin, stored, KEY)
    only_leads = batch._replace(weight=jnp.where(jnp.arange(8) < LEADS, batch.weight, 0.0))
    gradient, output = oracle.quick_jit(learner.gradients)(begin.variables, only_leads)
    assert optax_norm(gradient["encoder"]) > 1e-4
    assert optax_norm(gradient["dynamics"]) > 1e-4
    assert output.metrics["lead/value_error"] > 0


@pytest.mark.slow
def test_images_are_rolled_by_a_chain_with_the_gradient_of_single_steps(monkeypatch):
    """The slow version is the model's own step in a loop, which models of vectors use."""
    learner = oracle.small_learner("conv", batch_size=8, lead_gradient=True)
    learner = replace(learner, leads=LEADS, longest_lead=LONGEST)
    history = oracle.random_history(seed=3, length=LENGTH)
    random = np.random.default_rng(0)
    images = random.integers(0, 255, (LENGTH, 3, 10, 10, 2)).astype(np.uint8)
    replay = oracle.filled(
        history, ROWS, LENGTH, stack=STACK, frame=lambda row: images[row.time, row.env]
    )
    state = oracle.first_state(learner, jnp.zeros((1, STACK, 10, 10, 2), jnp.uint8))
    _, batch = oracle.quick_jit(learner.batch)(state, replay, KEY)
    assert batch.lead.mask.any()
    chained, _ = jax.jit(learner.gradients)(state.variables, batch)
    monkeypatch.setattr(leads, "can_chain", lambda model: False)
    single, _ = jax.jit(learner.gradients)(state.variables, batch)
    difference = jax.tree.map(jnp.subtract, chained, single)
    assert optax_norm(single["encoder"]) > 1e-4
    assert 0 < optax_norm(difference) < 1e-4 * optax_norm(single)


def optax_norm(tree):
    return float(jnp.sqrt(sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(tree))))


def test_priorities_of_rows_with_a_lead_stay(stored, begin):
    chosen, _ = next_batch(begin, stored, KEY)
    state, renewed, metrics = update(begin, stored, KEY, 1)
    slots, envs = np.asarray(chosen.times) % ROWS, np.asarray(chosen.envs)
    before, after = np.asarray(stored.priority)[slots, envs], renewed.priority[slots, envs]
    assert np.array_equal(after[:LEADS], before[:LEADS])
    assert not np.isclose(after[LEADS:], before[LEADS:]).any()
    assert 0 <= metrics["lead/steps"] <= LONGEST
    assert metrics["lead/value_error"] > 0
    assert state.failed < 0


def test_how_many_rows_have_a_lead():
    assert LearnerConfig().leads(0) == 0
    assert LearnerConfig().leads(5) == 0
    assert LearnerConfig().leads(6) == 64
    assert LearnerConfig(unroll=15).leads(15) == 0
    assert LearnerConfig(lead_share=0.5).leads(3) == 128
    assert LearnerConfig(lead_share=0.5).leads(0) == 0
    assert LearnerConfig(lead_share=0.0).leads(25) == 0
    with pytest.raises(ValueError, match=r"--learner\.lead-share is 0\.8; .* at most 0\.75"):
        LearnerConfig(lead_share=0.8)


@pytest.mark.parametrize(
    ("agent", "preset", "delay", "leads", "longest"),
    [
        ("dez", "cartpole", "walk:15", 16, 15),
        ("dez", "cartpole", "walk:5", 0, 5),
        ("oblivious-executed", "cartpole", "walk:15", 0, 0),
        ("dez", "atari-paper", "walk:25", 0, 25),
        ("dez", "atari", "constant:25", 64, 25),
    ],
)
def test_agents_that_look_far_ahead_train_with_leads(agent, preset, delay, leads, longest):
    config = configure([preset], {"agent": agent, "delay": delay})
    shape, dtype = ((96, 96, 1), np.uint8) if preset.startswith("atari") else ((4,), np.float32)
    learner = build_agent(config, spaces_of(shape, dtype, 3)).learner
    assert (learner.leads, learner.longest_lead) == (leads, longest)
