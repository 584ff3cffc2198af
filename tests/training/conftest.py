import pytest

from delayzero.training import loop

from .mortal import mortal_in
from .small import SharedPrograms, small


@pytest.fixture(autouse=True)
def _compile_once(monkeypatch):
    monkeypatch.setattr(loop, "Programs", SharedPrograms)


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory):
    """The folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Programs", SharedPrograms)
        assert loop.train(small(folder), ["delayzero", "train", "two words"]).finished
    return folder


@pytest.fixture
def mortal(tmp_path, monkeypatch):
    """The current folder, with a module whose environments end or stop their process."""
    mortal_in(tmp_path, monkeypatch)
    return tmp_path
