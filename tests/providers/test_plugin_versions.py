"""The plugins that the program asks the engine for are those of the lock."""

import re
from pathlib import Path

import pulumi
import pytest

from gpupools.providers.registration import register
from tests.registering import registered

LOCK = (Path(__file__).resolve().parents[2] / "requirements.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("package", ["aws", "azure-native", "gcp", "kubernetes"])
def test_a_plugin_has_the_version_of_the_lock(package: str) -> None:
    (request,) = registered(lambda: register(f"{package}:index:Any", "any", {}, pulumi.ResourceOptions()))
    (locked,) = re.findall(rf"^pulumi-{package}==(\S+)", LOCK, re.MULTILINE)

    assert request["version"] == locked, (
        f"pulumi-{package}: the program registers {request['version']}, requirements.txt has {locked}; install that"
    )
