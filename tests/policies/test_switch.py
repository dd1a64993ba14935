"""The policy on protected pools knows the stack file's switch, `gpupools:allow_destroy`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi.runtime.proto import analyzer_pb2

from tests.policies.asking import AKS, asked, resource
from tests.policies.pack_process import PolicyPackProcess

POLICIES = Path(__file__).parents[2] / "policies"
COMPONENT = "urn:pulumi:prod::gpupools::gpupools:index:GpuNodePool"


@pytest.fixture(scope="module")
def pack() -> Iterator[PolicyPackProcess]:
    """Start the pack for the stack prod, whose switch names two pools."""
    switch = json.dumps(["serve/a", "serve/a-b"])
    config = {"gpu-pool-protected": {"stacks": ["prod"]}}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PULUMI_CONFIG", json.dumps({"gpupools:allow_destroy": switch}))
        with PolicyPackProcess(POLICIES, stack="prod", config=config) as process:
            yield process


@pytest.mark.parametrize(
    ("parent", "policies"),
    [
        pytest.param(f"{COMPONENT}::serve-a", [], id="named"),
        pytest.param(f"{COMPONENT}::serve-a-b", [], id="named too"),
        pytest.param(f"{COMPONENT}::serve-a-c", ["gpu-pool-protected"], id="its name begins with one that is named"),
        pytest.param("urn:pulumi:prod::gpupools::my:index:Pool::serve-a", ["gpu-pool-protected"], id="not ours"),
        pytest.param("", ["gpu-pool-protected"], id="no component"),
    ],
)
def test_only_a_pool_the_switch_names_may_go_unprotected(
    pack: PolicyPackProcess, parent: str, policies: list[str]
) -> None:
    given = {"vmSize": "Standard_NC24ads_A100_v4", "nodeTaints": ["nvidia.com/gpu=present:NoSchedule"]}
    options = analyzer_pb2.AnalyzerResourceOptions(parent=parent)
    said = asked(pack, resource(AKS, "pool", given), options=options)

    assert [each.policy for each in said if each.policy == "gpu-pool-protected"] == policies
