"""The objects of teams are declared whole, also keys beside `spec`, which the SDK's class for other kinds lacks."""

import json
from pathlib import Path

import pytest

from gpupools.cli.main import main

QUEUES = Path(__file__).parents[2] / "examples" / "teams" / "Pulumi.queues.yaml"
API = "kubernetes:kueue.x-k8s.io/v1beta2"


def test_the_program_declares_every_object_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", str(QUEUES), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    made = {(each["type"].removeprefix(f"{API}:"), each["name"]): each for each in answer["resources"]}
    kinds = {kind for kind, _ in made}

    assert kinds >= {"ResourceFlavor", "ClusterQueue", "LocalQueue", "Cohort", "WorkloadPriorityClass"}
    inputs = made["WorkloadPriorityClass", "train-runtime-priority-class-interactive"]["inputs"]
    assert (inputs["apiVersion"], inputs["kind"], inputs["value"]) == (
        API.partition(":")[2],
        "WorkloadPriorityClass",
        1000,
    )
    queue = made["ClusterQueue", "train-runtime-cluster-queue-research"]["inputs"]["spec"]
    assert queue["cohortName"] == "gpupools"
    assert all(each["verdict"] == "pass" for each in answer["policy"]), "a policy does not understand an object"


@pytest.mark.parametrize(("scheduler", "kinds"), [("kai", {"Queue", "SchedulingShard"}), ("volcano", {"Queue"})])
def test_the_policies_know_the_objects_of_the_other_schedulers(
    scheduler: str, kinds: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.queues.yaml"
    text = QUEUES.read_text(encoding="utf-8").replace("scheduler: kueue", f"scheduler: {scheduler}")
    file.write_text(text, encoding="utf-8")

    assert main(["preview", str(file), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert kinds <= {each["type"].rpartition(":")[2] for each in answer["resources"]}
    assert all(each["verdict"] == "pass" for each in answer["policy"])
