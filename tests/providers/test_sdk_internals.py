"""The names of Pulumi's SDKs that their makers do not promise to keep: each is there, and has one user."""

import ast
import subprocess
import sys
import textwrap
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from gpupools.policies import pack
from gpupools.preview import sdk_schema
from gpupools.providers import sdk_internals
from tests.one_pool import GKE

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpupools", "providers", "components", "policies", "preview", "stacks")
PLACES = {each.__file__ for each in (sdk_internals, pack)}
"""The modules that may use such names: the first says so in one sentence without them, the other goes on without."""


def test_the_installed_sdk_has_every_name_we_use() -> None:
    names = (path.split(":") for path in sdk_internals.NAMES)
    missing = [f"{module}.{name}" for module, name in names if not hasattr(import_module(module), name)]

    assert missing + pack.missing_sdk_names() == [], (
        f"pulumi {version('pulumi')}, pulumi-policy {version('pulumi_policy')}"
    )


def test_the_version_named_is_the_one_that_is_tested() -> None:
    assert version("pulumi") == sdk_internals.TESTED


def test_the_envelopes_on_the_wire_are_those_of_the_sdk() -> None:
    rpc = import_module("pulumi.runtime.rpc")

    assert rpc._special_sig_key == sdk_schema.SIGNATURE
    assert rpc._special_secret_sig == sdk_schema.SECRET
    assert rpc._special_resource_sig == sdk_schema.RESOURCE


def internals(path: Path) -> list[str]:
    """Return the private names of Pulumi's SDKs that a module imports or reaches into."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text if "pulumi" in text else "")
    modules, found = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0].startswith("pulumi"):
            names = [*str(node.module).split("."), *(each.name for each in node.names)]
            found += [f"{node.module}.{name}" for name in names if name.startswith("_")]
            modules |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Import):
            modules |= {each.asname or each.name.split(".")[0] for each in node.names if each.name.startswith("pulumi")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            first = ast.unparse(node.value).split(".")[0]
            found += [ast.unparse(node)] * (first in modules)
    return found


def test_nobody_else_uses_one() -> None:
    others = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if str(path) not in PLACES]

    assert len(others) > 100
    assert {str(path.relative_to(ROOT)): used for path in others if (used := internals(path))} == {}


def test_the_search_finds_one(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import pulumi\nfrom pulumi._types import x\npulumi.runtime._y()\n", encoding="utf-8"
    )

    assert internals(tmp_path / "a.py") == ["pulumi._types._types", "pulumi.runtime._y"]


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pulumi.runtime.rpc:_RESOURCE_MODULES", "pulumi._types:_required_property_names"])
def test_an_sdk_without_a_name_is_told_in_one_sentence(name: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(GKE, encoding="utf-8")
    attribute = name.rpartition(":")[2]
    done = run(f"""
        from types import SimpleNamespace
        from gpupools.cli.main import main
        from gpupools.providers import sdk_internals
        real = sdk_internals.import_module
        def without(module):
            names = vars(real(module)).items()
            return SimpleNamespace(**{{name: value for name, value in names if name != {attribute!r}}})
        sdk_internals.import_module = without
        raise SystemExit(main(["preview", {str(file)!r}]))
    """)
    text = " ".join((done.stdout + done.stderr).split())  # lines are wrapped

    assert done.returncode != 0
    assert f"the installed pulumi has no {name.replace(':', '.')}" in text
    assert f"install pulumi=={sdk_internals.TESTED}" in text
    assert "Traceback" not in text
