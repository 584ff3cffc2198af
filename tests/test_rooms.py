"""The order of the rooms: a module imports its own room and those above it, nothing below."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "delayzero"
ROOMS = (
    *("delays", "tabular", "envs", "settings", "model", "planning", "replay", "learning"),
    *("agents", "playing", "runs", "watching", "campaigns", "evaluation", "training", "report"),
)
TOOLS = (
    "actions",
    "arguments",
    "bounds",
    "extras",
    "files",
    "forms",
    "progress",
    "spaces",
    "words",
)
"""Modules beside the rooms, which import none of them."""
FRONT = ("__init__", "__main__", "api", "cli")
"""What users start; may import anything."""
WITHOUT_JAX = ("delays", "tabular", "envs", "settings")
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(path):
    """The modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            yield str(node.module)


def rooms_of(path):
    """The rooms and tools of this package that a file imports."""
    for name in imported(path):
        package, _, rest = name.partition(".")
        if package == "delayzero" and rest:
            yield rest.partition(".")[0]


def names(modules):
    return [str(path.relative_to(PACKAGE)) for path in modules]


@pytest.mark.parametrize("path", MODULES, ids=names(MODULES))
def test_a_module_imports_nothing_from_below_its_room(path):
    name = str(path.relative_to(PACKAGE))
    room = name.partition("/")[0].removesuffix(".py")
    if room in FRONT:
        return
    above = ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else ()
    wrong = {other for other in rooms_of(path) if other not in (*above, *TOOLS)}
    assert not wrong, f"{name} is in {room} and imports {sorted(wrong)}"


@pytest.mark.parametrize("room", WITHOUT_JAX)
def test_rooms_that_work_without_jax(room):
    heavy = {"jax", "jaxlib", "flax", "optax", "orbax", "mctx", "chex"}
    for path in (PACKAGE / room).rglob("*.py"):
        assert not heavy & {name.partition(".")[0] for name in imported(path)}, path


def test_the_rooms_are_listed_in_their_order():
    lines = (PACKAGE.parent / "CONTRIBUTING.md").read_text().splitlines()
    rows = [line.split("`")[1] for line in lines if line.startswith("| `delayzero/")]
    rows = [row for row in rows if row.endswith("/")]
    assert rows == [f"delayzero/{room}/" for room in ROOMS]


def test_every_room_and_every_tool_is_listed():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)
    assert {path.stem for path in PACKAGE.glob("*.py")} == {*TOOLS, *FRONT}
