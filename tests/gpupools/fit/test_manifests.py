"""Manifests become workloads: pods by role, gangs and queues of every kind, and one line for each mistake."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.common.csv_rows import data_rows
from gpupools.fit.answers import answers
from gpupools.fit.manifests import read_manifests
from gpupools.fit.workloads import CHANNEL, Manifests
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "teams"
CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x"},
    "spec": {"containers": [{"name": "main", "image": "none"}]},
}


def by_id(name: str) -> Any:
    """Return the manifest of a case."""
    return next(case["manifest"] for case in CASES if case["id"] == name)


def read(folder: Path, *objects: Any) -> Manifests:
    """Return what a file of these objects has."""
    file = folder / "f.yaml"
    file.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    return read_manifests([file], "default")


def changed(path: str, value: Any, base: Any) -> Any:
    """Return an object with another value at a path of keys and indexes."""
    made = copy.deepcopy(base)
    *above, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    inner = made
    for key in above:
        inner = inner[key]
    inner[last] = value
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_pods_and_gangs_of_a_kind(tmp_path: Path, case: Any) -> None:
    (found,) = read(tmp_path, case["manifest"]).workloads

    assert [[each.role.lower(), each.pods] for each in found.templates] == [
        [role.lower(), pods] for role, pods in case["pods"]
    ]
    assert {name: size for name, size in found.gangs.items() if size} == case.get("gangs", {})
    assert found.groups == case.get("groups", 1)
    assert "least" not in case or [each.least for each in found.templates] == case["least"]
    assert [sorted(each.after) for each in found.templates] == case.get("after", [[] for _ in found.templates])
    assert found.queue == case.get("queue", "")
    assert (bool(found.unknown), bool(found.note)) == (case.get("unknown", False), case.get("note", False))


def test_every_kind_of_the_table_has_a_case() -> None:
    told = {(case["manifest"]["kind"], case["manifest"]["apiVersion"].rpartition("/")[0]) for case in CASES}

    assert {(row["kind"], row["group"]) for row in data_rows("workload_kinds.csv")} <= told


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("[!P]*.yaml")), ids=lambda file: file.name)
def test_the_examples_of_teams_are_read(file: Path) -> None:
    found = read_manifests([file], "default")

    assert len(found.workloads) == file.read_text(encoding="utf-8").count("\nkind: ")
    assert not any(
        each.gangs.get(name) for each in found.workloads if each.name != "gang" for name in ("kai", "volcano")
    )
    assert not found.not_read


def test_a_task_of_volcano_has_the_scheduler_of_its_job(tmp_path: Path) -> None:
    case = by_id("Volcano job of all its pods")

    assert read(tmp_path, case).workloads[0].templates[0].spec["schedulerName"] == "volcano"


@pytest.mark.parametrize("total", [2, 3])
def test_pods_of_a_group_of_kueue_are_one_workload(tmp_path: Path, total: int) -> None:
    """As https://github.com/kubernetes-sigs/kueue tag v0.19.2 site/static/examples/pods-kueue/kueue-pod-group.yaml."""
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/pod-group-name": "sample-group"}
    metadata = {"labels": labels, "annotations": {"kueue.x-k8s.io/pod-group-total-count": str(total)}}
    pods = [{**POD, "metadata": {"generateName": name, **metadata}} for name in ("sample-leader-", "sample-worker-")]
    found, other = read(tmp_path, pods[0], POD, pods[1]).workloads

    assert (found.name, found.gangs["kueue"], other.name) == ("sample-group", total, "x")
    assert [(each.role, each.pods) for each in found.templates] == [("sample-leader-", 1), ("sample-worker-", 1)]
    assert found.note == ("" if total == 2 else "Kueue waits for 3 pods of the group, of which 2 are in the file")


def test_claims_of_a_set_are_volumes_of_its_pods(tmp_path: Path) -> None:
    item = changed("spec/volumeClaimTemplates", [{"metadata": {"name": "data"}}], by_id("stateful set"))
    (volume,) = read(tmp_path, item).workloads[0].templates[0].spec["volumes"]

    assert "persistentVolumeClaim" in volume


DEPLOYMENT = by_id("deployment")


