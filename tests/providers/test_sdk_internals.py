"""The names of Pulumi's SDKs that their makers do not promise to keep: each is there, and has one user."""

import ast
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from gpupools.policies import pack
from gpupools.preview import sdk_schema
from gpupools.providers import sdk_internals

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


@pytest.mark.parametrize("name", sdk_internals.NAMES)
def test_an_sdk_without_a_name_is_told_in_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk_internals, "import_module", lambda _: object())
    sdk_internals._internal.cache_clear()

    with pytest.raises(sdk_internals.NotInThisSdk) as caught:
        sdk_internals._internal(name)
    assert f"the installed pulumi has no {name.replace(':', '.')}" in str(caught.value)
    assert f"install pulumi=={sdk_internals.TESTED}" in str(caught.value)
