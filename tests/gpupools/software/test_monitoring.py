"""Rules, alerts and dashboards: names that the exporters have, and with promtool what fires on which series."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.common.csv_rows import data_rows
from gpupools.plan.prices import PoolPrice, Price
from gpupools.software import monitoring
from gpupools.software.team_shares import team_shares
from gpupools.spec.software_spec import RuntimeSpec
from tests.gpupools.software.test_teams import plan

# https://github.com/kubernetes/kube-state-metrics/tree/main/docs/metrics
STATE_METRICS = {
    "kube_node_labels",
    "kube_node_status_allocatable",
    "kube_node_status_condition",
    "kube_pod_info",
    "kube_pod_created",
    "kube_pod_nodeselectors",
    "kube_pod_status_scheduled_time",
    "kube_pod_container_resource_requests",
    "kube_pod_status_phase",
}
A100 = {"clusters": ["train"], "gpu": "A100-40GB"}
POOLS = {
    "big": {**A100, "gpus_per_node": 8, "nodes": {"max": 4}},
    "slices": {**A100, "nodes": {"max": 2}, "sharing": {"mode": "mig", "layout": ["1g.5gb"] * 7}},
}
TEAMS = {
    "research": {"namespaces": ["research", "lab"], "guarantee": {"big": 16}},
    "vision": {"namespaces": ["vision"], "guarantee": {"big": 16}},
}


# Sources: gpupools/data/monitoring.yaml and, for HAMi, cmd/scheduler/metrics.go of v2.10.0.
OF_SCHEDULERS = {
    "kueue_cluster_queue_resource_usage",
    "kueue_cluster_queue_resource_pending",
    "kueue_pending_workloads",
    "kueue_admission_wait_time_seconds_bucket",
    "kueue_evicted_workloads_total",
    "volcano_queue_allocated_scalar_resources",
    "volcano_queue_request_scalar_resources",
    "volcano_queue_pod_group_",
    "volcano_e2e_job_scheduling_duration",
    "hami_gpu_shared_count",
    "hami_gpu_memory_allocated_bytes",
    "hami_gpu_memory_limit_bytes",
    "hami_gpu_core_allocated_ratio",
    "hami_gpu_core_limit_ratio",
}
SCHEDULERS = ("kueue", "kai", "volcano")


def planned_pools(hami: bool = False) -> list[Any]:
    made = plan(TEAMS, POOLS).pools
    return [*made, *([made[0]._replace(software="hami", name="parts")] if hami else [])]


def groups(scheduler: str = "kueue", hami: bool = False) -> list[Any]:
    planned = plan(TEAMS, POOLS)
    shares, problems = team_shares(planned.pools, planned.stack.teams, "train")
    assert problems == []
    prices = [
        PoolPrice(f"train/{pool.name}", "on-demand", 0, 4, Price(Decimal(16), "", ""), Decimal(8), "", 0)
        for pool in planned.pools
    ]
    return monitoring.rule_groups(planned_pools(hami), planned.stack.teams, shares, scheduler, prices)


def boards(hami: bool = True) -> dict[str, Any]:
    return monitoring.dashboards(planned_pools(hami), TEAMS)


def queries() -> list[str]:
    return [each["expr"] for made in boards().values() for panel in made["panels"] for each in panel["targets"]]


def test_every_metric_is_one_that_an_exporter_or_a_record_has() -> None:
    rules = [rule for each in SCHEDULERS for group in groups(each, hami=True) for rule in group["rules"]]
    records = {rule["record"] for rule in rules if "record" in rule}
    fields = {row[key] for row in data_rows("dcgm_metrics.csv") for key in ("field", "renamed")}
    used = {
        name
        for text in [*(rule["expr"] for rule in rules), *queries()]
        for name in re.findall(r"\b(?:DCGM_\w+|(?:kube|kueue|volcano|hami)_\w+|gpupools:[\w:]+)", text)
    }

    assert {name for name in used if name.startswith("DCGM_")} <= fields
    assert {name for name in used if name.startswith("kube_")} == STATE_METRICS
    assert {name for name in used if name.startswith(("kueue_", "volcano_", "hami_"))} == OF_SCHEDULERS
    assert {name for name in used if name.startswith("gpupools:")} <= records


def test_the_alerts_are_those_of_failing_missing_and_idle_gpus_and_of_waiting_pods() -> None:
    named = [rule["alert"] for group in groups() for rule in group["rules"] if "alert" in rule]

    assert named == [
        "GpuXidError",
        "GpuMemoryFailing",
        "GpuHot",
        "GpuHeldIdle",
        "GpuPoolWithoutGpus",
        "GpuPodsPendingBesideFreeGpus",
        "TeamOverGuaranteeWhileAnotherStarves",
        "GpuSlicesMissing",
    ]


def test_a_stack_without_teams_has_no_rules_and_no_dashboard_of_teams() -> None:
    planned = plan(TEAMS, POOLS)
    found = monitoring.rule_groups(planned.pools, {}, None)

    assert "team" not in str(found)
    assert list(monitoring.dashboards(planned.pools, ())) == ["gpupools-fleet", "gpupools-pool"]


def test_the_dashboards_have_panels_of_their_own_that_do_not_overlap() -> None:
    for made in boards().values():
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in made["panels"]]
        ids = [panel["id"] for panel in made["panels"]]
        assert len(set(places)) == len(set(ids)) == len(made["panels"])
        choices = {each["name"] for each in made["templating"]["list"]}
        assert set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(made))) == choices


STACK = """
config:
  gpupools:clusters:
    train: {cloud: gcp, name: train, project: ml-prod, location: europe-west4,
            service_account: gpu-nodes@ml-prod.iam.gserviceaccount.com, kubeconfig: {path: /kube}}
  gpupools:pools:
    big: {clusters: [train], gpu: A100-40GB, nodes: {max: 4}}
