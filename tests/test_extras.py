import json
import subprocess
import sys

import pytest

from delayzero.extras import MissingExtraError, require


def test_an_installed_module_is_returned():
    assert require("json", "cli") is json


def test_a_missing_module_says_what_to_type():
    with pytest.raises(MissingExtraError) as caught:
        require("no_such_package.part", "cli")
    expected = "no_such_package is not installed; type: pip install 'delayzero[cli]'"
    assert str(caught.value) == expected
    assert isinstance(caught.value, ImportError)
    assert caught.value.name == "no_such_package"


def test_a_module_that_fails_to_import_another_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        require("half_installed", "cli")
    assert not isinstance(caught.value, MissingExtraError)
    assert caught.value.name == "no_such_package"


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("delayzero.delays", {"jax", "flax", "matplotlib", "rich", "torch"}),
        ("delayzero.delays.cli", {"jax", "flax", "matplotlib", "rich", "torch"}),
        ("delayzero.settings", {"jax", "flax", "optax", "mctx", "matplotlib", "rich", "torch"}),
        ("delayzero.cli", {"numpy", "gymnasium", "jax", "flax", "matplotlib", "rich", "torch"}),
    ],
)
def test_what_an_import_leaves_alone(module, unwanted):
    code = f"import sys, {module}; print(*sorted(name.partition('.')[0] for name in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert "delayzero" in loaded
    assert unwanted.isdisjoint(loaded)


WITHOUT_JAX = "import sys; sys.modules['jax'] = None\nfrom delayzero.cli import main; "


@pytest.mark.parametrize("verb", ["train", "evaluate", "compare", "demo"])
def test_without_jax_a_verb_says_what_to_type(verb):
    code = WITHOUT_JAX + f"main(['{verb}'])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.stderr == (
        "delayzero: error: jax is not installed; type: pip install 'delayzero[train]'\n"
    )


def test_the_demo_of_delays_needs_no_jax(tmp_path):
    words = ["delays", "demo", "--episodes", "1", "--save", str(tmp_path)]
    code = WITHOUT_JAX + f"main({words})"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert (tmp_path / "overview.png").exists()
