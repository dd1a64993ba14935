"""Fuzz every parser of untrusted files for a given time, and save inputs that crash one.

    python tooling/fuzz.py MINUTES [READER...]    MINUTES per parser; default: all parsers

First it puts each value of `tests/security/fuzzing.py` at each place of the corpus in random order, then it changes
random places and bytes. Inputs that crash a parser are saved in `tests/security/crashers`, which the tests use.
"""

import hashlib
import itertools
import random
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

from tests.security.fuzzing import CRASHERS, READERS, ROOT, Reader, at_random, crashes, kept, thoroughly


def cases(reader: Reader, chance: random.Random) -> Iterator[Any]:
    """Yield mutated inputs endlessly, alternating between systematic and random mutations."""
    corpus = reader.corpus()
    chance.shuffle(corpus)
    by_place = itertools.chain.from_iterable(thoroughly(each, reader) for each in corpus if not isinstance(each, str))
    while True:
        yield from itertools.islice(by_place, 1)
        yield at_random(chance.choice(corpus), reader, chance)


def place(error: Exception) -> str:
    """Return the line of our code that raised an exception; crashes at one line count once."""
    ours = [
        f"{frame.filename.removeprefix(f'{ROOT}/')}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(str(ROOT)) and "/.venv/" not in frame.filename
    ]
    return f"{type(error).__name__} at {ours[-1] if ours else 'an unknown place'}"


def run(name: str, seconds: float, seed: int) -> int:
    """Fuzz one parser; return in how many places it crashed."""
    reader, crashed, end, count, slowest = READERS[name], dict[str, str](), time.monotonic() + seconds, 0, 0.0
    for given in cases(reader, random.Random(seed)):
        before = time.monotonic()
        if before > end:
            break
        count += 1
        error = crashes(reader, given)
        slowest = max(slowest, time.monotonic() - before)
        if error is not None and place(error) not in crashed:
            text = kept(given).encode("utf-8", "surrogatepass")
            path = (
                CRASHERS
                / name
                / f"{hashlib.sha256(text).hexdigest()[:12]}.{'txt' if isinstance(given, str) else 'json'}"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            crashed[place(error)] = str(path.relative_to(ROOT))
    print(
        f"{name}: {count} cases in {seconds / 60:g} minutes (seed {seed}), {len(crashed)} crashes, "
        f"{slowest:.1f} s at most"
    )
    for where, file in crashed.items():
        print(f"  {where}, saved as {file}")
    return len(crashed)


def main(arguments: list[str]) -> int:
    """Fuzz the parsers one after the other; return the exit code."""
    names = arguments[1:] or list(READERS)
    try:
        minutes = float(arguments[0])
    except (IndexError, ValueError):
        minutes = 0
    if minutes <= 0 or not set(names) <= set(READERS):
        print(f"usage: python tooling/fuzz.py MINUTES [READER...]; readers: {', '.join(READERS)}", file=sys.stderr)
        return 2
    return 1 if sum(run(name, minutes * 60, random.randrange(2**32)) for name in names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
