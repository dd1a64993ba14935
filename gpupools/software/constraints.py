"""What speaks against a draft of the GPU software of a cluster, and what has to be said about it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpupools.catalog.gpus import gpu_models
from gpupools.catalog.minimum_versions import numbers
from gpupools.catalog.requirements import NEWEST_KUBERNETES, Requirement, is_newer_than_known, requirement
from gpupools.common.errors import Path, Problem, nearest
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.dra import DRA_CHART, DRA_DRIVER
from gpupools.plan.hami import HAMI
from gpupools.plan.node_labels import CONFIG_LABELS, GPU_PRESENT_LABEL
from gpupools.plan.node_resources import GPU_RESOURCE, KAI_NAMESPACES
from gpupools.plan.plugin_configs import client_limits
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.tolerations import kept_taint_note, untolerated
from gpupools.software import kai, objects
from gpupools.software.charts import at
from gpupools.software.draft import Draft
from gpupools.software.owners import labels_left, may_run, operands_of, wants
from gpupools.software.releases import (
    SCHEDULERS,
    cut_by_the_cloud,
    has_controllers,
    operator_brings_the_driver,
    operator_skips,
    uses_operator,
    with_compute_domains,
)
from gpupools.software.scaling_order import has_order
from gpupools.software.team_shares import pools_of
from gpupools.spec.teams import Team


def refuse_settings_without_effect(draft: Draft) -> None:
    """Refuse settings of the cluster that nothing in it would follow."""
    spec = draft.spec
    if spec.critical_pods is not None and not any(node.critical_pods_quota for node in draft.nodes.values()):
        what = f"got {spec.critical_pods}, but {draft.cloud.service} requires no quota for system-critical pods"
        draft.refuse(what, "critical_pods")
    draft.problems += _too_old(draft)
    if spec.mig_reboot is not None and all(pool.sharing.mig is None or cut_by_the_cloud(pool) for pool in draft.pools):
        draft.refuse("no pool of the cluster uses the GPU Operator's MIG manager", "mig_reboot")
    if spec.keep_crds and not uses_operator(draft):
        draft.refuse("only the GPU Operator's chart installs CRDs, and the cluster does not use it", "keep_crds")
    if spec.driver_auto_upgrade is not None and not operator_brings_the_driver(draft):
        draft.refuse("the GPU Operator installs no driver in this cluster", "driver_auto_upgrade")
    unused = {
        "nvidia-device-plugin": not draft.served("device-plugin"),
        "gpu-operator": not uses_operator(draft),
        HAMI: not draft.served(HAMI) or spec.existing.hami is not None,
        DRA_CHART: not draft.served(DRA_DRIVER) and not with_compute_domains(draft),
        **{
            scheduler.chart: spec.scheduler != key or spec.existing.scheduler is not None
            for key, scheduler in SCHEDULERS.items()
        },
    }
    for chart in spec.versions:
        if unused.get(chart, False):
            draft.refuse(f"no pool of the cluster uses {chart}", "versions", chart)
    if spec.management == "external" and any(pool.trust and pool.trust.quota for pool in draft.pools):
        what = "management: external installs nothing, but a pool's trust.quota needs a ResourceQuota"
        draft.refuse(what, "management", fix="remove trust.quota, or set management: managed")


def refuse_what_moves_nothing(draft: Draft) -> None:
    """Refuse sources and digests of what the cluster does not get, as a slip of the hand would name it."""
    spec, installed = draft.spec, {release.chart for release in draft.releases}
    pulled = sorted({image.image for image in draft.images})
    for key in ("registry", "pull_secrets"):
        if getattr(spec, key) and not pulled:
            draft.refuse("nothing that gpupools installs in the cluster pulls an image", key)
    for chart in (name for name in spec.chart_sources if name not in installed):
        fix = f"leave it out; installed charts: {', '.join(sorted(installed)) or 'none'}"
        draft.refuse(f"no pool of the cluster installs chart {chart}", "chart_sources", chart, fix=fix)
    for image in spec.digests if isinstance(spec.digests, dict) else ():
        if image not in pulled:
            draft.refuse("no pod of the cluster pulls this image", "digests", image, fix=nearest(image, pulled))


def _too_old(draft: Draft) -> Iterator[Problem]:
    """Refuse what the cluster's version, where it is given, does not have."""
    given, where = draft.spec.kubernetes, (*draft.at, "kubernetes")
    if given is None:
        return
    there = {
        "ValidatingAdmissionPolicy": (
            draft.spec.trust_policy or any(pool.startup_taint or pool.scheduler_name for pool in draft.pools),
            "or leave trust_policy, startup_taint and the teams of KAI and Volcano out",
        ),
        "gpu-operator": (uses_operator(draft), "or use other software"),
        HAMI: (bool(draft.served(HAMI)), "or use other software"),
        "CapacityBuffer": (
            bool(draft.cloud.capacity_buffers) and any(pool.spare for pool in draft.pools),
            "or remove nodes.spare",
        ),
        DRA_CHART: (
            bool(draft.served(DRA_DRIVER) or with_compute_domains(draft)),
            "or use software: device-plugin without compute_domains",
        ),
    }
    for of, (used, otherwise) in there.items():
        needed = requirement(of, "kubernetes")
        if used and needed.fails(given):
            what = f"got {given}; {needed.what} needs Kubernetes {needed.at_least} or later"
            yield Problem(where, what, f"upgrade the cluster, {otherwise}", needed.source)
    if _lacks_claims(draft) and (numbers(given) or ()) < (1, 35):
        what = (
            f"Cluster Autoscaler of Kubernetes {given} ignores claims, so it never scales {', '.join(_claimed(draft))}"
        )
        fix = "run it with --enable-dynamic-resource-allocation and access to resource.k8s.io, then set"
        fix += " existing.cluster_autoscaler.dynamic_resource_allocation: true; or use nodes.fixed"
        yield Problem((*draft.at, "existing", "cluster_autoscaler"), what, fix, _CLAIMS)
    for row in draft.cloud.rows("requirements.csv"):
        needed = Requirement(**row)
        if needed.fails(given):
            what = f"{needed.what} needs Kubernetes {needed.at_least} or later; the cluster has {given}"
            draft.notes.append(f"{what} ({needed.source})")
    if is_newer_than_known(given):
        note = f"{draft.runtime}.kubernetes {given} is newer than {NEWEST_KUBERNETES}, the newest that gpupools knows"
        draft.notes.append(f"{note}: check that the GPU software supports it before pulumi up")


