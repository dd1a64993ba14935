"""A Pulumi provider that stands in for a cloud's own: it checks, plans and stores, and reaches nothing.

One program for every provider. The tests lay a launcher for each name into `$PULUMI_HOME/plugins`, where the engine
looks. What the cloud "has" is one JSON file; it also keeps a journal of everything that was done, in order. It can
hold a fault, which strikes one of the calls: `HOW` tells which there are.

Speaks the raw protocol (pulumi/pulumi `proto/pulumi/provider.proto`): the SDK's `pulumi.provider.experimental` cannot
answer with values that are unknown at preview (3.272).
"""

import fcntl
import hashlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import any_pb2, empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2_grpc
from pulumi.runtime.proto import provider_pb2 as pb

from gpupools.preview.sdk_schema import UNKNOWN, check_inputs, is_known_type
from tests.sdk_schema import read_sdks

STATE = "GPUPOOLS_STAND_IN_STATE"
"""Environment variable with the path of the JSON file."""

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
AGENT_POOL = "azure-native:containerservice:AgentPool"
ARM_RESOURCE = "azure-native:resources:Resource"
NODE_POOL = "gcp:container/nodePool:NodePool"

NAMES = {
    NODE_GROUP: ("nodeGroupName", ("clusterName",)),
    LAUNCH_TEMPLATE: ("name", ()),
    "aws:iam/role:Role": ("name", ()),
    AGENT_POOL: ("agentPoolName", ("resourceGroupName", "resourceName")),
    ARM_RESOURCE: (
        "resourceName",
        ("resourceGroupName", "resourceProviderNamespace", "parentResourcePath", "resourceType"),
    ),
    NODE_POOL: ("name", ("project", "location", "cluster")),
}
"""The property with the name in the cloud, and those within which that name is unique."""

NODES = {
    NODE_GROUP: ("scalingConfig", "desiredSize"),
    AGENT_POOL: ("count",),
    ARM_RESOURCE: ("properties", "count"),
    NODE_POOL: ("nodeCount",),
}
"""The output with the number of nodes that run."""

AUTONAMED = {"aws", "gcp"}
"""Providers that make up a name where none is given; AKS takes a pool's name from its URL, so it must be given."""

FORCE_NEW = {
    # https://github.com/hashicorp/terraform-provider-aws internal/service/eks/node_group.go
    NODE_GROUP: (
        "amiType",
        "capacityType",
        "clusterName",
        "diskSize",
        "instanceTypes",
        "launchTemplate.id",
        "launchTemplate.name",
        "nodeGroupName",
        "nodeRoleArn",
        "remoteAccess",
        "subnetIds",
    ),
    LAUNCH_TEMPLATE: ("name", "namePrefix"),
    "aws:autoscaling/tag:Tag": ("autoscalingGroupName", "tag.key"),
    # https://github.com/pulumi/pulumi-azure-native provider/pkg/gen/replacement.go, and what its URL is made of
    AGENT_POOL: ("agentPoolName", "gpuInstanceProfile", "resourceGroupName", "resourceName", "vmSize"),
    ARM_RESOURCE: (
        "parentResourcePath",
        "resourceGroupName",
        "resourceName",
        "resourceProviderNamespace",
        "resourceType",
    ),
    # https://github.com/hashicorp/terraform-provider-google google/services/container/node_config.go
    NODE_POOL: (
        "cluster",
        "initialNodeCount",
        "location",
        "maxPodsPerNode",
        "name",
        "networkConfig.podIpv4CidrBlock",
        "networkConfig.podRange",
        "nodeConfig.advancedMachineFeatures",
        "nodeConfig.bootDiskKmsKey",
        "nodeConfig.ephemeralStorageLocalSsdConfig",
        "nodeConfig.guestAccelerators",
        "nodeConfig.gvnic",
        "nodeConfig.localNvmeSsdBlockConfig",
        "nodeConfig.localSsdCount",
        "nodeConfig.maxRunDuration",
        "nodeConfig.metadata",
        "nodeConfig.minCpuPlatform",
        "nodeConfig.oauthScopes",
        "nodeConfig.preemptible",
        "nodeConfig.reservationAffinity",
        "nodeConfig.sandboxConfig",
        "nodeConfig.serviceAccount",
        "nodeConfig.shieldedInstanceConfig",
        "nodeConfig.spot",
        "placementPolicy",
        "project",
        "queuedProvisioning",
    ),
}
"""Property paths for which the provider itself asks for a replacement."""

