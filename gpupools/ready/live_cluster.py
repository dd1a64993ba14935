"""The only door to a cluster: who decides where a credential goes, and requests within limits.

It uses the official Kubernetes client, the extra `gpupools[cluster]`.
"""

import json
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from gpupools.common.bounded_yaml import is_deep
from gpupools.common.errors import Problem, nearest
from gpupools.common.json_types import JsonDict
from gpupools.common.sdk import NEED_FOR_CLUSTERS
from gpupools.console.output import tell
from gpupools.plan.cloud import Cloud
from gpupools.readback.inputs import at
from gpupools.ready.kubeconfig import Context, Credential, parsed, read_context, run_plugin, started
from gpupools.ready.kubeconfig import Unreachable as Unreachable
from gpupools.ready.same_cluster import prove
from gpupools.ready.snapshot import READS, SELECTORS, Read, Snapshot, daemons_of, pruned
from gpupools.spec.cluster_access import (
    ACCESS_KEYS,
    KubeconfigFile,
    KubeconfigSecret,
    api_url,
    built_kubeconfig,
    endpoint_host,
)
from gpupools.spec.models import Cluster, Late, StackOutput

PAGE = 500
"""Objects per request."""
MOST = {"bytes": 256 * 1024 * 1024, "pages": 2_000, "objects": 200_000, "bytes of memory": 160 * 1024 * 1024}
"""Of one look. A page of 500 nodes has about 10 MB, and Kubernetes supports 150,000 pods.

https://kubernetes.io/docs/setup/best-practices/cluster-large/
"""
_ANSWER_BYTES = 32 * 1024 * 1024
_MOST_VALUES = 1_000_000
"""Values of one answer, as its brackets and commas tell: empty maps would take thirty times their text in memory."""
REQUEST_S = 25.0
"""Of one request with its answer, however slowly it comes."""
LOOK_S = 300.0
"""Of all requests of one look."""
RETRY_S = 10.0
"""How long a request is repeated that the API answers with 429 or 503."""
PAUSE_S = 1.0
"""Between requests to an API that does not answer."""
_LEAST_SECRET = 8
"""Characters of a credential; a shorter text would be found in many words."""
_RENEWED = timedelta(minutes=1)
"""How long before its end a token is renewed."""


class Access(NamedTuple):
    """How the API of a cluster is reached."""

    kubeconfig: JsonDict | Path | None
    """Content or file of a kubeconfig; None for kubectl's default file."""
    context: str | None = None
    """None for the current context."""
    folder: Path = Path()
    """Folder of the stack file: no kubeconfig of its checkout is read."""
    named_by: str = ""
    """Who chose host and program, if not the caller: it is printed before they are used."""
    is_silent: bool = False
    """Whether the program that uses it has announced it already."""


def access_of(
    key: str,
    clusters: Mapping[str, Cluster],
    clouds: Mapping[str, Cloud],
    contexts: Sequence[str],
    file: Path | None,
    trusted: Collection[str],
    folder: Path,
) -> Access:
    """Return the access by the first `[cluster=]context` that the caller names, or that the stack file has.

    `file` is the caller's kubeconfig with these contexts, `trusted` has the hosts in the stack file to which the
    caller's credential may go, and `folder` is that of the stack file.

    Raises:
        Unreachable: The stack file has no access, or it names a host that the caller does not trust.
    """
    for each in contexts:
        named, equals, context = each.partition("=")
        if not equals or named == key:
            return Access(file, context or each, folder)
    given = dict(clusters[key])
    source = given.get("kubeconfig")
    if isinstance(source, KubeconfigFile):
        return Access(Path(source.path), source.context, folder, f"{source.path}, which the stack file names")
    unknown = (Late, StackOutput, KubeconfigSecret)
    late = [name for name in ("name", *ACCESS_KEYS) if isinstance(given.get(name), unknown)]
    if late or given.get("endpoint") is None:
        what = f"only Pulumi knows its {late[0]}" if late else "the stack file has no access to its API"
        raise Unreachable(f"{what}; use --context {key}=NAME with a context of your kubeconfig")
    plugin, host = clusters[key].exec_plugin(given), endpoint_host(clusters[key])
    if host not in {each.casefold() for each in trusted}:
        what = f"the stack file sends the token of {plugin.command} to {host}"
        fix = f"compare it with the cloud's console and add --trust-endpoint {host}"
        raise Unreachable(f"{what}; {fix}, or use --context {key}=NAME with a context of your kubeconfig")
    made = built_kubeconfig(key, api_url(given["endpoint"]), given["certificate_authority"], plugin)
    return Access(made, None, folder, "the stack file")