_CLAIMS = "https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.34.5/cluster-autoscaler/FAQ.md"


def _claimed(draft: Draft) -> list[str]:
    """Return the pools that grow by pods which claim GPUs."""
    return [plan.name for plan in draft.served(DRA_DRIVER) if plan.min_nodes < plan.max_nodes]


def _lacks_claims(draft: Draft) -> bool:
    """Return whether the team's Cluster Autoscaler may not count claims, though pools grow by them."""
    theirs = draft.spec.existing.cluster_autoscaler
    theirs = theirs if "cluster_autoscaler" in draft.cloud.helpers else None
    return bool(theirs is not None and not theirs.dynamic_resource_allocation and _claimed(draft))


def check_reach(draft: Draft) -> None:
    """Refuse a release whose workload selects a pool it was made for but has no setting to tolerate its taints."""
    for release in draft.releases:
        for pool in draft.pools:
            labels = labels_left(pool, draft.releases, draft.spec)
            for operand in operands_of(release):
                if pool.name not in release.pools or not wants(release, operand, labels):
                    continue
                given = at(release.values, operand.tolerations, ()) if operand.tolerations else ()
                off = untolerated(given or (), pool.node_taints)
                if off:
                    where = (
                        f"at {operand.tolerations}" if operand.tolerations else "and the chart has no setting for it"
                    )
                    what = f"{operand.name} of chart {release.chart} does not tolerate {off[0]} {where}"
                    draft.problems.append(Problem(("pools", pool.name, "taints"), what, "use another taint"))


_AGENT = "https://github.com/aws/eks-node-monitoring-agent (charts/eks-node-monitoring-agent, 1.7.0)"
_TWO_DCGMS = "https://github.com/aws/containers-roadmap/issues/2763"


