"""What a user sees when the taint rule runs at level `remediate`."""

import pytest

from tests.engine.cli import Engine
from tests.engine.test_refusals import UNTAINTED

pytestmark = pytest.mark.engine


def test_an_update_creates_the_pools_with_the_taint_that_the_program_left_out(engine: Engine) -> None:
    folder = engine.project("remediated", UNTAINTED)
    stack = (engine.repository / "stacks" / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    (folder / "Pulumi.dev.yaml").write_text(stack, encoding="utf-8")
    (folder / "policy-config.json").write_text('{"gpu-pool-tainted": "remediate"}', encoding="utf-8")
    pack = ("--policy-pack", "../repository/policies", "--policy-pack-config", "policy-config.json")
    engine.run("stack", "init", "dev", project=folder).succeeded()

    shown = engine.up("dev", *pack, project=folder).succeeded().output

    reported = [line for line in shown.splitlines() if "gpu-pool-tainted" in line]
    assert reported
    assert all("remediate" in line for line in reported), reported
    assert "[mandatory]" not in shown
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    for group in engine.resources("aws:eks/nodeGroup:NodeGroup"):
        assert group["inputs"]["taints"] == [taint]
    for pool in engine.resources("azure-native:containerservice:AgentPool"):
        assert pool["inputs"]["nodeTaints"] == ["nvidia.com/gpu=present:NoSchedule"]
    for pool in engine.resources("gcp:container/nodePool:NodePool"):
        assert pool["inputs"]["nodeConfig"]["taints"] == [taint]
    assert len(engine.resources("aws:eks/nodeGroup:NodeGroup", "gcp:container/nodePool:NodePool")) > 2
