"""What a user sees of resources that only change a part of a pool or of a node."""

import pytest

from tests.engine.cli import Engine

pytestmark = pytest.mark.engine

PROGRAM = """
import pulumi_kubernetes as k8s

pool = {"api_version": "karpenter.sh/v1", "kind": "NodePool"}
k8s.core.v1.NodePatch("cut", metadata={"name": "gpu-1"}, spec={"taints": []})
k8s.core.v1.NodePatch("labelled", metadata={"name": "gpu-2", "labels": {"a": "b"}})
k8s.apiextensions.CustomResourcePatch("part", **pool, metadata={"name": "gpu"}, spec={"weight": 1})
k8s.apps.v1.DeploymentPatch("scaled", metadata={"name": "web"}, spec={"replicas": 2})
"""
OPEN = {
    "cut": "it replaces the taints of a node at spec.taints",
    "part": "it changes part of a NodePool that is not in this resource",
}


@pytest.fixture(scope="module")
def shown(engine: Engine) -> str:
    """Preview the program with the policy pack, and return what is shown."""
    folder = engine.project("leftopen", PROGRAM)
    engine.run("stack", "init", "dev", project=folder).succeeded()
    ran = engine.run("preview", "--stack", "dev", "--policy-pack", "../repository/policies", project=folder)
    assert ran.code != 0, ran.output
    return ran.output


@pytest.mark.parametrize("name", OPEN)
def test_what_is_left_open_fails_the_preview(shown: str, name: str) -> None:
    (line,) = [line for line in shown.splitlines() if line.strip().startswith(f"{name}: ") and OPEN[name] in line]

    assert "cannot be verified" in line


def test_other_patches_of_nodes_are_advice(shown: str) -> None:
    (line,) = [line for line in shown.splitlines() if line.strip().startswith("labelled: ")]

    assert "changes part of a node" in line
    assert "cannot be verified" not in line
    assert [line for line in shown.splitlines() if line.strip().startswith("scaled: ")] == []
