"""One judge: every command, and the update itself, refuse the same edits and the same inputs of another release."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.clusters import AKS, EKS, GKE
from tests.report.test_command import git

pytestmark = pytest.mark.engine

DESTROY, DISRUPTION = "gpupools:allow_destroy", "gpupools:allow_disruption"
CLUSTERS = {"train": EKS, "serve": AKS, "lab": GKE}
POOLS: Mapping[str, dict[str, Any]] = {
    "train": {"instance_type": "g6e.12xlarge"},
    "serve": {"instance_type": "Standard_NC24ads_A100_v4"},
    "lab": {"instance_type": "g2-standard-8"},
}
AT_ONCE = {"nodes": {"max": 3}, "upgrade": {"max_unavailable": 3}}
DRAINED: Mapping[str, dict[str, Any]] = {
    "train": {"disk_gib": 400},
    "serve": {"image": {"family": "azure-linux"}},
    "lab": {"disk_gib": 400},
}
REPLACED: Mapping[str, dict[str, Any]] = {
    "train": {"instance_type": "g6e.24xlarge"},
    "serve": {"disk_gib": 400},
    "lab": {"capacity": {"mode": "spot"}},
}
EDITS: Mapping[str, tuple[dict[str, Any], Mapping[str, dict[str, Any]], str]] = {
    "labels": ({}, {key: {"labels": {"team": "a"}} for key in CLUSTERS}, ""),
    "drained": ({}, DRAINED, ""),
    "atonce": (AT_ONCE, DRAINED, DISRUPTION),
    "evicted": ({}, {key: {"taints": ["team=a:NoExecute"]} for key in CLUSTERS}, DISRUPTION),
    "replaced": ({}, REPLACED, DESTROY),
}
"""By a part of the pool's name: what it has beside the others, the edit by cluster, and the key that allows it."""


@dataclass(frozen=True)
class Stack:
    """A production stack that was updated once, on GKE with an encrypted address."""

    engine: Engine
    file: Path
    config: Mapping[str, Any]
    state: str

    @property
    def pools(self) -> dict[str, Any]:
        pools: dict[str, Any] = self.config["gpupools:pools"]
        return pools

    def write(self, pools: Mapping[str, Any], **keys: Any) -> None:
        kept = yaml.safe_load(self.file.read_text(encoding="utf-8"))
        edited = {f"gpupools:{key}": value for key, value in ({"pools": pools} | keys).items()}
        self.file.write_text(yaml.safe_dump(kept | {"config": {**self.config, **edited}}), encoding="utf-8")

    def updates(self) -> dict[str, CommandResult]:
        return {"preview": self.engine.run("preview", "--stack", "roads"), "up": self.engine.up("roads")}


@pytest.fixture(scope="module")
def stack(engine: Engine) -> Stack:
    engine.run("stack", "init", "roads").succeeded()
    file = engine.repository / "stacks" / "Pulumi.roads.yaml"
    pools = {
        f"{cluster[0]}{edit}": {"clusters": [cluster], "nodes": {"max": 4}, **POOLS[cluster], **base}
        for edit, (base, _, _) in EDITS.items()
        for cluster in CLUSTERS
    }
    config = {"gpupools:production": True, "gpupools:clusters": CLUSTERS, "gpupools:pools": pools}
    file.write_text(file.read_text(encoding="utf-8") + yaml.safe_dump({"config": config}), encoding="utf-8")
    secret = ("gpupools:clusters.lab.service_account", GKE["service_account"])
    engine.run("config", "set", "--secret", "--path", "--stack", "roads", *secret).succeeded()
    engine.up("roads").succeeded()
    state = engine.run("stack", "export", "--stack", "roads").succeeded().output.strip()
    return Stack(engine, file, yaml.safe_load(file.read_text(encoding="utf-8"))["config"], state)


REFUSAL = "if this is intended.*add [^ ]+ to "


def verdicts(ran: CommandResult, words: str) -> dict[str, str]:
    """Return the pools of which a command says these words, each with the key that is named behind them."""
    found: dict[str, str] = {}
    pool = ""
    for each in re.finditer(rf"\b((?:train|serve|lab)/[a-z]+)|{words}(gpupools:\w+)", ran.output):
        pool = each[1] or pool
        if each[2]:
            found[pool] = each[2]
    return found


PASSING = [
    ("train", "tdrained-template", "metadataOptions.httpPutResponseHopLimit", 5),
    ("serve", "sdrained-pool", "osSKU", "AzureLinux"),
    ("lab", "ldrained-nodes", "nodeConfig.diskSizeGb", 150),
    ("serve", "slabels-pool", "workloadRuntime", "OCIContainer"),
]
"""Inputs of the last update whose change drains nodes one by one, and one whose effect nobody knows."""
REFUSED = [
    ("train", "tatonce-template", "metadataOptions.httpPutResponseHopLimit", 5, DISRUPTION),
    ("serve", "satonce-pool", "osSKU", "AzureLinux", DISRUPTION),
    ("lab", "latonce-nodes", "nodeConfig.diskSizeGb", 150, DISRUPTION),
    ("train", "treplaced-nodes", "capacityType", "SPOT", DESTROY),
    ("serve", "sreplaced-pool", "osDiskSizeGB", 100, DESTROY),
    ("lab", "lreplaced-nodes", "nodeConfig.spot", True, DESTROY),
]
"""Inputs whose change ends pods of several nodes, or replaces the pool by the tables."""


