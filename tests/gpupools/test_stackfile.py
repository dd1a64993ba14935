"""Readback stack files: what YAML may hold, what is refused, and on which line."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.spec.models import LATE
from gpupools.stackfile.config_values import MAX_BYTES, from_text
from gpupools.stackfile.reader import FileRejected, NotYaml, StackFile, read_stack_file, stack_name
from tests.gpupools.cli_readings import READINGS, Reading

GOOD = """\
config:
  gpupools:clusters:
    lab:
      cloud: fake
      name: lab-dev
  gpupools:pools:
    a:
      clusters: [lab]
      taints:
        - one:NoSchedule
        - two:NoSchedule
"""


def read(tmp_path: Path, text: str | bytes, name: str = "Pulumi.test.yaml") -> StackFile:
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_stack_file(file)


def clusters(tmp_path: Path, value: str) -> Any:
    """Return what a value below `gpupools:clusters` is read as."""
    return read(tmp_path, f"config:\n  gpupools:clusters: {value}\n").config["clusters"]


def refused(tmp_path: Path, text: str | bytes) -> list[tuple[int | None, str]]:
    """Return line and text of every problem of a file that cannot be read."""
    with pytest.raises(Rejected) as caught:
        read(tmp_path, text)
    file = caught.value.file if isinstance(caught.value, FileRejected) else None
    return [(file.line(problem.path) if file else None, str(problem)) for problem in caught.value.problems]


# --- what is read ---


def test_the_part_of_a_file_that_is_ours_is_read(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD + "  aws:region: eu-central-1\nencryptionsalt: v1:abc\n")

    assert file.stack == "test"
    assert file.config == {
        "clusters": {"lab": {"cloud": "fake", "name": "lab-dev"}},
        "pools": {"a": {"clusters": ["lab"], "taints": ["one:NoSchedule", "two:NoSchedule"]}},
    }


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param(("clusters",), 2, id="a section"),
        pytest.param(("clusters", "lab"), 3, id="a cluster"),
        pytest.param(("clusters", "lab", "name"), 5, id="a key"),
        pytest.param(("pools", "a", "clusters", 0), 8, id="an item on the line of its key"),
        pytest.param(("pools", "a", "taints", 1), 11, id="an item on a line of its own"),
        pytest.param(("pools", "a", "nodes", "max"), 7, id="a missing key is where its pool is"),
        pytest.param(("pools", "b"), 6, id="a missing pool is where the pools are"),
        pytest.param(("nothing",), 1, id="what is nowhere is on the first line"),
        pytest.param((), 1, id="the whole"),
    ],
)
def test_every_key_knows_its_line(path: tuple[str | int, ...], line: int, tmp_path: Path) -> None:
    assert read(tmp_path, GOOD).line(path) == line


def test_a_gpu_index_has_its_line_as_number_and_as_text(tmp_path: Path) -> None:
    file = read(tmp_path, "config:\n  gpupools:pools:\n    a:\n      0:\n        [x]\n      '1': [y,\n        z]\n")

    assert [file.line(("pools", "a", index)) for index in (0, "0", 1, "1")] == [4, 4, 6, 6]
    assert file.line(("pools", "a", "1", 1)) == 7


def test_an_unknown_key_of_our_namespace_has_its_line(tmp_path: Path) -> None:
    file = read(tmp_path, "config:\n  gpupools:clusters: {}\n  gpupools:pool: {}\n")

    assert file.config == {"clusters": {}, "pool": {}}
    assert file.line(("gpupools:pool",)) == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # As Pulumi's CLI reads them, with go-yaml v3.
        pytest.param(
            "[yes, no, on, off, y, n, Yes, NO]", ["yes", "no", "on", "off", "y", "n", "Yes", "NO"], id="YAML 1.1"
        ),
        pytest.param("[true, false, True, FALSE]", [True, False, True, False], id="booleans"),
        pytest.param("[null, ~, Null, NULL]", [None] * 4, id="null"),
        pytest.param("{a: , b: }", {"a": None, "b": None}, id="nothing"),
        pytest.param("[1:30, 190:20:30.15]", ["1:30", "190:20:30.15"], id="no base 60"),
        pytest.param("[4, +12, -3, 1_000, 0x1F, 0b11, 0o10]", [4, 12, -3, 1000, 31, 3, 8], id="whole numbers"),
        pytest.param("[1.5, 1., .5, 1e3, 1E-2]", [1.5, 1, 0.5, 1000, 0.01], id="decimals"),
        pytest.param("['4', \"true\", !!str 4]", ["4", "true", "4"], id="quoted is text"),
        pytest.param("[=, <<, '-', 1.2.3, 08a]", ["=", "<<", "-", "1.2.3", "08a"], id="text that looks special"),
        pytest.param(
            "{true: 1, 'null': 2, yes: 3, '1.5': 4, '2026-01-01': 5}",
            {"true": 1, "null": 2, "yes": 3, "1.5": 4, "2026-01-01": 5},
            id="keys are text",
        ),
        pytest.param("{0: a, 7: b, '8': c}", {"0": "a", "7": "b", "8": "c"}, id="whole numbers as keys"),
        pytest.param("{größe: ü, 😀: é}", {"größe": "ü", "😀": "é"}, id="letters of other languages"),
    ],
)
def test_values_are_read_as_pulumi_reads_them(text: str, value: object, tmp_path: Path) -> None:
    found = clusters(tmp_path, text)

    assert found == value
    assert repr(found) == repr(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("{name: {secure: AAABBB}}", {"name": LATE}, id="an address"),
        pytest.param("[a, {secure: AAABBB}]", ["a", LATE], id="in a list"),
        pytest.param("{secure: AAABBB}", LATE, id="everything"),
        pytest.param(
            "{secure: AAABBB, name: x}", {"secure": "AAABBB", "name": "x"}, id="a key of that name beside others"
        ),
        pytest.param("{secure: 3}", {"secure": 3}, id="a key of that name that is no text"),
    ],
)
def test_encrypted_values_are_late(text: str, value: object, tmp_path: Path) -> None:
    assert clusters(tmp_path, text) == value


def test_anchors_aliases_and_merge_keys_are_followed(tmp_path: Path) -> None:
    text = """\
