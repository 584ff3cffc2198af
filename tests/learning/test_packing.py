import jax
import jax.numpy as jnp
import numpy as np

from delayzero.learning.packing import SMALL, Packing


def test_a_tree_comes_back():
    rng = np.random.default_rng(0)
    tree = {
        "matrix": rng.normal(size=(3, 4)).astype(np.float32),
        "large": rng.normal(size=(SMALL + 1,)).astype(np.float32),
        "count": np.int32(7),
        "nothing": (),
        "number": np.float32(2.5),
        "half": jnp.ones(3, jnp.bfloat16),
        "largest of the small": rng.normal(size=(SMALL // 2, 2)).astype(np.float32),
    }
    packing = Packing(tree)
    packed = packing.pack(tree)
    assert packed.small.shape == (12 + 1 + SMALL,)
    assert len(packed.others) == 3
    again = packing.unpack(packed)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    for got, wanted in zip(jax.tree.leaves(again), jax.tree.leaves(tree), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_a_tree_without_small_arrays():
    packing = Packing([jnp.int32(3)])
    assert packing.unpack(packing.pack([jnp.int32(4)])) == [4]
