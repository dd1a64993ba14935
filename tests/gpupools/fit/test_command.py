"""`gpupools fit`: manifests and stack files in; text, JSON, annotations, SARIF and a comment out."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from tests.gpupools.fit.loads import merged

ROOT = Path(__file__).parents[3]
JOBS, KUEUE = ROOT / "examples/teams/Pulumi.jobs.yaml", ROOT / "examples/teams/kueue.yaml"
Capture = pytest.CaptureFixture[str]

TEMPLATE = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, namespace: research}}
spec:
  parallelism: {pods}
  template:
    spec:
      containers:
      - name: main
        image: registry.example.com/train
        resources: {{limits: {limits}}}
"""


def job(limits: str, name: str = "train", pods: int | str = 1) -> str:
    return TEMPLATE.format(name=name, limits=limits, pods=pods)


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return tmp_path / "job.yaml"


def run(capsys: Capture, *words: object) -> tuple[int, str, str]:
    code = main(["fit", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def answered(capsys: Capture, *words: object) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = json.loads(run(capsys, *words, "--json")[1])["pods"]
    return pods


def test_every_pool_is_told_with_what_the_pod_lacks(manifest: Path, capsys: Capture) -> None:
    manifest.write_text(job("{nvidia.com/gpu: 8}", pods=2))

    code, text, _ = run(capsys, manifest, "--stack", JOBS)

    assert code == 0
    first, *rest = text.splitlines()
    assert first == f"{manifest}:6: Job research/train: fits train/big"
    assert rest[0].startswith("  train/big: needs 2 of at most 4 nodes, 0 of 16 GPUs left over, $")
    assert rest[1].startswith("    asks for 8 GPUs on a node, and Kueue counts units, not nodes")
    assert [line.split(":")[0] for line in rest[2:-1]] == ["  train/slices does not fit", "  train/halves does not fit"]
    assert rest[-1] == "1 pod template: 1 fit, 0 do not fit, 0 unknown"


def test_the_lines_to_add_make_the_pod_fit(manifest: Path, capsys: Capture) -> None:
    manifest.write_text(job("{nvidia.com/mig-1g.5gb: 1}"))
    before = {each["pool"]: each for each in answered(capsys, manifest, "--stack", JOBS)[0]["pools"]}
    assert {each["answer"] for each in before.values()} == {"does not fit"}

    for pool in ("train/big", "train/halves"):
        changed = yaml.safe_load(job("{nvidia.com/mig-1g.5gb: 1}"))
        changed["spec"]["template"] = merged(changed["spec"]["template"], before[pool]["add"])
        manifest.write_text(yaml.safe_dump(changed))
        after = {each["pool"]: each for each in answered(capsys, manifest, "--stack", JOBS)[0]["pools"]}
        assert after[pool]["answer"] == "fits", after[pool]


def test_no_pool_is_shown_with_the_lines_to_add(manifest: Path, capsys: Capture) -> None:
    manifest.write_text(job("{nvidia.com/gpu: 9}"))

    code, text, _ = run(capsys, manifest, "--stack", JOBS)

    assert code == 1
    assert "Job research/train: fits no pool" in text
    assert "requests 9 nvidia.com/gpu, and a node has 8" in text


@pytest.mark.parametrize(
    ("limits", "fail_on", "code"),
    [
        ("{nvidia.com/gpu: 1}", "unknown", 0),
        ("{nvidia.com/gpu: 9}", "unfit", 1),
        ("{nvidia.com/gpu: 9}", "never", 0),
        ("{nvidia.com/gpu: 1, example.com/fuse: 1}", "unfit", 0),
        ("{nvidia.com/gpu: 1, example.com/fuse: 1}", "unknown", 1),
        ("{cpu: 4}", "unknown", 0),
    ],
)
def test_the_answers_that_fail_a_run_are_chosen(
    limits: str, fail_on: str, code: int, manifest: Path, capsys: Capture
) -> None:
    manifest.write_text(job(limits))

    assert run(capsys, manifest, "--stack", JOBS, "--fail-on", fail_on)[0] == code


def test_a_pod_without_a_gpu_is_not_judged(manifest: Path, capsys: Capture) -> None:
    manifest.write_text(job("{cpu: 4}"))

    code, text, _ = run(capsys, manifest, "--stack", JOBS)

    assert (code, "requests no GPU" in text, "big" in text) == (0, True, False)


def test_what_cannot_be_read_fails_the_run_and_hides_no_answer(manifest: Path, tmp_path: Path, capsys: Capture) -> None:
    manifest.write_text(f"{job('{nvidia.com/gpu: 1}', pods='$N')}---\n{job('{nvidia.com/gpu: 8}', 'right')}")
    (tmp_path / "chart.yaml").write_text("{{- if x }}\na: b\n{{- end }}\n")
    comment = tmp_path / "fit.md"
    words = (tmp_path, "--stack", JOBS, "--fail-on", "never")

    code, text, said = run(capsys, *words, "--report", f"markdown={comment}")

    assert (code, len(said.splitlines()), "envsubst" in said, "helm template" in said) == (1, 2, True, True)
    assert f"{manifest}:18: Job research/right: fits train/big" in text
    assert text.splitlines()[-1] == "1 pod template: 1 fit, 0 do not fit, 0 unknown; 2 problems"
    assert all(line in comment.read_text() for line in said.splitlines())
    annotated = run(capsys, *words, "--format", "github")[1]
    assert f"::error file={manifest},line=5," in annotated
    log = json.loads(run(capsys, *words, "--format", "sarif")[1])
    assert [each["ruleId"] for each in log["runs"][0]["results"]] == ["fit-invalid"] * 2
    answer = json.loads(run(capsys, *words, "--json")[1])
    assert [each["line"] for each in answer["problems"]] == [None, 5]
    assert (answer["result"], len(answer["problems"]), len(answer["pods"])) == ("refused", 2, 1)


def test_a_pod_must_fit_a_pool_of_any_stack(manifest: Path, capsys: Capture) -> None:
    manifest.write_text(job("{nvidia.com/gpu: 8}"))
    stacks: Iterable[object] = ("--stack", ROOT / "examples/stacks/Pulumi.notebooks.yaml", "--stack", JOBS)

    code, text, _ = run(capsys, manifest, *stacks)

    assert (code, "fits jobs train/big" in text) == (0, True)


def test_answers_go_to_code_scanning_and_a_comment(manifest: Path, tmp_path: Path, capsys: Capture) -> None:
    manifest.write_text(f"{job('{nvidia.com/gpu: 9}')}---\n{job('{nvidia.com/gpu: 1}', 'small')}")
    log, comment = tmp_path / "fit.sarif", tmp_path / "fit.md"

    code, text, _ = run(
        capsys,
        manifest,
        "--stack",
        JOBS,
        "--format",
        "github",
        "--report",
        f"sarif={log}",
        "--report",
        f"markdown={comment}",
    )

    assert code == 1
    assert text.startswith(
        f"::error file={manifest},line=6,title=gpupools fit::Job research/train: fits no pool; train/"
    )
    ((result,),) = (each["results"] for each in json.loads(log.read_text())["runs"])
    assert (result["ruleId"], result["level"]) == ("fit-too-many-units", "error")
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 6}
    first, title, *rest = comment.read_text().splitlines()
    assert first == "<!-- gpupools fit -->"
    assert title == "### GPU workloads: 2 pod templates: 1 fit, 1 do not fit, 0 unknown"
    assert rest[1].startswith(
        "- `Job research/train`: `fits no pool; train/big does not fit: requests 9 nvidia.com/gpu"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "give MANIFEST, or --context NAME for the pods of a cluster"),
        (("x.yaml", "--pod", "a/b"), "--pod: is about a cluster; add --context NAME"),
        (("x.yaml", "--context", "c"), "--context: takes neither manifests nor --report, and one stack; remove them"),
        (("x.yaml", "--cluster", "trian"), "--cluster: the stack has no cluster 'trian'; did you mean 'train'?"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(words: Iterable[str], problem: str, capsys: Capture) -> None:
    code, text, error = run(capsys, *words, "--stack", JOBS)

    assert (code, text, error) == (2, "", f"gpupools fit: {problem}\n")


def test_a_rejected_stack_file_is_told_as_check_tells_it(tmp_path: Path, capsys: Capture) -> None:
    stack = tmp_path / "Pulumi.x.yaml"
    stack.write_text(JOBS.read_text().replace("gpus_per_node: 8", "gpus_per_node: 9"))
    code, _, error = run(capsys, KUEUE, "--stack", stack)
    main(["check", str(stack)])

    assert (code, error) == (1, capsys.readouterr().err)


@pytest.mark.parametrize("named", ["job.yaml", "."], ids=["the link", "its folder"])
def test_a_link_out_of_the_checkout_is_not_read(tmp_path: Path, capsys: Capture, named: str) -> None:
    inside = tmp_path / "checkout"
    inside.mkdir()
    (tmp_path / "secret.yaml").write_text(job("{nvidia.com/gpu: 1}"))
    (inside / "job.yaml").symlink_to(tmp_path / "secret.yaml")

    code, text, error = run(capsys, inside / named, "--stack", JOBS, "--within", inside)

    assert (code, text) == (1, "")
    assert f"{inside}/job.yaml: is a link that leads out" in error


def test_answers_of_one_name_are_two_results(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(job("{nvidia.com/gpu: 99}"))

    log = json.loads(run(capsys, tmp_path, "--stack", JOBS, "--format", "sarif")[1])

    marks = [each["partialFingerprints"]["gpupoolsFit/v1"] for each in log["runs"][0]["results"]]
    assert len(set(marks)) == len(marks) == 2


def test_a_rejected_stack_file_is_told_in_each_format_and_report(tmp_path: Path, capsys: Capture) -> None:
    stack, log = tmp_path / "Pulumi.x.yaml", tmp_path / "fit.sarif"
    stack.write_text(JOBS.read_text().replace("gpus_per_node: 8", "gpus_per_node: 9"))
    said = {
        form: run(capsys, KUEUE, "--stack", stack, "--format", form, "--report", f"sarif={log}")
        for form in ("text", "json", "github", "sarif", "markdown")
    }

    assert {code for code, _, _ in said.values()} == {1}
    assert [each["ruleId"] for each in json.loads(log.read_text())["runs"][0]["results"]] == ["fit-invalid"]
    assert said["github"][1].startswith(f"::error file={stack},line=")
    assert said["sarif"][1] == log.read_text()
    assert all("gpus_per_node" in text for _, text, _ in (said["json"], said["github"], said["markdown"]))
    assert json.loads(said["json"][1])["pods"] == []
    assert said["text"][1] == ""


def test_a_kind_whose_pods_are_not_known_has_its_own_rule(manifest: Path, capsys: Capture) -> None:
    manifest.write_text("{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: a}, spec: {}}")

    log = json.loads(run(capsys, manifest, "--stack", JOBS, "--format", "sarif")[1])

    assert [each["ruleId"] for each in log["runs"][0]["results"]] == ["fit-unknown-pods"]


@pytest.mark.parametrize(
    ("form", "said"), [("github", "::error file="), ("sarif", '"fit-invalid"'), ("markdown", "- `")]
)
def test_a_run_without_an_answer_says_why_in_each_format(form: str, said: str, tmp_path: Path, capsys: Capture) -> None:
    code, out, _ = run(capsys, tmp_path / "none.yaml", "--stack", JOBS, "--format", form)

    assert code == 1
    assert said in out
    assert "none.yaml" in out
