"""The names of Pulumi's SDKs that their makers do not promise to keep: each is there, and has one user."""

import ast
import asyncio
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pulumi
import pytest

from gpupools.policies import pack
from gpupools.preview import sdk_schema
from gpupools.providers import sdk_internals

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpupools", "providers", "components", "policies", "preview", "stacks")
PLACES = {each.__file__ for each in (sdk_internals, pack)}
"""The modules that may use such names: the first says so in one sentence without them, the other goes on without."""


def test_the_installed_sdk_has_every_name_we_use() -> None:
    assert hasattr(import_module("pulumi.runtime.sync_await"), "_sync_await")
    assert pack.missing_sdk_names() == [], f"pulumi {version('pulumi')}, pulumi-policy {version('pulumi_policy')}"


def test_the_version_named_is_the_one_that_is_tested() -> None:
    assert version("pulumi") == sdk_internals.TESTED


def test_the_envelopes_on_the_wire_are_those_of_the_sdk() -> None:
    rpc = import_module("pulumi.runtime.rpc")

    assert rpc._special_sig_key == sdk_schema.SIGNATURE
    assert rpc._special_secret_sig == sdk_schema.SECRET
    assert rpc._special_resource_sig == sdk_schema.RESOURCE
    assert rpc.UNKNOWN == sdk_schema.UNKNOWN


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


def test_an_sdk_without_the_name_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pulumi.runtime.sync_await._sync_await")
    value: asyncio.Future[int] = asyncio.Future(loop=asyncio.new_event_loop())

    with pytest.raises(pulumi.RunError) as caught:
        sdk_internals.wait_for(value)
    assert "the installed pulumi has no pulumi.runtime.sync_await._sync_await" in str(caught.value)
    assert f"install pulumi=={sdk_internals.TESTED}" in str(caught.value)
