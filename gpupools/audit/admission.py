"""Writes admission policies with which a cluster's API server applies the rules on taints. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

import yaml

from gpupools.audit.node_groups import node_labels
from gpupools.common.json_types import JsonDict
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.karpenter_provider import KarpenterProvider
from gpupools.plan.node_resources import ACCELERATOR_RESOURCES, FRACTION_ANNOTATIONS, KAI_SCHEDULER
from gpupools.policies.rules import ALL_RULES
from gpupools.policies.rules.gpu_node_pods_use_gpus import NETWORK_DEVICE_CLASSES
from gpupools.providers import clouds
from gpupools.readback.inputs import STARTUP_SUFFIX, STARTUP_TAINTS
from gpupools.readback.karpenter import GPU_KEYS, TYPE, TYPE_LABELS, providers_of, read_karpenter
from gpupools.software.objects import CALICO_NAMESPACES, SYSTEM_NAMESPACES

MODES = {"audit": ["Audit", "Warn"], "deny": ["Deny"]}
"""What a binding does: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#validation-actions."""
_FILE = Path(__file__).parent / "admission_policies.yaml"
_VERSION = "admissionregistration.k8s.io/v1"
_OWN_NODE_LABELS = ("gpupools/gpu-count", "nvidia.com/gpu.present")


def admission_objects(mode: str) -> Iterator[JsonDict]:
    """Yield each ValidatingAdmissionPolicy with its bindings, for Kubernetes 1.30 or newer.

    Args:
        mode: A key of `MODES`.
    """
    words = _words()
    rules = {rule.name: rule for rule in ALL_RULES}
    policies = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    del policies["shared"]
    for key, spec in policies.items():
        name = f"gpupools-gpu-{key}"
        rule = rules[spec.pop("rule")]
        actions = MODES["audit" if spec.pop("warns", False) else mode]
        parameters = _PARAMETERS[spec.pop("parameters", "none")]()
        about = {"annotations": {"gpupools/rule": rule.name, "gpupools/why": rule.why}}
        yield _object("ValidatingAdmissionPolicy", {"name": name, **about}, _filled_in(spec, words))
        for ending, selected in parameters:
            bound = {"policyName": name, **selected, "validationActions": actions}
            yield _object("ValidatingAdmissionPolicyBinding", {"name": f"{name}{ending}"}, bound)


