"""GPU pools that a plan deletes or recreates."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit.judging import judge_file
from gpupools.policies.policy_config import Config

POOL: dict[str, Any] = {
    "name": "a",
    "vm_size": "Standard_NC24ads_A100_v4",
    "node_taints": ["nvidia.com/gpu=present:NoSchedule"],
}
POOL |= {"auto_scaling_enabled": True, "min_count": 0, "max_count": 3}
CPU = POOL | {"vm_size": "Standard_D8s_v5"}
AKS = "azure-native:containerservice:AgentPool"
WIRE = {"vmSize": "Standard_NC24ads_A100_v4", "enableAutoScaling": True, "minCount": 0, "maxCount": 3}


def plan(actions: list[str], before: dict[str, Any]) -> dict[str, Any]:
    """Return a Terraform plan with one change."""
    change = {"actions": actions, "before": before, "after": None if actions == ["delete"] else before}
    kind = "azurerm_kubernetes_cluster_node_pool"
    address = f"{kind}.gpu"
    return {
        "format_version": "1.2",
        "resource_changes": [
            {
                "address": address,
                "mode": "managed",
                "type": kind,
                "name": "gpu",
                "change": change | {"after_unknown": {}},
            }
        ],
    }


def preview(*ops: str) -> dict[str, Any]:
    """Return a Pulumi preview with these steps on one pool."""
    urn = f"urn:pulumi:dev::p::{AKS}::gpu"
    state = {"urn": urn, "type": AKS, "inputs": WIRE}
    steps = []
    for op in ops:
        old = {} if op == "create-replacement" else {"oldState": state}
        steps.append({"op": op, "urn": urn, **old, **({"newState": state} if op != "delete" else {})})
    return {"steps": steps, "changeSummary": {}}


@pytest.mark.parametrize(
    ("document", "what"),
    [
        (
            plan(["delete"], POOL),
            "the plan deletes this GPU pool, which ends all pods on it: up to 3 nodes with 3 GPUs",
        ),
        (plan(["delete", "create"], POOL), "the plan recreates this GPU pool"),
        (plan(["create", "delete"], POOL), "the plan recreates this GPU pool"),
        (plan(["delete"], {**POOL, "max_count": None}), "ends all pods on it: an unknown number of nodes"),
        (plan(["update"], POOL), ""),
        (plan(["forget"], POOL), ""),
        (plan(["delete"], CPU), ""),
        (preview("delete"), "the plan deletes this GPU pool"),
        (preview("create-replacement", "replace", "delete-replaced"), "the plan recreates this GPU pool"),
        (preview("update"), ""),
    ],
)
def test_a_plan_that_ends_a_gpu_pool_is_a_finding(tmp_path: Path, document: dict[str, Any], what: str) -> None:
    """With the nodes and GPUs that go, once per pool, at the pool's address."""
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(document))
    report = judge_file(file, Config({}))
    found = [each for each in report.found if each.rule.name == "gpu-pool-recreated"]

    assert [each.problems for each in [report]] == [()]
    assert len(found) == bool(what)
    assert all(what in each.message and each.address for each in found)


@pytest.mark.parametrize("ends_too", [False, True], ids=["template stays", "template ends too"])
def test_a_group_whose_gpus_only_its_launch_template_shows_is_reported(tmp_path: Path, ends_too: bool) -> None:
    def change(kind: str, actions: list[str], before: dict[str, Any]) -> dict[str, Any]:
        after = None if actions == ["delete"] else before
        found = {"actions": actions, "before": before, "after": after, "after_unknown": {}}
        return {"address": f"{kind}.gpu", "mode": "managed", "type": kind, "name": "gpu", "change": found}

    group = {"id": "c:gpu", "cluster_name": "c", "launch_template": [{"id": "lt-1", "version": "1"}]}
    group["scaling_config"] = [{"min_size": 0, "max_size": 2}]
    template = {"id": "lt-1", "name": "gpu", "instance_type": "p5.48xlarge"}
    changes = [
        change("aws_eks_node_group", ["delete", "create"], group),
        change("aws_launch_template", ["delete"] if ends_too else ["no-op"], template),
    ]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"format_version": "1.2", "resource_changes": changes}))
    (found,) = [each for each in judge_file(file, Config()).found if each.rule.name == "gpu-pool-recreated"]

    assert found.address == "aws_eks_node_group.gpu"
    assert "up to 2 nodes with 16 GPUs" in found.message
