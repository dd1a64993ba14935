"""`gpupools new --project`: what it refuses, and that what it copies belongs to this version."""

import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from gpupools.cli import project
from gpupools.cli.git import published
from gpupools.cli.main import main
from gpupools.cli.project import template
from tests.rows import listed

ROOT = Path(__file__).resolve().parents[2]


def test_the_template_pins_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

    assert f"\ngpupools[all]=={version}\n" in (template() / "requirements.txt").read_text(encoding="utf-8")
    ours = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    copied = yaml.safe_load((template() / "Pulumi.yaml").read_text(encoding="utf-8"))
    assert {key: ours[key] for key in ours if key not in ("name", "description")}.items() <= copied.items()
    pack = Path("policies") / "PulumiPolicy.yaml"
    assert (template() / pack).read_text(encoding="utf-8") == (ROOT / pack).read_text(encoding="utf-8")


def test_the_policy_configuration_is_sound() -> None:
    assert main(["policy", "--check-config", str(template() / "policies" / "policy-config.json")]) == 0


@pytest.mark.parametrize(
    ("lay", "folder", "says"),
    [
        (
            lambda at: (at / "README.md").write_text("mine"),
            ".",
            "README.md: already exists",
        ),
        (lambda at: (at / "Pulumi.yaml").symlink_to("nowhere"), ".", "Pulumi.yaml: already exists"),
        (lambda at: (at / "stacks").write_text("mine"), ".", "stacks: is not a folder"),
        (lambda at: (at / "gpus").write_text("mine"), "gpus", "gpus: is not a folder"),
        (lambda at: None, "my gpus", "'my gpus' is not a valid project name"),
        (lambda at: None, "/", "'' is not a valid project name"),
    ],
    ids=["a file", "a link to nowhere", "a file for a folder", "no folder", "a name with a blank", "the root"],
)
def test_nothing_is_overwritten_or_half_made(
    lay: Callable[[Path], object],
    folder: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lay(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)

    assert main(["new", "--project", folder]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert "no file was written" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_below_the_top_of_a_repository_github_reads_no_workflow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mono" / ".git").mkdir(parents=True)
    for folder, is_told in (("mono/infra/gpus", True), ("mono", False), ("alone", False)):
        assert main(["new", "--project", str(tmp_path / folder)]) == 0
        said = capsys.readouterr().out
        assert ("GitHub reads workflows only at the top of a repository" in said) is is_told
        assert ("{run: {working-directory: infra/gpus}}" in said) is is_told


@pytest.mark.parametrize("name", ["123", "1.10", "true", "null", "0x1F", "gpus"])
def test_a_project_is_called_as_its_folder_whatever_yaml_takes_that_for(name: str, tmp_path: Path) -> None:
    assert main(["new", "--project", str(tmp_path / name)]) == 0
    assert yaml.safe_load((tmp_path / name / "Pulumi.yaml").read_text(encoding="utf-8"))["name"] == name
    assert (tmp_path / name / "README.md").read_text(encoding="utf-8").startswith(f"# {name}\n")


def test_a_folder_without_a_name_is_not_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["new", "--project", ""])  # as "$FOLDER" is, where nobody set it
    assert not list(tmp_path.iterdir())


def test_a_flag_that_a_project_has_no_use_for_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["new", "--project", str(tmp_path / "gpus"), "--gpu", "L4"])

    assert ended.value.code == 2
    assert "--project takes only a folder" in capsys.readouterr().err


class Installed:
    """An installed gpupools, by what its installer noted of where it came from."""

    def __init__(self, told: dict[str, object] | None) -> None:
        self._told = told

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._told is None else json.dumps(self._told)


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@listed(__file__)
def test_a_project_depends_on_what_wrote_it(
    told: dict[str, object] | None, requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project, "distribution", lambda _: Installed(told))
    monkeypatch.setattr(project, "version", lambda: "0.1.0")
    monkeypatch.chdir(tmp_path)

    assert main(["new", "--project", "gpus"]) == 0
    lines = (tmp_path / "gpus" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [each for each in lines if not each.startswith("#")] == [requirement]
    assert Requirement(requirement).name == "gpupools"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")
@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://git.example/acme/gpupools.git", "git+https://git.example/acme/gpupools.git"),
        ("https://me:t0ken@git.example/acme/gpupools", "git+https://git.example/acme/gpupools"),
        ("ssh://git@git.example:2222/acme/gpupools", "git+ssh://git@git.example:2222/acme/gpupools"),
        ("git@git.example:acme/gpupools.git", "git+ssh://git@git.example/acme/gpupools.git"),
        ("/home/me/gpupools", ""),
        ("https://git.example/acme/gpu pools", ""),
    ],
)
def test_a_checkout_is_named_by_the_commit_that_its_origin_has(origin: str, address: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=e@x.example", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    run("init", "-q")
    run("remote", "add", "origin", origin)
    assert published(tmp_path) == ""  # without a commit
    run("commit", "-q", "--allow-empty", "-m", "x")
    assert published(tmp_path) == ""  # nobody else has this one
    run("update-ref", "refs/remotes/origin/main", "HEAD")

    commit = run("rev-parse", "HEAD")
    assert published(tmp_path) == (f"{address}@{commit}" if address else "")


def test_a_folder_that_is_no_checkout_is_named_by_its_version(tmp_path: Path) -> None:
    assert published(tmp_path) == ""


def test_what_comes_next_begins_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    assert main(["new", "--project", "a b/gpus"]) == 0
    assert main(["new", "--project"]) == 0

    nexts = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Next: ")]
    assert [each.partition(" && ")[0] for each in nexts] == ["Next: cd 'a b/gpus'", "Next: python3 -m venv .venv"]
