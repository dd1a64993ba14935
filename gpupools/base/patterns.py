"""Many patterns with * and ? asked at once."""

import re
from collections.abc import Iterable
from fnmatch import translate


class FirstOf:
    """Finds the first of many patterns that a text fits, as `fnmatch.fnmatchcase` has them.

    Args:
        patterns: In the order in which they count.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        given = tuple(patterns)
        self._all = re.compile("|".join(f"(?P<n{place}>{translate(one)})" for place, one in enumerate(given)) or "(?!)")

    def __call__(self, text: str) -> int | None:
        """Return the place of the first pattern that fits; None for none."""
        found = self._all.match(text)
        return int(found.lastgroup[1:]) if found is not None and found.lastgroup else None
