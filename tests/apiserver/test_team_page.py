"""A person who follows the page on teams: its file, its jobs and each of its commands, on the real schedulers."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan
from tests.apiserver.conftest import only
from tests.apiserver.team_cluster import Cluster, recorded
from tests.docs.test_docs import BLOCK

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH"),
]

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "share-among-teams.md").read_text(encoding="utf-8")
BLOCKS = [(each["kind"], each["body"]) for each in BLOCK.finditer(PAGE)]
(FILE,) = (body for kind, body in BLOCKS if kind == "yaml" and body.startswith("# Pulumi.queues.yaml"))
COMMANDS: list[str] = [
    *(body.strip() for kind, body in BLOCKS if kind == "sh"),
    *(each for each in re.findall(r"`(kubectl [^`]+)`", PAGE)),
]


def test_these_are_the_commands_of_the_page() -> None:
    assert [each.split()[:4] for each in COMMANDS] == [
        ["gpupools", "render", "Pulumi.queues.yaml", "--only"],
        ["kubectl", "patch", "clusterqueue", "research"],
        ["kubectl", "patch", "job", "train"],
    ]


class Person:
    """Has the page's file, and kubectl for the cluster with the namespace of a team."""

    def __init__(self, cluster: Cluster, folder: Path, space: str = "research") -> None:
        self.cluster, self.folder = cluster, folder
        (folder / "Pulumi.queues.yaml").write_text(self.file(), encoding="utf-8")
        config = yaml.safe_load(cluster.server.kubeconfig.read_text(encoding="utf-8"))
        config["contexts"][0]["context"]["namespace"] = space
        (folder / "kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "PATH": programs}

    def file(self) -> str:
        return FILE.replace("scheduler: kueue", f"scheduler: {self.cluster.scheduler}")

    def plan(self) -> StackPlan:
        return check_stack_file(self.folder / "Pulumi.queues.yaml", clouds()).plan

    def runs(self, command: str) -> str:
        """Run a command of the page, and require that it succeeds."""
        done = subprocess.run(
            ["bash", "-ec", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        recorded(self.cluster.scheduler, f"command: {command[:60]}", 0, done.returncode and done.stderr)
        return str(done.stdout)

    def command(self, *words: str) -> str:
        (found,) = (each for each in COMMANDS if all(word in each for word in words))
        return found


@pytest.fixture
def person(scheduled: Cluster, tmp_path: Path) -> Iterator[Person]:
    made = Person(scheduled, tmp_path)
    scheduled.becomes(made.plan())
    yield made
    scheduled.clear()


@only("kueue")
def test_each_command_does_what_the_page_says(person: Person) -> None:
    cluster = person.cluster
    person.runs(person.command("render", "--only teams"))
    rendered = list(yaml.safe_load_all((person.folder / "queues.yaml").read_text(encoding="utf-8")))
    assert rendered == cluster.runtime.json_team_objects()
    person.runs("kubectl apply --server-side --field-manager gpupools -f queues.yaml")

    cluster.run("research", "train", "big", 2)
    cluster.waits(partial(cluster.count, "research", "train"), 2)
    person.runs(person.command("clusterqueue research"))
    got = cluster.waits(partial(cluster.count, "research", "train"), 0)
    recorded("kueue", "pods of the job after the command of the page that stops them", 0, got)

    person.runs(person.command("clusterqueue research").replace("research", "serving"))
    shown = person.runs("kubectl get clusterqueue serving -o jsonpath='{.spec.stopPolicy}'")
    recorded("kueue", "stopPolicy after the same command for the other team", "HoldAndDrain", shown)
    for name in ("research", "serving"):
        person.runs(
            person.command("clusterqueue research")
            .replace("clusterqueue research", f"clusterqueue {name}")
            .replace("HoldAndDrain", "None")
        )


@only("kueue")
def test_the_scheduler_goes_as_the_page_says_and_its_jobs_start(person: Person) -> None:
    """Without teams, check refuses Kueue, so both are removed at once; the manager stops with the release."""
    cluster = person.cluster
    cluster.run("research", "fill", "big", 32)
    cluster.waits(partial(cluster.count, "research", "fill"), 32)
    cluster.run("research", "train", "big")
    person.runs(person.command("clusterqueue research"))
    cluster.waits(partial(cluster.count, "research", "fill"), 0)
    queues = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
    person.runs(person.command("clusterqueue research").replace("research", "serving"))
    try:
        cluster.removes("ClusterQueue", "LocalQueue")
        got = cluster.waits(lambda: len(cluster.server.items(queues)), 0, 30)
        recorded("kueue", "queues that are left after the removal", 0, got)
        cluster.leaves()
        person.runs(person.command("patch job train"))
        got = cluster.waits(partial(cluster.count, "research", "train"), 1)
        recorded("kueue", "a job that waited, after the removal and the command of the page", 1, got)
    finally:
        cluster.forgets()
        cluster.becomes(person.plan())


@only("volcano")
def test_the_job_of_the_page_for_volcano_starts_whole(person: Person) -> None:
    (job,) = (body for kind, body in BLOCKS if kind == "yaml" and "batch.volcano.sh" in body)
    (person.folder / "job.yaml").write_text(job, encoding="utf-8")
    cluster = person.cluster
    answers = partial(subprocess.run, ["kubectl", "create", "--dry-run=server", "-f", "job.yaml"], check=False)
    answers = partial(answers, cwd=person.folder, env=person.environment)
    cluster.server.wait("the webhook", lambda: answers().returncode == 0)
    person.runs("kubectl apply -f job.yaml")
    path = "/api/v1/namespaces/research/pods"
    on = lambda: sorted(each["spec"].get("nodeName", "") for each in cluster.server.items(path))  # noqa: E731
    wanted = [f"big-{index}" for index in range(4)]
    recorded("volcano", "the job of the page: nodes of its pods", wanted, cluster.waits(on, wanted))
    person.runs("kubectl delete -f job.yaml --wait=false")


@only("kai")
def test_the_pod_of_the_page_for_kai_starts(person: Person) -> None:
    (text,) = (body for kind, body in BLOCKS if kind == "yaml" and "kai.scheduler/queue: research.big" in body)
    pod = {"apiVersion": "v1", "kind": "Pod", **yaml.safe_load(text)}
    pod["metadata"] |= {"name": "page"}
    limits = {"nvidia.com/gpu": 1}
    pod["spec"]["containers"] = [
        {"name": "main", "image": "registry.example.com/none", "resources": {"limits": limits}}
    ]
    (person.folder / "pod.yaml").write_text(yaml.safe_dump(pod), encoding="utf-8")
    person.runs("kubectl apply -f pod.yaml")
    cluster, path = person.cluster, "/api/v1/namespaces/research/pods"
    on = lambda: [each["spec"].get("nodeName", "").partition("-")[0] for each in cluster.server.items(path)]  # noqa: E731
    recorded("kai", "the pod of the page: pool", ["big"], cluster.waits(on, ["big"]))
