"""Who brings each piece on each node: read from what would be declared, so that no plan can claim what it does not do.

The plan is built elsewhere; here every release is judged by its values, above the chart's own where it sets none:
whether its pods select and tolerate the nodes of a pool, with the labels that controllers leave them, and which pieces
its switches turn on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpupools.catalog.reserved_keys import first_rule
from gpupools.common.errors import Path, Problem, enumeration
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import Taint
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.hami import HAMI
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, OPERANDS_LABEL
from gpupools.plan.node_software import NodeRuntime
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import SERVED_BY
from gpupools.plan.software_plan import KubernetesObject, Piece, PoolOwners, Release, RuntimePlan
from gpupools.plan.tolerations import Toleration, selects, untolerated
from gpupools.software.charts import OPERANDS, Operand, value_seen
from gpupools.spec.software_spec import ExistingDraDriver, ExistingSoftware, RuntimeSpec


class Claim(NamedTuple):
    """Something brings a piece to the nodes of a pool."""

    piece: Piece
    owner: str
    field: str
    """The key to change, as a path of the stack file; empty for what the node image or the cloud brings."""


_EXISTING: Mapping[str, tuple[Piece, ...]] = {
    "device_plugin": (Piece.DEVICE_PLUGIN,),
    "hami": (Piece.DEVICE_PLUGIN,),
    "node_feature_discovery": (Piece.NODE_FEATURE_DISCOVERY,),
    "dcgm_exporter": (Piece.DCGM_EXPORTER,),
    "dra_driver": (Piece.DRA_DRIVER,),
    "rdma_plugin": (Piece.RDMA_PLUGIN,),
}
"""The pieces that software the team already runs brings; a GPU Operator is looked at on its own."""

_SERVES: Mapping[str, tuple[Piece, ...]] = {
    "gpus": (Piece.DRA_DRIVER,),
    "compute-domains": (Piece.COMPUTE_DOMAINS,),
    "both": (Piece.DRA_DRIVER, Piece.COMPUTE_DOMAINS),
}


def _brought(key: str, software: ExistingSoftware) -> tuple[Piece, ...]:
    """Return the pieces that software under a key of `runtime.existing` brings."""
    return _SERVES[software.serves] if isinstance(software, ExistingDraDriver) else _EXISTING.get(key, ())


def claims(
    pool: PoolPlan,
    node: NodeRuntime,
    releases: Iterable[Release],
    objects: Iterable[KubernetesObject],
    spec: RuntimeSpec,
    cloud: Cloud,
) -> tuple[Claim, ...]:
    """Return everything that would bring a piece to the nodes of a pool."""
    installed = tuple(releases)
    labels = labels_left(pool, installed, spec)
    found = [*_from_node(pool, node), *_from_objects(pool, objects)]
    if pool.provider_plan.fabric is not None and pool.provider_plan.fabric.owner:
        found.append(Claim(Piece.RDMA_PLUGIN, pool.provider_plan.fabric.owner, ""))
    for release in installed:
        found += _from_release(pool, release, labels)
    # Google's installer is one, whether we install it or the team did beside an operator of its own.
    found += [claim for claim in _from_existing(pool, node, labels, spec, cloud) if not _is_there(claim, node, found)]
    return tuple(found)


def _is_there(claim: Claim, node: NodeRuntime, found: Iterable[Claim]) -> bool:
    if node.driver_installer is None:
        return False
    installed = (Piece.DRIVER, node.driver_installer.owner)
    return (claim.piece, claim.owner) == installed and installed in ((other.piece, other.owner) for other in found)


def labels_left(pool: PoolPlan, releases: Iterable[Release], spec: RuntimeSpec) -> Mapping[str, str]:
    """Return the labels of a pool's nodes as controllers leave them.

    A GPU Operator, ours or the team's, goes by what Node Feature Discovery finds: where that runs the label says that
    there are GPUs, and where it does not the operator sets it to `false`, whoever wrote it.
    https://github.com/NVIDIA/gpu-operator tag v26.7.0, controllers/nodelabeling_controller.go, reconcileCommonGPULabel.
    """
    ours = next((release for release in releases if release.chart == "gpu-operator"), None)
    if ours is None and spec.existing.gpu_operator is None:
        return pool.labels
    worker = next((operand for operand in (operands_of(ours) if ours else ()) if operand.name == "NFD worker"), None)
    found = ours is not None and worker is not None and runs_on(ours, worker, pool.labels, pool.node_taints)
    found = found or spec.existing.node_feature_discovery is not None
    found = found or (spec.existing.gpu_operator is not None and pool.labels.get(OPERANDS_LABEL) != "false")
    if found:
        return {**pool.labels, GPU_PRESENT_LABEL: "true"}
    return {**pool.labels, **({GPU_PRESENT_LABEL: "false"} if GPU_PRESENT_LABEL in pool.labels else {})}


_UNBROUGHT: Mapping[Piece, tuple[Path, str]] = {
    Piece.RDMA_PLUGIN: (
        ("network", "rdma"),
        (
            "install a device plugin for RDMA (on AKS by NVIDIA's Network Operator, {source}) and name it under"
            " {runtime}.existing.rdma_plugin, or leave rdma out"
        ),
    ),
    Piece.COMPUTE_DOMAINS: (
        ("network", "compute_domains"),
        (
            "set {runtime}.management: managed, or name the DRA driver under {runtime}.existing.dra_driver with"
            " serves: compute-domains"
        ),
    ),
}
"""Where a piece that is asked for by a setting stands when nobody brings it, and the cure."""

_OTHERWISE: tuple[Path, str] = (("software",), "set {runtime}.management: managed, or use other software")
_RDMA_SOURCE = "https://azure.github.io/aks-rdma-infiniband/configurations/network-operator"


def settle(
    pool: PoolPlan, found: Sequence[Claim], needed: Iterable[Piece], runtime: str
) -> tuple[PoolOwners, list[Problem]]:
    """Give each piece its one owner, and say where there are two or none; `runtime` is a path for messages."""
    problems: list[Problem] = []
    owners: dict[Piece, str] = {}
    where: Path = ("pools", pool.name, "software")
    twice: dict[tuple[str, str], list[str]] = {}
    for piece in Piece:
        own = list(dict.fromkeys(claim for claim in found if claim.piece is piece))
        if own:
            owners[piece] = own[0].owner
        if len(own) > 1:
            first, second = own[:2]
            alike = (f"{first.owner} and {second.owner}", _cure(pool, first, second, runtime))
            twice.setdefault(alike, []).append(piece.value)
    for (both_owners, cure), pieces in twice.items():
        what = f"would have two owners on {pool.cluster or 'these'} nodes: {both_owners}"
        problems.append(Problem(where, f"the {enumeration(pieces)} {what}", cure))
    both = [allocator for allocator in (Piece.DEVICE_PLUGIN, Piece.DRA_DRIVER) if allocator in owners]
    if len(both) == 2:
        plugin, driver = (next(claim for claim in found if claim.piece is piece) for piece in both)
        what = f"device plugin ({plugin.owner}) and DRA driver ({driver.owner}) would both allocate the same GPUs"
        fix = _cure(pool, plugin, driver, runtime)
        if driver.field == "runtime.existing.dra_driver":
            key = runtime.removesuffix("runtime") + driver.field
            fix += f"; if it only serves ComputeDomains, set {key}: {{name: …, serves: compute-domains}}"
        problems.append(Problem(where, what, fix, _DRA_SOURCE))
    problems += [_unbrought(pool, piece, runtime) for piece in needed if piece not in owners]
    return PoolOwners(pool.name, pool.software, owners), problems


def _unbrought(pool: PoolPlan, piece: Piece, runtime: str) -> Problem:
    at, fix = _UNBROUGHT.get(piece, _OTHERWISE)
    what = f"nothing installs the {piece.value} on the nodes of this pool"
    return Problem(("pools", pool.name, *at), what, fix.format(runtime=runtime, source=_RDMA_SOURCE))


def without_rdma(pool: PoolPlan, node: NodeRuntime, spec: RuntimeSpec, runtime: str) -> Iterator[Problem]:
    """Refuse a pool whose RDMA interfaces nobody can bring, whatever its cluster's other pools are."""
    fabric = pool.provider_plan.fabric
    if fabric is None or fabric.owner or spec.existing.rdma_plugin is not None:
        return
    if spec.management == "external" or not any(chart.existing == "rdma_plugin" for chart in node.charts):
        yield _unbrought(pool, Piece.RDMA_PLUGIN, runtime)


