"""Credentials for the API of an EKS cluster. Pure."""

from gpupools.common.json_types import JsonObject
from gpupools.spec.cluster_access import ExecPlugin


def exec_plugin(cluster: JsonObject) -> ExecPlugin:
    """Return the AWS CLI, which signs in with the credentials that Pulumi's AWS provider has too.

    The arguments are those `aws eks update-kubeconfig` writes
    (https://github.com/aws/aws-cli, awscli/customizations/eks/update_kubeconfig.py); the output is named, because a
    reader's own setting (`table`, `text`) would make it unreadable. Profile and role are the cluster's, as they are the
    provider's (awscli/customizations/eks/get_token.py).
    """
    profile, role = cluster.get("profile"), cluster.get("assume_role")
    where = (*(("--profile", profile) if profile else ()), "--region", cluster["region"])
    token = ("eks", "get-token", "--cluster-name", cluster["name"], *(("--role-arn", role) if role else ()))
    return ExecPlugin(
        command="aws",
        args=(*where, *token, "--output", "json"),
        install_hint="Install the AWS CLI: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
    )
