"""Which gpupools this is."""

import tomllib
from importlib import metadata
from pathlib import Path


def version() -> str:
    """Return this release's number: the checkout's, else what is installed.

    A checkout need not be installed: `pulumi install` installs its lock and not the project.
    """
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        written = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        if written.get("name") == "gpupools":
            return str(written["version"])
    return metadata.version("gpupools")
