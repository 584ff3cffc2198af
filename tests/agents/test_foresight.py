"""With a perfect model, acting under delay is acting at the state that the action meets."""

from dataclasses import dataclass, replace

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from delayzero.actions import ActionSpec
from delayzero.agents import Decision, Observed, PlanningAgent, RandomAgent
from delayzero.delays import RULES, DelayedExecutionVector, DelayedObservationVector
from delayzero.planning import Planner
from delayzero.playing import Player, delayed
from delayzero.playing.audit import Audit, MisalignedError
from delayzero.settings import DelaySettings, SearchConfig
from delayzero.spaces import Spaces

from ..made import no_queue
from ..planning.toys import TableModel

STATES, ACTIONS, ENVS = 40, 3, 4
SPEC = ActionSpec(ACTIONS)
RNG = np.random.default_rng(5)
TABLES = {
    "successor": RNG.integers(STATES, size=(STATES, ACTIONS)),
    "reward": RNG.normal(size=(STATES, ACTIONS)).astype(np.float32),
    "logits": RNG.normal(size=(STATES, ACTIONS)).astype(np.float32),
    "value": RNG.normal(size=STATES).astype(np.float32),
}


@dataclass(frozen=True)
class SeenTable(TableModel):
    """The known world, whose observations are its states."""

    actions: ActionSpec = SPEC

    def bind(self, variables):
        return replace(super().bind(variables), actions=self.actions)

    def represent(self, observation, queue=None):
        return self.roots(observation[:, -1, 0])


class Tables(gym.Env):
    """The same world; an episode takes some steps, a number that its seed draws."""

    observation_space = gym.spaces.Box(0, STATES, (1,), np.float32)
    action_space = gym.spaces.Discrete(ACTIONS)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._state, self._left = int(self.np_random.integers(STATES)), 12
        return np.array([self._state], np.float32), {}

    def step(self, action):
        reward = float(TABLES["reward"][self._state, action])
        self._state = int(TABLES["successor"][self._state, action])
        self._left -= 1
        return np.array([self._state], np.float32), reward, False, self._left == 0, {}


def player(law, rolls, **delays):
    config = SearchConfig(simulations=8, considered_actions=3).resolved(ACTIONS)
    planner = Planner(SeenTable(), config, discount=0.9, prefix_horizon=4)
    env = SyncVectorEnv([Tables] * ENVS, autoreset_mode=AutoresetMode.NEXT_STEP)
    settings = DelaySettings(law=law, **delays) if law else None
    return Player(
        PlanningAgent(planner, looks_ahead=rolls),
        delayed(env, settings),
        jax.random.key(0),
        stack=1,
        spaces=Spaces.of(env),
        explore=False,
        first_queue=delays.get("first_queue", "planned"),
    )


def played(law, rolls=True, steps=60, **delays):
    one = player(law, rolls, **delays)
    one.begin(3)
    return [one.step(TABLES)[0] for _ in range(steps)]


@pytest.fixture(scope="module")
def undelayed():
    """What the undelayed planner decides in each state."""
    decide = player(None, rolls=False)._agent.decide

    @jax.jit
    def search(tables, observed):
        return decide(tables, (), observed, jax.random.key(1), explore=False, progress=0.0)

    states = jnp.arange(STATES, dtype=jnp.float32).reshape(-1, 1, 1)
    _, decision = search(TABLES, Observed(states, jnp.zeros(STATES, bool), no_queue(STATES)))
    assert len(set(decision.action.tolist())) == ACTIONS, "not always the same"
    return decision.action.tolist()


def decisions(rows):
    """(decided, state that it met) of all decisions that an episode lasted for."""
    met = []
    for t, row in enumerate(rows):
        for i in range(ENVS):
            later = t + int(row.delay[i])
            episode = [rows[k].final[i] for k in range(t, min(later + 1, len(rows)))]
            if later < len(rows) and not any(episode):
                met.append((int(row.decided[i]), int(rows[later].observation[i, 0])))
    return met


@pytest.mark.parametrize("law", ["constant:0", "constant:5", "walk:5"])
def test_decisions_are_those_of_the_state_that_they_meet(law, undelayed):
    met = decisions(played(law))
    assert len(met) > 100
    assert all(action == undelayed[state] for action, state in met)


def test_who_takes_no_notice_decides_for_the_present(undelayed):
    rows = played("constant:5", rolls=False)
    now = [(int(a), int(s[0])) for r in rows for a, s in zip(r.decided, r.observation, strict=True)]
    assert all(action == undelayed[state] for action, state in now)
    assert not all(action == undelayed[state] for action, state in decisions(rows))


