"""Objects that a plan does not know are read from the configuration beside it, with what is not constant unknown."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.audit.judging import FileReport, judge_file
from gpupools.policies.policy_config import Config, config_problems

CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  role: ${module.karpenter.node_iam_role_name}
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: ${var.name}
spec:
  template:
    spec:
      taints:
        - {key: nvidia.com/gpu, value: "${lookup(var.b, var.a)}", effect: NoSchedule}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g6]}
"""
ENCODED = """yamlencode({
    apiVersion = "karpenter.sh/v1"
    kind       = "NodePool" # a comment
    "metadata" = { name = "gpu-${var.name}" }
    spec = { template = { spec = {
      taints       = TAINTS
      requirements = [{ key = "karpenter.k8s.aws/instance-family", operator = "In", values = ["g6"] }]
    } } }
  })"""
TAINTS = '[{ key = "nvidia.com/gpu", effect = "NoSchedule" }]'
BARE, OPEN, CLOSED = ("gpu-pool-tainted", False), ("gpu-pool-tainted", True), ("node-pools-understood", True)


def heredoc(text: str) -> str:
    return f"<<-YAML\n{''.join(f'    {line}' for line in text.splitlines(keepends=True))}  YAML"


def judged(folder: Path, written: str, kind: str = "kubectl_manifest", **values: Any) -> FileReport:
    key = {"kubectl_manifest": "yaml_body", "kubernetes_manifest": "manifest"}[kind]
    (folder / "main.tf").write_text(f'resource "{kind}" "gpu" {{\n  {key} = {written}\n}}\n', encoding="utf-8")
    change = {"actions": ["create"], "before": None, "after": values, "after_unknown": {key: True}}
    resource = {"address": f"{kind}.gpu", "mode": "managed", "type": kind, "name": "gpu"}
    configured = {**resource, "expressions": {key: {"references": ["var.a"]}}}
    plan = {
        "format_version": "1.2",
        "resource_changes": [{**resource, "change": change}],
        "configuration": {"root_module": {"resources": [configured]}},
    }
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    return judge_file(folder / "plan.json", Config())


def faults(report: FileReport) -> list[tuple[str, bool]]:
    assert report.problems == ()
    return [(each.rule.name, each.finding.unverified) for each in report.found if each.level.value != "advice"]


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (heredoc(CLASS), []),
        (heredoc(POOL), []),
        (heredoc(POOL.replace("NoSchedule", "PreferNoSchedule")), [BARE]),
        (heredoc(POOL.replace("NoSchedule", "${var.effect}")), [OPEN]),
        (heredoc(POOL.replace("nvidia.com/gpu", "${var.key}").replace("key: ${", "${var.k}: ${")), [OPEN]),
        (heredoc(POOL.replace("  template:", "  ${indent(2, var.more)}\n  template:")), [CLOSED]),
        (heredoc(POOL.replace("spec:\n  template:", "%{ if var.a }\nspec:\n  template:")), [CLOSED]),
        (heredoc(POOL.replace("${var.name}", "${~ var.name ~}")), [CLOSED]),
        (heredoc(POOL.replace("kind: NodePool", "kind: ${var.kind}")), [CLOSED]),
        (heredoc(POOL + "---\n" + CLASS), [CLOSED]),
        (ENCODED.replace("TAINTS", TAINTS), []),
        (ENCODED.replace("TAINTS", TAINTS).replace("yamlencode", "jsonencode"), []),
        (ENCODED.replace("TAINTS", "[]"), [BARE]),
        (ENCODED.replace("TAINTS", "var.taints"), [OPEN]),
        (ENCODED.replace("TAINTS", "var.a ? [] : " + TAINTS), [OPEN]),
        (ENCODED.replace("TAINTS", TAINTS).replace("yamlencode", "base64encode"), [CLOSED]),
        ('templatefile("pool.yaml", {})', [CLOSED]),
        ("local.body", [CLOSED]),
    ],
)
def test_what_is_constant_is_judged(tmp_path: Path, written: str, wanted: list[tuple[str, bool]]) -> None:
    assert faults(judged(tmp_path, written)) == wanted


def test_an_object_literal_is_read(tmp_path: Path) -> None:
    literal = ENCODED.replace("TAINTS", TAINTS).removeprefix("yamlencode(").removesuffix(")")

    assert faults(judged(tmp_path, literal, "kubernetes_manifest")) == []
    assert faults(judged(tmp_path, literal.replace("NoSchedule", "None"), "kubernetes_manifest")) == [BARE]


def test_fields_that_the_provider_ignores_stay_unknown(tmp_path: Path) -> None:
    assert faults(judged(tmp_path, heredoc(POOL), ignore_fields=["spec.template.spec.taints"])) == [OPEN]


def test_the_suggested_waiver_names_the_resource(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, "local.body").found

    waiver = "{resource: 'kubectl_manifest.gpu', reason: …, owner: …, expires: …}"
    suggested = f"{{node-pools-understood: {{waivers: [{waiver}]}}}}"
    assert suggested in found.message
    filled = suggested.replace("expires: …", "expires: '2027-01-31'").replace("…", "an answer of a person")
    assert config_problems(yaml.safe_load(filled)) == []
    assert "reasons" not in found.message


@pytest.mark.parametrize("name", ["override.tf", "gpu_override.tf", "override.tf.json"])
def test_an_override_counts(tmp_path: Path, name: str) -> None:
    text = f'resource "kubectl_manifest" "gpu" {{\n  yaml_body = {heredoc(POOL.replace("NoSchedule", "None"))}\n}}\n'
    (tmp_path / name).write_text(text, encoding="utf-8")

    assert faults(judged(tmp_path, heredoc(POOL))) == [CLOSED if name.endswith("json") else BARE]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('file("pool.yaml")', None),
        ('file("${path.module}/plain.yaml")', OPEN),
        ('templatefile("${path.module}/pool.yaml", { name = "a" })', None),
        ('templatefile("${path.module}/bare.yaml", {})', OPEN),
        ('templatefile("${path.module}/loop.yaml", {})', CLOSED),
        ('templatefile("${var.folder}/pool.yaml", {})', CLOSED),
        ('templatefile("../outside.yaml", {})', CLOSED),
        ('file("missing.yaml")', CLOSED),
    ],
)
def test_a_file_of_the_module_is_read(tmp_path: Path, written: str, found: tuple[str, bool] | None) -> None:
    """A template with its interpolations unknown, and no file outside of the module's repository."""
    folder = tmp_path / "in"
    folder.mkdir()
    bare = "".join(line for line in POOL.splitlines(keepends=True) if "taint" not in line and "key: nvidia" not in line)
    (folder / "pool.yaml").write_text(POOL, encoding="utf-8")
    (folder / "bare.yaml").write_text(bare, encoding="utf-8")
    (folder / "plain.yaml").write_text(bare.replace("${var.name}", "gpu"), encoding="utf-8")
    (folder / "loop.yaml").write_text("%{ for x in y }" + bare, encoding="utf-8")
    (tmp_path / "outside.yaml").write_text(bare, encoding="utf-8")
    for kind, text in (("kubectl_manifest", written), ("kubernetes_manifest", f"yamldecode({written})")):
        report = judged(folder, text, kind)
        names = [each.rule.name for each in report.found if each.level.value != "advice"]
        expected = [] if found is None else [found[0]]
        assert [name for name in names if name in ("gpu-pool-tainted", "node-pools-understood")] == expected
