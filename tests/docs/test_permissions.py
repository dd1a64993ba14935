"""What a deployer must be allowed: every type that plans declare has its rows, and each permission is the cloud's."""

import json
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.mgmt.containerservice import ContainerServiceClient
from botocore.session import get_session  # type: ignore[import-untyped]
from google.cloud.container_v1 import ClusterManagerClient

from gpupools.providers.aws.declared_inputs import NODE_TEMPLATE
from tooling import write_permissions
from tooling.write_permissions import FOLDER, Row, rows

URNS = (Path(__file__).resolve().parents[1] / "urns.txt").read_text(encoding="utf-8")
AWS, AZURE, GCP = (rows(cloud) for cloud in ("aws", "azure", "gcp"))


def test_every_type_that_a_plan_declares_has_its_permissions() -> None:
    """urns.txt has what every stack here declares; providers and components are nobody's resources in a cloud."""
    types = {urn.split("::")[2].rpartition("$")[2] for urn in URNS.splitlines() if urn.count("::") > 2}
    declared = {each for each in types if re.match("aws:|azure-native:|gcp:", each)}

    assert {"aws:eks/nodeGroup:NodeGroup", "gcp:container/nodePool:NodePool"} <= declared
    assert {row.resource for row in rows()} == declared


@cache
def api(service: str) -> Any:
    return get_session().get_service_model(service)


@pytest.mark.parametrize("row", AWS, ids=lambda row: row.permission)
def test_an_action_of_aws_is_a_call_of_its_api(row: Row) -> None:
    service, action = row.permission.split(":")
    if action == "PassRole":  # no call: asked for where a role is handed on, as an input of this one
        called, given = row.call.split()
        service, action = called.split(":")
        assert given in api(service).operation_model(action).input_shape.members

    assert action in api(service).operation_names


class Asked(Exception):
    """What would have been sent."""


class Transport:
    """Keeps the request instead of sending it."""

    def send(self, request: Any, **_: object) -> None:
        raise Asked(request.method, request.url.partition("?")[0])

    def __enter__(self) -> "Transport":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("row", [row for row in AZURE if row.call], ids=lambda row: f"{row.resource} {row.permission}")
def test_an_action_of_azure_is_a_call_of_its_api(row: Row) -> None:
    """ARM names actions by the path of the type and the method: PUT is write, GET read, DELETE delete."""
    credential: Any = SimpleNamespace(get_token=lambda *_, **__: AccessToken("t", 4_000_000_000))
    client: Any = ContainerServiceClient(credential, "s", transport=Transport())
    place = {"resource_group_name": "g", "resource_name": "c", "agent_pool_name": "p"}
    pool: dict[str, Any] = {"parameters": {}} if row.call.endswith("create_or_update") else {}
    with pytest.raises(Asked) as asked:
        getattr(client.agent_pools, row.call)(**place, **pool)
    method, url = asked.value.args
    provider, *types = url.partition("/providers/")[2].split("/")
    verb = {"PUT": "write", "GET": "read", "DELETE": "delete"}[method]

    assert row.permission == "/".join([provider, *types[::2], verb])


@pytest.mark.parametrize("row", [row for row in GCP if row.call], ids=lambda row: row.permission)
def test_a_permission_of_google_is_for_calls_of_its_api(row: Row) -> None:
    assert [call for call in row.call.split() if not callable(getattr(ClusterManagerClient, call, None))] == []


def test_every_row_has_a_source_and_says_once_what_it_needs() -> None:
    keys = [(row.resource, row.permission) for row in rows()]

    assert len(keys) == len(set(keys))
    assert {row.access for row in rows()} == {"read", "write"}
    assert all(row.source for row in rows())


def test_the_files_are_what_the_rows_say() -> None:
    assert write_permissions.main(["--check"]) == 0


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*-preview.json")), ids=lambda file: file.stem)
def test_who_previews_may_only_read(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    said = json.loads(text)
    allowed = (
        said.get("Actions")
        or said.get("includedPermissions")
        or [action for each in said["Statement"] for action in each["Action"]]
    )

    assert allowed
    assert all(re.search(r":Describe|:Get|/read$|\.get$|\.list$", each) for each in allowed)
    assert set(allowed) < set(re.findall(r'"([^"]+)"', (FOLDER / file.name.replace("preview", "deploy")).read_text()))


def test_who_deploys_changes_only_what_is_its_own() -> None:
    """What changes something is bound to a role or service, or to a tag: of what it changes, or of what it makes."""
    statements = json.loads((FOLDER / "aws-deploy.json").read_text(encoding="utf-8"))["Statement"]
    keys = {each["Sid"]: [key for found in each.get("Condition", {}).values() for key in found] for each in statements}
    free = {
        action
        for each in statements
        if keys[each["Sid"]] in ([], ["aws:RequestedRegion"]) and not str(each["Resource"]).count(":role/")
        for action in each["Action"]
    }

    assert {action for action in free if not re.search(":(Describe|List)", action)} == {"ec2:RunInstances"}
    assert [each["Resource"] for each in statements if "eks:TagResource" in each["Action"]] == [
        ["arn:aws:eks:eu-central-1:123456789012:nodegroup/*/*/*"]
    ] * 2
    assert keys["NewGroupTags"] == ["aws:RequestTag/gpupools:pool"]


@pytest.mark.parametrize(("key", "allowed"), [(f"{NODE_TEMPLATE}/label/a", True), ("eks:nodegroup-name", False)])
def test_tags_of_scaling_groups_are_those_for_the_autoscaler(key: str, allowed: bool) -> None:
    statements = json.loads((FOLDER / "aws-deploy.json").read_text(encoding="utf-8"))["Statement"]
    found = [each["Condition"] for each in statements if "autoscaling:CreateOrUpdateTags" in each["Action"]]

    assert [
        any(fnmatchcase(key, pattern) for pattern in each["ForAllValues:StringLike"]["aws:TagKeys"]) for each in found
    ] == [allowed]


def test_a_file_that_is_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_permissions, "FOLDER", tmp_path)
    assert write_permissions.main([]) == 0
    (tmp_path / "gcp-deploy.json").write_text("{}\n")

    assert write_permissions.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("docs/reference/permissions/gcp-deploy.json: stale")
