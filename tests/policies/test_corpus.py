"""Every hand-made case of `corpus.yaml`, judged as the engine asks: in wire form, over gRPC, by one running pack."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf import struct_pb2
from tabulate import tabulate

from tests.policies.pack_process import Diagnostic, PolicyPackProcess, StackResource

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
TAINTED = "gpu-pool-tainted"
UNDERSTOOD = "node-pools-understood"
HARDENING = "gpu-node-hardening-advised"
ADVICE = ("gpu-taint-tolerated-by-daemons", "other-accelerator-tainted", "gpu-machines-kept-out")
VERDICTS = ("pass", "violation", "unverified", "advisory")
CLOUDS = ("aws", "azure", "gcp")
CORPUS = Path(__file__).parent / "corpus.yaml"


@cache
def cases() -> Sequence[Mapping[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(yaml.load(CORPUS.read_text(encoding="utf-8"), loader))


def wire(value: Any) -> Any:
    """Spell the corpus' marks as the engine does."""
    if value == "<unknown>":
        return UNKNOWN
    if isinstance(value, dict):
        if set(value) == {"<secret>"}:
            return {SIGNATURE: SECRET, "value": wire(value["<secret>"])}
        return {key: wire(item) for key, item in value.items()}
    return [wire(item) for item in value] if isinstance(value, list) else value


def table() -> str:
    """Count the cases by cloud and verdict, with totals."""
    counted = Counter((case["cloud"], case["verdict"]) for case in cases())
    rows: list[list[Any]] = [[cloud, *(counted[cloud, verdict] for verdict in VERDICTS)] for cloud in CLOUDS]
    rows = [[*row, sum(row[1:])] for row in rows]
    rows.append(["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])])
    return tabulate(rows, headers=["cloud", *VERDICTS, "cases"], tablefmt="github")


@pytest.fixture(scope="module")
def pack() -> Iterator[PolicyPackProcess]:
    with PolicyPackProcess() as running:
        yield running


def verdict(said: Sequence[Diagnostic]) -> tuple[str, Sequence[Diagnostic]]:
    """Return the verdict on taints, and the diagnostics that make it."""
    faults = [each for each in said if each.policy == TAINTED]
    if faults:
        late = all("cannot be verified" in each.message for each in faults)
        return "unverified" if late else "violation", faults
    if held := [each for each in said if each.policy == UNDERSTOOD and each.level == "mandatory"]:
        return "unverified", held
    advice = [each for each in said if each.policy in ADVICE]
    return "advisory" if advice else "pass", advice


def struct(inputs: Mapping[str, Any]) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update(wire(inputs))
    return made


def _declared(
    urn: str, declared: Mapping[str, Any], name: str, made_from: Mapping[str, Sequence[str]] | None = None
) -> StackResource:
    properties = struct(declared["inputs"])
    return StackResource(
        urn=urn, type=declared["type"], name=name, properties=properties, property_dependencies=made_from or {}
    )


def whole_stack(case: Mapping[str, Any], urn: str) -> list[StackResource]:
    """Return the resource of a case with those `beside` it, by input: what the input was made from."""
    made_from: dict[str, list[str]] = {}
    found: list[StackResource] = []
    for number, other in enumerate(case.get("beside", ())):
        name = f"{case['id']}-{number}"
        theirs = f"urn:pulumi:preview::gpupools::{other['type']}::{name}"
        found.append(_declared(theirs, other, name))
        if "made" in other:
            made_from.setdefault(other["made"], []).append(theirs)
    mine = _declared(urn, case, case["id"], made_from)
    return [*found, mine]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_a_case_gets_its_verdict(pack: PolicyPackProcess, case: Mapping[str, Any]) -> None:
    properties = struct(case["inputs"])
    urn = f"urn:pulumi:preview::gpupools::{case['type']}::{case['id']}"
    everything = pack.analyze(urn, case["type"], case["id"], properties)
    everything += pack.analyze_stack(whole_stack(case, urn))
    given, said = verdict(everything)
    messages = [f"{each.policy}: {each.message}" for each in said]

    assert given == case["verdict"], (case["reason"], json.dumps(case["inputs"]), messages)
    assert len(said) == (0 if given == "pass" else case.get("findings", 1)), messages
    assert {each.level for each in said} <= {"advisory" if given == "advisory" else "mandatory"}
    assert {each.urn for each in said} <= {urn}
    assert all(case.get("says", "") in each.message for each in said), messages
    assert {each.policy for each in said} <= ({case["also"]} if "also" in case else {TAINTED, UNDERSTOOD})
    advised = [each.message for each in everything if each.policy == HARDENING]
    wanted = case.get("advised", ())
    assert "advised" not in case or len(advised) == len(wanted), advised
    assert all(f"expected {path}: " in message for path, message in zip(wanted, advised, strict=False)), advised


def test_the_corpus_is_large_and_says_why() -> None:
    print(table())

    assert len(cases()) >= 300
    assert len({case["id"] for case in cases()}) == len(cases())
    assert all(case["reason"] for case in cases())
    assert {(case["cloud"], case["verdict"]) for case in cases()} == {(c, v) for c in CLOUDS for v in VERDICTS}


if __name__ == "__main__":
    print(table())
