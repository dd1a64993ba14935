"""Rules by pattern for keys of node labels and taints that a stack file may not set; each cloud has its own. Pure."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from gpupools.common.csv_rows import DATA, csv_rows


class KeyRule(NamedTuple):
    """What is said of the keys that fit one pattern; of several rules the first that fits counts."""

    pattern: str
    """Pattern (fnmatch) of the whole key."""
    why: str = ""
    """What the key is, to go behind it in a sentence; empty for keys that may be set."""
    fix: str = "use a prefix of your own"
    source: str = ""
    on_nodes: bool = False
    """Whether a node may have the key though no pool sets it: from the kubelet, the cloud, or a controller."""


def key_rules(file: Path, of: str) -> tuple[KeyRule, ...]:
    """Return the rules of a table for `label` or `taint`."""
    return tuple(
        KeyRule(row["pattern"], row["why"], row["fix"], row["source"], row["on_nodes"] == "yes")
        for row in csv_rows(file)
        if row["of"] == of
    )


def refusal(key: str, rules: Iterable[KeyRule]) -> KeyRule | None:
    """Return the rule against a key; None where it may be set."""
    rule = first_rule(key, rules)
    return rule if rule is not None and rule.why else None


def first_rule(key: str, rules: Iterable[KeyRule]) -> KeyRule | None:
    """Return the rule that counts for a key; None when there is none."""
    return next((rule for rule in rules if fnmatchcase(key, rule.pattern)), None)


_KUBELET = (
    "https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go"
)


def kubelet_labels(who: str, source: str = _KUBELET) -> tuple[KeyRule, ...]:
    """Return the rules by which a kubelet takes labels for its own node.

    Of the name spaces kubernetes.io and k8s.io it takes those that end in node.kubernetes.io and kubelet.kubernetes.io,
    and does not start with any other.

    Args:
        who: Who says no.
        source: Where that is seen.
    """
    return tuple(
        rule._replace(why=rule.why.format(who=who), source=rule.source.format(source=source))
        for rule in key_rules(DATA / "reserved_keys.csv", "kubelet label")
    )


OPERATOR_LABELS = key_rules(DATA / "reserved_keys.csv", "label")
"""Labels that take operands of a GPU Operator off a node, or put those for virtual machines there."""

CONDITION_TAINTS = key_rules(DATA / "reserved_keys.csv", "taint")
"""Taints of Kubernetes' own controllers, which would remove one that is set by hand, or wait for it forever.

The page lists every one; of other keys of its name spaces it says nothing.
"""
