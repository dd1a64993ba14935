"""Which pods fit which pools: what a plan exports fits, other units do not, and each reason has its case."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpupools.fit.offers import Offer, offers
from gpupools.fit.pod_judging import Case, Context, judge
from gpupools.fit.requests import quantity, requests_of
from gpupools.fit.workloads import REASONS, Level, Manifests, PodTemplate, Verdict, Workload
from gpupools.plan.dra import DEVICE_CLASS
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.providers import clouds
from gpupools.software.planning import plan_runtimes
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan
from gpupools.stackfile.stack_validation import Stack
from tests.gpupools.fit.loads import merged
from tests.gpupools.software.combinations import COMBINATIONS
from tests.gpupools.software.conftest import stack_of
from tests.gpupools.software.fabrics import FABRICS, stack_with
from tests.stack_plans import plan_stack

ROOT = Path(__file__).parents[3]
FILES = sorted(
    file
    for folder in ("stacks", "examples/stacks", "examples/teams", "tests/stacks", "tests/golden/*")
    for file in ROOT.glob(f"{folder}/*.yaml")
    if file.stem != "refused" and (file.parent.name != "teams" or file.name.startswith("Pulumi."))
)


def judged(plan: StackPlan, offer: Offer, spec: Mapping[str, Any], **manifests: Any) -> Verdict:
    """Judge a pod of a namespace that the pool trusts, with the metadata that the plan exports."""
    trust = offer.pool.trust
    space = trust.namespaces[0] if trust is not None and trust.namespaces else "jobs"
    label = {TRUST_LABEL: trust.team} if trust is not None and trust.team else {}
    (runtime,) = (each for each in plan.runtimes if each.cluster == offer.pool.cluster)
    template = PodTemplate(
        "", None, runtime.pod_metadata.get(offer.pool.name, {}), json.loads(json.dumps(spec, default=dict))
    )
    workload = Workload("Pod", "x", space, "x.yaml", 1, {}, (template,))
    return judge(workload, template, offer, Context(plan, Manifests((), namespaces={space: label}, **manifests)))


def keys(verdict: Verdict, level: Level = Level.UNFIT) -> set[str]:
    return {each.key for each in verdict.reasons if each.level is level}


def limited(spec: Mapping[str, Any], name: str, count: int) -> dict[str, Any]:
    """Return a pod that asks for so many units of one resource instead."""
    main = {**spec["containers"][0], "resources": {"limits": {name: count}}}
    return {**{key: value for key, value in spec.items() if key != "resourceClaims"}, "containers": [main]}


def check_pools(plan: StackPlan) -> None:
    """Check of each pool that its exported pods fit, and pods with other units do not."""
    for offer in offers(plan):
        pool, pod = offer.pool, offer.pool.pod()
        for spec in filter(None, (pod, pool.node_pod)):
            assert judged(plan, offer, spec).level is Level.FITS, (offer.where, judged(plan, offer, spec))
        assert keys(judged(plan, offer, limited(pod, "nvidia.com/mig-9g.999gb", 1))) == {"other-resource"}
        for name, count in pool.node_resources.items():
            assert "too-many-units" in keys(judged(plan, offer, limited(pod, name, count + 1)))
        for name in offer.single_unit:
            assert keys(judged(plan, offer, limited(pod, name, 2))) == {"several-shares"}
        if pool.claim_template:
            more = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DEVICE_CLASS, "count": 99}}]}
            claims = {("ResourceClaimTemplate", "jobs", "more"): more}
            spec = {**pod, "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "more"}]}
            assert "claim" in keys(judged(plan, offer, spec, claims=claims))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_what_a_stack_exports_fits_its_pools(file: Path) -> None:
    check_pools(check_stack_file(file, clouds()).plan)


def plan_of(stack: Stack) -> StackPlan:
    pools = plan_stack(stack, clouds())
    return StackPlan(stack, pools, plan_runtimes(stack.clusters, pools, clouds()))


@pytest.mark.parametrize("name", FABRICS)
def test_pods_with_interfaces_fit(name: str) -> None:
    check_pools(plan_of(stack_with(name)))


def test_lines_for_interfaces_go_together_with_those_for_a_claim_of_other_devices() -> None:
    plan = plan_of(stack_with("roce"))
    (offer,) = offers(plan)
    (box,) = limited(offer.pool.pod(), "nvidia.com/gpu", 8)["containers"]
    box["resources"]["claims"] = [{"name": "other"}]
    spec = {"containers": [box], "resourceClaims": [{"name": "other", "resourceClaimTemplateName": "slice"}]}
    found = judged(plan, offer, spec, claims=CLAIMS)

    assert keys(found) == {"claim"}
    assert {"$patch": "delete", "name": "other"} in found.patch["spec"]["resourceClaims"]


TAINTS = st.lists(
    st.sampled_from(["team=a:NoSchedule", "other=b:NoExecute", "slow=true:PreferNoSchedule"]), unique=True
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(COMBINATIONS)), TAINTS, st.integers(2, 8), st.booleans())
def test_what_is_exported_fits_whatever_the_pool_is(
    name: str, taints: list[str], replicas: int, has_policy: bool
) -> None:
    combination = COMBINATIONS[name]
    (pool,) = combination.pools.values()
    sharing = pool.get("sharing", {})
    if "replicas" in sharing:
        pool = {**pool, "sharing": {**sharing, "replicas": replicas}}
    labels = {f"example.com/{each.partition('=')[0].partition(':')[0]}": "x" for each in taints}
    pool = {**pool, **({"taints": taints, "labels": labels} if taints else {})}
    runtime = {"trust_policy": True} if has_policy and "trust" in pool else None
    check_pools(plan_of(stack_of(combination.cloud, {"a": pool}, runtime)))


# --- each reason ---

MATRIX = check_stack_file(ROOT / "stacks" / "Pulumi.matrix.yaml", clouds()).plan
OFFERS = {each.where: each for each in offers(MATRIX)}
(FABRIC,) = offers(plan_of(stack_with("efa")))
PLUGIN = OFFERS["serve/plugin"]
CLASSED = PLUGIN.pool._replace(runtime_class="nvidia")  # as a cloud may say whose runtime is not NVIDIA's by default
OFFERS |= {"fabric": FABRIC, "full": PLUGIN._replace(pods=0)}
OFFERS |= {"needs-class": PLUGIN._replace(promise=PLUGIN.promise._replace(pool=CLASSED))}
TEAM = [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "gpupools/trust", "value": "research"}]
CLAIMS = {
    ("ResourceClaimTemplate", "jobs", name): {
        "requests": [{"name": "gpu", "exactly": {"deviceClassName": kind, **more}}]
    }
    for name, kind, more in (
        ("slice", "mig.nvidia.com", {}),
        ("large", DEVICE_CLASS, {"selectors": [{"cel": {"expression": "true"}}]}),
    )
}


def asking(**limits: Any) -> dict[str, Any]:
    """Return a pod that tolerates the taints of the team's pools."""
    named = {name.replace("gpu_", "nvidia.com/"): amount for name, amount in limits.items()}
    return {"tolerations": TEAM, "containers": [{"name": "main", "resources": {"limits": named}}]}


