"""`gpupools new --project`: create a repository that depends on gpupools, like `pulumi new` with the template."""

import json
import os
import re
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gpupools.cli.files import write_new
from gpupools.cli.git import published, top_of
from gpupools.cli.stack_text import flow
from gpupools.common.errors import Problem, Rejected, shown
from gpupools.common.version import version
from gpupools.console.output import tell

_SHIPPED = Path(__file__).parents[1] / "data" / "project"
_CHECKOUT = Path(__file__).parents[2] / "templates" / "project"
PULUMI_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
"""Names of projects (https://www.pulumi.com/docs/iac/concepts/projects/project-file/) and stacks
(https://www.pulumi.com/docs/iac/concepts/stacks/) that do not start with a dot or a hyphen."""


def template() -> Path:
    """Return the template folder: that of the wheel, or of a checkout."""
    return _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT


def make_project(folder: Path) -> None:
    """Write a project, which is named after its folder, and print the next steps.

    Raises:
        Rejected: The folder is invalid, or a file already exists; nothing is overwritten.
    """
    name = folder.absolute().resolve().name
    if not re.fullmatch(PULUMI_NAME, name):
        fix = "use letters, digits, '-', '_' and '.' for the folder, and start with a letter or digit"
        raise Rejected([Problem((str(folder),), f"{shown(name)} is not a valid project name", fix)])
    if os.path.lexists(folder) and not folder.is_dir():
        raise Rejected([Problem((str(folder),), "is not a folder", "use another path")])
    files = {path.relative_to(template()): path for path in sorted(template().rglob("*")) if _is_source(path)}
    for part in {parent for file in files for parent in file.parents if parent.name}:
        if os.path.lexists(folder / part) and not (folder / part).is_dir():
            raise Rejected(
                [Problem((str(folder / part),), "is not a folder", "use another folder, or remove the file")]
            )
    there = [folder / file for file in files if os.path.lexists(folder / file)]
    if there:
        fix = "use an empty folder"
        raise Rejected(Problem((str(path),), "already exists, and nothing is overwritten", fix) for path in there)
    requirement = _requirement()
    for key, source in files.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        write_new(folder / key, _filled(key, source.read_text(encoding="utf-8"), name, requirement))
    tell(f"{folder}: wrote {len(files)} files")
    tell(f"{folder / 'requirements.txt'}: {requirement}")
    if " @ file:" in requirement:
        what = "names a path of this machine, because this gpupools was installed from it"
        tell(f"{folder / 'requirements.txt'}: {what}; replace it with an address that your team and CI can reach")
    top = top_of(folder.resolve())
    if top is not None and top != folder.resolve():
        within = folder.resolve().relative_to(top)
        tell(
            f"{folder / '.github'}: GitHub reads workflows only at the top of a repository; move it to"
            f" {top / '.github'}, and set defaults: {{run: {{working-directory: {within}}}}} for its job"
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
    """Return the requirement of this gpupools: the URL or path it was installed from; from an index, its version.

    A name and version would be of somebody else's package if the index does not have ours.
    https://packaging.python.org/en/latest/specifications/direct-url-data-structure/
    """
    try:
        origin = json.loads(distribution("gpupools").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    url = str(origin.get("url", ""))
    address = ""
    if "vcs_info" in origin:
        address = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    elif origin.get("dir_info", {}).get("editable"):
        address = published(Path(unquote(urlsplit(url).path))) or url
    else:
        sha256 = origin.get("archive_info", {}).get("hashes", {}).get("sha256")
        address = f"{url}#sha256={sha256}" if sha256 else url
    return f"gpupools[all] @ {address}" if address else f"gpupools[all]=={version()}"


def _filled(file: Path, text: str, name: str, requirement: str) -> str:
    """Return a file as `pulumi new` would write it, with the requirement of this gpupools."""
    if file == Path("requirements.txt"):
        text = re.sub(r"^gpupools\[all\]==.*$", lambda _: requirement, text, flags=re.MULTILINE)
    if file.name == "Pulumi.yaml":
        text, _, about = text.partition("template:\n")
        description = re.findall(r"^  description: (.*)$", about, re.MULTILINE)
        text = text.replace("${DESCRIPTION}", *description)
        name = flow(name)  # unquoted, 1.10 would be a number
    return text.replace("${PROJECT}", name)
