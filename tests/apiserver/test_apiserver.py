"""What a real API server and scheduler say of everything a plan declares in Kubernetes."""

import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan import PoolPlan
from gpupools.runtime.plan import RuntimePlan
from gpupools.runtime.planning import plan_runtimes
from gpupools.stack import plan_stack
from providers import clouds
from tests.apiserver.control_plane import ControlPlane
from tests.gpupools.runtime.combinations import COMBINATIONS, Combination
from tests.gpupools.runtime.conftest import pools_of, stack_of

pytestmark = pytest.mark.apiserver

EVERY = pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=COMBINATIONS)
VISION: Mapping[str, Any] = {"team": "vision"}
NAMED: Mapping[str, Any] = {"namespaces": ["speech"], "quota": 4}


@cache
def planned(cloud: str, software: str, trust: str) -> RuntimePlan:
    """Plan one shared pool under an admission policy."""
    sharing = {"mode": "time-slicing", "replicas": 4}
    who = VISION if trust == "vision" else NAMED
    pool = {"gpu": "T4", "software": software, "sharing": sharing, "trust": who}
    stack = stack_of(cloud, {f"{trust}-pool": pool}, {"trust_policy": True})
    return plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())[0]


def namespace(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}


def pod(name: str, space: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    spec = deepcopy(dict(spec))
    for container in spec["containers"]:
        container.setdefault("image", "registry.k8s.io/pause:3.10")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": space}, "spec": spec}


# --- server-side dry run ---


@EVERY
def test_the_api_server_takes_every_object_of_a_plan(combination: Combination, server: ControlPlane) -> None:
    runtime: dict[str, Any] = {"smoke_test": True, "trust_policy": "trust" in combination.pool}
    stack = stack_of(combination.cloud, combination.pools, runtime)
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    for each in made.objects:
        if each.kind == "Namespace":  # a dry run of what lives in one needs it there
            server.apply(each.manifest).well()
    refused = {
        each.name: answer.message
        for each in made.objects
        if (answer := server.apply(each.manifest, dry_run=True)).status >= 300
    }

    assert refused == {}


def test_the_api_server_takes_the_quotas_of_trusted_namespaces(server: ControlPlane) -> None:
    server.apply(namespace("speech")).well()
    claimed = {"gpu": "T4", "software": "dra-driver", "nodes": {"min": 1, "max": 2}, "trust": NAMED}
    stack = stack_of("aws", {"claimed": claimed})
    sharing = {"mode": "time-slicing", "replicas": 4, "rename": True}
    renamed = stack_of(
        "aws", {"renamed": {"gpu": "T4", "software": "device-plugin", "sharing": sharing, "trust": NAMED}}
    )
    plans = (
        planned("gcp", "device-plugin", "speech"),
        *plan_runtimes(renamed.clusters, plan_stack(renamed, clouds()), clouds()),
        *plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds()),
    )
    quotas = [each.manifest for made in plans for each in made.objects if each.name.startswith("trust-quota/")]
    counted = [name for quota in quotas for name in server.apply(quota, dry_run=True).well()["spec"]["hard"]]

    assert counted == [
        "requests.nvidia.com/gpu",
        "requests.nvidia.com/gpu.shared",
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
    ]


def test_the_api_server_takes_what_the_documentation_shows(server: ControlPlane) -> None:
    page = Path(__file__).resolve().parents[2].joinpath("docs", "runtime.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if block.startswith("apiVersion:")]
    shown = [manifest for block in blocks for manifest in yaml.safe_load_all(block)]
    for manifest in shown:
        server.create(manifest, dry_run=True).well()
    (plan,) = pools_of("aws", {"claimed": {"gpu": "T4", "software": "dra-driver", "nodes": {"min": 1, "max": 2}}})
    template, example = shown

    assert [manifest["kind"] for manifest in shown] == ["ResourceClaimTemplate", "Pod"]
    assert template == plan.claim_template
    assert {key: value for key, value in example["spec"].items() if key != "containers"} == {
        key: value for key, value in plan.pod().items() if key != "containers"
    }


def test_a_misspelt_key_would_have_been_seen(server: ControlPlane) -> None:
    quota = {"hard": {"pods": "1"}, "scopesSelector": {}}
    answer = server.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": quota},
        dry_run=True,
    )

    assert answer.status >= 400
    assert "scopesSelector" in answer.message


