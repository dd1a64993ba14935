"""Effects of an edit on the nodes of a pool on AKS, from the tables in this folder. Pure."""

from functools import cache
from pathlib import Path

from gpupools.plan.edit_tables import EditTables, input_edits, plan_edits

_HERE = Path(__file__).parent
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
    return EditTables(plan_edits(_HERE / "plan_edits.csv"), input_edits(_HERE / "edits.csv"), _LEFT_OUT)
