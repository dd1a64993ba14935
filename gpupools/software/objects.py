"""The Kubernetes objects a plan declares beside its Helm releases, in wire form."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpupools.common.csv_rows import DATA, data_rows
from gpupools.common.json_types import JsonDict, JsonObject, with_items
from gpupools.common.taints import STARTUP_TAINT
from gpupools.plan.dra import CLAIM_QUOTA, claim_template
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.plugin_configs import (
    DEFAULT_CONFIG,
    content_name,
    mig_config,
    mig_configs,
    plugin_config,
    plugin_config_examples,
    plugin_config_name,
)
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.plan.software_plan import KubernetesObject
from gpupools.software.images import PUBLIC, Pulls
from gpupools.spec.models import has_control_daemon
from gpupools.spec.software_spec import Trust

MANAGED_BY = {"app.kubernetes.io/managed-by": "gpupools"}

SMOKE_NAMESPACE = "gpupools-smoke-test"

SMOKE_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04"
"""Adds two vectors on a GPU (https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html)."""


DCGM_CHART = "dcgm-exporter"

SECURITY_NOTE = "gpupools/security"
"""Annotation that says why an object has more rights than the `restricted` level of Pod Security."""

RESTRICTED: JsonObject = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_UNPRIVILEGED: JsonObject = {"seccompProfile": {"type": "RuntimeDefault"}}
NOBODY: JsonObject = {
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


def restricted_namespace(name: str, why: str) -> KubernetesObject:
    """Declare a namespace whose pods have no rights on the host."""
    return _namespace(name, "restricted", why)


def wire_form(kind: str, name: str, space: str = "", api: str = "v1", pool: str = "", **body: Any) -> JsonDict:
    """Return an object with the labels that all our objects have."""
    labels = {**MANAGED_BY, **({POOL_LABEL: pool} if pool else {})}
    metadata = {"name": name, **({"namespace": space} if space else {}), "labels": labels}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}


def _namespace(name: str, level: str, why: str, note: str = "") -> KubernetesObject:
    """Declare a namespace at a level of pod security: https://kubernetes.io/docs/concepts/security/pod-security-admission/."""
    manifest = wire_form("Namespace", name)
    manifest["metadata"]["labels"] |= {
        f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "audit", "warn")
    }
    if note:
        manifest["metadata"]["annotations"] = {SECURITY_NOTE: note}
    return KubernetesObject(name=f"namespace/{name}", manifest=manifest, why=why)


def critical_pods_quota(space: str, pods: int, why: str) -> KubernetesObject:
    """Admit system-critical pods to a namespace of a cluster that otherwise refuses them outside kube-system."""
    classes = ["system-node-critical", "system-cluster-critical"]
    scope = {"operator": "In", "scopeName": "PriorityClass", "values": classes}
    spec = {"hard": {"pods": str(pods)}, "scopeSelector": {"matchExpressions": [scope]}}
    manifest = wire_form("ResourceQuota", "gpupools-critical-pods", space, spec=spec)
    return KubernetesObject(name=f"quota/{space}", manifest=manifest, why=why)


def config_map(step: str, space: str, base: str, data: Mapping[str, str], why: str) -> KubernetesObject:
    """Declare a ConfigMap whose name changes with its content."""
    manifest = wire_form("ConfigMap", content_name(base, data), space, data=dict(data))
    return KubernetesObject(name=step, manifest=manifest, why=why)


def plugin_configs(space: str, pools: Iterable[PoolPlan]) -> KubernetesObject | None:
    """Declare the device plugin's configurations for these pools; None when every GPU stays whole."""
    entries = {plugin_config_name(pool.instance, pool.sharing): pool for pool in pools}
    if set(entries) <= {DEFAULT_CONFIG}:
        return None
    data = {DEFAULT_CONFIG: plugin_config_examples()[DEFAULT_CONFIG]}
    data |= {name: plugin_config(pool.instance, pool.sharing) for name, pool in sorted(entries.items())}
    manifest = wire_form("ConfigMap", _plugin_configs(), space, data=data)
    why = "one entry per distinct way of sharing; a node's label picks its own"
    return KubernetesObject(name=f"config/{space}/device-plugin", manifest=manifest, why=why)


