"""Serves the components to Pulumi programs in any language."""

from pulumi.provider.experimental import component_provider_host, host

from gpupools.base.version import version
from gpupools.components import declared
from gpupools.components.gpu_node_pool import GpuNodePool
from gpupools.components.gpu_runtime import GpuRuntime
from gpupools.components.host import NothingDropped


def serve() -> None:
    """Serve until the engine ends the process."""
    declared.hosted = True
    vars(host)["ComponentProvider"] = NothingDropped  # there is no other way to hand it in
    component_provider_host([GpuNodePool, GpuRuntime], name="gpupools", version=version())
