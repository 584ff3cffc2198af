"""The loss against a version that takes one sample, one step and one bin at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from delayzero.learning.batch import Batch, assert_batch
from delayzero.learning.in_training import InTraining
from delayzero.learning.loss import efficientzero_loss, real_latents, unroll_model
from delayzero.settings import LearnerConfig

from ..made import full_queue
from . import oracle

STEPS, STACK, SAMPLES = 3, 2, 4
WEIGHTS = (0.7, 0.3, 1.3, 1.9)
MODEL = oracle.small_model()
ENDS = (None, 1, 2, 3)
"""The first state of each sample that an end led to."""


@pytest.fixture(scope="module")
def variables():
    return oracle.random_variables(MODEL, jnp.zeros((2, STACK, 3)))


def make_batch(seed=0, ends=ENDS):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.normal(size=(len(ends), *shape)).astype(np.float32)  # noqa: E731
    alive = np.array([[end is None or k < end for k in range(STEPS + 1)] for end in ends])
    return Batch(
        observation=normal(STACK, 3),
        following=normal(STEPS, STACK, 3),
        compared=rng.permuted(np.tile(np.arange(STEPS), (len(ends), 1)), axis=1),
        action=rng.integers(3, size=(len(ends), STEPS)).astype(np.int32),
        policy=rng.dirichlet(np.ones(3), (len(ends), STEPS + 1)).astype(np.float32),
        value=5 * normal(STEPS + 1),
        prefix=5 * normal(STEPS),
        alive=alive,
        weight=rng.uniform(0.2, 1, len(ends)).astype(np.float32),
        age=np.arange(len(ends), dtype=np.int32),
        queue=full_queue(np.zeros((len(ends), STEPS + 1, 0), np.int32)),
    )


def place_of(batch, b, step):
    """Where a sample has what was seen after a step."""
    return list(batch.compared[b]).index(step)


def seen_after(batch, step):
    """The stacks that were seen after a step, of all samples."""
    stacks = [batch.following[b, place_of(batch, b, step)] for b in range(len(batch.following))]
    return jnp.asarray(np.stack(stacks))


def loss_and_gradient(params, batch, weights=WEIGHTS):
    return compiled_loss(params, batch, weights)


@oracle.quick_jit
def compiled_loss(params, batch, weights):
    """The package's loss; the four weights are traced."""
    config = LearnerConfig(unroll=STEPS, prefix_horizon=2)
    names = ("policy_weight", "value_weight", "prefix_weight", "consistency_weight")
    for name, weight in zip(names, weights, strict=True):
        object.__setattr__(config, name, weight)
    loss = lambda p: efficientzero_loss(MODEL, {"params": p}, batch, config)  # noqa: E731
    return jax.value_and_grad(loss, has_aux=True)(params)


part = {
    name: oracle.quick_jit(
        lambda variables, *args, name=name: getattr(MODEL.bind(variables), name)(*args)
    )
    for name in ("represent", "step", "value_prefix", "predict", "project", "predict_projection")
}


def log_softmax(logits):
    logits = np.asarray(logits, np.float64)
    return logits - np.log(np.sum(np.exp(logits - logits.max()))) - logits.max()


def cross_entropy(logits, x):
    """To the scalar's two nearest integers after the transform, by hand."""
    h = np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 0.001 * x
    h = min(max(h, -10), 10)
    log_p, loss = log_softmax(logits), 0.0
    for place, integer in enumerate(range(-10, 11)):
        loss -= max(0.0, 1 - abs(h - integer)) * log_p[place]
    return loss


def decoded(logits):
    y = np.sum(np.exp(log_softmax(logits)) * np.arange(-10, 11))
    root = (np.sqrt(1 + 0.004 * (abs(y) + 1.001)) - 1) / 0.002
    return np.sign(y) * (root**2 - 1)


