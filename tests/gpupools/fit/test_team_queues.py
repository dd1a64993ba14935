"""Shares of teams, queues and policies: the answers for a workload before its scheduler decides."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.common.csv_rows import DATA, data_rows
from gpupools.common.json_types import JsonDict
from gpupools.fit.offers import offers
from gpupools.fit.pod_judging import Context
from gpupools.fit.team_queues import sharing_of, team_reasons
from gpupools.fit.workloads import Level, Reason
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan
from tests.gpupools.fit.loads import ray, read, reasons, template
from tests.gpupools.software.test_teams import POOLS, plan

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "teams"
TEAMS: JsonDict = {
    "research": {"namespaces": ["research"], "guarantee": {"big": 16}, "limit": {"big": 24}},
    "vision": {"namespaces": ["vision"], "guarantee": {"big": 8}, "lends_to": []},
    "serving": {"namespaces": ["serving"], "guarantee": {"slices": 7}},
}
SHARED: JsonDict = {"big": POOLS["big"], "slices": POOLS["slices"], "free": {**POOLS["small"], "labels": {}}}
LABEL, QUEUE = "kueue.x-k8s.io/queue-name", "kai.scheduler/queue"
SCHEDULERS = {"kai": "kai-scheduler", "volcano": "volcano"}
KAI_TEAMS: JsonDict = {**TEAMS, "vision": {**TEAMS["vision"], "lends_to": None}}
OF_BIG, STOPS = {QUEUE: "research.big", "gpupools/pool": "big"}, "kai.scheduler/preemptibility"
LEAST = "kai.scheduler/batch-min-member"


def planned(scheduler: str, *, policy: bool = True, teams: JsonDict = TEAMS, pools: JsonDict = SHARED) -> StackPlan:
    return plan(teams, pools, {"scheduler": scheduler, "trust_policy": policy})


def load(
    pods: int = 1, gpus: int = 1, space: str = "research", kind: str = "Job", pool: str = "big", **more: Any
) -> JsonDict:
    """Return a manifest with what `more` has: labels and annotations of object and pods, and keys of the spec."""
    metadata = {"name": "x", "namespace": space, "labels": more.get("labels", {}), "annotations": more.get("notes", {})}
    pod = {"metadata": more.get("pod", {}), "spec": template(gpus, pool, **more.get("spec", {}))}
    if kind == "Pod":
        return {"kind": kind, "metadata": metadata, "spec": pod["spec"]}
    spec = {"parallelism": pods, "replicas": pods, "template": pod}
    spec = {"jobTemplate": {"metadata": metadata, "spec": spec}} if kind == "CronJob" else spec
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": pods, "template": pod}}} if kind == "PyTorchJob" else spec
    return {"kind": kind, "metadata": metadata, "spec": spec}


def queued(scheduler: str, queue: str | None = "", pods: int = 1, gang: int = 0, **more: Any) -> JsonDict:
    """Return a manifest with scheduler and queue of a team; None for no queue."""
    space, pool = more.get("space", "research"), more.get("pool", "big")
    own = (
        {}
        if queue is None
        else {QUEUE if scheduler == "kai" else "scheduling.volcano.sh/queue-name": queue or f"{space}.{pool}"}
    )
    pod = {"labels": {**own, "gpupools/pool": pool}} if scheduler == "kai" else {"annotations": own}
    names = {"kai": "kai.scheduler/batch-min-member", "volcano": "scheduling.volcano.sh/group-min-member"}
    notes = {names[scheduler]: str(gang)} if gang else {}
    spec = {"schedulerName": SCHEDULERS[scheduler], **more.pop("spec", {})}
    return load(pods, notes=notes, **{"pod": pod, "spec": spec, **more})


def said(made: StackPlan, manifest: JsonDict, pool: str = "big", role: int = 0) -> list[Reason]:
    work = read(manifest)
    (offer,) = (each for each in offers(made) if each.pool.name == pool)
    return list(team_reasons(work, work.templates[role], offer, Context(made), sharing_of(made)))


def keys(found: list[Reason]) -> list[tuple[str, Level]]:
    return [(each.key, each.level) for each in found]


WAITS, NEVER, SOME = ("may-wait", Level.FITS), ("above-limit", Level.UNFIT), ("some-run", Level.FITS)
DENIED, UNKNOWN = ("admission", Level.UNFIT), ("unknown-queue", Level.UNKNOWN)
BYPASS, NO_SHARE, NO_QUEUE = ("bypass", Level.FITS), ("no-share", Level.UNFIT), ("queue", Level.UNFIT)


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        pytest.param(load(16), [], id="a job of the guarantee starts"),
        pytest.param(load(2, 8), [WAITS], id="a job of whole nodes waits while others hold a part of each"),
        pytest.param(load(17), [WAITS], id="a job above the guarantee may wait"),
        pytest.param(load(24), [WAITS], id="a job of the limit may wait"),
        pytest.param(load(25), [NEVER], id="a job above the limit never starts"),
        pytest.param(load(25, kind="StatefulSet"), [NEVER], id="a stateful set is admitted whole"),
        pytest.param(load(25, kind="CronJob"), [NEVER], id="a cron job makes jobs"),
        pytest.param(load(25, kind="Deployment"), [SOME, WAITS], id="the pods of a deployment are admitted one by one"),
        pytest.param(load(25, kind="ReplicaSet"), [SOME, WAITS], id="and those of kinds that Kueue does not know"),
        pytest.param(
            load(30, notes={"kueue.x-k8s.io/job-min-parallelism": "20"}), [SOME, WAITS], id="a smaller minimum"
        ),
        pytest.param(load(kind="Pod"), [], id="a pod gets the queue of its namespace"),
        pytest.param(load(labels={LABEL: "default"}), [], id="the queue of the plan"),
        pytest.param(load(labels={LABEL: "other"}), [UNKNOWN], id="a queue that the plan does not make"),
        pytest.param(load(pod={"labels": {LABEL: "other"}}), [], id="of a job, its webhook ignores that of the pods"),
        pytest.param(load(space="other"), [DENIED], id="a namespace of no team is rejected"),
        pytest.param(load(space="kube-system"), [BYPASS], id="the namespace of the cluster's software is let through"),
        pytest.param(load(space="serving"), [DENIED], id="a team without a share that selects the pool is rejected"),
        pytest.param(load(space="serving", pool=""), [NO_SHARE], id="without selector only Kueue keeps it off"),
        pytest.param(load(25, space="vision"), [NEVER], id="above what others guarantee and do not lend"),
        pytest.param(load(0), [], id="no GPU, no share"),
        pytest.param(
            load(kind="ReplicaSet", pod={"labels": {LABEL: "other"}}), [UNKNOWN], id="the queue of pods of no webhook"
        ),
        pytest.param(load(kind="Deployment", pod={"labels": {LABEL: "other"}}), [], id="a deployment has its own"),
        pytest.param(load(25, kind="PyTorchJob"), [SOME, WAITS], id="pods of a kind that Kueue does not know"),
    ],
)  # fmt: skip
def test_kueue_admits_by_the_shares_of_the_team(manifest: JsonDict, wanted: list[tuple[str, Level]]) -> None:
    teams = {**TEAMS, "research": {**TEAMS["research"], "lends_to": []}} if "vision" in str(manifest) else TEAMS
    assert keys(said(planned("kueue", teams=teams), manifest)) == wanted


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        pytest.param(load(space="other"), [BYPASS], id="a namespace of no team takes GPUs of the teams"),
        pytest.param(load(space="other", labels={LABEL: "default"}), [UNKNOWN], id="a queue where the plan has none"),
        pytest.param(load(space="serving"), [NO_SHARE], id="a team without a share"),
    ],
)
def test_without_the_policy_kueue_alone_decides(manifest: JsonDict, wanted: list[tuple[str, Level]]) -> None:
    assert keys(said(planned("kueue", policy=False), manifest)) == wanted


SCALED: JsonDict = {"enableInTreeAutoscaling": True}


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (ray(25, 2), [NEVER]),
        (ray(24, 2), [WAITS]),
        (ray(16, 2, **SCALED), [DENIED]),
        (ray(16, 2, **SCALED, notes={"kueue.x-k8s.io/elastic-job": "true"}), []),
        (ray(16, 2, **SCALED, space="other"), [DENIED]),
    ],
    ids=["all its workers", "at the limit", "an autoscaler", "an elastic one", "of no team"],
)
def test_kueue_admits_a_cluster_of_ray_whole(manifest: JsonDict, wanted: list[Any]) -> None:
    """https://github.com/kubernetes-sigs/kueue tag v0.19.2, pkg/controller/jobs/raycluster/raycluster_webhook.go."""
    found = said(planned("kueue"), manifest, "big", role=1)

    assert keys(found) == wanted
    is_refused = "enableInTreeAutoscaling" in manifest["spec"] and not manifest["metadata"]["annotations"]
    assert any("enableInTreeAutoscaling: false" in each.text for each in found) == (
        is_refused and manifest["metadata"]["namespace"] == "research"
    )


