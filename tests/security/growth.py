"""How much longer four times as much takes."""

import time
from collections.abc import Callable
from typing import Any


def ratio(read: Callable[[int], Callable[[], Any]], size: int, clock: Callable[[], float] = time.process_time) -> float:
    """Return how many times longer four times the size takes, at its best; 0 for what takes no time to speak of."""
    best = float("inf")
    for _ in range(4):
        once, four = (min(seconds(read(times * size), clock) for _ in range(2)) for times in (1, 4))
        if four < 0.02:
            return 0
        best = min(best, four / max(once, 0.002))
        if best <= 5:
            break
    return best


def seconds(read: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Return how long something takes by a clock."""
    before = clock()
    read()
    return clock() - before
