"""Recording rules, alerts and Grafana dashboards for the pools and teams of one cluster. Pure.

Metrics come from two exporters: NVIDIA's DCGM exporter, with the fields that gpupools gives it (`dcgm_metrics.csv`),
and kube-state-metrics, which must run with `--metric-labels-allowlist=nodes=[gpupools/pool]`. Prometheus renames the
labels of a GPU's pod to `exported_namespace` and `exported_pod`, unless `honorLabels` is set.
https://github.com/NVIDIA/dcgm-exporter, https://github.com/kubernetes/kube-state-metrics/tree/main/docs/metrics
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict
from gpupools.plan.hami import HAMI
from gpupools.plan.pool_plan import PoolPlan
from gpupools.software.team_shares import TeamShares
from gpupools.spec.teams import Team

HOT_C = 85
"""A choice, below the temperatures at which data center GPUs slow down."""
_LABELS = {"app.kubernetes.io/managed-by": "gpupools"}
_RESOURCES = 'resource=~"nvidia_com_.+"'
_LABELLED = 'kube_node_labels{label_gpupools_pool!=""}'
_POOLS = f'max by (node, pool) (label_replace({_LABELLED}, "pool", "$1", "label_gpupools_pool", "(.+)"))'
_ACTIVE_POD = 'max by (namespace, pod) (kube_pod_status_phase{phase=~"Running|Pending"} == 1)'
_BUSY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""Share of time in which a GPU or slice was busy, 0 to 1; DCGM_FI_DEV_GPU_UTIL has no value for slices."""


def _field(name: str, write: str = "{}") -> str:
    """Return an expression of a field, by its name and by the one that exporters from 4.9.0 on give it by default.

    https://github.com/NVIDIA/DCGM, dcgmlib/dcgm_fields.h has both. `write` has {} where the name goes.
    """
    renamed = next(row["renamed"] for row in data_rows("dcgm_metrics.csv") if row["field"] == name)
    texts = [write.replace("{}", each) for each in (name, renamed) if each]
    return f"({' or '.join(texts)})" if renamed else texts[0]


def _by_node(expression: str) -> str:
    """Add the label `node`. Exporter 4.8.3 renamed its own: https://github.com/NVIDIA/dcgm-exporter/pull/655."""
    for label in ("Hostname", "hostname"):
        expression = f'label_replace({expression}, "node", "$1", "{label}", "(.+)")'
    return expression


def _of_pool(expression: str) -> str:
    return f"({expression}) * on (node) group_left (pool) {_POOLS}"


def _requests(selector: str) -> str:
    """Return the units that active pods ask for, by pod, node and resource."""
    found = (
        f"sum by (node, namespace, pod, resource) (kube_pod_container_resource_requests{{{_RESOURCES}, {selector}}})"
    )
    return f"{found} * on (namespace, pod) group_left () {_ACTIVE_POD}"