config:
  gpupools:pools:
    a: &a
      nodes: {max: 1}
      gpu: L4
    b:
      gpu: T4
      <<: *a
    c: *a
    d: {<<: [*a, {gpu: P4, disk_gib: 300}]}
    e:
      <<: {gpu: A10}
      nodes: {max: 2}
"""
    file = read(tmp_path, text)

    assert file.config["pools"] == {
        "a": {"nodes": {"max": 1}, "gpu": "L4"},
        "b": {"nodes": {"max": 1}, "gpu": "T4"},
        "c": {"nodes": {"max": 1}, "gpu": "L4"},
        "d": {"nodes": {"max": 1}, "gpu": "L4", "disk_gib": 300},
        "e": {"nodes": {"max": 2}, "gpu": "A10"},
    }
    assert file.line(("pools", "b", "gpu")) == 7  # its own, not that of the map merged in after it
    assert file.line(("pools", "b", "nodes", "max")) == 4
    assert file.line(("pools", "e", "nodes")) == 13


def test_an_encrypted_value_may_be_merged_in(tmp_path: Path) -> None:
    assert clusters(tmp_path, "{a: &s {secure: AAA}, b: {<<: *s, c: 1}}") == {"a": LATE, "b": {"secure": "AAA", "c": 1}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"\xef\xbb\xbf" + GOOD.encode(), id="a byte order mark"),
        pytest.param(GOOD.replace("\n", "\r\n"), id="Windows line ends"),
        pytest.param(GOOD.replace("gpupools:", ""), id="keys without a namespace"),
        pytest.param("%YAML 1.1\n---\n" + GOOD, id="a YAML directive"),
        pytest.param("# a comment\n---\n" + GOOD + "...\n", id="markers of the document"),
    ],
)
def test_other_ways_to_write_the_same(text: str | bytes, tmp_path: Path) -> None:
    assert read(tmp_path, text).config == read(tmp_path, GOOD, "other.yaml").config


@pytest.mark.parametrize(
    ("name", "stack"),
    [("Pulumi.dev.yaml", "dev"), ("Pulumi.eu.prod.yml", "eu.prod"), ("gpu.yaml", "gpu"), ("Pulumi..yaml", "Pulumi.")],
)
def test_a_stack_is_named_by_its_file(name: str, stack: str) -> None:
    assert stack_name(Path("stacks") / name) == stack


# --- what is refused ---

NO_CONFIG = "has no config: map; add config: with gpupools:clusters and gpupools:pools"
NEITHER = "config: has neither gpupools:clusters nor gpupools:pools"
EMPTY = "the file is empty; add config: with gpupools:clusters and gpupools:pools"
LOOK = "check quotes, indentation and brackets"
TOO_MUCH = "holds more than 100000 values, or more than 60 levels of nesting"
SPLIT = "split the stack into several stacks"
TOO_LARGE = "is a number that is too large; write it in quotes if it is text"
WRITE_OUT = "remove nested aliases"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", [(None, EMPTY)], id="empty"),
        pytest.param("# nothing\n", [(None, EMPTY)], id="a comment"),
        pytest.param("---\n", [(None, NO_CONFIG)], id="an empty document"),
        pytest.param("[1, 2]", [(None, NO_CONFIG)], id="a list"),
        pytest.param("text", [(None, NO_CONFIG)], id="text"),
        pytest.param("Config: {}", [(None, NO_CONFIG)], id="another case"),
        pytest.param("config:", [(None, NO_CONFIG)], id="config of nothing"),
        pytest.param("config: [gpupools:clusters]", [(None, NO_CONFIG)], id="config as a list"),
        pytest.param("secure: x", [(None, NO_CONFIG)], id="an encrypted file"),
        pytest.param(
            "\nconfig: {}", [(2, f"{NEITHER}; known: gpupools:clusters, gpupools:pools")], id="an empty config"
        ),
        pytest.param(
            "config: {aws:region: x}",
            [(1, f"{NEITHER}; known: gpupools:clusters, gpupools:pools")],
            id="another project's",
        ),
        pytest.param(
            "config: {gpupool:clusters: {}}",
            [(1, f"{NEITHER}; did you mean 'gpupools:clusters' or 'gpupools:pools'?")],
            id="a misspelt namespace",
        ),
        pytest.param(
            "config:\n  clusters: {}\n\n  gpupools:clusters: {}\n",
            [(4, "clusters: is set twice, as clusters and as gpupools:clusters; keep one")],
            id="with and without namespace",
        ),
        pytest.param(
            "config:\n  gpupools:pools:\n    a: 1\n    b: 2\n    a: 3\n",
            [(5, "pools.a: is set twice, on lines 3 and 5; keep one of them")],
            id="a pool twice",
        ),
        pytest.param(
            "config: {gpupools:pools: {1: a,\n '1': b,\n true: c, true: d}}",
            [
                (2, "pools.1: is set twice, on lines 1 and 2; keep one of them"),
                (3, "pools.true: is set twice, on lines 3 and 3; keep one of them"),
            ],
            id="keys that mean the same twice",
        ),
        pytest.param(
            "config:\n  gpupools:pools: {}\nconfig:\n  x: 1\n",
            [(3, "config: is set twice, on lines 1 and 3; keep one of them")],
            id="config twice",
        ),
        pytest.param(
            "config:\n  gpupools:pools:\n    ? [a]\n    : 1\n    ? {b: c}\n    : 2\n",
            [(2, "pools: has a key that is not text; write keys as text")] * 2,
            id="lists and maps as keys",
        ),
        pytest.param(
            "config:\n  gpupools:pools:\n    a: {<<: 3}\n    b: {<<: [{x: 1}, y]}\n",
            [
                (3, "pools.a: << merges a value that is not a map; merge a map"),
                (4, "pools.b: << merges a value that is not a map; merge a map"),
            ],
            id="merging what is no map",
        ),
        pytest.param(
            "config:\n  gpupools:pools: !!python/object/apply:os.system [ls]\n",
            [(2, "pools: has the tag 'tag:yaml.org,2002:python/object/apply:os.system'; remove the tag")],
            id="a tag that runs code elsewhere",
        ),
        pytest.param(
            "config:\n  gpupools:pools:\n    a: !secret x\n    b: !!binary aaaa\n    c: !!set {x}\n",
            [
                (3, "pools.a: has the tag '!secret'; remove the tag"),
                (4, "pools.b: has the tag 'tag:yaml.org,2002:binary'; remove the tag"),
                (5, "pools.c: has the tag 'tag:yaml.org,2002:set'; remove the tag"),
            ],
            id="tags",
        ),
        pytest.param(
            "config: {gpupools:pools: {a: !!int x, b: !!bool x, c: !!float x}}",
            [
                (1, "pools.a: has the tag 'tag:yaml.org,2002:int'; remove the tag"),
                (1, "pools.b: has the tag 'tag:yaml.org,2002:bool'; remove the tag"),
                (1, "pools.c: has the tag 'tag:yaml.org,2002:float'; remove the tag"),
            ],
            id="tags of scalars",
        ),
        pytest.param(
            f"config: {{gpupools:pools: {{a: {'9' * 5000}, b: 0x{'f' * 5000}}}}}",
            [
                (1, f"pools.a: {TOO_LARGE}"),
                (1, f"pools.b: {TOO_LARGE}"),
            ],
            id="numbers Python cannot write",
        ),
        pytest.param(
            "config: {gpupools:pools: &a [*a]}", [(1, f"pools: {TOO_MUCH}; {WRITE_OUT}")], id="a list in itself"
        ),
        pytest.param(
            "config: {gpupools:pools: &a {b: *a}}", [(1, f"pools: {TOO_MUCH}; {WRITE_OUT}")], id="a map in itself"
        ),
        pytest.param(
            "config: {gpupools:pools: &a {<<: *a}}",
            [(1, f"pools: {TOO_MUCH}; {WRITE_OUT}")],
            id="a map merged into itself",
        ),
    ],
)
def test_what_is_no_stack_file(text: str, found: list[tuple[int | None, str]], tmp_path: Path) -> None:
    assert refused(tmp_path, text) == found


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        pytest.param("config:\n\tx: 1\n", "line 2, column 1", "a tab", id="a tab"),
        pytest.param("config:\n  \tx: 1\n", "line 2, column 3", "a tab", id="a tab behind blanks"),
        pytest.param("config: [\t\n", "line 2, column 1", "expected", id="a tab that indents nothing"),
        pytest.param("config: {a: [1\n", "line 2, column 1", "expected ',' or ']'", id="an open bracket"),
        pytest.param("a: 1\n b: 2\n", "line 2, column 3", "mapping values are not allowed", id="indentation"),
        pytest.param("config: 'x", "line 1, column 11", "end of stream", id="an open quote"),
        pytest.param("config: *x", "line 1, column 9", "undefined alias", id="an alias of nothing"),
        pytest.param("%YAML 3.0\n---\na: 1", "line 1, column 1", "incompatible", id="a YAML of the future"),
        pytest.param(
            f"{{{'x' * 2000}: 1}}", "line 1, column 2002", "did not find expected", id="a key too long for YAML"
        ),
        pytest.param('a: "\\ud83d"', "line 1, column 7", "escape code", id="half a character"),
    ],
)
def test_broken_yaml_says_where(text: str, place: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(NotYaml) as caught:
        read(tmp_path, text)
    (problem,) = caught.value.problems
    assert caught.value.span is not None

    assert f"line {caught.value.span.line}, column {caught.value.span.column}" == place
    assert str(caught.value) == f"{place}: {problem}"
    assert problem.what.startswith("is not YAML: ")
    assert what in problem.what
    assert problem.fix == ("indent with spaces" if what == "a tab" else LOOK)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(GOOD + "\0", "is not YAML: unacceptable character #x0000", id="a NUL byte"),
        pytest.param("a: \x1b[31m", "is not YAML: unacceptable character #x001b", id="a terminal's escape code"),
        pytest.param("größe: 1".encode("latin-1"), "is not UTF-8 text (byte 2); save it as UTF-8", id="Latin-1"),
        pytest.param(GOOD.encode("utf-16"), "is not UTF-8 text (byte 0); save it as UTF-8", id="UTF-16"),
        pytest.param(bytes(range(128, 256)), "is not UTF-8 text (byte 0); save it as UTF-8", id="a binary file"),
        pytest.param(
            b"a" * (10 * 1024 * 1024),
            f"cannot be read: it has more than {MAX_BYTES} bytes; use a stack file",
            id="10 MB",
        ),
    ],
)
def test_what_is_no_text(text: str | bytes, found: str, tmp_path: Path) -> None:
    ((line, problem),) = refused(tmp_path, text)

    assert line is None
    assert problem.startswith(found)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("config: " + "[" * 100_000 + "]" * 100_000, id="brackets, on which libyaml's composer crashes"),
        pytest.param("config: " + "{a: " * 50_000, id="braces that nobody closes"),
        pytest.param("- " * 50_000, id="hyphens"),
        pytest.param("? " * 50_000, id="question marks"),
        pytest.param("".join(f"{' ' * depth}a:\n" for depth in range(1_000)), id="indentation"),
    ],
)
def test_deep_nesting_is_refused_in_good_time(text: str, tmp_path: Path) -> None:
    started = time.process_time()

    ((_, problem),) = refused(tmp_path, text)

    assert problem.endswith(f"{TOO_MUCH}; {SPLIT}")
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("first", "step", "last"),
    [
        pytest.param("[x,x,x,x,x,x,x,x,x,x]", "[{}]", "*a11", id="lists"),
        pytest.param("{k: 1}", "{{<<: [{}]}}", "*a11", id="merge keys"),
    ],
)
def test_aliases_cannot_grow_without_end(first: str, step: str, last: str, tmp_path: Path) -> None:
    grown = [f"a0: &a0 {first}"] + [f"a{n}: &a{n} {step.format(','.join([f'*a{n - 1}'] * 10))}" for n in range(1, 12)]

    found = refused(tmp_path, "\n".join([*grown, f"config: {{gpupools:pools: {last}}}"]))

    assert len(found) == 1
    assert found[0][1].endswith(f"{TOO_MUCH}; {WRITE_OUT}")


def test_sixty_levels_are_still_read(tmp_path: Path) -> None:
    found = clusters(tmp_path, "[" * 57 + "]" * 57)

    depth = 0
    while found:
        (found,) = found
        depth += 1
    assert depth == 56


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^cannot be read: it is a folder; use a stack file, e\.g\. "):
        read_stack_file(tmp_path)


def test_a_missing_file_is_answered_with_those_beside_it(tmp_path: Path) -> None:
    for name in ("Pulumi.prod.yaml", "Pulumi.dev.yaml", "other.yaml"):
        (tmp_path / name).touch()

    with pytest.raises(Rejected) as caught:
        read_stack_file(tmp_path / "Pulumi.staging.yaml")

    assert str(caught.value) == "does not exist; stack files in that folder: Pulumi.dev.yaml, Pulumi.prod.yaml"


def test_a_missing_folder_is_answered_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match=r"^does not exist; use a file, e\.g\. stacks/Pulumi\.dev\.yaml$"):
        read_stack_file(tmp_path / "nowhere" / "Pulumi.dev.yaml")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("a\0b", "(stat: )?embedded null (byte|character in path)", id="a NUL byte"),
        pytest.param("x" * 5000, "File name too long", id="a very long name"),
        pytest.param("file/below", "Not a directory", id="below a file"),
        pytest.param("loop", "Too many levels of symbolic links", id="a link to itself"),
    ],
)
def test_what_cannot_be_opened_says_why(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(
        Rejected, match=rf"^cannot be read: {reason}; use a stack file, e\.g\. stacks/Pulumi\.dev\.yaml$"
    ):
        read_stack_file(tmp_path / name)


@pytest.mark.parametrize("device", [os.devnull, "/dev/zero"])
def test_devices_are_not_read(device: str) -> None:
    with pytest.raises(Rejected, match="cannot be read: it is not a regular file"):
        read_stack_file(Path(device))


# --- the CLI's own reading ---


@pytest.mark.parametrize(
    "reading", READINGS, ids=lambda each: f"{each.at}: {each.text}".encode("unicode_escape").decode()
)
def test_a_value_is_what_the_cli_hands_on_or_is_refused(reading: Reading, tmp_path: Path) -> None:
    try:
        found = read(tmp_path, reading.file).config["pools"]
    except Rejected:
        assert reading.ours == "refused"
        return

    assert reading.ours == "same"
    assert reading.handed_on is not None
    assert repr(sorted_keys(found)) == repr(sorted_keys(from_text("pools", reading.handed_on)))


def sorted_keys(value: Any) -> Any:
    """Return a value with its maps in one order, so that `repr` tells 1 from 1.0 and True and nothing else."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(each) for each in value] if isinstance(value, list) else value


