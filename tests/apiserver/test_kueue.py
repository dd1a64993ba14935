"""Jobs of teams, admitted by the real Kueue with what a stack file declares, on nodes as planned.

`kueue` (its manager at the pinned version) must be on PATH, `GPUPOOLS_KUEUE_CRDS` name the folder with its definitions,
and certificates be where it looks for them without its own management: /etc/kueue/metrics/certs, and
k8s-webhook-server/serving-certs in the folder for temporary files.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.reader import read_stack_file
from gpupools.stackfile.stack import StackPlan, plan_config
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_edited_pools import MANAGER
from tests.apiserver.test_teams import is_served
from tests.gpupools.software.test_teams import plan

ROOT = Path(__file__).resolve().parents[2]
CERTIFICATES = (
    Path("/etc/kueue/metrics/certs"),
    Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs"),
)
CRDS = os.environ.get("GPUPOOLS_KUEUE_CRDS")
LACKS = shutil.which("kueue") is None or shutil.which(MANAGER) is None or CRDS is None
LACKS |= not all((folder / "tls.crt").is_file() for folder in CERTIFICATES)
pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.skipif(LACKS, reason="kueue, its definitions or certificates are missing"),
]

A100 = {"clusters": ["train"], "gpu": "A100-40GB"}
POOLS = {
    "big": {**A100, "gpus_per_node": 8, "nodes": {"max": 4}},
    "slices": {**A100, "nodes": {"max": 2}, "sharing": {"mode": "mig", "profile": "1g.5gb"}},
}
TEAMS = {
    "research": {"namespaces": ["research"], "guarantee": {"big": 16}, "limit": {"big": 32}},
    "vision": {"namespaces": ["vision"], "guarantee": {"big": 16}},
    "serving": {"namespaces": ["serving"], "guarantee": {"slices": 7}, "lends_to": []},
}


def node(pool: PoolPlan, name: str) -> dict[str, Any]:
    amounts = {"cpu": "96", "memory": "500Gi", "pods": "110", **{k: str(v) for k, v in pool.node_resources.items()}}
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in pool.taints]
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    meta = {"name": name, "labels": dict(pool.labels)}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": taints}, "status": status}


class Jobs:
    """Creates jobs of teams, and tells on which nodes their pods are."""

    def __init__(self, server: ControlPlane) -> None:
        self.server = server

    def start(
        self,
        space: str,
        name: str,
        pods: int,
        gpus: int,
        resource: str = "nvidia.com/gpu",
        pool: PoolPlan | None = None,
    ) -> None:
        limits = {resource: str(gpus)}
        resources = {"limits": limits, "requests": {"cpu": "1", **limits}}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "registry.example.com/none", "resources": resources}],
        }
        if pool is not None:
            spec |= {key: value for key, value in pool.pod().items() if key in ("nodeSelector", "tolerations")}
        template = {"metadata": {"labels": {"job": name}}, "spec": spec}
        # Kueue's webhook, which does not run here, suspends new jobs and names the queue.
        meta = {"name": name, "namespace": space, "labels": {"kueue.x-k8s.io/queue-name": "default"}}
        job = {"suspend": True, "parallelism": pods, "completions": pods, "template": template}
        self.server.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job}).succeeded()

    def pods(self, space: str, name: str) -> list[Any]:
        found = self.server.items(f"/api/v1/namespaces/{space}/pods")
        return [each for each in found if each["metadata"].get("labels", {}).get("job") == name]

    def nodes(self, space: str, name: str) -> list[str]:
        return sorted(each["spec"]["nodeName"] for each in self.pods(space, name) if "nodeName" in each["spec"])

    def finish(self, space: str, name: str) -> None:
        ended = {"exitCode": 0, "reason": "Completed"}
        state = {"name": "main", "image": "x", "imageID": "", "restartCount": 0, "ready": False}
        status = {"phase": "Succeeded", "containerStatuses": [{**state, "state": {"terminated": ended}}]}
        for pod in self.pods(space, name):
            self.server.merge({"apiVersion": "v1", "kind": "Pod", **pod}, {"status": status}, "/status").succeeded()

    def reasons(self, space: str) -> str:
        found = self.server.items(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{space}/workloads")
        return str([each.get("status", {}).get("conditions") for each in found])


@contextmanager
def started(folder: Path, planned: StackPlan, cluster: str, nodes: int | None = None) -> Iterator[Jobs]:
    """Yield jobs on a cluster of a plan with Kueue, and with the nodes of its pools: all of them, or some of each."""
    server = ControlPlane(folder)
    (runtime,) = (each for each in planned.runtimes if each.cluster == cluster)
    try:
        server.start()
        for file in sorted(Path(CRDS or "").glob("kueue.x-k8s.io_*.yaml")):
            definition = yaml.safe_load(file.read_text(encoding="utf-8"))
            server.apply(definition).succeeded()
            server.wait("the definition", partial(is_served, server, definition))
        server.add_namespaces("research", "vision", "speech", "serving", "kueue-system")
        for each in runtime.json_team_objects():
            server.wait(f"the definition of {each['kind']}", taken(server, each))
        (release,) = (each for each in runtime.releases if each.chart == "kueue")
        config = yaml.safe_load(release.values["managerConfig"]["controllerManagerConfigYaml"])
        config["leaderElection"]["leaderElect"] = False
        config["integrations"]["frameworks"] = ["batch/job"]  # the other kinds are not in this server
        config |= {"internalCertManagement": {"enable": False}, "webhook": {"port": 19443}}
        config |= {
            "metrics": {"bindAddress": "127.0.0.1:18443"},
            "health": {"healthProbeBindAddress": "127.0.0.1:18081"},
        }
        (folder / "kueue.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        server.run(
            MANAGER, f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
            "--secure-port=0", "--node-monitor-grace-period=1h", "--controllers=job-controller",
        )  # fmt: skip
        server.run(
            "kueue", f"--config={folder / 'kueue.yaml'}", f"--kubeconfig={server.kubeconfig}",
            "--feature-gates=VisibilityOnDemand=false", POD_NAMESPACE="kueue-system",
        )  # fmt: skip
        for pool in planned.pools:
            for index in range(nodes or pool.max_nodes if pool.cluster == cluster else 0):
                server.create(node(pool, f"{pool.name}-{index}")).succeeded()
        yield Jobs(server)
    finally:
        server.stop()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    with started(tmp_path, plan(TEAMS, POOLS), "train") as made:
        yield made


def is_on(jobs: Jobs, space: str, name: str, node: str) -> bool:
    return jobs.nodes(space, name) == [node]


MATRIX = read_stack_file(ROOT / "stacks" / "Pulumi.matrix.yaml")
CLUSTERS = {
    name: each for name, each in MATRIX.config["clusters"].items() if "scheduler" not in each.get("runtime", {})
}


def matrix_with_teams() -> StackPlan:
    """Return the matrix stack with Kueue in each cluster that has no scheduler, and a unit of every pool for a team.

    Kueue counts resources, so the pool whose GPUs are claimed takes no part, and HAMi's has a scheduler of its own.
    """
    clusters = {
        name: {**each, "places": "trust", "runtime": {**each.get("runtime", {}), "scheduler": "kueue"}}
        for name, each in CLUSTERS.items()
    }
    on = {
        name: [each for each in pool["clusters"] if each in clusters] for name, pool in MATRIX.config["pools"].items()
    }
    pools = {
        name: {**pool, "clusters": on[name]}
        for name, pool in MATRIX.config["pools"].items()
        if on[name] and pool.get("software") != "hami"
    }
    units = {name: 1 for name in pools if name not in ("claimed", "operator-mps")}
    mixed = {name: {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1} for name in units if name.startswith("operator-mixed")}
    teams = {
        "research": {"namespaces": ["research"], "guarantee": {**units, **mixed}},
        "vision": {"namespaces": ["vision", "speech"], "guarantee": {"operator-mps": 1}},
    }
    return plan_config({**MATRIX.config, "clusters": clusters, "pools": pools, "teams": teams}, clouds(), MATRIX.others)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_pod_for_each_resource_of_each_pool_of_the_matrix_is_admitted_and_bound(cluster: str, tmp_path: Path) -> None:
    planned = matrix_with_teams()
    wanted: dict[tuple[str, str], str] = {}
    with started(tmp_path, planned, cluster, nodes=1) as jobs:
        for pool in planned.pools:
            if pool.cluster != cluster or pool.name == "claimed":
                continue
            space = "vision" if pool.name == "operator-mps" else "research"
            for index, resource in enumerate(pool.node_resources):
                wanted[space, f"{pool.name}-{index}"] = f"{pool.name}-0"
                jobs.start(space, f"{pool.name}-{index}", 1, 1, resource=resource, pool=pool)
        for (space, name), on in wanted.items():
            jobs.server.wait(name, partial(is_on, jobs, space, name, on))
    assert len(wanted) >= 1


def taken(server: ControlPlane, manifest: Any) -> Callable[[], bool]:
    return lambda: server.apply(manifest).status < 300


def test_kueue_admits_reclaims_and_places_jobs_of_teams(jobs: Jobs) -> None:
    """A gang of 4 × 8 waits and starts whole, a guarantee is reclaimed, and slices come from the pool that has them."""
    wait = jobs.server.wait
    jobs.start("research", "one", 1, 8)
    wait("a job on one node", lambda: len(jobs.nodes("research", "one")) == 1)

    jobs.start("research", "gang", 4, 8)
    wait(
        "its reason to wait",
        lambda: "insufficient unused quota for nvidia.com/gpu in flavor big" in jobs.reasons("research"),
    )
    assert jobs.pods("research", "gang") == []
    jobs.finish("research", "one")
    wait("the gang", lambda: len(jobs.nodes("research", "gang")) == 4)
    assert jobs.nodes("research", "gang") == [f"big-{index}" for index in range(4)]

    jobs.start("vision", "own", 2, 8)
    wait("the guarantee of vision", lambda: len(jobs.nodes("vision", "own")) == 2)
    assert jobs.nodes("research", "gang") == []
    assert "Preempted to accommodate a workload" in jobs.reasons("research")

    jobs.start("serving", "slices", 7, 1)
    wait("the slices", lambda: len(jobs.nodes("serving", "slices")) == 7)
    assert {each.partition("-")[0] for each in jobs.nodes("serving", "slices")} == {"slices"}
