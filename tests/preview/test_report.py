"""Small parts of the report."""

from typing import Any

import pytest

from gpupools.preview.report import PolicyVerdict, Violation, offers, policy_lines, short_type, tree
from tests.preview.conftest import RunProgram
from tests.providers.aws_pools import plan


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


@pytest.mark.parametrize(
    ("wish", "lines"),
    [
        pytest.param({"gpu": "L4"}, ["1 nvidia.com/gpu"], id="whole GPUs"),
        pytest.param(
            {
                "instance_type": "g6.12xlarge",
                "sharing": {"mode": "time-slicing", "replicas": 4},
                "trust": {"team": "x"},
            },
            ["16 nvidia.com/gpu"],
            id="shared",
        ),
        pytest.param(
            {
                "instance_type": "p4d.24xlarge",
                "software": "gpu-operator",
                "sharing": {"mode": "mig", "layout": {0: ["3g.20gb", "2g.10gb"], 1: ["3g.20gb"]}},
            },
            ["6 nvidia.com/gpu", "2 nvidia.com/mig-3g.20gb", "1 nvidia.com/mig-2g.10gb"],
            id="sliced, each GPU otherwise",
        ),
        pytest.param(
            {
                "instance_type": "p5.48xlarge",
                "software": "device-plugin",
                "zones": ["eu-central-1a"],
                "network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]},
            },
            ["8 nvidia.com/gpu", "32 vpc.amazonaws.com/efa", "10256Mi hugepages-2Mi"],
            id="EFA",
        ),
        pytest.param({"gpu": "L4", "software": "dra-driver", "nodes": {"fixed": 1}}, ["1 GPU by claim"], id="claims"),
    ],
)
def test_what_a_node_offers_is_said_resource_by_resource(wish: dict[str, Any], lines: list[str]) -> None:
    assert sorted(offers(plan(**wish))) == sorted(lines)


def test_violations_stand_below_their_policy() -> None:
    verdicts = [
        PolicyVerdict("a", "mandatory", "why", (Violation("urn", "why\nit is wrong"),)),
        PolicyVerdict("longer", "advisory", "why"),
        PolicyVerdict("b", "advisory", "costly", (Violation("u", "costly\none"), Violation("v", "costly\ntwo"))),
    ]

    assert policy_lines(verdicts) == [
        "  FAIL  a       mandatory",
        "          why",
        "          it is wrong",
        "  pass  longer  advisory",
        "  warn  b       advisory",
        "          costly",
        "          one",
        "          two",
    ]
    assert [verdict.refuses for verdict in verdicts] == [True, False, False]


def test_only_a_mandatory_policy_refuses() -> None:
    assert not PolicyVerdict("a", "advisory", "why", (Violation("urn", "wrong"),)).refuses