OCTAL = (
    "starts with 0, which some YAML parsers read as octal and others as decimal; "
    "remove the zero, or write it in quotes if it is text"
)
DATE = "is a date, which Pulumi would convert to other text; write it in quotes"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param(
            "config:\n  gpupools:pools:\n    a:\n      tags: {expires: 2026-12-31}\n",
            [(4, f"pools.a.tags.expires: {DATE}")],
            id="a date",
        ),
        pytest.param(
            "config: {gpupools:pools: {a: {nodes: {max: 010}}}}", [(1, f"pools.a.nodes.max: {OCTAL}")], id="010"
        ),
        pytest.param(
            "config:\n  gpupools:pools:\n    a:\n      labels:\n        2026-12-31: x\n",
            [(5, "pools.a.labels.2026-12-31: is a key that Pulumi would convert to other text; write it in quotes")],
            id="a key",
        ),
        pytest.param(
            "config:\n  gpupools:config:pools: {a: .inf}\n",
            [(2, "pools.a: is not a finite number; write it in quotes if it is text")],
            id="the long form of a key",
        ),
        pytest.param(
            'config:\n\n  gpupools:pools: \'{"a": 1, "a": 2}\'\n',
            [(3, "pools: is JSON and has a duplicate key in a map; keep one of them")],
            id="JSON with a key twice",
        ),
        pytest.param(
            "config:\n  gpupools:pools: '" + "[" * 61 + "]" * 61 + "'\n",
            [
                (
                    2,
                    f"pools: {TOO_MUCH}; {SPLIT}",
                )
            ],
            id="deep JSON",
        ),
        pytest.param(
            "config:\n  gpupools:pools: {a: {<<: {b: 1}, <<: {c: 2}}}\n",
            [(2, "pools.a: has << twice; write <<: [*first, *second]")],
            id="two merges",
        ),
    ],
)
def test_what_would_arrive_as_something_else_is_refused_on_its_line(
    text: str, found: list[tuple[int | None, str]], tmp_path: Path
) -> None:
    assert refused(tmp_path, text) == found


