from ...training.conftest import _compile_once, compile_cache  # noqa: F401
