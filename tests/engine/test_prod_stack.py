"""The prod stack, whose clusters are another Pulumi stack: its addresses are that stack's outputs."""

import json

import pytest

from tests.engine.cli import Engine
from tests.engine.stand_in import NODE_GROUP

pytestmark = pytest.mark.engine

PLATFORM = {
    "type": "pulumi:pulumi:Stack",
    "urn": "urn:pulumi:prod::platform::pulumi:pulumi:Stack::platform-prod",
    "custom": False,
    "outputs": {
        "clusterName": "train-prod",
        "privateSubnetIds": ["subnet-1", "subnet-2"],
        "nodeRoles": {"gpu": "arn:aws:iam::123456789012:role/gpu-nodes"},
    },
}
"""The other stack's state: it has outputs, and nothing else matters here."""


@pytest.fixture(scope="module")
def prod(engine: Engine) -> Engine:
    """Create the other stack, and let prod name it as a self-managed backend does."""
    platform = engine.project("platform", "")
    engine.run("stack", "init", "prod", project=platform).succeeded()
    state = platform / "state.json"
    manifest = {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""}
    state.write_text(json.dumps({"version": 3, "deployment": {"manifest": manifest, "resources": [PLATFORM]}}))
    engine.run("stack", "import", "--stack", "prod", "--file", str(state), project=platform).succeeded()
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
        assert group["subnetIds"] == ["subnet-1", "subnet-2"]
        assert group["nodeRoleArn"] == "arn:aws:iam::123456789012:role/gpu-nodes"


def test_an_output_the_other_stack_lacks_is_named_without_a_traceback(prod: Engine) -> None:
    file = prod.repository / "stacks" / "Pulumi.prod.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("nodeRoles.gpu", "nodeRoles.cpu"), encoding="utf-8")

    shown = prod.run("preview", "--stack", "prod").failed().output
    file.write_text(text, encoding="utf-8")

    assert "stack organization/platform/prod has no output 'nodeRoles.cpu'" in shown
