"""What says of a resource that nobody reads that it could bring nodes with GPUs: names, objects, commands. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

from gpupools.base.bounded_yaml import parse_yaml
from gpupools.base.errors import Rejected, shown
from gpupools.planned.pool_facts import NO_ACCELERATOR
from gpupools.policies.kinds import MOST_TYPES, pool_kinds, read_kinds, readings
from gpupools.policies.script_commands import (
    COMMAND,
    ELSEWHERE,
    ENVIRONMENTS,
    GPU_KEY,
    HERE,
    command_line,
    cuts_taints,
    run,
    run_with_environment,
)
from gpupools.providers import clouds
from gpupools.read import holders
from gpupools.read.effort import exhausted, spend
from gpupools.read.inputs import accelerator_by_name, at, items, mapping, text
from gpupools.read.kubernetes_pools import read_manifest
from gpupools.read.packed import LEAST_ENCODED, Unpacked, looks_encoded, packed_inside, unpacked
from gpupools.read.scripts import CHARACTERS_PER_READ, names_objects, objects_in

_MOST_VALUES = 20_000
_CHARACTERS_PER_VALUE = 25
"""Characters that are looked at while one value is."""
# As clouds write machines: `p5.48xlarge`, `a2-highgpu-1g`, `Standard_NC24ads_A100_v4`. Other texts are not asked for.
_NAMED = re.compile(r"(?:[a-z]{1,4}\d[\w-]*[.-]|(?:standard_)?n[cdgv]+\d+|standard_)[\w.-]*", re.IGNORECASE)
_LONGEST_NAME = 60
MACHINE, POOL_TEXT, CLUSTER, JOINED = "machine", "pool", "cluster", "joined"
BRINGS = frozenset({MACHINE, POOL_TEXT, COMMAND})
_OF_PATCHES = frozenset({"op", "taints", "manifest", "object-templates-raw"})
APPLIES = frozenset({ELSEWHERE, HERE})
_NOT_APPLIED = frozenset({"metadata", "status"})


def evidence_in(
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
            if named and not _is_inside(trail, _CHOOSES):
                yield MACHINE, f"names the machine {shown(named)} at {_path(trail)}"
                continue
            if machines and _are_values(trail) and (values := parsed_values(value)):
                inside.append((trail, values))
                continue
            if _is_part(trail) and isinstance(part := _parsed(value), list | Mapping):
                inside.append((trail, part))
            if len(value) >= _LEAST_SCRIPT and (len(value) >= LEAST_ENCODED or " " in value or "(" in value):
                yield from ((sort, f"{said} at {_path(trail)}") for sort, said in _written(value, judged, of_cloud))
        elif isinstance(value, dict | Mapping):
            spend(min(len(value), left) * _CHARACTERS_PER_VALUE)
            kind = value.get("kind")
            made = not _MADE_BY.isdisjoint(value) or ("name" not in value and _is_inside(trail, _VALUES))
            if trail and isinstance(kind, str) and kind in _brings() and "apiVersion" in value and made:
                if judged and at(value, "spec.template.spec") and _is_kept_free(holders.placeholders(value)):
                    continue
                yield POOL_TEXT, f"holds {one_of(kind)} at {_path(trail)}"
            if machines and isinstance(value.get("requirements"), list) and _asks_for_gpus(value):
                yield MACHINE, f"asks for machines with GPUs at {_path((trail, 'requirements'))}"
            aim = _aimed_at(value)
            if aim:
                yield POOL_TEXT, f"patches {one_of(aim)} at {_path(trail)}"
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
            method = next((value[key] for key in _METHODS if key in value), None)
            if method and (address := value.get("uri") or value.get("url")):  # of workflows, as HTTP has it
                sent = f"{method} {address}"
                yield from ((row.answer, f"{said} at {_path(trail)}") for row, said in run(sent))
            if "Api" in value and "Service" in value:  # a step of AWS Systems Manager's
                step = f"Service: {value['Service']}, Api: {value['Api']}"
                yield from ((row.answer, f"{said} at {_path(trail)}") for row, said in run(step))
            inside += [((trail, key), one) for key, one in value.items() if not isinstance(one, int | float | None)]
            if of_cloud and (joins := next((key for key, item in value.items() if item and _joins(key)), "")):
                yield CLUSTER, f"has {shown(joins)}"
        elif isinstance(value, list):
            spend(min(len(value), left) * _CHARACTERS_PER_VALUE)
            inside += [((trail, place), one) for place, one in enumerate(value) if not isinstance(one, int | float)]
    if inside:
        more = "is looked through" if left else f"{_MOST_VALUES} values"
        yield MACHINE if machines else ELSEWHERE, f"holds more than {more}"


def one_of(kind: str) -> str:
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
    named = next((one for one in applies_to if one in pool_kinds()), "")
    if named:
        return named  # a mutation of Gatekeeper: https://open-policy-agent.github.io/gatekeeper/website/docs/mutation/
    for key, with_ in (("target", _PATCHES), ("select", _REPLACES)):
        if key not in patch or with_.isdisjoint(patch):
            continue
        kind, group = text(at(patch, f"{key}.kind")), text(at(patch, f"{key}.group"))
        named = next((one for one in re.split(r"\W+", kind) if one in pool_kinds()), "")
        of_group = min((one for of, one in read_kinds() if one in pool_kinds() and group and of == group), default="")
        if named or (not kind and of_group) or (kind and of_group and re.search(r"[.*+?|\[(]", kind)):
            return named or of_group
    return ""


_PATCHES, _REPLACES = frozenset({"patch", "path", "options"}), frozenset({"fieldPaths", "options"})


# Of a pod's specification, whoever holds it: they choose among nodes that others bring.
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
_CHOOSES = frozenset({"nodeSelector", "nodeAffinity"})


def _is_inside(trail: "_Trail", keys: Collection[str]) -> bool:
    """Say whether something stands under one of some keys, however deep."""
    while trail is not None:
        trail, step = trail
        if step in keys:
            return True
    return False


def _are_values(trail: "_Trail") -> bool:
    """Say whether a text stands where values of a chart do, or a list of such."""
    at_key = trail[0] if trail is not None and isinstance(trail[1], int) else trail
    return at_key is not None and at_key[1] in _VALUES


def _is_part(trail: "_Trail") -> bool:
    """Say whether a text of YAML or JSON stands where a patch does, a policy of Azure's, or containers of AWS."""
    return trail is not None and trail[1] in _PARTS


