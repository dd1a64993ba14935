"""Read the Kubernetes objects inside known wrappers, such as ConfigMaps, Crossplane Objects and Helm values. Pure.

A wrapper's text is parsed as YAML or JSON as a whole. Scripts, archives and other strings are not searched. A value
that is filled in later (a patch, a placeholder) becomes `UNKNOWN`, so that the object cannot be verified.

Sources, as repository and path: crossplane-contrib/provider-kubernetes apis/object; open-cluster-management-io/api
work/v1; kubernetes-sigs/kro api/v1alpha1; crossplane-contrib/function-patch-and-transform input/v1beta1;
openshift/api template/v1; kubernetes-sigs/cluster-api api/addons (a ClusterResourceSet applies ConfigMaps);
fluxcd/helm-controller api/v2; argoproj/argo-cd pkg/apis/application/v1alpha1.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import ObjectReader
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.readback.inputs import at, is_list, items, mapping, relocated, text
from gpupools.readback.kubernetes_pools import read_manifest
from gpupools.readback.registry import Clouds, Embedded, KubernetesReader, Unreadable

_Objects = Iterator[tuple[str, Any]]
_Reader = Callable[[JsonObject], _Objects]

_DEEPEST = 4
"""Of wrappers inside wrappers; what is deeper is `UNKNOWN`."""


def _embedded(given: JsonObject, group: str, kind: str) -> Iterator[Embedded]:
    """Yield the objects inside a wrapper, whose group and kind are in `WRAPPERS`, and those inside these."""
    return _opened(Embedded("", given), group, kind, _DEEPEST)


def _opened(above: Embedded, group: str, kind: str, deep: int) -> Iterator[Embedded]:
    for inner, value in WRAPPERS[group, kind](above.value):
        path = f"{above.path}.{inner}" if above.path else inner
        for each in _items_of(Embedded(path, value, above.in_text or kind in TEXTS)):
            if each.value is UNKNOWN or isinstance(each.value, Unreadable):
                yield each
            elif each.kind and text(at(each.value, "apiVersion")):
                yield each
                if (each.group, each.kind) in WRAPPERS:
                    inside = _opened(each, each.group, each.kind, deep - 1) if deep > 1 else ()
                    yield from inside or (replace(each, value=UNKNOWN),)


def _items_of(above: Embedded, deep: int = _DEEPEST) -> Iterator[Embedded]:
    """Yield the objects of a list in its place; items of a typed list may leave their kind out."""
    inside = at(above.value, "items")
    if not (above.kind.endswith("List") and is_list(inside)):
        yield above
        return
    typed = {"apiVersion": at(above.value, "apiVersion"), "kind": above.kind.removesuffix("List")}
    for index, one in enumerate(inside):
        value = {**typed, **one} if isinstance(one, Mapping) and typed["kind"] else one
        item = replace(above, path=f"{above.path}.items[{index}]", value=value if deep else UNKNOWN)
        yield from _items_of(item, deep - 1)


_VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\(\w[^()]*\)")
_NAMES = frozenset(
    {"metadata", "name", "namespace", "clusterName", "apiVersion", "kind", "infrastructureRef", "configRef"}
    | {"nodeClassRef", "status"}
)


def placeholders(value: Any, own: bool = False) -> Any:
    """Return a value with `UNKNOWN` for every text of one line that something else fills in later.

    Names stay, because the same placeholder on both sides joins objects. Recognised are `${X}` and `${X:=default}` of
    Flux, clusterctl and kro, `$(X)` and `{{ x }}` of Helm and Jinja.

    Args:
        value: Any part of an object.
        own: Whether it is part of a name.
    """
    if isinstance(value, str):
        late = not own and "\n" not in value and ("}}" in value.partition("{{")[2] or _VARIABLE.search(value))
        return UNKNOWN if late else value
    if isinstance(value, Mapping):
        if "?" in value and len(value) == 1:
            return UNKNOWN  # `{{ x }}` without quotes is a map with a map as key
        return {key: placeholders(item, (own or key in _NAMES) and key != "labels") for key, item in value.items()}
    return [placeholders(item, own) for item in value] if is_list(value) else value


def _object(given: JsonObject) -> _Objects:
    yield (path := "spec.forProvider.manifest"), at(given, path)


def _objects_at(path: str, inner: str = "") -> _Reader:
    def read(given: JsonObject) -> _Objects:
        late: list[str] = []
        for where, one in items(at(given, path), path, late):
            yield (f"{where}.{inner}", placeholders(at(one, inner))) if inner else (where, placeholders(one))
        yield from ((where, UNKNOWN) for where in late)

    return read


# In the names of functions that make no objects: https://marketplace.upbound.io/functions.
_MAKES_NONE = ("auto-ready", "environment-config", "extra-resources", "sequencer", "status-transformer", "tag-manager")


def _composition(given: JsonObject) -> _Objects:
    """Read the bases of a Composition; a value that a patch writes is `UNKNOWN`, and so is `spec` under a PatchSet."""
    late: list[str] = []
    places = [("spec.resources", at(given, "spec.resources"))]
    for where, step in items(at(given, "spec.pipeline"), "spec.pipeline", late):
        places.append((f"{where}.input.resources", at(step, "input.resources")))
        name = text(at(step, "functionRef.name"))
        if at(step, "input.resources") is None and not any(word in name for word in _MAKES_NONE):
            yield where, Unreadable(f"has objects created by the function {name or 'of this step'} makes")
    for path, resources in places:
        for where, one in items(resources, path, late):
            base, late_patches = at(one, "base"), list[str]()
            for _, patch in items(at(one, "patches"), "patches", late_patches):
                target = text(at(patch, "toFieldPath")) or text(at(patch, "fromFieldPath"))
                whole = at(patch, "type") == "PatchSet" or not target
                base = _patched(base, ["spec"] if whole else target.replace("[", ".").replace("]", "").split("."))
            yield f"{where}.base", _patched(base, ["spec"]) if late_patches else base
    yield from ((where, UNKNOWN) for where in late)


def _patched(value: Any, steps: list[str]) -> Any:
    """Return an object in which the value at the end of `steps` is `UNKNOWN`; so is a list on the way as a whole."""
    if not steps or not isinstance(value, Mapping):
        return UNKNOWN
    return {**value, steps[0]: _patched(value.get(steps[0]), steps[1:])}


def _manifests_in_data(given: JsonObject) -> _Objects:
    """Read the manifests in a ConfigMap or Secret, as a ClusterResourceSet applies them."""
    applied = given.get("type") == "addons.cluster.x-k8s.io/resource-set"
    for key in ("data", "stringData"):
        for name, body in mapping(given.get(key)).items():
            if given.get("kind") == "Secret" and key == "data" and isinstance(body, str):
                with suppress(ValueError):  # https://kubernetes.io/docs/concepts/configuration/secret/
                    body = b64decode(body).decode()
            if isinstance(body, str) and (objects := _objects_in_text(f"{key}.{name}", body)):
                yield from objects
            elif applied:
                yield f"{key}.{name}", UNKNOWN


def _objects_in_text(path: str, body: str, deep: int = _DEEPEST) -> list[tuple[str, Any]]:
    """Return the objects of a text that is YAML or JSON as a whole, also those among the values of a chart."""
    if "apiVersion" not in body and "\\u" not in body and "\\x" not in body:
        return []
    try:
        documents = parse_yaml(body, 20_000, unique=True) if deep else None
    except Rejected:
        documents = None
    if documents is None:
        return [(path, Unreadable("is text that is not YAML or is nested too deeply, so it is not read"))]
    read = [(f"{path}[{place}]", placeholders(one.data)) for place, one in enumerate(documents)]
    return [
        found for where, one in read if not isinstance(one, str) for found in _objects_in_values(where, one, deep - 1)
    ]


def _objects_in_values(path: str, given: Any, deep: int = _DEEPEST) -> _Objects:
    """Read the objects among settings, such as a chart's `extraObjects`, as they are or as text."""
    inside = [(path, given)]
    while inside:
        where, one = inside.pop()
        if text(at(one, "apiVersion")) and text(at(one, "kind")):
            if "name" not in one:  # else it refers to an object
                yield where, one
        elif isinstance(one, Mapping):
            inside += [(f"{where}.{key}", item) for key, item in one.items()]
        elif is_list(one):
            inside += [(f"{where}[{place}]", item) for place, item in enumerate(one)]
        elif isinstance(one, str):
            yield from _objects_in_text(where, one, deep)


