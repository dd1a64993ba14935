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


PRODUCTION = """
config:
  gpupools:production: true
  gpupools:clusters:
    train:
      cloud: aws
      name: judged
      region: us-east-1
      subnet_ids: [subnet-0a1b2c3d4e5f60718]
      node_role_arn: arn:aws:iam::123456789012:role/gpu-nodes
  gpupools:pools:
    all: {clusters: [train], gpu: L4, nodes: {max: 3}, upgrade: {max_unavailable: 3}}
    one: {clusters: [train], gpu: L4, nodes: {max: 3}}
"""


@pytest.fixture(scope="module")
def judged(engine: Engine) -> tuple[Path, str]:
    """Return the file of a production stack that was updated once, and its state."""
    file = engine.repository / "stacks" / "Pulumi.judged.yaml"
    engine.run("stack", "init", "judged").succeeded()
    file.write_text(file.read_text(encoding="utf-8") + PRODUCTION, encoding="utf-8")
    engine.up("judged").succeeded()
    return file, engine.run("stack", "export", "--stack", "judged").succeeded().output.strip()


@pytest.mark.parametrize(("pool", "allow", "code"), [("all", False, 3), ("all", True, 0), ("one", False, 0)], ids=str)
def test_inputs_of_another_release_are_judged_alike_by_the_diff_and_the_update(
    engine: Engine, judged: tuple[Path, str], pool: str, allow: bool, code: int, tmp_path: Path
) -> None:
    file, exported = judged
    before, state = file.read_text(encoding="utf-8"), json.loads(exported)
    for each in state["deployment"]["resources"]:  # as if the last update had declared other inputs
        if each["urn"].endswith(f"::train-{pool}-template"):
            each["inputs"]["metadataOptions"]["httpPutResponseHopLimit"] = 5
            each["outputs"]["metadataOptions"]["httpPutResponseHopLimit"] = 5
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    engine.run("stack", "import", "--stack", "judged", "--file", str(tmp_path / "state.json")).succeeded()
    allowed = f"  gpupools:allow_disruption: [train/{pool}]\n" if allow else ""
    file.write_text(before.replace("config:\n", f"config:\n{allowed}"), encoding="utf-8")
    done = len(engine.journal())
    diff = engine.gpupools("diff", "--state", str(tmp_path / "state.json"), str(file))
    preview = engine.run("preview", "--stack", "judged")
    up = engine.up("judged")
    file.write_text(before, encoding="utf-8")

    assert (diff.code, preview.code == 0, up.code == 0) == (code, code == 0, code == 0), (diff, preview, up)
    did = [each["name"].rpartition("-")[0] for each in engine.journal()[done:]]
    refusal = "train/all: is a production pool, and this update would end pods on up to 3 nodes at once"
    assert [refusal in each.output for each in (preview, up)] == [code == 3] * 2
    assert ("train/all is a production pool; if this is intended" in diff.output) == (code == 3)
    assert ("allowed by gpupools:allow_disruption" in diff.output) == allow
    assert did == ([] if code else [f"train-{pool}-template", f"train-{pool}-nodes"])
