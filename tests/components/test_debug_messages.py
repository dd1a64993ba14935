"""The program goes on while its debug messages travel to the engine."""

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import grpc
import pulumi
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from gpupools.stacks.debug_messages import send_debug_messages_in_background

TIMEOUT_S = 20.0


class Engine(engine_pb2_grpc.EngineServicer):
    """An engine that takes messages only while the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.said: list[tuple[int, str]] = []
        self.address = ""

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        assert self.gate.wait(TIMEOUT_S)
        self.said.append((request.severity, request.message))
        return empty_pb2.Empty()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    served = Engine()
    server = grpc.server(ThreadPoolExecutor(1))
    engine_pb2_grpc.add_EngineServicer_to_server(served, server)
    served.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    with grpc.insecure_channel(served.address) as channel:
        stub = engine_pb2_grpc.EngineStub(channel)
        monkeypatch.setattr(pulumi.runtime.settings, "get_engine", lambda: stub)
        yield served
        served.gate.set()
    server.stop(None)


def test_the_program_goes_on_and_the_order_stays(engine: Engine) -> None:
    send_debug_messages_in_background()
    send_debug_messages_in_background()  # a second time changes nothing

    for number in range(50):
        pulumi.log.debug(f"step {number}")  # would wait for ever, since the engine takes none

    assert engine.said == []
    engine.gate.set()
    pulumi.log.warn("careful")
    assert (engine_pb2.WARNING, "careful") in engine.said  # the answer was waited for

    while len(engine.said) < 51:
        pass
    assert [text for level, text in engine.said if level == engine_pb2.DEBUG] == [f"step {n}" for n in range(50)]


def test_a_program_that_ends_has_sent_all(engine: Engine) -> None:
    program = f"""
        import grpc, pulumi
        from pulumi.runtime.proto import engine_pb2_grpc
        from gpupools.stacks.debug_messages import send_debug_messages_in_background
        stub = engine_pb2_grpc.EngineStub(grpc.insecure_channel({engine.address!r}))
        pulumi.runtime.settings.get_engine = lambda: stub
        send_debug_messages_in_background()
        for number in range(30):
            pulumi.log.debug(str(number))
    """
    engine.gate.set()
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=TIMEOUT_S)

    assert [text for _, text in engine.said] == [str(number) for number in range(30)]


def talk_on() -> None:
    for _ in range(1_000_000):
        pulumi.log.debug("more")


def test_an_engine_that_is_gone_stops_no_message_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    class Gone(engine_pb2_grpc.EngineStub):
        def __init__(self) -> None:
            self.Log = self.fail  # type: ignore[assignment]

        def fail(self, request: Any) -> Any:
            tried.set()
            raise ConnectionError("the engine is gone")

    stub = Gone()
    monkeypatch.setattr(pulumi.runtime.settings, "get_engine", lambda: stub)
    send_debug_messages_in_background()

    pulumi.log.debug("one")
    assert tried.wait(TIMEOUT_S)
    with pytest.raises(ConnectionError):  # as it was without the thread
        talk_on()


def test_what_is_no_engine_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SimpleNamespace(Log=print)
    monkeypatch.setattr(pulumi.runtime.settings, "get_engine", lambda: log)

    send_debug_messages_in_background()

    assert log.Log is print
