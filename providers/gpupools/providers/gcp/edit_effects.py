"""Effects of an edit on the nodes of a pool on GKE, from the tables in this folder. Pure.

An input replaces the pool where the schema of terraform-provider-google-beta says so; `pulumi_gcp` is built from it.
"""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.edit_tables import EditEffect, read_edit_tables

_LEFT_OUT = {
    "NodePool.nodeConfig.spot": ("spot", False),
    "NodePool.nodeConfig.preemptible": ("spot", False),
    "NodePool.nodeConfig.flexStart": ("flex_start", False),
    "NodePool.nodeConfig.maxRunDuration": ("max_run_s", ""),
    "NodePool.nodeConfig.confidentialNodes.enabled": ("overrides", False),
    "NodePool.queuedProvisioning.enabled": ("queued", False),
}
"""https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig"""


edit_tables = cache(partial(read_edit_tables, Path(__file__).parent, _LEFT_OUT, old_protection_counts=True))
"""Return the tables.

The provider looks at the deletion policy of the last update, also when it deletes what was replaced:
https://github.com/hashicorp/terraform-provider-google-beta google-beta/services/container/
resource_container_node_pool.go, DeletionPolicyPreDelete.
"""


def is_replacing(path: str) -> bool:
    """Return whether the change of an input replaces the pool, by the row of its dotted path."""
    edit = edit_tables().inputs.get(path)
    return edit is not None and edit.effect is EditEffect.REPLACE


def replacing_inputs(inputs: JsonObject, above: str = "") -> JsonDict:
    """Return the inputs whose change replaces the pool, by dotted path."""
    found: JsonDict = {}
    for key, value in inputs.items():
        if is_replacing(f"{above}{key}"):
            found[f"{above}{key}"] = value
        elif isinstance(value, Mapping):
            found |= replacing_inputs(value, f"{above}{key}.")
    return dict(sorted(found.items()))