def _object(kind: str, metadata: JsonDict, spec: JsonDict) -> JsonDict:
    return {"apiVersion": _VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _of_gpu_nodes() -> Iterator[tuple[str, JsonDict]]:
    """Yield a binding per label of GPU nodes, since a selector combines labels by `and`."""
    for number, label in enumerate(_node_labels(), start=1):
        yield f"-{number}", _selected({"matchExpressions": [{"key": label, "operator": "Exists"}]})


def _selected(selector: JsonDict) -> JsonDict:
    return {"paramRef": {"selector": selector, "parameterNotFoundAction": "Allow"}}


_PARAMETERS: Mapping[str, Callable[[], Iterable[tuple[str, JsonDict]]]] = {
    "none": lambda: [("", {})],
    "all": lambda: [("", _selected({}))],
    "gpu-nodes": _of_gpu_nodes,
}
"""Endings of bindings' names, with the objects that are a policy's parameters."""


def admission_text(mode: str) -> str:
    """Return the objects as YAML documents."""
    return yaml.safe_dump_all(admission_objects(mode), sort_keys=False, explicit_start=True, width=120).rstrip("\n")


def _node_labels() -> list[str]:
    labels = [label for label, vendor in node_labels().items() if vendor == "nvidia"]
    return [*dict.fromkeys((*_OWN_NODE_LABELS, *labels))]


def _words() -> Mapping[str, str]:
    """Return the values of the words that begin with $, from the clouds' catalogues and readers, as CEL."""
    words: dict[str, Any] = {
        "types": [name for cloud in clouds().values() for name in cloud.instance_types],
        "node_labels": _node_labels(),
        "taint_values": [GPU_TAINT.value, "true"],
        "accelerators": ACCELERATOR_RESOURCES,
        "network_classes": NETWORK_DEVICE_CLASSES,
        "startup_taints": STARTUP_TAINTS,
        "fractions": FRACTION_ANNOTATIONS,
        "exempt": [*SYSTEM_NAMESPACES, *CALICO_NAMESPACES],
        **_karpenter_words(),
    }
    texts = {"taint": str(GPU_TAINT), "key": GPU_TAINT.key, "kai": KAI_SCHEDULER, "startup_suffix": STARTUP_SUFFIX}
    return {key: json.dumps(word) for key, word in words.items()} | texts


def _karpenter_words() -> Mapping[str, Any]:
    """Return what the reader of NodePools knows of labels and their values; it judges one requirement at a time."""
    words: dict[str, Any] = {
        **{key: {} for key in ("marks", "groups", "gpu_values", "newer", "cpu_values", "narrower", "wider", "parts")},
        **{key: [] for key in ("gpu_keys", "counted", "wanting", "telling", "classes_taint", "newer_types")},
        "all_values": {},
        "type_labels": [*TYPE_LABELS],
    }
    for cloud, provider in providers_of(clouds()):
        words["marks"][cloud], words["groups"][cloud] = provider.marks, provider.groups
        words["type_labels"] += provider.type_labels
        words["classes_taint"] += [cloud] if provider.classes_taint else []
        words["newer_types"] += [provider.newer[TYPE]] if TYPE in provider.newer else []
        for domain in provider.domains:
            _add_labels(words, provider, domain)
    all_groups = [group for groups in words["groups"].values() for group in groups]
    patterns = "|".join(f"({type_})" for type_ in words["newer_types"])
    return {**words, "clouds": [*words["marks"]], "all_groups": all_groups, "newer_types": patterns}


def _add_labels(words: dict[str, Any], provider: KarpenterProvider, domain: str) -> None:
    """Add the labels of a provider under one domain."""
    keys = [f"{provider.part}{key}" for key in GPU_KEYS]
    words["gpu_keys"] += [f"{domain}{key}" for key in keys]
    words["counted"] += [f"{domain}{provider.part}gpu-count"] if provider.counts_none else []
    words["telling"] += [f"{domain}{key}" for key in keys if provider.tells(key)]
    machines = provider.gpu_machines()
    for key in machines[0] if machines else ():
        label = key if "/" in key else f"{domain}{key}"
        values = list(dict.fromkeys(machine[key] for machine in machines if machine[key]))
        words["all_values"][label] = [*words["all_values"].get(label, ()), *values]
        if key not in keys and label not in words["type_labels"]:
            words["wanting"] += [label] if _shows_gpus(provider, {"key": label, "operator": "Exists"}) else []
            requirement = {"key": label, "operator": "In"}
            words["gpu_values"][label] = [
                value for value in values if _shows_gpus(provider, requirement | {"values": [value]})
            ]
    words["newer"].update({f"{domain}{key}": value for key, value in provider.newer.items() if key != TYPE})
    words["cpu_values"].update({f"{domain}{key}": value for key, value in provider.cpu_values.items()})
    parts = {f"{domain}{key}": pattern for key, pattern in provider.name_parts.items()}
    words["parts"].update(parts)
    shown = [label for label in parts if words["gpu_values"].get(label)]
    words["wider"].update(pairwise(shown))
    words["narrower"].update((wide, narrow) for narrow, wide in pairwise(shown))


def _shows_gpus(provider: KarpenterProvider, requirement: JsonDict) -> bool:
    reference = {"group": provider.groups[0], "kind": next(iter(provider.classes)), "name": "any"}
    spec = {"template": {"spec": {"requirements": [requirement], "nodeClassRef": reference}}}
    return any(pool.has_gpus for pool in read_karpenter(spec, "NodePool", clouds()))


# `Requirement.allows` as CEL, which has no functions of one's own.
_ALLOWS = """($r.operator == 'In' ? $r.values.exists(w, w == $v)
: $r.operator == 'NotIn' ? !$r.values.exists(w, w == $v)
: $r.operator in ['Gt', 'Lt', 'Gte', 'Lte'] ? (size($r.values) == 0 || !$v.NUMBER || !$r.values[0].NUMBER
|| ($r.operator == 'Gt' ? int($v) > int($r.values[0]) : $r.operator == 'Lt' ? int($v) < int($r.values[0])
: $r.operator == 'Gte' ? int($v) >= int($r.values[0]) : int($v) <= int($r.values[0])))
: $r.operator != 'DoesNotExist')""".replace("NUMBER", "matches('^-?[0-9]{1,18}$$')")


def _allows(match: re.Match[str]) -> str:
    return _ALLOWS.replace("$r", match[1]).replace("$v", match[2])


def _filled_in(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str) and value.startswith("$") and value[1:] in words:
        return json.loads(words[value[1:]])
    if isinstance(value, str):
        value = re.sub(r"allows\((\w+), (\S+)\)", _allows, value)
        return " ".join(Template(value).substitute(words).split())
    if isinstance(value, list):
        return [_filled_in(item, words) for item in value]
    return {key: _filled_in(item, words) for key, item in value.items()} if isinstance(value, dict) else value
