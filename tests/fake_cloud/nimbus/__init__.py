"""Nimbus, a cloud that nobody has: the smallest folder that is a whole cloud. Only `resources.py` is not pure."""

from pathlib import Path

from gpupools.plan.cloud import Cloud, NodePools, PoolOrder, Readback, RegisteredResource, ResourceFactory
from tests.fake_cloud.nimbus.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from tests.fake_cloud.nimbus.cluster import EXAMPLE, NimbusCluster
from tests.fake_cloud.nimbus.constraints import check_pool, check_settings
from tests.fake_cloud.nimbus.declared_inputs import declared_inputs
from tests.fake_cloud.nimbus.edit_effects import edit_tables
from tests.fake_cloud.nimbus.machines import INSTANCE_TYPES
from tests.fake_cloud.nimbus.node_software import node_runtime
from tests.fake_cloud.nimbus.pool_plan import build_provider_plan
from tests.fake_cloud.nimbus.pool_settings import OVERRIDABLE, SETTINGS
from tests.fake_cloud.nimbus.reserved import LABELS, TAINTS


def _readback() -> Readback:
    from tests.fake_cloud.nimbus.readback import READBACK

    return READBACK


def _resources() -> ResourceFactory:
    from tests.fake_cloud.nimbus.resources import RESOURCES

    return RESOURCES


CLOUD = Cloud(
    name="nimbus",
    service="Nimbus Kubernetes",
    instance_types=INSTANCE_TYPES,
    folder=Path(__file__).parent,
    cluster=NimbusCluster,
    example_cluster=EXAMPLE,
    provider_settings={"nimbus": {"region": "write the cluster's region"}},
    software=SOFTWARE,
    default_software=DEFAULT_SOFTWARE,
    capabilities=CAPABILITIES,
    check_pool=check_pool,
    check_settings=check_settings,
    decide=build_provider_plan,
    node_runtime=node_runtime,
    supports_dra_from_zero=False,
    reserved_labels=LABELS,
    reserved_taints=TAINTS,
    node_pools=NodePools(
        settings=SETTINGS,
        overridable=OVERRIDABLE,
        edits=edit_tables,
        resources=_resources,
        declared_inputs=declared_inputs,
        order=PoolOrder(names=lambda plan, cluster: (plan.name,), group_id="^{}$"),
        registered={"NodePool": RegisteredResource("pool")},
    ),
    readback=_readback,
)
