"""Says of every resource whether anybody here understands it: judged, no node pool, or not understood. Pure.

A kind that no reader reads and no row of `kinds.csv` names is advice, unless its name or what it holds says nodes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupools.base.errors import shown
from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.declared_software import chart_name
from gpupools.policies.evidence import APPLIES, BRINGS, CLUSTER, JOINED, KIND, MACHINE, POOL_TEXT, evidence_in, one_of
from gpupools.policies.kinds import (
    KUBERNETES,
    OF_POOLS,
    Row,
    is_read,
    key_of,
    names_nodes,
    plain_key,
    pool_kinds,
    readings,
    row_of,
)
from gpupools.policies.open_charts import is_open, open_charts
from gpupools.policies.script_commands import COMMAND, ELSEWHERE, GPU_KEY, cuts_taints
from gpupools.read import holders
from gpupools.read.inputs import at, is_list, items, mapping, text
from gpupools.runtime.charts import OPERANDS


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
    key, kind = key_of(type_token)
    made = next(open_charts(key, inputs), "")
    if made:
        return Unread(kind, made, nodes=True)
    if software and not is_read(type_token):
        found = dict(reversed([*evidence_in(inputs, machines=False, judged=True)]))
        said = found.get(COMMAND) or found.get(POOL_TEXT)
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
        is_open(inputs.get(name)) for name in _OF_FILES
    ):
        return Unread(kind, "what it applies is not known yet, so its objects are not here", nodes=True)
    if overridden_set(type_token, inputs) is not None:
        return Unread(kind, "it overrides parameters of a template that is not in this resource", nodes=True)
    row = row_of(key)
    if component and (row is None or row.kind == key):  # by its name alone a component is none
        return None
    answer = row.answer if row else ""
    if answer == "none":
        return _runs(key, kind, row, inputs) if row else None
    given = [path for path in answer.removeprefix(_WHERE).split("|") if answer.startswith(_WHERE)]
    if given and not any(_in_blocks(inputs, path) for path in given):
        return None
    if answer == "resources" and inputs.get("spec") is not UNKNOWN:
        return None  # `missing_resources` looks for them in the same file
    why, source = (row.why, row.source) if row else ("nobody here knows this kind", "")
    if answer == "nodes" or given:
        return Unread(kind, why, nodes=True, source=source)
    named = names_nodes(key) if not row else ""
    of_cloud = not key.startswith("kubernetes:")
    chart = chart_name(text(inputs.get("chart"))) if key.startswith("kubernetes:helm.sh/") else ""
    # A chart of daemons alone names the machines that they run on, as workloads do.
    machines = chart not in _OF_DAEMONS
    brings = BRINGS if _names_machine(inputs) or not of_cloud else {*BRINGS, JOINED}
    judged = bool(chart) or answer == "elsewhere"  # which apply what they hold as it is
    evidence = evidence_in(inputs, machines=machines, of_cloud=of_cloud, judged=judged)
    said = named or next((said for sort, said in evidence if sort in brings), "")
    if answer == "holds" and not said:
        open_ = inputs.get("values") is UNKNOWN
        beside = text(inputs.get("chart")).startswith((".", "/"))
        what = "values are not known yet" if open_ else "objects lie elsewhere"
        return Unread(kind, f"the chart {shown(chart)}, whose {what}", nodes=False) if open_ or beside else None
    return Unread(kind, f"{why}; it {said}" if said else why, nodes=bool(said), source=source)


_WHERE = "where "


def _in_blocks(value: Any, path: str) -> Any:
    """Look up as `at` does, where Terraform has a list of one block for a map."""
    for step in path.split("."):
        value = at(value[0] if is_list(value) and value else value, step)
    return value


# Of machines of any cloud; what joins a cluster beside none of these does so on machines that are not told of.
_OF_A_MACHINE = re.compile(
    r"(?:instance|machine|vm|server)_?(?:type|size)|size|sku|plan|flavor\w*|\w*profile", re.IGNORECASE
)


def _names_machine(inputs: Mapping[str, Any]) -> bool:
    return any(_OF_A_MACHINE.fullmatch(str(key)) for key in (*inputs, *mapping(inputs.get("properties"))))


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
    row = row_of(f"kubernetes:{kind}")
    return row is not None and row.kind == f"kubernetes:{kind}" and row.answer == "none"


def too_large(type_token: str) -> Unread:
    """Say of a resource that it holds more than is looked through in one."""
    return Unread(key_of(type_token)[1], "it holds more than is looked through in one resource", nodes=True)


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
    if type_token.endswith(":NodeReadinessRule") and GPU_KEY.search(str(at(inputs, "spec.taint.key"))):
        # https://node-readiness-controller.sigs.k8s.io/
        return "it takes the taint of GPUs off nodes that are ready"
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
    match = KUBERNETES.fullmatch(type_token)
    if match is not None:
        kind = match["kind"].removesuffix("Patch")
        patches = kind != match["kind"] and kind in pool_kinds()
        return f"it changes part of {one_of(kind)} that is not in this resource" if patches else ""
    if not _OF_PATCH.fullmatch(type_token):
        return ""
    named = [one for key in ("kind", "resource", "resource_type", "target.kind") if (one := _in_blocks(inputs, key))]
    words = [re.split(r"[/.]", text(one))[0].casefold().removesuffix("s") for one in named]
    if UNKNOWN in named or not named or "" in words:
        return "which kind it changes a part of is not known here"
    kinds = {kind.casefold() for kind in pool_kinds()}
    patched = next((word for word in words if word in kinds or "nodeclass" in word), "")
    return f"it changes part of a {patched} that is not in this resource" if patched else ""


_OF_PATCH = re.compile(r"terraform:(?:kubernetes|kubectl|k8s)_(?:\w+_)?patch(?:_v\d+)?")


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
    said_of = evidence_in(inputs, machines=of_cloud, of_cloud=of_cloud, in_kubernetes=in_kubernetes, judged=True)
    found = dict(reversed([*said_of]))  # the first of each sort
    if COMMAND in found or (POOL_TEXT in found and (in_kubernetes or found.keys() & APPLIES)):
        said = found.get(COMMAND) or found[POOL_TEXT]
        return Unread(kind, f"{row.why}, but it {said}", nodes=True, source=row.source)
    if JOINED in found and MACHINE not in found and of_cloud and not _names_machine(inputs):
        return Unread(kind, f"{row.why}, but {found[JOINED]}", nodes=True, source=row.source)
    if MACHINE in found:
        joins = found.get(CLUSTER, "")
        why = f"no type of node pools that is known here, but it {found[MACHINE]}{' and ' if joins else ''}{joins}"
        return Unread(kind, why, nodes=bool(joins or _OF_CLUSTERS.search(key)), source=row.source)
    elsewhere = dict(reversed([*_runs_elsewhere(inputs)]))  # the first that may bring nodes, and the first that not
    said = elsewhere.get(True) or found.get(POOL_TEXT) or found.get(ELSEWHERE) or elsewhere.get(False, "")
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
            of_pools = OF_POOLS.search(re.sub(r"[^a-z]", "", script.casefold())) is not None
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
    match = KUBERNETES.fullmatch(type_token)
    _, kind = key_of(type_token)
    if match is None:  # user data, and templates that stand as text
        found = dict(evidence_in(inputs, machines=False, judged=True))
        said = found.get(COMMAND) or (found.get(POOL_TEXT) if found.keys() & APPLIES else "")
        if said:
            yield Unread(kind, f"it {said}", nodes=True)
    elif match["kind"] in holders.TEXTS:
        for sort, said in evidence_in(inputs, machines=False, in_kubernetes=True):
            if sort in (COMMAND, ELSEWHERE):
                yield Unread(kind, f"it {said}", nodes=sort == COMMAND)


def _types_held(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Unread]:
    for reading in readings():
        for held in reading.held_types(type_token, inputs):
            row = row_of(plain_key(held))
            if row is None or row.answer != "none":
                why = row.why if row else "nobody here knows this kind"
                nodes = row is not None or bool(names_nodes(plain_key(held)))
                yield Unread(held.partition(":")[2], why, nodes=nodes, source=row.source if row else "")


def _objects_held(type_token: str, inputs: Mapping[str, Any]) -> Iterator[Unread]:
    """Judge each object that another carries as if it stood alone; a carrier's own are here as well."""
    match = KUBERNETES.fullmatch(type_token)
    carrier = (match["version"].rpartition("/")[0], match["kind"]) if match else ("", "")
    own = "/".join(filter(None, carrier))
    for held in holders.held(inputs, *carrier) if carrier in holders.KINDS else ():
        if isinstance(held.value, str):
            kind = next((kind for kind in KIND.findall(held.value) if kind in pool_kinds()), "")
            if kind:
                yield Unread(own, f"{held.path} has {one_of(kind)} in a text that cannot be read", nodes=True)
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
