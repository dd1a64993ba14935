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
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from gpupools.common.json_types import JsonDict
from gpupools.software.kueue import topology_levels
from gpupools.software.objects import runtime_class
from gpupools.stackfile.stack import StackPlan
from tests.apiserver.control_plane import Answer, ControlPlane, _free_port, path_of
from tests.apiserver.test_edited_pools import MANAGER
from tests.apiserver.test_fabric import CLASSES, devices, in_space, made_by_controllers, node, slice_of
from tests.apiserver.test_stack_objects import established
from tests.charts.rendering import archive, missing

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "kueue": ("kueue",),
    "kai": ("kai-sched", "kai-binder", "kai-podgrouper"),
    "volcano": ("vc-scheduler", "vc-controller-manager", "vc-webhook-manager"),
}
CHARTS = {"kueue": "kueue", "kai": "kai-scheduler", "volcano": "volcano"}
CERTIFICATES = Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs")
RESERVED = "kai-resource-reservation"
RAY_CLUSTERS: JsonDict = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rayclusters.ray.io"},
    "spec": {
        "group": "ray.io",
        "names": {"kind": "RayCluster", "plural": "rayclusters"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""Where KubeRay's own has the fields, which its controller alone needs."""
GANG = {"kai": "kai.scheduler/batch-min-member", "volcano": "scheduling.volcano.sh/group-min-member"}


def lacks(scheduler: str) -> str:
    """Say what is missing for a scheduler's cluster; empty for nothing."""
    absent = [each for each in (*PROGRAMS[scheduler], MANAGER) if shutil.which(each) is None]
    if scheduler in ("kueue", "volcano") and not (CERTIFICATES / "tls.crt").is_file():
        absent.append(str(CERTIFICATES))
    return missing(CHARTS[scheduler]) or (f"{' and '.join(absent)} is missing" if absent else "")


class Cluster:
    """Runs exported pods in namespaces, and says which are on which nodes."""

    def __init__(self, server: ControlPlane, scheduler: str) -> None:
        self.server, self.scheduler = server, scheduler
        self.planned: StackPlan | None = None
        self.spaces: set[str] = set()
        self._declared: dict[str, JsonDict] = {}
        self._there: dict[str, JsonDict] = {}
        self._programs: dict[str, tuple[str, subprocess.Popen[bytes]]] = {}
        self._ports = [_free_port() for _ in range(3)]
        self.foreign: list[str] = []
        """Pods that are none that a plan exports."""

    def becomes(self, planned: StackPlan, cluster: str = "") -> None:
        """Bring the cluster to a plan, as `pulumi up` does. What runs goes on."""
        self.planned = planned
        (self.runtime, *_) = (each for each in planned.runtimes if cluster in ("", each.cluster))
        self.exported = json.loads(json.dumps(self.runtime.as_json()))
        self.pools = [pool for pool in planned.pools if pool.cluster == self.runtime.cluster]
        spaces = {space for team in planned.stack.teams.values() for space in team.namespaces}
        for space in (spaces | {"other"}) - self.spaces:
            self.server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}).succeeded()
        self.spaces |= spaces | {"other"}
        PREPARED[self.scheduler](self)
        own = [each["manifest"] for each in self.exported["objects"] if each["name"].startswith("team-pods")]
        wanted = {path_of(each): each for each in (*self.runtime.json_team_objects(), *own)}
        for path, each in wanted.items():
            if self._declared.get(path) != each:
                self.server.wait(path, partial(_is_taken, self.server, each))
        for path in self._declared.keys() - wanted.keys():
            self.server.delete(self._declared[path])
        self._declared = wanted
        self._have_nodes()
        STARTED[self.scheduler](self)
        if self.scheduler == "kueue":
            for space in spaces:
                self.server.wait(f"the queue of {space}", partial(self._is_queued, space))

    def _is_queued(self, space: str) -> bool:
        """Say whether Kueue's webhook, which reads from a cache, gives a new job the queue of its namespace."""
        spec = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "namespace": space}}
        answer = self.server.create({**job, "spec": {"template": {"spec": spec}}}, dry_run=True)
        return "kueue.x-k8s.io/queue-name" in answer.body.get("metadata", {}).get("labels", {})

    def removes(self, *kinds: str) -> None:
        """Delete the declared objects of some kinds, as `pulumi up` does before the release that they depend on."""
        for each in self._declared.values():
            if each["kind"] in kinds:
                self.server.delete(each)

    def leaves(self) -> None:
        """End the scheduler and its webhooks, as the deletion of its release does."""
        for key in list(self._programs):
            self.server.end(self._programs.pop(key)[1])
        for each in _webhooks(self, self._ports[0]):
            self.server.delete(each)

    def forgets(self) -> None:
        """Have the next plan declared from the start."""
        self._declared = {}

    def _have_nodes(self) -> None:
        """Register the nodes of the plan with their devices, and what pods need in their namespaces."""
        wanted: dict[str, JsonDict] = {}
        for pool in self.pools:
            for index in range(pool.max_nodes):
                machine = node(pool, f"{pool.name}-{index}")
                for level in topology_levels(pool):  # which the cloud writes
                    machine["metadata"]["labels"].setdefault(level, pool.name)
                for each in (machine, *(slice_of(f"{pool.name}-{index}", *own) for own in devices(pool).items())):
                    wanted[path_of(each)] = each
            for space, each in product(self.spaces, (*pool.namespace_objects, pool.claim_template)):
                if each:
                    needed = in_space(made_by_controllers(each))
                    needed["metadata"]["namespace"] = space
                    self.server.apply(needed).succeeded()
        for path, each in self._there.items():
            if wanted.get(path) != each:
                self.server.delete_now(each)
        for path, each in wanted.items():
            if self._there.get(path) != each:
                self.server.create(each).succeeded()
        self._there = wanted

    def program(self, key: str, configuration: str, start: Callable[[], subprocess.Popen[bytes]]) -> bool:
        """Run a program with this configuration; say whether it was started just now."""
        before, process = self._programs.get(key, ("", None))
        if process is not None and before == configuration:
            return False
        if process is not None:
            self.server.end(process)
        self._programs[key] = (configuration, start())
        return True

    def end_programs(self, prefix: str, kept: Collection[str]) -> None:
        """End the programs of a kind that the plan no longer has."""
        for key in [each for each in self._programs if each.startswith(prefix) and each not in kept]:
            self.server.end(self._programs.pop(key)[1])

    def template(self, pool: str, *, whole_node: bool = False, queue: str = "", priority: str = "") -> dict[str, Any]:
        """Return the exported pod of a pool with an image, and with the queue and priority of its team."""
        group = self.exported.get("groups", {}).get(pool)
        spec = group["pod"] if group else self.exported["node_pods" if whole_node else "pods"][pool]
        metadata = group.get("pod_metadata") if group else self.exported.get("pod_metadata", {}).get(pool)
        spec, metadata = json.loads(json.dumps([spec, metadata or {}]))
        for each in spec["containers"]:
            each["image"] = "registry.example.com/none"
        spec |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        if "annotations" in metadata and "gpu-fraction" in metadata["annotations"]:  # as KAI's admission webhook
            metadata["annotations"]["runai/shared-gpu-configmap"] = f"{pool}-shared-gpu"
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

    def judge(self) -> None:
        """Require that every pod that this cluster was given is one that a plan exports."""
        assert not self.foreign, self.foreign

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

    def end(self, *spaces: str) -> None:
        """End every job of namespaces."""
        for space in spaces:
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

    def clear(self) -> None:
        """End every job, and wait for the end of its pods."""
        self.end(*sorted(self.spaces))
        gone = lambda: all(not self.server.items(f"/api/v1/namespaces/{each}/pods") for each in self.spaces)  # noqa: E731
        self.server.wait("the end of all pods", gone)
        if self.scheduler == "kueue":
            left = "/apis/kueue.x-k8s.io/v1beta2/workloads"
            self.server.wait("the end of all workloads", lambda: not self.server.items(left))

    def is_exported(self, spec: Mapping[str, Any]) -> bool:
        """Say whether a pod's spec has all that a pod of the plan has, and asks for the same."""
        exported = (*self.exported["pods"].values(), *self.exported.get("node_pods", {}).values())
        asks = [each["resources"].get("limits", {}) for each in spec["containers"]]
        return any(
            _quantities(own) == _quantities(asks[0])
            and all(each in spec["tolerations"] for each in pod["tolerations"])
            and pod.get("schedulerName", spec["schedulerName"]) == spec["schedulerName"]
            for pod in exported
            for own in [pod["containers"][0].get("resources", {}).get("limits", {})]
        )

    def be_kubelets(self) -> None:
        """Run bound pods, and remove those that are deleted."""
        for each in self.server.items("/api/v1/pods"):
            if "case" in each["metadata"].get("labels", {}) and not self.is_exported(each["spec"]):
                self.foreign.append(each["metadata"]["name"])
            whole: Mapping[str, Any] = {**each, "apiVersion": "v1", "kind": "Pod"}
            if "deletionTimestamp" in each["metadata"]:
                self.server.delete_now(whole)
            elif each["spec"].get("nodeName") and each["status"].get("phase") == "Pending":
                if each["metadata"]["namespace"] == RESERVED:  # as KAI's reservation pod
                    found = {"run.ai/reserve_for_gpu_index": f"GPU-{each['metadata']['uid']}"}
                    self.server.merge(whole, {"metadata": {"annotations": found}})
                ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady", "Initialized")]
                self.server.merge(whole, {"status": {"phase": "Running", "conditions": ready}}, "/status")


