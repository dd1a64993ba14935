"""The smallest stack files: a cluster and a pool of GPUs on each service, for tests and benchmarks that need one."""

EKS = """\
config:
  gpupools:clusters:
    train:
      cloud: aws
      name: train-dev
      region: eu-central-1
      subnet_ids: [subnet-0a1b2c3d4e5f60718]
      node_role_arn: arn:aws:iam::123456789012:role/gpu-nodes
  gpupools:pools:
    l4: {clusters: [train], gpu: L4, nodes: {max: 4}}
"""
AKS = """\
config:
  gpupools:clusters:
    serve: {cloud: azure, name: serve-dev, resource_group: ml-dev}
  gpupools:pools:
    t4: {clusters: [serve], gpu: T4, nodes: {max: 4}}
"""
GKE = """\
config:
  gpupools:clusters:
    lab:
      cloud: gcp
      name: lab-dev
      project: ml-dev
      location: europe-west4
      service_account: gpu-nodes@ml-dev.iam.gserviceaccount.com
  gpupools:pools:
    notebooks: {clusters: [lab], gpu: L4, nodes: {max: 4}}
"""
