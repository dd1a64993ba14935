"""A release is made of a commit whose version, changelog and tag agree; what it is made of is built and looked into."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import requires
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from cyclonedx import schema as cyclonedx_schema
from jsonschema import Draft7Validator  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from referencing import Registry
from referencing.jsonschema import DRAFT7

from tooling import release

ROOT = Path(__file__).resolve().parents[2]
OLD = "## [1.2.2] - 2026-11-01\n\n- Old.\n"
DATED = f"# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-22\n\n- [It](docs/it.md) works.\n\n{OLD}"
COMING = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- New.\n\n" + OLD
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with one commit, and all that names its version."""
    for name, text in {
        "pyproject.toml": '[project]\nname = "gpupools"\nversion = "1.2.3"\n',
        "policies/PulumiPolicy.yaml": "version: 1.2.3\n",
        "templates/project/policies/PulumiPolicy.yaml": "version: 1.2.3\n",
        "templates/project/requirements.txt": "# One.\ngpupools[all]==1.2.3\n",
        "CHANGELOG.md": DATED,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")


def refused(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *given: str
) -> list[str]:
    monkeypatch.chdir(project)
    assert release.main(list(given)) == 1
    assert not (project / "dist").exists()
    return capsys.readouterr().err.splitlines()


def test_what_agrees_has_nothing_in_its_way(project: Path) -> None:
    git(project, "tag", "v1.2.3")
    found = [
        *release.dirty(project),
        *release.other_versions(project, "1.2.3"),
        *release.wrong_tags(project, "1.2.3", "v1.2.3"),
        *release.wrong_changelog(DATED, "1.2.3", tagged=True),
        *release.wrong_changelog(COMING, "1.2.3", tagged=False),
    ]

    assert found == []


def test_everything_that_disagrees_is_told_at_once(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "policies" / "PulumiPolicy.yaml").write_text("version: 1.2.2\n")
    (project / "CHANGELOG.md").write_text(COMING)
    commit(project)
    (project / "new.py").touch()

    assert refused(project, capsys, monkeypatch, "--tag", "v1.3.0") == [
        "release: the tree differs from its commit: new.py; commit or take it away",
        "release: policies/PulumiPolicy.yaml: version 1.2.2; pyproject.toml has 1.2.3",
        "release: tag v1.3.0: the version is 1.2.3; change the version, or use tag v1.2.3",
        "release: CHANGELOG.md: no section of 1.2.3; write '## [1.2.3] - <year>-<month>-<day>' below Unreleased",
    ]


def test_a_version_that_another_commit_has_is_not_released_again(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git(project, "tag", "v1.2.3")
    git(project, "commit", "-qm", "y", "--allow-empty")

    assert refused(project, capsys, monkeypatch) == [
        "release: tag v1.2.3 is on another commit; increase the version in pyproject.toml"
    ]


@pytest.mark.parametrize(
    ("text", "tagged", "said"),
    [
        (DATED.replace(" - 2026-11-22", ""), True, "section 1.2.3 has no day"),
        (DATED.replace("2026-11-22", "2026-13-22"), False, "section 1.2.3 has no day"),
        (DATED.replace("- [It](docs/it.md) works.\n", ""), True, "section 1.2.3 is empty"),
        (DATED.replace("[Unreleased]\n", "[Unreleased]\n\n- Later.\n"), True, "entries under Unreleased"),
        (COMING.replace("### Added\n\n- New.\n", ""), False, "nothing under Unreleased"),
        ("# Changelog\n", False, "nothing under Unreleased"),
    ],
)
def test_a_changelog_that_does_not_tell_the_version_is_refused(text: str, tagged: bool, said: str) -> None:
    (problem,) = release.wrong_changelog(text, "1.2.3", tagged=tagged)

    assert said in problem


def test_notes_are_the_section_with_links_that_lead_to_the_tag() -> None:
    assert release.notes(DATED, "1.2.3", "") == "- [It](docs/it.md) works.\n"
    assert release.notes(DATED, "1.2.3", "https://h/o/r/blob/v1.2.3") == (
        "- [It](https://h/o/r/blob/v1.2.3/docs/it.md) works.\n"
    )
    assert release.notes(COMING, "1.2.3", "") == "### Added\n\n- New.\n"


def test_this_checkout_names_one_version_and_has_something_to_release() -> None:
    version = release.version_of(ROOT)

    assert release.other_versions(ROOT, version) == []
    assert release.wrong_changelog((ROOT / "CHANGELOG.md").read_text("utf-8"), version, tagged=False) == []


@pytest.mark.parametrize("name", ["docs", "release"])
def test_what_builds_it_is_locked_with_hashes_as_the_tests_have_it(name: str) -> None:
    """The workflows install these parts alone, and the tests the whole."""
    whole, part = (
        {
            line.strip(" \\").partition(" ;")[0]
            for line in (ROOT / f"requirements-{each}.txt").read_text("utf-8").splitlines()
        }
        for each in ("dev", name)
    )

    assert {line for line in part if "==" in line or "--hash" in line} <= whole
    assert any("--hash=sha256:" in line for line in part)


# --- The SBOM ---

LOCK = """\
lark==1.3.1 \\
    --hash=sha256:0a
    # via python-hcl2
pathspec==1.1.1 ; python_version < '4' \\
    # via hatchling
hatchling==1.33.0 \\
    # via gpupools (pyproject.toml:build)
packaging==26.3 \\
    # via
    #   hatchling
    #   python-hcl2
python-hcl2==8.1.4 \\
    # via
    #   gpupools (pyproject.toml)
    #   lark[more]
"""
BOM: dict[str, Any] = {
    "metadata": {"component": {"name": "gpupools", "bom-ref": "own"}},
    "components": [
        {"name": name, "bom-ref": name[:3]} for name in ("lark", "pathspec", "hatchling", "packaging", "python-hcl2")
    ],
    "dependencies": [{"ref": "own"}],
}


def test_the_graph_is_what_the_lock_notes() -> None:
    found = release.with_graph(BOM, LOCK)

    assert {each["ref"]: each["dependsOn"] for each in found["dependencies"]} == {
        "own": ["hat", "pyt"],
        "lar": ["pyt"],
        "pat": [],
        "pac": [],
        "hat": ["pac", "pat"],
        "pyt": ["lar", "pac"],
    }
    assert {each["name"] for each in found["components"] if each.get("scope") == "excluded"} == {
        "pathspec",
        "hatchling",
    }


def test_a_lock_that_does_not_say_what_requires_a_package_is_refused() -> None:
    with pytest.raises(SystemExit, match="nothing says what requires lark; make lock notes it"):
        release.with_graph(BOM, LOCK.replace("    # via python-hcl2\n", "", 1))


def assert_graph(bom: dict[str, Any]) -> None:
    """Every component is in the graph, each is reached from the whole, and both of the standard's schemas take it."""
    graph = {each["ref"]: each["dependsOn"] for each in bom["dependencies"]}
    own, parts = bom["metadata"]["component"]["bom-ref"], {each["bom-ref"]: each for each in bom["components"]}
    reached, coming = set(), [own]
    while coming:
        if (ref := coming.pop()) not in reached:
            reached.add(ref)
            coming += graph[ref]
    assert len(bom["dependencies"]) == len(graph)
    assert graph.keys() == parts.keys() | {own} == reached
    by_name = {each["name"]: [parts[ref]["name"] for ref in graph[each["bom-ref"]]] for each in parts.values()}
    # As the packages themselves say, for what is installed here.
    for name, needs in by_name.items():
        wanted = {Requirement(each) for each in requires(name) or ()}
        always = {canonicalize_name(each.name) for each in wanted if each.marker is None}
        assert always <= {canonicalize_name(each) for each in needs}, name
    assert {each["name"] for each in parts.values() if each.get("scope") == "excluded"} >= {"hatchling", "pluggy"}
    assert "scope" not in next(each for each in parts.values() if each["name"] == "pulumi")

    folder = Path(cyclonedx_schema.__file__).parent / "_res"
    schemas = {name: json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text("utf-8")) for name in SCHEMAS}
    registry: Registry[Any] = Registry().with_resources(
        (f"http://cyclonedx.org/schema/{name}.SNAPSHOT.schema.json", DRAFT7.create_resource(each))
        for name, each in schemas.items()
    )
    standard = Draft7Validator(schemas["bom-1.6"], registry=registry)
    assert list(standard.iter_errors(bom)) == []
    wrong = {**bom, "dependencies": [{"ref": own, "dependOn": []}]}
    assert list(standard.iter_errors(wrong)) != []
    assert release.invalid(json.dumps(wrong)) != ""


SCHEMAS = ("bom-1.6", "spdx", "jsf-0.82")


# --- What is built ---


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with what this checkout has, tracked or not ignored, as its commit."""
    pytest.importorskip("cyclonedx_py")
    folder = tmp_path_factory.mktemp("release")
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "-q")
    commit(folder)
    return folder


def released(checkout: Path) -> dict[str, bytes]:
    done = subprocess.run(
        [sys.executable, "tooling/release.py"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Nothing was published" in done.stdout
    missing = release.wrong_changelog((ROOT / "CHANGELOG.md").read_text("utf-8"), release.version_of(ROOT), tagged=True)
    assert [line for line in done.stdout.splitlines() if line.startswith("First fix: ")] == [
        f"First fix: {each}" for each in missing
    ]
    assert git(checkout, "status", "--porcelain") == ""
    return {file.name: file.read_bytes() for file in (checkout / "dist").iterdir()}


@pytest.mark.slow
def test_a_dry_run_builds_all_of_a_release_and_the_same_bytes_twice(checkout: Path, tmp_path: Path) -> None:
    version = release.version_of(ROOT)
    wheel, sdist = f"gpupools-{version}-py3-none-any.whl", f"gpupools-{version}.tar.gz"
    built = released(checkout)
    sums = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=checkout / "dist", check=True)
    bom = json.loads(built["gpupools.cdx.json"])
    locked = [line.split()[0] for line in (ROOT / "requirements.txt").read_text("utf-8").splitlines() if "==" in line]

    assert sums.returncode == 0
    assert set(built) == {wheel, sdist, "gpupools.cdx.json", "release-notes.md", "SHA256SUMS"}
    assert (bom["bomFormat"], bom["metadata"]["component"]["version"]) == ("CycloneDX", version)
    assert sorted(f"{each['name']}=={each['version']}" for each in bom["components"]) == sorted(locked)
    assert_graph(bom)
    for each in bom["components"]:
        assert each["purl"] == f"pkg:pypi/{each['name']}@{quote(each['version'])}"
        assert all(ref["hashes"] for ref in each["externalReferences"])

    again = tmp_path / "sdist"
    with tarfile.open(checkout / "dist" / sdist) as archive:
        archive.extractall(again, filter="data")
    (inner,) = again.iterdir()
    assert not (inner / "dist").exists()
    epoch = git(checkout, "log", "-1", "--format=%ct").strip()
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=inner,
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
    )
    assert (tmp_path / wheel).read_bytes() == built[wheel]
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        assert archive.testzip() is None


@pytest.mark.slow
def test_a_tree_that_is_not_its_commit_is_not_released(checkout: Path) -> None:
    (checkout / "gpupools" / "more.py").touch()
    done = subprocess.run(
        [sys.executable, "tooling/release.py"], cwd=checkout, capture_output=True, text=True, check=False
    )
    (checkout / "gpupools" / "more.py").unlink()

    assert done.returncode == 1
    assert done.stderr == "release: the tree differs from its commit: gpupools/more.py; commit or take it away\n"


# --- The workflow ---


@pytest.mark.parametrize("tampered", [False, True])
def test_what_is_published_is_what_was_built(tampered: bool, tmp_path: Path) -> None:
    """The steps as the runner runs them, with a `gh` that says what it was asked."""
    dist = tmp_path / "dist"
    dist.mkdir()
    names = ["gpupools-1.2.3-py3-none-any.whl", "gpupools-1.2.3.tar.gz", "gpupools.cdx.json", "release-notes.md"]
    for name in names:
        (dist / name).write_text(name, encoding="utf-8")
    sums = subprocess.run(["sha256sum", *names], cwd=dist, capture_output=True, text=True, check=True).stdout
    (dist / "SHA256SUMS").write_text(sums, encoding="utf-8")
    if tampered:
        (dist / names[0]).write_text("another", encoding="utf-8")
    asked = tmp_path / "asked"
    (tmp_path / "gh").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {asked}\n', encoding="utf-8")
    (tmp_path / "gh").chmod(0o755)
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    tag = "v1.2.3$(touch pwned)"
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "TAG": tag}
    codes = []
    for job in ("publish", "index"):
        (run,) = (step["run"] for step in jobs[job]["steps"] if "run" in step)
        done = subprocess.run(
            ["bash", "-e", "-c", run], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        codes.append(done.returncode)

    assert not (tmp_path / "pwned").exists()
    if tampered:
        assert codes == [1, 1]
        assert not asked.exists()
        assert not list((tmp_path / "packages").glob("*"))
        return
    assert codes == [0, 0]
    shown = asked.read_text(encoding="utf-8").splitlines()
    assert shown[:6] == ["release", "create", tag, "--verify-tag", "--title", tag]
    assert shown[8:] == [f"dist/{name}" for name in names[:3]] + ["dist/SHA256SUMS"]
    assert sorted(each.name for each in (tmp_path / "packages").iterdir()) == names[:2]