def _chart_values(*paths: str) -> _Reader:
    """Read the objects among the values of charts, as maps or text of YAML; `a[].b` is `b` of each in the list `a`."""

    def read(given: JsonObject) -> _Objects:
        for path in paths:
            within, _, key = path.rpartition("[].")
            listed = items(at(given, within), within, []) if within else (("", given),)
            for where, one in listed:
                place, value = f"{where}.{key}" if where else key, at(one, key)
                yield from (
                    _objects_in_text(place, value) if isinstance(value, str) else _objects_in_values(place, value)
                )

    return read


def _argo(source: str) -> _Reader:
    return _chart_values(*(f"{source}{one}helm.{key}" for one in (".", "s[].") for key in ("valuesObject", "values")))


_OCM = "work.open-cluster-management.io"
TEXTS = frozenset({"ConfigMap", "Secret"})
"""Kinds that contain objects as text."""

WRAPPERS: Mapping[tuple[str, str], _Reader] = MappingProxyType(
    {
        **{(f"kubernetes.{scope}crossplane.io", "Object"): _object for scope in ("", "m.")},
        (_OCM, "ManifestWork"): _objects_at("spec.workload.manifests"),
        (_OCM, "ManifestWorkReplicaSet"): _objects_at("spec.manifestWorkTemplate.workload.manifests"),
        ("kro.run", "ResourceGraphDefinition"): _objects_at("spec.resources", "template"),
        ("apiextensions.crossplane.io", "Composition"): _composition,
        ("template.openshift.io", "Template"): _objects_at("objects"),
        **{(group, kind): _manifests_in_data for group in ("", "core") for kind in ("ConfigMap", "Secret")},
        **{("helm.sh", kind): _chart_values("values") for kind in ("Release", "Chart")},
        ("helm.toolkit.fluxcd.io", "HelmRelease"): _chart_values("spec.values"),
        ("argoproj.io", "Application"): _argo("spec.source"),
        ("argoproj.io", "ApplicationSet"): _argo("spec.template.spec.source"),
    }
)
"""By group and kind; Pulumi writes Kubernetes' first group as `core`."""


