"""Build the release files in dist/: wheel, source distribution, SBOM, notes and checksums.

    python tooling/release.py                a dry run for this commit
    python tooling/release.py --tag v1.2.3   for this tag, which must match version and changelog

Nothing is published and no tag is created. The build is reproducible (SOURCE_DATE_EPOCH:
https://reproducible-builds.org/docs/source-date-epoch/).
"""

import argparse
import datetime
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

_NUMBER = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")
"""Three numbers (https://semver.org/), with what Python writes behind them before a release
(https://packaging.python.org/en/latest/specifications/version-specifiers/)."""
_SECTION = re.compile(
    r"^## \[(?P<name>[^\]]+)\](?: - (?P<day>\S+))?[ \t]*\n(?P<text>.*?)(?=^## \[|\Z)", re.MULTILINE | re.DOTALL
)
_SAID_ELSEWHERE = {
    "policies/PulumiPolicy.yaml": re.compile(r"^version: (\S+)$", re.MULTILINE),
    "templates/project/policies/PulumiPolicy.yaml": re.compile(r"^version: (\S+)$", re.MULTILINE),
    "templates/project/requirements.txt": re.compile(r"^gpupools\[all\]==(\S+)$", re.MULTILINE),
}
"""Files that name the version beside pyproject.toml."""
_RELATIVE = re.compile(r"\]\((?![a-z]+:|#)([^)\s]+)\)")


def main(arguments: list[str]) -> int:
    """Build, or say everything that is in the way; return the exit code."""
    parser = argparse.ArgumentParser(description="Build what a release is made of into dist/.")
    parser.add_argument("--tag", help="tag of the release, such as v1.2.3")
    root, given = Path.cwd(), parser.parse_args(arguments)
    version = version_of(root)
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    refused = [*dirty(root), *other_versions(root, version), *wrong_tags(root, version, given.tag)]
    refused += wrong_changelog(changelog, version, tagged=given.tag is not None)
    for each in refused:
        print(f"release: {each}", file=sys.stderr)
    if refused:
        return 1
    dist = root / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    build(root, dist)
    (dist / "release-notes.md").write_text(notes(changelog, version, _address(f"v{version}")), encoding="utf-8")
    _write_checksums(dist)
    for file in sorted(dist.iterdir()):
        print(f"dist/{file.name}  {file.stat().st_size:,} bytes")
    if given.tag is None:
        print(f"Nothing was published. To release it, push the tag v{version}.")
        for each in wrong_changelog(changelog, version, tagged=True):
            print(f"First fix: {each}")
    else:
        print(f"{given.tag}: built")
    return 0


