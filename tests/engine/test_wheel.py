"""The wheel in a team's own repository, with the real engine: program, policy pack, component and its host."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.cli import Engine
from tests.engine.stand_in import NODE_GROUP, NODE_POOL
from tests.engine.test_components import HOSTED
from tests.wheel.build import build_wheel, lay_environment, lay_packages_in_the_way

pytestmark = pytest.mark.engine

STACK = """
config:
  gpupools:clusters:
    train: {cloud: aws, name: t, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"}
  gpupools:pools:
    one: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 1}}
"""
OWN_PROGRAM = """
from gpupools.components.gpu_node_pool import GpuNodePool

GpuNodePool(
    "mine",
    {
        "cloud": "gcp",
        "cluster": {
            "name": "lab",
            "project": "ml-dev",
            "location": "europe-west4",
            "service_account": "gpu@ml.iam.gserviceaccount.com",
        },
        "pool": {"gpu": "L4", "nodes": {"max": 3}},
    },
)
"""
UNTAINTED = """
import pulumi_aws as aws

aws.eks.NodeGroup(
    "bare",
    cluster_name="t",
    node_role_arn="arn:aws:iam::123456789012:role/gpu-nodes",
    subnet_ids=["subnet-0a1b2c3d4e5f60718"],
    instance_types=["g6.xlarge"],
    scaling_config={"min_size": 0, "max_size": 1, "desired_size": 0},
)
"""


@pytest.fixture(scope="module")
def repository(engine: Engine) -> Path:
    """Lay out a repository that has installed the wheel beside Pulumi, and nothing of this checkout."""
    folder = engine.folder / "team"
    folder.mkdir()
    lay_packages_in_the_way(folder)
    lay_environment(folder / "env", build_wheel(engine.folder))
    (folder / "pack").mkdir()
    (folder / "pack" / "PulumiPolicy.yaml").write_text(settings(version="1.0.0"), encoding="utf-8")
    pack = "from gpupools.policies.serve import serve\n\nserve()\n"
    (folder / "pack" / "__main__.py").write_text(pack, encoding="utf-8")
    (folder / "plugin").mkdir()
    (folder / "plugin" / "PulumiPlugin.yaml").write_text(settings(name="gpupools"), encoding="utf-8")
    plugin = "from gpupools.components.serve import serve\n\nserve()\n"
    (folder / "plugin" / "__main__.py").write_text(plugin, encoding="utf-8")
    return folder


def settings(**keys: Any) -> str:
    runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": "../env"}}
    return json.dumps({"runtime": runtime, **keys})


def project(repository: Path, name: str, program: str, **keys: Any) -> Path:
    folder = repository / name
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(settings(name=keys.pop("project", name), **keys), encoding="utf-8")
    (folder / "__main__.py").write_text(program, encoding="utf-8")
    return folder


def run(engine: Engine, folder: Path, *arguments: str) -> str:
    """Run the CLI with the repository, and nothing of this checkout, on the import path."""
    ran = engine.run(*arguments, "--stack", "dev", project=folder, PYTHONPATH=str(folder.parent))
    return ran.succeeded().output


def test_the_program_and_the_pack(engine: Engine, repository: Path) -> None:
    program = "from pathlib import Path\n\nfrom gpupools.stacks.program import run\n\nrun(Path(__file__).parent)\n"
    folder = project(repository, "gpu", program, project="gpupools")
    engine.run("stack", "init", "dev", project=folder).succeeded()
    (folder / "Pulumi.dev.yaml").write_text(STACK, encoding="utf-8")
    shown = run(engine, folder, "up", "--yes", "--skip-preview", "--policy-pack", "../pack")

    assert "gpupools" in shown
    assert [each["inputs"]["instanceTypes"] for each in engine.resources(NODE_GROUP)] == [["p4d.24xlarge"]]


def test_the_pack_stops_an_untainted_pool(engine: Engine, repository: Path) -> None:
    folder = project(repository, "bare", UNTAINTED)
    engine.run("stack", "init", "dev", project=folder).succeeded()
    (folder / "Pulumi.dev.yaml").write_text("config: {aws:region: eu-central-1}\n", encoding="utf-8")
    ran = engine.run(
        *("preview", "--stack", "dev", "--policy-pack", "../pack"), project=folder, PYTHONPATH=str(folder.parent)
    )

    assert ran.code != 0
    assert "no permanent taint keeps other pods off" in ran.output


def test_the_component_in_a_program_of_ones_own(engine: Engine, repository: Path) -> None:
    folder = project(repository, "own", OWN_PROGRAM)
    engine.run("stack", "init", "dev", project=folder).succeeded()
    run(engine, folder, "up", "--yes", "--skip-preview")

    assert [each["inputs"]["cluster"] for each in engine.resources(NODE_POOL)] == ["lab"]


def test_the_component_host(engine: Engine, repository: Path) -> None:
    plugins = {"providers": [{"name": "gpupools", "path": "../plugin"}]}
    folder = project(repository, "hosted", HOSTED, plugins=plugins)
    engine.run("stack", "init", "dev", project=folder).succeeded()
    run(engine, folder, "up", "--yes", "--skip-preview")

    assert "lab-dev" in [each["inputs"]["cluster"] for each in engine.resources(NODE_POOL)]