ONE = asking(gpu_gpu=1)


def claiming(template: str) -> dict[str, Any]:
    return {**asking(), "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}]}


def requiring(**parts: Any) -> dict[str, Any]:
    return {"affinity": {name: {"requiredDuringSchedulingIgnoredDuringExecution": it} for name, it in parts.items()}}


CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "invalid": ("train/plugin", asking(gpu_gpu="500m")),
    "admission": ("train/plugin", ONE),
    "taint": ("train/plugin", {"containers": [{"name": "main"}]}),
    "other-resource": ("train/plugin", asking(**{"gpu_mig-1g.10gb": 1})),
    "too-many-units": ("serve/plugin", asking(gpu_gpu=2)),
    "too-large": ("serve/plugin", asking(cpu=400)),
    "pods": ("full", ONE),
    "selector": ("serve/plugin", {**ONE, "nodeSelector": {"gpupools/pool": "managed"}}),
    "claim": ("serve/claimed", claiming("slice")),
    "scheduler-name": ("lab/plugin", {**ONE, "schedulerName": "hami-scheduler"}),
    "several-shares": ("serve/plugin-slice", asking(gpu_gpu=2)),
    "runtime-class": ("needs-class", ONE),
    "driver-mount": ("lab/plugin", ONE),
    "fraction": ("serve/plugin", asking()),
    "unknown-label": ("lab/managed", {**ONE, "nodeSelector": {"cloud.google.com/gke-accelerator-count": "1"}}),
    "unknown-resource": ("serve/plugin", asking(**{"example.com/card": 1})),
    "near-limit": ("serve/plugin", asking(cpu="3.9")),
    "other-pods": ("serve/plugin", {**ONE, **requiring(podAffinity=[{"topologyKey": "kubernetes.io/hostname"}])}),
    "volume": ("serve/plugin", {**ONE, "volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "x"}}]}),
    "claim-selector": ("serve/claimed", claiming("large")),
    "unknown-claim": ("serve/claimed", claiming("absent")),
    "unknown-class": ("serve/plugin", {**ONE, "runtimeClassName": "kata"}),
    "unknown-scheduler": ("serve/plugin", {**ONE, "schedulerName": "mine"}),
    "unknown-namespace": ("train/plugin-slice", ONE),
    "webhook": ("serve/plugin", ONE),
    "gates": ("serve/plugin", {**ONE, "schedulingGates": [{"name": "wait"}]}),
    "node-name": ("serve/plugin", {**ONE, "nodeName": "node-1"}),
    "trust": ("serve/plugin-slice", ONE),
    "no-fabric": ("fabric", asking(gpu_gpu=8)),
}


@pytest.mark.parametrize("key", CASES)
def test_each_reason_is_given(key: str) -> None:
    where, spec = CASES[key]
    template = PodTemplate("", None, {"annotations": {"gpu-fraction": "0.5"}} if key == "fraction" else {}, spec)
    workload = Workload("Pod", "x", "outside" if key in ("admission", "trust") else "jobs", "", 1, {}, (template,))
    webhooks = ("injector",) if key == "webhook" else ()
    given = Manifests((), CLAIMS, {"outside": {}}, webhooks)
    found = judge(workload, template, OFFERS[where], Context(MATRIX, given))

    assert key in {each.key for each in found.reasons}
    level = (
        Level.UNKNOWN if key.startswith("unknown-") or key in UNKNOWN else Level.FITS if key in NOTED else Level.UNFIT
    )
    assert {each.level for each in found.reasons if each.key == key} == {level}


# In the form of github.com/NVIDIA/k8s-dra-driver-gpu demo/specs and GoogleCloudPlatform/kubernetes-engine-samples
# autoscaling/custom-compute-classes/dra/deployment.yaml.
GPU_OF_CLASS = {"name": "gpu", "exactly": {"deviceClassName": DEVICE_CLASS}}
ALL_GPUS = {"exactly": {"deviceClassName": DEVICE_CLASS, "allocationMode": "All"}}
SAME_PRODUCT = [{"requests": ["gpu"], "matchAttribute": "gpu.nvidia.com/productName"}]
BY_TEMPLATE = {"resourceClaimTemplateName": "gpus"}
CLAIMED: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], str | None, int]] = {
    "one": (BY_TEMPLATE, {"requests": [GPU_OF_CLASS]}, None, 1),
    "all of a node": (BY_TEMPLATE, {"requests": [ALL_GPUS]}, None, 2),
    "with a constraint": (BY_TEMPLATE, {"requests": [GPU_OF_CLASS], "constraints": SAME_PRODUCT}, "claim-selector", 1),
    "to look at devices in use": (
        BY_TEMPLATE,
        {"requests": [{"exactly": {**ALL_GPUS["exactly"], "adminAccess": True}}]},
        None,
        0,
    ),
    "of all pods together": ({"resourceClaimName": "gpus"}, {"requests": [GPU_OF_CLASS]}, None, 0),
    "more than a node has, together": (
        {"resourceClaimName": "gpus"},
        {"requests": [{"exactly": {"deviceClassName": DEVICE_CLASS, "count": 3}}]},
        "claim",
        0,
    ),
    "by a field of an older API": ({"source": BY_TEMPLATE}, {"requests": [GPU_OF_CLASS]}, "invalid", 0),
}


