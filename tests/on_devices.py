"""Running tests in a process with several devices: CPUs have one unless asked before JAX starts."""

import os
import subprocess
import sys
from pathlib import Path


def run_on_four(file, words):
    """Run the tests of a file that ``-k words`` selects, with four devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-k", words, str(file)],
        env={**os.environ, "XLA_FLAGS": flags},
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
