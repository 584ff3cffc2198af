"""Evaluations of a run: on the way, and at the end with its result."""

from __future__ import annotations

import json
from typing import Any

import jax

from delayzero.evaluation.episodes import Evaluator, summary
from delayzero.evaluation.prediction import foresight_program, measure_foresight
from delayzero.files import write_json, write_whole
from delayzero.learning.devices import learner_devices
from delayzero.playing.streams import STREAM_PREDICTION, run_key
from delayzero.playing.system import System
from delayzero.progress import progress, say
from delayzero.runs.machine import versions
from delayzero.runs.run_folder import RunFolder
from delayzero.settings import SearchingConfig
from delayzero.training.learning import Learning
from delayzero.training.memory import peak_gigabytes
from delayzero.training.reporting import (
    Callbacks,
    Evaluation,
    Reporter,
    episodes_text,
    score_text,
)


class Evaluations:
    """Evaluates the weights of a run, and writes down the scores."""

    def __init__(
        self,
        system: System,
        folder: RunFolder,
        learning: Learning,
        reporter: Reporter,
        callbacks: Callbacks,
    ) -> None:
        self._system, self._folder, self._learning = system, folder, learning
        self._reporter, self._callbacks = reporter, callbacks
        self._evaluator: Evaluator | None = None
        config = system.config
        self._foresees = isinstance(config, SearchingConfig) and config.prediction_rows > 0
        self._foresight = foresight_program(system) if self._foresees else None
        self._key = run_key(config.seed, STREAM_PREDICTION)

    def on_the_way(self, interactions: int) -> None:
        """Evaluate during training."""
        config, learning, watch = self._system.config, self._learning, self._reporter.watch
        variables = learning.variables()
        with watch.measure("evaluating"):
            if self._evaluator is None:
                self._evaluator = Evaluator(
                    self._system, config.evaluate_episodes, max_steps=config.evaluate_max_steps
                )
            scores = summary(self._evaluator.play(variables, config.seed))
            values = {f"evaluation/{name}": value for name, value in scores.items()}
            if self._foresight is not None:
                key = jax.random.fold_in(self._key, learning.updates)
                quality = self._foresight(variables, learning.replay, key)
                values |= {f"prediction/{name}": curve for name, curve in quality.lists().items()}
        self._reporter.write_evaluation(interactions, values)
        say(
            f"{interactions} interactions, {learning.updates} updates: score "
            f"{score_text(scores)} over {episodes_text(scores)} ({watch.elapsed():.0f} s)"
        )
        self._call_back(interactions, scores, final=False)

    def conclude(self, interactions: int) -> None:
        """Evaluate at the end, and write the result."""
        config, learning, watch = self._system.config, self._learning, self._reporter.watch
        variables, trained = learning.variables(), watch.elapsed()
        evaluator = Evaluator(self._system, config.final_episodes, max_steps=config.final_max_steps)
        with progress("evaluate", config.final_episodes) as advance:
            episodes = evaluator.play(variables, config.seed, advance)
        evaluator.close()
        prediction = None
        if self._foresees:
            say("measuring how well the model foresees")
            prediction = measure_foresight(self._system, variables, config.seed)
        evaluated = watch.elapsed() - trained
        lines = [json.dumps(episode._asdict()) + "\n" for episode in episodes]
        write_whole(self._folder.episodes, "".join(lines))
        spent = self._reporter.spent()
        scores = summary(episodes)
        write_json(
            self._folder.result,
            {
                "env": config.env,
                "agent": config.agent,
                "delay": config.law,
                "seed": config.seed,
                "interactions": interactions,
                "updates": learning.updates,
                **scores,
                "scores": [episode.score for episode in episodes],
                "train_seconds": round(trained, 1),
                "compile_seconds": round(watch.compile_seconds, 1),
                "seconds": {name: round(seconds, 1) for name, seconds in spent.items()},
                "evaluate_seconds": round(evaluated, 1),
                "peak_gigabytes": peak_gigabytes(),
                "prediction": prediction,
                "versions": {**versions(config.env), "devices": learner_devices(config)},
            },
        )
        say(f"score {score_text(scores)} over {episodes_text(scores)}")
        say(f"{_times(trained, watch.compile_seconds, evaluated, spent)}; {self._folder.result}")
        self._call_back(interactions, scores, final=True)

    def _call_back(self, interactions: int, scores: dict[str, Any], *, final: bool) -> None:
        if self._callbacks.on_evaluation is not None:
            evaluation = Evaluation(interactions, self._learning.updates, scores, final)
            self._callbacks.on_evaluation(evaluation)

    def close(self) -> None:
        """Close the environments."""
        if self._evaluator is not None:
            self._evaluator.close()


def _times(trained: float, compiling: float, final: float, spent: dict[str, float]) -> str:
    """Return the whole time of a run, and its parts."""
    evaluating = spent["evaluating"] + final
    learning = spent["sweeping"] + spent["updating"]
    whole = trained + compiling + final
    other = whole - compiling - spent["acting"] - learning - evaluating
    parts = {
        "compiling": compiling,
        "acting": spent["acting"],
        "learning": learning,
        "evaluating": evaluating,
        "other": max(0.0, other),
    }
    named = ", ".join(f"{name} {seconds:.0f}" for name, seconds in parts.items())
    return f"{whole:.0f} s in all: {named}"
