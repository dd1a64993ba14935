"""Nimbus, a cloud that nobody has: the smallest folder that is a whole cloud. Only `resources.py` is not pure."""

from gpupools.planned.cloud import Cloud, Declaring, NodePools, Reading
from tests.made_up_cloud.nimbus.access import exec_plugin
from tests.made_up_cloud.nimbus.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from tests.made_up_cloud.nimbus.choices import decide, refusals
from tests.made_up_cloud.nimbus.cluster import EXAMPLE, NimbusCluster
from tests.made_up_cloud.nimbus.conflicts import conflicts
from tests.made_up_cloud.nimbus.edits import edits
from tests.made_up_cloud.nimbus.machines import INSTANCE_TYPES
from tests.made_up_cloud.nimbus.pool_settings import OVERRIDABLE, SETTINGS
from tests.made_up_cloud.nimbus.reserved import LABELS, TAINTS
from tests.made_up_cloud.nimbus.runtime import node_runtime


def _reading() -> Reading:
    from tests.made_up_cloud.nimbus.read_back import READING

    return READING


def _declaring() -> Declaring:
    from tests.made_up_cloud.nimbus.resources import DECLARING

    return DECLARING


CLOUD = Cloud(
    name="nimbus",
    service="Nimbus Kubernetes",
    instance_types=INSTANCE_TYPES,
    cluster=NimbusCluster,
    example_cluster=EXAMPLE,
    access=exec_plugin,
    provider_settings={"nimbus": {"region": "write the cluster's region"}},
    software=SOFTWARE,
    default_software=DEFAULT_SOFTWARE,
    capabilities=CAPABILITIES,
    refusals=refusals,
    conflicts=conflicts,
    decide=decide,
    node_runtime=node_runtime,
    models_claims=False,
    reserved_labels=LABELS,
    reserved_taints=TAINTS,
    node_pools=NodePools(settings=SETTINGS, overridable=OVERRIDABLE, edits=edits, declaring=_declaring),
    reading=_reading,
)
