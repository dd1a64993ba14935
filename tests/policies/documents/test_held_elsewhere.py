"""What brings nodes by a template, a product or machines that nobody here reads is never passed in silence."""

from pathlib import Path

import pytest

from gpupools.policies.documents.terraform_names import terraform_names
from gpupools.policies.understood import is_read, unread

ROSA = {"spec": {"defaultMachinePoolSpec": {"instanceType": "g6.xlarge"}}}


@pytest.mark.parametrize(
    "type_token",
    [
        "terraform:aws_servicecatalog_provisioned_product",
        "aws-native:servicecatalog:CloudFormationProvisionedProduct",
        "terraform:awscc_servicecatalog_cloud_formation_provisioned_product",
        "cloudformation:AWS::ServiceCatalog::CloudFormationProvisionedProduct",
        "aws:servicecatalog/provisionedProduct:ProvisionedProduct",
        "terraform:aws_serverlessapplicationrepository_cloudformation_stack",
        "aws:serverlessrepository/cloudFormationStack:CloudFormationStack",
        "cloudformation:AWS::Serverless::Application",
        *("terraform:azurerm_managed_application", "azure:managedapplication/application:Application"),
        *("azure-native:solutions:Application", "arm:Microsoft.Solutions/applications"),
        *("terraform:azurerm_blueprint_assignment", "arm:Microsoft.Blueprint/blueprintAssignments"),
        *("terraform:google_infra_manager_deployment", "gcp:config/deployment:Deployment"),
        *("terraform:google_deployment_manager_deployment", "gcp:deploymentmanager/deployment:Deployment"),
        *("arm:Microsoft.RedHatOpenShift/openShiftClusters", "azure-native:redhatopenshift:OpenShiftCluster"),
        *("terraform:azurerm_redhat_openshift_cluster", "azure:redhatopenshift/cluster:Cluster"),
        "arm:Microsoft.HybridContainerService/provisionedClusterInstances",
        "arm:Microsoft.ContainerService/openShiftManagedClusters",
        "arm:Microsoft.ContainerService/containerServices",
        "kubernetes:redhatopenshift.azure.com/v1api20231122:OpenShiftCluster",
        "kubernetes:redhatopenshift.azure.upbound.io/v1beta1:Cluster",
        "kubernetes:resources.azure.upbound.io/v1beta1:ResourceGroupTemplateDeployment",
        "kubernetes:cloudformation.aws.m.upbound.io/v1beta1:Stack",
        "kubernetes:cloudcontrol.aws.upbound.io/v1beta1:Resource",
        "kubernetes:ec2.aws.upbound.io/v1beta1:SpotInstanceRequest",
        "kubernetes:compute.gcp.upbound.io/v1beta1:RegionInstanceGroupManager",
        "kubernetes:compute.cnrm.cloud.google.com/v1beta1:ComputeInstanceTemplate",
        "kubernetes:compute.cnrm.cloud.google.com/v1beta1:ComputeInstanceGroupManager",
        "kubernetes:compute.cnrm.cloud.google.com/v1beta1:ComputeRegionInstanceGroupManager",
    ],
)
def test_what_may_bring_nodes_by_what_is_not_at_hand_is_a_violation(type_token: str) -> None:
    found = unread(type_token, {"name": "a"})

    assert found is not None
    assert found.nodes


def test_a_control_plane_of_rosa_brings_the_pool_that_it_names() -> None:
    kind = "kubernetes:controlplane.cluster.x-k8s.io/v1beta2:ROSAControlPlane"

    assert (found := unread(kind, ROSA)) is not None
    assert found.nodes
    assert unread(kind, {"spec": {"defaultMachinePoolSpec": {"instanceType": "m5.large"}}}) is None


@pytest.mark.parametrize(
    ("type_token", "silent"),
    [
        *(("terraform:alicloud_ecs_launch_template", False), ("terraform:volcengine_ecs_instance", False)),
        *(("terraform:aws_ecs_cluster", True), ("cloudformation:AWS::ECS::Cluster", True)),
        *(("awsx:ecs:FargateService", True), ("terraform:awscc_ecs_cluster", True)),
    ],
)
def test_ecs_is_containers_at_aws_alone(type_token: str, silent: bool) -> None:
    assert (unread(type_token, {"name": "a"}) is None) is silent


def test_the_list_of_what_is_read_names_no_type_that_only_others_refer_to() -> None:
    (line,) = (
        each
        for each in (Path(__file__).parents[3] / "docs/kinds.md").read_text(encoding="utf-8").splitlines()
        if each.startswith("| Terraform and OpenTofu |")
    )

    assert "`aws_instance`" in line
    assert [name for name, each in terraform_names().items() if f"`{name}`" in line and not is_read(each.type)] == []