def unknown_hosts(trusted: Iterable[str], clusters: Mapping[str, Cluster]) -> Iterator[Problem]:
    """Yield what is wrong with hosts that the caller trusts: that the stack file does not name them."""
    hosts = {endpoint_host(cluster) for cluster in clusters.values()} - {""}
    for host in trusted:
        if host.casefold() not in hosts:
            yield Problem(("--trust-endpoint",), f"the file has no endpoint {host!r}", nearest(host, hosts))


def program_access(kubeconfig: str, context: str | None) -> Access:
    """Return the access of a Pulumi program: the path of a kubeconfig, or its text.

    Raises:
        Unreachable: The text is no kubeconfig.
    """
    if kubeconfig.startswith(("/", "~/")):
        return Access(Path(kubeconfig), context, is_silent=True)
    return Access(parsed(kubeconfig.encode(), "the kubeconfig"), context, is_silent=True)


class ClusterApi:
    """The API of one cluster."""

    def __init__(self, access: Access) -> None:
        """Read the kubeconfig and run its exec plugin; raise `Unreachable` if that fails."""
        try:
            from kubernetes import client, config
        except ModuleNotFoundError:
            raise Unreachable(f"reading a cluster requires {NEED_FOR_CLUSTERS}") from None
        self._client_library, self._config_library, self._forms = client, config, _forms(client)
        self.now: datetime | None = None
        """The server's time at the last answer."""
        self.context: Context = read_context(access.kubeconfig, access.context, access.folder)
        self._credential = Credential({}, None)
        self._end = float("inf")
        self.patience_s = 0.0
        """How long a request is repeated for which there is no answer, such as while the API server is restarted."""
        self._spent = Counter[str]()
        self._announce(access)
        self._connect()

    @property
    def host(self) -> str:
        """Host and port of the API."""
        return self.context.host

    @property
    def where(self) -> tuple[str, str]:
        """Host and port of the API, and the name of the cluster in the kubeconfig."""
        return self.context.host, self.context.cluster_name

    def _announce(self, access: Access) -> None:
        words = [self.context.plugin.get("command"), *(self.context.plugin.get("args") or ())]
        # Arguments of the caller's own kubeconfig may be secrets.
        shown = shlex.join(map(str, words if isinstance(access.kubeconfig, dict) else words[:1]))
        by = f" (from {access.named_by})" if access.named_by else ""
        token = f" with a token of {shown}" if self.context.plugin else ""
        if (by or token) and not access.is_silent:
            tell(f"connects to {self.host}{by}{token}", error=True)

    def _connect(self) -> None:
        """Make a client, with a new credential where a plugin gives it."""
        if self.context.plugin:
            self._credential = run_plugin(self.context)
        user = {**self.context.user, **self._credential.user}
        made = {
            "clusters": [{"name": "c", "cluster": self.context.cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
        configuration = self._client_library.Configuration()
        configuration.retries = False
        try:
            load: Any = self._config_library.new_client_from_config_dict
            self._client = load(made, context="x", client_configuration=configuration)
        except (self._config_library.ConfigException, OSError, ValueError, TypeError) as error:
            raise Unreachable(f"the kubeconfig for {self.host}: {_one_line(error)}; check it") from None

    @contextmanager
    def look(self) -> Iterator[None]:
        """Give all requests until the end of the outermost look one deadline and one limit of what is read."""
        if self._end < float("inf"):
            yield
            return
        self._spent.clear()
        self._end = time.monotonic() + LOOK_S
        try:
            yield
        finally:
            self._end = float("inf")

    def _spend(self, amount: int, what: str) -> None:
        """Count what a look takes; raise `Unreachable` beyond the limit."""
        self._spent[what] += amount
        if self._end < float("inf") and self._spent[what] > MOST[what]:
            raise self._odd(f"more than {MOST[what]} {what} in one look")

    def request(
        self, path: str, query: Mapping[str, str] | None = None, method: str = "GET", body: JsonDict | None = None
    ) -> Any:
        """Return an object or list, or the text of a log; None for 404.

        The API is asked again for a while if it answers 429 or 503, or for `patience_s`; except for evictions (429 is
        the answer of a disruption budget) and for what a repetition would create twice.

        Raises:
            PermissionError: 403.
            Unreachable: There is no answer, or it is not of the form of the API.
        """
        end, is_told = time.monotonic() + max(RETRY_S, self.patience_s), self.patience_s <= RETRY_S
        while True:
            try:
                return self._request(path, query, method, body)
            except Unreachable as error:
                wait, left = error.wait_s, min(end, self._end) - time.monotonic()
                if self.patience_s and error.may_pass:
                    wait = PAUSE_S
                if wait is None or method == "POST" or wait > left:
                    raise
                if not is_told:
                    tell(f"{error}; asks again for {left:.0f} s", error=True)
                is_told = True
                time.sleep(wait)

    def _request(self, path: str, query: Mapping[str, str] | None, method: str, body: JsonDict | None) -> Any:
        from urllib3.exceptions import HTTPError

        if self._credential.expires is not None and self._credential.expires - datetime.now(UTC) < _RENEWED:
            self._connect()
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        # A compressed answer may unpack to any size.
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": content}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self._client.configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        seconds = min(REQUEST_S, self._end - time.monotonic())
        if seconds <= 0:
            raise Unreachable(f"{self.host} does not answer all requests in {LOOK_S:.0f} s", may_pass=True)
        try:
            # A server may send a byte now and then without end.
            status, given, data = started(lambda: self._fetch(method, url, headers, body, seconds)).result(seconds)
        except (HTTPError, OSError) as error:
            why = _one_line(error) or f"no whole answer in {seconds:.0f} s"
            raise Unreachable(f"{self.host} is not reachable: {why}", may_pass=True) from None
        self._spend(len(data), "bytes")
        self.now = self._time(given.get("Date"))
        if given.get("Content-Encoding", "identity") != "identity":
            raise self._odd("a compressed body, which was not asked for")
        is_log = status < 300 and path.endswith("/log")
        found = data.decode(errors="replace") if is_log or status == 404 else self._parsed(status, given, data)
        if status < 300:
            is_object = "limit" not in (query or ()) and method != "DELETE" and not path.endswith("/eviction")
            return found if is_log else self._object(path, found) if is_object else found
        if status == 404:
            return None
        # A server or proxy may repeat the header.
        secret = headers.get("authorization", "").rpartition(" ")[2]
        message = error_text(found)
        message = _one_line(message.replace(secret, "<credential>") if len(secret) >= _LEAST_SECRET else message)
        # No permission is missing to evict from a namespace whose pods end anyway, as it is being deleted:
        # https://github.com/kubernetes/apiserver/blob/master/pkg/admission/plugin/namespace/lifecycle/admission.go
        is_ending = "NamespaceTerminating" in _causes(found, "reason")
        if status == 403 and not is_ending:
            raise PermissionError(message if isinstance(found, dict) else f"{self.host} answers 403: {message}")
        if status == 401:
            raise Unreachable(f"{self.host} rejects the credentials: {message}; log in again")
        what = f"{self.host} answers {status}: {message}"
        wait = given.get("Retry-After", "") if status in (429, 503) else None
        wait_s = None if wait is None else float(wait) if re.fullmatch("[0-9]{1,4}", wait) else 1.0
        raise Unreachable(
            what, may_pass=is_ending or status in (410, 429) or status >= 500, wait_s=wait_s, status=status
        )

    def _fetch(
        self, method: str, url: str, headers: dict[str, str], body: Any, seconds: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        answer = self._client.call_api(method, url, headers, body, _request_timeout=(min(5, seconds), seconds))
        data, end = bytearray(), time.monotonic() + seconds
        try:
            for part in answer.response.stream(2**16, decode_content=False):
                data += part
                if len(data) > _ANSWER_BYTES:
                    raise self._odd(f"more than {_ANSWER_BYTES} bytes")
                if time.monotonic() > end:
                    break
        finally:
            answer.response.release_conn() if answer.response.closed else answer.response.close()
        return answer.status, answer.headers, bytes(data)

    def _odd(self, what: str) -> Unreachable:
        return Unreachable(f"the API of {self.host} answers with {what}; check that it is the API of a cluster")

    def _time(self, date: str | None) -> datetime | None:
        try:  # always GMT: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
            return parsedate_to_datetime(date).replace(tzinfo=UTC) if date else None
        except (ValueError, TypeError):
            raise self._odd("a date that is none") from None

    def _parsed(self, status: int, headers: Mapping[str, str], data: bytes) -> Any:
        kind = headers.get("Content-Type", "")
        if "json" not in kind:
            if status >= 300:
                return data[:2000].decode(errors="replace")
            what = _one_line(kind) or "a body of no type"
            raise self._odd(f"{what} instead of JSON, as sign-in pages and proxies do")
        if sum(map(data.count, (b"{", b"[", b","))) > _MOST_VALUES:
            raise self._odd(f"more than {_MOST_VALUES} values")
        try:
            found = json.loads(data, object_hook=_without_null)
        except (ValueError, RecursionError):
            raise self._odd(f"{len(data)} bytes that are not JSON") from None
        if status < 300 and (not isinstance(found, dict) or is_deep(found)):
            raise self._odd("JSON that is not an object of Kubernetes")
        return found

    def _object(self, path: str, found: Any) -> JsonDict:
        """Return an object whose form is that of its kind, as far as it is read."""
        plural = _PLURAL.match(path)
        kind = plural[1] if plural else ""
        wrong = _misfits(self._forms.get(kind, self._forms[""]), found)
        meta = {} if wrong else found.get("metadata", {})
        if not re.fullmatch(_NAME, meta.get("name", "")):
            wrong += ["metadata.name"]
        if kind in ("pods", "daemonsets") and "namespace" not in meta:
            wrong += ["metadata.namespace"]
        if wrong:
            lacks = f"whose {_one_line(wrong[0])} is missing or has another form" if wrong[0] else "that are no objects"
            raise self._odd(f"{kind or 'an object'} {lacks}")
        return {"spec": {}, "status": {}, **found}

    def items(self, path: str, kind: str, *, keeps: bool = True, **query: str) -> Iterator[JsonDict]:
        """Yield the objects of a list by pages, shortened for a kind; none of a kind that the cluster does not have.

        Without `keeps`, the caller lets most of them go, and their memory does not count.

        Raises:
            Unreachable: The list has no end within the limits, or an object has another form.
        """
        with self.look():
            for item in self._of_pages(path, kind, {"limit": str(PAGE), **query}):
                self._spend(_memory_of(item) if keeps else 0, "bytes of memory")
                yield item

    def _of_pages(self, path: str, kind: str, query: JsonDict) -> Iterator[JsonDict]:
        while True:
            self._spend(1, "pages")
            page = self.request(path, query)
            if page is None and path.startswith("/api/v1/"):
                raise self._odd("404 to what every cluster has")
            page = {"items": []} if page is None else page
            query["continue"], last = at(page, "metadata.continue") or "", query.get("continue")
            # Go writes an empty list as null.
            found = page.get("items", [] if str(page.get("kind")).endswith("List") else None)
            if not isinstance(found, list) or not isinstance(query["continue"], str):
                raise self._odd("a list of another form")
            self._spend(len(found), "objects")
            for each in found:
                item = self._object(path, pruned(kind, each) if isinstance(each, dict) else each)
                if not item["metadata"].get("uid"):
                    raise self._odd("an object without uid")
                yield item
            if not query["continue"]:
                return
            if query["continue"] == last:
                raise self._odd("the same page again")


def _memory_of(value: Any) -> int:
    """Return about how many bytes a value of JSON takes."""
    parts = (*value.keys(), *value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sys.getsizeof(value) + sum(map(_memory_of, parts))


_PLURAL = re.compile(r"/api(?:s/[^/]+)?/[^/]+/(?:namespaces/[^/]+/)?([a-z]+)")
_NAME = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}"
"""Names go into commands that people copy."""
_INDEXED = {"type", "status", "key", "kind", "name", "spec", "selector", "template", "driver"}
_INDEXED |= {"involvedObject"}
"""Required fields that are read. The API has others."""


def _forms(client: Any) -> Mapping[str, Any]:
    """Return the models of the Kubernetes client by the plural of a kind, with one for all custom resources."""
    from pydantic import create_model

    conditions: Any = (list[client.V1Condition], [])
    status: Any = create_model("Status", conditions=conditions)
    parts: Any = {"metadata": (client.V1ObjectMeta, ...), "spec": (dict, {}), "status": (status, None)}
    return {
        "": create_model("Custom", **parts),
        "nodes": client.V1Node,
        "pods": client.V1Pod,
        "daemonsets": client.V1DaemonSet,
        "events": client.CoreV1Event,
        "runtimeclasses": client.V1RuntimeClass,
        "resourceslices": client.V1ResourceSlice,
        "configmaps": client.V1ConfigMap,
        "jobs": client.V1Job,
    }


def _misfits(model: Any, found: Any) -> list[str]:
    """Return the fields of an object that have another form than the API's."""
    from pydantic import ValidationError

    try:
        model.model_validate(found)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        read = (problem for problem in problems if problem["type"] != "missing" or problem["loc"][-1] in _INDEXED)
        return [".".join(map(str, problem["loc"])) for problem in read]
    return []


def _without_null(found: JsonDict) -> JsonDict:
    return {key: value for key, value in found.items() if value is not None} if None in found.values() else found


def error_text(found: Any) -> str:
    """Return the message of an error with its causes: of an eviction, they name the disruption budget."""
    return " ".join(map(str, [at(found, "message") or found, *filter(None, _causes(found, "message"))]))


def _causes(found: Any, key: str) -> list[Any]:
    causes = at(found, "details.causes")
    return [at(cause, key) for cause in causes] if isinstance(causes, list) else []


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:200]


def read_snapshot(api: ClusterApi, cluster: Cluster, cloud: Cloud, more: Sequence[Read] = ()) -> Snapshot:
    """Return the objects of a cluster, and `more`; of another than the stack file's, the nodes alone.

    Raises:
        PermissionError: Nodes may not be read.
        Unreachable: The API does not answer as one.
    """
    objects: dict[str, Sequence[JsonDict]] = {}
    unseen: dict[str, str] = {}
    with api.look():
        for read in (*READS, *more):
            try:
                objects[read.plural] = _objects(api, read.plural, read.path, objects.get("daemonsets", ()))
            except PermissionError as error:
                if read.plural == "nodes":
                    raise
                unseen[read.plural] = str(error)
            if read.plural == "nodes" and prove(cluster, cloud, objects["nodes"], api.where).other:
                break
    return Snapshot(objects, unseen, api.now, api.where)


def _objects(api: ClusterApi, kind: str, path: str, daemon_sets: Iterable[JsonDict]) -> list[JsonDict]:
    if kind == "configmaps":
        found = api.request(path)
        return [] if found is None else [pruned(kind, found)]
    lists = (api.items(path, kind, fieldSelector=of, labelSelector=by) for of, by in SELECTORS.get(kind, (("", ""),)))
    objects = [item for listed in lists for item in listed]
    for each in (item for item in daemon_sets if kind == "pods" and daemons_of(item)):
        labels = ",".join(f"{key}={value}" for key, value in each["spec"]["selector"].get("matchLabels", {}).items())
        where = path.replace("/pods", f"/namespaces/{each['metadata']['namespace']}/pods")
        objects += api.items(where, kind, labelSelector=labels)
    return list({item["metadata"]["uid"]: item for item in objects}.values())
