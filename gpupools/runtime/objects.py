"""The Kubernetes objects a plan declares beside its Helm releases, in wire form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from gpupools.asked.runtime_spec import Trust
from gpupools.asked.spec import has_control_daemon
from gpupools.base.csv_rows import data_rows
from gpupools.planned.configs import (
    DEFAULT_CONFIG,
    Flags,
    PluginConfig,
    PluginSharing,
    content_name,
    mig_config,
    mig_configs,
    plugin_config,
    plugin_config_name,
)
from gpupools.planned.dra import CLAIM_QUOTA, claim_template
from gpupools.planned.labels import TRUST_LABEL
from gpupools.planned.node_resources import GPU_RESOURCE
from gpupools.planned.plan import POOL_LABEL, PoolPlan
from gpupools.planned.runtime_plan import KubernetesObject
from gpupools.runtime.images import PUBLIC, Pulls

MANAGED_BY = {"app.kubernetes.io/managed-by": "gpupools"}

SMOKE_NAMESPACE = "gpupools-smoke-test"

SMOKE_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"
"""Adds two vectors on a GPU (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html)."""


SECURITY_NOTE = "gpupools/security"
"""Annotation that says why an object has more rights than the `restricted` level of Pod Security."""

RESTRICTED: Mapping[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_UNPRIVILEGED: Mapping[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
NOBODY: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "runAsGroup": 65534,
    **_UNPRIVILEGED,
}
"""What the `restricted` level asks for
(https://kubernetes.io/docs/concepts/security/pod-security-standards/)."""


def namespace(name: str) -> KubernetesObject:
    """Declare a namespace in which privileged pods may run: drivers and plugins need the host."""
    why = "holds pods that need the host, which a cluster with baseline pod security otherwise refuses"
    return _namespace(name, "privileged", why, f"privileged: {why}")


def _namespace(name: str, level: str, why: str, note: str = "") -> KubernetesObject:
    """Declare a namespace at a level of pod security: https://kubernetes.io/docs/concepts/security/pod-security-admission/."""
    levels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")}
    notes = {"annotations": {SECURITY_NOTE: note}} if note else {}
    metadata = {"name": name, "labels": {**MANAGED_BY, **levels}, **notes}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    return KubernetesObject(name=f"namespace/{name}", manifest=manifest, why=why)


def critical_pods_quota(space: str, pods: int, why: str) -> KubernetesObject:
    """Admit system-critical pods to a namespace of a cluster that otherwise refuses them outside kube-system."""
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
            "metadata": {"name": "gpupools-critical-pods", "namespace": space, "labels": dict(MANAGED_BY)},
            "spec": {"hard": {"pods": str(pods)}, "scopeSelector": {"matchExpressions": [scope]}},
        },
        why=why,
    )


def config_map(step: str, space: str, base: str, data: Mapping[str, str], why: str) -> KubernetesObject:
    """Declare a ConfigMap whose name changes with its content."""
    metadata = {"name": content_name(base, data), "namespace": space, "labels": dict(MANAGED_BY)}
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
    metadata = {"name": _plugin_configs(), "namespace": space, "labels": dict(MANAGED_BY)}
    return KubernetesObject(
        name=f"config/{space}/device-plugin",
        manifest={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {DEFAULT_CONFIG: PluginConfig().text(), **data},
        },
        why="one entry per distinct way of sharing; a node's label picks its own",
    )


# An entry's name says all that stands in it, and the config-manager beside each plugin reads entries anew when its
# node names another one. So one more entry starts nothing anew, and the ConfigMap has another name only once this
# release writes the same needs otherwise, which these stand for.
@cache
def _plugin_configs() -> str:
    return content_name(
        "gpupools-device-plugin",
        {
            mode: PluginConfig(
                flags=Flags(migStrategy="mixed"),
                sharing=PluginSharing.model_validate({mode: {"resources": [{"name": GPU_RESOURCE, "replicas": 2}]}}),
            ).text()
            for mode in PluginSharing.model_fields
        },
    )