@pytest.mark.parametrize(
    ("workers", "least", "wanted"),
    [(25, 24, [SOME, WAITS]), (25, 25, [NEVER]), (25, 0, [NEVER]), (30, 16, [SOME, WAITS]), (16, 4, [])],
    ids=["a part of it", "all that it needs", "no smallest number", "its smallest number", "the guarantee"],
)
def test_kai_starts_the_smallest_number_of_workers_of_ray(workers: int, least: int, wanted: list[Any]) -> None:
    pod = {"labels": OF_BIG}
    manifest = ray(workers, least, pod=pod, scheduler="kai-scheduler")

    assert keys(said(planned("kai", teams=KAI_TEAMS), manifest, "big", role=1)) == wanted


@pytest.mark.parametrize("status", ["Complete", "Ready"])
@pytest.mark.parametrize(("depends", "annotations", "wanted"), [(True, {}, 1), (False, {}, 0), (True, {LEAST: "1"}, 0)])
def test_kai_may_wait_for_jobs_that_come_only_after_others(
    status: str, depends: bool, annotations: JsonDict, wanted: int
) -> None:
    body = {"metadata": {"labels": OF_BIG}, "spec": {**template(8), "schedulerName": "kai-scheduler"}}
    first = {"name": "first", "template": {"spec": {"template": body}}}
    then = {**first, "name": "then"} | ({"dependsOn": [{"name": "first", "status": status}]} if depends else {})
    metadata = {"name": "x", "namespace": "research", "annotations": annotations}
    manifest = {"kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": [first, then]}}
    made = planned("kai", teams=KAI_TEAMS)

    for role in (0, 1):
        found = said(made, manifest, "big", role=role)
        assert keys(found) == [("queue", Level.UNKNOWN)] * wanted


