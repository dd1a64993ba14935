"""Markdown that is never longer than a comment may be: what does not fit is counted."""

from collections.abc import Iterable, Iterator, Sequence

from gpupools.console.output import line, markdown_code
from gpupools.diff.comparison import Comparison, Entry

LIMIT = 65_536
"""Characters that GitHub takes in a comment: "body is too long (maximum is 65536 characters)".

https://github.com/telia-oss/github-pr-resource/issues/259; counted here in bytes, of which there are never fewer.
"""

_LONGEST = 600
"""Characters of one value; what is cut ends in an ellipsis."""


class MarkdownBudget:
    """Lines that fit, and how many bytes are left for more."""

    def __init__(self, size: int) -> None:
        self.lines: list[str] = []
        self.left = size

    def put(self, *lines: str) -> None:
        """Put what has to stand there."""
        for text in lines:
            self.lines.append(text)
            self.left -= len(text.encode()) + 1

    def many(self, share: float, lines: Iterable[Iterable[str]]) -> None:
        """Put entries of one or more lines as long as they take no more than a share; the rest is counted."""
        room = int(self.left * share) - 40
        rest = 0
        for entry in map(list, lines):
            size = sum(len(text.encode()) + 1 for text in entry)
            if rest or size > room:
                rest += 1
                continue
            room -= size
            self.put(*entry)
        if rest:
            self.put(f"- and {rest} more")

    def folded(self, summary: str, share: float, lines: Iterable[Sequence[str]]) -> None:
        """Put entries that a reader has to open."""
        self.put("", f"<details><summary>{summary}</summary>", "")
        self.many(share, lines)
        self.put("", "</details>")


def code(text: object) -> str:
    """Write a value as a code span, cut where it is very long."""
    shown = line(text)
    return markdown_code(shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…")


def put_changes(room: MarkdownBudget, found: Comparison, share: float) -> None:
    """Put each change with why `pulumi up` refuses it or what allows it, then the values that follow, folded."""
    entries = list(found.entries())
    room.many(share, map(_change, entries))
    folded = [
        [f"- {code(each.headline)}", *(f"  - {code(line)}" for line in each.folded)] for each in entries if each.folded
    ]
    if folded:
        room.folded("Values that follow", share / 2, folded)


def _change(entry: Entry) -> Iterator[str]:
    yield f"- **{code(entry.headline)}**"
    yield from (f"  - {code(line)}" for line in entry.lines)
    if entry.refusal is not None:
        yield f"  - pulumi up refuses that: {code(entry.refusal)}"
    if entry.allowed is not None:
        yield f"  - {entry.allowed}"
