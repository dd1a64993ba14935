"""Counts what looking through resources takes, so that whoever judges a whole file can stop in time. Pure.

A clock would give a file another verdict on a busy machine. What is counted are characters of texts and bytes that are
unpacked; values and objects count as about as many characters as take as long.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Effort:
    """What was looked through.

    Args:
        most: What may be.
    """

    def __init__(self, most: int) -> None:
        self.left = most

    @property
    def over(self) -> bool:
        """Say whether more was looked through than may be."""
        return self.left < 0


_CURRENT: ContextVar[Effort | None] = ContextVar("effort", default=None)


@contextmanager
def bounded_effort(most: int) -> Iterator[Effort]:
    """Count what is spent meanwhile."""
    effort = Effort(most)
    token = _CURRENT.set(effort)
    try:
        yield effort
    finally:
        _CURRENT.reset(token)


def spend(characters: int) -> None:
    """Count that many characters."""
    effort = _CURRENT.get()
    if effort is not None:
        effort.left -= characters


def exhausted() -> bool:
    """Say whether nothing is left to spend."""
    effort = _CURRENT.get()
    return effort is not None and effort.over
