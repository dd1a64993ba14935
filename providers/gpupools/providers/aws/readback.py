"""Reads AWS resources that bring machines into a Kubernetes cluster back from their input properties. Pure.

Read are managed node groups, and whatever starts EC2 machines whose user data makes them nodes: launch templates and
configurations, Auto Scaling groups, fleets, spot requests and single instances; of the providers `aws`, `aws-native`
and, for its components, `eks` (https://github.com/pulumi/pulumi-eks, provider/cmd/pulumi-resource-eks/schema.json).

Which resource is at fault: a managed node group holds the taints, even with an image of its own. A launch template
that names an instance profile cannot belong to one, since EKS refuses it
(https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html, `nodeRole`), so it is judged itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from gpupools.common.json_types import JsonObject
from gpupools.common.taints import CLOUD_EFFECTS, KUBERNETES_EFFECTS
from gpupools.plan.cloud import KubernetesObjects, Readback
from gpupools.plan.pool_facts import (
    NO_ACCELERATOR,
    UNKNOWN,
    Accelerator,
    By,
    MissingTaint,
    PoolFacts,
    Reference,
    SoftwareHints,
)
from gpupools.providers.aws.karpenter import KARPENTER
from gpupools.providers.aws.machines import INSTANCE_TYPES
from gpupools.providers.aws.node_customization import customizations, group_customizations, node_customizations
from gpupools.providers.aws.user_data import UserData, makes_no_node, mentions_taints, read_settings, read_user_data
from gpupools.readback import kubelet
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    as_object,
    at,
    controls,
    flag,
    is_list,
    items,
    listed_accelerator,
    mapping,
    number,
    pool_facts,
    retired_machines,
    string_map,
    text,
    wanted_taint,
)

TEMPLATES = ("aws:ec2/launchTemplate:LaunchTemplate", "aws-native:ec2:LaunchTemplate")
_CONFIGURATIONS = ("aws:ec2/launchConfiguration:LaunchConfiguration", "aws-native:autoscaling:LaunchConfiguration")

# Families g (graphics) and p (accelerated) have GPUs; this also finds the ones that are newer than the catalogue.
# https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
_GPU_FAMILY = re.compile(r"(?:g|gr|p)\d[a-z0-9-]*\.[a-z0-9-]+")

# Images by AMI type, https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html. What each brings:
# https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html; Amazon Linux has no device plugin
# (https://github.com/awslabs/amazon-eks-ami/issues/2342), Bottlerocket runs it as a service of the host.
_NVIDIA_IMAGE = re.compile(r"AL2_x86_64_GPU|\w+_NVIDIA(?:_FIPS)?")
_NEURON_IMAGE = re.compile(r"\w+_NEURON")

FIRST_FIXED_RELEASE = 20260610
"""Date of the first Amazon Linux 2023 image with NVIDIA Container Toolkit 1.19.1 (`hardening.csv`)."""


def accelerator(instance_type: str) -> Accelerator:
    """Return the accelerator of an instance type, by its name."""
    named = Accelerator("nvidia", None) if _GPU_FAMILY.fullmatch(instance_type) else NO_ACCELERATOR
    return listed_accelerator(INSTANCE_TYPES, INSTANCE_TYPES.get(instance_type), instance_type) or named


def read_pools(type_token: str, properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read the pools that a declared resource holds; nothing for a resource that brings no node into a cluster.

    Args:
        type_token: Pulumi type of the resource.
        properties: Inputs in wire form; `UNKNOWN` where the engine does not know a value yet.
    """
    read = _READERS.get(type_token) if isinstance(type_token, str) else None
    return read(properties) if read is not None and isinstance(properties, Mapping) else ()


def read_template(type_token: str, properties: JsonObject) -> PoolFacts | None:
    """Read a launch template or configuration, whether or not it makes a node by itself; None for anything else."""
    if type_token not in (*TEMPLATES, *_CONFIGURATIONS) or not isinstance(properties, Mapping):
        return None
    return _machine(*_described(type_token, properties))


# --- managed node groups ----------------------------------------------------------------------------------------------


