import os

# Most programs here are small and run a few times: compiling them well takes longer than they do.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

from hypothesis import settings

settings.register_profile("delayzero", deadline=None)
settings.load_profile("delayzero")
