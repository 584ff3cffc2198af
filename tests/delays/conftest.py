import pytest

from .examples import write_traces


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    return write_traces(tmp_path_factory.mktemp("traces"))
