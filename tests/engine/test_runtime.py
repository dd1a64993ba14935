"""The GPU software of a cluster whose API cannot always be reached: the pools stay, and the next run goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.stand_in import NODE_POOL

pytestmark = pytest.mark.engine

RELEASE = "kubernetes:helm.sh/v3:Release"

STACK: dict[str, Any] = {
    "gpupools:clusters": {
        "lab": {
            "cloud": "gcp",
            "name": "lab-dev",
            "project": "ml-dev",
            "location": "europe-west4",
            "service_account": "gpu@ml.iam.gserviceaccount.com",
            "endpoint": "34.90.1.2",
            "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
            "runtime": {"smoke_test": True, "kubernetes": "1.34.2"},
        },
    },
    "gpupools:pools": {
        "plugin": {
            "clusters": ["lab"],
            "gpu": "L4",
            "nodes": {"max": 2},
            "software": "device-plugin",
        },
        "operator": {
            "clusters": ["lab"],
            "gpu": "L4",
            "nodes": {"max": 2},
            "software": "gpu-operator",
        },
        "claimed": {
            "clusters": ["lab"],
            "gpu": "L4",
            "nodes": {"min": 1, "max": 2},
            "zones": ["europe-west4-a"],
            "software": "dra-driver",
        },
    },
}


@dataclass(frozen=True)
class Step:
    """One command, what it did in the clouds and the clusters, and what is there afterwards."""

    ran: CommandResult
    did: list[tuple[str, str]]
    """Operation and type, in order."""
    has: list[str]
    """Types of what exists afterwards."""
    names: list[str]
    """Type and name of what `did` did it to."""

    def on_pools(self) -> list[tuple[str, str]]:
        return [(operation, kind) for operation, kind in self.did if kind == NODE_POOL]


@dataclass(frozen=True)
class Life:
    unreachable: Step
    reachable: Step
    settled: Step
    changed_unreachable: Step
    changed: Step
    destroyed: Step


@pytest.fixture(scope="module")
def life(engine: Engine) -> Life:
    """Live it once; the tests look at its steps."""
    file = engine.repository / "stacks" / "Pulumi.runtime.yaml"

    def write(stack: Mapping[str, Any]) -> None:
        kept = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
        file.write_text(yaml.safe_dump({**kept, "config": stack}), encoding="utf-8")

    def step(*arguments: str) -> Step:
        before = len(engine.journal())
        ran = engine.run(*arguments, "--yes", "--skip-preview", "--stack", "runtime")
        entries = engine.journal()[before:]
        did = [(entry["op"], entry["type"]) for entry in entries]
        names = [f"{entry['type'].rpartition(':')[2]} {entry['name']}" for entry in entries]
        return Step(ran, did, [resource["type"] for resource in engine.resources()], names)

    write(STACK)
    engine.run("stack", "init", "runtime").succeeded()
    engine.unreachable("kubernetes")
    unreachable = step("up", "--continue-on-error")
    engine.unreachable()
    reachable, settled = step("up"), step("up", "--expect-no-changes")
    pools = STACK["gpupools:pools"]
    shared = {**pools["plugin"], "sharing": {"mode": "time-slicing", "replicas": 4}}
    write({**STACK, "gpupools:pools": {**pools, "plugin": {**shared, "trust": {"team": "vision"}}}})
    engine.unreachable("kubernetes")
    changed_unreachable = step("up", "--continue-on-error")
    engine.unreachable()
    changed = step("up")
    return Life(unreachable, reachable, settled, changed_unreachable, changed, step("destroy", "--continue-on-error"))


def test_a_cluster_that_cannot_be_reached_fails_the_run_but_leaves_its_pools(life: Life) -> None:
    shown = life.unreachable.ran.failed().output

    assert "the kubernetes API is unreachable" in shown
    assert life.unreachable.on_pools() == [("create", NODE_POOL)] * 3
    assert [kind for kind in life.unreachable.has if kind.startswith("kubernetes:")] == []


def test_the_next_run_finishes_only_what_is_missing(life: Life) -> None:
    life.reachable.ran.succeeded()

    assert life.reachable.on_pools() == []
    assert {operation for operation, _ in life.reachable.did} == {"create"}
    assert {kind.partition(":")[0] for _, kind in life.reachable.did} == {"kubernetes"}
    assert life.reachable.has.count(RELEASE) >= 3
    assert "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate" in life.reachable.has


def test_a_run_after_it_changes_nothing(life: Life) -> None:
    life.settled.ran.succeeded()

    assert life.settled.did == []


def test_a_change_that_cannot_reach_the_cluster_deletes_nothing(life: Life) -> None:
    life.changed_unreachable.ran.failed()

    assert [entry for entry in life.changed_unreachable.did if entry[0] == "delete"] == []
    assert life.changed_unreachable.has.count(RELEASE) == life.settled.has.count(RELEASE)


def test_the_change_is_finished_when_the_cluster_answers(life: Life) -> None:
    life.changed.ran.succeeded()

    assert ("update", RELEASE) in life.changed.did
    assert [entry for entry in life.changed.on_pools() if entry[0] != "update"] == []


def test_nodes_name_a_configuration_only_once_it_and_its_reader_are_there(life: Life) -> None:
    """The plugin pool becomes shared: its label names an entry of a ConfigMap that the release has to mount."""
    assert life.changed_unreachable.on_pools() == []

    config = next(each for each in life.changed.names if each.startswith("ConfigMap gpupools-device-plugin-"))
    order = [life.changed.names.index(each) for each in (config, "Release nvidia-device-plugin", _shared(life))]
    assert order == sorted(order)


def test_destroy_takes_the_software_before_the_pools_that_name_nothing_and_leaves_nothing(life: Life) -> None:
    life.destroyed.ran.succeeded()

    gone = life.destroyed.names
    pools = [each for each in gone if each.startswith("NodePool ")]
    assert gone.index(_shared(life)) < gone.index("Release nvidia-device-plugin")
    assert len(pools) == 3
    for pool in pools:
        if pool != _shared(life):
            software = "gpu-operator" if "operator" in pool else "dra-driver-nvidia-gpu"
            assert gone.index(f"Release {software}") < gone.index(pool)
    assert life.destroyed.has == []


def _shared(life: Life) -> str:
    (pool,) = (each for each in life.changed.names if each.startswith("NodePool ") and "plugin" in each)
    return pool


def test_what_is_among_the_stacks_secrets_stays_secret_in_the_state(engine: Engine) -> None:
    file = engine.repository / "stacks" / "Pulumi.secret.yaml"
    clusters = {"lab": {**STACK["gpupools:clusters"]["lab"]}}
    for key in ("endpoint", "certificate_authority", "runtime"):
        del clusters["lab"][key]
    pool = {"plugin": STACK["gpupools:pools"]["plugin"]}
    file.write_text(yaml.safe_dump({"config": {"gpupools:clusters": clusters, "gpupools:pools": pool}}))
    engine.run("stack", "init", "secret").succeeded()
    key = "gpupools:clusters.lab.kubeconfig.secret"
    engine.run("config", "set", "--secret", "--path", key, "token: hunter2", "--stack", "secret").succeeded()
    key = "gpupools:clusters.lab.service_account"
    engine.run(
        "config", "set", "--secret", "--path", key, "hunter3@ml.iam.gserviceaccount.com", "--stack", "secret"
    ).succeeded()
    engine.up("secret").succeeded()

    state = engine.run("stack", "export", "--stack", "secret").succeeded().output
    shown = engine.run("stack", "export", "--show-secrets", "--stack", "secret").succeeded().output
    for secret in ("hunter2", "hunter3"):
        assert secret not in file.read_text(encoding="utf-8")
        assert secret not in state
        assert secret in shown
