"""What edits do to pods: every edit of `tests/edits.yaml` with a word for pods, played on a control plane.

The test is the cloud and the kubelets: it deletes, drains, taints and labels Node objects as the documentation of the
edit's effect says. Kubernetes' own controllers and scheduler decide what that does to pods. Each pool has as many nodes
as it may have, and on each node a pod of a ReplicaSet that takes all its GPUs.

    pytest -m apiserver -rP tests/apiserver/test_edited_pools.py    # prints the table
"""

import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gpupools.diff.pool_change import PoolChange
from gpupools.plan.edit_tables import EditEffect, PodImpact
from gpupools.plan.node_labels import MIG_CONFIG_LABEL
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_gpu_operator import node
from tests.charts.nodes import labels_at_first, taints
from tests.test_edits import CLOUDS, Edit, edits, said

MANAGER = "kube-controller-manager"
CONTROLLERS = "replicaset disruption node-lifecycle taint-eviction pod-garbage-collector"
LACKS = shutil.which(MANAGER) is None
pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(LACKS, reason=f"{MANAGER} is not on PATH")]
ZONE, CASE = "topology.kubernetes.io/zone", "example.com/case"
EDITS = [each for cloud in CLOUDS for each in edits(cloud) if each.pods not in ("", PodImpact.UNKNOWN)]
SETTLES_S, ENDS_WITHIN_S, ENDED = 6.0, 400.0, object()


@dataclass
class Case:
    """A pool before and after an edit, and what was seen of its pods."""

    edit: Edit
    change: PoolChange
    old: PoolPlan
    new: PoolPlan
    before: set[str] = field(default_factory=set)
    after: set[str] = field(default_factory=set)
    most_missing: int = 0  # pods that did not run at the same time
    refused: int = 0  # evictions, by the budget
    failed: int = 0  # nodes on which GPUs in use were not cut
    cut: int = 0  # nodes on which they were once they were empty
    joined: int = 0

    def __post_init__(self) -> None:
        self.name, self.size = f"{self.edit.cloud}-{self.edit.key}", self.old.max_nodes
        (pool,) = self.edit.new["pools"].values()
        self.at_a_time = int(pool.get("upgrade", {}).get("max_unavailable") or 1)  # drained by an upgrade

    def node(self, plan: PoolPlan) -> dict[str, Any]:
        """Return the next node that joins."""
        in_zones = zones(plan) or ("any",)
        made = node(plan, {**labels_at_first(plan), ZONE: in_zones[self.joined % len(in_zones)], CASE: self.name})
        made["metadata"]["name"] = f"{self.name}-{self.joined}"
        room = {**made["status"]["capacity"], **{key: str(count) for key, count in plan.node_resources.items()}}
        made["status"] |= {"capacity": room, "allocatable": room}
        self.joined += 1
        return made

    def workload(self) -> Iterator[dict[str, Any]]:
        """Yield a ReplicaSet with a pod for each node, and the budget that its owner allows."""
        container = {"name": "main", "image": "train", "resources": {"limits": dict(self.old.node_resources)}}
        spec = {**self.old.pod(), "nodeSelector": {CASE: self.name}, "containers": [container]}
        selector, metadata = {"matchLabels": {CASE: self.name}}, {"name": self.name}
        template = {"metadata": {"labels": {CASE: self.name}}, "spec": spec}
        replicas = {"replicas": self.size, "selector": selector, "template": template}
        budget = {"selector": selector, "maxUnavailable": self.at_a_time}
        yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget}
        yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": replicas}


def zones(plan: PoolPlan) -> tuple[str, ...]:
    return tuple(getattr(plan.provider_plan, "zones", None) or ())