def mig_layouts(space: str, pools: Iterable[PoolPlan]) -> KubernetesObject | None:
    """Declare the MIG manager's layouts for the pools it cuts; None when it cuts none."""
    layouts = [mig_config(pool.instance, pool.sharing.mig) for pool in pools if pool.sharing.mig is not None]
    if not layouts:
        return None
    # The operator takes the key of this name only: NVIDIA/gpu-operator deployments/gpu-operator/values.yaml.
    data = {"config.yaml": yaml.safe_dump(mig_configs(layouts), sort_keys=False)}
    why = "one layout per pool that is cut; a node's label picks its own"
    return config_map(f"config/{space}/mig", space, "gpupools-mig", data, why)


def metrics_csv() -> str:
    """Write the metrics the DCGM exporter offers, in its own format: field, type, help."""
    return "".join(f"{row['field']}, {row['type']}, {row['help']}\n" for row in data_rows("dcgm_metrics.csv"))


def metrics_mark() -> str:
    """Return what changes when the list of metrics does."""
    return content_name("metrics", {"dcgm-metrics.csv": metrics_csv()})


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
            "metadata": {"name": "nvidia", "labels": dict(MANAGED_BY)},
            "handler": handler,
        },
        why="pods that write runtimeClassName: nvidia start; nothing else on these nodes declares the class",
    )


# https://github.com/NVIDIA/nvidia-container-toolkit/pull/1326
_WRITABLE = "The root file system is writable: NVIDIA's container toolkit updates /etc/ld.so.cache in it."
# https://docs.nvidia.com/deploy/mps/index.html, "Limitations"
_AS_ROOT = "It runs as root: the MPS daemon serves clients of one user at a time, which is the one of most images."


