"""Version of gpupools."""

import tomllib
from importlib import metadata
from pathlib import Path


def version() -> str:
    """Return the version of the checkout, or else of the installed package.

    A checkout may not be installed: `pulumi install` only installs its locked dependencies.
    """
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        written = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        if written.get("name") == "gpupools":
            return str(written["version"])
    return metadata.version("gpupools")
