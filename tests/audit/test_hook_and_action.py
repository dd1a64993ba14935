"""The pre-commit hooks and the GitHub Actions step: their files are right, and their commands do what they say."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}

GOOD_STACK = """\
config:
  gpupools:clusters:
    train: {cloud: aws, name: t, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"}
  gpupools:pools:
    one: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 1}}
"""

# --- pre-commit ---


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_has_what_pre_commit_asks_for_and_nothing_it_does_not_know(hook: dict[str, Any]) -> None:
    """https://pre-commit.com/#creating-new-hooks."""
    required = {"id", "name", "entry", "language"}
    known = {*required, "args", "description", "files", "require_serial"}

    assert required <= hook.keys() <= known
    assert re.compile(hook["files"])
    assert hook["language"] == "script"
    assert os.access(ROOT / shlex.split(hook["entry"])[0], os.X_OK)
    assert hook["args"] == ["--"]


@pytest.mark.parametrize(
    ("hook", "path", "taken"),
    [
        (0, "stacks/Pulumi.dev.yaml", True),
        (0, "Pulumi.prod.yml", True),
        (0, "Pulumi.yaml", False),
        (0, "stacks/NotPulumi.dev.yaml", False),
        (1, "clusters/karpenter/nodepool.yaml", True),
        (1, "clusters/prod/gpu-node-pool.yml", True),
        (1, "MachineDeployment-gpu.json", True),
        (1, "clusters/prod/deployment.yaml", False),
        (1, "docs/karpenter.md", False),
        (2, "policies/policy-config.prod.json", True),
        (2, "policy-config.dev.json", True),
        (2, "policies/policy-config.schema.json", False),
        (2, "policies/config.json", False),
    ],
)
def test_a_hook_takes_the_files_it_is_for(hook: int, path: str, taken: bool) -> None:
    assert bool(re.search(HOOKS[hook]["files"], path)) is taken


@pytest.mark.parametrize(
    ("hook", "name", "good", "bad"),
    [
        (0, "Pulumi.dev.yaml", GOOD_STACK, GOOD_STACK.replace("gpus_per_node: 8", "gpus_per_node: 3")),
        (1, "nodepool.yaml", "", ""),
        (2, "policy-config.prod.json", '{"gpu-pool-owned": "mandatory"}', '{"gpu-pool-tainted": "advisory"}'),
    ],
    ids=["check", "policy", "policy-config"],
)
def test_the_command_of_a_hook_passes_good_files_and_stops_bad_ones(
    hook: int, name: str, good: str, bad: str, tainted_pool: str, write: Any, environment: Path
) -> None:
    good, bad = good or tainted_pool, bad or tainted_pool.replace("effect: NoSchedule", "effect: PreferNoSchedule")

    def code(content: str) -> int:
        script, *words = shlex.split(HOOKS[hook]["entry"])
        command = [ROOT / script, *words, *HOOKS[hook]["args"], write(content, name)]
        env = {**os.environ, "GPUPOOLS_ENVIRONMENT": str(environment)}
        return subprocess.run(command, env=env, capture_output=True, timeout=60, check=False).returncode

    assert (code(good), code(bad)) == (0, 1)


# --- GitHub Actions ---


def test_the_action_is_what_github_takes() -> None:
    """https://docs.github.com/en/actions/reference/workflows-and-actions/metadata-syntax."""
    assert ACTION.keys() == {"name", "description", "branding", "inputs", "runs"}
    assert ACTION["runs"].keys() == {"using", "steps"}
    assert ACTION["runs"]["using"] == "composite"
    for given in ACTION["inputs"].values():
        assert given.keys() == {"description", "required", "default"}
    for step in STEPS.values():
        if "uses" in step:
            assert step.keys() <= {"name", "if", "uses", "with"}
        else:
            assert step.keys() <= {"name", "id", "if", "shell", "env", "run"}
            assert step["shell"] == "bash"


def test_every_input_is_used_and_every_input_used_exists() -> None:
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))

    assert used == ACTION["inputs"].keys()


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_no_input_is_pasted_into_a_script(step: dict[str, Any]) -> None:
    """A file name must not become a command: https://docs.github.com/en/actions/reference/security/secure-use."""
    assert "${{" not in step.get("run", "")
    assert "inputs." not in str(step.get("with", ""))