class World:
    """Nodes and pods as they are now, by case; what the cloud and kubelets do to them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.nodes, self.pods = plane, dict[str, dict[str, Any]](), dict[str, list[Mapping[str, Any]]]()

    def look(self) -> None:
        """Read all nodes and pods, and do what kubelets do: run what is bound, end what is deleted."""
        self.nodes, self.pods = {}, {}
        for each in self.plane.items("/api/v1/nodes"):
            self.nodes.setdefault(each["metadata"]["labels"][CASE], {})[each["metadata"]["name"]] = each
        for each in self.plane.items("/api/v1/pods"):
            name, pod = each["metadata"]["labels"][CASE], {"apiVersion": "v1", "kind": "Pod", **each}
            self.pods.setdefault(name, []).append(pod)
            if pod["spec"].get("nodeName") not in self.nodes.get(name, {}):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self.plane.delete_now(pod)
            elif not is_ready(pod):
                ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                self.plane.merge(pod, {"status": ready}, "/status")

    def running(self, case: Case) -> set[str]:
        """Return the pods that run on a node that is there."""
        there = self.nodes.get(case.name, {})
        found = (pod for pod in self.pods.get(case.name, ()) if is_ready(pod) and pod["spec"]["nodeName"] in there)
        return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}

    def on(self, case: Case, names: Collection[str]) -> list[Mapping[str, Any]]:
        return [pod for pod in self.pods.get(case.name, ()) if pod["spec"].get("nodeName") in names]

    def join(self, case: Case, plan: PoolPlan, count: int) -> None:
        for _ in range(count):
            self.plane.create(case.node(plan)).succeeded()

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self.plane.delete(reference(name)).succeeded()

    def play(self, case: Case) -> Iterator[None]:
        """Do what the cloud does for an edit; wait between steps."""
        self.join(case, case.old, case.size)
        for each in case.workload():
            self.plane.create(each).succeeded()
        yield
        while len(running := self.running(case)) < case.size:
            yield
        case.before = running
        names = sorted(self.nodes[case.name])
        if case.change.effect is EditEffect.REPLACE:
            self.join(case, case.new, case.new.max_nodes)
            self.remove(names)
        elif case.change.effect in (EditEffect.ROLLING, EditEffect.IN_PLACE):
            yield from (self.roll if case.change.effect is EditEffect.ROLLING else self.update)(case, names)
        settled = time.monotonic() + SETTLES_S
        yield
        while time.monotonic() < settled or self.on(case, {*names} - {*self.nodes.get(case.name, ())}):
            yield
        case.after = self.running(case)
        if case.failed:
            (_, workload) = case.workload()
            self.plane.merge(workload, {"spec": {"replicas": 0}}).succeeded()
            while self.pods.get(case.name):
                yield
            case.cut = self.cut(case, names)

    def roll(self, case: Case, names: Sequence[str]) -> Iterator[None]:
        """Replace nodes, as many at a time as the pool's upgrade settings say, each once its pods could be evicted."""
        for some in (names[first : first + case.at_a_time] for first in range(0, len(names), case.at_a_time)):
            for name in some:
                self.plane.merge(reference(name), {"spec": {"unschedulable": True}}).succeeded()
            while left := self.on(case, some):
                asked = [self.plane.evict(pod).status for pod in left if "deletionTimestamp" not in pod["metadata"]]
                case.refused += asked.count(429)
                yield
            self.remove(some)
            self.join(case, case.new, len(some))
            yield

    def update(self, case: Case, names: Sequence[str]) -> Iterator[None]:
        """Remove nodes that the pool may no longer have; give the others the new labels and taints."""
        kept = {"any", *(zones(case.new) or zones(case.old))}
        gone = [name for name in names if self.nodes[case.name][name]["metadata"]["labels"][ZONE] not in kept]
        # The maximum of an EKS pool is that of its Auto Scaling group; elsewhere it only binds the autoscaler.
        is_fixed = case.old.min_nodes == case.old.max_nodes and case.new.min_nodes == case.new.max_nodes
        self.join(case, case.new, len(gone))  # in the other zones
        if (is_fixed or case.edit.cloud == "aws") and not gone:
            gone = [*names[case.new.max_nodes :]]
        self.remove(gone)
        for name in (each for each in names if each not in gone):
            changed = {"metadata": {"labels": labels_at_first(case.new)}, "spec": {"taints": taints(case.new)}}
            self.plane.merge(reference(name), changed).succeeded()
        self.join(case, case.new, max(case.new.max_nodes - case.size, 0) * is_fixed)
        if case.old.labels.get(MIG_CONFIG_LABEL) != case.new.labels.get(MIG_CONFIG_LABEL):
            yield
            case.failed = len(names) - self.cut(case, names)

    def cut(self, case: Case, names: Sequence[str]) -> int:
        """Cut the GPUs as the MIG manager does, which fails where a pod uses one; return on how many nodes it could."""
        free = [name for name in names if not self.on(case, [name])]
        for name in free:
            room = {key: str(count) for key, count in case.new.node_resources.items()}
            status = {"status": {"allocatable": room, "capacity": room}}
            self.plane.merge(reference(name), status, "/status").succeeded()
        return len(free)


def reference(name: str) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def is_ready(pod: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Case]]:
    """Play all edits at the same time in one cluster."""
    cases = []
    for edit in EDITS:
        old, new = (plan_config(each, clouds()).pools[0] for each in (edit.old, edit.new))
        cases.append(Case(edit, said(edit.cloud, edit.key)[0], old, new))
    with ControlPlane(tmp_path_factory.mktemp("edited-pools")) as plane:
        plane.run(
            MANAGER, f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
            "--secure-port=0", "--node-monitor-grace-period=1h",  # kubelets report once
            f"--controllers={','.join(f'{each}-controller' for each in CONTROLLERS.split())}",
        )  # fmt: skip
        world = World(plane)
        playing = {case.name: (case, world.play(case)) for case in cases}
        end = time.monotonic() + ENDS_WITHIN_S
        while playing:
            assert time.monotonic() < end, f"not played in {ENDS_WITHIN_S} s: {', '.join(playing)}"
            world.look()
            for case, steps in tuple(playing.values()):
                if case.before and not case.after:
                    case.most_missing = max(case.most_missing, case.size - len(world.running(case)))
                if next(steps, ENDED) is ENDED:
                    del playing[case.name]
        yield {case.name: case for case in cases}


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.cloud}-{edit.key}-{edit.reaches}")
def test_pods_before_and_after_are_what_the_word_says(edit: Edit, played: Mapping[str, Case]) -> None:
    case = played[f"{edit.cloud}-{edit.key}"]
    word, at_once, kept = case.change.pods, case.change.nodes_at_once, len(case.before & case.after)
    print(f"| {edit.cloud} {edit.reaches} | {word}, {at_once} | {case.size} | {kept} | {case.most_missing} |")
    expected = {
        PodImpact.STAY: (case.size, 0),
        PodImpact.NEW_NODES: (case.size, 0),
        PodImpact.BLOCKED: (case.size, 0),
        PodImpact.DRAINED: (0, at_once),
        PodImpact.EVICTED: (case.size - at_once, at_once),
    }
    assert (kept, case.most_missing) == expected[word]
    assert at_once < case.size or word is not PodImpact.DRAINED
    assert (case.failed, case.cut) == ((at_once, at_once) if word is PodImpact.BLOCKED else (0, 0))


def test_sixty_edits_were_played_and_budgets_held_back_drains(played: Mapping[str, Case]) -> None:
    assert len(played) >= 60
    assert sum(case.refused for case in played.values() if case.change.pods is PodImpact.DRAINED) > 0
