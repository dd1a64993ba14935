"""Why pods wait, over histories of clusters."""

import json
from pathlib import Path

import pytest

from gpupools.cli.main import main
from gpupools.fit.live import Live, gangs_of, held_on, manifests_of, read_live
from gpupools.fit.pending import Answer, Given, answers, grouped
from gpupools.fit.workloads import Level
from gpupools.providers import clouds
from gpupools.ready.live_cluster import Access, ClusterApi
from tests.gpupools.fit.pending_pods import (
    FULL,
    KUEUE,
    NAME,
    SCRIPTS,
    Refuses,
    Script,
    Step,
    asks,
    event,
    holds,
    lacks,
    pod,
    runs,
)
from tests.gpupools.fit.test_team_queues import QUEUE, TEAMS, planned
from tests.gpupools.ready.api import serving, write_files
from tests.gpupools.ready.world import OLD, World, plan


def read(world: World, name: str = NAME, **unseen: str) -> Live:
    """What the reader would return of a world."""
    snapshot = world.snapshot()
    snapshot.unseen = unseen
    pods = [each for each in world.objects.get("pods", ()) if name in ("", f"default/{each['metadata']['name']}")]
    every = world.objects.get("pods", ())
    held = held_on(snapshot, every, lambda _: None)
    return Live(snapshot, pods, gangs_of(snapshot, every), held, manifests_of(snapshot))


def asked(world: World, name: str = NAME, **unseen: str) -> list[Answer]:
    return answers(read(world, name, **unseen), Given(plan(), world.cluster, clouds(), "FILE"), name)


def prefixes(script: Script) -> list[World]:
    found = []
    for count in range(len(script.steps) + 1):
        world = World(*script.at.split("/"))
        for step in script.steps[:count]:
            step(world)
        found.append(world)
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=[each.name for each in SCRIPTS])
def test_the_reason_is_named(script: Script) -> None:
    (found,) = asked(prefixes(script)[-1])
    assert (found.disagrees, found.key) == (script.disagrees, script.key), "\n".join(found.lines())
    assert found.next.startswith(script.next)
    assert json.loads(json.dumps(found.as_json()))["disagrees"] == script.disagrees
    if script.disagrees == "cluster" and script.key != "wrong-cluster":
        assert found.where == ("" if "cannot create it" in found.text else script.at)


@pytest.mark.parametrize("script", SCRIPTS, ids=[each.name for each in SCRIPTS])
def test_no_prefix_says_that_a_refused_pod_fits(script: Script) -> None:
    for world in prefixes(script):
        (found,) = asked(world)
        pods = [each for each in world.objects.get("pods", ()) if each["metadata"]["name"] == "job"]
        waits = bool(pods) and pods[0]["status"]["phase"] == "Pending" and "nodeName" not in pods[0]["spec"]
        assert found.level is not Level.FITS or not waits
        is_refused = waits and any(each.get("message") for each in pods[0]["status"]["conditions"])
        assert not (is_refused and found.key == "not-looked-at")


def world(*steps: Step, at: str = "train/whole") -> World:
    made = World(*at.split("/"))
    for step in steps:
        step(made)
    return made


def test_screen() -> None:
    (script,) = (each for each in SCRIPTS if each.name == "lost GPU")
    (found,) = asked(prefixes(script)[-1])
    first, *rest = found.lines()
    cause = "fewer GPUs than the machine has: Node n2: nvidia.com/gpu: promised 8, allocatable 7"
    assert first == f"default/job: cluster: {cause}; replace the node: a GPU failed, or the driver does not see it"
    assert rest == [
        "  train/whole takes it; 2 of 4 nodes run, 7 of 16 nvidia.com/gpu free",
        "    Node n2: nvidia.com/gpu: promised 8, allocatable 7",
        f"  scheduler, 5 min ago: {FULL.message}",
        "  next: kubectl describe node n2",
    ]


def test_a_finding_about_another_object_shows_what_that_says() -> None:
    (script,) = (each for each in SCRIPTS if each.name == "a plugin that fails on both nodes")
    (found,) = asked(prefixes(script)[-1])
    assert "device-plugin-n1: container nvidia-device-plugin: CrashLoopBackOff" in found.text


