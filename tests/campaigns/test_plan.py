from collections import Counter
from pathlib import Path

import pytest

from delayzero.arguments import UsageError
from delayzero.campaigns.plan import MOST_RUNS, plan_of, read_plan
from delayzero.delays.law import DelayError
from delayzero.evaluation.paper.tables import paper_score

SMALL = {
    "presets": ["cartpole", "debug"],
    "laws": ["walk:2"],
    "agents": ["dez", "undelayed"],
    "seeds": [1, 0],
}


def test_every_environment_law_agent_and_seed(tmp_path):
    plan = plan_of(
        "p", {**SMALL, "envs": ["CartPole-v1", "Acrobot-v1"], "laws": ["walk:2", "4g"]}, "p.toml"
    )
    runs = plan.runs(tmp_path)
    cells = [(r.config.seed, r.config.env, r.config.law, r.config.agent) for r in runs]
    assert [cell[0] for cell in cells] == [0] * 6 + [1] * 6, "seed by seed"
    assert cells[:3] == [
        (0, "CartPole-v1", "walk:2", "dez"),
        (0, "CartPole-v1", None, "undelayed"),
        (0, "CartPole-v1", "4g", "dez"),
    ], "without delay there is one run for all laws"
    assert runs[0].folder.path == tmp_path / "CartPole-v1-dez-walk-2-seed0-debug"
    assert runs[0].words[:4] == ("train", "cartpole", "debug", "--env")
    assert runs[0].words[-2:] == ("--folder", str(runs[0].folder.path))


def test_settings_of_groups_and_parts(tmp_path):
    parts = [
        {},
        {"agents": ["dez"], "settings": {"label": "large", "learner": {"batch-size": 32}}},
    ]
    common = {"log-every": 20, "max-steps": "None"}
    plan = plan_of("p", {**SMALL, "seeds": [0], "settings": common, "parts": parts}, "p.toml")
    first, _, large = plan.runs(tmp_path)
    assert (first.config.learner.batch_size, large.config.learner.batch_size) == (16, 32)
    assert first.config.log_every == large.config.log_every == 20
    assert first.config.max_steps is large.config.max_steps is None
    assert large.name.endswith("-large")
    words = " ".join(large.words)
    assert "--log-every 20 --max-steps None --label large --learner.batch-size 32" in words


