"""Kubernetes objects whose specification is an EKS node group or a launch template.

Sources, as repository and path: aws-controllers-k8s/eks-controller apis/v1alpha1/nodegroup.go;
crossplane-contrib/provider-upjet-aws examples/eks; crossplane-contrib/provider-aws apis/eks/manualv1alpha1.
"""

from types import MappingProxyType

from gpupools.read.embedded_pools import CROSSPLANE, TERRAFORM, HeldKinds, HeldPool, upbound

_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_SINGLE = frozenset(
    {
        "iamInstanceProfile",
        "instanceRequirements",
        "launchTemplate",
        "metadataOptions",
        "remoteAccess",
        "scalingConfig",
    }
)

OBJECTS: HeldKinds = MappingProxyType(
    {
        ("eks.services.k8s.aws", "Nodegroup"): HeldPool(_NODE_GROUP, single=_SINGLE),
        **upbound("aws", "eks.aws.upbound.io", "NodeGroup", HeldPool(_NODE_GROUP, names=TERRAFORM, single=_SINGLE)),
        **upbound("aws", "ec2.aws.upbound.io", "LaunchTemplate", HeldPool(_TEMPLATE, names=TERRAFORM, single=_SINGLE)),
        ("eks.aws.crossplane.io", "NodeGroup"): HeldPool(
            _NODE_GROUP, CROSSPLANE, {"ec2SshKey": "ec2SSHKey"}, single=_SINGLE
        ),
    }
)