@pytest.mark.parametrize("name", CLAIMED)
def test_claims_are_read_as_the_api_server_and_the_scheduler_do(name: str) -> None:
    entry, devices, key, number = CLAIMED[name]
    offer = OFFERS["serve/claimed"]._replace(devices={DEVICE_CLASS: 2})
    template = PodTemplate("", None, {}, {**asking(), "resourceClaims": [{"name": "gpu", **entry}]})
    kinds = ("ResourceClaimTemplate", "ResourceClaim")
    manifests = Manifests((), {(kind, "jobs", "gpus"): devices for kind in kinds})
    case = Case(Workload("Pod", "x", "jobs", "", 1, {}, (template,)), template, offer, Context(MATRIX, manifests))

    assert ([each.key for each in case.claims[1]], sum(case.claims[0].values())) == ([key] if key else [], number)


def test_the_interfaces_of_another_pool_are_a_resource_that_the_plan_knows() -> None:
    plan = check_stack_file(ROOT / "examples/stacks/Pulumi.training.yaml", clouds()).plan
    asked = asking(**{"gpu_gpu": 1, "vpc.amazonaws.com/efa": 1, "rdma/other": 1})
    found = {offer.pool.cloud: judged(plan, offer, asked) for offer in offers(plan)}

    assert {name for name, each in found.items() if "other-resource" not in keys(each)} == {"aws"}
    assert all(keys(each, Level.UNKNOWN) == {"unknown-resource"} for each in found.values())


