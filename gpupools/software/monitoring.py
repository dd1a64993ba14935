"""Recording rules, alerts and Grafana dashboards for the pools and teams of one cluster. Pure.

Owns `data/monitoring.yaml`, which has them as text. Metrics come from the scheduler, from NVIDIA's DCGM exporter with
the fields that gpupools gives it (`dcgm_metrics.csv`), and from kube-state-metrics with the flags that
docs/how-to/watch-pools.md lists.
Prometheus renames the labels of a GPU's pod to `exported_namespace` and `exported_pod`, unless `honorLabels` is set.
https://github.com/NVIDIA/dcgm-exporter, https://github.com/kubernetes/kube-state-metrics/tree/main/docs/metrics
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from string import Template

import yaml

from gpupools.common.csv_rows import DATA, data_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.hami import HAMI
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.prices import PoolPrice
from gpupools.software.charts import charts
from gpupools.software.objects import wire_form
from gpupools.software.releases import SCHEDULERS
from gpupools.software.team_shares import TeamShares
from gpupools.spec.software_spec import RuntimeSpec
from gpupools.spec.teams import Team

_POOL_OF_NODE = 'max by (node, pool) (label_replace(kube_node_labels{label_gpupools_pool!=""}, "pool", "$1",'
_POOL_OF_NODE += ' "label_gpupools_pool", "(.+)"))'


@cache
def _written() -> JsonObject:
    found: JsonObject = yaml.safe_load(DATA.joinpath("monitoring.yaml").read_text(encoding="utf-8"))
    return found


def _filled(text: str, words: Mapping[str, object]) -> str:
    """Fill in words; `$labels` and the like stay for Prometheus."""
    return Template(text).safe_substitute(words)


def _rule_of_field(row: Mapping[str, str]) -> JsonDict:
    """Return the record of a field of DCGM, with the pool and node of each GPU or slice.

    Exporters from 4.9.0 on give fields other names by default (https://github.com/NVIDIA/DCGM, dcgmlib/dcgm_fields.h),
    and 4.8.3 renamed the label of the node (https://github.com/NVIDIA/dcgm-exporter/pull/655).
    """
    expression = " or ".join(filter(None, (row["field"], row["renamed"])))
    for label in ("Hostname", "hostname"):
        expression = f'label_replace({expression}, "node", "$1", "{label}", "(.+)")'
    pooled = f"{expression} * on (node) group_left (pool) gpupools:pool:node"
    return {"record": f"gpupools:dcgm:{row['record']}", "expr": pooled}


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
    yield {"record": "gpupools:pool:node", "expr": _POOL_OF_NODE}
    yield from (_rule_of_field(row) for row in data_rows("dcgm_metrics.csv") if row["record"])
    divided = "|".join(pool.name for pool in pools if pool.software == HAMI)
    for name, expression in _written()["records"].items():
        yield {"record": name, "expr": _filled(expression, {"divided": divided})}
    for price in prices:
        pool, amount = price.key.partition("/")[2], price.per_gpu
        if amount is not None:
            labels = {"pool": pool, "currency": price.currency}
            yield {"record": "gpupools:price_per_hour:gpu", "expr": f"vector({amount:.4f})", "labels": labels}
    if shares is not None and scheduler is not None:
        yield from _of_teams(teams, shares, scheduler)


def _of_teams(teams: Mapping[str, Team], shares: TeamShares, scheduler: str) -> Iterator[JsonDict]:
    """Yield what teams have and wait for, by their scheduler's metrics, and by their pods where those are missing."""
    units = [
        _words(teams[name], {"team": name, "pool": pool, "resource": resource}, shares, scheduler)
        for name, own in shares.shares.items()
        for pool, resource in own
    ]
    for rule in _written()["team_records"]:
        made: dict[tuple[str, ...], tuple[dict[str, str], str]] = {}
        for words in units:
            labels = {key: words["metric" if key == "resource" else key] for key in rule["by"]}
            made[tuple(labels.values())] = (labels, _filled(rule["expr"], words))
        for labels, text in made.values():
            if text:
                yield {"record": rule["record"], "expr": text, **({"labels": labels} if labels else {})}


def _words(team: Team, unit: Mapping[str, str], shares: TeamShares, scheduler: str) -> dict[str, str]:
    """Return what fills the records of a team for one resource of one pool."""
    resource, pool = unit["resource"], next(plan for plan in shares.pools if plan.name == unit["pool"])
    weights = {each: slice_weight(each) for each in pool.countable}
    per_unit = pool.instance.gpus * weights[resource] / sum(weights[each] * pool.countable[each] for each in weights)
    guarantee = shares.shares[unit["team"]][unit["pool"], resource].guarantee
    words = {
        **unit,
        "group": pool.group or pool.name,
        "selected": "gpupools_group" if pool.group else "gpupools_pool",
        "metric": metric_resource(resource),
        "spaces": "|".join(team.namespaces),
        "guarantee": str(guarantee),
        "gpus": f"{float(per_unit):.6g}",
    }
    return words | {key: _filled(text, words) for key, text in _written()["schedulers"][scheduler].items()}


def slice_weight(resource: str) -> int:
    """Return the compute slices of a MIG resource, such as 3 of `nvidia.com/mig-3g.20gb`, else 1."""
    match = re.search(r"/mig-(\d+)g", resource)
    return int(match[1]) if match else 1


def alerts(pools: Sequence[PoolPlan], *, with_teams: bool) -> Iterator[JsonDict]:
    """Yield the alerts: failing GPUs, GPUs that are missing or idle, and pods or teams that wait in vain."""
    slices: list[JsonDict] = [
        {"pool": pool.name, "resource": name, "metric": metric_resource(name), "count": count}
        for pool in pools
        if pool.sharing.mig is not None
        for name, count in pool.node_resources.items()
    ]
    repeated: Mapping[str, list[JsonDict]] = {"teams": [{}] * with_teams, "slices": slices}
    for rule in _written()["alerts"]:
        for words in repeated.get(rule.get("of", ""), [{}]):
            said = {key: _filled(rule[key], words) for key in ("summary", "description")}
            found = {"alert": rule["alert"], "expr": _filled(rule["expr"], words), "for": rule["for"]}
            yield {**found, "labels": {"severity": rule["severity"]}, "annotations": said}


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


def dashboards(pools: Sequence[PoolPlan], teams: Iterable[str]) -> dict[str, JsonDict]:
    """Return the Grafana dashboards by name: fleet, pool, and team where there are teams."""
    choices: dict[str, list[str] | None] = {"fleet": None, "pool": [pool.name for pool in pools], "team": [*teams]}
    divided = any(pool.software == HAMI for pool in pools)
    found = {}
    for name, panels in _written()["dashboards"].items():
        if choices[name] != []:
            shown = [panel for panel in panels if divided or panel.get("of") != HAMI]
            found[f"gpupools-{name}"] = _dashboard(name, shown, choices[name])
    return found


def _dashboard(name: str, panels: Iterable[JsonObject], choice: list[str] | None) -> JsonDict:
    """Return a dashboard for Grafana 11.6 or newer, with two panels side by side."""
    from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos

    source = DataSourceRef("prometheus", "${datasource}")
    made = dashboard.Dashboard(f"GPU {name}").uid(f"gpupools-{name}").tags(["gpupools"])
    made.time("now-6h", "now").refresh("1m")
    made.with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
    if choice is not None:
        made.with_variable(dashboard.CustomVariable(name).values(",".join(dict.fromkeys(choice))))
    for number, item in enumerate(panels):
        panel = timeseries.Panel().title(item["title"]).id(number + 1).datasource(source)
        panel.unit(item.get("unit", "short")).min(0)
        panel.grid_pos(GridPos(h=8, w=12, x=12 * (number % 2), y=8 * (number // 2)))
        for index, (legend, expression) in enumerate(item["queries"].items()):
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
    space, api = runtime.monitoring_namespace or "monitoring", "monitoring.coreos.com/v1"
    objects = [wire_form("PrometheusRule", "gpupools", space, api, spec={"groups": groups})]
    scraped = {SCHEDULERS[runtime.scheduler].chart: runtime.existing.scheduler} if runtime.scheduler else {}
    scraped |= {HAMI: runtime.existing.hami} if any(pool.software == HAMI for pool in pools) else {}
    for name, theirs in scraped.items() if runtime.service_monitors else ():
        where = theirs.name.partition("/")[0] if theirs is not None else charts()[name].namespace
        spec = {"namespaceSelector": {"matchNames": [where]}, "selector": {}}
        spec["endpoints"] = _written()["service_monitors"][name]
        objects.append(wire_form("ServiceMonitor", f"gpupools-{name}", space, api, spec=spec))
    for item in objects:
        item["metadata"]["labels"] |= runtime.monitoring_labels
    for name, board in boards.items():
        objects.append(wire_form("ConfigMap", name, space, data={f"{name}.json": json.dumps(board, indent=1)}))
        objects[-1]["metadata"]["labels"]["grafana_dashboard"] = "1"
    return objects
