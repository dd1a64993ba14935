"""Stack files to report on."""

from collections.abc import Callable
from pathlib import Path

import pytest

STACK = """\
config:
  gpupools:clusters:
    train: {cloud: aws, name: t, region: eu-central-1, places: trust, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes", kubeconfig: {path: ~/.kube/config}}
    lab: {cloud: gcp, name: lab, project: ml-prod, location: europe-west4, places: trust,
      service_account: gpu@ml-prod.iam.gserviceaccount.com}
  gpupools:pools:
    big: {clusters: [train], gpu: H100-80GB, gpus_per_node: 8, nodes: {min: 2, max: 4}}
    cut: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 2},
      sharing: {mode: mig, layout: [3g.20gb, 2g.10gb, 1g.5gb]}}
    shared: {clusters: [lab], gpu: L4, nodes: {max: 30}, sharing: {mode: time-slicing, replicas: 4},
      trust: {team: research}}
"""

Write = Callable[..., Path]


@pytest.fixture
def stack_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a stack file into the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(text: str = STACK, name: str = "Pulumi.dev.yaml") -> Path:
        file = Path(name)
        file.write_text(text, encoding="utf-8")
        return file

    return write
