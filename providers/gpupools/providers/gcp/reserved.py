"""Keys of node labels and taints that GKE keeps for itself, or that keep its nodes from joining."""

from pathlib import Path

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, key_rules
from gpupools.common.taints import CLOUD_EFFECTS

_TABLE = Path(__file__).with_name("reserved.csv")

EFFECTS = {effect: name for name, effect in CLOUD_EFFECTS.items()}

# Google documents no list of what GKE sets itself. Its API refuses what it "manages": the pull request quotes it,
# of a key that Google's pages have people write by now. Labels for DRA drivers are people's own.
LABELS = (*key_rules(_TABLE, "label"), *OPERATOR_LABELS)
TAINTS = (*CONDITION_TAINTS, *key_rules(_TABLE, "taint"))
