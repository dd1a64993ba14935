"""What a command is at, for somebody who waits: a line on the terminal from the second second on, gone at the end."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpupools.console.output import printable
from gpupools.console.terminal import columns, shows_colour

AFTER_S = 1.0
"""What takes less is not told: it would only flicker."""


@contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Tell a terminal what goes on while the block runs, on standard error; print nothing else meanwhile.

    Args:
        doing: What it begins with: `running the program`. What is yielded takes what it goes on with.
    """
    stream, width = sys.stderr, columns(sys.stderr)
    # A line is taken back by a code of the terminal, which one without colours does not know either.
    if width is None or not shows_colour(stream):
        yield lambda _: None
        return
    from threading import Event, Thread  # nobody else needs them

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
