"""The clusters whose releases are rendered: every stack file of the repository, and more that are made here."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.software.planning import plan_runtimes
from gpupools.spec.software_spec import RuntimeSpec
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack_validation import Stack
from tests.charts.rendering import of_kind, rendered
from tests.gpupools.software.combinations import A100, COMBINATIONS
from tests.gpupools.software.conftest import stack_of
from tests.gpupools.software.fabrics import FABRICS, stack_with
from tests.stack_plans import plan_stack

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*ROOT.glob("stacks/Pulumi.*.yaml"), *ROOT.glob("tests/stacks/Pulumi.*.yaml")])

SOFTWARE = ("cloud-managed", "device-plugin", "gpu-operator", "dra-driver")
TAINTS = ["team=vision:NoSchedule", "example.com/maintenance=true:NoExecute", "soft=yes:PreferNoSchedule"]
KEPT = {"nodes": {"min": 1, "max": 4}}
EVERYTHING = {
    "smoke_test": True,
    "trust_policy": True,
    "service_monitors": True,
    "metrics": True,
    "kubernetes": "1.34.2",
}
HAMI = {"software": "hami", "nodes": {"fixed": 2}, "trust": {"team": "vision"}}
SHARED: Mapping[str, Any] = {"sharing": {"mode": "time-slicing", "replicas": 4}, "trust": {"team": "vision"}}


@dataclass(frozen=True)
class Planned:
    """One cluster: what is declared for it."""

    pools: tuple[PoolPlan, ...]
    runtime: RuntimePlan


Case = tuple[Stack, tuple[PoolPlan, ...]]
"""A stack and its pools."""


def _of(stack: Stack, plans: Iterable[PoolPlan]) -> tuple[Planned, ...]:
    pools = tuple(plans)
    return tuple(
        Planned(tuple(pool for pool in pools if pool.cluster == runtime.cluster), runtime)
        for runtime in plan_runtimes(stack.clusters, pools, clouds(), stack.teams)
    )


def _file(path: Path) -> Case:
    checked = check_stack_file(path, clouds())
    return checked.plan.stack, checked.plan.pools


def _made(cloud: str, pools: Mapping[str, Mapping[str, Any]], runtime: Mapping[str, Any]) -> Case:
    stack = stack_of(cloud, pools, runtime)
    return stack, plan_stack(stack, clouds())


def _each(cloud: str, pool: Mapping[str, Any], *, without: Iterable[str] = ()) -> dict[str, dict[str, Any]]:
    """Give a cluster the same pool once for each way to install the software, so that all are neighbours."""
    return {name.replace("-", ""): {**pool, "software": name} for name in SOFTWARE if name not in without}


def _alone(cloud: str, pool: Mapping[str, Any]) -> Case:
    """Plan a cluster with this pool alone, whose nodes have taints of the team's."""
    return _made(cloud, {"a": {**pool, "taints": TAINTS}}, {"service_monitors": True})


def _fabric(name: str) -> Case:
    """Plan a cluster with one pool that has RDMA interfaces."""
    stack = stack_with(name)
    return stack, plan_stack(stack, clouds())


EFA = {"network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d4e5f60718"]}}
A4X = {
    "instance_type": "a4x-highgpu-4g",
    "zones": ["europe-west4-a"],
    "capacity": {"mode": "reservation", "name": "a4x"},
    **KEPT,
}
_SHARED_AMONG_TEAMS: Mapping[str, Any] = {"a": {"gpu": "L4", "software": "cloud-managed", **KEPT}}

