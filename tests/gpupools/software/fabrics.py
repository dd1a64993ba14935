"""Pools with RDMA interfaces or an NVLink domain, one for each way in which pods get them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.stack_validation import Stack, parse_stack
from tests.stack_plans import plan_stack

ZONES: Mapping[str, str] = {"aws": "eu-central-1a", "azure": "1", "gcp": "europe-west4-a"}
EFA = {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]}
BLOCK = {"mode": "capacity-block", "name": "cr-0123456789abcdef0"}
SPOT, RESERVED = {"mode": "spot"}, {"mode": "reservation", "name": "rack"}
SRIOV = {"rdma_plugin": {"name": "network-operator/sriov-device-plugin"}}
SHARED = {"rdma_plugin": {"name": "network-operator/rdma-shared-device-plugin", "shared": True}}
P5 = {"instance_type": "p5.48xlarge", "network": EFA}
ND = {"instance_type": "Standard_ND96isr_H100_v5", "software": "device-plugin", "network": {"rdma": True}}
ULTRA = {"instance_type": "a3-ultragpu-8g", "capacity": SPOT, "network": {"rdma": True}}
RACK = {"rdma": True, "compute_domains": True}
MAX = {"instance_type": "a4x-maxgpu-4g-metal", "capacity": RESERVED, "network": RACK, "nodes": {"fixed": 2}}
FOUR = [{"network": f"gpu-{number}", "subnetwork": f"gpu-{number}-nodes"} for number in range(4)]
RACK_OF_AWS = {
    "instance_type": "p6e-gb200.36xlarge",
    "software": "device-plugin",
    "capacity": BLOCK,
    "network": {**EFA, "compute_domains": True},
}


class Fabricated(NamedTuple):
    """A pool, with what its cluster has already."""

    cloud: str
    pool: Mapping[str, Any]
    existing: Mapping[str, Any]


FABRICS: Mapping[str, Fabricated] = {
    "efa": Fabricated("aws", {**P5, "software": "device-plugin"}, {}),
    "efa-operator": Fabricated("aws", {**P5, "software": "gpu-operator"}, {}),
    "efa-bottlerocket": Fabricated("aws", {**P5, "software": "cloud-managed"}, {}),
    "efa-few": Fabricated("aws", {**P5, "instance_type": "p4d.24xlarge", "software": "device-plugin"}, {}),
    "efa-rack": Fabricated("aws", RACK_OF_AWS, {}),
    "efa-claimed": Fabricated("aws", {**P5, "software": "dra-driver", "nodes": {"min": 1, "max": 4}}, {}),
    "ib": Fabricated("azure", ND, SRIOV),
    "ib-shared": Fabricated("azure", {**ND, "software": "gpu-operator"}, SHARED),
    "roce": Fabricated("gcp", ULTRA, {}),
    "roce-claimed": Fabricated("gcp", {**ULTRA, "software": "dra-driver"}, {}),
    "tcpxo": Fabricated("gcp", {"instance_type": "a3-megagpu-8g", "network": {"rdma": True}}, {}),
    "tcpx": Fabricated("gcp", {"instance_type": "a3-highgpu-8g", "network": {"rdma": True, "gpu_networks": FOUR}}, {}),
    "nvl-max": Fabricated("gcp", MAX, {}),
    "nvl": Fabricated(
        "gcp",
        {"instance_type": "a4x-highgpu-4g", "capacity": RESERVED, "network": RACK, "nodes": {"fixed": 2}},
        {},
    ),
}


def stack_with(name: str, runtime: Mapping[str, Any] | None = None, **keys: Any) -> Stack:
    """Return a stack with one of these pools, which has the name of its row."""
    cloud, pool, existing = FABRICS[name]
    cluster: dict[str, Any] = {
        **clouds()[cloud].example_cluster,
        "places": "trust",
        "kubeconfig": {"path": "~/.kube/config"},
    }
    if cloud == "aws":
        del cluster["subnet_ids"]
        cluster |= {"subnets_by_zone": {ZONES["aws"]: ["subnet-0a1b2c3d"]}}
    cluster["runtime"] = {"existing": existing, **(runtime or {})}
    pools = {name: {"clusters": ["c"], "nodes": {"max": 4}, "zones": [ZONES[cloud]], **pool, **keys}}
    return parse_stack({"clusters": {"c": cluster}, "pools": pools}, clouds())


def pool_with(name: str) -> PoolPlan:
    """Plan one of these pools."""
    (pool,) = plan_stack(stack_with(name), clouds())
    return pool
