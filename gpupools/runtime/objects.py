"""The Kubernetes objects a plan declares beside its Helm releases, in wire form."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from gpupools.capacity import GPU_RESOURCE
from gpupools.plan import POOL_LABEL, PoolPlan
from gpupools.runtime.configs import (
    DEFAULT_CONFIG,
    PluginConfig,
    content_name,
    mig_config,
    mig_configs,
    plugin_config,
    plugin_config_name,
)
from gpupools.runtime.dra import CLAIM_QUOTA, claim_template
from gpupools.runtime.labels import SOFTWARE_LABEL, TRUST_LABEL
from gpupools.runtime.owners import DRIVER_INSTALLER
from gpupools.runtime.plan import KubernetesObject
from gpupools.runtime.spec import Trust
from gpupools.runtime.tolerations import node_affinity, tolerations_for
from gpupools.spec import Mig

_MANAGED_BY = {"app.kubernetes.io/managed-by": "gpupools"}

SMOKE_NAMESPACE = "gpupools-smoke-test"

SMOKE_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"
"""Adds two vectors on a GPU (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html)."""

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
"""Does nothing, for a DaemonSet whose work is done by its init container."""

_METRICS = Path(__file__).parent.parent / "data" / "dcgm_metrics.csv"


def namespace(name: str) -> KubernetesObject:
    """Declare a namespace in which privileged pods may run: drivers and plugins need the host.

    https://kubernetes.io/docs/concepts/security/pod-security-admission/
    """
    levels = {f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")}
    return KubernetesObject(
        name=f"namespace/{name}",
        manifest={
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {**_MANAGED_BY, **levels}},
        },
        why="holds pods that need the host, which a cluster with baseline pod security otherwise refuses",
    )


def critical_pods_quota(space: str, pods: int) -> KubernetesObject:
    """Admit system-critical pods to a namespace; GKE refuses them outside kube-system without such a quota.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html
    """
    scope = {
        "operator": "In",
        "scopeName": "PriorityClass",
        "values": ["system-node-critical", "system-cluster-critical"],
    }
    return KubernetesObject(
        name=f"quota/{space}",
        manifest={
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "gpupools-critical-pods", "namespace": space, "labels": dict(_MANAGED_BY)},
            "spec": {"hard": {"pods": str(pods)}, "scopeSelector": {"matchExpressions": [scope]}},
        },
        why="GKE admits pods of the system-critical priority classes only where a quota names them",
    )


def config_map(step: str, space: str, base: str, data: Mapping[str, str], why: str) -> KubernetesObject:
    """Declare a ConfigMap whose name changes with its content."""
    metadata = {"name": content_name(base, data), "namespace": space, "labels": dict(_MANAGED_BY)}
    return KubernetesObject(
        name=step,
        manifest={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)},
        why=why,
    )


def plugin_configs(space: str, pools: Iterable[PoolPlan]) -> KubernetesObject | None:
    """Declare the device plugin's configurations for these pools; None when every GPU stays whole."""
    entries = {plugin_config_name(pool.instance, pool.sharing): pool for pool in pools}
    if set(entries) <= {DEFAULT_CONFIG}:
        return None
    data = {name: plugin_config(pool.instance, pool.sharing).text() for name, pool in sorted(entries.items())}
    return config_map(
        f"config/{space}/device-plugin",
        space,
        "gpupools-device-plugin",
        {DEFAULT_CONFIG: PluginConfig().text(), **data},
        "one entry per distinct way of sharing; a node's label picks its own",
    )


def mig_layouts(space: str, pools: Iterable[PoolPlan]) -> KubernetesObject | None:
    """Declare the MIG manager's layouts for the pools it cuts; None when it cuts none."""
    layouts = [mig_config(pool.instance, pool.sharing) for pool in pools if isinstance(pool.sharing, Mig)]
    if not layouts:
        return None
    # The operator takes the key of this name only: NVIDIA/gpu-operator deployments/gpu-operator/values.yaml.
    data = {"config.yaml": yaml.safe_dump(mig_configs(layouts), sort_keys=False)}
    why = "one layout per pool that is cut; a node's label picks its own"
    return config_map(f"config/{space}/mig", space, "gpupools-mig", data, why)


