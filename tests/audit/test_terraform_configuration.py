"""Folders of .tf files as arguments of `gpupools policy`."""

import json
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
        ["main.tf:21", 'aws_eks_node_group.each["a"]', "violation"],
    ]
    assert all("no permanent taint" in line for line in found)


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


POOLS = 'variable "pools" {}\n' + group("this", "[each.value.type]", "  for_each = var.pools\n")


def call(name: str, source: str, more: str = "") -> str:
    return f'module "{name}" {{\n  source = "{source}"\n{more}}}\n'


def test_a_local_module_is_read_with_the_arguments_of_each_call(judged: Callable[..., list[str]]) -> None:
    pools = '  pools = { gpu = { type = "g5.xlarge" }, cpu = { type = "m5.large" } }\n'
    calls = call("gpu", "./modules/pool", pools) + call("cpu", "./modules/pool", "  pools = {}\n")
    found = judged(calls, modules__pool__main=POOLS)

    assert [line.split(": ")[:3] for line in found] == [
        ["modules/pool/main.tf:2", 'module.gpu.aws_eks_node_group.this["gpu"]', "violation"],
    ]


def test_a_module_that_nobody_calls_is_read_with_its_defaults(judged: Callable[..., list[str]]) -> None:
    (found,) = judged(call("gpu", "./modules/other", "  count = 0\n"), modules__pool__main=POOLS, modules__other__x="")

    assert found.startswith("modules/pool/main.tf:2: aws_eks_node_group.this: unverified")


def test_modules_that_only_call_each_other_are_read(judged: Callable[..., list[str]]) -> None:
    bare = group("pool", '["g6.xlarge"]')
    found = judged("", a__main=call("b", "../b") + bare, b__main=call("a", "../a"))

    assert any("a/main.tf:4: aws_eks_node_group.pool: violation" in line for line in found)


def test_other_modules_are_named_as_not_read(judged: Callable[..., list[str]]) -> None:
    calls = (
        call("vpc", "terraform-aws-modules/vpc/aws") + call("gone", "./gone") + call("git", "git::https://a.example/b")
    )
    (unread,) = judged(calls + call("in", "./modules/a"), modules__a__main=call("logs", "x/y/aws"))[:1]

    assert "3 modules not read: module.vpc, module.git, module.in.module.logs; judge the plan" in unread


def test_a_module_that_calls_itself_is_said_once(judged: Callable[..., list[str]]) -> None:
    found = judged(call("a", "./modules/a"), modules__a__main=call("b", "../b"), modules__b__main=call("a", "../a"))
    said = "modules/b/main.tf:1: module.a.module.b.module.a: unverified: calls itself through ../a; remove that call"

    assert said in found[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (group("x", "[each.value]", "  for_each = aws_x.y.all\n"), "not known yet (for_each uses aws_x.y.all)"),
        (group("x", "var.a", "  count = data.x.y.n\n"), "not known yet (count uses data.x.y.n)"),
        (group("x", "var.a", '  for_each = toset(["a"])\n'), "instance_types not known yet, or"),
    ],
)
def test_what_a_block_is_repeated_over_is_said_where_it_is_not_known(
    judged: Callable[..., list[str]], text: str, said: str
) -> None:
    (found,) = judged(text)

    assert said in found


WAIVE = '  # gpupools:ignore node-pools-understood until=2199-01-01 owner=ml reason="no nodes"\n'


def test_a_comment_in_a_module_block_waives_what_is_said_of_the_module(tmp_path: Path, run: Run) -> None:
    (tmp_path / "main.tf").write_text(call("vpc", "a/vpc/aws", WAIVE) + call("logs", "a/logs/aws"))
    config = tmp_path / "config.json"
    config.write_text('{"gpu-waiver-current": {"waivers_in_files": "allowed"}}')
    _, out, _ = run("policy", "--format", "json", "--config", config, tmp_path / "main.tf")
    (report, *_) = json.loads(out)["files"]

    assert [(each["resource"], each["line"]) for each in report["waived"]] == [("module.vpc", 1)]
    assert [(each["resource"], each["line"]) for each in report["findings"]] == [("module.logs", 5)]