def test_pods_that_wait_for_one_reason_are_one_group() -> None:
    made = world(runs(4), holds("n1", "n2", "n3", "n4"))
    for index in range(3):
        pod(made, name=f"worker-{index}")
    pod(made, 16, name="large")
    pod(made, 1, "example.com/fpga", name="other")
    large, others = sorted(grouped(asked(made, "")), key=lambda each: each.number)
    assert (others.number, others.key, others.pod) == (3, "at-max", "default/worker-0")
    assert next(others.lines()).startswith("default/worker-0 and 2 more: plan: the pool is full at nodes.max")
    assert (large.number, large.key) == (1, "too-many-units")


@pytest.mark.parametrize(
    ("scheduler", "labels", "gpus", "key"),
    [
        ("kai-scheduler", {QUEUE: "research.big", "gpupools/pool": "big"}, 8, "above-limit"),
        ("kai-scheduler", {QUEUE: "research.big", "gpupools/pool": "big"}, 4, "of-teams"),
        ("kai-scheduler", {}, 4, "queue"),
        ("kai-scheduler", {QUEUE: "serving.slices", "gpupools/pool": "slices"}, 4, "of-teams"),
    ],
    ids=["above the limit", "within it", "no queue", "what the admission policy rejects"],
)
def test_pods_of_teams_are_judged_by_their_shares(scheduler: str, labels: dict[str, str], gpus: int, key: str) -> None:
    shares = {"research": {"namespaces": ["research"], "guarantee": {"big": 4}, "limit": {"big": 4}}}
    made = World("train", "whole")
    pod(made, gpus, schedulerName=scheduler, nodeSelector={"gpupools/pool": "big"})
    (waiting,) = made.objects["pods"]
    found = read(made)
    waiting["metadata"] |= {"namespace": "research", "labels": labels}
    waiting["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": "over quota"}]
    (answer,) = answers(
        found, Given(planned("kai", teams={**TEAMS, **shares}), "train", clouds(), "FILE"), "research/job"
    )

    assert (answer.key, answer.disagrees) == (key, "" if key == "of-teams" else "pod")


GANGS = {
    "kai": ("annotations", "pod-group-name", {QUEUE: "research.big", "gpupools/pool": "big"}),
    "volcano": ("annotations", "scheduling.k8s.io/group-name", {}),
    "kueue": ("labels", "kueue.x-k8s.io/pod-group-name", {"kueue.x-k8s.io/queue-name": "default"}),
}


@pytest.mark.parametrize(
    ("scheduler", "least", "seen", "gpus", "unseen", "key"),
    [
        *[(each, 25, 25, 1, "", "above-limit") for each in GANGS],
        *[(each, 24, 30, 1, "", "of-teams") for each in GANGS],
        ("volcano", 3, 4, 8, "", "of-teams"),
        ("volcano", 4, 4, 8, "", "above-limit"),
        ("kai", 25, 20, 1, "", "of-teams"),
        ("kai", 25, 25, 1, "podgroups", "of-teams"),
        ("volcano", 0, 25, 1, "", "of-teams"),
    ],
)
def test_a_gang_is_judged_whole(scheduler: str, least: int, seen: int, gpus: int, unseen: str, key: str) -> None:
    """Of pods that are not seen, nothing is said."""
    part, name, labels = GANGS[scheduler]
    shares = {"research": {"namespaces": ["research"], "guarantee": {"big": 16}, "limit": {"big": 24}}}
    made = World("train", "whole")
    for index in range(seen):
        named = {"kai": "kai-scheduler"}.get(scheduler, scheduler)
        own = {"schedulingGates": KUEUE} if scheduler == "kueue" else {"schedulerName": named}
        pod(made, gpus, name=f"job-{index}", nodeSelector={"gpupools/pool": "big"}, **own)
        waiting = made.objects["pods"][-1]
        notes = {"scheduling.volcano.sh/queue-name": "research.big"}
        notes |= {"kueue.x-k8s.io/pod-group-total-count": str(least)} if scheduler == "kueue" else {}
        waiting["metadata"] |= {"namespace": "research", "labels": labels, "annotations": notes}
        waiting["metadata"][part] = {**waiting["metadata"][part], name: "gang"}
        said = [{"type": "PodScheduled", "status": "False", "message": "not enough quota"}]
        waiting["status"]["conditions"] = [] if scheduler == "kueue" else said
    if scheduler != "kueue" and not unseen:
        spec = {"minMember": least} if least else {"minSubGroup": 2, "subGroups": [{"name": "a", "minMember": 25}]}
        made.put("podgroups", {"metadata": {"namespace": "research", "name": "gang"}, "spec": spec})
    found = read(made, "", **({unseen: "forbidden"} if unseen else {}))
    given = Given(planned(scheduler, teams={**TEAMS, **shares}), "train", clouds(), "FILE")
    first, *others = answers(found, given)

    assert (first.key, first.disagrees) == (key, "pod" if key.startswith("above") else "")
    assert {each.key for each in others} == {key}
    assert (f"its gang asks for {least * gpus} GPUs together" in first.text) == (key == "above-limit")


