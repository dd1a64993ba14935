"""Where the pods of a cluster's GPU software pull their images from, and which images and charts there are to mirror.

A mirror has each image under its own path, without the registry it came from: `nvcr.io/nvidia/driver` becomes
`mirror.example.com/gpu/nvidia/driver`. Owns `data/chart_images.csv` (where each chart takes its images' names, tags and
pull secrets from) and `data/digests.csv` (digests that their publishers state).
"""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.cloud import Cloud
from gpupools.plan.software_plan import ContainerImage, KubernetesObject
from gpupools.software.charts import at, charts, value_seen
from gpupools.spec.software_spec import RuntimeSpec


class Slot(NamedTuple):
    """An image of a chart: the values that say which, and what they are unless set."""

    chart: str
    what: str
    """What runs it, in words for people."""
    repository: str
    """Value path of the registry and path, with the image's own name where `image` is empty."""
    image: str
    tag: str
    secrets: str
    """Value path of the pull secrets; empty where another image of the same pod has them."""
    secrets_form: str
    """`names`, `objects` with a `name` each, or `name` of only one."""
    tag_form: str
    """How a digest is written: `field` takes `sha256:…` in place of a tag (NVIDIA/gpu-operator,
    api/nvidia/v1/clusterpolicy_types.go, imagePath), `tag` is put behind a colon by the chart."""
    runs: str
    """Value path of the switch that makes it run; empty when it always does."""
    own_repository: str
    own_image: str
    own_tag: str
    """Empty where it is the chart's version."""
    by_system: str
    """`yes` where the operator ends the tag in the operating system of the nodes."""
    source: str
    checked: str


class Digest(NamedTuple):
    """What a publisher says an image or a chart's package hashes to."""

    digest: str
    source: str


class Pulls(NamedTuple):
    """How pods of a cluster pull: the mirror, the secrets, the digests that are known or asked for."""

    registry: str | None = None
    secrets: tuple[str, ...] = ()
    digests: Mapping[str, str] = MappingProxyType({})

    def moved(self, repository: str) -> str:
        """Return an image's name without tag, or the beginning of one, as the mirror has it."""
        return repository if self.registry is None else f"{self.registry}/{repository.partition('/')[2]}".rstrip("/")

    def reference(self, image: str) -> str:
        """Return what a pod names to get this image, which is written with its tag."""
        repository, _, tag = image.rpartition(":")
        digest = self.digests.get(image)
        return f"{self.moved(repository)}@{digest}" if digest is not None else f"{self.moved(repository)}:{tag}"

    def pod(self) -> JsonDict:
        """Return what a pod's spec says of pull secrets."""
        return {"imagePullSecrets": [{"name": name} for name in self.secrets]} if self.secrets else {}


PUBLIC = Pulls()
"""Everything from where its publisher puts it."""


def pulls_of(spec: RuntimeSpec) -> Pulls:
    """Return how the pods of a cluster pull."""
    known = {what: digest.digest for what, digest in _digests().items()}
    digests = {} if isinstance(spec.digests, str) else known | spec.digests
    return Pulls(spec.registry, tuple(spec.pull_secrets), digests)


@cache
def slots(chart: str) -> tuple[Slot, ...]:
    """Return the images of a chart, also those that do not run with our values."""
    return tuple(Slot(**row) for row in data_rows("chart_images.csv") if row["chart"] == chart)


def digest_of(what: str) -> Digest | None:
    """Return the digest that its publisher states of an image with its tag, or of `chart <name> <version>`."""
    return _digests().get(what)


def image_digest_command(image: str, clouds: Iterable[Cloud]) -> str:
    """Return the command that asks an image's registry for the digest, of all its platforms together.

    https://github.com/google/go-containerregistry/blob/main/cmd/crane/doc/crane_digest.md
    """
    from shlex import quote

    host = image.partition("/")[0]
    logins = [login for cloud in clouds if (login := cloud.registry_login(host))]
    return " && ".join([*logins, f"crane digest {quote(image)}"])


