"""Problems with path, description and fix, independent of files, lines and colors."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpupools.common.json_types import JsonDict

Path = tuple[str | int, ...]
"""Keys and list indexes from the top of the configuration, e.g. `("pools", "a100", "nodes", "max")`."""


_LONG = 320
"""Maximum characters of a key that are shown; the longest valid one, a label, has 317."""


def dotted(path: Path) -> str:
    """Return a path as text: `pools.a100.layout[0]`; unprintable keys are escaped."""
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
"""Keys of a stack file that match but only have a few possible values."""
_GIVEN = r"(?s)(?<=got ).*|(?<!\\)'(?:[^'\\]|\\.)*'|(?<!\\)\"(?:[^\"\\]|\\.)*\""


def may_hold_secret(path: Path) -> bool:
    """Return whether a path has a key under which users may store secrets."""
    # The names of clusters and pools are not keys.
    keys = path[2:] if len(path) > 2 and path[0] in ("clusters", "pools") else path
    return any(
        isinstance(key, str) and key not in _CHOICES and re.search(_SECRET, key[:_LONG], re.IGNORECASE) for key in keys
    )


@dataclass(frozen=True)
class Problem:
    """A problem, printed as `path: what; fix`."""

    path: Path
    """Path of the key in the stack file."""
    what: str
    """Description, with the invalid value."""
    fix: str = ""
    """What to do; empty if `what` already tells it."""
    source: str = ""
    """URL of the page that documents the rule, if there is one."""
    of_key: bool = field(default=False, compare=False)
    """Whether the problem concerns the key rather than its value."""

    def __post_init__(self) -> None:
        """Remove the value from the description if it may be a secret."""
        if may_hold_secret(self.path):
            object.__setattr__(self, "what", re.sub(_GIVEN, "a value that is not shown", self.what))

    @property
    def key(self) -> str:
        """`path` as text."""
        return dotted(self.path)

    def as_json(self, file: object = None, line: int | None = None) -> JsonDict:
        """Return file, line, key, what, fix and source, the JSON keys of all problems."""
        where = {"file": None if file is None else str(file), "line": line, "key": self.key}
        return {**where, "what": self.what, "fix": self.fix, "source": self.source}

    def __str__(self) -> str:
        where = f"{self.key}: " if self.path else ""
        see = f" (see {self.source})" if self.source else ""
        return f"{where}{self.what}" + (f"; {self.fix}" if self.fix else "") + see


class Rejected(Exception):
    """The configuration is invalid; has all problems."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


_NEAREST = 5
"""Most known words that a fix lists, if none is similar enough to be meant."""


def nearest(word: object, known: Iterable[str], *, most: int = _NEAREST) -> str:
    """Return a fix that suggests the closest known words; if none is close, all (up to `most`) or the nearest few."""
    words: Sequence[str] = sorted({each for each in known if each.isprintable()})
    near = close(word, words)
    if near:
        return "did you mean " + " or ".join(map(repr, near)) + "?"
    if not words:
        return "there are no known values"
    if str(word).startswith("<"):
        return f"replace the placeholder, such as by {words[0]}"
    if len(words) <= most:
        return f"known: {', '.join(words)}"
    return f"the nearest of {len(words)}: {', '.join(close(word, words, most=_NEAREST, cutoff=0.0))}"


def close(word: object, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return at most some known words that are similar to a word, the closest first."""
    from difflib import get_close_matches  # imported for errors only, to keep the start fast

    folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    return [folded[match] for match in get_close_matches(str(word).casefold()[:200], folded, n=most, cutoff=cutoff)]


def enumeration(words: Iterable[str], join: str = "and") -> str:
    """Return at least one word as part of a sentence: `a, b and c`."""
    *rest, last = words
    return f"{', '.join(rest)} {join} {last}" if rest else last


def amount_of(number: int, one: str, many: str = "") -> str:
    """Return a number of things: `1 pool`, `2 pools`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def shown(value: object, *, most: int = 60) -> str:
    """Return a user's value as short text for an error.

    Long text and values in maps may be secrets under a wrong key, so only their type and size are shown. Null and
    booleans are written as in YAML and JSON.
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
    except ValueError:  # Python cannot convert integers of more than 4300 digits
        return "a number that is too long to show"
    return text if len(text) <= most else text[: most - 1] + "…"
