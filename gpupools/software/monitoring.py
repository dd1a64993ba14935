"""Recording rules, alerts and Grafana dashboards for the pools and teams of one cluster. Pure.

Metrics come from the scheduler (`queue_metrics.py`), from NVIDIA's DCGM exporter, with the fields that gpupools gives
it (`dcgm_metrics.csv`), and from kube-state-metrics with the flags that docs/how-to/watch-pools.md lists.
Prometheus renames the labels of a GPU's pod to `exported_namespace` and `exported_pod`, unless `honorLabels` is set.
https://github.com/NVIDIA/dcgm-exporter, https://github.com/kubernetes/kube-state-metrics/tree/main/docs/metrics
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Template

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict
from gpupools.plan.hami import HAMI
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.prices import PoolPrice
from gpupools.software.charts import charts
from gpupools.software.queue_metrics import QUEUE_METRICS
from gpupools.software.team_shares import TeamShares
from gpupools.spec.software_spec import RuntimeSpec
from gpupools.spec.teams import Team

HOT_C = 85
"""A choice, below the temperatures at which data center GPUs slow down."""
_LABELS = {"app.kubernetes.io/managed-by": "gpupools"}
_RESOURCES = 'resource=~"nvidia_com_.+"'
_LABELLED = 'kube_node_labels{label_gpupools_pool!=""}'
_POOLS = f'max by (node, pool) (label_replace({_LABELLED}, "pool", "$1", "label_gpupools_pool", "(.+)"))'
_POOL_OF_POD = (
    "max by (namespace, pod, pool) (label_replace("
    'kube_pod_nodeselectors{nodeselector_gpupools_pool!=""}, "pool", "$1", "nodeselector_gpupools_pool", "(.+)"))'
)
_APPLICATION_XIDS = (13, 31, 43, 45)
"""Faults of the application: https://docs.nvidia.com/deploy/xid-errors/ (2026-11)."""
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


def recording_rules(
    pools: Sequence[PoolPlan],
    teams: Mapping[str, Team],
    shares: TeamShares | None,
    scheduler: str | None,
    prices: Iterable[PoolPrice],
) -> Iterator[JsonDict]:
    """Yield what is recorded per pool, node, GPU, slice and team."""
    allocatable = _of_pool(f"kube_node_status_allocatable{{{_RESOURCES}}}")
    busy = _of_pool(_by_node(_field(_BUSY)))
    of_slice = _of_pool(_by_node(_field(_BUSY, '{}{GPU_I_ID!=""}')))
    held = _of_pool(_by_node(f"""{_field(_BUSY, '{}{exported_pod!=""}')} >= bool 0"""))
    held_slice = _of_pool(_by_node(f"""{_field(_BUSY, '{}{GPU_I_ID!="", exported_pod!=""}')} >= bool 0"""))
    bound = _of_pool(_requests('node!=""'))
    unbound = _requests('node=""')
    divided = "|".join(pool.name for pool in pools if pool.software == HAMI)
    there, taken = f'gpupools:units_allocatable:node{{pool!~"{divided}"}}', f"sum by (pool, node, resource) ({bound})"
    # A node offers ten units of a GPU for HAMi: what is free is a GPU that no pod has a part of.
    undivided = f'label_replace({_of_pool("hami_gpu_shared_count == bool 0")}, "resource", "nvidia_com_gpu", "", "")'
    records = {
        "gpupools:units_allocatable:node": f"sum by (pool, node, resource) ({allocatable})",
        "gpupools:units_allocatable:pool": "sum by (pool, resource) (gpupools:units_allocatable:node)",
        "gpupools:units_allocated:namespace": f"sum by (namespace, pool, resource) ({bound})",
        "gpupools:units_allocated:pool": "sum by (pool, resource) (gpupools:units_allocated:namespace)",
        "gpupools:units_pending:namespace": "sum by (namespace, pool, resource)"
        f" ({unbound} * on (namespace, pod) group_left (pool) {_POOL_OF_POD})",
        "gpupools:units_free:node": f"{there} - ({taken} or {there} * 0)"
        + (f" or sum by (pool, node, resource) ({undivided})" if divided else ""),
        "gpupools:busy:gpu": f"avg by (pool, node, gpu) ({busy})",
        "gpupools:busy:slice": f"avg by (pool, node, gpu, GPU_I_PROFILE, GPU_I_ID) ({of_slice})",
        "gpupools:busy:pool": "avg by (pool) (gpupools:busy:gpu)",
        "gpupools:held:gpu": f"max by (pool, node, gpu) ({held}) or gpupools:busy:gpu * 0",
        "gpupools:held:slice": f"max by (pool, node, gpu, GPU_I_PROFILE, GPU_I_ID) ({held_slice})"
        " or gpupools:busy:slice * 0",
        "gpupools:xid:gpu": f"max by (pool, node, gpu) ({_of_pool(_by_node(_field('DCGM_FI_DEV_XID_ERRORS')))})",
    }
    yield from ({"record": name, "expr": expression} for name, expression in records.items())
    for price in prices:
        pool, amount = price.key.partition("/")[2], price.per_gpu
        if amount is not None:
            labels = {"pool": pool, "currency": price.currency}
            yield {"record": "gpupools:price_per_hour:gpu", "expr": f"vector({amount:.4f})", "labels": labels}
    for name, team in teams.items():
        spaces = "|".join(team.namespaces)
        busy = _of_pool(_by_node(_field(_BUSY, f'{{}}{{exported_namespace=~"{spaces}"}}')))
        yield {"record": "gpupools:busy:team", "expr": f"avg by (pool) ({busy})", "labels": {"team": name}}
        if shares is not None and scheduler is not None and name in shares.shares:
            yield from _of_team(name, spaces, shares, scheduler)
    if shares is not None:
        cost = "gpupools:gpus_allocated:team * on (pool) group_left (currency) gpupools:price_per_hour:gpu"
        yield {"record": "gpupools:cost_per_hour:team", "expr": cost}