def check_helpers(draft: Draft, measured: set[str]) -> None:
    """Refuse helpers the cloud does not have, and a second DCGM where nodes are replaced on what the first says."""
    existing = draft.spec.existing
    for key in ("cluster_autoscaler", "node_monitoring_agent"):
        ordered = key == "cluster_autoscaler" and draft.cloud.node_pools.order.enable
        if ordered and has_order(draft.spec, draft.pools):
            continue
        if getattr(existing, key) is not None and key not in draft.cloud.helpers:
            draft.refuse(f"{draft.cloud.service} clusters do not run this software", "existing", key)
    agent = existing.node_monitoring_agent
    if agent is None or "node_monitoring_agent" not in draft.cloud.helpers:
        return
    for pool in draft.pools:
        repaired = pool.provider_plan.has_auto_repair()
        if pool.name in measured and repaired and may_run(agent, pool.labels, draft.cloud):
            what = (
                f"is on, and {agent.name} reports a node as broken if a second DCGM, such as the one of the"
                " DCGM exporter, "
                f"blocks its own: {draft.cloud.service} would replace healthy nodes"
            )
            fix = (
                f"set {draft.runtime}.metrics: false so that only the agent's DCGM runs, set auto_repair: false here, "
                "or remove the agent"
            )
            draft.problems.append(Problem(("pools", pool.name, "auto_repair"), what, fix, _TWO_DCGMS))


def _needed_beside(draft: Draft, measured: set[str]) -> Iterator[str]:
    """Say what the cluster has to have beside its GPU pools, as far as nobody said that it is there."""
    existing, helpers = draft.spec.existing, draft.cloud.helpers
    operators = [release for release in draft.releases if has_controllers(release)]
    if operators and not draft.spec.cpu_taints:
        named = ", ".join(release.chart for release in operators)
        what = f"chart {named} needs a node without GPUs and taints for its controllers"
        waits = any(not release.skip_await for release in operators)
        why = (
            "the release waits for it and fails after half an hour" if waits else "their pods stay pending without one"
        )
        yield f"{what} ({why}); to tolerate taints there, set {draft.runtime}.cpu_taints"
    growing = [pool.name for pool in draft.pools if pool.min_nodes < pool.max_nodes]
    if growing and "cluster_autoscaler" in helpers and existing.cluster_autoscaler is None:
        what = (
            f"pools {', '.join(growing)} need Cluster Autoscaler: {draft.cloud.service} does not scale them by itself"
        )
        yield (
            f"{what}. Once it is installed, set {draft.runtime}.existing.cluster_autoscaler"
            f" ({helpers['cluster_autoscaler']})."
        )
    given = numbers(draft.spec.kubernetes or "")
    if _lacks_claims(draft) and (not given or (1, 35) <= given < (1, 35, 2)):
        what = f"Cluster Autoscaler before 1.35.2 ignores claims, so it never scales {', '.join(_claimed(draft))}"
        yield f"{what}, unless it runs with --enable-dynamic-resource-allocation; set {draft.runtime}.kubernetes"
    if "node_monitoring_agent" not in helpers:
        return
    agent = existing.node_monitoring_agent
    repaired = [pool for pool in draft.pools if pool.provider_plan.has_auto_repair()]
    two = [pool.name for pool in repaired if pool.name in measured]
    if agent is None and two:
        what = f"with the add-on eks-node-monitoring-agent, EKS would replace healthy nodes of {', '.join(two)}"
        why = "its DCGM conflicts with the DCGM exporter's"
        yield f"{what}: {why}; set {draft.runtime}.existing.node_monitoring_agent to have this checked ({_TWO_DCGMS})"
    for pool in repaired:
        if agent is not None and may_run(agent, pool.labels, draft.cloud):
            taints = ", ".join(str(taint) for taint in pool.taints)
            what = f"pool {pool.name}: {agent.name} must tolerate {taints} at dcgmAgent.tolerations"
            yield f"{what}, or it reaches no DCGM and EKS replaces the nodes ({_AGENT})"


