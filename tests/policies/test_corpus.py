"""Every hand-made case of `corpus.yaml`, judged as the engine asks: in wire form, over gRPC, by one running pack."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tabulate import tabulate

from tests.policies.asking import UNKNOWN, asked, resource, secret
from tests.policies.pack_process import Diagnostic, PolicyPackProcess, StackResource

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
            return secret(wire(value["<secret>"]))
        return {key: wire(item) for key, item in value.items()}
    return [wire(item) for item in value] if isinstance(value, list) else value


def table() -> str:
    """Count the cases by cloud and verdict, with totals."""
    counted = Counter((case["cloud"], case["verdict"]) for case in cases())
    rows: list[list[Any]] = [[cloud, *(counted[cloud, verdict] for verdict in VERDICTS)] for cloud in CLOUDS]
    rows = [[*row, sum(row[1:])] for row in rows]
    rows.append(["all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])])
    return tabulate(rows, headers=["cloud", *VERDICTS, "cases"], tablefmt="github")


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


def whole_stack(case: Mapping[str, Any]) -> list[StackResource]:
    """Return those `beside` a case's resource, by input: what the input was made from; and the resource."""
    made_from: dict[str, Any] = {}
    found: list[StackResource] = []
    for number, other in enumerate(case.get("beside", ())):
        found.append(resource(other["type"], f"{case['id']}-{number}", wire(other["inputs"])))
        if "made" in other:
            made_from.setdefault(other["made"], []).append(found[-1].urn)
    return [*found, resource(case["type"], case["id"], wire(case["inputs"]), **made_from)]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_a_case_gets_its_verdict(pack: PolicyPackProcess, case: Mapping[str, Any]) -> None:
    whole = whole_stack(case)
    everything = [*asked(pack, whole[-1]), *pack.analyze_stack(whole)]
    given, said = verdict(everything)
    messages = [f"{each.policy}: {each.message}" for each in said]

    assert given == case["verdict"], (case["reason"], json.dumps(case["inputs"]), messages)
    assert len(said) == (0 if given == "pass" else case.get("findings", 1)), messages
    assert {each.level for each in said} <= {"advisory" if given == "advisory" else "mandatory"}
    assert {each.urn for each in said} <= {whole[-1].urn}
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