def smoke_test(pool: PoolPlan, pulls: Pulls = PUBLIC) -> KubernetesObject:
    """Declare a Job that adds two vectors on one unit of a pool; a changed pool gets a Job of a new name.

    Where nodes may come long after the update, nothing waits for the Job: it runs when they do.
    """
    late = pool.choices.nodes_come_late()
    pod, as_root = pool.pod(gpu_only=True), has_control_daemon(pool.sharing_kind)
    (asked,) = pod["containers"]
    container = {
        **asked,
        "name": "vectoradd",
        "image": pulls.reference(SMOKE_IMAGE),
        "resources": {
            key: {name: str(count) for name, count in asks.items()} if key == "limits" else asks
            for key, asks in asked["resources"].items()
        },
        "securityContext": dict(RESTRICTED),
    }
    spec = {
        "backoffLimit": 2,
        # A node from zero takes up to this long: machine, driver, plugin, image. The time a pod is pending counts.
        **({} if late else {"activeDeadlineSeconds": 1800}),
        "template": {
            "metadata": {
                "labels": {"app.kubernetes.io/name": "gpupools-smoke-test", POOL_LABEL: pool.name},
                "annotations": {SECURITY_NOTE: " ".join((_WRITABLE, *((_AS_ROOT,) if as_root else ())))},
            },
            "spec": {
                **pod,
                **pulls.pod(),
                "automountServiceAccountToken": False,
                "securityContext": dict(_UNPRIVILEGED if as_root else NOBODY),
                "restartPolicy": "Never",
                "containers": [container],
            },
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
                "labels": {**MANAGED_BY, POOL_LABEL: pool.name},
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
    manifest["metadata"]["labels"] = {**MANAGED_BY, POOL_LABEL: pool.name}
    why = "what the smoke test claims its GPU by"
    return [KubernetesObject(name=f"smoke-claim/{pool.name}", manifest=manifest, why=why)]


def smoke_namespace(pools: Iterable[PoolPlan]) -> KubernetesObject:
    """Declare the namespace of the smoke tests, whose pods need nothing of the host but, on some nodes, its driver."""
    pools = tuple(pools)
    mounting = ", ".join(pool.name for pool in pools if pool.driver_mount is not None)
    as_root = ", ".join(pool.name for pool in pools if has_control_daemon(pool.sharing_kind))
    why = "holds the smoke tests apart from everything else"
    if mounting:  # every lower level forbids hostPath
        note = f"privileged: pods of {mounting} mount the driver from the host, for reading"
        return _namespace(SMOKE_NAMESPACE, "privileged", why, note)
    if as_root:
        note = f"baseline: pods of {as_root} run as root, since an MPS daemon serves clients of one user at a time"
        return _namespace(SMOKE_NAMESPACE, "baseline", why, note)
    return _namespace(SMOKE_NAMESPACE, "restricted", why)


# --- trust ------------------------------------------------------------------------------------------------------------

SYSTEM_NAMESPACES = ("calico-system", "kube-system", "tigera-operator")
"""Namespaces of a cluster's own software, which must reach every node: Calico's operator and Typha tolerate everything
(https://github.com/tigera/operator, manifests; AKS installs both with network policy `calico`)."""


def _part(name: str) -> str:
    """Write the CEL that says whether a request is for this part of a pod; the key is missing where it is for all."""
    return f"(has(request.subResource) && request.subResource == '{name}')"


_CONTAINERS = (
    f"{_part('ephemeralcontainers')}"
    " ? (has(object.spec.ephemeralContainers) ? dyn(object.spec.ephemeralContainers) : [])"
    " : dyn(object.spec.containers) + (has(object.spec.initContainers) ? dyn(object.spec.initContainers) : [])"
)
"""CEL: the containers to judge; those of a pod that is there are no news when a debug container joins them."""

_ASKS = (
    "variables.containers.exists(c, "
    # The second is how a device class stands for a resource: https://kubernetes.io/docs/concepts/scheduling-eviction/
    # dynamic-resource-allocation/#extended-resource.
    "(has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(r, "
    "r.startsWith('nvidia.com/') || r.startsWith('deviceclass.resource.kubernetes.io/')))"
    " || (has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES' && !(has(e.value) && e.value == 'void')))"
    # However it is spelled: the toolkit cleans the path before it looks.
    " || (has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.contains('nvidia-container-devices'))))"
    " || (has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0)"
    " || (has(object.spec.runtimeClassName) && object.spec.runtimeClassName.startsWith('nvidia'))"
    # The GPU Operator's prefix is nvidia.cdi.k8s.io/.
    " || (has(object.metadata.annotations) && object.metadata.annotations.exists(a, a.contains('cdi.k8s.io/')))"
)
"""CEL: the pod asks for a GPU: of the scheduler, by a claim, or behind its back, in one of the ways of NVIDIA's toolkit
(https://github.com/NVIDIA/nvidia-container-toolkit, internal/config/image and api/config/v1)."""

_SEALED = (
    "!variables.asks && variables.containers.all(c, "
    "has(c.env) && c.env.exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES')"
    " && !(has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged))"
)
"""CEL: no container sees a GPU, whatever its image or `envFrom` sets: `env` stands above both, and `void` is none."""

_DAEMON = (
    "request.operation == 'CREATE' && request.userInfo.username in"
    " ['system:serviceaccount:kube-system:daemon-set-controller', 'system:kube-controller-manager']"
    " && has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, o.kind == 'DaemonSet')"
)
"""CEL: Kubernetes' own controller makes the pod for a DaemonSet. A user may write such an owner, but not be it."""

_NEWLY_INJECTED = (
    "has(object.metadata.annotations) && object.metadata.annotations.exists(a, a.contains('cdi.k8s.io/') && "
    "!(has(oldObject.metadata.annotations) && a in oldObject.metadata.annotations && "
    "oldObject.metadata.annotations[a] == object.metadata.annotations[a]))"
)
"""CEL: an update adds or changes an annotation by which a container runtime injects devices."""

_OTHER_IMAGES = (
    "object.spec.containers.map(c, c.image) != oldObject.spec.containers.map(c, c.image)"
    " || (has(object.spec.initContainers) && "
    "object.spec.initContainers.map(c, c.image) != oldObject.spec.initContainers.map(c, c.image))"
)
"""CEL: an update changes an image, the one thing of a container that may change; names and number stay."""

_CEL_VARIABLES = {"containers": _CONTAINERS, "asks": _ASKS, "sealed": _SEALED}


def _tolerates(mark: str, *, by_name: bool) -> str:
    """Write the CEL that says whether a pod tolerates the taint of a pool with this mark, by its key or at all."""
    named = f"(has(t.key) && t.key == '{TRUST_LABEL}')"
    key = named if by_name else f"(!has(t.key) || t.key == '' || {named})"
    any_value = "(has(t.operator) && !(t.operator in ['', 'Equal']))"
    value = f"({any_value} || (has(t.value) && t.value == '{mark}'))"
    effect = "(!has(t.effect) || t.effect == '' || t.effect == 'NoSchedule')"
    return f"has(object.spec.tolerations) && object.spec.tolerations.exists(t, {key} && {value} && {effect})"


def trust_objects(
    pools: Iterable[PoolPlan], own: Iterable[str], system: Sequence[str] | None = None
) -> list[KubernetesObject]:
    """Declare what keeps pods of other namespaces off pools that name whom they trust.

    The pool's taint keeps away who does not know it. A first policy denies its toleration to everyone outside, and the
    toleration of everything to all but daemons that ask for no GPU and pods whose containers are sealed against GPUs. A
    second one, with the pool's nodes as its parameters, denies what passes the scheduler: a node named by hand, a
    binding by anyone but a scheduler, and a debug container, another image or an injected device in a daemon that is
    there. They see no variable that the image of a daemon sets. Whoever may label namespaces stands above them. Pools
    with one mark share the policies.
    https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/

    Args:
        pools: The cluster's pools.
        own: Namespaces of software that must reach every node.
        system: More of these, besides `SYSTEM_NAMESPACES`; None: daemons of every namespace are let through.
    """
    marked: dict[str, tuple[Trust, list[str]]] = {}
    for pool in pools:
        mark = pool.trust.mark(pool.name) if pool.trust is not None else None
        if pool.trust is not None and mark is not None:
            marked.setdefault(mark, (pool.trust, []))[1].append(pool.name)
    inside = sorted({*SYSTEM_NAMESPACES, *own, *(system or ())})
    found: list[KubernetesObject] = []
    for mark, (trust, names) in marked.items():
        who = f"team {trust.team}" if trust.team is not None else f"namespaces {', '.join(trust.namespaces or [])}"
        outside = _outside(trust, inside)
        found += _pod_policy(mark, who, names, outside, daemons=system is None)
        found += _node_policy(mark, who, names, outside, inside)
    return found


def _outside(trust: Trust, inside: Sequence[str]) -> dict[str, Any]:
    trusted = [each for each in trust.namespaces or [] if each not in inside]
    named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*inside, *trusted]}
    team = {"key": TRUST_LABEL, "operator": "NotIn", "values": [trust.team]}
    return {"matchExpressions": [named, *([team] if trust.team is not None else [])]}