def test_the_pods_of_smoke_tests_are_admitted_to_their_namespace(server: ControlPlane) -> None:
    combination = COMBINATIONS["eks-plugin-time-slicing"]
    stack = stack_of(combination.cloud, combination.pools, {"smoke_test": True})
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    (job,) = (each.manifest for each in made.objects if each.kind == "Job")
    for each in made.objects:
        if each.kind == "Namespace":
            server.apply(each.manifest).well()
    smoke = pod("smoke", job["metadata"]["namespace"], job["spec"]["template"]["spec"])
    privileged = deepcopy(smoke)
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}

    server.create(smoke, dry_run=True).well()
    assert "violates PodSecurity" in server.create(privileged, dry_run=True).message


# --- the admission policy ---


@pytest.fixture(scope="module")
def guarded(server: ControlPlane) -> ControlPlane:
    """Lay the policies of a team's pool and of a namespace's pool down, and wait until they are in force."""
    for name, labels in (("ml", {"gpupools/trust": "vision"}), ("speech", {}), ("foreign", {})):
        server.apply(namespace(name, labels)).well()
    for trust in ("vision", "speech"):
        made = planned("aws", "device-plugin", trust)
        for each in made.objects:
            if each.kind.startswith("ValidatingAdmissionPolicy"):
                server.apply(each.manifest).well()
        wanted = pod("early", "foreign", made.pods[f"{trust}-pool"])
        server.wait("admission policy", partial(_is_refused, server, wanted))
    return server


def _is_refused(server: ControlPlane, wanted: Mapping[str, Any]) -> bool:
    return server.create(wanted, dry_run=True).status == 403


def by_the_name_of_shared_ones(spec: Mapping[str, Any]) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu.shared": 1}}}
    return {**spec, "tolerations": [{"operator": "Exists"}], "containers": [container]}


def without_tolerations(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "tolerations"}


def on_the_node_itself(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**without_tolerations(spec), "nodeName": "gpu-node"}


def in_an_init_container(spec: Mapping[str, Any]) -> dict[str, Any]:
    (container,) = spec["containers"]
    return {**spec, "initContainers": [{**container, "name": "first", "image": "x"}], "containers": [{"name": "main"}]}


def behind_the_schedulers_back(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec, "containers": [{"name": "main", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}


def by_a_claim(spec: Mapping[str, Any]) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "mine"}]
    return {**spec, "containers": [{"name": "main"}], "resourceClaims": claims}


def tolerating_everything(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec, "tolerations": [{"operator": "Exists"}]}


def for_its_image_alone(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec, "containers": [{"name": "main"}]}  # many images set NVIDIA_VISIBLE_DEVICES themselves


def as_it_is(spec: Mapping[str, Any]) -> dict[str, Any]:
    return dict(spec)


REFUSED = (
    as_it_is,
    on_the_node_itself,
    in_an_init_container,
    behind_the_schedulers_back,
    by_a_claim,
    for_its_image_alone,
    tolerating_everything,
    by_the_name_of_shared_ones,
)


@pytest.mark.parametrize("asking", REFUSED, ids=lambda asking: asking.__name__)
@pytest.mark.parametrize(("trust", "who"), [("vision", "team vision"), ("speech", "namespaces speech")])
def test_a_foreign_namespaces_pod_is_kept_off(trust: str, who: str, asking: Any, guarded: ControlPlane) -> None:
    spec = planned("aws", "device-plugin", trust).pods[f"{trust}-pool"]
    answer = guarded.create(pod("intruder", "foreign", asking(spec)), dry_run=True)

    assert answer.status == 403
    either = on_the_node_itself, tolerating_everything, by_the_name_of_shared_ones  # either policy may answer first
    assert asking in either or f"pool {trust}-pool shares GPUs within {who}; take another pool" in answer.message


