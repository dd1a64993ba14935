"""Measure CPU time and peak memory of `gpupools ready` on a cluster of many nodes.

    python benchmarks/ready_cost.py            10, 1,000 and 5,000 nodes

The cluster is a server on the loopback interface: nodes of 15 kB as kubelets report them, and four daemon pods on each.
"""

import json
import os
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file

STACK: dict[str, Any] = {
    "gpupools:clusters": {"serve": {"cloud": "azure", "name": "serve", "resource_group": "ml"}},
    "gpupools:pools": {
        "whole": {"clusters": ["serve"], "gpu": "A100-80GB", "gpus_per_node": 8, "software": "gpu-operator"}
    },
}
DAEMONS = {
    "nvidia-driver": "nvidia-driver-ctr",
    "nvidia-container-toolkit": "nvidia-container-toolkit-ctr",
    "nvidia-device-plugin": "nvidia-device-plugin",
    "nvidia-mig-manager": "nvidia-mig-manager",
}


def node(pool: PoolPlan, index: int) -> dict[str, Any]:
    """Return a node that holds the plan."""
    taints = [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in pool.taints]
    images = [
        {"names": [f"registry.example.com/team/image-{one}@sha256:{'0' * 64}"], "sizeBytes": one} for one in range(50)
    ]
    fields = [{"manager": "kubelet", "fieldsV1": {f"f:label-{one}": {"f:value": {}} for one in range(100)}}]
    return {
        "metadata": {"name": f"n{index}", "labels": {**pool.labels}, "managedFields": fields},
        "spec": {"providerID": "azure:///subscriptions/1/resourceGroups/mc_ml_serve_x", "taints": taints},
        "status": {
            "allocatable": {
                "cpu": "95",
                "memory": "1Gi",
                **{name: str(count) for name, count in pool.node_resources.items()},
            },
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
            "images": images,
        },
    }


def pod(name: str, index: int) -> dict[str, Any]:
    """Return a daemon pod."""
    owner = [{"kind": "DaemonSet", "name": name}]
    meta = {"name": f"{name}-{index}", "namespace": "gpu-operator", "uid": f"{name}-{index}", "ownerReferences": owner}
    spec = {"nodeName": f"n{index}", "containers": [{"name": "c", "env": [{"name": "X", "value": "y" * 2000}]}]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": meta, "spec": spec, "status": status}


def handler(pool: PoolPlan, nodes: int) -> type[BaseHTTPRequestHandler]:
    """Return a handler that serves the cluster."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            split = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            start, limit = int(query.get("continue", 0)), int(query.get("limit", 500))
            part, items = range(start, min(start + limit, nodes)), []
            if split.path.endswith("/nodes"):
                items = [node(pool, index) for index in part]
            elif split.path.endswith("/namespaces/gpu-operator/pods"):
                items = [pod(query["labelSelector"].partition("=")[2], index) for index in part]
            elif split.path.endswith("/runtimeclasses"):
                items, part = [{"metadata": {"name": "nvidia"}}], range(0)
            elif split.path.endswith("/daemonsets"):
                items, part = [daemon_set(*each) for each in DAEMONS.items()], range(0)
            else:
                part = range(0)
            more = {"continue": str(part.stop)} if part and part.stop < nodes else {}
            data = json.dumps({"metadata": more, "items": items}).encode()
            self.send_response(404 if split.path.endswith("-status") else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    return Handler


def daemon_set(name: str, container: str) -> dict[str, Any]:
    """Return a DaemonSet."""
    template = {"spec": {"containers": [{"name": container}], "tolerations": [{"operator": "Exists"}]}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    return {"metadata": {"name": name, "namespace": "gpu-operator"}, "spec": spec}


def measure(nodes: int) -> None:
    """Print the cost of one look at so many nodes."""
    with tempfile.TemporaryDirectory() as folder:
        kube, file = Path(folder, "config"), Path(folder, "stack", "Pulumi.live.yaml")
        file.parent.mkdir()
        STACK["gpupools:clusters"]["serve"]["kubeconfig"] = {"path": str(kube)}
        STACK["gpupools:pools"]["whole"]["nodes"] = {"min": min(nodes, 1000), "max": min(nodes, 1000)}
        file.write_text(yaml.safe_dump({"config": STACK}))
        (pool,) = check_stack_file(file, clouds()).plan.pools
        with ThreadingHTTPServer(("127.0.0.1", 0), handler(pool, nodes)) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
            context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
            user = {"name": "c", "user": {"token": "t"}}
            config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
            kube.write_text(yaml.safe_dump(config))
            command = [sys.executable, "-m", "gpupools.cli.main", "ready", str(file)]
            ran = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            said = ran.stdout.read().strip() if ran.stdout is not None else ""
            _, _, usage = os.wait4(ran.pid, 0)
            server.shutdown()
    print(f"{nodes:>5} nodes: {usage.ru_utime + usage.ru_stime:.1f} s CPU, {usage.ru_maxrss / 1024:.0f} MB  ({said})")


if __name__ == "__main__":
    for count in [int(each) for each in sys.argv[1:]] or [10, 1000, 5000]:
        measure(count)