def gpus(amount: Any) -> Any:
    """Return a container, as https://github.com/awslabs/awsome-distributed-ai has those with variables."""
    return {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": amount}}}


MISTAKES = (
    ("no containers", changed("spec/containers", [], POD), "spec: has no containers; give"),
    ("containers a map", changed("spec/containers", {"a": 1}, POD), "got a map with 'a'; write a list"),
    ("a container null", changed("spec/containers/0", None, POD), "spec.containers[0]: got null; write a map"),
    ("a container a text", changed("spec/containers/0", "a", POD), "spec.containers[0]: got 'a'; write a map"),
    ("replicas a text", changed("spec/replicas", "3", DEPLOYMENT), "spec.replicas: got '3'; write a whole number"),
    ("replicas negative", changed("spec/replicas", -1, DEPLOYMENT), "spec.replicas: got -1; write a whole number"),
    ("replicas true", changed("spec/replicas", True, DEPLOYMENT), "spec.replicas: got true; write a whole number"),
    ("replicas huge", changed("spec/replicas", 10**12, DEPLOYMENT), "got 1000000000000; write a whole number"),
    (
        "no task",
        changed("spec/tasks", [], by_id("Volcano job of all its pods")),
        "has no pod template; add spec.tasks[].template",
    ),
    ("no name", changed("metadata", {}, POD), "metadata: has no name; add metadata.name"),
    ("labels a list", changed("metadata/labels", ["a"], POD), "metadata.labels: got a list of 1; write a map"),
    ("a label a number", changed("metadata/labels", {"a": 1}, POD), "metadata.labels.a: got 1; write a text"),
    ("a selector true", changed("spec/nodeSelector", {"a": True}, POD), "spec.nodeSelector.a: got true; write a text"),
    ("placeholder", changed("spec/nodeSelector", {"a": "{{ .x }}"}, POD), "helm template CHART > FILE"),
    ("placeholder for a number", changed("spec/replicas", "{{ .x }}", DEPLOYMENT), "helm template CHART > FILE"),
    ("variable for a number", changed("spec/replicas", "${N}", DEPLOYMENT), "got '${N}'; fill in the variables first"),
    (
        "variable for GPUs",
        changed("spec/containers/0", gpus("${GPUS}"), POD),
        "spec: has a variable in a selector or among resources; fill in the variables first: envsubst",
    ),
    ("no quantity", changed("spec/containers/0", gpus("eight"), POD), "nvidia.com/gpu: got 'eight'; write a quantity"),
    ("less than nothing", changed("spec/containers/0", gpus(-1), POD), "nvidia.com/gpu: got -1; write a quantity"),
    (
        "variable for a machine",
        changed("spec/nodeSelector", {"node.kubernetes.io/instance-type": "$INSTANCE_TYPE"}, POD),
        "spec: has a variable in a selector or among resources; fill in the variables first: envsubst",
    ),
    (
        "gang above its pods",
        changed("metadata/annotations", {"scheduling.volcano.sh/group-min-member": "9"}, DEPLOYMENT),
        "starts with 9 pods at once, by scheduling.volcano.sh/group-min-member, and makes 3; lower the first",
    ),
)


@pytest.mark.parametrize(("item", "said"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES])
def test_a_mistake_is_one_line_with_its_place_and_fix(tmp_path: Path, item: Any, said: str) -> None:
    found = read(tmp_path, item)

    (problem,) = found.problems
    assert not found.workloads
    assert said in str(problem)
    assert str(problem).startswith(f"{tmp_path}/f.yaml:")


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 3},
        {"template": {"spec": {"nodeSelector": {"gpupools/pool": "big"}}}},
        {"template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}}},
        {"template": {"spec": {"$patch": "replace", "nodeSelector": {}}}},
    ],
    ids=["the replicas", "the selector", "the resources", "a directive"],
)
def test_a_patch_of_kustomize_is_not_read_and_not_wrong(tmp_path: Path, spec: Any) -> None:
    """As https://github.com/kubernetes-sigs/kustomize/blob/master/examples/patchMultipleObjects.md has them."""
    patch = {**DEPLOYMENT, "spec": spec}
    named = read(tmp_path, patch)
    found = read_manifests([tmp_path], "default")

    assert (found.workloads, found.problems) == ((), ())
    assert (found.not_read, read(tmp_path, patch, POD).problems) == (named.not_read, ())
    (problem,) = named.problems
    assert f"{tmp_path}/f.yaml:1: Deployment: names no image, so nothing is judged; add the image" in str(problem)
    ((kind, number),) = found.not_read.items()
    assert (kind.startswith("Deployment that may be a patch"), number) == (True, 1)
    assert "kubectl kustomize FOLDER" in kind


def test_braces_in_the_words_of_a_program_are_no_placeholder(tmp_path: Path) -> None:
    item = changed("spec/containers/0", {"name": "main", "image": "none", "args": ["--chat-template={{ x }}"]}, POD)

    assert len(read(tmp_path, item).workloads) == 1


