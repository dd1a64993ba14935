"""A cluster of teams: control plane, a scheduler with its controllers, and pods as the plan exports them, unchanged.

`Cluster.run` and `Cluster.pod` are the only ways to start a pod here, and take what `gpupools preview --json` prints. A
user adds an image; of several teams, each writes its own queue.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from gpupools.software.kueue import topology_levels
from gpupools.stackfile.stack import StackPlan
from tests.apiserver.control_plane import Answer, ControlPlane
from tests.apiserver.test_edited_pools import MANAGER
from tests.apiserver.test_fabric import CLASSES, devices, in_space, made_by_controllers, node, slice_of
from tests.apiserver.test_stack_objects import established
from tests.charts.rendering import archive, missing

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "kueue": ("kueue",),
    "kai": ("kai-sched", "kai-binder", "kai-podgrouper"),
    "volcano": ("vc-scheduler", "vc-controller-manager"),
}
CHARTS = {"kueue": "kueue", "kai": "kai-scheduler", "volcano": "volcano"}
CERTIFICATES = Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs")
WEBHOOKS = 19443
GANG = {"kai": "kai.scheduler/batch-min-member", "volcano": "scheduling.volcano.sh/group-min-member"}


def lacks(scheduler: str) -> str:
    """Say what is missing for a scheduler's cluster; empty for nothing."""
    absent = [each for each in (*PROGRAMS[scheduler], MANAGER) if shutil.which(each) is None]
    if scheduler == "kueue" and not (CERTIFICATES / "tls.crt").is_file():
        absent.append(str(CERTIFICATES))
    return missing(CHARTS[scheduler]) or (f"{' and '.join(absent)} is missing" if absent else "")


class Cluster:
    """Runs exported pods in namespaces, and says which are on which nodes."""

    def __init__(self, server: ControlPlane, planned: StackPlan, scheduler: str) -> None:
        self.server, self.planned, self.scheduler = server, planned, scheduler
        self.runtime = planned.runtimes[0]
        self.exported = json.loads(json.dumps(self.runtime.as_json()))
        self.spaces = sorted({space for team in planned.stack.teams.values() for space in team.namespaces} | {"other"})

    def template(self, pool: str, *, whole_node: bool = False, queue: str = "", priority: str = "") -> dict[str, Any]:
        """Return the exported pod of a pool with an image, and with the queue and priority of its team."""
        spec = json.loads(json.dumps(self.exported["node_pods" if whole_node else "pods"][pool]))
        metadata = json.loads(json.dumps(self.exported.get("pod_metadata", {}).get(pool, {})))
        for each in spec["containers"]:
            each["image"] = "registry.example.com/none"
        spec |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        for part in metadata.values() if queue else ():
            part |= {key: queue for key in part if key.endswith(("/queue", "/queue-name"))}
        if priority and self.scheduler != "kueue":
            spec["priorityClassName"] = priority
        return {"metadata": metadata, "spec": spec}

    def pod(self, space: str, name: str, pool: str, *, dry_run: bool = False, **more: Any) -> Answer:
        made = self.template(pool, **{key: more[key] for key in more if key != "changed"})
        made["spec"] |= more.get("changed", {})
        for each in (key for key, value in more.get("changed", {}).items() if value is None):
            del made["spec"][each]
        made["metadata"] |= {"name": name, "namespace": space}
        return self.server.create({"apiVersion": "v1", "kind": "Pod", **made}, dry_run=dry_run)

    def run(
        self,
        space: str,
        name: str,
        pool: str,
        pods: int = 1,
        *,
        gang: bool = False,
        anywhere: bool = False,
        **more: Any,
    ) -> None:
        """Start a Job of exported pods; `anywhere` without their node selector."""
        template = self.template(pool, **more)
        template["metadata"].setdefault("labels", {})["case"] = name
        if anywhere:
            del template["spec"]["nodeSelector"]
        metadata: dict[str, Any] = {"name": name, "namespace": space}
        if self.scheduler == "kueue" and more.get("priority"):
            metadata["labels"] = {"kueue.x-k8s.io/priority-class": more["priority"]}
        if gang and self.scheduler in GANG:
            metadata["annotations"] = {GANG[self.scheduler]: str(pods)}
        job = {"parallelism": pods, "completions": pods, "template": template, "backoffLimit": 1000}
        made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}
        # Kueue's webhooks read from a cache, which may lag behind new namespaces.
        self.server.wait(
            name,
            lambda: (
                "not found" not in (answers := [self.server.create(made)])[0].message and bool(answers[0].succeeded())
            ),
        )

    def nodes(self, space: str, name: str) -> list[str]:
        """Return the nodes of a job's pods."""
        found = self.server.items(f"/api/v1/namespaces/{space}/pods?labelSelector=case%3D{name}")
        on = [each["spec"].get("nodeName", "") for each in found if "deletionTimestamp" not in each["metadata"]]
        return sorted(filter(None, on))

    def count(self, space: str, *names: str) -> int:
        return sum(len(self.nodes(space, name)) for name in names)

    def waits(self, what: Callable[[], Any], wanted: Any, within_s: float = 60) -> Any:
        """Return what something becomes: as wanted within the time, or its last value."""
        end = time.monotonic() + within_s
        while (got := what()) != wanted and time.monotonic() < end:
            time.sleep(0.3)
        return got

    def stays(self, what: Callable[[], Any], for_s: float = 5) -> Any:
        """Return the value that something has at the end of a time in which the scheduler decides many times."""
        time.sleep(for_s)
        return what()

    def clear(self) -> None:
        """End every job of the teams."""
        for space in self.spaces:
            for kind, version in (("Job", "batch/v1"), ("Pod", "v1")):
                path = f"/apis/{version}" if "/" in version else f"/api/{version}"
                for each in self.server.items(f"{path}/namespaces/{space}/{kind.lower()}s"):
                    meta = {"name": each["metadata"]["name"], "namespace": space}
                    if kind == "Pod" and not each["spec"].get("schedulingGates"):
                        self.server.delete_now({"apiVersion": version, "kind": kind, "metadata": meta})
                    else:
                        self.server._ask(
                            "DELETE",
                            f"{path}/namespaces/{space}/{kind.lower()}s/{meta['name']}?propagationPolicy=Background",
                            None,
                            "",
                        )
        gone = lambda: all(not self.server.items(f"/api/v1/namespaces/{each}/pods") for each in self.spaces)  # noqa: E731
        self.server.wait("the end of all pods", gone)
        if self.scheduler == "kueue":
            left = "/apis/kueue.x-k8s.io/v1beta2/workloads"
            self.server.wait("the end of all workloads", lambda: not self.server.items(left))

    def be_kubelets(self) -> None:
        """Run bound pods, and remove those that are deleted."""
        for each in self.server.items("/api/v1/pods"):
            whole: Mapping[str, Any] = {**each, "apiVersion": "v1", "kind": "Pod"}
            if "deletionTimestamp" in each["metadata"]:
                self.server.delete_now(whole)
            elif each["spec"].get("nodeName") and each["status"].get("phase") == "Pending":
                ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")]
                self.server.merge(whole, {"status": {"phase": "Running", "conditions": ready}}, "/status")


