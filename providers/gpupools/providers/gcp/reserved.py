"""Keys of node labels and taints that GKE keeps for itself, or that keep its nodes from joining."""

from pathlib import Path

from gpupools.catalog.reserved_keys import CONDITION_TAINTS, OPERATOR_LABELS, key_rules
from gpupools.common.taints import Effect

_TABLE = Path(__file__).with_name("reserved.csv")

EFFECTS = {
    Effect.NO_SCHEDULE: "NO_SCHEDULE",
    Effect.PREFER_NO_SCHEDULE: "PREFER_NO_SCHEDULE",
    Effect.NO_EXECUTE: "NO_EXECUTE",
}
"""Effects in the spelling of the GKE API, https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig."""

# Google documents no list of what GKE sets itself. Its API refuses what it "manages": the pull request quotes it,
# of a key that Google's pages have people write by now. Labels for DRA drivers are people's own.
LABELS = (*key_rules(_TABLE, "label"), *OPERATOR_LABELS)
TAINTS = (*CONDITION_TAINTS, *key_rules(_TABLE, "taint"))
