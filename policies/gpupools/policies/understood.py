"""Says of every resource whether anybody here understands it: judged, no node pool, or not understood. Pure.

What the readers read is asked of themselves (`is_read`). For everything else `kinds.csv` has the answer, the reason, a
source and the date of the row; the first row that fits counts:

- `none`: brings no nodes.
- `nodes`: may bring nodes and is not read, so it is never taken for fine.
- `holds`: brings no nodes, unless what it holds names GPUs or a node pool.
- `elsewhere`: applies what lies elsewhere. That is advice, unless the object itself names GPUs or a node pool.
- `topology`, `resources`: a Cluster of Cluster API and a ClusterResourceSet, where what they hold decides.

A kind without a row is advice too, unless its name or what it holds says nodes.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpupools.base.bounded_yaml import parse_yaml
from gpupools.base.errors import Rejected, shown
from gpupools.base.patterns import FirstOf
from gpupools.planned.cloud import Reading
from gpupools.planned.pool_facts import NO_ACCELERATOR, UNKNOWN
from gpupools.policies.declared_software import chart_name
from gpupools.policies.script_commands import COMMAND, ELSEWHERE, HERE, command_line, cuts_taints, run
from gpupools.providers import clouds
from gpupools.read import holders
from gpupools.read.effort import exhausted, spend
from gpupools.read.inputs import accelerator_by_name, at, items, mapping, text
from gpupools.read.kubernetes_pools import kinds_read, read_manifest
from gpupools.read.packed import LEAST_ENCODED, Unpacked, looks_encoded, packed_inside, unpacked
from gpupools.read.scripts import CHARACTERS_PER_READ, names_objects, objects_in
from gpupools.runtime.charts import OPERANDS

_MOST_TYPES = 200_000
"""Of which the answer is kept; a file of the greatest size may have as many."""


@lru_cache
def readings() -> tuple[Reading, ...]:
    """Return how each cloud reads back; asking a cloud for it takes longer than asking it about a resource."""
    return tuple(cloud.reading() for cloud in clouds().values())


@dataclass(frozen=True)
class Row:
    """One row of `kinds.csv`."""

    kind: str
    """`kubernetes:<group>/<Kind>` or `<package>:<name>`, as a pattern with * and ?."""
    answer: str
    why: str
    source: str
    as_of: str


@dataclass(frozen=True)
class Unread:
    """Why nobody here understands a resource."""

    kind: str
    """As people write it: `<group>/<Kind>`, a type token, a Terraform type."""
    why: str
    nodes: bool
    """True where it may bring nodes; otherwise it is worth a word only."""
    elsewhere: bool = False
    """True where what it brings is judged in another file."""
    source: str = ""


@lru_cache
def rows() -> tuple[Row, ...]:
    """Return the table."""
    with (Path(__file__).parent / "kinds.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Row(**row) for row in csv.DictReader(file))


def unread(
    type_token: str, inputs: Mapping[str, Any], *, opaque: str = "", component: bool = False, software: bool = False
) -> Unread | None:
    """Say why a resource is not understood; None for one that is.

    Args:
        type_token: Pulumi type, or `terraform:<type>`, `cloudformation:<type>`, `arm:<type>` where Pulumi has none.
        inputs: Plain data, with `UNKNOWN`; looked at only where the type does not decide.
        opaque: Why its contents cannot be read, where the form of the file knows.
        component: Whether it is a component, whose children are resources of their own.
        software: Whether it is judged as GPU software, so that only what may bring nodes is left to say.
    """
    key, kind = _key(type_token)
    if software and not is_read(type_token):
        found = dict(reversed([*_evidence(inputs, machines=False, judged=True)]))
        said = found.get(COMMAND) or found.get(_POOL_TEXT)
        return Unread(kind, f"GPU software, but it {said}", nodes=True) if said else None
    if software:
        held = _holds_unread(type_token, inputs)
        return held if held is not None and held.nodes else None
    if opaque:
        return Unread(kind, opaque, nodes=True)
    if type_token.endswith(":NodePatch") and cuts_taints(mapping(inputs.get("spec")), "patch"):
        return Unread(kind, "it takes taints off a node at spec.taints", nodes=True)
    if is_read(type_token):
        closed = next((why for each in readings() if (why := each.unread(type_token, inputs))), "")
        return Unread(kind, closed, nodes=True) if closed else _holds_unread(type_token, inputs)
    row = _row(key)
    if component and (row is None or row.kind == key):  # by its name alone a component is none
        return None
    answer = row.answer if row else ""
    if answer == "none":
        return _runs(key, kind, row, inputs) if row else None
    if answer == "topology" and not at(inputs, "spec.topology"):
        return None
    if answer == "resources" and inputs.get("spec") is not UNKNOWN:
        return None  # `missing_resources` looks for them in the same file
    why, source = (row.why, row.source) if row else ("nobody here knows this kind", "")
    if answer in ("nodes", "topology"):
        return Unread(kind, why, nodes=True, source=source)
    named = _names_nodes(key) if not row else ""
    of_cloud = not key.startswith("kubernetes:")
    chart = chart_name(text(inputs.get("chart"))) if key.startswith("kubernetes:helm.sh/") else ""
    of_pools = re.search(_GROUPS, re.sub(r"[^a-z]", "", chart.casefold())) is not None
    if (of_pools or chart in _PASS_ON) and inputs.get("values") is UNKNOWN:
        return Unread(
            kind, f"the chart {shown(chart)} makes what its values say, and they are not known yet", nodes=True
        )
    # A chart of daemons alone names the machines that they run on, as workloads do.
    machines = chart not in _OF_DAEMONS
    evidence = _evidence(inputs, machines=machines, of_cloud=of_cloud, judged=bool(chart))
    said = named or next((said for sort, said in evidence if sort in _BRINGS), "")
    if answer == "holds" and not said and inputs.get("postrender"):
        return Unread(kind, f"a program changes what the chart {shown(chart)} renders", nodes=False)
    if answer == "holds" and not said:
        return Unread(kind, f"the chart {shown(chart)}, whose objects lie elsewhere", nodes=False) if of_pools else None
    return Unread(kind, f"{why}; it {said}" if said else why, nodes=bool(said), source=source)


def is_harmless(kind: str) -> bool:
    """Say of one kind, `<group>/<Kind>`, whether a row of its own says that it brings no nodes."""
    row = _row(f"kubernetes:{kind}")
    return row is not None and row.kind == f"kubernetes:{kind}" and row.answer == "none"


def too_large(type_token: str) -> Unread:
    """Say of a resource that it holds more than is looked through in one."""
    return Unread(_key(type_token)[1], "it holds more than is looked through in one resource", nodes=True)


_PASS_ON = frozenset({"raw", "any-resource"})
"""Charts that pass on the objects in their values: https://github.com/bedag/helm-charts, https://github.com/kiwigrid."""
_OF_DAEMONS = frozenset(each.chart for each in OPERANDS)
_SCHEMAS = ("/CustomResourceDefinition", "/CompositeResourceDefinition")