def test_the_first_queue_follows_the_policy_along_its_own_way():
    for row in (r for r in played("constant:5") if r.first.any()):
        for i in np.flatnonzero(row.first):
            state, planned = int(row.observation[i, 0]), []
            for _ in range(5):
                planned.append(int(np.argmax(TABLES["logits"][state])))
                state = int(TABLES["successor"][state, planned[-1]])
            assert row.queue.row(i) == planned


@pytest.mark.parametrize("rule", RULES)
def test_under_a_constant_delay_the_rule_does_not_matter(rule, undelayed):
    met = decisions(played("constant:3", rule=rule))
    assert len(met) > 100
    assert all(action == undelayed[state] for action, state in met)


@pytest.mark.parametrize(
    ("observation_law", "rule", "oldest"),
    [
        ("constant:2", "latest-generated", 2),
        ("walk:3", "latest-generated", 3),
        ("uniform:0-3", "lag-index", 3),
        ("uniform:0-4", "latest-arrival", 5),
    ],
)
@pytest.mark.parametrize("law", [pytest.param("constant:0", marks=pytest.mark.slow), "walk:4"])
def test_late_observations_are_rolled_to_the_state_that_the_action_meets(
    law, observation_law, rule, oldest, undelayed
):
    rows = played(law, observation_law=observation_law, observation_rule=rule, steps=120)
    assert max(row.age.max() for row in rows) >= oldest
    met = decisions(rows)
    assert len(met) > 100
    assert all(action == undelayed[state] for action, state in met)