@pytest.mark.parametrize(
    ("repeats", "addresses"),
    [
        ("count = 2", ["aws_eks_node_group.x[0]", "aws_eks_node_group.x[1]"]),
        ("count = 0", []),
        ("count = var.on ? 1 : 0", ["aws_eks_node_group.x[0]"]),
        ("count = !var.on ? 1 : 0", []),
        ('count = var.name == "a" ? 0 : 1', []),
        ('count = var.name != "a" ? 0 : 1', ["aws_eks_node_group.x[0]"]),
        ("count = data.x.y.n", ["aws_eks_node_group.x"]),
        ("count = 1000000", ["aws_eks_node_group.x"]),
        ('for_each = toset(["a"])', ['aws_eks_node_group.x["a"]']),
        ("for_each = {}", []),
        ("for_each = aws_subnet.all", ["aws_eks_node_group.x"]),
        ('for_each = { (var.name) = lookup(var.map, "k", 1) }', ['aws_eks_node_group.x["a"]']),
    ],
)
def test_literal_repetitions_are_made(judged: Callable[..., list[str]], repeats: str, addresses: list[str]) -> None:
    variables = 'variable "on" { default = true }\nvariable "name" { default = "a" }\nvariable "map" { default = {} }\n'
    found = judged(variables + group("x", '["g5.xlarge"]', f"  {repeats}\n"))

    assert [line.split(": ")[1] for line in found] == addresses


def dynamic(items: str) -> str:
    return f"""  dynamic "taint" {{
    for_each = {items}
    iterator = one
    content {{
      key    = one.value.key
      effect = one.value.effect
    }}
  }}
"""


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ('[{ key = "nvidia.com/gpu", effect = "NO_SCHEDULE" }]', None),
        ('{ a = { key = "nvidia.com/gpu", effect = "NO_SCHEDULE" } }', None),
        ("[]", "no permanent taint"),
        ('[{ key = "nvidia.com/gpu", effect = "PREFER_NO_SCHEDULE" }]', "no permanent taint"),
        ("aws_x.y.z", "cannot be verified: taints not known yet"),
    ],
)
def test_a_dynamic_block_is_made_for_each_literal(
    judged: Callable[..., list[str]], items: str, said: str | None
) -> None:
    found = judged(group("pool", '["g6.xlarge"]', dynamic(items)))

    assert [bool(said) and str(said) in line for line in found] == ([] if said is None else [True])


EKS, GKE, AKS = (
    "terraform-aws-modules/eks/aws",
    "terraform-google-modules/kubernetes-engine/google",
    "Azure/aks/azurerm",
)
TAINTS = '[{ key = "nvidia.com/gpu", value = "present", effect = "NO_SCHEDULE" }]'


def eks(group_: str, more: str = "", version: str = "~> 21.0") -> str:
    return call(
        "m", EKS, f'  version = "{version}"\n{more}  eks_managed_node_groups = {{\n    gpu = {{ {group_} }}\n  }}\n'
    )


def gke(pool: str, more: str = "", variant: str = "") -> str:
    return call(
        "m", GKE + variant, f'  version = "44.2.0"\n{more}  node_pools = [\n    {{ name = "gpu", {pool} }},\n  ]\n'
    )


def aks(arguments: str) -> str:
    return call("m", AKS, f'  version = ">= 10.0, < 12"\n{arguments}')


