"""Whether `gpupools fit` says of pods what the admission policies of teams and of trust say: 700 of each scheduler."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from gpupools.common.json_types import JsonDict
from gpupools.fit.offers import offers
from gpupools.fit.pod_judging import Context, judge
from gpupools.fit.team_queues import sharing_of, team_reasons
from gpupools.fit.workloads import Level, Manifests, PodTemplate, Workload
from gpupools.plan.software_plan import json_value
from gpupools.stackfile.stack import StackPlan
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_fit import refusing
from tests.gpupools.software.test_teams import POOLS, plan

pytestmark = pytest.mark.apiserver

SHARED_GPUS = {"sharing": {"mode": "time-slicing", "replicas": 2}}
POOLS_OF_ALL: JsonDict = {
    "big": POOLS["big"],
    "slices": POOLS["slices"],
    "shared": {"gpu": "A100-40GB", "nodes": {"max": 2}, **SHARED_GPUS, "trust": {"namespaces": ["research"]}},
    "inner": {"gpu": "A100-40GB", "nodes": {"max": 2}, **SHARED_GPUS, "trust": {"team": "vision"}},
}
CLAIMED = {"claimed": {**POOLS["big"], "software": "dra-driver"}}
TEAMS: JsonDict = {
    "research": {"namespaces": ["research"], "guarantee": {"big": 16}},
    "vision": {"namespaces": ["vision"], "guarantee": {"big": 8, "slices": 7}},
}
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "research": {}, "vision": {"gpupools/trust": "vision"}, "default": {}, "kube-system": {},
    "labelled": {"gpupools/trust": "vision"},
}  # fmt: skip
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"
SCHEDULERS = (None, "default-scheduler", "kai-scheduler", "volcano")
POOL, TRUST, QUEUE = "gpupools/pool", "gpupools/trust", "kai.scheduler/queue"
AMOUNTS: tuple[Mapping[str, str], ...] = (
    {}, {}, {GPU: "1"}, {GPU: "1"}, {MIG: "1"}, {"cpu": "1"}, {"amd.com/gpu": "1"}, {"google.com/tpu": "4"},
    {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": "1"}, {GPU: "0"}, {"nvidia.com/hostdev": "1"},
)  # fmt: skip
SELECTORS: tuple[Mapping[str, str] | None, ...] = (
    None, {}, {POOL: "big"}, {POOL: "big"}, {POOL: "slices"}, {POOL: "shared"}, {POOL: "none"}, {"tier": "gold"},
    {"tier": "iron"}, {POOL: "big", "tier": "iron"}, {"disk": "fast"}, {"gpupools/group": "steps"},
    {POOL: "big", "kubernetes.io/arch": "arm64"}, {"nvidia.com/gpu.present": "true"},
)  # fmt: skip
TOLERATIONS: tuple[Mapping[str, str], ...] = (
    {"key": GPU, "operator": "Exists"}, {"key": TRUST, "operator": "Exists"}, {"operator": "Exists"},
    {"key": TRUST, "value": "vision"}, {"key": TRUST, "operator": "Equal", "value": "other"},
    {"key": TRUST, "operator": "Exists", "effect": "NoExecute"},
    {"operator": "Exists", "effect": "NoSchedule"}, {"key": TRUST, "value": "pool.shared", "effect": "NoSchedule"},
)  # fmt: skip
VOID = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
MORE: tuple[Mapping[str, Any], ...] = (
    {}, {}, {}, {"env": VOID}, {"env": VOID}, {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]},
    {"env": VOID, "securityContext": {"privileged": True}}, {"envFrom": [{"configMapRef": {"name": "x"}}]},
)  # fmt: skip


def containers(pick: random.Random, name: str, most: int) -> list[JsonDict]:
    """Return containers of a pod, some of which ask for devices."""
    return [
        {"name": f"{name}{index}", "image": "none", "resources": {"limits": pick.choice(AMOUNTS)}, **pick.choice(MORE)}
        for index in range(pick.randint(1, most) if name == "main" else pick.randint(0, most) * (pick.random() < 0.3))
    ]


def pods(seed: int, number: int) -> Iterator[JsonDict]:
    """Yield pods that combine what the policies look at."""
    pick = random.Random(seed)
    for index in range(number):
        spec: JsonDict = {"containers": containers(pick, "main", 2), "initContainers": containers(pick, "init", 1)}
        spec |= {} if (selected := pick.choice(SELECTORS)) is None else {"nodeSelector": selected}
        spec |= {} if (scheduler := pick.choice(SCHEDULERS)) is None else {"schedulerName": scheduler}
        spec["tolerations"] = pick.sample(TOLERATIONS, pick.choice([0, 0, 1, 1, 2]))
        if pick.random() < 0.2:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "x"}] * pick.randint(0, 1)
        queue = pick.choice(["", "", "research.big", "vision.slices", "none"])
        marks = {QUEUE: queue} if queue else {}
        notes = {"scheduling.volcano.sh/queue-name": queue} if queue else {}
        notes |= {"cdi.k8s.io/x": "vendor.com/net=0"} if pick.random() < 0.1 else {}
        metadata = {"name": f"pod-{index}", "namespace": pick.choice([*NAMESPACES])}
        yield {
            "apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": {**metadata, "labels": marks, "annotations": notes},
        }  # fmt: skip


def said(made: StackPlan, pod: JsonDict) -> Level:
    """Return whether admission policies reject a pod, by every pool of the plan alike."""
    meta, template = pod["metadata"], PodTemplate("", None, pod["metadata"], pod["spec"])
    work = Workload("Pod", meta["name"], meta["namespace"], "", None, meta, (template,))
    spaces = {name: {"kubernetes.io/metadata.name": name, **labels} for name, labels in NAMESPACES.items()}
    context, sharing, found = Context(made, Manifests((), {}, spaces)), sharing_of(made), list[Level]()
    for offer in offers(made):
        reasons = [*judge(work, template, offer, context).reasons]
        reasons += team_reasons(work, template, offer, context, sharing)
        levels = [each.level for each in reasons if each.key in ("admission", "unknown-namespace")]
        found.append(min(levels, key=list(Level).index, default=Level.FITS))
    return min(found, key=list(Level).index)


def is_admitted(plane: ControlPlane, pod: JsonDict, status: int) -> bool:
    return plane.create(pod, dry_run=True).status == status


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("admission")) as made:
        for name, labels in NAMESPACES.items():
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            made.apply(space).succeeded()
        yield made


@pytest.mark.parametrize(("scheduler", "pools"), [("kueue", CLAIMED), ("kueue", {}), ("kai", CLAIMED), ("volcano", {})])
def test_pods_are_rejected_as_said(scheduler: str, pools: JsonDict, plane: ControlPlane) -> None:
    teams = {**TEAMS, "research": {**TEAMS["research"], "guarantee": {"big": 16, **dict.fromkeys(pools, 8)}}}
    made = plan(teams, {**POOLS_OF_ALL, **pools}, {"scheduler": scheduler, "trust_policy": True})
    (runtime,) = made.runtimes
    every = (*(each.manifest for each in runtime.objects), *runtime.team_objects)
    declared = [json_value(each) for each in every if each["kind"].startswith("ValidatingAdmissionPolicy")]
    declared = [each for each in declared if not each["metadata"]["name"].endswith("-nodes")]
    wrong, counts = list[Any](), Counter[Any]()
    for each in declared:
        plane.apply(each).succeeded()
    for probe in refusing(declared):
        plane.wait("policies", partial(is_admitted, plane, probe, 403))
    for pod in pods(7, 700):
        answer, level = plane.create(pod, dry_run=True), said(made, pod)
        assert answer.status in (201, 403, 422), answer.message
        counts[answer.status, level] += 1
        if answer.status != 422 and level is not Level.UNKNOWN and (answer.status == 403) != (level is Level.UNFIT):
            wrong.append((answer.message, level, pod))
    for each in declared:
        plane.delete(each)
    for probe in refusing(declared):
        plane.wait("the end of a policy", partial(is_admitted, plane, probe, 201))
    print(scheduler, counts)
    assert wrong == [], "\n\n".join(map(str, wrong[:8])) + f"\n{len(wrong)}"