def test_what_another_project_writes_is_not_judged(tmp_path: Path) -> None:
    text = GOOD + "  other:since: 2026-12-31\n  other:mode: {file: 0644, 2026-01-01: x}\nencryptionsalt: v1:010\n"

    assert read(tmp_path, text).config == read(tmp_path, GOOD).config


# --- ESC environments ---

IMPORTED = """\
environment: [acme/gpu]
config:
  gpupools:clusters: {lab: {cloud: fake, name: lab-dev}}
  gpupools:pools: {a: {clusters: [lab]}}
"""
INLINE = """\
environment:
  values:
    region: europe-west4
    pulumiConfig:
      gpupools:clusters:
        lab: {cloud: fake, name: from-environment, zone: '${region}', key: {fn::secret: {ciphertext: AAA}}}
      pools:
        a: {clusters: [lab], nodes: {min: 1, max: 2}}
      aws:region: us-east-1
config:
  gpupools:pools:
    a:
      nodes:
        max: 4
"""


def test_what_an_environment_of_the_file_gives_lies_below_the_configuration(tmp_path: Path) -> None:
    file = read(tmp_path, INLINE)

    assert file.config == {
        "clusters": {"lab": {"cloud": "fake", "name": "from-environment", "zone": LATE, "key": LATE}},
        "pools": {"a": {"clusters": ["lab"], "nodes": {"min": 1, "max": 4}}},
    }
    assert file.line(("clusters", "lab")) == 6
    assert file.line(("pools", "a", "clusters")) == 8
    assert file.note == ""