@pytest.mark.parametrize("space", ["ml", "kube-system", "nvidia-device-plugin"])
@pytest.mark.parametrize("asking", REFUSED[:1] + REFUSED[2:-2], ids=lambda asking: asking.__name__)
def test_the_trusted_team_and_our_own_software_are_let_in(space: str, asking: Any, guarded: ControlPlane) -> None:
    guarded.apply(namespace(space, {"gpupools/trust": "vision"} if space == "ml" else {})).well()

    guarded.create(
        pod("member", space, asking(planned("aws", "device-plugin", "vision").pods["vision-pool"])), dry_run=True
    ).well()


def test_a_named_namespace_is_let_in(guarded: ControlPlane) -> None:
    spec = planned("aws", "device-plugin", "speech").pods["speech-pool"]

    guarded.create(pod("member", "speech", spec), dry_run=True).well()


def test_a_foreign_pod_that_goes_elsewhere_is_left_alone(guarded: ControlPlane) -> None:
    spec = planned("aws", "device-plugin", "vision").pods["vision-pool"]
    other = [each for each in spec["tolerations"] if each["key"] != "gpupools/trust"]
    cpu = {**spec, "containers": [{"name": "main"}]}

    guarded.create(pod("elsewhere", "foreign", {**spec, "tolerations": other}), dry_run=True).well()
    guarded.create(pod("daemon", "foreign", tolerating_everything(cpu)), dry_run=True).well()


def test_a_running_foreign_pod_cannot_add_the_toleration_but_may_change_its_labels(guarded: ControlPlane) -> None:
    spec = planned("aws", "device-plugin", "vision").pods["vision-pool"]
    running = pod("running", "foreign", without_tolerations(spec))
    guarded.create(running).well()
    labelled = guarded.merge(running, {"metadata": {"labels": {"a": "b"}}})
    added = guarded.merge(running, {"spec": {"tolerations": spec["tolerations"]}})

    assert labelled.status == 200, labelled.message
    assert added.status == 403


def test_an_expression_that_does_not_compile_would_have_been_seen(server: ControlPlane) -> None:
    made = planned("aws", "device-plugin", "vision")
    (policy,) = (each.manifest for each in made.objects if each.kind == "ValidatingAdmissionPolicy")
    broken = deepcopy(dict(policy))
    broken["spec"]["variables"][0]["expression"] = "object.spec.containers.exists("
    answer = server.apply(broken, dry_run=True)

    assert answer.status == 422
    assert "compilation failed" in answer.message


# --- scheduling ---


def node(plan: PoolPlan) -> dict[str, Any]:
    """Write the node of a pool as its kubelet would register it, with the driver's resources."""
    taints = [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in plan.taints]
    labels = {"kubernetes.io/hostname": plan.name, **plan.labels}
    return bare_node(plan.name, labels, taints, plan.capacity)


def bare_node(
    name: str, labels: Mapping[str, str], taints: list[dict[str, str]], offers: Mapping[str, int]
) -> dict[str, Any]:
    room = {"cpu": "8", "memory": "32Gi", "pods": "20", **{key: str(count) for key, count in offers.items()}}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


@pytest.fixture(scope="module")
def pools() -> list[PoolPlan]:
    """Plan one pool of each combination, under names of their own."""
    found: list[PoolPlan] = []
    for number, each in enumerate(COMBINATIONS.values()):
        found += pools_of(each.cloud, {f"p{number}": each.pools["a"]})
    return found


@pytest.fixture(scope="module")
def nodes(server: ControlPlane, pools: list[PoolPlan]) -> ControlPlane:
    """Register a node of every pool, and one without GPUs."""
    server.apply(namespace("users", {"gpupools/trust": "vision"})).well()
    for each in (*map(node, pools), bare_node("cpu", {"kubernetes.io/hostname": "cpu"}, [], {})):
        server.create(each).well()
    return server


def placed(server: ControlPlane, wanted: Mapping[str, Any]) -> str:
    return str(server.get(wanted).body.get("spec", {}).get("nodeName", ""))