# The name of an entry identifies its content, and the config-manager of each plugin reloads entries when its node
# selects another one. So a new entry restarts nothing, and the ConfigMap gets another name only when this
# release writes the same needs otherwise, which these stand for.
@cache
def _plugin_configs() -> str:
    examples = plugin_config_examples()
    return content_name("gpupools-device-plugin", {key: examples[key] for key in examples if key != DEFAULT_CONFIG})


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


METRICS_DIGEST = "metrics-91ce523974"
"""Changes with the list of metrics, so that the exporter restarts; constant, because `check` need not load OpenSSL."""


def metrics(space: str) -> KubernetesObject:
    """Declare the list of metrics for the GPU Operator's exporter."""
    why = "what an owner of GPUs needs: use, memory, power, temperature, errors"
    return config_map(f"config/{space}/metrics", space, "gpupools-metrics", {"dcgm-metrics.csv": metrics_csv()}, why)


def runtime_class(handler: str) -> KubernetesObject:
    """Declare the RuntimeClass that many charts name in their pods."""
    manifest = wire_form("RuntimeClass", "nvidia", api="node.k8s.io/v1", handler=handler)
    why = "pods that write runtimeClassName: nvidia start; nothing else on these nodes declares the class"
    return KubernetesObject(name="runtime-class/nvidia", manifest=manifest, why=why)


# https://github.com/NVIDIA/nvidia-container-toolkit/pull/1326
_WRITABLE = "The root file system is writable: NVIDIA's container toolkit updates /etc/ld.so.cache in it."
# https://docs.nvidia.com/deploy/mps/index.html, "Limitations"
_AS_ROOT = "It runs as root: the MPS daemon serves clients of one user at a time, which is the one of most images."