def volcano_job(*tasks: tuple[int, int, int | None], least: int | None = None) -> JsonDict:
    """Return a job of Volcano with tasks of so many pods, of so many GPUs, and the least of them."""
    made = [
        {"name": f"task{index}", "replicas": pods, "template": {"spec": template(gpus)}}
        | ({} if own is None else {"minAvailable": own})
        for index, (pods, gpus, own) in enumerate(tasks)
    ]
    spec = {"queue": "research.big", "tasks": made, **({} if least is None else {"minAvailable": least})}
    metadata = {"name": "x", "namespace": "research"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        (volcano_job((25, 1, None)), [NEVER]),
        (volcano_job((25, 1, None), least=20), [SOME, WAITS]),
        (volcano_job((25, 1, 16)), [SOME, WAITS]),
        (volcano_job((20, 1, 1), (4, 8, 2)), [SOME, WAITS]),
        (volcano_job((20, 1, 1), (4, 8, 4)), [NEVER]),
        (volcano_job((20, 1, 1), (4, 8, 4), least=3), [SOME, WAITS]),
    ],
    ids=["all", "of the job", "of a task", "of two tasks", "too many of a task", "the job's is below its tasks'"],
)
def test_volcano_starts_the_smallest_number_of_each_task(manifest: JsonDict, wanted: list[Any]) -> None:
    assert keys(said(planned("volcano", teams=KAI_TEAMS), manifest)) == wanted


@pytest.mark.parametrize(
    ("scheduler", "space", "wanted"),
    [("kueue", "research", []), ("kueue", "other", ["taint"]), ("volcano", "research", ["taint"])],
    ids=["a team", "no team", "no flavor"],
)
def test_kueue_s_flavor_adds_what_tolerates_the_taints_of_the_pool(
    scheduler: str, space: str, wanted: list[str]
) -> None:
    """https://github.com/kubernetes-sigs/kueue tag v0.19.2, pkg/scheduler/flavorassigner, checkFlavorForPodSets."""
    pools = {**SHARED, "big": {**POOLS["big"], "taints": ["team=vision:NoSchedule"]}}
    found = reasons(planned(scheduler, policy=False, pools=pools), read(load(space=space)))["big"]

    assert [each.key for each in found if each.key == "taint"] == wanted


