import os

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from delayzero.training import loop

from .small import CACHE, SharedPrograms, small


@pytest.fixture(scope="session")
def compile_cache(tmp_path_factory):
    """A folder of compiled programs, for all processes of these tests and those that they start."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = str(shared / "compiled")
    values = {"jax_compilation_cache_dir": folder, **CACHE}
    before = {name: getattr(jax.config, name) for name in values}
    for name, value in values.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield folder
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.fixture(autouse=True)
def _compile_once(compile_cache, monkeypatch):
    monkeypatch.setattr(loop, "Programs", SharedPrograms)


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory, compile_cache):
    """The folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Programs", SharedPrograms)
        assert loop.train(small(folder), ["delayzero", "train", "two words"]).finished
    return folder
