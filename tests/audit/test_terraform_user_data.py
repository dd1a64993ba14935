"""User data in a Terraform plan has the verdict of the same in Pulumi, whatever holds it in which encoding."""

import base64
import gzip
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from gpupools.audit.judging import FileReport
from gpupools.providers.aws.readback import READBACK
from tooling.write_terraform_names import TOKENS

Judge = Callable[..., FileReport]
MULTIPART = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'


def node_config(kubelet: str) -> str:
    return f"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {{name: x}}\n  kubelet: {kubelet}\n"


def parts(*bodies: str) -> str:
    each = (f"--b\nContent-Type: application/node.eks.aws\n\n{body}" for body in bodies)
    return f"{MULTIPART}{''.join(each)}--b--\n"


TAINTED = node_config("{config: {registerWithTaints: [{key: nvidia.com/gpu, effect: NoSchedule}]}}")
SETTINGS = '[settings.kubernetes]\ncluster-name = "x"\n[settings.kubernetes.node-taints]\n'
UNTAINTED = {
    "nodeadm, tainted": (TAINTED, False),
    "nodeadm, a later part takes them": (parts(TAINTED, node_config("{config: {registerWithTaints: []}}")), True),
    "Bottlerocket, tainted": (f'{SETTINGS}"nvidia.com/gpu" = ":NoSchedule"\n', False),
}
"""Whether a node with this user data has no taint that lasts."""
MACHINE = {"ami": "ami-1", "instance_type": "g5.xlarge", "iam_instance_profile": "node"}
HOLDERS: Mapping[str, tuple[Mapping[str, Any], Sequence[str]]] = {
    "aws_instance": (MACHINE, ("plain", "base64")),
    "aws_spot_instance_request": (MACHINE, ("plain", "base64")),
    "aws_launch_configuration": (
        {"image_id": "ami-1", "instance_type": "g5.xlarge", "iam_instance_profile": "node"},
        ("plain", "base64"),
    ),
    "aws_launch_template": (
        {"image_id": "ami-1", "instance_type": "g5.xlarge", "iam_instance_profile": [{"name": "node"}]},
        ("encoded",),
    ),
}
"""A machine that joins by itself, and how it may hold user data."""


def held(how: str, content: str, zipped: bool) -> dict[str, str]:
    if how == "plain":
        return {"user_data": content}
    raw = gzip.compress(content.encode(), mtime=0) if zipped else content.encode()
    return {"user_data" if how == "encoded" else "user_data_base64": base64.b64encode(raw).decode()}


def in_pulumi(values: dict[str, Any]) -> dict[str, Any]:
    words = {key: key.split("_") for key in values}
    named = {"".join([first, *map(str.capitalize, rest)]): values[key] for key, (first, *rest) in words.items()}
    return {key: value[0] if isinstance(value, list) else value for key, value in named.items()}


def untainted(judged: FileReport) -> bool:
    assert judged.problems == ()
    assert [found.rule.name for found in judged.found if found.rule.name == "node-pools-understood"] == []
    return any(found.rule.name == "gpu-pool-tainted" for found in judged.found)


@pytest.mark.parametrize("form", UNTAINTED)
@pytest.mark.parametrize("kind", HOLDERS)
def test_user_data_has_the_same_verdict_in_both(kind: str, form: str, judge: Judge) -> None:
    content, expected = UNTAINTED[form]
    machine, ways = HOLDERS[kind]
    for how in ways:
        for zipped in (False, True) if how != "plain" else (False,):
            after = {**machine, **held(how, content, zipped)}
            change = {"actions": ["create"], "before": None, "after": after, "after_unknown": {}}
            one = {"address": f"{kind}.a", "mode": "managed", "type": kind, "name": "a", "change": change}
            token = TOKENS[kind]
            urn = f"urn:pulumi:s::p::{token}::a"
            state = {"urn": urn, "custom": True, "type": token, "inputs": in_pulumi(after)}
            step = {"op": "create", "urn": urn, "newState": state}

            assert untainted(judge({"format_version": "1.2", "resource_changes": [one]})) is expected
            assert untainted(judge({"config": {}, "steps": [step], "changeSummary": {"create": 1}})) is expected


def test_what_is_read_of_pulumis_sdk_has_its_name_in_terraform() -> None:
    read = {token for token in READBACK.types if token.startswith("aws:")}

    assert read <= set(TOKENS.values())
