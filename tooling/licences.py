"""List all locked packages with their licences, and reject licences that are not allowed.

    python tooling/licences.py           writes docs/reference/licences.md
    python tooling/licences.py --check   fails if the page is stale or a licence is not allowed

Licences come from the metadata of the installed packages
(https://packaging.python.org/en/latest/specifications/core-metadata/).
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "licences.md"

_SPELLED = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "3-clause bsd license": "BSD-3-Clause",
    "bsd license": "BSD",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
"""Other names in metadata for SPDX licences; some packages say `BSD` without a number of clauses."""

# CNRI-Python is that of Python 1.6, which Python's own carries on; of the package regex.
PERMISSIVE = frozenset(
    {"0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CNRI-Python", "ISC", "MIT", "MIT-0", "PSF-2.0"}
)
BY_FILE = frozenset({"MPL-2.0"})
"""Copyleft only for its own files, which are installed as published: https://www.mozilla.org/en-US/MPL/2.0/FAQ/."""
ALLOWED = PERMISSIVE | BY_FILE

_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==", re.MULTILINE)
_INTRODUCTION = """\
# Licences

The packages that `requirements*.txt` install, with the licence in their own metadata. `tooling/licences.py` writes this
page.

Allowed licences: {permissive} and {by_file}.
`make lint` rejects any other licence, in tools for development too. No package has a GPL, LGPL or AGPL licence. MPL-2.0
covers only changes to its own files, and the packages are installed as published.

- **Run**: needed by the Pulumi program and the policy pack.
- **Check**: needed by the pre-commit hooks and the GitHub Action.
- **Develop**: needed by tests and tools.
"""

Installed = Mapping[str, metadata.Distribution]


def installed(path: Iterable[str] | None = None) -> Installed:
    """Return what is installed, by canonical name.

    Args:
        path: Folders to look in, instead of those Python looks in.
    """
    found = metadata.distributions() if path is None else metadata.distributions(path=list(path))
    return {canonicalize_name(distribution.metadata["Name"]): distribution for distribution in found}


def licence(package: metadata.Distribution) -> str:
    """Return a package's licence as an SPDX expression if possible, else as its metadata says."""
    said = cast("Message", package.metadata)
    if expression := said.get("License-Expression"):
        return str(expression)
    named = str(said.get("License") or "").strip()
    if _spdx(named) in ALLOWED:
        return _spdx(named)
    classified = [each.rpartition(" :: ")[2] for each in said.get_all("Classifier") or () if each.startswith("License")]
    if classified:
        return " AND ".join(sorted({_spdx(each) for each in classified}))
    return (named.splitlines() or ["not named"])[0]


def _spdx(name: str) -> str:
    return _SPELLED.get(name.casefold(), name)


def is_allowed(expression: str) -> bool:
    """Return whether a licence is allowed."""
    return any(all(one.strip(" ()") in ALLOWED for one in part.split(" AND ")) for part in expression.split(" OR "))


def needed(wanted: Iterable[str], packages: Installed) -> set[str]:
    """Return the names of requirements and their dependencies on this system."""
    asked: set[tuple[str, str]] = set()
    waiting = [Requirement(each) for each in wanted]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        for extra in ("", *one.extras):
            if (name, extra) in asked or name not in packages:
                continue
            asked.add((name, extra))
            for each in map(Requirement, packages[name].requires or ()):
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    waiting.append(each)
    return {name for name, _ in asked}


def locked(*files: Path) -> list[str]:
    """Return the names of all that lock files install, sorted."""
    return sorted({canonicalize_name(each) for file in files for each in _LOCKED.findall(file.read_text("utf-8"))})


def listed(names: Iterable[str], packages: Installed) -> dict[str, str]:
    """Return the licence of each package.

    Raises:
        LookupError: One is not installed.
    """
    found = {}
    for name in names:
        if name in packages:
            found[name] = licence(packages[name])
        else:
            raise LookupError(f"{name} is locked and not installed; run make lint, which installs the lock")
    return found


def page(licences: Mapping[str, str], packages: Installed) -> str:
    """Write the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    check = needed(project["project"]["dependencies"], packages)
    wanted = project["project"]["optional-dependencies"].values()
    run = check | needed([each for extra in wanted for each in extra if not each.startswith("gpupools[")], packages)
    rows = [
        f"| {name} | {said} | {'Run, check' if name in check else 'Run' if name in run else 'Develop'} |"
        for name, said in licences.items()
    ]
    introduction = _INTRODUCTION.format(permissive=", ".join(sorted(PERMISSIVE)), by_file=", ".join(sorted(BY_FILE)))
    table = ["| Package | Licence | Needed to |", "| --- | --- | --- |", *rows]
    return "\n".join([introduction, "<!-- generated by tooling/licences.py -->", "", *table, "", "<!-- end -->", ""])


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it; return the exit code."""
    packages = installed()
    try:
        licences = listed(locked(*sorted(ROOT.glob("requirements*.txt"))), packages)
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 1
    refused = [f"{name}: its licence {said} is not allowed" for name, said in licences.items() if not is_allowed(said)]
    text = page(licences, packages)
    if not refused and arguments != ["--check"]:
        PAGE.write_text(text, encoding="utf-8")
    elif not refused and (not PAGE.exists() or PAGE.read_text("utf-8") != text):
        refused = ["docs/reference/licences.md is stale; run python tooling/licences.py"]
    for each in refused:
        print(each, file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
