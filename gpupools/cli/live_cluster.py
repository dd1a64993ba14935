"""Reads the objects of a live cluster with the official Kubernetes client, the extra `gpupools[cluster]`."""

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from gpupools.common.json_types import JsonDict
from gpupools.common.sdk import NEED_FOR_CLUSTERS
from gpupools.ready.snapshot import READS, Snapshot, daemons_of, pruned
from gpupools.spec.cluster_access import ExecPlugin, KubeconfigFile, ReachableCluster, api_url
from gpupools.spec.models import Late, StackOutput

PAGE = 500
"""Objects per request."""
_TIMEOUT_S = (5, 60)
"""Seconds to connect, and between two parts of an answer."""
PLUGIN_TIMEOUT_S = 60


class Unreachable(Exception):
    """The API of a cluster gave no answer; has one line with the fix."""

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        self.may_pass = may_pass
        """Whether waiting may help."""
        super().__init__(why)


class Access(NamedTuple):
    """How the API of a cluster is reached."""

    kubeconfig: JsonDict | str | None
    """Its content, or its file; None for the default file."""
    context: str | None
    folder: Path


def access_of(key: str, cluster: ReachableCluster, plugin: Callable[[JsonDict], ExecPlugin]) -> Access:
    """Return the access that the stack file has.

    Raises:
        Unreachable: The values are known only to Pulumi.
    """
    out = f"use --context {key}=NAME with a context of your kubeconfig"
    source = cluster.kubeconfig
    if isinstance(source, KubeconfigFile):
        return Access(str(Path(source.path).expanduser()), source.context, Path.cwd())
    given = {name: getattr(cluster, name) for name in type(cluster).model_fields}
    if source is not None or any(isinstance(given[name], Late | StackOutput) for name in ("name", "endpoint")):
        raise Unreachable(f"only Pulumi knows its kubeconfig or endpoint; {out}")
    if isinstance(cluster.certificate_authority, Late | StackOutput):
        raise Unreachable(f"only Pulumi knows its certificate authority; {out}")
    if cluster.endpoint is None:
        raise Unreachable(f"the stack file has no access to its API; {out}")
    executed = plugin(given)
    execution = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": executed.command,
        "args": [str(each) for each in executed.args],
        "provideClusterInfo": executed.provide_cluster_info,
    }
    server = {"server": api_url(str(cluster.endpoint)), "certificate-authority-data": cluster.certificate_authority}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": key, "cluster": server}],
        "users": [{"name": key, "user": {"exec": execution}}],
        "contexts": [{"name": key, "context": {"cluster": key, "user": key}}],
        "current-context": key,
    }
    return Access(config, key, Path.cwd())


class ClusterApi:
    """The API of one cluster."""

    def __init__(self, access: Access) -> None:
        """Load the kubeconfig, which runs its exec plugin.

        Raises:
            Unreachable: It is missing or invalid, or the plugin failed.
        """
        try:
            from kubernetes import client, config
            from kubernetes.config import exec_provider, kube_config
        except ModuleNotFoundError:
            raise Unreachable(f"gpupools ready requires {NEED_FOR_CLUSTERS}") from None

        failed: list[str] = []
        loader: Any = kube_config
        loader.ExecProvider = _plugin_of(exec_provider.ExecProvider, failed)
        given = access.kubeconfig
        load = config.new_client_from_config_dict if isinstance(given, dict) else config.new_client_from_config
        configuration = client.Configuration()
        configuration.retries = False
        try:
            self._client = load(given, context=access.context, client_configuration=configuration)
        except (config.ConfigException, OSError, ValueError, TypeError, KeyError) as error:
            raise Unreachable(f"{one_line(error)}; check the kubeconfig, or use --context") from None
        self._failed = failed
        self._raise_failed()
        self.now: Any = None

    def _raise_failed(self) -> None:
        if self._failed:
            raise Unreachable(self._failed.pop())

    def request(
        self, path: str, query: Mapping[str, str] | None = None, method: str = "GET", body: JsonDict | None = None
    ) -> Any:
        """Return the JSON of an answer, or its text; None for 404.

        Raises:
            Unreachable: The server gave no answer, or refuses the user.
            PermissionError: The user lacks the permission.
        """
        import urllib3

        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        url = f"{self.host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
            self._raise_failed()
            answer = self._client.call_api(method, url, headers, body, _request_timeout=_TIMEOUT_S)
            data = answer.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{self.host} is not reachable: {one_line(error)}", may_pass=True) from None
        if answer.status >= 300:
            return _refused(answer.status, data, path)
        date = answer.headers.get("Date")
        self.now = parsedate_to_datetime(date) if date else None
        return json.loads(data) if "json" in answer.headers.get("Content-Type", "") else data.decode(errors="replace")

    @property
    def host(self) -> str:
        """Address of the API."""
        return str(self._client.configuration.host)

    def items(self, path: str, kind: str, **query: str) -> Iterator[JsonDict] | None:
        """Return the objects of a list by pages; None for a kind that the cluster does not have."""
        first = self.request(path, {"limit": str(PAGE), **query})
        return None if first is None else self._pages(first, path, kind, query)

    def _pages(self, page: JsonDict, path: str, kind: str, query: Mapping[str, str]) -> Iterator[JsonDict]:
        while True:
            yield from [pruned(kind, each) for each in page.pop("items", None) or ()]
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return
            page = self.request(path, {"limit": str(PAGE), **query, "continue": token}) or {}