@pytest.mark.parametrize("policy", [True, False])
@pytest.mark.parametrize(("space", "pool"), [("other", "big"), ("serving", "big"), ("other", "")])
def test_a_scheduler_that_would_start_no_pod_is_no_advice(policy: bool, space: str, pool: str) -> None:
    found = said(planned("volcano", policy=policy, teams=KAI_TEAMS), load(space=space, pool=pool))

    assert [each.key for each in found] == ["admission" if policy else "bypass"]
    assert not any(each.patch for each in found)


def test_a_pool_of_no_team_is_nobody_s_share() -> None:
    made = planned("kueue")

    assert keys(said(made, load(pool="free"), "free")) == [NO_SHARE]
    assert said(made, load(pool="free", space="other"), "free") == []


ONE: JsonDict = {"gpu": "A100-40GB", "gpus_per_node": 1, "nodes": {"max": 16}}


@pytest.mark.parametrize(
    ("spec", "gpus", "wanted"),
    [
        ({"nodeSelector": {}}, 8, ["queue"]),
        ({"nodeSelector": {}}, 1, []),
        ({"nodeSelector": {"tier": "gold"}}, 1, ["queue"]),
        ({"nodeSelector": {"gpupools/pool": "big"}}, 8, []),
    ],
    ids=["larger than nodes of another pool", "as large", "by another label", "by the label of the pool"],
)
def test_kueue_may_choose_a_pool_that_does_not_fit(spec: JsonDict, gpus: int, wanted: list[str]) -> None:
    teams = {"research": {"namespaces": ["research"], "guarantee": {"one": 8, "big": 16}}}
    made = planned("kueue", pools={"one": ONE, "big": POOLS["big"]}, teams=teams)
    found = [each for each in said(made, load(gpus=gpus, pool="", spec=spec)) if each.key != "may-wait"]

    assert keys(found) == [(key, Level.UNKNOWN) for key in wanted]
    assert all(each.patch == {"nodeSelector": {"gpupools/pool": "big"}} for each in found)


MIXED: JsonDict = {
    "gpu": "A100-40GB",
    "nodes": {"max": 2},
    "sharing": {"mode": "mig", "strategy": "mixed", "layout": ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]},
}


