"""The jobs under examples/teams fit the pools and queues of the stack file beside them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "teams"
NAMES = ["notebook", "training", "gang", "search", "inference", "slice"]
SCHEDULERS = ["kueue", "volcano", "kai"]


def planned(scheduler: str, folder: Path) -> StackPlan:
    if scheduler == "kai":
        return check_stack_file(FOLDER / "Pulumi.kai.yaml", clouds()).plan
    text = (FOLDER / "Pulumi.jobs.yaml").read_text(encoding="utf-8")
    file = folder / "Pulumi.jobs.yaml"
    file.write_text(text.replace("scheduler: kueue", f"scheduler: {scheduler}"), encoding="utf-8")
    return check_stack_file(file, clouds()).plan


def template(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    found: dict[str, Any] = spec["tasks"][0]["template"] if "tasks" in spec else spec["template"]
    return found


def queue(scheduler: str, manifest: dict[str, Any]) -> str:
    """Return the queue that a job names, as the scheduler reads it."""
    meta = template(manifest).get("metadata", {})
    if scheduler == "kai":
        return str(meta["labels"]["kai.scheduler/queue"])
    if scheduler == "volcano":
        return str(manifest["spec"].get("queue") or meta["annotations"]["scheduling.volcano.sh/queue-name"])
    return str(manifest["metadata"]["labels"].get("kueue.x-k8s.io/queue-name", "default"))


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_each_job_asks_for_what_its_pool_has_and_names_a_queue_that_exists(scheduler: str, tmp_path: Path) -> None:
    plan = planned(scheduler, tmp_path)
    pools = {pool.name: pool for pool in plan.pools}
    (runtime,) = plan.runtimes
    made = {(each["kind"], each["metadata"]["name"]) for each in runtime.json_team_objects()}
    found = list(yaml.safe_load_all((FOLDER / f"{scheduler}.yaml").read_text(encoding="utf-8")))
    spaces = {space for team in plan.stack.teams.values() for space in team.namespaces}

    assert [each["metadata"]["name"] for each in found] == NAMES
    for each in found:
        spec = template(each)["spec"]
        pool: PoolPlan = pools[spec["nodeSelector"]["gpupools/pool"]]
        (container,) = spec["containers"]
        limits = container.get("resources", {}).get("limits", {})
        annotated = template(each).get("metadata", {}).get("annotations", {})
        if pool.sharing.fractions is None:
            assert limits
        else:
            assert (runtime.pod_metadata[pool.name]["annotations"], limits) == (annotated, {})
        assert limits.keys() <= pool.node_resources.keys()
        assert all(count <= pool.node_resources[name] for name, count in limits.items())
        tolerated = {toleration["key"] for toleration in spec["tolerations"]}
        assert {taint.key for taint in pool.taints} <= tolerated
        assert each["metadata"]["namespace"] in spaces
        assert ("LocalQueue" if scheduler == "kueue" else "Queue", queue(scheduler, each)) in made
        assert "tolerations" in pool.pod()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_gang_is_one_and_the_search_has_four_at_a_time(scheduler: str) -> None:
    found = {each["metadata"]["name"]: each for each in yaml.safe_load_all((FOLDER / f"{scheduler}.yaml").read_text())}
    gang, search = found["gang"], found["search"]["spec"]

    assert (search["parallelism"], search["completions"]) == (4, 20)
    if scheduler == "volcano":
        assert gang["spec"]["minAvailable"] == gang["spec"]["tasks"][0]["replicas"] == 4
    else:
        assert gang["spec"]["parallelism"] == gang["spec"]["completions"] == 4
    if scheduler == "kai":  # https://github.com/kai-scheduler/KAI-Scheduler, docs/batch/README.md
        assert gang["metadata"]["annotations"] == {"kai.scheduler/batch-min-member": "4"}
