"""Each mistake in a stack file is reported at its key, in the words of the file."""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from gpupools.common.errors import Problem, Rejected
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from tests.gpupools.faults import FAULTS, Fault, apply, good, written

CLOUDS = tuple(clouds())
OF_PYTHON = re.compile(r"\b(None|True|False|dict|str|int)\b|<class")


def found(cloud: str, *faults: Fault) -> list[Problem]:
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


def mistakes() -> Iterator[tuple[str, Fault]]:
    """Yield mistakes of one key each; those of every cloud on one cloud in turn."""
    table = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))
    number = 0
    for group, paths in table.items():
        for path, values in paths.items():
            for value in values:
                number += 1
                cloud = CLOUDS[number % len(CLOUDS)] if group == "everywhere" else group
                yield cloud, Fault(f"{path} = {value}", {path: None if value == "~out" else value}, {})


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nothing_is_wrong_with_the_good_files(cloud: str) -> None:
    assert found(cloud) == []


@pytest.mark.parametrize("cloud", CLOUDS)
def test_each_fault_by_itself(cloud: str) -> None:
    wrong: list[str] = []
    for fault in FAULTS:
        if cloud not in fault.clouds:
            continue
        problems = found(cloud, fault)
        if {each.key for each in problems} != set(fault.told):
            wrong.append(f"{fault.name}: {[str(each) for each in problems]}")
        for key, what in fault.told.items():
            if not any(each.key == key and each.what.startswith(what) for each in problems):
                wrong.append(f"{fault.name}: {key} is not reported with {what!r}")

    assert wrong == [], wrong


@pytest.mark.parametrize("cloud", CLOUDS)
def test_faults_of_different_pools_and_clusters_are_reported_at_once(cloud: str) -> None:
    names = ["cluster: number as tag", "pool: unknown key", "pool: one replica", "pool: NVLink", "stack: production"]
    faults = [fault for fault in FAULTS if fault.name in names]

    together = {str(each) for each in found(cloud, *faults)}

    assert [fault.name for fault in faults] == names
    assert {str(each) for fault in faults for each in found(cloud, fault)} <= together


def test_no_mistake_is_reported_in_words_of_python() -> None:
    problems = [each for cloud, fault in mistakes() for each in found(cloud, fault)]

    assert [str(each) for each in problems if OF_PYTHON.search(f"{each.what}; {each.fix}")] == []
    assert len(problems) > 400
    assert [str(each) for each in problems if not each.fix and "set either " not in each.what] == []
