"""How a token for the API of a Nimbus cluster is got. Pure."""

from collections.abc import Mapping
from typing import Any

from gpupools.spec.cluster_access import ExecPlugin


def exec_plugin(cluster: Mapping[str, Any]) -> ExecPlugin:
    """Return the cloud's command line."""
    return ExecPlugin(command="nimbus", args=("token", cluster["name"]), install_hint="Get it: https://example.com/cli")
