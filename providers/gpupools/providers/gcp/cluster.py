"""The keys that a stack file gives for a GKE cluster."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import ClassVar, Literal

from pydantic import field_validator

from gpupools.catalog.places import read_places
from gpupools.common.errors import Path, Problem, shown
from gpupools.common.json_types import JsonObject
from gpupools.spec.cluster_access import ReachableCluster
from gpupools.spec.identifiers import CERTIFICATE, Form, pattern, pattern_of
from gpupools.spec.models import Address, ExecPlugin

_HARDENING = "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster"
_DIRECTIONS = "north|south|east|west|central|northeast|northwest|southeast|southwest"
ZONE = re.compile(r"(?P<region>[a-z]+-[a-z]+[0-9]+)-(?:[a-z]|ai[0-9]+[a-z])")
"""A zone: an ordinary one, or an AI zone (`us-central1-ai1a`), which node pools of GKE may use.

https://docs.cloud.google.com/compute/docs/regions-zones/ai-zones (2026-11-22)
"""

_DEFAULT_ACCOUNT = re.compile(r"default|[0-9]+-compute@developer\.gserviceaccount\.com|")


def is_default_account(account: object) -> bool:
    """Return whether nodes run as Compute Engine's default account, explicitly or by default.

    https://docs.cloud.google.com/compute/docs/access/service-accounts (2026-11-23)
    """
    return account is None or (isinstance(account, str) and _DEFAULT_ACCOUNT.fullmatch(account) is not None)


_ACCOUNT = r"[^@\s]+@[a-z0-9.:-]+\.gserviceaccount\.com"
_ACCOUNT_FIX = "write the address of a service account, …gserviceaccount.com"
_ACCOUNTS = "https://docs.cloud.google.com/iam/docs/service-account-overview"
_PLACES = FilePath(__file__).parent / "places.csv"


class GkeCluster(ReachableCluster):
    """An existing GKE Standard cluster."""

    cloud: Literal["gcp"]
    name: Address
    """Name of the cluster."""
    project: Address
    """Project that the cluster is in."""
    location: str
    """Where its control plane is: a region (`europe-west4`) or a zone (`europe-west4-a`)."""
    service_account: Address
    """E-mail address of the account the nodes run as: one of its own, with roles/container.defaultNodeServiceAccount.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/service-accounts
    """
    node_locations: list[str] | None = None
    """Zones of the nodes; name those that have the GPU. Left out: the cluster's own zones.

    https://docs.cloud.google.com/compute/docs/gpus/gpu-regions-zones
    """

    impersonate_service_account: str | None = None
    """E-mail address of the service account to act as; left out: the credentials of the environment act themselves."""

    unordered: ClassVar[frozenset[str]] = frozenset({"node_locations"})
    identity: ClassVar[tuple[str, ...]] = ("impersonate_service_account",)
    region_key: ClassVar[str] = "location"
    account_key: ClassVar[str] = "project"
    places_file: ClassVar[FilePath | None] = _PLACES
    api_hosts: ClassVar[str] = (
        r"[0-9.]+|\[[0-9a-f:.]+\]|([a-z0-9-]+\.)+gke\.goog"  # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/network-isolation
    )
    forms: ClassVar[Mapping[str, Form]] = {
        "name": pattern(
            "[a-z](?:[-a-z0-9]{0,38}[a-z0-9])?",
            "write the name of a GKE cluster: up to 40 lower-case letters, digits and -",
            "https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters",
        ),
        "project": pattern(
            r"(?:[a-z0-9.-]+:)?[a-z][-a-z0-9]{4,28}[a-z0-9]|[0-9]{6,}",
            "write the project's id: 6 to 30 lower-case letters, digits and -",
            "https://docs.cloud.google.com/resource-manager/docs/creating-managing-projects",
        ),
        "service_account": pattern(rf"default|{_ACCOUNT}", _ACCOUNT_FIX, _ACCOUNTS),
        "impersonate_service_account": pattern(_ACCOUNT, _ACCOUNT_FIX, _ACCOUNTS),
        "certificate_authority": CERTIFICATE,
    }
    not_pool_inputs: ClassVar[frozenset[str]] = ReachableCluster.not_pool_inputs | frozenset(identity)

    def pool_id(self, name: str) -> str:
        """Return the path of the node pool.

        https://github.com/hashicorp/terraform-provider-google, google/services/container/
        resource_container_node_pool.go, resourceContainerNodePoolStateImporter
        """
        return f"projects/{self.project}/locations/{self.location}/clusters/{self.name}/nodePools/{name}"

    @classmethod
    def place_of(cls, given: JsonObject) -> JsonObject:
        """Return project, location and name."""
        return {key: given[key] for key in ("project", "location", "name")}

    def not_for_new_pools(self, at: Path) -> Iterator[Problem]:
        """Reject Google's default account, which only an imported pool may keep."""
        if is_default_account(self.service_account):
            account = shown(self.service_account)
            what = f"{account} is Google's default account, which has too many permissions for a node"
            fix = "use an account for the nodes only, with roles/container.defaultNodeServiceAccount"
            yield Problem((*at, "service_account"), what, fix, _HARDENING)

    @field_validator("location")
    @classmethod
    def _is_a_place(cls, location: str) -> str:
        # Which there are changes; that each is named after a direction does not:
        # https://docs.cloud.google.com/compute/docs/regions-zones (2026-11-22)
        zone = ZONE.fullmatch(location)
        if zone and "-ai" in location:
            what = f"got {shown(location)}, an AI zone, which is for node pools"
            raise ValueError(f"{what}; write {zone['region']}, and the zone under node_locations")
        if not re.fullmatch(rf"[a-z]+-({_DIRECTIONS})[0-9]+(-[a-z])?", location):
            raise ValueError(f"got {shown(location)}; {read_places(_PLACES).region_fix(location)}")
        return location

    def region_name(self) -> str:
        """Return the region of a location, which may be a zone."""
        return "-".join(self.location.split("-")[:2])

    def own_zones(self) -> Sequence[str]:
        """Return the zones of its nodes, or the zone of a zonal cluster."""
        return self.node_locations or ([self.location] if ZONE.fullmatch(self.location) else ())

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject node zones outside the region of the control plane."""
        yield from super().conflicting_keys()
        # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/regional-clusters
        region = "-".join(self.location.split("-")[:2])
        if ZONE.fullmatch(self.location) and self.known_places().has_zone(self.location, region) is False:
            yield ("location",), f"{shown(self.location)} does not exist; {self.known_places().zone_fix(region)}"
        zones = self.node_locations or []
        for index, zone in enumerate(zones):
            match = ZONE.fullmatch(zone)
            if match is None or match["region"] != region:
                yield ("node_locations", index), f"{shown(zone)} is not a zone of {region}; correct one of them"
            elif self.known_places().has_zone(zone, region) is False:
                yield ("node_locations", index), f"{shown(zone)} does not exist; {self.known_places().zone_fix(region)}"
            elif zone in zones[:index]:
                yield ("node_locations", index), f"{shown(zone)} is listed twice; remove one"

    @classmethod
    def exec_plugin(cls, given: JsonObject) -> ExecPlugin:
        """Return Google's plugin, which takes the login of gcloud, and the service account that the provider acts as.

        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl
        https://github.com/kubernetes/cloud-provider-gcp, cmd/gke-gcloud-auth-plugin/cred.go
        """
        account = given.get("impersonate_service_account")
        return ExecPlugin(
            command="gke-gcloud-auth-plugin",
            args=("--impersonate_service_account", account) if account else (),
            install_hint="Install it: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl",
            provide_cluster_info=True,
        )

    def node_pattern(self) -> str:
        """Return a pattern of a node's provider id, gce://<project>/<zone>/<name>, its region, name and pool.

        GKE names nodes gke-<cluster>-<pool>-<hash>-<suffix>, with long names cut off:
        https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pools
        """
        whole = rf"(?P<named>gke-{pattern_of(self.name)})-(?P<pool>\S+)-[0-9a-f]+-[0-9a-z]+ |"
        names = rf"({whole if isinstance(self.name, str) else ''}gke-{pattern_of(self.name, 12)}|(?!gke-))"
        return rf"gce://{pattern_of(self.project)}/{pattern_of(self.region_name())}[-/]\S* \S* {names}"

    def kubeconfig_name(self) -> str:
        """Return a pattern of the name that `gcloud container clusters get-credentials` gives.

        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl
        """
        return "_".join(["gke", *map(pattern_of, (self.project, self.location, self.name))])