def test_a_gang_of_different_pods_and_more_nodes_than_the_pool_may_have() -> None:
    made = World("train", "whole")
    notes = {"scheduling.k8s.io/group-name": "gang", "scheduling.volcano.sh/queue-name": "research.big"}
    for index in range(6):
        resources = {"limits": {"nvidia.com/gpu": "5"}} if index else {}
        box = [{"name": "main", "image": "registry.example.com/none", "resources": resources}]
        pod(made, name=f"job-{index}", schedulerName="volcano", nodeSelector={"gpupools/pool": "big"}, containers=box)
        made.objects["pods"][-1]["metadata"] |= {"namespace": "research", "annotations": notes}
    made.put("podgroups", {"metadata": {"namespace": "research", "name": "gang"}, "spec": {"minMember": 6}})
    teams = {"research": {"namespaces": ["research"], "guarantee": {"big": 24}}, "serving": TEAMS["serving"]}
    answered = answers(read(made, ""), Given(planned("volcano", teams=teams), "train", clouds(), "FILE"))

    (found,) = {(each.key, each.text.partition(": ")[2], each.next) for each in answered}
    text = "its gang starts 5 pods together, which need 5 nodes, and nodes.max is 4"
    assert found == ("above-max", text, "kubectl -n research describe podgroups.scheduling.volcano.sh")


@pytest.mark.parametrize("size", ["9" * 5000, "x", "", "-1", 2.5, True, None, {}])
@pytest.mark.parametrize("by", ["minMember", "kueue.x-k8s.io/pod-group-total-count"])
def test_the_size_of_a_gang_that_is_no_number_says_nothing(by: str, size: object) -> None:
    made = World("train", "whole")
    marks = {"kueue.x-k8s.io/pod-group-name": "gang", **({by: str(size)} if "/" in by else {})}
    for name in ("a", "b"):
        pod(made, name=name)
        made.objects["pods"][-1]["metadata"]["annotations"] = marks
    if "/" not in by:
        made.put("podgroups", {"metadata": {"namespace": "default", "name": "gang"}, "spec": {by: size}})
    assert read(made, "").gangs == {}


@pytest.mark.parametrize("kind", ["pods", "events"])
def test_what_may_not_be_read_is_unknown(kind: str) -> None:
    made = world(runs(), holds("n1", "n2"), asks())
    made.objects.pop("events", None)
    (found,) = asked(made, NAME, **{kind: f"{kind} is forbidden"})
    assert (found.level, found.disagrees) == (Level.UNKNOWN, "")
    assert f"  not seen: {kind}: {kind} is forbidden" in list(found.lines())


def test_a_message_about_another_pod_of_the_name_does_not_count() -> None:
    made = world(runs(), asks(), event(f"Pod {NAME}", "FailedScheduling", FULL.message))
    (found,) = asked(made)
    assert found.key == "contradiction"
    made.objects["events"][0]["involvedObject"]["uid"] = "of-an-earlier-pod"
    (found,) = asked(made)
    assert (found.key, found.level) == ("not-looked-at", Level.UNKNOWN)


def test_a_scale_up_that_brought_no_node_is_over() -> None:
    made = world(runs(), holds("n1", "n2"), asks(), FULL)
    made.event(f"Pod {NAME}", "TriggeredScaleUp", "pod triggered scale-up: [{eks-train-whole 2->3 (max: 4)}]", OLD)
    (found,) = asked(made)
    assert (found.key, found.disagrees) == ("not-triggered", "cluster")
    assert found.details[-1].startswith("autoscaler, 180 min ago: pod triggered scale-up")


