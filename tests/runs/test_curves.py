from delayzero.cli import main
from delayzero.runs.curves import draw, read_curve


def test_curves_of_odd_names_and_of_runs_without_scores(tmp_path, capsys):
    for name, content in (("_a", '{"interactions": 5, "evaluation/score": 2.0}\n'), ("empty", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(content)
    scored, empty = tmp_path / "_a", tmp_path / "empty"
    save = ["--save", str(tmp_path / "x.png")]
    assert main(["curves", str(scored), str(empty), *save]) == 0
    assert capsys.readouterr().err == f"warning: {empty} has no scores yet, and is left out\n"
    legend = draw([read_curve(scored)], "").axes[0].get_legend()
    assert [entry.get_text() for entry in legend.get_texts()] == ["_a"]
    assert main(["curves", str(empty), *save]) == 2
    assert f"{empty}: no scores yet" in capsys.readouterr().err
