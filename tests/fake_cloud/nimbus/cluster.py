"""The keys that a stack file gives for a Nimbus cluster."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from gpupools.spec.cluster_access import ReachableCluster
from gpupools.spec.models import Address, ExecPlugin


class NimbusCluster(ReachableCluster):
    """An existing Nimbus cluster."""

    cloud: Literal["nimbus"]
    name: Address
    """Name of the cluster."""
    region: str
    """Region of the cluster."""

    @classmethod
    def place_of(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return region and name."""
        return {"region": given["region"], "name": given["name"]}

    @classmethod
    def exec_plugin(cls, given: Mapping[str, Any]) -> ExecPlugin:
        """Return the cloud's command line."""
        return ExecPlugin(
            command="nimbus", args=("token", given["name"]), install_hint="Get it: https://example.com/cli"
        )


EXAMPLE = MappingProxyType({"cloud": "nimbus", "name": "sky-dev", "region": "north"})
