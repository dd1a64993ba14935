"""Each cure is followed to the letter: the file then checks, and says what was meant."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.catalog.key_synonyms import OtherKey, other_keys
from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.stackfile.stack import places_against_lists, plan_config

GKE = (
    "cloud: gcp, name: lab, project: ml-dev, location: europe-west4, service_account: g@ml-dev.iam.gserviceaccount.com"
)
KUEUE = f"{GKE}, kubeconfig: {{path: ~/.kube/lab}}, runtime: {{scheduler: kueue}}"
AKS = "cloud: azure, name: s, resource_group: ml, kubeconfig: {path: ~/.kube/s}"
POOL = "a: {clusters: [lab], gpu: L4, gpus_per_node: 4, nodes: {max: 4}}"


def stack(cluster: str = GKE, pool: str = POOL, more: str = "") -> str:
    """Return a stack file with one cluster and one pool."""
    return f"config:\n  gpupools:clusters:\n    lab: {{{cluster}}}\n  gpupools:pools:\n    {pool}\n{more}"


def team(keys: str) -> str:
    """Return a stack file with a team."""
    return stack(KUEUE, more=f"  gpupools:teams:\n    nlp: {{namespaces: [nlp], {keys}}}\n")


def checked(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `check` says of a file; empty when it says nothing."""
    capsys.readouterr()
    Path("Pulumi.dev.yaml").write_text(text, encoding="utf-8")
    main(["check", "Pulumi.dev.yaml"])
    return capsys.readouterr().err


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n", encoding="utf-8")


SHARED = "a: {clusters: [lab], gpu: L4, nodes: {max: 4}, trust: {team: nlp}"
NO_LOCATION = stack(AKS, POOL.replace("L4, gpus_per_node: 4", "T4"))
EXISTING = "kubeconfig: {path: ~/.kube/lab}, runtime: "


