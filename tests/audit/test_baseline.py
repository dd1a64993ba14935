"""A project with findings can adopt the check: only new findings fail."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupools.policies.policy_config import Config
from gpupools.policies.waivers import Waiver, waiver_problem

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def baseline(bad: Path, tmp_path: Path, run: Run) -> Path:
    """Write the baseline of a file with one violation."""
    file = tmp_path / "baseline.json"
    code, out, _ = run("policy", bad, "--write-baseline", file)

    assert (code, "0 violations, 0 unverified, 0 advice, 2 in the baseline" in out) == (0, True), out
    return file


def test_known_findings_pass_wherever_their_lines_move(bad: Path, baseline: Path, run: Run) -> None:
    bad.write_text(f"# moved\n\n{bad.read_text(encoding='utf-8')}", encoding="utf-8")

    assert run("policy", bad)[0] == 1
    assert run("policy", bad, "--baseline", baseline)[0] == 0


def test_a_new_finding_fails(bad: Path, baseline: Path, run: Run, write: Any) -> None:
    pool = bad.read_text(encoding="utf-8")
    bad.write_text(f"{pool}---\n{pool.replace('name: gpu,', 'name: new,')}", encoding="utf-8")
    code, out, _ = run("policy", bad, "--baseline", baseline)

    assert code == 1
    assert "NodePool/new: violation" in out
    assert "NodePool/gpu: violation" not in out
    assert run("policy", write(pool, "other.yaml"), "--baseline", baseline)[0] == 1


def test_a_finding_whose_level_rises_is_new(bad: Path, baseline: Path, run: Run) -> None:
    known = json.loads(baseline.read_text(encoding="utf-8"))
    known["findings"] = [{**each, "level": "advice"} for each in known["findings"]]
    baseline.write_text(json.dumps(known), encoding="utf-8")

    assert run("policy", bad, "--baseline", baseline)[0] == 1


def test_fixed_findings_are_listed(bad: Path, good: Path, baseline: Path, run: Run) -> None:
    bad.write_text(good.read_text(encoding="utf-8"), encoding="utf-8")
    code, _, err = run("policy", bad, "--baseline", baseline)

    assert code == 0
    assert f"{baseline}: fixed: " in err
    assert "NodePool/gpu [gpu-pool-tainted]" in err
    assert "fixed" not in run("policy", good, "--baseline", baseline)[2]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (
            {"baseline": 1, "findings": []},
            "is a baseline of version 1, and this gpupools reads version 2; write it again",
        ),
        ({"baseline": True, "findings": []}, "is a baseline of version true"),
        ({"findings": []}, "is not a baseline; write one with --write-baseline"),
        ({"baseline": 2, "findings": [{"file": "a"}]}, "is not a baseline"),
        ("[1", "wrong.json: "),
    ],
)
def test_a_baseline_that_cannot_be_used_is_one_line(bad: Path, write: Any, run: Run, content: Any, what: str) -> None:
    code, _, err = run("policy", bad, "--baseline", write(content, "wrong.json"))

    assert code == 1
    assert len(err.splitlines()) == 1
    assert what in err


@pytest.mark.parametrize(("level", "codes"), [("violation", (1, 0)), ("unverified", (1, 0)), ("never", (0, 0))])
def test_which_findings_fail_is_configurable(
    bad: Path, write: Any, run: Run, level: str, codes: tuple[int, int]
) -> None:
    advised = write(
        bad.read_text(encoding="utf-8").replace(", labels: {owner: vision}", "").replace("Prefer", ""), "a.yaml"
    )
    broken = write("kind: {", "broken.yaml")

    assert tuple(run("policy", file, "--fail-on", level)[0] for file in (bad, advised)) == codes
    assert run("policy", broken, "--fail-on", level)[0] == 1


HEAD = (
    "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: c, region: eu-west-1}\nmanagedNodeGroups:\n"
)


@pytest.fixture
def fleet(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write ten files of ten untainted groups each, and their baseline."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "fleet" / "a"
    folder.mkdir(parents=True)
    for number in range(10):
        groups = "".join(f"  - {{name: g{each}, instanceType: g5.xlarge, tags: {{team: x}}}}\n" for each in range(10))
        (folder / f"{number}.yaml").write_text(HEAD + groups)
    code, out, _ = run("policy", "fleet", "--write-baseline", "base.json")

    assert (code, "100 in the baseline" in out) == (0, True), out
    return folder


def edit(old: str, new: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "3.yaml").write_text((folder / "3.yaml").read_text().replace(old, new))


def copied(folder: Path) -> None:
    (folder / "copy.yaml").write_text((folder / "3.yaml").read_text())


def replaced(folder: Path) -> None:
    edit("g5.xlarge", "g5.2xlarge")(folder)
    edit("name: g0", "name: other")(folder)


@pytest.mark.parametrize(
    ("move", "new", "fixed"),
    [
        (lambda folder: None, 0, 0),
        (edit("Groups:\n", "Groups:\n  - {name: cpu, instanceType: m6i.large}\n"), 0, 0),
        (edit("name: g4", "name: renamed"), 0, 0),
        (edit("name: c", "name: renamed"), 0, 0),
        (edit("g5.xlarge", "g5.2xlarge"), 0, 0),
        (lambda folder: (folder / "3.yaml").rename(folder / "renamed.yaml"), 0, 0),
        (lambda folder: folder.rename(folder.with_name("b")), 0, 0),
        (lambda folder: (folder / "3.yaml").unlink(), 0, 10),
        (edit("name: g9, instanceType: g5", "name: g9, instanceType: m5"), 0, 1),
        (edit("Groups:\n", "Groups:\n  - {name: new, instanceType: g5.xlarge, tags: {team: x}}\n"), 1, 0),
        (copied, 10, 0),
        (replaced, 1, 1),
    ],
)
def test_a_baseline_survives_moves(fleet: Path, run: Run, move: Callable[[Path], Any], new: int, fixed: int) -> None:
    move(fleet)
    code, out, err = run("policy", "fleet", "--baseline", "base.json")

    assert (code, out.count(": violation: "), err.count("fixed: ")) == (int(new > 0), new, fixed)


def test_a_run_of_some_files_takes_no_finding_of_the_others(fleet: Path, run: Run) -> None:
    """A copy of a file that still exists is new, though the run judges the copy alone."""
    copied(fleet)
    code, _, err = run("policy", "fleet/a/copy.yaml", "--baseline", "base.json")

    assert (code, err) == (1, "")


def test_sarif_names_findings_as_the_baseline_does(fleet: Path, run: Run) -> None:
    def names() -> set[str]:
        (one,) = json.loads(run("policy", "fleet", "--format", "sarif")[1])["runs"]
        return {each["partialFingerprints"]["gpupoolsFinding/v2"] for each in one["results"]}

    before = names()
    fleet.rename(fleet.with_name("b"))

    assert names() == before
    assert len(before) == 100


def waiver(resource: str) -> dict[str, str]:
    return {"resource": resource, "reason": "none of them has GPUs", "owner": "vision", "expires": "2099-12-31"}


@pytest.mark.parametrize(
    ("resource", "address", "matches"),
    [
        ("NodePool/*", "NodePool/gpu", True),
        ("NodePool/*", "ConfigMap/gpu", False),
        ('module.a["x"].*', 'module.a["x"].aws_eks_node_group.b', True),
        ('module.a["x"].*', "module.ax.aws_eks_node_group.b", False),
        ('aws_eks_node_group.b["a"]', 'aws_eks_node_group.b["a"]', True),
        ("NodePool/?", "NodePool/a", False),
    ],
)
def test_a_waiver_may_be_a_pattern(resource: str, address: str, matches: bool) -> None:
    assert waiver_problem(waiver(resource)) == ""
    assert Waiver("a", resource, "b", "c", Config().today).matches(address) is matches


@pytest.mark.parametrize("resource", ["*", "**", "*/*", " */* "])
def test_a_pattern_that_matches_everything_is_refused(resource: str) -> None:
    assert "this pattern matches everything" in waiver_problem(waiver(resource))


@pytest.mark.parametrize(("resource", "code"), [("NodePool/*", 0), ("ConfigMap/*", 1)])
def test_a_pattern_waives_and_counts_as_used(bad: Path, write: Any, run: Run, resource: str, code: int) -> None:
    config = write({"gpu-pool-tainted": {"waivers": [waiver(resource)]}}, "config.json")
    ended, out, _ = run("policy", bad, "--config", config)

    assert ended == code
    assert ("matches no finding" in out) is bool(code)
