"""The contract of the settings: on every cloud each is taken and changes what is declared, or is refused with a reason.

A setting without a row in `CASES` fails here, and so does one that a cloud takes and nobody sees.
"""

import json
import os
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.common.errors import Problem, Rejected
from gpupools.plan.capability import Setting
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.aws.bootstrap import BOTTLEROCKET_KEYS, NODEADM_KEYS
from gpupools.providers.aws.user_data import mime_parts
from gpupools.spec.overrides import flattened, read_keys
from gpupools.spec.pool_options import KUBELET_KEYS, SETTINGS, KubeletSettings, given_settings
from gpupools.stackfile.stack import plan_config
from gpupools.stackfile.stack_validation import parse_pool
from tests.declared_pools import DeclaredPools, declare, sent, stack
from tests.gpupools.test_import import SERVED, existing, given
from tests.rows import each_row

Keys = Mapping[str, Any]

EXPECTED = Path(__file__).with_name("settings.expected")
"""What each setting changes; GPUPOOLS_WRITE_GOLDEN=1 rewrites this file: review the diff."""

CLOUDS = tuple(clouds())
EXTERNAL = {
    "management": "external",
    "existing": {
        "device_plugin": {"name": "gpu-resources/plugin", "node_selector": {"gpupools/software": "device-plugin"}},
        "gpu_operator": {"name": "gpu-operator/operator"},
        "dra_driver": {"name": "nvidia/domains", "serves": "compute-domains"},
    },
}
WITH_RDMA = {**EXTERNAL, "existing": {**EXTERNAL["existing"], "rdma_plugin": "kube-system/rdma"}}  # type: ignore[dict-item]
CLUSTERS: Mapping[str, Keys] = {
    "aws": {
        "cloud": "aws",
        "name": "train",
        "region": "us-east-1",
        "subnets_by_zone": {"us-east-1a": ["subnet-0000000a"], "us-east-1b": ["subnet-0000000b"]},
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
        "runtime": WITH_RDMA,
    },
    "azure": {
        "cloud": "azure",
        "name": "serve",
        "resource_group": "ml",
        "subscription_id": "00000000-0000-0000-0000-000000000000",
        "proximity_placement_group_id": (
            "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/ml/providers/"
            "Microsoft.Compute/proximityPlacementGroups/fabric"
        ),
        "runtime": WITH_RDMA,
    },
    "gcp": {
        "cloud": "gcp",
        "name": "lab",
        "project": "ml-lab",
        "location": "europe-west4",
        "places": "trust",
        "node_locations": ["europe-west4-a", "europe-west4-b"],
        "service_account": "gpu@ml.iam.gserviceaccount.com",
        "runtime": EXTERNAL,
    },
}
MACHINES = {"aws": "g6e.12xlarge", "azure": "Standard_NC24ads_A100_v4", "gcp": "g2-standard-8"}
ONE_ZONE: Mapping[str, Keys] = {
    "aws": {"zones": ["us-east-1a"]},
    "azure": {"zones": ["1"]},
    "gcp": {"zones": ["europe-west4-a"]},
}
FAST: Mapping[str, Keys] = {
    "aws": {"instance_type": "p5.48xlarge", "network": {"security_group_ids": ["sg-0a1b2c3d"]}, **ONE_ZONE["aws"]},
    "azure": {"instance_type": "Standard_ND96isr_H100_v5"},
    "gcp": {"instance_type": "a3-megagpu-8g", **ONE_ZONE["gcp"]},
}
GPU_NETWORKS = [{"network": f"gpu-{n}", "subnetwork": f"gpu-{n}"} for n in range(4)]
RACKS: Mapping[str, Keys] = {
    "aws": {
        "instance_type": "p6e-gb200.36xlarge",
        "software": "device-plugin",
        "capacity": {"mode": "capacity-block", "name": "cr-0123456789abcdef0"},
        **ONE_ZONE["aws"],
    },
    "azure": {"instance_type": "Standard_ND128isr_NDR_GB200_v6"},
    "gcp": {
        "instance_type": "a4x-highgpu-4g",
        "capacity": {"mode": "reservation", "name": "gpus"},
        **ONE_ZONE["gcp"],
    },
}
JOINS_TAINTED = b64encode(
    b"""MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript

#!/bin/sh
join-cluster nvidia.com/gpu=present:NoSchedule
--BOUNDARY--
"""
).decode()
"""A way of joining of its own, which names the GPU taint; also what EKS merges into its own user data."""
OWN_IMAGE: Keys = {
    "software": "gpu-operator",
    "overrides": {"aws": {"LaunchTemplate": {"userData": JOINS_TAINTED, "blockDeviceMappings": [{}]}}},
}


