# What plan.json beside this file stands for. The google provider cannot be had where the tests run, so the plan is
# written by hand after the provider's schema and Terraform's JSON format, and checked against what is known of both.

resource "google_container_cluster" "lab" {
  name     = "lab"
  location = "europe-west4"

  # A pool written inside the cluster.
  node_pool {
    name = "inline"
    node_config {
      machine_type = "a2-highgpu-1g"
    }
  }
  node_pool {
    name = "default"
    node_config {
      machine_type = "e2-standard-4"
    }
  }
}

resource "google_container_node_pool" "tainted" {
  name    = "tainted"
  cluster = google_container_cluster.lab.id
  node_config {
    machine_type = "g2-standard-8"
    guest_accelerator {
      type  = "nvidia-l4"
      count = 1
      gpu_driver_installation_config {
        gpu_driver_version = "DEFAULT"
      }
    }
    taint {
      key    = "nvidia.com/gpu"
      value  = "present"
      effect = "NO_SCHEDULE"
    }
  }
}

resource "google_container_node_pool" "untainted" {
  name    = "untainted"
  cluster = google_container_cluster.lab.id
  node_config {
    machine_type = "n1-standard-8"
    guest_accelerator {
      type  = "nvidia-tesla-t4"
      count = 2
    }
  }
}

resource "google_container_node_pool" "cpu" {
  name    = "cpu"
  cluster = google_container_cluster.lab.id
  node_config {
    machine_type = "e2-standard-4"
  }
}
