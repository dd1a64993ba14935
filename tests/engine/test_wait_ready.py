"""`runtime.wait_ready` with the real engine: a wait that fails undoes nothing, and the next update waits again."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.cli import Engine
from tests.engine.stand_in import NODE_GROUP
from tests.gpupools.ready.api import serving, write_files
from tests.gpupools.ready.world import World

pytestmark = pytest.mark.engine


def test_up_waits_fails_with_the_causes_and_waits_again(engine: Engine, tmp_path: Path) -> None:
    world = World("train", "whole")
    world.heal()
    world.offer("h1", **{"nvidia.com/gpu": "7"})
    stack = ("--stack", "live")
    with serving(world) as api:
        file = write_files(world, f"http://127.0.0.1:{api.server_port}", tmp_path, {"token": "hunter2"})
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        document["config"]["gpupools:clusters"]["train"]["runtime"]["wait_ready"] = 10
        live = engine.repository / "stacks" / "Pulumi.live.yaml"

        def write(**pool: Any) -> None:
            document["config"]["gpupools:pools"]["whole"] |= pool
            kept = yaml.safe_load(live.read_text(encoding="utf-8")) if live.exists() else {}
            live.write_text(yaml.safe_dump({**kept, **document}), encoding="utf-8")

        write()
        engine.run("stack", "init", "live").succeeded()
        engine.run("preview", *stack).succeeded()
        assert api.requests == []

        shown = engine.up("live").failed().output
        assert "the pools of train are not ready, with runtime.wait_ready: 10; nothing is undone" in shown
        assert "cause: fewer GPUs than the machine has: Node h1" in shown
        assert [each["type"] for each in engine.resources(NODE_GROUP)] == [NODE_GROUP]
        state = engine.run("stack", "export", "--show-secrets", *stack).succeeded().output
        assert "gpupools:index:Protection" in state
        assert "gpupools:index:Readiness" not in state
        assert "hunter2" not in state

        before = len(engine.journal())
        world.heal()
        engine.up("live").succeeded()
        assert engine.journal()[before:] == []
        api.requests.clear()
        engine.up("live", "--expect-no-changes").succeeded()
        assert api.requests == []

        world.offer("h1", **{"nvidia.com/gpu": "7"})
        write(nodes={"min": 2, "max": 5})
        assert "fewer GPUs than the machine has" in engine.up("live").failed().output
        world.heal()
        assert "Readiness" in engine.up("live").succeeded().output
    shutil.rmtree(tmp_path / "kube")
    engine.run("destroy", "--yes", "--skip-preview", *stack).succeeded()
    assert engine.resources() == []
