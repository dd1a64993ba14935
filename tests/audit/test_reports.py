"""What `gpupools policy` prints, and its exit codes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

PLANS = Path(__file__).resolve().parent / "plans"
UNTAINTED = PLANS / "aks" / "plan.json"
Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "github"])
def test_the_exit_code_says_whether_a_mandatory_rule_is_violated(form: str, good: Path, bad: Path, run: Run) -> None:
    assert run("policy", good, "--format", form)[0] == 0
    assert run("policy", bad, "--format", form)[0] == 1
    assert run("policy", bad.with_name("missing"), "--format", form)[0] == 1


@pytest.mark.parametrize("arguments", [(), ("x", "--format", "yaml"), ("x", "--unknown")], ids=repr)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...], run: Run) -> None:
    with pytest.raises(SystemExit) as ended:
        run("policy", *arguments)

    assert ended.value.code == 2


def test_every_file_is_judged_though_one_cannot_be(good: Path, bad: Path, write: Any, run: Run) -> None:
    code, out, err = run("policy", write("a: [1", "broken"), good, bad, bad)

    assert code == 1
    assert "broken: line 2, column 1: is not YAML" in err
    assert "3 files, 2 resources (2 judged, 0 no node pools, 0 not understood), 2 GPU pools: 1 violation" in out
    assert "1 file not read; " in out
    assert out.count(f"{bad}:10: NodePool/gpu: violation: ") == 1


def test_the_text_names_file_line_resource_rule_and_cure(bad: Path, run: Run) -> None:
    line = next(line for line in run("policy", bad)[1].splitlines() if ": violation: " in line)

    assert line.startswith(f"{bad}:10: NodePool/gpu: violation: has ")
    assert "found spec.template.spec.taints: nvidia.com/gpu:PreferNoSchedule; add " in line
    assert line.endswith("[gpu-pool-tainted]")


def test_json_has_everything_a_program_needs(bad: Path, run: Run) -> None:
    report = json.loads(run("policy", bad, "--json")[1])
    finding = next(each for each in report["files"][0]["findings"] if each["level"] == "violation")

    assert report["result"] == "refused"
    assert finding["rule"] == "gpu-pool-tainted"
    assert (finding["resource"], finding["line"], finding["severity"]) == ("NodePool/gpu", 10, "high")
    assert finding["type"] == "kubernetes:karpenter.sh/v1:NodePool"


def test_json_leads_to_the_page_of_the_finding_and_the_place_of_the_damage(write: Any, run: Run) -> None:
    pool = {"machine_type": "g2-standard-4", "taint": [{"key": "a", "value": "b", "effect": "NO_SCHEDULE"}]}
    change = {
        "address": "google_container_node_pool.l4",
        "mode": "managed",
        "type": "google_container_node_pool",
        "change": {"actions": ["create"], "after": {"node_config": [pool]}},
    }
    plan = write({"format_version": "1.2", "resource_changes": [change]}, "plan.json")
    damaged = write({"format_version": "1.2", "resource_changes": 3}, "damaged.json")

    judged, refused = json.loads(run("policy", plan, damaged, "--json")[1])["files"]

    urls = {each["url"] for each in judged["findings"] if each["rule"] == "gpu-node-hardened"}
    assert urls
    assert all(url.startswith("https://docs.cloud.google.com/") for url in urls)
    assert [problem["key"] for problem in refused["problems"]] == ["resource_changes"]


def test_junit_counts_what_it_holds(good: Path, bad: Path, write: Any, run: Run) -> None:
    root = Xml.fromstring(run("policy", good, bad, write("", "empty"), "--format", "junit")[1])
    cases = root.findall("testsuite/testcase")

    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    assert [len(list(root.iter(name))) for name in ("testcase", "failure", "error")] == [3, 1, 1]
    assert [case.get("name") for case in cases] == ["NodePool/gpu", "NodePool/gpu", "file"]


def test_junit_is_xml_whatever_a_name_holds(tainted_pool: str, write: Any, run: Run) -> None:
    name = '"a\\u0000b\\u001b<&>]]>\\uffff"'
    pool = tainted_pool.replace("name: gpu, labels", f"name: {name}, labels").replace("effect: No", "effect: PreferNo")
    root = Xml.fromstring(run("policy", write(pool, "x"), "--format", "junit")[1])

    assert [case.get("name") for case in root.iter("testcase")] == [r"NodePool/a\x00b\x1b<&>]]>\uffff"]


def test_github_gets_one_annotation_on_the_line(bad: Path, run: Run) -> None:
    out = run("policy", bad, "--format", "github")[1]

    assert f"::error file={bad},line=10,title=gpu-pool-tainted::NodePool/gpu: has " in out


def test_github_annotations_keep_lines_and_properties_apart() -> None:
    from gpupools.console.output import annotation

    assert (
        annotation("error", "a,b:c.yaml", 3, "100%", "one\ntwo: 5%\r")
        == "::error file=a%2Cb%3Ac.yaml,line=3,title=100%25::one%0Atwo: 5%25\\r"
    )
    assert annotation("warning", "a", None, "t", "m") == "::warning file=a,title=t::m"


STACK = """\
config:
  gpupools:clusters:
    train: {cloud: aws, name: t, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"}
  gpupools:pools:
    one:
      clusters: [train]
      gpu: A100-40GB
      gpus_per_node: 3
      nodes: {max: 1}
"""


def test_check_annotates_the_stack_files_line(write: Any, run: Run) -> None:
    path = write(STACK, "Pulumi.dev.yaml")
    code, out, err = run("check", path, "--format", "github")

    assert (code, err) == (1, "")
    assert out.startswith(f"::error file={path},line=9,title=pools.one.gpus_per_node::")
    assert len(out.splitlines()) == 1


def test_check_prints_the_same_problem_as_text(write: Any, run: Run) -> None:
    path = write(STACK, "Pulumi.dev.yaml")

    assert run("check", path)[2].startswith(f"{path}:9: pools.one.gpus_per_node: ")


# --- configuration ---


def test_a_rule_can_be_raised_and_an_unproven_violation_left_to_the_update(write: Any, run: Run) -> None:
    plan = PLANS / "eks" / "plan.json"
    config = write({"gpu-pool-tainted": {"unknownAtPreview": "advisory"}, "gpu-pool-owned": "mandatory"}, "config")

    def levels(*arguments: Any) -> dict[tuple[str, str], str]:
        findings = json.loads(run("policy", plan, "--json", *arguments)[1])["files"][0]["findings"]
        return {(each["resource"], each["rule"]): each["level"] for each in findings}

    before, after = levels(), levels("--config", config)
    late, surely = "aws_eks_node_group.late_taint", "aws_eks_node_group.untainted"

    assert (before[late, "gpu-pool-tainted"], after[late, "gpu-pool-tainted"]) == ("unverified", "advice")
    assert (before[surely, "gpu-pool-tainted"], after[surely, "gpu-pool-tainted"]) == ("violation", "violation")
    assert (before[surely, "gpu-pool-owned"], after[surely, "gpu-pool-owned"]) == ("advice", "violation")


def test_an_advisory_rule_can_be_switched_off(write: Any, run: Run) -> None:
    config = write({"gpu-pool-owned": "disabled"}, "config")
    out = run("policy", PLANS / "eks" / "plan.json", "--config", config)[1]

    assert "gpu-pool-owned" not in out
    assert "gpu-pool-tainted" in out


@pytest.mark.parametrize(
    "config",
    [
        {"gpu-pool-tainted": "advisory"},
        {"gpu-pool-tainted": {"enforcementLevel": "disabled"}},
        {"all": "disabled"},
        {"gpu-pool-taint": "mandatory"},
        {"gpu-pool-tainted": {"unknown": 1}},
        [],
        "{",
    ],
    ids=json.dumps,
)
def test_a_configuration_that_weakens_a_mandatory_rule_or_means_nothing_is_refused(
    config: Any, good: Path, write: Any, run: Run
) -> None:
    path = write(config, "config")
    code, out, err = run("policy", good, "--config", path)

    assert (code, out) == (1, "")
    assert err.startswith(f"{path}: ")


def test_neither_pulumi_nor_a_clouds_sdk_is_imported() -> None:
    program = (
        "import sys; from gpupools.cli.main import main; code = main(['policy', sys.argv[1]]); "
        "print([name for name in sys.modules if name.startswith('pulumi')], code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(UNTAINTED)], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.splitlines()[-1] == "[] 1"
