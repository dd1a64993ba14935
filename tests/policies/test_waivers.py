"""Waivers: one rule let pass on one resource until a day, on the command line and in the running pack."""

import json
import xml.etree.ElementTree as Xml
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit.judging import judge_file, judge_waivers
from gpupools.cli.main import main
from gpupools.policies.policy_config import read_config
from gpupools.policies.waivers import Waiver, scope, waiver_problem
from tests.policies.asking import EKS, asked, resource
from tests.policies.pack_process import Diagnostic, PolicyPackProcess

TAINTED = "gpu-pool-tainted"
CURRENT = "gpu-waiver-current"
LATER = (datetime.now(tz=UTC).date() + timedelta(days=30)).isoformat()
BEFORE = "2026-01-31"
TODAY = date(2026, 11, 22)
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: {name}, annotations: {notes}}}
spec:
  template:
    metadata: {{labels: {{owner: vision}}}}
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}}
      requirements:
        - {{key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}}
"""


IN_FILES = {CURRENT: {"waivers_in_files": "allowed"}}


def pool(name: str = "lab", notes: Mapping[str, str] | None = None) -> str:
    return POOL.format(name=name, notes=json.dumps(notes or {}))


def waiver(resource: str = "NodePool/lab", **other: str) -> dict[str, str]:
    return {"resource": resource, "reason": "a driver is tried out", "owner": "vision", "expires": LATER, **other}


@pytest.fixture
def judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Judge a manifest with a configuration; return exit code and output."""

    def judged(manifest: str, *given: Mapping[str, str], form: str = "text", rule: str = TAINTED) -> tuple[int, str]:
        file, config = tmp_path / "pools.yaml", tmp_path / "config.json"
        file.write_text(manifest, encoding="utf-8")
        config.write_text(json.dumps({rule: {"waivers": list(given)}, **IN_FILES}), encoding="utf-8")
        code = main(["policy", str(file), "--config", str(config), "--format", form])
        said = capsys.readouterr()
        return code, said.out + said.err

    return judged


LISTED = f"NodePool/lab: waived until {LATER} by vision: a driver is tried out: has 1 NVIDIA GPU"
VIOLATION = "NodePool/lab: violation: has 1 NVIDIA GPU"
ENDED = (VIOLATION, f"(vision: a driver is tried out) expired on {BEFORE}")
NOT_MATCHED = ("matches no finding of the rule", f"[{CURRENT}]")


@pytest.mark.parametrize(
    ("manifest", "given", "rule", "code", "words"),
    [
        (pool(), waiver(), TAINTED, 0, (LISTED, "0 violations, 0 unverified, 0 advice, 1 waived")),
        (pool() + "---\n" + pool("other"), waiver(), TAINTED, 1, ("NodePool/other: violation: has 1 NVIDIA GPU",)),
        (pool(), waiver(), "gpu-pool-owned", 1, (VIOLATION,)),
        (pool(), waiver(expires=BEFORE), TAINTED, 1, ENDED),
        (pool(), waiver("NodePool/other"), TAINTED, 1, NOT_MATCHED),
        (pool(), waiver(pool="inner"), TAINTED, 1, NOT_MATCHED),
    ],
    ids=["it passes", "another resource", "another rule", "it has ended", "not its resource", "not its pool"],
)
def test_a_waiver_lets_one_resource_pass_and_no_other(
    judge: Callable[..., tuple[int, str]],
    manifest: str,
    given: dict[str, str],
    rule: str,
    code: int,
    words: tuple[str, ...],
) -> None:
    found, said = judge(manifest, given, rule=rule)

    assert found == code
    assert [each for each in words if each not in said] == []


def test_one_for_another_kind_of_file_is_none_of_this_runs_business(judge: Callable[..., tuple[int, str]]) -> None:
    others = [waiver("aws_eks_node_group.lab"), waiver("urn:pulumi:prod::gpu::aws:eks/nodeGroup:NodeGroup::lab")]
    code, said = judge(pool(), waiver(), *others)

    assert (code, "matches nothing" in said) == (0, False)


