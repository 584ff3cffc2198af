"""Suggestions for misspelt words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def meant(word: str, words: Iterable[str]) -> str | None:
    """The valid word nearest to a misspelt one; None if none is near."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return close[0] if close else None
