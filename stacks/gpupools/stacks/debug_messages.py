"""Send the SDK's debug messages to the engine in the background.

The SDK logs each step of each resource and waits for the engine's answer: half of the time of a program with a hundred
pools (benchmarks/engine_cost.py). The engine shows the messages only with `pulumi up --debug` and does not tell the
program about that option, so a thread still sends all of them, in order.
"""

import atexit
import queue
import threading
from typing import Any

import pulumi
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

AT_EXIT_S = 10.0
"""How many seconds the program waits at its end until the engine has received the last messages."""
MAX_QUEUED = 10_000
"""Limit of queued messages, so that a slow engine cannot exhaust memory; then the program waits."""


def send_debug_messages_in_background() -> None:
    """Send debug messages in the background from now on; other messages still wait for the engine's answer.

    Does nothing without an engine or with an unknown SDK version.
    """
    engine = pulumi.runtime.settings.get_engine()
    if not isinstance(engine, engine_pb2_grpc.EngineStub):
        return
    send: Any = getattr(engine, "Log", None)
    if send is None or isinstance(send, _BackgroundLog):
        return
    engine.Log = _BackgroundLog(send)  # type: ignore[assignment]


class _BackgroundLog:
    """`EngineStub.Log` that sends debug messages from a thread."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._waiting: queue.Queue[Any] = queue.Queue(MAX_QUEUED)
        self._gone = False
        self._thread = threading.Thread(target=self._run, name="debug messages", daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def __call__(self, request: Any, *arguments: Any, **options: Any) -> Any:
        if request.severity != engine_pb2.DEBUG or arguments or options or self._gone:
            return self._send(request, *arguments, **options)
        self._waiting.put(request)
        return None

    def _run(self) -> None:
        while (request := self._waiting.get()) is not None:
            try:
                if not self._gone:
                    self._send(request)
            except Exception:  # the next message of the program meets the same error, where the SDK handles it
                self._gone = True

    def _end(self) -> None:
        self._waiting.put(None)
        self._thread.join(AT_EXIT_S)
