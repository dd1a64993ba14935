"""Measure CPU time and peak memory of `gpupools ready` on a cluster of many nodes.

    python benchmarks/ready_cost.py            10, 1,000 and 5,000 nodes

The cluster is a server on the loopback interface. Each node has 50 images and 5 daemon pods.
"""

import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.gpupools.ready.api import serving, write_files
from tests.gpupools.ready.world import World


def world_of(nodes: int) -> World:
    """Return a cluster whose nodes all hold the plan."""
    world = World("serve", "whole")
    world.heal()
    node, pods = world.objects["nodes"][0], [pod for pod in world.objects["pods"] if pod["spec"]["nodeName"] == "h0"]
    images = [{"names": [f"registry.example.com/team/image-{index}@sha256:{index:064}"]} for index in range(50)]
    node["status"]["images"] = images
    node["metadata"]["managedFields"] = [{"fieldsV1": {f"f:label-{index}": {} for index in range(200)}}]
    world.objects |= {"nodes": [], "pods": []}
    for index in range(nodes):
        for kind, item in (("nodes", node), *(("pods", pod) for pod in pods)):
            made = deepcopy(item) if kind == "pods" else {**item, "metadata": {**item["metadata"]}}
            made["metadata"] |= {
                "name": f"{item['metadata']['name']}-{index}",
                "uid": f"{item['metadata']['uid']}-{index}",
            }
            if kind == "pods":
                made["spec"]["nodeName"] = f"h0-{index}"
            world.objects[kind].append(made)
    return world


def measure(nodes: int) -> None:
    """Print the cost of one look at so many nodes."""
    world = world_of(nodes)
    with TemporaryDirectory() as folder, serving(world) as api:
        api.page = 500
        file = write_files(world, f"http://127.0.0.1:{api.server_port}", Path(folder))
        command = [sys.executable, "-m", "gpupools.cli.main", "ready", str(file)]
        _, _, usage = os.wait4(subprocess.Popen(command).pid, 0)
    print(f"{nodes} nodes: {usage.ru_utime + usage.ru_stime:.1f} s CPU, {usage.ru_maxrss / 1024:.0f} MB", flush=True)


if __name__ == "__main__":
    for count in [int(each) for each in sys.argv[1:]] or [10, 1000, 5000]:
        measure(count)