def metrics_csv() -> str:
    """Write the metrics the DCGM exporter offers, in its own format: field, type, help."""
    with _METRICS.open(newline="", encoding="utf-8") as file:
        return "".join(f"{row['field']}, {row['type']}, {row['help']}\n" for row in csv.DictReader(file))


def metrics(space: str) -> KubernetesObject:
    """Declare the list of metrics for the GPU Operator's exporter."""
    why = "what an owner of GPUs needs: use, memory, power, temperature, errors"
    return config_map(f"config/{space}/metrics", space, "gpupools-metrics", {"dcgm-metrics.csv": metrics_csv()}, why)


def runtime_class(handler: str) -> KubernetesObject:
    """Declare the RuntimeClass that many charts name in their pods."""
    return KubernetesObject(
        name="runtime-class/nvidia",
        manifest={
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia", "labels": dict(_MANAGED_BY)},
            "handler": handler,
        },
        why="pods that write runtimeClassName: nvidia start; nothing else on these nodes declares the class",
    )


# Where the installer expects what of the host: https://github.com/GoogleCloudPlatform/container-engine-accelerators,
# nvidia-driver-installer/cos/daemonset-preloaded.yaml at commit f2cf4197a5c3f0f20133be15d5fad8b7453beed5.
INSTALLER_SOURCE = (
    "https://github.com/GoogleCloudPlatform/container-engine-accelerators/blob/"
    "f2cf4197a5c3f0f20133be15d5fad8b7453beed5/nvidia-driver-installer/cos/daemonset-preloaded.yaml"
)
_INSTALLER_MOUNTS = (
    ("nvidia-install-dir-host", "/home/kubernetes/bin/nvidia", "/usr/local/nvidia", "NVIDIA_INSTALL_DIR"),
    ("vulkan-icd-mount", "/home/kubernetes/bin/nvidia/vulkan/icd.d", "/etc/vulkan/icd.d", "VULKAN_ICD_DIR"),
    ("cos-tools", "/var/lib/cos-tools", "/build/cos-tools", "COS_TOOLS_DIR"),
    ("root-mount", "/", "/root", ""),
    ("dev", "/dev", "/dev", ""),
)