def test_several_files_are_one_run(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.yaml" for name in ("lab", "other")}
    for name, file in files.items():
        file.write_text(pool(name), encoding="utf-8")
    config = tmp_path / "config.json"
    given = [waiver(f"NodePool/{name}", expires="2026-11-22") for name in files]
    config.write_text(json.dumps({TAINTED: {"waivers": given}}), encoding="utf-8")
    chosen = read_config(config, TODAY)
    judged = [judge_file(file, chosen) for file in files.values()]

    assert [(len(file.waived), file.refuses) for file in judged] == [(1, False), (1, False)]
    assert judge_waivers(judged, chosen) is None
    assert judge_waivers(judged[:1], chosen) is not None


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (waiver("NodePool/other"), 0),
        (waiver("NodePool/other", expires=BEFORE), 0),
        (waiver(expires=BEFORE), 1),
        (waiver(pool="inner"), 1),
    ],
    ids=["another's", "another's that has ended", "its own that has ended", "its own that matches nothing"],
)
def test_where_only_changed_manifests_are_judged_waivers_for_others_are_left_alone(
    given: dict[str, str], wanted: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, config = tmp_path / "pools.yaml", tmp_path / "config.json"
    file.write_text(pool(), encoding="utf-8")
    config.write_text(json.dumps({TAINTED: {"waivers": [waiver(), given]}}), encoding="utf-8")

    assert main(["policy", str(file), "--config", str(config), "--changed"]) == wanted
    assert main(["policy", str(file), "--config", str(config)]) == 1
    assert f"[{CURRENT}]" in capsys.readouterr().out


def test_an_annotation_waives_for_its_object(judge: Callable[..., tuple[int, str]]) -> None:
    note = f"{{reason: a driver is tried out, owner: vision, expires: {LATER}}}"
    code, said = judge(pool(notes={f"gpupools/waive.{TAINTED}": note}))

    assert code == 0
    assert f"waived until {LATER} by vision" in said


@pytest.mark.parametrize(
    ("key", "note", "says"),
    [
        (f"waive.{TAINTED}", "{reason: r, owner: o, expires: 2026-01-31}", "expired on 2026-01-31"),
        (f"waive.{TAINTED}", "{reason: r, owner: o}", "give the waiver expires as text"),
        (f"waive.{TAINTED}", "please", "write a waiver as an object"),
        (f"waive.{TAINTED}", "{reason: r, owner: o, expires: 2027-02-30}", "a valid date"),
        ("waive.gpu-pool-owned", f"{{reason: r, owner: o, expires: {LATER}}}", "matches no finding of the rule"),
        ("waive.gpu-pool-tinted", f"{{reason: r, owner: o, expires: {LATER}}}", "there is no rule 'gpu-pool-tinted'"),
        (f"waive.{CURRENT}", f"{{reason: r, owner: o, expires: {LATER}}}", f"there is no rule '{CURRENT}'"),
    ],
)
def test_an_annotation_that_waives_nothing_is_a_violation(
    judge: Callable[..., tuple[int, str]], key: str, note: str, says: str
) -> None:
    code, said = judge(pool(notes={f"gpupools/{key}": note}))

    assert code == 1
    assert says in said
    assert f"[{CURRENT}]" in said


def test_every_report_lists_it(judge: Callable[..., tuple[int, str]]) -> None:
    reports = {form: judge(pool(), waiver(), form=form) for form in ("json", "sarif", "junit", "github")}
    (file,) = json.loads(reports["json"][1])["files"]
    (result,) = json.loads(reports["sarif"][1])["runs"][0]["results"]
    suite = Xml.fromstring(reports["junit"][1])

    assert {code for code, _ in reports.values()} == {0}
    assert file["findings"] == []
    assert file["waived"][0]["waiver"] == {"reason": "a driver is tried out", "owner": "vision", "expires": LATER}
    assert [(one["kind"], one["status"]) for one in result["suppressions"]] == [("external", "accepted")]
    assert (suite.get("failures"), f"waived until {LATER}" in Xml.tostring(suite, "unicode")) == ("0", True)
    assert reports["github"][1].startswith("::notice ")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"resource": "x"}, "give the waiver reason, owner, expires as text"),
        (waiver(reason=" "), "give the waiver reason as text"),
        (waiver(expires="31.12.2026"), "write expires as YYYY-MM-DD"),
        (waiver(expires="2026-02-30"), "a valid date"),
        (waiver(until="x"), "remove until"),
        (7, "write a waiver as an object"),
    ],
)
def test_a_configuration_with_a_waiver_that_lacks_something_is_refused(
    judge: Callable[..., tuple[int, str]], given: Any, says: str
) -> None:
    code, said = judge(pool(), given)

    assert code == 1
    assert says in said
    assert "0 violations" not in said
    assert says in waiver_problem(given)


