"""What a search owes to each root of its batch: independence, masks, noise and temperature."""

import jax
import numpy as np
import pytest

from .runs import compiled
from .test_search import CASES, NOISELESS, masks, roots
from .toys import HashModel

METHODS = {"gumbel": "gumbel-6-16", "puct": "puct-6-16"}
ACTIONS = 6


def exploring(method):
    """A search of six actions with noise, from roots, masks, key and temperature."""
    num_actions, config = CASES[METHODS[method]]
    search = compiled(HashModel(num_actions), config.resolved(num_actions), True)

    def run(latents, invalid, seed=0, temperature=1.0):
        key, variables = jax.random.key(seed), np.uint32(5)
        result, _ = search(variables, key, latents, 0.9, 5, invalid, temperature)
        return jax.tree.map(np.asarray, result)

    return run


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", range(3))
def test_roots_do_not_touch(method, place):
    run, latents, invalid = exploring(method), roots(1), masks(1, ACTIONS)
    before = run(latents, invalid)
    others = [i for i in range(3) if i != place]
    other_latents, other_masks = latents.copy(), invalid.copy()
    other_latents[place] ^= 0xABCDEF
    other_masks[place] = [False, True, True, False, True, True]
    changes = [(other_latents, invalid), (latents, other_masks), (other_latents, other_masks)]
    for after in [run(*change) for change in changes]:
        assert np.any(after.policy[place] != before.policy[place])
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old[others], new[others])


@pytest.mark.parametrize("method", METHODS)
def test_invalid_actions_are_never_tried_or_taken(method):
    run, chosen = exploring(method), []
    for seed in range(20):
        invalid = masks(seed, ACTIONS)
        result = run(roots(seed), invalid, seed)
        assert np.all(result.visits[invalid] == 0)
        assert np.all(result.policy[invalid] == 0)
        assert not np.any(invalid[np.arange(3), result.action])
        np.testing.assert_array_equal(result.visits.sum(-1), 16)
        np.testing.assert_allclose(result.policy.sum(-1), 1, rtol=1e-5)
        chosen += result.action.tolist()
    assert len(set(chosen)) == ACTIONS


@pytest.mark.parametrize("method", METHODS)
def test_one_valid_action_is_taken(method):
    invalid = ~np.eye(ACTIONS, dtype=bool)[[1, 4, 5]]
    result = exploring(method)(roots(2), invalid)
    assert result.action.tolist() == [1, 4, 5]
    np.testing.assert_array_equal(result.policy, ~invalid)
    np.testing.assert_array_equal(result.visits, 16 * ~invalid)


@pytest.mark.parametrize("method", METHODS)
def test_without_valid_actions_all_numbers_are_finite(method):
    result = exploring(method)(roots(2), np.ones((3, ACTIONS), bool))
    assert all(np.all(np.isfinite(x)) for x in result)


@pytest.mark.parametrize("method", METHODS)
def test_keys_matter_while_exploring(method):
    run, invalid = exploring(method), np.zeros((3, ACTIONS), bool)
    visits = [run(roots(3), invalid, seed).visits for seed in range(4)]
    assert any(np.any(v != visits[0]) for v in visits[1:])
    np.testing.assert_array_equal(run(roots(3), invalid, 0).visits, visits[0])


@pytest.mark.parametrize("name", NOISELESS)
def test_keys_do_not_matter_without_noise(name):
    num_actions, config = NOISELESS[name]
    search = compiled(HashModel(num_actions), config.resolved(num_actions), False)
    results = [
        search(np.uint32(5), jax.random.key(seed), roots(4), 0.9, 5, None, temperature)[0]
        for seed, temperature in [(0, 1.0), (1, 1.0), (2, 0.1)]
    ]
    for other in results[1:]:
        jax.tree.map(np.testing.assert_array_equal, results[0], other)
    if config.method == "puct":
        np.testing.assert_array_equal(results[0].action, results[0].visits.argmax(-1))


def test_temperature_sharpens_the_choice_by_visits():
    run, invalid = exploring("puct"), np.zeros((3, ACTIONS), bool)
    agreement = {}
    for temperature in (10.0, 1.0, 0.25, 0.0):
        results = [run(roots(5), invalid, seed, temperature) for seed in range(40)]
        top = [r.visits[np.arange(3), r.action] == r.visits.max(-1) for r in results]
        agreement[temperature] = np.mean(top)
    assert agreement[10.0] < agreement[1.0] < agreement[0.25] <= agreement[0.0] == 1
