"""What a real API server and scheduler say of everything a plan declares in Kubernetes."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache, partial
from typing import Any

import pytest

from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.software.planning import plan_runtimes
from tests.apiserver.control_plane import ControlPlane, User
from tests.gpupools.software.combinations import COMBINATIONS, Combination
from tests.gpupools.software.conftest import pools_of, stack_of
from tests.stack_plans import plan_stack

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
    stack = stack_of(cloud, {f"{trust}-pool": pool}, {"trust_policy": True, "calico": True})
    return plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())[0]


def namespace(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}


def pod(name: str, space: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    spec = deepcopy(dict(spec))
    for container in (*spec["containers"], *spec.get("initContainers", ())):
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
            server.apply(each.manifest).succeeded()
    refused = {
        each.name: answer.message
        for each in made.objects
        if (answer := server.apply(each.manifest, dry_run=True)).status >= 300
    }

    assert refused == {}


def test_the_api_server_takes_the_quotas_of_trusted_namespaces(server: ControlPlane) -> None:
    server.apply(namespace("speech")).succeeded()
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
    counted = [name for quota in quotas for name in server.apply(quota, dry_run=True).succeeded()["spec"]["hard"]]

    assert counted == [
        "requests.nvidia.com/gpu",
        "requests.nvidia.com/gpu.shared",
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices",
    ]


def test_the_api_server_takes_the_claim_and_the_pod_of_a_claimed_pool(server: ControlPlane) -> None:
    (plan,) = pools_of("aws", {"claimed": {"gpu": "T4", "software": "dra-driver", "nodes": {"min": 1, "max": 2}}})
    template = plan.claim_template
    assert template is not None
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claims"}, "spec": plan.pod()}
    pod["spec"]["containers"][0]["image"] = "registry.example/cuda-sample"

    server.create(template, dry_run=True).succeeded()
    made = server.create(pod, dry_run=True).succeeded()

    (claim,) = made["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_the_api_server_takes_the_network_policies(server: ControlPlane) -> None:
    runtime = {"monitoring_namespace": "monitoring", "block_instance_metadata": True}
    pools = {
        "operated": {"gpu": "T4", "software": "gpu-operator", "trust": NAMED},
        "plugged": {"gpu": "T4", "software": "device-plugin", "trust": {"namespaces": ["vision"]}},
    }
    stack = stack_of("azure", pools, runtime)
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    policies = [each.manifest for each in made.objects if each.kind == "NetworkPolicy"]
    for space in {each["metadata"]["namespace"] for each in policies}:
        server.apply(namespace(space)).succeeded()

    assert [each["metadata"]["namespace"] for each in policies] == ["gpu-operator", "dcgm-exporter", "speech", "vision"]
    assert [each["spec"] for each in policies] == [
        server.apply(each, dry_run=True).succeeded()["spec"] for each in policies
    ]


def test_a_misspelt_key_would_have_been_seen(server: ControlPlane) -> None:
    quota = {"hard": {"pods": "1"}, "scopesSelector": {}}
    answer = server.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "default"}, "spec": quota},
        dry_run=True,
    )

    assert answer.status >= 400
    assert "scopesSelector" in answer.message


@EVERY
def test_the_pods_of_smoke_tests_are_admitted_to_their_namespace_and_nothing_above_its_level(
    combination: Combination, server: ControlPlane
) -> None:
    stack = stack_of(combination.cloud, combination.pools, {"smoke_test": True})
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    job, *_ = (each.manifest for each in made.objects if each.kind == "Job")
    for each in made.objects:
        if each.kind == "Namespace":
            server.apply(each.manifest).succeeded()
            space = each.manifest
    level = space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    smoke = pod("smoke", job["metadata"]["namespace"], job["spec"]["template"]["spec"])
    above = deepcopy(smoke)
    above["spec"]["securityContext" if level == "restricted" else "containers"] = (
        {"seccompProfile": {"type": "Unconfined"}}
        if level == "restricted"
        else [{**smoke["spec"]["containers"][0], "securityContext": {"privileged": True}}]
    )

    assert space["metadata"]["name"] == job["metadata"]["namespace"]
    server.create(smoke, dry_run=True).succeeded()
    assert level == "privileged" or "violates PodSecurity" in server.create(above, dry_run=True).message


# --- the admission policies ---

DAEMON_SETS = User("system:serviceaccount:kube-system:daemon-set-controller", "system:masters")
SEALED = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
EVERYTHING = [{"operator": "Exists"}]
KUBELETS: Mapping[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "kubelets"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
}
"""Stands for the node authorizer, so that what stops a kubelet is admission."""


@pytest.fixture(scope="module")
def guarded(server: ControlPlane) -> ControlPlane:
    """Lay the policies of a team's pool and of a namespace's pool down, and wait until they are in force."""
    for name, labels in (("ml", {"gpupools/trust": "vision"}), ("speech", {}), ("foreign", {}), ("calico-system", {})):
        server.apply(namespace(name, labels)).succeeded()
    for handler in ("nvidia", "nvidia-cdi", "nvidia-legacy"):
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": handler}}
        server.apply({**runtime, "handler": handler}).succeeded()
    server.apply(KUBELETS).succeeded()
    kept = [{"key": "tests", "effect": "NoSchedule"}]
    for trust in ("vision", "speech"):
        made = planned("aws", "device-plugin", trust)
        (plan,) = made.pods
        mark = {"vision": "vision", "speech": "pool.speech-pool"}[trust]
        server.create(bare_node(f"{trust}-node", {"gpupools/trust": mark}, kept, {})).succeeded()
        for each in made.objects:
            if each.kind.startswith("ValidatingAdmissionPolicy"):
                server.apply(each.manifest).succeeded()
        by_name = {"containers": [{"name": "main"}], "nodeName": f"{trust}-node"}
        for wanted in (made.pods[plan], by_name):
            early = pod("early", "foreign", wanted)
            server.wait("admission policy", partial(_is_refused, server, early, f"pool {trust}-pool"))
    server.create(bare_node("other-node", {}, kept, {})).succeeded()
    return server


def _is_refused(server: ControlPlane, wanted: Mapping[str, Any], by: str) -> bool:
    answer = server.create(wanted, dry_run=True)
    return answer.status == 403 and by in answer.message


def asking(trust: str = "vision") -> dict[str, Any]:
    """Return the pool's own snippet, which asks for a GPU and tolerates the pool's taints by their keys."""
    return deepcopy(dict(planned("aws", "device-plugin", trust).pods[f"{trust}-pool"]))


def main(**keys: Any) -> dict[str, Any]:
    """Return a pod of one container that asks the scheduler for nothing and tolerates everything."""
    return {"tolerations": EVERYTHING, "containers": [{"name": "main", **keys}]}


def limit(name: str) -> dict[str, Any]:
    return {"resources": {"limits": {name: 1}}}


def env(value: str | None, **other: Any) -> dict[str, Any]:
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", **({"value": value} if value is not None else {}), **other}]}


def mount(path: str) -> dict[str, Any]:
    return {**env("void"), "volumeMounts": [{"name": "devices", "mountPath": path}]}


def mounting(path: str) -> dict[str, Any]:
    volumes = [{"name": "devices", "hostPath": {"path": "/dev/null"}}]
    return {**main(**mount(path)), "volumes": volumes}


def without_tolerations(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "tolerations"}


def by_key(**keys: str) -> dict[str, Any]:
    """Return a pod for which its image may ask, and that names the taint of the team's pool."""
    return {"tolerations": [{"key": "gpupools/trust", **keys}], "containers": [{"name": "main"}]}


