"""Models with the interface that a search uses, whose numbers are known in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

from delayzero.model import Prediction


class PlainSupport:
    """A scalar written as one number, half of it."""

    def decode(self, logits: Any) -> Any:
        return 2 * logits[..., 0]


def encoded(scalar: Any) -> Any:
    return scalar[..., None] / 2


def mix(state: Any, salt: Any) -> Any:
    """Scramble 32 bits; the same in numpy and in jax."""
    x = (state ^ salt) * np.uint32(0x9E3779B1)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x85EBCA77)
    x = (x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE3D)
    return x ^ (x >> np.uint32(16))


def unit(state: Any, salt: Any, xp: Any) -> Any:
    """A number in [0, 1), exact in float32."""
    return (mix(state, salt) >> np.uint32(8)).astype(xp.float32) / np.float32(2**24)


@dataclass(frozen=True)
class Numbers:
    """The figures of the pseudo-random world below, in numpy or in jax."""

    num_actions: int
    xp: Any

    def logits(self, state: Any) -> Any:
        columns = [unit(state, np.uint32(100 + a), self.xp) for a in range(self.num_actions)]
        return 5 * self.xp.stack(columns, axis=-1)

    def value(self, state: Any) -> Any:
        return 4 * unit(state, np.uint32(1), self.xp) - 2

    def reward(self, state: Any) -> Any:
        return unit(state, np.uint32(2), self.xp) - np.float32(0.5)

    def wobble(self, state: Any, steps: Any) -> Any:
        """A part of the prefix that shows how many steps it has, right or wrong."""
        return unit(state, np.uint32(1000) + steps.astype(self.xp.uint32), self.xp)

    def end_logit(self, state: Any) -> Any:
        return 12 * unit(state, np.uint32(3), self.xp) - 6

    def step(self, state: Any, action: Any) -> Any:
        return mix(state, action.astype(self.xp.uint32) + np.uint32(7))


@dataclass(frozen=True)
class HashModel:
    """A world where all numbers of a state come from hashing the actions that lead to it.

    Latents are ``[B]`` integers. The memory counts its steps and sums their rewards.
    """

    num_actions: int
    seed: Any = 0
    ends: bool = False

    @property
    def support(self) -> PlainSupport:
        return PlainSupport()

    @property
    def numbers(self) -> Numbers:
        return Numbers(self.num_actions, jnp)

    def bind(self, variables: Any) -> HashModel:
        return replace(self, seed=variables)

    def initial_memory(self, batch: int) -> Any:
        return jnp.zeros((batch, 1)), jnp.zeros((batch, 1))

    def predict(self, latent: Any) -> Prediction:
        state = latent ^ self.seed
        return Prediction(
            policy_logits=self.numbers.logits(state),
            value_logits=encoded(self.numbers.value(state)),
            end_logits=self.numbers.end_logit(state) if self.ends else None,
        )

    def step(self, latent: Any, action: Any) -> Any:
        return self.numbers.step(latent, action)

    def value_prefix(self, latent: Any, memory: Any) -> tuple[Any, Any]:
        state = latent ^ self.seed
        steps, total = memory[0] + 1, memory[1] + self.numbers.reward(state)[:, None]
        prefix = total[:, 0] + self.numbers.wobble(state, steps[:, 0])
        return encoded(prefix), (steps, total)


@dataclass(frozen=True)
class PlainHashModel:
    """The same world for the plain tree."""

    num_actions: int
    seed: int
    ends: bool = False

    @property
    def numbers(self) -> Numbers:
        return Numbers(self.num_actions, np)

    def _state(self, latent: Any) -> Any:
        return np.asarray([latent], np.uint32) ^ np.uint32(self.seed)

    def predict(self, latent: Any) -> tuple[list[float], float]:
        state = self._state(latent)
        return self.numbers.logits(state)[0].tolist(), float(self.numbers.value(state)[0])

    def step(self, latent: Any, action: int) -> Any:
        return self.numbers.step(np.asarray([latent], np.uint32), np.asarray([action]))[0]

    def prefix(self, latents: Any) -> float:
        total = sum(float(self.numbers.reward(self._state(x))[0]) for x in latents)
        wobble = self.numbers.wobble(self._state(latents[-1]), np.asarray([len(latents)]))
        return total + float(wobble[0])

    def end(self, latent: Any) -> float:
        if not self.ends:
            return 0.0
        return float(1 / (1 + np.exp(-self.numbers.end_logit(self._state(latent))[0])))


@dataclass(frozen=True)
class TableModel:
    """A deterministic world of ``S`` states that is known: tables, and sums of their rewards.

    Latents ``[B, 2]`` hold a state and the reward of the step that led there. The memory is the
    sum of rewards since it was zero, and their number. The tables are the variables: successor
    ``[S, A]``, reward ``[S, A]``, logits ``[S, A]``, value ``[S]`` and, for a model that predicts
    ends, the logit of an end in the step to each state, ``[S]``.
    """

    tables: Any = None

    @property
    def support(self) -> PlainSupport:
        return PlainSupport()

    def bind(self, variables: Any) -> TableModel:
        return replace(self, tables=SimpleNamespace(**variables))

    def initial_memory(self, batch: int) -> Any:
        return jnp.zeros((batch, 1)), jnp.zeros((batch, 1))

    def predict(self, latent: Any) -> Prediction:
        state = latent[:, 0].astype(jnp.int32)
        return Prediction(
            policy_logits=self.tables.logits[state],
            value_logits=encoded(self.tables.value[state]),
            end_logits=self.tables.end[state] if hasattr(self.tables, "end") else None,
        )

    def step(self, latent: Any, action: Any) -> Any:
        state = latent[:, 0].astype(jnp.int32)
        following = self.tables.successor[state, action].astype(jnp.float32)
        return jnp.stack([following, self.tables.reward[state, action]], axis=-1)

    def value_prefix(self, latent: Any, memory: Any) -> tuple[Any, Any]:
        total = memory[0] + latent[:, 1:]
        return encoded(total[:, 0]), (total, memory[1] + 1)

    @staticmethod
    def roots(states: Any) -> Any:
        states = jnp.asarray(states, jnp.float32)
        return jnp.stack([states, jnp.zeros_like(states)], axis=-1)
