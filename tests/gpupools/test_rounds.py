"""However many things are wrong with a stack file, one run of `check` tells them all, and nothing that only follows."""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from gpupools.base.errors import Problem, Rejected
from gpupools.environment.check import check_stack_file
from gpupools.providers import clouds
from tests.gpupools.faults import CONSEQUENCES, FAULTS, Fault, apart, apply, good, hidden, written

CLOUDS = tuple(clouds())
TWO_MACHINES = "pool: two machines"


def told(cloud: str, *faults: Fault) -> list[Problem]:
    tree = good(cloud)
    for fault in faults:
        apply(tree, fault)
    return in_a_file(written(tree))


def in_a_file(text: str) -> list[Problem]:
    with TemporaryDirectory() as folder:
        file = Path(folder, "Pulumi.f.yaml")
        file.write_text(text, encoding="utf-8")
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
    # Of each of two machines that a pool names the same may be told.
    of_two = [(one.path, one.fix) for one in may] if any(each.name == TWO_MACHINES for each in faults) else []
    besides = [each for each in said if not any(each in one.forms() for one in may)]
    wrong += [f"told besides: {each}" for each in besides if (each.path, each.fix) not in of_two]
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


# --- cures, followed to the letter ---

CURES: tuple[tuple[str, Callable[[str], Any]], ...] = (
    (r"leave it out", lambda _: GONE),
    (r"did you mean '([^']+)'\?", str),
    (r"(?:write|use) (?!text$|it$|overrides)([A-Za-z0-9_.-]+)", str),
    (r"write a list: (\[.*\])", yaml.safe_load),
    (r"(?:give|write|use) ([0-9]+) or (?:more|less|fewer)", int),
)
GONE: Any = object()


def cured(config: Any, problem: Problem) -> Any:
    """Return a configuration after what a cure says, None where it does not say what to write."""
    found = next(((meant, match) for of, meant in CURES if (match := re.fullmatch(of, problem.fix))), None)
    if found is None or problem.what == "is missing" or "overrides" in problem.path:
        return None
    value = found[0](found[1][1] if found[1].re.groups else "")
    changed = deepcopy(config)
    first, *inner = problem.path
    path: list[Any] = [str(first) if str(first).startswith("gpupools:") else f"gpupools:{first}", *inner]
    at = changed["config"]
    for key in path[:-1]:
        at = at[key]
    if problem.of_key and value is not GONE:
        if (f"gpupools:{value}" if len(path) == 1 else value) in at:
            return None
        new = f"gpupools:{value}" if len(path) == 1 else value
        at[new] = at.pop(path[-1])
    elif value is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return changed


def followed(cloud: str, fault: Fault) -> dict[str, list[str]]:
    """Return what is told anew after each cure of a fault that says what to write, or still."""
    tree = good(cloud)
    apply(tree, fault)
    config, before = yaml.safe_load(written(tree)), told(cloud, fault)
    found: dict[str, list[str]] = {}
    for problem in before:
        after = cured(config, problem)
        if after is not None:
            others = {str(each) for each in before if each != problem}
            found[str(problem)] = [str(each) for each in in_a_file(yaml.safe_dump(after)) if str(each) not in others]
    return found


NOT_AT_ONCE = {
    "critical_pods = 1": "the bound of all clouds is told before whether one has the setting",
    "{imds_hop_limit: 3}": "the bound of all clouds is told before whether one has the setting",
    "{mode: mps, replicas: 2000}": "the bound of all GPUs is told before that of one",
    "{max_pods: 0}": "the bound of all clouds is told before that of one",
    "{max_surge: 1, max_unavailable: 101}": "the bound of all clouds is told before that of one",
    "{device_plugin: {selector: a}}": "a key that is only like another may have another kind of value",
}
"""Mistakes after whose cure something else is told of the same key, and why."""


def mistakes() -> Iterator[tuple[str, Fault]]:
    """Yield mistakes of one key each; those that every cloud takes for one on a cloud in turn."""
    table = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))
    number = 0
    for group, paths in table.items():
        for path, values in paths.items():
            for value in values:
                number += 1
                cloud = CLOUDS[number % len(CLOUDS)] if group == "everywhere" else group
                yield cloud, Fault(f"{path} = {value}", {path: None if value == "~out" else value}, {})


def followed_cures(table: Iterable[tuple[str, Fault]]) -> dict[str, list[str]]:
    """Follow every cure that says what to write; return what is told anew, by problem."""
    found: dict[str, list[str]] = {}
    for cloud, fault in table:
        if not any(fault.name.endswith(each) for each in NOT_AT_ONCE):
            found |= {f"{fault.name} ({cloud}): {told}": anew for told, anew in followed(cloud, fault).items()}
    return found


def test_a_cure_that_says_what_to_write_leads_to_nothing_new() -> None:
    faults = [(fault.clouds[number % len(fault.clouds)], fault) for number, fault in enumerate(FAULTS)]
    tried = followed_cures([*faults[::4], *list(mistakes())[::10]])

    assert {problem: anew for problem, anew in tried.items() if anew} == {}
    assert len(tried) > 4


@pytest.mark.slow
def test_every_cure_that_says_what_to_write_leads_to_nothing_new() -> None:
    faults = [(fault.clouds[number % len(fault.clouds)], fault) for number, fault in enumerate(FAULTS)]
    tried = followed_cures([*faults, *mistakes()])

    assert {problem: anew for problem, anew in tried.items() if anew} == {}
    assert len(tried) > 45


@pytest.mark.slow
def test_no_mistake_is_told_in_words_of_python() -> None:
    said = [f"{each.what}; {each.fix}" for cloud, fault in mistakes() for each in told(cloud, fault)]

    assert [each for each in said if re.search(r"\b(None|True|False|dict|str|int|stand-in)\b|<class", each)] == []
    assert len(said) > 400
