"""``delayzero train --wandb``: sends metrics to Weights & Biases, by its ordinary client."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from delayzero.arguments import UsageError
from delayzero.extras import require
from delayzero.files import read_json, write_json
from delayzero.forms import text, with_keys
from delayzero.progress import say
from delayzero.settings import TrainConfig
from delayzero.training.reporting import Callbacks, Evaluation

PROJECT = "delayzero"
FILE = "wandb.json"
"""In the run's folder: the id by which a resumed run goes on there."""


class Tracking:
    """A run at Weights & Biases, which begins with the first line of metrics.

    The client's own variables (``WANDB_PROJECT``, ``WANDB_MODE``, ...) count. What goes wrong there
    after the beginning does not end the run.
    """

    def __init__(self, config: TrainConfig) -> None:
        """Import the client.

        Raises:
            MissingExtraError: It is not installed; the message says what to type.
        """
        self._client = require("wandb", "wandb")
        self._config, self._folder = config, Path(config.run_folder)
        self._run: Any = None
        self._broken = False

    @property
    def callbacks(self) -> Callbacks:
        """What a run calls."""
        return Callbacks(on_metrics=self.log, on_evaluation=self._on_evaluation)

    def log(self, interactions: int, numbers: Mapping[str, float]) -> None:
        """Send a line of metrics.

        Raises:
            UsageError: The client cannot begin.
        """
        if self._run is None and not self._broken:
            self._begin()
        try:
            if not self._broken:
                self._run.log({"interactions": interactions, **numbers})
        except Exception as error:  # of any kind: the client's are its own affair
            self._broken = True
            say(f"warning: Weights & Biases gets no more metrics: {_line(error)}")

    def close(self, *, finished: bool) -> None:
        """End the run there; what has not been sent is sent now."""
        if self._run is None:
            return
        try:
            self._run.finish(exit_code=0 if finished else 1)
        except Exception as error:
            say(f"warning: Weights & Biases did not end well: {_line(error)}")

    def _begin(self) -> None:
        try:
            self._run = self._client.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=self._folder.name,
                id=self._id(),
                resume="allow",
                dir=str(self._folder),
                config=asdict(self._config),
            )
            self._run.define_metric("*", step_metric="interactions")
        except Exception as error:
            raise UsageError(
                f"Weights & Biases: {_line(error)}; type: wandb login, or set WANDB_MODE=offline, "
                "or train without --wandb"
            ) from None

    def _id(self) -> str:
        """The id of the run there: that of earlier starts, or a new one."""
        path = self._folder / FILE
        if path.exists():
            stored = read_json(path, "delete it to begin anew there", with_keys({"id": text}))
            return str(stored["id"])
        new = secrets.token_hex(8)
        write_json(path, {"id": new})
        return new

    def _on_evaluation(self, evaluation: Evaluation) -> None:
        if evaluation.final:
            numbers = {f"final/{k}": v for k, v in evaluation.summary.items() if v is not None}
            self.log(evaluation.interactions, numbers)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
