"""Pools that cannot be: `gpupools check` refuses them all at once, each with both fields named."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.base.errors import Problem, Rejected
from gpupools.commands.cli import main
from gpupools.environment.stack import plan_config
from gpupools.providers import clouds
from tests.rows import each_row

Keys = Mapping[str, Any]

EXISTING = {"device_plugin": {"name": "gpu-resources/plugin", "node_selector": {"gpupools/software": "device-plugin"}}}
WITH_RDMA = {**EXISTING, "rdma_plugin": {"name": "kube-system/rdma"}}
CLUSTERS: Mapping[str, Keys] = {
    "aws": {
        "cloud": "aws",
        "name": "train",
        "region": "us-east-1",
        "subnets_by_zone": {"us-east-1a": ["subnet-0a"], "us-east-1b": ["subnet-0b"]},
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
        "runtime": {"management": "external", "existing": WITH_RDMA},
    },
    "azure": {
        "cloud": "azure",
        "name": "serve",
        "resource_group": "ml",
        "proximity_placement_group_id": "/subscriptions/0/groups/fabric",
        "runtime": {"management": "external", "existing": WITH_RDMA},
    },
    "gcp": {
        "cloud": "gcp",
        "name": "lab",
        "project": "ml",
        "location": "europe-west4",
        "service_account": "gpu@ml.iam.gserviceaccount.com",
        "runtime": {"management": "external", "existing": EXISTING},
    },
    # A cluster whose software this tool installs, so that the driver is built on its nodes.
    "managed": {"cloud": "azure", "name": "serve2", "resource_group": "ml", "kubeconfig": {"path": "~/.kube/serve"}},
}
MACHINES = {
    "aws": "g6e.12xlarge",
    "azure": "Standard_NC24ads_A100_v4",
    "gcp": "g2-standard-8",
    "managed": "Standard_NC24ads_A100_v4",
}


@dataclass(frozen=True)
class Bad:
    """A pool that cannot be."""

    cluster: str
    name: str
    keys: Keys
    found: Mapping[str, tuple[str, ...]]
    """The key each problem stands at, below the pool, to words of its message: the other field among them."""
    good: Keys = field(default_factory=dict)
    """Keys with which the same pool can be."""

    def pool(self) -> dict[str, Any]:
        return {"clusters": [self.cluster], "instance_type": MACHINES[self.cluster], "nodes": {"max": 4}, **self.keys}


def template(**inputs: Any) -> Keys:
    return {"overrides": {"aws": {"LaunchTemplate": inputs}}}


def agent_pool(**inputs: Any) -> Keys:
    return {"overrides": {"azure": {"AgentPool": inputs}}}


def node_pool(**inputs: Any) -> Keys:
    return {"overrides": {"gcp": {"NodePool": inputs}}}


AWS, AZURE, GCP = ("overrides.aws.LaunchTemplate", "overrides.azure.AgentPool", "overrides.gcp.NodePool")
SPOT = {"mode": "spot"}
BLOCK = "cr-0123456789abcdef0"
TWO = {"aws": ["us-east-1a", "us-east-1b"], "azure": ["1", "2"], "gcp": ["europe-west4-a", "europe-west4-b"]}
COMPACT = {"network": {"placement": "compact"}}
LONG = "a" * 21

BAD = [
    # Spot with a reservation.
    *(
        Bad(
            cloud,
            "spot with the name of a reservation",
            {"capacity": {**SPOT, "name": BLOCK}},
            {"capacity.name": ("mode reservation or capacity-block", "mode is spot")},
            {"capacity": SPOT},
        )
        for cloud in ("aws", "azure", "gcp")
    ),
    Bad(
        "aws",
        "spot with a reservation by hand",
        {"capacity": SPOT, **template(capacityReservationSpecification={"capacityReservationPreference": "open"})},
        {f"{AWS}.capacityReservationSpecification": ("use capacity",)},
        {"overrides": {}},
    ),
    Bad(
        "aws",
        "a reservation with spot by hand",
        {
            "capacity": {"mode": "reservation", "name": BLOCK},
            "zones": ["us-east-1a"],
            **template(instanceMarketOptions={"marketType": "spot"}),
        },
        {f"{AWS}.instanceMarketOptions": ("use capacity",)},
        {"overrides": {}},
    ),
    Bad(
        "azure",
        "spot with a reservation by hand",
        {"capacity": SPOT, **agent_pool(capacityReservationGroupID="/subscriptions/0/group")},
        {f"{AZURE}.capacityReservationGroupID": ("capacity: {mode: reservation",)},
        {"overrides": {}},
    ),
    Bad(
        "gcp",
        "spot with a reservation by hand",
        {
            "capacity": SPOT,
            **node_pool(nodeConfig={"reservationAffinity": {"consumeReservationType": "ANY_RESERVATION"}}),
        },
        {f"{GCP}.nodeConfig.reservationAffinity": ("capacity.mode spot",)},
        node_pool(nodeConfig={"reservationAffinity": {"consumeReservationType": "NO_RESERVATION"}}),
    ),
    Bad(
        "gcp",
        "a reservation with spot by hand",
        {
            "capacity": {"mode": "reservation", "name": "gpus"},
            "zones": ["europe-west4-a"],
            **node_pool(nodeConfig={"spot": True}),
        },
        {f"{GCP}.nodeConfig.spot": ("capacity: {mode: …}",)},
        {"overrides": {}},
    ),
    # Zones that do not exist in the region.
    Bad(
        "aws",
        "zones that are not there",
        {"zones": ["us-east-1z", "mars-1a"]},
        {"zones[0]": ("no subnet in 'us-east-1z'",), "zones[1]": ("no zone of us-east-1",)},
        {"zones": ["us-east-1a"]},
    ),
    Bad(
        "azure",
        "zones that are not there",
        {"zones": ["4", "westeurope-1"]},
        {"zones[0]": ("'1', '2' and '3'",), "zones[1]": ("'1', '2' and '3'",)},
        {"zones": ["1"]},
    ),
    Bad(
        "gcp",
        "zones that are not there",
        {"zones": ["us-central1-a", "mars"]},
        {
            "zones[0]": ("us-central1", "the cluster's location is europe-west4"),
            "zones[1]": ("no zone of Google Cloud",),
        },
        {"zones": ["europe-west4-a"]},
    ),
    # Surge 0 with unavailable 0.
    *(
        Bad(
            cloud,
            "an upgrade in which nothing moves",
            {"upgrade": {"max_surge": 0, "max_unavailable": 0}},
            {"upgrade": ("max_surge 0", "max_unavailable 0")},
            {"upgrade": {"max_surge": 0, "max_unavailable": 1}},
        )
        for cloud in ("aws", "azure", "gcp")
    ),
    # A placement group over two zones.
    *(
        Bad(
            cloud,
            "compact placement over two zones",
            {**COMPACT, "zones": TWO[cloud]},
            {"network.placement": ("compact", "zones", "one zone")},
            {"zones": TWO[cloud][:1]},
        )
        for cloud in ("aws", "azure", "gcp")
    ),
    Bad(
        "azure",
        "a placement group by hand over two zones",
        {"zones": TWO["azure"], **agent_pool(proximityPlacementGroupID="/subscriptions/0/group")},
        {f"{AZURE}.proximityPlacementGroupID": ("network: {placement: compact}",)},
        {"overrides": {}},
    ),
    Bad(
        "gcp",
        "compact placement by hand over two zones",
        {"zones": TWO["gcp"], **node_pool(placementPolicy={"type": "COMPACT"})},
        {f"{GCP}.placementPolicy.type": ("network: {placement: compact}",)},
        {"overrides": {}},
    ),
    Bad(
        "azure",
        "InfiniBand over two zones",
        {"instance_type": "Standard_ND96isr_H100_v5", "network": {"rdma": True}, "zones": TWO["azure"]},
        {"network.rdma": ("zones 1, 2",)},
        {"zones": ["1"]},
    ),
    # NVLink domains.
    *(
        Bad(
            cloud,
            "an NVLink domain of GPUs whose NVLink ends at the node",
            {"network": {"compute_domains": True}, **zone},
            {"network.compute_domains": ("ends at the node", "take a machine with GB200")},
            {"network": {}},
        )
        for cloud, zone in (
            ("aws", {}),
            ("azure", {}),
            ("gcp", {"zones": ["europe-west4-a"]}),
        )
    ),
    # EFA, InfiniBand and GPUDirect on a type without.
    Bad(
        "aws",
        "EFA on a type without",
        {
            "instance_type": "g6.xlarge",
            "network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]},
            "zones": ["us-east-1a"],
        },
        {"network.rdma": ("EFA", "g6.xlarge")},
        {"instance_type": "p5.48xlarge"},
    ),
    Bad(
        "azure",
        "InfiniBand on a size without",
        {"network": {"rdma": True}},
        {"network.rdma": ("InfiniBand", "Standard_NC24ads_A100_v4")},
        {"instance_type": "Standard_ND96isr_H100_v5"},
    ),
    Bad(
        "gcp",
        "GPUDirect on a machine without",
        {"network": {"rdma": True}, "zones": ["europe-west4-a"]},
        {"network.rdma": ("GPUDirect", "g2-standard-8 (instance_type)")},
        {"instance_type": "a3-megagpu-8g"},
    ),
    # Secure boot with a driver that is built on the node.
    Bad(
        "aws",
        "secure boot",
        {"security": {"secure_boot": True}, "software": "device-plugin"},
        {"security.secure_boot": ("image.id",)},
        {"security": {}},
    ),
    Bad(
        "managed",
        "secure boot with a built driver",
        {"security": {"secure_boot": True}, "software": "gpu-operator"},
        {"security.secure_boot": ("software gpu-operator", "not signed")},
        {"software": "device-plugin", "image": {"family": "azure-linux"}},
    ),
    Bad(
        "azure",
        "secure boot with a driver that is not signed",
        {"security": {"secure_boot": True}, "software": "device-plugin"},
        {"security.secure_boot": ("software device-plugin", "image.family ubuntu")},
        {"image": {"family": "azure-linux"}},
    ),
    Bad(
        "gcp",
        "secure boot with a built driver",
        {"security": {"secure_boot": True}, "software": "device-plugin"},
        {"security.secure_boot": ("software device-plugin", "unsigned")},
        {"software": "cloud-managed"},
    ),
    Bad(
        "gcp",
        "secure boot with a driver built on Ubuntu",
        {"security": {"secure_boot": True}, "software": "cloud-managed", "image": {"family": "ubuntu"}},
        {"security.secure_boot": ("image.family ubuntu", "built on the node")},
        {"image": {"family": "cos"}},
    ),
    # A public address on the nodes of a private pool.
    Bad(
        "aws",
        "public addresses",
        template(networkInterfaces=[{"deviceIndex": 0, "associatePublicIpAddress": "true"}]),
        {f"{AWS}.networkInterfaces[0].associatePublicIpAddress": ("public", "private")},
        template(networkInterfaces=[{"deviceIndex": 0, "associatePublicIpAddress": "false"}]),
    ),
    Bad(
        "azure",
        "public addresses",
        agent_pool(enableNodePublicIP=True, nodePublicIPPrefixID="/subscriptions/0/prefix"),
        {
            f"{AZURE}.enableNodePublicIP": ("private",),
            f"{AZURE}.nodePublicIPPrefixID": ("enableNodePublicIP, which is false", "private"),
        },
        {"overrides": {}},
    ),
    Bad(
        "gcp",
        "public addresses",
        node_pool(networkConfig={"enablePrivateNodes": False}),
        {f"{GCP}.networkConfig.enablePrivateNodes": ("private",)},
        {"overrides": {}},
    ),
    # What EKS forbids in a launch template (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html).
    Bad(
        "aws",
        "fields of the template that EKS forbids",
        {
            "overrides": {
                "aws": {
                    "LaunchTemplate": {
                        "networkInterfaces": [{"deviceIndex": 0, "subnetId": "subnet-0a"}],
                        "iamInstanceProfile": {"name": "nodes"},
                        "hibernationOptions": {"configured": True},
                        "instanceInitiatedShutdownBehavior": "stop",
                    },
                    "NodeGroup": {"diskSize": 100, "remoteAccess": {"ec2SshKey": "ops"}},
                }
            }
        },
        {
            f"{AWS}.networkInterfaces[0].subnetId": ("zones",),
            f"{AWS}.iamInstanceProfile": ("nodeRoleArn of NodeGroup",),
            f"{AWS}.hibernationOptions": ("EKS refuses",),
            f"{AWS}.instanceInitiatedShutdownBehavior": ("EKS refuses",),
            "overrides.aws.NodeGroup.diskSize": ("disk_gib",),
            "overrides.aws.NodeGroup.remoteAccess": ("launch template", "SSM"),
        },
        {"overrides": {}},
    ),
    # Names and values too long for the cloud.
    Bad(
        "aws",
        "names too long",
        {
            "labels": {f"example.com/{'a' * 60}": "x"},
            "taints": [f"example.com/{'b' * 60}=c:NoSchedule"],
            "tags": {"owner": "v" * 257},
        },
        {
            f"labels.example.com/{'a' * 60}": ("72 characters; EKS takes 63",),
            "taints[0]": ("72 characters; EKS takes 63",),
            "tags.owner": ("up to 256",),
        },
        {"labels": {}, "taints": [], "tags": {}},
    ),
    Bad(
        "azure",
        "values too long",
        {"tags": {"owner": "v" * 257}},
        {"tags.owner": ("257 characters; Azure takes 256",)},
        {"tags": {}},
    ),
    Bad(
        "gcp",
        "names too long",
        {"tags": {"k" * 64: "x", "owner": "v" * 64}, "capacity": {"mode": "reservation", "name": "r" * 64}},
        {
            f"tags.{'k' * 64}": ("63 in all",),
            "tags.owner": ("at most 63",),
            "capacity.name": ("names no reservation",),
            "capacity.mode": ("zones",),
        },
        {"tags": {}, "capacity": {"mode": "on-demand"}},
    ),
    *(
        Bad(
            cloud,
            "a label too long for Kubernetes",
            {"labels": {"team": "v" * 64}},
            {"labels.team": ("at most 63",)},
            {"labels": {}},
        )
        for cloud in ("aws", "azure", "gcp")
    ),
]


def stack(pools: Mapping[str, Keys]) -> dict[str, Any]:
    named = {key for pool in pools.values() for key in pool["clusters"]}
    return {"clusters": {key: dict(CLUSTERS[key]) for key in CLUSTERS if key in named}, "pools": dict(pools)}


def refused(pools: Mapping[str, Keys]) -> tuple[Problem, ...]:
    with pytest.raises(Rejected) as caught:
        plan_config(stack(pools), clouds())
    return caught.value.problems


@each_row("bad", BAD, ids=lambda bad: f"{bad.cluster} {bad.name}")
def test_a_pool_that_cannot_be_is_refused_with_both_fields_named(bad: Bad) -> None:
    problems = {problem.key: f"{problem.what}; {problem.fix}" for problem in refused({"a": bad.pool()})}

    assert set(problems) == {f"pools.a.{key}" for key in bad.found}
    for key, words in bad.found.items():
        assert [each for each in words if each not in problems[f"pools.a.{key}"]] == []


@each_row("bad", BAD, ids=lambda bad: f"{bad.cluster} {bad.name}")
def test_it_is_that_alone_for_which_it_is_refused(bad: Bad) -> None:
    plan = plan_config(stack({"a": {**bad.pool(), **bad.good}}), clouds())

    assert [pool.name for pool in plan.pools] == ["a"]


def test_all_of_them_are_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = {f"p{number}": bad.pool() for number, bad in enumerate(BAD)}
    file = tmp_path / "Pulumi.bad.yaml"
    file.write_text(yaml.safe_dump({"config": {f"gpupools:{k}": v for k, v in stack(pools).items()}}), encoding="utf-8")

    code = main(["check", str(file)])
    told = capsys.readouterr().err

    assert code == 1
    for number, bad in enumerate(BAD):
        for key in bad.found:
            assert f"pools.p{number}.{key}: " in told
    assert told.count(f"{file}:") == sum(len(bad.found) for bad in BAD)


@pytest.mark.parametrize("section", ["clusters", "pools"])
def test_a_key_too_long_for_the_names_made_of_it_is_refused(section: str) -> None:
    good = {"clusters": ["aws"], "instance_type": MACHINES["aws"], "nodes": {"max": 1}}
    config = stack({"a": good})
    config[section][LONG] = {"clusters": CLUSTERS["aws"], "pools": good}[section]
    with pytest.raises(Rejected) as caught:
        plan_config(config, clouds())

    assert [problem.key for problem in caught.value.problems] == [f"{section}.{LONG}"]
    assert "1 to 20" in caught.value.problems[0].fix


@pytest.mark.parametrize(
    "keys",
    [{"capacity": {"mode": "cheap"}}, {"instance_type": "big"}, {"sharing": {"mode": "some"}}],
    ids=["unknown-mode", "unknown-machine", "unknown-sharing"],
)
def test_nothing_is_guessed_of_a_pool_that_means_something_else_without_its_mistake(keys: Keys) -> None:
    pool = {"clusters": ["gcp"], "instance_type": "a3-ultragpu-8g", "nodes": {"max": 4}, **keys}
    other = {**pool, "capacity": {"mode": "spot"}} if "sharing" in keys else pool

    assert [problem.path[2] for problem in refused({"a": other})] == list(keys)
