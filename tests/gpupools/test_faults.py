"""Each mistake in a stack file is reported at its key, in the words of the file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from gpupools.common.errors import Problem, Rejected
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file

CLOUDS = tuple(clouds())
FOLDER = Path(__file__).parent
OF_PYTHON = re.compile(r"\b(None|True|False|dict|str|int)\b|<class")

Tree = dict[str, Any]
"""Keys of a stack file, in order; the leaves are YAML as written."""

ROLE = "arn:aws:iam::123456789012:role/gpu-nodes"

_CLUSTERS: Mapping[str, tuple[Tree, Tree]] = {
    "aws": (
        {
            "region": "eu-central-1",
            "subnets_by_zone": "{eu-central-1a: [subnet-0000000a], eu-central-1b: [subnet-0000000b]}",
            "node_role_arn": ROLE,
        },
        {"region": "eu-central-1", "subnet_ids": "[subnet-0000000c]", "node_role_arn": ROLE},
    ),
    "azure": ({"resource_group": "ml", "tenant_id": "0" * 8 + "-0000-0000-0000-" + "0" * 12}, {"resource_group": "ml"}),
    "gcp": (
        {
            "project": "ml-lab",
            "location": "europe-west4",
            "node_locations": "[europe-west4-a, europe-west4-b]",
            "service_account": "gpu@ml.iam.gserviceaccount.com",
        },
        {"project": "ml-lab", "location": "europe-west4", "service_account": "gpu@ml.iam.gserviceaccount.com"},
    ),
}
ZONE = {"aws": "eu-central-1a", "azure": "'1'", "gcp": "europe-west4-a"}
_MACHINE = {"aws": "g6e.2xlarge", "azure": "Standard_NC24ads_A100_v4", "gcp": "g2-standard-8"}
_EIGHT = {"aws": "A100-80GB", "azure": "A100-80GB", "gcp": "A100-80GB"}
_SECOND = {"aws": "L4", "azure": "T4", "gcp": "L4"}


def good(cloud: str) -> Tree:
    """Return a stack file of two clusters and three pools in which nothing is wrong."""
    first, second = _CLUSTERS[cloud]
    return {
        "clusters": {
            "train": {
                "cloud": cloud,
                "name": "train-dev",
                **first,
                "kubeconfig": {"path": "~/.kube/train"},
                "tags": {"owner": "research"},
                "runtime": {"kubernetes": "'1.34'", "metrics": "true"},
            },
            "spare": {"cloud": cloud, "name": "spare-dev", **second, "kubeconfig": {"path": "~/.kube/spare"}},
        },
        "pools": {
            "cut": {
                "clusters": "[train]",
                "gpu": _EIGHT[cloud],
                "gpus_per_node": "8",
                "nodes": {"min": "0", "max": "4"},
                "sharing": {"mode": "mig", "profile": "1g.10gb"},
                "software": "gpu-operator",
                "capacity": {"mode": "on-demand"},
                "zones": f"[{ZONE[cloud]}]",
                "labels": {"team": "vision"},
                "taints": "['team=vision:NoSchedule']",
                "tags": {"cost": "a1"},
                "network": {"max_pods": "64"},
                "upgrade": {"max_unavailable": "1"},
                "timeouts": {"create_min": "60"},
            },
            "shared": {
                "clusters": "[train]",
                "instance_type": _MACHINE[cloud],
                "nodes": {"max": "6"},
                "sharing": {"mode": "time-slicing", "replicas": "4"},
                "software": "gpu-operator",
                "trust": {"team": "research"},
            },
            "whole": {
                "clusters": "[spare]",
                "gpu": _SECOND[cloud],
                "nodes": {"max": "2"},
                "software": "device-plugin",
                "protect": "false",
            },
        },
        "production": "false",
        "allow_destroy": "[train/shared]",
    }


def written(tree: Tree) -> str:
    """Write a stack file."""
    return "config:\n" + "".join(_lines({f"gpupools:{key}": value for key, value in tree.items()}, "  "))


def _lines(tree: Tree, indent: str) -> list[str]:
    found: list[str] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            found += [f"{indent}{key}:\n", *_lines(value, indent + "  ")]
        else:
            found.append(f"{indent}{key}: {value}\n")
    return found


@dataclass(frozen=True, eq=False)
class Fault:
    """One thing that somebody writes wrong."""

    name: str
    edits: Mapping[str, str | None]
    """Dotted path to what is written there, in YAML; None takes the key away, `>new` gives it another name."""
    told: Mapping[str, str]
    """Key of each problem to how it begins."""
    clouds: Sequence[str] = CLOUDS


def apply(tree: Tree, fault: Fault) -> None:
    """Write a fault into a stack file."""
    for path, value in fault.edits.items():
        *above, last = path.split(".")
        at: Any = tree
        for key in above:
            if not isinstance(at.get(key), dict):
                at[key] = {}
            at = at[key]
        if value is None:
            del at[last]
        elif value.startswith(">"):
            for key in list(at):
                at[value[1:] if key == last else key] = at.pop(key)
        else:
            at[last] = value


FAULTS = [Fault(**each) for each in yaml.safe_load((FOLDER / "faults.yaml").read_text(encoding="utf-8"))]


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
    table = yaml.safe_load((FOLDER / "mistakes.yaml").read_text(encoding="utf-8"))
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
