import numpy as np
import pytest

from delayzero.tabular import FAMILIES, random_mdp
from delayzero.tabular.mdp import is_exact


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_seeds_give_equal_problems(family):
    one, same, other = (random_mdp(family, 4, 3, 5, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.transitions, same.transitions)
    np.testing.assert_array_equal(one.rewards, same.rewards)
    assert (one.transitions != other.transitions).any()


def test_families_are_what_they_say():
    def chances(family):
        return random_mdp(family, 5, 2, 5, 0).transitions

    assert set(np.unique(chances("deterministic"))) == {0.0, 1.0}
    assert ((chances("sparse") > 0).sum(axis=-1) == 2).all()
    assert (chances("dense") > 0).all()
    assert chances("slip").min() == pytest.approx(0.02)
    stay = np.einsum("sas->sa", chances("sticky"))
    assert set(np.round(np.unique(stay), 6)) <= {0.25, 1.0}


@pytest.mark.parametrize("family", ["deterministic", "slip", "sticky"])
def test_rational_problems_equal_the_floats(family):
    floats, fractions = (random_mdp(family, 3, 2, 4, 7, rational=r) for r in (False, True))
    assert is_exact(fractions.transitions)
    np.testing.assert_allclose(fractions.transitions.astype(float), floats.transitions)
    np.testing.assert_allclose(fractions.rewards.astype(float), floats.rewards)


def test_wrong_families():
    with pytest.raises(
        ValueError, match="unknown family of MDPs 'dens'; choose from deterministic"
    ):
        random_mdp("dens", 2, 2, 2, 0)
    with pytest.raises(ValueError, match="not rational"):
        random_mdp("dense", 2, 2, 2, 0, rational=True)
