"""GPU charts and images have an exact, fixed version from a trusted source."""

import re
from collections.abc import Iterator
from typing import Any

from gpupools.catalog.minimum_versions import Floor, below_floor
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.declared_software import CHARTS, IMAGES, DeclaredSoftware, known_image, split_image
from gpupools.policies.finding import Context, Finding, Rule, choice, unknown_at_preview
from gpupools.policies.rules._table import described
from gpupools.readback.inputs import at
from gpupools.software.charts import charts, tag_of
from gpupools.software.images import PUBLIC, digest_of_tag, placed

# A range as Helm takes it: https://github.com/Masterminds/semver#checking-version-constraints
_EXACT = re.compile(r"v?\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_IN_NAME = re.compile(r"[-@:](v?\d+\.\d+\.\d+.*)")
_FLOATING = re.compile(r"(?:.*[-_.])?(?:latest|main|master|nightly|devel|edge|stable)", re.IGNORECASE)
# Variants of the CUDA image are base, runtime and devel: https://hub.docker.com/r/nvidia/cuda
_FLAVOUR = re.compile(r"\d+\.\d+(?:\.\d+)?-devel")
# Branch and kernel of a precompiled driver; the tag does not show the release of the branch.
# https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/precompiled-drivers.html
_PRECOMPILED = re.compile(r"\d{3}(?:-.+)?")


def _findings(software: DeclaredSoftware, context: Context) -> Iterator[Finding]:
    """Report charts and images without an exact version or with known vulnerabilities, and images pulled by tag."""
    if RULE.option(context, "imagesBy") == "digest":
        yield from _tag_findings(software)
    if software.is_chart:
        yield from _chart_findings(software)
        yield from _part_findings(software)
        return
    for path, image in software.images:
        component = IMAGES[known_image(image)][0]
        _, tag, digest = split_image(image)
        floats = _FLOATING.fullmatch(tag) and not (known_image(image) == "nvidia/cuda" and _FLAVOUR.fullmatch(tag))
        if not digest and (not tag or floats):
            what = f"the image is not pinned: {tag or 'no tag'}"
            yield Finding(what=what, property=path, found=image, fix="name an exact tag or a digest")
        else:
            yield from _outdated(component, tag or digest, path, f"image {known_image(image)}")


def _tag_findings(software: DeclaredSoftware) -> Iterator[Finding]:
    """Report images that are pulled by tag although their publisher states the digest."""
    version = software.version if isinstance(software.version, str) else ""
    placed_images = placed(software.kind, version, software.values, PUBLIC)[1] if software.is_chart else ()
    for path, image in (*software.images, *(("values", placed_image.image) for placed_image in placed_images)):
        digest = digest_of_tag(image)
        if digest:
            fix = f"name {split_image(image)[0]}@{digest}; a cluster of gpupools does unless runtime.digests is off"
            yield Finding(what="the image is pulled by its tag, which may move", property=path, found=image, fix=fix)


def _chart_findings(software: DeclaredSoftware) -> Iterator[Finding]:
    chart, version, repository = software.chart, software.version, software.repository
    if software.devel is True:
        what = f"chart {software.kind} may be a development version"
        yield Finding(what=what, property="devel", found="true", fix="remove devel and set an exact version")
    local = chart.startswith(("./", "../", "/"))
    name = chart.removesuffix(".tgz").removesuffix(".tar.gz")
    archive = _IN_NAME.search(name, max(name.rfind("/"), name.rfind("@"), 0))
    digest = "@sha256:" in chart
    if version is UNKNOWN:
        yield _unverified(f"version of chart {software.kind}", "version", "write the version as a plain value")
    elif not isinstance(version, str) or not version.strip():
        if not (local or archive or digest):
            what = f"chart {software.kind} has no version, so each deployment installs the newest"
            yield Finding(what=what, property="version", found="none", fix=f"name an exact version{_example(software)}")
        elif archive and not _is_versioned_by_image(software):
            yield from _outdated(CHARTS[software.kind].component, archive[1], "chart", f"chart {software.kind}")
    elif not _EXACT.fullmatch(version.strip()):
        what = f"version {version!r} of chart {software.kind} is not exact"
        yield Finding(what=what, property="version", found=version, fix=f"name one exact version{_example(software)}")
    elif not _is_versioned_by_image(software):
        yield from _outdated(CHARTS[software.kind].component, version.strip(), "version", f"chart {software.kind}")
    yield from _repository_findings(software, chart, repository, local)


def _example(software: DeclaredSoftware) -> str:
    """Return the version of the chart that gpupools installs, as an example; empty for other charts."""
    ours = charts().get(software.kind)
    return f", e.g. {ours.version.removeprefix('v')}" if ours else ""


def _repository_findings(software: DeclaredSoftware, chart: str, repository: Any, local: bool) -> Iterator[Finding]:
    """Report a chart that is neither from https or OCI nor from local files."""
    fix = "name the chart's https or oci address, e.g. repositoryOpts.repo: https://helm.ngc.nvidia.com/nvidia"
    scheme = re.match(r"[a-z][a-z0-9+.-]*://", chart, re.IGNORECASE)
    if scheme:
        if scheme[0].lower() not in ("https://", "oci://"):
            what = f"chart {software.kind} comes over {scheme[0]}, which is not protected"
            yield Finding(what=what, property="chart", found=chart, fix=fix)
    elif repository is UNKNOWN:
        yield _unverified(f"repository of chart {software.kind}", "repositoryOpts.repo", fix)
    elif isinstance(repository, str) and repository:
        if not repository.lower().startswith(("https://", "oci://")):
            what = f"chart {software.kind} comes from {repository.split('://')[0]}, which is not protected"
            yield Finding(what=what, property="repositoryOpts.repo", found=repository, fix=fix)
    elif not local:
        what = f"chart {software.kind} has no repository, so the machine that deploys decides where it comes from"
        yield Finding(what=what, property="repositoryOpts.repo", found="none", fix=fix)


def _unverified(what: str, path: str, fix: str) -> Finding:
    return Finding(what=f"the {what} is not known yet", property=path, found=repr(UNKNOWN), fix=fix, unverified=True)


def _is_versioned_by_image(software: DeclaredSoftware) -> bool:
    """Say whether the image tag decides the version, not the chart."""
    chart = CHARTS[software.kind]
    tag = at(software.values, chart.parts[0][1]) if chart.parts else None
    return chart.image_decides and isinstance(tag, str) and bool(tag)


def _part_findings(software: DeclaredSoftware) -> Iterator[Finding]:
    for component, place in CHARTS[software.kind].parts:
        value, path = at(software.values, place), f"values.{place}"
        if value is UNKNOWN:
            yield _unverified(f"version of {component or software.kind}", path, "write it as a plain value")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            what = f"{path} is a number, which Helm may format differently"
            yield Finding(what=what, property=path, found=str(value), fix="quote the version")
        elif isinstance(value, str) and value:
            if _FLOATING.fullmatch(value):
                what = f"{path} is not pinned"
                yield Finding(what=what, property=path, found=value, fix="name an exact tag or a digest")
            else:
                yield from _outdated(component, value, path, component)


def _outdated(component: str, version: str, path: str, what: str) -> Iterator[Finding]:
    row = below_floor(component, tag_of(version)) if component else None
    if row is not None and component == "driver" and row.branch == version[:3] and _PRECOMPILED.fullmatch(version):
        yield Finding(
            what=f"{what} {version} can be any release of branch {row.branch}, so whether it has the fix of "
            f"{row.cves.replace(' ', ', ')} cannot be verified",
            property=path,
            found=version,
            fix=f"name the digest of an image with {_minimum(row)} or newer",
            source=row.source,
            unverified=True,
        )
    elif row is not None:
        yield Finding(
            what=f"{what} {version} lacks the fix of {row.cves.replace(' ', ', ')}",
            property=path,
            found=version,
            fix=f"use {_minimum(row)} or newer",
            source=row.source,
        )


def _minimum(row: Floor) -> str:
    return f"{row.component} {row.floor}"


RULE = Rule(
    **described(__name__),
    config={
        **unknown_at_preview(),
        "imagesBy": choice(
            "tag", "digest", of="With `digest`, images whose digest gpupools knows must be pulled by it."
        ),
    },
    software=_findings,
)
