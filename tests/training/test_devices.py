"""Runs on several devices, in a process of their own."""

from pathlib import Path

import pytest

from ..on_devices import run_on_four

FILE = Path(__file__).with_name("on_devices.py")


@pytest.mark.slow
@pytest.mark.parametrize("words", ["checkpoint", "not checkpoint"])
def test_runs_on_four_devices(words):
    run_on_four(FILE, words)