def _is_served(server: ControlPlane, definition: Mapping[str, Any]) -> bool:
    return established(server.get(definition).succeeded())


def _is_taken(server: ControlPlane, manifest: Mapping[str, Any]) -> bool:
    return server.apply(manifest).status < 300


def _definitions(server: ControlPlane, scheduler: str) -> None:
    chart = archive(CHARTS[scheduler])
    command = ["helm", "show", "crds", str(chart)] if scheduler == "kai" else ["helm", "template", "x", str(chart)]
    command += [] if scheduler == "kai" else ["--kube-version", "1.34.0"]
    shown = subprocess.run(command, check=True, capture_output=True).stdout
    for each in yaml.load_all(shown, yaml.CSafeLoader):
        if each and each["kind"] == "CustomResourceDefinition":
            each.get("spec", {}).pop("conversion", None)
            server.apply(each).succeeded()
            server.wait("the definition", partial(_is_served, server, each))


def _webhooks(values: Mapping[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the webhooks of Kueue's chart with the plan's values, at the address of the manager here."""
    file = folder / "values.yaml"
    file.write_text(json.dumps(values, default=dict), encoding="utf-8")
    command = ["helm", "template", "kueue", str(archive("kueue")), "-f", str(file), "-n", "kueue-system"]
    shown = subprocess.run([*command, "--kube-version", "1.34.0"], check=True, capture_output=True).stdout
    bundle = base64.b64encode((CERTIFICATES / "tls.crt").read_bytes()).decode()
    for each in yaml.load_all(shown, yaml.CSafeLoader):
        if each and each["kind"].endswith("WebhookConfiguration"):
            for hook in each["webhooks"]:
                url = f"https://127.0.0.1:{WEBHOOKS}{hook['clientConfig']['service']['path']}"
                hook["clientConfig"] = {"url": url, "caBundle": bundle}
            each["metadata"].pop("namespace", None)
            yield each


def _start_kueue(server: ControlPlane, made: Cluster, config: Mapping[str, Any]) -> None:
    local = {
        **config,
        "leaderElection": {**config["leaderElection"], "leaderElect": False},
        "integrations": {"frameworks": ["batch/job", "pod"]},  # the other kinds are not in this server
        "internalCertManagement": {"enable": False},
        "webhook": {"port": WEBHOOKS},
        "metrics": {"bindAddress": "127.0.0.1:18443"},
        "health": {"healthProbeBindAddress": "127.0.0.1:18081"},
    }
    (server.folder / "kueue.yaml").write_text(yaml.safe_dump(local), encoding="utf-8")
    server.run(
        "kueue", f"--config={server.folder / 'kueue.yaml'}", f"--kubeconfig={server.kubeconfig}",
        "--feature-gates=VisibilityOnDemand=false", POD_NAMESPACE="kueue-system",
    )  # fmt: skip
    (release,) = (each for each in made.runtime.releases if each.chart == "kueue")
    for each in _webhooks(release.values, server.folder):
        server.apply(each).succeeded()


def _start_kai(server: ControlPlane, made: Cluster) -> None:
    (values,) = (each.values for each in made.runtime.releases if each.chart == "kai-scheduler")
    label = values["global"]["nodePoolLabelKey"]
    for each in made.exported["objects"]:
        if each["manifest"]["kind"] == "SchedulingShard":
            server.run(
                "kai-sched", f"--nodepool-label-key={label}", "--leader-elect=false", "--listen-address=127.0.0.1:0",
                f"--partition-label-value={each['manifest']['spec']['partitionLabelValue']}",
                "--plugin-server-port=0", KUBECONFIG=str(server.kubeconfig),
            )  # fmt: skip
    server.run(
        "kai-podgrouper", f"--kubeconfig={server.kubeconfig}", f"--nodepool-label-key={label}",
        "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0",
    )  # fmt: skip
    server.run(
        "kai-binder", f"--kubeconfig={server.kubeconfig}", "--metrics-bind-address=0",
        "--resource-reservation-namespace=kai-resource-reservation", "--resource-reservation-pod-image=none",
        "--health-probe-bind-address=127.0.0.1:0",
    )  # fmt: skip


def _start_volcano(server: ControlPlane, made: Cluster) -> None:
    configuration = server.folder / "configuration" / "volcano-scheduler.conf"
    configuration.parent.mkdir()
    (release,) = (each for each in made.runtime.releases if each.chart == "volcano")
    configuration.write_text(release.values["custom"]["scheduler_config_override"], encoding="utf-8")
    server.run(
        "vc-controller-manager", f"--kubeconfig={server.kubeconfig}", "--leader-elect=false",
        "--listen-address=127.0.0.1:0",
    )  # fmt: skip
    server.run(
        "vc-scheduler", f"--kubeconfig={server.kubeconfig}", f"--scheduler-conf={configuration}",
        "--leader-elect=false", "--listen-address=127.0.0.1:0", "--enable-metrics=false", "--enable-healthz=false",
        DEBUG_SOCKET_DIR=str(server.folder),
    )  # fmt: skip


@contextmanager
def started(folder: Path, planned: StackPlan, scheduler: str) -> Iterator[Cluster]:
    """Yield a cluster of a plan with all nodes of its pools."""
    server, stop = ControlPlane(folder), threading.Event()
    made = Cluster(server, planned, scheduler)
    try:
        server.start()
        _definitions(server, scheduler)
        own = ("kueue-system", "kai-scheduler", "kai-resource-reservation", "volcano-system", "gpu-operator")
        server.add_namespaces(*made.spaces, *own)
        server.run(
            MANAGER, f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
            "--secure-port=0", "--node-monitor-grace-period=1h",
            "--controllers=job-controller,resourceclaim-controller,garbage-collector-controller",
        )  # fmt: skip
        for name, expression in CLASSES.items():
            spec = {"selectors": [{"cel": {"expression": expression}}]}
            class_ = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
            server.apply({**class_, "spec": spec}).succeeded()
        if scheduler == "kueue":
            (release,) = (each for each in made.runtime.releases if each.chart == "kueue")
            config = yaml.safe_load(release.values["managerConfig"]["controllerManagerConfigYaml"])
            _start_kueue(server, made, config)
        for each in made.exported["objects"]:
            if each["name"].startswith("team-pods") or each["manifest"] in made.runtime.json_team_objects():
                server.wait(each["name"], partial(_is_taken, server, each["manifest"]))
        for pool in planned.pools:
            for space in made.spaces:
                for each in (*pool.namespace_objects, *([pool.claim_template] if pool.claim_template else [])):
                    needed = in_space(made_by_controllers(each))
                    needed["metadata"]["namespace"] = space
                    server.apply(needed).succeeded()
            for index in range(pool.max_nodes):
                name = f"{pool.name}-{index}"
                machine = node(pool, name)
                for level in topology_levels(pool):  # which the cloud writes
                    machine["metadata"]["labels"].setdefault(level, pool.name)
                server.create(machine).succeeded()
                for driver, listed in devices(pool).items():
                    server.create(slice_of(name, driver, listed)).succeeded()
        if scheduler == "kai":
            _start_kai(server, made)
        if scheduler == "volcano":
            _start_volcano(server, made)

        def kubelets() -> None:
            while not stop.wait(0.3):
                try:
                    made.be_kubelets()
                except (AssertionError, OSError, KeyError):
                    continue

        threading.Thread(target=kubelets, daemon=True).start()
        yield made
    finally:
        stop.set()
        server.stop()


def recorded(scheduler: str, case: str, wanted: Any, got: Any) -> None:
    """Add a row to the table that `GPUPOOLS_TEAM_TABLE` names, and require what was wanted."""
    table = os.environ.get("GPUPOOLS_TEAM_TABLE")
    if table:
        version = {"kueue": "0.19.2", "kai": "0.17.0", "volcano": "1.15.1", "hami": "2.10.0"}[scheduler]
        with Path(table).open("a", encoding="utf-8") as file:
            file.write(f"| {scheduler} {version} | {case} | {wanted} | {got} | {'✓' if wanted == got else '✗'} |\n")
    assert got == wanted, case
