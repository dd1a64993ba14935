"""Rules, alerts and dashboards: names that the exporters have, and with promtool what fires on which series."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.common.csv_rows import data_rows
from gpupools.software import monitoring
from gpupools.software.team_shares import team_shares
from tests.gpupools.software.test_teams import plan

# https://github.com/kubernetes/kube-state-metrics/tree/main/docs/metrics
STATE_METRICS = {
    "kube_node_labels",
    "kube_node_status_allocatable",
    "kube_node_status_condition",
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


def groups() -> list[Any]:
    planned = plan(TEAMS, POOLS)
    shares, problems = team_shares(planned.pools, planned.stack.teams, "train")
    assert problems == []
    return monitoring.rule_groups(planned.pools, planned.stack.teams, shares)


def boards() -> dict[str, Any]:
    return monitoring.dashboards(plan(TEAMS, POOLS).pools, TEAMS)


def queries() -> list[str]:
    return [each["expr"] for made in boards().values() for panel in made["panels"] for each in panel["targets"]]


def test_every_metric_is_one_that_an_exporter_or_a_record_has() -> None:
    rules = [rule for group in groups() for rule in group["rules"]]
    records = {rule["record"] for rule in rules if "record" in rule}
    fields = {row[key] for row in data_rows("dcgm_metrics.csv") for key in ("field", "renamed")}
    used = {
        name
        for text in [*(rule["expr"] for rule in rules), *queries()]
        for name in re.findall(r"\b(?:DCGM_\w+|kube_\w+|gpupools:[\w:]+)", text)
    }

    assert {name for name in used if name.startswith("DCGM_")} <= fields
    assert {name for name in used if name.startswith("kube_")} == STATE_METRICS
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


def test_free_units_of_hamis_pools_are_not_free_gpus() -> None:
    made = plan(TEAMS, POOLS).pools
    pools = [each._replace(software="hami") if each.name == "big" else each for each in made]
    (found,) = (each for each in monitoring.alerts(pools, with_teams=False) if each["alert"].endswith("BesideFreeGpus"))

    assert 'units_allocatable:pool{pool=~"slices"}' in found["expr"]


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
NODES = {
    'kube_node_labels{node="n1", label_gpupools_pool="big"}': "1x200",
    'kube_node_labels{node="s1", label_gpupools_pool="slices"}': "1x200",
    'kube_node_status_condition{node="n1", condition="Ready", status="true"}': "1x200",
    'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu"}': "8x200",
    'kube_node_status_allocatable{node="s1", resource="nvidia_com_mig_1g_5gb"}': "7x200",
}


def pod(space: str, name: str, node: str, count: int, phase: str = "Running") -> dict[str, str]:
    labels = f'namespace="{space}", pod="{name}"'
    request = f'kube_pod_container_resource_requests{{{labels}, node="{node}", resource="nvidia_com_gpu"}}'
    return {request: f"{count}x200", f'kube_pod_status_phase{{{labels}, phase="{phase}"}}': "1x200"}


HELD = '{Hostname="n1", gpu="0", exported_namespace="vision", exported_pod="p"}'
ENDED = HELD.replace('"p"', '"ended"')
ALLOCATABLE = 'kube_node_status_allocatable{node="n1", resource="nvidia_com_gpu"}'
CASES: Mapping[str, tuple[dict[str, str], dict[str, str]]] = {
    # Series with which the alert fires, and with which it does not.
    "GpuXidError": ({f"DCGM_FI_DEV_XID_ERRORS{GPU}": "79x200"}, {f"DCGM_FI_DEV_XID_ERRORS{GPU}": "0x200"}),
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
        {**pod("a", "runs", "n1", 5), **pod("a", "waits", "", 4, "Pending")},
    ),
    "TeamOverGuaranteeWhileAnotherStarves": (
        {**pod("lab", "runs", "n1", 24), **pod("vision", "waits", "", 8, "Pending")},
        {**pod("lab", "runs", "n1", 16), **pod("vision", "waits", "", 8, "Pending")},
    ),
    "GpuSlicesMissing": (
        {'kube_node_status_allocatable{node="s1", resource="nvidia_com_mig_1g_5gb"}': "6x200"},
        {'kube_node_status_allocatable{node="s1", resource="nvidia_com_mig_1g_5gb"}': "7x200"},
    ),
}


@needs_promtool
@pytest.mark.parametrize("default_names", [False, True], ids=["own names", "names of 4.9.0"])
@pytest.mark.parametrize("alert", CASES)
def test_each_alert_fires_on_its_series_and_not_on_others(tmp_path: Path, alert: str, default_names: bool) -> None:
    """`count(ALERTS{…})` after 100 minutes of made-up series, one sample per minute."""
    renamed = {row["field"]: row["renamed"] for row in data_rows("dcgm_metrics.csv") if row["renamed"]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups()}))
    for fires, series in zip((True, False), CASES[alert], strict=True):
        named = dict(series)
        for old, new in renamed.items() if default_names else ():
            named = {name.replace(f"{old}{{", f"{new}{{"): values for name, values in named.items()}
        given = [{"series": name, "values": values} for name, values in {**NODES, **named}.items()]
        firing = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
        expected = [{"labels": "{}", "value": 1}] if fires else []
        query = {"expr": f"count({firing}) > bool 0", "eval_time": "100m", "exp_samples": expected}
        test = {"interval": "1m", "input_series": given, "promql_expr_test": [query]}
        text = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
        (tmp_path / "test.yaml").write_text(yaml.safe_dump(text))

        assert promtool(tmp_path, "test", "rules", "test.yaml") == "", "fires" if fires else "does not fire"


@needs_promtool
@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_a_gpu_or_slice_is_held_while_a_pod_has_it_however_busy(tmp_path: Path, label: str) -> None:
    """With the label of the node in the exporter's old and new spelling."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups()}))
    metric = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    cut = 'Hostname="s1", gpu="0", GPU_I_PROFILE="1g.5gb"'
    series = {
        f"{metric}{HELD}": "0x10",
        f'{metric}{{Hostname="n1", gpu="1"}}': "0.9x10",
        f'{metric}{{{cut}, GPU_I_ID="7", exported_namespace="lab", exported_pod="p"}}': "0.5x10",
        f'{metric}{{{cut}, GPU_I_ID="8"}}': "0x10",
    }
    whole = 'gpupools:held:gpu{pool="big", node="n1", gpu='
    part = 'gpupools:held:slice{pool="slices", node="s1", gpu="0", GPU_I_PROFILE="1g.5gb", GPU_I_ID='
    expected = {
        'gpupools:held:gpu{pool="big"}': {f'{whole}"0"}}': 1, f'{whole}"1"}}': 0},
        "gpupools:held:slice": {f'{part}"7"}}': 1, f'{part}"8"}}': 0},
    }
    asked = [
        {"expr": expr, "eval_time": "5m", "exp_samples": [{"labels": name, "value": n} for name, n in found.items()]}
        for expr, found in expected.items()
    ]
    given = [
        {"series": name.replace("Hostname", label), "values": values} for name, values in {**NODES, **series}.items()
    ]
    test = {"interval": "1m", "input_series": given, "promql_expr_test": asked}
    (tmp_path / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]})
    )

    assert promtool(tmp_path, "test", "rules", "test.yaml") == ""


def test_the_page_lists_every_alert_and_record() -> None:
    page = Path(__file__).resolve().parents[3].joinpath("docs", "how-to", "watch-pools.md").read_text(encoding="utf-8")
    rules = [rule for group in groups() for rule in group["rules"]]

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
