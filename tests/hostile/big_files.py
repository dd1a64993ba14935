"""Files of fifty megabytes, each full of one sort of thing that the readers of the policies look into."""

import base64
import gzip
import io
import itertools
import json
import zipfile
from collections.abc import Callable
from typing import Any

from tests.hostile import stacks

SIZE = 50_000_000
"""Characters of each file, at least."""

_SCRIPT = "#!/bin/sh\nset -e\nkubectl get nodes -o wide\naws s3 cp a b\nterraform plan\nhelm lint chart\n"
_WHY = {"why": "x" * 200}


def _filled(one: Callable[[int], str], between: str = ", ", size: int = SIZE) -> str:
    """Write the pieces of the numbers from 0 on until there are enough of them."""
    pieces: list[str] = []
    for number in itertools.count():
        pieces.append(one(number))
        size -= len(pieces[-1]) + len(between)
        if size < 0:
            return between.join(pieces)
    raise AssertionError


def _listed(one: Callable[[int], Any], around: str = '{"apiVersion": "v1", "kind": "List", "items": [%s]}') -> str:
    return around.replace("%s", _filled(lambda number: json.dumps(one(number))))


def _object(kind: str, version: str, number: int, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": f"a{number}", "labels": {"team": "ml"}}, **more}


def _plan(one: Callable[[int], tuple[str, dict[str, Any]]]) -> str:
    def change(number: int) -> dict[str, Any]:
        type_, after = one(number)
        return stacks.instance(type_, "r", after, {"arn": True}, number)

    return _listed(change, '{"format_version": "1.2", "complete": true, "resource_changes": [%s]}')


def _groups(number: int) -> tuple[str, dict[str, Any]]:
    return "aws_eks_node_group", {"cluster_name": "c", "instance_types": ["g5.xlarge"], "taint": [], "labels": _WHY}


def _mixed(number: int) -> tuple[str, dict[str, Any]]:
    """Write what a plan has most of: nothing of this project's business, and a node group now and then."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("aws_thing_{}", {"name": "a b c", "size": "m5.large", "list": ["x.y", "z"] * 12, "tags": _WHY}),
        ("other{}_thing", {"name": "a b c", "size": "m5.large", "tags": {"owner": "ml and others", **_WHY}}),
        ("aws_s3_object", {"bucket": "data", "content": _SCRIPT * 3}),
        ("kubernetes_job_v1", {"spec": [{"template": [{"spec": [{"container": [{"args": ["-c", _SCRIPT]}]}]}]}]}),
        ("aws_iam_policy", {"policy": json.dumps({"Action": ["ec2:Describe*"] * 9, "Resource": "*"})}),
        ("aws_s3_bucket", {"bucket": f"data-{number}", "force_destroy": False, "tags": {"owner": "ml", **_WHY}}),
        ("aws_security_group_rule", {"cidr_blocks": ["10.0.0.0/8"] * 4, "from_port": 443, "description": "x" * 200}),
        ("aws_eks_node_group", _groups(number)[1]),
    ]
    type_, after = kinds[number % len(kinds)]
    return type_.format(number % 20_000), after


def _template(number: int) -> tuple[str, dict[str, Any]]:
    user_data = base64.b64encode(f"#!/bin/bash\n# {number}\n/etc/eks/bootstrap.sh train\n".encode()).decode()
    tags = [{"resource_type": "instance", "tags": {"kubernetes.io/cluster/train": "owned"}}]
    return "aws_launch_template", {"instance_type": "g5.xlarge", "user_data": user_data, "tag_specifications": tags}


def _node(number: int) -> dict[str, Any]:
    labels = {"node.kubernetes.io/instance-type": "g5.xlarge", "nvidia.com/gpu.present": "true", "pool": f"p{number}"}
    status = {
        "allocatable": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
        "conditions": [{"type": "Ready", "status": "True", "message": "kubelet is posting ready status"}],
        "images": [{"names": [f"registry.example/image-{each}"], "sizeBytes": 1} for each in range(8)],
    }
    metadata = {"name": f"n{number}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": []}, "status": status}


def _unknown(number: int) -> dict[str, Any]:
    spec = {"size": "m5.large", "names": ["x.y", "z"], "command": ["kubectl", "get", "nodes"]}
    return _object(f"Thing{number}", "things.example/v1", number, spec={**spec, "text": _SCRIPT})


def _pool(number: int) -> dict[str, Any]:
    made = stacks.karpenter(number)
    made["metadata"]["annotations"] = _WHY
    return made


def _carrier(number: int) -> dict[str, Any]:
    return _object("ConfigMap", "v1", number, data={"pool.yaml": json.dumps(stacks.karpenter(number)), "run": _SCRIPT})


def _bomb(number: int) -> dict[str, Any]:
    data = _BOMB if number else base64.b64encode(gzip.compress(b" " * 8_000_000)).decode()
    return _object("Secret", "v1", number, data={"a": data})


_BOMB = base64.b64encode(gzip.compress(b"a: b\n" * 1_600_000)).decode()

_VALUES = "".join(f"a{number}: b\n" for number in range(10_000))


def _archive() -> str:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"\xff" * 8_000_000)
    return base64.b64encode(packed.getvalue()).decode()


_ARCHIVE = _archive()


def _packed(number: int) -> dict[str, Any]:
    inner = gzip.compress(json.dumps(stacks.karpenter(number)).encode(), 1)
    return _object("Secret", "v1", number, data={"a": base64.b64encode(inner).decode()})


def _cloudformation(one: Callable[[int], tuple[str, dict[str, Any]]]) -> str:
    def resource(number: int) -> str:
        type_, properties = one(number)
        return f'"R{number}": {json.dumps({"Type": type_, "Properties": properties})}'

    return f'{{"AWSTemplateFormatVersion": "2010-09-09", "Resources": {{{_filled(resource)}}}}}'


def _arm(number: int) -> dict[str, Any]:
    properties = {"vmSize": "Standard_NC24ads_A100_v4", "count": 1, "nodeTaints": [], "tags": _WHY}
    type_ = "Microsoft.ContainerService/managedClusters/agentPools"
    return {"type": type_, "apiVersion": "2024-09-01", "name": f"c/p{number}", "properties": properties}


def _yaml(one: str) -> str:
    return _filled(lambda number: one.replace("%d", str(number)), "---\n")


def _words(number: int) -> str:
    return f"command-{number}-of-many.{number}"


_ARM = '{"$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#", %s}'
_POOL_OF_EKSCTL = {"instanceType": "g5.xlarge", "labels": _WHY}
_LIST = '{"apiVersion": "v1", "kind": "List", "items": [%s]}'
_IN_ONE = '{"apiVersion": "%s", "kind": "%s", "metadata": {"name": "a"}, %s}'

BIG_FILES: dict[str, Callable[[], str]] = {
    "plan of pools": lambda: _plan(_groups),
    "plan of mixed resources": lambda: _plan(_mixed),
    "plan of unknown types": lambda: _plan(lambda n: (f"thing{n}_thing", {"size": "m5.large", "text": _SCRIPT})),
    "plan of templates": lambda: _plan(_template),
    "plan of scripts": lambda: _plan(lambda n: ("aws_s3_object", {"content": f"{n}{_SCRIPT}" * 40})),
    "preview of pools": lambda: _listed(
        lambda n: {"op": "create", "urn": stacks.urn(stacks.EKS, f"n{n}"), "newState": stacks.node_group(n)},
        '{"steps": [%s]}',
    ),
    "state of pools": lambda: _listed(
        stacks.node_group, '{"version": 3, "deployment": {"manifest": {}, "resources": [%s]}}'
    ),
    "state of unknown types": lambda: _listed(
        lambda n: stacks.resource(f"thing{n}:index:Thing", f"n{n}", {"size": "m5.large", "text": _SCRIPT}),
        '{"version": 3, "deployment": {"manifest": {}, "resources": [%s]}}',
    ),
    "CloudFormation of pools": lambda: _cloudformation(
        lambda n: ("AWS::EKS::Nodegroup", {"ClusterName": "c", "InstanceTypes": ["g5.xlarge"], "Labels": _WHY})
    ),
    "CloudFormation of unknown types": lambda: _cloudformation(lambda n: (f"Thing{n}::A::B", {"text": _SCRIPT})),
    "ARM template of pools": lambda: _listed(_arm, _ARM.replace("%s", '"resources": [%s]')),
    "unknown kinds": lambda: _listed(_unknown),
    "unknown kinds, small": lambda: _listed(lambda n: _object(f"T{n}", "t.example/v1", n, spec={"a": "b c d e f"})),
    "unknown kinds in a stream": lambda: _filled(lambda n: json.dumps(_unknown(n)), "\n"),
    "unknown kinds of many values": lambda: _listed(
        lambda n: _object("Thing", "t.example/v1", n, spec={"list": [_words(each) for each in range(20_000)]})
    ),
    "unknown kinds with a machine each": lambda: _listed(
        lambda n: _object(f"T{n}", f"t{n}.example/v1", n, spec={"machine": "p5.48xlarge", "text": _SCRIPT})
    ),
    "machines without end": lambda: _listed(
        lambda n: _object("Thing", "t.example/v1", n, spec={"list": [f"p5.{each}xlarge" for each in range(20_000)]})
    ),
    "Nodes": lambda: _listed(_node),
    "Karpenter's pools": lambda: _listed(_pool),
    "items of a typed list": lambda: _listed(
        lambda n: {key: value for key, value in _pool(n).items() if key not in ("apiVersion", "kind")},
        '{"apiVersion": "karpenter.sh/v1", "kind": "NodePoolList", "items": [%s]}',
    ),
    "pools as text": lambda: _listed(_carrier),
    "scripts": lambda: _listed(lambda n: _object("ConfigMap", "v1", n, data={"run": f"{n}{_SCRIPT}" * 100})),
    "one script": lambda: _listed(lambda n: _object("ConfigMap", "v1", n, data={"run": _SCRIPT * 700_000})),
    "one text of words": lambda: _listed(
        lambda n: _object("ConfigMap", "v1", n, data={"run": "apiVersion kind " + "QUJD" * 20 + " " * 4_000_000})
    ),
    "packed pools": lambda: _listed(_packed),
    "what unpacks to eight megabytes each": lambda: _listed(_bomb),
    "archives of eight megabytes each": lambda: _listed(lambda n: _object("Secret", "v1", n, data={"a": _ARCHIVE})),
    "values of charts": lambda: _listed(
        lambda n: _object("Application", "argoproj.io/v1alpha1", n, spec={"source": {"helm": {"values": _VALUES}}})
    ),
    "the word taints": lambda: _listed(lambda n: _object("ConfigMap", "v1", n, data={"run": " op: taints" * 1_000})),
    "Jobs": lambda: _listed(
        lambda n: _object(
            "Job",
            "batch/v1",
            n,
            spec={"template": {"spec": {"containers": [{"image": "kubectl", "args": ["-c", _SCRIPT]}]}}},
        )
    ),
    "pools in one object of eksctl": lambda: _listed(
        lambda n: {"name": f"n{n}", **_POOL_OF_EKSCTL},
        _IN_ONE % ("eksctl.io/v1alpha5", "ClusterConfig", '"managedNodeGroups": [%s]'),
    ),
    "pools in one ManifestWork": lambda: _listed(
        _pool,
        _IN_ONE % ("work.open-cluster-management.io/v1", "ManifestWork", '"spec": {"workload": {"manifests": [%s]}}'),
    ),
    "objects of one name": lambda: _listed(lambda n: _object("Thing", "t.example/v1", 1, spec={"a": "b c"})),
    "YAML of pools": lambda: _yaml(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p%d}\nspec: {template: {spec: {requirements: "
        "[{key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}]}}}\n"
    ),
    "YAML of unknown kinds": lambda: _yaml(
        "apiVersion: t%d.example/v1\nkind: T%d\nmetadata: {name: p%d}\nspec: {a: b c}\n"
    ),
    "YAML of long scripts": lambda: _yaml(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p%d}\ndata:\n  run: |\n"
        + "".join(f"    {line}\n" for line in (_SCRIPT * 60).splitlines())
    ),
    "YAML of one text": lambda: (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  run: |\n"
        + "    kubectl get nodes\n" * 2_200_000
    ),
    "YAML of comments": lambda: "# nothing at all\n" * 3_000_000 + "apiVersion: v1\nkind: ConfigMap\n",
}
"""By what they are full of; a file may be written when it is asked for only."""
