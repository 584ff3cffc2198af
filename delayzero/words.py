"""Words: suggestions for misspelt ones, and text that every file can hold."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def meant(word: str, words: Iterable[str]) -> str | None:
    """The valid word nearest to a misspelt one; None if none is near."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return close[0] if close else None


def encodable(text: str) -> str:
    """Text with the replacement character for everything that UTF-8 cannot encode.

    Bytes of file names that are not text (Python keeps them as lone surrogates) are read as UTF-8,
    whatever the locale is.
    """
    text = re.sub(r"[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
