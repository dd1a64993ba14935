"""Hooks, Action and commands in a checkout somebody else has filled: nothing of it is run, nothing read outside it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.security.conftest import POOL, ROOT, STACK, Checkout, Run, git

pytestmark = pytest.mark.slow

GPUPOOLS = ROOT / "tooling" / "gpupools"
STEPS = {step["name"]: step for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]}
TAINTED = POOL + "      taints:\n        - {key: nvidia.com/gpu, effect: NoSchedule}\n"


@pytest.fixture
def step(run: Run, checkout: Checkout, tmp_path: Path) -> Any:
    """Run a step of the Action as the runner does, in the checkout."""

    def ran(name: str, **env: str) -> Any:
        script = tmp_path / "script.sh"
        script.write_text(STEPS[name]["run"], encoding="utf-8")
        given = {
            key: value.replace("${{ github.action_path }}", str(ROOT)) for key, value in STEPS[name]["env"].items()
        }
        inputs = {key: "" if "${{" in value else value for key, value in given.items()}
        where = {
            "GITHUB_WORKSPACE": str(checkout.folder),
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_PATH": str(tmp_path / "path"),
        }
        return run("bash", "--noprofile", "--norc", "-eo", "pipefail", script, **{**inputs, **where, **env})

    return ran


@pytest.mark.parametrize(
    "command",
    [
        (GPUPOOLS, "--version"),
        (GPUPOOLS, "check", "stack/Pulumi.dev.yaml"),
        (GPUPOOLS, "diff", "stack/Pulumi.dev.yaml", "stack/Pulumi.dev.yaml"),
        (GPUPOOLS, "policy", "pool.yaml"),
        (GPUPOOLS, "policy", "--format", "sarif", "pool.yaml"),
        (GPUPOOLS, "matrix", "--cloud", "aws"),
        (GPUPOOLS, "stacks", "--within", "."),
        (GPUPOOLS, "report", "--markdown", "--no-policies", "stack/Pulumi.dev.yaml"),
        (GPUPOOLS, "report", "--no-policies", "-o", "plan.html", "stack/Pulumi.dev.yaml"),
        (Path(sys.executable).parent / "gpupools", "check", "stack/Pulumi.dev.yaml"),
        (Path(sys.executable).parent / "gpupools", "preview", "stack/Pulumi.dev.yaml"),
        (Path(sys.executable).parent / "gpupools", "report", "--markdown", "stack/Pulumi.dev.yaml"),
    ],
    ids=lambda command: " ".join(map(str, (command[0].parent.name, *command[1:]))),
)
def test_a_command_imports_nothing_of_the_checkout(command: Any, run: Run, checkout: Checkout) -> None:
    checkout.write("pool.yaml", TAINTED)
    checkout.write("Pulumi.yaml", "name: team\nruntime: python\nmain: stacks\nstackConfigDir: stack\n")
    done = run(*command)

    assert (done.returncode, checkout.went_off()) == (0, []), done.stderr


def test_the_command_of_hooks_and_action_does_not_heed_pythonpath(run: Run, checkout: Checkout) -> None:
    done = run(GPUPOOLS, "check", "stack/Pulumi.dev.yaml", PYTHONPATH=str(checkout.folder))

    assert (done.returncode, checkout.went_off()) == (0, []), done.stderr


def test_the_environment_is_made_without_the_checkout(run: Run, checkout: Checkout, tmp_path: Path) -> None:
    """The real interpreter with its real `venv`; only what pip would fetch is left out."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *" -m venv "*) set -- "$@" --without-pip;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    done = run(GPUPOOLS, "--version", GPUPOOLS_PYTHON=str(python), GPUPOOLS_ENVIRONMENT=str(tmp_path / "made" / "env"))

    assert "No module named pip" in done.stderr
    assert checkout.went_off() == []
    assert list((tmp_path / "made").iterdir()) == []  # half of an environment is none


