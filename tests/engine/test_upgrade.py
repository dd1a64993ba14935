"""States of released versions, upgraded by the real engine: no pool is replaced or deleted."""

import json
import re
from pathlib import Path

import pytest

from tests.engine.cli import Engine
from tests.engine.stand_in import AGENT_POOL, LAUNCH_TEMPLATE, NODE_GROUP, NODE_POOL
from tests.gpupools.test_state import STATES

pytestmark = pytest.mark.engine

RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.mark.parametrize("state", sorted(STATES.glob("*.json")), ids=lambda state: state.name)
def test_an_upgrade_deletes_and_creates_no_pool(engine: Engine, state: object) -> None:
    engine.run("stack", "init", "acme").succeeded()
    file = engine.repository / "stacks" / "Pulumi.acme.yaml"
    salt = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(salt + (STATES / "Pulumi.acme.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    engine.run("stack", "import", "--stack", "acme", "--file", str(state)).succeeded()
    for each in json.loads(Path(str(state)).read_text(encoding="utf-8"))["deployment"]["resources"]:
        if each["type"] == AGENT_POOL:  # whose number of nodes the program asks AKS for
            engine.outside(AGENT_POOL, each["id"], each["inputs"], **each["outputs"])

    engine.up("acme").succeeded()

    kinds = (NODE_GROUP, LAUNCH_TEMPLATE, AGENT_POOL, NODE_POOL)
    assert [each for each in engine.journal() if each["type"] in kinds and each["op"] != "update"] == []
    after = json.loads(engine.run("stack", "export", "--stack", "acme").succeeded().output)
    assert {each["type"] for each in after["deployment"]["resources"]} >= set(kinds)


OPERATED = STATES / "operated"
"""A production stack of 25 November, with the driver of the GPU Operator and a pool that shares by MPS."""


def test_an_upgrade_that_ends_pods_is_refused_as_the_diff_says_until_the_file_allows_it(engine: Engine) -> None:
    file = engine.repository / "stacks" / "Pulumi.u7.yaml"
    engine.run("stack", "init", "u7").succeeded()
    salt, stack = file.read_text(encoding="utf-8"), (OPERATED / "Pulumi.u7.yaml").read_text(encoding="utf-8")
    file.write_text(salt + stack, encoding="utf-8")
    engine.run("stack", "import", "--stack", "u7", "--file", str(OPERATED / "state-u7.json")).succeeded()
    said = engine.gpupools("diff", "--stack", "u7")
    assert said.code == 3
    before = engine.journal()
    refused = engine.up("u7").failed().output
    for cluster, pool, what in (
        ("serve", "op", "end pods that have a GPU on op, node by node (chart gpu-operator v26.7.0)"),
        ("train", "mps", "end pods that share by MPS on mps, node by node (chart nvidia-device-plugin 0.20.0)"),
    ):
        fix = f"if this is intended, add {cluster}/{pool} to gpupools:allow_disruption"
        assert f"{cluster} has software of the production pool {pool}; {fix}" in said.output
        assert f"{cluster}: has software of the production pool {pool}, and this update would {what}; {fix}" in refused
    assert engine.journal() == before

    allowed = "  gpupools:allow_disruption: [serve/op, train/mps]\n"
    file.write_text(salt + stack.replace("config:\n", f"config:\n{allowed}"), encoding="utf-8")
    for each in json.loads((OPERATED / "state-u7.json").read_text(encoding="utf-8"))["deployment"]["resources"]:
        if each["type"] == AGENT_POOL:
            engine.outside(AGENT_POOL, each["id"], each["inputs"], **each["outputs"])
    up = engine.up("u7").succeeded()
    assert "node by node (chart gpu-operator v26.7.0); allowed by gpupools:allow_disruption" in up.output
    did = [(each["op"], each["name"]) for each in engine.journal()[len(before) :] if each["type"] == RELEASE]
    changed = set(re.findall(r"^\w+: .*(?:; |chart )([a-z-]+) [\dv.]*(?:the same|$)", said.output, re.MULTILINE))
    assert sorted(did) == sorted(("update", name) for name in changed)
    engine.run("preview", "--expect-no-changes", "--stack", "u7").succeeded()
