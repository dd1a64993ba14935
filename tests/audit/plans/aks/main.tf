# What plan.json beside this file stands for. The azurerm provider cannot be had where the tests run, so the plan is
# written by hand after the provider's schema and Terraform's JSON format, and checked against what is known of both.

resource "azurerm_kubernetes_cluster" "serve" {
  name                = "serve"
  location            = "westeurope"
  resource_group_name = "ml-dev"
  dns_prefix          = "serve"

  # GPUs in the default pool, whose only taint azurerm can set is this one.
  default_node_pool {
    name                         = "system"
    vm_size                      = "Standard_NC24ads_A100_v4"
    node_count                   = 1
    only_critical_addons_enabled = var.only_critical_addons
  }

  identity {
    type = "SystemAssigned"
  }
}

resource "azurerm_kubernetes_cluster_node_pool" "tainted" {
  name                  = "tainted"
  kubernetes_cluster_id = azurerm_kubernetes_cluster.serve.id
  vm_size               = "Standard_NC24ads_A100_v4"
  auto_scaling_enabled  = true
  min_count             = 0
  max_count             = 2
  node_taints           = ["nvidia.com/gpu=present:NoSchedule"]
}

resource "azurerm_kubernetes_cluster_node_pool" "untainted" {
  name                  = "untainted"
  kubernetes_cluster_id = azurerm_kubernetes_cluster.serve.id
  vm_size               = "Standard_ND96asr_v4"
  gpu_instance          = "MIG1g"
  auto_scaling_enabled  = true
  min_count             = 0
  max_count             = 2
}

resource "azurerm_kubernetes_cluster_node_pool" "wrong_effect" {
  name                  = "wrong"
  kubernetes_cluster_id = azurerm_kubernetes_cluster.serve.id
  vm_size               = "Standard_NC4as_T4_v3"
  node_count            = 1
  node_taints           = ["sku=gpu:NO_SCHEDULE"]
}

resource "azurerm_kubernetes_cluster_node_pool" "cpu" {
  name                  = "cpu"
  kubernetes_cluster_id = azurerm_kubernetes_cluster.serve.id
  vm_size               = "Standard_D8s_v5"
  node_count            = 3
}