def test_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("{{- if x }}\na: b\n{{- end }}\n")
    (tmp_path / "b.yaml").write_text(yaml.safe_dump_all([POD, POD]))
    (tmp_path / "overlay.yaml").write_text(yaml.safe_dump(POD))
    found = read_manifests([tmp_path / "none.yaml", tmp_path], "default")

    assert [Path(each.file).name for each in found.workloads] == ["b.yaml", "overlay.yaml"]
    missing, template, twice = map(str, found.problems)
    assert missing.endswith("none.yaml: there is no such file")
    assert template.endswith("a.yaml: is a template; check what it renders: helm template CHART > FILE")
    assert twice.endswith(f"b.yaml:10: Pod x is also at {tmp_path}/b.yaml:1; keep one")


def test_a_folder_skips_other_files_and_a_named_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("a: 1\n")
    (tmp_path / "pod.json").write_text(json.dumps(POD))
    (tmp_path / "broken.yaml").write_text("kind: Pod\nmetadata: {name: [}\n")

    found = read_manifests([tmp_path], "default")
    assert [each.name for each in found.workloads] == ["x"]
    assert found.not_read == {
        f"file that is neither JSON nor YAML: {tmp_path}/broken.yaml": 1,
        "file without a Kubernetes object": 1,
    }
    (problem,) = read_manifests([tmp_path / "values.yaml"], "default").problems
    assert "is not a Kubernetes object" in str(problem)


def test_definitions_of_kinds_in_a_folder_are_not_parsed(tmp_path: Path) -> None:
    """They are megabytes of schemas; one that is no YAML shows that, and what follows keeps its lines."""
    definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: [\n"
    (tmp_path / "bundle.yaml").write_text(f"# All.\n---\n{definition}---\n{yaml.safe_dump(POD)}")
    (tmp_path / "only.yaml").write_text(definition)
    found = read_manifests([tmp_path], "default")

    assert [(each.name, each.line) for each in found.workloads] == [("x", 7)]
    assert found.problems == ()
    (problem,) = read_manifests([tmp_path / "only.yaml"], "default").problems
    assert "is not YAML" in str(problem)


def test_claims_namespaces_and_webhooks_are_kept(tmp_path: Path) -> None:
    devices = {"requests": [{"name": "gpu"}]}
    rule = {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}
    hook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    claim = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "c", "namespace": "n"}}
    channel = {"channel": {"resourceClaimTemplate": {"name": "own"}}}
    found = read(
        tmp_path,
        {"apiVersion": "v1", "kind": "List", "items": [POD]},
        claim | {"kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": devices}}},
        claim | {"kind": "ResourceClaim", "spec": {"devices": devices}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "b"}}},
        hook | {"metadata": {"name": "of pods"}, "webhooks": [{"rules": [rule]}]},
        hook | {"metadata": {"name": "of jobs"}, "webhooks": [{"rules": [rule | {"resources": ["jobs"]}]}]},
        claim | {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "spec": channel},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "i"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "i"}},
        None,
    )

    assert [each.name for each in found.workloads] == ["x"]
    of_files = {(kind, "n", "c"): devices for kind in ("ResourceClaim", "ResourceClaimTemplate")}
    assert found.claims == {**of_files, ("ResourceClaimTemplate", "n", "own"): CHANNEL}
    assert found.namespaces == {"n": {"a": "b"}}
    assert found.webhooks == ("of pods",)
    assert found.not_read == {"ScaledObject.keda.sh": 1}


def test_no_change_of_a_value_ends_in_a_traceback(tmp_path: Path) -> None:
    """Each value of each case is replaced, and removed; what is read then is judged."""
    chosen, plan = random.Random(47), check_stack_file(EXAMPLES / "Pulumi.kai.yaml", clouds()).plan
    affinity = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [affinity]}}
    more = {"affinity": {"nodeAffinity": required}, "volumes": [{"name": "a", "hostPath": {"path": "/a"}}]}
    pod = {**POD, "spec": {**POD["spec"], **more}}
    odd: tuple[Any, ...] = (
        None,
        True,
        -1,
        2**40,
        1.5,
        "",
        "x",
        "{{ x }}",
        [],
        [1],
        {},
        {"a": None},
        [[]],
        {"spec": {"containers": [1]}},
    )
    said: list[str] = []
    for manifest in (*(case["manifest"] for case in CASES), *[pod] * 5):
        for path in _paths(manifest, ""):
            item = changed(path, chosen.choice(odd), manifest)
            (tmp_path / "f.json").write_text(json.dumps(item), encoding="utf-8")
            found = read_manifests([tmp_path / "f.json"], "default")
            for answer in answers(found, {"kai": plan}, "", clouds()):
                answer.as_json()
            said += map(str, found.problems)

    assert len(said) > 100
    assert not any("\n" in line for line in said)


def _paths(value: Any, at: str) -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [
        path for key, inner in items if "/" not in str(key) for path in (f"{at}{key}", *_paths(inner, f"{at}{key}/"))
    ]
