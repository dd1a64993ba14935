"""One key for one cluster, one name for one pool, and no configuration that nobody reads, in files as people write."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file, warnings

ROLE = "arn:aws:iam::123456789012:role/gpu-nodes"
EKS = {"cloud": "aws", "name": "a", "region": "us-east-1", "subnet_ids": ["subnet-00000001"], "node_role_arn": ROLE}
AKS = {"cloud": "azure", "name": "a", "resource_group": "ml"}
GKE = {
    "cloud": "gcp",
    "name": "a",
    "project": "ml-lab",
    "location": "europe-west4",
    "service_account": "gpu@ml.iam.gserviceaccount.com",
}
BY_CLOUD: dict[str, dict[str, Any]] = {"aws": EKS, "azure": AKS, "gcp": GKE}
STACK = {"stack": "acme/platform/prod"}
KUBECONFIG = {"kubeconfig": {"path": "~/.kube/x"}}
ENDPOINT = {"endpoint": "https://203.0.113.7", "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"}


def problems(
    folder: Path,
    clusters: Mapping[str, Any],
    pools: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return what `gpupools check` says of a file with a pool for each cluster, or with these pools."""
    pools = pools or {f"p{index}": [key] for index, key in enumerate(clusters)}
    written = {
        name: {"clusters": pool, "gpu": "T4", "nodes": {"max": 1}} if isinstance(pool, list) else pool
        for name, pool in pools.items()
    }
    given = {"gpupools:clusters": clusters, "gpupools:pools": written, **(others or {})}
    file = folder / "Pulumi.dev.yaml"
    file.write_text(yaml.safe_dump({"config": given}, sort_keys=False), encoding="utf-8")
    try:
        check_stack_file(file, clouds())
    except Rejected as rejected:
        return [str(problem) for problem in rejected.problems]
    return []