def _of_team(name: str, spaces: str, shares: TeamShares, scheduler: str) -> Iterator[JsonDict]:
    """Yield what a team has and waits for, by its scheduler's metrics, and by its pods where those are missing."""
    metrics, by_name = QUEUE_METRICS[scheduler], {pool.name: pool for pool in shares.pools}
    words = {"team": name, "spaces": spaces}
    whole = {"seconds_in_queue": metrics.seconds, "evictions": metrics.evicted}
    resources: dict[str, str] = {}
    for (pool, resource), share in shares.shares[name].items():
        metric = resources[resource] = metric_resource(resource)
        labels = {"team": name, "pool": pool, "resource": metric}
        own = {**words, "pool": pool, "resource": resource, "metric": metric}
        pods = f'sum(gpupools:units_allocated:namespace{{namespace=~"{spaces}", pool="{pool}", resource="{metric}"}})'
        series = ", ".join(f'{key}="{value}"' for key, value in labels.items())
        counts = by_name[pool].countable
        weights = {each: slice_weight(each) for each in counts}
        gpus = by_name[pool].instance.gpus * weights[resource] / sum(weights[each] * counts[each] for each in counts)
        for record, expression in {
            "units_allocated": f"{metrics.used} or {pods} or vector(0)",
            "units_guaranteed": f"vector({share.guarantee})",
            "waiting": f"{metrics.waiting} or vector(0)",
            "gpus_allocated": f"gpupools:units_allocated:team{{{series}}} * {float(gpus):.6g}",
        }.items():
            text = Template(expression).substitute(own)
            yield {"record": f"gpupools:{record}:team", "expr": text, "labels": labels}
    for resource, metric in resources.items():
        text = Template(f"{metrics.waiting_units} or vector(0)").substitute(words, resource=resource, metric=metric)
        yield {"record": "gpupools:units_pending:team", "expr": text, "labels": {"team": name, "resource": metric}}
    for record, expression in whole.items():
        text = Template(expression).substitute(words)
        if text:
            yield {"record": f"gpupools:{record}:team", "expr": text, "labels": {"team": name}}


def slice_weight(resource: str) -> int:
    """Return the compute slices of a MIG resource, such as 3 of `nvidia.com/mig-3g.20gb`, else 1."""
    found = re.search(r"/mig-(\d+)g", resource)
    return int(found[1]) if found else 1


