# Managed node groups, each with one thing to judge. Planned without an account: nothing here is looked up.

locals {
  role    = "arn:aws:iam::123456789012:role/gpu-nodes"
  subnets = ["subnet-0a1b2c3d4e5f60718"]
}

# Known only after it was created.
resource "terraform_data" "late" {
  input = "example.com/gpu"
}

resource "aws_eks_node_group" "untainted" {
  cluster_name    = "train"
  node_group_name = "untainted"
  node_role_arn   = local.role
  subnet_ids      = local.subnets
  instance_types  = ["p4d.24xlarge"]
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
}

resource "aws_eks_node_group" "tainted" {
  for_each        = toset(["g6.xlarge", "p5.48xlarge"])
  cluster_name    = "train"
  node_group_name = replace(each.key, ".", "-")
  node_role_arn   = local.role
  subnet_ids      = local.subnets
  instance_types  = [each.key]
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
  taint {
    key    = "nvidia.com/gpu"
    value  = "present"
    effect = "NO_SCHEDULE"
  }
}

resource "aws_eks_node_group" "only_prefers" {
  cluster_name    = "train"
  node_group_name = "only-prefers"
  node_role_arn   = local.role
  subnet_ids      = local.subnets
  instance_types  = ["g5.xlarge"]
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
  taint {
    key    = "nvidia.com/gpu"
    value  = "present"
    effect = "PREFER_NO_SCHEDULE"
  }
}

resource "aws_eks_node_group" "late_taint" {
  cluster_name    = "train"
  node_group_name = "late-taint"
  node_role_arn   = local.role
  subnet_ids      = local.subnets
  instance_types  = ["g5.xlarge"]
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
  dynamic "taint" {
    for_each = toset([terraform_data.late.output])
    content {
      key    = taint.value
      effect = "NO_SCHEDULE"
    }
  }
}

resource "aws_eks_node_group" "late_machine" {
  cluster_name    = "train"
  node_group_name = "late-machine"
  node_role_arn   = local.role
  subnet_ids      = local.subnets
  instance_types  = [terraform_data.late.output]
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
}

resource "aws_eks_node_group" "cpu" {
  cluster_name    = "train"
  node_group_name = "cpu"
  node_role_arn   = local.role
  subnet_ids      = local.subnets
  instance_types  = ["m7i.large"]
  scaling_config {
    min_size     = 1
    max_size     = 4
    desired_size = 1
  }
}

# The machine is in the launch template.
resource "aws_launch_template" "machine" {
  for_each      = { gpu = "g5.2xlarge", cpu = "m7i.large" }
  name_prefix   = "${each.key}-"
  instance_type = each.value
  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
}

resource "aws_eks_node_group" "from_template" {
  for_each        = aws_launch_template.machine
  cluster_name    = "train"
  node_group_name = "from-template-${each.key}"
  node_role_arn   = local.role
  subnet_ids      = local.subnets
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
  launch_template {
    id      = aws_launch_template.machine[each.key].id
    version = aws_launch_template.machine[each.key].latest_version
  }
}