def version_of(root: Path) -> str:
    """Return the version that pyproject.toml names."""
    return str(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def dirty(root: Path) -> list[str]:
    """Say what the commit does not have: a release is made of a commit, not of a folder."""
    lines = _git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
    shown = ", ".join(line[3:] for line in lines[:5]) + (f" and {len(lines) - 5} more" if len(lines) > 5 else "")
    return [f"the tree differs from its commit: {shown}; commit or take it away"] if lines else []


def other_versions(root: Path, version: str) -> list[str]:
    """Say which files name another version than pyproject.toml."""
    wrong = (
        []
        if _NUMBER.fullmatch(version)
        else [f"pyproject.toml: version {version} is not like 1.2.3; write three numbers"]
    )
    for name, pattern in _SAID_ELSEWHERE.items():
        said = pattern.findall((root / name).read_text("utf-8"))
        if said != [version]:
            wrong.append(f"{name}: version {', '.join(said) or 'not found'}; pyproject.toml has {version}")
    return wrong


def wrong_tags(root: Path, version: str, tag: str | None) -> list[str]:
    """Say which tag is not that of the version, or not of this commit."""
    expected = f"v{version}"
    here = set(_git(root, "tag", "--points-at", "HEAD", "--list", "v[0-9]*").split()) | ({tag} if tag else set())
    wrong = [
        f"tag {each}: the version is {version}; change the version, or use tag {expected}"
        for each in sorted(here - {expected})
    ]
    if expected not in here and _git(root, "tag", "--list", expected).strip():
        wrong.append(f"tag {expected} is on another commit; increase the version in pyproject.toml")
    return wrong


def wrong_changelog(text: str, version: str, *, tagged: bool) -> list[str]:
    """Say what the changelog lacks: a dated section of the version, with a tag; entries at all, without."""
    sections = {each["name"]: each for each in _SECTION.finditer(text)}
    own, coming = sections.get(version), sections.get("Unreleased")
    if own is None:
        if tagged:
            return [
                f"CHANGELOG.md: no section of {version}; write '## [{version}] - <year>-<month>-<day>' below Unreleased"
            ]
        return [] if coming and coming["text"].strip() else ["CHANGELOG.md: nothing under Unreleased; say what changes"]
    wrong = []
    try:
        datetime.date.fromisoformat(own["day"] or "")
    except ValueError:
        wrong.append(f"CHANGELOG.md: section {version} has no day; write '## [{version}] - <year>-<month>-<day>'")
    if not own["text"].strip():
        wrong.append(f"CHANGELOG.md: section {version} is empty; say what changes")
    if tagged and coming and coming["text"].strip():
        wrong.append(f"CHANGELOG.md: entries under Unreleased; they belong to {version}, or to a commit after it")
    return wrong


def notes(changelog: str, version: str, address: str) -> str:
    """Return the changelog's section of a version, or before it has one what is unreleased.

    Args:
        changelog: The text of CHANGELOG.md.
        version: Whose section.
        address: Where links lead that are relative to the changelog; empty leaves them.
    """
    sections = {each["name"]: each["text"] for each in _SECTION.finditer(changelog)}
    text = (sections.get(version) or sections["Unreleased"]).strip() + "\n"
    return _RELATIVE.sub(lambda link: f"]({address}/{link[1]})", text) if address else text


def _address(tag: str) -> str:
    """Return where this repository's files are read, as GitHub's runner says."""
    server, repository = (os.environ.get(name, "") for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"))
    return f"{server}/{repository}/blob/{tag}" if server and repository else ""


def build(root: Path, dist: Path) -> None:
    """Build the distributions, and the list of what they run on from the lock."""
    committed = _git(root, "log", "-1", "--format=%ct").strip()
    for command in (
        ["hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(dist)],
        [
            "cyclonedx_py",
            "requirements",
            "--pyproject",
            "pyproject.toml",
            "--output-reproducible",
            "-o",
            "dist/gpupools.cdx.json",
            "requirements.txt",
        ],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=root,
            env={**os.environ, "SOURCE_DATE_EPOCH": committed},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"release: {command[0]}: {done.stderr.strip() or done.stdout.strip()}")
    sbom = dist / "gpupools.cdx.json"
    whole = with_graph(json.loads(sbom.read_text("utf-8")), (root / "requirements.txt").read_text("utf-8"))
    sbom.write_text(json.dumps(whole, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if wrong := invalid(sbom.read_text("utf-8")):
        sys.exit(f"release: {sbom.name}: {wrong}")


_PACKAGE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==")
_VIA = re.compile(r"    #(?: via)? +([A-Za-z0-9._-]+)(?:\[\S*\])?(?: \(pyproject\.toml(?P<group>:build)?\))?")


def with_graph(bom: dict[str, Any], lock: str) -> dict[str, Any]:
    """Return an SBOM with who requires whom, as the lock notes below each package.

    What only builds a checkout is marked as not run (https://cyclonedx.org/docs/1.6/json/#components_items_scope).

    Args:
        bom: As cyclonedx_py writes it, which knows the packages and not what requires them.
        lock: The text of requirements.txt.
    """
    own = bom["metadata"]["component"]
    refs = {each["name"]: each["bom-ref"] for each in [own, *bom["components"]]}
    needs: dict[str, set[str]] = {name: set() for name in refs}
    runs: dict[str, set[str]] = {name: set() for name in refs}
    package, known = "", set()
    for line in lock.splitlines():
        if match := _PACKAGE.match(line):
            package = match[1]
        elif (match := _VIA.fullmatch(line)) and match[1] in needs:
            needs[match[1]].add(package)
            known.add(package)
            if match["group"] is None:
                runs[match[1]].add(package)
    if left := sorted(refs.keys() - known - {own["name"]}):
        sys.exit(f"release: requirements.txt: nothing says what requires {', '.join(left)}; make lock notes it")
    run, coming = set(), [own["name"]]
    while coming:
        if (name := coming.pop()) not in run:
            run.add(name)
            coming += runs[name]
    parts = [each if each["name"] in run else {**each, "scope": "excluded"} for each in bom["components"]]
    graph = [{"ref": refs[name], "dependsOn": sorted(refs[each] for each in needs[name])} for name in sorted(needs)]
    return {**bom, "components": parts, "dependencies": graph}


def invalid(sbom: str) -> str:
    """Say what the specification has against an SBOM; empty where it has nothing."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.from_version(json.loads(sbom)["specVersion"])).validate_str(sbom)
    return "" if wrong is None else str(wrong)


def _write_checksums(dist: Path) -> None:
    """Write SHA256SUMS, as `sha256sum --check` reads it."""
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