def test_a_node_that_boots_is_told_as_such() -> None:
    made = world(runs(), holds("n1", "n2"), lambda world: world.node("n3"), asks(), FULL)
    for part in ("allocatable", "capacity"):
        made.named("nodes", "n3")["status"][part] |= {"memory": "500Gi", "pods": "110"}
    (found,) = asked(made)
    assert (found.key, found.disagrees, found.next) == ("scaling-up", "cluster", "gpupools ready FILE --watch")
    assert found.text.endswith("n3 of train/whole boots")


def test_a_full_node_has_no_pod_left() -> None:
    made = world(runs(1), asks(1))
    made.named("nodes", "n1")["status"]["allocatable"]["pods"] = "1"
    pod(made, 1, name="holder", node="n1")
    Refuses("0/1 nodes are available: 1 Too many pods.")(made)
    (found,) = asked(made)
    assert (found.key, found.level) == ("not-triggered", Level.UNFIT)
    assert found.text.endswith("train/whole has 1; on n1: the node has its maximum of pods")


def test_a_booting_node_is_not_blamed_for_another() -> None:
    made = world(runs(4), holds("n1", "n2"), lacks("n3", 0), lacks("n4", 0), asks(), FULL)
    made.named("nodes", "n4")["metadata"]["creationTimestamp"] = OLD
    (found,) = asked(made)
    assert "Node n4: nvidia.com/gpu: promised 8, allocatable 0" in found.text


def test_a_label_that_no_plan_knows_is_unknown_without_a_node() -> None:
    selects = {"cloud.google.com/gke-accelerator-count": "1"}
    (found,) = asked(world(asks(1, nodeSelector=selects), at="lab/zero"))
    assert (found.level, found.key) == (Level.UNKNOWN, "unknown-label")


def test_a_failure_after_which_a_node_was_started_is_over() -> None:
    made = world(runs(), holds("n1", "n2"), asks(), FULL, at="lab/whole")
    made.event(f"Pod {NAME}", "FailedScaleUp", "GCE quota exceeded. Pod is at risk.", "2026-11-27T11:50:00Z")
    backoff = "pod didn't trigger scale-up: 1 in backoff after failed scale-up"
    made.event(f"Pod {NAME}", "NotTriggerScaleUp", backoff, "2026-11-27T11:51:00Z")
    assert asked(made)[0].key == "quota"
    made.event(f"Pod {NAME}", "TriggeredScaleUp", "pod triggered scale-up: [{gke-lab-whole 2->3 (max: 4)}]")
    assert asked(made)[0].key == "scaling-up"
    made.event(f"Pod {NAME}", "FailedScaleUp", "GCE quota exceeded. Pod is at risk.", "2026-11-27T11:56:00Z")
    assert asked(made)[0].key == "quota"


CLAIM = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}]}


@pytest.mark.parametrize(("is_used", "key"), [(False, "contradiction"), (True, "at-max")])
def test_devices_of_claims_are_counted(is_used: bool, key: str) -> None:
    made = world(at="train/claimed")
    made.heal()
    made.node("h1")
    made.slices(1, "h1")
    made.daemons(2)
    for node in made.objects["nodes"]:
        node["status"]["allocatable"] |= {"memory": "60Gi", "pods": "110"}
    for name in ("h0", "h1"):
        result = {"driver": "gpu.nvidia.com", "pool": name, "device": "gpu-0"}
        status = {"allocation": {"devices": {"results": [result] * is_used}}}
        meta = {"namespace": "default", "name": f"c-{name}"}
        made.put("resourceclaims", {"metadata": meta, "spec": {"devices": CLAIM}, "status": status})
    made.put("resourceclaims", {"metadata": {"namespace": "default", "name": "c"}, "spec": {"devices": CLAIM}})
    entry = [{"name": "gpu", "resourceClaimName": "c"}]
    container = {"name": "main", "resources": {"claims": [{"name": "gpu"}]}}
    pod(made, resourceClaims=entry, containers=[container])
    made.event(f"Pod {NAME}", "FailedScheduling", "0/2 nodes are available: 2 cannot allocate all claims.")
    assert asked(made)[0].key == key
    (found,) = asked(made, NAME, resourceclaims="resourceclaims is forbidden")
    assert (found.key, found.details[-1]) == ("not-seen", "not seen: resourceclaims: resourceclaims is forbidden")