_DRA_SOURCE = "https://github.com/NVIDIA/aicr (recipes/components/gpu-operator)"


def needed_pieces(pool: PoolPlan) -> tuple[Piece, ...]:
    """Return the pieces without which a pool's nodes offer no GPU, or not the ones asked for."""
    serving = Piece.DRA_DRIVER if pool.software == DRA_DRIVER else Piece.DEVICE_PLUGIN
    needed = [Piece.DRIVER, Piece.CONTAINER_TOOLKIT, serving]
    if pool.sharing.mig is not None:
        needed.append(Piece.MIG_MANAGER)
    if pool.provider_plan.fabric is not None:
        needed.append(Piece.RDMA_PLUGIN)
    if pool.compute_domains:
        needed.append(Piece.COMPUTE_DOMAINS)
    if pool.software == "gpu-operator":  # it finds GPU nodes by their labels
        needed += [Piece.NODE_FEATURE_DISCOVERY, Piece.GPU_FEATURE_DISCOVERY]
    return tuple(needed)


def operands_of(release: Release) -> tuple[Operand, ...]:
    """Return the workloads of a release that run on GPU nodes with the values it has."""
    return tuple(
        operand
        for operand in OPERANDS
        if operand.chart == release.chart and (not operand.runs or _value(release, operand.runs))
    )


