"""Records of runs, and the page that compares them with the paper's tables."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from delayzero.cli import main
from delayzero.evaluation.paper.page import results_page
from delayzero.evaluation.paper.pictures import results_picture
from delayzero.evaluation.paper.records import read_records
from delayzero.evaluation.paper.tables import efficientzero_score, paper_score, reference
from delayzero.evaluation.stored import RECORD

GAMES = (
    *("Alien", "Amidar", "Assault", "Asterix", "BankHeist", "Boxing", "Gopher", "Hero"),
    *("MsPacman", "NameThisGame", "Qbert", "RoadRunner", "StarGunner", "TimePilot", "WizardOfWor"),
)


def test_every_cell_of_the_tables_is_there():
    for game in GAMES:
        scores = reference(game)
        assert scores is not None
        assert scores.human > scores.random
        for law in ("walk", "constant"):
            for longest in (5, 15, 25):
                for agent in ("dez", "oblivious", "oblivious-executed", "delayed-q"):
                    assert paper_score(game, f"{law}:{longest}", agent) is not None
    assert paper_score("Alien", "constant:5", "dez") == (993.25, 311.5)
    assert paper_score("Alien", "constant:5", "oblivious-executed").mean == 335.5
    for cell in (("Alien", "walk:7", "dez"), ("Pong", "walk:5", "dez"), ("Alien", "4g", "dez")):
        assert paper_score(*cell) is None
    assert paper_score("Alien", "walk:5", "augmented") is None
    assert reference("Pong") is None
    assert reference("RoadRunner").efficientzero == 17751.3
    assert reference("NameThisGame").efficientzero is None
    for law in ("constant:0", "none"):
        assert efficientzero_score("RoadRunner", law) == 17751.3
    for cell in (("RoadRunner", "walk:5"), ("NameThisGame", "none"), ("Pong", "none")):
        assert efficientzero_score(*cell) is None


def finished_run(
    folder,
    seed=0,
    scores=(100.0, 300.0),
    game="Alien",
    agent="dez",
    delay="walk:5",
    prediction=None,
    made_by=(("abc", "NVIDIA H200"), ("abc", "NVIDIA H200")),
    **settings,
):
    folder.mkdir(parents=True)
    result = {
        "env": f"atari:{game}",
        "agent": agent,
        "delay": delay,
        "seed": seed,
        "interactions": 130_011,
        "updates": 150_000,
        "scores": list(scores),
        "score": sum(scores) / len(scores),
        "train_seconds": 1000.0,
        "compile_seconds": 50.0,
        "seconds": {"updating": 800.0, "evaluating": 90.0},
        "evaluate_seconds": 60.0,
        "prediction": prediction,
        "peak_gigabytes": 4.9,
        "truncated": 3,
        "distinct": 20,
        "versions": dict(zip(("commit", "device"), made_by[-1], strict=True)),
    }
    (folder / "result.json").write_text(json.dumps(result))
    config = {"env": f"atari:{game}", "seed": seed, "folder": str(folder), **settings}
    (folder / "config.json").write_text(json.dumps(config))
    commands = [f"delayzero train {folder.name}", *["the same again"] * (len(made_by) - 1)]
    starts = [
        {"command": command, "versions": {"commit": commit, "device": device, "numpy": "2"}}
        for command, (commit, device) in zip(commands, made_by, strict=True)
    ]
    (folder / "starts.jsonl").write_text("".join(json.dumps(start) + "\n" for start in starts))
    lines = [
        {"interactions": 10_000, "evaluation/score": 50.0},
        {"interactions": 11_000, "selfplay/score": 40.0},
        {"interactions": 12_000, "selfplay/score": 45.0},
        {"interactions": 12_000, "selfplay/score": 45.0},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_from_runs_to_the_page(tmp_path, capsys):
    runs = [finished_run(tmp_path / f"run{seed}", seed, (100.0 * seed, 300.0)) for seed in (0, 1)]
    runs.append(finished_run(tmp_path / "other", agent="oblivious-executed", scores=(7.0, 9.0)))
    records, page = tmp_path / "records", tmp_path / "results.md"
    assert main(["results", "add", *map(str, runs), "--folder", str(records)]) == 0
    names = sorted(path.name for path in records.iterdir())
    assert names == [
        "Alien-dez-walk-5-seed0.json",
        "Alien-dez-walk-5-seed1.json",
        "Alien-oblivious-executed-walk-5-seed0.json",
    ]
    first = json.loads((records / names[0]).read_text())
    assert set(RECORD) <= set(first)
    assert first["wall_seconds"] == 960.0
    assert first["curve"] == [[10_000, 50.0], [130_011, 150.0]]
    assert first["selfplay"] == [[11_000, 40.0], [12_000, 45.0]]
    assert first["command"] == "delayzero train run0"
    assert main(["results", "table", str(records), "--out", str(page)]) == 0
    rows = [line for line in page.read_text().splitlines() if line.startswith("| Alien")]
    assert len(rows) == 2
    dez = [cell.strip() for cell in rows[0].strip("|").split("|")]
    paper = paper_score("Alien", "walk:5", "dez")
    assert dez[:8] == [
        *("Alien", "walk:5", "dez", "0, 1", "130 000", "150 000", "**175.0**", "35.4"),
    ]
    assert dez[8:] == [
        f"{paper.mean:.1f} ± {paper.std:.1f}",
        "808.5",
        "227.8",
        "7127.7",
        "16.0",
        "60",
        "NVIDIA H200",
    ]
    assert "(1.4)" in rows[1]
    assert "    delayzero train run1    # abc\n" in page.read_text()
    shown = re.search(r"!\[.*\]\((.*)\)", page.read_text())
    assert (page.parent / shown[1]).read_bytes().startswith(b"\x89PNG")


def test_one_episode_has_no_spread(tmp_path):
    run = finished_run(tmp_path / "run", scores=(7.0,))
    records, page = tmp_path / "records", tmp_path / "results.md"
    assert main(["results", "add", str(run), "--folder", str(records)]) == 0
    assert main(["results", "table", str(records), "--out", str(page)]) == 0
    assert "| **7.0** | (-) |" in page.read_text()


def test_the_page_in_the_documentation_is_up_to_date():
    """Mended by: delayzero results table."""
    root = Path(__file__).parents[2]
    stored = read_records(root / "results/atari")
    page = results_page(stored, "results/atari", "docs/results.md", "images/results.png")
    assert page == (root / "docs/results.md").read_text()


def test_the_picture_has_a_row_for_each_game_and_law(tmp_path):
    predicted = {"horizon": [1.0, 2.0], "policy_agreement": [0.9, 0.8]}
    predicted["stale_policy_agreement"] = [0.7, None]
    runs = {
        "one": {"scores": (100.0, 300.0), "prediction": predicted},
        "two": {"seed": 1, "scores": (0.0, 300.0)},
        "oblivious": {"agent": "oblivious-executed"},
        "unknown": {"game": "Pong"},
    }
    words = [str(finished_run(tmp_path / name, **options)) for name, options in runs.items()]
    main(["results", "add", *words, "--folder", str(tmp_path / "records")])
    figure = results_picture(read_records(tmp_path / "records"))
    alien, agreement, pong, nothing = figure.axes
    assert [a.get_title(loc="left") for a in (alien, pong)] == ["Alien, walk:5", "Pong, walk:5"]
    labels = [text.get_text() for text in alien.get_legend().get_texts()]
    assert labels == [
        *("dez", "dez, paper", "oblivious-executed", "oblivious, paper", "random play"),
    ]
    assert [text.get_text() for text in pong.get_legend().get_texts()] == ["dez"]
    curves = [line.get_xydata().tolist() for line in alien.lines if line.get_marker() == "o"]
    assert curves[0] == [[10_000, 50.0], [130_011, 200.0]]
    assert curves[1] == [[10_000, 50.0], [130_011, 150.0]]
    thin = [line.get_xydata().tolist() for line in alien.lines if line.get_linewidth() < 1]
    assert thin == [[[11_000, 40.0], [12_000, 45.0]]] * 3
    across = {line.get_label(): line.get_ydata()[0] for line in alien.lines}
    assert across["dez, paper"] == paper_score("Alien", "walk:5", "dez").mean
    assert across["random play"] == reference("Alien").random
    rolled, stale = agreement.lines
    np.testing.assert_array_equal(rolled.get_xydata(), [[1, 0.9], [2, 0.8]])
    np.testing.assert_array_equal(stale.get_xydata(), [[1, 0.7], [2, np.nan]])
    assert not nothing.axison


def test_undelayed_runs_are_compared_with_efficientzero(tmp_path):
    runs = [
        finished_run(tmp_path / game, game=game, delay="constant:0")
        for game in ("RoadRunner", "NameThisGame")
    ]
    main(["results", "add", *map(str, runs), "--folder", str(tmp_path / "records")])
    records = read_records(tmp_path / "records")
    page = results_page(records, "a", "b", "c")
    assert "| 17751.3 | 11.5 | 7845.0 |" in page
    assert "|  | 2292.3 | 8049.0 |" in page
    name, _, road, _ = results_picture(records).axes
    for axes, published in ((road, True), (name, False)):
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert ("EfficientZero, published" in labels) == published


def test_games_that_the_paper_does_not_play_have_gaps(tmp_path):
    main(
        [
            "results",
            "add",
            str(finished_run(tmp_path / "r", game="Pong")),
            "--folder",
            str(tmp_path),
        ]
    )
    page = results_page(read_records(tmp_path), "a", "b", "c")
    assert (
        "| Pong | walk:5 | dez | 0 | 130 000 | 150 000 | **200.0** | (141.4) |  |  |  |  | 16.0 |"
        in page
    )


def test_runs_with_other_settings_are_kept_apart(tmp_path, capsys):
    records = tmp_path / "records"

    def add(name, **options):
        run = finished_run(tmp_path / name, **options)
        return main(["results", "add", str(run), "--folder", str(records)])

    assert add("one", rows=8) == 0
    assert add("again", rows=8, scores=(1.0, 2.0)) == 0
    (kept,) = read_records(records)
    assert kept["scores"] == [1.0, 2.0]
    assert add("other", rows=4) == 2
    assert "records a run with different settings" in capsys.readouterr().err
    assert read_records(records) == [kept]
    assert add("another", rows=4, seed=1) == 0
    assert results_page(read_records(records), "a", "b", "c").count("| Alien |") == 2
    assert add("third", rows=8, seed=2) == 0
    assert results_page(read_records(records), "a", "b", "c").count("| Alien |") == 2


@pytest.mark.parametrize(("made_by", "shown"), [
    ([("0123456789", "A")], "0123456"),
    ([("0123456789*", "A")], "0123456*"),
    ([(None, "A")], "commit unknown"),
    ([("0123456789", "A"), ("abcdefabcd", "A"), ("abcdefabcd", "A")], "0123456, then abcdefa"),
    ([("0123456789", "A"), ("0123456789", "B")], "0123456 (A), then 0123456 (B)"),
])  # fmt: skip
def test_the_commits_and_devices_of_a_run_are_shown(made_by, shown, tmp_path):
    run = finished_run(tmp_path / "run", made_by=made_by)
    assert main(["results", "add", str(run), "--folder", str(tmp_path / "records")]) == 0
    records = read_records(tmp_path / "records")
    page = results_page(records, "a", "b", "c")
    assert page.endswith(f"    delayzero train run    # {shown}\n")
    assert records[0]["commit"] == made_by[-1][0]
    kept = {"peak_gigabytes": 4.9, "truncated": 3, "distinct": 20}
    assert kept.items() <= records[0].items()


def test_games_have_the_names_of_the_tables(tmp_path):
    run = finished_run(tmp_path / "run", game="ms_pacman")
    assert main(["results", "add", str(run), "--folder", str(tmp_path / "records")]) == 0
    (record,) = read_records(tmp_path / "records")
    assert record["game"] == "MsPacman"
    assert reference(record["game"]) is not None


@pytest.mark.parametrize(("words", "message"), [
    (["add", "nowhere"], "holds no finished run"),
    (["table", "nowhere"], "type: delayzero results add RUN"),
])  # fmt: skip
def test_missing_runs_and_records_are_errors(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["results", *words]) == 2
    assert message in capsys.readouterr().err


def changed_json(path, **values):
    """Change values in a JSON file; delete those that are ``...``."""
    before = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({k: v for k, v in before.items() if v is not ...}))


DAMAGED_RESULTS = [
    ({"scores": None}, "scores is None, not a list of 1 or more values"),
    ({"scores": []}, "scores is [], not a list of 1 or more values"),
    ({"scores": [1.0, None]}, "scores[1] is None, not a finite number"),
    ({"scores": [1.0, float("nan")]}, "scores[1] is nan, not a finite number"),
    ({"score": None}, "score is None, not a finite number"),
    ({"seconds": [1]}, "seconds is [1], not a group of values"),
    ({"seconds": {"evaluating": "x"}}, "seconds.evaluating is 'x', not a finite number"),
    ({"versions": {"commit": 5, "device": "A"}}, "versions.commit is 5, not a text"),
    ({"updates": ...}, "updates is missing"),
    ({"agent": "dezz"}, "agent is 'dezz', not one of dez, "),
    ({"prediction": {"horizon": [1], "x": [1, 2]}}, "prediction.x is [1, 2], not a list of 1 "),
]


@pytest.mark.parametrize(("values", "told"), DAMAGED_RESULTS)
def test_damaged_results_are_one_line(values, told, tmp_path, capsys):
    path = finished_run(tmp_path / "run") / "result.json"
    changed_json(path, **values)
    assert main(["results", "add", str(path.parent), "--folder", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is damaged: {told}" in line
    assert "; delete it, and type the run's command" in line


DAMAGED_RECORDS = [
    ({"scores": [None]}, "scores[0] is None, not a finite number"),
    ({"curve": [[1, 2], [3]]}, "curve[1] is [3], not a list of 2 values"),
    ({"selfplay": 5}, "selfplay is 5, not a list of values"),
    ({"starts": [{}]}, "starts[0].commit is missing"),
    ({"evaluate_seconds": {}}, "evaluate_seconds.final is missing"),
    ({"config": {"env": "CartPole-v1", "envs": "four"}}, "--envs is 'four'; it should be a whole"),
    ({"config": {"delay": "wlak:5"}}, "did you mean 'walk'?"),
    ({"config": None}, "config is None, not a group of values"),
]


@pytest.mark.parametrize(("values", "told"), DAMAGED_RECORDS)
def test_damaged_records_are_one_line(values, told, tmp_path, capsys):
    run, records = finished_run(tmp_path / "run"), tmp_path / "records"
    assert main(["results", "add", str(run), "--folder", str(records)]) == 0
    (path,) = records.iterdir()
    changed_json(path, **values)
    capsys.readouterr()
    for words in (["table", str(records)], ["add", str(run), "--folder", str(records)]):
        assert main(["results", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{path} is damaged: " in line
        assert told in line
        assert "; delete it, or restore a copy" in line


@pytest.mark.parametrize("name", ["result.json", "config.json", "starts.jsonl", "metrics.jsonl"])
@pytest.mark.parametrize("text", ["", "{", "[]\n", "null\n", "\x00\n", '{"a": 1}\n'])
def test_torn_files_of_a_run_are_one_line(name, text, tmp_path, capsys):
    run = finished_run(tmp_path / "run")
    (run / name).write_text(text)
    code = main(["results", "add", str(run), "--folder", str(tmp_path / "records")])
    whole = name == "metrics.jsonl" and not text.endswith("\n")  # no line is complete
    assert code == (0 if whole else 2)
    assert len(capsys.readouterr().err.splitlines()) == (not whole)


def test_a_record_without_evaluations_is_drawn(tmp_path):
    run, records = finished_run(tmp_path / "run"), tmp_path / "records"
    assert main(["results", "add", str(run), "--folder", str(records)]) == 0
    (path,) = records.iterdir()
    changed_json(path, curve=[])
    assert main(["results", "table", str(records), "--out", str(tmp_path / "page.md")]) == 0
