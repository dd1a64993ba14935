"""Write the types of the inputs that pools and their software declare: `input_types.json` of clouds and preview.

They are those of the installed SDKs, which the commands do not load. Needs no network.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tooling.sdk_types import input_types

ROOT = Path(__file__).resolve().parent.parent
_CLOUDS = ROOT / "providers" / "gpupools" / "providers"
FILES: Mapping[Path, Sequence[str]] = {
    _CLOUDS / "aws" / "input_types.json": (
        "pulumi:providers:aws",
        "aws:autoscaling/tag:Tag",
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:ec2/placementGroup:PlacementGroup",
        "aws:eks/nodeGroup:NodeGroup",
    ),
    _CLOUDS / "azure" / "input_types.json": (
        "pulumi:providers:azure-native",
        "azure-native:containerservice:AgentPool",
        "azure-native:resources:Resource",
    ),
    _CLOUDS / "gcp" / "input_types.json": (
        "pulumi:providers:gcp",
        "gcp:compute/resourcePolicy:ResourcePolicy",
        "gcp:container/nodePool:NodePool",
    ),
    ROOT / "preview" / "gpupools" / "preview" / "kubernetes_input_types.json": (
        "pulumi:providers:kubernetes",
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy",
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding",
        "kubernetes:apps/v1:DaemonSet",
        "kubernetes:apps/v1:Deployment",
        "kubernetes:batch/v1:Job",
        "kubernetes:core/v1:ConfigMap",
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:ResourceQuota",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        "kubernetes:node.k8s.io/v1:RuntimeClass",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate",
        "kubernetes:scheduling.k8s.io/v1:PriorityClass",
    ),
}
"""Type tokens by the file that has their types."""


def text(tokens: Sequence[str]) -> str:
    """Return what the file with the types of these resources has."""
    found = input_types(tokens)
    types = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found.types[name])}" for name in sorted(found.types))
    parts = [f'"{part}": {json.dumps(getattr(found, part), indent=1)}' for part in ("resources", "outputs")]
    return "{\n" + ",\n".join([*parts, f'"types": {{\n{types}\n}}']) + "\n}\n"


def main() -> int:
    """Write the files."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    for file, tokens in FILES.items():
        file.write_text(text(tokens), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
