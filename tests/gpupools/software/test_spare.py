"""Spare nodes: what keeps them free, what it costs while idle, and where nothing would keep them."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.plan.edit_tables import EditEffect
from gpupools.plan.order import idle_nodes
from gpupools.plan.software_plan import RuntimePlan
from gpupools.plan.tolerations import selects, untolerated
from gpupools.providers import clouds
from gpupools.stackfile.stack import StackPlan, plan_config, prices_of
from tests.changes import diff, diff_software
from tests.gpupools.software.conftest import Planner, pools_of

L4 = {"gpu": "L4", "nodes": {"max": 4, "spare": 2}}
BUFFERS = {
    "existing": {"cluster_autoscaler": {"name": "kube-system/ca", "expander": "priority", "capacity_buffers": True}}
}
SIZES = {"mode": "mig", "layout": ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"]}
ORDERED = {"instance_type": ["p5.48xlarge", "p4de.24xlarge"], "nodes": {"max": 4, "spare": 1}}


def of_kind(made: RuntimePlan, kind: str) -> dict[str, Mapping[str, Any]]:
    return {each.manifest["metadata"]["name"]: each.manifest for each in made.objects if each.kind == kind}


def ordered(cluster: Mapping[str, Any] | None = None, **nodes: int) -> StackPlan:
    pool = {**ORDERED, "clusters": ["c"], "nodes": {"max": 4, **nodes}}
    own = {**clouds()["aws"].example_cluster, "places": "trust", "runtime": BUFFERS, **(cluster or {})}
    return plan_config(
        {"clusters": {"c": {**own, "kubeconfig": {"path": "/etc/kube"}}}, "pools": {"big": pool}}, clouds()
    )


@pytest.mark.parametrize(("cloud", "runtime"), [("aws", BUFFERS), ("gcp", {}), ("gcp", {"kubernetes": "1.36"})])
def test_a_buffer_has_one_unit_for_each_of_the_spare_nodes(
    cloud: str, runtime: Mapping[str, Any], plan: Planner
) -> None:
    pools = {
        "a": {
            **L4,
            "sharing": {"mode": "time-slicing", "replicas": 3},
            "trust": {"team": "x"},
            "taints": ["team=x:NoSchedule"],
        }
    }
    made = plan(cloud, pools, **runtime)
    (pool,) = pools_of(cloud, pools)
    (template,), (buffer,) = (of_kind(made, kind).values() for kind in ("PodTemplate", "CapacityBuffer"))
    pod = template["template"]["spec"]

    assert buffer["spec"] == {"podTemplateRef": {"name": "a"}, "replicas": 2 * pool.units}
    assert template["metadata"]["namespace"] == buffer["metadata"]["namespace"] == "gpupools-spare"
    assert selects(pod["nodeSelector"], {}, pool.labels)
    assert untolerated(pod["tolerations"], pool.taints) == []
    assert [each["resources"]["limits"] for each in pod["containers"]] == [{"nvidia.com/gpu": "1"}]
    assert set(made.depends["spare/a"]) == {"spare-template/a"}
    assert set(made.depends["spare-template/a"]) == {"namespace/gpupools-spare", "pool/a"}
    assert any("1.35.2-gke.1842000" in note for note in made.notes) is (cloud == "gcp" and not runtime)


def test_slices_of_several_sizes_have_a_buffer_each(plan: Planner) -> None:
    made = plan("aws", {"a": {**L4, "gpu": "A100-40GB", "gpus_per_node": 8, "sharing": SIZES}}, **BUFFERS)

    assert {name: each["spec"]["replicas"] for name, each in of_kind(made, "CapacityBuffer").items()} == {
        "a-mig-3g.20gb": 16,
        "a-mig-2g.10gb": 16,
        "a-mig-1g.5gb": 32,
    }


def test_an_order_has_one_buffer_for_the_group() -> None:
    (made,) = ordered(spare=1).runtimes
    (template,), (buffer,) = (of_kind(made, kind).values() for kind in ("PodTemplate", "CapacityBuffer"))

    assert buffer["spec"]["replicas"] == 8
    assert template["template"]["spec"]["nodeSelector"] == {"gpupools/group": "big"}
    assert {"pool/big-1", "pool/big-2"} <= set(made.depends["spare-template/big"])


def test_trust_lets_the_dry_run_of_a_buffer_through(plan: Planner) -> None:
    """Or the autoscaler would keep no node: it asks the API server whether a pod of the template is admitted."""
    made = plan("aws", {"a": {**L4, "trust": {"team": "x"}}}, **BUFFERS, trust_policy=True)
    bare = plan("aws", {"a": {**L4, "nodes": {"max": 4}, "trust": {"team": "x"}}}, trust_policy=True)

    policies = of_kind(made, "ValidatingAdmissionPolicy")
    assert policies
    assert all("gpupools-spare" in str(each["spec"]["matchConstraints"]) for each in policies.values())
    assert "gpupools-spare" not in str(bare.objects)


def test_a_pod_of_a_template_has_no_rights(plan: Planner) -> None:
    made = plan("aws", {"a": L4}, **BUFFERS)
    (pod,) = (each["template"]["spec"] for each in of_kind(made, "PodTemplate").values())

    assert (
        of_kind(made, "Namespace")["gpupools-spare"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        == "restricted"
    )
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_idle_cost_counts_spare_nodes_once() -> None:
    def idle(**nodes: int) -> list[int]:
        made = ordered(None, **nodes)
        assert [price.min_nodes for price in prices_of(made, clouds())] == list(idle_nodes(made.pools).values())
        return list(idle_nodes(made.pools).values())

    assert idle(spare=3) == [3, 0]
    assert idle(spare=3, min=1) == [2, 1]
    assert idle(spare=1, min=2) == [2, 2]


def test_an_edit_of_spare_touches_no_node() -> None:
    old, new, none = (
        ordered(spare=1),
        ordered(spare=2),
        ordered(
            cluster={
                "runtime": {"existing": {"cluster_autoscaler": {"name": "kube-system/ca", "expander": "priority"}}}
            }
        ),
    )

    for before, after, changed in ((old, new, {"changed"}), (new, none, {"removed"}), (none, new, {"added"})):
        pools = diff(before, after, clouds())
        assert not any(pool.fields for pool in pools)
        software = [each for each in diff_software(before, after, pools) if each.of in ("spare", "spare-template")]
        assert {each.change for each in software} == changed
        assert {each.effect for each in software} == {EditEffect.NONE}