def cos_driver_installer(pools: Sequence[PoolPlan]) -> KubernetesObject:
    """Declare Google's driver installer for nodes with Container-Optimized OS on which GKE installs no driver.

    The installer's image is on every node (`cos-nvidia-installer:fixed`, never pulled) and fits the node's version.
    Google's own DaemonSet also cuts GPUs by GKE's partition size, which these pools do not have; that part is left
    out. It waits for GKE's accelerator label, so it never runs on a node without GPU.
    """
    environment = [
        {"name": f"{prefix}_{side}", "value": path}
        for _, host, inside, prefix in _INSTALLER_MOUNTS
        if prefix
        for side, path in (("HOST", host), ("CONTAINER", inside))
    ]
    labels = {"app.kubernetes.io/name": DRIVER_INSTALLER}
    affinity = node_affinity(
        {"key": "cloud.google.com/gke-accelerator", "operator": "Exists"},
        {"key": "cloud.google.com/gke-gpu-driver-version", "operator": "DoesNotExist"},
        {"key": "cloud.google.com/gke-confidential-nodes-instance-type", "operator": "DoesNotExist"},
        {"key": SOFTWARE_LABEL, "operator": "In", "values": sorted({pool.software for pool in pools})},
    )
    installer = {
        "name": "install",
        "image": "cos-nvidia-installer:fixed",
        "imagePullPolicy": "Never",
        # A second installation into a running kernel fails; after a reboot the module is gone and this runs again.
        "command": ["/bin/bash", "-c", "test -e /proc/driver/nvidia/version || exec /cos-gpu-installer install"],
        "env": [*environment, {"name": "ROOT_MOUNT_DIR", "value": "/root"}],
        "resources": {"requests": {"cpu": "150m"}},
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": name, "mountPath": inside} for name, _, inside, _ in _INSTALLER_MOUNTS],
    }
    pod = {
        "priorityClassName": "system-node-critical",
        "hostNetwork": True,
        "hostPID": True,
        "affinity": affinity,
        "tolerations": tolerations_for(pools),
        "initContainers": [installer],
        "containers": [
            {"name": "pause", "image": PAUSE_IMAGE, "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}}}
        ],
        "volumes": [{"name": name, "hostPath": {"path": host}} for name, host, _, _ in _INSTALLER_MOUNTS],
    }
    return KubernetesObject(
        name="driver-installer",
        manifest={
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            # kube-system admits system-critical pods on GKE without a quota.
            "metadata": {"name": DRIVER_INSTALLER, "namespace": "kube-system", "labels": {**_MANAGED_BY, **labels}},
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate"},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        why="brings the driver that fits the node's version of Container-Optimized OS",
        await_ready=False,
    )


def smoke_test(pool: PoolPlan) -> KubernetesObject:
    """Declare a Job that adds two vectors on one unit of a pool; a changed pool gets a Job of a new name.

    Where nodes may come long after the update, nothing waits for the Job: it runs when they do.
    """
    late = pool.settings.nodes_come_late()
    pod = pool.pod()
    (asked,) = pod["containers"]
    container = {
        **asked,
        "name": "vectoradd",
        "image": SMOKE_IMAGE,
        "resources": {
            key: {name: str(count) for name, count in asks.items()} if key == "limits" else asks
            for key, asks in asked["resources"].items()
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "backoffLimit": 2,
        # A node from zero takes up to this long: machine, driver, plugin, image. The time a pod is pending counts.
        **({} if late else {"activeDeadlineSeconds": 1800}),
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/name": "gpupools-smoke-test", POOL_LABEL: pool.name}},
            "spec": {**pod, "restartPolicy": "Never", "containers": [container]},
        },
    }
    base = f"smoke-{pool.name}"
    return KubernetesObject(
        name=f"smoke-test/{pool.name}",
        manifest={
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": content_name(base, {"spec": yaml.safe_dump(spec)}),
                "namespace": SMOKE_NAMESPACE,
                "labels": {**_MANAGED_BY, POOL_LABEL: pool.name},
            },
            "spec": spec,
        },
        why="shows that a pod really gets a GPU of the pool",
        timeout_s=None if late else 1800,
        await_ready=not late,
    )


def smoke_claims(pool: PoolPlan) -> list[KubernetesObject]:
    """Declare what the smoke test of a pool claims its GPU by; nothing where it asks for a resource."""
    if not pool.claim_template:
        return []
    manifest = claim_template(pool.name, SMOKE_NAMESPACE)
    manifest["metadata"]["labels"] = {**_MANAGED_BY, POOL_LABEL: pool.name}
    why = "what the smoke test claims its GPU by"
    return [KubernetesObject(name=f"smoke-claim/{pool.name}", manifest=manifest, why=why)]


def smoke_namespace(pools: Iterable[PoolPlan]) -> KubernetesObject:
    """Declare the namespace of the smoke tests, whose pods need nothing of the host but, on some nodes, its driver."""
    level = "privileged" if any(pool.driver_directory for pool in pools) else "baseline"
    levels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")}
    return KubernetesObject(
        name=f"namespace/{SMOKE_NAMESPACE}",
        manifest={
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": SMOKE_NAMESPACE, "labels": {**_MANAGED_BY, **levels}},
        },
        why="holds the smoke tests apart from everything else",
    )


# --- trust ------------------------------------------------------------------------------------------------------------

_ASKS = (
    "object.spec.containers.exists(c, "
    "(has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(r, r.startsWith('nvidia.com/'))) || "
    "(has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')))"
    " || (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0)"
    " || (has(object.spec.initContainers) && object.spec.initContainers.exists(c, "
    "(has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(r, r.startsWith('nvidia.com/'))) || "
    "(has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES'))))"
)
"""CEL: the pod asks for a GPU, through the scheduler, by a claim, or behind its back."""


def _tolerates(mark: str, *, by_name: bool) -> str:
    """Write the CEL that says whether a pod tolerates the taint of a pool with this mark, by its key or at all."""
    named = f"(has(t.key) && t.key == '{TRUST_LABEL}')"
    key = named if by_name else f"(!has(t.key) || t.key == '' || {named})"
    value = f"((has(t.operator) && t.operator == 'Exists') || (has(t.value) && t.value == '{mark}'))"
    effect = "(!has(t.effect) || t.effect == '' || t.effect == 'NoSchedule')"
    return f"has(object.spec.tolerations) && object.spec.tolerations.exists(t, {key} && {value} && {effect})"


def trust_objects(pools: Iterable[PoolPlan], own: Iterable[str]) -> list[KubernetesObject]:
    """Declare what keeps pods of other namespaces off pools that name whom they trust.

    The pool's taint keeps away who does not know it; the policy denies its toleration to everyone outside, and to pods
    that ask for a GPU also the toleration of everything, which daemons have, and a node named by hand, which passes the
    scheduler and with it the taint. It sees no variable that an image sets. Whoever may label namespaces, or create
    `pods/binding`, stands above it. Pools with one mark share a policy.
    https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/

    Args:
        pools: The cluster's pools.
        own: Namespaces of software that must reach every node.
    """
    marked: dict[str, tuple[Trust, list[str]]] = {}
    for pool in pools:
        mark = pool.trust.mark(pool.name) if pool.trust is not None else None
        if pool.trust is not None and mark is not None:
            marked.setdefault(mark, (pool.trust, []))[1].append(pool.name)
    found: list[KubernetesObject] = []
    for mark, (trust, names) in marked.items():
        found += _policy(mark, trust, names, sorted({"kube-system", *own}))
    return found


def _policy(mark: str, trust: Trust, pools: Sequence[str], own: Sequence[str]) -> list[KubernetesObject]:
    name = f"gpupools-trust-{mark}"
    outside = [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": [*own, *(each for each in trust.namespaces or [] if each not in own)],
        }
    ]
    if trust.team is not None:
        outside.append({"key": TRUST_LABEL, "operator": "NotIn", "values": [trust.team]})
    who = f"team {trust.team}" if trust.team is not None else f"namespaces {', '.join(trust.namespaces or [])}"
    names = ", ".join(sorted(pools))
    message = f"pool {names} shares GPUs within {who}; take another pool, or ask its owner for access"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["pods"]}
    created = "request.operation == 'CREATE'"
    changed = "(has(object.spec.tolerations) && (!has(oldObject.spec.tolerations) || "
    changed += "object.spec.tolerations != oldObject.spec.tolerations))"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": dict(_MANAGED_BY)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": {"matchExpressions": outside}},
            # A pod that was there before and only changes its labels is left alone.
            "matchConditions": [{"name": "new-or-newly-tolerating", "expression": f"{created} || {changed}"}],
            "variables": [
                {"name": "asks", "expression": _ASKS},
                {"name": "tolerates", "expression": _tolerates(mark, by_name=False)},
                {"name": "names_the_taint", "expression": _tolerates(mark, by_name=True)},
                {
                    "name": "names_a_node",
                    "expression": f"{created} && has(object.spec.nodeName) && object.spec.nodeName != ''",
                },
            ],
            "validations": [
                {
                    "expression": (
                        "!(variables.names_the_taint"
                        " || (variables.asks && (variables.tolerates || variables.names_a_node)))"
                    ),
                    "message": message,
                    "reason": "Forbidden",
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": dict(_MANAGED_BY)},
        "spec": {"policyName": name, "validationActions": ["Deny", "Audit"]},
    }
    return [
        KubernetesObject(name=f"trust/{mark}", manifest=policy, why=f"keeps pods outside {who} off {', '.join(pools)}"),
        KubernetesObject(name=f"trust/{mark}/binding", manifest=binding, why="puts the policy into force"),
    ]


def quota_counts(pool: PoolPlan) -> list[str]:
    """Return what a ResourceQuota counts of the units of a pool: by name, wherever in the cluster they are."""
    if pool.claim_template:
        return [CLAIM_QUOTA]
    return [f"requests.{name}" for name in pool.capacity if name != GPU_RESOURCE] or [f"requests.{GPU_RESOURCE}"]


def trust_quotas(pools: Iterable[PoolPlan]) -> list[KubernetesObject]:
    """Declare how much of a pool each trusted namespace may request at a time, where the pool says so."""
    found: list[KubernetesObject] = []
    for pool in pools:
        trust = pool.trust
        if trust is None or trust.quota is None:
            continue
        counted = quota_counts(pool)
        for space in trust.namespaces or []:
            manifest = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": f"gpupools-{pool.name}", "namespace": space, "labels": dict(_MANAGED_BY)},
                "spec": {"hard": {name: str(trust.quota) for name in counted}},
            }
            why = f"lets pods of {space} have {trust.quota} of {', '.join(counted)} at a time"
            found.append(KubernetesObject(name=f"trust-quota/{pool.name}/{space}", manifest=manifest, why=why))
    return found
