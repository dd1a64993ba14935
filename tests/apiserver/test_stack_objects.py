"""`Stack` objects that `gpupools stacks --operator` writes, taken by an API server with the operator's definitions.

`GPUPOOLS_OPERATOR_CRDS` names a folder with `pulumi.com_stacks.yaml` of a release of
https://github.com/pulumi/pulumi-kubernetes-operator, `deploy/crds`.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from tests.apiserver.control_plane import Answer, ControlPlane
from tests.gpupools.test_stacks import repository

pytestmark = pytest.mark.apiserver

__all__ = ["repository"]
ORIGIN = ("--repository", "https://git.example.com/gpus.git", "--organization", "acme", "--branch", "release")


def established(definition: Mapping[str, Any]) -> bool:
    """Say whether the server serves objects of a definition."""
    found = definition.get("status", {}).get("conditions") or ()
    return ("Established", "True") in [(each["type"], each["status"]) for each in found]


def test_an_api_server_with_the_operators_definitions_takes_every_stack_object(
    server: ControlPlane, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = os.environ.get("GPUPOOLS_OPERATOR_CRDS")
    if folder is None:
        pytest.skip("GPUPOOLS_OPERATOR_CRDS names no folder with the definitions of the Pulumi Kubernetes Operator")
    definition = yaml.safe_load((Path(folder) / "pulumi.com_stacks.yaml").read_text(encoding="utf-8"))
    server.apply(definition).succeeded()
    assert main(["stacks", "--operator", *ORIGIN]) == 0
    objects = list(yaml.safe_load_all(capsys.readouterr().out))
    taken: list[Answer] = []
    server.wait("the definition", lambda: established(server.get(definition).succeeded()))
    for each in objects:
        taken.append(server.apply(each, dry_run=True))
        wrong = {**each, "spec": {**each["spec"], "prerequisites": ["base-dev"]}}
        assert server.apply(wrong, dry_run=True).status >= 400, "the definition is not heeded"

    assert len(taken) == 4
    for answer in taken:
        assert answer.succeeded()["spec"]["stack"].startswith("acme/")
