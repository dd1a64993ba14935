"""Test another version of a chart: show what it changes in the cluster, and which checks fail with it.

Usage: make raise CHART=PACKAGE.tgz, or python tooling/raise_chart.py PACKAGE.tgz [--write] [-- ARGUMENTS OF PYTEST]

PACKAGE.tgz is the output of `helm pull CHART --version VERSION`; GPUPOOLS_CHARTS is the folder with the pinned charts,
as for `tests/charts`. Every release in these tests is rendered with the old and the new version, and the tests run with
the new version in a copy of this checkout. Exit code 1: a check fails. With --write and no failure the new rows are
written to `gpupools/data`; review them and the source of the pin. Charts inside the package are updated with it.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

import yaml

from tooling.write_chart_values import rows as value_rows

ROOT = Path(__file__).resolve().parent.parent
ROOTS = (".", "components", "policies", "preview", "providers", "stacks")
"""The source roots, as in `pyproject.toml`."""
FOLDER = "GPUPOOLS_CHARTS"
JUDGES = (
    "tests/charts",
    "--ignore=tests/charts/test_raising.py",  # this command itself, which wants a checkout of git
    "tests/gpupools/software/test_charts.py::test_every_pinned_chart_is_above_its_floor",
    "tests/gpupools/software/test_charts.py::test_nothing_the_pinned_charts_install_is_below_a_floor_once_our_values_are_sent",
    "tests/gpupools/software/test_changes.py::test_every_value_that_is_ever_sent_has_a_row",
)
TABLES = ("charts", "chart_values", "chart_versions", "chart_values_of_versions", "chart_installs", "chart_images")
_NAMES_THE_VERSION = ("helm.sh/chart", "app.kubernetes.io/version", "chart")
"""Last keys of paths that say the chart's version and nothing else."""


class Package(NamedTuple):
    """A packaged chart, or one inside another."""

    chart: str
    version: str
    app: str
    values: Mapping[str, Any]


Row = dict[str, str]
Values = Mapping[str, tuple[str, str]]
"""Value path to kind and, of some, default, as in `data/chart_values.csv`."""


def packages(file: Path) -> list[Package]:
    """Read a packaged chart, then those inside it."""
    found = []
    with tarfile.open(file) as archive:
        for name in sorted(archive.getnames(), key=lambda getname: getname.count("/")):
            if name.endswith("/Chart.yaml"):
                chart, values = (_read(archive, name.removesuffix("Chart.yaml") + each) for each in ("Chart", "values"))
                app = str(chart.get("appVersion", ""))
                found.append(Package(chart["name"], str(chart["version"]), app, values))
    return found


def crds(file: Path) -> set[str]:
    """Return the CRDs of a packaged chart and of those inside it, with the versions that are served."""
    found = set()
    with tarfile.open(file) as archive:
        for name in archive.getnames():
            if "/crds/" in name:
                opened = archive.extractfile(name)
                for each in yaml.load_all(opened.read() if opened else b"", yaml.CSafeLoader):
                    versions = (
                        [version["name"] for version in each["spec"]["versions"] if version["served"]] if each else []
                    )
                    found |= (
                        {f"CustomResourceDefinition {each['metadata']['name']} {'/'.join(versions)}"} if each else set()
                    )
    return found


def _read(archive: tarfile.TarFile, name: str) -> dict[str, Any]:
    opened = archive.extractfile(f"{name}.yaml")
    assert opened is not None
    read: dict[str, Any] = yaml.safe_load(opened.read()) or {}
    return read


# --- the data with the new version pinned -----------------------------------------------------------------------------