@pytest.mark.parametrize(
    ("scheduler", "guarantee", "wanted"),
    [
        ("kueue", {"mixed": {"1g.5gb": 2}}, []),
        ("kueue", {"mixed": {"1g.5gb": 2}, "two": {"2g.10gb": 3}}, [NO_SHARE]),
        ("volcano", {"mixed": {"1g.5gb": 2}}, [NEVER]),
    ],
    ids=["Kueue counts no resource of no quota", "Kueue counts one of another pool", "Volcano's queues have all"],
)
def test_a_pod_of_two_resources(scheduler: str, guarantee: JsonDict, wanted: list[Any]) -> None:
    two = {**POOLS["slices"], "sharing": {"mode": "mig", "strategy": "mixed", "profile": "2g.10gb"}}
    teams = {"research": {"namespaces": ["research"], "guarantee": guarantee}}
    made = planned(scheduler, pools={"mixed": MIXED, "two": two}, teams=teams)
    manifest = load(pool="mixed") if scheduler == "kueue" else queued(scheduler, pool="mixed")
    limits = {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-2g.10gb": 1}
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = limits

    assert keys(said(made, manifest, "mixed")) == wanted


def test_a_policy_reads_the_group_of_a_pool_that_has_none() -> None:
    """As the policy itself does, whose variables are read: a pod of a group is on no other pool."""
    steps = {**POOLS["big"], "nodes": {"fixed": 2}, "capacity": [{"mode": "spot"}, {"mode": "on-demand"}]}
    teams = {
        "research": {"namespaces": ["research"], "guarantee": {"big": 20}},
        "vision": {"namespaces": ["vision"], "guarantee": {"solo": 8}},
    }
    made = planned("kueue", pools={"big": {**steps, "zones": ["europe-west4-a"]}, "solo": SHARED["free"]}, teams=teams)
    selected = {"nodeSelector": {"gpupools/group": "big"}}

    assert keys(said(made, load(space="vision", pool="", spec=selected), "big-1")) == [DENIED]


def test_a_compact_pool_needs_the_annotation_of_its_topology() -> None:
    compact = {
        "instance_type": "a3-megagpu-8g",
        "nodes": {"fixed": 2},
        "zones": ["europe-west4-a"],
        "network": {"placement": "compact"},
    }
    made = planned(
        "kueue",
        pools={"big": POOLS["big"], "near": compact},
        teams={"research": {"namespaces": ["research"], "guarantee": {"big": 8, "near": 16}}},
    )
    (reason,) = said(made, load(pool="near"), "near")

    assert (reason.key, reason.level) == ("queue", Level.UNKNOWN)
    (note,) = reason.patch["metadata"]["annotations"].items()
    assert said(made, load(pool="near", pod={"annotations": dict([note])}), "near") == []


_OF_QUEUES = [
    ({"pods": 16, "gang": 16}, []),
    ({"pods": 17, "gang": 17}, [WAITS]),
    ({"pods": 25, "gang": 25}, [NEVER]),
    ({"pods": 30}, [SOME, WAITS]),
    ({"queue": None}, [NO_QUEUE]),
    ({"queue": "vision.big"}, [DENIED]),
    ({"queue": "vision.big", "gpus": 0, "spec": {"schedulerName": "default-scheduler"}}, [DENIED]),
    ({"queue": "research.none"}, [UNKNOWN]),
    ({"queue": "serving.slices", "space": "serving", "pool": "big"}, [DENIED]),
    ({"queue": None, "space": "serving", "pool": ""}, [NO_SHARE]),
    ({"spec": {"schedulerName": "default-scheduler"}}, [DENIED]),
    ({"space": "other"}, [DENIED]),
]  # fmt: skip


@pytest.mark.parametrize("scheduler", ["kai", "volcano"])
@pytest.mark.parametrize(
    ("given", "wanted"),
    _OF_QUEUES,
    ids=[
        "a gang of the guarantee starts", "a gang above the guarantee may wait", "a gang above the limit never starts",
        "pods above the limit run in part", "no queue", "the queue of another team",
        "such a queue alone is enough", "a queue of no plan",
        "a team without a share", "a team without share and selector", "another scheduler is rejected",
        "a namespace of no team is rejected",
    ],
)  # fmt: skip
def test_kai_and_volcano_read_the_queue_of_the_pod(scheduler: str, given: JsonDict, wanted: list[Any]) -> None:
    teams = {**TEAMS, "vision": {**TEAMS["vision"], "lends_to": None}}
    assert keys(said(planned(scheduler, teams=teams), queued(scheduler, **given))) == wanted


@pytest.mark.parametrize("scheduler", ["kai", "volcano"])
def test_the_queue_and_the_shares_are_of_all_steps_of_a_pool(scheduler: str) -> None:
    steps = {**POOLS["big"], "nodes": {"fixed": 2}, "capacity": [{"mode": "spot"}, {"mode": "on-demand"}]}
    teams = {"research": {"namespaces": ["research"], "guarantee": {"big": 20}, "limit": {"big": 28}}}
    made = planned(scheduler, teams=teams, pools={"big": {**steps, "zones": ["europe-west4-a"]}})
    selected: JsonDict = {"spec": {"nodeSelector": {"gpupools/group": "big"}, "schedulerName": SCHEDULERS[scheduler]}}
    pod = {"labels": {QUEUE: "research.big", "gpupools/pool": "big", "gpupools/group": "big"}}
    owned: JsonDict = {
        **selected,
        **({"pod": pod} if scheduler == "kai" else {}),
    }  # the Job gets the labels of its pods

    for pods, wanted in ((20, []), (28, [WAITS]), (29, [NEVER])):
        assert keys(said(made, queued(scheduler, pods=pods, gang=pods, **owned), "big-2")) == wanted
    found = said(made, queued(scheduler, labels={"own": "x"}, **owned), "big-2")
    assert keys(found) == ([NO_QUEUE] if scheduler == "kai" else [])
    assert all("needs the label gpupools/group: big on the Job itself" in each.text for each in found)


@pytest.mark.parametrize("scheduler", ["kai", "volcano"])
def test_another_scheduler_without_the_policy_bypasses_the_team(scheduler: str) -> None:
    made = planned(scheduler, policy=False, teams={**TEAMS, "vision": {**TEAMS["vision"], "lends_to": None}})
    (reason,) = said(made, load())

    assert ((reason.key, reason.level), reason.patch) == (BYPASS, {"schedulerName": SCHEDULERS[scheduler]})
    (reason,) = said(made, queued(scheduler, None))
    assert "research.big" in str(reason.patch)


def test_volcano_reads_the_queue_of_its_own_job_from_the_spec() -> None:
    made = planned("volcano", teams=KAI_TEAMS)
    pod = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "research.big"}}, "spec": template()}
    spec: JsonDict = {"tasks": [{"name": "worker", "replicas": 1, "template": pod}]}
    manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": spec}
    manifest |= {"metadata": {"name": "x", "namespace": "research"}}
    (reason,) = said(made, manifest)

    assert (keys([reason]), reason.patch) == ([UNKNOWN], {})
    assert reason.text.endswith("use research.big")
    spec["queue"] = "research.big"
    assert said(made, manifest) == []