def metric_resource(name: str) -> str:
    """Return a resource as kube-state-metrics writes it: `nvidia.com/mig-1g.10gb` is `nvidia_com_mig_1g_10gb`."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def recording_rules(teams: Mapping[str, Team], shares: TeamShares | None) -> Iterator[JsonDict]:
    """Yield what is recorded per pool, GPU, slice and team."""
    allocatable = _of_pool(f"kube_node_status_allocatable{{{_RESOURCES}}}")
    busy = _of_pool(_by_node(_field(_BUSY)))
    of_slice = _of_pool(_by_node(_field(_BUSY, '{}{GPU_I_ID!=""}')))
    held = _of_pool(_by_node(f"""{_field(_BUSY, '{}{exported_pod!=""}')} >= bool 0"""))
    held_slice = _of_pool(_by_node(f"""{_field(_BUSY, '{}{GPU_I_ID!="", exported_pod!=""}')} >= bool 0"""))
    records = {
        "gpupools:units_allocatable:pool": f"sum by (pool, resource) ({allocatable})",
        "gpupools:units_allocated:pool": "sum by (pool, resource) (" + _of_pool(_requests('node!=""')) + ")",
        "gpupools:busy:gpu": f"avg by (pool, node, gpu) ({busy})",
        "gpupools:busy:slice": f"avg by (pool, node, gpu, GPU_I_PROFILE, GPU_I_ID) ({of_slice})",
        "gpupools:busy:pool": "avg by (pool) (gpupools:busy:gpu)",
        "gpupools:held:gpu": f"max by (pool, node, gpu) ({held}) or gpupools:busy:gpu * 0",
        "gpupools:held:slice": f"max by (pool, node, gpu, GPU_I_PROFILE, GPU_I_ID) ({held_slice})"
        " or gpupools:busy:slice * 0",
    }
    yield from ({"record": name, "expr": expression} for name, expression in records.items())
    for name, team in teams.items():
        spaces = "|".join(team.namespaces)
        own = f'namespace=~"{spaces}"'
        busy = _of_pool(_by_node(_field(_BUSY, f'{{}}{{exported_namespace=~"{spaces}"}}')))
        by_pool = _of_pool(_requests(f'{own}, node!=""'))
        waiting = _requests(f'{own}, node=""')
        for record, expression in {
            "gpupools:units_allocated:team": f"sum by (pool, resource) ({by_pool})",
            "gpupools:units_pending:team": f"sum by (resource) ({waiting})",
            "gpupools:busy:team": f"avg by (pool) ({busy})",
        }.items():
            yield {"record": record, "expr": expression, "labels": {"team": name}}
        for (pool, resource), share in (shares.shares.get(name, {}) if shares is not None else {}).items():
            labels = {"team": name, "pool": pool, "resource": metric_resource(resource)}
            yield {"record": "gpupools:units_guaranteed:team", "expr": f"vector({share.guarantee})", "labels": labels}


def alerts(pools: Sequence[PoolPlan], *, with_teams: bool) -> Iterator[JsonDict]:
    """Yield the alerts: failing GPUs, GPUs that are missing or idle, and pods or teams that wait in vain."""
    remapped = _field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "increase({}[1h])")
    held = '{}{exported_pod!=""}'
    idle, before = (_field(_BUSY, each) for each in (f"max_over_time({held}[1h])", f"{held} offset 1h"))
    ready = 'kube_node_status_condition{condition="Ready", status="true"} == 1'
    pending = f"sum by (resource) ({_requests('node=' + chr(34) * 2)})"
    # A pod for HAMi waits for memory and cores, which its ten units of a GPU do not show.
    counted = "|".join(pool.name for pool in pools if pool.software != HAMI)
    there, taken = (
        f'sum by (resource) (gpupools:units_{each}:pool{{pool=~"{counted}"}})' for each in ("allocatable", "allocated")
    )
    free = f"{there} - ({taken} or {there} * 0)"
    rows = [
        ("GpuXidError", f"{_field('DCGM_FI_DEV_XID_ERRORS')} > 0", "0m", "critical",
         "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }} reported XID {{ $value }}",
         "Look up the XID in https://docs.nvidia.com/deploy/xid-errors/, and drain the node if it names the hardware."),
        ("GpuMemoryFailing",
         f"{_field('DCGM_FI_DEV_ROW_REMAP_FAILURE')} > 0 or {remapped} > 0",
         "0m", "critical",
         "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }} has uncorrectable memory errors",
         "Drain the node. A row that could not be remapped needs another GPU."),
        ("GpuHot", f"{_field('DCGM_FI_DEV_GPU_TEMP')} > {HOT_C}", "10m", "warning",
         "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }} has {{ $value }} °C",
         "GPUs slow down when they are hot; report the node to the cloud."),
        ("GpuHeldIdle", f"{idle} < 0.01 and {before} and {_field(_BUSY, held)}", "0m", "warning",
         "Pod {{ $labels.exported_namespace }}/{{ $labels.exported_pod }} holds a GPU and did not use it for an hour",
         "End the pod, or give it a share of a GPU."),
        ("GpuPoolWithoutGpus",
         f"count by (pool) ({_of_pool(ready)}) unless on (pool) sum by (pool) (gpupools:units_allocatable:pool) > 0",
         "15m", "critical", "Pool {{ $labels.pool }} has {{ $value }} nodes and no allocatable GPU",
         "Run gpupools ready; it names the cause."),
        ("GpuPodsPendingBesideFreeGpus", f"({pending} > 0) and on (resource) ({free} >= on (resource) {pending})",
         "15m", "warning", "Pods wait for {{ $value }} {{ $labels.resource }} although as many are free",
         "kubectl describe pod shows why: selector, toleration, another resource, or GPUs spread over nodes."),
    ]  # fmt: skip
    if with_teams:
        key = "on (team, pool, resource)"
        allocated = "(gpupools:units_allocated:team or gpupools:units_guaranteed:team * 0)"
        over = f"{allocated} > {key} gpupools:units_guaranteed:team"
        starves = f"{allocated} < {key} gpupools:units_guaranteed:team"
        waits = "and on (team, resource) (gpupools:units_pending:team > 0)"
        what = (
            "Team {{ $labels.team }} has {{ $value }} {{ $labels.resource }} of pool {{ $labels.pool }}, more than its"
        )
        what += " guarantee, while a team below its own waits"
        cure = "The scheduler reclaims guarantees; kubectl describe clusterqueue shows why it does not."
        name = "TeamOverGuaranteeWhileAnotherStarves"
        rows.append((name, f"({over}) and on (pool, resource) ({starves} {waits})", "15m", "warning", what, cure))
    yield from (_alert(*row) for row in rows)
    for pool in pools:
        for name, count in pool.node_resources.items() if pool.sharing.mig is not None else ():
            selector = f'kube_node_status_allocatable{{resource="{metric_resource(name)}"}}'
            own = f'kube_node_labels{{label_gpupools_pool="{pool.name}"}}'
            expression = f"{selector} < {count} and on (node) {own}"
            what = f"Node {{{{ $labels.node }}}} of pool {pool.name} offers {{{{ $value }}}} {name} of {count}"
            yield _alert(
                "GpuSlicesMissing", expression, "15m", "critical", what, "Run gpupools ready; it names the cause."
            )


def _alert(name: str, expression: str, after: str, severity: str, what: str, cure: str) -> JsonDict:
    said = {"summary": what, "description": cure}
    return {"alert": name, "expr": expression, "for": after, "labels": {"severity": severity}, "annotations": said}


def rule_groups(pools: Sequence[PoolPlan], teams: Mapping[str, Team], shares: TeamShares | None) -> list[JsonDict]:
    """Return the groups of a Prometheus rule file."""
    guaranteed = shares is not None and any(share.guarantee for own in shares.shares.values() for share in own.values())
    return [
        {"name": "gpupools-records", "interval": "30s", "rules": [*recording_rules(teams, shares)]},
        {"name": "gpupools-alerts", "rules": [*alerts(pools, with_teams=guaranteed)]},
    ]


_Panels = Sequence[tuple[str, Mapping[str, str], str]]
"""Title, expressions by legend, and Grafana's unit."""

