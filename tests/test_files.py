import json
import os

import pytest

from delayzero.arguments import UsageError
from delayzero.files import LONGEST_LINE, last_line, read_json, read_lines, write_json, write_whole
from delayzero.runs.curves import read_curve


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