def note(draft: Draft, measured: set[str], teams: Mapping[str, Team]) -> None:
    """Note what a reader of the plan has to know or do beside it."""
    draft.notes += _about_existing(draft)
    for pool in draft.pools:
        about = (
            *_about_sharing(pool, measured),
            *kai.notes(draft, pool),
            *_unknown_to_the_autoscaler(pool),
            *_first_node(draft, pool),
            *_too_few_pods(draft, pool),
            *_about_nvlink(draft, pool),
            *_about_rdma(pool),
            *_about_trust(draft, pool),
            *(kept_taint_note(taint) for taint in pool.taints[:1] if taint != GPU_TAINT),
        )
        draft.notes += [f"pool {pool.name}: {text}" for text in about]
    draft.notes += _needed_beside(draft, measured)
    draft.notes += _closed_network(draft)
    draft.warnings += _about_teams(draft, teams)
    draft.warnings += _named_for_nothing(draft)
    draft.warnings += _beside_karpenter(draft)
    if draft.spec.management == "external":
        for pool in draft.pools:
            draft.notes += _asked_of_others(pool)


def _about_existing(draft: Draft) -> Iterator[str]:
    existing = draft.spec.existing
    for key in ("node_feature_discovery", "dcgm_exporter"):
        software = getattr(existing, key)
        if software is not None and (key == "dcgm_exporter" or uses_operator(draft)):
            yield f"{software.name} is used; gpupools installs none"
    if uses_operator(draft) or existing.gpu_operator is not None:
        theirs = {"device-plugin": existing.device_plugin, DRA_DRIVER: existing.dra_driver}
        for software in (value for key, value in theirs.items() if value is not None and draft.served(key)):
            what = (
                f"{software.name} must not select nodes by the label {GPU_PRESENT_LABEL}, which is the"
                " default of NVIDIA's charts"
            )
            yield f"{what}: the GPU Operator sets it to false on nodes that it does not manage"
    if existing.gpu_operator is not None and draft.served("gpu-operator"):
        brought = sorted({piece.value for node in draft.nodes.values() for piece in operator_skips(node)})
        if brought:
            yield f"in {existing.gpu_operator.name}, disable what the nodes provide: {', '.join(brought)}"


def _about_sharing(pool: PoolPlan, measured: set[str]) -> Iterator[str]:
    clients = pool.sharing.clients
    if clients is not None and clients.facts.equal_parts and pool.sharing.mig is None:
        gib, percent = client_limits(pool.instance, clients)
        yield f"each {clients.facts.called} client gets at most {gib:g} GiB and {percent} % of a GPU"
    if clients is not None and not clients.facts.seen_by_dcgm and pool.name in measured:
        yield "DCGM metrics cannot distinguish containers that share a GPU by time-slicing"


def _about_nvlink(draft: Draft, pool: PoolPlan) -> Iterator[str]:
    if gpu_models()[pool.instance.gpu_model].nvlink_over_nodes and not pool.compute_domains:
        what = "its pods use NVLink only inside a node, although the nodes of a rack share one NVLink domain"
        yield f"{what}; to use it, set network.compute_domains: true"
    if pool.compute_domains and not pool.min_nodes and not draft.cloud.supports_dra_from_zero:
        # GKE's autoscaler models them: k8s.io/gke-autoscaling, cluster-autoscaler/pkg/cloudprovider/gke/
        # dynamicresources, computeDomainResourceSlicesForNode.
        what = "while the pool is empty, a pod in an NVLink domain (node_pod) does not scale it up: its claim needs a"
        what += " ResourceSlice, which only a running node publishes"
        yield f"{what}; start the first node with a pod that requests only a GPU, or set nodes.min: 1"


def _about_rdma(pool: PoolPlan) -> Iterator[str]:
    fabric = pool.provider_plan.fabric
    if fabric is not None and not fabric.share(pool.units):
        why = f"a node has {fabric.devices} RDMA interface(s) for {pool.units} GPUs"
        why = "pods of one node cannot share its RDMA interfaces" if fabric.whole_nodes else why
        yield f"{why}, so a pod with one GPU gets none and uses TCP; node_pod, which takes a whole node, gets all"
    if fabric is not None and fabric.beside:
        yield f"its RDMA interfaces require {fabric.beside}"