def alerts(pools: Sequence[PoolPlan], *, with_teams: bool) -> Iterator[JsonDict]:
    """Yield the alerts: failing GPUs, GPUs that are missing or idle, and pods or teams that wait in vain."""
    remapped = _field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "increase({}[1h])")
    failing = f"{_field('DCGM_FI_DEV_ROW_REMAP_FAILURE')} > 0 or {remapped} > 0"
    held = '{}{exported_pod!=""}'
    idle, before = (_field(_BUSY, each) for each in (f"max_over_time({held}[1h])", f"{held} offset 1h"))
    ready = 'kube_node_status_condition{condition="Ready", status="true"} == 1'
    pending = "sum by (pool, resource) (gpupools:units_pending:namespace)"
    xid = " and ".join(f"gpupools:xid:gpu != {each}" for each in (0, *_APPLICATION_XIDS))
    of_gpu = "GPU {{ $labels.gpu }} of {{ $labels.node }} in pool {{ $labels.pool }}"
    rows = [
        ("GpuXidError", f"{xid} and changes(gpupools:xid:gpu[15m]) > 0", "0m", "critical",
         f"{of_gpu} reported XID {{{{ $value }}}}",
         "Look up the XID in https://docs.nvidia.com/deploy/xid-errors/, and drain the node."),
        ("GpuMemoryFailing", _of_pool(_by_node(f"({failing})")), "0m", "critical",
         f"{of_gpu} has uncorrectable memory errors",
         "Drain the node. A row that could not be remapped needs another GPU."),
        ("GpuHot", _of_pool(_by_node(f"({_field('DCGM_FI_DEV_GPU_TEMP')} > {HOT_C})")), "10m", "warning",
         f"{of_gpu} has {{{{ $value }}}} °C",
         "GPUs slow down when they are hot; report the node to the cloud."),
        ("GpuHeldIdle", _of_pool(_by_node(f"({idle} < 0.01 and {before} and {_field(_BUSY, held)})")), "0m", "warning",
         "Pod {{ $labels.exported_namespace }}/{{ $labels.exported_pod }} leaves its GPU of {{ $labels.pool }} idle",
         "End the pod, or give it a share of a GPU."),
        ("GpuPoolWithoutGpus",
         f"count by (pool) ({_of_pool(ready)}) unless on (pool) gpupools:units_allocatable:pool > 0",
         "15m", "critical", "Pool {{ $labels.pool }} has {{ $value }} nodes and no allocatable GPU",
         "Run gpupools ready; it names the cause."),
        ("GpuPodsPendingBesideFreeGpus",
         f"sum by (pool, resource) (gpupools:units_free:node) >= on (pool, resource) ({pending} > 0)",
         "15m", "warning",
         "Pods wait for {{ $labels.resource }} of pool {{ $labels.pool }} although {{ $value }} are free",
         "kubectl describe pod shows why: toleration, another resource, or GPUs spread over nodes."),
    ]  # fmt: skip
    if with_teams:
        over, starves = (
            f"gpupools:units_allocated:team {sign} on (team, pool, resource) gpupools:units_guaranteed:team"
            for sign in "><"
        )
        waits = "and on (team, pool, resource) gpupools:waiting:team > 0"
        what = (
            "Team {{ $labels.team }} has {{ $value }} {{ $labels.resource }} of pool {{ $labels.pool }}, more than its"
        )
        what += " guarantee, while a team below its own waits"
        cure = "The scheduler reclaims guarantees; describe its queue and the waiting job to see why it does not."
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


