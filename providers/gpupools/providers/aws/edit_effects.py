"""Effects of an edit on the nodes of a pool on EKS, from the tables in this folder. Pure."""

from functools import cache, partial
from pathlib import Path

from gpupools.plan.edit_tables import read_edit_tables

_LEFT_OUT = {"NodeGroup.capacityType": ("capacity_type", "ON_DEMAND")}
"""https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html"""


edit_tables = cache(partial(read_edit_tables, Path(__file__).parent, _LEFT_OUT, several=True))
"""Return the tables."""
