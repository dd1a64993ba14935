"""`gpupools report`: what it writes, what it refuses to write over, and what it says of files that are refused."""

import builtins
import html
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.files import write_whole
from gpupools.cli.main import main
from tests.report.conftest import STACK, Write

HAS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")


def git(*arguments: str) -> None:
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    plain = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    subprocess.run(["git", *own, *arguments], env=plain, check=True, capture_output=True)


def commit() -> None:
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")


def test_a_page_is_written_and_said(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = stack_file()

    assert main(["report", str(file), "-o", "plan.html", "--no-policies"]) == 0
    assert capsys.readouterr().out == "Pulumi.dev.yaml: 3 pools on 2 clusters\nwrote plan.html\n"
    assert Path("plan.html").read_text(encoding="utf-8").startswith("<!doctype html>\n")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("old.html", "old.html already exists; use another file, or --force to overwrite it"),
        ("link.html", "link.html already exists; use another file, or --force to overwrite it"),
        ("Pulumi.dev.yaml", "Pulumi.dev.yaml is an input file; use another file"),
        ("folder", "folder is a folder; use a file in it"),
        ("none/plan.html", "folder none does not exist; create it, or use another one"),
    ],
)
def test_nothing_is_written_over(output: str, said: str, stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = stack_file()
    Path("old.html").write_text("mine", encoding="utf-8")
    Path("link.html").symlink_to("nowhere")
    Path("folder").mkdir()
    before = sorted(Path().iterdir())

    assert main(["report", str(file), "-o", output, "--no-policies"]) == 2
    assert capsys.readouterr().err == f"gpupools report: -o: {said}\n"
    assert sorted(Path().iterdir()) == before
    assert (Path("old.html").read_text(), file.read_text()) == ("mine", STACK)


def test_force_overwrites_a_file_but_none_that_is_read_and_follows_no_link(stack_file: Write) -> None:
    file = stack_file()
    Path("mine.txt").write_text("mine", encoding="utf-8")
    Path("plan.html").symlink_to("mine.txt")
    Path("copy.yaml").symlink_to(file)

    assert main(["report", str(file), "-o", "plan.html", "--no-policies", "--force"]) == 0
    assert main(["report", str(file), "-o", "copy.yaml", "--no-policies", "--force"]) == 2
    assert Path("plan.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (Path("mine.txt").read_text(), file.read_text()) == ("mine", STACK)


def test_no_device_or_pipe_is_replaced(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """As root that was done to `/dev/null` and `/dev/full`."""
    os.mkfifo("pipe")

    assert main(["report", str(stack_file(STACK)), "--no-policies", "-o", "pipe", "--force"]) == 2
    assert "pipe is not a regular file" in capsys.readouterr().err
    assert Path("pipe").is_fifo()
    with pytest.raises(OSError, match="is not a regular file"):
        write_whole(Path("pipe"), "x")


def test_no_file_that_is_read_is_written(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    stack_file(STACK)
    config = Path("policy-config.json")
    config.write_text("{}", encoding="utf-8")

    for read in (Path("Pulumi.dev.yaml"), config):
        before = read.read_bytes()
        arguments = ["Pulumi.dev.yaml", "--policy-config", str(config), "-o", str(read), "--force"]
        assert main(["report", *arguments]) == 2
        assert f"{read} is an input file" in capsys.readouterr().err
        assert read.read_bytes() == before


def test_a_page_needs_a_file(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(stack_file())]) == 2
    assert capsys.readouterr().err == "gpupools report: -o: is required for an HTML page; add -o plan.html\n"


@pytest.mark.parametrize("which", ["file", "output"])
def test_no_link_leads_out_of_the_checkout(
    which: str, stack_file: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack_file()
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "out.html").symlink_to(tmp_path / "secret.html")
    (checkout / "Pulumi.dev.yaml").write_text(STACK)
    (checkout / "Pulumi.out.yaml").symlink_to(tmp_path / "Pulumi.dev.yaml")
    file, output = ("Pulumi.out.yaml", "new.html") if which == "file" else ("Pulumi.dev.yaml", "out.html")
    words = ["report", "checkout/" + file, "-o", "checkout/" + output, "--force", "--no-policies"]

    assert main([*words, "--within", "checkout"]) == 1
    assert "is a link that leads out of checkout" in capsys.readouterr().err
    assert not (tmp_path / "secret.html").exists()
    assert not (checkout / "new.html").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (STACK.replace("gpu: H100-80GB", "gpu: H999"), "'H999' is not an NVIDIA GPU model"),
        (
            "config:\n  gpupools:clusters: {}\n  gpupools:pools: {}\n",
            "write gpupools:pools as a map of names",
        ),
        ("", "the file is empty"),
    ],
    ids=["a wrong pool", "no pools", "an empty file"],
)
def test_a_refused_file_is_reported_with_its_problems(
    text: str, said: str, stack_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(stack_file(text)), "-o", "plan.html"]) == 1
    assert said in capsys.readouterr().err
    assert html.escape(said) in Path("plan.html").read_text(encoding="utf-8")


