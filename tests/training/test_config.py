import json
from dataclasses import asdict, replace

import pytest

from delayzero.arguments import UsageError
from delayzero.settings import (
    AGENTS,
    PRESETS,
    LearnerConfig,
    ModelConfig,
    PlanningConfig,
    ReplayConfig,
    SearchConfig,
    UndelayedConfig,
    compose,
)
from delayzero.settings.stored import from_json, with_former_defaults

from .small import small


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", PRESETS)
def test_presets_compose_and_come_back_from_json(name, agent):
    for names in ([name], [name, "debug"]):
        config = compose(names, agent)
        assert type(config) is AGENTS[agent].settings
        assert from_json(json.loads(json.dumps(asdict(config)))) == config
        if AGENTS[agent].learns:
            assert config.random_interactions >= config.needed_at_start
    assert config.interactions < 300
    assert config.env == compose([name], agent).env


def test_settings_belong_to_their_agents():
    assert not hasattr(compose(["atari-paper"], "undelayed"), "delay")
    assert not hasattr(compose(["atari"], "delayed-q"), "discount")
    assert not hasattr(compose(["cartpole"], "random"), "update_ratio")
    assert compose(["atari-paper"], "random").delay == "walk:15"
    assert compose(["cartpole"], "delayed-q").batch_size == 64
    with pytest.raises(ValueError, match="UndelayedConfig is for the agents undelayed"):
        UndelayedConfig(agent="dez")


def test_settings_of_before_agents_had_their_own():
    """Every run used to have the settings of all agents."""
    everything = {name: asdict(compose(["cartpole"], name)) for name in AGENTS}
    everything["delayed-q"]["q"].pop("batch_size")
    old = {key: value for values in everything.values() for key, value in values.items()}
    old |= {"seed": 5, "discount": 0.9, "learner": old["learner"] | {"batch_size": 32}}
    for agent in AGENTS:
        config = from_json(old | {"agent": agent})
        assert type(config) is AGENTS[agent].settings
        assert (config.agent, config.seed) == (agent, 5)
    q = from_json(old | {"agent": "delayed-q"}).q
    assert (q.batch_size, q.discount) == (32, 0.99)
    run_discount = old | {"agent": "delayed-q", "q": old["q"] | {"discount": None}}
    assert from_json(run_discount).q.discount == 0.9


def test_presets_are_applied_in_their_order():
    assert compose([]) == PlanningConfig()
    assert compose(["debug", "cartpole"]).interactions == compose(["cartpole"]).interactions
    assert compose(["atari-paper"]).search.method == "puct"
    assert compose(["atari"]).clip_rewards
    assert compose(["cartpole"]).learner.td_age == 200
    assert compose(["minatar"]).learner.td_age is None


def test_the_published_learner_has_none_of_our_changes():
    ours, published = compose(["atari"]), compose(["atari-paper"])
    assert ours.learner.kernel_norm == 1.0
    assert published.learner.kernel_norm is None
    assert published.learner.normalise == "by_step"
    assert published.learner.td_age == 69_000
    assert published.learner.bootstrap == "network"
    assert published.learner.target_period == 200
    assert published.learner.consistency_steps is None
    assert published.learner.leads(25) == 0
    assert published.search.value == "visits"
    assert published.replay.weights == "relative"


def test_settings_by_their_former_names_are_read():
    values = json.loads(json.dumps(asdict(compose(["minatar"]))))
    values["memory"] = values.pop("memory_gigabytes")
    values["model"]["memory"] = values["model"].pop("lstm") + 1
    for name in ("rule", "reveal", "observation_delay", "observation_rule", "first_queue"):
        del values[name]
    config = from_json({**values, "memory": 3.5})
    assert config.memory_gigabytes == 3.5
    assert config.model.lstm == compose(["minatar"]).model.lstm + 1
    assert config.reveal == "before"


def test_runs_of_before_ends_could_be_predicted_have_absorbing_ones():
    values = json.loads(json.dumps(asdict(compose(["atari"]))))
    del values["model"]["ends"]
    assert from_json(values).model.ends == "absorbing"
    assert compose(["atari-paper"]).model.ends == "absorbing"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"envs": 8.5}, r"--envs is 8\.5; it should be a whole number"),
        ({"model": None}, "'model' is None; it should be a group of settings"),
        ({"learner": {"batch_size": "x"}}, "--learner.batch-size is 'x'"),
        ({"env": 3}, "--env is 3; it should be a text"),
    ],
)
def test_stored_values_of_a_wrong_type_are_refused(values, message):
    with pytest.raises(UsageError, match=message):
        from_json(values)


def test_unknown_presets_and_settings_are_refused_with_the_nearest():
    with pytest.raises(UsageError, match="unknown preset 'cartpol'; did you mean 'cartpole'"):
        compose(["cartpol"])
    with pytest.raises(
        UsageError, match=r"unknown setting 'interaction'; did you mean 'interactions'"
    ):
        from_json({"interaction": 3})
    with pytest.raises(UsageError, match=r"'learner.batchsize'.*mean 'learner.batch_size'"):
        from_json({"learner": {"batchsize": 3}})