"""


def test_the_command_prints_objects_or_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.a.yaml"
    file.write_text(STACK)

    assert main(["render", str(file), "--only", "monitoring"]) == 0
    rule, *maps = yaml.safe_load_all(capsys.readouterr().out)
    assert (rule["kind"], rule["metadata"]["namespace"]) == ("PrometheusRule", "monitoring")
    assert [each["metadata"]["labels"]["grafana_dashboard"] for each in maps] == ["1", "1"]

    assert main(["render", str(file), "--only", "monitoring", "--into", str(tmp_path / "out")]) == 0
    assert yaml.safe_load((tmp_path / "out" / "gpupools-rules.yaml").read_text()) == rule["spec"]
    assert json.loads((tmp_path / "out" / "gpupools-pool.json").read_text())["title"] == "GPU pool"

    assert main(["render", str(file), "--only", "monitoring", "--cluster", "tran"]) == 1
    assert "did you mean 'train'" in capsys.readouterr().err


# --- promtool ---------------------------------------------------------------------------------------------------------

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on PATH")


def promtool(folder: Path, *words: str) -> str:
    done = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@needs_promtool
def test_prometheus_parses_the_rules_and_the_queries_of_the_dashboards(tmp_path: Path) -> None:
    texts = [each.replace("$pool", "big").replace("$team", "research") for each in queries()]
    asked = [{"record": f"query_{index}", "expr": text} for index, text in enumerate(texts)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [*groups(), {"name": "q", "rules": asked}]}))

    assert promtool(tmp_path, "check", "rules", "rules.yaml") == ""


GPU = '{Hostname="n1", gpu="0"}'
NODES_OF_BIG = 'kube_node_labels{node="n1", label_gpupools_pool="big"}'
NODES = {
    NODES_OF_BIG: "1x200",
    'kube_node_labels{node="s1", label_gpupools_pool="slices"}': "1x200",
    'kube_node_status_condition{node="n1", condition="Ready", status="true"}': "1x200",
    'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu"}': "8x200",
    'kube_node_status_allocatable{node="s1", resource="nvidia_com_mig_1g_5gb"}': "7x200",
}


def pod(space: str, name: str, node: str, count: int, phase: str = "Running", pool: str = "big") -> dict[str, str]:
    labels = f'namespace="{space}", pod="{name}"'
    request = f'kube_pod_container_resource_requests{{{labels}, node="{node}", resource="nvidia_com_gpu"}}'
    return {
        request: f"{count}x200",
        f'kube_pod_status_phase{{{labels}, phase="{phase}"}}': "1x200",
        f'kube_pod_nodeselectors{{{labels}, nodeselector_gpupools_pool="{pool}"}}': "1x200",
        f'kube_pod_info{{{labels}, node="{node}"}}': "1x200",
    }


WHOLE = 'resource="nvidia.com/gpu"'


def used(scheduler: str, **units: int) -> dict[str, str]:
    """Return what a scheduler reports of GPUs of `big` that teams use; Kueue's two replicas report it twice."""
    found: dict[str, str] = {}
    for team, count in units.items():
        queue = f'cluster_queue="{team}", flavor="big", {WHOLE}'
        found |= {
            "kueue": {
                f'kueue_cluster_queue_resource_usage{{{queue}, replica_role="{role}"}}': f"{count}x200"
                for role in ("leader", "follower")
            },
            "kai": {f'kai_queue_allocated_gpus{{queue_name="{team}.big"}}': f"{count}x200"},
            "volcano": {
                f'volcano_queue_allocated_scalar_resources{{queue_name="{team}.big", {WHOLE}}}': f"{count}000x200"
            },
        }[scheduler]
    return found