def slow_sample(variables, batch, b, horizon):
    """The four sums of one sample's losses, its value error, and its cosines."""
    run = {name: lambda *args, f=f: f(variables, *args) for name, f in part.items()}
    take = lambda x: jnp.asarray(x)[None]  # noqa: E731
    latent = run["represent"](take(batch.observation[b]))
    zero = (jnp.zeros((1, 8)), jnp.zeros((1, 8)))
    sums, cosines, memory = np.zeros(4), [], zero
    for k in range(STEPS + 1):
        if k > 0:
            if (k - 1) % horizon == 0:
                memory = zero
            latent = run["step"](latent, take(batch.action[b, k - 1]))
            logits, memory = run["value_prefix"](latent, memory)
            sums[2] += cross_entropy(logits[0], float(batch.prefix[b, k - 1]))
            real = run["represent"](take(batch.following[b, place_of(batch, b, k - 1)]))
            real = np.asarray(run["project"](real)[0], np.float64)
            imagined = np.asarray(run["predict_projection"](run["project"](latent))[0], np.float64)
            lengths = np.sqrt(np.sum(real**2)) * np.sqrt(np.sum(imagined**2))
            cosines.append(np.sum(real * imagined) / lengths)
            sums[3] -= cosines[-1]
        prediction = run["predict"](latent)
        sums[1] += cross_entropy(prediction.value_logits[0], float(batch.value[b, k]))
        if k == 0:
            error = abs(decoded(prediction.value_logits[0]) - batch.value[b, 0])
        if not batch.alive[b, k]:
            break
        sums[0] -= np.sum(batch.policy[b, k] * log_softmax(prediction.policy_logits[0]))
    return sums, error, cosines


def test_loss_is_the_slow_one(variables):
    batch = make_batch()
    (loss, output), _ = loss_and_gradient(variables["params"], batch)
    slow = [slow_sample(variables, batch, b, horizon=2) for b in range(SAMPLES)]
    weights = np.array(WEIGHTS)
    total = sum(w * (sums @ weights) for w, (sums, *_) in zip(batch.weight, slow, strict=True))
    assert float(loss) == pytest.approx(total / SAMPLES / STEPS, rel=1e-5)
    assert np.allclose(output.priority, [error for _, error, _ in slow], atol=1e-4)
    means = np.mean([sums for sums, *_ in slow], axis=0)
    for name, mean in zip(("policy", "value", "prefix", "consistency"), means, strict=True):
        assert float(output.metrics[f"loss/{name}"]) == pytest.approx(mean, rel=1e-5)
    assert float(output.metrics["loss"]) == float(loss)
    cosines = [one for _, _, found in slow for one in found]
    assert output.metrics["consistency/cosine"] == pytest.approx(np.mean(cosines), abs=1e-5)


@jax.custom_vjp
def halved(x):
    return x


halved.defvjp(lambda x: (x, None), lambda _, gradient: (0.5 * gradient,))


def explicit_loss(params, batch, real):
    """The same loss by formula, with the real projections as given numbers."""
    model = MODEL.bind({"params": params})
    latent, zero = model.represent(batch.observation), model.initial_memory(SAMPLES)
    total, memory, taken = jnp.zeros(SAMPLES), zero, jnp.ones(SAMPLES)
    for k in range(STEPS + 1):
        if k > 0:
            memory = zero if (k - 1) % 2 == 0 else memory
            latent = halved(model.step(latent, batch.action[:, k - 1]))
            logits, memory = model.value_prefix(latent, memory)
            imagined = model.predict_projection(model.project(latent))
            unit = imagined / jnp.linalg.norm(imagined, axis=-1, keepdims=True)
            prefix = model.support.cross_entropy(logits, batch.prefix[:, k - 1])
            total += taken * (1.3 * prefix - 1.9 * jnp.sum(unit * real[k - 1], axis=-1))
        prediction = model.predict(latent)
        value = model.support.cross_entropy(prediction.value_logits, batch.value[:, k])
        policy = batch.policy[:, k] * jax.nn.log_softmax(prediction.policy_logits)
        alive = jnp.asarray(batch.alive[:, k], jnp.float32)
        total += 0.3 * value * taken - 0.7 * policy.sum(-1) * alive
        taken = alive
    return jnp.mean(batch.weight * total) / STEPS


def test_gradient_has_halves_and_a_fixed_consistency_target(variables):
    batch = make_batch(seed=1)
    real = []
    for k in range(STEPS):
        latent = part["represent"](variables, seen_after(batch, k))
        projection = np.asarray(part["project"](variables, latent))
        real.append(projection / np.linalg.norm(projection, axis=-1, keepdims=True))
    value, wanted = oracle.quick_jit(jax.value_and_grad(explicit_loss))(
        variables["params"], batch, real
    )
    (loss, _), got = loss_and_gradient(variables["params"], batch)
    assert float(loss) == pytest.approx(float(value), rel=1e-5)
    for one, two in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert np.allclose(one, two, rtol=1e-3, atol=1e-5)


