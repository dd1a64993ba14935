"""`gpupools explain`: every word, rule and refusal with a source, and the nearest for one that is not known."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpupools.catalog.glossary import NEEDS_HEADERS, sharing_needs, words
from gpupools.catalog.key_synonyms import other_keys
from gpupools.cli.explain import _found
from gpupools.cli.main import main
from gpupools.cli.schema import stack_schema
from gpupools.plan.capability import Verdict
from gpupools.plan.matrix import matrix
from gpupools.policies.rules import ALL_RULES
from gpupools.providers import clouds
from gpupools.spec.models import MODES, StackPool

ROOT = Path(__file__).resolve().parents[2]


def explained(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert main(["explain", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("word", words(), ids=lambda word: word.word)
def test_a_word_is_explained_with_source_and_page(word: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = explained(capsys, *word.word.upper().split())["entries"]

    assert (entry["name"], entry["kind"], entry["what"]) == (word.word, "word", word.what)
    assert entry["source"].startswith("https://")
    assert (ROOT / entry["page"]).is_file()


def test_the_words_of_the_stack_file_are_there() -> None:
    known = {each.word for each in words()} | {other for each in words() for other in each.also.split()}

    assert {*MODES, "trust", "pieces", "owner", "capacity", "profile", "replicas", "software"} <= {
        each.casefold() for each in known
    }


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.name)
def test_a_rule_is_explained_alone_and_in_a_finding(rule: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = explained(capsys, rule.name)["entries"]
    in_a_finding = explained(capsys, f"plan.json: x: mandatory: something [{rule.name}]")["entries"][0]

    assert rule.why in entry["what"]
    assert (entry["kind"], entry["source"]) == ("rule", rule.url)
    assert in_a_finding == entry


@pytest.mark.parametrize(
    "form", [str.upper, str.title, "[{}]".format, " {} ".format, "`{}`".format, lambda name: name.replace("-", "_")]
)
def test_a_rule_is_found_as_it_is_pasted(form: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("gpu-pool-tainted", "other-accelerator-tainted"):
        assert [each["name"] for each in explained(capsys, form(name))["entries"]] == [name]


@pytest.mark.parametrize(
    "problem",
    [
        "pools.l4.sharing.mode: L4 cannot be cut into MIG instances; cloud-managed on aws cuts: A100-40GB",
        "clusters.c.account: got '1'; write the 12 digits of an AWS account",
        "plan.json:8: NodePool/gpu: mandatory: has 1 NVIDIA GPU per node, but no taint [gpu-pool-tainted]",
    ],
)
def test_a_problem_is_the_same_with_the_colours_and_line_breaks_of_a_terminal(
    problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pasted = (
        "\x1b[31m"
        + problem.replace(": ", "\x1b[0m: ").replace("a", "\x1b[1ma", 1).replace(" ", "\r\n    ")
        + "\x1b[0m\n"
    )

    assert explained(capsys, pasted) == explained(capsys, problem)


@pytest.mark.parametrize("cloud", clouds().values(), ids=lambda cloud: cloud.name)
def test_a_refused_cell_of_the_matrix_is_found_by_what_check_says(
    cloud: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {row.why: row for row in matrix(cloud) if row.verdict is Verdict.REFUSED}
    chosen = list(refused.values())[:: max(len(refused) // 4, 1)]

    assert chosen
    for row in chosen:
        found = explained(capsys, f"Pulumi.dev.yaml:3: pools.a.sharing.mode: {row.why}; {row.instead}")["entries"]
        assert (row.why, row.source) in [
            (each["what"].partition("; instead: ")[0], each["source"]) for each in found if each["kind"] == "refusal"
        ]


def test_a_key_of_another_tool_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("vm_size", "vmSize", "Pulumi.dev.yaml:3: pools.a.vm_size: unknown key; write instance_type: …"):
        entry = explained(capsys, text)["entries"][0]
        row = next(row for row in other_keys() if row.key == "vm_size")
        assert (entry["name"], entry["kind"], entry["source"]) == ("vm_size", "key", row.source)


@pytest.mark.parametrize(("word", "near"), [("trsut", "'trust'"), ("gpu-pool-tained", "'gpu-pool-tainted'")])
def test_the_nearest_word_is_offered(word: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = explained(capsys, word, code=2)

    assert (said["result"], said["entries"]) == ("failed", [])
    assert f"did you mean {near}" in said["problems"][0]["fix"]


@pytest.mark.parametrize(
    ("refusal", "keys"),
    [
        ("clusters.c.region: got 'Mars'; write a region such as eu-central-1", {"region": "Amazon EKS"}),
        ("Pulumi.x.yaml:7: clusters.c.client_id: unknown key; did you mean 'tenant_id'?", {"tenant_id": "AKS"}),
        ("clusters.c.tags.bad?: 'bad?' is not a valid label key", {"tags": "Amazon EKS AKS GKE"}),
        ("clusters.c: give either subnet_ids or subnets_by_zone, not both", {"subnet_ids": "Amazon EKS"}),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_refusal_of_a_cluster_is_explained_by_its_keys(
    refusal: str, keys: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(capsys, refusal)["entries"]

    assert {each["name"] for each in found} == set(keys)
    assert [each["what"].rpartition(" (of a cluster of ")[2].rstrip(")") for each in found] == [
        cloud.service for cloud in clouds().values() if cloud.service in next(iter(keys.values()))
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A100", "gpupools catalog --gpu A100 lists the instance types with it"),
        ("p5.48xlarge", "gpupools catalog --cloud aws lists it"),
        ("1g.10gb+me", "gpupools mig profiles --gpu MODEL lists the MIG profiles of a GPU"),
        ("eks", "for the cloud of a cluster, write aws"),
    ],
)
def test_what_another_command_tells_is_left_to_it(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", text]) == 2
    assert capsys.readouterr().err == f"no explanation for '{text}'; {said}\n"


@pytest.mark.parametrize("text", ["x" * 100_000, "\x1b[2J", "[", "::error::x", "é" * 50], ids=lambda text: text[:5])
def test_what_means_nothing_is_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", text]) == 2
    printed = capsys.readouterr()

    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "\x1b" not in printed.err


def test_the_decision_table_says_something_of_every_way_and_names_nvidia(capsys: pytest.CaptureFixture[str]) -> None:
    assert {"isolation", "memory", "faults", "latency", "utilisation"} <= {each.need for each in sharing_needs()}
    assert set(NEEDS_HEADERS[1:]) == set(MODES)
    assert all(all(each) and "nvidia" in each.source.casefold() for each in sharing_needs())
    assert explained(capsys, "sharing")["needs"] == [each._asdict() for each in sharing_needs()]
    assert main(["explain", "sharing"]) == 0
    assert "utilisation" in capsys.readouterr().out


def test_without_a_word_every_one_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {each["name"] for each in explained(capsys)["entries"]}

    assert listed == {each.word for each in words()} | {rule.name for rule in ALL_RULES}


# --- every refusal ---

_TEXTS = [
    line.split("\t")
    for line in (Path(__file__).parent / "explain_texts.tsv").read_text(encoding="utf-8").splitlines()[1:]
]
"""Texts of public threads with their sources, and the kinds of the answers to each, or `none`."""


@pytest.mark.parametrize(("kinds", "source", "text"), _TEXTS, ids=lambda each: each[-40:])
def test_a_text_that_people_paste_gets_its_error_or_no_answer(
    kinds: str, source: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert source.startswith("https://")
    found = explained(capsys, text, code=2 if kinds == "none" else 0)["entries"]

    said = {each["what"].partition(" (")[0].partition(":")[0] for each in found}
    assert said == ({*kinds.split("|")} if kinds != "none" else set())
    assert all(each["kind"] in ("cloud error", "error") and each["source"].startswith("https://") for each in found)


def test_there_are_enough_texts() -> None:
    assert len(_TEXTS) >= 40
    assert len({source for _, source, _ in _TEXTS}) >= 40


@pytest.mark.parametrize(
    "text", ["the driver of the node pool with MIG fails", "clusters in region eu-central-1 have no name", "a b c DRA"]
)
def test_no_longer_text_gets_the_definition_of_a_word_in_it(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(capsys, text, code=2)["entries"] == []


@pytest.mark.parametrize(
    "text",
    ["3 Insufficient\\nnvidia.com/gpu.", "│ 3 Insufficient │\n│ nvidia.com/gpu │", 'no runtime for \\"nvidia\\"'],
)
def test_a_text_of_a_json_log_or_a_frame_is_explained(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(explained(capsys, text)["entries"]) == 1


def test_standard_input_is_explained(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"\x1b[31mWarning\x1b[0m  FailedScheduling\n 0/3 nodes are available:\n 3 Insufficient nvidia.com/gpu.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log)))

    (entry,) = explained(capsys, "-")["entries"]
    assert entry["name"] == "Insufficient nvidia.com/"


def test_every_refusal_of_a_pool_is_explained() -> None:
    keys = [key for key in StackPool.model_fields if key != "clusters"]

    assert [key for key in keys if not _found(f"pools.a.{key}: got x; write y")] == []
    (entry,) = _found("pools.a.tags.cost: got 3; write it in quotes (see https://docs.example/tags)")
    assert (entry.name, entry.kind, entry.source) == ("tags", "key", "https://docs.example/tags")
    assert "" in entry.what


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("InsufficientInstanceCapacity", "InsufficientInstanceCapacity", "capacity (Amazon EKS): EC2 has no free"),
        (
            "error: VcpuLimitExceeded: your current vCPU limit of 0 allows no p5.48xlarge",
            "VcpuLimitExceeded",
            "Instance type: p5.48xlarge. Next: gpupools preview lists the quota",
        ),
        ("MaxSpotInstanceCountExceeded: Max spot instance count exceeded", "MaxSpotInstanceCountExceeded", "quota ("),
        ("Code=SKUFamilyQuotaExceeded", "SKUFamilyQuotaExceeded", "quota (AKS)"),
        (
            "it results in exceeding approved standardNDSH100v5Family Cores quota",
            "exceeding approved …quota",
            "Quota: standardNDSH100v5Family.",
        ),
        ("OverconstrainedZonalAllocationRequest", "OverconstrainedZonalAllocationRequest", "capacity (AKS)"),
        ("ZonalAllocationFailed: Allocation failed", "ZonalAllocationFailed", "in the zone"),
        ("AllocationFailed", "AllocationFailed", "in the region"),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "ZONE_RESOURCE_POOL_EXHAUSTED", "capacity (GKE)"),
        (
            "Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally.",
            "Quota '…' exceeded",
            "Quota: GPUS_ALL_REGIONS. Next: raise",
        ),
    ],
)
def test_an_error_of_a_cloud_is_a_quota_or_capacity(text: str, name: str, words: str) -> None:
    (entry,) = _found(text)

    assert (entry.name, entry.kind) == (name, "cloud error")
    assert words in entry.what
    assert entry.source.startswith("https://")


def test_errors_of_a_cloud_are_all_explained_and_parts_of_others_are_not() -> None:
    both = _found("InsufficientInstanceCapacity in us-east-1a, then VcpuLimitExceeded")

    assert [each.name for each in both] == ["InsufficientInstanceCapacity", "VcpuLimitExceeded"]
    assert [each for each in _found("the pod says: exceeding approved budget") if each.kind == "cloud error"] == []


@pytest.mark.parametrize(
    ("text", "pools"),
    [
        ("VcpuLimitExceeded: more vCPU capacity than the limit of 0 for p5.48xlarge", ["train/h100"]),
        ("InsufficientInstanceCapacity in eu-central-1: train-notebooks-x1", ["train/notebooks"]),
        ("VcpuLimitExceeded L-DB2E81BA", ["train/notebooks"]),
        ("QUOTA_EXCEEDED in europe-west4", []),
    ],
)
def test_an_error_names_the_pools_of_a_stack_file(
    text: str, pools: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(__file__).parents[2] / "stacks" / "Pulumi.prod.yaml"

    assert main(["explain", text, "--file", str(file), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    named = re.findall(r" Pool: ([^.]*)[.]", entry["what"])
    assert named == ([", ".join(pools)] if pools else [])


def test_a_stack_file_that_is_rejected_explains_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text("config: {}\n")

    assert main(["explain", "QUOTA_EXCEEDED", "--file", str(file)]) == 2
    assert "gpupools:clusters" in capsys.readouterr().err

    assert main(["explain", "QUOTA_EXCEEDED", "--file", str(file), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["result"] == "failed"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("UnsupportedOperation: The requested configuration is currently not supported", "UnsupportedOperation"),
        ("Code: OperationNotAllowed", "OperationNotAllowed"),
        ("OperationNotAllowed: exceeding approved standardNDSH100v5Family Cores quota", "exceeding approved …quota"),
        ("Insufficient regional quota to satisfy request: resource NVIDIA_L4_GPUS", "Insufficient regional quota"),
    ],
)
def test_an_error_with_several_causes_is_explained_unless_the_text_says_more(text: str, name: str) -> None:
    assert [each.name for each in _found(text)] == [name]


def test_every_key_of_the_schema_is_explained() -> None:
    schema = stack_schema()
    top = schema["else"]["properties"]["config"]["properties"]
    keys = {key for each in schema["definitions"].values() for key in each.get("properties", ())}

    assert [key for key in [*top, *sorted(keys)] if all(each.kind != "key" for each in _found(key))] == []
    (entry,) = _found("nodes.min")
    assert _found("pools.a100.nodes.min") == [entry]
    assert (entry.name, entry.kind) == ("pools.<name>.nodes.min", "key")
    assert entry.what.startswith("Nodes that always run")
    assert _found("nodes.mins") == []
