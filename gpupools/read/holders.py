"""Reads the objects that other objects carry into a cluster. Pure.

What carries text or patches carries values that are not known here: they become `UNKNOWN`, so that whoever reads the
objects says that it cannot be verified.

Sources, as repository and path: crossplane-contrib/provider-kubernetes apis/object; open-cluster-management-io/api
work/v1; kubernetes-sigs/kro api/v1alpha1; crossplane-contrib/function-patch-and-transform input/v1beta1;
openshift/api template/v1; kubernetes-sigs/cluster-api api/addons (a ClusterResourceSet applies ConfigMaps).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.read.effort import exhausted, spend
from gpupools.read.inputs import at, is_list, items, mapping, text
from gpupools.read.packed import Unpacked, looks_encoded, packed_inside, unpacked
from gpupools.read.scripts import names_objects, objects_in

_Held = Iterator[tuple[str, Any]]
_Reader = Callable[[Mapping[str, Any]], _Held]

MOST_HELD = 1_000
"""Objects of one holder; an object of Kubernetes has at most 1.5 MB."""
_DEEPEST = 4
"""Of objects that carry each other; beyond it nothing is opened."""


@dataclass(frozen=True)
class Opaque:
    """Stands for what is packed in a way that is not undone here."""

    why: str


@dataclass(frozen=True)
class Held:
    """What an object carries."""

    path: str
    """Inside the object."""
    value: Any
    """The carried object; `UNKNOWN` for one that is not known yet, a text in which none could be read, or `Opaque`."""
    written: bool = False
    """Whether it stands as text."""

    @property
    def group(self) -> str:
        """The group of the carried object."""
        return text(at(self.value, "apiVersion")).rpartition("/")[0]

    @property
    def kind(self) -> str:
        """The kind of the carried object."""
        return text(at(self.value, "kind"))

    @property
    def name(self) -> str:
        """The name of the carried object."""
        return text(at(self.value, "metadata.name"))


def held(given: Mapping[str, Any], group: str, kind: str) -> Iterator[Held]:
    """Yield everything that an object carries, with what lies inside carried lists and carriers.

    Args:
        given: The object.
        group: Of its API version.
        kind: With `group` a key of `KINDS`.
    """
    for number, found in enumerate(_opened(Held("", given), group, kind, _DEEPEST)):
        if number >= MOST_HELD:
            yield Held(f"{found.path} and what follows", UNKNOWN)
            return
        yield found


def _opened(above: Held, group: str, kind: str, deep: int) -> Iterator[Held]:
    for inner, one in KINDS[group, kind](above.value):
        path = placed(above.path)(inner) if above.path else inner
        found = Held(path, one, above.written or kind in TEXTS)
        for each in _listed_in(found):
            if each.value is UNKNOWN or isinstance(each.value, str | Opaque):
                yield each
            elif each.kind and text(at(each.value, "apiVersion")):
                yield each
                if (each.group, each.kind) in KINDS:
                    if deep > 1:
                        yield from _opened(each, each.group, each.kind, deep - 1)
                    else:
                        yield replace(each, value=UNKNOWN)


def _listed_in(found: Held, deep: int = _DEEPEST) -> Iterator[Held]:
    """Yield the objects of a carried list in its place; items of a typed list may leave their kind out."""
    inside = at(found.value, "items")
    if not (found.kind.endswith("List") and is_list(inside)):
        yield found
        return
    typed = {"apiVersion": at(found.value, "apiVersion"), "kind": found.kind.removesuffix("List")}
    for index, one in enumerate(inside):
        value = {**typed, **one} if isinstance(one, Mapping) and typed["kind"] else one
        item = replace(found, path=f"{found.path}.items[{index}]", value=value if deep else UNKNOWN)
        yield from _listed_in(item, deep - 1)


def placed(path: str) -> Callable[[str], str]:
    """Return what tells a path of the carried object as the holder has it."""
    return lambda inner: f"{path}.{inner}" if inner else path


_WHOLE = re.compile(r"\$\{[^{}]*\}|\$\(\w[^()]*\)|\{\{.*\}\}")


def placeholders(value: Any, own: bool = False) -> Any:
    """Return a value with `UNKNOWN` for every text of one line that something else fills in later.

    Names stay: what joins objects is the same placeholder on both sides. Taken are `${X}` and `${X:=default}` of
    Flux, clusterctl and kro, `$(X)` and `{{ x }}` of Helm and Jinja. A text of several lines is a script or a file,
    whose own variables look alike.

    Args:
        value: Any part of an object.
        own: Whether it stands where names do.
    """
    if isinstance(value, str):
        return UNKNOWN if not own and is_placeholder(value) else value
    if isinstance(value, Mapping):
        if "?" in value and len(value) == 1:
            return UNKNOWN  # `{{ x }}` without quotes is a map with a map as key
        return {key: placeholders(item, (own or key in _NAMES) and key != "labels") for key, item in value.items()}
    return [placeholders(item, own) for item in value] if is_list(value) else value


def is_placeholder(value: Any) -> bool:
    """Say whether a value is a text of one line that something else fills in later."""
    return isinstance(value, str) and "\n" not in value and _WHOLE.search(value) is not None


_NAMES = frozenset(
    {"metadata", "name", "namespace", "clusterName", "apiVersion", "kind", "infrastructureRef", "configRef"}
    | {"nodeClassRef", "status"}
)


def _object(given: Mapping[str, Any]) -> _Held:
    yield "spec.forProvider.manifest", at(given, "spec.forProvider.manifest")


def _listed(path: str, inner: str = "") -> "_Reader":
    def read(given: Mapping[str, Any]) -> _Held:
        late: list[str] = []
        for where, one in items(at(given, path), path, late):
            yield (f"{where}.{inner}", placeholders(at(one, inner))) if inner else (where, placeholders(one))
        yield from ((where, UNKNOWN) for where in late)

    return read


def _composition(given: Mapping[str, Any]) -> _Held:
    """Read the bases of a Composition; what a patch writes is not known, nor anything under a set of patches."""
    late: list[str] = []
    places = [("spec.resources", at(given, "spec.resources"))]
    for where, step in items(at(given, "spec.pipeline"), "spec.pipeline", late):
        places.append((f"{where}.input.resources", at(step, "input.resources")))
        if at(step, "input.resources") is None:
            made = list(_generated(f"{where}.input", at(step, "input")))
            yield from made
            name = text(at(step, "functionRef.name"))
            if not made and not _MAKES_NONE.search(name):
                yield where, Opaque(f"is what the function {name or 'of this step'} makes, which is not here")
    for path, resources in places:
        for where, one in items(resources, path, late):
            base, late_patches = at(one, "base"), list[str]()
            for _, patch in items(at(one, "patches"), "patches", late_patches):
                target = text(at(patch, "toFieldPath")) or text(at(patch, "fromFieldPath"))
                whole = at(patch, "type") == "PatchSet" or not target
                base = _patched(base, ["spec"] if whole else re.findall(r"[^.\[\]]+", target))
            yield f"{where}.base", _patched(base, ["spec"]) if late_patches else base
    yield from ((where, UNKNOWN) for where in late)


# https://marketplace.upbound.io/functions
_MAKES_NONE = re.compile(
    r"auto-ready|environment-configs?|extra-resources|sequencer|status-transformer|tag-manager|deletion-protection"
)


def _generated(path: str, given: Any, deep: int = _DEEPEST) -> _Held:
    """Read what another function of a Composition makes objects of: a template or a program, as text."""
    if isinstance(given, str):
        yield from _written(path, given)
    elif deep and isinstance(given, Mapping):
        for key, one in given.items():
            yield from _generated(f"{path}.{key}", one, deep - 1)
    elif deep and is_list(given):
        for place, one in enumerate(given):
            yield from _generated(f"{path}[{place}]", one, deep - 1)
    elif given is UNKNOWN:
        yield path, UNKNOWN


def _patched(value: Any, steps: list[str]) -> Any:
    """Return an object in which the value at the end of `steps` is not known; a list on the way is so as a whole."""
    if not steps or not isinstance(value, Mapping):
        return UNKNOWN
    return {**value, steps[0]: _patched(value.get(steps[0]), steps[1:])}


def _texts(*keys: str) -> "_Reader":
    """Read manifests that stand as text, packed or not, in a ConfigMap or a Secret."""

    def read(given: Mapping[str, Any]) -> _Held:
        applied = text(given.get("type")) in APPLIED
        for key in keys:
            encoded = key in _ENCODED.get(text(given.get("kind")), ())
            for name, body in mapping(given.get(key)).items():
                if isinstance(body, str):
                    path, silent = f"{key}.{name}", applied
                    for found in _written(path, body, encoded=encoded):
                        silent = False
                        yield found
                    if silent and encoded and key == "data":
                        yield path, Opaque("holds no object that can be read")
                    elif encoded and _OF_TEXT.search(name) and not any(unpacked(body, encoded=True)):
                        yield path, Opaque("is no text that can be read, though it is named like one")
                    if exhausted():
                        return  # whoever bounds the effort says so

    return read


# With what packs it: https://www.rfc-editor.org/rfc/rfc7932 (Brotli has no mark at its start).
_OF_TEXT = re.compile(r"\.(?:ya?ml|json|tpl|sh)(?:\.\w{2,6})?$|\.(?:br|brotli)$", re.IGNORECASE)
_ENCODED = {"ConfigMap": ("binaryData",), "Secret": ("data",)}
"""Keys whose values are base64: https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/."""


APPLIED = frozenset({"helm.sh/release.v1", "addons.cluster.x-k8s.io/resource-set"})
"""Types of Secrets that a program applies: pkg/storage/driver/secrets.go of helm/helm, api/addons of Cluster API."""


def _written(path: str, body: str, *, encoded: bool = False) -> _Held:
    for one in unpacked(body, encoded=encoded) if encoded or looks_encoded(body) else (Unpacked("", body),):
        spend(len(one.text))
        if one.text and exhausted():
            return  # which whoever bounds it says
        for each in (one, *packed_inside(one.text)):
            if each.opaque and each is one:
                yield f"{path}{each.path}", Opaque(each.opaque)
            elif names_objects(each.text):
                for where, value in objects_in(each.text, placeholders):
                    at_ = f"{path}{one.path}{where}"
                    is_one = not isinstance(value, Mapping) or ("apiVersion" in value and "kind" in value)
                    yield from ((at_, value),) if is_one else _among(at_, value)


_MOST_AMONG = 20_000


def _among(path: str, given: Mapping[str, Any]) -> _Held:
    """Read the objects among settings, such as a chart's `extraObjects`, as they are or as text."""
    inside: list[tuple[str, Any]] = [(path, given)]
    for _ in range(_MOST_AMONG):
        if not inside:
            return
        where, one = inside.pop()
        if isinstance(one, str) and ("\n" in one or one.lstrip().startswith("{")) and names_objects(one):
            yield from ((f"{where}{inner}", value) for inner, value in objects_in(one, placeholders))
        elif isinstance(one, Mapping):
            if isinstance(one.get("apiVersion"), str) and isinstance(one.get("kind"), str):
                yield where, one
            else:
                inside += [(f"{where}.{key}", item) for key, item in one.items()]
        elif is_list(one):
            inside += [(f"{where}[{place}]", item) for place, item in enumerate(one)]
    yield f"{path} and what follows", UNKNOWN


