"""User data that somebody set by hand, before the rules of production and the real engine."""

import base64
import json
from typing import Any

import pytest
import yaml

from tests.engine.cli import Engine
from tests.engine.stand_in import LAUNCH_TEMPLATE, NODE_GROUP

pytestmark = pytest.mark.engine

CLUSTER = {
    "cloud": "aws",
    "name": "train-prod",
    "region": "us-east-1",
    "subnet_ids": ["subnet-0000000a"],
    "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
}
SECRET = "hunter2hunter2"
USER_DATA = f'[settings.host-containers.admin]\nenabled = true\nsuperpowered = true\nuser-data = "{SECRET}"\n'
POOL: dict[str, Any] = {"clusters": ["train"], "gpu": "L4", "nodes": {"max": 2}, "labels": {"owner": "a", "team": "b"}}
RULE = "gpu-node-customised"


def test_production_stops_user_data_by_hand_until_it_has_a_reason(engine: Engine) -> None:
    given = base64.b64encode(USER_DATA.encode()).decode()
    pools = {"odd": POOL | {"overrides": {"aws": {"LaunchTemplate": {"userData": given}}}}, "plain": POOL}
    file = engine.repository / "stacks" / "Pulumi.by-hand.yaml"
    file.write_text(yaml.safe_dump({"config": {"gpupools:clusters": {"train": CLUSTER}, "gpupools:pools": pools}}))
    engine.run("stack", "init", "by-hand").succeeded()
    config = json.loads((engine.repository / "policies" / "policy-config.prod.json").read_text(encoding="utf-8"))

    def with_reasons(reasons: dict[str, str]) -> tuple[str, ...]:
        given = {**config, RULE: {**config[RULE], "reasons": reasons}}
        (engine.folder / "policy-config.json").write_text(json.dumps(given), encoding="utf-8")
        return ("--policy-pack", "policies", "--policy-pack-config", str(engine.folder / "policy-config.json"))

    stopped = engine.up("by-hand", *with_reasons({})).failed().output
    (line,) = {each.strip() for each in stopped.splitlines() if "user-data by hand: " in each}
    assert [each for each in stopped.splitlines() if "[mandatory]" in each and RULE in each]
    assert "odd/user-data" in line
    assert [each for each in (SECRET, given) if each in stopped] == []

    passed = (
        engine.up("by-hand", *with_reasons({"odd/user-data": "ticket 42: the vendor's agent, until March"}))
        .succeeded()
        .output
    )
    assert "user-data by hand: " not in passed
    assert len(engine.resources(NODE_GROUP)) == 2
    assert [each["inputs"].get("userData") for each in engine.resources(LAUNCH_TEMPLATE)].count(given) == 1
