"""Remove the start-up taint from nodes that offer what their pool promises: runs in a cluster, with Python alone.

    python startup_gate.py PROMISES

PROMISES is a JSON file: pool to resource to count. A watch begins with all nodes that there are and ends after a
minute, so that nothing stays missed and what failed is tried again (https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks).
"""

import json
import os
import ssl
import sys
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

KEY = "startup-taint.cluster-autoscaler.kubernetes.io/gpupools"
POOL = "gpupools/pool"
MIG = "nvidia.com/mig.config"
_WATCH_S = 60


class Api:
    """The API server of the cluster in which the process runs."""

    def __init__(self, account: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount")) -> None:
        self.account = account
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self.url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self.trust = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def open(self, path: str, patch: Any = None, timeout_s: int = 30) -> Any:
        """Return the open answer to a request; with `patch`, a JSON patch is sent."""
        token = (self.account / "token").read_text(encoding="utf-8").strip()  # it is renewed every hour
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json-patch+json"}
        body = None if patch is None else json.dumps(patch).encode()
        method = "GET" if body is None else "PATCH"
        request = urllib.request.Request(f"{self.url}{path}", body, headers, method=method)
        return urllib.request.urlopen(request, timeout=timeout_s, context=self.trust)


def is_complete(node: Mapping[str, Any], promised: Mapping[str, int]) -> bool:
    """Return whether a node of a pool offers at least the promised count of each resource, cut if it is to be."""
    labels = node.get("metadata", {}).get("labels") or {}
    # Whole GPUs may be as many as the slices will be.
    if POOL not in labels or (MIG in labels and labels.get(f"{MIG}.state") != "success"):
        return False
    offered = node["status"].get("allocatable") or {}
    given = {name: str(offered.get(name, "")) for name in promised}
    return all(given[name].isdecimal() and int(given[name]) >= count for name, count in promised.items())


def patch_of(node: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the JSON patch that removes the taint; None for a node without it."""
    taints = node["spec"].get("taints") or []
    rest = [each for each in taints if each["key"] != KEY]
    if len(rest) == len(taints):
        return None
    return [{"op": op, "path": "/spec/taints", "value": value} for op, value in (("test", taints), ("replace", rest))]


def watch(api: Api, promises: Mapping[str, Mapping[str, int]]) -> None:
    """Remove the taint from each node that is or becomes complete, until the watch ends."""
    selector = quote(f"{POOL} in ({','.join(sorted(promises))})")
    path = f"/api/v1/nodes?watch=1&timeoutSeconds={_WATCH_S}&labelSelector={selector}"
    with api.open(path, timeout_s=_WATCH_S + 30) as events:
        for line in events:
            event = json.loads(line)
            node = event["object"]
            patch = patch_of(node) if event["type"] in ("ADDED", "MODIFIED") else None
            if patch is None or not is_complete(node, promises[node["metadata"]["labels"][POOL]]):
                continue
            name, what = node["metadata"]["name"], "offers its GPUs; removed the start-up taint"
            try:
                api.open(f"/api/v1/nodes/{quote(name)}", patch).close()
            except (OSError, HTTPException) as error:  # a conflict with another change, too; the next watch repeats it
                what = f"keeps the start-up taint: {error}"
            print(f"{name} {what}", flush=True)  # noqa: T201 - its log


def main() -> None:
    """Watch without end; after an error, begin again."""
    promises = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    api = Api(*map(Path, sys.argv[2:]))
    while True:
        try:
            watch(api, promises)
        except (OSError, HTTPException, ValueError, KeyError) as error:
            print(f"trying again: {error}", flush=True)  # noqa: T201
            time.sleep(2)


if __name__ == "__main__":
    main()
