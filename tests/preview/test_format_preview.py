"""The report as a whole and in its parts."""

from types import SimpleNamespace
from typing import Any

import pytest

from gpupools.common.errors import Problem
from gpupools.preview.format_preview import (
    PolicyVerdict,
    Report,
    Violation,
    no_report,
    node_resource_lines,
    policy_lines,
    pool_table,
    short_type,
    taint_lines,
    tree,
)
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.program_run import Preview
from tests.preview.conftest import RunProgram
from tests.providers.aws_pools import plan
from tests.rows import listed


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("aws:eks/nodeGroup:NodeGroup", "aws:eks:NodeGroup"),
        ("gcp:container/nodePool:NodePool", "gcp:container:NodePool"),
        ("azure-native:containerservice:AgentPool", "azure-native:containerservice:AgentPool"),
        ("azure-native:containerservice/v20250801:AgentPool", "azure-native:containerservice/v20250801:AgentPool"),
        ("kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v3:Release"),
        ("pulumi:providers:aws", "pulumi:providers:aws"),
        ("gpupools:index:GpuNodePool", "gpupools:index:GpuNodePool"),
    ],
)
def test_types_are_shown_as_pulumi_shows_them(token: str, shown: str) -> None:
    assert short_type(token) == shown


def test_the_tree_draws_children_below_their_parents(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi
        def box(name, parent=None):
            return pulumi.ComponentResource("t:index:Box", name, {}, pulumi.ResourceOptions(parent=parent))
        a, b = box("a"), box("b")
        c = box("c", a)
        box("d", c)
        box("e", a)
        """
    )

    assert [line.split() for line in tree(found)] == [
        ["+", "pulumi:pulumi:Stack", "gpupools-test"],
        ["+", "├─", "t:index:Box", "a"],
        ["+", "│", "├─", "t:index:Box", "c"],
        ["+", "│", "│", "└─", "t:index:Box", "d"],
        ["+", "│", "└─", "t:index:Box", "e"],
        ["+", "└─", "t:index:Box", "b"],
    ]
    assert len({line.rindex(" ") for line in tree(found)[1:]}) == 1


@listed(__file__)
def test_what_a_node_offers_is_said_resource_by_resource(wanted: dict[str, Any], lines: list[str]) -> None:
    assert sorted(node_resource_lines(plan(**wanted))) == sorted(lines)


def test_what_a_pool_has_several_of_stands_one_below_the_other() -> None:
    efa: dict[str, Any] = {"network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]}, "zones": ["eu-central-1a"]}
    both = plan(instance_type="p5.48xlarge", software="device-plugin", taints=["team=x:NoExecute"], **efa)
    _, _, first, *rest = pool_table([both]).splitlines()
    offered = [line.split() for line in node_resource_lines(both)]

    assert [first.split()[-3:], *map(str.split, rest)] == [["none", *offered[0]], *offered[1:]]


def test_taints_name_their_pools() -> None:
    both = [plan(), plan(name="b", taints=["team=x:NoExecute"])]

    assert list(taint_lines(both)) == ["  nvidia.com/gpu=present:NoSchedule: every pool", "  team=x:NoExecute: train/b"]


def test_violations_stand_below_their_policy() -> None:
    verdicts = [
        PolicyVerdict("a", "mandatory", "why", (Violation("urn", "why\nit is wrong"),)),
        PolicyVerdict("longer", "advisory", "why"),
        PolicyVerdict("b", "advisory", "costly", (Violation("u", "costly\none"), Violation("v", "costly\none"))),
    ]

    assert policy_lines(verdicts) == [
        "  FAIL  a  mandatory",
        "          why",
        "          it is wrong",
        "  warn  b  advisory",
        "          costly",
        "          one",
        "          one",
    ]
    assert [verdict.refuses for verdict in verdicts] == [True, False, False]


def test_only_a_mandatory_policy_refuses() -> None:
    assert not PolicyVerdict("a", "advisory", "why", (Violation("urn", "wrong"),)).refuses


def resource(kind: str, name: str, parent: str | None = None, **options: Any) -> DeclaredResource:
    return DeclaredResource(kind, name, f"urn:{name}", parent, {"size": 1}, options)


BY_HAND = {"aws": {"NodeGroup": {"tags": {"a": "größer"}, "version": None}}}
COSTLY = PolicyVerdict("costs", "advisory", "why", (Violation("urn:group", "why\ngroup: too much"),))
FORBIDDEN = PolicyVerdict("forbids", "mandatory", "never", (Violation("urn:group", "never\ngroup: is wrong"),))
FINE = PolicyVerdict("fine", "mandatory", "why not")


def report(**more: Any) -> Report:
    given: dict[str, Any] = {"plans": [plan()], "verdicts": [FINE], **more}
    told = {
        key: given.pop(key)
        for key in ("stack_references", "messages", "warnings", "resources", "problems")
        if key in given
    }
    return Report(file="f.yaml", preview=Preview("gpupools", "test", **{"resources": RESOURCES, **told}), **given)


RESOURCES = [
    resource("pulumi:providers:aws", "train"),
    resource("gpupools:index:GpuNodePool", "pool"),
    resource("aws:eks/nodeGroup:NodeGroup", "group", "urn:pool", **{"import": "id"}),
]

WHOLE = """\
Stack test (f.yaml): 2 pools on 1 cluster

cluster      pool    instance type    GPUs per node    nodes    sharing    resources per node
-----------  ------  ---------------  ---------------  -------  ---------  --------------------
train (aws)  a       g6.xlarge        1 × L4           0-4      none       1 nvidia.com/gpu
train (aws)  b       g6.xlarge        1 × L4           2        none       1 nvidia.com/gpu

Taints:
  nvidia.com/gpu=present:NoSchedule: every pool

Overrides, 2 inputs:
  train/b: NodeGroup.tags.a = "größer"
  train/b: NodeGroup.version is removed

Resources: 2 to create, 1 to import
 +  pulumi:pulumi:Stack            gpupools-test
 +  ├─ pulumi:providers:aws        train
 +  └─ gpupools:index:GpuNodePool  pool
 =     └─ aws:eks:NodeGroup        group

Outputs of other stacks, unknown in an offline preview: organization/network/dev, o/p/q

Program output:
  told
  warning: b

Warnings:
  a.b: is odd; mend it

Policies on 3 resources: 1 of 2 policies pass
  warn  costs  advisory
          why
          group: too much

Pod spec for train/a (--json shows the other pools, under pod):
  nodeSelector:
    gpupools/pool: a
  tolerations:
  - key: nvidia.com/gpu
    operator: Equal
    effect: NoSchedule
    value: present
  containers:
  - name: main
    resources:
      limits:
        nvidia.com/gpu: 1

Next: gpupools diff shows what an edit does to nodes, gpupools images lists the images to mirror,
gpupools explain defines a term.

Nothing was created, and no cloud API was called. To create the resources, run pulumi up.
"""


def test_the_report_has_its_sections_in_order() -> None:
    found = report(
        plans=[plan(), plan(name="b", nodes={"fixed": 2}, overrides=BY_HAND)],
        verdicts=[FINE, COSTLY],
        stack_references=["organization/network/dev", "o/p/q"],
        messages=["told", "warning: b"],
        warnings=[Problem(("a", "b"), "is odd", "mend it")],
    )

    assert found.as_text() == WHOLE
    assert found.exit_code == 0


def sections(found: Report) -> list[str]:
    """Return the first line of each section."""
    return [section.splitlines()[0] for section in found.as_text().split("\n\n")]


TABLE = "cluster      pool    instance type    GPUs per node    nodes    sharing"
OFFERED = ["Pod spec for train/a:", "Next: gpupools diff shows what an edit does to nodes, gpupools"]
END = "Nothing was created, and no cloud API was called. To create the resources, run pulumi up."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, [*OFFERED, END], id="nothing more"),
        pytest.param({"verdicts": [FORBIDDEN]}, ["Rejected: 1 mandatory policy violated."], id="a policy refuses"),
        pytest.param(
            {"verdicts": [FORBIDDEN, FINE, FORBIDDEN], "problems": [Problem((), "one"), Problem((), "two")]},
            ["Rejected: 2 problems", "Rejected: 2 mandatory policies violated."],
            id="policies and problems refuse",
        ),
        pytest.param({"problems": [Problem((), "one")]}, ["Rejected: 1 problem"], id="a problem refuses"),
        pytest.param({"plans": []}, [END], id="no pools"),
    ],
)
def test_what_follows_the_policies_is_what_came_of_it(given: dict[str, Any], expected: list[str]) -> None:
    found = report(**given)
    first = ["Stack test (f.yaml): 1 pool on 1 cluster", TABLE, "Taints:", "Resources: 2 to create, 1 to import"]
    policies = "Policies on 3 resources: "
    told = sections(found)

    wanted = [*first, policies, *expected] if found.plans else [told[0], told[1], first[3], policies, *expected]
    assert [line.startswith(start) for line, start in zip(told, wanted, strict=True)] == [True] * len(told), told
    assert found.exit_code == int(any(line.startswith("Rejected") for line in expected))


def test_what_nobody_takes_over_is_created() -> None:
    assert "Resources: 2 to create" in sections(report(resources=RESOURCES[:2]))


def test_a_cluster_has_its_owners_and_notes() -> None:
    alike = {("gpu-operator", (("NVIDIA", "driver, plugin"), ("you", "exporter"))): ("a", "b"), ("none", ()): ("c",)}
    train = {"cluster": "train", "notes": ("mind this", "and that"), "pod_metadata": {}}
    runtime = SimpleNamespace(**train, owners_alike=lambda: alike)
    quiet = SimpleNamespace(cluster="other", notes=(), owners_alike=dict)
    told = report(runtimes=[runtime, quiet]).as_text().split("\n\n")

    assert [line.split() for line in told[3].splitlines()[3:]] == [
        ["train", "a", "gpu-operator", "NVIDIA", "driver,", "plugin"],
        ["b", "you", "exporter"],
        ["train", "c", "none"],
    ]
    assert told[3].startswith("Who installs the GPU software:\ncluster")
    assert told[4] == "Notes for cluster train:\n  mind this\n  and that"
    assert told[5].startswith("Resources: ")


def test_a_problem_of_several_lines_is_indented() -> None:
    told = report(problems=[Problem(("a",), "one\ntwo")]).as_text()

    assert "Rejected: 1 problem\n  a: one\n  two\n" in told


def test_the_report_as_json_has_every_part() -> None:
    found = report(
        plans=[plan(name="b", overrides=BY_HAND)],
        verdicts=[FINE, FORBIDDEN],
        stack_references=["o/p/q"],
        messages=["told"],
        warnings=[Problem(("a",), "is odd", "mend it")],
    ).as_json()

    assert [pool["name"] for pool in found.pop("pools")] == ["b"]
    assert [each["where"] if "where" in each else each["key"] for each in found.pop("warnings")] == ["a"]
    assert found == {
        "file": "f.yaml",
        "project": "gpupools",
        "stack": "test",
        "runtimes": [],
        "quotas": [],
        "prices": [],
        "teams": [],
        "availability_unknown": [],
        "resources": [
            {
                "type": each.type,
                "name": each.name,
                "urn": each.urn,
                "parent": each.parent,
                "custom": each.custom,
                "inputs": {"size": 1},
                "options": each.options,
            }
            for each in RESOURCES
        ],
        "outputs": {},
        "stack_references": ["o/p/q"],
        "policy": [
            {"policy": "fine", "level": "mandatory", "verdict": "pass", "description": "why not", "violations": []},
            {
                "policy": "forbids",
                "level": "mandatory",
                "verdict": "violation",
                "description": "never",
                "violations": [{"urn": "urn:group", "message": "never\ngroup: is wrong"}],
            },
        ],
        "messages": ["told"],
    }


def test_a_refused_file_has_the_keys_of_a_report_with_nothing_in_them() -> None:
    whole, empty = report().as_json(), no_report("f.yaml", "gpupools", "test")

    assert set(empty) == set(whole)
    assert {key: value for key, value in empty.items() if value} == {
        "file": "f.yaml",
        "project": "gpupools",
        "stack": "test",
    }
    assert {key: type(value) for key, value in empty.items()} == {key: type(value) for key, value in whole.items()}


def test_the_tags_of_a_pool_are_one_line() -> None:
    tags = [resource("aws:autoscaling/tag:Tag", f"pool-label/{each}", "urn:pool") for each in ("a", "b", "c")]
    shown = tree(Preview("gpupools", "test", resources=[*RESOURCES, *tags]))

    assert [line for line in shown if "Tag" in line] == [" +     └─ aws:autoscaling:Tag      pool-label/a and 2 more"]
    assert f"Resources: {len(RESOURCES) + 2} to create, 1 to import" in sections(report(resources=[*RESOURCES, *tags]))
