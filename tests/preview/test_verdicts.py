"""The rules judged in this process and the policy pack, asked as the engine asks it, say the same of every stack."""

import json
from datetime import date
from pathlib import Path

import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import EnforcementLevel

from gpupools.common.errors import Rejected
from gpupools.policies.pack import NAME, POLICIES, Analyzer
from gpupools.policies.policy_config import Config, config_of
from gpupools.preview.command import judge_file, preview_file
from gpupools.preview.monitor import DeclaredResource
from gpupools.providers import clouds
from gpupools.stackfile.check import CheckedFile, check_stack_file

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    file
    for pattern in ("stacks/*.yaml", "examples/*/Pulumi.*.yaml", "tests/stacks/*.yaml", "tests/golden/*/*.yaml")
    for file in ROOT.glob(pattern)
)
STRICT = config_of(
    {
        **json.loads((ROOT / "policies" / "policy-config.prod.json").read_text(encoding="utf-8")),
        "gpu-pool-bounded": {"enforcementLevel": "mandatory", "maxNodesPerPool": 2},
        "gpu-pool-idles-at-zero": "disabled",
        "gpu-pool-tainted": {
            "enforcementLevel": "remediate",
            "unknownAtPreview": "advisory",
            "waivers": [{"resource": "*", "reason": "a test", "expires": "2020-01-01"}],
        },
    },
    date(2026, 11, 28),
)
"""A configuration in which many rules speak, at every level."""


def accepted(file: Path) -> CheckedFile | None:
    try:
        return check_stack_file(file, clouds())
    except Rejected:
        return None


def said_by_pack(resources: list[DeclaredResource], config: Config) -> list[tuple[str, str, str]]:
    """Return policy, URN and message of all that the pack says, asked as by the engine."""
    pack = Analyzer(NAME, "0", [*POLICIES.values()], EnforcementLevel.MANDATORY)
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    for name, policy in POLICIES.items():
        assert policy.enforcement_level is not None
        level = config.levels.get(name) or str(policy.enforcement_level.value)
        request.policyConfig[name].enforcementLevel = analyzer_pb2.EnforcementLevel.Value(level.upper())
        own = {key: value for key, value in config.options[name].items() if key != "enforcementLevel"}
        request.policyConfig[name].properties.update(own)
    pack.Configure(request, None)
    urns = {each.urn: each for each in resources}
    whole = analyzer_pb2.AnalyzeStackRequest()
    found = []
    for each in resources:
        raw = each.request
        options_ = analyzer_pb2.AnalyzerResourceOptions(protect=raw.protect, parent=raw.parent)
        given = {"urn": each.urn, "type": each.type, "name": each.name, "properties": raw.object, "options": options_}
        answer = pack.Analyze(analyzer_pb2.AnalyzeRequest(**given), None)
        found += [(one.policyName, one.urn or each.urn, one.message) for one in answer.diagnostics]
        added = whole.resources.add(**given, parent=raw.parent, dependencies=raw.dependencies)
        for key, inputs in raw.propertyDependencies.items():
            added.propertyDependencies[key].urns.extend(inputs.urns)
        provider = urns.get(raw.provider.rpartition("::")[0])
        if provider is not None:
            properties = struct_pb2.Struct()
            properties.CopyFrom(provider.request.object)
            added.provider.CopyFrom(
                analyzer_pb2.AnalyzerProviderResource(
                    type=provider.type, urn=provider.urn, name=provider.name, properties=properties
                )
            )
    answer = pack.AnalyzeStack(whole, None)
    return [*found, *((one.policyName, one.urn, one.message) for one in answer.diagnostics)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_both_say_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = accepted(file)
    if checked is None:
        return  # nothing is declared of it
    monkeypatch.setattr("pulumi.get_stack", lambda: checked.file.stack)
    report = preview_file(checked, policy_config=STRICT)
    declared, _ = judge_file(checked, STRICT)

    assert declared.problems == report.preview.problems
    said = [(verdict.policy, each.urn, each.message) for verdict in report.verdicts for each in verdict.violations]
    assert sorted(said) == sorted(said_by_pack(report.preview.resources, STRICT))
    assert {verdict.policy for verdict in report.verdicts} == POLICIES.keys()
