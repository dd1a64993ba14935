"""One function opens what a pull request can name: a regular file, inside `--within`, never below `.git`."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupools.audit import comment_waivers
from gpupools.common.input_files import limit_to, read_bytes
from tests.source_roots import FOLDERS

ROOT = Path(__file__).resolve().parents[2]

OPENERS = {
    # The one for files that others can name.
    ("gpupools/common/input_files.py", "read_bytes"),
    # Files of the package itself.
    ("components/gpupools/components/package.py", "schema"),
    ("gpupools/audit/admission.py", "admission_objects"),
    ("gpupools/plan/input_types.py", "read_input_types"),
    ("gpupools/plan/node_software.py", "read_runtimes"),
    ("gpupools/audit/terraform_names.py", "terraform_names"),
    ("gpupools/cli/project.py", "_requirement"),
    ("gpupools/cli/schema.py", "stack_schema"),
    ("gpupools/common/csv_rows.py", "csv_rows"),
    ("gpupools/common/version.py", "version"),
    ("gpupools/report/page.py", "page"),
    ("gpupools/software/kueue.py", "configuration"),
    ("gpupools/software/monitoring.py", "_written"),
    ("gpupools/software/objects.py", "_templates"),
    ("gpupools/software/volcano.py", "scheduler_configuration"),
    ("gpupools/software/objects.py", "startup_gate"),
    # New files: an existing one is replaced as a whole or kept, and no link is followed.
    ("gpupools/cli/files.py", "write_whole"),
    ("gpupools/cli/files.py", "write_new"),
    ("gpupools/cli/project.py", "make_project"),
    # A cloud's price list, which the caller names; it may have gigabytes, and is read line by line.
    ("gpupools/cli/prices.py", "_read"),
    # Pipes and streams of this process, and the limits of its memory.
    ("gpupools/audit/limits.py", "_in_child"),
    ("gpupools/audit/limits.py", "_judge_in_child"),
    ("gpupools/audit/limits.py", "_limit"),
    ("gpupools/cli/main.py", "_discard_output"),
    ("gpupools/cli/main.py", "_make_writable"),
    # Programs of their own: one reads what `gpupools report` wrote, the other runs in the cluster.
    ("gpupools/report/post.py", "main"),
    ("gpupools/software/startup_gate.py", "main"),
    ("gpupools/software/startup_gate.py", "open"),
    ("gpupools/software/startup_gate.py", "watch"),
}
_OPENING = ("open", "read_text", "read_bytes", "fdopen", "FileType", "fileinput", "fromfile", "loadtxt")
_GUARDED = ("read_text", "read_bytes")
"""Called without a path before the dot, these are functions of ours that go through the one."""


def openers() -> Iterator[tuple[str, str]]:
    """Yield file and function of each call that opens a file, in all that the product is made of."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
            for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                if name in _OPENING and not (name in _GUARDED and isinstance(call.func, ast.Name)):
                    around = [each.name for each in functions if each.lineno <= call.lineno <= (each.end_lineno or 0)]
                    yield str(file.relative_to(ROOT)), around[-1] if around else ""


def test_nothing_else_opens_a_file() -> None:
    assert set(openers()) == OPENERS


def refused(path: Path) -> str:
    with pytest.raises(OSError, match="it ") as caught:
        read_bytes(path, 10)
    return str(caught.value.strerror)


def test_what_is_not_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 11)
    (tmp_path / "right").write_bytes(b"x" * 10)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("token")
    (tmp_path / "link").symlink_to(".git/config")
    os.mkfifo(tmp_path / "fifo")

    assert read_bytes(tmp_path / "right", 10) == b"x" * 10
    assert refused(tmp_path / "large") == "it has more than 10 bytes"
    assert refused(tmp_path) == "it is a folder"
    assert refused(tmp_path / ".git" / "config") == refused(tmp_path / "link") == "it is below .git"
    assert refused(tmp_path / "fifo") == refused(Path("/dev/zero")) == "it is not a regular file"


def test_a_file_that_names_programs_is_no_pipe() -> None:
    reads, writes = os.pipe()
    os.close(writes)
    path = Path(f"/dev/fd/{reads}")
    with pytest.raises(OSError, match="not a regular file"):
        read_bytes(path, 10, only_files=True)
    with pytest.raises(FileNotFoundError):
        read_bytes(Path("-"), 10, only_files=True)
    assert read_bytes(path, 10) == b""
    os.close(reads)


def test_no_link_leads_out_of_a_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (tmp_path / "other").write_text("x")
    (checkout / "link").symlink_to(tmp_path / "other")

    assert read_bytes(checkout / "link", 10) == b"x"
    limit_to(checkout)
    try:
        assert refused(checkout / "link").startswith("it is a link that leads out of ")
        assert comment_waivers._file_text(checkout / "link") == ""
        assert read_bytes(tmp_path / "other", 10) == b"x"  # the caller names it outside
    finally:
        limit_to(None)


def test_what_a_shell_pipes_into_a_command_is_read() -> None:
    program = f"{sys.executable} -m gpupools.cli.main policy <(echo '{{}}')"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)

    assert "contains nothing to judge" not in done.stderr
    assert "/dev/fd/" in done.stderr
    assert "regular file" not in done.stderr
