"""What each scheduler reports about its teams, as PromQL with `$team`, `$pool`, `$resource` and `$spaces`. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpupools.common.json_types import JsonDict


class QueueMetrics(NamedTuple):
    """Expressions of one scheduler's metrics."""

    chart: str
    used: str
    """Units of one resource of one pool."""
    waiting_units: str
    """Units of one resource that jobs wait for; `$metric` is the resource as kube-state-metrics writes it."""
    waiting: str
    """Jobs that wait for one pool; of KAI, pods."""
    seconds: str
    """Time in the queue that nine of ten jobs do not exceed."""
    evicted: str
    """Evictions within an hour; empty where a scheduler does not count them by queue."""
    endpoints: Sequence[JsonDict]
    """Of a ServiceMonitor of its namespace."""


# Prometheus renames a metric's own label `namespace`.
_EVICTED = 'sum(increase({__name__=~"(kai_)?pod_group_evicted_pods_total", LABEL=~"$spaces"}[1h]))'
_PENDING = 'kueue_cluster_queue_resource_pending{cluster_queue="$team"'
_VOLCANO = '{queue_name="$team.$pool", resource="$resource"}) / 1000'
_OF_TEAM = '=~"$team[.][^.]+"'

QUEUE_METRICS: Mapping[str, QueueMetrics] = {
    # kubernetes-sigs/kueue tag v0.19.2, pkg/metrics/metrics.go. Each replica reports gauges, so max comes before sum.
    "kueue": QueueMetrics(
        "kueue",
        'max(kueue_cluster_queue_resource_usage{cluster_queue="$team", flavor="$pool", resource="$resource"})',
        f'max({_PENDING}, resource="$resource"}})',
        'sum(max by (status) (kueue_pending_workloads{cluster_queue="$team"}))'
        f' and on () (max({_PENDING}, resource="$resource"}}) > 0 or absent({_PENDING}}}))',
        "histogram_quantile(0.9, sum by (le)"
        ' (rate(kueue_admission_wait_time_seconds_bucket{cluster_queue="$team"}[1h])))',
        'sum(increase(kueue_evicted_workloads_total{cluster_queue="$team"}[1h]))',
        [
            {
                "port": "https",
                "scheme": "https",
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                "tlsConfig": {"insecureSkipVerify": True},
            }
        ],
    ),
    # kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/{queuecontroller,scheduler}/metrics: nothing of what waits.
    "kai": QueueMetrics(
        "kai-scheduler",
        'max({__name__=~"(kai_)?queue_allocated_gpus", queue_name="$team.$pool"})',
        'sum(gpupools:units_pending:namespace{namespace=~"$spaces", resource="$metric"})',
        'count(kube_pod_info{namespace=~"$spaces", node=""} and on (namespace, pod)'
        ' kube_pod_status_phase{phase="Pending"} == 1 and on (namespace, pod)'
        ' kube_pod_nodeselectors{nodeselector_gpupools_pool="$pool"})',
        'quantile(0.9, kube_pod_status_scheduled_time{namespace=~"$spaces"} - on (namespace, pod) kube_pod_created)',
        " or ".join(_EVICTED.replace("LABEL", each) for each in ("exported_namespace", "namespace")),
        [{"port": "metrics"}, {"port": "http-metrics"}],
    ),
    # volcano-sh/volcano tag v1.15.1, pkg/{scheduler,controllers}/metrics, thousandths by pkg/scheduler/api.
    "volcano": QueueMetrics(
        "volcano",
        f"max(volcano_queue_allocated_scalar_resources{_VOLCANO}",
        f'(sum(volcano_queue_request_scalar_resources{{queue_name{_OF_TEAM}, resource="$resource"}}) - '
        f'sum(volcano_queue_allocated_scalar_resources{{queue_name{_OF_TEAM}, resource="$resource"}})) / 1000',
        'sum({__name__=~"volcano_queue_pod_group_(pending|inqueue)_count", queue_name="$team.$pool"})',
        f"quantile(0.9, volcano_e2e_job_scheduling_duration{{queue{_OF_TEAM}}}) / 1000",
        "",
        [{"port": "metrics"}],
    ),
}
