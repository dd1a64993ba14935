"""What NVIDIA's device plugin offers on NVIDIA's mock of NVML, with the configuration that gpupools gives it.

`GPUPOOLS_DEVICE_PLUGIN` names the program (https://github.com/NVIDIA/k8s-device-plugin, v0.20.0),
`GPUPOOLS_MOCK_NVML` a folder with libnvidia-ml.so.1 (https://github.com/NVIDIA/k8s-test-infra, pkg/gpu/mocknvml). The
mock has up to 8 GPUs and neither MIG nor an MPS daemon. The plugin's own socket is in /var/lib/kubelet/device-plugins.
"""

import os
import subprocess
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpupools.plan.plugin_configs import plugin_config
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from tests.gpupools.ready.world import World

ROOT = Path(__file__).resolve().parents[2]
SOCKETS = Path("/var/lib/kubelet/device-plugins")
PROGRAM, MOCK = os.environ.get("GPUPOOLS_DEVICE_PLUGIN"), os.environ.get("GPUPOOLS_MOCK_NVML")
pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.skipif(
        PROGRAM is None or MOCK is None or not os.access(SOCKETS, os.W_OK),
        reason="the device plugin, the mock of NVML or the kubelet's folder is missing",
    ),
]
FILES = sorted([*ROOT.glob("stacks/Pulumi.*.yaml"), *ROOT.glob("examples/*/Pulumi.*.yaml")])


def pools() -> Iterator[PoolPlan]:
    """Yield pools that NVIDIA's plugin serves and the mock can show, one for each configuration and number of GPUs."""
    seen = set()
    for file in FILES:
        for pool in check_stack_file(file, clouds()).plan.pools:
            shown = pool.sharing.kind in ("none", "time-slicing") and pool.instance.gpus.denominator == 1
            config = plugin_config(pool.instance, pool.sharing)
            if shown and pool.node_resources and (config, pool.instance.gpus) not in seen:
                seen.add((config, pool.instance.gpus))
                yield pool


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of the fields of a protobuf message that have a length
    (https://protobuf.dev/programming-guides/encoding/)."""
    at = 0

    def number() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte, at = message[at], at + 1
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    while at < len(message):
        key = number()
        size = number()
        if key & 7 == 2:
            yield key >> 3, message[at : at + size]
            at += size


class Kubelet(grpc.GenericRpcHandler):
    """Takes the plugin's registration: v1beta1 of the kubelet's device plugin API."""

    def __init__(self) -> None:
        self.registered = threading.Event()
        self.endpoint = self.resource = ""

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method != "/v1beta1.Registration/Register":
            return None
        return grpc.unary_unary_rpc_method_handler(self.register)

    def register(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        said = dict(fields(request))
        self.endpoint, self.resource = said[2].decode(), said[3].decode()
        self.registered.set()
        return b""


def offered(config: str, gpus: int, folder: Path) -> dict[str, int]:
    """Return the healthy devices that the plugin offers, by resource."""
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    kubelet, server = Kubelet(), grpc.server(futures.ThreadPoolExecutor(2))
    socket = folder / "kubelet.sock"
    server.add_generic_rpc_handlers((kubelet,))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    env = {**os.environ, "LD_LIBRARY_PATH": str(MOCK), "MOCK_NVML_NUM_DEVICES": str(gpus)}
    command = [str(PROGRAM), "--config-file", str(folder / "config.yaml"), "--kubelet-socket", str(socket)]
    with (folder / "plugin.log").open("wb") as log:
        plugin = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    try:
        assert kubelet.registered.wait(30), (folder / "plugin.log").read_text()
        with grpc.insecure_channel(f"unix://{SOCKETS / kubelet.endpoint}") as channel:
            ask: Any = channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")
            listed = ask(b"", timeout=30)
            devices = [dict(fields(each)) for _, each in fields(next(iter(listed)))]
            listed.cancel()
    finally:
        plugin.terminate()
        plugin.wait(timeout=15)
        server.stop(None).wait()
    assert len({each[1] for each in devices}) == len(devices)
    return {kubelet.resource: sum(each[2] == b"Healthy" for each in devices)}


def name(pool: PoolPlan) -> str:
    return f"{pool.cluster}-{pool.name}"


@pytest.mark.parametrize("pool", list(pools()), ids=name)
def test_the_plugin_offers_what_the_plan_promises(pool: PoolPlan, tmp_path: Path) -> None:
    assert offered(plugin_config(pool.instance, pool.sharing), pool.instance.devices, tmp_path) == pool.node_resources


def test_ready_names_the_node_of_a_gpu_that_is_missing(tmp_path: Path) -> None:
    world = World("train", "whole")
    world.heal()
    pool = world.plan
    found = offered(plugin_config(pool.instance, pool.sharing), pool.instance.devices - 1, tmp_path)
    world.offer("h1", **{name: str(count) for name, count in found.items()})
    status = world.status()

    assert found == {"nvidia.com/gpu": 7}
    assert not status.is_ready
    assert status.short == ("Node h1: nvidia.com/gpu: promised 8, allocatable 7 of 8",)
