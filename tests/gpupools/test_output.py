"""What is printed of hostile names: each format is read back by its own reader."""

import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml
from markdown_it import MarkdownIt

from gpupools.console.output import annotation, line, markdown_code, printable, sarif_text
from gpupools.report.html import html
from tests.rows import each_row

pytestmark = pytest.mark.slow

HOSTILE = {
    "runner command": "\n::stop-commands::x\n",
    "old runner command": "a ##[add-mask]b",
    "colours": "\x1b[2K\x1b[31mok",
    "carriage return": "bad\rok",
    "bidi": "ok \u202egnp.\u2066",
    "line separators": "a\u2028::error::b\u2029\x85\x0b\x0cc",
    "invisible": "a\u200b\u00adb\ufe0f\u3164\U000e0041",
    "control": "\x07\x08\x9b31m",
}
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}
"""
FORMATS = ("text", "json", "sarif", "junit", "github")
ACTS = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"}

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def run(folder: Path, *arguments: str | bytes, **variables: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "gpupools.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        timeout=60,
        check=False,
    )


def obeyed(printed: str) -> list[str]:
    """Return the commands that GitHub's runner finds in a log.

    As in github.com/actions/runner, src/Runner.Common/ActionCommand.cs: TryParseV2, then TryParse.
    """
    found = []
    for each in re.split(r"\r\n|\r|\n", printed):
        bare = each.lstrip()
        if bare.startswith("::") and "::" in bare[2:]:
            found.append(bare[2:].partition("::")[0].partition(" ")[0])
        elif match := re.search(r"##\[([^\] ]*)[^\]]*\]", each):
            found.append(match[1])
    return found


def is_plain(text: str) -> bool:
    return not any(unicodedata.category(one) in ACTS for one in text.replace("\n", ""))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_a_line_is_one_line_that_nothing_acts_on(text: str) -> None:
    shown = line(text)

    assert len(shown.splitlines()) == 1
    assert is_plain(shown)
    assert obeyed(shown) == []


@pytest.mark.parametrize("text", ["  ::error::x", "::error::x", "a ::error:: b", "##[error]x"])
def test_no_line_is_a_command_to_the_runner(text: str) -> None:
    assert obeyed(line(text)) == []
    assert text.replace("::", "").strip(" #[") in line(text).replace("::", "").replace("\\", "")


@pytest.mark.parametrize("text", ["EKS: 8 × A100, “ok” … ü 東京 └─ ✓", "C:\\a\\b", "a: b::c", ""])
def test_what_people_read_stays_as_it_is(text: str) -> None:
    assert line(text) == printable(text) == text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
def test_an_annotation_is_one_command_with_three_properties(text: str) -> None:
    shown = annotation("error", f"{text},line=1", 3, f"t{text}", f"{text}\nsecond")

    assert len(shown.splitlines()) == 1
    assert obeyed(shown) == ["error"]
    properties = shown[2:].partition("::")[0].partition(" ")[2].split(",")
    assert [each.partition("=")[0] for each in properties] == ["file", "line", "title"]
    assert is_plain(shown.replace("%0A", "\n"))


def test_a_message_of_sarif_has_no_links_of_strangers() -> None:
    assert re.search(r"(?<!\\)\]\(", sarif_text("[click](https://example.com) a[0] (see b)")) is None
    assert sarif_text("a[0] (see b)") == "a[0] (see b)"


@pytest.fixture
def hostile(tmp_path: Path) -> list[bytes]:
    """Make manifests whose file names and object names are hostile; return the names of the files."""
    names = []
    for index, text in enumerate([*HOSTILE.values(), "\udcff"]):
        name = b"%d-" % index + os.fsencode(text.replace("/", "_"))
        quoted = yaml.safe_dump(text if text != "\udcff" else "lone", default_style='"', width=1000).strip()
        (tmp_path / os.fsdecode(name)).write_text(POOL % quoted, encoding="utf-8")
        names.append(name)
    # A lone surrogate in the object's own name, which JSON can write.
    surrogate = tmp_path / "surrogate.json"
    data = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a\ud800b"}}
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
    data["spec"] = {"template": {"spec": {"requirements": [requirement]}}}
    surrogate.write_text(json.dumps(data), encoding="utf-8")
    return [*names, b"surrogate.json", b"::stop-commands::missing\n::stop-commands::y"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_every_format_holds_every_hostile_file_and_obeys_none(
    form: str, locale: str, hostile: list[bytes], tmp_path: Path
) -> None:
    done = run(tmp_path, "policy", "--format", form, "--", *hostile, LC_ALL=locale)
    out, err = done.stdout.decode(), done.stderr.decode()

    assert done.returncode == 1
    assert "Traceback" not in err
    assert set(obeyed(out + "\n" + err)) <= {"error", "warning", "notice"}
    if form == "github":
        assert len([each for each in obeyed(out) if each == "error"]) == len(hostile)
    else:
        assert obeyed(out + "\n" + err) == []
    assert is_plain(err)
    if form == "json":
        assert is_plain(out)
        assert len(json.loads(out)["files"]) == len(hostile)
    elif form == "sarif":
        results = json.loads(out)["runs"][0]
        assert len([each for each in results["results"] if each["level"] == "error"]) == len(hostile) - 1
        assert len(results["invocations"][0]["toolExecutionNotifications"]) == 1
        assert all(is_plain(each["message"]["text"]) for each in results["results"])
        assert out.encode().decode("utf-8") == out
    elif form == "junit":
        cases = list(Xml.fromstring(out).iter("testcase"))
        assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases) == len(hostile)
        assert all(is_plain(str(case.get("name")) + str(case.get("classname"))) for case in cases)
    elif form == "text":
        assert len([each for each in out.splitlines() if "[gpu-pool-tainted]" in each]) == len(hostile) - 1


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["check"], id="check"),
        pytest.param(["check", "--format", "github"], id="check for GitHub"),
        pytest.param(["preview"], id="preview"),
        pytest.param(["preview", "--json"], id="preview as JSON"),
        pytest.param(["diff", "Pulumi.a.yaml"], id="diff"),
        pytest.param(["policy", "--check-config"], id="a policy configuration"),
        pytest.param(["policy", "--format", "sarif", "--config"], id="no files"),
        pytest.param(["nothing"], id="an unknown command"),
        pytest.param(["catalog", "--cloud"], id="an unknown cloud"),
        pytest.param(["catalog", "x"], id="an unknown argument"),
    ],
)
@pytest.mark.parametrize("name", ["\n::stop-commands::x\n", "\x1b[31m\udcff", "a##[group]b"], ids=ascii)
def test_a_hostile_name_on_the_command_line_is_no_command(arguments: list[str], name: str, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.a.yaml").write_text("config: {}")
    done = run(tmp_path, *arguments, os.fsencode(name))
    printed = (done.stdout + b"\n" + done.stderr).decode()

    assert done.returncode in (1, 2)
    assert "Traceback" not in printed
    assert set(obeyed(printed)) <= ({"error"} if "github" in arguments else set())
    assert is_plain(printed)


MARKED_UP = {
    **HOSTILE,
    "a span that ends": "a`b",
    "backticks": "``",
    "a mention": "@octocat #1 GH-1",
    "a link": "[x](https://example.com) <https://example.com> www.example.com",
    "a picture": "![x](https://example.com/x.png)",
    "markup": "</code></li><script>alert('x')</script><img src=x onerror=\"y\">&amp;",
    "a table": "a | b",
    "a heading": "# a",
    "blanks around": " a ",
    "blanks": "  ",
    "nothing": "",
}


class Texts(HTMLParser):
    """Collects the elements of a page and the text in each."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.code: list[str] = []
        self.titles: list[str | None] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]
        if tag == "code":
            self.code.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "code":
            self.code[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self.lasttag = ""


@each_row("given", MARKED_UP.values(), ids=MARKED_UP)
def test_a_code_span_of_markdown_is_the_text_and_nothing_else(given: str) -> None:
    page = Texts(MarkdownIt("commonmark").render(f"- {markdown_code(given)}"))

    assert page.elements == ["ul", "li", "code"]
    assert page.code[0].strip() == line(given).strip()


@each_row("given", MARKED_UP.values(), ids=MARKED_UP)
def test_a_text_of_html_is_the_text_and_nothing_else(given: str) -> None:
    page = Texts(f'<p title="{html(given)}"><code>{html(given)}</code></p>')

    assert page.elements == ["p", "code"]
    assert page.titles == page.code == [printable(given)]


def test_a_comment_of_a_diff_has_strangers_words_in_code_spans_alone(tmp_path: Path) -> None:
    stack = """\
config:
  gpupools:clusters:
    lab: {cloud: gcp, name: lab, project: example, location: europe-west4-a,
      service_account: gpu@example.iam.gserviceaccount.com}
  gpupools:pools:
    one: {clusters: [lab], gpu: L4, nodes: {max: 3}, labels: {team: a}}
    two: {clusters: [lab], gpu: L4, nodes: {max: 3}}
"""
    (tmp_path / "old.yaml").write_text(stack)
    (tmp_path / "new.yaml").write_text(stack.replace("team: a", "team: b"))
    done = run(tmp_path, "diff", "--format", "markdown", "old.yaml", "new.yaml")
    page = Texts(MarkdownIt("commonmark").render(done.stdout.decode()))

    assert (done.returncode, done.stderr) == (0, b"")
    changed = ["ul", "li", "strong", "code", "ul", "li", "code"]
    assert page.elements == [
        "h3",
        *changed,
        "details",
        "summary",
        *changed[:2],
        *changed[3:],
        "details",
        "summary",
        "ul",
        "li",
        "code",
    ]
    assert page.code == [
        "lab/one: pods stay; in place",
        "pools.one.labels.team a → b",
        "lab/one: pods stay; in place",
        "labels.team a → b: GKE also sets them on running nodes",
        "lab/two",
    ]