# --- clusters ---


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param(EKS, {**EKS, "subnet_ids": ["subnet-00000002"]}, "account, region, name", id="EKS, other subnets"),
        pytest.param(
            EKS, {**EKS, "node_role_arn": f"{ROLE}-b"}, "account, region, name", id="EKS, another role of the account"
        ),
        pytest.param(AKS, {**AKS, "name": "A", "resource_group": "ML"}, "resource_group, name", id="AKS, other case"),
        pytest.param(
            {**AKS, "subscription_id": "11111111-2222-3333-4444-555555555555"},
            {**AKS, "subscription_id": "11111111-2222-3333-4444-555555555555", "ssh_access": "Disabled"},
            "subscription_id, resource_group, name",
            id="AKS, other settings",
        ),
        pytest.param(
            GKE, {**GKE, "service_account": "gpu@ml.iam.gserviceaccount.com"}, "project, location, name", id="GKE"
        ),
        pytest.param(
            {**EKS, **STACK, "name": {"output": "name"}},
            {**EKS, **STACK, "name": {"output": "name"}, "subnet_ids": {"output": "gpu"}},
            "account, region, name",
            id="one output of one stack",
        ),
    ],
)
def test_a_second_key_for_one_cluster_is_refused(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], same: str
) -> None:
    assert problems(tmp_path, {"x": one, "y": other}) == [
        (
            f"clusters.y: is the same cluster as x (same {same}); use x in its pools instead; "
            "set what only some pools need, such as subnets or a role, in the pool's overrides"
        )
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(EKS, {**EKS, "name": "b"}, id="EKS, another name"),
        pytest.param(EKS, {**EKS, "region": "us-east-2"}, id="EKS, another region"),
        pytest.param(EKS, {**EKS, "node_role_arn": ROLE.replace("123", "321")}, id="EKS, another account"),
        pytest.param(AKS, {**AKS, "resource_group": "web"}, id="AKS, another group"),
        pytest.param(
            {**AKS, "subscription_id": "11111111-2222-3333-4444-555555555555"},
            {**AKS, "subscription_id": "66666666-2222-3333-4444-555555555555"},
            id="AKS, another subscription",
        ),
        pytest.param(GKE, {**GKE, "location": "europe-west4-a"}, id="GKE, a zone and its region"),
        pytest.param(GKE, {**GKE, "project": "web-lab"}, id="GKE, another project"),
        pytest.param(GKE, AKS, id="two clouds"),
        pytest.param(
            {**GKE, "kubeconfig": {"path": "~/.kube/x", "context": "a"}},
            {**GKE, "name": "b", "kubeconfig": {"path": "~/.kube/x", "context": "b"}},
            id="two contexts of one kubeconfig",
        ),
        pytest.param({**GKE, **ENDPOINT}, {**GKE, "name": "b", **KUBECONFIG}, id="two ways in"),
    ],
)
def test_two_clusters_are_taken(tmp_path: Path, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert problems(tmp_path, {"x": one, "y": other}) == []


@pytest.mark.parametrize(
    ("access", "key"),
    [
        pytest.param([KUBECONFIG, KUBECONFIG], "kubeconfig", id="one kubeconfig"),
        pytest.param([ENDPOINT, {**ENDPOINT, "endpoint": "203.0.113.7/"}], "endpoint", id="one endpoint"),
        pytest.param([{**STACK, "kubeconfig": {"output": "k"}}] * 2, "kubeconfig", id="one output"),
    ],
)
def test_two_clusters_reached_by_one_api_are_refused(tmp_path: Path, access: list[dict[str, Any]], key: str) -> None:
    clusters = {"x": {**GKE, **access[0]}, "y": {**GKE, "name": "b", **access[1]}}
    plain = {"gpu": "T4", "nodes": {"max": 1}}
    served = {**plain, "software": "device-plugin"}

    # What needs nothing in Kubernetes does not use the access.
    assert problems(tmp_path, clusters) == []
    one_served = {"p": {"clusters": ["x"], **served}, "q": {"clusters": ["y"], **plain}}
    assert problems(tmp_path, clusters, one_served) == []
    assert problems(tmp_path, clusters, {"p": {"clusters": ["x", "y"], **served}}) == [
        (
            f"clusters.y.{key}: has the same API as x, so the GPU software would be installed there twice; "
            "set the kubeconfig, context or endpoint of y's own API, or move its pools to x"
        )
    ]


@pytest.mark.parametrize(
    ("cloud", "changes", "late"),
    [
        pytest.param("gcp", {**STACK, "name": {"output": "b"}}, "name", id="an output"),
        pytest.param(
            "azure",
            {"subscription_id": "11111111-2222-3333-4444-555555555555"},
            "subscription_id",
            id="the credentials' subscription",
        ),
        pytest.param("aws", {**STACK, "node_role_arn": {"output": "role"}}, "account", id="a role's account"),
    ],
)
def test_what_the_file_does_not_tell_is_said(tmp_path: Path, cloud: str, changes: dict[str, Any], late: str) -> None:
    clusters = {"x": BY_CLOUD[cloud], "y": {**BY_CLOUD[cloud], **changes}}
    assert problems(tmp_path, clusters) == []

    checked = check_stack_file(tmp_path / "Pulumi.dev.yaml", clouds())

    said = [str(located.problem) for located in warnings(checked)]
    assert [each for each in said if "offers GPUs" not in each] == [
        (
            f"clusters.y: may be the same cluster as x: {late} cannot be compared before pulumi runs; "
            "make sure that they are different clusters"
        )
    ]


# --- names ---


def test_two_pools_of_one_name_in_pulumi_are_refused(tmp_path: Path) -> None:
    clusters = {"prod-eu": GKE, "prod": {**GKE, "name": "b"}}

    assert problems(tmp_path, clusters, {"l4": ["prod-eu"], "eu-l4": ["prod"]}) == [
        (
            "pools.eu-l4: its Pulumi name on prod is prod-eu-l4, the same as of l4 on prod-eu; "
            "rename one of the two; renamed_from keeps its nodes"
        )
    ]
    assert problems(tmp_path, clusters, {"l4": ["prod-eu", "prod"]}) == []


def test_a_former_name_that_another_pool_has_now_is_refused(tmp_path: Path) -> None:
    clusters = {"prod-eu": GKE, "prod": {**GKE, "name": "b"}}
    renamed = {"clusters": ["prod"], "gpu": "T4", "nodes": {"max": 1}, "renamed_from": "eu-l4"}

    assert problems(tmp_path, clusters, {"l4": ["prod-eu"], "new": renamed}) == [
        (
            "pools.new.renamed_from: its former name prod-eu-l4 is now the name of l4 on prod-eu, "
            "which would get its nodes; rename l4, or add it in a later update"
        )
    ]
    assert problems(tmp_path, {"prod": GKE}, {"l4": ["prod"], "new": renamed}) == []


# --- configuration nobody reads ---


@pytest.mark.parametrize(
    ("key", "cure"),
    [
        ("aws:region", "write the cluster's region"),
        ("aws:profile", "write profile of the cluster"),
        ("aws:assumeRoles", "write assume_role of the cluster"),
        ("aws:allowedAccountIds", "write account of the cluster, or take it out"),
        ("aws:somethingElse", "remove it"),
        ("aws-native:region", "write the cluster's region"),
        ("gcp:project", "write the cluster's project"),
        ("gcp:zone", "write the cluster's location"),
        ("google-native:project", "write the cluster's project"),
        ("azure-native:subscriptionId", "write the cluster's subscription_id"),
        ("azure:location", "take it out: a pool is where its cluster is"),
        ("kubernetes:context", "write kubeconfig: {path: …, context: …} of the cluster"),
    ],
)
def test_settings_of_providers_are_refused(tmp_path: Path, key: str, cure: str) -> None:
    (said,) = problems(tmp_path, {"x": GKE}, others={key: "anything"})

    namespace = key.partition(":")[0]
    assert said.startswith(
        f"{key}: has no effect: each cluster has its own provider, which does not read {namespace}:… settings; "
    )
    assert cure in said


@pytest.mark.parametrize("key", ["pulumi:tags", "acme-policies:cap", "datadog:apiKey"])
def test_settings_of_others_are_left_alone(tmp_path: Path, key: str) -> None:
    assert problems(tmp_path, {"x": GKE}, others={key: "anything"}) == []


def test_a_misspelt_namespace_is_refused(tmp_path: Path) -> None:
    assert problems(tmp_path, {"x": GKE}, others={"gpupool:production": True}) == [
        "gpupool:production: has an unknown namespace; did you mean 'gpupools:production'?"
    ]


@pytest.mark.parametrize("role", ["gpu-nodes", "arn:aws:iam::123:role/x", "arn:aws:iam::123456789012:user/x"])
def test_a_role_that_names_no_account_is_refused(tmp_path: Path, role: str) -> None:
    assert problems(tmp_path, {"x": {**EKS, "node_role_arn": role}}) == [
        f"clusters.x.node_role_arn: got {role!r}; write the role's ARN: arn:aws:iam::<account>:role/<name>"
    ]


@pytest.mark.parametrize(
    ("region", "partition"),
    [
        ("us-east-1", "aws"),
        ("cn-north-1", "aws-cn"),
        ("us-gov-west-1", "aws-us-gov"),
        ("us-isob-east-1", "aws-iso-b"),
        ("eusc-de-east-1", "aws-eusc"),
    ],
)
def test_roles_of_every_partition_are_taken_in_its_regions(tmp_path: Path, region: str, partition: str) -> None:
    role = f"arn:{partition}:iam::123456789012:role/path/gpu-nodes"
    other = role.replace(f"{partition}:iam", "aws-iso-e:iam")

    assert problems(tmp_path, {"x": {**EKS, "region": region, "node_role_arn": role}}) == []
    assert problems(tmp_path, {"x": {**EKS, "region": region, "node_role_arn": other}}) == [
        f"clusters.x.node_role_arn: is in partition aws-iso-e, but {region} is in {partition}; write arn:{partition}:…"
    ]


# --- what a pool needs of its own ---


def test_a_pool_may_have_subnets_and_a_role_of_its_own(tmp_path: Path) -> None:
    own = {"subnetIds": ["subnet-00000002"], "nodeRoleArn": f"{ROLE}-b"}
    pool = {"clusters": ["x"], "gpu": "T4", "nodes": {"max": 1}, "overrides": {"aws": {"NodeGroup": own}}}

    assert problems(tmp_path, {"x": EKS}, {"a": ["x"], "b": pool}) == []


@pytest.mark.parametrize(
    ("subnets", "fix"),
    [
        *((each, "write a list of at least one subnet: [subnet-…]") for each in (None, [], [""])),
        ("subnet-00000002", "use a list"),
        ([{"id": "subnet-00000002"}], "got a map; use a string"),
    ],
)
def test_subnets_by_hand_are_a_list_of_texts(tmp_path: Path, subnets: Any, fix: str) -> None:
    hand = {"aws": {"NodeGroup": {"subnetIds": subnets}}}
    pool = {"clusters": ["x"], "gpu": "T4", "nodes": {"max": 1}, "overrides": hand}

    said = problems(tmp_path, {"x": EKS}, {"a": pool})

    assert fix in said[-1]
