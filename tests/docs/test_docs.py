"""Every command and every output shown in the documentation is what the product prints.

A ```yaml block whose first line is `# <file name>` is a file; a ```console block is a session: each line that begins
with `$ ` is run, with the lines on which a `\\` at its end continues it, and what follows, up to the next command, is
its output. `...` alone on a line stands for any lines. A session that stands on several pages runs once. Parts between
`<!-- generated: … -->` and `<!-- end -->` are what `tooling/write_docs.py` writes.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpupools.plan.cloud import Cloud
from gpupools.plan.matrix import matrix
from gpupools.providers import clouds
from gpupools.stackfile.reader import read_stack_file
from tooling import write_docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
MAKES_OWN = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Session:
    page: Path
    command: str
    output: str
    files: tuple[tuple[str, str], ...]
    """Name and text of the files above it on its page that the command names."""

    def __str__(self) -> str:
        return f"{self.page.name}: {self.command[:60]}"


def sessions(page: Path) -> list[Session]:
    files: dict[str, str] = {}
    found = []
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        body = block["body"]
        if block["kind"] == "yaml" and (name := re.match(r"# (\S+\.yaml)\n", body)):
            files[name[1]] = body
        elif block["kind"] == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = part.replace("\\\n", "").partition("\n")
                named = tuple((name, text) for name, text in files.items() if name in command)
                found.append(Session(page, command, output, named))
    return found


SESSIONS = [session for page in PAGES for session in sessions(page)]


Printed = Callable[[Session], str]


@pytest.fixture(scope="session")
def printed(tmp_path_factory: pytest.TempPathFactory, forked: Path) -> Printed:
    """Run a session in a folder that looks like the checkout; equal sessions once."""
    path = f"{forked}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    known: dict[tuple[object, ...], str] = {}

    def run(session: Session) -> str:
        key = (session.command, session.files)
        if key not in known:
            folder = tmp_path_factory.mktemp("checkout")
            for entry in ROOT.iterdir():
                if entry.name not in {".git", "tests"}:
                    (folder / entry.name).symlink_to(entry)
            for name, text in session.files:
                (folder / name).write_text(text, encoding="utf-8")
            # `make test` runs these tests; a make below another would say so in every output.
            outside_make = {key: value for key, value in os.environ.items() if key not in MAKES_OWN}
            done = subprocess.run(
                session.command,
                shell=True,
                # make writes the environment when it is stale, so it may only see the real one.
                cwd=ROOT if session.command.startswith("make ") else folder,
                env={**outside_make, "PATH": path, "COLUMNS": "120"},
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
            known[key] = done.stdout
        return known[key]

    return run


def test_the_readme_shows_the_two_commands_first() -> None:
    shown = [session.command for session in sessions(ROOT / "README.md")]
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert shown[0] == "make preview"
    assert text.index("make preview") < text.index("make test") < text.index("## ")
    assert len(text.splitlines()) <= 70, "one screen"
    assert text.count("<picture>") + text.count("![") == 1, "one picture"


@pytest.mark.parametrize("session", [s for s in SESSIONS if s.command != "make test"], ids=str)
def test_a_command_prints_what_the_page_shows(session: Session, printed: Printed) -> None:
    output = printed(session)

    assert_shown(session.output, output)


def assert_shown(expected: str, printed: str) -> None:
    """Compare line by line without trailing blanks; a line `...` in the page stands for any lines."""
    wanted = [line.rstrip() for line in expected.rstrip().splitlines()]
    given = "\n".join(re.sub(r"; \d+\.\d s", "; 0.0 s", line.rstrip()) for line in printed.rstrip().splitlines())
    if "..." not in wanted:
        assert given == "\n".join(wanted)
        return
    pattern = "\n".join(r"(?:.*\n)*?.*" if line == "..." else re.escape(line) for line in wanted)
    assert re.fullmatch(pattern, given), f"the page shows\n{expected}\nthe command printed\n{given}"


def test_relative_links_lead_somewhere() -> None:
    broken = []
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            local = target.partition("#")[0]
            if local and "://" not in local and not (page.parent / local).exists():
                broken.append(f"{page.name}: {target}")

    assert broken == []


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    }

    assert [page.name for page in (ROOT / "docs").rglob("*.md") if page.resolve() not in linked] == []


def test_every_page_stands_in_the_navigation_of_the_site() -> None:
    """`make docs` says the same, which is not part of `make test`."""
    named = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]

    assert sorted(named) == sorted(str(page.relative_to(ROOT)) for page in pages)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (page, block["body"])
        for page in PAGES
        for block in BLOCK.finditer(page.read_text(encoding="utf-8"))
        if block["kind"] == "yaml" and "gpupools:clusters" in block["body"]
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_a_stack_file_on_a_page_is_yaml_without_a_key_given_twice(page: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.page.yaml"
    file.write_text(text, encoding="utf-8")

    assert set(read_stack_file(file).config) >= {"clusters", "pools"}


def test_generated_parts_are_what_the_code_says() -> None:
    stale = write_docs.stale(write_docs.written())

    assert [page.name for page in stale] == [], "run: python tooling/write_docs.py"


def test_every_generated_part_has_a_place() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)

    assert [name for name in write_docs.PARTS if f"<!-- generated: {name} -->" not in texts] == []


@pytest.mark.parametrize("cloud", clouds().values(), ids=lambda cloud: cloud.name)
def test_the_matrix_page_gives_every_row_of_a_cloud(cloud: Cloud) -> None:
    page = (ROOT / "docs" / "reference" / "matrix.md").read_text(encoding="utf-8")
    section = page.split(f"(`{cloud.name}`)\n")[1].split("\n## ")[0]
    columns = list(cloud.software)
    sentences = {line.partition(".")[0]: line for line in section.splitlines() if re.match(r"\d+\. ", line)}
    wrong = []
    for row in matrix(cloud):
        cells = re.search(rf"^\| `{re.escape(row.sharing)}` \|(.*)\|$", section, re.MULTILINE)
        assert cells is not None
        cell = cells[1].split(" | ")[columns.index(row.software)]
        about = [
            (verdict, sentences[number])
            for verdict, numbers in re.findall(r"([a-z-]+)((?: \[\d+\])+)", cell)
            for number in re.findall(r"\d+", numbers)
            if names(sentences[number], row.gpu_model)
        ]
        if [verdict for verdict, _ in about] != [row.verdict.value] or row.instead not in about[0][1]:
            wrong.append((row, about))

    assert wrong == []


def names(sentence: str, gpu: str) -> bool:
    """Say whether a numbered sentence is about a GPU: `1. T4, L4: …` or `1. Every GPU but T4, L4: …`."""
    who = sentence.partition(". ")[2].partition(":")[0]
    listed = who.removeprefix("Every GPU").removeprefix(" but ").split(", ")
    return (gpu in listed) is not who.startswith("Every GPU")


STALE = "# Keys\n\n<!-- generated: nodes -->\nold\n<!-- end -->\n\nafter\n"


def test_check_names_a_stale_page_and_leaves_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_docs, "DOCS", tmp_path)
    page = tmp_path / "keys.md"
    page.write_text(STALE, encoding="utf-8")

    assert write_docs.main(["--check"]) == 1
    assert "keys.md: stale" in capsys.readouterr().out
    assert page.read_text(encoding="utf-8") == STALE


def test_writing_replaces_the_part_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_docs, "DOCS", tmp_path)
    page = tmp_path / "keys.md"
    page.write_text(STALE, encoding="utf-8")

    assert write_docs.main([]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# Keys\n\n<!-- generated: nodes -->\n")
    assert text.endswith("<!-- end -->\n\nafter\n")
    assert "| `max` | integer (1 to 1000) | required |" in text
    assert "old" not in text
    assert write_docs.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        pytest.param("<!-- generated: nodez -->\n<!-- end -->\n", "'nodez'", id="a part that nothing writes"),
        pytest.param("<!-- generated: nodes -->\nold\n", "no line `<!-- end -->`", id="a part without an end"),
    ],
)
def test_a_bad_page_is_named(
    page: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_docs, "DOCS", tmp_path)
    (tmp_path / "bad.md").write_text(page, encoding="utf-8")

    assert write_docs.main(["--check"]) == 2
    said = capsys.readouterr().err
    assert "bad.md" in said
    assert complaint in said


def test_the_address_of_the_repository_stands_once() -> None:
    """Another address in pyproject.toml changes every page, example and template, and leaves none of the old."""
    moved = write_docs.stale(write_docs.written(), "https://git.example/team/gpupools")
    old = write_docs.ADDRESS.removeprefix("https://")

    assert {"install.md", "ci.md", "own-repository.md", "check.yml", "requirements.txt"} <= {
        each.name for each in moved
    }
    assert [page.name for page, text in moved.items() if old in text or "OWNER/gpupools" in text] == []
    files = [*(ROOT / "templates").rglob("*"), *(ROOT / "examples").rglob("*"), *PAGES, ROOT / "action.yml"]
    named = {each for each in files if each.is_file() and old in each.read_text(encoding="utf-8", errors="replace")}
    assert named <= moved.keys()


def test_the_profile_of_jupyterhub_is_the_exported_pod(printed: Printed) -> None:
    page = ROOT / "docs" / "how-to" / "notebooks.md"
    (session,) = sessions(page)
    pod = json.loads(printed(session))
    (block,) = (each["body"] for each in BLOCK.finditer(page.read_text("utf-8")) if "jupyterhub.yaml" in each["body"])
    ((profile,), (container,)) = yaml.safe_load(block)["singleuser"]["profileList"], pod["containers"]
    told = profile["kubespawner_override"]

    assert (told["node_selector"], told["tolerations"]) == (pod["nodeSelector"], pod["tolerations"])
    limits = {key: str(value) for key, value in container["resources"]["limits"].items()}
    assert told["extra_resource_limits"] == limits


def test_the_pages_stay_short() -> None:
    """Words of what people write, without the tables that `tooling/write_docs.py` writes."""
    pages = [*PAGES, ROOT / "SECURITY.md"]
    generated = re.compile(r"<!-- generated[^>]*-->.*?<!-- end -->", re.DOTALL)
    words = sum(len(generated.sub("", page.read_text("utf-8")).split()) for page in pages)

    assert words <= 24_000, "say each thing once"
