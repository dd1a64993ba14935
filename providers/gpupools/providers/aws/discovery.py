"""How an EKS cluster is described: by the AWS CLI, or by outputs of terraform-aws-eks and, for subnets, its VPC module.

https://docs.aws.amazon.com/eks/latest/APIReference/API_Cluster.html and API_Nodegroup.html; of the module, whose nodes
are in the group of node_security_group_id alone unless attach_cluster_primary_security_group is set:
https://registry.terraform.io/modules/terraform-aws-modules/eks/aws/latest?tab=outputs.
"""

import re
from pathlib import Path

from gpupools.common.csv_rows import csv_rows
from gpupools.plan.discovery import Discovery

DISCOVERY = Discovery(
    commands=(
        "aws eks describe-cluster --name NAME",
        "aws eks describe-nodegroup --cluster-name NAME --nodegroup-name NODEGROUP",
    ),
    rows=csv_rows(Path(__file__).with_name("discovery.csv")),
    has_gpu=lambda group: re.search("NVIDIA|GPU", str(group.get("amiType"))) is not None,
    which=("name", "region"),
    asked=("subnet_ids",),
)
