"""docs/how-to/production.md: its stack file and its commands, run one after the other by the real CLI."""

import json
import re
import shlex

import pytest

from tests.engine.cli import ROOT, Engine

pytestmark = pytest.mark.engine

PAGE = (ROOT / "docs" / "how-to" / "production.md").read_text(encoding="utf-8")


def test_the_page_ends_a_production_stack(engine: Engine) -> None:
    (file,) = re.findall(r"```yaml\n# Pulumi\.live\.yaml\n(.*?)```", PAGE, re.DOTALL)
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    engine.run("stack", "init", "live").succeeded()
    path = engine.repository / "stacks" / "Pulumi.live.yaml"
    path.write_text((path.read_text(encoding="utf-8") if path.exists() else "") + file, encoding="utf-8")
    engine.up("live").succeeded()
    made = [each["type"] for each in engine.journal() if each["op"] == "create"]
    engine.run("destroy", "--yes", "--stack", "live").failed()
    assert [each for each in engine.journal() if each["op"] == "delete"] == []

    for line in commands.splitlines():
        program, *words = shlex.split(line)
        assert program == "pulumi"
        confirmed = ["--yes"] if words[0] in ("up", "destroy") or words[:2] == ["stack", "rm"] else []
        engine.run(*words, *confirmed).succeeded()
        if words[0] == "up":
            assert {each["op"] for each in engine.journal()[len(made) :]} <= {"update"}

    assert engine.resources() == []
    assert sorted(each["type"] for each in engine.journal() if each["op"] == "delete") == sorted(made)
    assert "live" not in json.loads(engine.run("stack", "ls", "--json").succeeded().output.strip() or "[]")
