"""What counts as a GPU pool on Google Cloud: node pools, pools inside a cluster, and node auto-provisioning."""

from typing import Any

import pytest

from gpupools.plan.pool_facts import PoolFacts
from gpupools.providers.gcp import CLOUD
from gpupools.readback.inputs import with_taint

POOL = "gcp:container/nodePool:NodePool"
CLUSTER = "gcp:container/cluster:Cluster"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
L4 = {"machineType": "g2-standard-4"}


def read(token: str, properties: Any) -> tuple[PoolFacts, ...]:
    return CLOUD.readback().read_pools(token, properties)


def test_the_taint_is_added_to_the_pool_at_fault_alone() -> None:
    cluster = {"nodePools": [{"name": "cpu"}, {"name": "gpu", "nodeConfig": L4}]}
    mended = with_taint(cluster, read(CLUSTER, cluster)[1])

    assert mended == {"nodePools": [{"name": "cpu"}, {"name": "gpu", "nodeConfig": L4 | {"taints": [TAINT]}}]}


@pytest.mark.parametrize("pools", [[], [{"name": "cpu"}], "x", None], ids=["empty", "short", "text", "none"])
def test_no_taint_is_added_to_a_pool_that_is_not_there(pools: Any) -> None:
    (_, second) = read(CLUSTER, {"nodePools": [{"name": "cpu"}, {"name": "gpu", "nodeConfig": L4}]})

    assert with_taint({"nodePools": pools}, second) is None
