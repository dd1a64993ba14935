"""The queues of teams, whose kinds come with Kueue's own release: declared after it, and settled at once."""

import shutil
from pathlib import Path

import pytest

from tests.engine.cli import Engine

pytestmark = pytest.mark.engine

STACK = Path(__file__).parents[2] / "examples" / "teams" / "Pulumi.queues.yaml"
KUEUE_QUEUE = "ClusterQueue"
KUEUE, RELEASE = "kubernetes:kueue.x-k8s.io/", "kubernetes:helm.sh/v3:Release"


def test_kueue_comes_before_its_objects_and_nothing_changes_after_them(engine: Engine) -> None:
    shutil.copy(STACK, engine.repository / "stacks" / "Pulumi.queues.yaml")
    engine.run("stack", "init", "queues").succeeded()
    engine.up("queues").succeeded()

    done = engine.journal()
    assert {entry["op"] for entry in done} == {"create"}
    (release,) = (at for at, entry in enumerate(done) if (entry["type"], entry["name"]) == (RELEASE, "kueue"))
    objects = {at: entry["type"].rpartition(":")[2] for at, entry in enumerate(done) if entry["type"].startswith(KUEUE)}
    assert {"ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass"} < set(objects.values())
    assert release < min(objects)

    engine.run("preview", "--expect-no-changes", "--stack", "queues").succeeded()
    queues = [entry["name"] for entry in done if entry["type"].endswith(":ClusterQueue")]
    engine.admit(queues[0])
    held = engine.run("destroy", "--yes", "--skip-preview", "--stack", "queues").failed()
    assert "is not deleted after 600 s: finalizer kueue.x-k8s.io/resource-in-use" in held.output
    assert (KUEUE_QUEUE, queues[0]) in {(each["type"].rpartition(":")[2], each["id"]) for each in engine.resources()}
    engine.admit()
    done = engine.journal()
    engine.run("destroy", "--yes", "--skip-preview", "--stack", "queues").succeeded()
    gone = [(entry["type"], entry["name"]) for entry in engine.journal()[len(done) :]]
    assert max(at for at, (kind, _) in enumerate(gone) if kind.startswith(KUEUE)) < gone.index((RELEASE, "kueue"))
    assert engine.resources() == []
