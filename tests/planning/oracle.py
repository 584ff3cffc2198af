"""Tree search in plain Python, for one root: nodes, lists of returns, loops. No arrays, no jax.

Written from the description of the two methods. Numbers are Python floats, so decisions agree with
those of a search in float32 unless two actions nearly tie: ``Tree.margin`` is the smallest lead
that any decision had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class Model(Protocol):
    """What a search asks of a model, one state at a time."""

    def predict(self, latent: Any) -> tuple[Sequence[float], float]:
        """Logits of the policy, and the value."""

    def step(self, latent: Any, action: int) -> Any:
        """The next latent."""

    def prefix(self, latents: Sequence[Any]) -> float:
        """The value prefix after all these latents, from an empty memory on."""

    def end(self, latent: Any) -> float:
        """The probability that the return ended with the step to this latent."""


class Found(NamedTuple):
    action: int
    policy: list[float]
    value: float
    visits: list[int]


@dataclass
class Node:
    latent: Any
    logits: list[float]
    network_value: float
    reward: float = 0.0
    """Of the step that leads here."""
    discount: float = 1.0
    """Of what follows that step."""
    trail: list[Any] = field(default_factory=list)
    """The latents from the root's child to here; their number is the depth."""
    children: dict[int, Node] = field(default_factory=dict)
    returns: list[float] = field(default_factory=list)
    """The network's value, and then every return found below."""

    @property
    def visits(self) -> int:
        return len(self.returns)

    @property
    def value(self) -> float:
        return sum(self.returns) / len(self.returns)

    @property
    def prior(self) -> list[float]:
        return softmax(self.logits)

    def tries(self, action: int) -> int:
        return self.children[action].visits if action in self.children else 0

    def all_tries(self) -> list[int]:
        return [self.tries(action) for action in range(len(self.logits))]


@dataclass
class Tree:
    """A tree that grows by one node at a time."""

    model: Model
    discount: float
    prefix_horizon: int
    floor: float
    whole_tree: bool
    root: Node = None  # type: ignore[assignment]
    nodes: list[Node] = field(default_factory=list)
    margin: float = math.inf

    def plant(self, latent: Any, logits: Sequence[float] | None = None) -> None:
        """Make the root, with other logits than the model's if they are given."""
        self.root = self._node(latent, [])
        if logits is not None:
            self.root.logits = [float(x) for x in logits]

    def depth(self) -> int:
        return max(len(node.trail) for node in self.nodes)

    def simulate(self, first: int, choose: Callable[[Node], int]) -> None:
        """Go down from an action of the root to a new node, and take its return back up."""
        path, action = [self.root], first
        while action in path[-1].children:
            path.append(path[-1].children[action])
            action = choose(path[-1])
        parent = path[-1]
        child = self._node(self.model.step(parent.latent, action), parent.trail)
        child.reward = self._reward(child.trail)
        child.discount = self.discount * (1 - self.model.end(child.latent))
        parent.children[action] = child
        gain, below = child.network_value, child
        for node in reversed(path):
            gain = below.reward + below.discount * gain
            node.returns.append(gain)
            below = node

    def _node(self, latent: Any, trail: list[Any]) -> Node:
        logits, value = self.model.predict(latent)
        node = Node(latent, [float(x) for x in logits], float(value))
        node.trail = [*trail, latent] if self.nodes else []
        node.returns = [node.network_value]
        self.nodes.append(node)
        return node

    def _reward(self, trail: list[Any]) -> float:
        """What the last step added to its value prefix, which begins every so many steps."""
        begin = (len(trail) - 1) // self.prefix_horizon * self.prefix_horizon
        segment = trail[begin:]
        before = self.model.prefix(segment[:-1]) if len(segment) > 1 else 0.0
        return self.model.prefix(segment) - before

    def q(self, node: Node, action: int) -> float:
        child = node.children[action]
        return child.reward + child.discount * child.value

    def scaled_q(self, node: Node, untried: float) -> list[float]:
        """Q of all actions, where those not tried have a value, by the range of Q."""
        actions = range(len(node.logits))
        own = [self.q(node, a) if a in node.children else untried for a in actions]
        known = list(own)
        if self.whole_tree:
            for other in self.nodes:
                known += [self.q(other, a) for a in other.children]
        low, high = min(known), max(known)
        return [(q - low) / max(high - low, self.floor) for q in own]

    def best(self, scores: dict[int, float]) -> int:
        """The action with the highest score; remembers by how little it won."""
        first, *rest = sorted(scores, key=lambda a: -scores[a])
        if rest:
            self.margin = min(self.margin, scores[first] - scores[rest[0]])
        return first


def softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    return [w / sum(weights) for w in weights]


