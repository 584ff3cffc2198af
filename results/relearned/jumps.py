"""A model that takes several steps at once where it looks ahead; for ``relearn.py``.

Its *jumps* are a second dynamics, which takes N actions at once. Looking ahead, it jumps as often
as it can, and makes the rest of the way step by step: 3 jumps instead of 15 steps for N = 5.
Every second row of a batch comes by a jump to the state after the first N steps of its unroll, so
that all losses train the jumps; leads are made of jumps too.
"""

from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp

from delayzero.agents import planning as agents
from delayzero.learning import loss
from delayzero.learning.in_training import InTraining
from delayzero.model import WorldModel
from delayzero.model.layers import ConvNorm, ResidualBlock


class JumpDynamics(nn.Module):
    """Dynamics of latent images through several actions."""

    actions: int
    blocks: int
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, latent, actions, train):
        code = jax.nn.one_hot(actions, self.actions).reshape(len(latent), -1)
        x = ConvNorm(latent.shape[-1], dtype=self.dtype)(latent, train, code)
        x = nn.relu(x + latent)
        for _ in range(self.blocks):
            x = ResidualBlock(x.shape[-1], dtype=self.dtype)(x, train)
        return x


class JumpModel(WorldModel):
    """A world model with a second dynamics."""

    jumps: nn.Module | None = None
    length: int = 5

    def jump(self, latent, actions):
        """Predict the latents after ``actions`` ``[B, N]``."""
        return self._in_range(self.jumps(latent, actions, self.train))

    def everything(self, observation, action, queue=None):
        """Run every part once."""
        latent = self.represent(observation, queue)
        self.jump(latent, jnp.zeros((len(latent), self.length), jnp.int32))
        return super().everything(observation, action, queue)


def with_jumps(model, length, blocks):
    """Return a model like another one, with jumps of ``length`` steps."""
    if type(model) is not WorldModel:
        raise SystemExit(f"jumps are for a plain WorldModel, not for {type(model).__name__}")
    own = {name: getattr(model, name) for name in WorldModel.__dataclass_fields__}
    del own["parent"], own["name"]
    kind = JumpDynamics(model.actions.count, blocks, model.dtype)
    return JumpModel(**own, jumps=kind, length=length)


class Jumping(InTraining):
    """Comes to the state after N steps by a jump, in every second row."""

    def __init__(self, *inputs):
        super().__init__(*inputs)
        self.first, self.taken = None, []

    def __call__(self, method, *inputs):
        result = super().__call__(method, *inputs)
        if method == "step":
            self.first = inputs[0] if self.first is None else self.first
            self.taken.append(inputs[1])
            if len(self.taken) == self.model.length:
                jumped = super().__call__("jump", self.first, jnp.stack(self.taken, axis=1))
                every_second = jnp.arange(len(result)) % 2 == 0
                result = jnp.where(every_second[:, None, None, None], jumped, result)
        return result


def rolled(model, variables, latent, queue):
    """Roll latents through queues: jumps first, then the remaining steps."""
    bound, n, width = model.bind(variables), model.length, queue.width
    lengths = queue.mask.sum(axis=1)

    def where(moves, moved, still):
        return jnp.where(moves[:, None, None, None], moved, still)

    for first in range(0, width - n + 1, n):
        jumped = bound.jump(latent, queue.action[:, first : first + n])
        latent = where(first + n <= lengths, jumped, latent)
    for k in range(n - 1):
        place = lengths // n * n + k
        column = jnp.minimum(place, width - 1)[:, None]
        action = jnp.take_along_axis(queue.action, column, axis=1)[:, 0]
        latent = where(place < lengths, bound.step(latent, action), latent)
    return latent


def jump_everywhere():
    """Jump where a latent is rolled: in leads, while acting, and in the unroll of training."""
    loss.rolled_latents, agents.roll, loss.InTraining = rolled, rolled, Jumping


@flax.struct.dataclass
class Ahead:
    """A state on the way: the last one that was jumped to, and what has been done since."""

    now: Any
    base: Any
    done: Any
    steps: Any

    shape = property(lambda self: self.now.shape)

    def reshape(self, *shape):
        """Reshape the present latent."""
        return self.now.reshape(*shape)


class Looking:
    """A model whose steps are jumps where N of them have been taken, for ``foresight``."""

    def __init__(self, model, bound=None):
        self.model, self.bound, self.support = model, bound, model.support

    def bind(self, variables):
        """Bind the model."""
        return Looking(self.model, self.model.bind(variables))

    def represent(self, frames, queue=None):
        """Encode observations."""
        return self.begin(self.bound.represent(frames, queue))

    def begin(self, latent):
        """Return the first state of a way."""
        done = jnp.zeros((len(latent), self.model.length), jnp.int32)
        return Ahead(latent, latent, done, jnp.int32(0))

    def step(self, ahead, action):
        """Take one step, or the jump that it completes."""
        steps = ahead.steps + 1
        done = jnp.concatenate([ahead.done[:, 1:], action[:, None].astype(jnp.int32)], axis=1)
        complete = steps % self.model.length == 0
        jumped = self.bound.jump(ahead.base, done)
        now = jnp.where(complete, jumped, self.bound.step(ahead.now, action))
        return Ahead(now, jnp.where(complete, jumped, ahead.base), done, steps)

    def value_prefix(self, ahead, memory):
        """Predict the value prefix."""
        return self.bound.value_prefix(ahead.now, memory)

    def predict(self, ahead):
        """Predict policy and value."""
        return self.bound.predict(ahead.now)

    def project(self, ahead):
        """Project."""
        return self.bound.project(ahead.now)

    def predict_projection(self, projection):
        """Predict the projection."""
        return self.bound.predict_projection(projection)

    def initial_memory(self, count):
        """Return the first memory."""
        return self.bound.initial_memory(count)
