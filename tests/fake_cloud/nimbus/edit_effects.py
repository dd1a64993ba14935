"""Effects of an edit on the nodes of a pool on Nimbus, from the tables in this folder. Pure."""

from functools import cache
from pathlib import Path

from gpupools.plan.edit_tables import EditTables, read_edit_tables


@cache
def edit_tables() -> EditTables:
    """Return the tables of plan edits and input edits."""
    return read_edit_tables(Path(__file__).parent, {})