def test_no_line_to_add_lets_a_namespace_into_a_pool_that_does_not_trust_it() -> None:
    template = PodTemplate("", None, {}, {"containers": ONE["containers"]})
    manifests = Manifests((), namespaces={"outside": {}, "inside": {TRUST_LABEL: "research"}})
    patches = [
        judge(Workload("Pod", "x", space, "", 1, {}, (template,)), template, offer, Context(MATRIX, manifests)).patch
        for offer in [OFFERS["serve/plugin-slice"]]
        for space in ("outside", "inside")
    ]

    assert patches[0] == {}
    assert [each["key"] for each in patches[1]["spec"]["tolerations"]] == [TRUST_LABEL]


def test_lines_to_ask_for_another_unit_tolerate_the_taint_that_the_old_one_did() -> None:
    spec = {"containers": ONE["containers"]}  # for which the API server tolerates nvidia.com/gpu
    (offer,) = (each for each in OFFERS.values() if each.where == "serve/plugin-mixed")
    patch = judged(MATRIX, offer, spec).patch

    assert judged(MATRIX, offer, merged(spec, patch["spec"])).level is Level.FITS


def asking_box(name: str, asked: Mapping[str, int], *, twice: bool) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": dict(asked), **({"requests": dict(asked)} if twice else {})}}


ASKED = st.fixed_dictionaries({}, optional={
    name: st.integers(1, 4) for name in ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "google.com/tpu", "amd.com/gpu")
})  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(OFFERS.keys() - {"full"})), st.lists(ASKED, min_size=1, max_size=3), ASKED, st.booleans(),
    st.sampled_from([{}, {"gpu-fraction": "0.5"}, {"gpu-memory": "2000", "gpu-fraction-num-devices": "2"}]),
)  # fmt: skip
@example(where="fabric", asked=[{"nvidia.com/gpu": 4}] * 2, first={}, twice=False, annotations={})
@example(
    where="serve/vgpu",
    asked=[{"nvidia.com/gpu": 1}, {"nvidia.com/mig-1g.5gb": 1}],
    first={},
    twice=False,
    annotations={},
)
def test_a_pod_fits_with_the_lines_to_change(
    where: str, asked: list[dict[str, int]], first: dict[str, int], twice: bool, annotations: dict[str, str]
) -> None:
    boxes = [asking_box(f"c{index}", each, twice=twice) for index, each in enumerate(asked)]
    spec = {"containers": boxes, **({"initContainers": [asking_box("i", first, twice=twice)]} if first else {})}
    given: Any = {"metadata": {"annotations": annotations}, "spec": spec}
    offer = OFFERS[where]
    trust = offer.pool.trust
    labels = {TRUST_LABEL: trust.team} if trust is not None and trust.team else {}
    space = trust.namespaces[0] if trust is not None and trust.namespaces else "jobs"

    def judged_as(given: Any) -> Verdict:
        template = PodTemplate("", None, given.get("metadata", {}), given["spec"])
        work = Workload("Pod", "x", space, "", 1, {}, (template,))
        return judge(work, template, offer, Context(MATRIX, Manifests((), namespaces={space: labels})))

    found = judged_as(given)
    if all(each.patch for each in found.reasons if each.level is Level.UNFIT):
        assert judged_as(merged(given, found.patch)).level is Level.FITS, (
            found.patch,
            judged_as(merged(given, found.patch)),
        )