def _about_trust(draft: Draft, pool: PoolPlan) -> Iterator[str]:
    if pool.trust is None:
        return
    if pool.trust.waiver is not None:
        yield f"anyone may share its GPUs, because {pool.trust.waiver}"
    elif not draft.spec.trust_policy:
        yield (
            f"only the taint keeps other teams out. Set {draft.runtime}.trust_policy: true to enforce it with"
            " an admission policy."
        )


def _about_teams(draft: Draft, teams: Mapping[str, Team]) -> Iterator[Problem]:
    """Say what of the teams' shares is other than it looks."""
    spec, shares, sources = draft.spec, draft.shares, {pool.name: pool for pool in draft.pools}
    here = {name: {*team.guarantee, *team.limit} for name, team in teams.items()}
    unbound = [name for name, keys in here.items() if any(pools_of(key, draft.pools) for key in keys)]
    if unbound and spec.scheduler is None:
        named = ", ".join(unbound[:4]) + (" and others" if len(unbound) > 4 else "")
        yield Problem((*draft.at, "scheduler"), f"is not set, so nothing enforces the shares of {named} here", "set it")
    if shares.shares and not spec.trust_policy:
        what = "is not set, so pods of other namespaces" + (" and schedulers" if spec.scheduler != "kueue" else "")
        yield Problem((*draft.at, "trust_policy"), f"{what} use the teams' GPUs without a share", "set it to true")
    for name, own in shares.shares.items():
        path: Path = ("teams", name)
        others = {unit for key, units in shares.shares.items() if key != name for unit in units}
        if teams[name].weight != 1 and not others & own.keys():
            what = f"has no effect on {draft.cluster}: no other team has units of the same pool and kind there"
            yield Problem((*path, "weight"), what, "leave it out, or give teams shares of the same pools")
        if len({sources[pool].sharing.kind for pool, _ in own}) > 1 and spec.scheduler == "kueue":
            what = "has whole GPUs and parts of GPUs: a job gets what is free first, whole GPUs before parts"
            yield Problem(path, what, "set nodeSelector gpupools/pool in jobs that want parts")
        for (pool, resource), share in own.items():
            node = sources[pool].countable[resource]
            if sources[pool].node_pod and share.guarantee % node:
                what = f"{share.guarantee} on {pool} is no multiple of a node's {node}, so pods that take a whole node"
                what += f" (node_pod) get {share.guarantee // node * node} of it"
                yield Problem((*path, "guarantee"), what, f"guarantee a multiple of {node}")
        for key, amount in teams[name].limit.items():
            named_pools = {pool.name for pool in pools_of(key, draft.pools)}
            most = sum(count for (pool, _), count in shares.capacity.items() if pool in named_pools)
            if named_pools and isinstance(amount, int) and amount > most:
                what = f"{amount} is more than the {most} that {draft.cluster} has with all nodes"
                yield Problem((*path, "limit", key), what, "lower it, or raise nodes.max")


def _beside_karpenter(draft: Draft) -> Iterator[Problem]:
    """Say that Karpenter scales none of these pools, and what does."""
    existing, growing = draft.spec.existing, [pool.name for pool in draft.pools if pool.min_nodes < pool.max_nodes]
    if existing.karpenter is None or not growing or existing.cluster_autoscaler is not None:
        return
    pools = ", ".join(growing)
    what = f"{existing.karpenter.name} scales only nodes that it makes itself, so not those of {pools}"
    fix, source = "", "https://karpenter.sh/docs/faq/"
    if "cluster_autoscaler" in draft.cloud.helpers:
        fix = f"run Cluster Autoscaler for them and name it in {draft.runtime}.existing.cluster_autoscaler, or use"
        fix += " nodes: {fixed: …}"
    elif draft.cloud.karpenter_excludes_autoscaling:
        what += f", and {draft.cloud.service} makes no pools with its own autoscaler beside it"
        fix, source = "use nodes: {fixed: …}", draft.cloud.karpenter_excludes_autoscaling
    else:
        what += f": {draft.cloud.service}'s own autoscaler does"
    yield Problem((*draft.at, "existing", "karpenter"), what, fix, source)


