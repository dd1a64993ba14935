"""Effects of an edit on the nodes of a pool on AKS, from the tables in this folder. Pure."""

from functools import cache
from pathlib import Path

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.edit_tables import EditTables, read_edit_tables

_HERE = Path(__file__).parent
_ADDRESS = frozenset({"agentPoolName", "resourceName", "resourceGroupName"})

FIXED_AT_CREATION = tuple(
    sorted(
        row["input"]
        for row in csv_rows(_HERE / "inputs.csv")
        if row["effect"] == "replace" and row["input"] not in _ADDRESS
    )
)
"""Properties AKS never changes, in wire names.

The provider replaces the pool for its address, vmSize and gpuInstanceProfile only (pulumi/pulumi-azure-native
provider/pkg/gen/replacement.go); for every other, preview would show an update that fails with
PropertyChangeNotAllowed (https://github.com/pulumi/pulumi-azure-native/issues/959). The list is the one of
hashicorp/terraform-provider-azurerm website/docs/r/kubernetes_cluster_node_pool.html.markdown.
"""

_LEFT_OUT = {
    "AgentPool.scaleSetPriority": ("spot_max_price", "Regular"),
    "AgentPool.enableFIPS": ("fips", False),
    "AgentPool.gpuInstanceProfile": ("gpu_instance_profile", ""),
    "AgentPool.powerState.code": ("overrides", "Running"),
}
"""https://learn.microsoft.com/rest/api/aks/agent-pools/create-or-update"""


@cache
def edit_tables() -> EditTables:
    """Return the tables of plan edits and input edits."""
    return read_edit_tables(_HERE, _LEFT_OUT)