OTHER_OBJECT = ("metadata.name", "metadata.namespace", "name", "namespace")
"""The same for everything in Kubernetes (pulumi/pulumi-kubernetes provider/pkg/provider/diff.go, helm_release.go)."""

NEVER_CHANGES: dict[str, tuple[str, ...]] = {
    # hashicorp/terraform-provider-azurerm website/docs/r/kubernetes_cluster_node_pool.html.markdown
    AGENT_POOL: (
        "availabilityZones",
        "enableEncryptionAtHost",
        "enableNodePublicIP",
        "gpuInstanceProfile",
        "gpuProfile",
        "maxPods",
        "osDiskSizeGB",
        "osDiskType",
        "osType",
        "vmSize",
        "vnetSubnetID",
    ),
}
"""Property paths for which the cloud refuses an update (AKS: PropertyChangeNotAllowed)."""
NEVER_CHANGES[ARM_RESOURCE] = tuple(f"properties.{path}" for path in NEVER_CHANGES[AGENT_POOL])


CONFIG_FORCE_NEW = {"aws": ("region",)}
"""Settings of a provider whose change replaces it and everything made with it: those marked ForcesProviderReplace.

pulumi/pulumi-terraform-bridge pkg/tfbridge/provider.go, configDiffer; pulumi/pulumi-aws PR 4000.
"""

IDENTIFIER = "clusterIdentifier"
"""The setting of the Kubernetes provider that says which cluster it is for."""

HOW = {
    "fail": "the cloud refuses: InternalServerException",
    "throttle": "the cloud has refused every attempt: ThrottlingException: Rate exceeded",
    "lose": "the cloud did it and its answer got lost: connection reset by peer",
    "time-out": "the cloud began it, and the provider has stopped waiting: timeout while waiting for the resource",
    "die": "the cloud did it, and the provider's process ended before it could say so",
    "cut": "from here on no cloud can be reached: connection refused",
    "cut-after": "the cloud did it, and from here on none can be reached",
    "kill-engine": "SIGKILL for the engine before the cloud is asked",
    "kill-engine-after": "SIGKILL for the engine when the cloud has done it",
    "kill-program": "SIGKILL for the program before the cloud is asked",
    "kill-program-after": "SIGKILL for the program when the cloud has done it",
}
"""How a call goes wrong."""

PACKAGES = ("aws", "azure-native", "gcp", "kubernetes")

EMPTY = '{"resources": {}, "journal": [], "unreachable": [], "configured": [], "account": ""}'


@contextmanager
def state() -> Iterator[dict[str, Any]]:
    """Open what the cloud has for one change; every provider process shares the file."""
    path = Path(os.environ[STATE])
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        content = json.loads(file.read() or EMPTY)
        try:
            yield content
        finally:
            file.truncate(0)
            json.dump(content, file, indent=1)


def name_of(kind: str, inputs: Mapping[str, Any]) -> Any:
    """Return a resource's name in the cloud, if its type has one; a release's stands outside of its metadata."""
    if kind.startswith("kubernetes:"):
        return inputs.get("name") or inputs.get("metadata", {}).get("name")
    return inputs.get(NAMES[kind][0]) if kind in NAMES else None


def identity(kind: str, inputs: Mapping[str, Any]) -> str:
    """Return what the cloud tells two resources of a type apart by; empty where names need not be unique."""
    if kind not in NAMES:
        return ""
    name, scope = NAMES[kind]
    return "/".join(str(inputs.get(key)) for key in (*scope, name))


def object_id(inputs: Mapping[str, Any]) -> str:
    """Return what pulumi-kubernetes calls an object or a release: `namespace/name`."""
    namespace = inputs.get("namespace") or inputs.get("metadata", {}).get("namespace")
    return "/".join(str(each) for each in (namespace, name_of("kubernetes:", inputs)) if each)


