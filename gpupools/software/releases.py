"""The releases that a cluster gets and their values: a function for each chart, which adds to the draft."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpupools.catalog.gpus import gpu_models
from gpupools.catalog.requirements import requirement
from gpupools.common.errors import Path, Problem
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.capability import Verdict
from gpupools.plan.dra import DRA_CHART, DRA_DRIVER
from gpupools.plan.fabric import COMPUTE_DOMAINS_LABEL
from gpupools.plan.hami import HAMI, HAMI_LABEL, PODS_PER_GPU
from gpupools.plan.node_labels import CONFIG_LABELS, SOFTWARE_LABEL
from gpupools.plan.node_software import NodeRuntime
from gpupools.plan.plugin_configs import DEFAULT_CONFIG
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.plan.software_plan import KubernetesObject, Piece, Release
from gpupools.plan.tolerations import node_affinity, tolerations_for
from gpupools.software import kai, kueue, objects, volcano
from gpupools.software.charts import (
    CONTROLLERS,
    Chart,
    Operand,
    at,
    below,
    charts,
    check_values,
    is_older,
    known_versions,
    nested,
    outdated,
    too_old,
    value_seen,
)
from gpupools.software.draft import Draft
from gpupools.software.images import placed, slots
from gpupools.software.team_shares import KUEUE_LENDING, Lending, TeamShares, team_shares
from gpupools.spec.software_spec import RuntimeSpec
from gpupools.spec.teams import Team

EXPORTER_TAG = "4.6.1-4.8.4-distroless"
"""Tag of the DCGM exporter's image: the chart's own is older than the first fixed release (bulletin 5857); this is
the one GPU Operator v26.7.1 installs, with DCGM 4.6.1 (https://github.com/NVIDIA/dcgm-exporter/pull/745)."""

OPERATOR_DRIVER_BRANCH = 595
"""Branch of the driver that the pinned operator installs unasked."""

OLDER_DRIVER = "580.178.04"
"""For GPUs that newer branches no longer drive; in the GPU Operator's component matrix since v26.3.3
(https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/release-notes.html)."""

_SHORTEST_TIMEOUT_S = 30 * 60
_LONGEST_TIMEOUT_S = 6 * 60 * 60
_TIMEOUT_PER_NODE_S = 60  # the plugin's DaemonSet is renewed node by node (maxUnavailable 1)

_STRATEGY_SOURCE = "https://github.com/NVIDIA/gpu-operator (controllers/object_controls.go, applyMIGConfiguration)"


def uses_operator(draft: Draft) -> bool:
    """Say whether a pool of the cluster gets its software from the GPU Operator."""
    return bool(draft.served("gpu-operator"))


def cut_by_the_cloud(pool: PoolPlan) -> bool:
    """Say whether the cloud itself cuts the GPUs of a pool, so that no MIG manager has to."""
    return pool.capability.verdict is Verdict.NATIVE or pool.provider_plan.partitions_gpus()


def gpu_operator(draft: Draft) -> None:
    """Install the GPU Operator for the pools that ask for it; what nodes bring already is left to them."""
    pools = draft.served("gpu-operator")
    if not pools:
        return
    spec, space = draft.spec, charts()["gpu-operator"].namespace
    brings = _common(draft, pools, "pieces", lambda node: {piece.value: "the node" for piece in operator_skips(node)})
    cut = [pool for pool in pools if pool.sharing.mig is not None and not cut_by_the_cloud(pool)]
    values: JsonDict = {
        "driver.enabled": Piece.DRIVER.value not in brings,
        "toolkit.enabled": Piece.CONTAINER_TOOLKIT.value not in brings,
        "devicePlugin.enabled": Piece.DEVICE_PLUGIN.value not in brings,
        "gfd.enabled": True,
        "nfd.enabled": spec.existing.node_feature_discovery is None,
        "cdi.enabled": True,
        "mig.strategy": _strategy(draft, pools),
        "migManager.enabled": bool(cut),
        "daemonsets.tolerations": tolerations_for(pools),
        "dcgmExporter.enabled": spec.metrics is not False and spec.existing.dcgm_exporter is None,
        "dcgmExporter.serviceMonitor.enabled": spec.service_monitors,
        **_monitor_labels(spec, "dcgmExporter."),
        "operator.cleanupCRD": not spec.keep_crds,
        "operator.upgradeCRD": True,
        **_common(draft, pools, "values of the GPU Operator", lambda node: node.operator_values),
    }
    after: list[str] = []
    if values["driver.enabled"]:
        values |= {**_driver(pools), **_upgrades(spec)}
    if values["nfd.enabled"]:
        values["node-feature-discovery.worker.tolerations"] = tolerations_for(pools)
        values["node-feature-discovery.worker.affinity"] = _only(pools)
    after += _configured(draft, space, values, "devicePlugin.config", objects.plugin_configs(space, pools))
    layouts = objects.mig_layouts(space, cut)
    if layouts is not None:
        after += _configured(draft, space, values, "migManager.config", layouts, "all-disabled")
        needed = any(draft.nodes[pool.name].mig_needs_reboot for pool in cut)
        if spec.mig_reboot if spec.mig_reboot is not None else needed:
            values["migManager.env"] = [{"name": "WITH_REBOOT", "value": "true"}]
    if values["dcgmExporter.enabled"]:
        after += _configured(draft, space, values, "dcgmExporter.config", objects.metrics(space), "")
    crds = "clusterpolicies, nvidiadrivers and gpuclusters of nvidia.com" + (", NFD's" if values["nfd.enabled"] else "")
    decisions = (
        *_on_upgrades(values),
        f"a job updates the CRDs {crds} before each upgrade (operator.upgradeCRD)",
        f"deletion keeps the CRDs {crds} (operator.cleanupCRD: false, because of keep_crds)"
        if spec.keep_crds
        else f"deletion also deletes the CRDs {crds} and their objects (operator.cleanupCRD)",
        (
            f"{' and '.join(_MORE_CRDS)} are neither updated nor deleted ({_CRD_LIST}); to delete them, run "
            f"kubectl delete crd {' '.join(_MORE_CRDS)}"
        ),
    )
    _release(draft, "gpu-operator", pools, values, decisions, after)


def _configured(
    draft: Draft,
    space: str,
    values: JsonDict,
    path: str,
    config: KubernetesObject | None,
    default: str = DEFAULT_CONFIG,
) -> list[str]:
    """Declare a ConfigMap that a release reads, name it in the values, and return the steps to wait for."""
    if config is None:
        return []
    values[f"{path}.name"] = config.manifest["metadata"]["name"]
    if default:
        values[f"{path}.default"] = default
    return [draft.add(config, _space(draft, space))]


def _on_upgrades(values: JsonObject) -> Iterator[str]:
    """Say how another driver gets to nodes that run; nothing where the operator brings none."""
    if not values["driver.enabled"]:
        return
    key = "driver.upgradePolicy.autoUpgrade"
    if values[key]:
        yield f"a driver upgrade evicts the pods that use a GPU, one node at a time ({key})"
    else:
        yield (
            f"a node gets a new driver when its driver pod is deleted or the node is recreated ({key}: false,"
            " because of driver_auto_upgrade)"
        )


_MORE_CRDS = ("computedomains.resource.nvidia.com", "computedomaincliques.resource.nvidia.com")
"""For Multi-Node NVLink; the chart's job forgets them."""

_CRD_LIST = "https://github.com/NVIDIA/gpu-operator, templates/upgrade_crd.yaml"


def operator_skips(node: NodeRuntime) -> set[Piece]:
    """Return what the operator must leave alone: what the nodes or their installer bring."""
    skips = {Piece.DRIVER, Piece.CONTAINER_TOOLKIT, Piece.DEVICE_PLUGIN} & set(node.brings)
    return skips | (set() if node.driver_installer is None else {Piece.DRIVER})


def _driver(pools: Iterable[PoolPlan]) -> JsonDict:
    """Choose an older driver when one GPU model needs it; the operator has one driver for all nodes."""
    branches = [gpu_models()[pool.instance.gpu_model].last_driver_branch for pool in pools]
    old = any(branch is not None and branch < OPERATOR_DRIVER_BRANCH for branch in branches)
    return {"driver.version": OLDER_DRIVER} if old else {}


def _upgrades(spec: RuntimeSpec) -> JsonDict:
    """Say how another driver gets to nodes that run, whatever a later chart does unasked.

    The operator cordons a node, ends the pods there that have a GPU and loads the driver; pods with
    an emptyDir or of no controller are not ended but stop the node's turn, and no other pod is drained:
    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-driver-upgrades.html
    """
    if spec.driver_auto_upgrade is False:
        return {"driver.upgradePolicy.autoUpgrade": False}
    return {
        "driver.upgradePolicy.autoUpgrade": True,
        "driver.upgradePolicy.maxParallelUpgrades": 1,
        "driver.upgradePolicy.maxUnavailable": "25%",
        "driver.upgradePolicy.gpuPodDeletion.force": False,
        "driver.upgradePolicy.gpuPodDeletion.deleteEmptyDir": False,
        "driver.upgradePolicy.drain.enable": False,
    }


def operator_brings_the_driver(draft: Draft) -> bool:
    """Say whether any node of the cluster gets its driver from the GPU Operator."""
    served = draft.served("gpu-operator")
    return any(Piece.DRIVER not in operator_skips(draft.nodes[pool.name]) for pool in served)


def _strategy(draft: Draft, pools: Iterable[PoolPlan]) -> str:
    """Return the operator's one MIG strategy; it reaches every node through the environment, above any config file."""
    named = {pool.name: pool.sharing.mig.naming for pool in pools if pool.sharing.mig is not None}
    if not named:
        return "single"
    first, strategy = next(iter(named.items()))
    others = [name for name, value in named.items() if value != strategy]
    if others:
        what = (
            f"is {named[others[0]]}, but {strategy} on pool {first}; a GPU Operator has one strategy for all its nodes"
        )
        what += f"; the same applies to {', '.join(others[1:])}" if others[1:] else ""
        fix = f"set strategy: {strategy} here, or put the pools on different clusters"
        where: Path = ("pools", others[0], "sharing", "strategy")
        draft.problems.append(Problem(where, what, fix, _STRATEGY_SOURCE))
    return strategy


def device_plugin(draft: Draft) -> None:
    """Install NVIDIA's device plugin for the pools that ask for it."""
    pools = draft.served("device-plugin")
    if not pools:
        return
    space = charts()["nvidia-device-plugin"].namespace
    values: JsonDict = {
        "affinity": _only(pools),
        "tolerations": tolerations_for(pools),
        # Both bring CRDs that stay behind; the labels that plugin and MPS daemon wait for are the pool's own.
        "gfd.enabled": False,
        "nfd.enabled": False,
        **_common(draft, pools, "values of the device plugin", lambda node: node.plugin_values),
    }
    after = _configured(draft, space, values, "config", objects.plugin_configs(space, pools))
    handlers = sorted({handler for pool in pools if (handler := draft.nodes[pool.name].runtime_class_handler)})
    if handlers and not uses_operator(draft) and draft.spec.existing.gpu_operator is None:
        draft.add(objects.runtime_class(handlers[0]))
    _release(draft, "nvidia-device-plugin", pools, values, ("the chart has no CRDs of its own",), after)


def hami(draft: Draft) -> None:
    """Install HAMi for the pools that ask for it, or note what the team's own needs.

    Its webhook leaves pods alone that do not name HAMi's scheduler, since it would send those of all other pools there:
    https://github.com/Project-HAMi/HAMi tag v2.10.0, pkg/scheduler/webhook.go.
    """
    pools, theirs = draft.served(HAMI), draft.spec.existing.hami
    if not pools:
        return
    values: JsonDict = {
        "devicePlugin.deviceSplitCount": PODS_PER_GPU,
        f"devicePlugin.nvidiaNodeSelector.{HAMI_LABEL}": "on",
        "devicePlugin.tolerations": tolerations_for(pools),
        "scheduler.forceOverwriteDefaultScheduler": False,
    }
    if theirs is not None:
        listed = ", ".join(f"{path}: {json.dumps(value)}" for path, value in values.items())
        draft.notes.append(f"{theirs.name} needs {listed} in its values")
        return
    version = draft.spec.kubernetes
    values |= {
        # Its own values open ports of every node, and pull Kubernetes' scheduler from a mirror.
        "devicePlugin.service.type": "ClusterIP",
        "scheduler.service.type": "ClusterIP",
        "scheduler.kubeScheduler.image.registry": "registry.k8s.io",
        "scheduler.kubeScheduler.image.repository": "kube-scheduler",
        # The chart's own is of a private account; its arguments are the same.
        "scheduler.patch.imageNew.registry": "registry.k8s.io",
        "scheduler.patch.imageNew.repository": "ingress-nginx/kube-webhook-certgen",
        "scheduler.patch.imageNew.tag": "v1.6.9",
        # Pods name HAMi's scheduler themselves, so none of the cluster has to wait for its one replica.
        "scheduler.admissionWebhook.failurePolicy": "Ignore",
        # Left out, the chart takes the cluster's version.
        **({"scheduler.kubeScheduler.image.tag": f"v{version}" + ".0" * (version.count(".") == 1)} if version else {}),
    }
    decisions = (
        "the chart has no CRDs",
        (
            "deletion keeps the Secret of the webhook's certificate, and on the nodes /usr/local/vgpu and the"
            " annotations hami.io/*"
        ),
    )
    _release(draft, HAMI, pools, values, decisions)


def dra_driver(draft: Draft) -> None:
    """Install the DRA driver with the halves that pools need: GPUs to claim, ComputeDomains, or both.

    The half for ComputeDomains may stand beside a device plugin, since it allocates no GPU:
    https://github.com/NVIDIA/gpu-operator/pull/1541.
    """
    claimed, domains = draft.served(DRA_DRIVER), with_compute_domains(draft)
    if claimed and not {pool.name for pool in domains} <= {pool.name for pool in claimed}:
        other = next(pool for pool in domains if pool not in claimed)
        what = (
            f"the DRA driver allocates the GPUs of pool {claimed[0].name} but must not do so here, and a"
            " cluster has only"
        )
        what += " one release of it"
        fix = f"use software: {DRA_DRIVER} on both, or put them on different clusters"
        draft.problems.append(Problem(("pools", other.name, "network", "compute_domains"), what, fix))
        draft.undecided.update((pool.name, Piece.COMPUTE_DOMAINS.value) for pool in domains)
        domains = ()
    pools = claimed or domains
    if not pools:
        return
    by_label = {"key": COMPUTE_DOMAINS_LABEL, "operator": "In", "values": ["true"]}
    values: JsonDict = {
        "kubeletPlugin.affinity": _only(pools) if claimed else node_affinity(by_label),
        "kubeletPlugin.tolerations": tolerations_for(pools),
        "resources.gpus.enabled": bool(claimed),
        # The chart requires a confirmation that no device plugin runs on these nodes; the owner table is the proof.
        **({"gpuResourcesEnabledOverride": True} if claimed else {}),
        # Multi-Node NVLink only, with a controller, a webhook and CRDs of its own.
        "resources.computeDomains.enabled": bool(domains),
        **_common(draft, pools, "values of the DRA driver", lambda node: node.dra_values),
    }
    decisions = (
        (
            f"the chart's CRDs {' and '.join(_MORE_CRDS)} are neither updated nor deleted (Helm ignores crds/ on"
            f" upgrades); to delete them, run kubectl delete crd {' '.join(_MORE_CRDS)}"
        )
        if domains
        else "no CRDs are installed: they are for Multi-Node NVLink, which is disabled",
    )
    _release(draft, DRA_CHART, pools, values, decisions)
    if draft.spec.kubernetes is None:
        needed = requirement(DRA_CHART, "kubernetes")
        note = f"{needed.what} needs Kubernetes {needed.at_least}; set {draft.runtime}.kubernetes to have this checked"
        draft.notes.append(note)


def with_compute_domains(draft: Draft) -> tuple[PoolPlan, ...]:
    """Return the pools whose ComputeDomains need a driver of ours."""
    theirs = draft.spec.existing.dra_driver
    if theirs is not None and theirs.serves != "gpus":
        return ()
    return tuple(pool for pool in draft.pools if pool.compute_domains)


def dcgm_exporter(draft: Draft) -> None:
    """Install the DCGM exporter on the pools where nobody else brings it."""
    spec = draft.spec
    if spec.metrics is False or spec.existing.dcgm_exporter is not None:
        return
    pools: list[PoolPlan] = []
    for pool in draft.pools:
        node = draft.nodes[pool.name]
        brought = Piece.DCGM_EXPORTER in node.brings or pool.software == "gpu-operator"
        if brought or not (spec.metrics or pool.software in ("device-plugin", DRA_DRIVER, HAMI)):
            continue
        if not node.no_dcgm_chart:
            pools.append(pool)
        elif spec.metrics:
            what, _, fix = node.no_dcgm_chart.partition("; ")
            what = f"the DCGM exporter cannot serve pool {pool.name}: {what}"
            draft.problems.append(Problem((*draft.at, "metrics"), what, fix, node.no_dcgm_source))
    if not pools:
        return
    values = {
        "image.tag": EXPORTER_TAG,
        "tolerations": tolerations_for(pools),
        "affinity": _only(pools),
        # The chart writes them to a ConfigMap and mounts it where its own arguments have the exporter read the list:
        # https://github.com/NVIDIA/dcgm-exporter tag 4.5.3-4.8.2, deployment/values.yaml, extraConfigMapVolumes.
        "customMetrics": objects.metrics_csv(),
        # The ConfigMap keeps its name and the exporter reads the list once, so another list has to restart it.
        "podAnnotations": {"gpupools/metrics": objects.METRICS_DIGEST},
        "serviceMonitor.enabled": spec.service_monitors,
        **_monitor_labels(spec, ""),
    }
    _release(draft, "dcgm-exporter", pools, values, ("the chart has no CRDs",))


def _monitor_labels(spec: RuntimeSpec, at: str) -> JsonDict:
    chosen = spec.monitoring_labels if spec.service_monitors else {}
    return {f"{at}serviceMonitor.additionalLabels": dict(chosen)} if chosen else {}


def node_charts(draft: Draft) -> None:
    """Install what serves the rest that nodes offer, such as network interfaces, whatever serves their GPUs."""
    for needed in dict.fromkeys(chart for node in draft.nodes.values() for chart in node.charts):
        if getattr(draft.spec.existing, needed.existing, None) is not None:
            continue
        pools = tuple(pool for pool in draft.pools if needed in draft.nodes[pool.name].charts)
        values = {
            "tolerations": tolerations_for(pools),
            **_from_own_registry(draft, needed.chart),
            **needed.values(pools),
        }
        _release(draft, needed.chart, pools, values, needed.decisions)


class Scheduler(NamedTuple):
    """Software that shares pools among teams."""

    chart: str
    lending: Lending
    share_pools: Callable[[Draft, Mapping[str, Team], TeamShares], list[KubernetesObject]]
    values: Callable[[Draft, Mapping[str, Team]], JsonDict]
    pod_metadata: Callable[[Draft], dict[str, JsonDict]]
    decisions: tuple[str, ...]
    needs: str
    """What a scheduler of the user's own needs in its configuration, and what happens without it."""
    has_critical_pods: bool = False


def _kai_node_values(draft: Draft) -> JsonDict:
    """Return the values that fractions of GPUs need on the nodes of their pools."""
    pools = kai.fractional(draft)
    return _common(draft, pools, "values of KAI", lambda node: node.kai_values) if pools else {}


SCHEDULERS: Mapping[str, Scheduler] = {
    "kueue": Scheduler(
        kueue.CHART,
        KUEUE_LENDING,
        kueue.share_pools,
        kueue.values,
        kueue.pod_metadata,
        kueue.DECISIONS,
        "fairSharing, resources.quotaCheckStrategy: IgnoreUndeclared and manageJobsWithoutQueueName in its"
        " configuration; without them, weights have no effect, jobs that request CPU are never admitted, and jobs"
        " without a queue ignore the guarantees",
        has_critical_pods=True,
    ),
    "kai": Scheduler(
        kai.CHART,
        kai.LENDING,
        kai.share_pools,
        lambda draft, _: {**kai.values(draft), **_kai_node_values(draft)},
        kai.pod_metadata,
        kai.DECISIONS,
        f"global.nodePoolLabelKey: {POOL_LABEL} in its values; without it, nodes, jobs and queues of a pool do not find"
        " each other",
    ),
    "volcano": Scheduler(
        volcano.CHART,
        volcano.LENDING,
        volcano.share_pools,
        lambda draft, _: volcano.values(draft),
        volcano.pod_metadata,
        volcano.DECISIONS,
        "the action reclaim and the plugins capacity and nodegroup in its configuration, and neither proportion nor"
        " enqueue; otherwise teams do not get their guarantees back, or jobs that do not fit start no nodes",
        has_critical_pods=True,
    ),
}


def scheduler(draft: Draft, teams: Mapping[str, Team]) -> None:
    """Install the scheduler that shares the pools among teams, and declare its objects after it.

    Its pods tolerate no taint of GPU nodes.
    """
    spec = draft.spec
    if spec.scheduler is None:
        return
    software = SCHEDULERS[spec.scheduler]
    chart = software.chart
    draft.shares, problems = team_shares(draft.pools, teams, draft.cluster, software.lending)
    draft.problems += problems
    if problems:
        return
    made = software.share_pools(draft, teams, draft.shares)
    draft.team_objects += made
    classes = sorted({device_class for pool in draft.pools for device_class in pool.device_classes})
    if classes and spec.scheduler == "kueue" and (spec.management == "external" or spec.existing.scheduler is not None):
        draft.notes.append(f"Kueue needs resources.deviceClassMappings of {', '.join(classes)} in its configuration")
    if kai.fractional(draft) and (spec.management == "external" or spec.existing.scheduler is not None):
        needed = {**kai.fraction_values(draft), **_kai_node_values(draft)}
        listed = ", ".join(f"{path}: {json.dumps(value)}" for path, value in needed.items())
        draft.notes.append(f"KAI needs {listed} in its values for fractions of GPUs")
    if spec.management == "external":
        return
    if spec.existing.scheduler is None:
        _release(draft, chart, draft.pools, software.values(draft, teams), software.decisions)
        # Its pods run on other nodes, so no pool has to be there first.
        space = charts()[chart].namespace
        draft.depends[chart] = {f"namespace/{space}"}
        why = next((node.critical_pods_quota for node in draft.nodes.values() if node.critical_pods_quota), "")
        if why and software.has_critical_pods:
            quota = objects.critical_pods_quota(space, spec.critical_pods or 100, why)
            draft.depends[chart].add(draft.add(quota, f"namespace/{space}"))
    else:
        draft.notes.append(f"{spec.existing.scheduler.name} needs {software.needs}")
    for share_pool in made:
        pool = share_pool.manifest["metadata"]["labels"].get(POOL_LABEL)
        after = (chart,) if spec.existing.scheduler is None else ()
        parent = share_pool.manifest.get("spec", {}).get("parentQueue")
        above = (f"queue/{parent}",) if parent else ()
        pools = [f"pool/{member.name}" for member in draft.pools if pool in (member.name, member.group) and pool]
        draft.add(share_pool, *after, *above, *pools)


def _from_own_registry(draft: Draft, chart: str) -> dict[str, str]:
    """Return the values with which a cloud's own chart pulls from the cluster's region.

    The chart's default names one region, which a cluster in a closed network of another does not reach.
    """
    if not draft.cloud_registry:
        return {}
    return {slot.repository: f"{draft.cloud_registry}/{slot.own_repository.partition('/')[2]}" for slot in slots(chart)}


def _only(pools: Iterable[PoolPlan]) -> JsonDict:
    """Require nodes of these pools by their software, so that a pool more changes nothing in the pods' template.

    It takes the place of a chart's own affinity, which a GPU Operator in the cluster turns against the nodes of every
    other pool (`owners.labels_left`).
    """
    software = sorted({pool.software for pool in pools})
    return node_affinity({"key": SOFTWARE_LABEL, "operator": "In", "values": software})


def _common(draft: Draft, pools: Sequence[PoolPlan], of: str, values: Any) -> JsonDict:
    """Return what the nodes of all pools of one release need alike; refuse pools that differ, all in one problem."""
    needs = {pool.name: dict(values(draft.nodes[pool.name])) for pool in pools}
    first, wanted = next(iter(needs.items()))
    keys = sorted({key for need in needs.values() for key in need})
    differing = [key for key in keys if any(need.get(key) != wanted.get(key) for need in needs.values())]
    if differing:
        # Which of the two the release does, and so who owns it where, is open: that would be told as another problem.
        draft.undecided.update((name, key) for name in needs for key in differing)
        other, *more = [name for name, need in needs.items() if need != wanted]
        what = f"needs different {of} from pool {first} ({', '.join(differing)}), but a cluster has only one release"
        what += f"; the same applies to {', '.join(more)}" if more else ""
        fix = "use the same node image and driver on all its pools, or put them on different clusters"
        problem = Problem(("pools", other, "software"), what, fix, draft.nodes[other].source)
        if not any(other_problem.path == problem.path for other_problem in draft.problems):
            draft.problems.append(problem)
    return wanted


def _release(
    draft: Draft,
    chart: str,
    pools: Sequence[PoolPlan],
    values: JsonObject,
    decisions: tuple[str, ...],
    after: Iterable[str] = (),
) -> None:
    pinned = charts()[chart]
    version = _version(draft, chart, nested(values))
    values = {**values, **_on_cpu_nodes(draft, chart, nested(values))}
    set_, images = placed(chart, version, nested(values), draft.pulls)
    draft.images += images
    inner = nested({**values, **set_})
    check_values(chart, inner, version)
    nodes = sum(pool.max_nodes for pool in pools)
    daemons_only = chart not in ("gpu-operator", HAMI, *(each.chart for each in SCHEDULERS.values()))
    configs = tuple(after)
    space = () if pinned.namespace == "kube-system" else (_space(draft, pinned.namespace),)
    draft.releases.append(
        Release(
            name=chart,
            chart=chart,
            version=version,
            repository=_source_of(draft.spec, pinned),
            namespace=pinned.namespace,
            values=inner,
            timeout_s=min(_SHORTEST_TIMEOUT_S + _TIMEOUT_PER_NODE_S * nodes, _LONGEST_TIMEOUT_S),
            # With no node kept, what becomes ready is up to the autoscaler; Deployments run on other nodes. And daemons
            # that wait for their node to name another configuration cannot be waited for before it does.
            skip_await=daemons_only and (all(pool.min_nodes == 0 for pool in pools) or bool(configs)),
            cleanup_on_fail=False,
            skip_crds=chart == DRA_CHART and not at(inner, "resources.computeDomains.enabled"),
            pools=tuple(pool.name for pool in pools),
            decisions=decisions,
        )
    )
    draft.depends[chart] = {
        *space,
        *configs,
        *(first_pools(pools) if configs else (f"pool/{pool.name}" for pool in pools)),
    }
    for pool in pools if configs else ():
        if _names_config(pool):
            draft.depends[f"pool/{pool.name}"].add(chart)


def _names_config(pool: PoolPlan) -> bool:
    """Say whether the pool's nodes name a configuration that software in the cluster must have by then.

    The plugin's config-manager exits for a name it does not find, and a node without one offers whole GPUs until the
    plugin reads its configurations: https://github.com/NVIDIA/k8s-device-plugin, cmd/config-manager/main.go.
    """
    return any(label in pool.labels for label in CONFIG_LABELS)


def first_pools(pools: Iterable[PoolPlan]) -> Iterator[str]:
    """Give the pools that come before what is installed on them, so that they are there without the cluster's API."""
    return (f"pool/{pool.name}" for pool in pools if not _names_config(pool))


def _version(draft: Draft, chart: str, values: JsonObject) -> str:
    """Return the version of a release: the pinned one, or the one asked for, with all it installs above the floors."""
    pinned = charts()[chart].version
    given = next((version for name, version in draft.spec.versions.items() if name == chart), None)
    if given is None:
        return pinned
    # The operator's chart writes its versions with a v, the others without.
    version = "v" * pinned.startswith("v") + given.removeprefix("v")
    where, fix = (*draft.at, "versions", chart), f"use {pinned} or leave it out"
    lacks = too_old(chart, version)
    if lacks is not None:
        draft.problems.append(Problem(where, f"got {version}, {lacks}", fix))
    elif version not in known_versions(chart):
        what = f"got {version}, a version whose values and installed software this release of gpupools does not know"
        if is_older(version, pinned):
            draft.problems.append(Problem(where, f"{what}, and it is older than {pinned}", fix))
        else:
            unchecked = f"; its values are checked against {pinned}, and its software is not checked for security fixes"
            draft.warnings.append(Problem(where, what + unchecked, "leave it out, or upgrade gpupools"))
    else:
        for component, (found, floor) in outdated(chart, version, values).items():
            what = f"got {version}, which installs {_COMPONENTS[component]} {found}, {below(floor)}"
            draft.problems.append(Problem(where, what, fix, floor.source))
    return version


_COMPONENTS = {
    "driver": "the driver",
    "container-toolkit": "the container toolkit",
    "device-plugin": "the device plugin",
    "dcgm": "DCGM",
    "dcgm-exporter": "the DCGM exporter",
    "mig-manager": "the MIG manager",
}


def _on_cpu_nodes(draft: Draft, chart: str, values: JsonObject) -> JsonDict:
    """Return the values with which what is no daemon tolerates the taints of the cluster's other nodes."""
    more = [
        {
            "key": taint.key,
            **({"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}),
            "effect": taint.effect.value,
        }
        for taint in draft.spec.cpu_taints
    ]
    return {operand.tolerations: [*own, *more] for operand, own in _controllers(chart, values)} if more else {}


def _controllers(chart: str, values: JsonObject) -> Iterator[tuple[Operand, Sequence[Any]]]:
    """Give what of a release is no daemon, with the tolerations that it has unasked."""
    for controller in CONTROLLERS:
        if controller.chart == chart and (not controller.runs or value_seen(chart, values, controller.runs)):
            yield controller, value_seen(chart, values, controller.tolerations) or ()


def has_controllers(release: Release) -> bool:
    """Say whether anything of a release is no daemon and needs a node without GPUs."""
    return any(True for _ in _controllers(release.chart, release.values))


def _source_of(spec: RuntimeSpec, chart: Chart) -> str:
    return next((source for name, source in spec.chart_sources.items() if name == chart.chart), chart.repository)


def _space(draft: Draft, name: str) -> str:
    """Declare a namespace once; return its step."""
    return draft.add(objects.namespace(name))