def _runs(key: str, kind: str, row: Row, inputs: Mapping[str, Any]) -> Unread | None:
    """Take what brings no nodes by its kind for no node pool, unless what it holds does or applies what does.

    A type of a cloud that no row names may be newer than the rows, so a machine with GPUs is worth a word there.
    """
    of_cloud = row.kind.endswith(":*") and row.kind.partition(":")[0] in _CLOUDS
    in_kubernetes = key.startswith(("kubernetes:", "terraform-kubernetes:"))
    if key.endswith(_SCHEMAS):
        return None  # its texts describe
    said_of = _evidence(inputs, machines=of_cloud, of_cloud=of_cloud, in_kubernetes=in_kubernetes, judged=True)
    found = dict(reversed([*said_of]))  # the first of each sort
    if COMMAND in found or (_POOL_TEXT in found and (in_kubernetes or found.keys() & _APPLIES)):
        said = found.get(COMMAND) or found[_POOL_TEXT]
        return Unread(kind, f"{row.why}, but it {said}", nodes=True, source=row.source)
    if _MACHINE in found:
        joins = found.get(_CLUSTER, "")
        why = f"no type of node pools that is known here, but it {found[_MACHINE]}{' and ' if joins else ''}{joins}"
        return Unread(kind, why, nodes=bool(joins or _OF_CLUSTERS.search(key)), source=row.source)
    said = found.get(_POOL_TEXT) or found.get(ELSEWHERE, "")
    said = said or next(_runs_elsewhere(inputs), "")
    return Unread(kind, f"{row.why}, but it {said}", nodes=False, source=row.source) if said else None


