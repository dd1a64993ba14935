"""However many things are wrong with a stack file, one run of `check` tells them all, and nothing that only follows."""

import random
import re
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpupools.base.errors import Problem, Rejected
from gpupools.environment.check import check_stack_file
from gpupools.providers import clouds
from tests.gpupools.faults import CONSEQUENCES, FAULTS, Fault, apart, apply, good, hidden, written

CLOUDS = tuple(clouds())


def told(cloud: str, *faults: Fault) -> list[Problem]:
    tree = good(cloud)
    for fault in faults:
        apply(tree, fault)
    with TemporaryDirectory() as folder:
        file = Path(folder, "Pulumi.f.yaml")
        file.write_text(written(tree), encoding="utf-8")
        try:
            check_stack_file(file, clouds())
        except Rejected as rejected:
            return list(rejected.problems)
    return []


@cache
def alone(cloud: str, fault: Fault) -> tuple[Problem, ...]:
    return tuple(told(cloud, fault))


def judge(cloud: str, faults: Sequence[Fault]) -> list[str]:
    """Return what is told and should not be, or the other way round."""
    said, later = told(cloud, *faults), hidden(faults)
    may = [each for fault in faults for each in alone(cloud, fault)]
    must = [each for fault in faults if fault.name not in later for each in alone(cloud, fault)]
    # Beside others the words may be those that hold in any case.
    wrong = [f"not told: {each}" for each in must if not {*said}.intersection(each.forms())]
    wrong += [f"told besides: {each}" for each in said if not any(each in one.forms() for one in may)]
    return wrong + [f"told twice: {each}" for each in {*said} if said.count(each) > 1]


def several(cloud: str, count: int, most: int, seed: int) -> list[tuple[Fault, ...]]:
    """Return that many faults together, at random."""
    here = [fault for fault in FAULTS if cloud in fault.clouds]
    rng = random.Random(f"{cloud} {seed}")
    found: list[tuple[Fault, ...]] = []
    while len(found) < most:
        faults = tuple(rng.sample(here, count))
        if all(apart(*pair) for pair in combinations(faults, 2)):
            found.append(faults)
    return found


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nothing_is_wrong_with_the_good_files(cloud: str) -> None:
    assert told(cloud) == []


def the_faults(turn: int) -> list[object]:
    """Return every fault on the one cloud whose turn it is, so that all are tried in few tests."""
    found: list[object] = []
    for number, fault in enumerate(FAULTS):
        cloud = fault.clouds[(number + turn) % len(fault.clouds)]
        found.append(pytest.param(cloud, fault, id=f"{fault.name} ({cloud})"))
    return found


def is_told(cloud: str, fault: Fault) -> None:
    problems = told(cloud, fault)

    assert {problem.key for problem in problems} == set(fault.told)
    for key, what in fault.told.items():
        assert any(problem.key == key and problem.what.startswith(what) for problem in problems)
    for problem in problems:
        said = f"{problem.what}; {problem.fix}"
        assert problem.fix or "not both and not neither" in problem.what
        assert re.search(r"\b(None|True|False|dict|str|int|stand-in)\b|<class", said) is None


@pytest.mark.parametrize(("cloud", "fault"), the_faults(0))
def test_each_fault_by_itself(cloud: str, fault: Fault) -> None:
    is_told(cloud, fault)


@pytest.mark.slow
@pytest.mark.parametrize(("cloud", "fault"), [*the_faults(1), *the_faults(2)])
def test_each_fault_on_the_other_clouds(cloud: str, fault: Fault) -> None:
    is_told(cloud, fault)


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("count", [2, 3, 4])
def test_several_faults_are_told_as_each_is_alone(cloud: str, count: int) -> None:
    for faults in several(cloud, count, 3, seed=17):
        assert judge(cloud, faults) == [], [fault.name for fault in faults]


@pytest.mark.slow
@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_two_faults_are_told_as_each_is_alone(cloud: str) -> None:
    here = [fault for fault in FAULTS if cloud in fault.clouds]
    wrong = {
        f"{one.name} with {other.name}": found
        for one, other in combinations(here, 2)
        if apart(one, other) and (found := judge(cloud, (one, other)))
    }

    assert wrong == {}


@pytest.mark.slow
@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("count", [3, 4])
def test_hundreds_of_faults_together_are_told_as_each_is_alone(cloud: str, count: int) -> None:
    for faults in several(cloud, count, 400, seed=count):
        assert judge(cloud, faults) == [], [fault.name for fault in faults]


def test_every_consequence_is_of_faults_there_are() -> None:
    names = {fault.name for fault in FAULTS}

    assert [each for others, hides, _ in CONSEQUENCES for each in others | hides if each not in names] == []
