"""The settings of a pool that Nimbus supports, and the inputs that overrides may set."""

from collections.abc import Mapping

from gpupools.plan.capability import Setting
from gpupools.spec.overrides import Overridable
from gpupools.spec.pool_options import SETTINGS as NAMES

_API = "https://example.com/node-pools"
_TAKEN = {"image.family": "image", "tags": "tags", "protect": "the resource's protect option", "overrides": "any input"}
_FIXED = "nodes.fixed", "count.min and count.max alike"

SETTINGS: Mapping[str, Setting] = {
    name: Setting(name in _TAKEN, _TAKEN.get(name, "the API has no field for it; leave it out"), _API) for name in NAMES
} | {_FIXED[0]: Setting(True, _FIXED[1], _API)}

OVERRIDABLE: Mapping[str, Overridable] = {
    "NodePool": Overridable(
        inputs=frozenset(
            {"cluster", "count", "diskGib", "image", "labels", "machine", "startupScript", "tags", "taints"}
        ),
        kept={("machine",): "write instance_type", ("taints",): "write taints", ("count",): "write nodes"},
        labels=("labels",),
    )
}
