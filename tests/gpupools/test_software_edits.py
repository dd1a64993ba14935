"""What an edit does to the software of a cluster: every step has words, and production loses none of it unasked."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main
from gpupools.diff.guard import Earlier, GuardReport, judge, read_earlier
from gpupools.diff.records import record
from gpupools.diff.software_diff import (
    ACCESS,
    IDENTITY,
    SoftwareChange,
    SoftwareRecord,
    moved_clusters,
    pools_of_steps,
    protected_steps,
    record_software,
    software_edit,
    software_edits,
)
from gpupools.plan.edit_tables import EditEffect
from gpupools.providers import clouds
from gpupools.software.charts import charts
from gpupools.spec.models import LATE
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan, plan_config
from tests.changes import diff, diff_software
from tests.gpupools.test_diff import CLUSTERS as BARE
from tests.gpupools.test_diff import MACHINES, written

ROOT = Path(__file__).parents[2]
STACKS = sorted(ROOT.glob("**/stacks/Pulumi.*.yaml"))
CLUSTERS: dict[str, dict[str, Any]] = {
    key: {**cluster, "kubeconfig": {"path": f"~/.kube/{key}"}} for key, cluster in BARE.items()
}


def pool(cluster: str, software: str = "gpu-operator", **keys: Any) -> dict[str, Any]:
    return {
        "clusters": [cluster],
        "instance_type": MACHINES[cluster],
        "nodes": {"max": 4},
        "software": software,
        **keys,
    }


def planned(folder: Path, pools: Mapping[str, Any], clusters: Mapping[str, Any] = CLUSTERS, **keys: Any) -> StackPlan:
    config = {"clusters": dict(clusters), "pools": dict(pools), **keys}
    content = {"config": {f"gpupools:{key}": value for key, value in config.items()}}
    return check_stack_file(written(folder, "software", content), clouds()).plan


def with_runtime(cluster: str, runtime: Mapping[str, Any]) -> dict[str, Any]:
    return {**CLUSTERS, cluster: {**CLUSTERS[cluster], "runtime": dict(runtime)}}


def changes(old: StackPlan, new: StackPlan) -> list[SoftwareChange]:
    return diff_software(old, new, diff(old, new, clouds()))


def recorded(was: StackPlan) -> Earlier:
    software = (record_software(each, was.stack).as_json() for each in was.runtimes)
    read = (SoftwareRecord.from_json(json.loads(json.dumps(each))) for each in software)
    return Earlier(
        tuple(record(plan, was.stack) for plan in was.pools), software=tuple(each for each in read if each is not None)
    )


def judged(was: StackPlan, now: StackPlan) -> GuardReport:
    return judge(recorded(was), now, clouds())


def refused(was: StackPlan, now: StackPlan) -> list[str]:
    return [str(refusal.problem) for refusal in judged(was, now).forbidden.values()]


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.name)
def test_every_step_of_a_stack_has_words_when_it_comes_goes_and_changes(file: Path) -> None:
    plan = check_stack_file(file, clouds()).plan
    nothing = plan._replace(runtimes=tuple(each._replace(releases=(), objects=()) for each in plan.runtimes))

    steps = {(each.cluster, step) for each in plan.runtimes for step in each.depends if not step.startswith("pool/")}
    for old, new, change in ((plan, nothing, "removed"), (nothing, plan, "added")):
        found = changes(old, new)
        assert {(each.cluster, each.step) for each in found} == steps
        for each in found:
            assert each.change == change
            assert each.pods
            row = software_edit(each.of, change)
            assert change == "added" or row.of == each.of, f"{each.of} has no row of its own"
    assert changes(plan, plan) == []
    for runtime in plan.runtimes:
        for step in record_software(runtime, plan.stack).steps.values():
            for name in step.values.keys() - {"apiVersion", "kind"}:
                if step.of in charts() and name.partition(".")[0] in ("version", "values"):
                    continue  # a row of release_edits.csv: see software/test_changes.py
                assert software_edit(step.of, "changed", name).effect is not EditEffect.UNKNOWN or step.of == ACCESS, (
                    f"{step.of} {name}"
                )


def test_every_row_is_of_a_step_that_some_stack_has(tmp_path: Path) -> None:
    plans = [check_stack_file(file, clouds()).plan for file in STACKS]
    claims = {
        "a": pool("train", "dra-driver", nodes={"min": 1, "max": 2}),
        "b": pool("train", "device-plugin", image={"family": "al2023"}),
        "c": pool("train", "hami", nodes={"fixed": 1}, trust={"team": "vision"}),
    }
    plans.append(planned(tmp_path, claims, with_runtime("train", {"smoke_test": True})))
    networks = {"monitoring_namespace": "monitoring", "block_instance_metadata": True}
    trusted = {"a": pool("serve", trust={"namespaces": ["team"]})}
    plans.append(planned(tmp_path, trusted, with_runtime("serve", networks)))
    buffers = {"cluster_autoscaler": {"name": "kube-system/ca", "capacity_buffers": True}}
    kept = {"a": pool("train", nodes={"max": 4, "spare": 1})}
    plans.append(planned(tmp_path, kept, with_runtime("train", {"existing": buffers})))
    near = {"instance_type": "a3-megagpu-8g", "network": {"placement": "compact"}, "zones": ["europe-west4-a"]}
    teams = {"research": {"namespaces": ["research"], "guarantee": {"near": 8, "later": 1}}}
    shared = {
        "near": {"clusters": ["train"], "nodes": {"fixed": 1}, **near},
        "later": {"clusters": ["train"], "gpu": "L4", "nodes": {"max": 1}, "capacity": {"mode": "queued"}},
    }
    gke = {**clouds()["gcp"].example_cluster, "places": "trust", "kubeconfig": {"path": "~/.kube/train"}}
    for scheduler in ("kueue", "kai", "volcano"):
        own = {"scheduler": scheduler, "trust_policy": True}
        plans.append(planned(tmp_path, shared, {"train": {**gke, "runtime": own}}, teams=teams))
        shared, teams = {"near": shared["near"]}, {"research": {"namespaces": ["research"], "guarantee": {"near": 8}}}
    kinds = {
        step.of
        for plan in plans
        for runtime in plan.runtimes
        for step in record_software(runtime, plan.stack).steps.values()
    }

    assert {row.of for row in software_edits()} - {"*", "aws-efa-k8s-device-plugin"} <= kinds
    assert all(row.pods and row.source for row in software_edits())


def test_giving_the_software_to_a_team_is_no_edit_without_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = with_runtime("lab", {"management": "external", "existing": {"gpu_operator": "gpu/operator"}})
    pools = {"a": pool("lab")}
    texts = [
        {"config": {"gpupools:production": True, "gpupools:clusters": dict(each), "gpupools:pools": pools}}
        for each in (CLUSTERS, theirs)
    ]
    files = [str(written(tmp_path, name, text)) for name, text in zip(("old", "new"), texts, strict=True)]

    assert main(["diff", *files, "--exit-code", "--verbose"]) == 3
    said = capsys.readouterr().out.splitlines()
    assert "unchanged: lab/a" in said
    at = said.index("lab: removes chart gpu-operator v26.7.0 (for a)")
    assert "  clusters.lab.runtime none → {management: external, existing: {gpu_operator: gpu/operator}}" in said
    assert any(line.startswith("  running pods keep their GPUs; ") for line in said[at:])
    for what in ("Namespace gpu-operator", "DaemonSet kube-system/gpupools-driver-installer", "ResourceQuota "):
        assert [line for line in said if f"lab: removes {what}" in line], what
    assert [line for line in said if "pulumi up rejects" in line][-1].startswith(
        "  pulumi up rejects this: lab has software of the production pool a; if this is intended:"
    )
    assert main(["diff", *files, "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert {each["step"] for each in answer["software"] if each["effect"] == "replace"} == {
        "gpu-operator",
        "driver-installer",
    }
    assert all(each["refused"]["reason"] == "has software of the production pool a" for each in answer["software"])
    assert main(["diff", *files, "--format", "markdown"]) == 3
    assert "removes chart gpu-operator" in capsys.readouterr().out


HELD = (
    "undo the edit, {} lab {} gpupools:allow_destroy, run pulumi up to remove the protection; then edit again "
    "and run pulumi up again"
)


def test_production_keeps_its_software_until_the_switch_names_the_cluster(tmp_path: Path) -> None:
    theirs = with_runtime("lab", {"management": "external", "existing": {"gpu_operator": "gpu/operator"}})
    pools = {"a": pool("lab"), "b": pool("lab", protect=False)}
    was, now = planned(tmp_path, pools, production=True), planned(tmp_path, pools, theirs, production=True)
    freed = planned(tmp_path, pools, production=True, allow_destroy=["lab"])
    allowed = planned(tmp_path, pools, theirs, production=True, allow_destroy=["lab"])

    (first,) = refused(was, now)
    assert first == (
        "lab: has software of the production pool a, and this update would remove chart gpu-operator v26.7.0, "
        "Namespace gpu-operator, DaemonSet kube-system/gpupools-driver-installer; if this is intended: "
        + HELD.format("add", "to")
    )
    (held,) = refused(was, allowed)
    assert held.startswith("lab: has software that is protected until an update with lab in gpupools:allow_destroy")
    assert held.endswith(HELD.format("leave", "in"))
    assert refused(was, freed) == []
    (idle,) = judged(was, freed).warnings
    assert idle.startswith("gpupools:allow_destroy names lab, but this update does not destroy its software")
    assert refused(freed, allowed) == []
    assert refused(freed, now) != []


def test_outside_production_software_may_go(tmp_path: Path) -> None:
    theirs = with_runtime("lab", {"management": "external", "existing": {"gpu_operator": "gpu/operator"}})
    pools = {"a": pool("lab")}

    assert refused(planned(tmp_path, pools), planned(tmp_path, pools, theirs)) == []


def test_software_goes_with_the_last_pool_that_it_served(tmp_path: Path) -> None:
    pools = {"a": pool("train", protect=True), "b": pool("train", "device-plugin"), "c": pool("serve", "device-plugin")}
    rest = {key: pools[key] for key in "ac"}
    was, now = planned(tmp_path, pools), planned(tmp_path, rest)
    (gone,) = [each for each in changes(was, now) if each.step == "nvidia-device-plugin"]

    assert (gone.effect, gone.pods) == (EditEffect.NONE, "it is removed with the pools it served")
    assert refused(was, now) == []


def test_a_production_pool_that_changes_its_software_is_told_and_held(tmp_path: Path) -> None:
    was = planned(tmp_path, {"a": pool("train", protect=True)})
    now = planned(tmp_path, {"z": pool("train", "device-plugin", protect=True, renamed_from="a")})
    found = {each.step: each for each in changes(was, now)}

    assert found["gpu-operator"].serves == ("z",)
    assert found["nvidia-device-plugin"].change == "added"
    assert [line.partition(",")[0] for line in refused(was, now)] == ["train: has software of the production pool z"]


VALUES = [
    pytest.param(
        {"keep_crds": True}, "no change for pods; gpu-operator operator.cleanupCRD", EditEffect.NONE, id="a value"
    ),
    pytest.param(
        {"versions": {"gpu-operator": "26.3.3"}, "metrics": False},
        "gpu-operator v26.7.0 → v26.3.3 (",
        EditEffect.IN_PLACE,
        id="a version",
    ),
]


@pytest.mark.parametrize(("runtime", "words", "effect"), VALUES)
def test_a_setting_of_a_release_is_named(
    runtime: dict[str, Any], words: str, effect: EditEffect, tmp_path: Path
) -> None:
    pools = {"a": pool("train")}
    found = {
        each.step: each
        for each in changes(planned(tmp_path, pools), planned(tmp_path, pools, with_runtime("train", runtime)))
    }

    assert words in str(found["gpu-operator"])
    assert found["gpu-operator"].effect is effect


def test_a_pool_whose_sharing_changes_names_the_line_of_the_configuration(tmp_path: Path) -> None:
    old, new = (
        planned(
            tmp_path,
            {
                "a": pool(
                    "train", sharing={"mode": "time-slicing", "replicas": count, "rename": True}, trust={"team": "x"}
                )
            },
        )
        for count in (2, 4)
    )
    said = [str(each) for each in changes(old, new)]

    assert [line for line in said if line.startswith("train: changes ConfigMap gpu-operator/device-plugin")]
    assert any("replicas" in line for line in said)


@pytest.mark.parametrize(
    ("access", "effect"),
    [
        pytest.param({"kubeconfig": {"path": "~/.kube/other"}}, EditEffect.NONE, id="another file"),
        pytest.param({"name": "other"}, EditEffect.REPLACE, id="another cluster"),
        pytest.param(
            {
                "kubeconfig": None,
                "endpoint": "https://10.0.0.9",
                "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
            },
            EditEffect.REPLACE,
            id="an address in its place",
        ),
    ],
)
def test_another_way_to_the_api_is_named_without_its_value(
    access: dict[str, Any], effect: EditEffect, tmp_path: Path
) -> None:
    pools = {"a": pool("train")}
    other = {key: value for key, value in {**CLUSTERS["train"], **access}.items() if value is not None}
    (found,) = changes(planned(tmp_path, pools), planned(tmp_path, pools, {**CLUSTERS, "train": other}))

    assert (found.of, found.effect) == (ACCESS, effect)
    assert moved_clusters([found]) == (["train"] if "name" in access else [])
    assert "10.0.0.9" not in f"{found}{found.as_json()}"
    assert "/other" not in f"{found}{found.as_json()}"


def test_a_record_of_an_older_release_tells_no_move_and_no_effect_of_another_file(tmp_path: Path) -> None:
    was, pools = planned(tmp_path, {"a": pool("train")}), {"a": pool("train")}
    earlier = recorded(was)
    (record,) = earlier.software
    access = record.steps[ACCESS]
    values = {key: value for key, value in access.values.items() if key != "cluster"}
    record = replace(record, steps={**record.steps, ACCESS: replace(access, values=values)})
    earlier = replace(earlier, software=(record,))
    file = {"kubeconfig": {"path": "~/.kube/other"}}
    now = planned(tmp_path, pools, {**CLUSTERS, "train": {**CLUSTERS["train"], **file}})

    assert judge(earlier, was, clouds()).software == ()
    (found,) = judge(earlier, now, clouds()).software
    assert found.effect is EditEffect.UNKNOWN


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.name)
def test_no_record_has_an_address_that_may_be_encrypted(file: Path) -> None:
    read = check_stack_file(file, clouds()).file
    config: dict[str, Any] = json.loads(json.dumps(read.config))
    hidden: list[str] = []
    classes = {
        each.cluster
        for each in check_stack_file(file, clouds()).plan.runtimes
        if any(item["kind"] == "ComputeClass" for item in each.order_objects)
    }
    for key, cluster in config["clusters"].items():
        model = type(check_stack_file(file, clouds()).plan.stack.clusters[key])
        for name in model.address_keys() & cluster.keys() - {"kubeconfig"} - (
            {"service_account"} if key in classes else set()  # names of node pools follow from it
        ):
            if isinstance(cluster[name], str):
                hidden.append(cluster[name])
                cluster[name] = LATE
    plan = plan_config(config, clouds(), price_list=lambda _: check_stack_file(file, clouds()).plan.stack.prices)
    records = [record(each, plan.stack).as_json() for each in plan.pools]
    records += [record_software(each, plan.stack).as_json() for each in plan.runtimes]
    leaves = {value for each in records for value in _texts(each)}
    clear = set(_texts(config))

    assert [each for each in hidden if any(each in leaf for leaf in leaves - clear)] == []
    wanted = {f"cluster.{name}" for each in plan.stack.clusters.values() for name in each.address_keys()}
    for each in plan.pools:
        values = record(each, plan.stack).values
        clear_keys = {"cluster.service_account"} if each.cluster in classes else set()
        shown = {name: values[name] for name in wanted & values.keys() - clear_keys if isinstance(values[name], str)}
        assert all(value.startswith("output of ") for value in shown.values()), shown


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ():
        yield from _texts(each)


def test_the_record_of_software_comes_back_from_the_engine_as_it_was(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"a": pool("lab", protect=True), "b": pool("train", "device-plugin")})
    for runtime in plan.runtimes:
        made = record_software(runtime, plan.stack)
        floats = json.loads(json.dumps(made.as_json()), parse_int=float)
        back = SoftwareRecord.from_json(floats)

        assert back is not None
        assert back.as_json() == made.as_json()
    wrong: list[object] = [None, 1, {}, {"steps": {}}, {"steps": {"x": 1}, "cluster": "a", "production": []}]
    for raw in wrong:
        assert SoftwareRecord.from_json(raw) is None


def state(plan: StackPlan, *, recorded: bool = True) -> dict[str, Any]:
    """Return what the engine would know of the software of a plan."""
    found: dict[str, Any] = {}
    for runtime in plan.runtimes:
        name = f"{runtime.cluster}-runtime"
        urn = "urn:pulumi:s::gpupools::gpupools:index:GpuRuntime"
        made = record_software(runtime, plan.stack).as_json()
        found[f"{urn}::{name}"] = {
            "type": "gpupools:index:GpuRuntime",
            "outputs": {"record": made} if recorded else {"owners": {}},
        }
        kinds = {each.name: "kubernetes:helm.sh/v3:Release" for each in runtime.releases}
        kinds |= {each.name: f"kubernetes:core/v1:{each.kind}" for each in runtime.objects}
        for step, kind in kinds.items():
            found[f"{urn}${kind}::{name}-{step.replace('/', '-')}"] = {"type": kind, "outputs": {}}
    return found


def test_what_the_last_update_did_not_make_is_not_missed(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"a": pool("lab")})
    made = {urn: each for urn, each in state(plan).items() if "Release" not in each["type"]}
    (record,) = read_earlier(made).software

    assert "gpu-operator" not in record.steps
    assert {"namespace/gpu-operator", ACCESS, IDENTITY} <= set(record.steps)


def test_software_that_nobody_recorded_is_missed_when_it_goes(tmp_path: Path) -> None:
    pools = {"a": pool("lab")}
    was = planned(tmp_path, pools, production=True)
    theirs = with_runtime("lab", {"management": "external", "existing": {"gpu_operator": "gpu/operator"}})
    earlier = replace(recorded(was), software=read_earlier(state(was, recorded=False)).software)
    same = judge(earlier, planned(tmp_path, pools, production=True), clouds())
    gone = judge(earlier, planned(tmp_path, pools, theirs, production=True), clouds())

    assert same.software == ()
    (refusal,) = gone.forbidden.values()
    assert "remove Release gpu-operator, DaemonSet driver-installer" in refusal.does


def test_what_is_protected_serves_a_protected_pool_and_takes_gpus_away_when_it_goes(tmp_path: Path) -> None:
    pools = {"a": pool("lab"), "b": pool("lab", protect=True), "c": pool("train", "device-plugin")}
    plan = planned(tmp_path, pools, with_runtime("train", {"metrics": True, "smoke_test": True}))
    lab, train = ({each.cluster: each for each in plan.runtimes}[key] for key in ("lab", "train"))

    assert protected_steps(lab, plan.stack) == {"gpu-operator", "namespace/gpu-operator", "driver-installer"}
    assert protected_steps(train, plan.stack) == frozenset()
    assert pools_of_steps(lab)["namespace/gpu-operator"] == ("a", "b")
    assert pools_of_steps(train)["smoke-test/c"] == ("c",)


def test_what_is_encrypted_is_said_not_to_be_compared() -> None:
    key, cluster = next((key, each) for key, each in CLUSTERS.items() if each["cloud"] == "aws")
    hidden = {**cluster, "node_role_arn": LATE}
    old, new = (
        plan_config({"clusters": {key: each}, "pools": {"a": pool(key)}}, clouds()) for each in (cluster, hidden)
    )
    said = f"clusters.{key}: an edit of what is encrypted is not seen here: node_role_arn; pulumi preview shows it"

    assert said in judged(new, new).warnings
    assert not any("encrypted" in each for each in judged(old, old).warnings)
    assert not any("encrypted" in each for each in judge(Earlier(), new, clouds()).warnings)