def raised(data: Path, package: Package, brings: str = "", inner: Sequence[Package] = ()) -> None:
    """Pin a package in the tables of a folder; the version that was pinned stays known.

    Args:
        data: `gpupools/data`.
        package: The chart.
        brings: The version of the chart inside the one that was pinned.
        inner: The charts inside the package.
    """
    tables = {name: _table(data / f"{name}.csv") for name in TABLES}
    (pin,) = (row for row in tables["charts"] if row["chart"] == package.chart)
    if pin["version"] == package.version:
        return
    _raise_values(tables, package, pin["version"])
    before = {"version": pin["version"], "source": pin["source"], "checked": pin["checked"]}
    tables["chart_versions"] = [
        {"chart": package.chart, "brings": brings, **before},
        *(row for row in tables["chart_versions"] if (row["chart"], row["version"]) != package[:2]),
    ]
    installs = [
        row for row in tables["chart_installs"] if (row["chart"], row["version"]) == (package.chart, pin["version"])
    ]
    others_installed = [row for row in tables["chart_installs"] if (row["chart"], row["version"]) != package[:2]]
    tables["chart_installs"] = [*(_installs(row, package) for row in installs), *others_installed]
    today = datetime.now(UTC).date().isoformat()
    source = pin["source"].replace(pin["version"], package.version)
    for row in (row for row in tables["chart_images"] if row["chart"] == package.chart):
        told = row["source"].replace(pin["version"], package.version)
        row |= {"own_tag": _own_tag(row, package, inner), "source": told, "checked": today}
    pin |= {"version": package.version, "source": source, "checked": today}
    for name, rows in tables.items():
        _write(data / f"{name}.csv", rows)


def _raise_values(tables: dict[str, list[Row]], package: Package, pinned: str) -> None:
    """Write the values of a package, and where those of every other known version differ from them."""
    known = _all_values(tables, package.chart, pinned)
    new = {path: (kind, value) for path, kind, value in value_rows("", package.values)}
    others = [row for row in tables["chart_values_of_versions"] if row["chart"] != package.chart]
    for version, values in known.items():
        if version != package.version:
            others += _differences(package.chart, version, values, new)
    tables["chart_values_of_versions"] = others
    position = next(i for i, row in enumerate(tables["chart_values"]) if row["chart"] == package.chart)
    rest = [row for row in tables["chart_values"] if row["chart"] != package.chart]
    own = [{"chart": package.chart, "path": p, "default": kind, "value": value} for p, (kind, value) in new.items()]
    tables["chart_values"] = [*rest[:position], *own, *rest[position:]]


def _all_values(tables: Mapping[str, Sequence[Row]], chart: str, pinned: str) -> dict[str, Values]:
    """Return the values of every known version of a chart."""
    own = {row["path"]: (row["default"], row["value"]) for row in tables["chart_values"] if row["chart"] == chart}
    values: dict[str, Values] = {pinned: own}
    for version in (row["version"] for row in tables["chart_versions"] if row["chart"] == chart):
        other = {
            row["path"]: (row["default"], row["value"])
            for row in tables["chart_values_of_versions"]
            if (row["chart"], row["version"]) == (chart, version)
        }
        values[version] = {path: value for path, value in {**own, **other}.items() if value[0]}
    return values


def _differences(chart: str, version: str, values: Values, pinned: Values) -> Iterator[Row]:
    for path in {**pinned, **values}:
        kind, value = values.get(path, ("", ""))
        if (kind, value) != pinned.get(path, ("", "")):
            yield {"chart": chart, "version": version, "path": path, "default": kind, "value": value}


def _installs(row: Row, package: Package) -> Row:
    """Return what the package installs of a component.

    Raises:
        SystemExit: Its values no longer say so.
    """
    found: Any = package.values
    for key in row["path"].split("."):
        if not isinstance(found, Mapping) or key not in found:
            raise SystemExit(f"{package.chart} {package.version} has no {row['path']}, which named {row['component']}")
        found = found[key]
    # A chart without a tag of its own takes its appVersion, spelt as before.
    default = "v" * row["installs"].startswith("v") + package.app.removeprefix("v")
    return row | {"version": package.version, "installs": str(found or default)}


