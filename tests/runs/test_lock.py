import os
import platform

from delayzero.runs import lock

ME = f"process {os.getpid()} on {platform.node()}"


def test_a_lock_is_held_until_it_is_closed_and_says_by_whom(tmp_path):
    path = tmp_path / "lock"
    path.write_text("process 1 on a machine with a much longer name, which has ended")
    assert lock.is_free(path)
    with lock.take(path):
        assert lock.take(path) is None
        assert not lock.is_free(path)
        assert lock.holder(path) == ME
    assert lock.is_free(path)
    with lock.take(path):
        assert lock.holder(path) == ME


def test_a_lock_that_nobody_wrote_in(tmp_path):
    assert lock.holder(tmp_path / "none") == "unknown"
    (tmp_path / "empty").touch()
    assert lock.holder(tmp_path / "empty") == "unknown"
    assert lock.is_free(tmp_path / "no-folder" / "lock")


def test_a_full_disk_does_not_keep_a_process_from_locking(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock.os, "write", full)
    with lock.take(tmp_path / "lock"):
        assert not lock.is_free(tmp_path / "lock")
        assert lock.holder(tmp_path / "lock") == "unknown"
