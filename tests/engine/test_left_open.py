"""What a user sees of resources that only change a part of a pool, and of charts whose values nobody knows yet."""

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
late = k8s.core.v1.ConfigMap("late", metadata={"name": "late"}).id
k8s.helm.v3.Release("objects", chart="raw", values={"resources": late.apply(lambda each: [each])})
k8s.helm.v3.Release("extra", chart="podinfo", values={"extraObjects": late.apply(lambda each: [each])})
k8s.helm.v3.Release("named", chart="podinfo", values={"podAnnotations": {"config": late}})
"""
OPEN = {
    "cut": "it takes taints off a node at spec.taints",
    "part": "it changes part of a NodePool that is not in this resource",
    "objects": "the chart 'raw' makes what its values say, and not all of them are known here",
    "extra": "the chart 'podinfo' makes what its value extraObjects says, which is not known yet",
}


@pytest.fixture(scope="module")
def shown(engine: Engine) -> str:
    """Preview the program with the policy pack, and return what is shown."""
    folder = engine.project("leftopen", PROGRAM)
    engine.run("stack", "init", "dev", project=folder).well()
    ran = engine.run("preview", "--stack", "dev", "--policy-pack", "../repository/policies", project=folder)
    assert ran.code != 0, ran.output
    return ran.output


@pytest.mark.parametrize("name", OPEN)
def test_what_is_left_open_fails_the_preview(shown: str, name: str) -> None:
    (line,) = [line for line in shown.splitlines() if line.strip().startswith(f"{name}: ") and OPEN[name] in line]

    assert "cannot be verified" in line


@pytest.mark.parametrize("name", ["labelled", "scaled", "named"])
def test_what_looks_alike_is_not_told_of(shown: str, name: str) -> None:
    assert [line for line in shown.splitlines() if line.strip().startswith(f"{name}: ")] == []
