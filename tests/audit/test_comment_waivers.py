"""Waivers in comments of manifests, templates and Terraform files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audit.test_folders import POOL

Run = Callable[..., tuple[int, str, str]]

WAIVER = 'gpupools:ignore gpu-pool-tainted until=2999-01-31 owner=ml reason="moves away"'
GROUP = """\
resource "aws_eks_node_group" "gpu" {
  cluster_name   = "c"
  instance_types = ["g6.xlarge"]
}
"""
TEMPLATE = """\
AWSTemplateFormatVersion: "2010-09-09"
Resources:
  Gpu:
    Type: AWS::EKS::Nodegroup
    Properties: {ClusterName: c, InstanceTypes: [g6.xlarge]}
"""


def plan(name: str) -> str:
    values = {"cluster_name": "c", "instance_types": ["g6.xlarge"]}
    change = {"actions": ["create"], "before": None, "after": values, "after_unknown": {}}
    resource = {"mode": "managed", "type": "aws_eks_node_group", "name": name, "change": change}
    resource["address"] = f"aws_eks_node_group.{name}"
    return json.dumps({"format_version": "1.2", "resource_changes": [resource]})


def judged(run: Run, path: Path) -> tuple[list[str], list[str]]:
    """Return the lines of violations of the rule and of its waivers, and those of waived findings."""
    _, out, err = run("policy", path)
    lines = (out + err).splitlines()
    wanted = ("[gpu-pool-tainted]", "[gpu-waiver-current]")
    return [line for line in lines if ": violation" in line and line.endswith(wanted)], [
        line for line in lines if ": waived until" in line
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", f"# {WAIVER}\n{POOL}"),
        ("a.yaml", POOL.replace("spec:\n  template", f"# {WAIVER}\nspec:\n  template")),
        ("a.yaml", f"apiVersion: v1\nkind: ConfigMap\n---\n# {WAIVER}\n# for now\n\n{POOL}"),
        ("a.yaml", TEMPLATE.replace("  Gpu:", f"  # {WAIVER}\n  Gpu:")),
        ("main.tf", f"# {WAIVER}\n{GROUP}"),
        ("main.tf", f"// {WAIVER}\n{GROUP}"),
        ("main.tf", GROUP.replace("  cluster_name", f"  # {WAIVER}\n  cluster_name")),
    ],
)
def test_a_comment_at_a_resource_waives_its_finding(tmp_path: Path, run: Run, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    violations, waived = judged(run, tmp_path / name)

    assert violations == []
    assert len(waived) == 1
    assert "waived until 2999-01-31 by ml: moves away" in waived[0]


def test_a_comment_in_the_configuration_beside_a_plan_counts(tmp_path: Path, run: Run) -> None:
    (tmp_path / "plan.json").write_text(plan("gpu"))
    (tmp_path / "main.tf").write_text(f"# {WAIVER}\n{GROUP}")
    violations, waived = judged(run, tmp_path / "plan.json")

    assert violations == []
    assert len(waived) == 1


def test_a_comment_covers_no_other_resource_and_no_other_rule(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"{POOL.replace('NAME', 'first')}---\n# {WAIVER}\n{POOL.replace('NAME', 'second')}")
    violations, waived = judged(run, file)
    assert [line.split(": ")[1] for line in violations] == ["NodePool/first"]
    assert [line.split(": ")[1] for line in waived] == ["NodePool/second"]

    file.write_text(f"# {WAIVER.replace('gpu-pool-tainted', 'gpu-pool-owned')}\n{POOL}")
    violations, waived = judged(run, file)
    assert len(violations) == 1
    assert "gpu-pool-tainted" in violations[0]


@pytest.mark.parametrize(
    ("waiver", "said"),
    [
        (WAIVER.replace("2999", "2020"), "expired on 2020-01-31"),
        (WAIVER.replace(" owner=ml", ""), "give the waiver owner as text"),
        (WAIVER.replace(' reason="moves away"', ""), "give the waiver reason as text"),
        (WAIVER.replace("until=2999-01-31 ", ""), "give the waiver expires as text"),
        (WAIVER.replace("2999-01-31", "soon"), "write expires as YYYY-MM-DD"),
        (WAIVER.replace("gpu-pool-tainted", "gpu-pool-taint"), "there is no rule 'gpu-pool-taint'"),
        (WAIVER[:-1], "there is no rule ''"),
        ("gpupools:ignore", "there is no rule ''"),
    ],
)
def test_an_invalid_comment_waives_nothing_and_is_one_line(tmp_path: Path, run: Run, waiver: str, said: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"# {waiver}\n{POOL}")
    violations, waived = judged(run, file)

    assert waived == []
    assert len(violations) == 2
    assert said in violations[1]


def test_a_text_that_is_no_comment_waives_nothing(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(POOL.replace("{name: NAME}", f"{{name: gpu, annotations: {{note: '{WAIVER}'}}}}"))

    assert judged(run, file)[1] == []


def test_one_comment_covers_all_that_for_each_makes(tmp_path: Path, run: Run) -> None:
    """It is used if one of them has the finding; one that none has is still reported."""
    (tmp_path / "main.tf").write_text(f"# {WAIVER}\n{GROUP}")
    for types, unused in ((["g6.xlarge", "m5.large"], 0), (["m5.large", "m5.large"], 2)):
        changes = []
        for key, name in zip("ab", types, strict=True):
            (one,) = json.loads(plan("gpu"))["resource_changes"]
            one["change"]["after"]["instance_types"] = [name]
            changes.append({**one, "address": f'aws_eks_node_group.gpu["{key}"]', "index": key})
        (tmp_path / "plan.json").write_text(json.dumps({"format_version": "1.2", "resource_changes": changes}))
        violations, waived = judged(run, tmp_path / "plan.json")

        assert len(violations) == unused
        assert all("matches no finding" in line for line in violations)
        assert len(waived) == (0 if unused else 1)
