"""Findings on a Terraform plan, told with file and line of the configuration beside it."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit import terraform_sources
from gpupools.audit.judging import judge_file
from gpupools.audit.terraform_sources import Sources, missing_parser
from gpupools.cli.main import main
from gpupools.common.sdk import NEED_FOR_SOURCES
from gpupools.policies.policy_config import Config

PLANS = Path(__file__).parent / "plans"

CONFIGURATION = """\
# resource "aws_eks_node_group" "gpu" {
locals {
  text = <<-EOT
    resource "aws_eks_node_group" "gpu" {
  EOT
}

resource "aws_eks_node_group" "gpu" {
  cluster_name   = "lab"
  instance_types = ["g6.xlarge"]
  taint {
    key    = "a"
    effect = "NO_SCHEDULE"
  }
  dynamic "taint" {
    for_each = var.taints
    content {
      key    = taint.value
      effect = "PREFER_NO_SCHEDULE"
    }
  }
}
"""


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    (tmp_path / "main.tf").write_text(CONFIGURATION, encoding="utf-8")
    return Sources(tmp_path, {})


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 8),
        ("labels", 8),
        ("instance_types", 10),
        ("taint", 11),
        ("taint[0].effect", 13),
        ("taint[1].effect", 19),
        ("taint[9].effect", 13),
        ("instance_types → taint", 10),
    ],
)
def test_an_input_has_its_line_or_that_of_what_is_around_it(sources: Sources, path: str, line: int) -> None:
    place = sources.place('aws_eks_node_group.gpu["a"]', path)

    assert place is not None
    assert (place[0].name, place[1]) == ("main.tf", line)


@pytest.mark.parametrize("address", ["aws_eks_node_group.other", "module.a.aws_eks_node_group.gpu", "", "module."])
def test_what_is_not_in_the_configuration_has_no_place(sources: Sources, address: str) -> None:
    assert sources.place(address, "taint") is None


@pytest.mark.parametrize("content", ['resource "a" {', "\x00", "a = " + "[" * 5000, "b" * 2_000_000])
def test_a_file_that_cannot_be_read_has_no_places(tmp_path: Path, content: str) -> None:
    (tmp_path / "main.tf").write_text(content, encoding="utf-8")

    assert Sources(tmp_path, {}).place("a.b", "") is None


def test_nothing_outside_of_the_repository_is_opened(tmp_path: Path) -> None:
    outside, repository = tmp_path / "outside", tmp_path / "repository"
    for folder in (outside, repository / ".git", repository / "envs" / "prod", repository / "modules"):
        folder.mkdir(parents=True)
    for folder in (outside, repository / "modules"):
        (folder / "main.tf").write_text(CONFIGURATION, encoding="utf-8")
    (repository / "envs" / "prod" / "linked.tf").symlink_to(outside / "main.tf")
    calls: dict[tuple[str, ...], str] = {
        ("inside",): "../../modules",
        ("outside",): "../../../outside",
        ("registry",): "terraform-aws-modules/eks",
    }
    found = Sources(repository / "envs" / "prod", calls)

    assert found.place("module.inside.aws_eks_node_group.gpu", "") is not None
    assert found.place("module.outside.aws_eks_node_group.gpu", "") is None
    assert found.place("module.registry.aws_eks_node_group.gpu", "") is None
    assert found.place("aws_eks_node_group.gpu", "") is None


def test_a_module_is_where_terraform_init_has_put_it(tmp_path: Path) -> None:
    made = tmp_path / ".terraform" / "modules" / "pools.inner"
    made.mkdir(parents=True)
    (made / "main.tf").write_text(CONFIGURATION, encoding="utf-8")
    manifest = {"Modules": [{"Key": "pools.inner", "Source": "registry", "Dir": ".terraform/modules/pools.inner"}]}
    (tmp_path / ".terraform" / "modules" / "modules.json").write_text(json.dumps(manifest), encoding="utf-8")
    found = Sources(tmp_path, {}).place('module.pools["a.b"].module.inner[0].aws_eks_node_group.gpu', "taint")

    assert found == (made / "main.tf", 11)


def test_every_report_on_a_plan_names_file_and_line(tmp_path: Path, run: Callable[..., tuple[int, str, str]]) -> None:
    shutil.copytree(PLANS / "eks_modules", tmp_path, dirs_exist_ok=True)
    plan = tmp_path / "plan.json"
    reports = {form: run("policy", plan, "--format", form)[1] for form in ("text", "json", "sarif", "github")}
    listed = (PLANS / "eks_modules" / "pool" / "main.tf").read_text(encoding="utf-8").splitlines()
    line = 1 + next(number for number, each in enumerate(listed) if '"aws_eks_node_group" "inner"' in each)
    inner = tmp_path / "./pool" / "main.tf"
    results = json.loads(reports["sarif"])["runs"][0]["results"]
    places = [each["locations"][0]["physicalLocation"] for each in results]

    assert f'{inner}:{line}: module.pool["untainted"].aws_eks_node_group.inner: violation: ' in reports["text"]
    assert any(each.get("file") == str(inner) and each["line"] >= line for each in of_json(reports["json"]))
    assert any(each["artifactLocation"]["uri"].endswith("pool/main.tf") for each in places)
    assert f"::error file={inner}" in reports["github"]


def of_json(report: str) -> list[dict[str, Any]]:
    (file,) = json.loads(report)["files"]
    found: list[dict[str, Any]] = file["findings"]
    return found


def test_without_the_configuration_a_finding_is_at_the_plan(tmp_path: Path) -> None:
    shutil.copy(PLANS / "eks_modules" / "plan.json", tmp_path)
    found = judge_file(tmp_path / "plan.json", Config()).found

    assert found
    assert {each.file for each in found} == {None}
    assert all(each.line for each in found)


def test_without_its_parser_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert missing_parser([tmp_path]) == ""
    monkeypatch.setitem(sys.modules, "hcl2", None)
    monkeypatch.setattr(terraform_sources, "find_spec", lambda name: None)
    plan = shutil.copy(PLANS / "eks" / "plan.json", tmp_path)

    assert main(["policy", str(plan)]) == 1
    without_sources = capsys.readouterr()
    (tmp_path / "main.tf").write_text(CONFIGURATION, encoding="utf-8")
    assert main(["policy", str(plan)]) == 1
    beside_sources = capsys.readouterr()

    plain = [re.sub(r"\d+\.\d s", "", each.out) for each in (without_sources, beside_sources)]
    assert (without_sources.err, plain[0]) == ("", plain[1])
    first, second = "findings have the lines of the plan", f"lines of its .tf files need {NEED_FOR_SOURCES}"
    assert beside_sources.err == f"{first}; {second}\n"
