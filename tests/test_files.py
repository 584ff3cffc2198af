import errno
import json
import os
from pathlib import Path

import pytest

from delayzero.arguments import UsageError
from delayzero.cli import main
from delayzero.files import (
    LONGEST_LINE,
    append_line,
    check_out,
    last_line,
    make_folder,
    named,
    read_json,
    read_lines,
    write_json,
    write_whole,
)
from delayzero.runs.curves import read_curve


def test_what_a_file_cannot_replace(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for name, wrong in (
        *((".", "is a folder"), ("pipe", "is a device or a pipe")),
        ("file/a/b", "lies inside a file"),
    ):
        with pytest.raises(UsageError, match=f"--out {tmp_path / name} {wrong}; type "):
            check_out(tmp_path / name)
    check_out(tmp_path / "file")
    check_out(tmp_path / "new" / "file")


def test_places_where_one_may_not_write_are_refused_beforehand(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    for name in ("file", "new/file"):
        with pytest.raises(UsageError, match=f"you may not write to {tmp_path}"):
            check_out(tmp_path / name)
    (tmp_path / "old").mkdir()
    check_out(tmp_path / "old" / "file")


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    place = tmp_path / "result.json"
    write_json(place, {"score": 1})

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            write_whole(place, "something long")
    assert read_json(place, "") == {"score": 1}
    write_json(place, {"score": 2})
    assert read_json(place, "") == {"score": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_last_line_that_is_being_written_is_left_out(tmp_path):
    place = tmp_path / "metrics.jsonl"
    first = '{"interactions": 5, "selfplay/score": 2.0}'
    for rest in ("", '{"inter', '{"interactions": 9}', "\x00"):
        place.write_text(f"{first}\n{rest}")
        assert read_curve(tmp_path).selfplay == [(5, 2.0)]
        assert last_line(place, "") == {"interactions": 5, "selfplay/score": 2.0}
    place.write_text(f'{{"inter\n{first}\n')
    with pytest.raises(UsageError, match=r"metrics.jsonl is damaged; leave out its run"):
        read_curve(tmp_path)
    for nothing in ("", '{"inter'):
        place.write_text(nothing)
        assert read_lines(place, "") == []
        assert last_line(place, "") is None


def test_the_last_line_of_a_long_file(tmp_path):
    place = tmp_path / "metrics.jsonl"
    line = json.dumps({"interactions": 1, "noise": "é" * (LONGEST_LINE // 12)}) + "\n"
    assert LONGEST_LINE // 2 < len(line) < LONGEST_LINE
    place.write_text(line * 5 + '{"interactions": 2}\n' + line[:-1])
    assert last_line(place, "") == {"interactions": 2}
    place.write_text(line * 5 + "[\n")
    with pytest.raises(UsageError, match=r"metrics.jsonl is damaged; mend it"):
        last_line(place, "mend it")


@pytest.mark.parametrize("before", ["", '{"a": 1}\n', '{"a": 1}\n{"b', '{"b', "\x00\x00"])
def test_a_line_is_appended_to_whole_lines(before, tmp_path):
    place = tmp_path / "starts.jsonl"
    place.write_text(before)
    append_line(place, '{"c": 3}')
    whole = before[: before.rfind("\n") + 1]
    assert place.read_text() == whole + '{"c": 3}\n'
    assert read_lines(place, "")[-1] == {"c": 3}


def test_a_line_begins_a_file(tmp_path):
    append_line(tmp_path / "new", "{}")
    assert (tmp_path / "new").read_text() == "{}\n"


def test_folders_are_made_where_they_are_missing(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises((FileExistsError, NotADirectoryError)):
            make_folder(place)


@pytest.mark.parametrize("line", ["[]", "5", "null", '"x"'])
def test_a_line_that_is_no_object_is_damage(line, tmp_path):
    place = tmp_path / "starts.jsonl"
    place.write_text(line + "\n")
    for read in (read_lines, last_line):
        with pytest.raises(UsageError, match=r"starts\.jsonl is damaged; mend it"):
            read(place, "mend it")


def test_a_file_system_that_cannot_sync_folders(tmp_path, monkeypatch):
    fsync = os.fsync

    def refuse(handle):
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(22, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuse)
    write_json(tmp_path / "a.json", {"a": 1})
    assert read_json(tmp_path / "a.json", "") == {"a": 1}


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_the_old_file_and_no_half_of_the_new(tmp_path, monkeypatch):
    place = tmp_path / "result.json"
    write_json(place, {"score": 1})
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left") as told:
        write_json(place, {"score": 2})
    assert told.value.filename == str(place)
    assert read_json(place, "") == {"score": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_errors_name_a_file():
    with pytest.raises(FileNotFoundError) as told, named("this"):
        Path("that").read_text()
    assert told.value.filename == "that", "it had one already"
    with pytest.raises(PermissionError) as told, named("this"):
        raise OSError(errno.EACCES, "Permission denied")
    assert told.value.filename == "this"


def test_a_full_disk_is_told_with_what_to_do(monkeypatch, capsys):
    def fill(_):
        with named("there/a.json"):
            full_disk()

    monkeypatch.setattr("delayzero.runs.curves.main", fill)
    assert main(["curves"]) == 2
    assert capsys.readouterr().err == (
        "delayzero: error: there is no space left on the disk for 'there/a.json'; free some, and "
        "type the same command\n"
    )


def test_text_that_utf8_cannot_encode_is_written_all_the_same(tmp_path):
    write_whole(tmp_path / "page", "a\udcffb\ud800c\udcc3\udcbc")
    assert (tmp_path / "page").read_text("utf-8") == "a\ufffdb\ufffdcü"


@pytest.mark.parametrize("read", [read_json, read_lines, last_line])
def test_a_pipe_is_not_read(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=r"pipe is a device or a pipe; restore it$"):
        read(tmp_path / "pipe", "restore it")
