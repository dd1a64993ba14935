# Auto Scaling groups, instances and managed groups together with their launch templates.

locals {
  node    = { (local.cluster) = "owned" }
  cluster = "kubernetes.io/cluster/lab"
  taint   = "--kubelet-extra-args --register-with-taints=nvidia.com/gpu=present:NoSchedule"
}

resource "aws_launch_template" "tainted" {
  name_prefix   = "tainted-"
  image_id      = "ami-0aaaaaaaaaaaaaaaa"
  instance_type = "g5.xlarge"
  user_data     = base64encode("#!/bin/bash\n/etc/eks/bootstrap.sh lab ${local.taint}\n")
}

resource "aws_launch_template" "bare" {
  name_prefix   = "bare-"
  image_id      = "ami-0bbbbbbbbbbbbbbbb"
  instance_type = "g5.xlarge"
  user_data     = base64encode("#!/bin/bash\n/etc/eks/bootstrap.sh lab\n")
}

resource "aws_launch_template" "ecs" {
  name_prefix = "ecs-"
  image_id    = "ami-0cccccccccccccccc"
  user_data   = base64encode("#!/bin/bash\necho ECS_CLUSTER=lab >> /etc/ecs/ecs.config\n")
}

resource "aws_autoscaling_group" "override" {
  min_size            = 0
  max_size            = 3
  vpc_zone_identifier = ["subnet-0aaaaaaaaaaaaaaaa"]

  mixed_instances_policy {
    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.tainted.id
      }
      override {
        instance_type = "g5.xlarge"
      }
      override {
        instance_type = "g5g.xlarge"
        launch_template_specification {
          launch_template_id = aws_launch_template.bare.id
        }
      }
    }
  }
  tag {
    key                 = local.cluster
    value               = "owned"
    propagate_at_launch = true
  }
}

resource "aws_autoscaling_group" "plain" {
  for_each            = { tainted = aws_launch_template.tainted.id, bare = aws_launch_template.bare.id }
  min_size            = 0
  max_size            = 3
  vpc_zone_identifier = ["subnet-0aaaaaaaaaaaaaaaa"]

  launch_template {
    id = each.value
  }
  tag {
    key                 = local.cluster
    value               = "owned"
    propagate_at_launch = true
  }
}

resource "aws_autoscaling_group" "dynamic" {
  min_size            = 0
  max_size            = 3
  vpc_zone_identifier = ["subnet-0aaaaaaaaaaaaaaaa"]

  dynamic "mixed_instances_policy" {
    for_each = [aws_launch_template.tainted.id]
    content {
      launch_template {
        launch_template_specification {
          launch_template_id = mixed_instances_policy.value
        }
        dynamic "override" {
          for_each = ["g5.xlarge", "g6.xlarge"]
          content {
            instance_type = override.value
          }
        }
      }
    }
  }
  tag {
    key                 = local.cluster
    value               = "owned"
    propagate_at_launch = true
  }
}

resource "aws_autoscaling_group" "ecs" {
  min_size            = 0
  max_size            = 3
  vpc_zone_identifier = ["subnet-0aaaaaaaaaaaaaaaa"]

  mixed_instances_policy {
    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.ecs.id
      }
      override {
        instance_type = "g4dn.xlarge"
      }
    }
  }
}

resource "aws_instance" "tainted" {
  launch_template {
    id = aws_launch_template.tainted.id
  }
}

resource "aws_instance" "bare" {
  tags = local.node
  launch_template {
    id = aws_launch_template.bare.id
  }
}

resource "aws_eks_node_group" "own_image" {
  for_each      = { tainted = aws_launch_template.tainted.id, bare = aws_launch_template.bare.id }
  cluster_name  = "lab"
  node_role_arn = "arn:aws:iam::123456789012:role/node"
  subnet_ids    = ["subnet-0aaaaaaaaaaaaaaaa"]

  scaling_config {
    desired_size = 0
    max_size     = 3
    min_size     = 0
  }
  launch_template {
    id      = each.value
    version = "1"
  }
}