FROM_MAP = {"envFrom": [{"configMapRef": {"name": "mine"}}]}
CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "mine"}]
INJECTED = {"cdi.k8s.io/mine": "nvidia.com/gpu=all"}
OPERATORS = {"nvidia.cdi.k8s.io/mine": "nvidia.com/gpu=all"}
SECOND = {"name": "second"}
CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"

# What somebody in a namespace that nobody trusts tries: the pod's spec, its annotations, who creates it.
KEPT_OFF: Mapping[str, tuple[dict[str, Any], Mapping[str, str], User | None]] = {
    # by the name of the taint
    "the pool's own snippet": (asking(), {}, None),
    "the snippet without its request": ({**asking(), "containers": [{"name": "main"}]}, {}, None),
    "the taint's key with operator Exists": (by_key(operator="Exists"), {}, None),
    "the taint's key and value": (by_key(value="vision"), {}, None),
    "the taint, spelled out": (by_key(operator="Equal", value="vision", effect="NoSchedule"), {}, None),
    "the taint, sealed": ({**by_key(operator="Exists"), "containers": [{"name": "main", "env": [SEALED]}]}, {}, None),
    "a daemon that names the taint": (by_key(operator="Exists"), {}, DAEMON_SETS),
    # tolerating everything
    "a GPU": (main(**limit("nvidia.com/gpu")), {}, None),
    "a shared GPU": (main(**limit("nvidia.com/gpu.shared")), {}, None),
    "a MIG slice": (main(**limit("nvidia.com/mig-1g.5gb")), {}, None),
    "a GPU by its device class": (main(**limit(CLASS)), {}, None),
    "a GPU in an init container": (
        {**main(), "initContainers": [{"name": "first", **limit("nvidia.com/gpu")}]},
        {},
        None,
    ),
    "a GPU in a second container": (
        {
            **main(env=[SEALED]),
            "containers": [{"name": "main", "env": [SEALED]}, {**SECOND, **limit("nvidia.com/gpu")}],
        },
        {},
        None,
    ),
    "a claim": ({**main(), "resourceClaims": CLAIMS}, {}, None),
    "a sealed claim": ({**main(env=[SEALED]), "resourceClaims": CLAIMS}, {}, None),
    "the variable": (main(**env("all")), {}, None),
    "the variable with a number": (main(**env("0")), {}, None),
    "the variable with a CDI name": (main(**env("nvidia.com/gpu=all")), {}, None),
    "the variable, empty": (main(**env("")), {}, None),
    "the variable from a field": (
        main(**env(None, valueFrom={"fieldRef": {"fieldPath": "metadata.labels['x']"}})),
        {},
        None,
    ),
    "the variable, sealed first": (main(env=[SEALED, *env("all")["env"]]), {}, None),
    "the variable, sealed last": (main(env=[*env("all")["env"], SEALED]), {}, None),
    "the variable in an init container": ({**main(), "initContainers": [{"name": "first", **env("all")}]}, {}, None),
    "the variable through envFrom": (main(**FROM_MAP), {}, None),
    "the variable in the image": (main(), {}, None),
    "the image of a second container": (
        {**main(env=[SEALED]), "containers": [{"name": "main", "env": [SEALED]}, SECOND]},
        {},
        None,
    ),
    "the image of an init container": ({**main(env=[SEALED]), "initContainers": [SECOND]}, {}, None),
    "everything with effect NoSchedule": (
        {**main(), "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]},
        {},
        None,
    ),
    "a sealed container that is privileged": (main(env=[SEALED], securityContext={"privileged": True}), {}, None),
    "the device list": (mounting("/var/run/nvidia-container-devices/all"), {}, None),
    "the device list, spelled otherwise": (mounting("/var//run/./nvidia-container-devices/0"), {}, None),
    "the device list, relative": (mounting("var/run/nvidia-container-devices/all"), {}, None),
    "a CDI annotation": (main(), INJECTED, None),
    "a CDI annotation, sealed": (main(env=[SEALED]), INJECTED, None),
    "the operator's CDI annotation": (main(env=[SEALED]), OPERATORS, None),
    "NVIDIA's runtime": ({**main(env=[SEALED]), "runtimeClassName": "nvidia"}, {}, None),
    "a daemon with a GPU": (main(**limit("nvidia.com/gpu")), {}, DAEMON_SETS),
    "a daemon with the variable": (main(**env("all")), {}, DAEMON_SETS),
    "a daemon with the variable through envFrom": (main(**FROM_MAP), {}, DAEMON_SETS),
    "a daemon with the device list": (mounting("/var/run/nvidia-container-devices/all"), {}, DAEMON_SETS),
    "a daemon with a CDI annotation": (main(), INJECTED, DAEMON_SETS),
    "a daemon with NVIDIA's runtime": ({**main(), "runtimeClassName": "nvidia-cdi"}, {}, DAEMON_SETS),
    "a pod that only says it is a daemon": (main(), {}, User("mallory")),
    # past the scheduler
    "a pod made by another controller": (
        main(),
        {},
        User("system:serviceaccount:kube-system:replicaset-controller"),
    ),
    "the variable from a Secret": (
        main(**env(None, valueFrom={"secretKeyRef": {"name": "mine", "key": "gpus"}})),
        {},
        None,
    ),
    "the variable from a ConfigMap": (
        main(**env(None, valueFrom={"configMapKeyRef": {"name": "mine", "key": "gpus"}})),
        {},
        None,
    ),
    "the image of a sidecar": (
        {**main(env=[SEALED]), "initContainers": [{**SECOND, "restartPolicy": "Always"}]},
        {},
        None,
    ),
    "envFrom in an init container": ({**main(env=[SEALED]), "initContainers": [{**SECOND, **FROM_MAP}]}, {}, None),
    "everything by an empty key": ({**main(), "tolerations": [{"key": "", "operator": "Exists"}]}, {}, None),
    "a claim by its own name": ({**main(), "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]}, {}, None),
    "NVIDIA's older runtime": ({**main(env=[SEALED]), "runtimeClassName": "nvidia-legacy"}, {}, None),
    "the device list in an init container": (
        {
            **mounting("/var/run/nvidia-container-devices/all"),
            "containers": [{"name": "main", "env": [SEALED]}],
            "initContainers": [{"name": "first", **mount("/var/run/nvidia-container-devices/all")}],
        },
        {},
        None,
    ),
    "a CDI annotation for one container": (
        main(env=[SEALED]),
        {"nvidia.cdi.k8s.io/container.main": "nvidia.com/gpu=0"},
        None,
    ),
    "a daemon with a claim": ({**main(), "resourceClaims": CLAIMS}, {}, DAEMON_SETS),
    "a daemon with a shared GPU": (main(**limit("nvidia.com/gpu.shared")), {}, DAEMON_SETS),
    "a daemon with the variable in a sidecar": (
        {**main(), "initContainers": [{**SECOND, **env("all"), "restartPolicy": "Always"}]},
        {},
        DAEMON_SETS,
    ),
    "a pod that says it is the kubelet's": (
        {**without_tolerations(main()), "nodeName": "vision-node"},
        {"kubernetes.io/config.mirror": "0"},
        None,
    ),
    "a GPU on the node itself": ({**without_tolerations(asking()), "nodeName": "vision-node"}, {}, None),
    "the image on the node itself": ({**without_tolerations(main()), "nodeName": "vision-node"}, {}, None),
    "envFrom on the node itself": ({**without_tolerations(main(**FROM_MAP)), "nodeName": "vision-node"}, {}, None),
    "a CDI annotation on the node itself": ({**without_tolerations(main()), "nodeName": "vision-node"}, INJECTED, None),
    "a sealed pod on the node itself": ({**main(env=[SEALED]), "nodeName": "vision-node"}, {}, None),
    "a daemon on the node itself": ({**main(), "nodeName": "vision-node"}, {}, DAEMON_SETS),
}

LET_THROUGH: Mapping[str, tuple[dict[str, Any], Mapping[str, str], User | None]] = {
    "a pod that tolerates nothing": (without_tolerations(main()), {}, None),
    "a GPU elsewhere": (
        {**asking(), "tolerations": [each for each in asking()["tolerations"] if each["key"] != "gpupools/trust"]},
        {},
        None,
    ),
    "a CDI annotation elsewhere": (without_tolerations(main()), INJECTED, None),
    "another team's taint": (by_key(value="language"), {}, None),
    "everything with effect NoExecute": (
        {**main(), "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        {},
        None,
    ),
    "everything, sealed": (main(env=[SEALED]), {}, None),
    "everything, sealed against envFrom": (main(env=[SEALED], **FROM_MAP), {}, None),
    "a daemon": (main(), {}, DAEMON_SETS),
    "a daemon, sealed against envFrom": (main(env=[SEALED], **FROM_MAP), {}, DAEMON_SETS),
    "a privileged daemon of the host": (
        {**main(securityContext={"privileged": True}), "hostPID": True, "hostNetwork": True},
        {},
        DAEMON_SETS,
    ),
    "the taint's key with effect NoExecute": (by_key(operator="Exists", effect="NoExecute"), {}, None),
    "everything, sealed in every container": (
        {**main(env=[SEALED]), "initContainers": [{**SECOND, "env": [SEALED]}]},
        {},
        None,
    ),
    "a claim elsewhere": ({**without_tolerations(main()), "resourceClaims": CLAIMS}, {}, None),
    "NVIDIA's runtime elsewhere": ({**without_tolerations(main()), "runtimeClassName": "nvidia"}, {}, None),
    "the variable elsewhere": (without_tolerations(main(**env("all"))), {}, None),
    "a daemon with init containers": ({**main(), "initContainers": [SECOND]}, {}, DAEMON_SETS),
    "a daemon that tolerates NoSchedule": (
        {**main(), "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]},
        {},
        DAEMON_SETS,
    ),
    "a daemon that tolerates nothing": (without_tolerations(main()), {}, DAEMON_SETS),
    "another node itself": ({**without_tolerations(main()), "nodeName": "other-node"}, {}, None),
    "a kubelet's own pod": (
        {**without_tolerations(main()), "nodeName": "vision-node"},
        {},
        User("system:node:vision-node", "system:nodes"),
    ),
}


def attempt(
    name: str, space: str, spec: Mapping[str, Any], notes: Mapping[str, str], by: User | None
) -> dict[str, Any]:
    made = pod(name, space, spec)
    made["metadata"]["annotations"] = dict(notes)
    if by is not None and by.name.startswith(
        "system:node:"
    ):  # https://kubernetes.io/docs/concepts/workloads/pods/#static-pods
        made["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "0"
    elif by is not None:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "mine", "uid": "0", "controller": True}
        made["metadata"]["ownerReferences"] = [owner]
    return made


def test_every_known_way_to_a_foreign_gpu_is_tried() -> None:
    assert len(KEPT_OFF) + len(LET_THROUGH) >= 75
    assert len({repr(each) for each in KEPT_OFF.values()}) == len(KEPT_OFF)


@pytest.mark.parametrize("tried", KEPT_OFF)
def test_a_foreign_namespaces_pod_is_kept_off(tried: str, guarded: ControlPlane) -> None:
    spec, notes, by = KEPT_OFF[tried]
    answer = guarded.create(attempt("intruder", "foreign", spec, notes, by), dry_run=True, by=by)

    assert answer.status == 403, answer
    assert "shares GPUs within" in answer.message


@pytest.mark.parametrize("tried", LET_THROUGH)
def test_a_foreign_namespaces_pod_that_goes_elsewhere_or_sees_no_gpu_is_let_through(
    tried: str, guarded: ControlPlane
) -> None:
    spec, notes, by = LET_THROUGH[tried]

    guarded.create(attempt("visitor", "foreign", spec, notes, by), dry_run=True, by=by).succeeded()


@pytest.mark.parametrize(("trust", "who"), [("vision", "team vision"), ("speech", "namespaces speech")])
def test_a_refusal_names_the_pool_and_whom_it_trusts(trust: str, who: str, guarded: ControlPlane) -> None:
    asked = guarded.create(pod("intruder", "foreign", asking(trust)), dry_run=True)
    named = guarded.create(
        pod("intruder", "foreign", {**without_tolerations(main()), "nodeName": f"{trust}-node"}), dry_run=True
    )

    assert f"pool {trust}-pool shares GPUs within {who}; take another pool" in asked.message
    assert f"a node of pool {trust}-pool, which shares GPUs within {who}; leave the node" in named.message


# What names this pool alone; all else tolerates the other pool's taint too, where the team is foreign.
OURS = [
    tried
    for tried, (spec, _, _) in KEPT_OFF.items()
    if all(
        each.get("key") and (each["key"], each.get("operator")) != ("gpupools/trust", "Exists")
        for each in spec.get("tolerations", ())
    )
]


@pytest.mark.parametrize("tried", OURS)
def test_the_trusted_team_is_let_in(tried: str, guarded: ControlPlane) -> None:
    spec, notes, by = KEPT_OFF[tried]

    assert len(OURS) > 5
    guarded.create(attempt("member", "ml", spec, notes, by), dry_run=True, by=by).succeeded()


@pytest.mark.parametrize("space", ["kube-system", "nvidia-device-plugin", "calico-system"])
@pytest.mark.parametrize("tried", KEPT_OFF)
def test_the_clusters_software_is_let_in(space: str, tried: str, guarded: ControlPlane) -> None:
    guarded.apply(namespace(space)).succeeded()
    spec, notes, by = KEPT_OFF[tried]

    guarded.create(attempt("member", space, spec, notes, by), dry_run=True, by=by).succeeded()


def test_a_named_namespace_is_let_in(guarded: ControlPlane) -> None:
    guarded.create(pod("member", "speech", asking("speech")), dry_run=True).succeeded()


@pytest.fixture(scope="module")
def daemon(guarded: ControlPlane) -> dict[str, Any]:
    """Run a daemon of a foreign namespace on the pool's node, bound by the scheduler's name."""
    running = attempt(
        "daemon", "foreign", {**main(image="registry.example/agent:1"), "schedulerName": "by-hand"}, {}, DAEMON_SETS
    )
    guarded.create(running, by=DAEMON_SETS).succeeded()
    guarded.bind(running, "vision-node", by=User("system:kube-scheduler")).succeeded()
    return running


def ephemeral(**keys: Any) -> dict[str, Any]:
    return {"spec": {"ephemeralContainers": [{"name": "debug", "image": "registry.example/debug:1", **keys}]}}


@pytest.mark.parametrize(
    ("part", "change"),
    {
        "a debug container with the image's variable": ("/ephemeralcontainers", ephemeral()),
        "a debug container with the variable": ("/ephemeralcontainers", ephemeral(**env("all"))),
        "a debug container with envFrom": ("/ephemeralcontainers", ephemeral(**FROM_MAP)),
        "a privileged debug container": (
            "/ephemeralcontainers",
            ephemeral(env=[SEALED], securityContext={"privileged": True}),
        ),
        "another image": ("", {"spec": {"containers": [{"name": "main", "image": "registry.example/cuda:1"}]}}),
        "a CDI annotation": ("", {"metadata": {"annotations": INJECTED}}),
    }.values(),
    ids=lambda value: value.strip("/") or "pod" if isinstance(value, str) else "",
)
def test_a_daemon_that_is_there_brings_nobody_a_gpu(
    part: str, change: Mapping[str, Any], daemon: Mapping[str, Any], guarded: ControlPlane
) -> None:
    answer = guarded.merge(daemon, change, part)

    assert answer.status == 403, answer
    # What tolerates everything meets the policies of both teams, and the server names one of them.
    assert "shares GPUs within" in answer.message


def test_a_daemon_that_is_there_may_change_its_labels_and_be_debugged_without_gpus(
    daemon: Mapping[str, Any], guarded: ControlPlane
) -> None:
    guarded.merge(daemon, {"metadata": {"labels": {"a": "b"}, "annotations": {"mine": "x"}}}).succeeded()
    guarded.merge(daemon, ephemeral(env=[SEALED]), "/ephemeralcontainers").succeeded()


def test_debug_containers_and_images_elsewhere_are_nobodys_business(guarded: ControlPlane) -> None:
    running = pod("elsewhere", "foreign", without_tolerations(main(image="registry.example/agent:1")))
    guarded.create({**running, "spec": {**running["spec"], "nodeName": "other-node"}}).succeeded()

    guarded.merge(running, ephemeral(), "/ephemeralcontainers").succeeded()
    guarded.merge(running, {"spec": {"containers": [{"name": "main", "image": "registry.example/cuda:1"}]}}).succeeded()


def test_only_a_scheduler_binds_a_foreign_pod_to_the_pools_node(guarded: ControlPlane) -> None:
    waiting = pod("waiting", "foreign", {**without_tolerations(main()), "schedulerName": "mine"})
    guarded.create(waiting).succeeded()
    mallory, theirs = User("mallory"), User("system:serviceaccount:foreign:scheduler")
    old = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "waiting", "namespace": "foreign"}}
    old["target"] = {"apiVersion": "v1", "kind": "Node", "name": "vision-node"}

    assert [guarded.bind(waiting, "vision-node", dry_run=True, by=each).status for each in (mallory, theirs)] == [
        403,
        403,
    ]
    assert guarded.create(old, dry_run=True, by=mallory).status == 403
    guarded.bind(waiting, "other-node", dry_run=True, by=mallory).succeeded()
    guarded.bind(
        waiting, "vision-node", dry_run=True, by=User("system:serviceaccount:kube-system:gke-scheduler")
    ).succeeded()


def test_a_running_foreign_pod_cannot_add_the_toleration_but_may_change_its_labels(guarded: ControlPlane) -> None:
    running = pod("running", "foreign", without_tolerations(asking()))
    guarded.create(running).succeeded()
    labelled = guarded.merge(running, {"metadata": {"labels": {"a": "b"}}})
    there = guarded.get(running).succeeded()["spec"]["tolerations"]  # may not be taken away
    more = (asking()["tolerations"], EVERYTHING)
    added = [guarded.merge(running, {"spec": {"tolerations": [*there, *each]}}) for each in more]

    assert labelled.status == 200, labelled.message
    assert [each.status for each in added] == [403, 403]


def test_a_teams_own_plugin_is_let_in_by_the_namespace_in_its_name(server: ControlPlane) -> None:
    """Without the namespace it would be kept off, and the team had no GPU: such a name is refused with a policy."""
    pool = {"gpu": "T4", "software": "device-plugin", "sharing": {"mode": "time-slicing", "replicas": 4}}
    runtime = {"trust_policy": True, "metrics": False, "existing": {"dcgm_exporter": "their-metrics/exporter"}}
    stack = stack_of("aws", {"own": {**pool, "trust": {"team": "robots"}}}, runtime)
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    # This pool's taint alone: of several policies the server names any one.
    exporting = {**by_key(value="robots"), "containers": [{"name": "main", **env("all")}]}
    named, other = (attempt("exporter", each, exporting, {}, DAEMON_SETS) for each in ("their-metrics", "elsewhere"))
    for each in (named, other):
        server.apply(namespace(each["metadata"]["namespace"])).succeeded()
    guards = [each.manifest for each in made.objects if each.kind.startswith("ValidatingAdmissionPolicy")]
    for guard in guards:
        server.apply(guard).succeeded()
    try:
        server.wait("policy", lambda: "own shares GPUs" in server.create(other, dry_run=True, by=DAEMON_SETS).message)
        kept = server.create(named, dry_run=True, by=DAEMON_SETS).message
    finally:
        for guard in reversed(guards):
            server.delete(guard).succeeded()
        server.wait("end", lambda: "own shares" not in server.create(other, dry_run=True, by=DAEMON_SETS).message)

    assert "own shares GPUs" not in kept


MALLORY = User("mallory", "people")
"""May edit the namespace `foreign`, by what Kubernetes' role `edit` is made of, and nothing else."""


@pytest.fixture(scope="module")
def ruled(guarded: ControlPlane) -> ControlPlane:
    """Give a user what a team has in its own namespace."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "editors", "namespace": "foreign"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:aggregate-to-edit"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": MALLORY.name}],
    }
    guarded.apply(binding).succeeded()
    mine = pod("mine", "foreign", without_tolerations(main()))
    guarded.wait("rights", lambda: guarded.create(mine, dry_run=True, by=MALLORY).status < 300)
    return guarded


def test_who_edits_a_foreign_namespace_cannot_move_the_fence(ruled: ControlPlane) -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "gpupools-trust-vision"},
    }
    bound = {**policy, "kind": "ValidatingAdmissionPolicyBinding"}
    vision = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "vision-node"}}
    trusted = {"metadata": {"labels": {"gpupools/trust": "vision"}}}
    tried = {
        "label its namespace": ruled.merge(namespace("foreign"), trusted, by=MALLORY),
        "make a trusted namespace": ruled.create(namespace("mine", {"gpupools/trust": "vision"}), by=MALLORY),
        "use the team's namespace": ruled.create(pod("intruder", "ml", asking()), dry_run=True, by=MALLORY),
        "use a namespace of the system": ruled.create(pod("intruder", "kube-system", asking()), by=MALLORY),
        "delete the policy": ruled.delete(policy, by=MALLORY),
        "delete its binding": ruled.delete(bound, by=MALLORY),
        "take the taint away": ruled.merge(vision, {"spec": {"taints": []}}, by=MALLORY),
        "label a node of its own": ruled.merge(
            vision, {"metadata": {"labels": {"gpupools/trust": "mine"}}}, by=MALLORY
        ),
        "bind its pod": ruled.bind(pod("waiting", "foreign", main()), "vision-node", dry_run=True, by=MALLORY),
    }

    assert {name: answer.status for name, answer in tried.items() if answer.status != 403} == {}


def test_daemons_of_namespaces_that_are_not_named_are_kept_off_where_some_are(server: ControlPlane) -> None:
    pool = {"gpu": "T4", "software": "device-plugin", "sharing": {"mode": "time-slicing", "replicas": 4}}
    runtime = {"trust_policy": True, "system_namespaces": ["agents"]}
    stack = stack_of("aws", {"named": {**pool, "trust": {"team": "audio"}}}, runtime)
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())
    for space in ("agents", "others"):
        server.apply(namespace(space)).succeeded()
    guards = [each.manifest for each in made.objects if each.kind.startswith("ValidatingAdmissionPolicy")]
    for each in guards:
        server.apply(each).succeeded()
    try:
        named, other, sealed = (
            attempt("daemon", space, main(**keys), {}, DAEMON_SETS)
            for space, keys in (("agents", {}), ("others", {}), ("others", {"env": [SEALED]}))
        )
        server.wait("admission policy", lambda: server.create(other, dry_run=True, by=DAEMON_SETS).status == 403)

        server.create(named, dry_run=True, by=DAEMON_SETS).succeeded()
        server.create(sealed, dry_run=True, by=DAEMON_SETS).succeeded()
    finally:  # this one stands above every namespace of the tests that follow
        for each in reversed(guards):
            server.delete(each).succeeded()
        server.wait("end of the policy", lambda: server.create(other, dry_run=True, by=DAEMON_SETS).status < 300)


def test_an_expression_that_does_not_compile_would_have_been_seen(server: ControlPlane) -> None:
    made = planned("aws", "device-plugin", "vision")
    policy, _ = (each.manifest for each in made.objects if each.kind == "ValidatingAdmissionPolicy")
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
    return bare_node(plan.name, labels, taints, plan.node_resources)


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
    server.apply(namespace("users", {"gpupools/trust": "vision"})).succeeded()
    for each in (*map(node, pools), bare_node("cpu", {"kubernetes.io/hostname": "cpu"}, [], {})):
        server.create(each).succeeded()
    return server


def placed(server: ControlPlane, wanted: Mapping[str, Any]) -> str:
    return str(server.get(wanted).body.get("spec", {}).get("nodeName", ""))


def unschedulable(server: ControlPlane, wanted: Mapping[str, Any]) -> str:
    conditions = server.get(wanted).body.get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")


def test_every_pools_snippet_lands_on_its_own_nodes(nodes: ControlPlane, pools: list[PoolPlan]) -> None:
    """Those of HAMi name its own scheduler, which `test_hami` runs."""
    usual = [plan for plan in pools if not plan.claim_template and plan.software != "hami"]
    wanted = [pod(f"user-{plan.name}", "users", plan.pod()) for plan in usual]
    for each in wanted:
        nodes.create(each).succeeded()
    nodes.wait("binding of all pods", lambda: all(placed(nodes, each) for each in wanted))

    assert len(wanted) > 30
    where = {each["metadata"]["name"]: placed(nodes, each) for each in wanted}
    assert where == {f"user-{plan.name}": plan.name for plan in usual}


def test_pods_without_gpus_stay_off_the_pools(nodes: ControlPlane) -> None:
    small = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]}
    large = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "7"}}}]}
    wanted = [pod(f"cpu-{number}", "users", small) for number in range(12)]
    pending = pod("cpu-large", "users", large)  # only a GPU node would have the room
    for each in (*wanted, pending):
        nodes.create(each).succeeded()
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
    nodes.create(wanted).succeeded()
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
        nodes.create(each).succeeded()
    template = deepcopy(dict(plan.claim_template))
    template["metadata"]["namespace"] = "users"
    nodes.create(template).succeeded()
    first, second = (pod(f"claims-{number}", "users", plan.pod()) for number in range(2))
    for wanted in (first, second):
        made = nodes.create(wanted).succeeded()
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
    server.create({**claim, "spec": template["spec"]["spec"]}).succeeded()
    (asked,) = wanted["spec"]["resourceClaims"]
    statuses = [{"name": asked["name"], "resourceClaimName": f"{name}-gpu"}]
    server.merge(wanted, {"status": {"resourceClaimStatuses": statuses}}, "/status").succeeded()