def _pod_policy(
    mark: str, who: str, pools: Sequence[str], outside: Mapping[str, Any], *, daemons: bool
) -> list[KubernetesObject]:
    names = ", ".join(sorted(pools))
    message = (
        f"pool {names} shares GPUs within {who}; take another pool, or ask its owner for access; a pod that tolerates "
        "every taint and needs no GPU sets NVIDIA_VISIBLE_DEVICES to void in the env of each container"
    )
    created = "request.operation == 'CREATE'"
    changed = "(has(object.spec.tolerations) && (!has(oldObject.spec.tolerations) || "
    changed += "object.spec.tolerations != oldObject.spec.tolerations))"
    passing = "variables.sealed || (variables.daemon && !variables.asks)" if daemons else "variables.sealed"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_on("pods", "CREATE", "UPDATE")], "namespaceSelector": outside},
        # A pod that was there before and only changes its labels is left alone.
        "matchConditions": [
            {"name": "new-or-newly-tolerating", "expression": f"{created} || {changed} || ({_NEWLY_INJECTED})"}
        ],
        "variables": _variables(
            **_CEL_VARIABLES,
            daemon=_DAEMON,
            tolerates=_tolerates(mark, by_name=False),
            names_the_taint=_tolerates(mark, by_name=True),
        ),
        "validations": [
            {
                "expression": f"!variables.names_the_taint && (!variables.tolerates || {passing})",
                "message": message,
                "reason": "Forbidden",
            }
        ],
    }
    why = f"keeps pods outside {who} off {', '.join(pools)}"
    return _admission(f"trust/{mark}", f"gpupools-trust-{mark}", policy, {}, why)


