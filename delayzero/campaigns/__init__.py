"""Many runs: planned together, started side by side, tried again, resumed and collected.

``delayzero compare`` and ``delayzero campaign`` both use this package.
"""
