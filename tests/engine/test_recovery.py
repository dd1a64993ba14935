"""docs/how-to/recover.md with the real engine: an interrupted update is recovered completely, without duplicates.

`tooling/fault_table.py` tries far more; this is what every run of the tier holds.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.breaking import Breaking
from tests.engine.cli import Engine
from tests.engine.stand_in import AGENT_POOL, NODE_GROUP, NODE_POOL
from tooling.fault_table import SMALL

pytestmark = pytest.mark.engine

EKS = {"clusters": {"train": SMALL["clusters"]["train"]}, "pools": {"a": SMALL["pools"]["a"]}}


@pytest.fixture(scope="module")
def killed(engine: Engine) -> Breaking:
    """Kill the engine when EKS has made a node group of which the state knows nothing yet."""
    engine.run("stack", "init", "killed").succeeded()
    stack = Breaking(engine, "killed")
    stack.write(EKS)
    engine.misbehave("kill-engine-after", urn="nodeGroup:")
    assert stack.up().code < 0
    engine.settle()
    return stack


def test_a_killed_engine_leaves_a_lock_and_a_group_that_the_tool_names(killed: Breaking) -> None:
    engine = killed.engine
    locked = killed.up().failed().output
    assert "the stack is currently locked by 1 lock(s)" in locked
    (group,) = (each["id"] for each in engine.resources(NODE_GROUP))

    lines = killed.recover(after_kill=True)

    (command,) = (line for line in lines if "pulumi import" in line)
    assert f"pulumi import {NODE_GROUP} train-a-nodes {group} " in command
    killed.up().succeeded()
    assert not killed.counts()
    assert [each["id"] for each in engine.resources(NODE_GROUP)] == [group]
    assert killed.orphans(after_kill=True).succeeded().output.strip() == "no orphaned resources: killed"


@pytest.mark.parametrize("spoilt", ["cut off", "attributes"])
def test_a_spoilt_state_is_mended_from_what_lies_beside_it(killed: Breaking, spoilt: str) -> None:
    file = killed.state_file
    if spoilt == "cut off":
        text = file.read_text(encoding="utf-8")
        file.write_text(text[: len(text) // 2], encoding="utf-8")
    else:
        file.with_name(f"{file.name}.attrs").write_text("", encoding="utf-8")
    before = killed.engine.journal()
    assert "failed to load checkpoint" in killed.up().failed().output
    assert killed.engine.journal() == before

    assert killed.mend() == (".bak copied" if spoilt == "cut off" else "empty .attrs deleted")

    killed.up().succeeded()
    assert not killed.counts()


def contradict(stack: Breaking, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    """Change the state's resources in its file; the engine must refuse it then, and call nothing."""
    state = json.loads(stack.state_file.read_text(encoding="utf-8"))
    latest = state["checkpoint"]["latest"]
    latest["resources"] = change(latest["resources"])
    stack.state_file.write_text(json.dumps(state), encoding="utf-8")
    before = stack.engine.journal()
    assert "encountered a snapshot integrity error" in stack.up().output
    assert stack.engine.journal() == before


def without(name: str, kind: str = "") -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return what takes a resource out of a state."""

    def change(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = [each for each in resources if not each["urn"].endswith(f"{kind}::{name}")]
        assert len(kept) == len(resources) - 1
        return kept

    return change


@pytest.mark.parametrize("missing", ["", "train-a-template", "train-a-nodes"])
def test_a_repaired_state_lacks_only_what_the_tool_names(killed: Breaking, missing: str) -> None:
    contradict(killed, without(missing) if missing else lambda resources: resources[::-1])
    killed.run("state", "repair", "--yes").succeeded()
    before = killed.engine.journal()

    lines = killed.recover(after_kill=False)

    commands = [line for line in lines if "pulumi import" in line]
    assert [line.split()[5] for line in commands] == ([missing] if missing else [])
    killed.up("--expect-no-changes").succeeded()
    assert killed.engine.journal() == before
    assert not killed.counts()


def orphans(state: Path) -> str:
    """Return what the tool says of a state."""
    ended = subprocess.run(
        [sys.executable, "-m", "gpupools.cli.main", "orphans", str(state)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("missing", ["component", "provider"])
def test_what_no_repair_mends_comes_back_from_the_last_update(killed: Breaking, missing: str) -> None:
    change = without("train-a", "GpuNodePool") if missing == "component" else without("train", "providers:aws")
    contradict(killed, change)
    repaired = killed.run("state", "repair", "--yes")
    if missing == "component":
        repaired.succeeded()
        exported = killed.engine.folder / "torn.json"
        exported.write_text(killed.run("stack", "export").succeeded().output, encoding="utf-8")
        assert "the state lacks the component of train-a-nodes (aws:eks/nodeGroup:NodeGroup)" in orphans(exported)
        told = killed.run("preview").succeeded().output
        assert "+ 14 to create" in told
        assert "- 13 to delete" in told
    else:
        assert "Failed to repair the snapshot automatically" in repaired.failed().output
    before = killed.engine.journal()

    last = max(killed.engine.folder.glob("backend/.pulumi/history/*/killed/*.checkpoint.json"))
    shutil.copy(last, killed.state_file)

    killed.up("--expect-no-changes").succeeded()
    assert killed.engine.journal() == before
    assert not killed.counts()


def test_with_the_wrong_passphrase_nothing_is_called(killed: Breaking) -> None:
    before = killed.engine.journal()

    refused = killed.engine.up("killed", PULUMI_CONFIG_PASSPHRASE="another").failed().output

    assert "incorrect passphrase" in refused
    assert killed.engine.journal() == before


def test_the_state_of_another_stack_is_refused_before_anything_is_deleted(killed: Breaking) -> None:
    engine = killed.engine
    exported = engine.folder / "killed.json"
    killed.run("stack", "export", "--file", str(exported)).succeeded()
    engine.run("stack", "init", "foreign").succeeded()
    foreign = Breaking(engine, "foreign")
    foreign.write(EKS)
    foreign.run("stack", "import", "--force", "--file", str(exported)).succeeded()
    before = engine.journal()

    refused = foreign.up().failed().output

    assert "this stack's state contains resources of the stack killed of gpupools" in refused
    assert engine.journal() == before


def test_pools_whose_answers_got_lost_come_back(engine: Engine) -> None:
    engine.run("stack", "init", "lost").succeeded()
    stack = Breaking(engine, "lost")
    clusters = {key: cluster | {"name": f"lost-{key}"} for key, cluster in SMALL["clusters"].items()}
    stack.write({**SMALL, "clusters": clusters})
    engine.misbehave("lose", urn="nodeGroup:|AgentPool|nodePool:")
    stack.up("--continue-on-error").failed()
    kinds = (NODE_GROUP, AGENT_POOL, NODE_POOL)
    made = {each["id"] for each in engine.resources(*kinds) if "lost-" in each["id"]}
    assert len(made) == 3

    again = stack.up("--continue-on-error").failed().output
    assert again.count("already exists") >= 2
    assert (
        "of this pool in lost-train, but the state does not: an interrupted update left it, or another stack owns it"
        in again
    )
    lines = stack.recover(after_kill=False)

    assert sum("pulumi import" in line for line in lines) == 3
    stack.up().succeeded()
    assert {each["id"] for each in engine.resources(*kinds) if "lost-" in each["id"]} == made
    assert {each["id"] for each in stack.state() if each["type"] in kinds} == made