CASES: Mapping[str, Callable[[], Case]] = {
    **{f"{path.parent.name}/{path.name}": partial(_file, path) for path in FILES},
    **{f"alone: {name}": partial(_alone, each.cloud, each.pools["a"]) for name, each in COMBINATIONS.items()},
    "EKS, all software and settings": lambda: _made(
        "aws",
        {
            **_each("aws", {"gpu": "T4", "taints": TAINTS, **KEPT}),
            "shared": {"gpu": "T4", "software": "device-plugin", **SHARED},
        },
        EVERYTHING,
    ),
    "EKS, HAMi beside other software": lambda: _made(
        "aws",
        {
            **_each("aws", {"gpu": "T4", "taints": TAINTS, **KEPT}),
            "vgpu": {"gpu": "T4", "taints": TAINTS, **HAMI},
        },
        {"kubernetes": "1.34.2", "trust_policy": True},
    ),
    "EKS, EFA": lambda: _made("aws", _each("aws", {**A100, **EFA, **KEPT, "taints": TAINTS}), {}),
    **{f"fabric: {name}": partial(_fabric, name) for name in FABRICS},
    "EKS, Arm": lambda: _made("aws", _each("aws", {"instance_type": "g5g.xlarge", **KEPT}), {"metrics": True}),
    "EKS, NFD and exporter of the team's": lambda: _made(
        "aws",
        _each("aws", {"gpu": "T4", **KEPT}, without=["cloud-managed"]),
        {"existing": {"node_feature_discovery": "nfd/nfd", "dcgm_exporter": "monitoring/dcgm-exporter"}},
    ),
    "EKS, CRDs kept, MIG with a reboot": lambda: _made(
        "aws",
        {"a": {**A100, "software": "gpu-operator", "sharing": {"mode": "mig", "profile": "1g.10gb"}}},
        {"keep_crds": True, "mig_reboot": True},
    ),
    "AKS, all software and settings": lambda: _made(
        "azure",
        {
            **_each("azure", {"gpu": "T4", "taints": TAINTS, **KEPT}, without=["cloud-managed"]),
            "managed": {"gpu": "T4", "software": "cloud-managed", "nodes": {"fixed": 1}},
            "shared": {"gpu": "T4", "software": "device-plugin", **SHARED},
        },
        EVERYTHING,
    ),
    "AKS, spot": lambda: _made(
        "azure",
        _each("azure", {"gpu": "T4", "capacity": {"mode": "spot"}, **KEPT}, without=["cloud-managed"]),
        {},
    ),
    "AKS, a GPU of an older driver": lambda: _made(
        "azure", {"a": {"instance_type": "Standard_ND40rs_v2", "software": "gpu-operator"}}, {}
    ),
    "GKE, all software and settings": lambda: _made(
        "gcp",
        {
            **_each("gcp", {"gpu": "T4", "taints": TAINTS, **KEPT}),
            "shared": {"gpu": "T4", "software": "device-plugin", **SHARED},
        },
        {**EVERYTHING, "metrics": None},
    ),
    "GKE, Arm": lambda: _made("gcp", _each("gcp", A4X), {}),
    "GKE, Ubuntu": lambda: _made(
        "gcp", {"a": {"gpu": "L4", "software": "gpu-operator", "image": {"family": "ubuntu"}}}, {}
    ),
    "GKE, Kueue": lambda: _made("gcp", _SHARED_AMONG_TEAMS, {"scheduler": "kueue"}),
    "GKE, KAI": lambda: _made("gcp", _SHARED_AMONG_TEAMS, {"scheduler": "kai"}),
    "GKE, KAI, fractions": lambda: _made(
        "gcp",
        {"a": {"gpu": "L4", "sharing": {"mode": "fractions", "memory": "hami"}, "trust": {"team": "vision"}, **KEPT}},
        {"scheduler": "kai", "existing": {"kai_resource_isolator": "kai-resource-isolator/kai-resource-isolator"}},
    ),
    "GKE, Volcano": lambda: _made("gcp", _SHARED_AMONG_TEAMS, {"scheduler": "volcano"}),
    "GKE, queued": lambda: _made(
        "gcp",
        {"a": {"gpu": "L4", "software": "gpu-operator", "capacity": {"mode": "queued"}, "nodes": {"max": 2}}},
        {},
    ),
}


@cache
def planned(case: str) -> tuple[Planned, ...]:
    """Plan a case, once."""
    return _of(*CASES[case]())


MIRROR, SECRETS = "mirror.example.com:5000/gpu", ("mirror", "mirror.second")


def pull_secrets(each: Planned) -> list[str]:
    """Return the secrets that a cluster pulls from the mirror with: Volcano's chart takes only one."""
    has_volcano = any(release.chart == "volcano" for release in each.runtime.releases)
    return list(SECRETS[:1] if has_volcano else SECRETS)


@cache
def mirrored(case: str, *, by_digest: bool = False) -> tuple[Planned, ...]:
    """Plan a case with every image from a mirror, by digest if asked; a cluster that pulls none stays as it is."""

    def asked(each: Planned) -> Mapping[str, Any]:
        pulled = sorted({image.image for image in each.runtime.images})
        made_up = {image: f"sha256:{number:064x}" for number, image in enumerate(pulled, 1)} if by_digest else {}
        return {"registry": MIRROR, "pull_secrets": pull_secrets(each), "digests": made_up} if pulled else {}

    return _changed(case, asked)


@cache
def on_tainted_nodes(case: str) -> tuple[Planned, ...]:
    """Plan a case for clusters whose nodes without GPUs have taints."""

    def asked(each: Planned) -> Mapping[str, Any]:
        charts = [one for release in each.runtime.releases for one in rendered(release)]
        controlled = any(of_kind(charts, "Deployment", "Job", "StatefulSet"))
        return {"cpu_taints": list(CPU_TAINTS)} if controlled else {}

    return _changed(case, asked)


CPU_TAINTS = ("CriticalAddonsOnly=true:NoSchedule", "example.com/infra:NoExecute")


def _changed(case: str, asked: Callable[[Planned], Mapping[str, Any]]) -> tuple[Planned, ...]:
    stack, pools = CASES[case]()
    clusters = dict(stack.clusters)
    for each in planned(case):
        cluster = clusters[each.runtime.cluster]
        runtime = RuntimeSpec.model_validate({**cluster.runtime.model_dump(exclude_unset=True), **asked(each)})
        clusters[each.runtime.cluster] = cluster.model_copy(update={"runtime": runtime})
    return _of(stack._replace(clusters=clusters), pools)
