"""Our reader against the CLI's own: every way to write a value, and every way `pulumi config set` writes one."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpupools.stackfile.config_values import from_text
from gpupools.stackfile.reader import read_stack_file
from tests.engine.cli import Engine
from tests.gpupools.cli_readings import READINGS

pytestmark = pytest.mark.engine

# What a program is handed is in its environment:
# https://github.com/pulumi/pulumi, sdk/python/lib/pulumi/runtime/config.py
PRINTS = """
import os
import pathlib

pathlib.Path("received.json").write_text(os.environ["PULUMI_CONFIG"], encoding="utf-8")
"""
HANDED_ON = [each for each in READINGS if each.handed_on is not None]
REFUSED = [each for each in READINGS if each.handed_on is None]
SAME = [each for each in READINGS if each.ours == "same"]


@pytest.fixture(scope="module")
def project(engine: Engine) -> Path:
    folder = engine.project("readings", PRINTS)
    engine.run("stack", "init", "dev", project=folder).succeeded()
    return folder


def received(engine: Engine, project: Path) -> dict[str, str]:
    """Return what a program gets of `Pulumi.dev.yaml`, by key."""
    engine.run("preview", "--stack", "dev", project=project).succeeded()
    found: dict[str, str] = json.loads((project / "received.json").read_text(encoding="utf-8"))
    return found


def write(project: Path, text: str) -> Path:
    file = project / "Pulumi.dev.yaml"
    file.write_bytes(text.encode())
    return file


def test_a_program_receives_what_is_recorded(engine: Engine, project: Path) -> None:
    write(project, "config:\n" + "".join(each.below(f"gpupools:f{n}") for n, each in enumerate(HANDED_ON)))
    found = received(engine, project)

    assert {each.text: found[f"gpupools:f{n}"] for n, each in enumerate(HANDED_ON)} == {
        each.text: each.handed_on for each in HANDED_ON
    }


@pytest.mark.parametrize("reading", REFUSED, ids=lambda each: each.text.encode("unicode_escape").decode())
def test_the_cli_refuses_what_is_recorded_as_refused(engine: Engine, project: Path, reading: Any) -> None:
    write(project, reading.file)

    engine.run("config", "--json", "--stack", "dev", project=project).failed()


def test_a_file_rewritten_by_the_cli_says_the_same(engine: Engine, project: Path) -> None:
    ways = [each for each in SAME if "&" not in each.text]  # an anchor may be defined once in a file
    anchors = "  gpupools:anchors: [&x {a: 1}, &y {<<: *x, b: 2}, {<<: [*y, {c: 3}], d: *x}]\n"
    written = "".join(each.below(f"gpupools:f{n}") for n, each in enumerate(ways))
    file = write(project, f"config:\n{anchors}{written}")
    before = read_stack_file(file).config
    engine.run("config", "set", "other:key", "value", "--stack", "dev", project=project).succeeded()
    after = read_stack_file(file).config

    assert "other:key" in file.read_text(encoding="utf-8")
    assert (
        after["anchors"] == before["anchors"] == [{"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3, "d": {"a": 1}}]
    )
    assert {each.text: after[f"f{n}"] for n, each in enumerate(ways)} == {
        each.text: before[f"f{n}"] for n, each in enumerate(ways)
    }


SET = [
    ("gpupools:pools", '{"a": {"nodes": {"max": 4}, "tags": {"expires": "2026-12-31"}}}'),
    ("--path", "gpupools:p.a.nodes.max", "4"),
    ("--path", "gpupools:p.a.protect", "true"),
    ("--path", "gpupools:p.a.tags.expires", "2026-12-31"),
    ("--path", "gpupools:p.a.tags.at", "2026-12-31T10:00:00Z"),
    ("--path", "gpupools:p.a.tags.rev", "0123"),
    ("--path", "gpupools:p.a.tags.hex", "0x1F"),
    ("--path", "gpupools:p.a.tags.base", "0o17"),
    ("--path", "gpupools:p.a.tags.time", "1:30"),
    ("--path", "gpupools:p.a.tags.under", "1_000"),
    ("--path", "gpupools:p.a.tags.float", "1.5"),
    ("--path", "gpupools:p.a.tags.e", "1e3"),
    ("--path", "gpupools:p.a.tags.inf", ".inf"),
    ("--path", "gpupools:p.a.tags.yes", "yes"),
    ("--path", "gpupools:p.a.tags.null", "null"),
    ("--path", "gpupools:p.a.tags.tilde", "~"),
    ("--path", "gpupools:p.a.tags.merge", "<<"),
    ("--path", "gpupools:p.a.tags.nothing", ""),
    ("--path", "gpupools:p.a.tags.lines", "a\nb\n"),
    ("--path", "gpupools:p.a.tags.json", '{"a": 1}'),
    ("--path", "gpupools:p.a.tags.huge", "99999999999999999999"),
    ("--path", 'gpupools:p.a.labels["2026-12-31"]', "a"),
    ("--path", 'gpupools:p.a.labels["0123"]', "a"),
    ("--path", 'gpupools:p.a.labels["null"]', "a"),
    ("--path", "gpupools:p.a.taints[0]", "team=a:NoSchedule"),
    ("gpupools:production", "true"),
    ("gpupools:since", "2026-12-31"),
    ("gpupools:rev", "0123"),
    ("gpupools:flag", "yes"),
]


def test_what_config_set_writes_is_read_as_the_program_receives_it(engine: Engine, project: Path) -> None:
    file = write(project, "config: {}\n")
    for arguments in SET:
        flags = [each for each in arguments if each == "--path"]
        rest = [each for each in arguments if each != "--path"]
        engine.run("config", "set", *flags, "--stack", "dev", "--", *rest, project=project).succeeded()
    handed_on = {key.partition(":")[2]: from_text(key, text) for key, text in received(engine, project).items()}
    found = read_stack_file(file).config

    assert found == handed_on
    assert found["p"]["a"]["tags"]["expires"] == "2026-12-31"
    assert found["p"]["a"]["nodes"]["max"] == 4
