"""Playing environments and comparing what came back."""

from gymnasium.utils.env_checker import data_equivalence


def assert_equal(left, right):
    assert data_equivalence(left, right, exact=True), (left, right)


def rollout(env, actions, seed):
    """Play actions over several episodes; everything that came back."""
    trace = [env.reset(seed=seed)]
    for action in actions:
        result = env.step(action)
        trace.append(result)
        if result[2] or result[3]:
            trace.append(env.reset())
    return trace
