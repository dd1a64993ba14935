"""`gpupools new --project`: what it refuses, and that what it copies belongs to this version."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpupools.commands.cli import main
from gpupools.commands.project import template

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
            "README.md: is there already",
        ),
        (lambda at: (at / "Pulumi.yaml").symlink_to("nowhere"), ".", "Pulumi.yaml: is there already"),
        (lambda at: (at / "stacks").write_text("mine"), ".", "stacks: is no folder"),
        (lambda at: (at / "gpus").write_text("mine"), "gpus", "gpus: is no folder"),
        (lambda at: None, "my gpus", "'my gpus' is no name of a project"),
        (lambda at: None, "/", "'' is no name of a project"),
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
    assert "nothing was written" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_a_flag_that_a_project_has_no_use_for_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["new", "--project", str(tmp_path / "gpus"), "--gpu", "L4"])

    assert ended.value.code == 2
    assert "--project takes a folder and nothing else" in capsys.readouterr().err