@pytest.mark.parametrize(
    ("text", "cure", "old", "new"),
    [
        (team("nominalQuota: {a: 4}"), "guarantee: {<pool>: …}", "nominalQuota: {a: 4}", "guarantee: {a: 4}"),
        (team("deserved: {a: 4}"), "guarantee: {<pool>: …}", "deserved: {a: 4}", "guarantee: {a: 4}"),
        (team("quota: {a: 4}"), "guarantee: {<pool>: …}", "quota: {a: 4}", "guarantee: {a: 4}"),
        (team("guarantee: {a: 4}, max: {a: 8}"), "limit: {<pool>: …}", "max: {a: 8}", "limit: {a: 8}"),
        (team("capability: {a: 8}"), "limit: {<pool>: …}", "capability: {a: 8}", "limit: {a: 8}"),
        (
            team("guarantee: {a: 4}, borrowingLimit: {a: 4}"),
            "limit: {<pool>: …}, which is nominalQuota plus borrowingLimit",
            "borrowingLimit: {a: 4}",
            "limit: {a: 8}",
        ),
        (team("guarantee: {a: 4}, lendingLimit: 0"), "or [] if it is 0", "lendingLimit: 0", "lends_to: []"),
        (team("guarantee: {a: 4}, cohort: all"), "lends_to: [<team>, …]", ", cohort: all", ""),
        (team("guarantee: {a: 4}, overQuotaWeight: 2"), "weight: …", "overQuotaWeight", "weight"),
        (team("guarantee: {a: 4}, fairSharing: 2"), "weight: …", "fairSharing", "weight"),
        (
            stack(f"{GKE}, {EXISTING}{{existing: {{kueue: kueue-system/kueue}}}}"),
            "runtime: {scheduler: kueue, existing: {scheduler: <namespace>/<name>}}",
            "runtime: {existing: {kueue: kueue-system/kueue}}",
            "runtime: {scheduler: kueue, existing: {scheduler: kueue-system/kueue}}",
        ),
        (
            stack(
                "cloud: aws, name: t, region: us-east-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],"
                " node_role_arn: 'arn:aws:iam::123456789012:role/n', kubeconfig: {path: ~/.kube/t}",
                f"{SHARED.replace('max: 4', 'fixed: 4')}, sharing: {{mode: hami}}}}",
            ),
            "software: hami on the pool instead of sharing",
            "sharing: {mode: hami}",
            "software: hami",
        ),
        (
            stack(f"{GKE}, kubeconfig: {{path: ~/.kube/lab}}", f"{SHARED}, software: device-plugin, placement: pack}}"),
            "sharing: {mode: time-slicing, replicas: …, placement: pack}",
            "placement: pack",
            "sharing: {mode: time-slicing, replicas: 2, placement: pack}",
        ),
        (
            stack(f"{GKE}, kubeconfig: {{path: ~/.kube/lab}}", f"{POOL[:-1]}, startup_taints: true}}"),
            "startup_taint: true",
            "startup_taints",
            "startup_taint",
        ),
        (
            stack(pool="a: {clusters: [lab], instance_type: a3-highgpu-8g, nodes: {max: 4}, zones: [europe-west4-a],"
                  " capacity: {mode: spot}}"),
            "set zones: [europe-west4-b]",
            "europe-west4-a",
            "europe-west4-b",
        ),
        (
            stack(f"{GKE}, node_locations: [europe-west4-a]", "a: {clusters: [lab], instance_type: a3-highgpu-8g,"
                  " nodes: {max: 4}, capacity: {mode: spot}}"),
            "is not offered in europe-west4-a",
            "nodes: {max: 4}",
            "nodes: {max: 4}, zones: [europe-west4-b]",
        ),
        (
            "config:\n  gpupools:budget: {per_hour: 500}\n" + NO_LOCATION[8:],
            "set clusters.lab.location, by which the price is known",
            "resource_group: ml",
            "resource_group: ml, location: westeurope",
        ),
    ],
    ids=lambda value: value if len(value) < 40 else "",
)  # fmt: skip
def test_a_cure_is_followed(text: str, cure: str, old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = checked(text, capsys)
    assert cure in said
    assert old in text
    cured = text.replace(old, new)

    assert "warning" in (left := checked(cured, capsys)) or left == ""
    assert main(["check", "Pulumi.dev.yaml"]) == 0


NO_PLUGIN = stack(AKS.partition(", kubeconfig")[0], POOL.replace("L4, gpus_per_node: 4", "T4"))


@pytest.mark.parametrize(
    "cure",
    ["kubeconfig: {path: ~/.kube/s}", "runtime: {management: external, existing: {device_plugin: kube-system/plugin}}"],
)
def test_a_pool_without_a_plugin_gets_one_or_names_one(cure: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = checked(NO_PLUGIN, capsys)
    assert said.startswith("Pulumi.dev.yaml:3: warning: clusters.lab: no pool of the cluster offers GPUs (a)")
    assert re.search(r"add kubeconfig: .*, or runtime: \{management: external, existing: \{device_plugin: ", said)

    assert checked(NO_PLUGIN.replace("resource_group: ml", f"resource_group: ml, {cure}"), capsys) == ""


EKS = (
    "cloud: aws, name: t, region: us-east-2, subnet_ids: [subnet-0a1b2c3d4e5f60718],"
    " node_role_arn: 'arn:aws:iam::123456789012:role/n'"
)
TWO = (
    "a: {clusters: [lab], gpu: L4, nodes: {max: 4}, network: {security_group_ids: [sg-0a1b2c3d4e5f60718]}}\n"
    "    b: {clusters: [lab], gpu: L4, nodes: {max: 4}}"
)


def test_security_groups_stand_once_on_the_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    said = checked(stack(EKS, TWO), capsys)
    assert "nodes of pool a are in security groups that the nodes of b are not in, so DNS" in said
    assert "set security_group_ids here, for all pools that name none" in said

    assert checked(stack(f"{EKS}, security_group_ids: [sg-0a1b2c3d4e5f60718]", TWO), capsys) == ""
    none = stack(f"{EKS}, security_group_ids: []", TWO.partition(", network")[0] + "}")
    assert "the cluster has further security groups, and the nodes of a are in none of them" in checked(none, capsys)
    assert checked(none.replace("ids: []", "ids: [sg-0a1b2c3d4e5f60718]"), capsys) == ""
    wrong = checked(stack(f"{EKS}, security_group_ids: [vpc-1]", TWO), capsys)
    assert "clusters.lab.security_group_ids" in wrong
    assert "write a security group id, such as sg-0a1b2c3d4e5f60718" in wrong


@pytest.mark.parametrize(
    ("cluster", "pool", "says", "cured"),
    [
        (EKS, "nodes: {max: 4}", "run Cluster Autoscaler for them", "nodes: {fixed: 4}"),
        (
            AKS,
            "nodes: {max: 4}",
            "AKS makes no pools with its own autoscaler beside it; use nodes",
            "nodes: {fixed: 4}",
        ),
    ],
    ids=["EKS", "AKS"],
)
def test_karpenter_scales_no_pool(
    cluster: str, pool: str, says: str, cured: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = stack(
        f"{cluster}, runtime: {{existing: {{karpenter: kube-system/karpenter}}}}",
        f"a: {{clusters: [lab], gpu: T4, {pool}}}",
    )
    said = checked(text, capsys)
    assert "kube-system/karpenter scales only nodes that it makes itself, so not those of a" in said
    assert says in said

    assert checked(text.replace(pool, cured), capsys) == ""


RESERVED = (
    "a: {clusters: [lab], instance_type: p4de.24xlarge, nodes: {max: 2},"
    " capacity: {mode: reservation, name: cr-0123456789abcdef0}}"
)


def test_reserved_machines_pass_a_list_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    said = checked(stack(EKS, RESERVED), capsys)
    assert "warning: pools.a.instance_type: p4de.24xlarge is not offered in us-east-2" in said
    assert "accepted, because it is reserved; clusters.lab.places: trust hides this" in said
    assert main(["check", "Pulumi.dev.yaml"]) == 0
    assert "warning" not in checked(stack(f"{EKS}, places: trust", RESERVED), capsys)

    assert "error" not in (refused := checked(stack(EKS, RESERVED.partition(", capacity")[0] + "}"), capsys))
    assert "is not offered in us-east-2" in refused
    assert main(["check", "Pulumi.dev.yaml"]) == 1


def test_a_price_that_no_pool_uses_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    rows = "type,region,price,currency\ng2-standard-48,europe-west4-a,3.20,USD\nother,europe-west4,1,USD\n"
    Path("own.csv").write_text(rows, encoding="utf-8")
    text = stack(more="  gpupools:prices: own.csv\n")
    said = checked(text, capsys)
    assert "own.csv:2: g2-standard-48 in europe-west4-a is no instance type and region of a pool" in said
    assert "1 more rows are not used either; write the region europe-west4" in said

    Path("own.csv").write_text(rows.replace("europe-west4-a", "europe-west4").partition("other")[0], encoding="utf-8")
    assert checked(text, capsys) == ""


def test_many_unknown_keys_are_not_all_listed(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ", ".join(f"k{number}: 1" for number in range(2_000))
    said = checked(stack(pool=f"{POOL[:-1]}, {keys}}}"), capsys).splitlines()

    assert len(said) == 21
    assert "unknown key; the nearest of 29: " in said[0]
    assert said[-1].endswith("and 1980 more unknown keys; fix or remove the reported ones first")


def test_many_pools_with_the_same_mistake_are_not_all_listed(capsys: pytest.CaptureFixture[str]) -> None:
    pools = {f"p{number}": {"clusters": ["lab"], "gpu": "L4", "nodes": {"max": 1}, "zzz": 1} for number in range(30)}
    clusters: Any = {"lab": dict(pair.split(": ") for pair in GKE.split(", "))}
    text = yaml.safe_dump({"config": {"gpupools:clusters": clusters, "gpupools:pools": pools}})
    said = checked(text, capsys).splitlines()

    assert len(said) == 21
    assert said[-1] == "Pulumi.dev.yaml: and 10 more: unknown key"


def test_a_pool_of_the_last_update_passes_a_list() -> None:
    pool = RESERVED.partition(", capacity")[0] + "}"
    config = yaml.safe_load(stack(EKS, pool))["config"]
    given = {key.removeprefix("gpupools:"): value for key, value in config.items()}
    with pytest.raises(Rejected):
        plan_config(given, clouds(), running={"lab-b"})

    (problem,) = places_against_lists(plan_config(given, clouds(), running={"lab-a"}))
    assert "accepted, because the pool exists" in str(problem)


TEAM_VALUES = {
    "guarantee": "{a: 4}",
    "limit": "{a: 4}",
    "lends_to": "[]",
    "weight": "2",
    "namespaces": "[nlp]",
}
WORDS = [each for each in other_keys() if each.used_by in ("Kueue", "Volcano", "KAI", "HAMi", "Karpenter", "Run:ai")]
TEAM_WORDS = [each for each in other_keys() if each.in_place in TEAM_VALUES and each.write.startswith(each.in_place)]


@pytest.mark.parametrize("row", TEAM_WORDS, ids=lambda row: f"{row.used_by} {row.key}")
def test_every_word_of_a_team_has_a_cure_that_checks(row: OtherKey, capsys: pytest.CaptureFixture[str]) -> None:
    """The word as a stack file has it, `nominalQuota` or `nominal_quota`, is refused with our key of the same level."""
    key, value = row.in_place, TEAM_VALUES[row.in_place]
    others = {name: text for name, text in {"namespaces": "[nlp]", "guarantee": "{a: 4}"}.items() if name != key}
    text = stack(KUEUE, more="  gpupools:teams:\n    nlp: {%s}\n")

    def keys(first: str) -> str:
        return ", ".join([f"{first}: {value}", *(f"{name}: {given}" for name, given in others.items())])

    said = checked(text % keys(re.sub("_(.)", lambda found: found[1].upper(), row.key)), capsys)
    assert f"unknown key; write {row.write}" in said
    assert row.write.startswith(f"{key}: ")
    checked(text % keys(key), capsys)
    assert main(["check", "Pulumi.dev.yaml"]) == 0


SCHEDULERS = [each for each in WORDS if each.in_place == "scheduler"]


@pytest.mark.parametrize("row", SCHEDULERS, ids=lambda row: row.key)
def test_every_scheduler_among_existing_software_has_a_cure_that_checks(
    row: OtherKey, capsys: pytest.CaptureFixture[str]
) -> None:
    said = checked(stack(f"{GKE}, {EXISTING}{{existing: {{{row.key}: a/b}}}}"), capsys)
    assert f"write {row.write}" in said
    teams = "  gpupools:teams:\n    nlp: {namespaces: [nlp], guarantee: {a: 4}}\n"
    cured = row.write.removeprefix("runtime: ").replace("<namespace>/<name>", "a/b")
    checked(stack(f"{GKE}, {EXISTING}{cured}", more=teams), capsys)
    assert main(["check", "Pulumi.dev.yaml"]) == 0


def test_karpenter_beside_the_software_moves_below_existing(capsys: pytest.CaptureFixture[str]) -> None:
    text = stack(f"{EKS}, runtime: {{karpenter: a/b}}", "a: {clusters: [lab], gpu: T4, nodes: {fixed: 4}}")
    assert "write runtime: {existing: {karpenter: <namespace>/<name>}}" in checked(text, capsys)
    checked(text.replace("{karpenter: a/b}", "{existing: {karpenter: a/b}}"), capsys)
    assert main(["check", "Pulumi.dev.yaml"]) == 0


def test_no_word_is_left_out_here() -> None:
    """The three that are left are in tests above."""
    left = [each.key for each in WORDS if each not in TEAM_WORDS and each not in SCHEDULERS]
    assert left == ["startup_taints", "karpenter", "mode=hami"]
