"""`gpupools new --project`: a repository of a team's own that depends on gpupools, as `pulumi new` makes it too."""

import json
import os
import re
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpupools.cli.git import published, top_of
from gpupools.cli.stack_text import flow
from gpupools.common.errors import Problem, Rejected, shown
from gpupools.common.version import version
from gpupools.console.output import tell

_SHIPPED = Path(__file__).parents[1] / "data" / "project"
_CHECKOUT = Path(__file__).parents[2] / "templates" / "project"
PULUMI_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
"""A project's name, https://www.pulumi.com/docs/iac/concepts/projects/project-file/, and a stack's,
https://www.pulumi.com/docs/iac/concepts/stacks/, but for those that begin with a dot or a hyphen."""


def template() -> Path:
    """Return the folder that is copied: the wheel's, or that of a checkout."""
    return _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT


def make_project(folder: Path) -> None:
    """Write a project, which is named after its folder, and say what comes next.

    Raises:
        Rejected: The folder cannot be one, or holds files of these names; nothing is overwritten.
    """
    name = folder.absolute().resolve().name
    if not re.fullmatch(PULUMI_NAME, name):
        fix = "name the folder with letters, digits, '-', '_' and '.', a letter or digit first"
        raise Rejected([Problem((str(folder),), f"{shown(name)} is no name of a project", fix)])
    if os.path.lexists(folder) and not folder.is_dir():
        raise Rejected([Problem((str(folder),), "is no folder", "name another")])
    files = {each.relative_to(template()): each for each in sorted(template().rglob("*")) if _is_source(each)}
    for part in {parent for each in files for parent in each.parents if parent.name}:
        if os.path.lexists(folder / part) and not (folder / part).is_dir():
            raise Rejected([Problem((str(folder / part),), "is no folder", "name another folder, or take it away")])
    there = [folder / each for each in files if os.path.lexists(folder / each)]
    if there:
        fix = "name an empty folder"
        raise Rejected(Problem((str(each),), "is there already, and nothing is overwritten", fix) for each in there)
    requirement = _requirement()
    for each, source in files.items():
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        with (folder / each).open("x", encoding="utf-8") as out:
            out.write(_filled(each, source.read_text(encoding="utf-8"), name, requirement))
    tell(f"{folder}: written, {len(files)} files")
    tell(f"{folder / 'requirements.txt'}: {requirement}")
    top = top_of(folder.resolve())
    if top is not None and top != folder.resolve():
        within = folder.resolve().relative_to(top)
        tell(
            f"{folder / '.github'}: GitHub reads workflows at the top of a repository alone; move it to"
            f" {top / '.github'}, and give its job defaults: {{run: {{working-directory: {within}}}}}"
        )
    steps = [
        "python3 -m venv .venv",
        ".venv/bin/pip install --no-compile -r requirements.txt",
        ".venv/bin/gpupools new dev",
    ]
    if folder.resolve() != Path.cwd().resolve():
        steps.insert(0, f"cd {shlex.quote(str(folder))}")
    tell(f"Next: {' && '.join(steps)}")


def _is_source(file: Path) -> bool:
    return file.is_file() and "__pycache__" not in file.parts


def _requirement() -> str:
    """Return what installs this gpupools elsewhere: the address it came from, else its version.

    https://packaging.python.org/en/latest/specifications/direct-url-data-structure/
    """
    try:
        told = json.loads(distribution("gpupools").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        told = {}
    url = str(told.get("url", ""))
    address = ""
    if "vcs_info" in told:
        address = f"{told['vcs_info']['vcs']}+{url}@{told['vcs_info']['commit_id']}"
    elif told.get("dir_info", {}).get("editable"):
        address = published(Path(unquote(urlsplit(url).path)))
    elif "archive_info" in told and not url.startswith("file:"):
        sha256 = told["archive_info"].get("hashes", {}).get("sha256")
        address = f"{url}#sha256={sha256}" if sha256 else url
    return f"gpupools[all] @ {address}" if address else f"gpupools[all]=={version()}"


def _filled(file: Path, text: str, name: str, requirement: str) -> str:
    """Return a file as `pulumi new` would write it, but for the version where this one came from elsewhere."""
    if file == Path("requirements.txt"):
        text = re.sub(r"^gpupools\[all\]==.*$", lambda _: requirement, text, flags=re.MULTILINE)
    if file.name == "Pulumi.yaml":
        text, _, about = text.partition("template:\n")
        description = re.findall(r"^  description: (.*)$", about, re.MULTILINE)
        text = text.replace("${DESCRIPTION}", *description)
        name = flow(name)  # unquoted, 1.10 is a number and no name of a project
    return text.replace("${PROJECT}", name)
