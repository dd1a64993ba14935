"""Sending the SDK's debug messages to the engine while the program goes on.

The SDK tells the engine each step of each resource, and waits for an answer each time: half of what a program of a
hundred pools does is that waiting (benchmarks/engine_cost.py). The engine shows the messages with `pulumi up --debug`
only, and does not say whether somebody asked for that, so that they are sent as ever, in their order, by a thread.
"""

import atexit
import queue
import threading
from typing import Any

import pulumi
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

AT_EXIT_S = 10.0
"""How long a program that has ended waits for an engine that does not take its last messages."""
MOST_WAITING = 10_000
"""Messages that may wait before the program waits for them, so that a slow engine costs no memory without end."""


def send_debug_messages_beside() -> None:
    """Let the running program go on while its debug messages travel; all others wait for their answer as before.

    Nothing happens where there is no engine, and where the SDK has none that can be told apart.
    """
    engine = pulumi.runtime.settings.get_engine()
    if not isinstance(engine, engine_pb2_grpc.EngineStub):
        return
    send: Any = getattr(engine, "Log", None)
    if send is None or isinstance(send, _Beside):
        return
    engine.Log = _Beside(send)  # type: ignore[assignment]


class _Beside:
    """`EngineStub.Log`, whose debug messages a thread sends."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._waiting: queue.Queue[Any] = queue.Queue(MOST_WAITING)
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