def id_of(kind: str, inputs: Mapping[str, Any], settings: Mapping[str, Any], number: int) -> str:
    """Return the id under which the provider finds a resource again, in the provider's own form."""
    if kind == NODE_GROUP:
        return f"{inputs['clusterName']}:{inputs['nodeGroupName']}"
    if kind == "aws:autoscaling/tag:Tag":
        return f"{inputs['autoscalingGroupName']},{inputs['tag']['key']}"
    if kind == LAUNCH_TEMPLATE:
        return f"lt-{number:017x}"
    if kind == NODE_POOL:
        place = (inputs[key] for key in ("project", "location", "cluster", "name"))
        return "projects/{}/locations/{}/clusters/{}/nodePools/{}".format(*place)
    if kind in (AGENT_POOL, ARM_RESOURCE):
        subscription = settings.get("subscriptionId", SUBSCRIPTION)
        group = f"/subscriptions/{subscription}/resourceGroups/{inputs['resourceGroupName']}/providers"
        if kind == AGENT_POOL:
            cluster, name = inputs["resourceName"], inputs["agentPoolName"]
            return f"{group}/Microsoft.ContainerService/managedClusters/{cluster}/agentPools/{name}"
        keys = ("resourceProviderNamespace", "parentResourcePath", "resourceType", "resourceName")
        return "/".join((group, *(str(inputs[key]) for key in keys)))
    return f"{kind.rpartition(':')[2].lower()}-{number:04}"


SUBSCRIPTION = "11111111-2222-3333-4444-555555555555"
"""That of the login, where a provider is not told one."""


