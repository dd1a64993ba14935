"""Reads the objects of a live cluster with the official Kubernetes client, the extra `gpupools[cluster]`."""

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from gpupools.common.json_types import JsonDict
from gpupools.common.sdk import NEED_FOR_CLUSTERS
from gpupools.plan.cloud import Cloud
from gpupools.ready.snapshot import READS, SELECTORS, Snapshot, daemons_of, pruned
from gpupools.spec.cluster_access import (
    ACCESS_KEYS,
    KubeconfigFile,
    KubeconfigSecret,
    api_url,
    built_kubeconfig,
)
from gpupools.spec.models import Cluster, Late, StackOutput

PAGE = 500
"""Objects per request."""
_TIMEOUT_S = (5, 60)
"""Seconds to connect, and between two parts of an answer."""
PLUGIN_TIMEOUT_S = 60


class Unreachable(Exception):
    """The API of a cluster gave no answer, or nothing leads to it; `may_pass` says whether waiting may help."""

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        self.may_pass = may_pass
        super().__init__(why)


class Access(NamedTuple):
    """How the API of a cluster is reached: content or file of a kubeconfig, and its context; None for the default."""

    kubeconfig: JsonDict | str | None
    context: str | None = None


def access_of(
    key: str, clusters: Mapping[str, Cluster], clouds: Mapping[str, Cloud], contexts: Sequence[str], file: Path | None
) -> Access:
    """Return the access by the first of some `[cluster=]context`, or that the stack file has; raise `Unreachable`."""
    for each in contexts:
        named, equals, context = each.partition("=")
        if not equals or named == key:
            return Access(str(file) if file is not None else None, context or each)
    given = dict(clusters[key])
    source = given.get("kubeconfig")
    if isinstance(source, KubeconfigFile):
        return Access(str(Path(source.path).expanduser()), source.context)
    unknown = (Late, StackOutput, KubeconfigSecret)
    late = [name for name in ("name", *ACCESS_KEYS) if isinstance(given.get(name), unknown)]
    if late or given.get("endpoint") is None:
        what = f"only Pulumi knows its {late[0]}" if late else "the stack file has no access to its API"
        raise Unreachable(f"{what}; use --context {key}=NAME with a context of your kubeconfig")
    plugin = clouds[clusters[key].cloud].access(given)
    return Access(built_kubeconfig(key, api_url(given["endpoint"]), given["certificate_authority"], plugin))


class ClusterApi:
    """The API of one cluster."""

    def __init__(self, access: Access) -> None:
        """Load the kubeconfig, which runs its exec plugin; raise `Unreachable` if that fails."""
        try:
            from kubernetes import client, config
        except ModuleNotFoundError:
            raise Unreachable(f"reading a cluster requires {NEED_FOR_CLUSTERS}") from None
        self._failed: list[str] = []
        self.now: datetime | None = None
        loader: Any = config.kube_config
        plugin: Any = config.exec_provider.ExecProvider
        vars(config.exec_provider)["subprocess"] = SimpleNamespace(PIPE=subprocess.PIPE, Popen=_limited)
        loader.ExecProvider = lambda *words: SimpleNamespace(run=lambda: _token(plugin(*words), self._failed))
        given = access.kubeconfig
        load = config.new_client_from_config_dict if isinstance(given, dict) else config.new_client_from_config
        configuration = client.Configuration()
        configuration.retries = False
        try:
            self._client = load(given, context=access.context, client_configuration=configuration)
        except (config.ConfigException, OSError, ValueError, TypeError, KeyError) as error:
            file = given if isinstance(given, str) else "the kubeconfig" if given else "the default kubeconfig"
            raise Unreachable(f"{file}: {_one_line(error)}; check it, or use --context") from None
        self._raise_failed()

    def _raise_failed(self) -> None:
        if self._failed:
            raise Unreachable(self._failed.pop())

    def request(
        self, path: str, query: Mapping[str, str] | None = None, method: str = "GET", body: JsonDict | None = None
    ) -> Any:
        """Return JSON or text; None for 404. Raise `Unreachable`, or `PermissionError` for 403."""
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
        message = _one_line(error_text(found))
        if status == 403:
            raise PermissionError(message)
        what = f"the API rejects the credentials: {message}; log in again" if status == 401 else f"{status} {message}"
        raise Unreachable(what, may_pass=status in (410, 429) or status >= 500)

    def items(self, path: str, kind: str, **query: str) -> Iterator[JsonDict]:
        """Yield the objects of a list by pages; none of a kind that the cluster does not have."""
        more = {"limit": str(PAGE), **query}
        while True:
            page = self.request(path, more) or {}
            yield from [pruned(kind, each) for each in page.pop("items", None) or ()]
            more["continue"] = page.get("metadata", {}).get("continue", "")
            if not more["continue"]:
                return


def error_text(found: Any) -> str:
    """Return the message of an error with its causes: of an eviction, they name the disruption budget."""
    if not isinstance(found, dict):
        return str(found)
    details = found.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    more = [str(each.get("message")) for each in causes or () if isinstance(each, dict)]
    return " ".join([str(found.get("message", found)), *more])


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:200]


def _token(plugin: Any, failed: list[str]) -> Any:
    """Return what an exec plugin gives, or record why it failed, which the client only logs."""
    try:
        return plugin.run()
    except Exception as error:
        failed.append(f"{plugin.args[0]} gave no token: {_one_line(error)}; install it, log in again, or use --context")
        return {"token": ""}


def _limited(*words: Any, **options: Any) -> Any:
    """Run a program in place of `Popen`, with which the client would wait for it without end."""
    done = subprocess.run(*words, **{**options, "stdin": subprocess.DEVNULL, "timeout": PLUGIN_TIMEOUT_S})
    return SimpleNamespace(communicate=lambda: (done.stdout, done.stderr), wait=lambda: done.returncode)


def read_snapshot(api: ClusterApi) -> Snapshot:
    """Return the objects of a cluster; raise `Unreachable`, or `PermissionError` if nodes may not be read."""
    objects: dict[str, Sequence[JsonDict]] = {}
    unseen: dict[str, str] = {}
    for read in READS:
        try:
            objects[read.plural] = _objects(api, read.plural, read.path, objects.get("daemonsets", ()))
        except PermissionError as error:
            if read.plural == "nodes":
                raise
            unseen[read.plural] = str(error)
    return Snapshot(objects, unseen, api.now)


def _objects(api: ClusterApi, kind: str, path: str, daemon_sets: Iterable[JsonDict]) -> list[JsonDict]:
    if kind == "configmaps":
        found = api.request(path)
        return [] if found is None else [pruned(kind, found)]
    lists = SELECTORS.get(kind, ("",))
    objects = [each for selector in lists for each in api.items(path, kind, fieldSelector=selector)]
    for each in (each for each in daemon_sets if kind == "pods" and daemons_of(each)):
        labels = ",".join(f"{key}={value}" for key, value in each["spec"]["selector"].get("matchLabels", {}).items())
        where = path.replace("/pods", f"/namespaces/{each['metadata']['namespace']}/pods")
        objects += api.items(where, kind, labelSelector=labels)
    return list({each["metadata"]["uid"]: each for each in objects}.values())