@HAS_GIT
def test_the_difference_against_a_commit_is_told(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = stack_file()
    commit()
    file.write_text(STACK.replace("min: 2, max: 4", "min: 2, max: 5").replace("    cut: ", "    trim: "))

    assert main(["report", str(file), "--since", "HEAD", "-o", "plan.html", "--no-policies"]) == 0
    summary = "1 destroyed, 1 created, 1 changed in place, 1 unchanged"
    assert capsys.readouterr().out.startswith(f"Pulumi.dev.yaml: {summary}\n")
    page = Path("plan.html").read_text(encoding="utf-8")
    assert "train/big: pods stay; in place</strong><ul><li>pools.big.nodes.max 4 → 5" in page
    assert "train/cut: ends pods on up to 2 nodes at once; deletes" in page
    assert "Goes: cut" in page


@HAS_GIT
def test_what_was_not_there_counts_as_new_and_what_was_refused_is_said(
    stack_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    stack_file(STACK.replace("gpu: H100-80GB", "gpu: H999"))
    commit()
    stack_file()
    stack_file(name="Pulumi.new.yaml")
    words = ["--since", "HEAD", "--markdown", "--no-policies"]

    assert main(["report", "Pulumi.new.yaml", *words]) == 0
    new = capsys.readouterr().out
    assert "Pulumi.new.yaml does not exist in HEAD, so everything counts as new." in new
    assert "3 created" in new
    assert main(["report", "Pulumi.dev.yaml", *words]) == 0
    refused = capsys.readouterr().out
    assert "Not compared: the file is invalid in HEAD." in refused
    assert "is not an NVIDIA GPU model" in refused


@HAS_GIT
@HAS_GIT
@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_a_stack_file_that_is_gone_is_told_where_nobody_can_name_it(
    form: str, stack_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pools of a file that a pull request takes away stay; `Pulumi.*.yaml` does not have it any more."""
    for name in ("Pulumi.dev.yaml", "Pulumi.old.yaml"):
        stack_file(STACK, name)
    Path("Pulumi.other.yaml").write_text("config:\n  aws:region: us-east-1\n", encoding="utf-8")
    commit()
    Path("Pulumi.old.yaml").unlink()
    Path("Pulumi.other.yaml").unlink()  # of another program
    how = ["--json"] if form == "json" else ["--format", form, "-o", "out"]
    assert main(["report", "Pulumi.dev.yaml", "--since", "HEAD", "--no-policies", *how]) == 0
    said = capsys.readouterr().out

    if form == "json":
        assert json.loads(said)["gone"] == ["Pulumi.old.yaml"]
        return
    written = Path("out").read_text(encoding="utf-8")
    assert "Pulumi.old.yaml: deleted since HEAD; its pools stay until pulumi destroy" in said
    assert "is gone: its pools stay until pulumi destroy" in written
    assert "Pulumi.other.yaml" not in written
    assert form == "html" or "### GPU pools: 3 unchanged; 1 stack file is gone" in written


@pytest.mark.parametrize("ref", ["nowhere", "--all", "HEAD:Pulumi.dev.yaml"])
def test_an_unknown_commit_is_a_wrong_call(ref: str, stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = stack_file()
    commit()

    assert main(["report", f"--since={ref}", "--markdown", str(file)]) == 2
    assert "unknown commit" in capsys.readouterr().err


def test_a_folder_without_git_is_a_wrong_call(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(stack_file()), "--since", "HEAD", "--markdown"]) == 2
    assert "is not in a git checkout; omit --since" in capsys.readouterr().err


def test_the_page_has_the_policies_without_the_sdk(stack_file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("pulumi", "grpc"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    monkeypatch.delitem(__import__("sys").modules, "gpupools.preview.program_run", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)

    assert main(["report", str(stack_file()), "-o", "plan.html"]) == 0
    page = Path("plan.html").read_text(encoding="utf-8")
    assert "policies pass" in page


def test_the_verdicts_are_those_of_the_offline_preview(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """By the team's own configuration, as in `gpupools preview`."""
    file = stack_file()
    Path("config.json").write_text('{"gpu-pool-bounded": {"maxNodesPerPool": 29}}', encoding="utf-8")
    judged = ["--policy-config", "config.json", "--json"]

    code = main(["report", str(file), "-o", "plan.html", *judged])
    said = json.loads(capsys.readouterr().out)
    assert main(["preview", str(file), *judged]) == code == 1
    preview = json.loads(capsys.readouterr().out)
    page = Path("plan.html").read_text(encoding="utf-8")

    assert said["stacks"][0]["findings"] == sum(len(each["violations"]) for each in preview["policy"])
    assert all(each["policy"] in page for each in preview["policy"])
    passing = sum(each["verdict"] == "pass" for each in preview["policy"])
    assert f"{passing} of {len(preview['policy'])} policies pass" in page


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--policy-config", "none.json"], 1, "none.json: cannot be read: No such file or directory"),
        (["--policy-config", "wrong.json"], 1, "wrong.json: gpu-pool-bounde: is not a policy of this pack"),
        (
            ["--policy-config", "wrong.json", "--no-policies"],
            2,
            "cannot be combined with --no-policies",
        ),
        (["--policy-config", "link.json", "--within", "."], 1, "link.json: is a link that leads out of ."),
    ],
    ids=["no file", "no policy", "no policies", "a link"],
)
def test_a_configuration_that_is_none_stops_the_report(
    arguments: list[str], code: int, said: str, stack_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wrong.json").write_text('{"gpu-pool-bounde": "mandatory"}', encoding="utf-8")
    Path("link.json").symlink_to("/dev/null")

    assert main(["report", str(stack_file()), "-o", "plan.html", *arguments]) == code
    assert said in capsys.readouterr().err
    assert not Path("plan.html").exists()