def test_the_action_runs_nothing_of_the_checkout_and_leaves_nothing_on_the_path(
    step: Any, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.write("pool.yaml", TAINTED)
    codes = [
        step("Install gpupools").returncode,
        step("Check stack files", FILES="stack/Pulumi.*.yaml").returncode,
        step("Check plans and manifests", FILES="*.yaml", SARIF="out.sarif", JUNIT="out.xml").returncode,
    ]

    assert (codes, checkout.went_off()) == ([0, 0, 0], [])
    assert not (tmp_path / "path").exists()


def test_a_report_takes_the_place_of_a_committed_link_and_does_not_follow_it(
    step: Any, checkout: Checkout, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept")
    checkout.write("pool.yaml", TAINTED)
    (checkout.folder / "out.sarif").symlink_to(outside)
    (checkout.folder / "reports").symlink_to(tmp_path)
    linked = step("Check plans and manifests", FILES="pool.yaml", SARIF="out.sarif")
    below = step("Check plans and manifests", FILES="pool.yaml", SARIF="reports/new.sarif")

    assert (linked.returncode, below.returncode) == (1, 1)
    assert "::error file=reports/new.sarif,title=gpupools policy::is a link that leads out of" in below.stdout
    assert outside.read_text() == "kept"
    assert not (tmp_path / "new.sarif").exists()


def test_a_report_is_written_whole_beside_the_annotations(step: Any, checkout: Checkout) -> None:
    checkout.write("pool.yaml", POOL)
    done = step("Check plans and manifests", FILES="pool.yaml", SARIF="out.sarif", JUNIT="out.xml")

    assert done.returncode == 1
    assert done.stdout.count("::error file=pool.yaml") == 1
    assert json.loads((checkout.folder / "out.sarif").read_text())["version"] == "2.1.0"
    assert (checkout.folder / "out.xml").read_text().startswith("<?xml")


@pytest.mark.parametrize("command", ["check", "policy", "diff", "report"])
def test_a_file_that_links_lead_out_of_the_checkout_is_not_read(
    command: str, run: Run, checkout: Checkout, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("hunter2: {a: b}\n")
    (checkout.folder / "Pulumi.linked.yaml").symlink_to(secret)
    (checkout.folder / "folder").symlink_to(tmp_path)
    for name in ("Pulumi.linked.yaml", "folder/secret.yaml"):
        form = ["--markdown", "--no-policies"] * (command == "report")
        done = run(
            GPUPOOLS, command, *form, "--within", ".", "--", name, *(["stack/Pulumi.dev.yaml"] * (command == "diff"))
        )

        assert done.returncode == 1
        assert "is a link that leads out of" in done.stderr
        assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["stack/Pulumi.linked.yaml", "Pulumi.yaml", "other/Pulumi.yaml"])
def test_a_repository_with_a_link_that_leads_out_of_it_is_not_listed(
    name: str, run: Run, checkout: Checkout, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_text("name: hunter2\nconfig: {gpupools:pools: hunter2}\n")
    (checkout.folder / "other").mkdir()
    checkout.write("other/Pulumi.dev.yaml", STACK)
    (checkout.folder / name).symlink_to(secret)
    (checkout.folder / "round").symlink_to(".")
    os.mkfifo(checkout.folder / "Pulumi.pipe.yaml")
    done = run(GPUPOOLS, "stacks", "--within", ".")

    assert done.returncode == 1
    assert f"{name}: is a link that leads out of" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


def test_stacks_reads_no_link_out_beside_a_project_and_a_part_of_large_files(
    run: Run, checkout: Checkout, tmp_path: Path
) -> None:
    checkout.write("Pulumi.yaml", "name: team\nruntime: python\nstackConfigDir: stack\n")
    checkout.write("requirements.txt", "#" * (2**20 + 1))
    git(checkout.folder, "init", "-q")
    git(checkout.folder, "add", "-A")
    git(checkout.folder, "commit", "-qm", "One")
    large = run(GPUPOOLS, "stacks", "--since", "HEAD", "--within", ".")
    (tmp_path / "secret").write_text("hunter2")
    (checkout.folder / "requirements.txt").unlink()
    (checkout.folder / "requirements.txt").symlink_to(tmp_path / "secret")
    linked = run(GPUPOOLS, "stacks", "--since", "HEAD", "--within", ".")

    assert (large.returncode, "changed: requirements.txt" in large.stdout) == (0, True), large.stdout
    assert linked.returncode == 1
    assert "requirements.txt: is a link that leads out of ." in linked.stderr


def test_stacks_asks_git_and_runs_nothing_that_the_checkout_names(run: Run, checkout: Checkout) -> None:
    checkout.write("Pulumi.yaml", "name: team\nruntime: python\nstackConfigDir: stack\n")
    git(checkout.folder, "init", "-q")
    git(checkout.folder, "add", "-A")
    git(checkout.folder, "commit", "-qm", "One")
    checkout.write("stack/Pulumi.dev.yaml", STACK.replace("max: 1", "max: 2"))
    mark = checkout.marks / "git"
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.gitProxy", "diff.external"):
        git(checkout.folder, "config", key, f"touch {mark}")
    done = run(GPUPOOLS, "stacks", "--since", "HEAD", "--within", ".")

    assert (done.returncode, checkout.went_off()) == (0, []), done.stderr
    assert "changed: stack/Pulumi.dev.yaml: 1 changed in place" in done.stdout


def test_a_link_inside_the_checkout_and_a_file_named_outside_it_are_read(
    run: Run, checkout: Checkout, tmp_path: Path
) -> None:
    (checkout.folder / "Pulumi.linked.yaml").symlink_to("stack/Pulumi.dev.yaml")
    (tmp_path / "Pulumi.own.yaml").write_text(STACK)
    done = run(GPUPOOLS, "check", "--within", ".", "--", "Pulumi.linked.yaml", tmp_path / "Pulumi.own.yaml")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("option", ["--config=weak.json", "--format=json", "--conf=weak.json", "--json", "-h"])
def test_a_file_that_is_called_like_an_option_is_refused_or_read_but_is_no_option(
    option: str, run: Run, checkout: Checkout
) -> None:
    checkout.write("weak.json", '{"gpu-pool-tainted": {"enforcementLevel": "mandatory"}}')
    checkout.write(option, POOL)
    bare, apart = run(GPUPOOLS, "policy", option), run(GPUPOOLS, "policy", "--", option)

    assert bare.returncode == 2
    assert "put -- before the files" in bare.stderr
    assert apart.returncode == 1
    assert "[gpu-pool-tainted]" in apart.stdout


# --- pre-commit itself ---


@pytest.fixture
def pre_commit(run: Run, checkout: Checkout, released: Path, tmp_path: Path) -> Any:
    """Run the hooks of a release by the real pre-commit over everything in the checkout."""
    pytest.importorskip("pre_commit", reason="pre-commit is not installed")

    def ran(*arguments: str, hooks: str = "") -> Any:
        revision = git(released, "rev-parse", "HEAD").strip()
        checkout.write(
            ".pre-commit-config.yaml",
            f"repos:\n- repo: {released}\n  rev: {revision}\n  hooks:\n"
            + (hooks or "  - id: gpupools-check\n  - id: gpupools-policy\n  - id: gpupools-policy-config\n"),
        )
        git(checkout.folder, "init", "-q")
        git(checkout.folder, "add", "-A")
        program = (sys.executable, "-I", "-m", "pre_commit", "run", "--all-files", "--verbose", *arguments)
        return run(*program, PRE_COMMIT_HOME=str(tmp_path / "cache"), HOME=str(tmp_path), GIT_CONFIG_NOSYSTEM="1")

    return ran


def test_pre_commit_runs_the_hooks_and_nothing_of_the_checkout(pre_commit: Any, checkout: Checkout) -> None:
    checkout.write("clusters/nodepool.yaml", TAINTED)
    done = pre_commit()

    assert (done.returncode, checkout.went_off()) == (0, []), done.stdout + done.stderr
    assert "stack/Pulumi.dev.yaml: ok, 1 pool" in done.stdout
    assert "clusters/nodepool.yaml: Kubernetes manifest, 1 resource (1 judged, " in done.stdout
    assert "1 GPU pool: 0 violations" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["--config=nodepool.json", "--config=a/nodepool.yaml", "--format=json-nodepool.yaml"])
def test_pre_commit_stops_a_violation_in_a_file_that_is_called_like_an_option(
    name: str, pre_commit: Any, checkout: Checkout
) -> None:
    checkout.write("weak.json", '{"gpu-pool-owned": "disabled"}')
    (checkout.folder / "nodepool.json").symlink_to("weak.json")
    checkout.write("a/nodepool.yaml", TAINTED)
    checkout.write(name, POOL)
    done = pre_commit()

    assert done.returncode == 1
    assert "[gpu-pool-tainted]" in done.stdout
    with_own_arguments = pre_commit(hooks="  - {id: gpupools-policy, args: [--format, github]}\n")

    assert with_own_arguments.returncode == 1
    assert "put -- before the files" in with_own_arguments.stdout


def test_the_lock_of_hooks_and_action_is_part_of_the_whole_lock() -> None:
    whole, part = (set(pins(ROOT / name)) for name in ("requirements.txt", "requirements-check.txt"))

    assert part <= whole
    assert any(line.startswith("pydantic==") for line in part)


def pins(file: Path) -> list[str]:
    """Return the pins and hashes of a lock without comments."""
    lines = (line.strip().removesuffix("\\").strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def test_the_hooks_and_the_action_need_no_file_that_git_does_not_have() -> None:
    assert os.access(GPUPOOLS, os.X_OK)
