"""What a user sees of waivers: the engine takes them in its policy configuration, and shows what they let pass."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine.cli import CommandResult, Engine

pytestmark = pytest.mark.engine

PROGRAM = """
import pulumi_aws

pulumi_aws.eks.NodeGroup(
    "lab",
    cluster_name="lab",
    instance_types=["g6.xlarge"],
    node_role_arn="arn:aws:iam::123456789012:role/node",
    scaling_config={"desired_size": 0, "max_size": 1, "min_size": 0},
    subnet_ids=["subnet-0aaaaaaaaaaaaaaaa"],
)
"""
URN = "urn:pulumi:dev::waived::aws:eks/nodeGroup:NodeGroup::lab"
LATER = (datetime.now(tz=UTC).date() + timedelta(days=30)).isoformat()


@pytest.fixture(scope="module")
def folder(engine: Engine) -> Path:
    folder = engine.project("waived", PROGRAM)
    engine.run("stack", "init", "dev", project=folder).succeeded()
    engine.run("config", "set", "aws:region", "eu-central-1", project=folder).succeeded()
    return folder


def previewed(engine: Engine, folder: Path, *given: Any) -> CommandResult:
    config = {"gpu-pool-tainted": {"waivers": list(given)}}
    (folder / "policy-config.json").write_text(json.dumps(config), encoding="utf-8")
    pack = ("--policy-pack", "../repository/policies", "--policy-pack-config", "policy-config.json")
    return engine.run("preview", "--stack", "dev", *pack, project=folder)


def refused(ran: CommandResult) -> str:
    assert ran.code != 0, ran.output
    return ran.output


def waiver(**other: str) -> dict[str, str]:
    return {"resource": URN, "reason": "a driver is tried out", "owner": "vision", "expires": LATER, **other}


def test_without_a_waiver_the_preview_fails(engine: Engine, folder: Path) -> None:
    shown = refused(previewed(engine, folder))

    assert "gpu-pool-tainted" in shown


def test_a_waiver_lets_the_preview_succeed_and_is_shown(engine: Engine, folder: Path) -> None:
    shown = previewed(engine, folder, waiver()).succeeded().output

    assert "[mandatory]" not in shown
    assert f"waived until {LATER} by vision: a driver is tried out (gpu-pool-tainted)" in shown


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"expires": "2026-01-31"}, "expired on 2026-01-31"),
        ({"resource": URN.replace("::lab", "::other")}, "matches no finding of the rule"),
    ],
    ids=["ended", "unmatched"],
)
def test_a_waiver_that_holds_nothing_fails_the_preview(
    engine: Engine, folder: Path, other: dict[str, str], says: str
) -> None:
    waivers = [waiver(**other)] if "expires" in other else [waiver(), waiver(**other)]
    shown = refused(previewed(engine, folder, *waivers))

    assert "gpu-waiver-current" in shown
    assert says in shown


def test_the_engine_refuses_a_waiver_without_an_owner(engine: Engine, folder: Path) -> None:
    lacking = {key: value for key, value in waiver().items() if key != "owner"}
    shown = refused(previewed(engine, folder, lacking))

    assert "owner" in shown
