"""`gpupools policy` on what the real CLI prints: a preview and an exported state."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpupools.audit.judging import FileReport, judge_file
from gpupools.policies.policy_config import Config
from tests.engine.cli import Engine

pytestmark = pytest.mark.engine

PROGRAM = """\
import pulumi
import pulumi_aws as aws

role, subnets = "arn:aws:iam::123456789012:role/gpu-nodes", ["subnet-0a1b2c3d4e5f60718"]
size = aws.eks.NodeGroupScalingConfigArgs(min_size=0, max_size=1, desired_size=0)
taint = aws.eks.NodeGroupTaintArgs(key="nvidia.com/gpu", value="present", effect="NO_SCHEDULE")
template = aws.ec2.LaunchTemplate("machine", instance_type="g6.xlarge")
launch = aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version="1")
given = dict(cluster_name="train", node_role_arn=role, subnet_ids=subnets, scaling_config=size)

aws.eks.NodeGroup("untainted", instance_types=["g6.xlarge"], **given)
aws.eks.NodeGroup("tainted", instance_types=["g6.xlarge"], taints=[taint], **given)
aws.eks.NodeGroup("from-template", launch_template=launch, **given)
aws.eks.NodeGroup("secret", instance_types=pulumi.Output.secret(["g6.xlarge"]), **given)
"""


@dataclass(frozen=True)
class Documents:
    preview: FileReport
    state: FileReport
    again: FileReport
    """A preview of the deployed stack, in which nothing changes."""
    with_sames: FileReport
    """The same with `--show-sames`."""


@pytest.fixture(scope="module")
def documents(engine: Engine) -> Documents:
    """Preview a program and judge the output, deploy it and judge the state."""
    project = engine.project("documents", PROGRAM)
    engine.run("stack", "init", "dev", project=project).succeeded()

    def judged(name: str, *arguments: str) -> FileReport:
        path: Path = engine.folder / name
        path.write_text(engine.run(*arguments, "--stack", "dev", project=project).succeeded().output, encoding="utf-8")
        return judge_file(path, Config())

    preview = judged("preview.json", "preview", "--json")
    engine.up("dev", project=project).succeeded()
    state = judged("state.json", "stack", "export")
    again = judged("again.json", "preview", "--json")
    return Documents(preview, state, again, judged("sames.json", "preview", "--json", "--show-sames"))


def taints(judged: FileReport) -> dict[str, bool]:
    """Return the pools with a finding about their taints, and whether it is only that nobody can tell."""
    assert judged.problems == ()
    return {
        found.address.rpartition("::")[2]: found.finding.unverified
        for found in judged.found
        if found.rule.name.startswith("gpu-pool-tainted")
    }


def test_a_preview_is_judged_with_its_launch_template_and_its_secrets_hidden(documents: Documents) -> None:
    assert documents.preview.form == "Pulumi preview"
    assert taints(documents.preview) == {"untainted": False, "from-template": False, "secret": True}


def test_an_exported_state_is_judged_alike(documents: Documents) -> None:
    assert documents.state.form == "Pulumi state"
    assert taints(documents.state) == {"untainted": False, "from-template": False, "secret": True}


def test_a_preview_that_leaves_unchanged_pools_out_cannot_be_verified(documents: Documents) -> None:
    assert taints(documents.again) == {}
    assert documents.again.gaps == ("unchanged-resources",)
    assert documents.again.refuses


def test_a_preview_with_the_unchanged_resources_is_judged_whole(documents: Documents) -> None:
    assert taints(documents.with_sames) == {"untainted": False, "from-template": False, "secret": True}
    assert documents.with_sames.gaps == ()
    assert documents.with_sames.answers["judged"] == documents.state.answers["judged"]
    assert documents.with_sames.not_understood == ()


def test_findings_have_a_line_of_the_file(documents: Documents) -> None:
    for judged in (documents.preview, documents.state):
        assert all(found.line is not None and found.line > 1 for found in judged.found if found.address)
        assert json.dumps(judged.as_json())