@pytest.mark.parametrize(
    ("address", "belongs"),
    [
        ("urn:pulumi:prod::gpu::a:b:C::n", "urn:pulumi:prod::gpu"),
        ("NodePool/a", "Kubernetes"),
        ("ConfigMap/ns/a", "Kubernetes"),
        ("aws_eks_node_group.a[0]", "Terraform"),
        ('module.A["x"].aws_instance.b', "Terraform"),
    ],
)
def test_an_address_shows_what_it_belongs_to(address: str, belongs: str) -> None:
    assert scope(address) == belongs


def test_a_waiver_holds_on_its_last_day() -> None:
    given = Waiver(TAINTED, "NodePool/lab", "r", "o", TODAY)

    assert given.covers("NodePool/lab", "", TODAY)
    assert not given.covers("NodePool/lab", "", TODAY + timedelta(days=1))


# --- in the pack ---

URN = f"urn:pulumi:preview::gpupools::{EKS}::"


GROUP = {"instanceTypes": ["g6.xlarge"], "labels": {"owner": "vision"}}


@pytest.fixture
def ask() -> Callable[..., list[Diagnostic]]:
    """Let a pack with waivers judge bare groups, each and then all of them."""

    def judged(*names: str, waivers: Any = (), inputs: Mapping[str, Any] = GROUP, kind: str = EKS) -> list[Diagnostic]:
        with PolicyPackProcess(config={TAINTED: {"waivers": list(waivers)}, **IN_FILES}) as pack:
            whole = [resource(kind, name, inputs) for name in names]
            return [*chain.from_iterable(asked(pack, each) for each in whole), *pack.analyze_stack(whole)]

    return judged


def about(said: list[Diagnostic]) -> Iterator[tuple[str, str, str]]:
    for each in said:
        if each.policy in (TAINTED, CURRENT, "waived"):
            yield each.policy, each.level, each.urn.removeprefix(URN)


def test_the_pack_lets_one_resource_pass_and_lists_it(ask: Callable[..., list[Diagnostic]]) -> None:
    said = ask("lab", "other", waivers=[waiver(f"{URN}lab")])

    assert list(about(said)) == [(TAINTED, "mandatory", "other"), ("waived", "advisory", "lab")]
    assert f"waived until {LATER} by vision: a driver is tried out" in said[-1].message


def test_the_pack_refuses_waivers_that_ended_or_match_nothing(ask: Callable[..., list[Diagnostic]]) -> None:
    ended, unneeded = waiver(f"{URN}lab", expires=BEFORE), waiver(f"{URN}none")
    other = waiver("urn:pulumi:prod::gpupools::a:b:C::lab")
    said = ask("lab", waivers=[ended, unneeded, other])

    assert [(policy, level) for policy, level, _ in about(said)] == [
        (TAINTED, "mandatory"),
        (CURRENT, "mandatory"),
        (CURRENT, "mandatory"),
    ]
    assert "expired on" in "".join(each.message for each in said)


def test_the_pack_reads_annotations(ask: Callable[..., list[Diagnostic]]) -> None:
    note = {f"gpupools/waive.{TAINTED}": f"{{reason: r, owner: o, expires: {LATER}}}"}
    wanted = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}]
    inputs = {"metadata": {"annotations": note}, "spec": {"template": {"spec": {"requirements": wanted}}}}
    said = ask("lab", inputs=inputs, kind="kubernetes:karpenter.sh/v1:NodePool")

    assert [(policy, level) for policy, level, _ in about(said)] == [("waived", "advisory")]
