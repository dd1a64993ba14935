"""What a reader at a terminal gets: width, colour, marks below values, progress; a pipe gets plain lines."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from gpupools.cli.completion import SHELLS
from gpupools.cli.main import ALIASES, COMMANDS, GROUPS, main, parser
from gpupools.console.tables import table_text
from tests.one_pool import GKE

ROOT = Path(__file__).resolve().parents[2]
GPUPOOLS = "gpupools"
INSTALLED = Path(sys.executable).with_name(GPUPOOLS)
CODES = re.compile(r"\x1b\[[0-9;]*[mK]")
STACK = GKE.replace("gpu: L4", "gpu: L5")


def at_terminal(
    words: Sequence[str], columns: int = 80, environment: Mapping[str, str] = MappingProxyType({})
) -> tuple[int, str]:
    """Run a command whose input and output are a terminal of some columns; return its code and what was written."""
    leader, follower = pty.openpty()
    subprocess.run(["stty", "rows", "24", "cols", str(columns)], stdin=follower, check=True)
    known = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "TERM")}
    done = subprocess.Popen(
        words, stdin=follower, stdout=follower, stderr=follower, env={**known, "TERM": "xterm", **environment}
    )
    os.close(follower)
    said = b""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([leader], [], [], 1)
        if ready:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            said += part
    os.close(leader)
    return done.wait(timeout=60), said.decode().replace("\r\n", "\n")


def piped(
    words: Sequence[str], stdin: bytes = b"", environment: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, input=stdin, capture_output=True, env={**os.environ, **environment}, check=False)


@pytest.fixture(autouse=True)
def on_path(forked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{forked}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(STACK, encoding="utf-8")
    return file


# --- width ---

TABLES: Mapping[str, list[str]] = {
    "catalog": ["catalog", "--cloud", "aws", "--gpu", "H100"],
    "matrix": ["matrix", "--cloud", "gcp", "--gpu", "L4"],
    "mig": ["mig", "profiles", "--gpu", "H100-80GB"],
    "images": ["images", str(ROOT / "stacks" / "Pulumi.dev.yaml")],
}


@pytest.mark.parametrize("columns", [40, 80, 132])
@pytest.mark.parametrize("words", TABLES.values(), ids=TABLES.keys())
def test_a_table_fits_the_terminal(words: list[str], columns: int) -> None:
    code, said = at_terminal([GPUPOOLS, *words], columns)
    lines = CODES.sub("", said).splitlines()

    assert code == 0
    assert [line for line in lines if len(line) > columns and not _is_prose(line)] == []


def _is_prose(line: str) -> bool:
    """Say whether a line is a sentence, which the terminal wraps, and no row."""
    return line.startswith(("compute and memory are in slices", "nothing is installed"))


def test_nothing_is_lost_from_a_table_that_is_made_narrower() -> None:
    words = [GPUPOOLS, "matrix", "--cloud", "gcp", "--gpu", "L4"]
    wide = set(re.findall(r"[a-zA-Z0-9]{3,}", piped(words).stdout.decode()))
    _, narrow = at_terminal(words, 40)
    joined = re.sub(r"\s+", "", CODES.sub("", narrow))

    assert len(wide) > 50
    assert [word for word in wide if word not in joined] == []


@pytest.mark.parametrize("asked", ["abc", "0", "-5", "", "１２", "99999999999999999999", "1e3", "80.5"])
def test_columns_that_mean_nothing_are_passed_over(asked: str) -> None:
    words = [GPUPOOLS, "catalog", "--cloud", "aws", "--gpu", "H100"]
    code, said = at_terminal(words, 60, environment={"COLUMNS": asked})
    helped = piped([GPUPOOLS, "check", "--help"], environment={"COLUMNS": asked})

    assert code == 0
    assert max(map(len, CODES.sub("", said).splitlines())) <= 60
    assert (helped.returncode, helped.stderr) == (0, b"")


def test_columns_may_ask_for_another_width() -> None:
    words = [GPUPOOLS, "catalog", "--cloud", "aws", "--gpu", "H100"]

    assert max(map(len, CODES.sub("", at_terminal(words, 200, environment={"COLUMNS": "50"})[1]).splitlines())) <= 50


def test_a_pipe_has_the_whole_width_whatever_columns_says() -> None:
    words = [GPUPOOLS, "matrix", "--cloud", "gcp"]

    assert piped(words, environment={"COLUMNS": "40"}).stdout == piped(words).stdout
    assert max(map(len, piped(words, environment={"COLUMNS": "40"}).stdout.decode().splitlines())) > 150


def test_columns_are_wrapped_only_as_far_as_needed() -> None:
    rows = [("a", "one two three four"), ("b", "five")]

    assert table_text(rows, ("k", "words"), fit=80) == table_text(rows, ("k", "words"))
    assert table_text(rows, ("k", "words"), fit=14).splitlines() == [
        "k    words",
        "---  -------",
        "a    one two",
        "     three",
        "     four",
        "b    five",
    ]
    assert table_text(rows, ("k", "words"), fit=9).splitlines()[:2] == ["k      a", "words  one two"]


@pytest.mark.parametrize("words", [["MIG"], ["sharing"], ["gpu-pool-tainted"], ["vm_size"]], ids=" ".join)
def test_what_a_word_means_fits_a_narrow_terminal(words: list[str]) -> None:
    lines = CODES.sub("", at_terminal([GPUPOOLS, "explain", *words], 40)[1]).splitlines()

    assert len(lines) > 3
    assert [line for line in lines if len(line) > 40 and not re.search(r"://|docs/", line)] == []


# --- colour ---


def test_a_terminal_gets_colour_and_a_mark_below_the_value(stack: Path) -> None:
    code, said = at_terminal([GPUPOOLS, "check", str(stack)], 120)
    place, source, mark = CODES.sub("", said).splitlines()

    assert code == 1
    assert "\x1b[31m" in said
    assert place.startswith(f"{stack}:10:39: pools.notebooks.gpu: 'L5' is not an NVIDIA GPU model")
    assert source == "10 |     notebooks: {clusters: [lab], gpu: L5, nodes: {max: 4}}"
    assert mark.index("^") == source.index("L5")
    assert mark.strip() == "| " + " " * 38 + "^^"


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("gpu: L5", "vm_size: NV36", "vm_size"),
        ("max: 4", "maxx: 4", "maxx"),
        ("gpu: L5", "gpu: L4, gpu: T4", "gpu"),
        ("  gpupools:pools:", "  gpupools:poolz: {}\n  gpupools:pools:", "gpupools:poolz"),
    ],
    ids=["of another tool", "misspelt", "given twice", "beside the pools"],
)
def test_a_wrong_key_is_marked_itself(stack: Path, old: str, new: str, key: str) -> None:
    stack.write_text(STACK.replace(old, new), encoding="utf-8")
    lines = CODES.sub("", at_terminal([GPUPOOLS, "check", str(stack)], 140)[1]).splitlines()
    at = next(index for index, each in enumerate(lines) if "unknown key" in each or "is set twice" in each)
    column = int(lines[at].split(":")[2])
    below = lines[at + 2]

    assert lines[at + 1][below.index("^") :].startswith(f"{key}:")
    assert below.count("^") == len(key)
    assert stack.read_text("utf-8").splitlines()[int(lines[at].split(":")[1]) - 1][column - 1 :].startswith(f"{key}:")


def test_a_report_marks_what_it_refuses_and_colours_what_it_says(stack: Path, tmp_path: Path) -> None:
    words = [GPUPOOLS, "report", str(stack), "--no-policies", "-o", str(tmp_path / "plan.html"), "--force"]
    refused = at_terminal(words, 120)[1]
    stack.write_text(STACK.replace("L5", "L4"), encoding="utf-8")
    accepted = at_terminal(words, 120)[1]

    assert "\x1b[31m^^" in refused
    assert "\x1b[31mrefused, 1 problem\x1b[0m" in refused
    assert "\x1b[32m1 pool on 1 cluster\x1b[0m" in accepted
    assert "\x1b" not in at_terminal(words, environment={"NO_COLOR": "1"})[1]
    assert "\x1b" not in piped(words).stdout.decode()


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "a dumb terminal"])
def test_a_terminal_that_wants_none_gets_no_code(stack: Path, environment: dict[str, str]) -> None:
    for words in (["check", str(stack)], ["matrix", "--gpu", "L4"], ["check", str(ROOT / "stacks/Pulumi.dev.yaml")]):
        assert "\x1b" not in at_terminal([GPUPOOLS, *words], environment=environment)[1]


def test_an_empty_no_color_is_none(stack: Path) -> None:
    assert "\x1b[31m" in at_terminal([GPUPOOLS, "check", str(stack)], environment={"NO_COLOR": ""})[1]


def test_a_pipe_gets_the_line_alone(stack: Path) -> None:
    done = piped([GPUPOOLS, "check", str(stack)])

    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"{stack}:10: pools.notebooks.gpu: 'L5'")


def test_a_line_longer_than_the_terminal_shows_the_value(stack: Path) -> None:
    stack.write_text(STACK.replace("{clusters", "{labels: {team: vision, owner: somebody}, clusters"), encoding="utf-8")
    _, said = at_terminal([GPUPOOLS, "check", str(stack)], 40)
    *_, source, mark = CODES.sub("", said).splitlines()

    assert max(len(source), len(mark)) <= 40
    assert source[mark.index("^") :].startswith("L5")


SECRETS = {
    "a key that says so": "    notebooks: {clusters: [lab], gpu: L5, tags: {password: hunter2}, nodes: {max: 4}}",
    "a long word": f"    notebooks: {{clusters: [lab], gpu: L5, tags: {{a: {'h' * 61}}}, nodes: {{max: 4}}}}",
}


@pytest.mark.parametrize("line", SECRETS.values(), ids=SECRETS.keys())
def test_a_line_that_may_hold_a_secret_is_not_shown(line: str, stack: Path) -> None:
    stack.write_text(STACK.rpartition("    notebooks")[0] + line + "\n", encoding="utf-8")
    _, said = at_terminal([GPUPOOLS, "check", str(stack)])

    assert "'L5' is not an NVIDIA GPU model" in said
    assert "hunter2" not in said
    assert "hhhh" not in said


def test_what_a_file_says_moves_no_cursor(stack: Path) -> None:
    stack.write_text(STACK.replace("L5", '"L\\e[2J5"').replace("notebooks", "notebooks"), encoding="utf-8")
    _, said = at_terminal([GPUPOOLS, "check", str(stack)])

    assert "\x1b" not in CODES.sub("", said)
    assert "[2J" in said


# --- standard input ---


def test_a_file_may_be_piped_in(stack: Path) -> None:
    done = piped([GPUPOOLS, "check", "-"], STACK.replace("L5", "L4").encode())

    assert (done.returncode, done.stdout, done.stderr) == (0, b"-: ok, 1 pool\n", b"")
    assert b"-:10: pools.notebooks.gpu: 'L5'" in piped([GPUPOOLS, "check", "-"], STACK.encode()).stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", b"-: the file is empty"),
        (b"\x7fELF\x02\x01\x00\xff\xfe", b"-: is not UTF-8 text (byte 7)"),
        (b"a\x00b", b"is not YAML"),
        (b"x" * (1024 * 1024 + 1), b"-: cannot be read: it has more than 1048576 bytes"),
    ],
    ids=["nothing", "a program", "a null byte", "too much"],
)
def test_what_is_no_file_on_standard_input_is_one_line(given: bytes, said: bytes) -> None:
    done = piped([GPUPOOLS, "check", "-"], given)

    assert (done.returncode, done.stdout) == (1, b"")
    assert said in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_closed_standard_input_is_said() -> None:
    done = subprocess.run(f"{INSTALLED} check - <&-", shell=True, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (1, b"")
    assert (
        done.stderr == b"-: cannot be read: standard input is closed; use a stack file, e.g. stacks/Pulumi.dev.yaml\n"
    )


# --- words ---


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek"], "'chek' is not a command; did you mean 'check'"),
        (["mig", "packs"], "'packs' is not a command; did you mean 'pack'?"),
        (["check", "--format", "jsn", "x"], "argument --format: 'jsn' is not an allowed value; did you mean 'json'?"),
    ],
)
def test_the_nearest_word_is_offered(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)

    assert caught.value.code == 2
    assert said in capsys.readouterr().err


# --- help ---


def helped(*words: str) -> str:
    return piped([GPUPOOLS, *words, "--help"], environment={"COLUMNS": "100"}).stdout.decode()


HELP = [*((name,) for name in COMMANDS), ("mig", "profiles"), ("mig", "fit"), ("mig", "pack")]


# `prices` reads what somebody downloaded: tests/gpupools/test_prices_of_clouds.py.
@pytest.mark.parametrize("words", [each for each in HELP if each != ("prices",)], ids=" ".join)
def test_the_examples_of_help_run(words: tuple[str, ...], tmp_path: Path) -> None:
    if words == ("completion",):
        pytest.importorskip("shtab")
    _, _, listed = helped(*words).partition("example")
    calls = re.findall(r"^  (gpupools .*)$", listed, re.MULTILINE)
    assert calls
    for entry in ("stacks", "policies", "examples", "Pulumi.yaml"):
        (tmp_path / entry).symlink_to(ROOT / entry)

    for call in calls:
        done = subprocess.run(
            call,
            stdin=subprocess.DEVNULL,
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        # Between two environments, pools go that `pulumi up` would not delete.
        assert (done.returncode, done.stderr) == (3 if words == ("diff",) else 0, b""), call


# --- completion ---


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_a_shell_names_every_command(shell: str) -> None:
    pytest.importorskip("shtab")
    done = piped([GPUPOOLS, "completion", shell])

    assert done.returncode == 0
    assert [name for name in COMMANDS if name not in done.stdout.decode()] == []


def test_bash_completes_commands_and_words(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    script = tmp_path / "gpupools.bash"
    script.write_bytes(piped([GPUPOOLS, "completion", "bash"]).stdout)

    def offered(*words: str) -> list[str]:
        asked = " ".join(words)
        program = (
            f"source {script}; COMP_WORDS=({asked}); COMP_CWORD={len(words) - 1}; COMP_LINE='{asked}';"
            "$(complete -p gpupools | sed 's/.*-F \\([^ ]*\\).*/\\1/'); printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert offered("gpupools", "che") == ["check"]
    assert offered("gpupools", "orphans", "--wi") == ["--within"]
    assert offered("gpupools", "leftovers", "--wi") == ["--within"]
    assert offered("gpupools", "check", "--fo") == ["--format"]
    assert offered("gpupools", "check", "--format", "j") == ["json"]
    assert offered("gpupools", "check", "pyproj") == ["pyproject.toml"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not on PATH")
def test_fish_completes_commands_words_and_files(tmp_path: Path) -> None:
    script = tmp_path / "gpupools.fish"
    script.write_bytes(piped([GPUPOOLS, "completion", "fish"]).stdout)
    (tmp_path / "Pulumi.dev.yaml").touch()
    lines = (
        "gpupools che",
        "gpupools check --format j",
        "gpupools mig pro",
        "gpupools check Pul",
        "gpupools catalog Pul",
    )
    program = f"source {script}; " + "; echo ==; ".join(f"complete -C '{line}'" for line in lines)
    done = subprocess.run(["fish", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    offered = [[line.split("\t")[0] for line in part.split("\n") if line] for part in done.stdout.split("==\n")]

    assert offered == [["check"], ["json"], ["profiles"], ["Pulumi.dev.yaml"], []]


def test_zsh_is_told_which_arguments_are_files() -> None:
    pytest.importorskip("shtab")
    done = piped([GPUPOOLS, "completion", "zsh"]).stdout.decode()

    assert re.search(r"\(\*\):.*:_files", done)


def test_the_whole_parser_has_the_arguments_of_every_command() -> None:
    text = parser(COMMANDS).format_help()

    assert [name for name in COMMANDS if name not in text] == []
    assert [group for group in GROUPS if f"\n{group}:\n" not in text] == []
    assert [alias for alias in ALIASES if alias in text] == []


# --- progress ---

SLOW = """
import sys, time
from gpupools.console.progress import progress
with progress("judging a") as doing:
    time.sleep(float(sys.argv[1]))
    doing("judging b\\x1b[2J, 2 of 2")
    time.sleep(float(sys.argv[1]))
print("done")
"""


@pytest.mark.slow
def test_what_takes_longer_than_a_second_is_told_and_taken_back() -> None:
    _, said = at_terminal([sys.executable, "-c", SLOW, "1.2"], 40)

    assert "judging a … 1 s" in said
    assert "judging b" in said
    assert "\x1b[2J" not in said
    assert said.endswith("\r\x1b[Kdone\n")


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "environment"), [("0.1", {}), ("0.8", {"TERM": "dumb"})], ids=["soon", "dumb"])
def test_what_is_soon_done_is_not_told(seconds: str, environment: dict[str, str]) -> None:
    assert at_terminal([sys.executable, "-c", SLOW, seconds], environment=environment)[1] == "done\n"


@pytest.mark.slow
def test_a_pipe_is_told_nothing_of_progress() -> None:
    done = piped([sys.executable, "-c", SLOW, "0.8"])

    assert (done.stdout, done.stderr) == (b"done\n", b"")