_PARTS = frozenset(
    {
        *("patch", "patch_body", "policy_rule", "policyRule"),
        *("container_definitions", "containerDefinitions", "container_properties", "containerProperties"),
    }
)
_METHODS = ("method", "http_method", "httpMethod")


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
        return f"takes off what {one_of(held)} has" if held in {"Node", *pool_kinds()} else ""
    if text(value.get("complianceType")).casefold() == "mustonlyhave" and at(value, "objectDefinition.kind") == "Node":
        spec = mapping(at(value, "objectDefinition.spec"))
        return "takes off what a Node has" if "taints" in spec and not spec["taints"] else ""
    if "matchConstraints" in value and "mutations" in value:
        # https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
        rules = items(at(value, "matchConstraints.resourceRules"), "", [])
        named = {text(one).casefold() for _, rule in rules for _, one in items(at(rule, "resources"), "", [])}
        written = str(value["mutations"])
        cuts = "taints" in written and not GPU_KEY.search(written)
        return "changes taints of nodes or node pools" if cuts and named & _plurals() else ""
    if text(value.get("location")).startswith("spec.taints") and "applyTo" in value:
        # https://open-policy-agent.github.io/gatekeeper/website/docs/mutation/
        kinds = {
            text(kind) for _, each in items(value["applyTo"], "", []) for _, kind in items(at(each, "kinds"), "", [])
        }
        prunes = at(value, "parameters.operation") == "prune"
        assigned = at(value, "parameters.assign")
        cuts = prunes or (assigned is not None and not GPU_KEY.search(str(assigned)))
        return "takes taints off nodes" if cuts and kinds & {"Node", "*"} else ""
    return ""


@lru_cache
def _plurals() -> frozenset[str]:
    """Return how rules of admission name nodes and node pools."""
    return frozenset(
        {"*", "nodes", *(f"{kind.casefold()}{'es' if kind.endswith('s') else 's'}" for kind in pool_kinds())}
    )


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


def _asks_for_gpus(given: Mapping[str, Any]) -> bool:
    """Say whether what stands beside requirements would be a NodePool of Karpenter with GPUs that none is kept off."""
    template = {key: given[key] for key in ("requirements", "taints", "nodeClassRef") if key in given}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": {"template": {"spec": template}}}
    return any(each.has_gpus and each.lacks_taint for each in read_manifest(pool, clouds()))


# Argo CD's `helm.values`; https://docs.k3s.io/helm for k3s and RKE2; cluster-api-addon-provider-helm's HelmChartProxy.
_VALUES = frozenset({"values", "valuesContent", "valuesTemplate"})


def parsed_values(value: str) -> Mapping[str, Any]:
    """Return the values of a chart that stand as a text of YAML; none where it is no map, or too much to read."""
    return mapping(_parsed(value))


def _parsed(value: str) -> Any:
    """Return what a text of YAML has, where that is one document; None otherwise."""
    if len(value) > _MOST_OF_VALUES:
        return None
    spend(CHARACTERS_PER_READ * len(value))
    try:
        documents = parse_yaml(value, _MOST_VALUES)
    except Rejected:
        return None
    return documents[0].data if len(documents) == 1 else None


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


@lru_cache(maxsize=MOST_TYPES)
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
            yield CLUSTER, "makes it a node of a cluster"
            yield JOINED, "it makes a machine a node of a cluster"
        found = [(row.answer, said) for row, said in run(whole.text)]
        yield from found
        for one in (whole, *packed_inside(whole.text)):
            if one.opaque:
                yield (COMMAND, f"applies what {one.opaque}") if found else (ELSEWHERE, f"holds what {one.opaque}")
            if one is not whole:
                yield from ((row.answer, said) for row, said in run(one.text))
            kind = _pool_in(one.text, judged) if names_objects(one.text) else ""
            if kind:
                yield POOL_TEXT, f"holds a text with {one_of(kind)}"


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
    return next((kind for kind in KIND.findall(written) if kind in pool_kinds()), "")


def _is_kept_free(one: Any) -> bool:
    pools = read_manifest(one, clouds()) if isinstance(one, Mapping) else ()
    return bool(pools) and not any(pool.lacks_taint for pool in pools)


# In YAML and JSON, and as KCL, HCL, Jsonnet and CEL write it.
KIND = re.compile(r"""["']?kind\\?["']?\s{0,9}[:=]\s*(?:dyn\(\s*)?\\?["']?(\w+)""")


@lru_cache
def _brings() -> frozenset[str]:
    """Return the kinds that bring nodes by themselves: a class is of pools that name it."""
    return frozenset(kind for kind in pool_kinds() if not kind.endswith("NodeClass"))