@pytest.mark.parametrize("law", ["uniform:0-3", pytest.param("walk:3", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", RULES)
def test_late_observations_are_those_of_the_wrapper(law, rule):
    rows = played("walk:2", observation_law=law, observation_rule=rule, steps=50)
    env = SyncVectorEnv([Tables] * ENVS, autoreset_mode=AutoresetMode.NEXT_STEP)
    env = DelayedObservationVector(DelayedExecutionVector(env, "walk:2"), law, rule=rule)
    _, info = env.reset(seed=3)
    for row in rows:
        np.testing.assert_array_equal(row.age, info["observation_age"])
        for i in np.flatnonzero(row.first):
            planned = np.broadcast_to(row.planned[i], (ENVS, 2))
            env.env.set_initial_actions(planned, np.arange(ENVS) == i)
        *_, info = env.step(row.decided)


@pytest.mark.parametrize("first_queue", ["default", "random"])
def test_the_first_queue_is_planned_unless_settings_say_otherwise(first_queue):
    rows = played("constant:3", first_queue=first_queue, steps=200)
    planned = np.concatenate([row.planned[row.first] for row in rows if row.first.any()])
    assert len(planned) > 20
    if first_queue == "default":
        assert not planned.any()
    else:
        assert set(planned.ravel()) == set(range(ACTIONS))
        assert len(np.unique(planned, axis=0)) > 10
    check_all(rows)


def check_all(rows, **settings):
    """Audit rows from their beginning."""
    audit = Audit(ENVS, oldest=3, **settings)
    for row in rows:
        audit.check(row)


@pytest.mark.parametrize("law", [None, "constant:0", "constant:3", "walk:4", "uniform:0-4"])
def test_the_audit_finds_nothing_wrong(law):
    check_all(played(law))


@pytest.mark.parametrize(
    "reveal", ["before", pytest.param("after", marks=pytest.mark.slow), "never"]
)
@pytest.mark.parametrize("rule", RULES)
def test_the_audit_knows_every_rule(rule, reveal):
    settings = {"rule": rule, "reveal": reveal, "observation_law": "uniform:0-3"}
    rows = played("uniform:0-4", rolls=reveal == "before", **settings)
    check_all(rows, rule=rule, reveal=reveal)
    delays = np.concatenate([row.delay for row in rows])
    assert (delays == -1).all() if reveal == "never" else (delays.max() == 4)
    wrong = 0
    for t in range(20, 40):
        executed, i = rows[t].executed.copy(), 1
        executed[i] = (executed[i] + 1) % ACTIONS
        try:
            changed = [*rows[:t], rows[t]._replace(executed=executed)]
            check_all(changed, rule=rule, reveal=reveal)
        except MisalignedError:
            wrong += 1
        else:
            assert rows[t].final[i]
    assert wrong > 10


@pytest.mark.parametrize("wrong", [-1, 4])
def test_the_audit_finds_ages_that_cannot_be(wrong):
    rows = played("walk:2", observation_law="uniform:0-3")
    age = np.where(rows[30].final, 0, wrong)
    with pytest.raises(MisalignedError, match="the age of the observation is"):
        check_all([*rows[:30], rows[30]._replace(age=age)])


@dataclass(frozen=True)
class Counting(RandomAgent):
    """Carries the steps since the beginning of each episode, and decides by them."""

    def init_state(self, num_envs):
        return jnp.zeros(num_envs, jnp.int32)

    def decide(self, variables, state, observed, key, *, explore, progress):
        state = jnp.where(observed.first, 0, state + 1)
        return state, Decision(state % ACTIONS)


def test_the_state_of_an_agent_is_carried_saved_and_restored():
    def one():
        env = SyncVectorEnv([Tables] * ENVS, autoreset_mode=AutoresetMode.NEXT_STEP)
        settings = {"stack": 1, "spaces": Spaces.of(env), "explore": False}
        return Player(Counting(SPEC), delayed(env, None), jax.random.key(0), **settings)

    whole, again = one(), one()
    whole.begin(3)
    again.begin(3)
    for step in range(20):
        row, _ = whole.step(None)
        expected = np.where(row.final, row.decided, whole_steps(row, step) % ACTIONS)
        np.testing.assert_array_equal(row.decided, expected)
        again.step(None)
    state = jax.tree.map(np.array, again.state())
    again._carry = jax.tree.map(jnp.zeros_like, again._carry)
    again.restore(state)
    for _ in range(10):
        np.testing.assert_array_equal(whole.step(None)[0].decided, again.step(None)[0].decided)


def whole_steps(row, step):
    """Episodes take 12 steps, and one more row for their last observation."""
    return np.full(ENVS, step % 13)


def test_the_audit_tells_rules_apart():
    for rule in set(RULES) - {"fixed"}:  # whose delay is constant: to the others no difference
        rows = played("uniform:0-4", rule=rule)
        for other in set(RULES) - {rule}:
            with pytest.raises(MisalignedError):
                check_all(rows, rule=other)


@pytest.mark.parametrize("field", ["executed", "decided", "delay", "decision_time", "queue"])
def test_the_audit_finds_what_is_wrong(field):
    rows, wrong = played("walk:4"), 0
    for t in range(20, 40):
        audit = Audit(ENVS)
        value = np.array(rows[t].queue.action if field == "queue" else getattr(rows[t], field))
        if rows[t].final[1] or (field == "queue" and rows[t].delay[1] == 0):
            continue
        place = (1, 0) if field == "queue" else (1,)
        value[place] = (value[place] + 1) % (5 if field == "delay" else ACTIONS)
        value = rows[t].queue._replace(action=value) if field == "queue" else value
        changed = [*rows[:t], rows[t]._replace(**{field: value}), *rows[t + 1 :]]
        try:
            for row in changed:
                audit.check(row)
        except MisalignedError:
            wrong += 1
        else:
            assert field in ("decided", "delay"), "a dropped decision may be anything"
    assert wrong > 8


def test_the_audit_finds_first_queues_that_are_not_those_planned(monkeypatch):
    set_them = DelayedExecutionVector.set_initial_actions

    def wrong(self, actions, where):
        return set_them(self, (actions + 1) % ACTIONS, where)

    monkeypatch.setattr(DelayedExecutionVector, "set_initial_actions", wrong)
    with pytest.raises(MisalignedError, match="step 0 of its episode: the queue is"):
        Audit(ENVS).check(played("constant:3", steps=1)[0])


def test_first_queues_and_decisions_have_keys_of_their_own(monkeypatch):
    one, used = player("constant:3", True), []

    def watched(function, place):
        def call(*args, **options):
            key = args[place]
            parts = [key, *jax.random.split(key)]  # act and plan_first_queue split theirs in two
            used.extend(np.asarray(jax.random.key_data(part)).tobytes() for part in parts)
            return function(*args, **options)

        return call

    monkeypatch.setattr(one, "_act", watched(one._act, 5))
    monkeypatch.setattr(one, "_plan", watched(one._plan, 2))
    one.begin(3)
    begun = sum(one.step(TABLES)[0].planned is not None for _ in range(30))
    assert begun > 1
    assert len(used) == 3 * (30 + begun)
    assert len(set(used)) == len(used)


def test_a_players_state_goes_on_exactly():
    one, other = player("walk:4", True), player("walk:4", True)
    for p in (one, other):
        p.begin(3)
    for _ in range(20):
        one.step(TABLES)
        other.step(TABLES)
    state = jax.tree.map(np.array, other.state())
    other._carry = jax.tree.map(jnp.zeros_like, other._carry)
    other._pending = jax.tree.map(np.zeros_like, other._pending)
    other._first, other._scores = ~other._first, other._scores + 1
    other._delay, other._time = other._delay + 1, 0
    other.restore(state)
    for _ in range(20):
        for a, b in zip(
            jax.tree.leaves(one.step(TABLES)), jax.tree.leaves(other.step(TABLES)), strict=True
        ):
            np.testing.assert_array_equal(a, b)
