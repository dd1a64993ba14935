"""The configuration as a program has it: what is decrypted is decided on, and never told."""

import contextvars
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime.config import set_all_config

from gpupools.common.errors import Problem, Rejected
from gpupools.components.stack_config import FILE, StackConfig, hiding_values, read_stack_config
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.spec.models import LATE

PAGE = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"


def test_a_refusal_of_decrypted_values_keeps_its_place_and_its_source_and_tells_no_value() -> None:
    def refuse(value: str) -> None:
        raise Rejected([Problem(("pools", "a", "name"), f"got {value!r}", f"write another than {value!r}", PAGE)])

    with pytest.raises(Rejected) as caught:
        hiding_values(refuse, "hunter2")

    (problem,) = caught.value.problems
    assert (problem.path, problem.source) == (("pools", "a", "name"), PAGE)
    assert "hunter2" not in str(caught.value)
    assert "the decrypted value is invalid (not shown); test a similar plain value" in str(problem)


def test_what_is_decided_on_decrypted_values_is_handed_on() -> None:
    assert hiding_values(lambda one, two: one + two, "a", "b") == "ab"


Read = Callable[..., tuple[StackConfig, list[str]]]
SAFE = {"secure": "v1:aaaaaaaaaaaaaaaa:bbbbbbbb"}


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return a function that reads the configuration of a program in `program`, and what it warned of."""
    (tmp_path / "program").mkdir()
    monkeypatch.chdir(tmp_path / "program")
    monkeypatch.delenv(FILE, raising=False)
    monkeypatch.setattr(pulumi, "get_stack", lambda: "test")
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(tmp_path))
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)

    def run(
        handed: Mapping[str, Any], secret: Sequence[str] = (), *, by_pulumi: bool = True, env: Mapping[str, str] = {}
    ) -> tuple[StackConfig, list[str]]:
        if by_pulumi:
            monkeypatch.setenv("PULUMI_CONFIG", json.dumps(env))
        else:
            monkeypatch.delenv("PULUMI_CONFIG", raising=False)
        texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in handed.items()}

        def inside() -> StackConfig:
            set_all_config(texts, [*secret])
            return read_stack_config()

        return contextvars.copy_context().run(inside), warned

    return run


def write(path: Path, **config: Any) -> None:
    """Write a stack file."""
    keys = {f"gpupools:{key}": value for key, value in config.items()}
    path.write_text(json.dumps({"config": keys}), encoding="utf-8")


CLUSTERS = {"a": {"role": "arn", "size": 3, "list": ["x", "y"]}}


@pytest.mark.parametrize("where", ["beside the program", "at the root", "as named"])
def test_what_is_encrypted_stands_in_the_stack_file(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    beside, root, named = tmp_path / "program" / "Pulumi.test.yaml", tmp_path / "Pulumi.test.yaml", tmp_path / "x.yaml"
    written = {"clusters": {"a": {"role": SAFE, "size": 3, "list": ["x", SAFE]}}, "pools": {"b": 1}}
    if where == "as named":
        monkeypatch.setenv(FILE, str(named))
        write(beside)
    write({"beside the program": beside, "at the root": root, "as named": named}[where], **written)
    if where == "beside the program":
        write(root)
    handed = {"gpupools:clusters": CLUSTERS, "gpupools:pools": {"b": 1}, "aws:region": "eu-central-1"}
    found, warned = read(handed, ["gpupools:clusters"], env={"gcp:project": "x", "gpupools:pools": "{}"})

    assert found == StackConfig(
        values={"clusters": CLUSTERS, "pools": {"b": 1}},
        marked={"clusters": {"a": {"role": LATE, "size": 3, "list": ["x", LATE]}}, "pools": {"b": 1}},
        encrypted=frozenset({"clusters"}),
        others=("gcp:project", "aws:region"),
        is_decrypted=True,
        folder={"beside the program": beside, "at the root": root, "as named": named}[where].parent,
    )
    assert warned == []


CANNOT_TELL = (
    "clusters: contains encrypted values, and Pulumi does not mark which; keep this key in Pulumi.test.yaml, or set "
    "GPUPOOLS_STACK_FILE to its file"
)


@pytest.mark.parametrize(
    "written",
    [None, {}, {"clusters": {"a": {"role": SAFE, "size": 4, "list": ["x", "y"]}}}, {"clusters": 1}],
    ids=["no file", "no such key", "another value", "another type"],
)
def test_encrypted_values_that_no_file_shows_are_refused(
    read: Read, tmp_path: Path, written: dict[str, Any] | None
) -> None:
    if written is not None:
        write(tmp_path / "Pulumi.test.yaml", **written)
    with pytest.raises(Rejected) as caught:
        read({"gpupools:clusters": CLUSTERS}, ["gpupools:clusters"])

    assert [str(problem) for problem in caught.value.problems] == [CANNOT_TELL]


def test_a_value_that_the_file_has_otherwise_is_warned_of_and_not_shown(read: Read, tmp_path: Path) -> None:
    path = tmp_path / "program" / "Pulumi.test.yaml"
    write(path, clusters={"a": {"role": "other", "size": 3, "list": ["x", "y"]}})
    found, warned = read({"gpupools:clusters": CLUSTERS, "gpupools:more": 1})

    assert found.values == found.marked == {"clusters": CLUSTERS, "more": 1}
    assert [text.partition(", the file that gpupools check")[0] for text in warned] == [
        f"clusters.a.role: Pulumi passed a value that differs from {path}"
    ]
    assert "other" not in warned[0].replace("another", "")


def test_a_value_that_an_environment_brings_is_not_warned_of(read: Read, tmp_path: Path) -> None:
    content = {"environment": ["base"], "config": {"gpupools:clusters": {"a": 1}}}
    (tmp_path / "Pulumi.test.yaml").write_text(json.dumps(content), encoding="utf-8")

    assert read({"gpupools:clusters": CLUSTERS})[1] == []


def test_without_a_file_nothing_is_warned_of(read: Read) -> None:
    found, warned = read({"gpupools:clusters": CLUSTERS})

    assert (found.marked, found.encrypted, warned) == ({"clusters": CLUSTERS}, frozenset(), [])


def test_an_offline_preview_has_late_values_where_it_has_pulumis_sign(read: Read, tmp_path: Path) -> None:
    write(tmp_path / "Pulumi.test.yaml", clusters={"a": 1})
    handed = {"a": {"role": UNKNOWN, "list": ["x", UNKNOWN, {"b": UNKNOWN}], "size": 3}}
    found, warned = read({"gpupools:clusters": handed, "gpupools:all": UNKNOWN}, ["gpupools:clusters"], by_pulumi=False)

    assert found.marked == {"clusters": {"a": {"role": LATE, "list": ["x", LATE, {"b": LATE}], "size": 3}}, "all": LATE}
    assert found.values["clusters"] == handed
    assert warned == []


def test_every_value_that_another_reader_takes_otherwise_is_refused_at_once(read: Read) -> None:
    date = "2026-12-31 00:00:00 +0000 UTC"
    handed = {"gpupools:a": '{"x": 1, "x": 2}', "gpupools:b": {"until": date}, "gpupools:c": {"until": date}}
    with pytest.raises(Rejected) as caught:
        read(handed, ["gpupools:c"])

    assert [problem.path[0] for problem in caught.value.problems] == ["a", "b"]
