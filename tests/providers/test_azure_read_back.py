"""What counts as a GPU pool on Azure: agent pools, the pools inside a cluster, and the classic provider's."""

from typing import Any

from gpupools.plan.pool_facts import PoolFacts
from gpupools.providers.azure import CLOUD
from gpupools.readback.inputs import with_taint

CLUSTER = "azure-native:containerservice:ManagedCluster"
T4 = "Standard_NC4as_T4_v3"
TEXT = "nvidia.com/gpu=present:NoSchedule"


def read(token: str, properties: Any) -> tuple[PoolFacts, ...]:
    return CLOUD.readback().read_pools(token, properties)


def test_the_taint_is_added_to_the_pool_at_fault_alone() -> None:
    profiles = [{"name": "system", "vmSize": "Standard_D4s_v5"}, {"name": "gpu", "vmSize": T4, "nodeTaints": ["a:X"]}]
    cluster = {"agentPoolProfiles": profiles}
    mended = with_taint(cluster, read(CLUSTER, cluster)[1])

    assert mended == {"agentPoolProfiles": [profiles[0], {"name": "gpu", "vmSize": T4, "nodeTaints": ["a:X", TEXT]}]}
    assert cluster == {"agentPoolProfiles": profiles}
