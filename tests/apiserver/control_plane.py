"""A control plane without nodes: etcd, API server and scheduler on loopback, each ended by the process it was."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "openssl")
"""What has to be on PATH; Kubernetes 1.34 or later."""

_TOKEN = "admin"  # of a server that only this machine reaches, for as long as the tests run
_SCHEDULER = "scheduler"
_HAMI = "hami"
_STARTS_WITHIN_S = 60
_PLURALS = {"RuntimeClass": "runtimeclasses", "DeviceClass": "deviceclasses", "ClusterPolicy": "clusterpolicies"}
_PLURALS |= {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}
_PLURALS |= {"ComputeClass": "computeclasses"}
_PLURALS |= {"PodDisruptionBudget": "poddisruptionbudgets"}
_PLURALS |= {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
_PLURALS |= {"Topology": "topologies", "WorkloadPriorityClass": "workloadpriorityclasses"}
_CLUSTER_WIDE = frozenset(
    {
        "ClusterPolicy",
        "ClusterRole",
        "ClusterRoleBinding",
        "ComputeClass",
        "CustomResourceDefinition",
        "DeviceClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "NodePool",
        "PriorityClass",
        "ResourceSlice",
        "RuntimeClass",
    }
    | {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"}
    | {
        "AdmissionCheck",
        "ClusterQueue",
        "Cohort",
        "Queue",
        "SchedulingShard",
        "ProvisioningRequestConfig",
        "ResourceFlavor",
        "Topology",
    }
    | {"WorkloadPriorityClass"}
)

_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CLUSTER_POLICIES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {"kind": "ClusterPolicy", "plural": "clusterpolicies"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANY, "status": _ANY}}},
            }
        ],
    },
}
"""What `ready` and `mig walk` read of https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/crds."""


class User(NamedTuple):
    """Who asks, instead of the administrator."""

    name: str
    group: str = "system:masters"
    """Who may do everything, so that what stops a user is admission."""


@dataclass(frozen=True)
class Answer:
    """A response of the API server."""

    status: int
    body: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    def succeeded(self) -> Mapping[str, Any]:
        assert self.status < 300, self.message
        return self.body


def path_of(manifest: Mapping[str, Any], *, collection: bool = False) -> str:
    """Return the object's path below the server."""
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = "" if kind in _CLUSTER_WIDE else f"/namespaces/{metadata.get('namespace', 'default')}"
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return f"{root}{where}/{plural}" + ("" if collection else f"/{metadata['name']}")


