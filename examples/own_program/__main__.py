"""A GPU pool in your own Pulumi program, which also declares the IAM role and the subnet of the nodes.

In your own project, also install this repository (`pip install git+https://…`).
"""

import json

import pulumi
import pulumi_aws as aws

from gpupools.components.gpu_node_pool import GpuNodePool

config = pulumi.Config()
region = pulumi.Config("aws").require("region")

role = aws.iam.Role(
    "gpu-nodes",
    assume_role_policy=json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}},
            ],
        }
    ),
)
# Permissions of a node: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
permissions = [
    aws.iam.RolePolicyAttachment(f"gpu-nodes-{name}", role=role.name, policy_arn=f"arn:aws:iam::aws:policy/{name}")
    for name in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy")
]
subnet = aws.ec2.Subnet(
    "gpu-nodes", vpc_id=config.require("vpc"), cidr_block="10.0.64.0/20", availability_zone=f"{region}a"
)

pool = GpuNodePool(
    "notebooks",
    {
        "cloud": "aws",
        "cluster": {
            "name": config.require("cluster"),
            "region": region,
            "subnet_ids": [subnet.id],
            # A component does not pass its `depends_on` to its children, so the role waits for its permissions.
            "node_role_arn": pulumi.Output.all(role.arn, *(each.id for each in permissions)).apply(
                lambda values: values[0]
            ),
        },
        "pool": {"gpu": "L4", "nodes": {"max": 4}, "taints": ["team=research:NoSchedule"]},
    },
)

pulumi.export("pool", pool.node_pool_name)
pulumi.export("capacity", pool.capacity)
pulumi.export("pod", pool.pod)