@pytest.fixture
def bash(tmp_path: Path, environment: Path) -> Callable[..., tuple[int, str]]:
    """Run a step as GitHub's runner does, in a folder of its own."""

    def ran(step: str, **env: str) -> tuple[int, str]:
        script = tmp_path / "script.sh"
        script.write_text(STEPS[step]["run"], encoding="utf-8")
        names = dict.fromkeys(STEPS[step]["env"], "")
        where = {
            "GITHUB_WORKSPACE": str(tmp_path),
            "GPUPOOLS": str(ROOT / "tooling" / "gpupools"),
            "GPUPOOLS_ENVIRONMENT": str(environment),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=tmp_path,
            env={**os.environ, **names, **where, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout

    return ran


def test_the_check_step_annotates_every_file_a_pattern_finds(write: Any, tmp_path: Path, bash: Any) -> None:
    (tmp_path / "stacks").mkdir()
    write(GOOD_STACK, "stacks/Pulumi.dev.yaml")
    write(GOOD_STACK.replace("gpus_per_node: 8", "gpus_per_node: 3"), "stacks/Pulumi.a b.yaml")
    code, out = bash("Check stack files", FILES="stacks/Pulumi.*.yaml\n")

    assert code == 1
    assert "::error file=stacks/Pulumi.a b.yaml,line=6,title=pools.one.gpus_per_node::" in out
    assert "stacks/Pulumi.dev.yaml: ok, 1 pool" in out


def test_the_check_step_fails_for_a_file_that_is_not_there(bash: Any) -> None:
    code, out = bash("Check stack files", FILES="stacks/Pulumi.*.yaml")

    assert code == 1
    assert "::error file=stacks/Pulumi.*.yaml" in out


def test_a_file_name_is_no_command_and_no_option(write: Any, tmp_path: Path, bash: Any) -> None:
    write(GOOD_STACK, "--format")
    write(GOOD_STACK, "$(touch pwned).yaml")
    code, _ = bash("Check stack files", FILES="--format\n$(touch pwned).yaml\n")

    assert code == 0
    assert not (tmp_path / "pwned").exists()


def test_the_policy_step_annotates_and_writes_the_reports(
    tainted_pool: str, write: Any, tmp_path: Path, bash: Any
) -> None:
    write(tainted_pool, "good.yaml")
    write(tainted_pool.replace("effect: NoSchedule", "effect: PreferNoSchedule"), "bad.yaml")
    write({"gpu-pool-owned": "disabled"}, "config.json")
    reports = {"SARIF": "a.sarif", "JUNIT": "a.xml"}
    files = {"FILES": "good.yaml\nbad.yaml", "CONFIG": "config.json"}
    code, out = bash("Check plans and manifests", **files, **reports, SOURCE="acme/gpupools")

    assert code == 1
    assert "(see https://acme.github.io/gpupools/reference/policies/#gpu-pool-tainted)" in out
    assert out.count("::error file=bad.yaml,line=10,title=gpu-pool-tainted::") == 1
    assert '"version": "2.1.0"' in (tmp_path / "a.sarif").read_text(encoding="utf-8")
    assert (tmp_path / "a.xml").read_text(encoding="utf-8").startswith("<?xml")


def test_a_pull_request_cannot_waive_its_own_findings(tainted_pool: str, write: Any, tmp_path: Path, bash: Any) -> None:
    def git(*words: str) -> str:
        user = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        return subprocess.run(["git", *user, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    write(tainted_pool.replace("effect: NoSchedule", "effect: PreferNoSchedule"), "bad.yaml")
    write({"gpu-pool-owned": "disabled"}, "config.json")
    git("init", "-q")
    git("add", "config.json")
    git("commit", "-qm", "base")
    base = git("rev-parse", "HEAD").strip()
    waiver = {"resource": "NodePool/gpu", "reason": "mine", "owner": "me", "expires": "2999-01-31"}
    write({"gpu-pool-tainted": {"waivers": [waiver]}}, "config.json")
    write({"baseline": 2, "findings": []}, "base.json")
    where = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(tmp_path / "output")}

    def run(base: str) -> tuple[int, str]:
        (tmp_path / "output").write_text("", encoding="utf-8")
        code, said = bash(
            "Take the policy settings from the base commit",
            BASE=base,
            CONFIG="config.json",
            BASELINE="base.json",
            **where,
        )
        assert code == 0, said
        lines = (tmp_path / "output").read_text(encoding="utf-8").splitlines()
        settings = {key.upper(): value for key, _, value in (each.partition("=") for each in lines)}
        return bash("Check plans and manifests", FILES="bad.yaml", **settings)[0], said

    assert run("") == (0, "")
    code, said = run(base)
    assert code == 1
    assert "baseline: the base commit does not have the file" in said


def test_the_policy_step_takes_a_baseline_and_what_fails(
    tainted_pool: str, write: Any, tmp_path: Path, bash: Any
) -> None:
    write(tainted_pool.replace("effect: NoSchedule", "effect: PreferNoSchedule"), "bad.yaml")
    step = "Check plans and manifests"

    assert bash(step, FILES="bad.yaml", FAIL_ON="never")[0] == 0
    assert bash(step, FILES="bad.yaml", FAIL_ON="unverified")[0] == 1
    code, out = bash(step, FILES="bad.yaml", BASELINE="missing.json")
    assert (code, "missing.json" in out) == (1, True)


def test_the_configuration_step_stops_a_file_that_weakens_a_mandatory_rule(write: Any, bash: Any) -> None:
    write({"gpu-pool-owned": "mandatory"}, "policy-config.dev.json")
    good = bash("Check policy configurations", FILES="policy-config.*.json")
    write({"gpu-pool-tainted": "disabled"}, "policy-config.prod.json")
    code, out = bash("Check policy configurations", FILES="policy-config.*.json")

    assert good == (0, "policy-config.dev.json: ok, all mandatory rules stay mandatory\n")
    assert code == 1
    assert "::error file=policy-config.prod.json,title=gpupools policy::gpu-pool-tainted: disables a mandatory" in out


def test_the_policy_step_passes_good_files_without_reports(
    tainted_pool: str, write: Any, tmp_path: Path, bash: Any
) -> None:
    write(tainted_pool, "good.yaml")

    assert bash("Check plans and manifests", FILES="good.yaml")[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"good.yaml", "script.sh"}


def test_the_install_step_says_which_version_it_installed(bash: Any) -> None:
    assert bash("Install gpupools") == (0, f"gpupools {metadata.version('gpupools')}\n")


@pytest.mark.parametrize("python", ["/nowhere/python", "false"])
def test_the_install_step_fails_where_nothing_can_be_installed(python: str, tmp_path: Path, bash: Any) -> None:
    made = tmp_path / "made" / "environment"
    code, out = bash("Install gpupools", GPUPOOLS_PYTHON=python, GPUPOOLS_ENVIRONMENT=str(made))

    assert code != 0
    assert "gpupools needs Python 3.11 or newer" in out
    assert not made.exists()
