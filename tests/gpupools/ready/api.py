"""A small server that answers like the Kubernetes API, and the files that lead to it."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from gpupools.fit import live
from gpupools.readback.inputs import at
from gpupools.ready.snapshot import READS
from tests.gpupools.ready.world import FILE, NOW, World

PATHS = {read.path: read.plural for read in (*READS, *live.READS, *live.GROUPS.values())}


class Api(ThreadingHTTPServer):
    """Serves the objects of a world, in pages."""

    def __init__(self, world: World, port: int = 0) -> None:
        self.world = world
        self.page = 2
        self.forbidden: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self.delay_s = 0.0
        self.jobs: list[dict[str, Any]] = []
        self.log = "Test PASSED"
        self.keeps_jobs = False
        self.steps: list[Callable[[], None]] = []
        """What happens before each look."""
        super().__init__(("127.0.0.1", port), _Handler)

    def list(self, path: str, query: Mapping[str, str]) -> tuple[int, Any]:
        space = ""
        if "/namespaces/" in path and path not in PATHS:
            head, _, rest = path.partition("/namespaces/")
            space, _, kind = rest.partition("/")
            path = f"{head}/{kind}"
        kind = PATHS.get(path, "")
        if kind in self.forbidden:
            return 403, {"message": f'{kind} is forbidden: User "dev" cannot list resource "{kind}"'}
        found = self.world.objects.get(kind)
        if kind == "configmaps" or found is None:
            return (
                (200, found[0])
                if found
                else (404, {})
                if kind in ("configmaps", "clusterpolicies")
                else (200, {"items": []})
            )
        found = [each for each in found if not space or each["metadata"]["namespace"] == space]
        for key, value in (pair.split("=") for pair in query.get("labelSelector", "").split(",") if pair):
            found = [each for each in found if each["metadata"].get("labels", {}).get(key) == value]
        fields = re.findall(r"((?:status|spec|metadata)\.\w+)(!?)=([^,]*)", query.get("fieldSelector", ""))
        for field, other, value in fields:
            found = [each for each in found if ((at(each, field) or "") == value) != bool(other)]
        start = int(query.get("continue", 0))
        more = {"continue": str(start + self.page)} if len(found) > start + self.page else {}
        return 200, {"metadata": more, "items": found[start : start + self.page]}


class _Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        self.server.requests.append(("GET", split.path))
        time.sleep(self.server.delay_s)
        if split.path == "/api/v1/nodes" and self.server.steps and "continue" not in query:
            self.server.steps.pop(0)()
        if "gpupools-smoke-test" in split.path:
            self._answer(*self._smoke(split.path))
        else:
            self._answer(*self.server.list(split.path, query))

    def _smoke(self, path: str) -> tuple[int, Any]:
        if path.endswith("/log"):
            return 200, self.server.log
        if path.endswith("/pods"):
            return 200, {"items": [{"metadata": {"name": "p", "namespace": "s", "uid": "1"}}]}
        done = {"metadata": {"name": "made"}, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        return (200, done) if "/jobs/" in path and self.server.jobs else (404, {})

    def do_POST(self) -> None:
        self.server.requests.append(("POST", self.path))
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body["metadata"].setdefault("name", "made")
        if body["kind"] == "Job":
            self.server.jobs.append(body)
        self._answer(201, body)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(("DELETE", self.path))
        kept = "/jobs/" in self.path and self.server.keeps_jobs
        self._answer(*((403, {"message": "jobs are not to be deleted"}) if kept else (200, {})))

    def _answer(self, status: int, body: Any) -> None:
        text = isinstance(body, str)
        data = body.encode() if text else json.dumps(body).encode()
        self.send_response_only(status)
        self.send_header("Date", format_datetime(NOW, usegmt=True))
        self.send_header("Content-Type", "text/plain" if text else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving(world: World, port: int = 0) -> Iterator[Api]:
    with Api(world, port) as api:
        thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            api.shutdown()
            thread.join()


def write_files(world: World, server: str, folder: Path, user: Mapping[str, Any] | None = None) -> Path:
    """Write a kubeconfig, and beside its folder a stack file with the one pool of a world; return the latter."""
    kube, file = folder / "kube" / "config", folder / "stack" / "Pulumi.live.yaml"
    for each in (kube, file):
        each.parent.mkdir(exist_ok=True)
    config = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    clusters = {world.cluster: {**config["gpupools:clusters"][world.cluster], "kubeconfig": {"path": str(kube)}}}
    pools = {world.pool: {**config["gpupools:pools"][world.pool], "clusters": [world.cluster]}}
    file.write_text(yaml.safe_dump({"config": {"gpupools:clusters": clusters, "gpupools:pools": pools}}))
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": dict(user or {"token": "t"})}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kube.write_text(yaml.safe_dump(kubeconfig))
    return file
