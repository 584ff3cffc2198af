"""Which code that stored settings name is trusted."""

from dataclasses import asdict, replace

import pytest

from delayzero.settings import PlanningConfig
from delayzero.settings.stored import untrusted_code

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