def everywhere(given: Keys, on: Mapping[str, Keys] | None = None, **others: Keys) -> Mapping[str, tuple[Keys, Keys]]:
    """Return, by cloud, the keys that give a setting a value and those the pool has with it and without it."""
    return {cloud: (others.get(cloud, given), (on or {}).get(cloud, {})) for cloud in CLOUDS}


RESERVATION = {"mode": "reservation", "name": "gpus"}
RESERVED_GROUP = "/subscriptions/0/resourceGroups/ml/providers/Microsoft.Compute/capacityReservationGroups/a100"

CASES: Mapping[str, Mapping[str, tuple[Keys, Keys]]] = {
    "capacity.spot": everywhere({"capacity": {"mode": "spot"}}),
    "capacity.reservation": everywhere(
        {"capacity": RESERVATION},
        on=ONE_ZONE,
        aws={"capacity": {**RESERVATION, "name": "cr-0123456789abcdef0"}},
        azure={"capacity": {**RESERVATION, "name": RESERVED_GROUP}},
    ),
    "capacity.capacity-block": everywhere(
        {"capacity": {"mode": "capacity-block", "name": "cr-0123456789abcdef0"}}, on={"aws": FAST["aws"]}
    ),
    "capacity.flex-start": everywhere({"capacity": {"mode": "flex-start"}}),
    "capacity.queued": everywhere({"capacity": {"mode": "queued"}}),
    "capacity.max_price_usd_per_hour": everywhere(
        {"capacity": {"mode": "spot", "max_price_usd_per_hour": 1.5}}, on={"azure": {"capacity": {"mode": "spot"}}}
    ),
    "image.family": everywhere(
        {"image": {"family": "ubuntu"}},
        on={"aws": OWN_IMAGE},
        aws={"image": {"family": "custom", "id": "ami-0a1b2c3d"}},
        azure={"image": {"family": "azure-linux"}},
    ),
    "image.id": everywhere({"image": {"family": "custom", "id": "ami-0a1b2c3d"}}, on={"aws": OWN_IMAGE}),
    "image.fips": everywhere({"image": {"fips": True}}),
    "driver": everywhere({"driver": "latest"}),
    "disk.type": everywhere(
        {"disk": {"type": "pd-ssd"}}, aws={"disk": {"type": "io2"}}, azure={"disk": {"type": "Ephemeral"}}
    ),
    "disk.encryption_key": everywhere(
        {"disk": {"encryption_key": "projects/ml-lab/locations/europe-west4/keyRings/nodes/cryptoKeys/boot"}},
        aws={"disk": {"encryption_key": "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d"}},
    ),
    "disk.local_nvme": everywhere(
        {"disk": {"local_nvme": "raid0"}},
        on={"gcp": {"instance_type": "a2-ultragpu-1g"}},
        gcp={"disk": {"local_nvme": "none"}},
    ),
    "network.rdma": everywhere(
        {"network": {"rdma": True}},
        on=FAST,
        aws={"network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]}},
    ),
    "network.compute_domains": everywhere({"network": {"compute_domains": True}}, on=RACKS),
    "network.placement": everywhere({"network": {"placement": "compact"}}, on=ONE_ZONE),
    "network.placement_policy": everywhere(
        {"network": {"placement": "compact", "placement_policy": "near"}},
        on={cloud: {**keys, "network": {"placement": "compact"}} for cloud, keys in ONE_ZONE.items()},
    ),
    "network.security_group_ids": everywhere({"network": {"security_group_ids": ["sg-0a1b2c3d"]}}),
    "network.gpu_networks": everywhere(
        {"network": {"gpu_networks": GPU_NETWORKS}},
        on={"gcp": {"instance_type": "a3-highgpu-8g", **ONE_ZONE["gcp"]}},
        gcp={"network": {"rdma": True, "gpu_networks": GPU_NETWORKS}},
    ),
    "network.max_pods": everywhere({"network": {"max_pods": 64}}),
    "security.secure_boot": everywhere(
        {"security": {"secure_boot": True}}, on={"azure": {"image": {"family": "azure-linux"}}}
    ),
    "security.imds_hop_limit": everywhere({"security": {"imds_hop_limit": 2}}),
    "upgrade.strategy": everywhere({"upgrade": {"strategy": "blue-green"}}),
    "upgrade.max_surge": everywhere({"upgrade": {"max_surge": 2}}),
    "upgrade.max_unavailable": everywhere({"upgrade": {"max_unavailable": 2}}),
    "upgrade.drain_timeout_min": everywhere({"upgrade": {"drain_timeout_min": 30}}),
    "timeouts.create_min": everywhere({"timeouts": {"create_min": 99}}),
    "timeouts.update_min": everywhere({"timeouts": {"update_min": 99}}),
    "timeouts.delete_min": everywhere({"timeouts": {"delete_min": 99}}),
    "zones": everywhere({}, aws=ONE_ZONE["aws"], azure=ONE_ZONE["azure"], gcp=ONE_ZONE["gcp"]),
    "auto_repair": everywhere({"auto_repair": False}),
    "startup_taint": everywhere({"startup_taint": True}),
    "tags": everywhere({"tags": {"team": "vision"}}),
    "protect": everywhere({"protect": True}),
    "renamed_from": everywhere({"renamed_from": "first"}),
    "first_name": everywhere({"first_name": "first"}),
    "adopt": everywhere({"adopt": {"name": "theirs"}}),
    "overrides": everywhere(
        {},
        aws={"overrides": {"aws": {"LaunchTemplate": {"keyName": "ops"}}}},
        azure={"overrides": {"azure": {"AgentPool": {"orchestratorVersion": "1.34"}}}},
        gcp={"overrides": {"gcp": {"NodePool": {"version": "1.34"}}}},
    ),
    "nodes.fixed": everywhere({"nodes": {"fixed": 4}}, on={cloud: {"nodes": {"min": 4, "max": 4}} for cloud in CLOUDS}),
}
"""Each setting by a value that is not its default, and what else the pool is like, with it and without."""


def pair(cloud: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pool without and with a setting."""
    given, on = CASES[name][cloud]
    without = {"instance_type": MACHINES[cloud], "nodes": {"max": 4}, **on}
    return without, {**without, **given}


def setting(cloud: str, name: str) -> Setting:
    return clouds()[cloud].node_pools.settings.get(name, Setting(supported=False, why="", source=""))


EACH = [pytest.param(cloud, name, id=f"{cloud} {name}") for cloud in CLOUDS for name in CASES]
TAKEN = [each for each in EACH if setting(*each.values).supported]  # type: ignore[arg-type]
REFUSED = [each for each in EACH if not setting(*each.values).supported]  # type: ignore[arg-type]


# --- the lists ---


def test_every_setting_has_a_case_here() -> None:
    assert sorted(CASES) == sorted(SETTINGS)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_setting_has_an_answer(cloud: str) -> None:
    assert sorted(clouds()[cloud].node_pools.settings) == sorted(SETTINGS)


@each_row(("cloud", "name"), EACH)
def test_an_answer_has_a_reason_and_a_source(cloud: str, name: str) -> None:
    found = setting(cloud, name)

    assert found.why.strip()
    assert found.source.startswith("https://") or "/" in found.source.split()[0]


@each_row(("cloud", "name"), EACH)
def test_a_case_gives_the_setting_a_value_and_nothing_else(cloud: str, name: str) -> None:
    before, after = (given_settings(parse_pool((), pool)) for pool in pair(cloud, name))
    together = {"image.family": {"image.id"}, "image.id": {"image.family"}, "network.gpu_networks": {"network.rdma"}}
    goes_with = together.get(name, set())
    if name == "capacity.max_price_usd_per_hour" and not setting(cloud, name).supported:
        goes_with = {"capacity.spot"}  # refused as a whole or alone

    assert name in after
    assert set(after) - set(before) - goes_with == {name}
    assert set(before) <= set(after)


# --- taken ---


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the programs."""
    return tmp_path_factory.mktemp("settings")


@cache
def keys(cloud: str) -> Mapping[str, str]:
    """Return a key for each different pool, by its text."""
    pools = [json.dumps(pool) for name in CASES if setting(cloud, name).supported for pool in pair(cloud, name)]
    return {text: f"pool{number}" for number, text in enumerate(dict.fromkeys(pools))}


@cache
def declared(cloud: str, folder: Path) -> DeclaredPools:
    managed = {**CLUSTERS[cloud], "runtime": {}, "kubeconfig": {"path": "/kube"}}  # where something takes the taint off
    stacks = {
        key: stack(managed if "startup_taint" in text else CLUSTERS[cloud], json.loads(text))
        for text, key in keys(cloud).items()
    }
    return declare(stacks, folder / cloud)


def everything(cloud: str, pool: Keys, folder: Path) -> dict[str, Any]:
    """Return the inputs and the options of a pool's resources by path, without what its component is called."""
    key = keys(cloud)[json.dumps(pool)]
    found = declared(cloud, folder)
    inside = found.pools[key]
    options = {f"options of {each.name}": bare(each) for each in (found.components[key], *inside)}
    return {**sent(cloud, key, inside), **flattened(json.loads(json.dumps(options).replace(f"{key}-", "")))}


def bare(resource: DeclaredResource) -> dict[str, Any]:
    """Return a resource's options without those that say what it depends on, which follow from its inputs."""
    follows = ("provider", "providers", "propertyDependencies", "dependsOn", "version", "pluginDownloadURL")
    return {key: value for key, value in resource.options.items() if key not in follows}


@pytest.mark.slow
@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_pool_is_what_the_sdk_takes(cloud: str, programs: Path) -> None:
    found = declared(cloud, programs).preview

    assert [str(problem) for problem in (*found.problems, *found.warnings)] == []


def taken() -> Iterator[tuple[str, str]]:
    yield from ((cloud, name) for cloud in CLOUDS for name in CASES if setting(cloud, name).supported)


@pytest.fixture(scope="module")
def expected(programs: Path) -> Mapping[str, Any]:
    """Return what each setting changes, as it was recorded."""
    if os.environ.get("GPUPOOLS_WRITE_GOLDEN"):
        lines = [f"{cloud} {name}: {json.dumps(changed(cloud, name, programs))}\n" for cloud, name in taken()]
        EXPECTED.write_text("".join(lines), encoding="utf-8")
    return dict(yaml.safe_load(EXPECTED.read_text(encoding="utf-8")))


@each_row(("cloud", "name"), TAKEN)
def test_a_setting_that_is_taken_changes_what_was_recorded(
    cloud: str, name: str, programs: Path, expected: Mapping[str, Any]
) -> None:
    found = changed(cloud, name, programs)

    # The pool's name is made of settings whether or not anything else is.
    assert found.keys() - ({"name", "agentPoolName"} if name != "first_name" else set())
    assert found == expected[f"{cloud} {name}"]


def changed(cloud: str, name: str, folder: Path) -> dict[str, Any]:
    """Return the inputs and options that a setting changes, each without it and with it."""
    before, after = (everything(cloud, pool, folder) for pool in pair(cloud, name))
    return {
        path: [before.get(path), after.get(path)]
        for path in sorted({*before, *after} - {"Tag.autoscalingGroupName", "Tag.region"})  # as every tag has them
        if before.get(path) != after.get(path)
    }


# --- imported ---

OURS = {"protect", "renamed_from", "first_name", "startup_taint", "overrides"}
NOT_IMPORTED: Mapping[str, set[str]] = {
    # Nobody knows who installs the driver of an image of one's own; subnets and fast networks are on the cluster.
    "aws": {"image.family", "image.id", "zones", "network.rdma", "network.compute_domains"},
    "azure": {"network.rdma", "network.compute_domains", "network.placement"},
    "gcp": {"network.compute_domains", "network.gpu_networks", "upgrade.drain_timeout_min"},
}
"""Settings of a node pool that was made by other means and whose imported pool does not have them, by cloud."""


@each_row(("cloud", "name"), TAKEN)
def test_a_setting_is_imported_with_a_pool_that_has_it(
    cloud: str, name: str, programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pools = [declared(cloud, programs).pools[keys(cloud)[json.dumps(pool)]] for pool in pair(cloud, name)]
    before, after = (
        [
            existing({"type": each.type, "name": each.name, "inputs": decided(each.inputs)}, "lt-00000000000000001")
            for each in resources
            if each.type.endswith(("NodeGroup", "LaunchTemplate", "AgentPool", "NodePool"))
        ]
        for resources in pools
    )
    own = [[each["inputs"] for each in each_pool if "Template" not in each["type"]] for each_pool in (before, after)]
    if own[0] == own[1] or name in NOT_IMPORTED[cloud] | OURS:
        return  # of the launch template, which stays as it is, or of Pulumi alone
    out = tmp_path / "Pulumi.moved.yaml"
    out.unlink(missing_ok=True)
    state = {"version": 3, "deployment": {"resources": after}}

    assert main(["import", *given(tmp_path, state), "--out", str(out), *SERVED]) == 0, capsys.readouterr().err
    (pool,) = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"].values()
    assert name in given_settings(parse_pool((), {key: value for key, value in pool.items() if key != "clusters"}))


def decided(inputs: Mapping[str, Any]) -> Any:
    """Return inputs as a state has them: what a preview does not know has a value there."""
    return json.loads(json.dumps(inputs).replace(UNKNOWN, "known-by-now"))


# --- of the kubelet ---

IMAGES: Mapping[str, Mapping[str, Keys]] = {
    "aws": {"bottlerocket": {"software": "cloud-managed"}, "al2023": {"software": "device-plugin"}}
}
"""Keys that choose each image of a cloud whose images have the settings of the kubelet in forms of their own."""


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("field", [each.name for each in fields(KubeletSettings)])
def test_a_setting_of_the_kubelet_is_written_and_read_back_or_refused(field: str, cloud: str) -> None:
    key = KUBELET_KEYS[field]
    if not setting(cloud, key).supported:
        return  # refused below, as any other setting
    for image, keys_of_image in IMAGES.get(cloud, {"": {}}).items():
        pool = {**pair(cloud, key)[1], **keys_of_image}
        (plan,) = plan_config(stack(CLUSTERS[cloud], pool), clouds()).pools
        declared = clouds()[cloud].node_pools.declared_inputs(plan, CLUSTERS[cloud])
        wanted = attrgetter(key)(parse_pool((), pool))

        assert kubelet_values(declared, cloud, image)[field] in (wanted, str(wanted)), (field, image)


def kubelet_values(declared: Mapping[str, Keys], cloud: str, image: str) -> Keys:
    """Return the settings of the kubelet in the inputs of a pool, by field."""
    if cloud != "aws":
        resource, inputs = next(iter(declared.items()))
        form = clouds()[cloud].node_pools.overridable[resource].keys
        return read_keys([each._replace(field=each.key.rpartition(".")[2]) for each in form], inputs)
    text = b64decode(declared["LaunchTemplate"].get("userData", "")).decode()
    if image == "bottlerocket":
        return read_keys(BOTTLEROCKET_KEYS, tomllib.loads(text))
    ((_, part),) = mime_parts(text)
    (file,) = json.loads(part.removeprefix("#cloud-config"))["write_files"]
    return read_keys(NODEADM_KEYS, json.loads(file["content"]))


# --- refused ---


@each_row(("cloud", "name"), REFUSED)
def test_a_setting_that_is_refused_is_refused_with_its_reason(cloud: str, name: str) -> None:
    _, pool = pair(cloud, name)
    path = given_settings(parse_pool((), pool))[name]
    what, _, instead = setting(cloud, name).why.partition("; ")

    with pytest.raises(Rejected) as caught:
        plan_config(stack(CLUSTERS[cloud], pool), clouds())

    expected = Problem(
        ("pools", "a", *path), f"{cloud} has no {name}: {what}", instead or "leave it out", setting(cloud, name).source
    )
    assert expected in caught.value.problems
