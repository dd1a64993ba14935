"""What a production stack refuses to destroy, what its switch allows, and what changes nothing."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.clusters import AKS, EKS, GKE
from tests.engine.stand_in import AGENT_POOL, NODE_GROUP, NODE_POOL

pytestmark = pytest.mark.engine

CLUSTERS = {"train": EKS, "serve": AKS, "lab": GKE}
POOLS: dict[str, Any] = {
    "a": {"clusters": ["train"], "instance_type": "g6e.12xlarge", "nodes": {"max": 4}},
    "b": {"clusters": ["serve"], "instance_type": "Standard_NC24ads_A100_v4", "nodes": {"max": 4}},
    "c": {"clusters": ["lab"], "instance_type": "g2-standard-8", "nodes": {"max": 4}},
    "d": {"clusters": ["lab"], "instance_type": "g2-standard-4", "nodes": {"max": 2}},
}
EDITS: dict[str, Any] = {
    "a": {"instance_type": "g6e.24xlarge"},
    "b": {"disk_gib": 400},
    "c": {"capacity": {"mode": "spot"}},
}


LAB: dict[str, Any] = dict.fromkeys("defg", POOLS["d"])
"""Pools of one cloud, where nothing hangs on the cloud."""


@dataclass(frozen=True)
class Step:
    ran: CommandResult
    did: list[dict[str, Any]]
    """What was done in the clouds meanwhile."""

    def succeeded(self) -> list[tuple[str, str]]:
        """Return what was done to pools, as operation and type; fail when the command did not succeed."""
        self.ran.succeeded()
        return sorted((each["op"], each["type"]) for each in self.did if each["type"] in KINDS)

    def refused(self) -> list[str]:
        """Return the lines of the refusal; fail when anything was done, declared or shown besides."""
        shown = self.ran.failed().output
        assert self.did == []
        assert "nothing was declared:" in shown
        assert "GpuNodePool" not in shown
        lines = [line.strip() for line in shown.splitlines()]
        return sorted({line for line in lines if re.match(r"(train|serve|lab)/[a-z]: .*; ", line)})


KINDS = (NODE_GROUP, AGENT_POOL, NODE_POOL)


@dataclass(frozen=True)
class Stack:
    """A stack of the engine whose file is written anew for every command."""

    engine: Engine
    name: str

    def run(self, command: str, config: Mapping[str, Any]) -> Step:
        file = self.engine.repository / "stacks" / f"Pulumi.{self.name}.yaml"
        # `stack init` has written the salt of the passphrase into the file.
        kept = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
        # Every stack has clusters of its own, since the clouds are the same for all.
        own = {key: {**cluster, "name": f"{self.name}-{key}"} for key, cluster in CLUSTERS.items()}
        clusters = dict(reversed(own.items())) if config.get("turned") else own
        given = {key: value for key, value in config.items() if key != "turned"}
        text = {"config": {f"gpupools:{key}": value for key, value in ({"clusters": clusters} | given).items()}}
        file.write_text(yaml.safe_dump((kept or {}) | text, sort_keys=False), encoding="utf-8")
        before = len(self.engine.journal())
        ran = self.engine.run(*command.split(), "--stack", self.name)
        return Step(ran, self.engine.journal()[before:])

    def preview(self, **config: Any) -> Step:
        return self.run("preview", config)

    def up(self, *more: str, **config: Any) -> Step:
        return self.run(" ".join(("up --yes --skip-preview", *more)), config)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.engine.run("stack", "export", "--stack", self.name).succeeded().output)
        return found

    def urns(self) -> set[str]:
        return {resource["urn"] for resource in self.state()["deployment"]["resources"]}


@pytest.fixture(scope="module")
def stack(engine: Engine) -> Callable[[str], Stack]:
    """Return a function that makes an empty stack."""

    def init(name: str) -> Stack:
        engine.run("stack", "init", name).succeeded()
        return Stack(engine, name)

    return init


REFUSED = [
    (
        "lab/c: is a production pool, and this update would replace it (up to 4 nodes × 1 GPU): spot false →"
        " true; if this is intended: undo the edit, add lab/c to gpupools:allow_destroy, run pulumi up to"
        " remove the protection; then edit again and run pulumi up again"
    ),
    (
        "lab/d: is a production pool, and this update would delete it (up to 2 nodes × 1 GPU); if this is"
        " intended: restore the pool, add lab/d to gpupools:allow_destroy, run pulumi up to remove the protection; then"
        " delete it and run pulumi up again"
    ),
    (
        "serve/b: is a production pool, and this update would replace it (up to 4 nodes × 1 GPU): disk_gib 200 → 400;"
        " if this is intended, add serve/b to gpupools:allow_destroy"
    ),
    (
        "train/a: is a production pool, and this update would replace it (up to 4 nodes × 4 GPUs): instance_type"
        " g6e.12xlarge → g6e.24xlarge; if this is intended, add train/a to gpupools:allow_destroy"
    ),
]
SWITCH = ["train/a", "serve/b", "lab/c", "lab/d"]


def test_a_production_stack_lives(stack: Callable[[str], Stack]) -> None:
    """One life, since every step needs the one before it."""
    prod = stack("prod-life")
    first = prod.up(production=True, pools=POOLS)
    assert first.succeeded() == sorted([("create", NODE_GROUP), ("create", AGENT_POOL), *[("create", NODE_POOL)] * 2])
    assert "warning" not in first.ran.output

    urns = prod.urns()
    turned = dict(reversed(POOLS.items()))
    assert prod.up("--expect-no-changes", turned=True, pools=turned, production=True).succeeded() == []
    assert prod.urns() == urns

    edited = {name: POOLS[name] | EDITS[name] for name in "abc"}
    assert prod.preview(production=True, pools=edited).refused() == REFUSED
    assert prod.up(pools=edited).refused() == REFUSED

    # The switch is enough for a replacement on EKS and AKS; what is deleted, and what is replaced on GKE, is held to
    # the protection it had.
    held = prod.up(production=True, pools=edited, allow_destroy=SWITCH).refused()
    assert [line.partition(" has ended")[0] for line in held] == [
        f"{name}: is protected until an update with it in gpupools:allow_destroy" for name in ("lab/c", "lab/d")
    ]
    freed = prod.up(production=True, pools=POOLS | {name: edited[name] for name in "ab"}, allow_destroy=SWITCH)
    replaced = [(op, kind) for op in ("create", "delete") for kind in (NODE_GROUP, AGENT_POOL)]
    assert freed.succeeded() == sorted(replaced + [("update", NODE_POOL)] * 2)
    assert "gpupools:allow_destroy names lab/d, but this update does not destroy it" in freed.ran.output

    renamed = {"z": edited["a"] | {"renamed_from": "a"}, "b": edited["b"], "c": edited["c"]}
    last = prod.up(production=True, pools=renamed, allow_destroy=SWITCH[2:])
    assert ("create", NODE_POOL) in last.succeeded()
    assert last.succeeded().count(("delete", NODE_POOL)) == 2
    assert {op for op, kind in last.succeeded() if kind != NODE_POOL} == {"update"}


def test_dropping_more_than_half_of_any_stack_needs_every_name(stack: Callable[[str], Stack]) -> None:
    dev = stack("dev-half")
    dev.up(pools=LAB).succeeded()
    left = {"g": LAB["g"]}
    wanted = [
        f"lab/{name}: is one of 3 deleted pools out of 4, more than half, and this update would delete it (up"
        " to 2 nodes × 1 GPU);"
        f" if this is intended, add lab/{name} to gpupools:allow_destroy"
        for name in "def"
    ]

    assert dev.preview(pools=left).refused() == wanted
    assert dev.up(pools=left, allow_destroy=["lab/d"]).refused() == wanted[1:]
    assert len(dev.up(pools=left, allow_destroy=["lab/d", "lab/e", "lab/f"]).succeeded()) == 3


def test_a_state_without_records_is_said_and_its_deletions_are_still_seen(stack: Callable[[str], Stack]) -> None:
    prod = stack("prod-older")
    prod.up(production=True, pools=LAB).succeeded()
    state = prod.state()
    for resource in state["deployment"]["resources"]:
        resource.get("outputs", {}).pop("record", None)
    file = prod.engine.folder / "older.json"
    file.write_text(json.dumps(state), encoding="utf-8")
    prod.engine.run("stack", "import", "--stack", prod.name, "--file", str(file)).succeeded()

    said = prod.preview(production=True, pools=LAB).ran.succeeded().output
    # How often the live display repeats it depends on the machine.
    assert said.partition("Diagnostics:")[2].count("the last update left no record of lab/d, lab/e, lab/f, lab/g") == 1
    (refused,) = prod.preview(production=True, pools={name: LAB[name] for name in "efg"}).refused()
    assert refused == (
        "lab/d: is a production pool, and this update would delete it; if this is intended, add lab/d to"
        " gpupools:allow_destroy"
    )


def test_an_update_that_failed_half_way_leaves_what_the_next_one_needs(stack: Callable[[str], Stack]) -> None:
    prod = stack("prod-failed")
    pools = {name: POOLS[name] for name in "bd"}
    prod.engine.unreachable("azure-native")
    # Without the flag the engine may stop before it begins with the other cloud's pool.
    prod.up("--continue-on-error", production=True, pools=pools).ran.failed()
    prod.engine.unreachable()

    (refused,) = prod.preview(production=True, pools={"b": pools["b"]}).refused()
    assert refused.startswith("lab/d: is a production pool, and this update would delete it")
    prod.up(production=True, pools=pools).succeeded()
    (refused,) = prod.preview(production=True, pools=pools | {"b": pools["b"] | EDITS["b"]}).refused()
    assert refused.startswith("serve/b: is a production pool, and this update would replace it")
