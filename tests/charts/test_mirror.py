"""A closed network: what the rendered charts and the plan's own objects pull, and with which secrets."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from gpupools.software.images import digest_of
from tests.charts.clusters import CASES, MIRROR, Planned, mirrored, planned, pull_secrets
from tests.charts.rendering import Object, containers, of_kind, pod_of, rendered

pytestmark = pytest.mark.charts

EVERY = pytest.mark.parametrize("case", CASES)
PODS = ("DaemonSet", "Deployment", "Job", "StatefulSet")
# What the operator reads of a ClusterPolicy for pods it never makes with our values.
OFF = {"sandboxWorkloads", "vgpuManager", "vgpuDeviceManager", "vfioManager", "ccManager", "kataManager"}
OFF |= {"sandboxDevicePlugin", "kataSandboxDevicePlugin"}


def declared(cluster: Planned) -> list[Object]:
    own = [each.manifest for each in cluster.runtime.objects]
    return [*own, *(each for release in cluster.runtime.releases for each in rendered(release))]


def pods(cluster: Planned) -> Iterator[tuple[str, Object]]:
    for each in of_kind(declared(cluster), *PODS):
        yield f"{each['kind']} {each['metadata']['name']}", pod_of(each)


def reference(part: Mapping[str, Any]) -> str:
    """Write an image of a ClusterPolicy as the operator does: api/nvidia/v1/clusterpolicy_types.go, imagePath."""
    between = "@" if part["version"].startswith("sha256:") else ":"
    return f"{part['repository']}/{part['image']}{between}{part['version']}"


def operated(cluster: Planned) -> Iterator[tuple[str, Object]]:
    """Give the parts of a ClusterPolicy whose pods the operator makes, with what has their pull secrets."""
    for policy in of_kind(declared(cluster), "ClusterPolicy"):
        for name, part in policy["spec"].items():
            if name not in OFF and isinstance(part, dict) and "image" in part and part.get("enabled", True):
                yield name, part
                if "manager" in part:  # an init container of the same pod
                    yield f"{name}.manager", {**part["manager"], "imagePullSecrets": part.get("imagePullSecrets")}


def pulled(cluster: Planned) -> set[str]:
    found = {
        container["image"]
        for _, pod in pods(cluster)
        for container in containers(pod)
        if container.get("imagePullPolicy") != "Never"
    }
    return found | {reference(part) for _, part in operated(cluster)} | set(by_kai(cluster))


def by_kai(cluster: Planned) -> Iterator[str]:
    """Yield the images that KAI's operator pulls: of the services that are on, and of the pods that they start.

    The made-up digests are numbers to YAML, so that all values are read as text.
    """
    texts = (text for each in of_kind(declared(cluster), "ConfigMap") for text in (each.get("data") or {}).values())
    configs = (
        yaml.load(text, yaml.BaseLoader) for text in texts if "apiVersion: kai.scheduler/v1\nkind: Config\n" in text
    )
    for spec in (each["spec"] for each in configs):
        services = [each["service"] for each in spec.values() if isinstance(each, dict) and "service" in each]
        images = [each["image"] for each in services if each.get("enabled") == "true"]
        images += [spec["binder"]["resourceReservation"]["image"]] if spec["admission"]["gpuSharing"] == "true" else []
        adjuster = spec["nodeScaleAdjuster"]
        images += [adjuster["args"]["scalingPodImage"]] if adjuster["service"]["enabled"] == "true" else []
        yield from (f"{each['repository']}/{each['name']}:{each['tag']}" for each in images)


def everything(case: str) -> tuple[Planned, ...]:
    return (*planned(case), *mirrored(case), *mirrored(case, by_digest=True))


@EVERY
def test_the_listed_images_are_those_that_are_rendered(case: str) -> None:
    for cluster in everything(case):
        # HAMi's chart takes the tag of kube-scheduler from the cluster, unless the stack file has its version.
        late = {each.pulled for each in cluster.runtime.images if each.image == "registry.k8s.io/kube-scheduler:?"}
        found = {
            image.replace("kube-scheduler:v1.34.0", "kube-scheduler:?") if late else image for image in pulled(cluster)
        }
        assert {each.pulled for each in cluster.runtime.images} == found


@EVERY
def test_no_image_comes_from_outside_the_mirror(case: str) -> None:
    for cluster in (*mirrored(case), *mirrored(case, by_digest=True)):
        outside = {image for image in pulled(cluster) if not image.startswith(f"{MIRROR}/")}
        text = repr(declared(cluster))

        assert outside == set()
        assert re.findall(r"nvcr\.io|registry\.k8s\.io|dkr\.ecr|gcr\.io|docker\.io|ghcr\.io|quay\.io", text) == []


@EVERY
def test_no_pod_is_without_the_secrets(case: str) -> None:
    for cluster in mirrored(case):
        secrets = pull_secrets(cluster)
        named = [{"name": name} for name in secrets]
        without = [name for name, pod in pods(cluster) if pod.get("imagePullSecrets") != named]
        without += [name for name, part in operated(cluster) if part.get("imagePullSecrets") != secrets]

        assert without == []


@EVERY
def test_the_mirror_has_every_image_under_its_own_path(case: str) -> None:
    for before, after in zip(planned(case), mirrored(case), strict=True):
        assert [each.image for each in before.runtime.images] == [each.image for each in after.runtime.images]
        assert {each.pulled for each in after.runtime.images} == {
            f"{MIRROR}/{each.pulled.partition('/')[2]}" for each in before.runtime.images
        }


@EVERY
def test_images_are_pulled_by_digest_where_one_is_asked_for(case: str) -> None:
    for cluster in mirrored(case, by_digest=True):
        assert {image for image in pulled(cluster) if not re.search(r"@sha256:[0-9a-f]{64}$", image)} == set()


@EVERY
def test_images_are_pulled_by_the_digest_that_is_known(case: str) -> None:
    for cluster in planned(case):
        known = {each.image: stated.digest for each in cluster.runtime.images if (stated := digest_of(each.image))}
        wanted = {f"{image.rpartition(':')[0]}@{digest}" for image, digest in known.items()}

        assert wanted <= pulled(cluster)
        assert not known.keys() & pulled(cluster)


def test_no_two_images_have_one_path_in_a_mirror() -> None:
    images = {
        image.image.rpartition(":")[0] for case in CASES for each in planned(case) for image in each.runtime.images
    }

    assert len(images) > 8
    assert len({image.partition("/")[2] for image in images}) == len(images)