def _node_policy(
    mark: str, who: str, pools: Sequence[str], outside: Mapping[str, Any], inside: Sequence[str]
) -> list[KubernetesObject]:
    names = ", ".join(sorted(pools))
    binds = f"{_part('binding')} || request.resource.resource == 'bindings'"
    by_scheduler = (
        "request.userInfo.username == 'system:kube-scheduler' || "
        f"{list(inside)}.exists(n, request.userInfo.username.startsWith('system:serviceaccount:' + n + ':'))"
    )
    policy = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "Node"},
        "matchConstraints": {
            "resourceRules": [
                _on("pods", "CREATE", "UPDATE"),
                _on("pods/ephemeralcontainers", "UPDATE"),
                _on("pods/binding", "CREATE"),
                _on("bindings", "CREATE"),
            ],
            "namespaceSelector": outside,
        },
        "variables": _variables(
            binds=binds,
            here=(
                "variables.binds ? object.target.name == params.metadata.name"
                " : has(object.spec.nodeName) && object.spec.nodeName == params.metadata.name"
            ),
            by_a_scheduler=by_scheduler,
            **_CEL_VARIABLES,
            changed=f"{_part('ephemeralcontainers')} || ({_OTHER_IMAGES}) || ({_NEWLY_INJECTED})",
        ),
        "validations": [
            {
                # A kubelet tells of the pods its own files start, with the node's name.
                "expression": (
                    "!variables.here || (variables.binds ? variables.by_a_scheduler"
                    " : request.operation == 'CREATE' ? 'system:nodes' in request.userInfo.groups"
                    " : !variables.changed || variables.sealed)"
                ),
                "message": (
                    f"this is a node of pool {names}, which shares GPUs within {who}; leave the node "
                    "to the scheduler, and set NVIDIA_VISIBLE_DEVICES to void in the env of a debug container"
                ),
                "reason": "Forbidden",
            }
        ],
    }
    nodes = {"paramRef": {"selector": {"matchLabels": {TRUST_LABEL: mark}}, "parameterNotFoundAction": "Allow"}}
    why = f"keeps what passes the scheduler off the nodes of {', '.join(pools)}"
    return _admission(f"trust/{mark}/nodes", f"gpupools-trust-{mark}-nodes", policy, nodes, why)


def _on(resource: str, *operations: str) -> dict[str, Any]:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": [resource]}


def _variables(**expressions: str) -> list[dict[str, str]]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


def _admission(
    step: str, name: str, spec: Mapping[str, Any], parameters: Mapping[str, Any], why: str
) -> list[KubernetesObject]:
    metadata = {"name": name, "labels": dict(MANAGED_BY)}
    version = "admissionregistration.k8s.io/v1"
    policy = {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": dict(spec)}
    bound = {"policyName": name, **parameters, "validationActions": ["Deny", "Audit"]}
    binding = {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": bound}
    return [
        KubernetesObject(name=step, manifest=policy, why=why),
        KubernetesObject(name=f"{step}/binding", manifest=binding, why="puts the policy into force"),
    ]


def quota_counts(pool: PoolPlan) -> list[str]:
    """Return what a ResourceQuota counts of the units of a pool: by name, wherever in the cluster they are."""
    if pool.claim_template:
        return [CLAIM_QUOTA]
    return [f"requests.{name}" for name in pool.node_resources if name != GPU_RESOURCE] or [f"requests.{GPU_RESOURCE}"]


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
                "metadata": {"name": f"gpupools-{pool.name}", "namespace": space, "labels": dict(MANAGED_BY)},
                "spec": {"hard": {name: str(trust.quota) for name in counted}},
            }
            why = f"lets pods of {space} have {trust.quota} of {', '.join(counted)} at a time"
            found.append(KubernetesObject(name=f"trust-quota/{pool.name}/{space}", manifest=manifest, why=why))
    return found