def gumbel_search(
    tree: Tree,
    latent: Any,
    *,
    simulations: int,
    considered: int,
    gumbel: Sequence[float],
    q_scale: float,
    q_visits: float,
    noisy_logits: Sequence[float] | None = None,
    invalid: Sequence[bool] | None = None,
) -> Found:
    """Sequential halving at the root, the improved policy followed everywhere else."""

    def sigma(node: Node) -> list[float]:
        weight = (q_visits + max(node.all_tries())) * q_scale
        return [weight * q for q in tree.scaled_q(node, mixed_value(tree, node))]

    def improved(node: Node) -> list[float]:
        return softmax([x + s for x, s in zip(node.logits, sigma(node), strict=True)])

    def follow(node: Node) -> int:
        target, total = improved(node), sum(node.all_tries())
        return tree.best({a: p - node.tries(a) / (1 + total) for a, p in enumerate(target)})

    def best_of(actions: Sequence[int]) -> int:
        root, bonus = tree.root, sigma(tree.root)
        return tree.best({a: gumbel[a] + root.logits[a] + bonus[a] for a in actions})

    tree.plant(latent, noisy_logits)
    root = tree.root
    clean = [float(x) for x in tree.model.predict(latent)[0]]
    actions = range(len(clean))
    allowed = [a for a in actions if not (invalid and invalid[a])]
    root.logits = [x if a in allowed else -math.inf for a, x in enumerate(root.logits)]
    field_size = min(considered, len(allowed))
    phases = max(1, math.ceil(math.log2(field_size)))
    left, pool = simulations, allowed
    while left:
        # Who is in this phase shows in its first round: one by one, the best of those who were in
        # the phase before, by the scores of the moment.
        chosen: list[int] = []
        for turn in range(max(1, simulations // (phases * field_size))):
            waiting = list(pool) if turn == 0 else list(chosen)
            for _ in range(min(field_size, left)):
                action = best_of(waiting)
                waiting.remove(action)
                if turn == 0:
                    chosen.append(action)
                tree.simulate(action, follow)
                left -= 1
        pool, field_size = chosen, max(min(2, field_size), field_size // 2)
    most = max(root.all_tries())
    action = best_of([a for a in allowed if root.tries(a) == most])
    target = [x if a in allowed else -math.inf for a, x in enumerate(clean)]
    policy = softmax([x + s for x, s in zip(target, sigma(root), strict=True)])
    return Found(action, policy, root.value, root.all_tries())


def mixed_value(tree: Tree, node: Node) -> float:
    """The network's value, and the tried actions' mean Q by the prior, weighted by the tries."""
    if not node.children:
        return node.network_value
    prior, tries = node.prior, sum(node.all_tries())
    mass = sum(prior[a] for a in node.children)
    mean = sum(prior[a] * tree.q(node, a) for a in node.children) / mass
    return (node.network_value + tries * mean) / (1 + tries)


def value_under(tree: Tree, policy: Sequence[float]) -> float:
    """The mean Q of the root's actions under a policy; those not tried have the mixed value."""
    root, untried = tree.root, mixed_value(tree, tree.root)
    own = [tree.q(root, a) if a in root.children else untried for a in range(len(policy))]
    return sum(p * q for p, q in zip(policy, own, strict=True))


def puct_search(
    tree: Tree,
    latent: Any,
    *,
    simulations: int,
    c_init: float,
    c_base: float,
    noise: Sequence[float],
    fraction: float,
    invalid: Sequence[bool] | None = None,
) -> Found:
    """Value and prior everywhere; the root's prior has noise. The action is the most visited."""

    def prior_of(node: Node) -> list[float]:
        if node is not tree.root:
            return node.prior
        mixed = [(1 - fraction) * p + fraction * x for p, x in zip(node.prior, noise, strict=True)]
        allowed = [p if not (invalid and invalid[a]) else 0.0 for a, p in enumerate(mixed)]
        return [p / sum(allowed) for p in allowed]

    def choose(node: Node) -> int:
        n, q, prior = node.visits, tree.scaled_q(node, node.value), prior_of(node)
        weight = (math.log((n + c_base + 1) / c_base) + c_init) * math.sqrt(n)
        scores = {a: q[a] + weight * p / (node.tries(a) + 1) for a, p in enumerate(prior)}
        if node is tree.root and invalid:
            scores = {a: s for a, s in scores.items() if not invalid[a]}
        return tree.best(scores)

    tree.plant(latent)
    for _ in range(simulations):
        tree.simulate(choose(tree.root), choose)
    visits = tree.root.all_tries()
    policy = [n / sum(visits) for n in visits]
    return Found(visits.index(max(visits)), policy, tree.root.value, visits)
