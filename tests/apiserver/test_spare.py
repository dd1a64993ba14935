"""What an autoscaler asks of the API server before it keeps a node free: a dry run of one pod of the PodTemplate."""

import pytest

from gpupools.providers import clouds
from gpupools.software.planning import plan_runtimes
from tests.apiserver.control_plane import ControlPlane
from tests.gpupools.software.conftest import stack_of
from tests.stack_plans import plan_stack

pytestmark = pytest.mark.apiserver


def test_the_dry_run_of_a_buffer_passes_trust_and_pod_security_only_in_its_namespace(server: ControlPlane) -> None:
    existing = {"cluster_autoscaler": {"name": "kube-system/ca", "capacity_buffers": True}}
    pool = {"gpu": "L4", "nodes": {"max": 4, "spare": 1}, "trust": {"team": "kept-free"}}
    stack = stack_of("aws", {"a": pool}, {"existing": existing, "trust_policy": True})
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    for each in made.objects:
        if each.kind != "CapacityBuffer":  # whose definition comes with the autoscaler
            server.apply(each.manifest).succeeded()
    (template,) = (each.manifest["template"] for each in made.objects if each.kind == "PodTemplate")
    server.add_namespaces("elsewhere")

    def answered(space: str) -> str:
        metadata = {"name": "fake-pod", "namespace": space}
        return server.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **template}, dry_run=True
        ).message

    server.wait("the policy", lambda: "keeps" in answered("elsewhere") or "trust" in answered("elsewhere"))
    assert answered("gpupools-spare") == ""
