"""Playing episodes and recording them moment by moment."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from delayzero.actions import Queue
from delayzero.agents import Decision, Observed, obstacle
from delayzero.arguments import UsageError
from delayzero.envs.make import UnsupportedEnvironment
from delayzero.envs.rendering import Picture, action_names
from delayzero.playing.environments import Delayed, delayed, make_env
from delayzero.playing.player import Player
from delayzero.playing.streams import STREAM_EVALUATION, STREAM_EVALUATION_ENVS, run_key, run_seed
from delayzero.playing.system import System
from delayzero.progress import Advance
from delayzero.replay import Step
from delayzero.settings import DelaySettings, LearningConfig, SearchingConfig
from delayzero.watching.course import Course
from delayzero.watching.frames import encoded
from delayzero.watching.moments import Ending, Episode, Moment

CHUNK = 32
"""Real states at which the agent is asked together."""


@dataclass(frozen=True)
class Subject:
    """A run to watch, under the delays that it is watched with."""

    run: Path
    system: System
    variables: Any
    delays: DelaySettings | None

    def check(self) -> None:
        """Check that the agent can act under these delays, which may be another run's.

        Raises:
            UsageError: It cannot.
        """
        name, delays = self.system.config.agent, self.delays
        if delays is None:
            return
        found = obstacle(self.system.agent, delays)
        if found == "hidden":
            raise UsageError(
                f"the agent '{name}' of {self.run} must know the delay of a decision before it "
                f"decides, and the other run hides it (--reveal {delays.reveal}); type the runs in "
                "the other order"
            )
        if found == "late":
            raise UsageError(
                f"the agent '{name}' of {self.run} cannot act on late observations, which the "
                "other run has; type the runs in the other order"
            )

    @property
    def law(self) -> str:
        """The delays in words."""
        delays = self.delays
        if delays is None:
            return "no delay"
        rule = "" if delays.rule == DelaySettings.rule else f", {delays.rule}"
        late = f", observations {delays.observation_law}" if delays.observation_law else ""
        return f"{delays.law}{rule}{late}"


class Played(NamedTuple):
    """What happened in an episode, as the environment tells it."""

    steps: list[Step]
    delays: list[int]
    """The true delay of each decision, also where the agent is never told."""
    frames: list[bytes]
    last: NDArray[Any]
    """The observation after the last step."""


def record(
    subject: Subject, episodes: int, seed: int, most: int, advance: Advance
) -> list[Episode]:
    """Play episodes, without exploration noise; those that an evaluation with this seed plays.

    Args:
        subject: The run.
        episodes: The number of episodes.
        seed: Of environments and delays, as for ``delayzero evaluate``.
        most: Steps of an episode after which its recording stops.
        advance: Called after each step, with 1 where an episode ended.

    Raises:
        UsageError: The agent cannot act under these delays.
        UnsupportedEnvironment: The environment has no pictures.
    """
    subject.check()
    system = subject.system
    limit = system.config.final_max_steps  # as an evaluation
    env = make_env(system.config, 1, training=False, max_steps=limit, render=True)
    with closing(env):
        names = action_names(env)
        stage = delayed(env, subject.delays)
        player = system.player(stage, run_key(seed, STREAM_EVALUATION), explore=False)
        first = run_seed(seed, STREAM_EVALUATION_ENVS)
        ask = functools.partial(_chosen_there, system, _compiled(system), subject.variables)
        recorded = []
        for number in range(episodes):
            player.begin(first + number, run_key(seed, STREAM_EVALUATION))
            played = _play(player, stage, subject.variables, most, advance)
            recorded.append(_episode(subject, played, names, number, ask(played)))
            advance(1, f"episode {number + 1}, score {recorded[-1].score:g}")
    return recorded


def _play(player: Player, stage: Delayed, variables: Any, most: int, advance: Advance) -> Played:
    """Play until the end of an episode, or ``most`` steps of it."""
    steps: list[Step] = []
    delays: list[int] = []
    frames, ended = [_frame(stage)], False
    while not ended and len(steps) < most:
        step, endings = player.step(variables)
        steps.append(step)
        delays.append(_delay(stage))
        frames.append(_frame(stage))
        ended = bool(endings)
        advance(0, f"step {len(steps)}")
    after, _ = player.step(variables)  # for the observation alone; what it runs is not recorded
    return Played(steps, delays, frames, after.observation[0])


def _delay(stage: Delayed) -> int:
    """The delay of the newest decision, whether or not the agent is told."""
    if stage.execution is None:
        return 0
    return int(stage.execution.delay_state()["channels"][0]["last_delay"])


def _frame(stage: Delayed) -> bytes:
    """The environment's picture now."""
    (shown,) = stage.env.render() or (None,)
    picture: Picture = np.asarray([] if shown is None else shown)
    if picture.ndim != 3 or picture.shape[-1] != 3 or not picture.size:
        form = "nothing" if shown is None else f"an array of shape {list(picture.shape)}"
        raise UnsupportedEnvironment(
            f"render() of the environment returned {form}; it should return [height, width, 3] of "
            "uint8"
        )
    return encoded(picture.astype(np.uint8))


