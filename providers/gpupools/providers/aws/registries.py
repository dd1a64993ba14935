"""AWS's own registries, from which an EKS cluster pulls what AWS publishes: one in each region. Pure."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from gpupools.asked.spec import Cluster

_DATA = Path(__file__).parent / "registries.csv"


def own_registry(cluster: Cluster) -> str:
    """Return the registry in the cluster's region; empty for a region that is not known here.

    https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html
    """
    return _registries().get(getattr(cluster, "region", ""), "")


@cache
def _registries() -> Mapping[str, str]:
    with _DATA.open(newline="", encoding="utf-8") as file:
        return MappingProxyType({row["region"]: row["registry"] for row in csv.DictReader(file)})