def test_encoder_gets_half_the_gradient_for_every_step(variables):
    batch = make_batch(seed=2, ends=(None,) * SAMPLES)

    def plain(params, policy, apart):
        """Cross entropy of the policies, no gradient changed; dynamics may differ by step."""
        latent = MODEL.bind({"params": params}).represent(batch.observation)
        total = 0.0
        for k in range(STEPS + 1):
            if k > 0:
                model = MODEL.bind({"params": {**params, "dynamics": apart[k - 1]}})
                latent = model.step(latent, batch.action[:, k - 1])
            logits = MODEL.bind({"params": params}).predict(latent).policy_logits
            total -= jnp.sum(policy[:, k] * jax.nn.log_softmax(logits), axis=-1)
        return jnp.mean(batch.weight * total) / STEPS

    params = variables["params"]
    gradient_of = oracle.quick_jit(jax.grad(plain, argnums=(0, 2)))
    for k in (0, 1, 3):
        policy = np.zeros_like(batch.policy)
        policy[:, k] = batch.policy[:, k]
        weights = (1.0, 0.0, 0.0, 0.0)
        _, got = loss_and_gradient(params, batch._replace(policy=policy), weights)
        whole, by_step = gradient_of(params, policy, [params["dynamics"]] * STEPS)

        def same(one, two):
            pairs = zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True)
            return all(np.allclose(a, b, rtol=1e-3, atol=1e-7) for a, b in pairs)

        halved = jax.tree.map(lambda g, k=k: g * 0.5**k, whole["encoder"])
        assert any(np.abs(g).max() > 1e-4 for g in jax.tree.leaves(halved))
        assert same(got["encoder"], halved)
        assert same(got["prediction"], whole["prediction"])
        dynamics = jax.tree.map(
            lambda *gs, k=k: sum(g * 0.5 ** (k - j) for j, g in enumerate(gs)),
            *by_step[: max(k, 1)],
        )
        assert same(got["dynamics"], dynamics)


def test_what_is_masked_has_no_influence(variables):
    batch, other = make_batch(seed=3), make_batch(seed=4)
    given = {name: field for name, field in batch._asdict().items() if field is not None}
    fields = {name: jax.tree.map(np.array, field) for name, field in given.items()}
    for b, end in enumerate(ENDS):
        if end is None:
            continue
        # States up to `end` were reached, by actions 0 .. end - 1.
        for name, first in (("action", end), ("prefix", end), ("policy", end)):
            fields[name][b, first:] = getattr(other, name)[b, first:]
        fields["value"][b, end + 1 :] = other.value[b, end + 1 :]
        for step in range(end, STEPS):
            fields["following"][b, place_of(batch, b, step)] = other.following[b, step]
    changed = Batch(**fields)
    names = ("action", "prefix", "policy", "value", "following")
    assert all(not np.array_equal(getattr(changed, n), getattr(batch, n)) for n in names)
    (one, first), gradient = loss_and_gradient(variables["params"], batch)
    (two, second), same = loss_and_gradient(variables["params"], changed)
    assert one == two
    assert oracle.leaves_equal(gradient, same)
    assert oracle.leaves_equal(first, second)


END_OF_1 = (1, place_of(make_batch(seed=3), 1, 0), STACK - 1)
"""The newest frame after the only step of sample 1."""


@pytest.mark.parametrize(
    ("name", "place"),
    [
        pytest.param("value", (1, 1), id="value-that-the-end-led-to"),
        pytest.param("prefix", (1, 0), id="prefix-with-the-last-reward"),
        pytest.param("following", END_OF_1, id="frame-that-the-end-led-to"),
        pytest.param("policy", (2, 1), id="policy-before-the-end"),
        pytest.param("action", (2, 1), id="last-action"),
    ],
)
def test_what_is_not_masked_has_influence(variables, name, place):
    batch = make_batch(seed=3)
    field = np.array(getattr(batch, name))
    field[place] = (field[place] + 1) % 3 if name == "action" else field[place] + 0.25
    (one, _), _ = loss_and_gradient(variables["params"], batch)
    (two, _), _ = loss_and_gradient(variables["params"], batch._replace(**{name: field}))
    assert one != two


@pytest.mark.parametrize("name", [
    "observation", "following", "compared", "policy", "value", "prefix", "alive", "weight", "age",
])  # fmt: skip
def test_a_batch_with_a_wrong_shape_is_refused(variables, name):
    batch, config = make_batch(), LearnerConfig(unroll=STEPS)
    assert_batch(batch, 3)
    wrong = batch._replace(**{name: getattr(batch, name)[..., None]})
    with pytest.raises(AssertionError, match=r"(shape|rank) compatibility"):
        jax.eval_shape(lambda: efficientzero_loss(MODEL, variables, wrong, config))