def waits(scheduler: str, team: str, jobs: int = 1) -> dict[str, str]:
    """Return what a scheduler reports of jobs of 8 GPUs each that wait for `big`."""
    volcano = f'queue_name="{team}.big"'
    return {
        "kueue": {
            f'kueue_pending_workloads{{cluster_queue="{team}", status="inadmissible"}}': f"{jobs}x200",
            f'kueue_cluster_queue_resource_pending{{cluster_queue="{team}", {WHOLE}}}': f"{8 * jobs}x200",
        },
        "kai": {k: v for n in range(jobs) for k, v in pod(team, f"waits-{n}", "", 8, "Pending").items()},
        "volcano": {
            f"volcano_queue_pod_group_pending_count{{{volcano}}}": f"{jobs}x200",
            f"volcano_queue_request_scalar_resources{{{volcano}, {WHOLE}}}": f"{8000 * jobs}x200",
            f"volcano_queue_allocated_scalar_resources{{{volcano}, {WHOLE}}}": "0x200",
        },
    }[scheduler]


HELD = '{Hostname="n1", gpu="0", exported_namespace="vision", exported_pod="p"}'
ENDED = HELD.replace('"p"', '"ended"')
ALLOCATABLE = 'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu"}'
CASES: Mapping[str, tuple[dict[str, str], dict[str, str]]] = {
    # Series with which the alert fires, and with which it does not.
    "GpuXidError": (
        {f"DCGM_FI_DEV_XID_ERRORS{GPU}": "0x90 79x110"},
        {
            f"DCGM_FI_DEV_XID_ERRORS{GPU}": "0x90 31x110",
            f"DCGM_FI_DEV_XID_ERRORS{GPU.replace('0', '1')}": "0x50 79x150",
        },
    ),
    "GpuMemoryFailing": (
        {f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{GPU}": "0x60 1x140"},
        {f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{GPU}": "1x200", f"DCGM_FI_DEV_ROW_REMAP_FAILURE{GPU}": "0x200"},
    ),
    "GpuHot": ({f"DCGM_FI_DEV_GPU_TEMP{GPU}": "90x200"}, {f"DCGM_FI_DEV_GPU_TEMP{GPU}": "60x95 90x2 60x100"}),
    "GpuHeldIdle": (
        {f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{HELD}": "0x200"},
        {
            f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{HELD}": "0x80 0.9x2 0x118",
            f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{ENDED}": "0x80",
        },
    ),
    "GpuPoolWithoutGpus": ({ALLOCATABLE: "0x200"}, {ALLOCATABLE: "8x200"}),
    "GpuPodsPendingBesideFreeGpus": (
        {**pod("a", "runs", "n1", 4), **pod("a", "waits", "", 4, "Pending")},
        {
            **pod("a", "runs", "n1", 5),
            **pod("a", "waits", "", 4, "Pending"),
            **pod("a", "s", "", 1, "Pending", "slices"),
        },
    ),
    "GpuSlicesMissing": (
        {'kube_node_status_allocatable{node="s1", resource="nvidia_com_mig_1g_5gb"}': "6x200"},
        {'kube_node_status_allocatable{node="s1", resource="nvidia_com_mig_1g_5gb"}': "7x200"},
    ),
}


PARTS = {
    'kube_node_labels{node="h1", label_gpupools_pool="parts"}': "1x200",
    'kube_node_status_allocatable{node="h1", resource="nvidia_com_gpu"}': "20x200",
    **pod("a", "waits", "", 1, "Pending", "parts"),
}


def shared(*counts: int) -> dict[str, str]:
    return {
        **PARTS,
        **{f'hami_gpu_shared_count{{node="h1", device_index="{n}"}}': f"{count}x200" for n, count in enumerate(counts)},
    }


OF_EACH: Mapping[tuple[str, str], tuple[dict[str, str], dict[str, str]]] = {
    **{
        ("TeamOverGuaranteeWhileAnotherStarves", each): (
            {**waits(each, "vision"), **used(each, research=24)},
            {**waits(each, "vision"), **used(each, research=24, vision=16)},
        )
        for each in SCHEDULERS
    },
    ("GpuPodsPendingBesideFreeGpus", "hami"): (shared(3, 0), shared(3, 1)),
}


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    made = {rule["alert"] for group in groups() for rule in group["rules"] if "alert" in rule}

    assert made == {*CASES, *(alert for alert, _ in OF_EACH)}
    assert {each for alert, each in OF_EACH if alert.startswith("Team")} == set(SCHEDULERS)


@needs_promtool
@pytest.mark.parametrize("default_names", [False, True], ids=["own names", "names of 4.9.0"])
def test_each_alert_fires_on_its_series_and_not_on_others(tmp_path: Path, default_names: bool) -> None:
    """With made-up series, one sample per minute."""
    renamed = {row["field"]: row["renamed"] for row in data_rows("dcgm_metrics.csv") if row["renamed"]}
    tests = []
    for alert, both in CASES.items():
        for fires, series in zip((True, False), both, strict=True):
            named = dict(series)
            for old, new in renamed.items() if default_names else ():
                named = {name.replace(f"{old}{{", f"{new}{{"): values for name, values in named.items()}
            if not default_names or named != series:
                tests.append(alert_test(alert, named, fires))

    assert run_cases(tmp_path, groups(), tests, "1m") == ""


@needs_promtool
@pytest.mark.parametrize(("alert", "scheduler"), OF_EACH, ids=map("-".join, OF_EACH))
def test_alerts_read_the_metrics_of_each_scheduler(tmp_path: Path, alert: str, scheduler: str) -> None:
    made = groups(*(("kueue", True) if scheduler == "hami" else (scheduler,)))
    tests = [
        alert_test(alert, series, fires) for fires, series in zip((True, False), OF_EACH[alert, scheduler], strict=True)
    ]

    assert run_cases(tmp_path, made, tests, "1m") == ""


def alert_test(alert: str, series: Mapping[str, str], fires: bool) -> dict[str, Any]:
    """Return a case for promtool: an alert fires, or does not, after 100 minutes."""
    firing = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    return promtool_test(series, {f"count({firing}) > bool 0": one(1) if fires else []}, "100m")


def answered(folder: Path, made: list[Any], series: Mapping[str, str], asked: Mapping[str, list[Any]], at: str) -> str:
    """Return what promtool says of answers to queries."""
    return run_cases(folder, made, [promtool_test(series, asked, at)])


def promtool_test(series: Mapping[str, str], asked: Mapping[str, list[Any]], at: str) -> dict[str, Any]:
    given = [{"series": name, "values": values} for name, values in {**NODES, **series}.items()]
    queries = [{"expr": expr, "eval_time": at, "exp_samples": samples} for expr, samples in asked.items()]
    return {"interval": "1m", "input_series": given, "promql_expr_test": queries}


def run_cases(folder: Path, made: list[Any], tests: list[dict[str, Any]], interval: str = "30s") -> str:
    """Return what promtool says of cases, each with the rules that its queries need: the others are slow."""
    files = []
    for number, test in enumerate(tests):
        rules, file = folder / f"rules{number}.yaml", folder / f"test{number}.yaml"
        rules.write_text(yaml.safe_dump({"groups": needed(made, [each["expr"] for each in test["promql_expr_test"]])}))
        text = {"rule_files": [rules.name], "evaluation_interval": interval, "tests": [test]}
        file.write_text(yaml.safe_dump(text))
        files.append(file.name)
    return promtool(folder, "test", "rules", *files)


def needed(made: list[Any], queries: list[str]) -> list[Any]:
    """Return the alerts and records that queries name, and the records that these read."""
    rules = {rule.get("record") or rule["alert"]: rule for group in made for rule in group["rules"]}
    names: set[str] = set()
    texts = queries
    while new := {name for text in texts for name in re.findall(r"[\w:]+", text) if name in rules} - names:
        names |= new
        texts = [rules[name]["expr"] for name in new]
    kept = [
        {**group, "rules": [rule for rule in group["rules"] if (rule.get("record") or rule["alert"]) in names]}
        for group in made
    ]
    return [group for group in kept if group["rules"]]


def one(value: float) -> list[dict[str, Any]]:
    return [{"labels": "{}", "value": value}]


EVICTED = {
    "kueue": 'kueue_evicted_workloads_total{cluster_queue="vision", reason="Preempted"}',
    "kai": 'kai_pod_group_evicted_pods_total{exported_namespace="vision", nodepool="big"}',
}
SECONDS: Mapping[str, tuple[float, dict[str, str]]] = {
    "kueue": (
        90,
        {
            f'kueue_admission_wait_time_seconds_bucket{{cluster_queue="vision", le="{le}"}}': "0+6x200"
            for le in ("100", "+Inf")
        },
    ),
    "kai": (
        40,
        {
            'kube_pod_status_scheduled_time{namespace="vision", pod="p"}': "140x200",
            'kube_pod_created{namespace="vision", pod="p"}': "100x200",
        },
    ),
    "volcano": (40, {'volcano_e2e_job_scheduling_duration{queue="vision.big", job_name="j"}': "40000x200"}),
}


@needs_promtool
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("runs", [True, False], ids=["busy", "idle"])
def test_each_panel_of_a_team_shows_what_its_scheduler_reports(tmp_path: Path, scheduler: str, runs: bool) -> None:
    """16 of 16 GPUs in use and two jobs of 8 that wait, or nothing at all."""
    seconds, waited = SECONDS[scheduler]
    volcano = scheduler == "volcano"
    series = {} if not runs else {**waits(scheduler, "vision", 2), **used(scheduler, vision=16), **waited}
    if runs and volcano:  # it requests what it uses, too
        series |= {name: "32000x200" for name in series if "_request_" in name}
    if runs and scheduler in EVICTED:
        series[EVICTED[scheduler]] = "0x99 3x101"
    if runs:
        series[f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{HELD}"] = "0.5x200"
    found = {
        panel["title"]: [each["expr"].replace("$team", "vision") for each in panel["targets"]]
        for panel in boards()["gpupools-team"]["panels"]
    }
    expected: dict[str, list[Any]] = {
        "Used and guaranteed": [16 * runs, 16],
        "Requested and used": [32 * runs, 16 * runs],
        "Waiting jobs": [2 * runs],
        "Time in queue, nine of ten jobs": [seconds] if runs else [],
        "Evictions in an hour": [] if volcano or not runs else [3],
        "Busy": [0.5] if runs else [],
        # 100 minutes, 2 dollars for each GPU-hour
        "GPU-hours of a day": [16 * 201 / 120 * runs],
        "Cost of a day": [2 * 16 * 201 / 120 * runs],
    }
    assert set(expected) == set(found)
    asked = {}
    for title, values in expected.items():
        for expr, value in zip(found[title], values or [None] * len(found[title]), strict=True):
            text = f"round(sum({expr}), 0.001)"
            asked[text] = [] if value is None else [{"labels": "{}", "value": value}]

    assert answered(tmp_path, groups(scheduler), series, asked, "100m") == ""


@needs_promtool
def test_the_pool_panels_show_what_hami_reports(tmp_path: Path) -> None:
    series = dict(PARTS)
    for metric, value in {"memory_allocated_bytes": 6e9, "memory_limit_bytes": 24e9, "core_limit_ratio": 100}.items():
        series[f'hami_gpu_{metric}{{node="h1", device_index="0"}}'] = f"{value:.0f}x200"
    panels = {each["title"]: each["targets"] for each in boards()["gpupools-pool"]["panels"]}
    expected: dict[str, list[Any]] = {
        "HAMi memory, allocated and limit": [6e9, 24e9],
        "HAMi cores, allocated and limit": [None, 100],
    }
    asked = {}
    for title, values in expected.items():
        for target, value in zip(panels[title], values, strict=True):
            for pool, found in {"parts": value, "big": None}.items():
                text = f"sum({target['expr'].replace('$pool', pool)})"
                asked[text] = [] if found is None else [{"labels": "{}", "value": found}]

    assert answered(tmp_path, groups(hami=True), series, asked, "100m") == ""


BUSY, CUT = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 'Hostname="s1", gpu="0", GPU_I_PROFILE="1g.5gb", GPU_I_ID="7"'
PANELS: Mapping[tuple[str, str], tuple[dict[str, str], list[float | None], list[float | None]]] = {
    # Series that a panel of the fleet or of pool `big` shows, the sum of each of its queries, and the sums without.
    ("fleet", "Allocated and allocatable"): (pod("a", "runs", "n1", 5), [5, 15], [None, 15]),
    ("fleet", "Busy"): ({f"{BUSY}{HELD}": "0.5x200"}, [0.5], [None]),
    ("fleet", "Free by node"): (pod("a", "runs", "n1", 5), [3 + 7], [8 + 7]),
    ("fleet", "Waiting pods' units"): (pod("a", "waits", "", 4, "Pending"), [4], [None]),
    ("fleet", "Nodes"): ({NODES_OF_BIG.replace("n1", "n2"): "1x200"}, [3], [2]),
    ("fleet", "Temperature, highest"): ({f"DCGM_FI_DEV_GPU_TEMP{GPU}": "60x200"}, [60], [None]),
    ("fleet", "Power"): ({f"DCGM_FI_DEV_POWER_USAGE{GPU}": "300x200"}, [300], [None]),
    ("fleet", "XID errors"): ({f"DCGM_FI_DEV_XID_ERRORS{GPU}": "79x200"}, [79], [None]),
    ("pool", "Allocated and allocatable"): (pod("a", "runs", "n1", 5), [5, 8], [None, 8]),
    ("pool", "Busy GPUs"): ({f"{BUSY}{HELD}": "0.5x200", f"{BUSY}{{{CUT}}}": "0.1x200"}, [0.5], [None]),
    ("pool", "Busy slices"): ({f"{BUSY}{{{CUT.replace('s1', 'n1')}}}": "0.5x200"}, [0.5], [None]),
    ("pool", "Memory in use"): ({f"DCGM_FI_DEV_FB_USED{GPU}": "4096x200"}, [4096], [None]),
}


def test_every_panel_has_a_case() -> None:
    titles = {
        (board, each["title"])
        for board in ("fleet", "pool")
        for each in boards()[f"gpupools-{board}"]["panels"]
        if not each["title"].startswith("HAMi")  # test_the_pool_panels_show_what_hami_reports
    }

    assert titles == set(PANELS)


@needs_promtool
@pytest.mark.parametrize("spelling", ["Hostname", "hostname"])
def test_each_panel_of_fleet_and_pool_shows_its_series(tmp_path: Path, spelling: str) -> None:
    """With the label of the node in the exporter's old and new spelling."""
    tests = []
    for (board, title), (series, *sums) in PANELS.items():
        panel = next(each for each in boards()[f"gpupools-{board}"]["panels"] if each["title"] == title)
        spelled = {name.replace("Hostname", spelling): values for name, values in series.items()}
        for shown, values in zip((spelled, {}), sums, strict=True):
            asked = {
                f"sum({target['expr'].replace('$pool', 'big')})": [] if value is None else one(value)
                for target, value in zip(panel["targets"], values, strict=True)
            }
            tests.append(promtool_test(shown, asked, "5m"))

    assert run_cases(tmp_path, groups(), tests) == ""


def test_service_monitors_and_rules_have_the_labels_of_the_stack_file() -> None:
    chosen = {"service_monitors": True, "monitoring_labels": {"release": "prometheus"}}
    ports = {"kueue": ["https"], "kai": ["metrics", "http-metrics"], "volcano": ["metrics"], None: []}
    for scheduler, named in ports.items():
        runtime = RuntimeSpec.model_validate({**chosen, "scheduler": scheduler})
        rule, *monitors = monitoring.monitoring_objects(planned_pools(hami=True), groups(), {}, runtime)
        assert {each["metadata"]["labels"]["release"] for each in (rule, *monitors)} == {"prometheus"}
        found = [end["port"] for each in monitors for end in each["spec"]["endpoints"]]
        assert found == [*named, "monitor"]
    assert len(monitoring.monitoring_objects(planned_pools(), groups(), {}, RuntimeSpec(scheduler="kai"))) == 1


def test_the_page_lists_every_alert_and_record() -> None:
    page = Path(__file__).resolve().parents[3].joinpath("docs", "how-to", "watch-pools.md").read_text(encoding="utf-8")
    rules = [rule for group in groups("kueue") for rule in group["rules"]]

    assert set(re.findall(r"^\| (\w+) \| ", page, re.MULTILINE)) - {"Alert", "Record"} == {
        rule["alert"] for rule in rules if "alert" in rule
    }
    assert set(re.findall(r"`(gpupools:[\w:]+)`", page)) == {rule["record"] for rule in rules if "record" in rule}


def test_without_grafanas_sdk_the_command_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(STACK, encoding="utf-8")
    monkeypatch.setattr("gpupools.cli.render.find_spec", lambda name: None)

    assert main(["render", str(file), "--only", "monitoring"]) == 1
    said = "dashboards need grafana-foundation-sdk: install gpupools[monitoring] or [all]\n"
    assert capsys.readouterr().err == said