def _node_group(properties: JsonObject) -> tuple[PoolFacts, ...]:
    machines = Machines()
    types = properties.get("instanceTypes")
    # A text is not what the API takes, but nothing to walk past either.
    for _, name in items([types] if isinstance(types, str) else types, "instanceTypes", machines.unknown):
        if isinstance(name, str):
            machines.add(name, accelerator(name), "instanceTypes")
    template = properties.get("launchTemplate")
    image = properties.get("amiType")
    if properties.get("gpu") is True and not machines.only_other:  # eks:index:ManagedNodeGroup
        machines.show(Accelerator("nvidia", None), "gpu true")
    _image(image, machines)
    decides: set[str] = set()
    unresolved_taints: list[str] = []
    if template and not machines.names and not machines.unknown:
        decides.add("machine")
        machines.unknown.append("launchTemplate")
    if image in (None, "CUSTOM", UNKNOWN):
        decides.add("image")
    if template and ("image" in decides or text(image).startswith(("AL2023_", "BOTTLEROCKET_"))):
        # Nodes of an image of one's own register with the taints of their user data. With EKS's image, EKS merges the
        # template's NodeConfig or settings into its own.
        # https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html#launch-template-user-data
        # awslabs/amazon-eks-ami 81fec2e8, nodeadm/doc/examples.md, "Merging multiple configuration objects"
        unresolved_taints.append("launchTemplate")
    if image is UNKNOWN and not machines.evidence and (machines.unknown or not machines.names):
        machines.unknown.append("amiType")
    decides.add("taints" if unresolved_taints else "more taints")
    elsewhere = (_template_reference(template, "launchTemplate", decides),) if template else ()
    read = TaintsRead()
    read.objects(properties.get("taints"), "taints", CLOUD_EFFECTS)
    hardening = Hardening()
    _group_hardening(properties, hardening)
    retired_machines(machines.names, INSTANCE_TYPES, "instanceTypes", hardening)
    return (
        replace(
            pool_facts("aws", machines, read, hardening),
            unresolved_taints=tuple(unresolved_taints),
            where="taints",
            missing_taint=as_object(wanted_taint(machines.accelerator), CLOUD_EFFECTS),
            elsewhere=elsewhere,
            software=_software(image, bool(template), at(properties, "gpu") is True),
            region=text(properties.get("region")),
            is_spot=properties.get("capacityType") == "SPOT",
            min_nodes=number(at(properties, "scalingConfig.minSize")),
            max_nodes=number(at(properties, "scalingConfig.maxSize")),
            labels=string_map(properties.get("labels")),
            tags=string_map(properties.get("tags")),
            node_customizations=tuple(group_customizations(properties)),
            identity=next(((key, properties[key]) for key in ("nodeRoleArn", "nodeRole") if properties.get(key)), None),
        ),
    )


def _image(image: object, machines: Machines) -> None:
    """Count the image as evidence: the old GPU image is also the one for Inferentia, so machines come first."""
    if not isinstance(image, str) or machines.only_other:
        return
    if _NVIDIA_IMAGE.fullmatch(image):
        machines.show(Accelerator("nvidia", None), f"amiType {image}")
    elif _NEURON_IMAGE.fullmatch(image):
        machines.show(Accelerator("other", None, "AWS Neuron"), f"amiType {image}")


def _software(image: object, template: bool, gpu: bool) -> SoftwareHints:
    if isinstance(image, str) and image and image != "CUSTOM":
        said = (f"amiType {image}",)
        if _NVIDIA_IMAGE.fullmatch(image):
            plugin = By.CLOUD if image.startswith("BOTTLEROCKET") else By.NOBODY
            return SoftwareHints(By.CLOUD, By.CLOUD, plugin, said)
        return SoftwareHints(By.NOBODY, By.NOBODY, By.NOBODY, said)
    if gpu:
        return SoftwareHints(By.CLOUD, By.CLOUD, By.UNSAID, ("gpu true",))
    if image is None and not template:
        # EKS takes an image without GPU software when none is named:
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html, `amiType`.
        return SoftwareHints(By.NOBODY, By.NOBODY, By.NOBODY, ("amiType unset",))
    return SoftwareHints()


