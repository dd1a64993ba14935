"""What a user sees when a policy or the stack file itself stops a deployment."""

from collections.abc import Iterator

import pytest

from tests.engine.cli import CommandResult, Engine

pytestmark = pytest.mark.engine

# The stack program itself, with the taints taken off on the way to the engine: no stack file can ask for that.
UNTAINTED = """
import runpy

import pulumi


def without_taints(args):
    props = {key: value for key, value in args.props.items() if key not in ("taints", "nodeTaints")}
    if "nodeConfig" in props:
        props["nodeConfig"] = {key: value for key, value in props["nodeConfig"].items() if key != "taints"}
    return pulumi.ResourceTransformResult(props, args.opts)


pulumi.runtime.register_resource_transform(without_taints)
runpy.run_path("../repository/stacks/__main__.py")
"""

REFUSED = """
config:
  gpupools:clusters:
    lab: {cloud: gcp, name: l, project: ml-dev, location: europe-west4, service_account: gpu@ml.iam.gserviceaccount.com}
  gpupools:pools:
    good: {clusters: [lab], gpu: L4, nodes: {max: 6}}
    big: {clusters: [lab], gpu: L4, gpus_per_node: 3, nodes: {max: 6}}
    odd: {clusters: [lab], gpu: A100-80GB, nodes: {max: 2}, sharing: {mode: mig, profile: 1g.11gb}}
"""


@pytest.fixture(scope="module")
def stopped(engine: Engine) -> CommandResult:
    """Preview the dev stack's pools on all three clouds with the policy pack, none of them tainted."""
    folder = engine.project("untainted", UNTAINTED)
    stack = (engine.repository / "stacks" / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    (folder / "Pulumi.dev.yaml").write_text(stack, encoding="utf-8")
    engine.run("stack", "init", "dev", project=folder).succeeded()
    return engine.run("preview", "--stack", "dev", "--policy-pack", "../repository/policies", project=folder)


def test_an_untainted_pool_fails_the_preview_without_a_traceback(stopped: CommandResult, engine: Engine) -> None:
    shown = stopped.failed().output

    assert "[mandatory]" in shown
    assert "gpu-pool-tainted" in shown
    assert engine.resources() == []


@pytest.mark.parametrize(
    ("pool", "cure"),
    [
        ("train-a100-nodes", "add {key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE} to taints"),
        ("serve-a100-pool", 'add "nvidia.com/gpu=present:NoSchedule" to nodeTaints'),
        ("lab-a100-nodes", "add {key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE} to nodeConfig.taints"),
    ],
    ids=["eks", "aks", "gke"],
)
def test_the_preview_names_every_untainted_pool_and_its_cure(stopped: CommandResult, pool: str, cure: str) -> None:
    lines = [line.strip() for line in stopped.output.splitlines()]
    (line,) = [line for line in lines if line.startswith(f"{pool}: has 8 NVIDIA GPUs per node")]

    assert cure in line


@pytest.fixture(scope="module")
def refused(engine: Engine) -> Iterator[CommandResult]:
    """Update a stack whose file asks for one good pool and two that cannot be."""
    (engine.repository / "stacks" / "Pulumi.refused.yaml").write_text(REFUSED, encoding="utf-8")
    engine.run("stack", "init", "refused").succeeded()
    before = engine.journal()
    yield engine.up("refused").failed()
    assert engine.journal() == before


def test_a_refused_file_declares_nothing_not_even_its_good_pool(refused: CommandResult) -> None:
    assert "nothing was declared:" in refused.output
    assert "lab-good" not in refused.output
    assert "unhandled" not in refused.output


@pytest.mark.parametrize("key", ["pools.big.gpus_per_node", "pools.odd.sharing.profile"])
def test_a_refused_file_shows_all_its_problems_at_once(refused: CommandResult, key: str) -> None:
    assert f"{key}: " in refused.output
