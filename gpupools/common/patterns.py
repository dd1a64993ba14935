"""Matches text against many patterns with `*` and `?`."""

import re
from collections.abc import Iterable
from fnmatch import translate


class FirstOf:
    """Finds the first of many `fnmatch.fnmatchcase` patterns, in order of precedence, that matches a text."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._by_start: dict[str, list[tuple[int, re.Pattern[str]]]] = {}
        for place, pattern in enumerate(patterns):
            start = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
            self._by_start.setdefault(start, []).append((place, re.compile(translate(pattern))))
        self._lengths = sorted({len(start) for start in self._by_start})

    def __call__(self, text: str) -> int | None:
        """Return the index of the first pattern that matches; None if none does."""
        places = (
            place
            for length in self._lengths
            for place, one in self._by_start.get(text[:length], ())
            if one.match(text) is not None
        )
        return min(places, default=None)