def chart_digest_command(chart: str, version: str, repository: str) -> str:
    """Return the command for the digest of a chart: of an `oci://` one its manifest's, else that of its package."""
    from shlex import quote

    if repository.startswith("oci://"):
        return f"crane digest {quote(repository.removeprefix('oci://') + ':' + version)}"
    file = quote(f"{chart}-{version}.tgz")
    return f"helm pull {chart} --repo {repository} --version {quote(version)} && sha256sum {file}"


def digest_of_tag(image: str) -> str:
    """Return the digest that a publisher states of an image, also of one on a mirror; empty for none."""
    found = (digest for what, digest in _digests().items() if f"/{image}".endswith(f"/{what.partition('/')[2]}"))
    return next((digest.digest for digest in found), "")


@cache
def _digests() -> Mapping[str, Digest]:
    return MappingProxyType({row["what"]: Digest(row["digest"], row["source"]) for row in data_rows("digests.csv")})


def placed(chart: str, version: str, values: JsonObject, pulls: Pulls) -> tuple[JsonDict, list[ContainerImage]]:
    """Return the values that have a release pull from where the cluster does, and the images that its pods pull.

    Of another version than the pinned one only those tags are known that are its version.
    """
    set_: JsonDict = {}
    images: list[ContainerImage] = []
    for slot in slots(chart):
        runs = not slot.runs or bool(value_seen(chart, values, slot.runs))
        if slot.secrets and pulls.secrets:
            names = list(pulls.secrets)
            forms = {"names": names, "name": names[0]}
            set_[slot.secrets] = forms.get(slot.secrets_form, [{"name": name} for name in names])
        repository = at(values, slot.repository, slot.own_repository)
        if pulls.registry is not None:
            set_[slot.repository] = pulls.moved(repository)
        if runs:
            named = f"{repository}/{slot.own_image}" if slot.own_image else repository
            image = f"{named}:{_tag(slot, version, values)}"
            digest = pulls.digests.get(image)
            if digest is not None:
                set_ |= _by_digest(slot, pulls.moved(repository), digest)
            images.append(
                ContainerImage(image, pulls.reference(image), f"chart {chart}: {slot.what}", bool(slot.by_system))
            )
    return set_, images


def moved(declared: KubernetesObject, pulls: Pulls, by: str) -> tuple[KubernetesObject, list[ContainerImage]]:
    """Return a workload whose pods pull from where the cluster does, and the images that they pull."""
    spec = declared.manifest["spec"]
    pod = spec["template"]["spec"]
    images: list[ContainerImage] = []

    def placed_in(container: JsonObject) -> JsonObject:
        if container.get("imagePullPolicy") == "Never":  # it is on the node
            return container
        images.append(ContainerImage(container["image"], pulls.reference(container["image"]), by))
        return {**container, "image": images[-1].pulled}

    kinds = {key: [placed_in(each) for each in pod[key]] for key in ("initContainers", "containers") if key in pod}
    template = {**spec["template"], "spec": {**pod, **pulls.pod(), **kinds}}
    return declared._replace(manifest={**declared.manifest, "spec": {**spec, "template": template}}), images


def _tag(slot: Slot, version: str, values: JsonObject) -> str:
    given = at(values, slot.tag)
    if given is not None:
        return str(given)
    if not slot.own_tag:
        return version
    return slot.own_tag if version == charts()[slot.chart].version else UNKNOWN_TAG


UNKNOWN_TAG = "?"
"""Stands for the tag that another version of a chart than the pinned one installs."""


def _by_digest(slot: Slot, repository: str, digest: str) -> dict[str, str]:
    """Return the values that name an image by digest: where a chart writes `name:tag`, `name@sha256` and the rest."""
    if slot.tag_form == "field":
        return {slot.tag: digest}
    algorithm, _, rest = digest.partition(":")
    if slot.image:
        return {slot.image: f"{slot.own_image}@{algorithm}", slot.tag: rest}
    return {slot.repository: f"{repository}@{algorithm}", slot.tag: rest}
