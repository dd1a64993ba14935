"""What every declared GPU pool must satisfy: pure functions on the facts read back from its inputs.

Owns the rules and the words of their findings. How inputs are read belongs to each cloud's `read_pool`, how a
rule meets the Pulumi engine to `policies.pack`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpupools.cloud import UNKNOWN, PoolFacts
from gpupools.errors import shown
from gpupools.taints import GPU_TAINT, repels_cpu_pods


class Level(StrEnum):
    """What a finding does to a deployment; the values are Pulumi's."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule has against one pool."""

    what: str
    """What is wrong, with the input that says so."""
    property: str
    """Path of the input to change, e.g. `nodeConfig.taints`; its declared value is shown to the reader."""
    fix: str
    unverified: bool = False
    """True when the inputs known at preview prove neither a violation nor safety."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule, judged pool by pool."""

    name: str
    level: Level
    severity: str
    """`low`, `medium`, `high` or `critical`."""
    why: str
    """Why the rule exists, one sentence."""
    fix: str
    """What cures a violation, on any cloud."""
    url: str
    """Public page about what the rule asks for."""
    check: Callable[[PoolFacts], Finding | None]


@dataclass(frozen=True)
class _Spelling:
    """Where and how an API takes the GPU taint."""

    property: str
    taint: str


_OBJECT = f"{{key: {GPU_TAINT.key}, value: {GPU_TAINT.value}, effect: NO_SCHEDULE}}"
_SPELLINGS: Mapping[str, _Spelling] = {
    # https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html
    "aws": _Spelling("taints", _OBJECT),
    # https://learn.microsoft.com/rest/api/aks/agent-pools/create-or-update, nodeTaints
    "azure": _Spelling("nodeTaints", f'"{GPU_TAINT}"'),
    # https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig, NodeTaint
    "gcp": _Spelling("nodeConfig.taints", _OBJECT),
}


def gpu_pool_tainted(pool: PoolFacts) -> Finding | None:
    """Find a GPU pool whose nodes accept pods that do not ask for GPUs.

    The GPU taint is what the finding asks for, but any permanent taint with a key and a hard effect satisfies it.

    Values the engine does not know at preview: a known taint that keeps pods off is enough, whatever else is
    unknown, and so is a known absence of GPUs. Known GPUs and a known absence of such a taint are a violation.
    Where the unknown part decides, the finding is `unverified`: a violation like any other, since a mandatory rule
    must not pass what it has not seen, unless the policy's configuration says `unknownAtPreview: advisory`; then
    the advisory policy `unverified-at-preview` reports it. An update knows every value, so there only a machine
    type that another resource holds, such as a launch template, is left unverified.
    """
    if pool.gpus_per_node == 0 or repels_cpu_pods(pool.taints):
        return None
    spelling = _SPELLINGS.get(pool.cloud, _Spelling("taints", str(GPU_TAINT)))
    # A type newer than the catalogue or an NVIDIA image is evidence of GPUs whose number nobody knows.
    proven = bool(pool.gpus_per_node) or bool(pool.evidence)
    late = [name for name in pool.unknown if not proven or _concerns(name, spelling.property)]
    if proven and not late:
        return Finding(
            what=f"has {_gpus(pool)}, but no permanent taint keeps other pods off",
            property=spelling.property,
            fix=f"add {spelling.taint} to {spelling.property}",
        )
    names = ", ".join(late) or "the machine type"
    return Finding(
        what=f"{f'has {_gpus(pool)}' if proven else 'may have NVIDIA GPUs'}, but whether a taint keeps other pods off "
        f"cannot be verified: {names} not known yet, or not in this resource",
        property=spelling.property,
        fix=f"write machine type and taints as plain values here, with {spelling.taint} in {spelling.property}"
        + ("" if proven else " if the nodes have GPUs"),
        unverified=True,
    )


def _gpus(pool: PoolFacts) -> str:
    count = pool.gpus_per_node
    number = "NVIDIA GPUs" if count is None else f"{count} NVIDIA GPU{'s' if count > 1 else ''} per node"
    return f"{number} ({pool.evidence})" if pool.evidence else number


def _concerns(unknown: str, path: str) -> bool:
    """Say whether an input that is not known yet is the one at `path`, a part of it, or holds it."""
    return unknown == path or unknown.startswith((f"{path}[", f"{path}.")) or path.startswith(f"{unknown}.")


RULES = (
    Rule(
        name="gpu-pool-tainted",
        level=Level.MANDATORY,
        severity="high",
        why="A GPU node that accepts pods without GPU work is paid for and not used.",
        fix=f"Give the pool the taint {GPU_TAINT} in its cloud's own spelling, as a plain value.",
        url="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        check=gpu_pool_tainted,
    ),
)


def told(finding: Finding, props: Mapping[str, Any]) -> str:
    """Write a finding for people: what is wrong, the value found, the cure.

    Args:
        finding: From a rule.
        props: The resource's inputs as plain data; values of taints are left out, since they may be secret.
    """
    return f"{finding.what}; found {finding.property}: {_found(_at(props, finding.property))}; {finding.fix}"


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        if value is UNKNOWN or not isinstance(value, Mapping):
            return value
        value = value.get(key)
    return value


def _found(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, list):
        most = 3
        listed = ", ".join(_found(item) for item in value[:most])
        return f"{listed} and {len(value) - most} more" if len(value) > most else listed
    if isinstance(value, Mapping):
        return ":".join(_word(value.get(part)) for part in ("key", "effect"))
    return _word(re.sub(r"=[^:]*", "", value, count=1) if isinstance(value, str) else value)


def _word(value: Any) -> str:
    if value is UNKNOWN:
        return repr(value)
    if isinstance(value, str):
        return shown(value)[1:-1] if value else "<empty>"
    return "<missing>" if value is None else f"<{type(value).__name__}>"
