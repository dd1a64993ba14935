"""Folders of .tf files as arguments of `gpupools policy`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpupools.audit import terraform_configuration

Run = Callable[..., tuple[int, str, str]]

TAINT = '  taint { key = "nvidia.com/gpu", value = "present", effect = "NO_SCHEDULE" }\n'.replace(", ", "\n")


def group(name: str, types: str, more: str = "") -> str:
    return f'resource "aws_eks_node_group" "{name}" {{\n  cluster_name = "c"\n  instance_types = {types}\n{more}}}\n'


@pytest.fixture
def judged(tmp_path: Path, run: Run) -> Callable[..., list[str]]:
    """Return a function that judges a folder with files of these texts and returns `address: level [rule]`."""

    def judge(main: str, **others: str) -> list[str]:
        (tmp_path / "main.tf").write_text(main)
        for name, text in others.items():
            file = tmp_path.joinpath(*name.split("__")).with_suffix(".tfvars" if name == "terraform" else ".tf")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        _, out, err = run("policy", tmp_path)
        assert "GPU pool" in out + err
        lines = [line.removeprefix(f"{tmp_path}/") for line in out.splitlines()]
        return [line for line in lines if "[gpu-pool-tainted" in line or "[node-pools-understood" in line]

    return judge


def test_literals_defaults_locals_and_keys_are_read(judged: Callable[..., list[str]]) -> None:
    main = (
        'variable "types" { default = ["g6.xlarge"] }\n'
        'locals {\n  pools = { a = { type = "g5.xlarge" }, b = { type = "m5.large" } }\n'
        '  first = local.pools["a"].type\n}\n'
        + group("bare", "var.types")
        + group("tainted", "var.types", TAINT)
        + group("named", "[local.first]")
        + group("each", "[each.value.type]", "  for_each = local.pools\n")
    )

    found = judged(main)

    assert [line.split(": ")[:3] for line in found] == [
        ["main.tf:6", "aws_eks_node_group.bare", "violation"],
        ["main.tf:17", "aws_eks_node_group.named", "violation"],
        ["main.tf:21", "aws_eks_node_group.each", "unverified"],
    ]
    assert ["no permanent taint" in line for line in found] == [True, True, False]


@pytest.mark.parametrize(
    "types",
    ["var.given", "[data.x.y.z]", "concat(local.a, [])", "local.loop", 'var.on ? ["g5.xlarge"] : []', "local.a[9]"],
)
def test_what_is_not_known_is_said(judged: Callable[..., list[str]], types: str) -> None:
    locals_ = 'locals {\n  a = ["m5.large"]\n  loop = local.loop\n}\nvariable "given" {}\nvariable "on" {}\n'
    (found,) = judged(locals_ + group("late", types))

    assert "cannot be verified: instance_types" in found


def test_a_file_of_values_counts_before_the_defaults(judged: Callable[..., list[str]]) -> None:
    variable = 'variable "types" { default = ["g6.xlarge"] }\n'

    assert len(judged(variable + group("pool", "var.types"))) == 1
    assert judged(variable + group("pool", "var.types"), terraform='types = ["m5.large"]\n') == []


def test_modules_are_named_as_not_read(judged: Callable[..., list[str]]) -> None:
    """A local module is a folder of its own, whose defaults its caller may replace: the run does not pass."""
    calls = 'module "gpu" { source = "./modules/pool" }\nmodule "eks" { source = "terraform-aws-modules/eks/aws" }\n'
    module = 'variable "type" { default = "g6.xlarge" }\n' + group("this", "[var.type]")

    pool, unread = judged(calls, modules__pool__main=module)

    assert "unverified: 2 modules not read: module.gpu, module.eks; judge the plan: terraform show" in unread
    assert pool.startswith("modules/pool/main.tf:2: aws_eks_node_group.this: violation: has 1 NVIDIA GPU")


@pytest.mark.parametrize("block", ['resource "a" {}', "resource {}", "variable {}", 'locals "x" {}', "module {}"])
def test_a_block_without_its_names_is_no_crash(judged: Callable[..., list[str]], block: str) -> None:
    assert len(judged(f"{block}\n" + group("pool", '["g6.xlarge"]'))) == 1


def test_a_dynamic_block_may_have_no_taint(judged: Callable[..., list[str]]) -> None:
    block = '  dynamic "taint" {\n    for_each = []\n    content { key = "nvidia.com/gpu" }\n  }\n'
    (found,) = judged(group("pool", '["g6.xlarge"]', block))

    assert "cannot be verified: taints not known yet" in found


def test_a_launch_template_in_another_file_is_found(tmp_path: Path, run: Run) -> None:
    text = group("pool", "null", "  launch_template { id = aws_launch_template.gpu.id }\n" + TAINT)
    (tmp_path / "main.tf").write_text(text)
    (tmp_path / "template.tf").write_text('resource "aws_launch_template" "gpu" { instance_type = "g6.xlarge" }\n')
    _, out, _ = run("policy", tmp_path / "main.tf")

    assert "1 GPU pool" in out
    assert "[gpu-pool-tainted" not in out


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("main.tf", 'resource "a" {', "cannot be read as Terraform"),
        ("x_override.tf", "", "override files"),
        ("x.tf.json", "{}", "override files or .tf.json files"),
        ("big.tf", "# " + "x" * 1_000_000, "larger than 1 MB"),
    ],
)
def test_what_cannot_be_read_is_a_problem(tmp_path: Path, run: Run, file: str, text: str, said: str) -> None:
    (tmp_path / "other.tf").write_text("")
    (tmp_path / file).write_text(text)
    code, _, err = run("policy", tmp_path)

    assert code == 1
    assert said in err


def test_a_link_that_leads_out_of_the_repository_is_not_opened(tmp_path: Path, run: Run) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret.tf").write_text(group("pool", '["g6.xlarge"]'))
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link.tf").symlink_to(tmp_path / "out" / "secret.tf")
    code, _, err = run("policy", inside)

    assert code == 1
    assert "links that lead out" in err


def test_without_the_parser_the_folder_is_a_problem(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "main.tf").write_text("")
    monkeypatch.setattr(terraform_configuration, "find_spec", lambda name: None)
    code, _, err = run("policy", tmp_path)

    assert code == 1
    assert "gpupools[audit]" in err


def doubled(levels: int) -> str:
    lines = "".join(f"  l{index} = [local.l{index + 1}, local.l{index + 1}]\n" for index in range(levels))
    return f'locals {{\n{lines}  l{levels} = "x"\n}}\n' + group("pool", "local.l0")


def test_locals_that_double_each_other_are_unknown(judged: Callable[..., list[str]]) -> None:
    (found,) = judged(doubled(14))

    assert "cannot be verified: instance_types" in found


def test_locals_that_double_each_other_many_times_come_to_an_end(judged: Callable[..., list[str]]) -> None:
    judged(doubled(500))
