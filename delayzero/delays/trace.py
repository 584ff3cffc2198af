"""Replay of a measured trace of delays."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from delayzero.delays.law import LARGEST_NUMBER, DelayError, Law, Memory, Unit, nearest

TraceMode = Literal["loop", "offset", "episode"]
MODES: tuple[TraceMode, ...] = ("loop", "offset", "episode")


@dataclass(frozen=True)
class Trace(Law):
    """Delays replayed from a file in a loop: ``trace:wifi.csv`` or ``trace:rtt.csv@20ms``.

    A ``.csv`` file has a header line with a column ``delay_steps`` (whole steps) or ``delay_ms``
    (milliseconds; the text then needs ``@...ms``). An ``.npy`` file holds one array: integers are
    steps, floats are milliseconds. ``mode`` says where the replay starts: ``loop`` at the start of
    the file, ``offset`` at a random place, ``episode`` at a new random place in every episode.
    """

    name: ClassVar[str] = "trace"
    example: ClassVar[str] = "trace:path/to/delays.csv,mode=loop@20ms,max=10"

    path_name: str
    mode: TraceMode = "loop"
    delays: NDArray[Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise DelayError(f"unknown mode='{self.mode}'{nearest(self.mode, MODES)}")
        object.__setattr__(self, "delays", load_trace(Path(self.path_name)))

    @property
    def unit(self) -> Unit:
        return "ms" if self.delays.dtype.kind == "f" else "steps"

    @property
    def largest(self) -> float:
        return float(self.delays.max())

    @property
    def restarts(self) -> bool:
        return self.mode == "episode"

    @property
    def remembers(self) -> bool:
        return True

    def path(
        self, rng: np.random.Generator, steps: int, memory: Memory | None, period: float
    ) -> tuple[NDArray[Any], Memory]:
        length = len(self.delays)
        if memory is None:
            begin = 0 if self.mode == "loop" else int(rng.integers(length))
        else:
            begin = int(memory[0])
        places = np.arange(begin, begin + steps) % length
        return self.delays[places], (float((begin + steps) % length),)

    def arguments(self) -> str:
        return quote(self.path_name, safe="/._-~:\\") + (
            "" if self.mode == "loop" else f",mode={self.mode}"
        )

    @classmethod
    def from_arguments(cls, text: str) -> Law:
        path, *options = text.split(",")
        if not path:
            raise DelayError("trace needs the path of a file")
        mode: Any = "loop"
        for option in options:
            key, equals, value = option.partition("=")
            if key != "mode" or not equals:
                raise DelayError(f"'{option}' should be mode=loop, mode=offset or mode=episode")
            mode = value
        return cls(unquote(path), mode)


def load_trace(path: Path) -> NDArray[Any]:
    """Read the delays of a trace: integers are steps, floats are milliseconds.

    Raises:
        DelayError: The file is missing, empty or not a trace, or a delay is missing or negative.
    """
    try:
        there = path.is_file()
    except OSError as error:
        raise DelayError(f"the trace file can't be read: {error.strerror}") from None
    if not there:
        raise DelayError(f"there is no trace file '{path}'")
    if path.suffix == ".npy":
        try:
            values: NDArray[Any] = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise DelayError(f"'{path}' is not an array of numbers: {error}") from None
        rows = np.arange(len(values)) if values.ndim else np.zeros(0)
        if values.ndim != 1 or values.dtype.kind not in "iuf":
            raise DelayError(f"'{path}' should hold one row of numbers, not {values.dtype} "
                             f"of shape {values.shape}")  # fmt: skip
    else:
        try:
            values, rows = _load_csv(path)
        except UnicodeDecodeError:
            raise DelayError(f"'{path}' is not a text file; a trace is .csv or .npy") from None
        except (OSError, csv.Error) as error:
            raise DelayError(f"'{path}' can't be read: {error}") from None
    if not len(values):
        raise DelayError(f"'{path}' holds no delays")
    for bad, what in (
        (~np.isfinite(values), "no finite delay"),
        (values < 0, "a negative delay"),
        (values > LARGEST_NUMBER, f"a delay above {LARGEST_NUMBER}"),
    ):
        if bad.any():
            place = "element" if path.suffix == ".npy" else "line"
            raise DelayError(f"'{path}' has {what} at {place} {rows[bad.argmax()]}")
    return values if values.dtype.kind == "f" else values.astype(np.int64)


def _load_csv(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the delays of a CSV file and the line number of each."""
    with path.open(newline="") as file:
        lines = csv.reader(file)
        header = [cell.strip() for cell in next(lines, [])]
        columns = [name for name in ("delay_steps", "delay_ms") if name in header]
        if len(columns) != 1:
            raise DelayError(
                f"the first line of '{path}' should name one column delay_steps or delay_ms, "
                f"not {','.join(header)!r}"
            )
        column = header.index(columns[0])
        values: list[float] = []
        rows: list[int] = []
        last = 0
        for row in lines:
            if not row and len(header) > 1:
                continue  # a blank line; in a file with one column it would be a missing delay
            cell = row[column].strip() if column < len(row) else ""
            try:
                values.append(float(cell) if cell else float("nan"))
            except ValueError:
                raise DelayError(
                    f"'{path}' has {cell!r} at line {lines.line_num}; it should be a number"
                ) from None
            rows.append(lines.line_num)
            last = len(rows) if row else last
    values, rows = values[:last], rows[:last]  # without blank lines at the end
    numbers = np.array(values)
    if columns[0] == "delay_steps" and np.isfinite(numbers).all():
        fractional = numbers != np.round(numbers)
        if fractional.any():
            first = fractional.argmax()
            raise DelayError(
                f"'{path}' has a fractional delay {numbers[first]} at line {rows[first]}; "
                "delay_steps are whole numbers; milliseconds go into a column delay_ms"
            )
        if (np.abs(numbers) <= LARGEST_NUMBER).all():  # others are refused
            numbers = numbers.astype(np.int64)
    return numbers, np.array(rows)