def _quantities(limits: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in limits.items()}


def _is_served(server: ControlPlane, definition: Mapping[str, Any]) -> bool:
    return established(server.get(definition).succeeded())


def _is_taken(server: ControlPlane, manifest: Mapping[str, Any]) -> bool:
    return server.apply(manifest).status < 300


def _definitions(server: ControlPlane, scheduler: str) -> None:
    chart = archive(CHARTS[scheduler])
    command = ["helm", "show", "crds", str(chart)] if scheduler == "kai" else ["helm", "template", "x", str(chart)]
    command += [] if scheduler == "kai" else ["--kube-version", "1.34.0"]
    shown = subprocess.run(command, check=True, capture_output=True).stdout
    found = [each for each in yaml.load_all(shown, yaml.CSafeLoader) if each]
    found = [each for each in found if each["kind"] == "CustomResourceDefinition"]
    found += [RAY_CLUSTERS] if scheduler in ("kueue", "kai") else []
    for each in found:
        each.get("spec", {}).pop("conversion", None)
        server.apply(each).succeeded()
    for each in found:
        server.wait("the definition", partial(_is_served, server, each))


def _release(made: Cluster) -> Mapping[str, Any]:
    (values,) = (each.values for each in made.runtime.releases if each.chart == CHARTS[made.scheduler])
    return values


