"""Node pools, as the strict monitor records them, against Google's own messages for the same API."""

from collections.abc import Mapping
from typing import Any

import pytest
from google.cloud import container_v1
from google.protobuf import json_format

from gpupools.preview.monitor import DeclaredResource
from gpupools.providers.gcp.readback import NODE_POOL
from tests.providers.everything import everything

POOLS = ["spot", "reserved", "tcpx", "flexible", "queued", "rack", "careful", "built"]

NOT_IN_THE_MESSAGE = frozenset({"cluster", "project", "location", "deletionPolicy"})
"""Inputs that are in the URL of the request, or the provider's own."""


@pytest.fixture(scope="module")
def declared() -> Mapping[str, DeclaredResource]:
    """Return the node pools of the stack file in which every setting occurs."""
    preview = everything("gcp")
    assert (preview.problems, preview.warnings) == ([], [])
    return {each.name: each for each in preview.resources if each.type == NODE_POOL}


def request(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node pool of the request that the provider makes of its inputs.

    As `expandNodePool` and `expandNodeConfig` of terraform-provider-google, google/services/container.
    """
    pool = {key: value for key, value in inputs.items() if key not in NOT_IN_THE_MESSAGE}
    moved = {"nodeLocations": "locations", "nodeCount": "initialNodeCount"}
    pool = {moved.get(key, key): value for key, value in pool.items()}
    pool["config"] = config = dict(pool.pop("nodeConfig"))
    config["accelerators"] = [
        {"accelerator" + key.capitalize() if key in ("type", "count") else key: value for key, value in each.items()}
        for each in config.pop("guestAccelerators")
    ]
    port = config["kubeletConfig"]["insecureKubeletReadonlyPortEnabled"]
    config["kubeletConfig"] = config["kubeletConfig"] | {"insecureKubeletReadonlyPortEnabled": port == "TRUE"}
    if "autoscaling" in pool:
        pool["autoscaling"] = pool["autoscaling"] | {"enabled": True}
    if "maxPodsPerNode" in pool:
        pool["maxPodsConstraint"] = {"maxPodsPerNode": pool.pop("maxPodsPerNode")}
    if "nodeDrainConfigs" in pool:
        (pool["nodeDrainConfig"],) = pool.pop("nodeDrainConfigs")
    return pool


def wrong(pool: dict[str, Any]) -> str:
    """Say what Google's message does not take: unknown fields, other types, unknown words; empty when nothing."""
    try:
        json_format.ParseDict(pool, container_v1.NodePool.pb(container_v1.NodePool()))
    except json_format.ParseError as error:
        return str(error)
    return ""


def test_every_pool_of_the_stack_file_is_looked_at(declared: Mapping[str, DeclaredResource]) -> None:
    assert sorted(declared) == sorted(f"lab-{pool}-nodes" for pool in POOLS)


@pytest.mark.parametrize("pool", POOLS)
def test_gkes_own_message_takes_every_pool(declared: Mapping[str, DeclaredResource], pool: str) -> None:
    body = request(declared[f"lab-{pool}-nodes"].inputs)

    assert wrong(body) == ""


@pytest.mark.parametrize("pool", POOLS)
def test_nothing_gets_lost_on_the_way(declared: Mapping[str, DeclaredResource], pool: str) -> None:
    body = request(declared[f"lab-{pool}-nodes"].inputs)
    message = json_format.ParseDict(body, container_v1.NodePool.pb(container_v1.NodePool()))
    back = json_format.MessageToDict(message, use_integers_for_enums=False)

    assert as_text(back) == as_text(without_defaults(body))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"placementPolicy": {"type": "TIGHT"}}, "TIGHT"),
        ({"autoscaling": {"locationPolicy": "SOMEWHERE"}}, "SOMEWHERE"),
        ({"upgradeSettings": {"maxSurge": "two"}}, "maxSurge"),
        ({"nodeDrainConfig": {"pdbTimeoutDuration": "30 minutes"}}, "pdbTimeoutDuration"),
        ({"config": {"machinetype": "g2-standard-4"}}, "machinetype"),
        ({"config": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}}, "NoSchedule"),
        ({"config": {"reservationAffinity": {"consumeReservationType": "MINE"}}}, "MINE"),
    ],
    ids=["word", "inner-word", "number", "duration", "field", "taint-effect", "reservation"],
)
def test_what_the_api_does_not_take_is_found(change: dict[str, Any], words: str) -> None:
    assert words in wrong(change)


def without_defaults(value: Any) -> Any:
    """Drop what a message does not tell from an absent field: false, 0 and empty text outside optional fields."""
    if isinstance(value, dict):
        return {key: without_defaults(inner) for key, inner in value.items() if inner not in (False, 0, "", [], {})}
    return [without_defaults(inner) for inner in value] if isinstance(value, list) else value


def as_text(value: Any) -> Any:
    """Write numbers as text, as JSON has 64-bit numbers in Google's APIs, without what `without_defaults` drops."""
    if isinstance(value, dict):
        return {key: as_text(inner) for key, inner in without_defaults(value).items() if inner not in ("0s", {})}
    if isinstance(value, list):
        return [as_text(inner) for inner in value]
    return value if isinstance(value, bool) else str(value)