def _group_hardening(properties: JsonObject, hardening: Hardening) -> None:
    remote = properties.get("remoteAccess")
    key = at(remote, "ec2SshKey")
    groups = at(remote, "sourceSecurityGroupIds") or at(remote, "sourceSecurityGroups")
    rows = controls(__package__)
    row = rows["ssh key"][0]
    if key is not None and not groups:
        row = row._replace(why="a key without source security groups opens port 22 to 0.0.0.0/0")
    hardening.judge(row, remote if remote is UNKNOWN else key, key is None)
    hardening.check(properties, rows["node group"])
    image = properties.get("amiType")
    release = re.fullmatch(r"\d+\.\d+\.\d+-(\d{8})", text(properties.get("releaseVersion")))
    if isinstance(image, str) and _NVIDIA_IMAGE.fullmatch(image) and release is not None:
        fixed = int(release[1]) >= FIRST_FIXED_RELEASE
        hardening.judge(rows["image release"][0], properties.get("releaseVersion"), fixed)
    for row in () if properties.get("launchTemplate") else rows["no template"]:
        hardening.judge(row, None, False)


def _template_reference(template: object, path: str, decides: AbstractSet[str]) -> Reference:
    named = (at(template, key) for key in ("id", "launchTemplateId", "name", "launchTemplateName"))
    return Reference(path, TEMPLATES, next((one for one in named if isinstance(one, str)), ""), frozenset(decides))


_WHOLE_MACHINE = frozenset({"machine", "image", "taints"})


# --- machines that user data makes nodes ------------------------------------------------------------------------------


def _described(type_token: str, properties: JsonObject) -> tuple[Any, str]:
    """Return what a template says of its machines, and the path before its inputs."""
    key = "launchTemplateData"
    return (properties.get(key), f"{key}.") if type_token == "aws-native:ec2:LaunchTemplate" else (properties, "")


def _template(type_token: str, properties: JsonObject) -> tuple[PoolFacts, ...]:
    data, prefix = _described(type_token, properties)
    given, path = _user_data(mapping(data), prefix)
    if not mapping(data).get("iamInstanceProfile") and not read_user_data(text(given), path).self_managed:
        return ()  # a managed node group's template, or none of a node: whoever refers to it is judged
    return _nodes(_machine(data, prefix))


