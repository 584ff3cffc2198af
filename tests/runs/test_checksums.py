import errno
import os

import pytest

from delayzero.arguments import UsageError
from delayzero.runs.checksums import NAME, Checksums


def checkpoint(folder, step, size=3000):
    """A folder that looks like a checkpoint."""
    for name in ("learner/d/one", "learner/two", "replay/one", "_METADATA"):
        path = folder / str(step) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))


@pytest.fixture
def sums(tmp_path):
    found = Checksums(tmp_path)
    assert not found.kept
    found.begin([])
    checkpoint(tmp_path, 3)
    found.seal(3)
    return found


def test_what_was_sealed_is_complete_and_intact(sums, tmp_path):
    checkpoint(tmp_path, 5)
    assert sums.complete() == [3], "the other was never finished"
    sums.seal(5)
    assert sums.complete() == [3, 5]
    assert sums.damaged(3) is sums.damaged(5) is None


@pytest.mark.parametrize("place", [0, 1500, 2999])
@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_found(sums, tmp_path, place, bit):
    path = tmp_path / "3" / "learner" / "d" / "one"
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)
    assert sums.damaged(3) == "learner/d/one"
    assert sums.damaged(3, ["learner"]) == "learner/d/one"
    assert sums.damaged(3, ["replay"]) is None, "it is not read"


@pytest.mark.parametrize("length", [0, 1, 2999])
def test_files_that_were_cut_or_lost_are_found(sums, tmp_path, length):
    os.truncate(tmp_path / "3" / "_METADATA", length)
    assert sums.damaged(3, ["replay"]) == "_METADATA", "it belongs to all parts"
    (tmp_path / "3" / "_METADATA").unlink()
    assert sums.damaged(3) == "_METADATA"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_files_that_cannot_be_read_are_not_called_damaged(sums, tmp_path, monkeypatch, number):
    """Whoever takes a checkpoint for damaged may delete it."""

    def fail(path, **_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("delayzero.runs.checksums._digest", fail)
    with pytest.raises(OSError, match="3/_METADATA") as caught:
        sums.damaged(3)
    assert caught.value.errno == number


def test_checkpoints_that_were_deleted_are_forgotten(sums, tmp_path):
    for path in sorted((tmp_path / "3").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / "3").rmdir()
    assert sums.complete() == []
    checkpoint(tmp_path, 7)
    sums.seal(7)
    assert '"3"' not in (tmp_path / NAME).read_text()


def test_checkpoints_that_had_no_checksums_get_them(sums, tmp_path):
    """The file was lost, or an older version never wrote one."""
    before = (tmp_path / NAME).read_text()
    (tmp_path / NAME).unlink()
    sums.begin([3])
    assert (tmp_path / NAME).read_text() == before
    assert sums.complete() == [3], "a crash now leaves it complete"
    sums.begin([])
    assert (tmp_path / NAME).read_text() == before, "they are kept already"


@pytest.mark.parametrize("text", ['{"3": ', '{"3": null}', '{"x": {}}', '{"²": {}}', '{"-1": {}}'])
def test_damaged_checksums_are_one_line(text, sums, tmp_path):
    (tmp_path / NAME).write_text(text)
    with pytest.raises(UsageError, match=r"checksums\.json is damaged.*; restore a copy"):
        sums.complete()
