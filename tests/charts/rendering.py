"""The pinned charts, rendered by the real Helm, and what of a rendered object decides what runs where."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpupools.plan.software_plan import Release
from gpupools.software.charts import charts

FOLDER = "GPUPOOLS_CHARTS"
"""Environment variable with the folder of the packaged charts, `<chart>-<version>.tgz` as `helm pull` names them."""

Object = Mapping[str, Any]
INSTALLABLE = tuple(name for name in charts() if name != "node-feature-discovery")  # which the operator's chart brings


class ChartRefused(Exception):
    """Helm, or a check in the chart itself, refused the values."""


def missing(*needed: str) -> str:
    """Say what the tier lacks here, or tests that need all these charts; empty where they can run."""
    if shutil.which("helm") is None:
        return "`helm` is not on PATH"
    if FOLDER not in os.environ:
        return f"{FOLDER} names no folder with the pinned charts, which `make charts` fetches"
    if absent := [archive(name).name for name in needed if not archive(name).is_file()]:
        return f"{FOLDER} has no {', '.join(absent)}"
    return "" if any(archive(name).is_file() for name in INSTALLABLE) else f"{FOLDER} has none of the pinned charts"


def archive(chart: str) -> Path:
    """Return the packaged chart in the pinned version."""
    return Path(os.environ.get(FOLDER, "")) / f"{chart}-{charts()[chart].version}.tgz"


def rendered(release: Release) -> tuple[Object, ...]:
    """Render a release with its values, once for equal ones; CRDs are left out."""
    return _objects(release.chart, release.name, release.namespace, written(release.values))


def written(values: Mapping[str, Any]) -> str:
    """Write values so that equal ones are equal text."""
    return json.dumps(values, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value)


@cache
def _objects(chart: str, name: str, namespace: str, values: str) -> tuple[Object, ...]:
    found = (yaml.load(text, yaml.CSafeLoader) for text in template(chart, name, namespace, values).split("\n---"))
    return tuple(each for each in found if each)


@cache
def template(chart: str, name: str, namespace: str, values: str) -> str:
    """Return the manifests of a release as text.

    Raises:
        ChartRefused: The values do not go together.
    """
    command = ["helm", "template", name, str(archive(chart)), "-n", namespace, "-f", "-", "--kube-version", "1.34.0"]
    done = subprocess.run(command, input=values, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ChartRefused(done.stderr)
    return done.stdout


@cache
def own_values(chart: str) -> Mapping[str, Any]:
    """Return a chart's own values.yaml."""
    command = ["helm", "show", "values", str(archive(chart))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    values: Mapping[str, Any] = yaml.safe_load(text)
    return values


def of_kind(objects: Sequence[Object], *kinds: str) -> Iterator[Object]:
    """Give the objects of these kinds."""
    return (each for each in objects if each["kind"] in kinds)


def pod_of(each: Object) -> Object:
    """Return the pod's spec inside a workload."""
    pod: Object = each["spec"]["template"]["spec"]
    return pod


def containers(pod: Object) -> list[Object]:
    """Return all containers of a pod, those that come first included."""
    return [*pod.get("initContainers", ()), *pod["containers"]]


# --- scheduling, in Kubernetes' own words: a second opinion beside gpupools.plan.tolerations -----------------------


def lands(pod: Object, labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]) -> bool:
    """Say whether a pod may run on a node: node selector, required node affinity, hard taints.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
    """
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    node_affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not any(_term(term, labels) for term in required["nodeSelectorTerms"]):
        return False
    hard = [taint for taint in taints if taint["effect"] != "PreferNoSchedule"]
    return all(any(_tolerates(each, taint) for each in pod.get("tolerations") or ()) for taint in hard)


def _term(term: Object, labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or ()
    return bool(expressions) and all(_expression(each, labels) for each in expressions)


def _expression(each: Object, labels: Mapping[str, str]) -> bool:
    value = labels.get(each["key"])
    if each["operator"] == "In":
        return value is not None and value in each["values"]
    if each["operator"] == "NotIn":
        return value is None or value not in each["values"]
    if each["operator"] not in ("Exists", "DoesNotExist"):
        raise ValueError(f"no chart had operator {each['operator']} yet")
    return bool((value is not None) == (each["operator"] == "Exists"))


def _tolerates(toleration: Object, taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and (toleration.get("value") or "") == taint["value"])