def unschedulable(server: ControlPlane, wanted: Mapping[str, Any]) -> str:
    conditions = server.get(wanted).body.get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")


def test_every_pools_snippet_lands_on_its_own_nodes(nodes: ControlPlane, pools: list[PoolPlan]) -> None:
    wanted = [pod(f"user-{plan.name}", "users", plan.pod()) for plan in pools if not plan.claim_template]
    for each in wanted:
        nodes.create(each).well()
    nodes.wait("binding of all pods", lambda: all(placed(nodes, each) for each in wanted))

    assert len(wanted) > 30
    where = {each["metadata"]["name"]: placed(nodes, each) for each in wanted}
    assert where == {f"user-{plan.name}": plan.name for plan in pools if not plan.claim_template}


def test_pods_without_gpus_stay_off_the_pools(nodes: ControlPlane) -> None:
    small = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]}
    large = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "7"}}}]}
    wanted = [pod(f"cpu-{number}", "users", small) for number in range(12)]
    pending = pod("cpu-large", "users", large)  # only a GPU node would have the room
    for each in (*wanted, pending):
        nodes.create(each).well()
    nodes.wait("binding of all pods", lambda: all(placed(nodes, each) for each in wanted))
    nodes.wait("verdict on the large pod", lambda: bool(unschedulable(nodes, pending)))

    assert {placed(nodes, each) for each in wanted} == {"cpu"}
    assert "untolerated taint" in unschedulable(nodes, pending)


@pytest.mark.parametrize("name", ["aks-plugin-mig-mixed", "eks-plugin-time-slicing"])
def test_a_gpu_alone_is_not_enough_where_kubernetes_adds_no_toleration(
    name: str, nodes: ControlPlane, pools: list[PoolPlan]
) -> None:
    plan = pools[list(COMBINATIONS).index(name)]
    wanted = pod(f"bare-{plan.name}", "users", without_tolerations(plan.pod()))
    nodes.create(wanted).well()
    nodes.wait("verdict on the pod", lambda: bool(unschedulable(nodes, wanted)))

    assert "untolerated taint" in unschedulable(nodes, wanted)


def test_a_claimed_gpu_is_allocated_on_the_pools_node(nodes: ControlPlane, pools: list[PoolPlan]) -> None:
    (plan, *_) = (each for each in pools if each.claim_template)
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]},
    }
    devices = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{plan.name}-gpus"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": plan.name,
            "pool": {"name": plan.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}],
        },
    }
    for each in (device_class, devices):
        nodes.create(each).well()
    template = deepcopy(dict(plan.claim_template))
    template["metadata"]["namespace"] = "users"
    nodes.create(template).well()
    first, second = (pod(f"claims-{number}", "users", plan.pod()) for number in range(2))
    for wanted in (first, second):
        made = nodes.create(wanted).well()
        _claim_as_the_controller_does(nodes, wanted, made["metadata"]["uid"], template)
    nodes.wait("binding of the first pod", lambda: bool(placed(nodes, first)) or bool(placed(nodes, second)))
    bound = [each for each in (first, second) if placed(nodes, each)]
    (other,) = (each for each in (first, second) if each not in bound)
    nodes.wait("verdict on the second pod", lambda: bool(unschedulable(nodes, other)))

    assert [placed(nodes, each) for each in bound] == [plan.name]
    assert "cannot allocate all claims" in unschedulable(nodes, other)


def _claim_as_the_controller_does(
    server: ControlPlane, wanted: Mapping[str, Any], uid: str, template: Mapping[str, Any]
) -> None:
    """Make the pod's claim of its template, which kube-controller-manager does where there is one."""
    name = wanted["metadata"]["name"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    metadata = {"name": f"{name}-gpu", "namespace": "users", "ownerReferences": [owner]}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
    server.create({**claim, "spec": template["spec"]["spec"]}).well()
    (asked,) = wanted["spec"]["resourceClaims"]
    statuses = [{"name": asked["name"], "resourceClaimName": f"{name}-gpu"}]
    server.merge(wanted, {"status": {"resourceClaimStatuses": statuses}}, "/status").well()
