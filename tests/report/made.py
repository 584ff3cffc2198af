"""Folders of runs as training leaves them, without training."""

import json
from dataclasses import asdict

import numpy as np

from delayzero.settings import changed, compose

WARNING = "health/dead_units: the share of latent units that never change is 0.95; try less"


def make_run(
    folder,
    *,
    env="CartPole-v1",
    agent="dez",
    delay="walk:5",
    seed=0,
    level=100.0,
    finished=True,
    lines=12,
    command=None,
    warned=False,
    **settings,
):
    """Write a run; its scores are around ``level`` and grow with interactions."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    config = changed(compose(("cartpole",), agent), env=env, seed=seed, **settings)
    values = {**asdict(config), "delay": delay}
    (folder / "config.json").write_text(json.dumps(values))
    start = {
        "command": command or f"delayzero train cartpole --seed {seed}",
        "versions": {"commit": "0123456789abcdef", "device": "cpu"},
    }
    (folder / "starts.jsonl").write_text(json.dumps(start) + "\n")
    total = config.interactions
    made = [round(total * (i + 1) / (lines if finished else 2 * lines)) for i in range(lines)]
    written = []
    for i, interactions in enumerate(made):
        line = {"interactions": interactions, "updates": interactions // 2, "seconds": 2.0 * i}
        line["health/dead_units"] = 0.95 if warned else 0.1 + 0.1 * seed
        line["policy/target_entropy"] = 0.5
        line["selfplay/score"] = level * (i + 1) / lines + rng.normal()
        if warned:
            line["warnings"] = [WARNING]
        written.append(line)
        if i % 3 == 2:
            score = level * (i + 1) / lines + rng.normal()
            written.append({"interactions": interactions, "evaluation/score": score})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    if finished:
        scores = (level + rng.normal(size=4)).tolist()
        result = {
            **{"env": env, "agent": agent, "delay": delay, "seed": seed},
            **{"interactions": total + seed, "updates": total // 2, "scores": scores},
            **{"score": float(np.mean(scores)), "train_seconds": 60.0},
            "versions": start["versions"],
            "prediction": {
                "horizon": [1.0, 2.0, 3.0],
                "policy_agreement": [0.9 if agent == "dez" else 0.7, 0.8, None],
                "stale_policy_agreement": [0.6, 0.4, 0.3],
            },
        }
        (folder / "result.json").write_text(json.dumps(result))
    return folder
