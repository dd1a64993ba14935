"""What the admission policies of shared pools ask about, and the runtime plan in which they stand, as JSON."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from gpupools.plan.software_plan import KubernetesObject, RuntimePlan

SHARED = {"gpu": "L4", "nodes": {"max": 2}, "software": "device-plugin", "trust": {"team": "vision"}}
PODS = {"pods": ["CREATE", "UPDATE"]}
# Ways to a node that pass no scheduler.
BESIDE_THE_SCHEDULER = {"pods/ephemeralcontainers": ["UPDATE"], "pods/binding": ["CREATE"], "bindings": ["CREATE"]}


@pytest.fixture
def made(plan: Callable[..., RuntimePlan]) -> RuntimePlan:
    """Plan what a pool needs that a team shares."""
    pool = {**SHARED, "sharing": {"mode": "time-slicing", "replicas": 2}}
    return plan("aws", {"a": pool}, trust_policy=True, smoke_test=True)


@pytest.mark.parametrize(
    ("name", "asked", "parameter"),
    [
        ("trust/vision", PODS, None),
        ("trust/vision/nodes", {**PODS, **BESIDE_THE_SCHEDULER}, {"apiVersion": "v1", "kind": "Node"}),
    ],
)
def test_a_policy_asks_about_every_way_to_a_node(
    name: str, asked: Mapping[str, Any], parameter: Mapping[str, Any] | None, made: RuntimePlan
) -> None:
    (spec,) = [each.manifest["spec"] for each in made.objects if each.name == name]
    rules = spec["matchConstraints"]["resourceRules"]

    assert all((rule["apiGroups"], rule["apiVersions"]) == ([""], ["v1"]) for rule in rules)
    assert {resource: rule["operations"] for rule in rules for resource in rule["resources"]} == asked
    assert spec.get("paramKind") == parameter


def test_a_cluster_without_such_nodes_yet_admits_pods(made: RuntimePlan) -> None:
    (spec,) = [each.manifest["spec"] for each in made.objects if each.name == "trust/vision/nodes/binding"]

    assert spec["paramRef"] == {
        "selector": {"matchLabels": {"gpupools/trust": "vision"}},
        "parameterNotFoundAction": "Allow",
    }


def test_a_plan_as_json_is_plain_and_whole(made: RuntimePlan) -> None:
    written = made.as_json()

    assert json.loads(json.dumps(written)) == written
    assert [each["manifest"]["kind"] for each in written["objects"]] == [each.kind for each in made.objects]
    for release, told in zip(made.releases, written["releases"], strict=True):
        assert (told["name"], told["pools"]) == (release.name, list(release.pools))
        assert told["values"].keys() == release.values.keys()
        assert told["values"]


def test_what_is_frozen_in_a_plan_is_plain_as_json(made: RuntimePlan) -> None:
    manifest = MappingProxyType({"kind": "X", "a": (MappingProxyType({"b": 1}), "c")})
    frozen = KubernetesObject(name="x", manifest=manifest, why="")
    (told,) = made._replace(objects=(frozen,)).as_json()["objects"]

    assert told["manifest"] == {"kind": "X", "a": [{"b": 1}, "c"]}
