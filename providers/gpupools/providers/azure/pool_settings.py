"""The settings of a pool that AKS supports, what each becomes, and the inputs that overrides may set. Pure."""

from pathlib import Path

from gpupools.plan.cloud_tables import read_overridable, read_settings

_HERE = Path(__file__).parent
SETTINGS = read_settings(_HERE)

SPOT_PAGE = "https://learn.microsoft.com/azure/aks/spot-node-pool"

SPOT_KEY = "kubernetes.azure.com/scalesetpriority"
"""Label and taint key AKS itself puts on every spot pool (`SPOT_PAGE`)."""

RDMA_LABEL = "gpupools/rdma"
"""Node label, with the value `infiniband`, for the node affinity of the Network Operator's policy and of pods.

Microsoft's policy (Azure/aks-rdma-infiniband configs/nicclusterpolicy/base/nic.yaml) asks for a label that Node Feature
Discovery sets on running nodes, so that no autoscaler that starts at zero knows it; and AKS takes hardly any label of
`kubernetes.io` on a pool (https://github.com/Azure/AKS/issues/2866).
"""

OVERRIDABLE = read_overridable(_HERE, {"AgentPool": ("nodeLabels",)})
"""The resources an AKS pool is made of: wire names of `AgentPoolArgs` of pulumi-azure-native 3.29.0."""