def smoke_test(pool: PoolPlan, pulls: Pulls = PUBLIC) -> KubernetesObject:
    """Declare a Job that adds two vectors on one unit of a pool; a changed pool gets a Job of a new name.

    Where nodes may come long after the update, nothing waits for the Job: it runs when they do.
    """
    late = pool.provider_plan.may_wait_for_capacity()
    pod, as_root = pool.pod(gpu_only=True), has_control_daemon(pool.sharing.kind)
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
    name = content_name(f"smoke-{pool.name}", {"spec": yaml.safe_dump(spec)})
    return KubernetesObject(
        name=f"smoke-test/{pool.name}",
        manifest=wire_form("Job", name, SMOKE_NAMESPACE, "batch/v1", pool.name, spec=spec),
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
    as_root = ", ".join(pool.name for pool in pools if has_control_daemon(pool.sharing.kind))
    why = "holds the smoke tests apart from everything else"
    if mounting:  # every lower level forbids hostPath
        note = f"privileged: pods of {mounting} mount the driver from the host, for reading"
        return _namespace(SMOKE_NAMESPACE, "privileged", why, note)
    if as_root:
        note = f"baseline: pods of {as_root} run as root, since an MPS daemon serves clients of one user at a time"
        return _namespace(SMOKE_NAMESPACE, "baseline", why, note)
    return _namespace(SMOKE_NAMESPACE, "restricted", why)


# --- start-up taint ---------------------------------------------------------------------------------------------------

GATE_IMAGE = "docker.io/library/python:3.13.9-alpine3.22"
"""Runs `startup_gate.py`, which needs Python alone (https://hub.docker.com/_/python)."""
_GATE = "gpupools-startup-gate"


def _promised(pool: PoolPlan) -> dict[str, int]:
    """Return the count of each device that a node offers; memory is there from the start."""
    extra = pool.provider_plan.extra_resources().items()
    return {**pool.node_resources, **{name: int(count) for name, count in extra if count.isdecimal()}}


def startup_gate(pools: Sequence[PoolPlan], tolerations: Sequence[JsonObject], pulls: Pulls) -> list[KubernetesObject]:
    """Declare what removes the start-up taint from nodes that offer their GPUs, with rights on that taint alone.

    Kubernetes has no right for one field of a node, so an admission policy narrows the right to change nodes. The Node
    Readiness Controller cannot serve: it accepts taints below readiness.k8s.io only, which Cluster Autoscaler does not
    ignore, and reads conditions of nodes, of which none says what a node offers
    (https://github.com/kubernetes-sigs/node-readiness-controller/blob/v0.5.0/api/v1alpha1/nodereadinessrule_types.go).
    """
    why = "removes the start-up taint from nodes that offer their GPUs"
    script = Path(__file__).with_name("startup_gate.py").read_text(encoding="utf-8")
    promised = json.dumps({pool.name: _promised(pool) for pool in pools}, indent=1, sort_keys=True)
    code = config_map(f"config/{_GATE}", _GATE, _GATE, {"startup_gate.py": script, "promises.json": promised}, why)
    words = {"name": _GATE, "image": pulls.reference(GATE_IMAGE), "code": code.manifest["metadata"]["name"]}
    objects = _filled(_templates("startup_gate.yaml"), words)
    pod = objects["deployment"]["spec"]["template"]["spec"]
    pod |= {**pulls.pod(), **({"tolerations": list(tolerations)} if tolerations else {})}
    account = {"account": f"system:serviceaccount:{_GATE}:{_GATE}", "key": STARTUP_TAINT.key}
    guard = admission("startup-gate", filled_policy("startup_gate", account), {}, "lets it change nothing else")
    found = [_namespace(_GATE, "restricted", why), code, *guard]
    for key, value in objects.items():
        kind, api = value.pop("kind"), value.pop("apiVersion")
        space = "" if kind.startswith("Cluster") else _GATE
        found.append(KubernetesObject(f"startup-gate/{key}", wire_form(kind, _GATE, space, api, **value), why))
    return found


# --- trust ------------------------------------------------------------------------------------------------------------

SYSTEM_NAMESPACES = ("kube-system",)
"""Namespaces of a cluster's own software, which must reach every node."""

CALICO_NAMESPACES = ("calico-system", "tigera-operator")
"""Namespaces of Calico, whose operator and Typha tolerate everything
(https://github.com/tigera/operator, manifests; AKS installs both with network policy `calico`)."""


def trust_objects(
    pools: Iterable[PoolPlan], own: Iterable[str], system: Sequence[str] | None = None
) -> list[KubernetesObject]:
    """Declare what keeps pods of other namespaces off pools that name whom they trust.

    The pool's taint keeps away who does not know it; the policies of `data/trust_policies.yaml` do the rest. They see
    no variable that the image of a daemon sets. Whoever may label namespaces stands above them. Pools with one mark
    share the policies.

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
    objects: list[KubernetesObject] = []
    for mark, (trust, names) in marked.items():
        who = f"team {trust.team}" if trust.team is not None else f"namespaces {', '.join(trust.namespaces or [])}"
        words = {
            "who": who,
            "mark": mark,
            "label": TRUST_LABEL,
            "pools": ", ".join(sorted(names)),
            "inside": str(inside),
            "passing": "variables.sealed" + ("" if system is not None else _OR_DAEMON),
            "newly_injected": _templates("trust_policies.yaml")["newly_injected"],
        }
        pods, nodes = (filled_policy(kind, words) for kind in ("pods", "nodes"))
        pods["matchConstraints"]["namespaceSelector"] = _existing_pools(trust, inside)
        nodes["matchConstraints"]["namespaceSelector"] = _existing_pools(trust, inside)
        shared = ", ".join(names)
        objects += admission(f"trust/{mark}", pods, {}, f"keeps pods outside {who} off {shared}")
        by_node = {"paramRef": {"selector": {"matchLabels": {TRUST_LABEL: mark}}, "parameterNotFoundAction": "Allow"}}
        why = f"keeps what passes the scheduler off the nodes of {shared}"
        objects += admission(f"trust/{mark}/nodes", nodes, by_node, why)
    return objects


_OR_DAEMON = " || (variables.daemon && !variables.asks)"


@cache
def _templates(name: str) -> JsonObject:
    """Return a file of `gpupools/data` whose texts have words to fill in."""
    found: JsonObject = yaml.safe_load(DATA.joinpath(name).read_text(encoding="utf-8"))
    return found


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Return a copy of a template with its words in place."""
    if not isinstance(value, str):
        return with_items(value, lambda item: _filled(item, words))
    from string import Template  # only some objects are templates

    return Template(value).substitute(words)


def _existing_pools(trust: Trust, inside: Sequence[str]) -> JsonDict:
    trusted = [team_namespace for team_namespace in trust.namespaces or [] if team_namespace not in inside]
    named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [*inside, *trusted]}
    team = {"key": TRUST_LABEL, "operator": "NotIn", "values": [trust.team]}
    return {"matchExpressions": [named, *([team] if trust.team is not None else [])]}


