"""Every cause is named from what a cluster shows, and no state before it is called ready."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from gpupools.cli.explain import _found
from gpupools.common.csv_rows import csv_rows, data_rows
from gpupools.providers import clouds
from gpupools.ready.causes import CAUSES, SIGNALS, Seen, findings
from gpupools.ready.pool_status import quantity
from gpupools.ready.same_cluster import own_group, prove
from gpupools.stackfile.check import check_stack_file
from tests.gpupools.ready.scripts import SCRIPTS, Script
from tests.gpupools.ready.world import FILE, OLD, World, plan

NAMES = [f"{each.cause}-{each.cluster}" for each in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_cause_is_named_and_no_prefix_is_wrongly_ready(script: Script) -> None:
    world = World(script.cluster, script.pool)
    for step in (lambda w: None, *script.steps):
        step(world)
        status = world.status()
        assert not status.is_ready or world.holds_plan(), status
    assert not status.is_ready
    assert status.findings[0].cause.cause == script.cause, status
    assert {each.cause.cause for each in status.findings} == {script.cause}, status
    assert status.findings[0].object
    assert status.findings[0].message
    assert "{" not in status.findings[0].next
    world.heal()
    assert world.status().is_ready
    assert world.holds_plan()


def test_each_cause_has_two_scripts_on_different_clouds() -> None:
    assert set(Counter((each.cause, each.cluster) for each in SCRIPTS).values()) == {1}
    assert set(Counter(each.cause for each in SCRIPTS).values()) == {2}
    assert len(SCRIPTS) == 32


def test_each_cause_has_a_signal_with_a_public_source() -> None:
    assert {each.cause for each in SIGNALS} == set(CAUSES) - {"unknown"}
    assert all(urlsplit(each.source).scheme == "https" for each in SIGNALS)


AZURE = "azure:///subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups"


@pytest.mark.parametrize(
    ("cluster", "provider", "name", "is_foreign"),
    [
        ("train", "aws:///eu-west-2a/i-1", "n", False),
        ("train", "gce://ml-lab-1/europe-west4-a/n", "n", True),
        ("train", "", "n", False),
        ("serve", f"{AZURE}/MC_ml_serve_westeurope/providers/x", "n", False),
        ("serve", f"{AZURE}/nodes-of-serve/providers/x", "n", False),
        ("serve", f"{AZURE}/mc_ml_serve2_westeurope/providers/x", "n", True),
        ("serve", AZURE.replace("1111", "9999") + "/mc_ml_serve_westeurope", "n", True),
        ("lab", "gce://ml-lab-1/europe-west4-a/n", "gke-lab-whole-1", False),
        ("lab", "gce://ml-lab-1/europe-west4-ai1a/n", "gke-lab-whole-1", False),
        ("lab", "gce://ml-lab-1/europe-west41-a/n", "gke-lab-whole-1", True),
        ("lab", "gce://ml-lab-2/europe-west4-a/n", "gke-lab-whole-1", True),
        ("lab", "gce://ml-lab-1/europe-west4-a/n", "gke-other-whole-1", True),
    ],
)
def test_nodes_of_another_cluster(cluster: str, provider: str, name: str, is_foreign: bool) -> None:
    given = plan().stack.clusters[cluster]
    node = {"metadata": {"name": name}, "spec": {"providerID": provider} if provider else {}}
    assert bool(prove(given, clouds()[given.cloud], [node], ("", "")).other) == is_foreign


def test_a_hybrid_node_does_not_make_a_cluster_another() -> None:
    world = World("train", "whole")
    world.heal()
    world.put(
        "nodes", {"metadata": {"name": "x", "labels": {}}, "spec": {"providerID": "eks-hybrid:///eu/x"}, "status": {}}
    )
    assert world.status().is_ready


@pytest.mark.parametrize(
    ("group", "cause"),
    [
        ("train-whole-nodes-3f2a1bc", ""),
        ("acme-prod-train-whole-nodes", ""),  # with autonaming of Pulumi
        ("dev-whole-nodes-3f2a1bc", "other-group"),
        ("train-zero-nodes-3f2a1bc", "other-group"),
    ],
)
def test_nodes_of_another_node_group(group: str, cause: str) -> None:
    world = World("train", "whole")
    world.heal()
    world.label("eks.amazonaws.com/nodegroup", group, "h0")
    status = world.status()
    assert [each.cause.key for each in status.findings] == ([cause] if cause else [])
    assert not cause or "found " + group in status.short[0]


def test_old_events_are_no_cause() -> None:
    world = World("lab", "zero")
    world.waiting()
    world.event("Pod default/job", "FailedScaleUp", "GCE quota exceeded. Pod is at risk", last=OLD)
    assert "quota" not in [each.cause.cause for each in world.status().findings]


def test_a_backoff_of_the_autoscaler_is_no_cause_while_a_node_is_there() -> None:
    world = World("lab", "zero")
    world.autoscaler("gke-lab-zero-mapd-0123abcd-grp", errorCode="QUOTA_EXCEEDED", errorMessage="quota")
    world.node()
    world.daemons(1, "driver")
    world.stuck("driver", "nvidia-driver-installer", init=True, running={})
    assert [each.cause.key for each in world.status().findings] == ["starts"]


def test_what_fits_no_cause_is_unknown_with_what_was_seen() -> None:
    world = World("train", "whole")
    world.nodes(2)
    world.daemons(2)
    (finding,) = world.status().findings
    assert finding.cause.cause == "unknown"
    assert "Node n1: nvidia.com/gpu: promised 8, allocatable 0" in finding.message


@pytest.mark.parametrize(("text", "number"), [("8", 8), ("10256Mi", 10256 * 2**20), ("500m", 0.5), (None, 0), ("x", 0)])
def test_quantity(text: str | None, number: float) -> None:
    assert quantity(text) == number


UUID = "20c7b1e2-abcd-4f00-9a1b-0123456789ab"


@pytest.mark.parametrize(
    ("cluster", "pool", "text", "is_own"),
    [
        ("train", "gpu", f"Failed to scale-up group eks-train-gpu-nodes-1a2b3c4-{UUID}: x", True),
        ("train", "gpu", f"eks-train-gpu-large-nodes-1a2b3c4-{UUID}", False),
        ("train", "gpu-large", f"eks-train-gpu-large-nodes-1a2b3c4-{UUID}", True),
        ("train", "gpu-large", f"eks-train-gpu-nodes-1a2b3c4-{UUID}", False),
        ("train", "gpu", f"eks-acme-train-gpu-nodes-{UUID}", None),  # by autonaming, or another stack's
        ("train", "old", f"eks-gpu-{UUID}", True),
        ("train", "old", f"eks-gpu-2-{UUID}", None),
        ("train", "old", f"eks-cpu-{UUID}", False),
        ("serve", "gpu", "Scale-up failed for group aks-{name}-31046788-vmss: Code", True),
        ("serve", "gpu", "aks-gpu1x2y-31046788-vmss", None),  # before the last `pulumi up`
        ("serve", "gpu", "aks-{gpu-large}-31046788-vmss", None),
        ("serve", "gpu-large", "aks-{name}-31046788-vmss", True),
        ("serve", "gpu-large", "aks-{gpu}-31046788-vmss", False),
        ("serve", "gpu-largest", "aks-{gpu-large}-31046788-vmss", None),  # both begin with gpularge
        ("serve", "gpu", "aks-cpu-31046788-vmss", False),
        ("lab", "gpu", "https://x/zones/europe-west4-a/instanceGroups/gke-lab-{name}-0a1b2c3d-grp", True),
        ("lab", "gpu", "gke-lab-{gpu-large}-0a1b2c3d-grp", None),
        ("lab", "gpu-large", "gke-lab-{gpu}-0a1b2c3d-grp", False),
        ("lab", "old", "gke-lab-gpu-0a1b2c3d-grp", True),
        ("lab", "old", "gke-lab-big-gpu-0a1b2c3d-grp", None),
        ("lab", "gpu", "gke-lab-default-pool-0a1b2c3d-grp", False),
    ],
)
def test_a_node_group_is_the_pools_anothers_or_unknown(
    cluster: str, pool: str, text: str, is_own: bool | None, tmp_path: Path
) -> None:
    config = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    common = {"clusters": [cluster], "gpu": "T4", "nodes": {"max": 2}, "software": "device-plugin"}
    named = {"gpu": {}, "gpu-large": {}, "gpu-largest": {}, "old": {"adopt": {"name": "gpu"}}}
    config["gpupools:clusters"] = {cluster: config["gpupools:clusters"][cluster]}
    config["gpupools:pools"] = {name: {**common, **more} for name, more in named.items()}
    file = tmp_path / "Pulumi.groups.yaml"
    file.write_text(yaml.safe_dump({"config": config}))
    found = check_stack_file(file, clouds()).plan
    given, pools = found.stack.clusters[cluster], {each.name: each for each in found.pools}
    order = clouds()[given.cloud].node_pools.order
    names = {name: order.names(each, given)[0] for name, each in pools.items()}
    judge = own_group(pools[pool], given, clouds()[given.cloud])
    assert judge(text.format(name=names[pool], **names)) is is_own


ROWS = [row for row in data_rows("ready_signals.csv") if row["answers"] == "both"]
ROWS += [row for cloud in clouds().values() for row in cloud.rows("launch_errors.csv")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["text"])
def test_an_error_text_has_one_answer(row: Mapping[str, str]) -> None:
    text, kind = row["text"].replace("…", " x "), {"launch": "event", "device": "container"}
    seen = Seen(kind.get(row["kind"], row["kind"]), "Pod a/b", text, name=row["name"].replace("*", "c"))
    (finding,) = findings([seen], clouds().values(), "FILE", "COMMAND")
    explained = _found(text)

    assert finding.cause.key != "unknown"
    assert any(each.what.endswith(f"Next: {finding.cause.cure}.") for each in explained), (finding, explained)
    assert {tuple(csv_rows(cloud.folder / "launch_errors.csv")[0]) for cloud in clouds().values() if cloud.folder} == {
        tuple(data_rows("ready_signals.csv")[0])
    }
