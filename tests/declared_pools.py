"""Pools of many stack files, declared in one program through the component against the strict monitor."""

import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.program_run import Preview, preview_program
from gpupools.spec.overrides import flattened

PROGRAM = """
import json
import pulumi
from gpupools.components.clusters import provider
from gpupools.components.gpu_node_pool import PlannedPool, GpuNodePool, plan_args

providers = {}
for name, wanted in pulumi.Config().require_object("pools").items():
    cluster, pool = wanted["clusters"]["c"], wanted["pools"]["a"]
    text = json.dumps(cluster)
    if text not in providers:
        providers[text] = provider(f"p{len(providers)}", cluster["cloud"], cluster)
    args = {
        "cloud": cluster["cloud"],
        "cluster": {key: value for key, value in cluster.items() if key != "cloud"},
        "pool": {key: value for key, value in pool.items() if key != "clusters"},
        "pool_name": "a",
    }
    # All are one pool of one cluster on purpose; of what is decided, the component takes the program's word.
    planned = PlannedPool(plan_args(f"{name}-a", args), {})
    GpuNodePool(f"{name}-a", args, pulumi.ResourceOptions(providers=[providers[text]]), planned)
"""


def stack(cluster: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a stack with one pool, called `a`, on one cluster."""
    return {"clusters": {"c": dict(cluster)}, "pools": {"a": {"clusters": ["c"], **pool}}}


@dataclass(frozen=True)
class DeclaredPools:
    """What was declared for each of several such stacks."""

    preview: Preview
    components: Mapping[str, DeclaredResource]
    pools: Mapping[str, tuple[DeclaredResource, ...]]
    """What is inside each component."""

    def provider(self, key: str) -> Mapping[str, Any]:
        """Return the inputs of a pool's provider."""
        urn = str(self.pools[key][0].options["provider"]).rpartition("::")[0]
        return next(each.inputs for each in self.preview.resources if each.urn == urn)


def declare(stacks: Mapping[str, Mapping[str, Any]], folder: Path) -> DeclaredPools:
    """Declare the pool of each stack, by a key that is no part of anything in it."""
    program = folder / "__main__.py"
    program.parent.mkdir()
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    preview = preview_program(program, "test", "pools", {"pools": dict(stacks)})
    components = {each.name.removesuffix("-a"): each for each in preview.resources if not each.custom}
    owner = {each.urn: key for key, each in components.items()}
    found: dict[str, list[DeclaredResource]] = {key: [] for key in stacks}
    for resource in preview.resources:
        if resource.parent in owner:
            found[owner[str(resource.parent)]].append(resource)
    return DeclaredPools(preview, components, {key: tuple(each) for key, each in found.items()})


def sent(cloud: str, key: str, resources: tuple[DeclaredResource, ...]) -> dict[str, Any]:
    """Return the inputs of a pool by path as in the tables of edits, without the component's name in their values."""
    found: dict[str, Any] = {}
    for resource in resources:
        kind = resource.type.rpartition(":")[2]
        inputs = json.loads(json.dumps(resource.inputs).replace(f"{key}-", ""))
        if kind == "Resource":  # an agent pool in a version of AKS's API that the SDK has no class for
            address = {"agentPoolName": inputs["resourceName"], "resourceGroupName": inputs["resourceGroupName"]}
            cluster = inputs["parentResourcePath"].rpartition("/")[2]
            inputs = {**inputs["properties"], **address, "resourceName": cluster}
        if kind == "Tag":
            for name, value in inputs.items():
                found.setdefault(f"Tag.{name}", {})[inputs["tag"]["key"]] = value
        else:
            found |= {f"{kind}.{path}" if cloud == "aws" else path: value for path, value in flattened(inputs).items()}
    return found
