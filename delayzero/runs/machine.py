"""What the bits of a run depend on beside its settings: code, versions, device, threads, CPU."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from delayzero import __version__

PACKAGES = ("numpy", "gymnasium", "jax", "jaxlib", "flax", "optax", "mctx")
"""Packages that every run computes with."""
ENVIRONMENT_PACKAGES = {"atari": "ale-py", "minatar": "minatar"}
"""The package of each kind of environment."""
THREAD_VARIABLES = ("PJRT_NPROC", "NPROC")
"""Variables in which XLA looks for its number of threads, in this order."""
FEATURES = re.compile(r"sse4_2|avx.*|fma|amx.*|asimd.*|bf16|i8mm|sve.*|sme.*")
"""Instructions for vectors and matrices, as Linux names them."""
HOST = ("threads", "cpu", "cpu_features")
"""What matters only where the CPU is the device."""
NO_MATTER = ("machine",)
"""What is recorded and changes no bits."""


def versions(env: str = "") -> dict[str, Any]:
    """Return what a run's bits depend on beside its settings, in plain JSON types.

    Args:
        env: The id of the run's environment, whose package is included.
    """
    return {
        "delayzero": __version__,
        "python": platform.python_version(),
        **_packages(env),
        "commit": commit(),
        "device": jax.local_devices()[0].device_kind,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "threads": threads(),
        **_cpu(),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.platform(),
    }


def differences(before: Any, now: Mapping[str, Any]) -> list[str]:
    """List what differs and may change bits, such as ``"threads 2 (now 1)"``.

    Args:
        before: Earlier :func:`versions`. What it does not have, such as everything in the records
            of older runs, is unknown, and not listed.
        now: The :func:`versions` of this process.
    """
    if not isinstance(before, Mapping):
        return []
    skipped = NO_MATTER if "cpu" in (before.get("device"), now["device"]) else (*NO_MATTER, *HOST)
    return [
        f"{name.replace('_', ' ')} {_change(name, before[name], value)}"
        for name, value in now.items()
        if name in before and name not in skipped and before[name] != value
    ]


def threads() -> int:
    """Return the number of threads that XLA computes with on a CPU.

    Unless a variable says otherwise, it is the number of cores that this process may use.
    """
    for name in THREAD_VARIABLES:
        try:
            return int(os.environ[name])
        except (KeyError, ValueError):
            continue
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def commit() -> str | None:
    """Return the commit of the running source, starred if files differ; None if unknown."""
    here = Path(__file__).parent
    try:
        _git(here, "ls-files", "--error-unmatch", __file__)  # or it is another project's commit
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("*" if changed else "")


def _git(folder: Path, *words: str) -> str:
    git = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=True, timeout=10
    )
    return git.stdout.strip()


def _packages(env: str) -> dict[str, str]:
    """Return the versions of the packages that a run computes with, as far as they are known."""
    module, colon, _ = env.partition(":")
    names = list(PACKAGES)
    if module.lower() in ENVIRONMENT_PACKAGES:
        names.append(ENVIRONMENT_PACKAGES[module.lower()])
    elif colon:  # module:MyEnv-v0
        names += importlib.metadata.packages_distributions().get(module.partition(".")[0], [])
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu() -> dict[str, str]:
    """Return the model of the CPU, and its instructions for vectors and matrices."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        text = ""
    lines = (line.partition(":") for line in text.splitlines())
    first: dict[str, str] = {}
    for name, _, value in lines:
        first.setdefault(name.strip().lower(), value.strip())
    flags = first.get("flags", first.get("features", "")).split()
    return {
        "cpu": first.get("model name") or platform.processor() or platform.machine(),
        "cpu_features": " ".join(sorted(flag for flag in flags if FEATURES.fullmatch(flag))),
    }


def _change(name: str, before: Any, now: Any) -> str:
    """Return how a value changed; of features, which came and which went."""
    if name == "cpu_features" and isinstance(before, str):
        old, new = set(before.split()), set(now.split())
        signed = [*(f"+{one}" for one in new - old), *(f"-{one}" for one in old - new)]
        return "(now " + " ".join(sorted(signed)) + ")"
    return f"{_shown(name, before)} (now {_shown(name, now)})"


def _shown(name: str, value: Any) -> str:
    """Return a value as one line: a commit by its first digits."""
    if name == "commit" and isinstance(value, str):
        return value[:7] + ("*" if value.endswith("*") else "")
    return " ".join(str(value).split()) or "none"
