"""Charts that may make node pools which cannot be seen here: by their name, their values or a program. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from gpupools.base.errors import shown
from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.declared_software import chart_name
from gpupools.policies.evidence import parsed_values
from gpupools.policies.kinds import MOST_TYPES, OF_POOLS
from gpupools.read import holders
from gpupools.read.inputs import at, is_list, items, mapping, text

_PASS_ON = frozenset({"raw", "any-resource"})
"""Charts that pass on the objects in their values: https://github.com/bedag/helm-charts, https://github.com/kiwigrid."""
_PASSED_ON = frozenset({"extraDeploy", "extraManifests", "extraObjects", "extraResources"})
"""Keys under which many charts take objects to pass on: https://github.com/bitnami/charts, argoproj/argo-helm."""


@dataclass(frozen=True)
class _ChartAt:
    """Where a kind names a chart."""

    kind: str
    """As in `kinds.csv`."""
    within: str
    """Path of the map that has the rest, or of a list of such."""
    name: str
    values: tuple[str, ...]
    """Values that can be seen."""
    more: tuple[str, ...] = ()
    """Values that cannot."""


_ARGO = ("chart", ("helm.valuesObject", "helm.values"), ("helm.valueFiles", "helm.parameters", "helm.fileParameters"))
_CHARTS_AT = (
    # https://www.pulumi.com/registry/packages/kubernetes/api-docs/helm/, and what is read of `helm_release`.
    _ChartAt("kubernetes:helm.sh/*", "", "chart", ("values",), ("valueYamlFiles",)),
    # https://fluxcd.io/flux/components/helm/helmreleases/
    _ChartAt("kubernetes:helm.toolkit.fluxcd.io/*", "spec", "chart.spec.chart", ("values",), ("valuesFrom",)),
    # https://docs.k3s.io/add-ons/helm
    _ChartAt("kubernetes:helm.cattle.io/*", "spec", "chart", ("valuesContent", "set"), ("valuesSecrets",)),
    # https://github.com/crossplane-contrib/provider-helm
    _ChartAt(
        "kubernetes:helm*.crossplane.io/Release", "spec.forProvider", "chart.name", ("values",), ("valuesFrom", "set")
    ),
    # https://github.com/kubernetes-sigs/cluster-api-addon-provider-helm
    _ChartAt("kubernetes:addons.cluster.x-k8s.io/HelmChartProxy", "spec", "chartName", ("valuesTemplate",)),
    # https://argo-cd.readthedocs.io/en/stable/user-guide/helm/
    *(
        _ChartAt(f"kubernetes:argoproj.io/{kind}", f"{within}.{source}", *_ARGO)
        for kind, within in (("Application", "spec"), ("ApplicationSet", "spec.template.spec"))
        for source in ("source", "sources")
    ),
    # https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/helmcharts/
    _ChartAt(
        "kubernetes:kustomize.config.k8s.io/*",
        "helmCharts",
        "name",
        ("valuesInline",),
        ("valuesFile", "additionalValuesFiles"),
    ),
)


@lru_cache(maxsize=MOST_TYPES)
def _charts_at(key: str) -> tuple[_ChartAt, ...]:
    return tuple(each for each in _CHARTS_AT if key.startswith("kubernetes:") and fnmatchcase(key, each.kind))


def open_charts(key: str, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield why what a chart makes may be node pools that cannot be seen: by its name, its values or a program."""
    for chart in _charts_at(key):
        within = at(inputs, chart.within) if chart.within else inputs
        for given in (one for _, one in items(within, "", [])) if is_list(within) else (within,):
            yield from _chart(given, chart)


def _chart(given: Any, chart: _ChartAt) -> Iterator[str]:
    named = at(given, chart.name)
    name = chart_name(text(named))
    if named is UNKNOWN:
        yield "which chart it is is not known yet"
    elif OF_POOLS.search(re.sub(r"[^a-z]", "", name.casefold())):
        yield f"the chart {shown(name)} is named after pools of nodes, and its objects lie elsewhere"
    seen = [one for path in chart.values if (one := at(given, path)) is not None]
    values = [parsed_values(one) or UNKNOWN if isinstance(one, str) else one for one in seen]
    if name in _PASS_ON and (any(at(given, path) for path in chart.more) or any(map(is_open, values))):
        yield f"the chart {shown(name)} makes what its values say, and not all of them are known here"
    for one in values:
        extra = next((key for key, value in mapping(one).items() if key in _PASSED_ON and is_open(value)), "")
        if extra:
            yield f"the chart {shown(name)} makes what its value {extra} says, which is not known yet"
    if at(given, "postrender") or at(given, "postRenderer"):
        yield f"a program changes what the chart {shown(name)} renders"


def is_open(value: Any, deep: int = 0) -> bool:
    """Say whether among values of a chart one is not known that may be a whole object, or the kind of one."""
    if value is UNKNOWN or deep > _DEEPEST_VALUES or holders.is_placeholder(value):
        return True
    if isinstance(value, Mapping):
        known = all(value.get(key) and not is_open(value[key], deep + 1) for key in ("apiVersion", "kind"))
        return not known and any(is_open(one, deep + 1) for one in value.values())
    return is_list(value) and any(is_open(one, deep + 1) for one in value)


_DEEPEST_VALUES = 50
