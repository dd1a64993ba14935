"""A cluster that is replaced under another name while its kubeconfig keeps its path: the GPU software follows."""

from typing import Any

import pytest
import yaml

from tests.engine.cli import Engine
from tests.engine.clusters import GKE
from tests.engine.stand_in import IDENTIFIER

pytestmark = pytest.mark.engine

PATH = "/kubeconfigs/lab"
PROVIDER = "pulumi:providers:kubernetes"


def write(engine: Engine, name: str, **keys: Any) -> None:
    file = engine.repository / "stacks" / "Pulumi.moved.yaml"
    kept = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    cluster = {**GKE, "name": name, "kubeconfig": {"path": PATH}}
    pool = {"clusters": ["lab"], "gpu": "L4", "nodes": {"max": 2}, "software": "device-plugin"}
    config = {"gpupools:clusters": {"lab": cluster}, "gpupools:pools": {"a": pool}, **keys}
    file.write_text(yaml.safe_dump({**kept, "config": config}), encoding="utf-8")


def software(engine: Engine) -> set[tuple[str, str]]:
    """Return what the cluster has that is behind the path now, and what was abandoned in its predecessors."""
    return {(each["type"], each["id"]) for each in engine.resources() if each["type"].startswith("kubernetes:")}


def move(engine: Engine, name: str, **keys: Any) -> list[tuple[str, str]]:
    """Replace the cluster behind the path and in the file; return what the update does to the software."""
    before = len(engine.journal())
    engine.behind(PATH, name)
    write(engine, name, **keys)
    engine.up("moved").succeeded()
    return [(each["op"], each["name"]) for each in engine.journal()[before:] if each["type"].startswith("kubernetes:")]


def test_another_cluster_behind_the_same_path_gets_the_software(engine: Engine) -> None:
    write(engine, "lab-1")
    engine.run("stack", "init", "moved").succeeded()
    made = move(engine, "lab-1")
    wanted = software(engine)
    assert made
    assert IDENTIFIER in engine.configured("kubernetes")[-1]

    write(engine, "lab-2")
    said = engine.gpupools("diff", "--stack", "moved").succeeded()
    assert "lab: changes access to the cluster's API\n  the stack file names another cluster" in said.output
    moved = move(engine, "lab-2")
    assert sorted(moved) == sorted(made)
    assert software(engine) == wanted
    engine.run("preview", "--expect-no-changes", "--stack", "moved").succeeded()

    production: dict[str, Any] = {"gpupools:production": True}
    assert move(engine, "lab-2", **production) == []
    write(engine, "lab-3", **production)
    assert "lab has software of the production pool a" in engine.gpupools("diff", "--stack", "moved").failed().output
    assert "lab: has software of the production pool a" in engine.up("moved").failed().output
    allowed = production | {"gpupools:allow_destroy": ["lab", "lab/a"]}
    assert move(engine, "lab-2", **allowed) == []  # which removes the protection
    assert sorted(move(engine, "lab-3", **allowed)) == sorted(made)


def test_a_move_that_breaks_off_is_told_and_finished_by_the_next_update(engine: Engine) -> None:
    allowed: dict[str, Any] = {"gpupools:production": True, "gpupools:allow_destroy": ["lab", "lab/a"]}
    write(engine, "lab-3", **allowed)
    wanted = {each["id"] for each in engine.resources() if each["type"].startswith("kubernetes:")}
    engine.behind(PATH, "lab-4")
    write(engine, "lab-4", **allowed)
    engine.misbehave("fail", calls=("create",), urn="runtime-nvidia-device-plugin$")
    engine.up("moved").failed()
    state = engine.folder / "moved.json"
    state.write_text(engine.run("stack", "export", "--stack", "moved").succeeded().output, encoding="utf-8")
    said = engine.gpupools("orphans", str(state)).failed()
    assert "moved: the replacement of " in said.output
    assert "finish it with the same stack file; delete nothing by hand: pulumi up --stack moved" in said.output

    engine.misbehave()
    engine.up("moved").succeeded()
    assert {each["id"] for each in engine.resources() if each["type"].startswith("kubernetes:")} == wanted
    engine.run("preview", "--expect-no-changes", "--stack", "moved").succeeded()
