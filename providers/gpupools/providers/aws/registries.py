"""AWS's own registries, from which an EKS cluster pulls what AWS publishes: one in each region. Pure."""

import re
from pathlib import Path

from gpupools.common.csv_rows import csv_rows
from gpupools.spec.models import Cluster

_DATA = Path(__file__).parent / "registries.csv"


def own_registry(cluster: Cluster) -> str:
    """Return the registry in the cluster's region; empty for a region that is not known here.

    https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html
    """
    region = cluster.region_name()
    return next((row["registry"] for row in csv_rows(_DATA) if row["region"] == region), "")


def registry_login(host: str) -> str:
    """Return the command that logs in to a registry of AWS, which answers nobody else; empty for any other host.

    https://docs.aws.amazon.com/eks/latest/userguide/copy-image-to-repository.html
    """
    private = re.fullmatch(_ECR, host)
    if private is None:
        return ""
    return f"aws ecr get-login-password --region {private[1]} | crane auth login {host} -u AWS --password-stdin"


_ECR = r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?"
