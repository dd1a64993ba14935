# Pools made by a module, with the launch template outside, inside and through a dynamic block; and self-managed nodes.

resource "aws_launch_template" "shared" {
  name_prefix   = "shared-"
  instance_type = "p5.48xlarge"
}

module "pool" {
  source   = "./pool"
  for_each = { tainted = ["nvidia.com/gpu"], untainted = [] }

  name       = each.key
  taints     = each.value
  template   = aws_launch_template.shared.id
  group_type = "g6.12xlarge"
}

# Self-managed: the kubelet registers its own taints.
resource "aws_launch_template" "self_managed" {
  for_each = {
    tainted   = "--register-with-taints=nvidia.com/gpu=present:NoSchedule"
    untainted = "--node-labels=team=vision"
  }
  name_prefix   = "${each.key}-"
  instance_type = "g5.xlarge"
  iam_instance_profile {
    name = "gpu-nodes"
  }
  user_data = base64encode("#!/bin/bash\n/etc/eks/bootstrap.sh train --kubelet-extra-args '${each.value}'\n")
}

resource "aws_autoscaling_group" "self_managed" {
  for_each            = aws_launch_template.self_managed
  name                = each.key
  min_size            = 0
  max_size            = 2
  vpc_zone_identifier = ["subnet-0a1b2c3d4e5f60718"]
  launch_template {
    id      = each.value.id
    version = each.value.latest_version
  }
  tag {
    key                 = "kubernetes.io/cluster/train"
    value               = "owned"
    propagate_at_launch = true
  }
}
