"""Effects of an edit on the nodes of a pool on AKS, from the tables in this folder. Pure."""

from functools import cache
from pathlib import Path

from gpupools.plan.edit_tables import EditTables, read_edit_tables

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
    return read_edit_tables(Path(__file__).parent, _LEFT_OUT)