def _webhooks(made: Cluster, port: int) -> Iterator[dict[str, Any]]:
    """Yield the webhooks of the scheduler's chart with the plan's values, at the address of its program here."""
    file = made.server.folder / "values.yaml"
    file.write_text(json.dumps(_release(made), default=dict), encoding="utf-8")
    name, space = made.scheduler, f"{made.scheduler}-system"
    command = ["helm", "template", name, str(archive(name)), "-f", str(file), "-n", space]
    shown = subprocess.run([*command, "--kube-version", "1.34.0"], check=True, capture_output=True).stdout
    bundle = base64.b64encode((CERTIFICATES / "tls.crt").read_bytes()).decode()
    for each in yaml.load_all(shown, yaml.CSafeLoader):
        if each and each["kind"].endswith("WebhookConfiguration"):
            for hook in each["webhooks"]:
                url = f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"
                hook["clientConfig"] = {"url": url, "caBundle": bundle}
            each["metadata"].pop("namespace", None)
            yield each


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def _prepare_kueue(made: Cluster) -> None:
    server, (webhook, metrics, health) = made.server, made._ports
    config = yaml.safe_load(_release(made)["managerConfig"]["controllerManagerConfigYaml"])
    config["leaderElection"]["leaderElect"] = False
    config |= {
        "integrations": {"frameworks": ["batch/job", "pod", "ray.io/raycluster"]},  # other kinds are not here
        "internalCertManagement": {"enable": False},
        "webhook": {"port": webhook},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
    }
    file = server.folder / "kueue.yaml"
    file.write_text(text := yaml.safe_dump(config), encoding="utf-8")
    start = partial(
        server.run, "kueue", f"--config={file}", f"--kubeconfig={server.kubeconfig}",
        "--feature-gates=VisibilityOnDemand=false", POD_NAMESPACE="kueue-system",
    )  # fmt: skip
    if made.program("kueue", text, start):
        for each in _webhooks(made, webhook):
            server.apply(each).succeeded()
        server.wait("Kueue", partial(_answers, f"http://127.0.0.1:{health}/readyz"))


def _start_kai(made: Cluster) -> None:
    server, values = made.server, _release(made)
    label = values["global"]["nodePoolLabelKey"]
    shards = [each["manifest"] for each in made.exported["objects"] if each["manifest"]["kind"] == "SchedulingShard"]
    parts = {f"shard {each['spec']['partitionLabelValue']}": each["spec"] for each in shards}
    made.end_programs("shard ", parts)
    for key, spec in parts.items():
        start = partial(
            server.run, "kai-sched", f"--nodepool-label-key={label}", "--leader-elect=false",
            "--listen-address=127.0.0.1:0", f"--partition-label-value={spec['partitionLabelValue']}",
            "--plugin-server-port=0", *(f"--{flag}={value}" for flag, value in spec.get("args", {}).items()),
            KUBECONFIG=str(server.kubeconfig),
        )  # fmt: skip
        made.program(key, json.dumps(spec), start)
    start = partial(
        server.run, "kai-podgrouper", f"--kubeconfig={server.kubeconfig}", f"--nodepool-label-key={label}",
        "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0",
    )  # fmt: skip
    made.program("podgrouper", "", start)
    binder = values.get("binder", {})
    own = [f"--plugins={json.dumps(binder['plugins'], default=dict)}"] if "plugins" in binder else []
    own += [f"--runtime-class-name={binder['runtimeClassName']}"] if "runtimeClassName" in binder else []
    start = partial(
        server.run, "kai-binder", f"--kubeconfig={server.kubeconfig}", "--metrics-bind-address=0",
        f"--resource-reservation-namespace={RESERVED}", "--resource-reservation-pod-image=none",
        "--health-probe-bind-address=127.0.0.1:0", *own,
    )  # fmt: skip
    made.program("binder", str(own), start)


