"""Small parts of the report."""

import pytest

from preview.report import PolicyVerdict, Violation, policy_lines, short_type, tree
from tests.preview.conftest import RunProgram


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


def test_violations_stand_below_their_policy() -> None:
    verdicts = [
        PolicyVerdict("a", "mandatory", "why", (Violation("urn", "why\nit is wrong"),)),
        PolicyVerdict("longer", "advisory", "why"),
    ]

    assert policy_lines(verdicts) == [
        "  FAIL  a       mandatory",
        "          why",
        "          it is wrong",
        "  pass  longer  advisory",
    ]
    assert [verdict.refuses for verdict in verdicts] == [True, False]


def test_only_a_mandatory_policy_refuses() -> None:
    assert not PolicyVerdict("a", "advisory", "why", (Violation("urn", "wrong"),)).refuses