def _single(properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read one machine; what it leaves out may be in a launch template."""
    machine, template = _machine(properties, ""), properties.get("launchTemplate")
    if not template:
        return _nodes(machine)
    decides = {"image"}
    if not machine.instance_types and not machine.unknown:
        decides.add("machine")
        machine = replace(machine, gpus_per_node=None, unknown=("launchTemplate",))
    if _user_data(properties, "")[0] is None:
        decides.add("taints")
        machine = replace(machine, unresolved_taints=("launchTemplate",), in_cluster=_in_cluster(machine.tags))
    return (replace(machine, elsewhere=(_template_reference(template, "launchTemplate", decides),)),)


def _instance(properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read one machine that nothing scales: what may join and does not say so is no node."""
    return tuple(pool for pool in _single(properties) if pool.in_cluster or pool.elsewhere or _in_cluster(pool.tags))


def _nodes(machine: PoolFacts) -> tuple[PoolFacts, ...]:
    """Keep machines that are nodes, or that are GPU machines of which nobody can tell yet."""
    return (machine,) if machine.in_cluster or (machine.in_cluster is None and machine.evidence) else ()


def _machine(described: object, prefix: str) -> PoolFacts:
    """Read one description of an EC2 machine: a template's, an instance's, a spot request's."""
    data, machines = mapping(described), Machines()
    if described is UNKNOWN:
        machines.unknown.append(prefix.rstrip("."))
    _instance_type(data, prefix, machines)
    given, path = _user_data(data, prefix)
    tags = _tags(data.get("tags"))
    for _, one in items(data.get("tagSpecifications"), "", []):
        tags |= _tags(at(one, "tags"))
    user_data = UserData(unknown=[path]) if given is UNKNOWN else read_user_data(text(given), path)
    no_node = given is not UNKNOWN and makes_no_node(text(given))
    in_cluster: bool | None = user_data.joins and not no_node
    unresolved_taints = list(user_data.unknown)
    is_open = user_data.unevaluated or given is UNKNOWN
    if not in_cluster and is_open:
        in_cluster = _in_cluster(tags)
        if in_cluster is None and no_node:
            in_cluster = False
        unresolved_taints = [path]
    elif not in_cluster and _in_cluster(tags):
        in_cluster = None
    if not user_data.joins and not is_open:
        # The image may have been made to join on its own.
        unresolved_taints += [f"{prefix}{key}" for key in ("imageId", "ami") if data.get(key)]
    hardening = Hardening()
    _machine_hardening(data, prefix, hardening)
    retired_machines(machines.names, INSTANCE_TYPES, f"{prefix}instanceType", hardening)
    plugin = {None: By.UNSAID, True: By.CLOUD, False: By.NOBODY}[user_data.own_device_plugin]
    taint = wanted_taint(machines.accelerator)
    return replace(
        pool_facts("aws", machines, user_data, hardening),
        unknown=tuple(machines.unknown),
        unresolved_taints=tuple(unresolved_taints),
        has_unevaluated_script=user_data.unevaluated,
        where=path,
        missing_taint=MissingTaint(f"--register-with-taints={taint} (or registerWithTaints, node-taints)"),
        in_cluster=in_cluster,
        software=SoftwareHints(device_plugin=plugin, said_by=(path,) if plugin else ()),
        sharing=user_data.sharing,
        labels=user_data.labels,
        tags=tags,
        node_customizations=tuple(node_customizations(data, prefix)),
    )


def _instance_type(data: JsonObject, prefix: str, machines: Machines) -> None:
    name = data.get("instanceType")
    if name is UNKNOWN:
        machines.unknown.append(f"{prefix}instanceType")
    elif isinstance(name, str) and name:
        machines.add(name, accelerator(name), f"{prefix}instanceType")
    _requirements(data.get("instanceRequirements"), f"{prefix}instanceRequirements", machines)


def _requirements(value: object, path: str, machines: Machines) -> None:
    """Read attribute-based selection, which takes GPU machines only when it names accelerators or such types.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceRequirementsRequest.html
    """
    if value is UNKNOWN:
        machines.unknown.append(path)
    if number(at(value, "acceleratorCount.max")) == 0:
        return
    wanted, words = mapping(value), set[str]()
    for key in ("acceleratorManufacturers", "acceleratorTypes", "acceleratorNames"):
        words |= {text(one).casefold() for _, one in items(wanted.get(key), f"{path}.{key}", machines.unknown)}
    amounts = {key: at(wanted, f"{key}.min") for key in _AMOUNTS}
    machines.unknown += [f"{path}.{key}" for key, amount in amounts.items() if amount is UNKNOWN]
    least = next((f"{key} {number(amount)}" for key, amount in amounts.items() if (number(amount) or 0) > 0), "")
    if words or least:
        amd = "nvidia" not in words and any(word.startswith(("amd", "radeon")) for word in words)
        vendor = "other" if words and words <= _NO_GPUS else "amd" if amd else "nvidia"
        machines.show(Accelerator(vendor, None), f"{path} {', '.join(sorted(words)) or least}")
    for _, one in items(wanted.get("allowedInstanceTypes"), f"{path}.allowedInstanceTypes", machines.unknown):
        if re.match(r"(?:g|gr|p)[\d*]", text(one)):
            found = accelerator(one.replace("*", "xlarge"))
            machines.add(one, found if found.vendor else Accelerator("nvidia", None), f"{path}.allowedInstanceTypes")


_AMOUNTS = ("acceleratorCount", "acceleratorTotalMemoryMib", "acceleratorTotalMemoryMiB")

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceRequirements.html: names, types and manufacturers
_NO_GPUS = frozenset(("inferentia", "inferentia2", "trainium", "trainium2", "u30", "vu9p", "gaudi-hl-205"))
_NO_GPUS |= {"fpga", "inference", "media", "amazon-web-services", "habana", "xilinx"}


def _user_data(data: JsonObject, prefix: str) -> tuple[Any, str]:
    for key in ("userData", "userDataBase64"):
        if data.get(key) is not None:
            return data[key], f"{prefix}{key}"
    return None, f"{prefix}userData"


def _tags(value: object) -> dict[str, str]:
    """Return tags, which are a map or a list of key and value."""
    pairs = [mapping(one) for one in value] if isinstance(value, list) else []
    listed = {text(pair.get("key")): text(pair.get("value")) for pair in pairs if isinstance(pair.get("key"), str)}
    return {**string_map(value), **listed}


def _in_cluster(tags: Mapping[str, str]) -> bool | None:
    """Return whether tags mark a machine as a Kubernetes node; False for another service, None without such tags.

    `kubernetes.io/cluster/<name>` is what self-managed nodes need
    (https://docs.aws.amazon.com/eks/latest/userguide/launch-workers.html), the next are cluster-autoscaler's. ECS and
    AWS Batch mark theirs: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/cluster-auto-scaling.html
    """
    if any(key.startswith(("kubernetes.io/cluster/", "k8s.io/cluster-autoscaler/", "eks:")) for key in tags):
        return True
    return False if {"AmazonECSManaged", "AWSBatchServiceTag"} & set(tags) else None


def _machine_hardening(data: JsonObject, prefix: str, hardening: Hardening) -> None:
    rows = controls(__package__)
    tokens, hops = at(data, "metadataOptions.httpTokens"), at(data, "metadataOptions.httpPutResponseHopLimit")
    off = at(data, "metadataOptions.httpEndpoint") == "disabled"
    hardening.judge(rows["metadata tokens"][0], tokens, off or tokens == "required", prefix)
    limit = number(hops)
    # 2 is what pods need that read the metadata service.
    row = rows["metadata hops"][0]._replace(mandatory="always" if limit is not None and limit > 2 else "never")
    hardening.judge(row, hops, off or limit == 1, prefix)
    hardening.check(data, rows["machine"], prefix)
    interfaces = items(data.get("networkInterfaces"), f"{prefix}networkInterfaces", [])
    for where, one in [*((f"{where}.", one) for where, one in interfaces), (prefix, data)]:
        hardening.check(mapping(one), rows["address"], where)
    _disk_hardening(data, prefix, hardening)


def _disk_hardening(data: JsonObject, prefix: str, hardening: Hardening) -> None:
    late: list[str] = []
    volumes = list(items(data.get("blockDeviceMappings"), f"{prefix}blockDeviceMappings", late))
    disks = [(f"{where}.ebs.encrypted", at(one, "ebs.encrypted")) for where, one in volumes if at(one, "ebs")]
    for key in ("rootBlockDevice", "ebsBlockDevices"):
        value = data.get(key)
        for where, one in [(f"{prefix}{key}", value)] if isinstance(value, Mapping) else items(value, key, late):
            disks.append((f"{where}.encrypted", at(one, "encrypted")))
    disks += [(path, UNKNOWN) for path in late]
    for path, value in disks or [(f"{prefix}blockDeviceMappings", None)]:
        hardening.judge(controls(__package__)["disk"][0], value, flag(value) is True, path)


# --- groups and fleets that choose machines for a template ------------------------------------------------------------


def _scaling_group(properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read an Auto Scaling group: its template's machine, or those it takes instead, which may have other templates."""
    pools: list[PoolFacts] = []
    path = "mixedInstancesPolicy.launchTemplate"
    mixed = at(properties, path)
    if mixed is UNKNOWN:
        pools.append(_group(properties, Reference(path, TEMPLATES, "", _WHOLE_MACHINE)))
    elif mixed:
        pools += _pools_by_template(mixed, path, properties)
    template = properties.get("launchTemplate")
    if template:
        pools.append(_group(properties, _template_reference(template, "launchTemplate", _WHOLE_MACHINE)))
    for key in ("launchConfiguration", "launchConfigurationName"):
        name = properties.get(key)
        if name:
            pools.append(_group(properties, Reference(key, _CONFIGURATIONS, text(name), _WHOLE_MACHINE)))
    return tuple(pools)


def _group(properties: JsonObject, reference: Reference, own: Machines | None = None) -> PoolFacts:
    """Return a group of the machines that a template describes, or of its own."""
    machines = own or Machines(unknown=[reference.property])
    taint, tags = wanted_taint(machines.accelerator), _tags(properties.get("tags"))
    return replace(
        pool_facts("aws", machines, TaintsRead()),
        unresolved_taints=(reference.property,),
        where=reference.property,
        missing_taint=MissingTaint(f"--register-with-taints={taint} in the user data of its launch template"),
        in_cluster=_in_cluster(tags),
        elsewhere=(reference,),
        min_nodes=number(properties.get("minSize")),
        max_nodes=number(properties.get("maxSize")),
        tags=tags,
    )


def _fleet(properties: JsonObject, prefix: str = "") -> tuple[PoolFacts, ...]:
    """Read an EC2 fleet or a request for a spot fleet, which CloudFormation has one level deeper."""
    fleet = mapping(at(properties, prefix.rstrip("."))) if prefix else properties
    found: list[PoolFacts] = []
    for where, one in items(fleet.get("launchTemplateConfigs"), f"{prefix}launchTemplateConfigs", []):
        found += _pools_by_template(one, where, fleet)
    for where, one in items(fleet.get("launchSpecifications"), f"{prefix}launchSpecifications", []):
        found += _nodes(_machine(one, f"{where}."))
    return tuple(found)


def _pools_by_template(chosen: object, path: str, properties: JsonObject) -> Iterator[PoolFacts]:
    """Yield a pool for each template that a group takes machines by, with the machines it takes in place of its own."""
    base, specification = f"{path}.launchTemplateSpecification", at(chosen, "launchTemplateSpecification")
    machines: dict[str, tuple[object, Machines]] = {}
    late: list[str] = []
    for where, one in items(at(chosen, "overrides"), f"{path}.overrides", late):
        own = at(one, "launchTemplateSpecification")
        key = f"{where}.launchTemplateSpecification" if own else base
        _, read = machines.setdefault(key, (own or specification, Machines()))
        _instance_type(mapping(one), f"{where}.", read)
    if late or not machines:
        machines.setdefault(base, (specification, Machines()))[1].unknown.extend(late)
    for reference, (template, read) in machines.items():
        decides = {"taints", "image"}
        if not read.names and not read.evidence and not read.unknown:
            decides.add("machine")
            read.unknown.append(reference)
        yield _group(properties, _template_reference(template, reference, decides), read)


# --- pulumi-eks -------------------------------------------------------------------------------------------------------


def _eks_managed(properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read a managed node group of pulumi-eks, which makes a launch template of what is no field of EKS's API.

    https://github.com/pulumi/pulumi-eks, nodejs/eks/nodes/nodegroup.ts, `createManagedNodeGroup`
    """
    (pool,) = _node_group(properties)
    settings = _eks_settings({key: value for key, value in properties.items() if key != "taints"}, "")
    return (
        replace(
            pool,
            component=True,
            taints=(*pool.taints, *settings.taints),
            unresolved_taints=(*pool.unresolved_taints, *settings.unknown),
            has_unevaluated_script=settings.unevaluated,
            not_counted=(*pool.not_counted, *settings.not_counted),
            sharing=settings.sharing,
        ),
    )


def _eks_node_group(properties: JsonObject) -> tuple[PoolFacts, ...]:
    return (_self_managed(properties, ""),)


def _eks_cluster(properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read the node group that comes with a cluster unless it is left out."""
    skipped = properties.get("skipDefaultNodeGroup") is True or bool(properties.get("fargate"))
    if skipped or at(properties, "autoMode.enabled") is True:
        return ()
    options = properties.get("nodeGroupOptions")
    if options is None:
        return (_self_managed(properties, ""),)
    pool = _self_managed(mapping(options), "nodeGroupOptions.")
    return (pool if options is not UNKNOWN else replace(pool, gpus_per_node=None, unknown=("nodeGroupOptions",)),)


def _self_managed(data: JsonObject, prefix: str) -> PoolFacts:
    machines = Machines()
    _instance_type(data, prefix, machines)
    if flag(data.get("gpu")) is True and not machines.only_other:
        machines.show(Accelerator("nvidia", None), f"{prefix}gpu true")
    elif data.get("gpu") is UNKNOWN and not machines.evidence:
        machines.unknown.append(f"{prefix}gpu")
    _image(data.get("amiType"), machines)
    settings = _eks_settings(data, prefix)
    hardening = Hardening()
    hardening.check(data, controls(__package__)["pulumi-eks"], prefix)
    taint = wanted_taint(machines.accelerator)
    entry = {taint.key: {"value": taint.value, "effect": taint.effect.value}}
    where = f"{prefix}taints" if prefix or "clusterTags" not in data else "nodeGroupOptions.taints"
    return replace(
        pool_facts("aws", machines, settings, hardening),
        component=True,
        unknown=tuple(machines.unknown),
        unresolved_taints=tuple(settings.unknown),
        has_unevaluated_script=settings.unevaluated,
        where=where,
        missing_taint=MissingTaint(f"{taint.key}: {{value: {taint.value}, effect: {taint.effect.value}}}", entry),
        software=_software(data.get("amiType"), bool(data.get("amiId")), flag(data.get("gpu")) is True),
        sharing=settings.sharing,
        min_nodes=number(data.get("minSize")),
        max_nodes=number(data.get("maxSize")),
        labels=string_map(data.get("labels")),
        tags={**string_map(data.get("cloudFormationTags")), **string_map(data.get("autoScalingGroupTags"))},
        node_customizations=tuple(group_customizations(data, prefix)),
    )


def _eks_settings(data: JsonObject, prefix: str) -> UserData:
    """Read every way a node group of pulumi-eks takes taints: they all end as arguments of the kubelet."""
    user_data = UserData()
    taints = data.get("taints")
    if taints is UNKNOWN:
        user_data.unknown.append(f"{prefix}taints")
    for key, taint in mapping(taints).items():
        where = f"{prefix}taints[{key!r}]"
        if taint is UNKNOWN:
            user_data.unknown.append(where)
        else:
            user_data.one({**mapping(taint), "key": key}, where, KUBERNETES_EFFECTS)
    if is_list(taints):
        user_data.note(f"{prefix}taints: a list; pulumi-eks takes a map from key to value and effect")
    for name in ("kubeletExtraArgs", "bootstrapExtraArgs"):
        given, where = data.get(name), f"{prefix}{name}"
        if given is UNKNOWN or "$" in text(given):
            user_data.unknown.append(where)
        else:
            words = [argument for word in kubelet.words([text(given)]) for argument in kubelet.words([word])]
            kubelet.read_list(kubelet.last(kubelet.FLAG, words) or "", f"{where} --{kubelet.FLAG}", user_data)
    scripts = [(f"{prefix}{name}", data.get(name)) for name in ("nodeUserDataOverride", "userData")]
    extra = items(data.get("nodeadmExtraOptions"), f"{prefix}nodeadmExtraOptions", user_data.unknown)
    contents = ((where, at(one, "content")) for where, one in extra)
    scripts += [(where, given) for where, given in contents if given is UNKNOWN or mentions_taints(text(given))]
    for where, given in scripts:
        told = UserData(unknown=[where]) if given is UNKNOWN else read_user_data(text(given), where)
        user_data.taints += told.taints
        user_data.unknown += told.unknown
        user_data.not_counted += told.not_counted
        user_data.unevaluated |= told.unevaluated
    # What runs beside the command by which pulumi-eks lets the node join matters where it is about taints.
    if data.get("nodeUserData") is UNKNOWN or mentions_taints(text(data.get("nodeUserData"))):
        user_data.unknown.append(f"{prefix}nodeUserData")
        user_data.unevaluated |= data["nodeUserData"] is not UNKNOWN
    settings = data.get("bottlerocketSettings")
    if settings is UNKNOWN:
        user_data.unknown.append(f"{prefix}bottlerocketSettings")
    elif isinstance(settings, Mapping):
        read_settings(settings, f"{prefix}bottlerocketSettings", user_data)
    return user_data


_Reader = Callable[[JsonObject], tuple[PoolFacts, ...]]


_READERS: Mapping[str, _Reader] = MappingProxyType(
    {
        "aws:eks/nodeGroup:NodeGroup": _node_group,
        "aws-native:eks:Nodegroup": _node_group,
        "eks:index:ManagedNodeGroup": _eks_managed,
        "eks:index:NodeGroup": _eks_node_group,
        "eks:index:NodeGroupV2": _eks_node_group,
        "eks:index:Cluster": _eks_cluster,
        **{token: partial(_template, token) for token in TEMPLATES},
        "aws:ec2/launchConfiguration:LaunchConfiguration": _single,
        "aws-native:autoscaling:LaunchConfiguration": _single,
        "aws:ec2/instance:Instance": _instance,
        "aws-native:ec2:Instance": _instance,
        "aws:ec2/spotInstanceRequest:SpotInstanceRequest": _instance,
        "aws:autoscaling/group:Group": _scaling_group,
        "aws-native:autoscaling:AutoScalingGroup": _scaling_group,
        "aws:ec2/fleet:Fleet": _fleet,
        "aws-native:ec2:Ec2Fleet": _fleet,
        "aws:ec2/spotFleetRequest:SpotFleetRequest": _fleet,
        "aws-native:ec2:SpotFleet": partial(_fleet, prefix="spotFleetRequestConfigData."),
    }
)

TYPES = tuple(sorted({*_READERS, *_CONFIGURATIONS}))
"""Every type token that is read, for people."""

READBACK = Readback(
    read_pools=read_pools,
    accelerator=accelerator,
    customizations=customizations,
    read_template=read_template,
    types=TYPES,
    objects=KubernetesObjects(karpenter=KARPENTER),
)