_BY_POOL: _Panels = (
    ("Allocated and allocatable", {
        "{{pool}} {{resource}} allocated": "gpupools:units_allocated:pool",
        "{{pool}} {{resource}} allocatable": "gpupools:units_allocatable:pool",
    }, "short"),
    ("Busy", {"{{pool}}": "gpupools:busy:pool"}, "percentunit"),
    ("Nodes", {"{{pool}}": f"count by (pool) ({_POOLS})"}, "short"),
    ("Temperature, highest", {
        "{{node}}": f"max by (node) ({_by_node(_field('DCGM_FI_DEV_GPU_TEMP'))})",
    }, "celsius"),
    ("Power", {"all GPUs": f"sum({_field('DCGM_FI_DEV_POWER_USAGE')})"}, "watt"),
    ("XID errors", {
        "{{node}} GPU {{gpu}}": _by_node(f"{_field('DCGM_FI_DEV_XID_ERRORS')} > 0"),
    }, "short"),
)  # fmt: skip
_IN_POOL: _Panels = (
    ("Allocated and allocatable", {
        "{{resource}} allocated": 'gpupools:units_allocated:pool{pool="$pool"}',
        "{{resource}} allocatable": 'gpupools:units_allocatable:pool{pool="$pool"}',
    }, "short"),
    ("Busy GPUs", {"{{node}} GPU {{gpu}}": 'gpupools:busy:gpu{pool="$pool"}'}, "percentunit"),
    ("Busy slices", {"{{node}} GPU {{gpu}} {{GPU_I_PROFILE}}": 'gpupools:busy:slice{pool="$pool"}'}, "percentunit"),
    ("Held by a pod: GPUs", {"{{node}} GPU {{gpu}}": 'gpupools:held:gpu{pool="$pool"}'}, "bool"),
    ("Held by a pod: slices", {"{{node}} GPU {{gpu}} {{GPU_I_PROFILE}}": 'gpupools:held:slice{pool="$pool"}'}, "bool"),
    ("Memory in use", {
        "{{node}} GPU {{gpu}}": _of_pool(_by_node("DCGM_FI_DEV_FB_USED"))
        + ' and on (node) gpupools:busy:gpu{pool="$pool"}',
    }, "decmbytes"),
)  # fmt: skip
_OF_TEAM: _Panels = (
    ("Allocated and guaranteed", {
        "{{pool}} {{resource}} allocated": 'gpupools:units_allocated:team{team="$team"}',
        "{{pool}} {{resource}} guaranteed": 'gpupools:units_guaranteed:team{team="$team"}',
    }, "short"),
    ("Waiting", {"{{resource}}": 'gpupools:units_pending:team{team="$team"}'}, "short"),
    ("Busy", {"{{pool}}": 'gpupools:busy:team{team="$team"}'}, "percentunit"),
)  # fmt: skip