TEMPLATES: Mapping[str, Any] = yaml.safe_load((ROOT / "tests/apiserver/fit_templates.yaml").read_text(encoding="utf-8"))
NO_LINE_HELPS = {"invalid", "admission", "too-many-units", "too-large"}
# What no line is for: the namespace, the hardware, and what pods are to keep away from.
ASKS_FOR_MORE = ["the pool does not trust", "hugepages", "cloud.google.com/", "kubernetes.io/", "claims 2 devices"]
ASKS_FOR_MORE += [" Exists,", " DoesNotExist,", " Gt ", " Lt ", " NotIn "]


@pytest.mark.parametrize("name", TEMPLATES)
def test_each_reason_goes_with_its_lines(name: str) -> None:
    """Each template of the scheduler's test, and each pool: a strategic merge patch with the lines of one reason."""
    each = TEMPLATES[name]
    space = each.get("namespace", "research")
    claims = {("ResourceClaimTemplate", space, claim): devices for claim, devices in each.get("claims", {}).items()}
    manifests = Manifests((), claims, {"research": {TRUST_LABEL: "research"}, "vision": {}, "default": {}})
    context = Context(MATRIX, manifests)

    def judged_as(given: Any, offer: Offer) -> Verdict:
        template = PodTemplate("", None, given.get("metadata", {}), given["spec"])
        return judge(Workload(each.get("kind", "Pod"), "x", space, "", 1, {}, (template,)), template, offer, context)

    for offer in offers(MATRIX):
        found = judged_as(each, offer)
        unfit = [reason for reason in found.reasons if reason.level is Level.UNFIT]
        for reason in unfit:
            is_more = reason.key in NO_LINE_HELPS or any(words in reason.text for words in ASKS_FOR_MORE)
            assert bool(reason.patch) is not is_more, (offer.where, reason)
            lines = Verdict("", (reason,)).patch
            after = judged_as(merged(each, lines), offer)
            assert not lines or reason.text not in {one.text for one in after.reasons}, (offer.where, reason)
        if all(reason.patch for reason in unfit):
            after = judged_as(merged(each, found.patch), offer)
            assert after.level is not Level.UNFIT, (offer.where, found.patch, after)


def test_no_line_to_add_mends_a_selector() -> None:
    other = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    found = judged(MATRIX, PLUGIN, {**ONE, "nodeSelector": other})

    assert (keys(found), found.patch) == ({"selector"}, {})