def test_the_same_run_in_two_parts(tmp_path):
    twice = plan_of("p", {**SMALL, "parts": [{}, {"agents": ["dez"]}]}, "p.toml")
    assert len(twice.runs(tmp_path)) == 4
    other = {"agents": ["dez"], "settings": {"rows": 8}}
    plan = plan_of("p", {**SMALL, "parts": [{}, other]}, "p.toml")
    with pytest.raises(UsageError, match=r"run CartPole-v1-dez-.* with different settings; give"):
        plan.runs(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agnets": ["dez"]}, r"p.toml: unknown key 'agnets'; did you mean 'agents'\?"),
        ({"zzz": 1}, r"unknown key 'zzz'; settings go under \[settings\]; Keys are presets"),
        ({"parts": [{"seed": [0]}]}, r"p.toml, part 1: unknown key 'seed'; did you mean 'seeds'"),
        ({"parts": [{"gpus": 1}]}, r"part 1: unknown key 'gpus'"),
        ({"parts": 3}, r"write each part under a line \[\[parts\]\]"),
        ({"parts": []}, "the plan has no runs"),
        ({"laws": []}, r'laws is \[\]; write a list, such as laws = \["walk:15"\]'),
        ({"laws": "walk:2"}, "laws is 'walk:2'; write a list"),
        ({"laws": ["walk:2", 3]}, "laws has 3; it should be a text"),
        ({"seeds": [0, True]}, "seeds has True; it should be a whole number from 0"),
        ({"seeds": [-1]}, "seeds has -1; it should be a whole number from 0"),
        ({"agents": ["dezz"]}, "unknown agent 'dezz'; did you mean 'dez'"),
        ({"presets": ["cartpol"]}, "unknown preset 'cartpol'; did you mean 'cartpole'"),
        ({"gpus": 2}, "gpus is 2; it should be a number above 0, at most 1"),
        ({"gpus": True}, "gpus is True"),
        ({"cores": 1.5}, "cores is 1.5; it should be a whole number, at least 1"),
        ({"settings": 3}, r"write settings under a line \[settings\]"),
        ({"settings": {"seed": 3}}, "seed cannot be a setting of all runs; write the list seeds"),
        ({"settings": {"folder": "x"}}, "type --folder ROOT"),
        ({"settings": {"log-evry": 3}}, "unknown setting --log-evry; did you mean --log-every"),
        ({"settings": {"log-every": "3"}}, "--log-every is '3'; it should be a whole number"),
        ({"settings": {"learner": {"zzz": 3}}}, "unknown setting --learner.zzz"),
        (
            {"settings": {"--interactions": 300}},
            "setting '--interactions'; did you mean 'interactions'",
        ),
        ({"settings": {"-seed": 1}}, "unknown setting '-seed'; did you mean 'seed'"),
        ({"settings": {"help": "x"}}, "unknown setting --help"),
        ({"settings": {"tyro-print-completion": "x"}}, "unknown setting --tyro-print-completion"),
        ({"settings": {"log-every": 3, "log_every": 4}}, "setting --log-every is given twice"),
        (
            {"settings": {"learner": {"batch-size": 3}, "learner.batch_size": 4}},
            "setting --learner.batch-size is given twice",
        ),
    ],
)
def test_a_wrong_plan_says_what_to_write(changes, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        plan_of("p", {**SMALL, **changes}, "p.toml").runs(tmp_path)


@pytest.mark.parametrize("missing", SMALL)
def test_what_a_plan_must_have(missing):
    values = {key: value for key, value in SMALL.items() if key != missing}
    with pytest.raises(UsageError, match=f"{missing} is missing; write a list, such as {missing}"):
        plan_of("p", values, "p.toml")


def test_laws_are_checked_when_the_plan_is_read():
    with pytest.raises(DelayError, match="did you mean 'walk'"):
        plan_of("p", {**SMALL, "laws": ["wlak:2"]}, "p.toml")


def test_a_file_that_is_not_toml(tmp_path):
    for content in (b"laws = [", b"laws = '\xff'"):
        (tmp_path / "p.toml").write_bytes(content)
        with pytest.raises(UsageError, match=r"p.toml is not a TOML file: "):
            read_plan(str(tmp_path / "p.toml"))


@pytest.mark.parametrize(
    "content",
    [
        "seeds = " + 100_000 * "[",
        "seeds = " + 50 * "[" + 50 * "]",
        f"seeds{3_000 * '.a'} = 1",
        f"[settings]\na{3_000 * '.a'} = 1",
    ],
)
def test_a_plan_that_is_nested_too_deeply(content, tmp_path):
    (tmp_path / "p.toml").write_text(content)
    with pytest.raises(UsageError, match=r"p\.toml: lists or tables are nested too deeply"):
        read_plan(str(tmp_path / "p.toml"))


def test_a_plan_with_too_many_runs():
    few = {**SMALL, "agents": ["dez"], "seeds": list(range(MOST_RUNS))}
    assert plan_of("p", few, "p.toml").parts[0].count == MOST_RUNS
    with pytest.raises(UsageError, match=r"p\.toml: these are 20000 runs .* at most 10000; write"):
        plan_of("p", {**SMALL, "seeds": list(range(MOST_RUNS))}, "p.toml")
    with pytest.raises(UsageError, match=r"part 2: these are 10001 runs"):
        plan_of("p", {**few, "parts": [{}, {"seeds": [0]}]}, "p.toml")


def test_the_paper_has_every_cell_of_its_tables_and_the_large_delays(tmp_path):
    runs = read_plan("paper").runs(tmp_path)
    cells = Counter(
        (run.config.env.removeprefix("atari:"), run.config.law, run.config.agent) for run in runs
    )
    in_tables = {cell for cell in cells if paper_score(*cell) is not None}
    assert len(in_tables) == 270
    assert set(cells) - in_tables == {
        (game, law, "dez") for game in ("Asterix", "Hero") for law in ("walk:35", "walk:45")
    }
    assert set(cells.values()) == {4}, "seeds"
    assert {run.config.final_episodes for run in runs} == {32}


def test_narrowing_the_paper():
    plan = read_plan("paper")
    few = plan.narrowed(games=["asterix", "atari:Hero"], seeds=[0])
    assert len(few.runs(Path("x"))) == 2 * 6 * 3 + 4
    large = plan.narrowed(laws=["walk:45"])
    assert [part.envs for part in large.parts] == [("atari:Asterix", "atari:Hero")]
    with pytest.raises(UsageError, match=r"--games Astrix: .* did you mean 'atari:Asterix'\?"):
        plan.narrowed(games=["Astrix"])
    with pytest.raises(UsageError, match="no part of the plan paper has all of what you typed"):
        plan.narrowed(laws=["walk:45"], agents=["oblivious"])
