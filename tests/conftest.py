import os
import shutil
import signal
import tempfile

from hypothesis import settings

# Most programs here are small and run a few times: compiling them well takes longer than they do.
QUICK = (
    "--xla_backend_optimization_level=0",
    "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters",
)
os.environ.setdefault("XLA_FLAGS", " ".join(QUICK))

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)

OWNER = "PYTEST_XDIST_WORKER" not in os.environ
if OWNER:  # compiled programs, for all processes of these tests and those that they start
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="delayzero-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

settings.register_profile("delayzero", deadline=None)
settings.load_profile("delayzero")


def pytest_unconfigure():
    if OWNER:
        shutil.rmtree(os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