@pytest.mark.parametrize("forbidden", ["", "namespaces", "resourceclaims"])
def test_pods_are_read_page_by_page(tmp_path: Path, forbidden: str) -> None:
    made = world(runs(4), holds("n1", "n2", "n3", "n4"), asks())
    made.put("namespaces", {"metadata": {"name": "default", "labels": {"team": "research"}}})
    pod(made, 8, name="finished", node="n1")
    made.objects["pods"][-1]["status"]["phase"] = "Succeeded"
    cluster = plan().stack.clusters["train"]
    with serving(made) as api:
        api.forbidden = {forbidden}
        write_files(made, f"http://127.0.0.1:{api.server_port}", tmp_path)
        reader = ClusterApi(Access(tmp_path / "kube" / "config", "x"))
        found = read_live(reader, cluster, clouds()["aws"], NAME)
        assert {method for method, _ in api.requests} == {"GET"}
    assert [each["metadata"]["name"] for each in found.pods] == ["job"]
    assert {name: held["nvidia.com/gpu"] for name, held in found.held.items()} == dict.fromkeys(found.held, 8)
    assert len(found.held) == 4
    assert set(found.snapshot.unseen) == {forbidden} - {""}
    assert ("default" in found.manifests.namespaces) == (forbidden != "namespaces")
    (answer,) = answers(found, Given(plan(), "train", clouds(), "FILE"), NAME)
    assert answer.key == "at-max"


def test_pod_groups_of_volcano_are_read(tmp_path: Path) -> None:
    made = world(asks(schedulerName="volcano"))
    made.objects["pods"][-1]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "gang"}
    condition = {"type": "Unschedulable", "status": "True", "transitionID": "1", "reason": "tasks in gang are ready"}
    spec, meta = {"minMember": 2, "minTaskMember": {"task": 2}}, {"namespace": "default", "name": "gang"}
    made.put("podgroups", {"metadata": meta, "spec": spec, "status": {"conditions": [condition]}})
    asks(name="other", schedulerName="volcano")(made)
    made.objects["pods"][-1]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "gang"}
    cluster = planned("volcano").stack.clusters["train"]
    with serving(made) as api:
        write_files(made, f"http://127.0.0.1:{api.server_port}", tmp_path)
        found = read_live(ClusterApi(Access(tmp_path / "kube" / "config", "x")), cluster, clouds()["aws"], NAME)
    assert [each.least for each in found.gangs.values()] == [2]


def test_the_command_answers_for_a_pod_and_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = world(runs(4), holds("n1", "n2", "n3", "n4"), asks(), asks(name="other"))
    with serving(made) as api:
        file = write_files(made, f"http://127.0.0.1:{api.server_port}", tmp_path)
        words = ["fit", "--stack", str(file), "--kubeconfig", str(tmp_path / "kube" / "config"), "--context", "x"]
        assert main([*words, "--pod", NAME]) == 1
        out = capsys.readouterr().out
        assert out.startswith("default/job: plan: the pool is full at nodes.max: train/whole has 4; on n1: requests 8")
        assert out.endswith("  next: kubectl describe nodes -l gpupools/pool=whole\n")
        assert main([*words, "--json"]) == 1
        (found,) = json.loads(capsys.readouterr().out)["pods"]
        assert [found[key] for key in ("number", "disagrees", "key", "answer")] == [2, "plan", "at-max", "does not fit"]
        assert main([*words, "--pod", "default/none"]) == 2
        out = capsys.readouterr().out
        assert out == "default/none: unknown: the cluster has no such pod; see kubectl -n default get pods,events\n"
        assert main([*words, "--pod", "job"]) == 2
        assert "--pod: got 'job'; write NAMESPACE/NAME" in capsys.readouterr().err
        api.forbidden = {"nodes"}
        assert main(words) == 2
        assert "cluster-fit.json" in capsys.readouterr().err
