"""Writes admission policies with which a cluster's API server applies the rules on taints. Pure."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from gpupools.audit.cloud_kinds import cloud_kinds
from gpupools.common.json_types import JsonDict
from gpupools.common.taints import GPU_TAINT
from gpupools.policies.rules import ALL_RULES
from gpupools.providers import clouds

MODES = {"audit": ["Audit", "Warn"], "deny": ["Deny"]}
"""What a binding does: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/#validation-actions."""
_FILE = Path(__file__).parent / "admission_policies.yaml"
_VERSION = "admissionregistration.k8s.io/v1"
_OWN_NODE_LABELS = ("gpupools/gpu-count", "nvidia.com/gpu.present")
_TYPE_LABEL = "node.kubernetes.io/instance-type"


def admission_objects(mode: str) -> Iterator[JsonDict]:
    """Yield each ValidatingAdmissionPolicy with its binding, for Kubernetes 1.30 or newer.

    Args:
        mode: A key of `MODES`.
    """
    words = _words()
    rules = {rule.name: rule for rule in ALL_RULES}
    for key, spec in yaml.safe_load(_FILE.read_text(encoding="utf-8")).items():
        name = f"gpupools-gpu-{key}"
        rule = rules[spec.pop("rule")]
        spec = _filled_in(spec, words)
        about = {"annotations": {"gpupools/rule": rule.name, "gpupools/why": rule.why}}
        yield {"apiVersion": _VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name, **about}} | {
            "spec": spec
        }
        yield {
            "apiVersion": _VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": MODES[mode]},
        }


def admission_text(mode: str) -> str:
    """Return the objects as YAML documents."""
    return yaml.safe_dump_all(admission_objects(mode), sort_keys=False, explicit_start=True, width=120).rstrip("\n")


def _words() -> Mapping[str, str]:
    """Return what the words that begin with $ stand for, from the clouds' catalogues and kinds."""
    found = (each.readback().objects.karpenter for each in clouds().values())
    karpenter = [each for each in found if each is not None]
    gpu_labels = [f"{prefix}gpu-{part}" for each in karpenter for prefix in each.prefixes for part in _PARTS]
    kinds = cloud_kinds(clouds())
    node_labels = [label for each in kinds for label, owner in each.node_labels.items() if owner == "nvidia"]
    types = [name for each in clouds().values() for name in each.instance_types]
    lists = {
        "types": types,
        "type_labels": [_TYPE_LABEL, *(label for each in karpenter for label in each.type_labels)],
        "gpu_labels": gpu_labels,
        "node_labels": [*_OWN_NODE_LABELS, *node_labels],
    }
    quoted = {key: f"[{', '.join(map(repr, dict.fromkeys(each)))}]" for key, each in lists.items()}
    return quoted | {"taint": str(GPU_TAINT), "key": GPU_TAINT.key, "value": GPU_TAINT.value}


_PARTS = ("count", "name", "manufacturer", "memory")


def _filled_in(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return " ".join(Template(value).substitute(words).split())
    if isinstance(value, list):
        return [_filled_in(each, words) for each in value]
    return {key: _filled_in(each, words) for key, each in value.items()} if isinstance(value, dict) else value
