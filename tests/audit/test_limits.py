"""Judging ends at a limit of processor time and memory, with an error in every format and exit code 2."""

import json
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from gpupools.audit import limits
from gpupools.audit.judging import FileReport, judge_file
from gpupools.policies.policy_config import Config

Run = Callable[..., tuple[int, str, str]]
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
TIME = "takes more than 60 s of processor time to judge; split it, or check fewer files per run"
MEMORY = "takes more than 2048 MiB of memory to judge; split it, or check fewer files per run"
LATER = "was not judged: the run reached a limit; split it, or check fewer files per run"


def endless(path: Path, config: Config) -> FileReport:
    while "slow" in path.name:
        pass
    return judge_file(path, config)


def huge(path: Path, config: Config) -> FileReport:
    if "slow" in path.name:
        assert bytearray(2 * limits.MEMORY_BYTES)
    return judge_file(path, config)


@pytest.fixture
def in_this_process() -> None:
    """Judge files in a child process, as the command does."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(limits, "CPU_SECONDS", 1)
    made = [tmp_path / name for name in ("first.yaml", "slow.yaml", "third.yaml")]
    for file in made:
        file.write_text(CONFIG_MAP, encoding="utf-8")
    return made


@pytest.mark.parametrize(("judge", "said"), [(endless, TIME), (huge, MEMORY)], ids=["time", "memory"])
def test_a_limit_is_reported_in_every_format(
    judge: Callable[[Path, Config], FileReport], said: str, files: list[Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "judge_file", judge)
    folder = files[0].parent
    reports = {form: folder / f"report.{form}" for form in ("json", "sarif", "junit")}
    options = [f"--report={form}={file}" for form, file in reports.items()]
    code, out, err = run("policy", *files, *options)
    of_json = json.loads(reports["json"].read_text(encoding="utf-8"))
    of_sarif = json.loads(reports["sarif"].read_text(encoding="utf-8"))["runs"][0]["invocations"][0]
    errors = [each.get("message") for each in Xml.parse(reports["junit"]).iter("error")]

    assert code == 2
    assert "3 files, 1 resource (0 judged" in out
    assert err.splitlines() == [f"{files[1]}: {said}", f"{files[2]}: {LATER}"]
    assert of_json["result"] == "failed"
    assert [len(each["problems"]) for each in of_json["files"]] == [0, 1, 1]
    assert of_json["files"][1]["problems"][0]["what"] == said.partition("; ")[0]
    assert of_sarif["executionSuccessful"] is False
    assert [each["message"]["text"] for each in of_sarif["toolExecutionNotifications"]] == [said, LATER]
    assert errors == [said, LATER]


def test_a_limit_is_an_annotation_on_github(files: list[Path], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "judge_file", huge)
    code, out, _ = run("policy", *files, "--format", "github")

    assert code == 2
    assert f"::error file={files[1]},title=gpupools policy::{MEMORY}" in out


def test_a_reader_that_ends_by_itself_is_an_error(files: list[Path], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "judge_file", lambda path, config: os._exit(7))
    code, _, err = run("policy", files[0])

    assert code == 2
    assert "cannot be judged: its reader ended with code 7" in err


@pytest.mark.skipif(sys.platform != "linux", reason="what is mapped is read as Linux has it")
def test_memory_that_the_program_had_before_does_not_count(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(CONFIG_MAP, encoding="utf-8")

    with mmap.mmap(-1, limits.MEMORY_BYTES):  # never touched
        assert run("policy", file)[0] == 0


def test_without_processes_of_its_own_the_time_is_limited(
    files: list[Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr(limits, "CPU_SECONDS", 0.2)
    monkeypatch.setattr(limits, "judge_file", endless)
    code, _, err = run("policy", files[1])

    assert code == 2
    assert TIME in err