# What each cloud writes on its nodes, and the plan decides: the pages that the plans of the clouds name.
GKE, EKS, AKS = "cloud.google.com/", "eks.amazonaws.com/", "kubernetes.azure.com/"
LABELS: Mapping[str, tuple[str, str, Level]] = {
    "machine": ("lab/plugin", f"{GKE}gke-accelerator=nvidia-tesla-t4", Level.FITS),
    "another machine": ("lab/plugin", f"{GKE}gke-accelerator=nvidia-l4", Level.UNFIT),
    "family": ("lab/plugin", f"{GKE}machine-family=n1", Level.FITS),
    "no spot of GKE": ("lab/plugin", f"{GKE}gke-spot=true", Level.UNFIT),
    "provisioning": ("lab/plugin", f"{GKE}gke-provisioning=standard", Level.FITS),
    "GKE's slices": ("lab/managed-mig", f"{GKE}gke-gpu-partition-size=1g.10gb", Level.FITS),
    "GKE's slices of another size": ("lab/managed-mig", f"{GKE}gke-gpu-partition-size=7g.40gb", Level.UNFIT),
    "no slices of GKE": ("lab/managed", f"{GKE}gke-gpu-partition-size=1g.5gb", Level.UNFIT),
    "shares of GKE": ("lab/managed-slice", f"{GKE}gke-gpu-sharing-strategy=time-sharing", Level.FITS),
    "no shares of GKE": ("lab/managed", f"{GKE}gke-max-shared-clients-per-gpu=2", Level.UNFIT),
    "driver": ("lab/managed", f"{GKE}gke-gpu-driver-version=default", Level.FITS),
    "another driver": ("lab/managed", f"{GKE}gke-gpu-driver-version=latest", Level.UNFIT),
    "no driver of GKE": ("lab/plugin", f"{GKE}gke-gpu-driver-version=default", Level.UNKNOWN),
    "a pool of this name": ("lab/plugin", f"{GKE}gke-nodepool=plugin-a1b2", Level.UNKNOWN),
    "another pool": ("lab/plugin", f"{GKE}gke-nodepool=default-pool", Level.UNFIT),
    "compute class": ("lab/plugin", f"{GKE}compute-class=gpu", Level.UNFIT),
    "count": ("lab/plugin", f"{GKE}gke-accelerator-count=1", Level.UNKNOWN),
    "zone label of GKE": ("lab/plugin", "topology.gke.io/zone=europe-west4-a", Level.UNKNOWN),
    "capacity of EKS": ("train/plugin", f"{EKS}capacityType=ON_DEMAND", Level.FITS),
    "no spot of EKS": ("train/plugin", f"{EKS}capacityType=SPOT", Level.UNFIT),
    "a group of this name": ("train/plugin", f"{EKS}nodegroup=train-plugin-nodes-1f2e3d4", Level.UNKNOWN),
    "another group": ("train/plugin", f"{EKS}nodegroup=gpu-nodes", Level.UNFIT),
    "Auto Mode": ("train/plugin", f"{EKS}instance-family=g5", Level.UNFIT),
    "Karpenter": ("train/plugin", "karpenter.sh/capacity-type=on-demand", Level.UNFIT),
    "Karpenter's machine": ("train/plugin", "karpenter.k8s.aws/instance-gpu-name=a100", Level.UNFIT),
    "AKS": ("serve/plugin", "accelerator=nvidia", Level.FITS),
    "a label of AKS elsewhere": ("train/plugin", "accelerator=nvidia", Level.UNFIT),
    "disks of AKS": ("serve/plugin", "storageprofile=managed", Level.UNKNOWN),
    "AKS by its new name": ("serve/plugin", f"{AKS}accelerator=nvidia", Level.FITS),
    "AKS of another maker": ("serve/plugin", "accelerator=amd", Level.UNFIT),
    "an agent pool of this name": ("serve/plugin", "agentpool=plugina1b2", Level.UNKNOWN),
    "another agent pool": ("serve/plugin", f"{AKS}agentpool=gpunp", Level.UNFIT),
    "no spot of AKS": ("serve/plugin", f"{AKS}scalesetpriority=spot", Level.UNFIT),
    "regular": ("serve/plugin", f"{AKS}scalesetpriority=regular", Level.UNKNOWN),
    "mode": ("serve/plugin", f"{AKS}mode=user", Level.FITS),
    "arch": ("serve/plugin", "beta.kubernetes.io/arch=amd64", Level.FITS),
    "another arch": ("serve/plugin", "kubernetes.io/arch=arm64", Level.UNFIT),
    "region": ("train/plugin", "failure-domain.beta.kubernetes.io/region=us-east-1", Level.UNFIT),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_a_cloud_writes_are_known_as_far_as_the_plan_decides_them(name: str) -> None:
    where, selected, level = LABELS[name]
    key, _, value = selected.partition("=")
    by_affinity = requiring(nodeAffinity={"nodeSelectorTerms": [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    ]})  # fmt: skip
    offer, unit = OFFERS[where], dict(OFFERS[where].pool.pod())

    del unit["nodeSelector"]
    for more in ({"nodeSelector": {key: value}}, by_affinity):
        assert judged(MATRIX, offer, {**unit, **more}).level is level


def test_a_cloud_says_itself_which_labels_it_writes() -> None:
    @dataclass(frozen=True, kw_only=True)
    class OfCloud(ProviderPlan):
        label_owners = ("nimbus.example.com", "tier")

    pool = PLUGIN.pool._replace(provider_plan=OfCloud())
    offer = PLUGIN._replace(promise=PLUGIN.promise._replace(pool=pool))

    keys = ("nimbus.example.com/gpu", "a.nimbus.example.com/gpu", "tier", "agentpool", "example.com/tier")
    assert [offer.may_have_label(key) for key in keys] == [True, True, True, False, False]


UNKNOWN = frozenset({"near-limit", "other-pods", "volume", "claim-selector", "webhook", "gates", "node-name"})
NOTED = frozenset({"trust", "no-fabric"})


def test_each_reason_of_the_table_has_a_case() -> None:
    others = ("autoscaler", "scheduler of teams", "plan", "cluster", "pod")
    of_others = {key for key, row in REASONS.items() if row["by"] in others} | {"bypass"}
    of_live_pods = {
        "placed",
        "not-looked-at",
        "contradiction",
        "not-seen",
        "no-pod",
        "no-gpu",
        "preempting",
        "unknown-pods",
    }
    assert REASONS.keys() - of_others - of_live_pods == CASES.keys()


# --- what pods request ---


def box(name: str = "main", *, sidecar: bool = False, **requests: Any) -> dict[str, Any]:
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, **always, "resources": {"requests": requests}}


