"""What is wrong, where, and what to do about it; nothing here knows files, line numbers or colours."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpupools.common.json_types import JsonDict

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


_SECRET = (
    r"secret(?!outputs)|secure|token|passw|passphrase|credential|kubeconfig|certificate|private|auth|api_?key|licen[cs]e"
    r"|(?:user|custom)[_-]?data|startup|ssh"
)
_CHOICES = frozenset({"secure_boot", "ssh_access"})
"""Keys of a stack file that sound like it and take one of a few words."""
_GIVEN = r"(?s)(?<=got ).*|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""


def may_hold_secret(path: Path) -> bool:
    """Say whether people keep secrets under a key of this name, or below it."""
    # What people call their clusters and pools says nothing of the keys in them.
    keys = path[2:] if len(path) > 2 and path[0] in ("clusters", "pools") else path
    return any(
        isinstance(key, str) and key not in _CHOICES and re.search(_SECRET, key[:_LONG], re.IGNORECASE) for key in keys
    )


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
    of_key: bool = field(default=False, compare=False)
    """Whether the key is wrong, whatever its value."""

    def __post_init__(self) -> None:
        """Take the value out of what is said of a key that may hold a secret."""
        if may_hold_secret(self.path):
            object.__setattr__(self, "what", re.sub(_GIVEN, "a value that is not shown", self.what))

    @property
    def key(self) -> str:
        """`path` as one string."""
        return dotted(self.path)

    def as_json(self, file: object = None, line: int | None = None) -> JsonDict:
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
    words: Sequence[str] = sorted({each for each in known if each.isprintable()})
    near = close(word, words)
    if near:
        return "did you mean " + " or ".join(map(repr, near)) + "?"
    if not words:
        return "nothing is known here"
    listed = ", ".join(words[:most])
    return f"known: {listed}" + (f" and {len(words) - most} more" if len(words) > most else "")


def close(word: object, known: Iterable[str]) -> list[str]:
    """Return the known words that look like a word, at most three, the closest first."""
    from difflib import get_close_matches  # only on the way to an error, it would cost every start

    folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    return [folded[each] for each in get_close_matches(str(word).casefold()[:200], folded, n=3, cutoff=0.6)]


def shown(value: object, *, most: int = 60) -> str:
    """Write a value given by a reader, short enough for one line.

    A long text may be a secret under a wrong key, and one inside a map may be too: of those the shape is told alone.
    Null and truth values are written as in YAML and JSON.
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str) and len(value) > most:
        return f"a text of {len(value)} characters"
    if isinstance(value, Mapping):
        keys = ", ".join(repr(str(key)[:most]) for key in list(value)[:4])
        return f"a map with {keys}" + (" and more" if len(value) > 4 else "") if keys else "{}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "[]"
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number too long to show"
    return text if len(text) <= most else text[: most - 1] + "…"