def _prepare_volcano(made: Cluster) -> None:
    server, (webhook, *_) = made.server, made._ports
    folder = server.folder / "configuration"
    file = folder / "volcano-scheduler.conf"
    folder.mkdir(exist_ok=True)
    text = _release(made)["custom"]["scheduler_config_override"]
    if not file.exists() or file.read_text(encoding="utf-8") != text:  # the scheduler reads it after each change
        file.write_text(text, encoding="utf-8")
    start = partial(
        server.run, "vc-controller-manager", f"--kubeconfig={server.kubeconfig}", "--leader-elect=false",
        "--listen-address=127.0.0.1:0",
    )  # fmt: skip
    made.program("controllers", "", start)
    hooks = list(_webhooks(made, webhook))
    paths = sorted(
        hook["clientConfig"]["url"].partition(str(webhook))[2] for each in hooks for hook in each["webhooks"]
    )
    start = partial(
        server.run, "vc-webhook-manager", f"--enabled-admission={','.join(paths)}",
        f"--kubeconfig={server.kubeconfig}", f"--port={webhook}",
        f"--tls-cert-file={CERTIFICATES / 'tls.crt'}", f"--tls-private-key-file={CERTIFICATES / 'tls.key'}",
        f"--ca-cert-file={CERTIFICATES / 'ca.crt'}", "--webhook-namespace=volcano-system",
        "--webhook-service-name=volcano-admission-service", "--enable-healthz=false", "--scheduler-name=volcano",
    )  # fmt: skip
    if made.program("webhooks", str(paths), start):
        for each in hooks:
            server.apply(each).succeeded()


def _start_volcano(made: Cluster) -> None:
    server, text = made.server, _release(made)["custom"]["scheduler_config_override"]
    start = partial(
        server.run, "vc-scheduler", f"--kubeconfig={server.kubeconfig}", "--leader-elect=false",
        f"--scheduler-conf={server.folder / 'configuration' / 'volcano-scheduler.conf'}",
        "--listen-address=127.0.0.1:0", "--enable-metrics=false", "--enable-healthz=false",
        DEBUG_SOCKET_DIR=str(server.folder),
    )  # fmt: skip
    made.program("scheduler", text, start)


def _nothing(_: Cluster) -> None:
    """Do nothing: the programs of this scheduler start before its objects, or after them."""


PREPARED: Mapping[str, Callable[[Cluster], None]] = {
    "kueue": _prepare_kueue, "kai": _nothing, "volcano": _prepare_volcano,
}  # fmt: skip
STARTED: Mapping[str, Callable[[Cluster], None]] = {"kueue": _nothing, "kai": _start_kai, "volcano": _start_volcano}
CONTROLLERS = "job-controller,resourceclaim-controller,garbage-collector-controller"


@contextmanager
def started(folder: Path, scheduler: str) -> Iterator[Cluster]:
    """Yield a control plane with the scheduler's definitions; `becomes` makes it the cluster of a plan."""
    server, stop = ControlPlane(folder), threading.Event()
    made = Cluster(server, scheduler)
    try:
        server.start()
        _definitions(server, scheduler)
        server.add_namespaces("kueue-system", "kai-scheduler", RESERVED, "volcano-system", "gpu-operator")
        server.run(
            MANAGER, f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1",
            "--secure-port=0", "--node-monitor-grace-period=1h", f"--controllers={CONTROLLERS}",
        )  # fmt: skip
        for name, expression in CLASSES.items():
            spec = {"selectors": [{"cel": {"expression": expression}}]}
            class_ = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}}
            server.apply({**class_, "spec": spec}).succeeded()
        server.apply(runtime_class("nvidia").manifest).succeeded()  # of KAI's reservation pods

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


def recorded(scheduler: str, case: str, wanted: Any, got: Any, *, fail: bool = True) -> None:
    """Add a row to the table that `GPUPOOLS_TEAM_TABLE` names, and require what was wanted."""
    table = os.environ.get("GPUPOOLS_TEAM_TABLE")
    if table:
        version = {"kueue": "0.19.2", "kai": "0.17.0", "volcano": "1.15.1", "hami": "2.10.0"}[scheduler]
        with Path(table).open("a", encoding="utf-8") as file:
            file.write(f"| {scheduler} {version} | {case} | {wanted} | {got} | {'✓' if wanted == got else '✗'} |\n")
    assert got == wanted or not fail, case
