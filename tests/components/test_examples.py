"""The programs under examples/ run as they are written."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.preview.program_run import Preview, preview_program
from gpupools.preview.sdk_schema import UNKNOWN
from tests.policies.messages import finding_messages

# The SDK warns of deprecated classes of its own when the program is the first to import `aws.ec2`.
pytestmark = pytest.mark.filterwarnings("ignore:aws.ec2/:DeprecationWarning")

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/Pulumi.yaml"))


def run(manifest: Path) -> Preview:
    """Run an example with the configuration its own manifest gives."""
    project = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    config = {key: entry.get("value", entry.get("default")) for key, entry in project["config"].items()}
    return preview_program(manifest.with_name("__main__.py"), "dev", project["name"], config)


@pytest.mark.parametrize("manifest", EXAMPLES, ids=[path.parent.name for path in EXAMPLES])
def test_an_example_declares_pools_that_pass_the_policies(manifest: Path) -> None:
    shown = run(manifest)

    assert (shown.problems, shown.warnings) == ([], [])
    assert "gpupools:index:GpuNodePool" in [resource.type for resource in shown.resources]
    assert [said for each in shown.resources for said in finding_messages(each.type, each.inputs)] == []


def test_the_program_of_ones_own_hands_its_role_and_subnet_to_the_pool() -> None:
    (manifest,) = [path for path in EXAMPLES if path.parent.name == "own_program"]
    shown = run(manifest)

    (group,) = [resource for resource in shown.resources if resource.type.endswith(":NodeGroup")]
    inputs: dict[str, Any] = dict(group.inputs)
    assert inputs["clusterName"] == "research"
    assert (inputs["subnetIds"], inputs["nodeRoleArn"]) == ([UNKNOWN], UNKNOWN)
    waits_for = {urn.rpartition("::")[2] for urn in group.options["propertyDependencies"]["nodeRoleArn"]}
    assert {name for name in waits_for if name.startswith("gpu-nodes-")} == {
        "gpu-nodes-AmazonEC2ContainerRegistryPullOnly",
        "gpu-nodes-AmazonEKSWorkerNodePolicy",
        "gpu-nodes-AmazonEKS_CNI_Policy",
    }
    assert shown.outputs["capacity"] == {"nvidia.com/gpu": 1}
