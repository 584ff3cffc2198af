"""Self-play in the actors of a Ray cluster, each with its share of the environments.

A round stays a round: all actors play the same number of steps with the same weights, and the next
round begins when all rows are there. After each round the head knows the state of every actor. One
that is lost in the next round is started again from there, on any node, and plays it once more: the
same rows, wherever and however often it is lost. Rows count when those of all actors have arrived.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import jax
import numpy as np

from delayzero.arguments import UsageError
from delayzero.campaigns.cluster import Share, connected, nodes_of
from delayzero.envs.make import function_of_id
from delayzero.playing import System
from delayzero.playing.actor import Acting, Rows, State, seed_of_environments
from delayzero.progress import say
from delayzero.settings import TrainConfig
from delayzero.spaces import Spaces
from delayzero.training.worker import Worker, merged, on_host

ATTEMPTS = 5
"""How often a round is begun with an actor that is lost in it again and again."""
PAUSE = 2.0
"""Seconds to wait for room in the object store."""


class RemoteActors:
    """The actors of a run, as one :class:`~delayzero.playing.actor.SelfPlay`."""

    def __init__(self, ray: Any, config: TrainConfig, spaces: Spaces) -> None:
        """Start them.

        Args:
            ray: The module, connected.
            config: The run, as it was typed.
            spaces: What the environments show and take.

        Raises:
            UsageError: The cluster has no room for them.
        """
        self._ray, self._config, self._spaces = ray, config, spaces
        share = Share(config.actor_gpus or None, config.actor_cores)
        room = sum(map(share.fits, nodes_of(ray)))
        if room < config.shares:
            raise UsageError(
                f"the cluster has room for {room} actors with {config.actor_cores:g} cores and "
                f"{config.actor_gpus:g} GPUs each, not for {config.shares}; type fewer --actors, a "
                f"smaller --actor-{'gpus' if config.actor_gpus else 'cores'}, or another --address"
            )
        if share.fits(ray.available_resources()) < config.shares:
            say("other work fills the cluster: the run begins when there is room for all actors")
        self._worker = ray.remote(Worker).options(
            num_cpus=share.cpus,
            num_gpus=share.gpus or 0,
            runtime_env={"env_vars": share.variables()},
            scheduling_strategy="SPREAD",
            max_restarts=0,  # a worker that Ray restarts would have forgotten where it was
        )
        self._actors = [self._start(k) for k in range(config.shares)]
        self._new = set(range(config.shares))
        self._states: list[State] = []

    @property
    def interactions(self) -> int:
        """Steps of all environments so far."""
        return sum(int(arrays["interactions"]) for arrays, _ in self._states)

    def acting(self, variables: Any) -> Acting:
        """Let the actors compile; nothing of it is called here."""
        count, shapes = self._config.envs, self._call("prepare", variables)[0]
        whole = jax.tree.map(lambda x: jax.ShapeDtypeStruct((count, *x.shape[1:]), x.dtype), shapes)
        return Acting([], whole)

    def begin(self, seed: int) -> None:
        """Reset the environments, abandoning the episodes in progress.

        What actors have played since the last known state does not count.
        """
        self._new = set(range(self._config.shares))
        self._states = self._call("begin", seed)

    def play(self, variables: Any, count: int, progress: float) -> Rows:
        """Play a number of steps with all actors."""
        weights, begun_again = self._put(jax.device_get(variables)), False
        reports = self._call("play", weights, count, progress)
        while any(report is None for report in reports):
            say(
                "environments of a lost actor did not come back to where they were: episodes in "
                "flight are restarted"
            )
            self.begin(seed_of_environments(self._config, self.interactions))
            begun_again = True
            reports = self._call("play", weights, count, progress)
        self._states = [
            _after(state, report.state) for state, report in zip(self._states, reports, strict=True)
        ]
        by_step = zip(*(report.endings for report in reports), strict=True)
        endings = [list(chain.from_iterable(shares)) for shares in by_step]
        return Rows(merged([report.steps for report in reports]), endings, begun_again)

    def state(self) -> State:
        """Return the states of all actors."""
        arrays = {f"actor{k}": arrays for k, (arrays, _) in enumerate(self._states)}
        return arrays, [numbers for _, numbers in self._states]

    def example(self, numbers: Any) -> dict[str, Any]:
        """Return arrays with the shapes of those of a state with these numbers."""
        return {f"actor{k}": one for k, one in enumerate(self._call("example", numbers))}

    def restore(self, state: State, see: Callable[[Any], Any] | None = None) -> bool:
        """Continue from a :meth:`state`; each actor plays its actions again."""
        assert see is None, "checkpoints of remote self-play have the frames"
        arrays, numbers = state
        self._states = [
            (on_host(arrays[f"actor{k}"]), numbers[k]) for k in range(self._config.shares)
        ]
        self._new = set(range(self._config.shares))
        return all(self._call("restore"))

    def rebuilds(self, rows: int) -> bool:
        """Return False: the observations of all steps are not sent again."""
        return False

    def _start(self, share: int) -> Any:
        """Return a new actor, which starts when a node has room for it."""
        config = self._config
        make = function_of_id(config.env)
        return self._worker.remote(config, self._spaces, share, os.getcwd(), make)

    def _call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of all actors; those that are lost are started again, and called again.

        Raises:
            UsageError: One is lost again and again.
        """
        losses: Counter[int] = Counter()
        calls = {self._submit(k, method, arguments): k for k in range(len(self._actors))}
        results = {}
        while calls:
            (done, *_), _ = self._ray.wait(list(calls))
            k = calls.pop(done)
            try:
                results[k] = self._ray.get(done)
                self._new.discard(k)
            except self._ray.exceptions.RayError as error:
                losses[k] += 1
                self._replace(k, _reason(self._ray, error), losses[k])
                calls[self._submit(k, method, arguments)] = k
        return [results[k] for k in range(len(self._actors))]

    def _submit(self, share: int, method: str, arguments: Sequence[Any]) -> Any:
        start = self._states[share] if self._states and share in self._new else None
        return getattr(self._actors[share], method).remote(start, *arguments)

    def _replace(self, share: int, reason: str, losses: int) -> None:
        """Start a lost actor again.

        Whatever it has done since the last known state does not count: it may be alive, and only
        its rows be lost.
        """
        if losses == ATTEMPTS:
            raise UsageError(
                f"actor {share} was lost {losses} times in one round ({reason}); see the logs of "
                "Ray in /tmp/ray/session_latest/logs of its node; the same command resumes"
            )
        say(
            f"actor {share} was lost ({reason}); it starts again when a node has room. If the "
            "cluster is gone, Ray ends this command within a minute: the same one resumes"
        )
        self._ray.kill(self._actors[share])
        self._actors[share] = self._start(share)
        self._new.add(share)

    def _put(self, weights: Any) -> Any:
        """Put the weights into the object store, once for all actors.

        Raises:
            UsageError: The store stays full.
        """
        errors = self._ray.exceptions
        for _ in range(ATTEMPTS):
            try:
                return self._ray.put(weights)
            except (errors.ObjectStoreFullError, errors.OutOfDiskError):
                say("Ray's object store is full, and so is the disk; trying again")
                time.sleep(PAUSE)
        raise UsageError(
            "Ray's object store has no room for the weights, and the disk neither; free some, or "
            "start the cluster with a larger --object-store-memory; the same command resumes"
        )


@contextmanager
def remote_actors(config: TrainConfig, system: System) -> Iterator[RemoteActors]:
    """Start the actors of a run, on a cluster that exists or on a new one of this machine.

    Raises:
        MissingExtraError: Ray is not installed.
        UsageError: There is no cluster at the address, or it has no room.
    """
    with connected(config.address) as ray:
        yield RemoteActors(ray, config, system.spaces)


def _reason(ray: Any, error: Exception) -> str:
    """Return in a few words why an actor was lost; raise what its agent or environment raised."""
    errors = ray.exceptions
    if isinstance(error, errors.RayTaskError):
        if not isinstance(error.cause, errors.RayError):
            raise error.cause from error
        error = error.cause
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def _after(state: State, news: State) -> State:
    """Return the state after a round, with all actions, given that before it."""
    arrays, numbers = news
    actions = np.concatenate([state[0]["actions"], arrays["actions"]])
    return {**arrays, "actions": actions}, numbers