@pytest.mark.parametrize(
    "environment",
    ["[acme/gpu]", "{imports: [acme/gpu]}", "{imports: [{acme/gpu: {merge: false}}]}"],
    ids=["a list", "imports", "an import with options"],
)
def test_an_environment_that_is_not_here_is_said(environment: str, tmp_path: Path) -> None:
    file = read(tmp_path, IMPORTED.replace("[acme/gpu]", environment))

    assert file.config == {
        "clusters": {"lab": {"cloud": "fake", "name": "lab-dev"}},
        "pools": {"a": {"clusters": ["lab"]}},
    }
    assert file.note == (
        "values from the ESC environment 'acme/gpu' are not checked here; pulumi preview reads them from Pulumi Cloud"
    )


def test_a_file_whose_environment_has_everything_says_so(tmp_path: Path) -> None:
    ((line, problem),) = refused(tmp_path, "\nenvironment: [acme/gpu]\n")

    assert line == 2
    assert problem.startswith(
        "environment: has neither gpupools:clusters nor gpupools:pools; values from the ESC environment 'acme"
    )


def test_a_date_in_an_environment_is_refused_too(tmp_path: Path) -> None:
    text = "environment:\n  values:\n    pulumiConfig:\n      gpupools:pools: {a: {tags: {b: 2026-12-31}}}\n"

    assert refused(tmp_path, text) == [(4, f"pools.a.tags.b: {DATE}")]


# --- growth ---
