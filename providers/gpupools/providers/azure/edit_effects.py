"""Effects of an edit on the nodes of a pool on AKS, from the tables in this folder. Pure."""

from functools import cache, partial
from pathlib import Path

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.edit_tables import read_edit_tables

_HERE = Path(__file__).parent
_ADDRESS = frozenset({"agentPoolName", "resourceName", "resourceGroupName"})

_ROWS = csv_rows(_HERE / "inputs.csv")
FIXED_AT_CREATION = tuple(sorted({row["input"] for row in _ROWS if row["effect"] == "replace"} - _ADDRESS))
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


edit_tables = cache(partial(read_edit_tables, _HERE, _LEFT_OUT))
"""Return the tables."""