def declared(
    stack: Stack, path: Path, rows: Sequence[tuple[Any, ...]], **keys: Sequence[str]
) -> dict[str, CommandResult]:
    """Return what each command says of inputs that the last update declared otherwise."""
    state = json.loads(stack.state)
    resources = {each["urn"].rpartition("::")[2]: each for each in state["deployment"]["resources"]}
    for cluster, name, input_path, value, *_ in rows:
        for side in ("inputs", "outputs"):
            *above, last = input_path.split(".")
            reduce(getitem, above, resources[f"{cluster}-{name}"][side])[last] = value
    path.write_text(json.dumps(state), encoding="utf-8")
    stack.write(stack.pools, **keys)
    stack.engine.run("stack", "import", "--stack", "roads", "--file", str(path)).succeeded()
    return {
        "diff --state": stack.engine.gpupools("diff", "--state", str(path), str(stack.file)),
        "diff --stack": stack.engine.gpupools("diff", "--stack", "roads"),
        **stack.updates(),
    }


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[1])
def test_every_road_refuses_the_same_inputs_of_another_release(
    stack: Stack, row: tuple[Any, ...], tmp_path: Path
) -> None:
    before = stack.engine.journal()
    cluster, name, *_, key = row
    roads = declared(stack, tmp_path / "state.json", (row,))

    wanted = {f"{cluster}/{name.partition('-')[0]}": key}
    said = {road: verdicts(ran, REFUSAL) for road, ran in roads.items()}
    # The engine's own words for a replacement.
    protected = rf'unable to replace resource "urn:[^"]*::{cluster}-{name}"\s+as it is currently marked for protection'
    found = [road for road, ran in roads.items() if said[road] == wanted or re.search(protected, ran.output)]
    assert found == [*roads], [ran.output for ran in roads.values()]
    assert list(said.values())[:2] == [wanted] * 2
    assert key == DESTROY or list(said.values()) == [wanted] * 4
    assert [ran.code for ran in roads.values()][:2] == [3, 3]
    assert 0 not in [ran.code for ran in roads.values()]
    assert stack.engine.journal() == before
    assert not any(GKE["service_account"] in ran.output for ran in roads.values())


def test_every_road_passes_what_is_allowed_what_drains_node_by_node_and_what_nobody_knows(
    stack: Stack, tmp_path: Path
) -> None:
    ending = [row for row in REFUSED if row[-1] == DISRUPTION]
    wanted = {f"{cluster}/{name.partition('-')[0]}": key for cluster, name, *_, key in ending}
    done = len(stack.engine.journal())
    roads = declared(stack, tmp_path / "state.json", [*PASSING, *ending], allow_disruption=[*wanted])

    assert [ran.code for ran in roads.values()] == [0] * 4, [ran.output for ran in roads.values()]
    diffs = [roads[f"diff --{road}"] for road in ("state", "stack")]
    assert [verdicts(ran, "allowed by ") for ran in diffs] == [wanted] * 2
    assert all("serve/slabels: effect unknown until pulumi preview" in ran.output for ran in diffs)
    did = [each["op"] for each in stack.engine.journal()[done:]]
    assert did == ["update"] * (len(PASSING) + len(ending) + 2)  # and the node groups of two launch templates


def test_every_road_refuses_and_allows_the_same_edits(stack: Stack, tmp_path: Path) -> None:
    # The last test: its update gives a pool of AKS another name than the recorded state has.
    engine, keys = stack.engine, {key for *_, key in EDITS.values() if key}
    (tmp_path / "Pulumi.roads.yaml").write_bytes(stack.file.read_bytes())
    (tmp_path / "state.json").write_text(stack.state, encoding="utf-8")
    at = ("-C", str(engine.repository))
    git(*at, "init", "-q")
    git(*at, "add", "stacks")
    git(*at, "commit", "-qm", "x")
    of = {f"{cluster}/{cluster[0]}{edit}": (cluster, edit) for edit in EDITS for cluster in CLUSTERS}
    new = {key.partition("/")[2]: EDITS[edit][1][cluster] for key, (cluster, edit) in of.items()}
    new = {name: stack.pools[name] | edit for name, edit in new.items()}
    wanted = {key: EDITS[edit][2] for key, (_, edit) in of.items() if EDITS[edit][2]}

    def roads() -> dict[str, CommandResult]:
        report = ("report", "--since", "HEAD", "--format", "markdown", "--no-policies", "stacks/Pulumi.roads.yaml")
        return {
            "diff OLD NEW": engine.gpupools("diff", str(tmp_path / "Pulumi.roads.yaml"), str(stack.file)),
            "diff --state": engine.gpupools("diff", "--state", str(tmp_path / "state.json"), str(stack.file)),
            "diff --stack": engine.gpupools("diff", "--stack", "roads"),
            "report": engine.gpupools(*report),
            **stack.updates(),
        }

    stack.write(new)
    before = engine.journal()
    refused = roads()
    assert {road: verdicts(ran, REFUSAL) for road, ran in refused.items()} == dict.fromkeys(refused, wanted)
    assert [ran.code for ran in refused.values()][:4] == [3] * 4
    assert 0 not in [ran.code for ran in refused.values()]
    assert engine.journal() == before

    # Of GKE, the update before has to remove the protection.
    del wanted["lab/lreplaced"]
    new["lreplaced"] = stack.pools["lreplaced"]
    allow = {key.partition(":")[2]: [name for name, its in wanted.items() if its == key] for key in keys}
    stack.write(new, **allow)
    passed = roads()
    assert {road: verdicts(ran, "allowed by ") for road, ran in passed.items()} == dict.fromkeys(passed, wanted)
    assert [ran.code for ran in passed.values()] == [0] * 6, passed
