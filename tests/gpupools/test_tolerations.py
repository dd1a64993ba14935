"""Whether pods get onto nodes, as the scheduler decides it: tolerations against taints, selectors against labels."""

from collections.abc import Mapping
from typing import Any

from gpupools.common.taints import parse_taint
from gpupools.plan.tolerations import node_affinity, selects, tolerates, untolerated
from tests.rows import each_row

# https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
TOLERATIONS = [
    ({"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}, "a=b:NoSchedule", True),
    ({"key": "a", "operator": "Equal", "value": "b"}, "a=b:NoSchedule", True),
    ({"key": "a", "value": "b"}, "a=b:NoExecute", True),
    ({"key": "a", "value": "b", "effect": ""}, "a=b:NoExecute", True),
    ({"key": "a", "value": "b"}, "a=c:NoSchedule", False),
    ({"key": "b", "value": "b"}, "a=b:NoSchedule", False),
    ({"key": "a"}, "a=b:NoSchedule", False),
    ({"key": "a"}, "a:NoSchedule", True),
    ({"key": "a", "value": None}, "a:NoSchedule", True),
    ({"key": "a", "value": "b"}, "a:NoSchedule", False),
    ({"key": "a", "value": "b", "effect": "NoExecute"}, "a=b:NoSchedule", False),
    ({"value": "b"}, "a=b:NoSchedule", False),
    ({"key": "a", "operator": "Exists"}, "a=b:NoSchedule", True),
    ({"key": "b", "operator": "Exists"}, "a=b:NoSchedule", False),
    ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, "a=b:NoSchedule", False),
    ({"operator": "Exists"}, "a=b:NoSchedule", True),
    ({"key": None, "operator": "Exists"}, "a=b:NoExecute", True),
    ({"operator": "Exists", "effect": "NoSchedule"}, "a=b:NoExecute", False),
]


@each_row(("toleration", "taint", "lets"), TOLERATIONS)
def test_a_toleration_lets_onto_a_node_what_the_scheduler_lets(
    toleration: Mapping[str, Any], taint: str, lets: bool
) -> None:
    other = {"key": "other", "operator": "Exists"}

    assert tolerates([toleration], parse_taint(taint)) is lets
    assert tolerates([other, toleration], parse_taint(taint)) is lets
    assert untolerated([toleration], [parse_taint(taint)]) == ([] if lets else [parse_taint(taint)])


def test_a_soft_taint_keeps_no_pod_off() -> None:
    taints = [parse_taint("a=b:PreferNoSchedule"), parse_taint("c=d:NoExecute")]

    assert untolerated([], taints) == taints[1:]
    assert not tolerates([], taints[0])


LABELS = {"a": "b", "c": "d"}
SELECTING = [
    ({}, {}, True),
    ({"a": "b"}, {}, True),
    ({"a": "c"}, {}, False),
    ({"a": "b", "x": "y"}, {}, False),
    ({}, {"podAffinity": {}}, True),
    ({}, {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, True),
    ({}, {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}, False),
    ({}, node_affinity({"key": "a", "operator": "In", "values": ["x", "b"]}), True),
    ({}, node_affinity({"key": "a", "operator": "In", "values": ["x"]}), False),
    ({}, node_affinity({"key": "x", "operator": "In", "values": ["x"]}), False),
    ({}, node_affinity({"key": "a", "operator": "NotIn", "values": ["b"]}), False),
    ({}, node_affinity({"key": "a", "operator": "NotIn", "values": ["x"]}), True),
    ({}, node_affinity({"key": "x", "operator": "NotIn", "values": ["x"]}), True),
    ({}, node_affinity({"key": "a", "operator": "Exists"}), True),
    ({}, node_affinity({"key": "x", "operator": "Exists"}), False),
    ({}, node_affinity({"key": "a", "operator": "DoesNotExist"}), False),
    ({}, node_affinity({"key": "x", "operator": "DoesNotExist"}), True),
    ({}, node_affinity({"key": "a", "operator": "Exists"}, {"key": "x", "operator": "Exists"}), False),
    ({"a": "c"}, node_affinity({"key": "a", "operator": "Exists"}), False),
    (
        {},
        {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "x", "operator": "Exists"}]},
                        {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                    ]
                }
            }
        },
        True,
    ),
]


@each_row(("selector", "affinity", "fits"), SELECTING)
def test_a_pod_goes_to_the_nodes_that_it_selects(
    selector: Mapping[str, str], affinity: Mapping[str, Any], fits: bool
) -> None:
    assert selects(selector, affinity, LABELS) is fits
