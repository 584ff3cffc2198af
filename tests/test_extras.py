import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

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
        ("delayzero.campaigns.cli", {"jax", "flax", "matplotlib", "rich", "torch"}),
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


FIRST = {"train": ["cartpole"], "campaign": ["paper"], "watch": ["run"]}
WITHOUT_JAX = "import sys; sys.modules['jax'] = None\nfrom delayzero.cli import main; "


@pytest.mark.parametrize("command", ["train", "evaluate", "compare", "campaign", "demo", "watch"])
def test_without_jax_a_command_says_what_to_type(command):
    code = WITHOUT_JAX + f"main(['{command}', *{FIRST.get(command, [])}])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert told.stderr == (
        "delayzero: error: jax is not installed; type: pip install 'delayzero[train]'\n"
    )


def test_the_demo_of_delays_needs_no_jax(tmp_path):
    words = ["delays", "demo", "--episodes", "1", "--save", str(tmp_path)]
    code = WITHOUT_JAX + f"main({words})"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    assert (tmp_path / "overview.png").exists()


PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
PACKAGE = Path(__file__).parents[1] / "delayzero"


def distributions(extra):
    """The names of what an extra installs, those of extras that it includes among them."""
    names = set()
    for requirement in PROJECT["optional-dependencies"][extra]:
        if included := re.fullmatch(r"delayzero\[([\w,]+)\]", requirement):
            names |= {name for part in included[1].split(",") for name in distributions(part)}
        else:
            names.add(re.match(r"[\w.-]+", requirement)[0].lower())
    return names


def required():
    """(module, extra) of every call of ``require`` in the package."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                match node.args:
                    case [ast.Constant(value=module), ast.Constant(value=extra)]:
                        yield module, extra


def test_the_extra_named_in_an_error_installs_the_module():
    calls = set(required())
    assert {("matplotlib.figure", "cli"), ("ale_py", "atari")} <= calls
    for module, extra in calls:
        package = module.partition(".")[0]
        name = {"PIL": "pillow"}.get(package, package.replace("_", "-"))
        assert name in distributions(extra), (module, extra)


def test_help_of_training_needs_the_extra_cli_alone():
    assert "tyro" in distributions("cli")
    assert distributions("cli") < distributions("train") < distributions("dev")
