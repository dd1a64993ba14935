"""Folders and standard input as arguments of `gpupools policy`, and advice in one line per rule."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupools.common import input_files

Run = Callable[..., tuple[int, str, str]]
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec:
  template:
    spec:
      requirements: [{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [l4]}]
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
"""
TAINT = "      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two manifests, and files that are none."""
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.yaml").write_text(POOL.replace("NAME", "a") + TAINT)
    (tmp_path / "sub" / "b.yml").write_text(POOL.replace("NAME", "b") + TAINT)
    (tmp_path / "sub" / "template.yaml").write_text("{{- if x }}\na: {{ b }}\n{{- end }}\n")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / ".git" / "c.yaml").write_text(POOL)
    (tmp_path / "README.md").write_text("text")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    return tmp_path


def test_a_folder_is_searched_for_files_of_a_known_form(folder: Path, run: Run) -> None:
    """Others are skipped and counted; links and folders of tools are not followed."""
    code, out, err = run("policy", folder)

    assert code == 0
    assert err == ""
    assert out.splitlines()[-1].startswith(
        "2 files, 2 resources (2 judged, 0 no node pools, 0 not understood), 2 GPU pools"
    )
    assert "2 files of no known form skipped; " in out.splitlines()[-1]
    _, whole, _ = run("policy", folder, "--verbose")
    assert [line.partition(": Kub")[0] for line in whole.splitlines() if ": Kubernetes manifest" in line] == [
        str(folder / "a.yaml"),
        str(folder / "sub" / "b.yml"),
    ]


def test_a_violation_in_a_folder_fails_and_a_named_file_is_not_skipped(folder: Path, run: Run) -> None:
    """What is named explicitly is a problem if it has no known form."""
    (folder / "sub" / "b.yml").write_text(POOL.replace("NAME", "b"))
    code, out, _ = run("policy", folder)
    named, _, err = run("policy", folder, folder / "package.json")

    assert code == named == 1
    assert "NodePool/b: violation" in out
    assert "package.json: has no supported format" in err


@pytest.mark.parametrize("form", ["text", "sarif"])
@pytest.mark.parametrize(("name", "skipped"), [("README.md", ""), ("x.json", "1 file of no known form skipped; ")])
def test_a_folder_without_a_known_file_says_so(tmp_path: Path, run: Run, name: str, skipped: str, form: str) -> None:
    """A run that judged nothing passes, and does not look like one that found nothing."""
    (tmp_path / name).write_text("{}")
    code, out, err = run("policy", tmp_path, "--format", form)

    said = out if form == "text" else err
    assert code == 0
    assert said.startswith("nothing was judged: no file is in a form that `gpupools policy --help` names; " + skipped)
    assert said.count("\n") == 1


def test_advice_is_one_line_per_rule_unless_all_is_wanted(folder: Path, run: Run) -> None:
    """The line has the number and the first finding."""
    _, short, _ = run("policy", folder)
    _, whole, _ = run("policy", folder, "--verbose")

    assert f"{folder / 'a.yaml'}:1: NodePool/a: advice: no label" in short
    assert "[gpu-pool-owned] (1 more with --verbose)" in short
    assert short.count("[gpu-pool-owned]") == 1
    assert whole.count("[gpu-pool-owned]") == 2
    assert "more with --verbose" not in whole


def test_standard_input_is_judged(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, like a file."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(POOL.encode())))
    code, out, _ = run("policy", "-")

    assert code == 1
    assert "-: Kubernetes manifest, 1 resource" in out


def test_a_folder_with_too_many_files_is_rejected(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with what to do."""
    monkeypatch.setattr(input_files, "_MOST_FILES", 2)
    code, _, err = run("policy", folder)

    assert code == 1
    assert "has more than 2 JSON and YAML files; name the folders with manifests or plans" in err
    assert len(err.splitlines()) == 1
