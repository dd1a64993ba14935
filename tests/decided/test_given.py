"""Everything that is read of what other tests give to the readers, and that the rules find there, compared as a whole.

`given.py` gathers it; what came of it before stands in `given-*.txt`, written and read as `test_decided.py` says. What
is read of a resource with one property spoilt is a digest there: `given.facts` tells the rest.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from gpupools.policies.stack_rules import ALL_RULES
from tests.decided import given
from tests.decided.test_decided import WRITING, differences, kept, write

pytestmark = pytest.mark.slow

PARTS = 6
"""Tests among which the many are divided, so that none of them takes long."""


CASES: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "user-data": given.user_data,
    "packed": given.packings,
    "read": given.resources,
    "judged": given.resources,
    "spoilt": lambda: {case: case for case in given.properties()},
    "rules": lambda: {each.name: each.name for each in ALL_RULES},
}
DECIDED: Mapping[str, Callable[[Any], Collection[str]]] = {
    "user-data": given.in_user_data,
    "packed": given.in_packing,
    "read": given.read,
    "judged": given.judged,
    "spoilt": given.spoilt,
    "rules": given.rule,
}


def part(name: str, number: int) -> Mapping[str, Any]:
    return {case: one for at, (case, one) in enumerate(CASES[name]().items()) if at % PARTS == number}


def rows(name: str, number: int) -> Mapping[str, Collection[str]]:
    return {case: DECIDED[name](one) for case, one in part(name, number).items()}


@pytest.mark.skipif(not WRITING, reason="compares; GPUPOOLS_WRITE_DECIDED=1 writes")
@pytest.mark.parametrize("name", DECIDED)
def test_what_is_read_is_written(name: str) -> None:
    write(f"given-{name}", {str(number): rows(name, number) for number in range(PARTS)})


@pytest.mark.skipif(WRITING, reason="writes what is read")
@pytest.mark.parametrize("number", range(PARTS))
@pytest.mark.parametrize("name", DECIDED)
def test_what_is_read_is_what_was(name: str, number: int) -> None:
    before, now = kept(f"given-{name}")[str(number)], rows(name, number)

    assert "\n".join(differences(before, now, part(name, number))) == ""
    assert list(before) == list(now)