def rule_groups(
    pools: Sequence[PoolPlan],
    teams: Mapping[str, Team],
    shares: TeamShares | None,
    scheduler: str | None = None,
    prices: Iterable[PoolPrice] = (),
) -> list[JsonDict]:
    """Return the groups of a Prometheus rule file."""
    guaranteed = shares is not None and any(share.guarantee for own in shares.shares.values() for share in own.values())
    records = [*recording_rules(pools, teams, shares, scheduler, prices)]
    return [
        {"name": "gpupools-records", "interval": "30s", "rules": records},
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
    ("Free by node", {"{{pool}} {{node}} {{resource}}": "gpupools:units_free:node"}, "short"),
    ("Waiting pods' units", {
        "{{pool}} {{resource}}": "sum by (pool, resource) (gpupools:units_pending:namespace)",
    }, "short"),
    ("Nodes", {"{{pool}}": f"count by (pool) ({_POOLS})"}, "short"),
    ("Temperature, highest", {
        "{{node}}": f"max by (node) ({_by_node(_field('DCGM_FI_DEV_GPU_TEMP'))})",
    }, "celsius"),
    ("Power", {"all GPUs": f"sum({_field('DCGM_FI_DEV_POWER_USAGE')})"}, "watt"),
    ("XID errors", {
        "{{node}} GPU {{gpu}}": "gpupools:xid:gpu > 0",
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
_OF_HAMI: _Panels = tuple(
    (f"{what}, allocated and limit", {
        f"{{{{node}}}} GPU {{{{device_index}}}} {each}": _of_pool(f"hami_gpu_{metric}_{each}_{unit}")
        + ' and on (node) gpupools:units_allocatable:node{pool="$pool"}'
        for each in ("allocated", "limit")
    }, shown)
    for what, metric, unit, shown in (
        ("HAMi memory", "memory", "bytes", "bytes"), ("HAMi cores", "core", "ratio", "percent"),
    )
)  # fmt: skip
"""Project-HAMi/HAMi tag v2.10.0, cmd/scheduler/metrics.go."""
_OF_TEAM: _Panels = (
    ("Used and guaranteed", {
        "{{pool}} {{resource}} used": 'gpupools:units_allocated:team{team="$team"}',
        "{{pool}} {{resource}} guaranteed": 'gpupools:units_guaranteed:team{team="$team"}',
    }, "short"),
    ("Requested and used", {
        "{{resource}} requested": 'sum by (resource) (gpupools:units_allocated:team{team="$team"})'
        ' + on (resource) sum by (resource) (gpupools:units_pending:team{team="$team"})',
        "{{resource}} used": 'sum by (resource) (gpupools:units_allocated:team{team="$team"})',
    }, "short"),
    ("Waiting jobs", {"{{pool}} {{resource}}": 'gpupools:waiting:team{team="$team"}'}, "short"),
    ("Time in queue, nine of ten jobs", {"{{team}}": 'gpupools:seconds_in_queue:team{team="$team"}'}, "s"),
    ("Evictions in an hour", {"{{team}}": 'gpupools:evictions:team{team="$team"}'}, "short"),
    ("Busy", {"{{pool}}": 'gpupools:busy:team{team="$team"}'}, "percentunit"),
    # The records have a sample each 30 seconds.
    ("GPU-hours of a day", {
        "{{pool}}": 'sum by (pool) (sum_over_time(gpupools:gpus_allocated:team{team="$team"}[1d])) / 120',
    }, "short"),
    ("Cost of a day", {
        "{{pool}} {{currency}}":
        'sum by (pool, currency) (sum_over_time(gpupools:cost_per_hour:team{team="$team"}[1d])) / 120',
    }, "short"),
)  # fmt: skip


def dashboards(pools: Iterable[PoolPlan], teams: Iterable[str]) -> dict[str, JsonDict]:
    """Return the Grafana dashboards by name: fleet, pool, and team where there are teams."""
    pools = tuple(pools)
    panels = (*_IN_POOL, *(_OF_HAMI if any(pool.software == HAMI for pool in pools) else ()))
    found = {
        "gpupools-fleet": _dashboard("GPU fleet", "gpupools-fleet", _BY_POOL, None),
        "gpupools-pool": _dashboard("GPU pool", "gpupools-pool", panels, ("pool", [pool.name for pool in pools])),
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
    pools: Sequence[PoolPlan], groups: Sequence[JsonDict], boards: Mapping[str, JsonDict], runtime: RuntimeSpec
) -> list[JsonDict]:
    """Return what the Prometheus operator reads, and ConfigMaps for Grafana's dashboard sidecar.

    https://github.com/prometheus-operator/prometheus-operator and the label of
    https://github.com/grafana/helm-charts, charts/grafana, sidecar.dashboards.
    """
    space, own = runtime.monitoring_namespace or "monitoring", {**_LABELS, **runtime.monitoring_labels}

    def made(kind: str, name: str, spec: JsonDict) -> JsonDict:
        metadata = {"name": name, "namespace": space, "labels": own}
        return {"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": metadata, "spec": spec}

    found = [made("PrometheusRule", "gpupools", {"groups": groups})]
    chart = runtime.scheduler and QUEUE_METRICS[runtime.scheduler].chart
    scraped = {chart: (runtime.existing.scheduler, QUEUE_METRICS[runtime.scheduler or ""].endpoints)} if chart else {}
    scraped |= {HAMI: (runtime.existing.hami, [{"port": "monitor"}])} if any(p.software == HAMI for p in pools) else {}
    for name, (theirs, endpoints) in scraped.items() if runtime.service_monitors else ():
        where = theirs.name.partition("/")[0] if theirs is not None else charts()[name].namespace
        spec = {"namespaceSelector": {"matchNames": [where]}, "selector": {}, "endpoints": list(endpoints)}
        found.append(made("ServiceMonitor", f"gpupools-{name}", spec))
    return [
        *found,
        *(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": space, "labels": {**_LABELS, "grafana_dashboard": "1"}},
                "data": {f"{name}.json": json.dumps(board, indent=1)},
            }
            for name, board in boards.items()
        ),
    ]
