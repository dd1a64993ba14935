"""Progress of slow commands: a line on the terminal after one second, removed at the end."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpupools.console.output import printable
from gpupools.console.terminal import columns, shows_colour

AFTER_S = 1.0
"""Faster steps show no progress, which would only flicker."""


@contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Show the current step on a terminal's standard error while the block runs, which must print nothing else."""
    stream, width = sys.stderr, columns(sys.stderr)
    # Terminals without color do not support erasing a line either.
    if width is None or not shows_colour(stream):
        yield lambda _: None
        return
    from threading import Event, Thread  # not needed otherwise

    now = [doing]
    ended = Event()
    started = time.monotonic()

    def tell() -> None:
        if ended.wait(AFTER_S):
            return
        while True:
            said = f"{printable(now[0])} … {time.monotonic() - started:.0f} s"
            stream.write(f"\r{said[: width - 1]}\x1b[K")
            stream.flush()
            if ended.wait(0.5):
                break
        stream.write("\r\x1b[K")
        stream.flush()

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield lambda what: now.__setitem__(0, what)
    finally:
        ended.set()
        teller.join()
