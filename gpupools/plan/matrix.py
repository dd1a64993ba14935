"""The capability matrix: cloud × software × sharing × GPU model, answered by the same rules that plan a pool."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from gpupools.catalog.instance_types import InstanceType
from gpupools.catalog.mig import profiles
from gpupools.catalog.mig_fit import fit
from gpupools.plan.capability import Capability, Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_planner import check_pool
from gpupools.plan.provider_plan import PoolRequest
from gpupools.spec.models import MODES, SHARING_KINDS, Cluster, Mig, Nodes, PoolSpec, SharingMode, shared_mode


@dataclass(frozen=True)
class MatrixRow:
    """One answer."""

    cloud: str
    software: str
    sharing: str
    """One of `gpupools.spec.models.SHARING_KINDS`."""
    gpu_model: str
    verdict: Verdict
    why: str
    source: str
    instead: str
    """For a refusal: what would work on this cloud."""

    def as_json(self) -> dict[str, str]:
        """Return the row with the keys of its fields."""
        return {**vars(self), "verdict": self.verdict.value}


def matrix(cloud: Cloud, models: frozenset[str] | None = None) -> Iterator[MatrixRow]:
    """Answer for every software, every kind of sharing and every GPU model the cloud offers, or only for `models`."""
    machines: dict[str, list[InstanceType]] = {}
    for row in cloud.instance_types.values():
        if row.lifecycle != "retired" and (models is None or row.gpu_model in models):
            machines.setdefault(row.gpu_model, []).append(row)
    for rows in machines.values():  # whole GPUs first: what stands in the way of those is the GPU's own answer
        rows.sort(key=lambda row: row.is_fraction)
    for software in cloud.software:
        for kind in SHARING_KINDS:
            for model, rows in machines.items():
                yield _row(cloud, software, kind, model, rows)


_REQUIRED: Mapping[str, Mapping[str, str]] = {"fractions": {"memory": "trust"}}


def representatives(kind: str, model: str) -> list[SharingMode]:
    """Return ways of sharing that stand for all of a kind on a GPU: the smallest numbers, every MIG profile."""
    clients = shared_mode(kind)
    share = clients.with_replicas(2) if clients is not None else None
    if not kind.startswith("mig-"):
        return [share if share is not None else MODES[kind].model_validate({"mode": kind, **_REQUIRED.get(kind, {})})]
    naming = kind.partition("+")[0].removeprefix("mig-")
    names = [profile.name for profile in profiles(model)]
    # A model without profiles still has to be asked about, so that the refusal is the GPU's own.
    found = [Mig.model_validate({"mode": "mig", "profile": name, "strategy": naming}) for name in names or ["1g.5gb"]]
    if naming == "mixed":
        sizes = [[big, small] for big in reversed(names) for small in names if big != small]
        layout = next((names for names in sizes if fit(model, names).fits), None)
        if layout is not None:
            found.insert(0, Mig.model_validate({"mode": "mig", "layout": layout, "strategy": naming}))
    return [sharing.model_copy(update={"share": share}) for sharing in found]


_ANY_POOL = PoolSpec.model_construct(nodes=Nodes(max=1))


def _row(cloud: Cloud, software: str, kind: str, model: str, machines: list[InstanceType]) -> MatrixRow:
    cell: Capability = cloud.capabilities[software, kind]
    answer = (cell.verdict, cell.why, cell.source, cell.instead)
    if cell.verdict is not Verdict.REFUSED:
        cluster = cloud.cluster.model_validate(dict(cloud.example_cluster))
        first = None
        for sharing, machine in product(representatives(kind, model), machines):
            request = example_request(model.lower(), cluster, software, kind, cell, machine, sharing)
            problems = check_pool(request, cloud)
            if not problems:
                break
            first = first or problems[0]
        else:
            if first is not None:
                answer = (Verdict.REFUSED, first.what, first.source or cell.source, first.fix)
    return MatrixRow(cloud.name, software, kind, model, *answer)


def example_request(
    name: str,
    cluster: Cluster,
    software: str,
    kind: str,
    cell: Capability,
    machine: InstanceType,
    sharing: SharingMode,
) -> PoolRequest:
    """Return what asks whether a machine supports a way of sharing of this kind."""
    spec = _ANY_POOL.model_copy(update={"instance_type": machine.name, "sharing": sharing, "software": software})
    return PoolRequest(name, spec, cluster, machine, software, kind, cell)


def grouped(rows: Iterator[MatrixRow]) -> Mapping[MatrixRow, tuple[str, ...]]:
    """Put the GPU models with the same answer together: the row without its model to models."""
    groups: dict[MatrixRow, list[str]] = {}
    for row in rows:
        groups.setdefault(replace(row, gpu_model=""), []).append(row.gpu_model)
    return {key: tuple(models) for key, models in groups.items()}