def _reader_of(group: str, kind: str, clouds: Clouds) -> ObjectReader | None:
    return partial(_read_pools, group=group, kind=kind) if (group, kind) in WRAPPERS else None


def _read_pools(given: JsonObject, clouds: Clouds, *, group: str, kind: str) -> Iterator[PoolFacts]:
    """Read the pools among the objects inside a wrapper."""
    for each in _embedded(given, group, kind):
        if each.value is UNKNOWN:
            yield PoolFacts("kubernetes", (), None, (), unknown=(each.path,), where=each.path, pool=each.name)
        elif isinstance(each.value, Mapping) and (each.group, each.kind) not in WRAPPERS:
            place = partial(_path_below, each.path)
            for pool in read_manifest(each.value, clouds):
                name = " ".join(filter(None, (f"{each.kind}/{each.name}", pool.pool)))
                pool = replace(relocated(pool, place, place), pool=name)
                if each.in_text:  # nothing but its author should rewrite a text
                    pool = replace(pool, missing_taint=replace(pool.missing_taint, value=None))
                yield pool


def _path_below(path: str, inner: str) -> str:
    return f"{path}.{inner}" if inner else path


READER = KubernetesReader(kinds=lambda clouds: WRAPPERS, reader_of=_reader_of, wrappers=WRAPPERS, embedded=_embedded)