def computed(kind: str, identifier: str, inputs: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the cloud adds to a resource's inputs."""
    if kind == LAUNCH_TEMPLATE:
        return {"latestVersion": old.get("latestVersion", 0) + 1, "arn": f"arn:aws:ec2:::{identifier}"}
    if kind == NODE_GROUP:
        groups = [{"autoscalingGroups": [{"name": f"eks-{inputs['nodeGroupName']}"}]}]
        return {"arn": f"arn:aws:eks:::{identifier}", "status": "ACTIVE", "resources": groups}
    if kind == AGENT_POOL:
        return {"name": inputs["agentPoolName"], "provisioningState": "Succeeded"}
    if kind == ARM_RESOURCE:
        return {"name": inputs["resourceName"]}
    if kind == NODE_POOL:
        return {"instanceGroupUrls": []}
    return {"arn": f"arn:{identifier}"} if kind.startswith("aws:") else {}


def nodes(
    kind: str,
    inputs: Mapping[str, Any],
    has: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    ignored: Collection[str] = (),
) -> dict[str, Any]:
    """Return the number of nodes the cloud has after a resource is made or changed, as the property that holds it.

    Args:
        kind: The resource's type.
        inputs: What the engine sends.
        has: What the cloud has; an autoscaler may have changed it since.
        old: What Pulumi's state says that it has; None when it is made.
        ignored: The paths of `ignoreChanges`.

    Raises:
        ValueError: The cloud refuses the number.
    """
    if kind == NODE_GROUP:
        config = dict(inputs["scalingConfig"])
        if old is not None:
            # An ignored path stays as it was read last: pulumi/pulumi-terraform-bridge pkg/tfshim/sdk-v2/provider2.go.
            kept = {key: value for key, value in old["scalingConfig"].items() if f"scalingConfig.{key}" in ignored}
            config |= kept
            # All of it is sent, or nothing: hashicorp/terraform-provider-aws internal/service/eks/node_group.go.
            if config == old["scalingConfig"]:
                return {"scalingConfig": has["scalingConfig"]}
        if not config["minSize"] <= config["desiredSize"] <= config["maxSize"]:
            raise ValueError(f"InvalidParameterException: desired size not between minimum and maximum: {config}")
        return {"scalingConfig": config}
    if kind == AGENT_POOL:
        # What is left out stays: https://github.com/kubernetes-sigs/cluster-api-provider-azure/pull/1991.
        return {"count": inputs.get("count", has.get("count"))}
    if kind == ARM_RESOURCE:
        before = has.get("properties", {}).get("count")
        return {"properties": {**inputs["properties"], "count": inputs["properties"].get("count", before)}}
    if kind == NODE_POOL and old is None:
        return {"nodeCount": inputs.get("nodeCount", inputs.get("initialNodeCount", 0))}
    if kind == NODE_POOL and old is not None:
        # Optional and computed, and told only when it differs from what was read last:
        # hashicorp/terraform-provider-google-beta google-beta/services/container/resource_container_node_pool.go.
        told = "nodeCount" in inputs and inputs["nodeCount"] != old.get("nodeCount")
        return {"nodeCount": inputs["nodeCount"] if told else has["nodeCount"]}
    return {}


def refreshed(package: str, inputs: Any, old: Any, new: Any) -> Any:
    """Return the inputs after a refresh.

    The Terraform bridge takes over what the cloud has for everything that was an input (ExtractInputsFromOutputs in
    pulumi/pulumi-terraform-bridge pkg/tfbridge/schema.go), azure-native what has changed there since (`Read` in
    pulumi/pulumi-azure-native provider/pkg/provider/provider.go).
    """
    if isinstance(inputs, Mapping) and isinstance(new, Mapping):
        before = old if isinstance(old, Mapping) else {}
        return {
            key: refreshed(package, value, before.get(key), new[key]) if key in new else value
            for key, value in inputs.items()
        }
    return inputs if package == "azure-native" and old == new else new


NEW_AT_UPDATE = {LAUNCH_TEMPLATE: ("latestVersion",)}
"""Outputs that an update changes."""


def changed(old: Any, new: Any, at: str = "") -> dict[str, int]:
    """Return the path of everything that differs, with the kind of difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        found: dict[str, int] = {}
        for key in sorted(old.keys() | new.keys()):
            below = (f"{at}.{key}" if at else key) if key.isidentifier() else f'{at}["{key}"]'
            if key not in old:
                found[below] = pb.PropertyDiff.ADD
            elif key not in new:
                found[below] = pb.PropertyDiff.DELETE
            else:
                found |= changed(old[key], new[key], below)
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return {path: how for i, (a, b) in pairs for path, how in changed(a, b, f"{at}[{i}]").items()}
    return {} if old == new else {at: pb.PropertyDiff.UPDATE}


def among(path: str, prefixes: tuple[str, ...]) -> bool:
    """Say whether a path is one of some paths, or below one of them."""
    return any(path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")) for prefix in prefixes)


def plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Turn a message into plain data."""
    data: dict[str, Any] = json_format.MessageToDict(struct)
    return data


def message(data: dict[str, Any]) -> struct_pb2.Struct:
    """Turn plain data into a message."""
    return json_format.ParseDict(data, struct_pb2.Struct())


def kind_of(urn: str) -> str:
    """Return the type token in a URN, without the types of its parents."""
    return urn.split("::")[2].rpartition("$")[2]


def _is_node_group(each: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    return each["type"] == NODE_GROUP and all(each["outputs"].get(key) == value for key, value in asked.items())


def _is_agent_pool(each: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    inputs = each["inputs"]
    place = (asked["resourceGroupName"], asked["resourceName"], asked["agentPoolName"])
    if each["type"] == AGENT_POOL:
        return place == (inputs["resourceGroupName"], inputs["resourceName"], inputs["agentPoolName"])
    if each["type"] == ARM_RESOURCE:
        cluster = inputs["parentResourcePath"].removeprefix("managedClusters/")
        return place == (inputs["resourceGroupName"], cluster, inputs["resourceName"])
    return False


ASKED = {
    "aws:eks/getNodeGroup:getNodeGroup": _is_node_group,
    "azure-native:containerservice:getAgentPool": _is_agent_pool,
}
"""The functions that a program calls, and which resource each is about."""

NODE_GROUPS = "aws:eks/getNodeGroups:getNodeGroups"
"""The function that lists the groups of a cluster."""


class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    """Answers the engine for one provider."""

    def __init__(self, package: str, version: str) -> None:
        self.package = package
        self.version = version
        self.settings: dict[str, Any] = {}
        self.behind: dict[str, str] = {}
        self.stopped = threading.Event()

    def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:  # noqa: N802 - the protocol's names
        return plugin_pb2.PluginInfo(version=self.version)

    def Handshake(self, request: Any, context: Any) -> pb.ProviderHandshakeResponse:  # noqa: N802
        return pb.ProviderHandshakeResponse(accept_secrets=False)

    def Attach(self, request: Any, context: Any) -> empty_pb2.Empty:  # noqa: N802
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: Any) -> empty_pb2.Empty:  # noqa: N802
        self.stopped.set()
        return empty_pb2.Empty()

    def CheckConfig(self, request: pb.CheckRequest, context: Any) -> pb.CheckResponse:  # noqa: N802
        return pb.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: pb.DiffRequest, context: Any) -> pb.DiffResponse:  # noqa: N802
        different = changed(plain(request.old_inputs), plain(request.news))
        replaces = [path for path in different if path in CONFIG_FORCE_NEW.get(self.package, ())]
        # A change of the identifier replaces; to add or to remove one does not (pulumi/pulumi-kubernetes
        # provider/pkg/provider/provider.go, DiffConfig).
        replaces += [path for path, how in different.items() if (path, how) == (IDENTIFIER, pb.PropertyDiff.UPDATE)]
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if different else pb.DiffResponse.DIFF_NONE, replaces=replaces
        )

    def Configure(self, request: pb.ConfigureRequest, context: grpc.ServicerContext) -> pb.ConfigureResponse:  # noqa: N802
        """Refuse a profile that is not there and credentials of an account that is not allowed.

        As hashicorp/aws-sdk-go-base and terraform-provider-aws do: the profile's credentials stand above the
        environment's, and those of the role that is assumed with them count.
        """
        settings = plain(request.args)
        with state() as content:
            content["configured"].append({"package": self.package, "settings": settings})
            self.settings, self.behind = settings, content.get("behind", {})
            account, profiles = content["account"], content.get("profiles", {})
        profile = settings.get("profile")
        if profile is not None:
            if profile not in profiles:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"failed to get shared config profile, {profile}")
            account = profiles[profile]
        for role in json.loads(settings.get("assumeRoles", "[]")):
            account = role["roleArn"].split(":")[4]
        allowed = settings.get("allowedAccountIds")
        if account and isinstance(allowed, str) and account not in json.loads(allowed):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"AWS account ID not allowed: {account}")
        return pb.ConfigureResponse(acceptSecrets=False, supportsPreview=True)

    def Check(self, request: pb.CheckRequest, context: Any) -> pb.CheckResponse:  # noqa: N802
        """Make up a name as the provider does."""
        kind, old, new = kind_of(request.urn), plain(request.olds), plain(request.news)
        key = NAMES[kind][0] if kind in NAMES else ""
        if key and key not in new and self.package in AUTONAMED:
            suffix = hashlib.sha256(request.randomSeed).hexdigest()[:7]
            new[key] = old.get(key, f"{request.urn.rpartition('::')[2]}-{suffix}")
            # By this list the real providers tell a name they made up from one they were given.
            new["__defaults"] = [key]
        if kind == ARM_RESOURCE:
            # That of the resource group (pulumi/pulumi-azure-native provider/pkg/provider/provider.go, applyDefaults).
            new.setdefault("location", old.get("location", "westeurope"))
        return pb.CheckResponse(inputs=message(new))

    def Diff(self, request: pb.DiffRequest, context: Any) -> pb.DiffResponse:  # noqa: N802
        kind, old, new = kind_of(request.urn), plain(request.old_inputs), plain(request.news)
        paths = changed(old, new)
        fixed = FORCE_NEW.get(kind, OTHER_OBJECT if self.package == "kubernetes" else ())
        replaces = [path for path in paths if among(path, fixed)]
        return pb.DiffResponse(
            changes=pb.DiffResponse.DIFF_SOME if paths else pb.DiffResponse.DIFF_NONE,
            diffs=sorted({path.partition(".")[0].partition("[")[0] for path in paths}),
            replaces=replaces,
            detailedDiff={
                # Each kind of difference is followed by the same one with a replacement.
                path: pb.PropertyDiff(kind=pb.PropertyDiff.Kind.ValueType(how + (path in replaces)), inputDiff=True)
                for path, how in paths.items()
            },
            hasDetailedDiff=True,
            deleteBeforeReplace=bool(replaces) and self._deletes_first(kind, old, new),
        )

    def _deletes_first(self, kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Say whether the provider asks to delete the old resource before it creates the new one.

        azure-native: whenever the name was given, even when it changed (`Diff` in pulumi/pulumi-azure-native
        provider/pkg/provider/provider.go). The others: when a given name stays the same
        (`nameRequiresDeleteBeforeReplace` in pulumi/pulumi-terraform-bridge pkg/tfbridge/schema.go).
        """
        if self.package == "azure-native":
            return True
        return name_of(kind, new) is not None and "__defaults" not in new and name_of(kind, old) == name_of(kind, new)

    def _check(self, kind: str, inputs: Mapping[str, Any], context: grpc.ServicerContext) -> None:
        """Refuse what the SDK's own types refuse.

        A real provider does so in `Check`; here it waits until something is really created or changed, because
        loading an SDK takes longer than all the rest.
        """
        with state() as content:
            if content.get("unchecked"):
                return
        import_module(f"pulumi_{self.package.replace('-', '_')}")
        read_sdks()
        given = {key: value for key, value in inputs.items() if key != "__defaults"}
        wrong = [str(problem) for problem in check_inputs(kind, given) if not problem.advisory]
        if wrong or not is_known_type(kind):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "; ".join(wrong) or f"{self.package} has no type {kind}")

    def _reach(self, context: grpc.ServicerContext) -> None:
        """Fail as the real provider does when the API it speaks to cannot be reached; a preview does not need it.

        https://github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/helm_release.go, Create.
        """
        with state() as content:
            if self.package in content["unreachable"]:
                content["journal"].append({"op": "unreachable", "type": self.package, "name": None})
                context.abort(grpc.StatusCode.UNKNOWN, f"the {self.package} API is unreachable: connection refused")

    def _struck(self, call: str, urn: str) -> str:
        """Say how a call goes wrong; empty where it does not."""
        with state() as content:
            fault = content.get("fault")
            if not fault or call not in fault["calls"] or not re.search(fault["urn"], urn):
                return ""
            attempts = fault["attempts"]
            attempts[f"{call} {urn}"] = attempt = attempts.get(f"{call} {urn}", 0) + 1
            if attempt > len(fault["hows"]):
                return ""
            how = str(fault["hows"][attempt - 1])
            hit = {"op": "fault", "type": kind_of(urn), "name": urn.rpartition("::")[2], "how": how, "call": call}
            content["journal"].append(hit)
            if how.startswith("cut"):
                content["unreachable"] = list(PACKAGES)
        return how

    def _before(self, how: str, context: grpc.ServicerContext) -> None:
        """Go wrong before the cloud is asked."""
        if how == "kill-engine":
            _kill_engine()
        if how == "kill-program":
            _kill_program()
        if how in ("fail", "throttle", "cut"):
            context.abort(grpc.StatusCode.UNKNOWN, HOW[how])

    def _after(self, how: str, context: grpc.ServicerContext, identifier: str, outputs: struct_pb2.Struct) -> None:
        """Go wrong when the cloud has done what it was asked for."""
        if how == "die":
            os._exit(1)
        if how == "kill-engine-after":
            _kill_engine()
        if how == "kill-program-after":
            _kill_program()
        if how in ("lose", "cut-after"):
            context.abort(grpc.StatusCode.UNKNOWN, HOW[how])
        if how == "time-out":
            # How a provider says that there is something, which the state has to hold:
            # https://github.com/pulumi/pulumi, proto/pulumi/provider.proto, ErrorResourceInitFailed.
            failed = pb.ErrorResourceInitFailed(id=identifier, properties=outputs, reasons=[HOW[how]])
            detail = any_pb2.Any()
            detail.Pack(failed)
            # Beside Google's own SDK this module cannot be loaded, and tests import constants from here.
            status_pb2 = import_module("pulumi.runtime.proto.status_pb2")
            status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=HOW[how], details=[detail])
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, HOW[how])

    def _key(self, kind: str, identifier: str) -> str:
        """Return where the file has a resource: objects of two clusters may have the same id."""
        if self.package != "kubernetes":
            return identifier
        settings = {key: value for key, value in self.settings.items() if key != IDENTIFIER}
        settings["kubeconfig"] = self.behind.get(str(settings.get("kubeconfig")), settings.get("kubeconfig"))
        cluster = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
        return f"{cluster} {kind} {identifier}"

    def Create(self, request: pb.CreateRequest, context: grpc.ServicerContext) -> pb.CreateResponse:  # noqa: N802
        kind, inputs = kind_of(request.urn), plain(request.properties)
        if request.preview:
            late = computed(kind, "", {"nodeGroupName": "", "agentPoolName": "", "resourceName": ""}, {})
            return pb.CreateResponse(properties=message(inputs | dict.fromkeys(late, UNKNOWN)))
        self._reach(context)
        self._check(kind, inputs, context)
        how = self._struck("create", request.urn)
        self._before(how, context)
        with state() as content:
            same = identity(kind, inputs)
            taken = [
                other
                for other in content["resources"].values()
                if same and other["type"] == kind and identity(kind, other["inputs"]) == same
            ]
            number = len(content["journal"])
            identifier = object_id(inputs) if self.package == "kubernetes" else ""
            identifier = identifier or id_of(kind, inputs, self.settings, number)
            key = self._key(kind, identifier)
            if taken or (self.package == "kubernetes" and key in content["resources"]):
                content["journal"].append({"op": "refused", "type": kind, "name": name_of(kind, inputs)})
                context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{same or identifier} already exists")
            outputs = inputs | computed(kind, identifier, inputs, {}) | self._nodes(context, kind, inputs, {})
            content["resources"][key] = {"type": kind, "id": identifier, "inputs": inputs, "outputs": outputs}
            content["journal"].append({"op": "create", "type": kind, "name": name_of(kind, inputs), "id": identifier})
        self._after(how, context, identifier, message(outputs))
        return pb.CreateResponse(id=identifier, properties=message(outputs))

    def Read(self, request: pb.ReadRequest, context: grpc.ServicerContext) -> pb.ReadResponse:  # noqa: N802
        self._reach(context)
        self._before(self._struck("read", request.urn), context)
        with state() as content:
            found = content["resources"].get(self._key(kind_of(request.urn), request.id))
        if found is None:
            return pb.ReadResponse(id="")
        inputs = found["inputs"]
        if request.inputs.fields:
            inputs = refreshed(self.package, plain(request.inputs), plain(request.properties), found["outputs"])
        return pb.ReadResponse(id=request.id, properties=message(found["outputs"]), inputs=message(inputs))

    def _nodes(self, context: grpc.ServicerContext, *resource: Any) -> dict[str, Any]:
        try:
            return nodes(*resource)
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise

    def Update(self, request: pb.UpdateRequest, context: grpc.ServicerContext) -> pb.UpdateResponse:  # noqa: N802
        kind, inputs = kind_of(request.urn), plain(request.news)
        if request.preview:
            late = dict.fromkeys(NEW_AT_UPDATE.get(kind, ()), UNKNOWN)
            return pb.UpdateResponse(properties=message(plain(request.olds) | inputs | late))
        self._reach(context)
        self._check(kind, inputs, context)
        how = self._struck("update", request.urn)
        self._before(how, context)
        with state() as content:
            # An imported state has resources that no engine made here.
            imported = {"type": kind, "inputs": plain(request.old_inputs), "outputs": plain(request.olds)}
            stored = content["resources"].setdefault(self._key(kind, request.id), imported)
            paths = changed(stored["inputs"], inputs)
            refused = [path for path in paths if among(path, NEVER_CHANGES.get(kind, ()))]
            if refused:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"PropertyChangeNotAllowed: {', '.join(refused)}")
            now = self._nodes(context, kind, inputs, stored["outputs"], plain(request.olds), request.ignoreChanges)
            stored["outputs"] = inputs | computed(kind, request.id, inputs, stored["outputs"]) | now
            stored["inputs"] = inputs
            entry = {"op": "update", "type": kind, "name": name_of(kind, inputs), "id": request.id, "paths": [*paths]}
            content["journal"].append(entry)
        self._after(how, context, request.id, message(stored["outputs"]))
        return pb.UpdateResponse(properties=message(stored["outputs"]))

    def Delete(self, request: pb.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        self._reach(context)
        if kind_of(request.urn) == NODE_POOL and plain(request.properties).get("deletionPolicy") == "PREVENT":
            # What the last update left counts: hashicorp/terraform-provider-google-beta
            # google-beta/services/container/resource_container_node_pool.go, DeletionPolicyPreDelete.
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "cannot destroy without deletion_policy DELETE")
        how = self._struck("delete", request.urn)
        self._before(how, context)
        with state() as content:
            key = self._key(kind_of(request.urn), request.id)
            found = content["resources"].get(key, {"type": "", "inputs": {}})
            held = found["type"].endswith(":ClusterQueue") and request.id in content.get("admitted", ())
            if held and found["inputs"]["spec"].get("stopPolicy") != "HoldAndDrain":
                # The finalizer stays while Kueue has admitted workloads of the queue (kubernetes-sigs/kueue
                # pkg/controller/core/clusterqueue_controller.go), and the provider waits 10 minutes for it, or
                # `customTimeouts.delete` (pulumi/pulumi-kubernetes provider/pkg/await/await.go, Deletion).
                content["journal"].append({"op": "held", "type": found["type"], "name": request.id})
                waited = f"{request.timeout or 600:.0f} s: finalizer kueue.x-k8s.io/resource-in-use"
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"{request.id} is not deleted after {waited}")
            gone = content["resources"].pop(key, None)
            if gone is not None:
                entry = {"op": "delete", "type": gone["type"], "name": name_of(gone["type"], gone["inputs"])}
                content["journal"].append(entry | {"id": request.id})
        self._after(how, context, request.id, struct_pb2.Struct())
        return empty_pb2.Empty()

    def Invoke(self, request: pb.InvokeRequest, context: grpc.ServicerContext) -> pb.InvokeResponse:  # noqa: N802
        """Answer how many nodes run, and which groups a cluster has; nothing else is asked."""
        if request.tok == NODE_GROUPS:
            return self._node_groups(plain(request.args))
        if request.tok not in ASKED:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"a program asked the cloud for {request.tok}")
        asked = plain(request.args)
        self._reach(context)
        with state() as content:
            content.setdefault("asked", []).append(request.tok)
            found = [each for each in content["resources"].values() if ASKED[request.tok](each, asked)]
        if len(found) != 1:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{len(found)} are {asked}")
        has = found[0]["outputs"]
        group = {"scalingConfigs": [has.get("scalingConfig")], "tags": has.get("tags", {})}
        answer = group if "scalingConfig" in has else has.get("properties", has)
        response = pb.InvokeResponse()
        getattr(response, "return").CopyFrom(message(answer))  # the field's name is a keyword of Python
        return response

    def _node_groups(self, asked: Mapping[str, Any]) -> pb.InvokeResponse:
        with state() as content:
            content.setdefault("asked", []).append(NODE_GROUPS)
            groups = [each["inputs"] for each in content["resources"].values() if each["type"] == NODE_GROUP]
        names = [each["nodeGroupName"] for each in groups if each["clusterName"] == asked["clusterName"]]
        response = pb.InvokeResponse()
        getattr(response, "return").CopyFrom(message({"id": asked["clusterName"], "names": names, **asked}))
        return response


def _kill_engine() -> None:
    """Kill the engine, which has started this process, and end with it."""
    os.kill(os.getppid(), signal.SIGKILL)
    os._exit(1)


def _kill_program() -> None:
    """Kill the stack's program: a child of the language host, which is a child of the engine."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(entry.parent.name)] = int(entry.read_text(encoding="utf-8").rpartition(") ")[2].split()[1])
    hosts = [process for process, parent in parents.items() if parent == os.getppid()]
    for process, parent in parents.items():
        with suppress(OSError):
            command = Path(f"/proc/{process}/cmdline").read_bytes()
            if parent in hosts and b"pulumi-language-python-exec" in command:
                os.kill(process, signal.SIGKILL)


def main() -> None:
    """Serve one provider until the engine stops it; the first line printed is the port."""
    package, version = sys.argv[1:3]
    servicer = StandIn(package, version)
    # The engine cancels a provider it is done with, and interrupts the ones of a command that ends.
    signal.signal(signal.SIGINT, lambda *_: servicer.stopped.set())
    # One thread: the SDKs' modules are loaded on demand, and two threads would find each other's half loaded.
    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    engine = os.getppid()
    with state() as content:
        content.setdefault("processes", []).append(os.getpid())
    # A provider ends with its engine, also when that was killed.
    while not servicer.stopped.wait(1) and os.getppid() == engine:
        pass
    server.stop(grace=1)


if __name__ == "__main__":
    main()