def dashboards(pools: Iterable[PoolPlan], teams: Iterable[str]) -> dict[str, JsonDict]:
    """Return the Grafana dashboards by name: fleet, pool, and team where there are teams."""
    found = {
        "gpupools-fleet": _dashboard("GPU fleet", "gpupools-fleet", _BY_POOL, None),
        "gpupools-pool": _dashboard("GPU pool", "gpupools-pool", _IN_POOL, ("pool", [pool.name for pool in pools])),
    }
    if names := [*teams]:
        found["gpupools-team"] = _dashboard("GPU team", "gpupools-team", _OF_TEAM, ("team", names))
    return found


def _dashboard(title: str, uid: str, panels: _Panels, choice: tuple[str, list[str]] | None) -> JsonDict:
    """Return a dashboard for Grafana 11.6 or newer, with two panels side by side."""
    from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos

    source = DataSourceRef("prometheus", "${datasource}")
    made = dashboard.Dashboard(title).uid(uid).tags(["gpupools"]).time("now-6h", "now").refresh("1m")
    made.with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
    if choice is not None:
        made.with_variable(dashboard.CustomVariable(choice[0]).values(",".join(dict.fromkeys(choice[1]))))
    for number, (name, expressions, unit) in enumerate(panels):
        panel = timeseries.Panel().title(name).id(number + 1).datasource(source).unit(unit).min(0)
        panel.grid_pos(GridPos(h=8, w=12, x=12 * (number % 2), y=8 * (number // 2)))
        for index, (legend, expression) in enumerate(expressions.items()):
            query = prometheus.Dataquery().expr(expression).legend_format(legend)
            panel.with_target(query.ref_id(chr(65 + index)).datasource(source))
        made.with_panel(panel)
    found: JsonDict = json.loads(JSONEncoder(sort_keys=False).encode(made.build()))
    return found


def monitoring_objects(
    pools: Sequence[PoolPlan], teams: Mapping[str, Team], shares: TeamShares | None, namespace: str
) -> list[JsonDict]:
    """Return a PrometheusRule for the Prometheus operator, and ConfigMaps for Grafana's dashboard sidecar.

    https://github.com/prometheus-operator/prometheus-operator and the label of
    https://github.com/grafana/helm-charts, charts/grafana, sidecar.dashboards.
    """
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "gpupools", "namespace": namespace, "labels": _LABELS},
        "spec": {"groups": rule_groups(pools, teams, shares)},
    }
    maps = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {**_LABELS, "grafana_dashboard": "1"}},
            "data": {f"{name}.json": json.dumps(dashboard, indent=1)},
        }
        for name, dashboard in dashboards(pools, teams).items()
    ]
    return [rule, *maps]
