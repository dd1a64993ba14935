"""AKS-managed GPU nodes with the real engine: generic resources of Azure Resource Manager from preview to destroy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.stand_in import AGENT_POOL, ARM_RESOURCE

pytestmark = pytest.mark.engine

POOL: Mapping[str, Any] = {
    "clusters": ["serve"],
    "gpu": "A100-80GB",
    "nodes": {"fixed": 2},
    "software": "cloud-managed",
}
STACK: Mapping[str, Any] = {
    "gpupools:clusters": {"serve": {"cloud": "azure", "name": "serve-dev", "resource_group": "ml-dev"}},
    "gpupools:pools": {
        "whole": {**POOL, "tags": {"owner": "research"}},
        "slices": {**POOL, "sharing": {"mode": "mig", "profile": "1g.10gb"}},
    },
}


@dataclass(frozen=True)
class Step:
    ran: CommandResult
    has: list[dict[str, Any]]
    did: list[dict[str, Any]]


@pytest.fixture(scope="module")
def life(engine: Engine) -> Mapping[str, Step]:
    """Live it once; the tests look at its steps."""
    file = engine.repository / "stacks" / "Pulumi.managed.yaml"
    stack = yaml.safe_load(yaml.safe_dump({"config": dict(STACK)}))
    file.write_text(yaml.safe_dump(stack), encoding="utf-8")
    engine.run("stack", "init", "managed").succeeded()

    def step(*arguments: str, **pools: Mapping[str, Any]) -> Step:
        before = len(engine.journal())
        later = yaml.safe_load(file.read_text(encoding="utf-8"))  # with the salt that `stack init` has written
        for name, keys in pools.items():
            later["config"]["gpupools:pools"][name] |= keys
        file.write_text(yaml.safe_dump(later), encoding="utf-8")
        ran = engine.run(*arguments, "--stack", "managed")
        return Step(ran, engine.resources(), engine.journal()[before:])

    up = ("up", "--yes", "--skip-preview")
    plugin = {"software": "device-plugin", "sharing": {"mode": "none"}}
    return {
        "preview": step("preview", "--policy-pack", "policies"),
        "up": step(*up, "--policy-pack", "policies"),
        "again": step(*up, "--expect-no-changes"),
        "scaled": step(*up, whole={"nodes": {"fixed": 3}}, slices={"tags": {"owner": "vision"}}),
        "cut": step(*up, slices={"sharing": {"mode": "mig", "profile": "2g.20gb", "strategy": "mixed"}}),
        "plugin": step(*up, whole=plugin, slices=plugin),
        "destroy": step("destroy", "--yes", "--skip-preview"),
    }


def by_pool(step: Step) -> dict[str, dict[str, Any]]:
    return {each["inputs"]["properties"]["nodeLabels"]["gpupools/pool"]: each["inputs"] for each in step.has}


def operations(step: Step) -> list[tuple[str, str]]:
    kinds = {ARM_RESOURCE: "generic", AGENT_POOL: "typed"}
    return [(each["op"], kinds[each["type"]]) for each in step.did]


def test_a_preview_passes_the_policies_and_creates_nothing(life: Mapping[str, Step]) -> None:
    shown = life["preview"].ran.succeeded().output

    assert "[mandatory]" not in shown
    assert (life["preview"].has, life["preview"].did) == ([], [])


def test_aks_gets_the_management_mode_and_the_taint_in_a_version_that_knows_them(life: Mapping[str, Step]) -> None:
    life["up"].ran.succeeded()
    pools = by_pool(life["up"])

    assert {name: each["apiVersion"] for name, each in pools.items()} == {
        "whole": "2026-08-01",
        "slices": "2026-06-02-preview",
    }
    for each in pools.values():
        assert each["properties"]["gpuProfile"]["nvidia"]["managementMode"] == "Managed"
        assert "nvidia.com/gpu=present:NoSchedule" in each["properties"]["nodeTaints"]
        assert each["parentResourcePath"] == "managedClusters/serve-dev"


def test_a_second_up_changes_nothing(life: Mapping[str, Step]) -> None:
    life["again"].ran.succeeded()

    assert life["again"].did == []


def test_count_and_tags_change_in_place_and_nothing_else_does(life: Mapping[str, Step]) -> None:
    life["scaled"].ran.succeeded()

    assert operations(life["scaled"]) == [("update", "generic")] * 2
    assert sorted(path for each in life["scaled"].did for path in each["paths"]) == [
        "properties.count",
        "properties.tags",
    ]


def test_what_aks_never_changes_makes_another_pool_before_the_old_one_goes(life: Mapping[str, Step]) -> None:
    life["cut"].ran.succeeded()

    assert operations(life["cut"]) == [("create", "generic"), ("delete", "generic")]
    assert len({each["name"] for each in life["cut"].did}) == 2


def test_other_software_makes_other_pools_too(life: Mapping[str, Step]) -> None:
    life["plugin"].ran.succeeded()

    assert operations(life["plugin"]) == [("create", "typed")] * 2 + [("delete", "generic")] * 2
    assert len({each["name"] for each in life["plugin"].did}) == 4


def test_destroy_leaves_nothing(life: Mapping[str, Step]) -> None:
    life["destroy"].ran.succeeded()

    assert life["destroy"].has == []


# A generic pool in a program of one's own, with the management mode and without a taint.
UNTAINTED = """
from pulumi_azure_native import resources

properties = {
    "vmSize": "Standard_NC24ads_A100_v4",
    "count": 1,
    "gpuProfile": {"driver": "Install", "nvidia": {"managementMode": "Managed"}},
}
resources.Resource(
    "bare",
    api_version="2026-08-01",
    parent_resource_path="managedclusters/serve-dev",
    resource_group_name="ml-dev",
    resource_provider_namespace="microsoft.containerservice",
    resource_type="agentpools",
    resource_name_="bare",
    properties=properties,
)
"""


def test_an_untainted_generic_pool_fails_the_preview_with_the_cure(engine: Engine) -> None:
    folder = engine.project("own", UNTAINTED)
    engine.run("stack", "init", "dev", project=folder).succeeded()
    ran = engine.run("preview", "--stack", "dev", "--policy-pack", "../repository/policies", project=folder)

    assert ran.code != 0
    assert "gpu-pool-tainted" in ran.output
    assert 'add "nvidia.com/gpu=present:NoSchedule" to properties.nodeTaints' in ran.output
