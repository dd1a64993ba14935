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
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpupools.base.bounded_yaml import parse_yaml
from gpupools.base.errors import Rejected, shown
from gpupools.base.patterns import FirstOf
from gpupools.planned.cloud import Reading
from gpupools.planned.pool_facts import NO_ACCELERATOR, UNKNOWN
from gpupools.policies.declared_software import chart_name
from gpupools.policies.script_commands import (
    COMMAND,
    ELSEWHERE,
    ENVIRONMENTS,
    HERE,
    command_line,
    cuts_taints,
    run,
    run_with_environment,
)
from gpupools.providers import clouds
from gpupools.read import holders
from gpupools.read.effort import exhausted, spend
from gpupools.read.inputs import accelerator_by_name, at, is_list, items, mapping, text
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
    made = next(_charts(key, inputs), "")
    if made:
        return Unread(kind, made, nodes=True)
    if software and not is_read(type_token):
        found = dict(reversed([*_evidence(inputs, machines=False, judged=True)]))
        said = found.get(COMMAND) or found.get(_POOL_TEXT)
        return Unread(kind, f"GPU software, but it {said}", nodes=True) if said else None
    if software:
        held = _holds_unread(type_token, inputs)
        return held if held is not None and held.nodes else None
    if opaque:
        return Unread(kind, opaque, nodes=True)
    if (cut := _cut(type_token, inputs)) or (cut := _part(type_token, inputs)):
        return Unread(kind, cut, nodes=True)
    if is_read(type_token):
        closed = next((why for each in readings() if (why := each.unread(type_token, inputs))), "")
        return Unread(kind, closed, nodes=True) if closed else _holds_unread(type_token, inputs)
    if key.startswith(("kubernetes:yaml", "kubernetes:kustomize/")) and any(
        _is_open(inputs.get(name)) for name in _OF_FILES
    ):
        return Unread(kind, "what it applies is not known yet, so its objects are not here", nodes=True)
    if overridden_set(type_token, inputs) is not None:
        return Unread(kind, "it overrides parameters of a template that is not in this resource", nodes=True)
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
    # A chart of daemons alone names the machines that they run on, as workloads do.
    machines = chart not in _OF_DAEMONS
    evidence = _evidence(inputs, machines=machines, of_cloud=of_cloud, judged=bool(chart))
    said = named or next((said for sort, said in evidence if sort in _BRINGS), "")
    if answer == "holds" and not said:
        open_ = inputs.get("values") is UNKNOWN
        beside = text(inputs.get("chart")).startswith((".", "/"))
        what = "values are not known yet" if open_ else "objects lie elsewhere"
        return Unread(kind, f"the chart {shown(chart)}, whose {what}", nodes=False) if open_ or beside else None
    return Unread(kind, f"{why}; it {said}" if said else why, nodes=bool(said), source=source)


def overridden_set(type_token: str, inputs: Mapping[str, Any]) -> str | None:
    """Return the name of the StackSet whose parameters instances of it override, empty where it is not known.

    https://registry.terraform.io/providers/hashicorp/aws/latest/docs/resources/cloudformation_stack_set_instance

    Returns:
        None for anything else.
    """
    if not _OF_INSTANCES.fullmatch(type_token):
        return None
    if not (inputs.get("parameterOverrides") or inputs.get("parameter_overrides")):
        return None
    return text(inputs.get("stackSetName") or inputs.get("stack_set_name"))


_OF_INSTANCES = re.compile(
    r"terraform:aws_cloudformation_stack_(?:set_)?instances?|aws:cloudformation/stack(?:Set)?Instances?:Stack(?:Set)?Instances?"
)


def is_harmless(kind: str) -> bool:
    """Say of one kind, `<group>/<Kind>`, whether a row of its own says that it brings no nodes."""
    row = _row(f"kubernetes:{kind}")
    return row is not None and row.kind == f"kubernetes:{kind}" and row.answer == "none"


def too_large(type_token: str) -> Unread:
    """Say of a resource that it holds more than is looked through in one."""
    return Unread(_key(type_token)[1], "it holds more than is looked through in one resource", nodes=True)


