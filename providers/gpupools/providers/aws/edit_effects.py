"""What an edit does to the nodes of a pool on EKS, from the tables beside this file. Pure."""

from functools import cache
from pathlib import Path

from gpupools.plan.edit_tables import EditTables, input_edits, plan_edits

_HERE = Path(__file__).parent


@cache
def edit_tables() -> EditTables:
    """Return the tables."""
    return EditTables(plan_edits(_HERE / "plan_edits.csv"), input_edits(_HERE / "edits.csv"))
