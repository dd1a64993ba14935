"""What is wrong, where, and what to do about it; nothing here knows files, line numbers or colours."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the configuration, e.g. `("pools", "a100", "nodes", "max")`."""


_LONG = 320
"""Characters shown of a key; the longest right one, of a label, has 317."""


def dotted(path: Path) -> str:
    """Write a path for people: `pools.a100.layout[0]`; what a terminal cannot show of a key is escaped."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{shown(part)}]"
        elif not part or not part.isprintable():
            text += f"[{json.dumps(part[:_LONG])}]"
        else:
            text += f".{part[:_LONG]}" if text else part[:_LONG]
    return text


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: `where: what; cure`."""

    path: Path
    """Where: the keys as written in the stack file."""
    what: str
    """What is wrong, with the value given."""
    fix: str = ""
    """What the reader can do; empty only where `what` already says it."""
    source: str = ""
    """The public page the refusal rests on, where it rests on one."""

    @property
    def key(self) -> str:
        """`path` as one string."""
        return dotted(self.path)

    def as_json(self, file: object = None, line: int | None = None) -> dict[str, Any]:
        """Return file, line, key, what, fix and source, the same keys wherever a problem is answered as JSON."""
        where = {"file": None if file is None else str(file), "line": line, "key": self.key}
        return {**where, "what": self.what, "fix": self.fix, "source": self.source}

    def __str__(self) -> str:
        where = f"{self.key}: " if self.path else ""
        see = f" (see {self.source})" if self.source else ""
        return f"{where}{self.what}" + (f"; {self.fix}" if self.fix else "") + see


class Rejected(Exception):
    """What was asked for cannot be built; carries every reason at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def nearest(word: object, known: Iterable[str], *, most: int = 12) -> str:
    """Name the known words closest to `word`, or list what is known when none is close.

    Args:
        word: What was written; anything, since a reader may write anything.
        known: The words that would have been right.
        most: How many known words to list when none is close.
    """
    words: Sequence[str] = sorted(set(known))
    text = str(word)
    folded = {candidate.casefold(): candidate for candidate in words}
    from difflib import get_close_matches  # only on the way to an error, it would cost every start

    close = get_close_matches(text.casefold()[:200], folded, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(folded[candidate]) for candidate in close) + "?"
    if not words:
        return "nothing is known here"
    listed = ", ".join(words[:most])
    return f"known: {listed}" + (f" and {len(words) - most} more" if len(words) > most else "")


def shown(value: object, *, most: int = 60) -> str:
    """Write a value given by a reader, short enough for one line."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return f"a {type(value).__name__} too long to show"
    return text if len(text) <= most else text[: most - 1] + "…"
