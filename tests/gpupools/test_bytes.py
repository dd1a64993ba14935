"""Files of odd bytes and environments of odd locales: every command answers, and none with a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpupools.cli.main import main
from tests.rows import each_row

pytestmark = pytest.mark.slow

STACK = """\
config:
  gpupools:clusters:
    lab: {cloud: gcp, name: lab, project: ml-prod, location: europe-west4,
      service_account: gpu@ml-prod.iam.gserviceaccount.com}
  gpupools:pools:
    a: {clusters: [lab], instance_type: g2-standard-8, nodes: {max: 8}}
"""
GOOD = STACK.encode()
POD = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}'
FILES = {
    "NUL": GOOD.replace(b"lab,", b"la\0b,"),
    "no UTF-8": GOOD.replace(b"max", b"m\xffx"),
    "UTF-16": STACK.encode("utf-16"),
    "UTF-16 without a mark": STACK.encode("utf-16-le"),
    "half of UTF-16": STACK.encode("utf-16")[:-1],
    "UTF-32": STACK.encode("utf-32"),
    "a mark and nothing": b"\xff\xfe",
    "a mark of UTF-8": b"\xef\xbb\xbf" + GOOD,
    "ESC": GOOD.replace(b"lab,", b"la\x1bb,"),
    "escapes": GOOD.replace(b"name: lab", b'name: "a\\uD800\\x1b\\0"'),
    "an escaped key": GOOD.replace(b"max", b'"m\\uDC00"'),
    "CR": GOOD.replace(b"\n", b"\r"),
    "NEL": GOOD.replace(b"\n", "\x85".encode()),
    "emoji": GOOD.replace(b"max", '"😀"'.encode()),
    "JSON in UTF-16": POD.encode("utf-16"),
    "half a character in JSON": POD.replace('"a"', '"a\\ud800", "\\udfff": 1').encode(),
    "NaN": POD.replace('"a"}', '"a"}, "x": NaN, "y": 1e999').encode(),
    "a configuration in UTF-16": "{}".encode("utf-16"),
    "half a character in a configuration": b'{"\\ud800": 1, "gpu-pool-bounded": {"\\ud800": 2}}',
    "nothing": b"",
}
COMMANDS = [
    ["check", "FILE"],
    ["check", "--json", "FILE"],
    ["check", "--format", "github", "FILE"],
    ["diff", "good.yaml", "FILE"],
    ["diff", "--json", "FILE", "good.yaml"],
    ["preview", "FILE"],
    ["report", "--no-policies", "--force", "-o", "plan.html", "FILE"],
    ["report", "--no-policies", "--markdown", "FILE"],
    ["images", "FILE"],
    ["images", "--json", "FILE"],
    *(["policy", "--format", form, "FILE"] for form in ("text", "json", "sarif", "junit", "github")),
    ["policy", "--check-config", "FILE"],
    ["policy", "--config", "FILE", "good.yaml"],
]
LOCALES = {
    "C": {"LC_ALL": "C"},
    "C, as Python 3.6 had it": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "Latin-1": {"PYTHONIOENCODING": "latin-1"},
}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@each_row("content", FILES.values(), ids=list(FILES))
def test_every_command_answers_on_every_file(
    command: list[str],
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_bytes(GOOD)
    (tmp_path / "FILE").write_bytes(content)

    assert main(command) in (0, 1)
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert (printed.out + printed.err).isprintable() or "\n" in printed.out + printed.err
    assert all(line.isprintable() for line in (printed.out + printed.err).split("\n"))


@pytest.mark.parametrize("variables", LOCALES.values(), ids=list(LOCALES))
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param([b"check", b"Pulumi.\xff \xc3\xbc.yaml"], id="check"),
        pytest.param([b"check", b"--json", b"Pulumi.\xff \xc3\xbc.yaml"], id="check as JSON"),
        pytest.param([b"diff", b"Pulumi.\xff \xc3\xbc.yaml", b"Pulumi.\xff \xc3\xbc.yaml"], id="diff"),
        pytest.param([b"preview", b"--json", b"Pulumi.\xfe\xff.yaml"], id="preview"),
        pytest.param([b"policy", b"--format", b"sarif", b"\xc3\xbc\xff.yaml"], id="policy"),
        pytest.param([b"mig", b"fit", b"--gpu", b"\xff", b"\xc3\xbc"], id="mig"),
    ],
)
def test_every_locale_gets_an_answer(variables: dict[str, str], arguments: list[bytes], tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"Pulumi.\xff \xc3\xbc.yaml")).write_text(STACK, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "gpupools.cli.main", *arguments],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
    )

    assert done.returncode in (0, 1, 2)
    assert b"Traceback" not in done.stderr
    assert done.stdout + done.stderr
