"""What a configuration file may say, what the check says about it, and that the committed files are right."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from gpupools.cli.main import main
from gpupools.policies.finding import Level, Rule
from gpupools.policies.policy_config import ADVISORY_ONLY, config_problems, parse_config, schema
from gpupools.policies.rules import ALL_RULES

POLICIES = Path(__file__).resolve().parents[2] / "policies"
MANDATORY = [rule.name for rule in ALL_RULES if rule.level is Level.MANDATORY]


def said(document: object) -> list[str]:
    return [str(problem) for problem in config_problems(document)]


@pytest.mark.parametrize("name", MANDATORY)
@pytest.mark.parametrize("level", ["advisory", "disabled"])
def test_a_mandatory_rule_cannot_be_lowered(name: str, level: str) -> None:
    verb = {"advisory": "lowers", "disabled": "disables"}[level]
    end = f"{verb} a mandatory rule; leave the level out, or make it mandatory"

    assert said({name: level}) == [f"{name}: {end}"]
    assert said({name: {"enforcementLevel": level}}) == [f"{name}.enforcementLevel: {end}"]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"all": "mandatory"},
        {"gpu-pool-tainted": "remediate"},
        {"gpu-pool-owned": "mandatory", "gpu-pool-idles-at-zero": "disabled"},
        {"gpu-pool-tainted": {"unknownAtPreview": "advisory"}},
        {"gpu-pool-protected": {"stacks": ["prod", "*-prod"]}, "gpu-pool-bounded": {"maxNodesPerPool": 0}},
        {"gpu-sharing-trusted": {"enforcementLevel": "mandatory", "tenants": "one"}},
        {"all": "disabled"} | dict.fromkeys(MANDATORY, "mandatory") | dict.fromkeys(ADVISORY_ONLY, "advisory"),
        {"unverified-at-preview": "mandatory"},
    ],
)
def test_levels_may_be_raised_and_rules_configured(document: dict[str, Any]) -> None:
    assert said(document) == []


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        pytest.param([], "got []; write an object", id="no object"),
        pytest.param(
            {"gpu-pool-taint": "mandatory"}, "is not a policy of this pack; did you mean 'gpu-pool-tainted'", id="name"
        ),
        pytest.param(
            {"waivers": []},
            "waivers: is not a policy of this pack; write it below the rule that it waives",
            id="waivers without their rule",
        ),
        pytest.param({"gpu-pool-tainted": 1}, "gpu-pool-tainted: got 1; write a level", id="a number"),
        pytest.param(
            {"gpu-pool-tainted": "severe"}, "got 'severe'; use one of: disabled, advisory, mandatory", id="level"
        ),
        pytest.param({"gpu-pool-owned": {"enforcementLevel": None}}, "got null; use one of", id="level null"),
        pytest.param({"all": "advisory"}, "all: advisory lowers mandatory rules: gpu-pool-tainted, ", id="all"),
        pytest.param(
            {"all": {"enforcementLevel": "disabled"}}, "disabled lowers mandatory rules", id="all as an object"
        ),
        pytest.param({"all": {"tenants": "one"}}, "all takes a level only", id="all with a key"),
        pytest.param(
            {"gpu-stack-bounded": {"maxNodes": 3}},
            "gpu-stack-bounded: is now part of gpu-pool-bounded; move its keys and waivers to gpu-pool-bounded",
            id="a former name",
        ),
        pytest.param({"gpu-pool-bounded": {"max": 3}}, "gpu-pool-bounded has no such key", id="key"),
        pytest.param(
            {"gpu-pool-bounded": {"maxNodesPerPool": -1}}, "whole number of 0 or more", id="below the minimum"
        ),
        pytest.param({"gpu-pool-bounded": {"maxNodesPerPool": True}}, "got true; use a whole number", id="a boolean"),
        pytest.param({"gpu-pool-protected": {"stacks": "prod"}}, "use a list of text", id="no list"),
        pytest.param({"gpu-sharing-trusted": {"tenants": "two"}}, "use one of: several, one", id="word"),
        pytest.param({"unverified-at-preview": {"x": 1}}, "has no such key", id="a policy without keys"),
    ],
)
def test_what_is_wrong_is_named_with_the_cure(document: object, problem: str) -> None:
    assert any(problem in line for line in said(document))


def test_a_key_that_is_given_twice_hides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy-config.json"
    file.write_text('{"gpu-pool-tainted": "disabled", "gpu-pool-tainted": "mandatory"}')

    assert [str(problem) for problem in parse_config(file)[1]] == [
        "has the key 'gpu-pool-tainted' twice, and only the last one counts; keep one"
    ]


def test_a_level_that_is_given_twice_hides_nothing(tmp_path: Path) -> None:
    file = tmp_path / "policy-config.json"
    file.write_text('{"gpu-pool-tainted": {"enforcementLevel": "mandatory", "enforcementLevel": "advisory"}}')

    assert [str(problem) for problem in parse_config(file)[1]] == [
        "has the key 'enforcementLevel' twice, and only the last one counts; keep one",
        "gpu-pool-tainted.enforcementLevel: lowers a mandatory rule; leave the level out, or make it mandatory",
    ]


@pytest.mark.parametrize("text", ["{", "// x\n{}", "[" * 100_000, ""])
def test_what_is_no_json_is_a_problem_and_no_traceback(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy-config.json"
    file.write_text(text)

    _, problems = parse_config(file)

    assert ["is not JSON" in str(problem) for problem in problems] == [True]


def test_a_file_beyond_the_size_limit_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "policy-config.json"
    file.write_text("{}" + " " * 1_048_576)

    _, problems = parse_config(file)

    assert [str(problem) for problem in problems] == [
        "cannot be read: it has more than 1048576 bytes; name a policy configuration"
    ]


COMMITTED = [path for path in sorted(POLICIES.glob("policy-config.*.json")) if "schema" not in path.name]


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
@pytest.mark.parametrize("name", MANDATORY)
@pytest.mark.parametrize("level", ["advisory", "disabled"])
def test_the_check_passes_a_committed_file_and_fails_once_it_weakens_a_mandatory_rule(
    path: Path, name: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / path.name
    committed = json.loads(path.read_text(encoding="utf-8"))
    given = committed.get(name, {})
    own = given if isinstance(given, dict) else {}
    file.write_text(json.dumps({**committed, name: {**own, "enforcementLevel": level}}), encoding="utf-8")
    verb = {"advisory": "lowers", "disabled": "disables"}[level]

    assert main(["policy", "--check-config", str(path)]) == 0
    assert capsys.readouterr() == (f"{path}: ok, all mandatory rules stay mandatory\n", "")
    assert main(["policy", "--check-config", str(path), str(file)]) == 1
    assert f"{file}: {name}.enforcementLevel: {verb} a mandatory rule" in capsys.readouterr().err


def test_the_check_names_every_problem_of_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"gpu-pool-tainted": "disabled", "x": 1}', encoding="utf-8")
    missing = tmp_path / "none.json"

    assert main(["policy", "--check-config", "--json", str(bad), str(missing), str(COMMITTED[0])]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["result"] == "refused"
    assert [[each["key"] for each in file["problems"]] for file in said["files"]] == [
        ["gpu-pool-tainted", "x"],
        [""],
        [],
    ]


def test_the_check_also_writes_the_reports_of_judged_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, out = tmp_path / "bad.json", tmp_path / "out.sarif"
    bad.write_text('{"gpu-pool-tainted": "advisory"}', encoding="utf-8")

    assert main(["policy", "--check-config", "--report", f"sarif={out}", str(bad)]) == 1
    assert f"{bad}: gpu-pool-tainted: lowers a mandatory rule" in capsys.readouterr().err
    run = json.loads(out.read_text(encoding="utf-8"))["runs"][0]
    assert "lowers" in run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]


@pytest.mark.parametrize("option", ["--report=json=read.json", "--write-baseline=read.json"])
@pytest.mark.parametrize("words", [["read.json"], ["--config", "read.json", "pod.json"]], ids=["a file", "--config"])
def test_no_output_replaces_what_is_read(
    option: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("read.json").write_text("{}", encoding="utf-8")

    assert main(["policy", "--json", option, *words]) == 2
    said = json.loads(capsys.readouterr().out)
    assert (said["result"], said["files"]) == ("failed", [])
    assert said["problems"][0]["what"] == "read.json is an input file"
    assert Path("read.json").read_text(encoding="utf-8") == "{}"


def test_the_check_annotates_for_github(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"gpu-pool-tainted": "advisory"}', encoding="utf-8")

    assert main(["policy", "--check-config", "--format", "github", str(bad)]) == 1
    assert capsys.readouterr().out.startswith(f"::error file={bad},title=gpupools policy::gpu-pool-tainted: lowers")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--check-config"],
        ["--check-config", "--config", "b.json", "a.json"],
        ["--config-schema", "a.json"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_apart(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", *words])

    assert ended.value.code == 2


def test_the_default_of_each_key_is_one_of_its_values() -> None:
    for rule in ALL_RULES:
        for key, each in rule.config.items():
            assert each.get("default") in each.get("enum", [each.get("default")]), (rule.name, key)


def test_the_written_schema_is_the_rules_own(capsys: pytest.CaptureFixture[str]) -> None:
    written = (POLICIES / "policy-config.schema.json").read_text()

    assert main(["policy", "--config-schema"]) == 0
    assert written == capsys.readouterr().out, "run: gpupools policy --config-schema > that file"


WAIVER = {"resource": "a", "reason": "b", "owner": "c", "expires": "2026-01-01"}


def test_the_schema_names_every_rule() -> None:
    assert set(schema()["properties"]) == {"all", *(rule.name for rule in ALL_RULES), *ADVISORY_ONLY}


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_the_schema_takes_a_level_and_the_keys_of_each_rule(rule: Rule) -> None:
    judge = Draft202012Validator(schema())
    defaults = {key: each["default"] for key, each in rule.keys.items() if "default" in each}

    for level in ("disabled", "advisory", "mandatory", "remediate"):
        assert judge.is_valid({rule.name: level})
        assert judge.is_valid({rule.name: {"enforcementLevel": level, **defaults}})
    assert judge.is_valid({rule.name: {"waivers": [WAIVER]}}) is ("waivers" in rule.keys)
    for wrong in ("strict", {"enforcementLevel": "strict"}, {"unknownKey": 1}, {"waivers": [WAIVER | {"owner": ""}]}):
        assert not judge.is_valid({rule.name: wrong})


def test_the_committed_configurations_differ_by_environment() -> None:
    dev, prod = (parse_config(POLICIES / f"policy-config.{env}.json")[0] for env in ("dev", "prod"))

    assert isinstance(dev, dict)
    assert isinstance(prod, dict)
    assert "gpu-pool-protected" in prod
    assert "gpu-pool-protected" not in dev


def test_the_documentation_has_a_section_and_a_row_for_every_rule() -> None:
    page = (POLICIES.parent / "docs" / "reference" / "policies.md").read_text()

    for rule in ALL_RULES:
        assert f"\n## {rule.name}\n" in page
        assert f"| [{rule.name}](#{rule.name}) | {rule.level.value} | " in page
        assert all(f"`{key}`" in page or f'"{key}"' in page for key in rule.config)
