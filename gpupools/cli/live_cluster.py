"""Reads the objects of a live cluster with the official Kubernetes client, the extra `gpupools[cluster]`."""

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from gpupools.common.json_types import JsonDict
from gpupools.common.sdk import NEED_FOR_CLUSTERS
from gpupools.ready.snapshot import READS, Snapshot, daemons_of, pruned
from gpupools.spec.cluster_access import ACCESS_KEYS, ExecPlugin, KubeconfigFile, KubeconfigSecret, api_url
from gpupools.spec.models import Cluster, Late, StackOutput

PAGE = 500
"""Objects per request."""
_TIMEOUT_S = (5, 60)
"""Seconds to connect, and between two parts of an answer."""
PLUGIN_TIMEOUT_S = 60


class Unreachable(Exception):
    """The API of a cluster gave no answer, or nothing leads to it; has one line with the fix."""

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        self.may_pass = may_pass
        """Whether waiting may help."""
        super().__init__(why)


class Access(NamedTuple):
    """How the API of a cluster is reached."""

    kubeconfig: JsonDict | str | None
    """Its content, or its file; None for the default file."""
    context: str | None = None


def access_of(
    key: str,
    cluster: Cluster,
    plugin: Callable[[JsonDict], ExecPlugin],
    contexts: Sequence[str],
    kubeconfig: Path | None,
) -> Access:
    """Return the access that the call names, or that the stack file has.

    Raises:
        Unreachable: The values are known only to Pulumi.
    """
    for each in contexts:
        named, equals, context = each.partition("=")
        if not equals or named == key:
            return Access(str(kubeconfig) if kubeconfig is not None else None, context or each)
    given = {name: getattr(cluster, name) for name in type(cluster).model_fields}
    source = given.get("kubeconfig")
    if isinstance(source, KubeconfigFile):
        return Access(str(Path(source.path).expanduser()), source.context)
    late = [
        name for name in ("name", *ACCESS_KEYS) if isinstance(given.get(name), Late | StackOutput | KubeconfigSecret)
    ]
    if late or given.get("endpoint") is None:
        what = f"only Pulumi knows its {late[0]}" if late else "the stack file has no access to its API"
        raise Unreachable(f"{what}; use --context {key}=NAME with a context of your kubeconfig")
    command, arguments, _, cluster_info = plugin(given)
    execution = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": command,
        "args": [str(each) for each in arguments],
        "provideClusterInfo": cluster_info,
    }
    server = {"server": api_url(given["endpoint"]), "certificate-authority-data": given["certificate_authority"]}
    config = {
        "clusters": [{"name": key, "cluster": server}],
        "users": [{"name": key, "user": {"exec": execution}}],
        "contexts": [{"name": key, "context": {"cluster": key, "user": key}}],
        "current-context": key,
    }
    return Access(config)


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
            raise Unreachable(f"reading a cluster requires {NEED_FOR_CLUSTERS}") from None

        self._failed: list[str] = []
        self.now: datetime | None = None
        loader: Any = kube_config
        loader.ExecProvider = _plugin_of(exec_provider.ExecProvider, self._failed)
        given = access.kubeconfig
        load = config.new_client_from_config_dict if isinstance(given, dict) else config.new_client_from_config
        configuration = client.Configuration()
        configuration.retries = False
        try:
            self._client = load(given, context=access.context, client_configuration=configuration)
        except (config.ConfigException, OSError, ValueError, TypeError, KeyError) as error:
            file = given if isinstance(given, str) else "the default kubeconfig"
            raise Unreachable(f"{file}: {_one_line(error)}; check it, or use --context") from None
        self._raise_failed()

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

        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "Content-Type": content}
        host = self._client.configuration.host
        url = f"{host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
            self._raise_failed()
            answer = self._client.call_api(method, url, headers, body, _request_timeout=_TIMEOUT_S)
            data, status = answer.read(), answer.status
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{host} is not reachable: {_one_line(error)}", may_pass=True) from None
        date = answer.headers.get("Date")
        self.now = parsedate_to_datetime(date) if date else None
        is_json = "json" in answer.headers.get("Content-Type", "")
        found = json.loads(data) if is_json else data.decode(errors="replace")
        if status < 300 or status == 404:
            return found if status < 300 else None
        message = _one_line(found.get("message", found) if is_json else found)
        if status == 403:
            raise PermissionError(message)
        what = f"the API rejects the credentials: {message}; log in again" if status == 401 else f"{status} {message}"
        raise Unreachable(what, may_pass=status in (410, 429) or status >= 500)

    def items(self, path: str, kind: str, **query: str) -> Iterator[JsonDict]:
        """Yield the objects of a list by pages; none of a kind that the cluster does not have."""
        more: dict[str, str] = {}
        while True:
            page = self.request(path, {"limit": str(PAGE), **query, **more}) or {}
            yield from [pruned(kind, each) for each in page.pop("items", None) or ()]
            more = {"continue": page.get("metadata", {}).get("continue", "")}
            if not more["continue"]:
                return


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:200]


def _plugin_of(base: Any, failed: list[str]) -> Any:
    """Return a runner of exec plugins that ends one that hangs, and records why one failed.

    The client waits without end, and only logs a failure: kubernetes-client/python kubernetes/base/config.
    """

    class Plugin(base):  # type: ignore[misc]
        def run(self, previous_response: Any = None) -> Any:
            spec = {"interactive": False} | ({"cluster": self.cluster.value} if self.cluster else {})
            info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
            environment = {**self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
            fixed: JsonDict = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
            try:
                done = subprocess.run(self.args, env=environment, cwd=self.cwd, timeout=PLUGIN_TIMEOUT_S, **fixed)
                status = json.loads(done.stdout or "{}").get("status")
                why = f"gave no token: {_one_line(done.stderr) or 'no output'}; log in again"
            except FileNotFoundError:
                status, why = None, "is not installed; install it, or use --context"
            except subprocess.TimeoutExpired:
                status, why = None, f"gave no token in {PLUGIN_TIMEOUT_S} s; run it by hand, and log in again"
            except (OSError, ValueError, AttributeError) as error:
                status, why = None, f"gave no token: {_one_line(error)}"
            failed.extend([] if status else [f"{self.args[0]} {why}"])
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
        yield from [pruned(kind, found)] if found is not None else ()
    elif kind == "pods":
        pods: dict[str, JsonDict] = {}
        for each in (each for each in daemon_sets if daemons_of(each)):
            part = path.replace("/pods", f"/namespaces/{each['metadata']['namespace']}/pods")
            labels = (f"{key}={value}" for key, value in each["spec"]["selector"].get("matchLabels", {}).items())
            pods |= {pod["metadata"]["uid"]: pod for pod in api.items(part, kind, labelSelector=",".join(labels))}
        waiting = api.items(path, kind, fieldSelector="status.phase=Pending")
        yield from (pods | {pod["metadata"]["uid"]: pod for pod in waiting}).values()
    elif kind == "events":
        for selector in ("type=Warning", "reason=NotTriggerScaleUp", "reason=TriggeredScaleUp"):
            yield from api.items(path, kind, fieldSelector=selector)
    else:
        found = list(api.items(path, kind))
        # Before Kubernetes 1.34.
        older = api.items(path.replace("/v1/", "/v1beta1/"), kind) if kind == "resourceslices" and not found else ()
        yield from (*found, *older)