def filled_policy(key: str, words: Mapping[str, str]) -> JsonDict:
    """Return an admission policy of `data/trust_policies.yaml` with its words in place."""
    filled: JsonDict = _filled(_templates("trust_policies.yaml")[key], words)
    return filled


def admission(step: str, spec: JsonObject, parameters: JsonObject, why: str) -> list[KubernetesObject]:
    """Declare an admission policy and what puts it into force."""
    name = f"gpupools-{step.replace('/', '-')}"
    version = "admissionregistration.k8s.io/v1"
    policy = wire_form("ValidatingAdmissionPolicy", name, api=version, spec=spec)
    bound = {"policyName": name, **parameters, "validationActions": ["Deny", "Audit"]}
    binding = wire_form("ValidatingAdmissionPolicyBinding", name, api=version, spec=bound)
    return [
        KubernetesObject(name=step, manifest=policy, why=why),
        KubernetesObject(name=f"{step}/binding", manifest=binding, why="puts the policy into force"),
    ]


# --- network ----------------------------------------------------------------------------------------------------------

EXPORTER_LABELS = {"gpu-operator": ("app", "nvidia-dcgm-exporter"), DCGM_CHART: ("app.kubernetes.io/name", DCGM_CHART)}
"""Chart to a label of its exporter's pods: NVIDIA/gpu-operator tag v26.7.0, assets/state-dcgm-exporter, and
NVIDIA/dcgm-exporter tag 4.5.3-4.8.2, deployment/templates/_helpers.tpl."""


def exporter_access(chart: str, space: str, reader: str) -> KubernetesObject:
    """Open the port of a chart's DCGM exporter to the pods of one namespace; the kubelet's probes always pass."""
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": reader}}}
    rule = {"from": [peer], "ports": [{"port": 9400, "protocol": "TCP"}]}
    pods = {"matchLabels": dict([EXPORTER_LABELS[chart]])}
    spec = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [rule]}
    why = f"opens the exporter's port to pods of {reader} only (CVE-2026-47483)"
    return _network_policy(f"exporter-access/{space}", "gpupools-exporter-access", space, spec, why)


def no_instance_metadata(space: str, address: str) -> KubernetesObject:
    """Let pods of a namespace reach everything but the instance metadata service."""
    # Some network plugins do not count pods to an ipBlock, so they are named too.
    peers = [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [address]}}, {"ipBlock": {"cidr": "::/0"}}]
    rule = {"to": [*peers, {"namespaceSelector": {}}]}
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": [rule]}
    why = f"keeps pods of {space} from the identities of the nodes"
    return _network_policy(f"instance-metadata/{space}", "gpupools-instance-metadata", space, spec, why)


def _network_policy(step: str, name: str, space: str, spec: JsonObject, why: str) -> KubernetesObject:
    # https://kubernetes.io/docs/concepts/services-networking/network-policies/
    manifest = wire_form("NetworkPolicy", name, space, "networking.k8s.io/v1", spec=spec)
    return KubernetesObject(name=step, manifest=manifest, why=why)


def quota_counts(pool: PoolPlan) -> list[str]:
    """Return what a ResourceQuota counts of the units of a pool: by name, wherever in the cluster they are."""
    if pool.claim_template:
        return [CLAIM_QUOTA]
    return [f"requests.{name}" for name in pool.node_resources if name != GPU_RESOURCE] or [f"requests.{GPU_RESOURCE}"]


def trust_quotas(pools: Iterable[PoolPlan]) -> list[KubernetesObject]:
    """Declare how much of a pool each trusted namespace may request at a time, where the pool says so."""
    quotas: list[KubernetesObject] = []
    for pool in pools:
        trust = pool.trust
        if trust is None or trust.quota is None:
            continue
        counted = quota_counts(pool)
        for space in trust.namespaces or []:
            spec = {"hard": {name: str(trust.quota) for name in counted}}
            manifest = wire_form("ResourceQuota", f"gpupools-{pool.name}", space, spec=spec)
            why = f"lets pods of {space} have {trust.quota} of {', '.join(counted)} at a time"
            quotas.append(KubernetesObject(name=f"trust-quota/{pool.name}/{space}", manifest=manifest, why=why))
    return quotas