@pytest.mark.parametrize(("kind", "level"), [("Job", Level.UNFIT), ("PyTorchJob", Level.UNKNOWN)])
def test_gangs_of_other_controllers_are_not_known_to_volcano(kind: str, level: Level) -> None:
    made = planned("volcano", teams=KAI_TEAMS)
    found = said(made, queued("volcano", pods=25, gang=25, kind=kind))

    assert keys(found) == [("above-limit", level)]


def test_volcano_gives_back_only_what_a_gang_needs() -> None:
    made = planned("volcano", teams={**TEAMS, "vision": {**TEAMS["vision"], "lends_to": None}})
    (reason,) = said(made, queued("volcano", pods=8))

    assert (reason.key, reason.level) == WAITS
    assert said(made, queued("volcano", pods=8, gang=8)) == []


NOTEBOOK = {"priorityClassName": "interactive"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"pods": 16, "gang": 16, "spec": {"priorityClassName": "interactive"}}, []),
        ({"pods": 17, "gang": 17, "spec": {"priorityClassName": "interactive"}}, [NEVER]),
        ({"pods": 17, "gang": 17, "spec": {"priorityClassName": "training"}}, [WAITS]),
        ({"pods": 17, "kind": "Deployment"}, [SOME, WAITS]),
        ({"pod": {"labels": {QUEUE: "research.big"}}}, [NO_QUEUE]),
        ({"pods": 17, "gang": 17, "pod": {"labels": {**OF_BIG, STOPS: "preemptible"}}, "spec": NOTEBOOK}, [WAITS]),
        ({"pods": 17, "gang": 17, "pod": {"labels": {**OF_BIG, STOPS: "non-preemptible"}}}, [NEVER]),
        ({"pods": 17, "gang": 17, "labels": {"priorityClassName": "interactive"}}, [NEVER]),
        ({"pods": 17, "gang": 17, "spec": {"priorityClassName": "own"}}, [("may-wait", Level.UNKNOWN)]),
        ({"pods": 16, "gang": 16, "spec": {"priorityClassName": "own"}}, []),
        ({"queue": "big", "space": "other", "spec": {"nodeSelector": {}}}, [DENIED]),
    ],
    ids=[
        "notebooks", "notebooks above the guarantee", "training", "servers are not stopped", "no label of the pool",
        "notebooks that may be stopped", "training that is not", "priority by label", "an unknown priority",
        "an unknown priority within the guarantee", "a namespace of no team",
    ],
)  # fmt: skip
def test_kai_lends_nothing_to_what_it_does_not_stop(given: JsonDict, wanted: list[Any]) -> None:
    assert keys(said(planned("kai", teams=KAI_TEAMS), queued("kai", **given))) == wanted


INVALID, TOO_MANY = ("invalid", Level.UNFIT), ("too-many-units", Level.UNFIT)