def _named_for_nothing(draft: Draft) -> Iterator[Problem]:
    """Say which software of the team's changes nothing here; what keeps off the pools may be named for that."""
    existing = draft.spec.existing
    theirs = existing.rdma_plugin
    needed: dict[str, tuple[bool, str, str]] = {
        "rdma_plugin": (
            theirs is None
            or any(pool.provider_plan.fabric and may_run(theirs, pool.labels, draft.cloud) for pool in draft.pools),
            "serves no pool: no pool with RDMA interfaces is on nodes that it selects, so pods use TCP",
            "set network: {rdma: true} on its pools, or leave it out",
        ),
        "kai_resource_isolator": (
            any(pool.sharing.fractions and pool.sharing.fractions.memory == "hami" for pool in draft.pools),
            "limits the memory of no pool of the cluster",
            "set sharing: {mode: fractions, memory: hami} on its pools, or leave it out",
        ),
        "node_feature_discovery": (
            uses_operator(draft) or existing.gpu_operator is not None or draft.spec.management == "external",
            "is only used by a GPU Operator, and the cluster has none",
            "leave it out",
        ),
        "cluster_autoscaler": (
            any(pool.min_nodes < pool.max_nodes for pool in draft.pools),
            "has nothing to do, since no pool of the cluster autoscales",
            "leave it out",
        ),
    }
    for key, (used, what, fix) in needed.items():
        software = existing.named().get(key)
        # A trust policy lets through what is in its namespace, whatever it serves.
        if software is not None and not used and not (draft.spec.trust_policy and software.namespace):
            yield Problem((*draft.at, "existing", key), f"{software.name} {what}", fix)


def _closed_network(draft: Draft) -> Iterator[str]:
    """Say what has to be where before nodes without the internet can pull, and what still comes from there."""
    spec = draft.spec
    if spec.pull_secrets:
        spaces = {release.namespace for release in draft.releases}
        spaces |= set(KAI_NAMESPACES) if kai.fractional(draft) else set()
        spaces |= {
            each.manifest["metadata"]["namespace"] for each in draft.objects if each.kind in ("DaemonSet", "Job")
        }
        if spaces:
            names = " and ".join(spec.pull_secrets)
            yield f"Secret {names} must exist in {', '.join(sorted(spaces))}; without it, no image can be pulled"
    public = [release.chart for release in draft.releases if release.chart not in spec.chart_sources]
    if spec.registry is not None and public:
        what = f"images are pulled from {spec.registry}, but charts {', '.join(public)} from their publishers"
        yield f"{what}; set {draft.runtime}.chart_sources to use other sources"


def quotas_that_meet(pools: Sequence[PoolPlan]) -> Iterator[Problem]:
    """Say where the quotas of two pools bind one namespace together, since Kubernetes knows no pools."""
    bound: dict[str, dict[str, list[PoolPlan]]] = {}
    for pool in pools:
        if pool.trust is not None and pool.trust.quota is not None:
            for resource in objects.quota_counts(pool):
                for space in pool.trust.namespaces or []:
                    bound.setdefault(resource, {}).setdefault(space, []).append(pool)
    for resource, by_space in bound.items():
        for together in dict.fromkeys(tuple(plan.name for plan in here) for here in by_space.values()):
            spaces = [space for space, here in by_space.items() if tuple(plan.name for plan in here) == together]
            quotas = {
                each.group or each.name: each.trust.quota for each in pools if each.name in together and each.trust
            }
            if len(quotas) > 1:
                least = min(quota for quota in quotas.values() if quota is not None)
                given = ", ".join(f"{name} {quota}" for name, quota in quotas.items())
                what = f"the quotas of {given} all count {resource} in {' and '.join(spaces)}, regardless of the pool"
                what += f", so {least} is the limit for these pools together"
                fix = "set each to what a namespace may use on all of them, or keep only one of them"
                yield Problem(("pools", together[-1], "trust", "quota"), what, fix, _QUOTA_SOURCE)


def quotas_below_a_node(pools: Iterable[PoolPlan]) -> Iterator[Problem]:
    """Say where no namespace may start the pod that takes a whole node, for which such pools are bought."""
    for pool in pools:
        quota = pool.trust.quota if pool.trust is not None else None
        units = sum(pool.node_resources.values()) or pool.instance.devices
        if pool.node_pod and quota is not None and quota < units:
            what = (
                f"got {quota}, but the pod that takes a whole node (node_pod) requests {units}, so it is never admitted"
            )
            fix = f"set {units} for each whole node that a namespace may use, or leave quota out"
            yield Problem(("pools", pool.name, "trust", "quota"), what, fix, _QUOTA_SOURCE)


