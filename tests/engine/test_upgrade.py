"""States of released versions, upgraded by the real engine: no pool is replaced or deleted."""

import json
from pathlib import Path

import pytest

from tests.engine.cli import Engine
from tests.engine.stand_in import AGENT_POOL, LAUNCH_TEMPLATE, NODE_GROUP, NODE_POOL
from tests.gpupools.test_state import STATES

pytestmark = pytest.mark.engine


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