@pytest.mark.parametrize(
    ("annotation", "devices", "pods", "wanted"),
    [
        ("0.5", "1", 4, []),
        ("0.5", "1", 5, [WAITS]),
        ("0.6", "1", 3, []),
        ("1.5", "1", 1, [INVALID]),
        ("1", "1", 1, [INVALID]),
        ("half", "1", 1, [INVALID]),
        ("0.5", "2", 1, [TOO_MANY]),
    ],
)
def test_kai_counts_a_part_of_a_gpu_as_that_part(annotation: str, devices: str, pods: int, wanted: list[Any]) -> None:
    text = (EXAMPLES / "Pulumi.kai.yaml").read_text(encoding="utf-8")
    config = {key.removeprefix("gpupools:"): value for key, value in yaml.safe_load(text)["config"].items()}
    pool = {key: value for key, value in config["pools"]["halves"].items() if key != "clusters"}
    teams = {"research": {"namespaces": ["research"], "guarantee": {"halves": 2}}}
    made = planned("kai", teams=teams, pools={"halves": {**pool, "nodes": {"max": 4}}})
    pod = {"labels": {QUEUE: "research.halves", "gpupools/pool": "halves"}, "annotations": {"gpu-fraction": annotation}}
    pod["annotations"] |= {"gpu-fraction-num-devices": devices} if devices != "1" else {}

    assert keys(said(made, queued("kai", pods=pods, gang=pods, gpus=0, pool="halves", pod=pod), "halves")) == wanted


def test_kai_counts_a_slice_by_its_compute() -> None:
    mig = {**POOLS["slices"], "sharing": {"mode": "mig", "profile": "3g.20gb", "strategy": "mixed"}}
    teams = {"research": {"namespaces": ["research"], "guarantee": {"cut": 2}}}
    made = planned("kai", teams=teams, pools={"cut": mig})
    manifest = queued("kai", pods=2, gang=2, pool="cut")
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-3g.20gb": 1}

    assert said(made, manifest, "cut") == []
    manifest["metadata"]["annotations"]["kai.scheduler/batch-min-member"] = "3"
    manifest["spec"]["parallelism"] = 3
    (reason,) = said(made, manifest, "cut")
    assert "asks for 9 GPUs together, and 6 are guaranteed" in reason.text


def test_kinds_that_kueue_knows_are_those_of_its_configuration() -> None:
    found = yaml.safe_load(DATA.joinpath("kueue_configuration.yaml").read_text(encoding="utf-8"))
    names = {each.rpartition("/")[2] for each in found["integrations"]["frameworks"]}

    # Pods of a TrainJob are not known, and an AppWrapper is read as pods.
    known = {row["kind"].lower() for row in data_rows("workload_kinds.csv") if row["kueue"]}
    assert known == names - {"trainjob", "appwrapper"} | {"cronjob"}


def test_without_teams_nothing_is_said() -> None:
    made = check_stack_file(EXAMPLES / "Pulumi.hami.yaml", clouds()).plan
    assert (dict(sharing_of(made)), said(made, load(), "notebooks")) == ({}, [])


def _examples() -> list[Any]:
    found = []
    for scheduler, file in (("kueue", "jobs"), ("volcano", "jobs"), ("kai", "kai"), ("hami", "hami")):
        for each in yaml.safe_load_all((EXAMPLES / f"{scheduler}.yaml").read_text(encoding="utf-8")):
            found.append(pytest.param(scheduler, file, each, id=f"{scheduler}-{each['metadata']['name']}"))
    return found


@pytest.mark.parametrize(("scheduler", "file", "manifest"), _examples())
def test_the_jobs_of_the_examples_start_as_the_page_says(
    scheduler: str, file: str, manifest: JsonDict, tmp_path: Path
) -> None:
    """All start within the guarantee, but the gang, whose 32 GPUs are above 16 guaranteed ones."""
    text = (EXAMPLES / f"Pulumi.{file}.yaml").read_text(encoding="utf-8")
    stack = tmp_path / f"Pulumi.{file}.yaml"
    stack.write_text(text.replace("scheduler: kueue", f"scheduler: {scheduler}"), encoding="utf-8")
    name, space = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    pool = {"notebook": "halves", "slice": "slices"}.get(name, "big") if scheduler != "hami" else "notebooks"
    found = reasons(check_stack_file(stack, clouds()).plan, read(manifest))

    assert space in ("research", "serving")
    fits = [each for each, own in found.items() if all(one.level is not Level.UNFIT for one in own)]
    assert fits == [pool]
    spread = ["other-pods"] if name == "inference" else []
    spread += ["unknown-namespace"] if scheduler == "hami" else []  # trust: {team: research} is a label of namespaces
    waits = ["may-wait"] if name == "gang" or (scheduler, name) in _WAITING else []
    assert [each.key for each in found[pool]] == spread + waits


_WAITING = {("kueue", "training"), ("volcano", "search"), ("volcano", "inference")}
"""Pods of a whole node, which others may have filled in part; and pods beyond the minimum of a job of Volcano."""