def runs_on(release: Release, operand: Operand, labels: Mapping[str, str], taints: Iterable[Taint]) -> bool:
    """Say whether an operand's pods would be scheduled to nodes with these labels and taints."""
    tolerations = _value(release, operand.tolerations) if operand.tolerations else ()
    return wants(release, operand, labels) and not untolerated(tolerations or (), taints)


def tolerations_of(runtime: RuntimePlan) -> Mapping[str, Sequence[Toleration]]:
    """Return what everything on GPU nodes that a plan declares tolerates, by its name for people."""
    tolerations: dict[str, Sequence[Toleration]] = {}
    for release in runtime.releases:
        for operand in operands_of(release):
            given = _value(release, operand.tolerations) if operand.tolerations else ()
            tolerations[f"{operand.name} ({release.chart})"] = given or ()
    for planned_object in runtime.objects:
        if planned_object.kind == "DaemonSet":
            pod = planned_object.manifest["spec"]["template"]["spec"]
            tolerations[f"DaemonSet {planned_object.manifest['metadata']['name']}"] = pod.get("tolerations", ())
    return tolerations


def wants(release: Release, operand: Operand, labels: Mapping[str, str]) -> bool:
    """Say whether an operand selects nodes with these labels."""
    if release.chart == "gpu-operator" and operand.name != "NFD worker":
        return labels.get(OPERANDS_LABEL) != "false"
    prefix = operand.tolerations.removesuffix("tolerations")
    key = "nvidiaNodeSelector" if release.chart == HAMI else "nodeSelector"
    selector, affinity = _value(release, prefix + key), _value(release, f"{prefix}affinity")
    return selects(selector or {}, affinity or {}, labels)


def _value(release: Release, path: str) -> Any:
    return value_seen(release.chart, release.values, path, release.version)


def _from_node(pool: PoolPlan, node: NodeRuntime) -> Iterator[Claim]:
    for piece, owner in node.brings.items():
        cuts = pool.sharing.mig is not None and pool.capability.verdict is Verdict.NATIVE
        if piece is not Piece.MIG_MANAGER or cuts or pool.provider_plan.partitions_gpus():
            yield Claim(piece, owner, "")


def _from_objects(pool: PoolPlan, objects: Iterable[KubernetesObject]) -> Iterator[Claim]:
    for kubernetes_object in objects:
        if kubernetes_object.installs is not None:
            pod: JsonObject = kubernetes_object.manifest["spec"]["template"]["spec"]
            labels = {**pool.labels, **kubernetes_object.installs.node_labels}
            if selects({}, pod["affinity"], labels) and not untolerated(pod["tolerations"], pool.node_taints):
                yield Claim(kubernetes_object.installs.piece, kubernetes_object.installs.owner, "")
        if kubernetes_object.kind == "RuntimeClass" and pool.software == "device-plugin":
            yield Claim(Piece.RUNTIME_CLASS, "gpupools", "")


