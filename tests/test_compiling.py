import jax
import jax.numpy as jnp
import pytest

from delayzero import compiling


@pytest.mark.parametrize("loops", [True, False])
def test_options_are_known_to_the_compiler(loops, monkeypatch):
    """JAX checks the names of options for all devices."""
    assert compiling.in_graphs(loops=loops) == {}
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    options = compiling.in_graphs(loops=loops)
    assert ("WHILE" in options[compiling.GRAPHS]) == loops
    lowered = jax.jit(lambda x: x + 1, compiler_options=options).lower(jnp.ones(3))
    lowered.compile()
    wrong = {name: f"{value},LOOP" for name, value in options.items()}
    with pytest.raises(Exception, match="LOOP"):
        lowered.compile(compiler_options=wrong)
