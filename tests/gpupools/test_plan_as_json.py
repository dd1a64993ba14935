"""What a plan says as JSON of who brings each piece, and why."""

from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_planner import plan_pool
from gpupools.stackfile.stack_validation import parse_cluster, parse_pool


def test_a_plan_as_json_names_who_brings_each_piece(fake_cloud: Cloud) -> None:
    keys = {
        "gpu": "A100-40GB",
        "nodes": {"max": 4},
        "sharing": {"mode": "time-slicing", "replicas": 2},
        "software": "gpu-operator",
        "trust": {"team": "vision"},
    }
    cluster = parse_cluster((), {"cloud": "fake", "name": "lab-dev", "region": "north"}, {"fake": fake_cloud})
    written = plan_pool("a", parse_pool(("pools", "a"), keys), "lab", cluster, fake_cloud).as_json()

    assert written["owners"] == {
        "driver": "driver of gpu-operator",
        "container_toolkit": "toolkit of gpu-operator",
        "device_plugin": "plugin of gpu-operator",
    }
    assert (written["verdict"], written["why"]) == ("in-cluster", "a chart brings it")
    assert written["source"] == "https://example.com/in-cluster"
    assert written["trust"] == {"team": "vision"}
    assert (written["sharing_kind"], written["nodes"]) == ("time-slicing", {"min": 0, "max": 4})
