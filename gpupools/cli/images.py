"""`gpupools images FILE`: list the images and charts of a stack file's clusters, without registry access."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from gpupools.cli.files import add_within
from gpupools.cli.help_texts import examples, located_in
from gpupools.common.json_types import JsonDict
from gpupools.console.output import answer, tell
from gpupools.console.tables import tell_table
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.software.charts import charts
from gpupools.software.images import UNKNOWN_TAG, Digest, chart_digest_command, digest_of, image_digest_command
from gpupools.stackfile.check import check_stack_file


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools images stacks/Pulumi.prod.yaml")
    parser.add_argument("file", type=Path, metavar="FILE", help="Pulumi.<stack>.yaml")
    parser.add_argument(
        "--json", action="store_true", help="print all images and charts with digests, sources and users as JSON"
    )
    add_within(parser)
    parser.set_defaults(run=lambda given: show(given.file, given.json), nothing={"images": [], "charts": []})


class Pulled(NamedTuple):
    """One image or chart with its users in all clusters of the file."""

    what: str
    """Image with tag, or source of a chart."""
    version: str
    """Version of a chart; empty for an image, whose name has the tag."""
    pulled: tuple[str, ...]
    """Mirrors from which the clusters pull; empty for the publisher's registry."""
    digest: str
    """Digest that the publisher states; may be empty."""
    digest_source: str
    digest_command: str
    """Command that prints the digest if no publisher states it; empty if the tag is unknown too."""
    by: tuple[str, ...]
    clusters: tuple[str, ...]
    note: str = ""


def show(file: Path, as_json: bool) -> int:
    """Print the images and charts to mirror."""
    with located_in(file):
        runtimes = check_stack_file(file, clouds()).plan.runtimes
    images, packages = _images(runtimes), _charts(runtimes)
    if as_json:
        answer("images", "accepted", [], {"images": _json(images, "image"), "charts": _json(packages, "chart")})
    else:
        _tell(images, packages)
    return 0


def _images(runtimes: Sequence[RuntimePlan]) -> list[Pulled]:
    images = []
    for image in sorted({container_image.image for runtime in runtimes for container_image in runtime.images}):
        users = [(runtime.cluster, each) for runtime in runtimes for each in runtime.images if each.image == image]
        by_system = any(each.by_system for _, each in users)
        note, command = "", image_digest_command(image, clouds().values())
        if by_system:
            note = f"the tag has the operating system of the nodes as a suffix: {image.rpartition(':')[2]}-ubuntu24.04"
            command += "-ubuntu24.04"
        elif image.endswith(f":{UNKNOWN_TAG}"):
            note = "the chart's version is not the pinned one; see its values.yaml for the tag"
            command = ""
        stated = None if by_system else digest_of(image)
        used = [(each.pulled, each.by, cluster) for cluster, each in users]
        images.append(_pulled(image, "", image, stated, command, used)._replace(note=note))
    return images


def _charts(runtimes: Sequence[RuntimePlan]) -> list[Pulled]:
    users: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for runtime in runtimes:
        for release in runtime.releases:
            use = (release.repository, f"release {release.name}", runtime.cluster)
            users.setdefault((release.chart, release.version), []).append(use)
    pulleds = []
    for (chart, version), used in sorted(users.items()):
        own = charts()[chart].repository
        source = own if own.startswith("oci://") else f"{own}/{chart}"
        stated = digest_of(f"chart {chart} {version}")
        pulleds.append(_pulled(source, version, own, stated, chart_digest_command(chart, version, own), used))
    return pulleds


def _pulled(
    what: str, version: str, own: str, stated: Digest | None, command: str, used: Sequence[tuple[str, str, str]]
) -> Pulled:
    """Return an image or a chart; `used` has where it is pulled from, by what, and in which cluster."""
    mirrors, by, clusters = (tuple(dict.fromkeys(each)) for each in zip(*used, strict=True))
    digest = (stated.digest, stated.source, "") if stated is not None else ("", "", command)
    return Pulled(what, version, tuple(mirror for mirror in mirrors if mirror != own), *digest, by, clusters)


def _json(found: Iterable[Pulled], key: str) -> list[JsonDict]:
    return [
        {
            key: pulled.what,
            **({"version": pulled.version} if key == "chart" else {}),
            "pulled": list(pulled.pulled),
            "digest": pulled.digest or None,
            **{name: getattr(pulled, name) for name in ("digest_source", "digest_command")},
            "by": list(pulled.by),
            "clusters": list(pulled.clusters),
            "note": pulled.note,
        }
        for pulled in found
    ]


UNKNOWN = "unknown"


def _tell(images: Sequence[Pulled], packages: Sequence[Pulled]) -> None:
    if not images and not packages:
        tell("gpupools installs nothing in the clusters of this file, so there is nothing to mirror")
        return
    rows = [(image.what, image.digest or UNKNOWN, ", ".join(image.clusters)) for image in images]
    tell_table(rows, ["image", "digest", "clusters"])
    tell("")
    rows = [(f"{each.what} {each.version}", each.digest or UNKNOWN, ", ".join(each.clusters)) for each in packages]
    tell_table(rows, ["chart", "digest", "clusters"])
    moved = [(pulled.what, where) for pulled in (*images, *packages) for where in pulled.pulled]
    if moved:
        tell("")
        tell_table(moved, ["image or chart", "pulled as"])
    for image in images:
        if image.note:
            tell("")
            tell(f"{image.what}: {image.note}")
    commands = [pulled.digest_command for pulled in (*images, *packages) if pulled.digest_command]
    if commands:
        tell("")
        tell(f"These commands print the digests that are {UNKNOWN} here:")
        for command in commands:
            tell(f"  {command}")