_QUOTA_SOURCE = "https://kubernetes.io/docs/concepts/policy/resource-quotas/"


def _unknown_to_the_autoscaler(pool: PoolPlan) -> Iterator[str]:
    """Say what the cloud's autoscaler does not know: GPUs by another name, and in an empty pool replicas.

    An empty pool has the GPUs of the machine type to it, and a node that its cloud labels as one with GPUs has to offer
    `nvidia.com/gpu`: https://github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/azure/azure_template.go
    and gce/templates.go beside it, and cluster-autoscaler/processors/customresources/gpu_processor.go.
    """
    own, clients = pool.provider_plan, pool.sharing.clients
    if GPU_RESOURCE not in pool.node_resources and own.requires_gpu_resource() and pool.min_nodes < pool.max_nodes:
        way = "set nodes.fixed"
        if clients is not None and clients.rename:
            way += ", or remove rename"
        elif pool.sharing.mig is not None:
            way += ", or sharing.strategy: single"
        what = (
            f"the autoscaler treats its nodes as not ready, because they do not offer {GPU_RESOURCE}: it removes busy"
        )
        yield f"{what} nodes, and may stop scaling the whole cluster; {way}"
        return
    offered, devices = pool.node_resources.get(GPU_RESOURCE, 0), pool.instance.devices
    if offered > devices and not pool.min_nodes and not own.has_scale_from_zero_resources():
        counts = (
            f"while this pool is empty, the autoscaler assumes {devices} {GPU_RESOURCE} per node instead of {offered}"
        )
        yield f"{counts} and may start too many nodes. Set nodes.min: 1 to avoid this."


def _first_node(draft: Draft, pool: PoolPlan) -> Iterator[str]:
    """Say what goes wrong while the first node of an empty pool gets ready."""
    if pool.min_nodes or pool.min_nodes == pool.max_nodes:
        return
    by_operator = pool.software == "gpu-operator" and pool.startup_taint is None
    if pool.sharing.mig is not None and by_operator and GPU_RESOURCE in pool.node_resources:
        what = "the first pod on a new node may get a whole GPU, because it starts before the GPU Operator cuts them"
        yield f"{what}: https://github.com/NVIDIA/gpu-operator/issues/2670"
    fabric = pool.provider_plan.fabric
    if fabric is not None and "_" in fabric.resource and "cluster_autoscaler" not in draft.cloud.helpers:
        what = f"while this pool is empty, pods that request {fabric.resource} do not scale it up"
        yield f"{what}, because the autoscaler cannot read that name; set nodes.min: 1"
    late = [name for name in pool.node_resources if name != GPU_RESOURCE] or list(pool.provider_plan.extra_resources())
    if late and "cluster_autoscaler" in draft.cloud.helpers:
        what = f"the autoscaler may start one node too many, because a new node offers {late[0]} later than it is ready"
        yield f"{what}: https://github.com/kubernetes/autoscaler/issues/7956"


def _too_few_pods(draft: Draft, pool: PoolPlan) -> Iterator[str]:
    """Say that a node offers more units than it may have pods."""
    most, daemons = pool.provider_plan.pods_per_node(), sum(pool.name in release.pools for release in draft.releases)
    units = sum(pool.node_resources.values())
    if most is not None and units + daemons > most:
        what = f"a node offers {units} units and runs at most {most} pods, of which {daemons} are daemons of gpupools"
        yield f"{what}; use fewer replicas, or {pool.provider_plan.more_pods}"


def _asked_of_others(pool: PoolPlan) -> Iterator[str]:
    """Say which configurations software that is not ours must have for a pool's labels to mean something."""
    if pool.software == "cloud-managed":
        return
    for label in CONFIG_LABELS:
        if label in pool.labels:
            yield (
                f"pool {pool.name}: its nodes have the label {label}={pool.labels[label]}; configure that"
                " entry in your software"
            )