def _runs_elsewhere(inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a resource runs that is not in it."""
    yield from (f"runs a script that lies elsewhere, at {path}" for path in _SCRIPTS_ELSEWHERE if at(inputs, path))
    program = mapping(inputs.get("program")).get("command", inputs.get("program"))
    listed = items(inputs.get("provisioner"), "provisioner", [])
    given = ((f"{path}.{key}", one) for path, each in listed for key, one in mapping(each).items())
    scripts = ((path, at(inputs, path)) for path in _SCRIPTS_HERE)
    for path, one in (("program", program), *given, *scripts):
        if one is UNKNOWN or (isinstance(one, list) and UNKNOWN in one):
            yield f"runs a command that is not known yet at {path}"
        elif any(_SCRIPT_FILE.search(text(line)) for line in (one if isinstance(one, list) else (one,))):
            yield f"runs a script that lies elsewhere, at {path}"


_SCRIPT_FILE = re.compile(r"(?:^|[\s;&|('\"])[\w./${}-]*[\w}]\.(?:sh|bash|py|ps1|rb|js|pl)(?=$|[\s;&|)'\"])")

# As ARM and Pulumi, azurerm and azapi: https://learn.microsoft.com/azure/templates/microsoft.resources/deploymentscripts
_SCRIPTS_ELSEWHERE = ("primaryScriptUri", "primary_script_uri", "body.properties.primaryScriptUri")
_SCRIPTS_HERE = ("scriptContent", "script_content", "body.properties.scriptContent")
_CLOUDS = frozenset(
    {"arm", "aws", "aws-native", "awscc", "azapi", "azure", "azure-native", "azurerm", "cloudformation", "eks"}
    | {"gcp", "google", "google-native"}
)
_OF_CLUSTERS = re.compile(
    r"^eks:|:(?:eks|containerservice|container(?!app|registry|analysis|attached)|kubernetes|redhatopenshift)"
)


def _holds_unread(type_token: str, inputs: Mapping[str, Any]) -> Unread | None:
    """Look among what a read one holds for something that is not understood; what may bring nodes comes first."""
    found = None
    for one in (*_types_held(type_token, inputs), *_objects_held(type_token, inputs), *_run_by(type_token, inputs)):
        if one.nodes:
            return one
        found = found or one
    return found


def _run_by(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Unread]:
    """Look into the scripts of what holds texts; the objects in them are read."""
    match = _KUBERNETES.fullmatch(type_token)
    _, kind = _key(type_token)
    if match is None:  # user data, and templates that stand as text
        found = dict(_evidence(inputs, machines=False, judged=True))
        said = found.get(COMMAND) or (found.get(_POOL_TEXT) if found.keys() & _APPLIES else "")
        if said:
            yield Unread(kind, f"it {said}", nodes=True)
    elif match["kind"] in holders.TEXTS:
        for sort, said in _evidence(inputs, machines=False, in_kubernetes=True):
            if sort in (COMMAND, ELSEWHERE):
                yield Unread(kind, f"it {said}", nodes=sort == COMMAND)


def _types_held(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Unread]:
    for reading in readings():
        for held in reading.held_types(type_token, inputs):
            row = _row(_plain_key(held))
            if row is None or row.answer != "none":
                why = row.why if row else "nobody here knows this kind"
                nodes = row is not None or bool(_names_nodes(_plain_key(held)))
                yield Unread(held.partition(":")[2], why, nodes=nodes, source=row.source if row else "")


def _objects_held(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Unread]:
    """Judge each object that another carries as if it stood alone; a carrier's own are here as well."""
    match = _KUBERNETES.fullmatch(type_token)
    carrier = (match["version"].rpartition("/")[0], match["kind"]) if match else ("", "")
    own = "/".join(filter(None, carrier))
    for held in holders.held(inputs, *carrier) if carrier in holders.KINDS else ():
        if isinstance(held.value, str):
            kind = next((kind for kind in _KIND.findall(held.value) if kind in _pool_kinds()), "")
            if kind:
                yield Unread(own, f"{held.path} has a {kind} in a text that cannot be read", nodes=True)
        elif isinstance(held.value, holders.Opaque):
            applied = text(inputs.get("type")) in holders.APPLIED
            yield Unread(own, f"{held.path} {held.value.why}", nodes=applied)
        elif held.value is not UNKNOWN and (held.group, held.kind) not in holders.KINDS:
            found = unread(f"kubernetes:{text(held.value['apiVersion'])}:{held.kind}", held.value)
            if found is not None:
                yield replace(found, why=f"{found.why} (at {held.path})")


def missing_resources(resources: Iterable[tuple[str, str, Mapping[str, Any]]]) -> Iterator[tuple[str, Unread]]:
    """Yield the ClusterResourceSets that apply what is not in the same file, with why.

    Args:
        resources: Address, type and inputs of every resource.
    """
    sets: list[tuple[str, Mapping[str, Any]]] = []
    there: set[tuple[str, str, str]] = set()
    for address, type_token, inputs in resources:
        if type_token.endswith(":ClusterResourceSet"):
            sets.append((address, inputs))
        elif type_token.endswith((":ConfigMap", ":Secret")):
            there.add((_namespace(inputs), type_token.rpartition(":")[2], text(at(inputs, "metadata.name"))))
    for address, inputs in sets:
        listed = [one for _, one in items(at(inputs, "spec.resources"), "", [])]
        named = [(text(at(one, "kind")), text(at(one, "name"))) for one in listed]
        missing = [f"{kind}/{name}" for kind, name in named if (_namespace(inputs), kind, name) not in there]
        if missing:
            why = f"it applies {', '.join(missing[:3])}, which is not in this file"
            yield address, Unread("addons.cluster.x-k8s.io/ClusterResourceSet", why, nodes=True)


def _namespace(inputs: Mapping[str, Any]) -> str:
    return text(at(inputs, "metadata.namespace")) or "default"


# --- what is read -----------------------------------------------------------------------------------------------------


class _Probe(Mapping[str, Any]):
    """Notes whether somebody looks inside: readers look at a type before they look at a resource of it."""

    def __init__(self) -> None:
        self.looked = False

    def __getitem__(self, key: str) -> Any:
        self.looked = True
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        self.looked = True
        return iter(())

    def __len__(self) -> int:
        self.looked = True
        return 0


@lru_cache
def _kinds_read() -> frozenset[tuple[str, str]]:
    return frozenset(kinds_read(clouds()))


@lru_cache(maxsize=_MOST_TYPES)
def is_read(type_token: str) -> bool:
    """Say whether a reader of pools looks inside resources of a type."""
    match = _KUBERNETES.fullmatch(type_token)
    if match is not None:
        return (match["version"].rpartition("/")[0], match["kind"]) in _kinds_read()
    probe = _Probe()
    for reading in readings():
        reading.read_pools(type_token, probe)
        reading.read_template(type_token, probe)
    return probe.looked


# --- kinds ------------------------------------------------------------------------------------------------------------

_KUBERNETES = re.compile(r"kubernetes:(?P<version>[^:]*):(?P<kind>[^:]+)")
_OF_TERRAFORM = frozenset({"kubernetes", "helm", "kubectl"})


@lru_cache(maxsize=_MOST_TYPES)
def _key(type_token: str) -> tuple[str, str]:
    """Return what `kinds.csv` calls a type, and what people call it."""
    match = _KUBERNETES.fullmatch(type_token)
    if match is None:
        return _plain_key(type_token), type_token.removeprefix("terraform:")
    version, kind = match["version"], match["kind"]
    group = version.rpartition("/")[0]
    if "/" not in version and version and not re.fullmatch(r"v\d\w*", version):
        group = version  # Pulumi's own, such as `kubernetes:yaml:ConfigFile`
    return f"kubernetes:{group}/{kind}", f"{group}/{kind}" if group else kind


@lru_cache(maxsize=_MOST_TYPES)
def _plain_key(type_token: str) -> str:
    package, _, rest = type_token.partition(":")
    if package == "terraform":
        package, _, rest = rest.partition("_")
        package = f"terraform-{package}" if package in _OF_TERRAFORM else package
        package = "google" if package == "google-beta" else package
    elif package == "cloudformation":
        if not rest.startswith("AWS::"):
            package, _, rest = rest.partition("::")
    elif package != "arm":
        module, _, name = rest.rpartition(":")
        module = module.partition("/")[0]
        rest = f"{'' if module == 'index' else module}{name}"
        package = re.sub(r"_\w+_v\w+$", "", package)
    return f"{package.casefold()}:{re.sub(r'[^a-z0-9]|^aws::|^microsoft[.]', '', rest.casefold())}"


@lru_cache
def _sorted_rows() -> tuple[tuple[tuple[Row, ...], FirstOf], ...]:
    """Return the rows of kinds and those of whole packages, which count where no other does."""
    whole = tuple(row for row in rows() if row.kind.endswith(":*") and not row.kind.startswith("kubernetes"))
    kinds = tuple(row for row in rows() if row not in whole)
    return tuple((found, FirstOf(row.kind for row in found)) for found in (kinds, whole))


@lru_cache(maxsize=_MOST_TYPES)
def _row(key: str) -> Row | None:
    of_kind, of_package = (
        found[place] if (place := first(key)) is not None else None for found, first in _sorted_rows()
    )
    if of_kind is None and of_package is not None and _POOL.search(key):
        return Row(key, "nodes", "its name says nodes, and it is not read", of_package.source, of_package.as_of)
    return of_kind or of_package


_GROUPS = r"(?:node|agent|machine|worker)s?(?:pool|group|set|deployment|claim)"
_POOL = re.compile(rf"(?:{_GROUPS}|kubernetescluster)s?(?:template)?$")
_NODES = re.compile(rf"kube|k8s|{_GROUPS}|containerengine|containercluster|lke")


def _names_nodes(key: str) -> str:
    package, _, name = key.partition(":")
    if package == "kubernetes":  # every group has its name there
        says = bool(re.search(_GROUPS, name.rpartition("/")[2].casefold())) or "$" in name or "{{" in name
    else:
        says = bool(_NODES.search(name))
    return "has a name that says nodes" if says else ""


# --- what an object nobody knows holds --------------------------------------------------------------------------------

_MOST_VALUES = 20_000
_CHARACTERS_PER_VALUE = 25
"""Characters that are looked at while one value is."""
# As clouds write machines: `p5.48xlarge`, `a2-highgpu-1g`, `Standard_NC24ads_A100_v4`. Other texts are not asked for.
_NAMED = re.compile(r"(?:[a-z]{1,4}\d[\w-]*[.-]|(?:standard_)?n[cdgv]+\d+|standard_)[\w.-]*", re.IGNORECASE)
_LONGEST_NAME = 60
_MACHINE, _POOL_TEXT, _CLUSTER = "machine", "pool", "cluster"
_BRINGS = frozenset({_MACHINE, _POOL_TEXT, COMMAND})
_OF_PATCHES = frozenset({"op", "taints", "manifest"})
_APPLIES = frozenset({ELSEWHERE, HERE})
_NOT_APPLIED = frozenset({"metadata", "status"})


def _evidence(
    inputs: Mapping[str, Any],
    *,
    machines: bool = True,
    of_cloud: bool = False,
    in_kubernetes: bool = False,
    judged: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield what says that an object could bring nodes with GPUs, each with its sort.

    That is a machine's name, a node pool inside it, or a command that makes one. What only applies something is no
    evidence by itself.

    Args:
        inputs: Of the object.
        machines: Whether names of machines say so; workloads name those they run on.
        of_cloud: Whether names of accelerators do as well, and what says that the machines join a cluster is of use.
        in_kubernetes: Whether its metadata only describe it.
        judged: Whether node pools inside it that surely keep other pods off are let pass.
    """
    left = _MOST_VALUES
    top = {key: value for key, value in inputs.items() if not (in_kubernetes and key in _NOT_APPLIED)}
    inside: list[tuple[_Trail, Any]] = [(None, top)]
    while inside and left and not exhausted():
        trail, value = inside.pop()
        left -= 1
        if isinstance(value, str):
            named = _machine_in(value, of_cloud) if machines and len(value) <= _LONGEST_LIST else ""
            if named and not _chooses_nodes(trail):
                yield _MACHINE, f"names the machine {shown(named)} at {_path(trail)}"
            elif machines and _are_values(trail) and (values := _parsed(value)):
                inside.append((trail, values))
            elif len(value) >= _LEAST_SCRIPT and (len(value) >= LEAST_ENCODED or " " in value or "(" in value):
                yield from ((sort, f"{said} at {_path(trail)}") for sort, said in _written(value, judged, of_cloud))
        elif isinstance(value, dict | Mapping):
            spend(min(len(value), left) * _CHARACTERS_PER_VALUE)
            kind = value.get("kind")
            made = not _MADE_BY.isdisjoint(value) or ("name" not in value and _are_in_values(trail))
            if trail and isinstance(kind, str) and kind in _pool_kinds() and "apiVersion" in value and made:
                if judged and at(value, "spec.template.spec") and _is_kept_free(value):
                    continue
                yield _POOL_TEXT, f"holds a {kind} at {_path(trail)}"
            if machines and isinstance(value.get("requirements"), list) and _asks_for_gpus(value):
                yield _MACHINE, f"asks for machines with GPUs at {_path((trail, 'requirements'))}"
            aim = _aimed_at(value)
            if aim:
                yield _POOL_TEXT, f"patches a {aim} at {_path(trail)}"
            if not value.keys().isdisjoint(_OF_PATCHES) and cuts_taints(value, _path(trail)):
                yield COMMAND, f"takes taints off at {_path(trail)}"
            if "command" in value or "args" in value:
                yield from ((row.answer, f"{said} at {_path(trail)}") for row, said in run(command_line(value)))
            if "Api" in value and "Service" in value:  # a step of AWS Systems Manager's
                step = f"Service: {value['Service']}, Api: {value['Api']}"
                yield from ((row.answer, f"{said} at {_path(trail)}") for row, said in run(step))
            inside += [((trail, key), one) for key, one in value.items() if not isinstance(one, int | float | None)]
            if of_cloud and (joins := next((key for key, item in value.items() if item and _joins(key)), "")):
                yield _CLUSTER, f"has {shown(joins)}"
        elif isinstance(value, list):
            spend(min(len(value), left) * _CHARACTERS_PER_VALUE)
            inside += [((trail, place), one) for place, one in enumerate(value) if not isinstance(one, int | float)]
    if inside:
        more = "is looked through" if left else f"{_MOST_VALUES} values"
        yield _MACHINE if machines else ELSEWHERE, f"holds more than {more}"


# An object has `spec`; what Kyverno generates has `data` or `clone` for it.
# https://kyverno.io/docs/policy-types/cluster-policy/generate/
_MADE_BY = frozenset({"spec", "data", "clone"})


def _aimed_at(patch: Mapping[str, Any]) -> str:
    """Return the kind of a node pool that a patch or replacement of Kustomize is for; empty for none.

    Kinds are patterns there: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/patches/.
    """
    applies_to = [
        text(one) for each in items(patch.get("applyTo"), "", []) for _, one in items(at(each[1], "kinds"), "", [])
    ]
    named = next((one for one in applies_to if one in _pool_kinds()), "")
    if named:
        return named  # a mutation of Gatekeeper: https://open-policy-agent.github.io/gatekeeper/website/docs/mutation/
    for key, with_ in (("target", _PATCHES), ("select", _REPLACES)):
        if key not in patch or with_.isdisjoint(patch):
            continue
        kind, group = text(at(patch, f"{key}.kind")), text(at(patch, f"{key}.group"))
        named = next((one for one in re.split(r"\W+", kind) if one in _pool_kinds()), "")
        of_group = min((one for of, one in _kinds_read() if one in _pool_kinds() and group and of == group), default="")
        if named or (not kind and of_group) or (kind and of_group and re.search(r"[.*+?|\[(]", kind)):
            return named or of_group
    return ""


_PATCHES, _REPLACES = frozenset({"patch", "path", "options"}), frozenset({"fieldPaths", "options"})


# Of a pod's specification, whoever holds it: they choose among nodes that others bring.
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
_CHOOSES = frozenset({"nodeSelector", "nodeAffinity"})


def _chooses_nodes(trail: "_Trail") -> bool:
    """Say whether a text stands where a workload says on which nodes it runs."""
    while trail is not None:
        trail, step = trail
        if step in _CHOOSES:
            return True
    return False


def _are_values(trail: "_Trail") -> bool:
    """Say whether a text stands where values of a chart do, or a list of such."""
    at_key = trail[0] if trail is not None and isinstance(trail[1], int) else trail
    return at_key is not None and at_key[1] in _VALUES


def _are_in_values(trail: "_Trail") -> bool:
    """Say whether something stands among values of a chart, where a chart adds to it what it leaves out."""
    while trail is not None:
        trail, step = trail
        if step in _VALUES:
            return True
    return False


def _asks_for_gpus(given: Mapping[str, Any]) -> bool:
    """Say whether what stands beside requirements would be a NodePool of Karpenter with GPUs that none is kept off."""
    template = {key: given[key] for key in ("requirements", "taints", "nodeClassRef") if key in given}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": {"spec": template}}}
    return any(each.has_gpus and each.lacks_taint for each in read_manifest(pool, clouds()))


# Argo CD's `helm.values`; https://docs.k3s.io/helm for k3s and RKE2; cluster-api-addon-provider-helm's HelmChartProxy.
_VALUES = frozenset({"values", "valuesContent", "valuesTemplate"})


def _parsed(value: str) -> Mapping[str, Any]:
    """Return the values of a chart that stand as a text of YAML; none where it is no map, or too much to read."""
    if len(value) > _MOST_OF_VALUES:
        return {}
    spend(CHARACTERS_PER_READ * len(value))
    try:
        documents = parse_yaml(value, _MOST_VALUES)
    except Rejected:
        return {}
    return mapping(documents[0].data) if len(documents) == 1 else {}


_MOST_OF_VALUES = 100_000
"""Characters of a chart's values: a Secret or ConfigMap holds ten times as much at most, in all its keys."""

_Trail = tuple[Any, Any] | None
"""The key or place of a value after the trail of what holds it; None at the top."""


def _path(trail: _Trail) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


_LEAST_SCRIPT = 12
_LONGEST_LIST = 400
# As Google Cloud writes accelerators; https://docs.cloud.google.com/compute/docs/gpus.
_ACCELERATOR = re.compile(r"nvidia-(?:tesla-|rtx-pro-|geforce-)?[a-z]{0,2}\d{1,4}[a-z0-9-]*", re.IGNORECASE)
# Keys, without separators, that say of machines that they become nodes of a cluster.
_JOINS = re.compile(
    r"kube|k8s|^(?:eks|aks|gke)|taint|node(?:pool|group|role|label)|cluster(?:name|arn|id|ca|endpoint|ref|identifier)?$"
    r"|clustercertificateauthority|bootstrap"
)


@lru_cache(maxsize=_MOST_TYPES)
def _joins(key: str) -> bool:
    return isinstance(key, str) and _JOINS.search(re.sub(r"[^a-z0-9]", "", key.casefold())) is not None


def _machine_in(value: str, of_cloud: bool) -> str:
    """Return the machine with GPUs that a text names, alone or in a list with commas; empty for none."""
    for one in value.split(",") if "," in value else (value,):
        name = one.strip()
        if len(name) <= _LONGEST_NAME:
            if of_cloud and _ACCELERATOR.fullmatch(name):
                return name
            if _NAMED.fullmatch(name) and _has_accelerator(name):
                return name
    return ""


@lru_cache(maxsize=10_000)
def _has_accelerator(name: str) -> bool:
    return accelerator_by_name(name, "", clouds()) != NO_ACCELERATOR


def _written(value: str, judged: bool, of_cloud: bool) -> Iterator[tuple[str, str]]:
    """Yield what a text, or what is packed in it, says."""
    for whole in unpacked(value) if looks_encoded(value) else (Unpacked("", value),):
        spend(len(whole.text))
        if whole.text and exhausted():
            return  # which whoever bounds it says
        if of_cloud and _JOINS_BY.search(said := _COMMENT.sub("", whole.text)) and not _KEEPS_FREE.search(said):
            yield _CLUSTER, "makes it a node of a cluster"
        found = [(row.answer, said) for row, said in run(whole.text)]
        yield from found
        for one in (whole, *packed_inside(whole.text)):
            if one.opaque:
                yield (COMMAND, f"applies what {one.opaque}") if found else (ELSEWHERE, f"holds what {one.opaque}")
            if one is not whole:
                yield from ((row.answer, said) for row, said in run(one.text))
            kind = _pool_in(one.text, judged) if names_objects(one.text) else ""
            if kind:
                yield _POOL_TEXT, f"holds a text with a {kind}"


# https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-join/, https://docs.k3s.io/quick-start,
# https://docs.rke2.io/install/quickstart, https://docs.k0sproject.io/stable/k0s-multi-node/ and
# https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/.
_JOINS_BY = re.compile(
    r"\bkubeadm\s+join\b|\bK3S_URL=|\bk3s\s+agent\b|\brke2-agent\b|\bRKE2_URL=|\bmicrok8s(?:\.|\s+)join\s"
    r"|\bk0s\s+install\s+worker\b|\s--bootstrap-kubeconfig\b"
)
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#(?!!)[^\n]*")
_KEEPS_FREE = re.compile(r"(?:nvidia|amd)\.com/gpu\S{0,60}No(?:Schedule|Execute)")


def _pool_in(written: str, judged: bool) -> str:
    """Return the kind of a node pool in a text; empty for none, or for those judged to be as they should."""
    if judged:
        open_ = (one for _, one in objects_in(written, holders.placeholders) if not _is_kept_free(one))
        written = "\n".join(one if isinstance(one, str) else f"kind: {text(at(one, 'kind'))}" for one in open_)
    return next((kind for kind in _KIND.findall(written) if kind in _pool_kinds()), "")


def _is_kept_free(one: Any) -> bool:
    pools = read_manifest(one, clouds()) if isinstance(one, Mapping) else ()
    return bool(pools) and not any(pool.lacks_taint for pool in pools)


# In YAML and JSON, and as KCL, HCL and Jsonnet write it.
_KIND = re.compile(r"""["']?kind\\?["']?\s{0,9}[:=]\s*\\?["']?(\w+)""")


@lru_cache
def _pool_kinds() -> frozenset[str]:
    carried = {kind for _, kind in holders.KINDS} | {"Cluster", "Machine", "Node"}
    return frozenset(kind for _, kind in _kinds_read() if kind not in carried)
