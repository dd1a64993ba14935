"""Every stack of the repository gets the same answer at every gate: check, preview, policy, schema, diff, import."""

import json
import re
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from gpupools.audit import limits
from gpupools.cli.main import main
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.spec.overrides import NOT_SHOWN

REPOSITORY = Path(__file__).parents[1]
STACKS = sorted(
    path
    for folder in ("stacks", "examples/stacks", "tests/stacks")
    for path in (REPOSITORY / folder).glob("Pulumi.*.yaml")
)
SCHEMA = REPOSITORY / "gpupools" / "data" / "stack-file.schema.json"
each_stack = pytest.mark.parametrize("stack", STACKS, ids=lambda path: path.stem)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = main([str(each) for each in arguments])
    return code, capsys.readouterr().out


_PREVIEWS: dict[Path, dict[str, Any]] = {}


def preview(stack: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    if stack not in _PREVIEWS:
        code, out = run(capsys, "preview", stack, "--json")
        _PREVIEWS[stack] = {"code": code, **json.loads(out)}
    return _PREVIEWS[stack]


def states(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the resources of a preview as a state has them (pulumi/pulumi, `apitype.ResourceV3`)."""
    numbers = count()
    text = re.sub(UNKNOWN, lambda _: f"given-{next(numbers)}", json.dumps(found["resources"]))
    made = [each for each in json.loads(text) if NOT_SHOWN not in json.dumps(each)]
    return [
        {
            **{key: each[key] for key in ("urn", "type", "custom", "parent", "inputs")},
            "outputs": each["inputs"],
            "id": "id" if each["custom"] else "",
            "dependencies": each["options"].get("dependsOn", []),
            **{
                key: each["options"][key]
                for key in ("provider", "protect", "propertyDependencies")
                if key in each["options"]
            },
        }
        for each in made
    ]


@cache
def schema() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


@each_stack
def test_check_and_the_schema_accept_it(stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "check", stack)[0] == 0
    assert [error.message for error in schema().iter_errors(yaml.safe_load(stack.read_text(encoding="utf-8")))] == []


@each_stack
def test_an_edit_of_nothing_changes_nothing(stack: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, "diff", "--json", stack, stack)
    found = json.loads(out)

    assert code == 0
    assert {each["change"] for each in found["pools"]} == {"unchanged"}
    assert found["software"] == []


@each_stack
def test_the_pack_and_the_policy_command_agree(
    stack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_in_child", limits._in_this_process)  # forking this process is slow
    found = preview(stack, capsys)
    assert (found["code"], found["result"]) == (0, "accepted")
    resources = states(found)
    steps = [{"op": "create", "urn": each["urn"], "newState": each} for each in resources]
    forms = {
        "gpupools-preview.json": found,
        "pulumi-preview.json": {"config": {}, "steps": steps, "changeSummary": {"create": len(steps)}},
        "state.json": {"version": 3, "deployment": {"manifest": {}, "resources": resources}},
    }
    ours = {each["policy"] for each in found["policy"] if each["level"] == "mandatory" and each["violations"]}
    for name, data in forms.items():
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
        code, out = run(capsys, "policy", "--json", tmp_path / name)
        (answer,) = json.loads(out)["files"]
        theirs = {each["rule"] for each in answer["findings"] if each["level"] == "mandatory"}

        assert (name, theirs) == (name, ours)
        assert code == (1 if ours else 0)
