"""The decision about a cluster's GPU software: one owner for each piece on each node, or every reason why not. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpupools.asked.runtime_spec import RuntimeSpec
from gpupools.asked.spec import Cluster
from gpupools.base.errors import Path, Problem, Rejected, nearest, shown
from gpupools.known.gpus import gpu_models
from gpupools.known.requirements import requirement
from gpupools.planned.cloud import Cloud, Verdict
from gpupools.planned.configs import DEFAULT_CONFIG, client_limits
from gpupools.planned.dra import DRA_CHART, DRA_DRIVER
from gpupools.planned.fabric import COMPUTE_DOMAINS_LABEL
from gpupools.planned.labels import CONFIG_LABELS, GPU_PRESENT_LABEL, SOFTWARE_LABEL
from gpupools.planned.node_resources import GPU_RESOURCE
from gpupools.planned.node_runtime import NodeRuntime
from gpupools.planned.plan import PoolPlan
from gpupools.planned.runtime_plan import ContainerImage, KubernetesObject, Piece, PoolOwners, Release, RuntimePlan
from gpupools.planned.tolerations import node_affinity, tolerations_for, untolerated
from gpupools.runtime import objects
from gpupools.runtime.charts import (
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
from gpupools.runtime.images import Pulls, moved, placed, pulls_of, slots
from gpupools.runtime.owners import claims, labels_left, may_run, needed_pieces, operands_of, settle, wants

EXPORTER_TAG = "4.6.0-4.8.3-distroless"
"""Tag of the DCGM exporter's image: the chart's own is older than the first fixed release (bulletin 5857); this is
the one GPU Operator v26.7.0 installs (https://github.com/NVIDIA/gpu-operator, deployments/gpu-operator/values.yaml)."""

OPERATOR_DRIVER_BRANCH = 595
"""Branch of the driver that the pinned operator installs unasked."""

OLDER_DRIVER = "580.173.02"
"""For GPUs that newer branches no longer drive; GPU Operator v26.7.0 supports it
(https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/life-cycle-policy.html)."""

_SHORTEST_TIMEOUT_S = 30 * 60
_LONGEST_TIMEOUT_S = 6 * 60 * 60
_TIMEOUT_PER_NODE_S = 60  # the plugin's DaemonSet is renewed node by node (maxUnavailable 1)

_PODS_PER_NODE = {"gpu-operator": 10, "nvidia-device-plugin": 3, "dcgm-exporter": 1, "dra-driver-nvidia-gpu": 1}
"""Most DaemonSets of a chart on one node."""

_STRATEGY_SOURCE = "https://github.com/NVIDIA/gpu-operator (controllers/object_controls.go, applyMIGConfiguration)"


@dataclass
class _Draft:
    """A plan in the making."""

    cluster: str
    cloud: Cloud
    cloud_registry: str
    """Where the cloud keeps its own images for this cluster; empty where no chart asks."""
    spec: RuntimeSpec
    pools: tuple[PoolPlan, ...]
    nodes: Mapping[str, NodeRuntime]
    releases: list[Release] = field(default_factory=list)
    objects: list[KubernetesObject] = field(default_factory=list)
    depends: dict[str, set[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    images: list[ContainerImage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    undecided: set[tuple[str, str]] = field(default_factory=set)
    """Pools and what they need otherwise than another pool of their release: values, pieces."""

    @property
    def pulls(self) -> Pulls:
        """How the pods of the cluster pull their images."""
        return pulls_of(self.spec)

    @property
    def runtime(self) -> str:
        """Path of the cluster's runtime in the stack file, for messages."""
        return f"clusters.{self.cluster}.runtime" if self.cluster else "runtime"

    @property
    def at(self) -> Path:
        """The same as a path."""
        return ("clusters", self.cluster, "runtime") if self.cluster else ("runtime",)

    def served(self, software: str) -> tuple[PoolPlan, ...]:
        """Return the pools of a software."""
        return tuple(pool for pool in self.pools if pool.software == software)

    def add(self, each: KubernetesObject, *after: str) -> str:
        """Take an object that comes after these steps; one of the same name is there already and stays."""
        if each.name not in self.depends:
            self.objects.append(each)
        self.depends.setdefault(each.name, set()).update(after)
        return each.name


def plan_runtime(
    cluster_key: str, cluster: Cluster, cloud: Cloud, pools: Iterable[PoolPlan], left_to: RuntimeSpec | None = None
) -> RuntimePlan:
    """Decide what a cluster needs in Kubernetes so that all its pools offer their GPUs.

    Args:
        cluster_key: The cluster's key in the stack file.
        cluster: The cluster; its addresses are never looked at.
        cloud: The cluster's cloud.
        pools: The plans of all its pools, in the order of the file.
        left_to: Who brings the software where nothing can be installed, since nobody gave the cluster's API. What
            would be installed is judged all the same: pools that it cannot serve are made once, and served later.

    Raises:
        Rejected: Every reason: pieces with two owners or none (both owners and the field to change are named), choices
            that cannot be kept apart in one cluster, values or versions a chart does not take.
    """
    own = tuple(pools)
    nodes = {pool.name: cloud.node_runtime(pool.software, pool.choices) for pool in own}
    draft = _Draft(cluster_key, cloud, cloud.own_registry(cluster), cluster.runtime, own, nodes)
    for pool in own:
        draft.depends[f"pool/{pool.name}"] = set()
        if nodes[pool.name].refused:
            what, _, fix = nodes[pool.name].refused.partition("; ")
            draft.problems.append(Problem(("pools", pool.name, "software"), what, fix, nodes[pool.name].source))
    _refuse_settings_without_effect(draft)
    if draft.spec.management == "managed":
        _operator(draft)
        _device_plugin(draft)
        _dra_driver(draft)
        _exporter(draft)
        _beside_gpus(draft)
        _installer(draft)
        _extras(draft)
        _refuse_what_moves_nothing(draft)
    if left_to is not None:
        draft = _left(draft, left_to)
    table = _owner_table(draft)
    _check_reach(draft)
    measured = {row.pool for row in table if Piece.DCGM_EXPORTER in row.owners}
    _check_helpers(draft, measured)
    _note(draft, measured)
    if draft.problems:
        raise Rejected(dict.fromkeys(draft.problems))
    return RuntimePlan(
        cluster=cluster_key,
        cloud=cloud.name,
        owners=table,
        releases=tuple(draft.releases),
        objects=tuple(draft.objects),
        pods={pool.name: pool.pod() for pool in own},
        claim_templates={pool.name: pool.claim_template for pool in own if pool.claim_template},
        node_pods={pool.name: pool.node_pod for pool in own if pool.node_pod},
        namespace_objects={pool.name: pool.namespace_objects for pool in own if pool.namespace_objects},
        depends=_in_order(draft.depends),
        images=tuple(draft.images),
        notes=(*(str(warning) for warning in draft.warnings), *draft.notes),
        warnings=tuple(draft.warnings),
    )


def _left(draft: _Draft, spec: RuntimeSpec) -> _Draft:
    """Return a draft that installs nothing, with what speaks against all that would have been installed."""
    _check_reach(draft)
    steps: dict[str, set[str]] = {f"pool/{pool.name}": set() for pool in draft.pools}
    left = replace(draft, spec=spec, releases=[], objects=[], images=[], depends=steps, notes=[], warnings=[])
    _refuse_settings_without_effect(left)
    return left


def plan_runtimes(
    clusters: Mapping[str, Cluster], pools: Iterable[PoolPlan], clouds: Mapping[str, Cloud]
) -> tuple[RuntimePlan, ...]:
    """Plan the GPU software of every cluster that has pools.

    Raises:
        Rejected: Every reason of every cluster.
    """
    plans = tuple(pools)
    found: list[RuntimePlan] = []
    problems: list[Problem] = []
    for key, cluster in clusters.items():
        own = [pool for pool in plans if pool.cluster == key]
        if own:
            try:
                found.append(plan_runtime(key, cluster, clouds[cluster.cloud], own))
            except Rejected as rejected:
                problems += rejected.problems
    if problems:
        raise Rejected(problems)
    return tuple(found)


# --- releases ---------------------------------------------------------------------------------------------------------


def _uses_operator(draft: _Draft) -> bool:
    return bool(draft.served("gpu-operator"))


def _operator(draft: _Draft) -> None:
    pools = draft.served("gpu-operator")
    if not pools:
        return
    spec, space = draft.spec, charts()["gpu-operator"].namespace
    brings = _common(draft, pools, "pieces", lambda node: {piece.value: "the node" for piece in _operator_skips(node)})
    cut = [pool for pool in pools if pool.sharing.mig is not None and not _cut_by_the_cloud(pool)]
    values: dict[str, Any] = {
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
    configs = objects.plugin_configs(space, pools)
    if configs is not None:
        after.append(draft.add(configs, _space(draft, space)))
        values["devicePlugin.config.name"] = configs.manifest["metadata"]["name"]
        values["devicePlugin.config.default"] = DEFAULT_CONFIG
    layouts = objects.mig_layouts(space, cut)
    if layouts is not None:
        after.append(draft.add(layouts, _space(draft, space)))
        values["migManager.config.name"] = layouts.manifest["metadata"]["name"]
        values["migManager.config.default"] = "all-disabled"
        needed = any(draft.nodes[pool.name].mig_needs_reboot for pool in cut)
        if spec.mig_reboot if spec.mig_reboot is not None else needed:
            values["migManager.env"] = [{"name": "WITH_REBOOT", "value": "true"}]
    if values["dcgmExporter.enabled"]:
        counters = objects.metrics(space)
        after.append(draft.add(counters, _space(draft, space)))
        values["dcgmExporter.config.name"] = counters.manifest["metadata"]["name"]
    crds = "clusterpolicies, nvidiadrivers and gpuclusters of nvidia.com" + (", NFD's" if values["nfd.enabled"] else "")
    decisions = (
        *_on_upgrades(values),
        f"a job before each upgrade renews the CRDs {crds} (operator.upgradeCRD)",
        f"deletion leaves the CRDs {crds} behind (operator.cleanupCRD false, as asked)"
        if spec.keep_crds
        else f"deletion takes the CRDs {crds} away, and with them what they hold (operator.cleanupCRD)",
        (
            f"{' and '.join(_MORE_CRDS)} are neither renewed nor deleted ({_CRD_LIST}); "
            f"kubectl delete crd {' '.join(_MORE_CRDS)} takes them away"
        ),
    )
    _release(draft, "gpu-operator", pools, values, decisions, after)


def _on_upgrades(values: Mapping[str, Any]) -> Iterator[str]:
    """Say how another driver gets to nodes that run; nothing where the operator brings none."""
    if not values["driver.enabled"]:
        return
    key = "driver.upgradePolicy.autoUpgrade"
    if values[key]:
        yield f"another driver ends the pods that have a GPU, one node at a time ({key})"
    else:
        yield f"another driver waits until a node's driver pod is deleted or the node made anew ({key} false, as asked)"


_MORE_CRDS = ("computedomains.resource.nvidia.com", "computedomaincliques.resource.nvidia.com")
"""For Multi-Node NVLink; the chart's job forgets them."""

_CRD_LIST = "https://github.com/NVIDIA/gpu-operator, templates/upgrade_crd.yaml"


def _operator_skips(node: NodeRuntime) -> set[Piece]:
    """Return what the operator must leave alone: what the nodes or their installer bring."""
    skips = {Piece.DRIVER, Piece.CONTAINER_TOOLKIT, Piece.DEVICE_PLUGIN} & set(node.brings)
    return skips | (set() if node.driver_installer is None else {Piece.DRIVER})


def _driver(pools: Iterable[PoolPlan]) -> dict[str, Any]:
    """Choose an older driver when one GPU model needs it; the operator has one driver for all nodes."""
    branches = [gpu_models()[pool.instance.gpu_model].last_driver_branch for pool in pools]
    old = any(branch is not None and branch < OPERATOR_DRIVER_BRANCH for branch in branches)
    return {"driver.version": OLDER_DRIVER} if old else {}


def _upgrades(spec: RuntimeSpec) -> dict[str, Any]:
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


def _operator_brings_the_driver(draft: _Draft) -> bool:
    served = draft.served("gpu-operator")
    return any(Piece.DRIVER not in _operator_skips(draft.nodes[pool.name]) for pool in served)


def _strategy(draft: _Draft, pools: Iterable[PoolPlan]) -> str:
    """Return the operator's one MIG strategy; it reaches every node through the environment, above any config file."""
    named = {pool.name: pool.sharing.mig.naming for pool in pools if pool.sharing.mig is not None}
    if not named:
        return "single"
    first, strategy = next(iter(named.items()))
    others = [name for name, each in named.items() if each != strategy]
    if others:
        what = f"is {named[others[0]]}, on pool {first} {strategy}; a GPU Operator has one for all its nodes"
        what += f"; so it is on {', '.join(others[1:])}" if others[1:] else ""
        fix = f"write strategy: {strategy} here, or put the pools on different clusters"
        where: Path = ("pools", others[0], "sharing", "strategy")
        draft.problems.append(Problem(where, what, fix, _STRATEGY_SOURCE))
    return strategy


def _device_plugin(draft: _Draft) -> None:
    pools = draft.served("device-plugin")
    if not pools:
        return
    space = charts()["nvidia-device-plugin"].namespace
    values: dict[str, Any] = {
        "affinity": _only(pools),
        "tolerations": tolerations_for(pools),
        # Both bring CRDs that stay behind; the labels that plugin and MPS daemon wait for are the pool's own.
        "gfd.enabled": False,
        "nfd.enabled": False,
        **_common(draft, pools, "values of the device plugin", lambda node: node.plugin_values),
    }
    after: list[str] = []
    configs = objects.plugin_configs(space, pools)
    if configs is not None:
        after.append(draft.add(configs, _space(draft, space)))
        values["config.name"] = configs.manifest["metadata"]["name"]
        values["config.default"] = DEFAULT_CONFIG
    handlers = sorted({handler for pool in pools if (handler := draft.nodes[pool.name].runtime_class_handler)})
    if handlers and not _uses_operator(draft) and draft.spec.existing.gpu_operator is None:
        draft.add(objects.runtime_class(handlers[0]))
    _release(draft, "nvidia-device-plugin", pools, values, ("the chart has no CRDs of its own",), after)


def _dra_driver(draft: _Draft) -> None:
    """Install the DRA driver with the halves that pools need: GPUs to claim, ComputeDomains, or both.

    The half for ComputeDomains may stand beside a device plugin, since it hands out no GPU:
    https://github.com/NVIDIA/gpu-operator/pull/1541.
    """
    claimed, domains = draft.served(DRA_DRIVER), _with_compute_domains(draft)
    if claimed and not {pool.name for pool in domains} <= {pool.name for pool in claimed}:
        other = next(pool for pool in domains if pool not in claimed)
        what = f"the DRA driver hands out the GPUs of pool {claimed[0].name} and must not do so here, and a cluster has"
        what += " one release of it"
        fix = f"use software: {DRA_DRIVER} on both, or put them on different clusters"
        draft.problems.append(Problem(("pools", other.name, "network", "compute_domains"), what, fix))
        draft.undecided.update((pool.name, Piece.COMPUTE_DOMAINS.value) for pool in domains)
        domains = ()
    pools = claimed or domains
    if not pools:
        return
    by_label = {"key": COMPUTE_DOMAINS_LABEL, "operator": "In", "values": ["true"]}
    values: dict[str, Any] = {
        "kubeletPlugin.affinity": _only(pools) if claimed else node_affinity(by_label),
        "kubeletPlugin.tolerations": tolerations_for(pools),
        "resources.gpus.enabled": bool(claimed),
        # The chart wants to be told that no device plugin runs on these nodes; the owner table is the proof.
        **({"gpuResourcesEnabledOverride": True} if claimed else {}),
        # Multi-Node NVLink only, with a controller, a webhook and CRDs of its own.
        "resources.computeDomains.enabled": bool(domains),
        **_common(draft, pools, "values of the DRA driver", lambda node: node.dra_values),
    }
    decisions = (
        (
            f"the chart's CRDs {' and '.join(_MORE_CRDS)} are neither renewed nor deleted (Helm leaves what is in crds/"
            f" alone); kubectl delete crd {' '.join(_MORE_CRDS)} takes them away"
        )
        if domains
        else "the chart's CRDs are for Multi-Node NVLink, which is off, so none is installed",
    )
    _release(draft, DRA_CHART, pools, values, decisions)
    if draft.spec.kubernetes is None:
        needed = requirement(DRA_CHART, "kubernetes")
        note = f"{needed.what} needs Kubernetes {needed.at_least}; {draft.runtime}.kubernetes has it checked"
        draft.notes.append(note)


def _with_compute_domains(draft: _Draft) -> tuple[PoolPlan, ...]:
    """Return the pools whose ComputeDomains need a driver of ours."""
    theirs = draft.spec.existing.dra_driver
    if theirs is not None and theirs.serves != "gpus":
        return ()
    return tuple(pool for pool in draft.pools if pool.compute_domains)


def _exporter(draft: _Draft) -> None:
    """Install the DCGM exporter on the pools where nobody else brings it."""
    spec = draft.spec
    if spec.metrics is False or spec.existing.dcgm_exporter is not None:
        return
    pools: list[PoolPlan] = []
    for pool in draft.pools:
        node = draft.nodes[pool.name]
        brought = Piece.DCGM_EXPORTER in node.brings or pool.software == "gpu-operator"
        if brought or not (spec.metrics or pool.software in ("device-plugin", DRA_DRIVER)):
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
        # The ConfigMap keeps its name and the exporter reads the list once, so another list has to start it anew.
        "podAnnotations": {"gpupools/metrics": objects.metrics_mark()},
        "serviceMonitor.enabled": spec.service_monitors,
    }
    _release(draft, "dcgm-exporter", pools, values, ("the chart has no CRDs",))


def _beside_gpus(draft: _Draft) -> None:
    """Install what serves the rest that nodes offer, such as network interfaces, whatever serves their GPUs."""
    for needed in dict.fromkeys(each for node in draft.nodes.values() for each in node.charts):
        if getattr(draft.spec.existing, needed.existing, None) is not None:
            continue
        pools = tuple(pool for pool in draft.pools if needed in draft.nodes[pool.name].charts)
        values = {
            "tolerations": tolerations_for(pools),
            **_from_own_registry(draft, needed.chart),
            **needed.values(pools),
        }
        _release(draft, needed.chart, pools, values, needed.decisions)


def _from_own_registry(draft: _Draft, chart: str) -> dict[str, str]:
    """Return the values with which a cloud's own chart pulls from the cluster's region.

    The chart's default names one region, which a cluster in a closed network of another does not reach.
    """
    if not draft.cloud_registry:
        return {}
    return {each.repository: f"{draft.cloud_registry}/{each.own_repository.partition('/')[2]}" for each in slots(chart)}


def _only(pools: Iterable[PoolPlan]) -> dict[str, Any]:
    """Require nodes of these pools by their software, so that a pool more changes nothing in the pods' template.

    It takes the place of a chart's own affinity, which a GPU Operator in the cluster turns against the nodes of every
    other pool (`owners.labels_left`).
    """
    software = sorted({pool.software for pool in pools})
    return node_affinity({"key": SOFTWARE_LABEL, "operator": "In", "values": software})


def _common(draft: _Draft, pools: Sequence[PoolPlan], of: str, values: Any) -> dict[str, Any]:
    """Return what the nodes of all pools of one release need alike; refuse pools that differ, all in one problem."""
    needs = {pool.name: dict(values(draft.nodes[pool.name])) for pool in pools}
    first, wanted = next(iter(needs.items()))
    keys = sorted({key for each in needs.values() for key in each})
    differing = [key for key in keys if any(each.get(key) != wanted.get(key) for each in needs.values())]
    if differing:
        # Which of the two the release does, and so who owns it where, is open: that would be told as another problem.
        draft.undecided.update((name, key) for name in needs for key in differing)
        other, *more = [name for name, each in needs.items() if each != wanted]
        what = f"needs other {of} than pool {first} ({', '.join(differing)}), and a cluster has one release"
        what += f"; so do {', '.join(more)}" if more else ""
        fix = "give all its pools the same node image and driver, or put them on different clusters"
        problem = Problem(("pools", other, "software"), what, fix, draft.nodes[other].source)
        if not any(each.path == problem.path for each in draft.problems):
            draft.problems.append(problem)
    return wanted


def _release(
    draft: _Draft,
    chart: str,
    pools: Sequence[PoolPlan],
    values: Mapping[str, Any],
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
    daemons_only = chart != "gpu-operator"
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
    draft.depends[chart] = {*space, *configs, *(_first(pools) if configs else (f"pool/{pool.name}" for pool in pools))}
    for pool in pools if configs else ():
        if _names_config(pool):
            draft.depends[f"pool/{pool.name}"].add(chart)


def _names_config(pool: PoolPlan) -> bool:
    """Say whether the pool's nodes name a configuration that software in the cluster must have by then.

    The plugin's config-manager exits for a name it does not find, and a node without one offers whole GPUs until the
    plugin reads its configurations: https://github.com/NVIDIA/k8s-device-plugin, cmd/config-manager/main.go.
    """
    return any(label in pool.labels for label in CONFIG_LABELS)


def _first(pools: Iterable[PoolPlan]) -> Iterator[str]:
    """Give the pools that come before what is installed on them, so that they are there without the cluster's API."""
    return (f"pool/{pool.name}" for pool in pools if not _names_config(pool))


def _version(draft: _Draft, chart: str, values: Mapping[str, Any]) -> str:
    """Return the version of a release: the pinned one, or the one asked for, with all it installs above the floors."""
    pinned = charts()[chart].version
    given = next((version for name, version in draft.spec.versions.items() if name == chart), None)
    if given is None:
        return pinned
    # The operator's chart writes its versions with a v, the others without.
    version = "v" * pinned.startswith("v") + given.removeprefix("v")
    where, fix = (*draft.at, "versions", chart), f"write {pinned} or leave it out"
    lacks = too_old(chart, version)
    if lacks is not None:
        draft.problems.append(Problem(where, f"got {version}, {lacks}", fix))
    elif version not in known_versions(chart):
        what = f"got {version}, of which this release knows neither the values it reads nor the software it installs"
        if is_older(version, pinned):
            draft.problems.append(Problem(where, f"{what}, and it is older than {pinned}", fix))
        else:
            unchecked = f"; values are checked against {pinned}, and nothing against the security floors"
            draft.warnings.append(Problem(where, what + unchecked, "leave it out, or raise gpupools"))
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


def _on_cpu_nodes(draft: _Draft, chart: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with which what is no daemon tolerates the taints of the cluster's other nodes."""
    more = [
        {
            "key": taint.key,
            **({"operator": "Equal", "value": taint.value} if taint.value else {"operator": "Exists"}),
            "effect": taint.effect.value,
        }
        for taint in draft.spec.cpu_taints
    ]
    return {each.tolerations: [*own, *more] for each, own in _controllers(chart, values)} if more else {}


def _controllers(chart: str, values: Mapping[str, Any]) -> Iterator[tuple[Operand, Sequence[Any]]]:
    """Give what of a release is no daemon, with the tolerations that it has unasked."""
    for each in CONTROLLERS:
        if each.chart == chart and (not each.runs or value_seen(chart, values, each.runs)):
            yield each, value_seen(chart, values, each.tolerations) or ()


def _has_controllers(release: Release) -> bool:
    return any(True for _ in _controllers(release.chart, release.values))


def _source_of(spec: RuntimeSpec, chart: Chart) -> str:
    return next((source for name, source in spec.chart_sources.items() if name == chart.chart), chart.repository)


def _space(draft: _Draft, name: str) -> str:
    """Declare a namespace once; return its step."""
    return draft.add(objects.namespace(name))


# --- objects ----------------------------------------------------------------------------------------------------------


def _installer(draft: _Draft) -> None:
    installers = {pool.name: draft.nodes[pool.name].driver_installer for pool in draft.pools}
    for installer in dict.fromkeys(each for each in installers.values() if each is not None):
        pools = tuple(pool for pool in draft.pools if installers[pool.name] == installer)
        declared, images = moved(installer.declare(pools), draft.pulls, installer.owner)
        draft.images += images
        step = draft.add(declared, *_first(pools))
        for release in draft.releases:
            if set(release.pools) & {pool.name for pool in pools}:
                draft.depends[release.name].add(step)


def _extras(draft: _Draft) -> None:
    spec = draft.spec
    why_quota = next((node.critical_pods_quota for node in draft.nodes.values() if node.critical_pods_quota), "")
    if why_quota:
        for release in draft.releases:
            nodes = sum(pool.max_nodes for pool in draft.pools if pool.name in release.pools)
            pods = spec.critical_pods or max(100, _PODS_PER_NODE[release.chart] * nodes + 20)
            quota = objects.critical_pods_quota(release.namespace, pods, why_quota)
            draft.depends[release.name].add(draft.add(quota, f"namespace/{release.namespace}"))
    if spec.smoke_test:
        _refuse_unreachable_smoke_tests(draft)
        draft.images.append(
            ContainerImage(objects.SMOKE_IMAGE, draft.pulls.reference(objects.SMOKE_IMAGE), "smoke tests")
        )
        space = draft.add(objects.smoke_namespace(draft.pools))
        for pool in draft.pools:
            serving = [release.name for release in draft.releases if pool.name in release.pools]
            claims_by = [draft.add(each, space) for each in objects.smoke_claims(pool)]
            draft.add(objects.smoke_test(pool, draft.pulls), space, f"pool/{pool.name}", *serving, *claims_by)
    if spec.trust_policy:
        own = {*(release.namespace for release in draft.releases), *((objects.SMOKE_NAMESPACE,) * spec.smoke_test)}
        own |= {each.namespace for each in spec.existing.named().values() if each.namespace}
        _refuse_fences_around_their_own(draft)
        guards = objects.trust_objects(draft.pools, own, spec.system_namespaces)
        for each in guards:
            policy = each.name.removesuffix("/binding")
            draft.add(each, *((policy,) if policy != each.name else ()))
            for pool in draft.pools:
                mark = pool.trust.mark(pool.name) if pool.trust is not None else None
                if mark is not None and policy in (f"trust/{mark}", f"trust/{mark}/nodes"):
                    # Guarded before the first pod can land there.
                    draft.depends[f"pool/{pool.name}"].add(each.name)
        if not guards:
            fix = "give a pool trust: {team: …} or {namespaces: […]}, or leave trust_policy out"
            what = "asks for an admission policy, but no pool of the cluster names whom it trusts"
            draft.problems.append(Problem((*draft.at, "trust_policy"), what, fix))
    for each in objects.trust_quotas(draft.pools):
        draft.add(each)
    draft.warnings += [*_quotas_that_meet(draft.pools), *_quotas_below_a_node(draft.pools)]


def _refuse_fences_around_their_own(draft: _Draft) -> None:
    """Refuse a policy that would keep the software serving a pool off it, so that its team gets no GPU either."""
    marked = [pool.name for pool in draft.pools if pool.trust is not None and pool.trust.mark(pool.name) is not None]
    for key, software in draft.spec.existing.named().items():
        # eksctl installs into kube-system; an autoscaler runs on no GPU node.
        if software.namespace or key == "cluster_autoscaler" or "eksctl" in software.name.casefold() or not marked:
            continue
        what = f"got {shown(software.name)}, and trust_policy lets the cluster's software through by its namespace: "
        what += f"its pods would be kept off {', '.join(marked)}, and nobody got a GPU there"
        fix = f"write <namespace>/<name>, e.g. kube-system/{key.replace('_', '-')}"
        draft.problems.append(Problem((*draft.at, "existing", key), what, fix))


def _refuse_unreachable_smoke_tests(draft: _Draft) -> None:
    for pool in draft.pools:
        reason = pool.choices.pods_bring_no_nodes()
        if reason is None:
            continue
        what = f"the Job of pool {pool.name} would wait for ever, since no pod starts its nodes: {reason.what}"
        fix = "leave smoke_test out, or move that pool to another cluster"
        draft.problems.append(Problem((*draft.at, "smoke_test"), what, fix, reason.source))


# --- checks -----------------------------------------------------------------------------------------------------------


def _refuse_settings_without_effect(draft: _Draft) -> None:
    spec = draft.spec
    if spec.critical_pods is not None and not any(node.critical_pods_quota for node in draft.nodes.values()):
        what = f"got {spec.critical_pods}, but {draft.cloud.service} needs no quota for system-critical pods"
        draft.problems.append(Problem((*draft.at, "critical_pods"), what, "leave it out"))
    draft.problems += _too_old(draft)
    cut = [pool for pool in draft.pools if pool.sharing.mig is not None and not _cut_by_the_cloud(pool)]
    if spec.mig_reboot is not None and not cut:
        what = "no pool of the cluster is cut by the GPU Operator's MIG manager"
        draft.problems.append(Problem((*draft.at, "mig_reboot"), what, "leave it out"))
    if spec.keep_crds and not _uses_operator(draft):
        what = "no chart of the cluster brings CRDs, only the GPU Operator's does"
        draft.problems.append(Problem((*draft.at, "keep_crds"), what, "leave it out"))
    if spec.driver_auto_upgrade is not None and not _operator_brings_the_driver(draft):
        what = "no node of the cluster gets its driver from the GPU Operator"
        draft.problems.append(Problem((*draft.at, "driver_auto_upgrade"), what, "leave it out"))
    needed = {
        "nvidia-device-plugin": draft.served("device-plugin"),
        "gpu-operator": draft.served("gpu-operator"),
        DRA_CHART: draft.served(DRA_DRIVER) or _with_compute_domains(draft),
    }
    for chart in spec.versions:
        if not needed.get(chart, (True,)):
            what = f"no pool of the cluster uses {chart}"
            draft.problems.append(Problem((*draft.at, "versions", chart), what, "leave it out"))
    if spec.management == "external" and any(pool.trust and pool.trust.quota for pool in draft.pools):
        what = "external installs nothing, and a pool's trust.quota asks for a ResourceQuota"
        draft.problems.append(Problem((*draft.at, "management"), what, "leave quota out, or let it be managed"))


def _refuse_what_moves_nothing(draft: _Draft) -> None:
    """Refuse sources and digests of what the cluster does not get, as a slip of the hand would name it."""
    spec, installed = draft.spec, {release.chart for release in draft.releases}
    pulled = sorted({each.image for each in draft.images})
    for key in ("registry", "pull_secrets"):
        if getattr(spec, key) and not pulled:
            what = "nothing is installed in the cluster that would pull an image"
            draft.problems.append(Problem((*draft.at, key), what, "leave it out"))
    for chart in spec.chart_sources:
        if chart not in installed:
            what = f"no pool of the cluster gets chart {chart}"
            fix = f"leave it out; installed are {', '.join(sorted(installed)) or 'none'}"
            draft.problems.append(Problem((*draft.at, "chart_sources", chart), what, fix))
    if spec.cpu_taints and not any(_has_controllers(release) for release in draft.releases):
        what = "every pod that is installed here runs on GPU nodes"
        draft.problems.append(Problem((*draft.at, "cpu_taints"), what, "leave it out"))
    for image in spec.digests:
        if image not in pulled:
            what = "no pod of the cluster pulls this image"
            draft.problems.append(Problem((*draft.at, "digests", image), what, nearest(image, pulled)))


def _too_old(draft: _Draft) -> Iterator[Problem]:
    """Refuse what the cluster's version, where it is given, does not have, and a version that nothing depends on."""
    given, where = draft.spec.kubernetes, (*draft.at, "kubernetes")
    if given is None:
        return
    there = {
        "ValidatingAdmissionPolicy": (draft.spec.trust_policy, "or leave trust_policy out"),
        "gpu-operator": (_uses_operator(draft), "or use other software"),
        DRA_CHART: (
            bool(draft.served(DRA_DRIVER) or _with_compute_domains(draft)),
            "or use software: device-plugin without compute_domains",
        ),
    }
    for of, (used, otherwise) in there.items():
        needed = requirement(of, "kubernetes")
        if used and needed.fails(given):
            what = f"got {given}; {needed.what} needs Kubernetes {needed.at_least} or later"
            yield Problem(where, what, f"upgrade the cluster, {otherwise}", needed.source)
    if not any(used for used, _ in there.values()):
        yield Problem(where, "nothing here depends on it", "leave it out")


def _cut_by_the_cloud(pool: PoolPlan) -> bool:
    return pool.capability.verdict is Verdict.NATIVE or pool.choices.cuts_gpus()


def _owner_table(draft: _Draft) -> tuple[PoolOwners, ...]:
    table = []
    for pool in draft.pools:
        node = draft.nodes[pool.name]
        if node.refused:
            continue
        everything = claims(pool, node, draft.releases, draft.objects, draft.spec, draft.cloud)
        found = [claim for claim in everything if (pool.name, claim.piece.value) not in draft.undecided]
        # What a release that was refused for this pool would have brought is not missing as well.
        refused = any(problem.path == ("pools", pool.name, "software") for problem in draft.problems)
        needed = [piece for piece in needed_pieces(pool) if (pool.name, piece.value) not in draft.undecided]
        owners, problems = settle(pool, found, () if refused else needed, draft.runtime)
        draft.problems += problems
        table.append(owners)
    return tuple(table)


def _check_reach(draft: _Draft) -> None:
    """Refuse a release whose workload selects a pool it was made for but cannot be told to tolerate its taints."""
    for release in draft.releases:
        for pool in draft.pools:
            labels = labels_left(pool, draft.releases, draft.spec)
            for operand in operands_of(release):
                if pool.name not in release.pools or not wants(release, operand, labels):
                    continue
                given = at(release.values, operand.tolerations, ()) if operand.tolerations else ()
                off = untolerated(given or (), pool.taints)
                if off:
                    where = f"at {operand.tolerations}" if operand.tolerations else "and the chart has no value for it"
                    what = f"{operand.name} of chart {release.chart} does not tolerate {off[0]} {where}"
                    draft.problems.append(Problem(("pools", pool.name, "taints"), what, "use another taint"))


_AGENT = "https://github.com/aws/eks-node-monitoring-agent (charts/eks-node-monitoring-agent, 1.7.0)"
_TWO_DCGMS = "https://github.com/aws/containers-roadmap/issues/2763"


def _check_helpers(draft: _Draft, measured: set[str]) -> None:
    """Refuse helpers the cloud does not have, and a second DCGM where nodes are replaced on what the first says."""
    existing = draft.spec.existing
    for key in ("cluster_autoscaler", "node_monitoring_agent"):
        if getattr(existing, key) is not None and key not in draft.cloud.helpers:
            what = f"{draft.cloud.service} has no such software in its clusters"
            draft.problems.append(Problem((*draft.at, "existing", key), what, "leave it out"))
    agent = existing.node_monitoring_agent
    if agent is None or "node_monitoring_agent" not in draft.cloud.helpers:
        return
    for pool in draft.pools:
        repaired = pool.choices.repairs_nodes()
        if pool.name in measured and repaired and may_run(agent, pool.labels, draft.cloud):
            what = (
                f"is on, and {agent.name} calls a node broken whose DCGM it does not reach, which a second one, of the "
                f"DCGM exporter, brings about: {draft.cloud.service} would replace healthy nodes"
            )
            fix = (
                f"set {draft.runtime}.metrics: false, so that the agent's DCGM is the only one, or auto_repair: false "
                "here, or take the agent away"
            )
            draft.problems.append(Problem(("pools", pool.name, "auto_repair"), what, fix, _TWO_DCGMS))


def _needed_beside(draft: _Draft, measured: set[str]) -> Iterator[str]:
    """Say what the cluster has to have beside its GPU pools, as far as nobody said that it is there."""
    existing, helpers = draft.spec.existing, draft.cloud.helpers
    operators = [release for release in draft.releases if _has_controllers(release)]
    if operators and not draft.spec.cpu_taints:
        named = ", ".join(release.chart for release in operators)
        what = f"chart {named} needs a node without GPUs and without taints for what is no daemon"
        waits = any(not release.skip_await for release in operators)
        why = "its release waits for it, and ends with an error after half an hour" if waits else "it waits for one"
        yield f"{what} ({why}); {draft.runtime}.cpu_taints names taints that are tolerated there"
    growing = [pool.name for pool in draft.pools if pool.min_nodes < pool.max_nodes]
    if growing and "cluster_autoscaler" in helpers and existing.cluster_autoscaler is None:
        what = (
            f"{draft.cloud.service} starts no node of {', '.join(growing)} by itself: a cluster-autoscaler has to run"
        )
        yield f"{what}; {draft.runtime}.existing.cluster_autoscaler says that it does ({helpers['cluster_autoscaler']})"
    if "node_monitoring_agent" not in helpers:
        return
    agent = existing.node_monitoring_agent
    repaired = [pool for pool in draft.pools if pool.choices.repairs_nodes()]
    two = [pool.name for pool in repaired if pool.name in measured]
    if agent is None and two:
        what = f"with the add-on eks-node-monitoring-agent, healthy nodes of {', '.join(two)} would be replaced"
        why = "its DCGM and the exporter's are in each other's way"
        yield f"{what}: {why}; {draft.runtime}.existing.node_monitoring_agent has it checked ({_TWO_DCGMS})"
    for pool in repaired:
        if agent is not None and may_run(agent, pool.labels, draft.cloud):
            taints = ", ".join(str(taint) for taint in pool.taints)
            what = f"pool {pool.name}: {agent.name} has to tolerate {taints} at dcgmAgent.tolerations"
            yield f"{what}, or it reaches no DCGM, and the nodes are replaced ({_AGENT})"


def _note(draft: _Draft, measured: set[str]) -> None:
    existing = draft.spec.existing
    for key in ("node_feature_discovery", "dcgm_exporter"):
        software = getattr(existing, key)
        if software is not None and (key == "dcgm_exporter" or _uses_operator(draft)):
            draft.notes.append(f"{software.name} is used; none of ours is installed beside it")
    if _uses_operator(draft) or existing.gpu_operator is not None:
        theirs = {"device-plugin": existing.device_plugin, DRA_DRIVER: existing.dra_driver}
        for software in (each for key, each in theirs.items() if each is not None and draft.served(key)):
            what = f"{software.name} must not go by the label {GPU_PRESENT_LABEL}, as NVIDIA's charts do unasked"
            draft.notes.append(f"{what}: a GPU Operator sets it to false on nodes that are not its own")
    if existing.gpu_operator is not None and draft.served("gpu-operator"):
        brought = sorted({piece.value for node in draft.nodes.values() for piece in _operator_skips(node)})
        if brought:
            draft.notes.append(f"{existing.gpu_operator.name} must leave to the nodes: {', '.join(brought)}")
    for pool in draft.pools:
        clients = pool.sharing.clients
        if clients is not None and clients.facts.equal_parts and pool.sharing.mig is None:
            gib, percent = client_limits(pool.instance, clients)
            what = f"each {clients.facts.called} client gets at most {gib:g} GiB and {percent} % of a GPU"
            draft.notes.append(f"pool {pool.name}: {what}")
        if clients is not None and not clients.facts.seen_by_dcgm and pool.name in measured:
            draft.notes.append(f"pool {pool.name}: DCGM cannot tell containers apart that take turns on a GPU")
        draft.notes += _unknown_to_the_autoscaler(pool)
        if gpu_models()[pool.instance.gpu_model].nvlink_over_nodes and not pool.compute_domains:
            what = "NVLink ends at the node for its pods, though the machines share one over the rack"
            draft.notes.append(f"pool {pool.name}: {what}; network.compute_domains: true lets them use it")
        if pool.compute_domains and not pool.min_nodes and not draft.cloud.models_claims:
            # GKE's autoscaler models them: k8s.io/gke-autoscaling, cluster-autoscaler/pkg/cloudprovider/gke/
            # dynamicresources, computeDomainResourceSlicesForNode.
            what = "while it is empty, a pod in an NVLink domain (node_pod) starts no node: its claim waits for a"
            what += " ResourceSlice, which only a running node publishes"
            cure = "start the first one with a pod that asks for a GPU alone, or keep nodes.min at 1"
            draft.notes.append(f"pool {pool.name}: {what}; {cure}")
        fabric = pool.choices.fabric
        if fabric is not None and not fabric.share(pool.units):
            why = f"a node has {fabric.devices} RDMA interface(s) for {pool.units} GPUs"
            why = "pods of one node cannot share RDMA interfaces out" if fabric.whole_nodes else why
            what = "so the pod of one GPU asks for none and goes over TCP; node_pod, a whole node's, asks for all"
            draft.notes.append(f"pool {pool.name}: {why}, {what}")
        if fabric is not None and fabric.beside:
            draft.notes.append(f"pool {pool.name}: its RDMA interfaces need {fabric.beside}")
        trusted = pool.trust is not None and pool.trust.waiver is None
        if trusted and not draft.spec.trust_policy:
            key = f"{draft.runtime}.trust_policy"
            draft.notes.append(f"pool {pool.name}: its taint keeps others away; {key}: true makes it a rule")
        if pool.trust is not None and pool.trust.waiver is not None:
            draft.notes.append(f"pool {pool.name}: shared by anyone, since {pool.trust.waiver}")
    draft.notes += _needed_beside(draft, measured)
    draft.notes += _closed_network(draft)
    draft.warnings += _named_for_nothing(draft)
    if draft.spec.management == "external":
        for pool in draft.pools:
            draft.notes += _asked_of_others(pool)


def _named_for_nothing(draft: _Draft) -> Iterator[Problem]:
    """Say which software of the team's changes nothing here; what keeps off the pools may be named for that."""
    existing = draft.spec.existing
    theirs = existing.rdma_plugin
    needed: dict[str, tuple[bool, str, str]] = {
        "rdma_plugin": (
            theirs is None
            or any(pool.choices.fabric and may_run(theirs, pool.labels, draft.cloud) for pool in draft.pools),
            "serves no pool here, since none has RDMA interfaces on nodes that it selects: pods use TCP",
            "write network: {rdma: true} on the pools it is for, or leave it out",
        ),
        "node_feature_discovery": (
            _uses_operator(draft) or existing.gpu_operator is not None or draft.spec.management == "external",
            "is asked by a GPU Operator only, and the cluster has none",
            "leave it out",
        ),
        "cluster_autoscaler": (
            any(pool.min_nodes < pool.max_nodes for pool in draft.pools),
            "has nothing to start, since no pool of the cluster grows",
            "leave it out",
        ),
    }
    for key, (used, what, fix) in needed.items():
        software = existing.named().get(key)
        # A trust policy lets through what is in its namespace, whatever it serves.
        if software is not None and not used and not (draft.spec.trust_policy and software.namespace):
            yield Problem((*draft.at, "existing", key), f"{software.name} {what}", fix)


def _closed_network(draft: _Draft) -> Iterator[str]:
    """Say what has to be where before nodes without the internet can pull, and what still comes from there."""
    spec = draft.spec
    if spec.pull_secrets:
        spaces = {release.namespace for release in draft.releases}
        spaces |= {
            each.manifest["metadata"]["namespace"] for each in draft.objects if each.kind in ("DaemonSet", "Job")
        }
        if spaces:
            names = " and ".join(spec.pull_secrets)
            yield f"Secret {names} is needed in {', '.join(sorted(spaces))}; until it is there, no image is pulled"
    public = [release.chart for release in draft.releases if release.chart not in spec.chart_sources]
    if spec.registry is not None and public:
        what = f"images come from {spec.registry}, the packages of charts {', '.join(public)} from their publishers"
        yield f"{what}; {draft.runtime}.chart_sources names other places"


def _quotas_that_meet(pools: Sequence[PoolPlan]) -> Iterator[Problem]:
    """Say where the quotas of two pools bind one namespace together, since Kubernetes knows no pools."""
    bound: dict[str, dict[str, list[PoolPlan]]] = {}
    for pool in pools:
        if pool.trust is not None and pool.trust.quota is not None:
            for resource in objects.quota_counts(pool):
                for space in pool.trust.namespaces or []:
                    bound.setdefault(resource, {}).setdefault(space, []).append(pool)
    for resource, by_space in bound.items():
        for together in dict.fromkeys(tuple(each.name for each in here) for here in by_space.values()):
            spaces = [space for space, here in by_space.items() if tuple(each.name for each in here) == together]
            quotas = {pool.name: pool.trust.quota for pool in pools if pool.name in together and pool.trust}
            if len(quotas) > 1:
                least = min(quota for quota in quotas.values() if quota is not None)
                given = ", ".join(f"{name} {quota}" for name, quota in quotas.items())
                what = f"the quotas of {given} all count {resource} of {' and '.join(spaces)}, whatever the pool"
                what += f", so {least} is the most on these pools together"
                fix = "write on each what a namespace may have on all of them, or leave all but one out"
                yield Problem(("pools", together[-1], "trust", "quota"), what, fix, _QUOTA_SOURCE)


def _quotas_below_a_node(pools: Iterable[PoolPlan]) -> Iterator[Problem]:
    """Say where no namespace may start the pod that takes a whole node, for which such pools are bought."""
    for pool in pools:
        quota = pool.trust.quota if pool.trust is not None else None
        units = sum(pool.node_resources.values()) or pool.instance.devices
        if pool.node_pod and quota is not None and quota < units:
            what = f"got {quota}, and the pod that takes a whole node (node_pod) asks for {units}, so none is admitted"
            fix = f"write {units} for each whole node that a namespace may have, or leave quota out"
            yield Problem(("pools", pool.name, "trust", "quota"), what, fix, _QUOTA_SOURCE)


_QUOTA_SOURCE = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"


def _unknown_to_the_autoscaler(pool: PoolPlan) -> Iterator[str]:
    """Say what the cloud's autoscaler does not know: GPUs by another name, and in an empty pool replicas.

    An empty pool has the GPUs of the machine type to it, and a node that its cloud labels as one with GPUs has to offer
    `nvidia.com/gpu`: https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/azure/azure_template.go
    and gce/templates.go beside it, and cluster-autoscaler/processors/customresources/gpu_processor.go.
    """
    if pool.choices.autoscaler_is_told():
        return
    if GPU_RESOURCE not in pool.node_resources and pool.min_nodes < pool.max_nodes:
        way = "keep a fixed number of nodes, or leave rename out" if _renamed(pool) else "keep a fixed number of nodes"
        what = f"the autoscaler waits on each node for {GPU_RESOURCE}, which none offers, and takes it for not ready"
        yield f"pool {pool.name}: {what}; {way}"
    if pool.min_nodes > 0:
        return
    named = [resource for resource in pool.node_resources if resource != GPU_RESOURCE]
    offered, devices = pool.node_resources.get(GPU_RESOURCE, 0), pool.instance.devices
    if named:
        other = "leave rename out" if _renamed(pool) else "give profile with strategy single"
        way = f"keep nodes.min at 1, or {other}"
        yield f"pool {pool.name}: while it is empty, pods that ask for {named[0]} start no node; {way}"
    elif offered > devices:
        counts = f"the autoscaler takes a node of an empty pool for {devices} {GPU_RESOURCE}, not {offered}"
        yield f"pool {pool.name}: {counts}, and may start more nodes than needed; keep nodes.min at 1"


def _renamed(pool: PoolPlan) -> bool:
    return pool.sharing.clients is not None and pool.sharing.clients.rename


def _asked_of_others(pool: PoolPlan) -> Iterator[str]:
    """Say which configurations software that is not ours must have for a pool's labels to mean something."""
    if pool.software == "cloud-managed":
        return
    for label in CONFIG_LABELS:
        if label in pool.labels:
            yield f"pool {pool.name}: its nodes ask for {label}={pool.labels[label]}, which has to be configured"


def _in_order(depends: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    """Put steps behind those they wait for, else in the order they were decided.

    Raises:
        ValueError: Two steps wait for each other, which no plan may say.
    """
    placed: dict[str, tuple[str, ...]] = {}
    rest = dict(depends)
    while rest:
        ready = [step for step, befores in rest.items() if befores <= placed.keys()]
        if not ready:
            raise ValueError(f"these steps wait for each other: {', '.join(rest)}")
        for step in ready:
            placed[step] = tuple(sorted(rest.pop(step)))
    return placed