V21 = '  version = "21.1.0"\n'
H100 = 'vm_size = "Standard_NC40ads_H100_v5"'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (eks('instance_types = ["g5.xlarge"]'), 'main.tf:5: module.m.eks_managed_node_groups["gpu"]: violation: has 1'),
        (eks('instance_types = ["m5.large"]'), None),
        (eks(f'instance_types = ["g5.xlarge"], taints = {TAINTS}'), None),
        (eks(f'instance_types = ["g5.xlarge"], taints = {{ a = {TAINTS}[0] }}'), None),
        (eks('instance_types = ["g5.xlarge"]', f"  eks_managed_node_group_defaults = {{ taints = {TAINTS} }}\n"), None),
        (eks('ami_type = "AL2023_x86_64_NVIDIA"'), "has NVIDIA GPUs (ami_type AL2023_x86_64_NVIDIA)"),
        (eks('instance_types = ["g5.xlarge"], create = false'), None),
        (eks("instance_types = var.x"), "cannot be verified: instance_types"),
        (eks('instance_types = ["g5.xlarge"], pre_bootstrap_user_data = "mkdir /x"'), "no permanent taint"),
        (eks('instance_types = ["g5.xlarge"], bootstrap_extra_args = "--x taints=a"'), "taints not known"),
        (eks('instance_types = ["g5.xlarge"]', version=">= 18"), "module.m: unverified: allows versions that are not"),
        (eks('instance_types = ["g5.xlarge"]', version="~> 22.0"), 'set version = "~> 21.0", or plan it'),
        (eks('instance_types = ["g5.xlarge"]', version="17.24.0"), "the inputs of 18 to 21 are read"),
        (call("m", EKS), "module.m: unverified: has no version"),
        (call("m", f"{EKS}//modules/eks-managed-node-group", f"{V21}  instance_types = [\"p5.48xlarge\"]\n"),
         "module.m.aws_eks_node_group: violation: has 8"),
        (call("m", EKS, f'{V21}  self_managed_node_groups = {{ a = {{}} }}\n'),
         "1 module not read: module.m.self_managed_node_groups;"),
        (call("m", f"{EKS}//modules/karpenter", V21), "1 module not read: module.m;"),
        (gke('machine_type = "a3-highgpu-8g"'), 'main.tf:4: module.m.node_pools["gpu"]: violation: has 8'),
        (gke('accelerator_type = "nvidia-tesla-t4", accelerator_count = "1"'), "has 1 NVIDIA GPU"),
        (gke('machine_type = "e2-medium"'), None),
        (gke('machine_type = "a3-highgpu-8g"', f"  node_pools_taints = {{ gpu = {TAINTS} }}\n"), None),
        (gke('machine_type = "a3-highgpu-8g"', f"  node_pools_taints = {{ all = {TAINTS} }}\n"), None),
        (gke('machine_type = "a3-highgpu-8g"', f"  node_pools_taints = {{ b = {TAINTS} }}\n"), "to node_pools_taints"),
        (gke('machine_type = "a3-highgpu-8g"', "  node_pools_taints = local.x\n"), "cannot be verified"),
        (gke('machine_type = "a3-highgpu-8g"', variant="//modules/beta-private-cluster-update-variant"), "has 8"),
        (gke('machine_type = "a3-highgpu-8g"', variant="//modules/hub-legacy"), "1 module not read"),
        (aks(f"  node_pools = {{ g = {{ {H100} }} }}\n"), 'module.m.node_pools["g"]: violation: has 1'),
        (aks(f'  node_pools = {{ g = {{ {H100}, node_taints = ["sku=gpu:NoSchedule"] }} }}\n'), None),
        (aks('  agents_size = "Standard_NC40ads_H100_v5"\n'), "agents_size Standard_NC40ads_H100_v5"),
        (aks('  agents_size = "Standard_NC40ads_H100_v5"\n  agents_taints = ["sku=gpu:NoSchedule"]\n'), None),
        (aks('  agents_size = "Standard_D2s_v3"\n'), None),
    ],
)  # fmt: skip
def test_three_registry_modules_are_read_by_one_table(
    judged: Callable[..., list[str]], text: str, said: str | None
) -> None:
    found = judged(text)

    assert len(found) == (said is not None)
    assert said is None or said in found[0]


PLUGIN = 'resource "helm_release" "plugin" {\n  chart = "nvidia-device-plugin"\n  version = "0.20.0"\n}\n'


# aws-samples/aws-do-eks wd/conf/terraform/eks-p5/main.tf
@pytest.mark.parametrize(("image", "is_said"), [("", True), (", ami_id = data.aws_ami.gpu.id", False)])
def test_a_driver_may_be_in_an_image_of_ones_own(tmp_path: Path, run: Run, image: str, is_said: bool) -> None:
    text = eks(f'instance_types = ["p5.48xlarge"], taints = {TAINTS}{image}', version="~> 19.12") + PLUGIN
    (tmp_path / "main.tf").write_text(text)

    assert ("nothing installs a GPU driver" in run("policy", tmp_path)[1]) is is_said


@pytest.mark.parametrize("block", ['resource "a" {}', "resource {}", "variable {}", 'locals "x" {}', "module {}"])
def test_a_block_without_its_names_is_no_crash(judged: Callable[..., list[str]], block: str) -> None:
    assert len(judged(f"{block}\n" + group("pool", '["g6.xlarge"]'))) == 1


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
