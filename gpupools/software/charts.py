"""The charts a plan may install: pinned versions, the value paths each one reads, and where their pods' tolerations go.

Helm takes a misspelt value without a word and installs the default, so every path is compared with the chart's own
list before it is sent. Owns `data/charts.csv` (pins), `data/chart_values.csv` (paths of each values.yaml, with the
kind of the default, and the default of switches and of what places pods), `data/chart_values_extra.csv` (paths that
only a template or Chart.yaml mentions), `data/chart_workloads.csv` (what runs, and where its tolerations go),
`data/chart_installs.csv` (which software a version installs unasked), and of versions that are known beside the pinned
ones `data/chart_versions.csv` and `data/chart_values_of_versions.csv` (where their values differ).
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.catalog.minimum_versions import Floor, below_floor, numbers
from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import nearest, shown
from gpupools.common.json_types import JsonDict, JsonObject


class UnknownValue(ValueError):
    """A chart reads no such value, or not of that kind."""


class Chart(NamedTuple):
    """One pinned chart."""

    chart: str
    version: str
    repository: str
    """`https://…` of the repository, or `oci://…` of the chart itself."""
    namespace: str
    component: str
    """Its row in `data/version_floors.csv`; empty when no bulletin names the chart."""
    source: str
    checked: str
    """ISO date on which the row and the value paths were compared with the source."""


class Installed(NamedTuple):
    """A piece of software that a version of a chart installs."""

    chart: str
    version: str
    component: str
    """Its rows in `data/version_floors.csv`."""
    installs: str
    """The version the chart's own values name."""
    path: str
    """The value that names another one."""
    runs: str
    """Value path of the switch that turns it on; empty when it is always on."""


class Operand(NamedTuple):
    """A workload of a chart that must run on GPU nodes, and the value it takes its tolerations from."""

    chart: str
    name: str
    tolerations: str
    """Value path; empty where the chart has none."""
    runs: str = ""
    """Value path of the switch that turns it on; empty when it always runs."""
    piece: str = ""
    """The `Piece` that it brings; empty for none."""


def _operands(daemons: bool) -> tuple[Operand, ...]:
    rows = data_rows("chart_workloads.csv")
    return tuple(
        Operand(row["chart"], row["name"], row["tolerations"], row["runs"], row["piece"])
        for row in rows
        if (row["daemon"] == "yes") is daemons
    )


OPERANDS, CONTROLLERS = _operands(daemons=True), _operands(daemons=False)
"""Daemons on GPU nodes, and what is no daemon and runs on nodes without GPUs."""


@cache
def charts() -> Mapping[str, Chart]:
    """Return the pinned charts by name."""
    return MappingProxyType({row["chart"]: Chart(**row) for row in data_rows("charts.csv")})


@cache
def known_versions(chart: str) -> tuple[str, ...]:
    """Return the versions of a chart whose values and software are known, the pinned one first."""
    return (
        charts()[chart].version,
        *(row["version"] for row in data_rows("chart_versions.csv") if row["chart"] == chart),
    )


def is_older(version: str, than: str) -> bool:
    """Say whether one version of a chart comes before another."""
    return (numbers(version) or ()) < (numbers(than) or ())


@cache
def accepted_values(chart: str, version: str = "") -> Mapping[str, str]:
    """Return the value paths a version of a chart reads, with the kind of the default.

    Kinds: `bool`, `number`, `text`, `list`, `null` (any scalar) and `map` (any key below it).

    Args:
        chart: One of the pinned charts.
        version: Left out, or one that is not known: the pinned one.
    """
    found = {path: kind for path, (kind, _) in _own_values(chart, version).items()}
    for row in data_rows("chart_values_extra.csv"):
        if row["chart"] == chart and row["default"] in charts():  # a chart inside: its own values, below this path
            inside = accepted_values(row["default"], _brings(chart, version))
            found |= {f"{row['path']}.{path}": kind for path, kind in inside.items()}
        elif row["chart"] == chart:
            found[row["path"]] = row["default"]
    return MappingProxyType(found)


@cache
def default_values(chart: str, version: str = "") -> JsonObject:
    """Return a version's own values, nested, as far as the data has them: switches, and what places pods."""
    found = nested({path: json.loads(value) for path, (_, value) in _own_values(chart, version).items() if value})
    for row in data_rows("chart_values_extra.csv"):
        if row["chart"] == chart and row["default"] in charts():  # what it says of a chart inside stands above that
            inside = default_values(row["default"], _brings(chart, version))
            found = merged(nested({row["path"]: inside}), found)
    return MappingProxyType(found)


@cache
def _own_values(chart: str, version: str) -> Mapping[str, tuple[str, str]]:
    """Return kind and, of some, default by path: the pinned version's, with what another version has otherwise."""
    found = {
        row["path"]: (row["default"], row["value"]) for row in data_rows("chart_values.csv") if row["chart"] == chart
    }
    for row in data_rows("chart_values_of_versions.csv"):
        if (row["chart"], row["version"]) == (chart, version):
            found[row["path"]] = (row["default"], row["value"])
    return {path: value for path, value in found.items() if value[0]}


