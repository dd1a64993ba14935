"""The files of one run are one set of documents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.test_cluster_api import deployment, kubeadm, machine

Write = Callable[..., Path]
Run = Callable[..., tuple[int, str, str]]
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TAINTED, BARE = kubeadm({"taints": [TAINT]}), kubeadm({})
VPC = {"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}}}


@pytest.mark.parametrize(
    ("documents", "code", "says"),
    [
        ([machine(), deployment(), TAINTED], 0, "0 violations"),
        ([machine(), deployment(), BARE], 1, "no permanent taint keeps other pods off"),
        ([machine(), deployment()], 0, "cannot be verified"),
        ([machine(), deployment(), TAINTED, BARE], 0, "cannot be verified"),
        ([machine(), deployment(), TAINTED, TAINTED], 0, "cannot be verified"),
        ([machine(), deployment(), TAINTED, deployment(config_name="other", name="b")], 0, "cannot be verified"),
        ([machine(), deployment(), TAINTED, "kind: {"], 1, "0 violations"),
    ],
    ids=["tainted", "bare", "without bootstrap", "two layers", "a copy", "another owner", "a damaged file"],
)
def test_cluster_api_objects_of_several_files_are_joined(
    write: Write, run: Run, documents: list[Any], code: int, says: str
) -> None:
    files = [write(each, f"{place}.yaml") for place, each in enumerate(documents)]
    ended, out, err = run("policy", *files)

    assert (ended, says in out) == (code, True), out + err
    assert out.count("1 GPU pool:") == 1
    assert out.count("[gpu-pool-tainted]") == out.count("1 violation,") + out.count("1 unverified,")


def nested(url: Any) -> dict[str, Any]:
    return {"Resources": {"N": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": url}}}}


@pytest.mark.parametrize(
    ("url", "code"),
    [("./vpc.yaml", 0), ("vpc.yaml", 0), ("./other.yaml", 1), ("https://a/vpc.yaml", 1), ("./main.yaml", 1)],
)
def test_a_nested_template_of_the_same_run_is_judged_there(write: Write, run: Run, url: str, code: int) -> None:
    main, vpc = write(nested(url), "main.yaml"), write(VPC, "vpc.yaml")

    assert run("policy", main, vpc, "--fail-on", "unverified")[0] == code
    assert run("policy", main, "--fail-on", "unverified")[0] == 1


def test_a_gpu_pool_in_a_nested_template_is_found(write: Write, run: Run) -> None:
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": {"InstanceTypes": ["p4d.24xlarge"]}}
    main, pools = write(nested("pools.yaml"), "main.yaml"), write({"Resources": {"G": group}}, "pools.yaml")
    code, out, _ = run("policy", main, pools)

    assert code == 1
    assert f"{pools}: G: violation" in out.replace(":4:", ":").replace(":3:", ":")
