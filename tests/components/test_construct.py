"""What the process that serves the components answers the engine, here a stand-in at the other end of the wire."""

import asyncio
import contextvars
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import ModuleType
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    callback_pb2,
    callback_pb2_grpc,
    engine_pb2_grpc,
    provider_pb2,
    resource_pb2,
    resource_pb2_grpc,
)

from gpupools.common.version import version
from gpupools.components import declared_components, package
from gpupools.preview.monitor import DeclaredResource, StrictMonitor, plain_struct

Construct = Callable[..., Any]
POOL = "gpupools:index:GpuNodePool"
RUNTIME = "gpupools:index:GpuRuntime"
CLUSTER = {
    "name": "lab",
    "project": "ml-lab",
    "location": "europe-west4",
    "serviceAccount": "gpu@ml.iam.gserviceaccount.com",
}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the host, its `google.rpc.Status` being Google's own: a second one would break Google's clients here."""
    sys.modules.setdefault("pulumi.runtime.proto.status_pb2", import_module("google.rpc.status_pb2"))
    found = import_module("gpupools.components.host")
    monkeypatch.setattr(declared_components, "hosted", True)
    monkeypatch.setattr(declared_components, "_HOSTED", {})
    return found


class Engine(resource_pb2_grpc.ResourceMonitorServicer, engine_pb2_grpc.EngineServicer):
    """Registers what it is asked to, and runs the hook before a resource is made; a hook's error is the update's."""

    def __init__(self, *, hooks: bool = True) -> None:
        self._features = [resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_HOOKS] if hooks else []
        self._hooks: dict[str, Any] = {}
        self._monitor = StrictMonitor()
        self.failed: list[tuple[str, str, str]] = []
        """Type and name of a resource whose hook failed, and what that said."""
        self.ended = threading.Event()

    @property
    def resources(self) -> Iterable[DeclaredResource]:
        """What was registered."""
        return self._monitor.declared.values()

    async def step_failed(self, made: asyncio.Future[Any]) -> None:
        """Return a while after a step has failed: an answer would be there by then."""
        while not self.failed and not made.done():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return resource_pb2.DeploymentInfo(supportedFeatures=self._features)

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802
        return empty_pb2.Empty()

    def RegisterResourceHook(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._hooks[request.name] = request
        return empty_pb2.Empty()

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802
        for name in request.hooks.before_create:
            hook = self._hooks[name]
            assert hook.on_dry_run
            asked = resource_pb2.ResourceHookRequest(name=request.name, type=request.type)
            with grpc.insecure_channel(hook.callback.target) as channel:
                answer = callback_pb2_grpc.CallbacksStub(channel).Invoke(
                    callback_pb2.CallbackInvokeRequest(token=hook.callback.token, request=asked.SerializeToString())
                )
            said = resource_pb2.ResourceHookResponse.FromString(answer.response).error
            self.failed.append((request.type, request.name, said))
            self.ended.wait(20)
            context.abort(grpc.StatusCode.UNAVAILABLE, "resource monitor shut down")
        return self._monitor.RegisterResource(request)

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802
        return self._monitor.RegisterResourceOutputs(request)


class Aborted(Exception):
    """What the engine is told in place of an answer."""


class Context:
    """What a call of the engine is answered through."""

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        """End the call with an error."""
        raise Aborted(code.name, details)


@pytest.fixture
def construct(host: ModuleType) -> Iterator[Construct]:
    """Return a function that has the host make a component, and cancels once a step has failed."""

    def run(engine: Engine, kind: str = POOL, **inputs: Any) -> Any:
        server = grpc.server(threads)
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(engine, server)
        engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        request = provider_pb2.ConstructRequest(type=kind, name="train", dryRun=True, monitorEndpoint=address)
        request.inputs.update({"cloud": "gcp", "cluster": CLUSTER, **inputs})
        servicer = host.Servicer(host.Components(), [], address)

        async def asked() -> Any:
            # What the SDK asks an engine without hooks for fails in a task of its own, which nobody waits for.
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)
            made = asyncio.ensure_future(servicer.Construct(request, Context()))
            failing = asyncio.ensure_future(engine.step_failed(made))
            await asyncio.wait({made, failing}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
            if not made.done():
                assert engine.failed, "neither an answer nor a step that fails"
                assert await servicer.Cancel(empty_pb2.Empty(), Context()) == empty_pb2.Empty()
                engine.ended.set()
            return await asyncio.wait_for(made, 20)

        try:
            # Pulumi keeps its settings in context variables: what is set in a copy never reaches other tests.
            return contextvars.copy_context().run(asyncio.run, asked())
        finally:
            server.stop(None).wait()

    with ThreadPoolExecutor() as threads:
        yield run


def test_a_component_is_made_of_inputs_on_the_wire_and_gives_its_outputs_back(construct: Construct) -> None:
    engine = Engine()
    made = construct(engine, pool={"gpu": "L4", "nodes": {"max": 4}, "diskGib": 100}, poolName="l4")
    pools = [each for each in engine.resources if each.type.endswith(":NodePool")]

    assert made.urn.endswith("::gpupools:index:GpuNodePool::train")
    assert set(made.state) == set(package.schema()["resources"][POOL]["properties"])
    assert plain_struct(made.state)["capacity"] == {"nvidia.com/gpu": 1}
    assert plain_struct(made.state)["pod"]["nodeSelector"] == {"gpupools/pool": "l4"}
    assert [each.inputs["nodeConfig"]["diskSizeGb"] for each in pools] == [100]
    assert engine.failed == []


def test_the_software_of_a_cluster_is_made_so_too(construct: Construct) -> None:
    made = construct(Engine(), RUNTIME, pools={"my-pool": {"gpu": "L4", "nodes": {"max": 4}}})

    assert made.urn.endswith("::gpupools:index:GpuRuntime::train")
    assert {key: list(value) for key, value in plain_struct(made.state).items()} == {
        "owners": ["my-pool"],
        "pods": ["my-pool"],
    }


REFUSED = [
    pytest.param(
        {"gpu": "L4", "nodes": {"max": 4}, "diskGib": 1},
        "pool.diskGib: got 1; ",
        id="as a program in another language spells it",
    ),
    pytest.param(
        {"gpu": "L4", "nodes": {"max": 4}, "disk_gib": 1},
        "pool.disk_gib: unknown argument; did you mean 'diskGib'?",
        id="as this program spelt what nobody knows",
    ),
]


@pytest.mark.parametrize(("pool", "said"), REFUSED)
def test_a_refused_component_fails_in_a_step_and_is_no_error_of_its_program(
    construct: Construct, pool: dict[str, Any], said: str
) -> None:
    engine = Engine()
    answer = construct(engine, pool=pool)

    ((kind, name, message),) = engine.failed
    assert (kind, name) == ("gpupools:refused:GpuNodePool", "train")
    assert message.startswith(said)
    assert answer == provider_pb2.ConstructResponse()


@pytest.mark.parametrize(("pool", "said"), REFUSED)
def test_an_engine_without_hooks_is_answered_with_the_reason(
    construct: Construct, pool: dict[str, Any], said: str
) -> None:
    with pytest.raises(Aborted) as aborted:
        construct(Engine(hooks=False), pool=pool)

    code, message = aborted.value.args
    assert code == "INVALID_ARGUMENT"
    assert message.startswith(said)


def test_the_process_serves_these_answers_to_the_engine_that_started_it(
    host: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = import_module("gpupools.components.serve")
    started: list[Any] = []
    monkeypatch.setattr(served, "main", lambda *given: started.append((*given, declared_components.hosted)))
    monkeypatch.setattr(served.server, "ProviderServicer", served.server.ProviderServicer)
    monkeypatch.setattr(declared_components, "hosted", False)
    monkeypatch.setattr(sys, "argv", ["components", "127.0.0.1:1", "--logtostderr"])
    served.serve()

    ((provider, arguments, hosted),) = started
    assert isinstance(provider, host.Components)
    assert provider.version == version()
    assert json.loads(provider.schema) == package.schema()
    assert (arguments, hosted) == (["127.0.0.1:1", "--logtostderr"], True)
    assert served.server.ProviderServicer is host.Servicer