def _cut(type_token: str, inputs: Mapping[str, Any]) -> str:
    """Say what taints an object takes off where it is only a part, which a server or Kustomize puts into another."""
    if type_token.endswith(":NodePatch"):
        taints = inputs["spec"] if inputs.get("spec") is UNKNOWN else at(inputs, "spec.taints")
        if taints is UNKNOWN:
            return "its taints are not known yet"
        # It replaces the whole list (`listType=atomic`, kubernetes/api core/v1/types.go).
        soft = taints and not any(
            text(at(one, "effect")) in ("NoSchedule", "NoExecute") for _, one in items(taints, "", [])
        )
        if soft or cuts_taints(mapping(inputs.get("spec")), "patch"):
            return "it takes taints off a node at spec.taints"
    if type_token.startswith("kubernetes:karpenter.sh/") and type_token.endswith((":NodePool", ":Provisioner")):
        path = "spec.template.spec" if type_token.endswith(":NodePool") else "spec"
        given = mapping(at(inputs, path))
        # Both are required, so what lacks them is put into what has them: https://karpenter.sh/docs/concepts/nodepools/.
        lacks = "requirements" not in given and not at(inputs, "spec.template.metadata.labels")
        if lacks and "taints" in given and given["taints"] in (None, []):
            return f"it is a part of a pool and takes taints off at {path}.taints"
    return ""


def _part(type_token: str, inputs: Mapping[str, Any]) -> str:
    """Say what a patch changes part of, where that may be a node pool.

    Pulumi's patches have the kind in their type (https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/managing-resources-with-server-side-apply/),
    Terraform's, of several makers, in an argument.
    """
    match = _KUBERNETES.fullmatch(type_token)
    if match is not None:
        kind = match["kind"].removesuffix("Patch")
        patches = kind != match["kind"] and kind in _pool_kinds()
        return f"it changes part of {_one_of(kind)} that is not in this resource" if patches else ""
    if not _OF_PATCH.fullmatch(type_token):
        return ""
    named = [
        one
        for key in ("kind", "resource", "resource_type", "target.kind", "target[0].kind")
        if (one := at(inputs, key))
    ]
    words = [re.split(r"[/.]", text(one))[0].casefold().removesuffix("s") for one in named]
    if UNKNOWN in named or not named or "" in words:
        return "which kind it changes a part of is not known here"
    kinds = {kind.casefold() for kind in _pool_kinds()}
    patched = next((word for word in words if word in kinds or "nodeclass" in word), "")
    return f"it changes part of a {patched} that is not in this resource" if patched else ""


_OF_PATCH = re.compile(r"terraform:(?:kubernetes|kubectl|k8s)_(?:\w+_)?patch(?:_v\d+)?")


_PASS_ON = frozenset({"raw", "any-resource"})
"""Charts that pass on the objects in their values: https://github.com/bedag/helm-charts, https://github.com/kiwigrid."""
_PASSED_ON = frozenset({"extraDeploy", "extraManifests", "extraObjects", "extraResources"})
"""Keys under which many charts take objects to pass on: https://github.com/bitnami/charts, argoproj/argo-helm."""


@dataclass(frozen=True)
class _ChartAt:
    """Where a kind names a chart."""

    kind: str
    """As in `kinds.csv`."""
    within: str
    """Path of the map that has the rest, or of a list of such."""
    name: str
    values: tuple[str, ...]
    """Values that can be seen."""
    more: tuple[str, ...] = ()
    """Values that cannot."""