def _compiled(system: System) -> Any:
    """How the agent decides where nothing is pending, for ``CHUNK`` stacks; None if it can't."""
    agent = system.agent
    if not isinstance(system.config, LearningConfig) or agent.queue_width is not None:
        return None  # at random, or by a network that must see the queue

    def choose(variables: Any, stack: Any) -> Decision:
        nothing = Queue(jnp.zeros((CHUNK, 0), jnp.int32), jnp.zeros((CHUNK, 0), bool))
        observed = Observed(stack, jnp.ones(CHUNK, bool), nothing)
        state, key = agent.init_state(CHUNK), jax.random.key(0)
        return agent.decide(variables, state, observed, key, explore=False, progress=1.0)[1]

    return jax.jit(choose)


class There(NamedTuple):
    """What the agent thinks of the states that really came, one for each time and the end."""

    actions: list[int] | None
    """What it chooses there with nothing pending."""
    last_value: float | None
    """The value of the last one."""


def _chosen_there(system: System, choose: Any, variables: Any, played: Played) -> There:
    """Ask the agent at every state that really came."""
    if choose is None:
        return There(None, None)
    frames = np.stack([*(step.observation[0] for step in played.steps), played.last])
    times = np.arange(len(frames))
    places = np.maximum(times[:, None] - np.arange(system.config.stack)[::-1], 0)  # [T + 1, S]
    actions: list[int] = []
    last_value = None
    for begin in range(0, len(frames), CHUNK):
        rows = np.minimum(np.arange(begin, begin + CHUNK), len(frames) - 1)
        decision = choose(variables, frames[places[rows]].astype(system.spaces.dtype))
        actions += np.asarray(decision.action).tolist()
        if decision.search is not None:
            last_value = float(decision.search.value[-1])  # of the last state, in the last chunk
    return There(actions[: len(frames)], last_value)


def _episode(
    subject: Subject, played: Played, names: tuple[str, ...], number: int, there: There
) -> Episode:
    """Put together what was decided, what ran, and what it led to."""
    steps, config = played.steps, subject.system.config
    planned = steps[0].planned
    course = Course(
        rule="latest-generated" if subject.delays is None else subject.delays.rule,
        first_queue=[] if planned is None else planned[0].tolist(),
        actions=[int(step.decided[0]) for step in steps],
        delays=played.delays,
    )
    ran = [int(step.decision_time[0]) for step in steps]
    assert ran == [sent.time for sent in course.ran()], "the environment ran something else"
    ending = _ending(steps[-1])
    returns = _returns(subject.system, steps, 0.0 if ending == "ended" else there.last_value)
    score = sum(float(step.reward[0]) for step in steps)
    return Episode(
        agent=config.agent,
        run=subject.run.resolve().name,
        env=config.env,
        law=subject.law,
        names=names,
        longest=course.longest,
        number=number,
        moments=tuple(_moments(subject, steps, course, there, returns)),
        frames=tuple(played.frames),
        score=score,
        ending=ending,
    )


def _ending(last: Step) -> Ending:
    if last.terminated[0]:
        return "ended"
    return "cut off" if last.truncated[0] else "goes on"


def _moments(
    subject: Subject,
    steps: Sequence[Step],
    course: Course,
    there: There,
    returns: Sequence[float] | None,
) -> Iterator[Moment]:
    dropped, repeated, met, score = course.dropped(), course.repeated(), course.met(), 0.0
    ahead = subject.system.agent.looks_ahead
    for time, step in enumerate(steps):
        delay, search, ran_at = course.delays[time], step.search, met[time]
        seen = time - int(step.age[0])
        target = time + delay if ahead else seen
        yield Moment(
            time=time,
            seen=seen,
            delay=delay,
            told=subject.delays is None or subject.delays.reveal == "before",
            lane=course.lane(time),
            dropped=dropped[time],
            repeated=repeated[time],
            action=course.actions[time],
            policy=None if search is None else tuple(np.asarray(search.policy[0]).tolist()),
            target=target,
            foreseen=None if search is None else float(search.value[0]),
            realised=None if returns is None or target >= len(steps) else returns[target],
            met=ran_at,
            there=None if there.actions is None or ran_at is None else there.actions[ran_at],
            reward=float(step.reward[0]),
            score=score,
        )
        score += float(step.reward[0])


def _returns(system: System, steps: Sequence[Step], last_value: float | None) -> list[float] | None:
    """The discounted return from each time, in the units in which the agent values states.

    Args:
        system: The run.
        steps: The episode.
        last_value: The value of the state after the last step; None if it is not known.

    Returns:
        None for agents that value no states, or where the last value is not known.
    """
    config = system.config
    if not isinstance(config, SearchingConfig) or last_value is None:
        return None
    value, returns = last_value, []
    for step in reversed(steps):
        reward = float(step.reward[0])
        following = 0.0 if step.life_lost[0] else value  # a lost life ends the return
        value = float(np.sign(reward)) if config.clip_rewards else reward
        value += config.discount * following
        returns.append(value)
    return returns[::-1]
