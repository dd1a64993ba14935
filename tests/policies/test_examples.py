"""Run the examples beside each rule through one policy pack, over gRPC, and require them for each cloud."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi.runtime.proto import analyzer_pb2

from gpupools.policies import rules
from gpupools.policies.finding import Rule
from gpupools.policies.rules import ALL_RULES
from gpupools.providers import clouds
from tests.policies.asking import asked, running
from tests.policies.pack_process import Diagnostic, PolicyPackProcess
from tests.policies.test_corpus import whole_stack

FOLDER = Path(rules.__file__).parent
VERDICTS = ("pass", "fail")


def path_of(rule: str) -> Path:
    return FOLDER / f"{rule.replace('-', '_')}.examples.yaml"


@cache
def document(rule: str) -> Mapping[str, Any]:
    path = path_of(rule)
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {"examples": []}


EXAMPLES = [
    pytest.param(rule, {**each, "id": f"{rule.name}-{number}"}, id=f"{rule.name}-{each['cloud']}-{each['verdict']}")
    for rule in ALL_RULES
    for number, each in enumerate(document(rule.name)["examples"])
    if "impossible" not in each
]


pack = running(stack="prod", config={rule.name: document(rule.name).get("config", {}) for rule in ALL_RULES})


def findings(pack: PolicyPackProcess, rule: Rule, example: Mapping[str, Any]) -> Sequence[Diagnostic]:
    """Return what the rule reports on the example, including findings that its configuration makes advisory."""
    options = analyzer_pb2.AnalyzerResourceOptions(protect=True) if example.get("protect") else None
    whole = whole_stack(example)
    said = [*asked(pack, whole[-1], options=options), *pack.analyze_stack(whole)]
    return [each for each in said if each.policy == rule.name or each.message.endswith(f"({rule.name})")]


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_passes_or_fails_as_it_says(pack: PolicyPackProcess, rule: Rule, example: Mapping[str, Any]) -> None:
    found = findings(pack, rule, example)

    assert ("fail" if found else "pass") == example["verdict"], found
    assert all(example["says"] in each.message for each in found), found
    assert all(f"docs/reference/policies.md#{rule.name})" in each.message for each in found if each.urn), found
    assert {each.level for each in found if each.policy == rule.name} <= {rule.level.value}


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_a_rule_has_a_passing_and_a_failing_example_for_each_cloud(rule: Rule) -> None:
    examples = document(rule.name)["examples"]
    wanted = ["any"] if any(each["cloud"] == "any" for each in examples) else sorted(clouds())
    impossible = {each["cloud"] for each in examples if each.get("impossible")}
    there = {(each["cloud"], each.get("verdict")) for each in examples}
    pairs = [(cloud, verdict) for cloud in wanted for verdict in VERDICTS if cloud not in impossible]
    missing = [f"verdict: {verdict} for cloud: {cloud}" for cloud, verdict in pairs if (cloud, verdict) not in there]

    assert not missing, f"{path_of(rule.name).name} lacks {', '.join(missing)}"


def test_a_rule_is_in_the_file_of_its_name() -> None:
    assert {rule.name.replace("-", "_") for rule in ALL_RULES} == {path.stem for path in FOLDER.glob("[!_]*.py")}
    orders = [rule.order for rule in ALL_RULES]
    assert [rule.name for rule in ALL_RULES if orders.count(rule.order) > 1] == [], "give each rule an order of its own"
