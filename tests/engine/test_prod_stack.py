"""The prod stack, whose clusters are another Pulumi stack: its addresses are that stack's outputs."""

import json
from typing import Any

import pytest

from tests.engine.cli import Engine
from tests.engine.stand_in import NODE_GROUP

pytestmark = pytest.mark.engine

PLATFORM: dict[str, Any] = {
    "type": "pulumi:pulumi:Stack",
    "urn": "urn:pulumi:prod::platform::pulumi:pulumi:Stack::platform-prod",
    "custom": False,
    "outputs": {
        "clusterName": "train-prod",
        "privateSubnetIds": ["subnet-00000001", "subnet-00000002"],
        "nodeRoles": {"gpu": "arn:aws:iam::123456789012:role/gpu-nodes"},
    },
}
"""The other stack's state: it has outputs, and nothing else matters here."""


def publish(engine: Engine, **outputs: object) -> None:
    """Let the other stack have its outputs, some of them with other values."""
    platform = engine.folder / "platform"
    state, root = platform / "state.json", {**PLATFORM, "outputs": PLATFORM["outputs"] | outputs}
    manifest = {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""}
    state.write_text(json.dumps({"version": 3, "deployment": {"manifest": manifest, "resources": [root]}}))
    engine.run("stack", "import", "--stack", "prod", "--file", str(state), project=platform).succeeded()


@pytest.fixture(scope="module")
def prod(engine: Engine) -> Engine:
    """Create the other stack, and let prod name it as a self-managed backend does."""
    engine.run("stack", "init", "prod", project=engine.project("platform", "")).succeeded()
    publish(engine)
    file = engine.repository / "stacks" / "Pulumi.prod.yaml"
    text = file.read_text(encoding="utf-8")
    assert "stack: acme/platform/prod" in text
    # On such a backend every organization is called `organization`.
    file.write_text(text.replace("acme/platform/prod", "organization/platform/prod"), encoding="utf-8")
    engine.run("stack", "init", "prod").succeeded()
    return engine


def test_up_reads_the_addresses_from_the_other_stack_and_passes_the_policies(prod: Engine) -> None:
    prod.up("prod", "--policy-pack", "policies").succeeded()

    groups = [pool["inputs"] for pool in prod.resources(NODE_GROUP)]
    assert {group["labels"]["gpupools/pool"] for group in groups} == {"h100", "notebooks"}
    for group in groups:
        assert group["clusterName"] == "train-prod"
        assert group["subnetIds"] == ["subnet-00000001", "subnet-00000002"]
        assert group["nodeRoleArn"] == "arn:aws:iam::123456789012:role/gpu-nodes"


def test_an_output_the_other_stack_lacks_is_named_without_a_traceback(prod: Engine) -> None:
    file = prod.repository / "stacks" / "Pulumi.prod.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("nodeRoles.gpu", "nodeRoles.cpu"), encoding="utf-8")

    shown = prod.run("preview", "--stack", "prod").failed().output
    file.write_text(text, encoding="utf-8")

    assert "stack organization/platform/prod has no output 'nodeRoles.cpu'" in shown


def test_an_output_that_would_replace_production_pools_is_refused_before_anything_is_declared(prod: Engine) -> None:
    publish(prod, privateSubnetIds=["subnet-00000001", "subnet-00000009"])
    before = prod.journal()

    refused = prod.up("prod").failed().output

    said = "cluster.subnet_ids (output of organization/platform/prod: privateSubnetIds has changed)"
    for pool, switch in (("h100", "train/h100"), ("notebooks", "train/notebooks")):
        assert f"train/{pool}: is a production pool, and this update would replace it" in refused
        assert f"add {switch} to gpupools:allow_destroy" in refused
    assert said in refused
    assert prod.journal() == before

    told = prod.gpupools("diff", "--stack", "prod", "--exit-code")
    assert told.code == 3, told.output
    assert "cluster.subnet_ids [subnet-00000001, subnet-00000002] → [subnet-00000001, subnet-00000009]" in told.output
    publish(prod)
    assert prod.gpupools("diff", "--stack", "prod", "--exit-code").succeeded()
    prod.up("prod", "--expect-no-changes").succeeded()


def test_a_node_group_that_became_spot_is_said(prod: Engine) -> None:
    kept = json.loads(prod.cloud.read_text(encoding="utf-8"))
    group = next(each for each in kept["resources"].values() if each["type"] == NODE_GROUP)
    group["outputs"]["capacityType"] = "SPOT"
    prod.cloud.write_text(json.dumps(kept), encoding="utf-8")

    shown = prod.up("prod", "--refresh").succeeded().output

    said = "NodeGroup.capacityType is SPOT in the cloud, and the stack file leaves it at ON_DEMAND"
    assert said in shown
    assert said in prod.gpupools("diff", "--stack", "prod").output