def _pods(path: str) -> "_Reader":
    """Read manifests in what containers run: their command line, hooks and variables."""

    def read(given: Mapping[str, Any]) -> _Held:
        for kind in ("containers", "initContainers", "ephemeralContainers"):
            for where, container in items(at(given, f"{path}.{kind}"), f"{path}.{kind}", []):
                for inner, said in _said_to(container):
                    yield from _written(f"{where}.{inner}", said)

    return read


def _said_to(container: Any) -> Iterator[tuple[str, str]]:
    hooks = ("lifecycle.postStart", "lifecycle.preStop", "livenessProbe", "readinessProbe", "startupProbe")
    for key in ("command", "args", *(f"{hook}.exec.command" for hook in hooks)):
        yield from ((where, one) for where, one in items(at(container, key), key, []) if isinstance(one, str))
    for where, one in items(at(container, "env"), "env", []):
        yield f"{where}.value", text(at(one, "value"))


_POD = "spec.template.spec"
_WORKLOADS: Mapping[tuple[str, str], "_Reader"] = MappingProxyType(
    {
        **{(group, "Pod"): _pods("spec") for group in ("", "core")},
        **{(group, "PodTemplate"): _pods("template.spec") for group in ("", "core")},
        **{(group, "ReplicationController"): _pods(_POD) for group in ("", "core")},
        **{("apps", kind): _pods(_POD) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")},
        ("batch", "CronJob"): _pods("spec.jobTemplate.spec.template.spec"),
        ("batch", "Job"): _pods(_POD),
    }
)

TEXTS = frozenset({"ConfigMap", "Secret", *(kind for _, kind in _WORKLOADS)})
"""Kinds that hold objects as text."""

KINDS: Mapping[tuple[str, str], _Reader] = MappingProxyType(
    {
        ("kubernetes.crossplane.io", "Object"): _object,
        ("kubernetes.m.crossplane.io", "Object"): _object,
        ("work.open-cluster-management.io", "ManifestWork"): _listed("spec.workload.manifests"),
        ("work.open-cluster-management.io", "ManifestWorkReplicaSet"): _listed(
            "spec.manifestWorkTemplate.workload.manifests"
        ),
        ("kro.run", "ResourceGraphDefinition"): _listed("spec.resources", "template"),
        ("apiextensions.crossplane.io", "Composition"): _composition,
        ("template.openshift.io", "Template"): _listed("objects"),
        **{(group, "ConfigMap"): _texts("data", "binaryData") for group in ("", "core")},
        **{(group, "Secret"): _texts("stringData", "data") for group in ("", "core")},
        **_WORKLOADS,
    }
)
"""By group and kind; Pulumi writes Kubernetes' first group as `core`."""
