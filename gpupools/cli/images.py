"""`gpupools images FILE`: every image and chart of a stack file's clusters, for mirroring. Asks no registry."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from gpupools.cli.files import add_within, links_out
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict
from gpupools.console.output import answer, tell
from gpupools.console.tables import tell_table
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.software.charts import charts
from gpupools.software.images import UNKNOWN_TAG, chart_digest_command, digest_of, image_digest_command
from gpupools.stackfile.check import Located, check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools images stacks/Pulumi.prod.yaml")
    parser.add_argument("file", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument("--json", action="store_true", help="every image and chart with digest, its source and users")
    add_within(parser)
    parser.set_defaults(run=lambda given: show(given.file, given.json, given.within))


class Pulled(NamedTuple):
    """One image or chart, for all clusters of the file."""

    what: str
    """An image with its tag, or a chart's source."""
    version: str
    """Of a chart; empty for an image, whose name has it."""
    pulled: tuple[str, ...]
    """What the clusters pull instead; empty where it is the publisher's own."""
    digest: str
    """As its publisher states it; empty where none does."""
    digest_source: str
    digest_command: str
    """Asks for it where no publisher states it; empty where the tag is not known either."""
    by: tuple[str, ...]
    clusters: tuple[str, ...]
    note: str = ""


def show(file: Path, as_json: bool, within: Path | None = None) -> int:
    """Print what there is to mirror; return 1 when the file is refused."""
    try:
        problems = [Located(path, None, problem) for path, problem in links_out([file], within)]
        runtimes = () if problems else check_stack_file(file, clouds()).plan.runtimes
    except Rejected as rejected:
        problems, runtimes = locate(file, rejected), ()
    images, packages = _images(runtimes), _charts(runtimes)
    if as_json:
        holds = {"images": _json(images, "image"), "charts": _json(packages, "chart")}
        answer("images", "refused" if problems else "accepted", [each.as_json() for each in problems], holds)
    elif problems:
        for each in problems:
            tell_located(each)
    else:
        _tell(images, packages)
    return 1 if problems else 0


def _images(runtimes: Sequence[RuntimePlan]) -> list[Pulled]:
    found = []
    for image in sorted({each.image for runtime in runtimes for each in runtime.images}):
        users = [(runtime.cluster, each) for runtime in runtimes for each in runtime.images if each.image == image]
        stated = None if any(each.by_system for _, each in users) else digest_of(image)
        note, command = "", image_digest_command(image, clouds().values())
        if any(each.by_system for _, each in users):
            note = f"the tag goes on with the system of the nodes: {image.rpartition(':')[2]}-ubuntu24.04"
            command += "-ubuntu24.04"
        elif image.endswith(f":{UNKNOWN_TAG}"):
            note = "the tag is in the values.yaml of the chart's version, which is not the pinned one"
            command = ""
        found.append(
            Pulled(
                image,
                "",
                _each(each.pulled for _, each in users if each.pulled != image),
                stated.digest if stated else "",
                stated.source if stated else "",
                "" if stated else command,
                _each(each.by for _, each in users),
                _each(cluster for cluster, _ in users),
                note,
            )
        )
    return found


def _charts(runtimes: Sequence[RuntimePlan]) -> list[Pulled]:
    used = {(release.chart, release.version) for runtime in runtimes for release in runtime.releases}
    found = []
    for chart, version in sorted(used):
        own = charts()[chart].repository
        source = own if own.startswith("oci://") else f"{own}/{chart}"
        stated = digest_of(f"chart {chart} {version}")
        users = [
            (runtime.cluster, release)
            for runtime in runtimes
            for release in runtime.releases
            if (release.chart, release.version) == (chart, version)
        ]
        found.append(
            Pulled(
                source,
                version,
                _each(release.repository for _, release in users if release.repository != own),
                stated.digest if stated else "",
                stated.source if stated else "",
                "" if stated else chart_digest_command(chart, version, own),
                _each(f"release {release.name}" for _, release in users),
                _each(cluster for cluster, _ in users),
            )
        )
    return found


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _json(found: Iterable[Pulled], key: str) -> list[JsonDict]:
    return [
        {
            key: each.what,
            **({"version": each.version} if key == "chart" else {}),
            "pulled": list(each.pulled),
            "digest": each.digest or None,
            **{name: getattr(each, name) for name in ("digest_source", "digest_command")},
            "by": list(each.by),
            "clusters": list(each.clusters),
            "note": each.note,
        }
        for each in found
    ]


UNKNOWN = "not known"


def _tell(images: Sequence[Pulled], packages: Sequence[Pulled]) -> None:
    if not images and not packages:
        tell("nothing is installed in the clusters of this file, so there is nothing to mirror")
        return
    rows = [(each.what, each.digest or UNKNOWN, ", ".join(each.clusters)) for each in images]
    tell_table(rows, ["image", "digest", "clusters"])
    tell("")
    rows = [(f"{each.what} {each.version}", each.digest or UNKNOWN, ", ".join(each.clusters)) for each in packages]
    tell_table(rows, ["chart", "digest", "clusters"])
    moved = [(each.what, where) for each in (*images, *packages) for where in each.pulled]
    if moved:
        tell("")
        tell_table(moved, ["publisher's", "pulled as"])
    for each in images:
        if each.note:
            tell("")
            tell(f"{each.what}: {each.note}")
    commands = [each.digest_command for each in (*images, *packages) if each.digest_command]
    if commands:
        tell("")
        tell(f"A digest that is {UNKNOWN} here is what the registry answers to:")
        for command in commands:
            tell(f"  {command}")