_ARGO = ("chart", ("helm.valuesObject", "helm.values"), ("helm.valueFiles", "helm.parameters", "helm.fileParameters"))
_CHARTS_AT = (
    # https://www.pulumi.com/registry/packages/kubernetes/api-docs/helm/, and what is read of `helm_release`.
    _ChartAt("kubernetes:helm.sh/*", "", "chart", ("values",), ("valueYamlFiles",)),
    # https://fluxcd.io/flux/components/helm/helmreleases/
    _ChartAt("kubernetes:helm.toolkit.fluxcd.io/*", "spec", "chart.spec.chart", ("values",), ("valuesFrom",)),
    # https://docs.k3s.io/add-ons/helm
    _ChartAt("kubernetes:helm.cattle.io/*", "spec", "chart", ("valuesContent", "set"), ("valuesSecrets",)),
    # https://github.com/crossplane-contrib/provider-helm
    _ChartAt(
        "kubernetes:helm*.crossplane.io/Release", "spec.forProvider", "chart.name", ("values",), ("valuesFrom", "set")
    ),
    # https://github.com/kubernetes-sigs/cluster-api-addon-provider-helm
    _ChartAt("kubernetes:addons.cluster.x-k8s.io/HelmChartProxy", "spec", "chartName", ("valuesTemplate",)),
    # https://argo-cd.readthedocs.io/en/stable/user-guide/helm/
    *(
        _ChartAt(f"kubernetes:argoproj.io/{kind}", f"{within}.{source}", *_ARGO)
        for kind, within in (("Application", "spec"), ("ApplicationSet", "spec.template.spec"))
        for source in ("source", "sources")
    ),
    # https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/helmcharts/
    _ChartAt(
        "kubernetes:kustomize.config.k8s.io/*",
        "helmCharts",
        "name",
        ("valuesInline",),
        ("valuesFile", "additionalValuesFiles"),
    ),
)


@lru_cache(maxsize=_MOST_TYPES)
def _charts_at(key: str) -> tuple[_ChartAt, ...]:
    return tuple(each for each in _CHARTS_AT if key.startswith("kubernetes:") and fnmatchcase(key, each.kind))