def _own_tag(row: Row, package: Package, inner: Sequence[Package]) -> str:
    """Return the tag of an image unless a value says otherwise; empty where it is the chart's version."""
    of = next((each for each in inner if row["tag"].startswith(f"{each.chart}.")), package)
    found: Any = package.values
    for key in row["tag"].split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    if not row["own_tag"] or found:
        return row["own_tag"] and str(found)
    return "v" * row["own_tag"].startswith("v") + of.app.removeprefix("v")


def _table(file: Path) -> list[Row]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def _write(file: Path, rows: Sequence[Row]) -> None:
    header = file.read_text(encoding="utf-8").partition("\n")[0]
    out = io.StringIO()
    writer = csv.DictWriter(out, next(csv.reader([header])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    file.write_text(out.getvalue(), encoding="utf-8")


# --- rendered before and after ----------------------------------------------------------------------------------------


def render(chart: str) -> dict[str, Any]:
    """Render every release of a chart in this tree, and say what raising it does to pods that run."""
    from gpupools.software.charts import charts, versions_installed
    from tests.changes import release_changes
    from tests.charts.clusters import CASES, planned
    from tests.charts.rendering import ChartRefused, rendered

    objects: dict[str, Any] = {}
    software: set[str] = set()
    pods: set[str] = set()
    former = os.environ.get("GPUPOOLS_FORMER", charts()[chart].version)
    for case in CASES:
        for cluster in planned(case):
            for release in cluster.runtime.releases:
                if release.chart != chart:
                    continue
                key = f"{case}, {cluster.runtime.cluster}"
                try:
                    found = rendered(release)
                except ChartRefused as refused:
                    raise SystemExit(f"{key}: Helm rejects our values: {refused}") from None
                objects[key] = {f"{each['kind']} {each['metadata']['name']}": each for each in found}
                software |= {
                    f"{name} {version}"
                    for name, version in versions_installed(chart, release.version, release.values).items()
                }
                before = cluster.runtime._replace(releases=(release._replace(version=former),))
                for change in release_changes([before], [cluster.runtime], cluster.pools):
                    pods.add(f"{change.effect.value}: {'; '.join(change.details)}")
    return {"objects": objects, "software": sorted(software), "pods": sorted(pods)}


def _rendered(tree: Path, folder: Path, chart: str, former: str) -> dict[str, Any]:
    command = [sys.executable, str(tree / "tooling" / "raise_chart.py"), "--render", chart]
    environment = _environment(tree, folder) | {"GPUPOOLS_FORMER": former}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr.strip())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _environment(tree: Path, folder: Path) -> dict[str, str]:
    roots = os.pathsep.join(str((tree / root).resolve()) for root in ROOTS)
    return {**os.environ, "PYTHONPATH": roots, FOLDER: str(folder.resolve())}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Say what differs in rendered objects, each thing once with the number of releases it is in."""
    counted: dict[str, int] = {}
    for release in {**old, **new}:
        for line in dict.fromkeys(_changed(old.get(release, {}), new.get(release, {}))):
            counted[line] = counted.get(line, 0) + 1
    return [f"{line} (in {count} of {len(old)} releases)" for line, count in counted.items()]


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in {**old, **new}:
        if name not in new or name not in old:
            yield f"{name}: {'comes' if name in new else 'goes'}"
            continue
        before, after = dict(_leaves("", old[name])), dict(_leaves("", new[name]))
        for path in {**before, **after}:
            if before.get(path) == after.get(path) or path.endswith(_NAMES_THE_VERSION):
                continue
            if "[]: " in path:
                yield f"{name}: {path} {'comes' if path in after else 'goes'}"
            else:
                yield f"{name}: {path} {_short(before.get(path))} → {_short(after.get(path))}"


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, Mapping) and "name" in inner:
                yield from _leaves(f"{path}[{inner['name']}]", inner)
            else:  # one of many alike, wherever it stands
                yield f"{path}[]: {json.dumps(inner)}", True
    else:
        yield path, value


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 100 else f"({len(text)} characters)"


# --- the command ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Test a package; return the exit code."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, nargs="?")
    parser.add_argument("--write", action="store_true", help="pin the version if all checks pass")
    parser.add_argument("--render", metavar="CHART", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments[:end])
    if asked.render:
        json.dump(render(asked.render), sys.stdout)
        return 0
    if asked.package is None or not asked.package.is_file():
        parser.error("PACKAGE.tgz is missing: pass the file from helm pull")
    outer, *inner = packages(asked.package)
    pins = {row["chart"]: row["version"] for row in _table(ROOT / "gpupools" / "data" / "charts.csv")}
    if outer.chart not in pins:
        parser.error(f"unknown chart {outer.chart}; use one of: {', '.join(pins)}")
    former = pins[outer.chart]
    pinned = Path(os.environ.get(FOLDER, "")) / f"{outer.chart}-{former}.tgz"
    if not pinned.is_file():
        parser.error(f"{pinned.name} not found; set {FOLDER} to the folder with the pinned charts")
    with tempfile.TemporaryDirectory() as made:
        tree, folder = Path(made) / "checkout", Path(made) / "charts"
        _copy(tree)
        _charts(folder, asked.package, outer)
        for package in (each for each in inner if each.chart in pins):
            raised(tree / "gpupools" / "data", package)
        brings = next((pins[each.chart] for each in inner if each.chart in pins), "")
        raised(tree / "gpupools" / "data", outer, brings, inner)
        print(f"{outer.chart} {former} → {outer.version}")
        old = _rendered(ROOT, pinned.parent, outer.chart, former)
        new = _rendered(tree, folder, outer.chart, former)
        gone, come = (_without(one, other, "software") for one, other in ((old, new), (new, old)))
        _tell("installs", [*(f"no longer {each}" for each in gone), *(f"now {each}" for each in come)])
        of_old, of_new = crds(pinned), crds(asked.package)
        of_crds = [f"{each}: {'comes' if each in of_new else 'goes'}" for each in sorted(of_old ^ of_new)]
        _tell("on the nodes and in the cluster", [*differences(old["objects"], new["objects"]), *of_crds])
        _tell("to pods that run", new["pods"])
        sys.stdout.flush()
        judged = [sys.executable, "-m", "pytest", "-q", "-n", "0", *JUDGES, *arguments[end + 1 :]]
        done = subprocess.run(judged, cwd=tree, env=_environment(tree, folder), check=False)
        if done.returncode != 0:
            print(f"{outer.chart} {outer.version}: a check fails; nothing was written")
            return 1
        if asked.write:
            for name in TABLES:
                copyfile(tree / "gpupools" / "data" / f"{name}.csv", ROOT / "gpupools" / "data" / f"{name}.csv")
        print(f"{outer.chart} {outer.version}: all checks pass; {'written' if asked.write else 'nothing was written'}")
        return 0


def _without(one: Mapping[str, Any], other: Mapping[str, Any], key: str) -> list[str]:
    return [each for each in one[key] if each not in other[key]]


def _tell(what: str, lines: Iterable[str]) -> None:
    print(f"\n{what}:")
    for line in list(lines) or ["nothing changes"]:
        print(f"  {line}")


def _copy(tree: Path) -> None:
    """Copy what git knows or would know of this checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, tree / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            copyfile(source, target)


def _charts(folder: Path, package: Path, outer: Package) -> None:
    folder.mkdir()
    for path in Path(os.environ[FOLDER]).glob("*.tgz"):
        (folder / path.name).symlink_to(path.resolve())
    new = folder / f"{outer.chart}-{outer.version}.tgz"
    new.unlink(missing_ok=True)
    new.symlink_to(package.resolve())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
