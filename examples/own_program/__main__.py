"""A GPU pool inside a Pulumi program of your own: here the program owns the nodes' role and their subnet.

In a project of yours, install this repository beside Pulumi (`pip install git+https://…`); everything else is below.
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
# What a node must be allowed: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
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
            # A component hands its `depends_on` to nothing inside it, so the role is passed on once it may be used.
            "node_role_arn": pulumi.Output.all(role.arn, *(each.id for each in permissions)).apply(lambda got: got[0]),
        },
        "pool": {"gpu": "L4", "nodes": {"max": 4}, "taints": ["team=research:NoSchedule"]},
    },
)

pulumi.export("pool", pool.node_pool_name)
pulumi.export("capacity", pool.capacity)
pulumi.export("pod", pool.pod)
