"""The screens on the page are what the command prints, and the roles are what it reads."""

import json
import re
from pathlib import Path

import pytest

from gpupools.cli.ready import tell_status
from tests.gpupools.ready.scripts import SCRIPTS
from tests.gpupools.ready.world import NOW, World
from tooling.write_permissions import documents

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "check-gpus.md"
SCREENS = re.findall(r"<!-- screen: (\S+) (\S+) -->\n\n```text\n\$ .*\n((?:.*\n)*?)```\n", PAGE.read_text("utf-8"))


def screen(cause: str, cluster: str, capsys: pytest.CaptureFixture[str]) -> str:
    script = next(each for each in SCRIPTS if (each.cause, each.cluster) == (cause, cluster))
    world = World(cluster, script.pool)
    for step in script.steps:
        step(world)
    tell_status(world.status(), NOW)
    return capsys.readouterr().out


@pytest.mark.parametrize(("cause", "cluster", "shown"), SCREENS, ids=[each[0] for each in SCREENS])
def test_screen_is_what_the_command_prints(
    cause: str, cluster: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown == screen(cause, cluster, capsys)


def test_page_has_a_pass_and_two_failures(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(SCREENS) == 2
    for pool in ("whole", "zero"):
        world = World("train", pool)
        if pool == "whole":
            world.heal()
        world.autoscaler()
        tell_status(world.status(), NOW)
    assert f"$ gpupools ready Pulumi.live.yaml\n{capsys.readouterr().out}```" in PAGE.read_text("utf-8")


def test_role_only_reads() -> None:
    rules = [rule for name in ("cluster-ready.json", "namespace-ready.json") for rule in documents()[name]["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert not any("secrets" in rule["resources"] for rule in rules)
    assert json.dumps(rules).count("cluster-autoscaler-status") == 1
