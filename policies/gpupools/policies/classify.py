"""Classify each resource by its kind alone: judged, creates no nodes, or unknown. Pure.

An unknown kind is advice. It is a violation that cannot be verified where its name or its schema says node, node pool,
node group or machine.
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS, Effect, repels_cpu_pods
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.declared_software import CHARTS, chart_name
from gpupools.policies.kinds import is_read, key_of, names_nodes, names_pools, plain_key, pool_kinds, readers_of, row_of
from gpupools.readback.inputs import TaintsRead, at, group_and_kind, is_list, items, kubernetes_type, mapping, text
from gpupools.software.charts import charts


@dataclass(frozen=True)
class Unclassified:
    """Why gpupools does not know what a resource creates."""

    kind: str
    """As people write it: `<group>/<Kind>`, a type token, a Terraform type."""
    why: str
    nodes: bool
    """True where it may create nodes, which is a violation; otherwise it is advice."""
    elsewhere: bool = False
    """True where what it creates is judged in another file."""
    source: str = ""
    harmless: bool = False
    """True for nodes that are not read and that other pods do not fill, or that have no GPUs."""


def classify(
    type_token: str, inputs: JsonObject, *, opaque: str = "", component: bool = False, software: bool = False
) -> Unclassified | None:
    """Return why a resource is unknown; None for one that is judged or creates no nodes.

    Args:
        type_token: Pulumi type, or `terraform:<type>`, `cloudformation:<type>`, `arm:<type>` where Pulumi has none.
        inputs: Plain data, with `UNKNOWN`.
        opaque: Why its contents cannot be read, where the form of the file knows.
        component: Whether it is a component, whose children are resources of their own.
        software: Whether it is judged as GPU software, so that only what may create nodes is reported.
    """
    own = _classify_kind(type_token, inputs, opaque, component=component)
    found = [
        *(() if own is None else (own,)),
        *_nested_types(type_token, inputs),
        *_held_pools(type_token, inputs),
    ]
    may_create_nodes = next((item for item in found if item.nodes), None)
    return may_create_nodes or (found[0] if found and not software else None)


def _classify_kind(
    type_token: str, inputs: JsonObject, opaque: str = "", *, component: bool = False
) -> Unclassified | None:
    key, kind = key_of(type_token)
    if opaque:
        return Unclassified(kind, opaque, nodes=True)
    if patched := _patched_pool(type_token):
        return Unclassified(kind, f"it changes part of a {patched} that is not in this resource", nodes=True)
    if key in ("kubernetes:core/NodePatch", "kubernetes:/NodePatch") and _removes_taints(inputs):
        return Unclassified(kind, "it replaces the taints of a node at spec.taints", nodes=True)
    if key.startswith(("kubernetes:yaml", "kubernetes:kustomize/")) and any(
        inputs.get(name) is UNKNOWN for name in _OF_FILES
    ):
        return Unclassified(kind, "what it applies is not known yet, so its objects are not here", nodes=True)
    if chart_at := _CHARTS.get(key):
        names = [name for path in chart_at for name in _in_blocks(inputs, path) if name is not None]
        return _classify_chart(kind, key, names, component)
    if is_read(type_token):
        closed = next((why for reader in readers_of(type_token) if (why := reader.unread(type_token, inputs))), "")
        return Unclassified(kind, closed, nodes=True) if closed else None
    return _classify_row(key, kind, inputs, component)


def _classify_row(key: str, kind: str, inputs: Any, component: bool = False) -> Unclassified | None:
    row = row_of(key)
    if component and (row is None or row.by_name):
        return None  # its children are classified
    if row is None:
        says = names_nodes(key, inputs) or _schema_names_nodes(inputs)
        why = "gpupools does not know this kind"
        return Unclassified(kind, f"{why}; it {says}" if says else why, nodes=bool(says))
    if row.answer == "none":
        return None
    if row.where and not any(any(_in_blocks(inputs, path)) for path in row.where):
        return None
    if row.answer.startswith("pool ") and (harmless := _keeps_pods_off(inputs, *row.answer.split(" ")[1:])):
        return Unclassified(kind, harmless, nodes=False, source=row.source, harmless=True)
    nodes, tainted = row.answer not in ("elsewhere", "tainted"), row.answer == "tainted"
    return Unclassified(kind, row.why, nodes=nodes, source=row.source, harmless=tainted)


def _in_blocks(value: Any, path: str) -> list[Any]:
    """Look up as `at` does in each block of a list."""
    blocks = [value]
    for step in path.split("."):
        blocks = [one for item in blocks for one in _listed(at(item, step))]
    return blocks


def _listed(value: Any) -> list[Any]:
    return [*value] if is_list(value) else [value]


def _keeps_pods_off(inputs: Any, machine: str, taints: str, patterns: str) -> str:
    """Return why no pool that is not read has GPU nodes that other pods fill; empty if that is not known."""
    read = TaintsRead()
    for path in taints.split("|"):
        around, _, key = path.removesuffix("!").rpartition(".")
        for block in _in_blocks(inputs, around) if around else [inputs]:
            given = at(block, key)
            if is_list(given) and any(isinstance(one, str) for one in given):
                read.texts(given, path)
            else:
                read.objects(given, path, _OF_CLOUD if path.endswith("!") else KUBERNETES_EFFECTS)
    if repels_cpu_pods(read.taints):
        return "a pool that gpupools does not read; its taint keeps other pods off"
    names = next((names for path in machine.split("|") if (names := _in_blocks(inputs, path)) != [None]), [])
    known = [any(fnmatchcase(text(name).casefold(), part) for part in patterns.split(",")) for name in names]
    return "a pool that gpupools does not read, of machines without GPUs" if known and all(known) else ""


_OF_CLOUD = {"NO_SCHEDULE": Effect.NO_SCHEDULE, "NO_EXECUTE": Effect.NO_EXECUTE}
"""Effects as the APIs of EKS and GKE spell them, at paths that end with !."""


def _schema_names_nodes(inputs: JsonObject) -> str:
    """Return which property of an unknown kind is named after node pools; empty for none."""
    for path in ("", "spec", "spec.template.spec", "properties"):
        for key in mapping(at(inputs, path) if path else inputs):
            if names_pools(str(key)):
                return f"has the property {shown(str(key))}"
    return ""


def is_harmless(kind: str) -> bool:
    """Say of one kind, `<group>/<Kind>`, whether a row of its own says that it creates no nodes."""
    row = row_of(f"kubernetes:{kind}")
    return row is not None and row.answer == "none" and f"kubernetes:{kind}" in row.kinds


def _patched_pool(type_token: str) -> str:
    """Return the kind of the node pool that a patch of Pulumi's changes; empty for none.

    https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/managing-resources-with-server-side-apply/
    """
    _, kind = kubernetes_type(type_token) or ("", "")
    return kind.removesuffix("Patch") if kind.endswith("Patch") and kind.removesuffix("Patch") in pool_kinds() else ""


def _removes_taints(inputs: JsonObject) -> bool:
    """Say whether a patch of a Node leaves no taint that keeps pods away: it replaces the whole list.

    https://github.com/kubernetes/api/blob/master/core/v1/types.go, `NodeSpec.Taints` (`listType=atomic`)
    """
    spec = mapping(inputs.get("spec"))
    effects = [text(at(one, "effect")) for _, one in items(spec.get("taints"), "", [])]
    return inputs.get("spec") is UNKNOWN or ("taints" in spec and not {"NoSchedule", "NoExecute"} & {*effects})


# https://www.pulumi.com/registry/packages/kubernetes/api-docs/yaml/v2/
_OF_FILES = ("directory", "file", "files", "objs", "yaml")

_CHARTS: Mapping[str, tuple[str, ...]] = {
    "kubernetes:helm.sh/Release": ("chart",),
    "kubernetes:helm.sh/Chart": ("chart",),
    "kubernetes:helm.toolkit.fluxcd.io/HelmRelease": ("spec.chart.spec.chart",),
    "kubernetes:argoproj.io/Application": ("spec.source.chart", "spec.sources.chart"),
    "kubernetes:argoproj.io/ApplicationSet": ("spec.template.spec.source.chart", "spec.template.spec.sources.chart"),
}
"""Where a kind names the charts that it installs."""


def _classify_chart(kind: str, key: str, names: list[Any], component: bool) -> Unclassified | None:
    """Classify what installs charts by their names: those that gpupools knows create no nodes."""
    row = row_of(key)
    pools = next((name for name in names if names_pools(chart_name(text(name)))), "")
    if pools:
        return Unclassified(
            kind, f"the chart {shown(pools)} is named after node pools, and it is not rendered", nodes=True
        )
    known = names and all(chart_name(text(name)) in _known_charts() for name in names)
    return None if known or component or row is None else Unclassified(kind, row.why, nodes=False, source=row.source)


@lru_cache
def _known_charts() -> frozenset[str]:
    return frozenset({*charts(), *CHARTS})


def _nested_types(type_token: str, inputs: JsonObject) -> Iterator[Unclassified]:
    """Classify the resources of a template inside a resource."""
    for reader in readers_of(type_token):
        for held in reader.nested_types(type_token, inputs):
            found = _classify_row(plain_key(held), held.partition(":")[2], UNKNOWN)
            if found is not None:
                yield found


_HOLDERS = frozenset({"Application", "ApplicationSet", "Chart", "Composition", "ConfigMap", "HelmRelease"})
_HOLDERS |= {"ManifestWork", "ManifestWorkReplicaSet", "Object", "Release", "ResourceGraphDefinition", "Secret"}
_HOLDERS |= {"Template"}
"""Kinds that hold other objects, as values or as text."""
_KIND = re.compile(r'kind["\\]*: {0,9}["\\]*(\w+)')


def _held_pools(type_token: str, inputs: JsonObject) -> Iterator[Unclassified]:
    """Name the node pool inside an object that holds others, which is not read where it stands."""
    group, kind = group_and_kind(type_token)
    if kind not in _HOLDERS:
        return
    held = json.dumps({key: value for key, value in inputs.items() if key not in _OWN}, default=str)
    for one in mapping(inputs.get("data")).values() if kind == "Secret" else ():
        with suppress(ValueError):
            held += json.dumps(b64decode(text(one)).decode())
    named = _KIND.findall(held) if "apiVersion" in held else ()
    if pool := next((one for one in named if one in pool_kinds() or names_pools(one)), ""):
        why = f"it holds a {pool}, which is not read here; check that object as a manifest of its own"
        yield Unclassified("/".join(filter(None, (group, kind))), why, nodes=True)


_OWN = ("apiVersion", "kind", "metadata")