def _brings(chart: str, version: str) -> str:
    """Return the version of the chart inside; empty for that of the pinned one."""
    rows = (row for row in data_rows("chart_versions.csv") if (row["chart"], row["version"]) == (chart, version))
    return next((row["brings"] for row in rows), "")


@cache
def installed(chart: str, version: str) -> tuple[Installed, ...]:
    """Return what a version of a chart installs unless its values say otherwise; nothing of one that is not known."""
    rows = (Installed(**row) for row in data_rows("chart_installs.csv"))
    return tuple(row for row in rows if (row.chart, row.version) == (chart, version))


def versions_installed(chart: str, version: str, values: JsonObject) -> Mapping[str, str]:
    """Return which version of each component a release with these values installs, as far as it is known."""
    return {
        row.component: tag_of(str(value_seen(chart, values, row.path, version) or row.installs))
        for row in installed(chart, version)
        if not row.runs or value_seen(chart, values, row.runs, version)
    }


def tag_of(version: str) -> str:
    """Return the tag of a known digest, written with or without `sha256:`; any other version as it is."""
    return _tags().get(version.removeprefix("sha256:"), version)


@cache
def _tags() -> Mapping[str, str]:
    rows = data_rows("digests.csv")
    return MappingProxyType({row["digest"].removeprefix("sha256:"): row["what"].rpartition(":")[2] for row in rows})


def outdated(chart: str, version: str, values: JsonObject) -> Mapping[str, tuple[str, Floor]]:
    """Return what a release with these values installs although a fix is out: component to version and floor."""
    found = versions_installed(chart, version, values)
    floors = {component: below_floor(component, value) for component, value in found.items()}
    return {component: (found[component], floor) for component, floor in floors.items() if floor is not None}


def merged(below: JsonObject, above: JsonObject) -> JsonDict:
    """Put values above others as Helm does: maps are merged, all else replaced, and null takes a key away.

    https://helm.sh/docs/chart_template_guide/values_files/
    """
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(under, Mapping):
            result[key] = merged(under, value)
        else:
            result[key] = value
    return result


_NOTHING = object()


def value_seen(chart: str, values: JsonObject, path: str, version: str = "") -> Any:
    """Return what a chart's templates find at a path: what is sent above its own; None where there is neither."""
    given = at(values, path, _NOTHING)
    if given is _NOTHING:
        return _own_value(chart, version, path)
    own = _own_value(chart, version, path) if isinstance(given, Mapping) else None
    return merged(own, given) if isinstance(own, Mapping) else given


@cache
def _own_value(chart: str, version: str, path: str) -> Any:
    return at(default_values(chart, version), path)


def value_paths(values: JsonObject) -> Iterator[tuple[str, Any]]:
    """Give every path of nested values with what stands there; an empty map counts as a value."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            for path, inner in value_paths(value):
                yield f"{key}.{path}", inner
        else:
            yield str(key), value


def check_values(chart: str, values: JsonObject, version: str = "") -> None:
    """Compare values with what a chart reads in the version asked for, or, where that is not known, in the pinned one.

    Raises:
        UnknownValue: The first path the chart does not read, or whose value has another kind than its default.
    """
    accepted = accepted_values(chart, version)
    for path, value in value_paths(values):
        kind = accepted.get(path)
        if kind is None and not _below_open_map(accepted, path):
            known = version or charts()[chart].version
            raise UnknownValue(f"chart {chart} {known} reads no {path}; {nearest(path, accepted)}")
        if kind is not None and not _fits(kind, value):
            raise UnknownValue(f"chart {chart}: {path} takes a {kind}, got {shown(value)}")


def nested(values: JsonObject) -> JsonDict:
    """Turn value paths into nested values: `{"a.b": 1}` into `{"a": {"b": 1}}`; no key of a chart holds a dot."""
    result: JsonDict = {}
    for path, value in values.items():
        *above, last = path.split(".")
        inner = result
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return result


def at(values: JsonObject, path: str, default: Any = None) -> Any:
    """Return what stands at a path of nested values."""
    found: Any = values
    for key in path.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return default
        found = found[key]
    return found


def too_old(chart: str, version: str) -> str | None:
    """Say what a chart version lacks, or None when it is at or above its floor."""
    component = charts()[chart].component
    floor = below_floor(component, version) if component else None
    return None if floor is None else below(floor)


def below(floor: Floor) -> str:
    """Say which floor something is below."""
    return f"below {floor.floor}, the first with the fixes of NVIDIA's bulletin {floor.bulletin} ({floor.cves})"


def _below_open_map(accepted: Mapping[str, str], path: str) -> bool:
    parts = path.split(".")
    return any(accepted.get(".".join(parts[:length])) == "map" for length in range(1, len(parts)))


def _fits(kind: str, value: Any) -> bool:
    if value is None:
        return True
    if kind == "null":
        return isinstance(value, bool | int | str)
    types: JsonDict = {"bool": bool, "text": str, "list": list | tuple, "map": Mapping}
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, types[kind])
