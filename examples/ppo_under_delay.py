"""PPO under delay: an agent that observes the pending actions beside one that does not.

    pip install delayzero stable-baselines3
    python examples/ppo_under_delay.py --seed 0

Trains two PPO agents on CartPole under the same delay law and evaluates both under that law. As in
training, the delay goes on from one episode to the next. The best possible score is 500.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from importlib.metadata import version
from pathlib import Path

import gymnasium as gym
from stable_baselines3 import PPO

from delayzero.delays import DelayedExecution

POLICIES = {"pending": "MultiInputPolicy", "plain": "MlpPolicy"}
EVALUATION_SEED = 1000
PACKAGES = ("stable-baselines3", "torch", "gymnasium", "numpy")


def train(law: str, observe: str, steps: int, seed: int) -> PPO:
    """Train PPO with Stable-Baselines3's default hyperparameters."""
    env = DelayedExecution(gym.make("CartPole-v1"), law, observe=observe)
    agent = PPO(POLICIES[observe], env, seed=seed, device="cpu")
    return agent.learn(total_timesteps=steps)


def evaluate(agent: PPO, law: str, observe: str, episodes: int) -> list[float]:
    """Return the score of each episode, with the agent's most likely actions."""
    env = DelayedExecution(gym.make("CartPole-v1"), law, observe=observe)
    scores = []
    env.reset(seed=EVALUATION_SEED)
    for _ in range(episodes):
        observation, _ = env.reset()
        score, ended = 0.0, False
        while not ended:
            action, _ = agent.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            score += float(reward)
            ended = terminated or truncated
        scores.append(score)
    return scores


def main() -> None:
    """Train, evaluate, and print a table; with ``--save``, append the scores to a file."""
    parser = argparse.ArgumentParser(description="PPO under delay, with and without the queue.")
    parser.add_argument("--law", default="walk:5", help="delay law (walk:5)")
    parser.add_argument("--steps", type=int, default=60_000, help="training steps (60000)")
    parser.add_argument("--seed", type=int, default=0, help="training seed (0)")
    parser.add_argument("--episodes", type=int, default=20, help="evaluation episodes (20)")
    parser.add_argument("--save", type=Path, help="append one JSON line per agent to this file")
    options = parser.parse_args()

    print(f"{options.law}, {options.steps} steps, seed {options.seed}")
    print(f"{'observe':<9}{'mean':>7}{'worst':>7}{'best':>7}   over {options.episodes} episodes")
    for observe in POLICIES:
        agent = train(options.law, observe, options.steps, options.seed)
        scores = evaluate(agent, options.law, observe, options.episodes)
        mean = statistics.fmean(scores)
        print(f"{observe:<9}{mean:>7.1f}{min(scores):>7.0f}{max(scores):>7.0f}", flush=True)
        if options.save is not None:
            run = {
                "command": f"python {' '.join(sys.argv)}",
                **{key: getattr(options, key) for key in ("seed", "steps", "law")},
                "observe": observe,
                "episodes": options.episodes,
                "scores": scores,
                "mean": mean,
                "versions": {package: version(package) for package in PACKAGES},
            }
            with options.save.open("a") as file:
                file.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
