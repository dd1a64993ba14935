"""The component by the SDK that `pulumi package add` generates, for programs that must not install gpupools."""

import os
import signal

import acme_gpupools as gpupools
import pulumi

# Pulumi interrupts the program when a step fails; 32 says that the error is already shown:
# https://github.com/pulumi/pulumi/blob/v3.260.0/sdk/python/cmd/pulumi-language-python/main.go
signal.signal(signal.SIGINT, lambda *_: os._exit(32))

inference = gpupools.GpuNodePool(
    "inference",
    cloud="gcp",
    cluster={
        "name": "serve-dev",
        "project": "ml-dev",
        "location": "europe-west4",
        "service_account": "gpu-nodes@ml-dev.iam.gserviceaccount.com",
    },
    pool={
        "gpu": "L4",
        "nodes": {"max": 6},
        "sharing": {"mode": "time-slicing", "replicas": 4},
        "trust": {"team": "vision"},
    },
)

pulumi.export("pod", inference.pod)
