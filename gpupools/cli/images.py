"""`gpupools images FILE`: list the images and charts of a stack file's clusters, without registry access."""

import argparse
from collections.abc import Sequence
from pathlib import Path

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


def show(file: Path, as_json: bool) -> int:
    """Print the images and charts to mirror."""
    with located_in(file):
        runtimes = check_stack_file(file, clouds()).plan.runtimes
    images, packages = _images(runtimes), _charts(runtimes)
    if as_json:
        answer("images", "accepted", [], {"images": images, "charts": packages})
    else:
        _tell(images, packages)
    return 0


def _images(runtimes: Sequence[RuntimePlan]) -> list[JsonDict]:
    images = []
    for image in sorted({container_image.image for runtime in runtimes for container_image in runtime.images}):
        users = [(runtime.cluster, use) for runtime in runtimes for use in runtime.images if use.image == image]
        by_system = any(use.by_system for _, use in users)
        note, command = "", image_digest_command(image, clouds().values())
        if by_system:
            note = f"the tag has the operating system of the nodes as a suffix: {image.rpartition(':')[2]}-ubuntu24.04"
            command += "-ubuntu24.04"
        elif image.endswith(f":{UNKNOWN_TAG}"):
            note = "the chart's version is not the pinned one; see its values.yaml for the tag"
            command = ""
        stated = None if by_system else digest_of(image)
        used = [(use.pulled, use.by, cluster) for cluster, use in users]
        images.append({"image": image, **_pulled(image, stated, command, used), "note": note})
    return images


def _charts(runtimes: Sequence[RuntimePlan]) -> list[JsonDict]:
    users: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for runtime in runtimes:
        for release in runtime.releases:
            use = (release.repository, f"release {release.name}", runtime.cluster)
            users.setdefault((release.chart, release.version), []).append(use)
    packages = []
    for (chart, version), used in sorted(users.items()):
        own = charts()[chart].repository
        source = own if own.startswith("oci://") else f"{own}/{chart}"
        stated = digest_of(f"chart {chart} {version}")
        pulled = _pulled(own, stated, chart_digest_command(chart, version, own), used)
        packages.append({"chart": source, "version": version, **pulled, "note": ""})
    return packages


def _pulled(own: str, stated: Digest | None, command: str, used: Sequence[tuple[str, str, str]]) -> JsonDict:
    """Return mirrors, digest and users of an image or a chart.

    `own` is the publisher's registry, which is no mirror; `used` has where it is pulled from, by what and where.
    """
    mirrors, by, clusters = (list(dict.fromkeys(column)) for column in zip(*used, strict=True))
    return {
        "pulled": [mirror for mirror in mirrors if mirror != own],
        "digest": stated.digest if stated is not None else None,
        "digest_source": stated.source if stated is not None else "",
        "digest_command": "" if stated is not None else command,
        "by": by,
        "clusters": clusters,
    }


UNKNOWN = "unknown"


def _tell(images: Sequence[JsonDict], packages: Sequence[JsonDict]) -> None:
    if not images and not packages:
        tell("gpupools installs nothing in the clusters of this file, so there is nothing to mirror")
        return
    rows = [(image["image"], image["digest"] or UNKNOWN, ", ".join(image["clusters"])) for image in images]
    tell_table(rows, ["image", "digest", "clusters"])
    tell("")
    rows = [
        (f"{package['chart']} {package['version']}", package["digest"] or UNKNOWN, ", ".join(package["clusters"]))
        for package in packages
    ]
    tell_table(rows, ["chart", "digest", "clusters"])
    moved = [(row.get("image") or row["chart"], where) for row in (*images, *packages) for where in row["pulled"]]
    if moved:
        tell("")
        tell_table(moved, ["image or chart", "pulled as"])
    for image in (row for row in images if row["note"]):
        tell("")
        tell(f"{image['image']}: {image['note']}")
    commands = [row["digest_command"] for row in (*images, *packages) if row["digest_command"]]
    if commands:
        tell("")
        tell(f"These commands print the digests that are {UNKNOWN} here:")
        for command in commands:
            tell(f"  {command}")
