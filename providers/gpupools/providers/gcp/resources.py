"""Registers the resources of a plan on GKE, with the inputs of `declared_inputs`."""

import os

import pulumi

from gpupools.plan.cloud import Given, ResourceFactory
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.adoption import custom_timeouts, import_options
from gpupools.providers.gcp.declared_inputs import declared_inputs, pool_name
from gpupools.providers.gcp.edit_effects import edit_tables
from gpupools.providers.gcp.pool_plan import GkePoolPlan
from gpupools.providers.gcp.pool_settings import OVERRIDABLE
from gpupools.providers.registration import output_of, register, register_provider


def create_provider(name: str, cluster: Given, opts: pulumi.ResourceOptions) -> pulumi.ProviderResource:
    """Declare a provider for the cluster's project, acting as the cluster's service account where it names one."""
    inputs = {
        "project": cluster["project"],
        "impersonateServiceAccount": cluster.get("impersonate_service_account"),
        # As the SDK's class does it.
        "region": _first_set("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION"),
        "zone": _first_set("GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE"),
    }
    return register_provider("gcp", name, inputs, opts, secret_outputs=["accessToken"])


def _first_set(*variables: str) -> str | None:
    return next((os.environ[name] for name in variables if name in os.environ), None)


def create_pool(name: str, plan: PoolPlan, cluster: Given, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Declare the node pool of a plan; return its name in the cloud.

    Raises:
        TypeError: The plan was made for another cloud.
    """
    settings, declared = plan.settings(GkePoolPlan), declared_inputs(plan, cluster)
    if "ResourcePolicy" in declared:
        token = "gcp:compute/resourcePolicy:ResourcePolicy"
        policy = register(token, f"{name}-nvlink", declared["ResourcePolicy"], opts, outputs=["name"])
        declared = declared_inputs(plan, cluster, output_of(policy, "name"))
    inputs = declared["NodePool"]
    if inputs["name"] is UNKNOWN:
        inputs["name"] = pulumi.Output.all(cluster["service_account"]).apply(lambda known: pool_name(plan, known[0]))
    own = pulumi.ResourceOptions(
        protect=settings.protect or None,
        ignore_changes=["initialNodeCount"],  # resizing a pool changes it, and a change replaces
        custom_timeouts=custom_timeouts(settings.create_min, settings.update_min, settings.delete_min),
    )
    adopted = import_options(
        settings.adopted,
        inputs,
        [*edit_tables().inputs, "nodeConfig.preemptible"],
        OVERRIDABLE["NodePool"].inputs,
        # GKE takes one way or the other of these: what the plan leaves out of them is not to stay.
        whole=("autoscaling", "nodeCount", "ignoreNodeCountChanges"),
    )
    opts = pulumi.ResourceOptions.merge(pulumi.ResourceOptions.merge(opts, adopted), own)
    pool = register("gcp:container/nodePool:NodePool", f"{name}-nodes", inputs, opts, outputs=["name"])
    return output_of(pool, "name")


RESOURCES = ResourceFactory(create_provider=create_provider, create_pool=create_pool)
