"""What `gpupools fit` says of loads of teams, and what the teams' scheduler does with them.

Each load runs twice: while nothing else runs, and while another team has borrowed all GPUs that it may.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import pytest

from gpupools.common.json_types import JsonDict
from gpupools.fit.counting import Costs, needs
from gpupools.fit.live import read_live
from gpupools.fit.offers import offers
from gpupools.fit.pending import Given, answers
from gpupools.fit.pod_judging import Context
from gpupools.fit.team_queues import sharing_of, team_reasons
from gpupools.fit.workloads import Level, Verdict
from gpupools.providers import clouds
from gpupools.ready.live_cluster import Access, ClusterApi
from tests.apiserver.conftest import only
from tests.apiserver.team_cluster import GANG, Cluster, recorded
from tests.gpupools.fit.loads import asking, ray, read, reasons, template
from tests.gpupools.software.test_teams import POOLS, plan

pytestmark = pytest.mark.apiserver

TEAMS: JsonDict = {
    "research": {"namespaces": ["research"], "guarantee": {"big": 16}, "limit": {"big": 24}},
    "vision": {"namespaces": ["vision"], "guarantee": {"big": 8}},
    "serving": {"namespaces": ["serving"], "guarantee": {"slices": 7}},
    "outer": {"namespaces": ["outer"], "guarantee": {"own": 8}},
}
SHARED: JsonDict = {
    "big": POOLS["big"],
    "slices": {**POOLS["slices"], "nodes": {"max": 1}},
    "own": {**POOLS["small"], "taints": ["team=outer:NoSchedule"]},
}
FILLED = 32
NUMBERS = count()


class Load(NamedTuple):
    """Pods of a job, and how many of them run."""

    pods: int
    idle: int
    """While nothing else runs."""
    busy: int
    """While vision has borrowed all GPUs."""
    gpus: int = 1
    space: str = "research"
    pool: str = "big"
    gang: bool = False
    queue: str | None = None
    """Empty for no queue; None for that of the team and the pool."""
    priority: str = "training"
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    scheduler: str | None = None
    kind: str = "Job"
    least: int | None = None
    """minAvailable of the task of a job of Volcano, or minReplicas of the workers of Ray."""


KUEUE: Mapping[str, Load] = {
    "one GPU": Load(1, 1, 1),
    "the guarantee": Load(16, 16, 16),
    "the guarantee, by whole nodes": Load(2, 2, 0, gpus=8),
    "the limit": Load(24, 24, 0),
    "the limit, by whole nodes": Load(3, 3, 0, gpus=8),
    "above the limit": Load(25, 0, 0),
    "above the pool": Load(33, 0, 0, space="vision"),
    "above the limit with a smaller minimum": Load(30, 24, 0, annotations={"kueue.x-k8s.io/job-min-parallelism": "24"}),
    "a queue that the plan does not make": Load(1, 0, 0, queue="other"),
    "a namespace of no team": Load(1, 0, 0, space="other"),
    "a team without a share": Load(1, 0, 0, space="serving"),
    "the guarantee of slices": Load(7, 7, 7, space="serving", pool="slices"),
    "above the slices": Load(8, 0, 0, space="serving", pool="slices"),
    "no pool selected": Load(1, 1, 1, space="serving", pool=""),
    "a pod of its own": Load(1, 1, 1, kind="Pod"),
    "a taint of the pool that the flavor tolerates": Load(1, 1, 1, space="outer", pool="own"),
}
VOLCANO: Mapping[str, Load] = {
    "one GPU": Load(1, 1, 1),
    "a gang of the guarantee": Load(16, 16, 16, gang=True),
    "a gang of the guarantee, by whole nodes": Load(2, 2, 2, gpus=8, gang=True),
    "a gang of the limit": Load(24, 24, 0, gang=True),
    "a gang above the limit": Load(25, 0, 0, gang=True),
    "pods above the limit": Load(30, 24, 1),
    "pods of the guarantee": Load(8, 8, 1),
    "the queue of another team": Load(1, 0, 0, queue="vision.big"),
    "the queue of another pool": Load(1, 0, 0, space="serving", queue="serving.slices"),
    "no queue": Load(1, 0, 0, queue=""),
    "a queue that the plan does not make": Load(1, 0, 0, queue="research.none"),
    "another scheduler": Load(1, 0, 0, scheduler="default-scheduler"),
    "the guarantee of slices": Load(7, 7, 7, space="serving", pool="slices", gang=True),
}
OF_VOLCANO: Mapping[str, Load] = {
    "a job of Volcano above the limit": Load(25, 0, 0, kind="VolcanoJob"),
    "a job of Volcano with a smallest number": Load(25, 24, 16, kind="VolcanoJob", least=16),
    "a taint of the pool": Load(1, 0, 0, space="outer", pool="own"),
}
KAI: Mapping[str, Load] = {
    **VOLCANO,
    "pods above the limit": Load(30, 24, 20),
    "pods of the guarantee": Load(8, 8, 8),
    "notebooks of the guarantee": Load(16, 16, 16, gang=True, priority="interactive"),
    "notebooks above the guarantee": Load(17, 0, 0, gang=True, priority="interactive"),
    "no label of the pool": Load(1, 0, 0, labels={"gpupools/pool": ""}),
    "workers of Ray, of the guarantee": Load(16, 16, 16, kind="RayCluster"),
    "workers of Ray above the limit": Load(25, 0, 0, kind="RayCluster"),
    "workers of Ray with a smallest number": Load(30, 24, 20, kind="RayCluster", least=16),
}


def manifest(scheduler: str, load: Load) -> JsonDict:
    """Return the manifest of a load, with queue and priority as examples/teams has them."""
    queue = f"{load.space}.{load.pool}" if load.queue is None else load.queue
    spec = template(load.gpus, load.pool, restartPolicy="Never", terminationGracePeriodSeconds=0)
    labels, notes, own, about = {"load": "x"}, {}, {}, dict(load.annotations)
    if scheduler == "kueue":
        own = {"kueue.x-k8s.io/priority-class": load.priority}
        own |= {"kueue.x-k8s.io/queue-name": load.queue} if load.queue else {}
    else:
        spec |= {"priorityClassName": load.priority}
        spec |= {"schedulerName": load.scheduler or {"kai": "kai-scheduler"}.get(scheduler, scheduler)}
        about |= {GANG[scheduler]: str(load.pods)} if load.gang else {}
        if scheduler == "kai":
            labels |= {"gpupools/pool": load.pool, **({"kai.scheduler/queue": queue} if queue else {}), **load.labels}
        elif queue:
            notes = {"scheduling.volcano.sh/queue-name": queue}
    metadata = {"name": "load", "namespace": load.space, "labels": own, "annotations": about}
    pod = {"metadata": {"labels": {key: value for key, value in labels.items() if value}, "annotations": notes}}
    if load.kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "labels": {**own, **labels}}, "spec": spec}
    if load.kind == "VolcanoJob":
        task = {"name": "task", "replicas": load.pods, "template": {**pod, "spec": spec}}
        task |= {} if load.least is None else {"minAvailable": load.least}
        tasks = {"schedulerName": "volcano", "queue": queue, "tasks": [task]}
        return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": tasks}
    if load.kind == "RayCluster":
        made = ray(load.pods, load.least or 0, space=load.space, scheduler=spec["schedulerName"], pod=pod["metadata"])
        for each in (made["spec"]["headGroupSpec"], *made["spec"]["workerGroupSpecs"]):
            each["template"]["spec"] |= {
                key: spec[key] for key in ("priorityClassName", "terminationGracePeriodSeconds")
            }
        return made
    job = {"parallelism": load.pods, "completions": load.pods, "backoffLimit": 1000, "template": {**pod, "spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}


def as_kuberay(cluster: Cluster, made: JsonDict) -> None:
    """Create the pods of a cluster of Ray, whose controller is not here.

    https://github.com/ray-project/kuberay/blob/v1.5.2/ray-operator/controllers/ray/common/pod.go
    """
    name, space = made["metadata"]["name"], made["metadata"]["namespace"]
    uid = cluster.server.get(made).succeeded()["metadata"]["uid"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": name, "uid": uid, "controller": True}
    (workers,) = made["spec"]["workerGroupSpecs"]
    groups = ("headgroup", made["spec"]["headGroupSpec"], 1), (workers["groupName"], workers, workers["replicas"])
    for group, spec, number in groups:
        template = spec["template"]
        marks = {"ray.io/cluster": name, "ray.io/group": group, "load": "x" if spec is workers else "head"}
        labels = {**template["metadata"]["labels"], **marks}
        for index in range(number):
            metadata = {"name": f"{name}-{group}-{index}", "namespace": space, "labels": labels}
            pod = {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": template["spec"]}
            cluster.server.create({"apiVersion": "v1", "kind": "Pod", **pod}).succeeded()


def said(cluster: Cluster, made: JsonDict) -> tuple[Level, set[str]]:
    """Return the best answer of all pools, and the keys of its reasons."""
    assert cluster.planned is not None
    work, planned = read(made), cluster.planned
    costs, found = Costs(planned, clouds()), []
    for offer, (pool, own) in zip(offers(planned), reasons(planned, work).items(), strict=True):
        need = needs(work, asking(work), offer, Context(planned), costs)
        verdict = Verdict(pool, (*own, *need.reasons))
        found.append((verdict.level, {each.key for each in verdict.reasons}))
    order = [Level.FITS, Level.UNKNOWN, Level.UNFIT]
    return min(found, key=lambda each: order.index(each[0]))


def implied(answer: tuple[Level, set[str]], pods: int) -> tuple[str, str]:
    """Return how many pods run, by an answer, while nothing else runs, and while another team has borrowed all."""
    level, keys = answer
    if level is Level.UNKNOWN:
        return "not said", "not said"
    if level is Level.UNFIT:
        return "0", "0"
    return "some" if "some-run" in keys else str(pods), "not said" if keys & {"may-wait", "some-run"} else str(pods)


def agrees(word: str, pods: int, got: int) -> bool:
    return word == "not said" or (0 < got < pods if word == "some" else got == int(word))


def running(cluster: Cluster, space: str) -> int:
    found = cluster.server.items(f"/api/v1/namespaces/{space}/pods?labelSelector=load%3Dx")
    return sum(bool(each["spec"].get("nodeName")) and "deletionTimestamp" not in each["metadata"] for each in found)


def runs(cluster: Cluster, load: Load, wanted: int) -> int:
    """Return how many pods of a load run in the end."""
    started, made = partial(running, cluster, load.space), manifest(cluster.scheduler, load)
    # Volcano's controller may forget a job whose name another one had before: the late end of that takes the name out
    # of its cache (volcano-sh/volcano tag v1.15.1, pkg/controllers/cache/cache.go, processCleanupJob).
    made["metadata"]["name"] = f"load-{next(NUMBERS)}"
    cluster.server.wait("the queues", partial(is_taken, cluster, made))
    if load.kind == "RayCluster":
        as_kuberay(cluster, made)
    got: int = cluster.waits(started, wanted, 90) if wanted else cluster.stays(started, 6)
    if load.kind in ("VolcanoJob", "RayCluster"):
        cluster.server.delete(made)
    cluster.end(load.space)
    cluster.server.wait("the end", lambda: not cluster.server.items(f"/api/v1/namespaces/{load.space}/pods"))
    return got


@pytest.fixture(scope="module")
def teams(scheduled: Cluster) -> Iterator[Cluster]:
    scheduled.becomes(plan(TEAMS, SHARED, {"scheduler": scheduled.scheduler, "trust_policy": True}))
    yield scheduled
    scheduled.clear()


def filled(cluster: Cluster) -> None:
    names = [f"fill-{index}" for index in range(FILLED)]
    if cluster.count("vision", *names) < FILLED:
        # The delay before a job replaces a stopped pod grows each time.
        cluster.end("vision")
        for path in ("/api/v1/namespaces/vision/pods", "/apis/batch/v1/namespaces/vision/jobs"):
            cluster.server.wait("the end", lambda path=path: not cluster.server.items(path))  # type: ignore[misc]
        for name in names:
            cluster.run("vision", name, "big", queue="vision.big", priority="training")
    cluster.waits(partial(cluster.count, "vision", *names), FILLED, 120)


def check(cluster: Cluster, loads: Mapping[str, Load]) -> None:
    wrong: list[Any] = []
    answers = {name: said(cluster, manifest(cluster.scheduler, load)) for name, load in loads.items()}
    for busy in (False, True):
        for name, load in loads.items():
            if busy and not load.idle:
                continue  # what never starts alone
            if busy:
                filled(cluster)
            wanted = load.busy if busy else load.idle
            got, word = runs(cluster, load, wanted), implied(answers[name], load.pods)[busy]
            case = f"fit, {'all GPUs borrowed' if busy else 'nothing else runs'}: {name}: said {word}"
            recorded(cluster.scheduler, case, wanted, got, fail=False)
            if got != wanted or not agrees(word, load.pods, got):
                wrong.append((case, wanted, got, answers[name]))
    assert not wrong


@only("kueue")
def test_kueue_does_what_fit_says(teams: Cluster) -> None:
    check(teams, KUEUE)


@only("kueue")
def test_kueue_rejects_clusters_of_ray_that_scale_themselves(teams: Cluster) -> None:
    """Its webhook alone, as KubeRay is not here."""
    made = plan(TEAMS, SHARED, {"scheduler": "kueue", "trust_policy": True})
    (offer, *_) = offers(made)
    for scales, notes in ((True, {}), (True, {"kueue.x-k8s.io/elastic-job": "true"}), (False, {})):
        manifest = ray(1, enableInTreeAutoscaling=scales, notes=notes)
        answer, work = teams.server.create(manifest, dry_run=True), read(manifest)
        found = team_reasons(work, work.templates[1], offer, Context(made), sharing_of(made))

        said = [each.text for each in found if each.key == "admission"]
        recorded("kueue", f"fit: Ray, autoscaler {scales}, {notes}", bool(said), answer.status >= 300)
        assert not said or "enableInTreeAutoscaling" in answer.message


@only("volcano")
def test_volcano_does_what_fit_says(teams: Cluster) -> None:
    check(teams, {**VOLCANO, **OF_VOLCANO})


@only("kai")
def test_kai_does_what_fit_says(teams: Cluster) -> None:
    check(teams, KAI)


WAITING: Mapping[str, tuple[Load, bool, set[str]]] = {
    "a gang above the limit": (Load(25, 0, 0, gang=True), False, {"above-limit"}),
    "a gang of the limit, while others have borrowed all": (
        Load(24, 24, 0, gang=True),
        True,
        {"at-max", "of-teams", "preempting"},
    ),
    "pods above what the team may use": (Load(30, 24, 1), False, {"of-teams", "not-looked-at"}),
    "no queue": (Load(1, 0, 0, queue=""), False, {"queue"}),
}
"""By name: a load, whether another team has borrowed all GPUs, and the reason of every pending pod of the load."""


def is_taken(cluster: Cluster, made: JsonDict) -> bool:
    return "not found" not in cluster.server.create(made).message


def pod_group(load: Load, name: str) -> list[JsonDict]:
    """Return the pods of a load of Kueue, whose jobs have none while they wait; of a gang as its group."""
    found = []
    for index in range(load.pods):
        made = manifest("kueue", load._replace(kind="Pod"))
        made["metadata"]["name"] = f"{name}-{index}"
        if load.gang:
            made["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = name
            made["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = str(load.pods)
        found.append(made)
    return found


def said_of_pods(cluster: Cluster, space: str) -> set[tuple[str, Level]]:
    """Return what `gpupools fit --context` says of pods without a node."""
    assert cluster.planned is not None
    (key,) = cluster.planned.stack.clusters
    given = cluster.planned.stack.clusters[key]
    read = read_live(ClusterApi(Access(cluster.server.kubeconfig)), given, clouds()[given.cloud])
    found = answers(read, Given(cluster.planned, key, clouds(), "FILE"))
    return {(each.key, each.level) for each in found if each.pod.startswith(f"{space}/")}


@pytest.mark.parametrize("name", WAITING)
def test_pods_that_wait_are_told_why(teams: Cluster, name: str) -> None:
    load, busy, keys = WAITING[name]
    if teams.scheduler == "kueue" and "queue" in keys:
        pytest.skip("its webhook adds the queue")
    if busy:
        filled(teams)
    else:
        teams.clear()
    own, started = f"load-{next(NUMBERS)}", partial(running, teams, load.space)
    for each in pod_group(load, own) if teams.scheduler == "kueue" else [manifest(teams.scheduler, load)]:
        teams.server.wait("the queues", partial(is_taken, teams, each))
    wanted = 0 if busy else load.idle
    got = teams.waits(started, wanted, 60) if wanted else teams.stays(started, 8)
    said = said_of_pods(teams, load.space)
    teams.end(load.space)
    for pod in teams.server.items(f"/api/v1/namespaces/{load.space}/pods"):
        if pod["metadata"].get("finalizers"):  # Kueue keeps the pods of a group until all are replaced
            teams.server.merge({**pod, "apiVersion": "v1", "kind": "Pod"}, {"metadata": {"finalizers": None}})
    teams.server.wait("the end", lambda: not teams.server.items(f"/api/v1/namespaces/{load.space}/pods"))

    assert got == wanted
    assert said, "no pod waits"
    assert {key for key, _ in said} <= keys
    assert Level.FITS not in {level for _, level in said}