def _charts(key: str, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield why what a chart makes may be node pools that cannot be seen: by its name, its values or a program."""
    for chart in _charts_at(key):
        within = at(inputs, chart.within) if chart.within else inputs
        for given in (one for _, one in items(within, "", [])) if is_list(within) else (within,):
            yield from _chart(given, chart)


def _chart(given: Any, chart: _ChartAt) -> Iterator[str]:
    named = at(given, chart.name)
    name = chart_name(text(named))
    if named is UNKNOWN:
        yield "which chart it is is not known yet"
    elif _OF_POOLS.search(re.sub(r"[^a-z]", "", name.casefold())):
        yield f"the chart {shown(name)} is named after pools of nodes, and its objects lie elsewhere"
    seen = [one for path in chart.values if (one := at(given, path)) is not None]
    values = [_parsed(one) or UNKNOWN if isinstance(one, str) else one for one in seen]
    if name in _PASS_ON and (any(at(given, path) for path in chart.more) or any(map(_is_open, values))):
        yield f"the chart {shown(name)} makes what its values say, and not all of them are known here"
    for one in values:
        extra = next((key for key, value in mapping(one).items() if key in _PASSED_ON and _is_open(value)), "")
        if extra:
            yield f"the chart {shown(name)} makes what its value {extra} says, which is not known yet"
    if at(given, "postrender") or at(given, "postRenderer"):
        yield f"a program changes what the chart {shown(name)} renders"


def _is_open(value: Any, deep: int = 0) -> bool:
    """Say whether among values of a chart one is not known that may be a whole object, or the kind of one."""
    if value is UNKNOWN or deep > _DEEPEST_VALUES or holders.is_placeholder(value):
        return True
    if isinstance(value, Mapping):
        known = all(value.get(key) and not _is_open(value[key], deep + 1) for key in ("apiVersion", "kind"))
        return not known and any(_is_open(one, deep + 1) for one in value.values())
    return is_list(value) and any(_is_open(one, deep + 1) for one in value)


_DEEPEST_VALUES = 50
# https://www.pulumi.com/registry/packages/kubernetes/api-docs/yaml/v2/
_OF_FILES = ("directory", "file", "files", "objs", "yaml")
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
    elsewhere = dict(reversed([*_runs_elsewhere(inputs)]))  # the first that may bring nodes, and the first that not
    said = elsewhere.get(True) or found.get(_POOL_TEXT) or found.get(ELSEWHERE) or elsewhere.get(False, "")
    return Unread(kind, f"{row.why}, but it {said}", nodes=True in elsewhere, source=row.source) if said else None


def _runs_elsewhere(inputs: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield what a resource runs that is not in it, and whether that has to do with nodes."""
    yield from (
        (False, f"runs a script that lies elsewhere, at {path}") for path in _SCRIPTS_ELSEWHERE if at(inputs, path)
    )
    program = mapping(inputs.get("program")).get("command", inputs.get("program"))
    listed = [(path, mapping(each)) for path, each in items(inputs.get("provisioner"), "provisioner", [])]
    given = ((f"{path}.{key}", one, each) for path, each in listed for key, one in each.items() if key != _MADE_FROM)
    nothing: Mapping[str, Any] = {}
    scripts = ((path, at(inputs, path), nothing) for path in _SCRIPTS_HERE)
    for path, one, beside in (("program", program, nothing), *given, *scripts):
        lines = [text(line) for line in (one if isinstance(one, list) else (one,))]
        script = next((match[0] for line in lines if (match := _SCRIPT_FILE.search(line))), "")
        clusters = any(_OF_NODES.search(text(word)) for word in beside.get(_MADE_FROM, ()))
        if one is UNKNOWN or (isinstance(one, list) and UNKNOWN in one):
            yield clusters, f"runs a command that is not known yet at {path}"
        elif any(_BY_REFERENCE.search(line) for line in lines if beside):
            yield clusters, f"runs a program that is not known yet at {path}"
        elif script:
            of_pools = _OF_POOLS.search(re.sub(r"[^a-z]", "", script.casefold())) is not None
            yield of_pools or clusters, f"runs a script that lies elsewhere, at {path}"


_MADE_FROM = "made_from"
"""What a provisioner's command refers to."""
_OF_NODES = re.compile(r"eks|aks|gke|kube|k8s|karpenter|node_?(?:pool|group)|container_cluster")
# As the configuration writes it; a shell's own variables may stand there too.
_BY_REFERENCE = re.compile(
    r"(?m)(?<!\\\n)^[ \t]{0,99}\$\{(?:var|local|data|each|module|self|\w{1,60}_\w{1,60})\.[^}\n]{1,400}\}(?!/)"
)
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
                yield Unread(own, f"{held.path} has {_one_of(kind)} in a text that cannot be read", nodes=True)
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
_OF_POOLS = re.compile(rf"{_GROUPS}|karpenter[a-z]*(?:pool|provisioner|nodeclass)")
"""In the name of a chart."""
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
                continue
            if machines and _are_values(trail) and (values := _parsed(value)):
                inside.append((trail, values))
                continue
            if _is_part(trail) and (values := _parsed(value)):
                inside.append((trail, values))
            if len(value) >= _LEAST_SCRIPT and (len(value) >= LEAST_ENCODED or " " in value or "(" in value):
                yield from ((sort, f"{said} at {_path(trail)}") for sort, said in _written(value, judged, of_cloud))
        elif isinstance(value, dict | Mapping):
            spend(min(len(value), left) * _CHARACTERS_PER_VALUE)
            kind = value.get("kind")
            made = not _MADE_BY.isdisjoint(value) or ("name" not in value and _are_in_values(trail))
            if trail and isinstance(kind, str) and kind in _brings() and "apiVersion" in value and made:
                if judged and at(value, "spec.template.spec") and _is_kept_free(value):
                    continue
                yield _POOL_TEXT, f"holds {_one_of(kind)} at {_path(trail)}"
            if machines and isinstance(value.get("requirements"), list) and _asks_for_gpus(value):
                yield _MACHINE, f"asks for machines with GPUs at {_path((trail, 'requirements'))}"
            aim = _aimed_at(value)
            if aim:
                yield _POOL_TEXT, f"patches {_one_of(aim)} at {_path(trail)}"
            if not value.keys().isdisjoint(_OF_PATCHES) and cuts_taints(value, _path(trail)):
                yield COMMAND, f"takes taints off at {_path(trail)}"
            done = _takes_off(value) or (_agents(value) if of_cloud else "")
            if done:
                yield COMMAND, f"{done} at {_path(trail)}"
            if "command" in value or "args" in value:
                yield from ((row.answer, f"{said} at {_path(trail)}") for row, said in run(command_line(value)))
            if not ENVIRONMENTS.isdisjoint(value):
                rows = run_with_environment(value)
                yield from ((row.answer, f"{said} at {_path(trail)}") for row, said in rows)
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


def _one_of(kind: str) -> str:
    """Write a kind with its article: acronyms by how their first letter is said, as in `an EC2NodeClass`."""
    letters = "AEFHILMNORSX" if re.match(r"[A-Z]{2}", kind) else "AEIO"
    return f"{'an' if kind[:1] in letters else 'a'} {kind}"


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


def _is_part(trail: "_Trail") -> bool:
    """Say whether a text of YAML or JSON stands where a patch does, or a policy of Azure's."""
    return trail is not None and trail[1] in _PARTS


_PARTS = frozenset({"patch", "patch_body", "policy_rule", "policyRule"})


def _takes_off(value: Mapping[str, Any]) -> str:
    """Say what a policy takes off nodes or node pools.

    https://learn.microsoft.com/azure/governance/policy/concepts/effect-modify,
    https://open-cluster-management.io/docs/getting-started/integration/policy-controllers/configuration-policy/
    """
    field = value.get("field")
    if "operation" in value and isinstance(field, str) and field.casefold().endswith("nodetaints"):
        return "changes the taints of AKS pools"
    if text(value.get("complianceType")).casefold() == "mustnothave" and at(value, "objectDefinition.spec"):
        held = text(at(value, "objectDefinition.kind"))
        return f"takes off what {_one_of(held)} has" if held in {"Node", *_pool_kinds()} else ""
    return ""


def _agents(value: Mapping[str, Any]) -> str:
    """Say so of an agent pool with GPUs, or with machines to be chosen later, inside what is not read as a template."""
    kind = value.get("type")
    if isinstance(kind, str) and kind.casefold().startswith(_AKS) and "properties" in value:
        properties = mapping(value["properties"])
        pools = [pool for each in readings() for pool in each.read_pools(_AGENT_POOL, properties)]
        if any(pool.lacks_taint for pool in pools) or text(properties.get("vmSize")).startswith("["):
            return "makes an agent pool of AKS"
    return ""


_AKS = "microsoft.containerservice/managedclusters/agentpools"
_AGENT_POOL = "azure-native:containerservice:AgentPool"


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
        if "ction" in whole.text and _SDK_CALL.search(whole.text):
            yield COMMAND, "calls eks:createNodegroup"
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
                yield _POOL_TEXT, f"holds a text with {_one_of(kind)}"


# What CDK's AwsCustomResource writes: https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.custom_resources-readme.html
_IS = r"[\"\\]{1,9}\s{0,9}:\s{0,9}[\"\\]{1,9}"
_OF_SDK = rf"service{_IS}(?:@aws-sdk/client-)?eks\b"
_MAKES = rf"action{_IS}create(?:nodegroup|cluster)\b"
_SDK_CALL = re.compile(rf"{_OF_SDK}.{{0,200}}?{_MAKES}|{_MAKES}.{{0,200}}?{_OF_SDK}", re.IGNORECASE | re.DOTALL)
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


# In YAML and JSON, and as KCL, HCL, Jsonnet and CEL write it.
_KIND = re.compile(r"""["']?kind\\?["']?\s{0,9}[:=]\s*(?:dyn\(\s*)?\\?["']?(\w+)""")


@lru_cache
def _brings() -> frozenset[str]:
    """Return the kinds that bring nodes by themselves: a class is of pools that name it."""
    return frozenset(kind for kind in _pool_kinds() if not kind.endswith("NodeClass"))


@lru_cache
def _pool_kinds() -> frozenset[str]:
    carried = {kind for _, kind in holders.KINDS} | {"Cluster", "Machine", "Node"}
    return frozenset(kind for _, kind in _kinds_read() if kind not in carried)
