"""Settings of older versions, and which code that stored settings name is trusted."""

from dataclasses import asdict, replace

import pytest

from delayzero.arguments import UsageError
from delayzero.settings import PlanningConfig
from delayzero.settings.stored import from_json, untrusted_code

LAW = "callback:stranger.late,max=3"
CODE = {"delay": LAW, "env": "stranger:Env-v0"}


@pytest.mark.parametrize("with_env", [False, True])
def test_code_that_nobody_typed(with_env):
    values = {**asdict(PlanningConfig()), **CODE}
    named = [LAW, "stranger:Env-v0"] if with_env else [LAW]
    assert untrusted_code(values, None, with_env=with_env) == named
    assert untrusted_code(values, PlanningConfig(), with_env=with_env) == named
    typed = replace(PlanningConfig(), env="stranger:Env-v0")
    assert untrusted_code(values, typed, with_env=with_env) == [LAW]


@pytest.mark.parametrize("env", ["CartPole-v1", "atari:Pong", "MinAtar:breakout"])
def test_settings_without_code(env):
    assert untrusted_code({"env": env, "delay": "walk:5"}, None, with_env=True) == []
    assert untrusted_code({"env": env, "delay": None}, None, with_env=True) == []


def test_models_that_were_rolled_are_read_and_direct_forecasters_are_not():
    values = asdict(PlanningConfig())
    former = {**values, "model": {**values["model"], "forecast": "roll"}}
    assert from_json(former) == from_json(values)
    former["model"]["forecast"] = "direct"
    with pytest.raises(UsageError, match=r"--model\.forecast direct, which this version"):
        from_json(former)
