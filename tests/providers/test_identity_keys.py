"""Who acts for a cluster: the keys, what they refuse, and that provider and token say the same."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.providers.aws.cluster import EksCluster
from gpupools.providers.azure.cluster import AksCluster
from gpupools.providers.gcp.cluster import GkeCluster
from gpupools.stackfile.check import check_stack_file

ROLE = "arn:aws:iam::123456789012:role/gpu-nodes"
DEPLOYER = "arn:aws:iam::123456789012:role/deployer"
CLUSTERS: dict[str, dict[str, Any]] = {
    "train": {
        "cloud": "aws",
        "name": "t",
        "region": "us-east-1",
        "subnet_ids": ["subnet-0000000a"],
        "node_role_arn": ROLE,
    },
    "serve": {"cloud": "azure", "name": "s", "resource_group": "ml"},
    "lab": {
        "cloud": "gcp",
        "name": "l",
        "project": "ml-lab",
        "location": "europe-west4",
        "service_account": "gpu@ml.iam.gserviceaccount.com",
    },
}
POOLS = {"train": "g6e.12xlarge", "serve": "Standard_NC24ads_A100_v4", "lab": "g2-standard-8"}


def written(folder: Path, cluster: str, keys: dict[str, Any], **pool: Any) -> Path:
    pools = {"a": {"clusters": [cluster], "instance_type": POOLS[cluster], "nodes": {"max": 1}, **pool}}
    clusters = {cluster: {**CLUSTERS[cluster], **keys}}
    file = folder / "Pulumi.x.yaml"
    content = {"config": {"gpupools:clusters": clusters, "gpupools:pools": pools}}
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return file


WRONG = [
    ("train", {"account": 123456789012}, "account: is a number; write the 12 digits in quotes"),
    ("train", {"account": "12345"}, "account: got '12345'; write the 12 digits"),
    ("train", {"account": "999999999999"}, "node_role_arn: is in account 123456789012, but account names 999999999999"),
    (
        "train",
        {"assume_role": "arn:aws:iam::999999999999:role/deployer"},
        "assume_role: is in account 999999999999, but node_role_arn names 123456789012",
    ),
    (
        "train",
        {
            "stack": "o/p/s",
            "node_role_arn": {"output": "role"},
            "account": "123456789012",
            "assume_role": "arn:aws:iam::999999999999:role/deployer",
        },
        "assume_role: is in account 999999999999, but account names 123456789012",
    ),
    ("train", {"assume_role": "deployer"}, "assume_role: got 'deployer'; write the role's ARN"),
    ("train", {"profile": "--debug"}, "profile: got '--debug'; write the name of a profile"),
    ("train", {"tenant_id": "x"}, "tenant_id: unknown key"),
    ("serve", {"tenant_id": "contoso"}, "tenant_id: got 'contoso'; write the tenant's id"),
    ("serve", {"account": "123456789012"}, "account: unknown key"),
    ("lab", {"impersonate_service_account": "me@example.com"}, "impersonate_service_account: got 'me@example.com'"),
    ("lab", {"profile": "x"}, "profile: unknown key"),
]


@pytest.mark.parametrize(("cluster", "keys", "problem"), WRONG)
def test_an_identity_that_cannot_be_right_is_refused(
    cluster: str, keys: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(Rejected) as caught:
        check_stack_file(written(tmp_path, cluster, keys), clouds())

    assert problem in str(caught.value)


def test_the_token_is_of_the_one_who_acts() -> None:
    eks = EksCluster.exec_plugin({**CLUSTERS["train"], "profile": "prod", "assume_role": DEPLOYER}).args
    assert " ".join(eks) == (
        f"--profile prod --region us-east-1 eks get-token --cluster-name t --role-arn {DEPLOYER} --output json"
    )
    assert "--role-arn" not in EksCluster.exec_plugin(CLUSTERS["train"]).args
    tenant = "00000000-1111-2222-3333-444444444444"
    assert AksCluster.exec_plugin({**CLUSTERS["serve"], "tenant_id": tenant}).args[-2:] == ("--tenant-id", tenant)
    account = "deploy@ml.iam.gserviceaccount.com"
    assert GkeCluster.exec_plugin({**CLUSTERS["lab"], "impersonate_service_account": account}).args == (
        "--impersonate_service_account",
        account,
    )
    assert GkeCluster.exec_plugin(CLUSTERS["lab"]).args == ()


RIGHT = {
    "train": {"account": "123456789012", "profile": "prod", "assume_role": DEPLOYER},
    "serve": {"tenant_id": "00000000-1111-2222-3333-444444444444"},
    "lab": {"impersonate_service_account": "deploy@ml.iam.gserviceaccount.com"},
}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_who_acts_for_a_cluster_is_kept_as_written(cluster: str, tmp_path: Path) -> None:
    checked = check_stack_file(written(tmp_path, cluster, RIGHT[cluster]), clouds())

    read = checked.plan.stack.clusters[cluster]
    assert {key: getattr(read, key) for key in type(read).identity} == RIGHT[cluster]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_tags_of_a_cluster_are_those_of_its_pools(cluster: str, tmp_path: Path) -> None:
    file = written(tmp_path, cluster, {"tags": {"owner": "ml", "cost": "1"}}, tags={"cost": "2"})
    (plan,) = check_stack_file(file, clouds()).plan.pools

    found = getattr(plan.provider_plan, "resource_labels" if cluster == "lab" else "tags")
    assert dict(found) == {"owner": "ml", "cost": "2"}


def test_a_tag_that_the_cloud_refuses_is_told_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(Rejected) as caught:
        check_stack_file(written(tmp_path, "lab", {"tags": {"Owner": "x"}}, tags={"Cost": "y"}), clouds())

    assert [str(each).partition(":")[0] for each in caught.value.problems] == [
        "clusters.lab.tags.Owner",
        "pools.a.tags.Cost",
    ]
