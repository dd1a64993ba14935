"""The component by import, for programs that have gpupools installed."""

import pulumi

from gpupools.components.gpu_node_pool import GpuNodePool

inference = GpuNodePool(
    "inference",
    {
        "cloud": "gcp",
        "cluster": {
            "name": "serve-dev",
            "project": "ml-dev",
            "location": "europe-west4",
            "service_account": "gpu-nodes@ml-dev.iam.gserviceaccount.com",
        },
        "pool": {
            "gpu": "L4",
            "nodes": {"max": 6},
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "trust": {"team": "vision"},
        },
    },
)

pulumi.export("pod", inference.pod)