def test_a_model_that_sees_queues_is_shown_those_of_each_state():
    model, batch = oracle.small_model(sees_queue=True), make_batch(seed=5)
    queue = oracle.random_queues(1, SAMPLES, STEPS + 1, 2)
    assert all((queue.mask[:, k] != queue.mask[:, k + 1]).any() for k in range(STEPS))
    variables = oracle.random_variables(model, jnp.zeros((1, STACK, 3)), queue=2)

    seen = [seen_after(batch, k) for k in range(STEPS)]

    @oracle.quick_jit
    def similarity(variables, batch):
        return unroll_model(
            InTraining(model, variables), batch, LearnerConfig(prefix_horizon=2)
        ).similarity

    @oracle.quick_jit
    def slow(variables, batch):
        bound = model.bind(variables)

        def at(k):
            return jax.tree.map(lambda x: x[:, k], batch.queue)

        latent, found = bound.represent(batch.observation, at(0)), []
        for k in range(STEPS):
            latent = bound.step(latent, batch.action[:, k])
            real = bound.project(bound.represent(seen[k], at(k + 1)))
            imagined = bound.predict_projection(bound.project(latent))
            lengths = jnp.linalg.norm(real, axis=-1) * jnp.linalg.norm(imagined, axis=-1)
            found.append(jnp.sum(real * imagined, axis=-1) / lengths)
        return jnp.stack(found)

    batch = batch._replace(queue=queue)
    expected = slow(variables, batch)
    wanted = np.take_along_axis(np.asarray(expected), batch.compared.T, axis=0)
    np.testing.assert_allclose(similarity(variables, batch), wanted, rtol=1e-3, atol=1e-4)
    empty = batch._replace(queue=oracle.emptied(queue))
    assert (np.abs(slow(variables, empty) - expected) > 1e-3).any(axis=1).all()


def test_comparing_some_steps_is_comparing_all_on_average(variables):
    batch = make_batch()
    (total, output), whole = loss_and_gradient(variables["params"], batch)
    choices = [
        batch._replace(compared=batch.compared[:, some], following=batch.following[:, some])
        for some in ([0, 2], [1, 0], [2, 1])  # after other steps of each sample
    ]
    parts = [loss_and_gradient(variables["params"], choice) for choice in choices]
    assert np.mean([part[0][0] for part in parts]) == pytest.approx(float(total), rel=1e-5)
    mean = jax.tree.map(lambda *gradients: np.mean(gradients, axis=0), *(part[1] for part in parts))
    for got, expected in zip(jax.tree.leaves(mean), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
    cosines = [float(part[0][1].metrics["consistency/cosine"]) for part in parts]
    assert min(cosines) < float(output.metrics["consistency/cosine"]) < max(cosines)
    assert abs(parts[0][0][0] - parts[1][0][0]) > 1e-4


def test_everything_is_normalised_by_its_batch():
    """By running statistics the real latents lose what they tell apart, and the model learns it."""
    model, rng = oracle.small_model("conv"), np.random.default_rng(0)
    batch = make_batch()._replace(
        observation=rng.random((SAMPLES, STACK, 10, 10, 2)) < 0.3,
        following=rng.random((SAMPLES, STEPS, STACK, 10, 10, 2)) < 0.3,
    )
    variables = oracle.random_variables(model, batch.observation)
    config = LearnerConfig(unroll=STEPS)

    @oracle.quick_jit
    def loss(statistics, batch):
        found, _ = efficientzero_loss(
            model, {**variables, "batch_stats": statistics}, batch, config
        )
        return found

    other = jax.tree.map(lambda x: 3 * x + 1, variables["batch_stats"])
    assert loss(other, batch) == loss(variables["batch_stats"], batch)

    @oracle.quick_jit
    def real_and_slow(batch):
        stacks = batch.following.swapaxes(0, 1).reshape(-1, *batch.following.shape[2:])
        one, two = InTraining(model, variables), InTraining(model, variables)
        return real_latents(one, batch), two("represent", stacks), one.variables, two.variables

    got, wanted, *left = real_and_slow(batch)
    np.testing.assert_array_equal(got, wanted, "all compared states are one batch")
    assert oracle.leaves_equal(*left)