# https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers,
# https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers and
# https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/
REQUESTED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "containers together": ({"containers": [box(cpu=1), box("b", cpu="500m")]}, "1.5"),
    "the largest init container": ({"initContainers": [box(cpu=3), box("b", cpu=2)], "containers": [box(cpu=1)]}, "3"),
    "init containers below": ({"initContainers": [box(cpu=1)], "containers": [box(cpu=2)]}, "2"),
    "a sidecar beside containers": ({"initContainers": [box(sidecar=True, cpu=2)], "containers": [box(cpu=1)]}, "3"),
    "a sidecar before an init container": (
        {"initContainers": [box(sidecar=True, cpu=2), box("b", cpu=3)], "containers": [box(cpu=1)]},
        "5",
    ),
    "a sidecar after an init container": (
        {"initContainers": [box(cpu=3), box("b", sidecar=True, cpu=2)], "containers": [box(cpu=1)]},
        "3",
    ),
    "limits alone": ({"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}, "2"),
    "the pod's own request": ({"resources": {"requests": {"cpu": 4}}, "containers": [box(cpu=1)]}, "4"),
    "the pod's own limit": ({"resources": {"limits": {"cpu": 4}}, "containers": [box(cpu=1)]}, "1"),
    "the pod's own limit alone": ({"resources": {"limits": {"cpu": 4}}, "containers": [{"name": "main"}]}, "4"),
    "overhead": ({"overhead": {"cpu": "250m"}, "runtimeClassName": "kata", "containers": [box(cpu=1)]}, "1.25"),
}


@pytest.mark.parametrize("name", REQUESTED)
def test_requests_are_counted_as_kubernetes_counts_them(name: str) -> None:
    spec, cpu = REQUESTED[name]
    found = requests_of(spec)

    assert found.amounts == {"cpu": Decimal(cpu)}
    assert found.invalid == ()


# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
QUANTITIES = {
    "1": "1",
    2: "2",
    0.5: "0.5",
    "100m": "0.1",
    "1e3": "1000",
    "1.5Gi": "1610612736",
    "2M": "2e6",
    ".5": "0.5",
    "1e-300": "1e-9",
    "9e300": str(2**63 - 1),
    "-1e-300": "-1e-9",
}
NO_QUANTITIES: tuple[object, ...] = (None, True, "", "1 Gi", "1GB", "one", "1e", "1kk", "٣", [], "1" * 80)


def test_quantities() -> None:
    assert {given: quantity(given) for given in QUANTITIES} == {key: Decimal(it) for key, it in QUANTITIES.items()}
    assert [quantity(each) for each in NO_QUANTITIES] == [None] * len(NO_QUANTITIES)


INVALID: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a request without a limit": (
        {"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": 1}}}]},
        "with no limit",
    ),
    "parts of a unit": (asking(gpu_gpu="500m"), "parts of a unit"),
    "a request above the limit": (
        {"containers": [{"name": "main", "resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}}]},
        "more cpu than its limit",
    ),
    "huge pages alone": (
        {"containers": [{"name": "main", "resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, box("b", cpu=1)]},
        "huge pages without cpu and memory",
    ),
    "overhead without a RuntimeClass": ({"overhead": {"cpu": 1}, "containers": [box()]}, "without a RuntimeClass"),
    "a selector that is no text": ({"nodeSelector": {"gpu": True}, "containers": [box()]}, "nodeSelector.gpu"),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_the_api_server_rejects_is_told(name: str) -> None:
    spec, words = INVALID[name]
    ((what, fix),) = requests_of(spec).invalid

    assert words in what
    assert fix