@pytest.mark.parametrize(
    "changes",
    [
        {"envs": 0},
        {"rows": 0},
        {"stack": 0},
        {"interactions": 0},
        {"final_episodes": 0},
        {"log_every": 0},
        {"seed": -1},
        {"update_ratio": -0.1},
        {"tail_updates": -1},
        {"evaluate_every": -1},
        {"discount": 0.0},
        {"discount": 1.1},
        {"max_steps": 0},
        {"evaluate_max_steps": 0},
        {"final_max_steps": 0},
        {"evaluate_episodes": 0},
        {"checkpoint_minutes": 0.0},
        {"checkpoint_minutes": float("nan")},
        {"update_ratio": float("nan")},
        {"update_ratio": float("inf")},
        {"discount": float("nan")},
        {"interactions": 10**12},
        {"seed": 2**40},
    ],
    ids=lambda changes: "-".join(f"{k}-{v}" for k, v in changes.items()),
)
def test_what_cannot_be_is_refused_by_name(changes):
    (name,) = changes
    with pytest.raises(ValueError, match=f"^--{name.replace('_', '-')} is"):
        replace(PlanningConfig(), **changes)


def test_too_little_before_learning_is_refused():
    config = small()
    needed = config.needed_at_start
    assert needed == 2 * 16 + (2 + 3 + 1 + 1) * 4
    assert replace(config, random_interactions=needed).random_interactions == needed
    with pytest.raises(ValueError, match=f"type --random-interactions {needed}"):
        replace(config, random_interactions=needed - 1)
    with pytest.raises(ValueError, match=r"replay.capacity is 50"):
        replace(config, replay=replace(config.replay, capacity=50))


def test_checkpoints_may_be_left_out():
    assert PlanningConfig(checkpoint_minutes=float("inf")).checkpoint_minutes == float("inf")


def test_a_run_that_would_not_learn_is_refused():
    config = small()
    begin = config.random_interactions
    assert replace(config, interactions=begin + 1).interactions == begin + 1
    for few in (begin, begin - 1, 1):
        with pytest.raises(ValueError, match=rf"^--interactions is {few}, .*type --interactions"):
            replace(config, interactions=few)


def test_more_updates_than_can_be_counted_are_refused():
    with pytest.raises(ValueError, match=r"--update-ratio 1000000.0 makes 7000000000 updates"):
        PlanningConfig(update_ratio=1e6)


@pytest.mark.parametrize(("ratio", "due"), [(0.29, 29), (0.57, 57), (1.1, 110), (1e-5, 0)])
def test_updates_due_are_exact(ratio, due):
    config = PlanningConfig(update_ratio=ratio, random_interactions=1000)
    assert config.updates_due(1100) == due
    assert config.updates_due(1099) == max(0, due - 1 if ratio <= 1 else 108)


def test_updates_due():
    config = replace(
        PlanningConfig(learner=LearnerConfig(batch_size=8)),
        interactions=1000,
        random_interactions=300,
        update_ratio=0.3,
        tail_updates=5,
    )
    assert [config.updates_due(n) for n in (0, 299, 300, 303, 304, 310)] == [0, 0, 0, 0, 1, 3]
    assert config.updates_due(1000) == config.updates_due(1007) == 210
    assert config.total_updates == 215


def test_the_folder_is_named_after_the_run():
    config = PlanningConfig(env="atari:Pong", seed=3, delay="walk:5")
    assert config.run_folder == "runs/atari-Pong-dez-walk-5-seed3"
    config = UndelayedConfig(env="delayzero/Identity-v0")
    assert config.run_folder == "runs/delayzero-Identity-v0-undelayed-seed0"
    assert PlanningConfig(folder="here").run_folder == "here"


def test_a_debug_run_is_in_no_other_runs_way():
    config = replace(compose(["cartpole", "debug"]), seed=3)
    assert config.run_folder == "runs/CartPole-v1-dez-constant-0-seed3-debug"
    assert replace(config, folder="here").run_folder == "here"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ReplayConfig(weights="truncatd"), "--replay.weights is 'truncatd'"),
        (lambda: ModelConfig(action_code="onehot"), "--model.action-code is 'onehot'"),
        (lambda: SearchConfig(method="alpha"), "--search.method is 'alpha'"),
    ],
)
def test_words_are_checked_and_the_valid_ones_named(make, named):
    with pytest.raises(ValueError, match=f"{named}; it should be one of: "):
        make()


@pytest.mark.parametrize(
    ("env", "model", "code"),
    [
        ("atari:Pong", {"kind": "auto"}, "plane"),
        ("atari:Pong", {"kind": "conv"}, "one_hot"),
        ("atari:Pong", {}, "plane"),
        ("CartPole-v1", {"kind": "auto"}, "one_hot"),
        ("some/Images-v0", {"kind": "atari"}, "plane"),
    ],
)
def test_former_defaults(env, model, code):
    now = with_former_defaults({"env": env, "model": model})
    assert now["model"]["action_code"] == code
    assert now["replay"] == {"weights": "relative", "final_correction": 1.0}
    assert now["search"] == {"value": "visits"}
    kept = {"env": env, "model": {"action_code": "plane"}, "replay": {"weights": "truncated"}}
    kept["search"] = {"value": "policy"}
    assert with_former_defaults(kept)["search"]["value"] == "policy"
    assert with_former_defaults(kept)["model"]["action_code"] == "plane"
    assert with_former_defaults(kept)["replay"]["weights"] == "truncated"


@pytest.mark.parametrize("name", ["envs", "evaluate_episodes", "final_episodes"])
def test_environments_side_by_side_are_bounded(name):
    config = compose(["cartpole"], "random")
    assert getattr(replace(config, **{name: 4096}), name) == 4096
    with pytest.raises(ValueError, match=r"is 4097; it should be at least 1 and at most 4096"):
        replace(config, **{name: 4097})


def test_no_more_rows_to_predict_than_memory_holds():
    assert replace(PlanningConfig(), prediction_rows=10_000).prediction_rows == 10_000
    with pytest.raises(ValueError, match=r"^--prediction-rows is 10001; .* at most 10000$"):
        replace(PlanningConfig(), prediction_rows=10_001)