def _from_release(pool: PoolPlan, release: Release, labels: Mapping[str, str]) -> Iterator[Claim]:
    owner, operands = f"chart {release.chart}", operands_of(release)
    for operand in operands:
        if operand.piece == Piece.RDMA_PLUGIN and pool.name not in release.pools:
            continue  # it runs there by the machine's type, and finds no interface to offer
        if operand.piece and runs_on(release, operand, labels, pool.node_taints):
            yield Claim(Piece(operand.piece), owner, f"pools.{pool.name}.software")
    validator = next((operand for operand in operands if operand.name == "validator"), None)
    if validator is not None and wants(release, validator, labels):
        yield Claim(Piece.RUNTIME_CLASS, owner, f"pools.{pool.name}.software")


def _from_existing(
    pool: PoolPlan, node: NodeRuntime, labels: Mapping[str, str], spec: RuntimeSpec, cloud: Cloud
) -> Iterator[Claim]:
    existing = spec.existing
    for key, software in existing.named().items():
        if may_run(software, labels, cloud):
            for piece in _brought(key, software):
                if piece is not Piece.RDMA_PLUGIN or pool.provider_plan.fabric is not None:
                    yield Claim(piece, software.name, f"runtime.existing.{key}")
    operator = existing.gpu_operator
    if operator is None or pool.labels.get(OPERANDS_LABEL) == "false":
        return
    installer = () if node.driver_installer is None else (Piece.DRIVER,)
    if node.driver_installer is not None:
        yield Claim(Piece.DRIVER, node.driver_installer.owner, "runtime.existing.gpu_operator")
    named = {piece for key, software in existing.named().items() for piece in _brought(key, software)}
    for piece in (
        Piece.DRIVER,
        Piece.CONTAINER_TOOLKIT,
        Piece.RUNTIME_CLASS,
        Piece.DEVICE_PLUGIN,
        Piece.NODE_FEATURE_DISCOVERY,
        Piece.GPU_FEATURE_DISCOVERY,
        Piece.DCGM_EXPORTER,
        *((Piece.MIG_MANAGER,) if pool.sharing.mig is not None else ()),
    ):
        # The operator is configured to leave alone what the image includes; the plan's notes say it.
        left_alone = piece in node.brings and piece is not Piece.DEVICE_PLUGIN
        cluster_wide = piece in named and piece is not Piece.DEVICE_PLUGIN
        if not left_alone and not cluster_wide and piece not in installer:
            yield Claim(piece, operator.name, "runtime.existing.gpu_operator")


def may_run(software: ExistingSoftware, labels: Mapping[str, str], cloud: Cloud) -> bool:
    """Say whether an existing DaemonSet could run on the pool; a label the cloud itself sets counts as matching."""

    def on_nodes(key: str) -> bool:
        rule = first_rule(key, cloud.reserved_labels)
        return rule is not None and rule.on_nodes

    return all(labels.get(key) == value or on_nodes(key) for key, value in software.node_selector.items())


def _cure(pool: PoolPlan, first: Claim, second: Claim, runtime: str) -> str:
    named = next((claim for claim in (first, second) if claim.field.startswith("runtime.")), None)
    if named is None:
        return "disable one of the two; the pool's software selects the other"
    key = runtime.removesuffix("runtime") + named.field
    if "eksctl" in named.owner.casefold():
        away = "delete eksctl's DaemonSet (kubectl -n kube-system delete daemonset nvidia-device-plugin-daemonset)"
        return f"{away}, create node groups with --install-nvidia-plugin=false, and delete {key}"
    use = f"or set {runtime}.management: external to let it serve the pools alone"
    other = second if named is first else first
    serves = named.field == f"runtime.existing.{SERVED_BY.get(pool.software, '')}"
    if (not other.field or not serves) and not named.field.endswith("gpu_operator"):
        use = f"or set node_selector of {key} to keep it off these nodes"
    return f"remove {named.owner} from the cluster and delete {key}, {use}"
