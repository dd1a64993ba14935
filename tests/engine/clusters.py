"""A cluster of each cloud, as the engine's tests and the table of faults have them."""

from typing import Any

EKS: dict[str, Any] = {
    "cloud": "aws",
    "name": "train",
    "region": "us-east-1",
    "subnet_ids": ["subnet-0000000a"],
    "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
}
AKS: dict[str, Any] = {"cloud": "azure", "name": "serve", "resource_group": "ml"}
GKE: dict[str, Any] = {
    "cloud": "gcp",
    "name": "lab",
    "project": "ml-lab",
    "location": "europe-west4",
    "service_account": "gpu@ml.iam.gserviceaccount.com",
}
