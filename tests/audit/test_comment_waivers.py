"""Waivers in comments of manifests, templates and Terraform files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit.forms import read_document
from gpupools.audit.judging import judge_document
from gpupools.policies import waivers
from gpupools.policies.policy_config import Config
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
    config = path.parent / "allowed.json"
    config.write_text(json.dumps({"gpu-waiver-current": {"waivers_in_files": "allowed"}}))
    _, out, err = run("policy", path, "--config", config)
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
        (WAIVER.replace("until=2999-01-31 ", ""), "give the waiver until as text"),
        (WAIVER.replace("2999-01-31", "soon"), "write until as YYYY-MM-DD"),
        (WAIVER.replace("gpu-pool-tainted", "gpu-pool-taint"), "there is no rule 'gpu-pool-taint'"),
        (
            WAIVER.replace("gpu-pool-tainted", "gpu-stack-within-budget"),
            "write gpu-pool-bounded, which gpu-stack-within-budget is now part of",
        ),
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


GROUPS = """\
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata: {name: c, region: eu-west-1}
managedNodeGroups:
  - {name: a, instanceType: g5.xlarge}
  # above
  - name: b
    # inside
    instanceType: g5.2xlarge
  - {name: c, instanceType: p5.48xlarge}
"""


@pytest.mark.parametrize(
    ("place", "waiver", "waived"),
    [
        ("# above", WAIVER, ["b"]),
        ("# inside", WAIVER, ["b"]),
        ("# above", f"{WAIVER} pool=c", ["c"]),
        ("apiVersion", f"{WAIVER} pool=a", ["a"]),
        ("apiVersion", WAIVER, []),
        ("managedNodeGroups", WAIVER, []),
    ],
)
def test_a_comment_covers_the_pool_whose_lines_follow(
    tmp_path: Path, run: Run, place: str, waiver: str, waived: list[str]
) -> None:
    (tmp_path / "c.yaml").write_text(GROUPS.replace(place, f"# {waiver}\n{place}"))
    violations, passed = judged(run, tmp_path / "c.yaml")

    assert [name for name in "abc" if any(f"pool {name!r}: has" in line for line in passed)] == waived
    if not waived:
        assert "waives nothing; add pool=NAME, or write it above the lines of one pool" in violations[-1]


@pytest.mark.parametrize(
    "line",
    [
        f'  cluster_name = "c" # {WAIVER}\n',
        f"/* {WAIVER} */\n",
        f"# a\n; {WAIVER}\n",
        f"  * {WAIVER}\n",
        f"-- {WAIVER}\n",
    ],
)
def test_a_comment_of_a_form_that_is_not_read_says_so(tmp_path: Path, run: Run, line: str) -> None:
    file = tmp_path / "main.tf"
    text = line + GROUP if line.startswith("/*") else f"/*\n{line}*/\n{GROUP}"
    file.write_text(GROUP.replace('  cluster_name   = "c"\n', line) if "cluster_name" in line else text)
    violations, waived = judged(run, file)

    assert waived == []
    assert "write it on a line of its own that starts with # or //" in violations[-1]


@pytest.mark.parametrize(
    ("settings", "rule", "fix"),
    [
        ({}, "gpu-pool-tainted", "move it to gpu-pool-tainted.waivers of the policy configuration"),
        ({"waivers_in_files": "none"}, "gpu-pool-owned", "waivers_in_files lets no file waive a rule"),
        ({"longest_waiver_days": 90}, "gpu-pool-owned", "end it within 90 days from today"),
        ({}, "gpu-pool-owned", ""),
        ({"waivers_in_files": "allowed", "longest_waiver_days": 999_999}, "gpu-pool-tainted", ""),
    ],
)
def test_the_configuration_limits_comments(
    tmp_path: Path, run: Run, write: Any, settings: Any, rule: str, fix: str
) -> None:
    file = write(f"# {WAIVER.replace('gpu-pool-tainted', rule)}\n{POOL}", "a.yaml")
    config = write({"gpu-waiver-current": settings}, "config.json")
    out = run("policy", file, "--config", config)[1]

    assert ("waives nothing; " in out, fix in out) == (bool(fix), True)
    assert (": waived until 2999-01-31" in out) is not bool(fix)


def test_a_waiver_of_the_configuration_that_is_too_long_waives_nothing(run: Run, write: Any) -> None:
    waiver = {"resource": "NodePool/NAME", "reason": "r", "owner": "o", "expires": "2999-01-31"}
    rules = {"gpu-pool-tainted": {"waivers": [waiver]}, "gpu-waiver-current": {"longest_waiver_days": 90}}
    code, out, _ = run("policy", write(POOL, "a.yaml"), "--config", write(rules, "config.json"))

    assert code == 1
    assert "NodePool/NAME: violation: has NVIDIA GPUs" in out
    assert "(o: r) is not allowed; end it within 90 days from today" in out


def test_many_comments_are_read_in_proportion(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line and no waiver is looked at once for each comment: the calls per comment stay the same."""
    calls: list[waivers.Comment] = []
    parse = waivers._parse_comment

    def counted(one: waivers.Comment) -> Any:
        calls.append(one)
        return parse(one)

    monkeypatch.setattr(waivers, "_parse_comment", counted)
    for number in (10, 100):
        calls.clear()
        groups = "".join(f"  # {WAIVER}\n  - {{name: g{each}, instanceType: g5.xlarge}}\n" for each in range(number))
        file = tmp_path / "c.yaml"
        file.write_text(GROUPS.partition("  - ")[0] + groups)
        document = read_document(file)
        report = judge_document(file, document, Config(options={"gpu-waiver-current": {"waivers_in_files": "allowed"}}))

        assert len(report.waived) == number
        assert len(calls) == number