@dataclass
class ControlPlane:
    """Runs in a `with` block, or between `start` and `stop`."""

    folder: Path
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _port: int = 0
    _warnings: tuple[str, ...] = ()
    webhook: str = ""
    """Where the webhook of HAMi answers."""
    schedulers: tuple[str, ...] = ("default-scheduler",)
    """Names by which pods ask for the scheduler."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        client, peer, self._port = (_free_port() for _ in range(3))
        certificates, key, tokens = (self.folder / name for name in ("certificates", "service-account.key", "tokens"))
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        # The scheduler goes by its own name, and may do here what it does without asking how RBAC grants it.
        users = f"{_TOKEN},admin,admin,system:masters\n{_SCHEDULER},system:kube-scheduler,scheduler,system:masters\n"
        users += f"{_HAMI},system:serviceaccount:hami:hami-scheduler,hami,system:masters\n"
        tokens.write_text(users, encoding="utf-8")
        etcd = f"http://127.0.0.1:{client}"
        self.run(
            "etcd", f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}", f"--listen-peer-urls=http://127.0.0.1:{peer}", "--unsafe-no-fsync",
        )  # fmt: skip
        self.run(
            "kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={self._port}",
            f"--cert-dir={certificates}", "--endpoint-reconciler-type=none", f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC", "--allow-privileged=true",
            "--enable-admission-plugins=ExtendedResourceToleration",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--service-cluster-ip-range=10.0.0.0/24",
        )  # fmt: skip
        self.wait("the API server", lambda: self._asked("GET", "/readyz", None, "") == (200, b"ok"))
        config = self.folder / "scheduler.yaml"
        authority = certificates / "apiserver.crt"
        self.kubeconfig.write_text(yaml.safe_dump(self._kubeconfig(authority, _TOKEN)), encoding="utf-8")
        own = self.folder / "scheduler.kubeconfig"
        own.write_text(yaml.safe_dump(self._kubeconfig(authority, _SCHEDULER)), encoding="utf-8")
        scheduler = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(own)},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": name} for name in self.schedulers],
        }
        config.write_text(yaml.safe_dump(scheduler), encoding="utf-8")
        self.run("kube-scheduler", f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={_free_port()}")

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in reversed(self._running):
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def restart(self) -> None:
        """End the API server and start it again; it is away for some seconds."""
        running = next(each for each in self._running if "kube-apiserver" in str(each.args))
        running.terminate()
        running.wait(timeout=120)  # it gives open watches a minute
        self._running.remove(running)
        self.run("kube-apiserver", *list(running.args)[1:])  # type: ignore[arg-type]
        self.wait("the API server", lambda: self._asked("GET", "/readyz", None, "") == (200, b"ok"))

    def run_controller_manager(self, *controllers: str) -> None:
        """Start some controllers."""
        self.run(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}", f"--controllers={','.join(controllers)}",
            "--leader-elect=false", "--bind-address=127.0.0.1", f"--secure-port={_free_port()}",
        )  # fmt: skip

    def apply(self, manifest: Mapping[str, Any], part: str = "", *, dry_run: bool = False) -> Answer:
        """Apply an object on the server's side; a key its schema does not have is an error."""
        query = "fieldManager=gpupools&force=true&fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        return self._ask("PATCH", f"{path_of(manifest)}{part}?{query}", manifest, "application/apply-patch+yaml")

    def add_namespaces(self, *names: str) -> None:
        """Create namespaces that are not there."""
        for name in names:
            self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).succeeded()

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False, by: User | None = None) -> Answer:
        """Create an object; `generateName` is allowed."""
        query = "fieldValidation=Strict" + ("&dryRun=All" if dry_run else "")
        path = f"{path_of(manifest, collection=True)}?{query}"
        return self._ask("POST", path, manifest, "application/json", by)

    def bind(self, pod: Mapping[str, Any], node: str, *, dry_run: bool = False, by: User | None = None) -> Answer:
        """Bind a pod to a node, as a scheduler does."""
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}}
        target = {"target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        path = f"{path_of(pod)}/binding" + ("?dryRun=All" if dry_run else "")
        return self._ask("POST", path, {**binding, **target}, "application/json", by)

    def evict(self, pod: Mapping[str, Any]) -> Answer:
        """Ask to evict a pod, which its PodDisruptionBudget may refuse (status 429)."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod["metadata"]["name"]}}
        return self._ask("POST", f"{path_of(pod)}/eviction", eviction, "application/json")

    def get(self, manifest: Mapping[str, Any]) -> Answer:
        """Read an object back."""
        return self._ask("GET", path_of(manifest), None, "")

    def delete(self, manifest: Mapping[str, Any], *, by: User | None = None) -> Answer:
        """Delete an object."""
        return self._ask("DELETE", path_of(manifest), None, "", by)

    def delete_now(self, manifest: Mapping[str, Any]) -> Answer:
        """Delete an object at once, without a kubelet that says so: a pod that is bound would stay for ever."""
        return self._ask("DELETE", f"{path_of(manifest)}?gracePeriodSeconds=0", None, "")

    def drop(self, manifest: Mapping[str, Any]) -> None:
        """Delete an object that a controller's finalizer would keep."""
        self._ask(
            "PATCH", path_of(manifest), {"metadata": {"finalizers": None}}, "application/merge-patch+json"
        ).succeeded()
        answer = self.delete_now(manifest)
        assert answer.status in (200, 404), answer.message

    def knows(self, path: str) -> bool:
        """Return whether the server answers for a path such as `/apis/nvidia.com/v1/clusterpolicies`."""
        return self._ask("GET", path, None, "").status == 200

    def items(self, path: str) -> list[Mapping[str, Any]]:
        """Read all objects below a path such as `/api/v1/nodes`."""
        return list(self._ask("GET", path, None, "").succeeded()["items"])

    def merge(
        self, manifest: Mapping[str, Any], change: Mapping[str, Any], part: str = "", *, by: User | None = None
    ) -> Answer:
        """Merge a change into an object, or into a part of it such as `/status`; lists of named items item by item."""
        return self._ask("PATCH", path_of(manifest) + part, change, "application/strategic-merge-patch+json", by)

    def wait(self, for_what: str, there: Callable[[], bool], within_s: float = _STARTS_WITHIN_S) -> None:
        """Wait until something is there.

        Raises:
            TimeoutError: It is not there in time, or a program has ended.
        """
        end = time.monotonic() + within_s
        while not there():
            ended = [process.args for process in self._running if process.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "\n".join(log.read_text(encoding="utf-8")[-2000:] for log in self.folder.glob("*.log"))
                raise TimeoutError(f"no {for_what} within {within_s} s; ended: {ended}\n{logs}")
            time.sleep(0.1)

    def run(self, program: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a program that ends with the control plane, or by `end`."""
        found = shutil.which(program)
        assert found is not None
        with (self.folder / f"{program}.log").open("wb") as log:
            given = {**os.environ, **environment}
            started = subprocess.Popen([found, *arguments], stdout=log, stderr=log, cwd=self.folder, env=given)
            self._running.append(started)
        return started

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a program before the control plane."""
        self._running.remove(process)
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def kubeconfig(self) -> Path:
        """The file with which a program reaches the server."""
        return self.folder / "kubeconfig"

    def kubeconfig_of_hami(self) -> Path:
        """Write the file with which HAMi's scheduler reaches the server by its own name."""
        file, authority = self.folder / "hami.kubeconfig", self.folder / "certificates" / "apiserver.crt"
        file.write_text(yaml.safe_dump(self._kubeconfig(authority, _HAMI)), encoding="utf-8")
        return file

    def _kubeconfig(self, authority: Path, token: str) -> dict[str, Any]:
        cluster = {"server": f"https://127.0.0.1:{self._port}", "certificate-authority": str(authority)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "own", "cluster": cluster}],
            "users": [{"name": "own", "user": {"token": token}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
            "current-context": "own",
        }

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, kind: str, by: User | None = None) -> Answer:
        status, text = self._asked(method, path, body, kind, by)
        # A kind whose definition is a moment old is answered in plain text: 404 page not found.
        plain = status == 404 and not text.startswith(b"{")
        return Answer(status, {"message": text.decode()} if plain else json.loads(text), self._warnings)

    def _asked(
        self, method: str, path: str, body: Mapping[str, Any] | None, kind: str, by: User | None = None
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {_TOKEN}", "Accept": "application/json"}
        if by is not None:  # https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
            headers |= {"Impersonate-User": by.name, "Impersonate-Group": by.group}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"https://127.0.0.1:{self._port}{path}", data, method=method)
        for name, value in {**headers, **({"Content-Type": kind} if kind else {})}.items():
            request.add_header(name, value)
        authority = self.folder / "certificates" / "apiserver.crt"
        if not authority.exists():
            return 0, b""
        try:
            trusted = ssl.create_default_context(cafile=authority)
            with urllib.request.urlopen(request, timeout=30, context=trusted) as response:
                self._warnings = tuple(response.headers.get_all("Warning") or ())
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, ssl.SSLError):
            if path != "/readyz":
                raise
            return 0, b""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