def _refused(status: int, data: bytes, path: str) -> None:
    if status == 404:
        return
    try:
        message = one_line(json.loads(data)["message"])
    except (TypeError, ValueError, KeyError):
        message = one_line(data.decode(errors="replace"))
    if status == 403:
        raise PermissionError(message)
    if status == 401:
        raise Unreachable(f"the API rejects the credentials: {message}; log in again")
    raise Unreachable(f"{path}: {status} {message}", may_pass=status in (410, 429) or status >= 500)


def one_line(text: object) -> str:
    """Return the first 200 characters of a message on one line."""
    return " ".join(str(text).split())[:200]


def _plugin_of(base: Any, failed: list[str]) -> Any:
    """Return a runner of exec plugins that ends one that hangs, and records why one failed.

    The client waits without end, and only logs a failure: kubernetes-client/python kubernetes/base/config.
    """

    class Plugin(base):  # type: ignore[misc]
        def run(self, previous_response: Any = None) -> Any:
            info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": {"interactive": False}}
            if self.cluster:
                info["spec"]["cluster"] = self.cluster.value
            environment = {**self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
            program = self.args[0]
            status: JsonDict = {}
            try:
                done = subprocess.run(
                    self.args,
                    env=environment,
                    cwd=self.cwd,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=PLUGIN_TIMEOUT_S,
                )
                status = json.loads(done.stdout or "{}").get("status") or {}
                if not status:
                    failed.append(f"{program} gave no token: {one_line(done.stderr) or 'no output'}; log in again")
            except FileNotFoundError:
                failed.append(f"{program} is not installed; install it, or use --context")
            except subprocess.TimeoutExpired:
                failed.append(f"{program} gave no token in {PLUGIN_TIMEOUT_S} s; run it by hand, and log in again")
            except (OSError, ValueError, AttributeError) as error:
                failed.append(f"{program} gave no token: {one_line(error)}")
            return status or {"token": ""}

    return Plugin


def read_snapshot(api: ClusterApi) -> Snapshot:
    """Return the objects of a cluster.

    Raises:
        Unreachable: The API gave no answer.
        PermissionError: Nodes may not be read, without which nothing is known.
    """
    objects: dict[str, Sequence[JsonDict]] = {}
    unseen: dict[str, str] = {}
    for read in READS:
        try:
            objects[read.kind] = list(_objects(api, read.kind, read.path, objects.get("daemonsets", ())))
        except PermissionError as error:
            if read.kind == "nodes":
                raise
            unseen[read.kind] = str(error)
    return Snapshot(objects, unseen, api.now)


def _objects(api: ClusterApi, kind: str, path: str, daemon_sets: Iterable[JsonDict]) -> Iterator[JsonDict]:
    if kind == "configmaps":
        found = api.request(path)
        yield from () if found is None else [pruned(kind, found)]
    elif kind == "pods":
        seen = set()
        for part, query in _pod_lists(path, daemon_sets):
            for pod in api.items(part, kind, **query) or ():
                if pod["metadata"]["uid"] not in seen:
                    seen.add(pod["metadata"]["uid"])
                    yield pod
    elif kind == "events":
        for selector in ("type=Warning", "reason=NotTriggerScaleUp", "reason=TriggeredScaleUp"):
            yield from api.items(path, kind, fieldSelector=selector) or ()
    else:
        found = api.items(path, kind)
        if found is None and kind == "resourceslices":  # before Kubernetes 1.34
            found = api.items(path.replace("/v1/", "/v1beta1/"), kind)
        yield from found or ()


def _pod_lists(path: str, daemon_sets: Iterable[JsonDict]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the lists with the pods of GPU software, and with pods that have not started."""
    for each in daemon_sets:
        labels = each["spec"]["selector"].get("matchLabels") or {}
        if daemons_of(each) and labels:
            part = path.replace("/pods", f"/namespaces/{each['metadata']['namespace']}/pods")
            yield part, {"labelSelector": ",".join(f"{key}={value}" for key, value in sorted(labels.items()))}
    yield path, {"fieldSelector": "status.phase=Pending"}
