"""Existing node groups of EKS, as the AWS CLI, Terraform and Pulumi describe them. Pure.

What nodes boot with may be in a launch template, which is not imported: several groups may share it, and a new one
replaces a group (https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html). `aws ec2
describe-launch-template-versions` prints it.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.plan.existing_pools import (
    ExistingPools,
    Found,
    There,
    list_of,
    number_of,
    other_taints,
    refuse,
    sharing_keys,
    taint_texts,
    text_of,
    without_nothing,
)
from gpupools.providers.aws.bootstrap import RENAMED_BY_DEFAULT
from gpupools.providers.aws.machines import INSTANCE_TYPES
from gpupools.providers.aws.node_images import AL2023, BOTTLEROCKET
from gpupools.providers.aws.pool_settings import LAUNCH_TEMPLATE, NODE_GROUP
from gpupools.providers.aws.readback import TEMPLATES, accelerator
from gpupools.providers.aws.user_data import decode_user_data, parse_toml, read_user_data
from gpupools.readback.inputs import at

_TOKEN = "aws:eks/nodeGroup:NodeGroup"
_ARN = r"arn:aws[a-z-]*:eks:([a-z0-9-]+):\d{12}:nodegroup/([^/]+)/([^/]+)/.+"
_PLACE = ("clusterName", "nodeGroupName", "nodeGroupNamePrefix", "region")
_CLUSTER_TAG, _POOL_TAG = "gpupools:cluster", "gpupools:pool"
_API_DEFAULTS = {"capacityType": "ON_DEMAND"}
"""Values that the API returns for a group without settings."""
_RETIRED = "AL2_x86_64_GPU"
_WITH_DRIVER = AL2023.all_ami_types() | BOTTLEROCKET.all_ami_types()


def _pool_from_cli(data: JsonObject) -> Found | None:
    group = data.get("nodegroup")
    if not isinstance(group, Mapping) or "nodegroupName" not in group:
        return None
    place = text_of(group.get("nodegroupArn"), _ARN)
    if not place:
        raise refuse(group["nodegroupName"], "has no nodegroupArn", "describe it with aws eks describe-nodegroup")
    renamed = {"subnetIds": group.get("subnets"), "nodeRoleArn": group.get("nodeRole")}
    remote = mapping(group.get("remoteAccess"))
    renamed["remoteAccess"] = {
        "ec2SshKey": remote.get("ec2SshKey"),
        "sourceSecurityGroupIds": remote.get("sourceSecurityGroups"),
    }
    region, cluster, name = place
    return _existing_pool(region, cluster, name, {**group, **renamed})


def _existing_pool(region: str, cluster: str, name: str, given: JsonObject) -> Found:
    inputs = {
        key: value
        for key, value in given.items()
        if key in NODE_GROUP.inputs and key not in _PLACE and value != _API_DEFAULTS.get(key)
    }
    update = dict(mapping(inputs.get("updateConfig")))
    inputs["updateConfig"] = {key: value for key, value in update.items() if value != 0}  # the other of the two ways
    where = {"cloud": "aws", "name": cluster, "region": region}
    return Found(name, where, without_nothing(inputs))


def _pool_from_state(kind: str, inputs: JsonObject, identifier: str) -> Found | None:
    if kind != _TOKEN or not _can_have_gpus(inputs):
        return None  # groups without GPUs are not imported
    cluster, _, name = identifier.partition(":")
    arn = text_of(inputs.get("arn"), _ARN)
    region = inputs.get("region") or (arn[0] if arn else None)
    if not cluster or not name or not region:
        fix = "describe it with aws eks describe-nodegroup"
        raise refuse(inputs.get("nodeGroupName") or identifier, "has neither region nor cluster", fix)
    return _existing_pool(str(region), cluster, name, inputs)


def _can_have_gpus(inputs: JsonObject) -> bool:
    """Return whether its instance types have GPUs, or only its launch template names them."""
    names = _strings(inputs.get("instanceTypes"))
    if not names:
        image = inputs.get("amiType")
        return bool(inputs.get("launchTemplate")) and (image in (None, "CUSTOM", _RETIRED) or image in _WITH_DRIVER)
    return any(accelerator(name).vendor == "nvidia" for name in names)


# --- launch templates ---


def _template_versions(data: JsonObject) -> Mapping[str, JsonObject]:
    versions = data.get("LaunchTemplateVersions")
    return {
        _key(version.get("LaunchTemplateId"), version.get("VersionNumber")): _as_inputs(
            mapping(version.get("LaunchTemplateData"))
        )
        for version in (versions if isinstance(versions, list) else [])
        if isinstance(version, Mapping)
    }


def _template_in_state(kind: str, inputs: JsonObject, identifier: str) -> Mapping[str, JsonObject]:
    if kind != TEMPLATES[0] or not identifier:
        return {}
    told = {key: value for key, value in inputs.items() if key in LAUNCH_TEMPLATE.inputs - _UNVERSIONED_INPUTS}
    # A state has the latest version. Pulumi's does not say its number among the inputs.
    return {_key(identifier, inputs.get("latestVersion")): told}


_UNVERSIONED_INPUTS = frozenset(
    {"name", "namePrefix", "region", "tags", "description", "defaultVersion", "updateDefaultVersion"}
)
"""Inputs that do not describe the instances."""


def _key(template: object, version: object) -> str:
    return f"{template} {version}"


_RENAMED = {"SecurityGroupIds": "vpcSecurityGroupIds", "Groups": "securityGroups"}


def _as_inputs(value: Any) -> Any:
    """Return EC2's output by the names of launch template inputs."""
    if isinstance(value, Mapping):
        return {_RENAMED.get(key, f"{key[:1].lower()}{key[1:]}"): _as_inputs(inner) for key, inner in value.items()}
    return [_as_inputs(item) for item in value] if isinstance(value, list) else value


def _merge_template(found: Found, templates: Mapping[str, JsonObject]) -> Found | None:
    template = mapping(found.inputs.get("launchTemplate"))
    if not template:
        return found
    said = templates.get(_key(template.get("id"), template.get("version")))
    said = templates.get(_key(template.get("id"), None)) if said is None else said
    if said is None:
        note = f"its launch template is in none of the files; {_describe_command(template)} prints it"
        return replace(found, notes=(*found.notes, note))
    types = _strings(found.inputs.get("instanceTypes")) or _strings(said.get("instanceType"))
    if types and not any(accelerator(type_).vendor == "nvidia" for type_ in types):
        return None
    return replace(found, beside=without_nothing(said))


def _describe_command(template: JsonObject) -> str:
    wanted = f"--launch-template-id {template.get('id')} --versions {template.get('version')}"
    return f"aws ec2 describe-launch-template-versions {wanted}"


def _adopt(found: Found) -> JsonDict:
    template = mapping(found.inputs.get("launchTemplate"))
    if not template:
        return {}
    version = str(template.get("version") or "$Default")
    if not version.isdigit():
        what = f"uses version {version} of its launch template, which can change at any time"
        raise refuse(found.name, what, "describe it with aws eks describe-nodegroup, which prints the number")
    return {"launch_template": {"id": template.get("id"), "version": int(version)}}


# --- the pool's keys ---


def _pool_keys(found: Found) -> tuple[JsonDict, JsonDict]:
    inputs, template = found.inputs, found.beside or {}
    row = _machine(found)
    image = str(inputs.get("amiType"))
    update = mapping(inputs.get("updateConfig"))
    pool = {
        "instance_type": row.name,
        "nodes": _nodes(found),
        "sharing": _sharing(found) if image in BOTTLEROCKET.all_ami_types() else None,
        "software": _software(found, image),
        "capacity": _capacity(found),
        "image": {
            **({"family": "custom", "id": template.get("imageId")} if image == "CUSTOM" else {}),
            "fips": True if image in BOTTLEROCKET.fips_ami_types.values() else None,
        },
        "network": {"rdma": _rdma(template, row)},
        "upgrade": {"max_unavailable": update.get("maxUnavailable")},
        "auto_repair": False if mapping(inputs.get("nodeRepairConfig")).get("enabled") is not True else None,
        "labels": dict(mapping(inputs.get("labels"))),
        "taints": other_taints(taint_texts(inputs.get("taints"))),
        "tags": dict(mapping(inputs.get("tags"))),
    }
    own = {"subnet_ids": _strings(inputs.get("subnetIds")), "node_role_arn": inputs.get("nodeRoleArn")}
    return own, without_nothing(pool)


def _machine(found: Found) -> InstanceType:
    template = mapping(found.inputs.get("launchTemplate"))
    names = _strings(found.inputs.get("instanceTypes")) or _strings(mapping(found.beside).get("instanceType"))
    if not names and template and found.beside is None:
        what = "has no instance type, and its launch template is in none of the files"
        raise refuse(found.name, what, f"also pass what {_describe_command(template)} prints")
    rows = [INSTANCE_TYPES.get(name) for name in names]
    known = [row for row in rows if row is not None]
    if not known or len(known) < len(rows):
        what = f"runs on {', '.join(names) or 'an unknown instance type'}, which is not in the catalogue"
        raise refuse(found.name, what)
    if len({(row.gpu_model, row.gpus, row.architecture) for row in known}) > 1:
        raise refuse(found.name, f"mixes machines with different GPUs: {', '.join(names)}")
    return known[0]


def _nodes(found: Found) -> dict[str, int]:
    scaling = mapping(found.inputs.get("scalingConfig"))
    least, most = (number_of(scaling.get(key), key) for key in ("minSize", "maxSize"))
    # EC2 takes spot machines back, so no number of them is called fixed.
    fixed = least == most and found.inputs.get("capacityType") != "SPOT"
    return {"fixed": most} if fixed else {"min": least, "max": most}


def _software(found: Found, image: str) -> str:
    if image in BOTTLEROCKET.all_ami_types():
        return "cloud-managed"
    if image in AL2023.all_ami_types() or image == _RETIRED:
        return "device-plugin"
    if image != "CUSTOM":
        what = f"has the AMI type {image}, which has no driver, and the owner of the driver is unknown"
        raise refuse(found.name, what)
    if "imageId" not in (found.beside or {}):
        command = _describe_command(mapping(found.inputs.get("launchTemplate")))
        raise refuse(found.name, "has a custom image, which no file names", f"also pass what {command} prints")
    return "gpu-operator"


def _sharing(found: Found) -> JsonDict | None:
    """Return the sharing mode from Bottlerocket's settings in the launch template."""
    user_data = str((found.beside or {}).get("userData") or "")
    said = read_user_data(user_data)
    if said.own_device_plugin is False:
        raise refuse(found.name, "switches Bottlerocket's device plugin off, and the owner of its GPUs is unknown")
    renames = said.sharing and _renames_shared_gpus(user_data, said.sharing.kind.rpartition("+")[2])
    return sharing_keys(said.sharing, **({"rename": True} if renames else {}))


def _renames_shared_gpus(user_data: str, way: str) -> bool:
    """Return whether shared GPUs have another resource name."""
    settings = parse_toml(decode_user_data(user_data) or "")
    said = at(settings, f"settings.kubelet-device-plugins.nvidia.{way}.rename-by-default")
    return said is True or (said is None and way in RENAMED_BY_DEFAULT)


def _capacity(found: Found) -> JsonDict | None:
    kind = found.inputs.get("capacityType")
    if kind == "SPOT":
        return {"mode": "spot"}
    if kind != "CAPACITY_BLOCK":
        return None
    target = mapping(at(found.beside, "capacityReservationSpecification.capacityReservationTarget"))
    if "capacityReservationId" not in target:
        command = _describe_command(mapping(found.inputs.get("launchTemplate")))
        raise refuse(found.name, "uses a Capacity Block that no file names", f"also pass what {command} prints")
    return {"mode": "capacity-block", "name": target["capacityReservationId"]}


def _rdma(template: JsonObject, row: InstanceType) -> bool | None:
    """Return True if every card of the machine has an EFA interface, which is `network.rdma`."""
    interfaces = list_of(Mapping, template.get("networkInterfaces"), "networkInterfaces")
    efas = sum(str(interface.get("interfaceType")).startswith("efa") for interface in interfaces)
    return True if efas and efas == row.rdma_interfaces else None


def _strings(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return [value] if value else []
    return [str(item) for item in value] if isinstance(value, list) else []


def _existing_resources(data: JsonObject) -> Iterator[There]:
    """Read `aws eks describe-nodegroup` and `aws ec2 describe-launch-templates` or `describe-placement-groups`.

    https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html,
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplate.html and API_PlacementGroup.html there
    """
    group = data.get("nodegroup")
    if isinstance(group, Mapping) and "nodegroupName" in group:
        cluster, name = str(group.get("clusterName")), str(group["nodegroupName"])
        region = [*str(group.get("nodegroupArn")).split(":"), "", "", "", ""][3]
        place = ["--cluster-name", cluster, "--nodegroup-name", name, *(["--region", region] if region else [])]
        inputs = {"clusterName": cluster, "nodeGroupName": name}
        yield _resource(_TOKEN, f"{cluster}:{name}", inputs, group.get("tags"), "eks", "delete-nodegroup", *place)
    for item in _objects(data, "LaunchTemplates"):
        name, identifier = str(item.get("LaunchTemplateName")), str(item.get("LaunchTemplateId"))
        delete = ("ec2", "delete-launch-template", "--launch-template-id", identifier)
        yield _resource("aws:ec2/launchTemplate:LaunchTemplate", identifier, {"name": name}, _tags(item), *delete)
    for item in _objects(data, "PlacementGroups"):
        name = str(item.get("GroupName"))
        delete = ("ec2", "delete-placement-group", "--group-name", name)
        yield _resource("aws:ec2/placementGroup:PlacementGroup", name, {"name": name}, _tags(item), *delete)


def _resource(kind: str, identifier: str, inputs: Mapping[str, str], tags: object, *delete: str) -> There:
    known = tags if isinstance(tags, Mapping) else {}
    ours = {key: str(known[key]) for key in (_CLUSTER_TAG, _POOL_TAG) if key in known}
    return There(
        name=[*inputs.values()][-1],
        id=identifier,
        forms=((kind, inputs),),
        tags=ours,
        cluster=ours.get(_CLUSTER_TAG, inputs.get("clusterName", "")),
        pool=ours.get(_POOL_TAG, ""),
        delete=shlex.join(["aws", *delete]),
    )


def _objects(data: JsonObject, key: str) -> Iterator[JsonObject]:
    found = data.get(key)
    yield from (item for item in (found if isinstance(found, list) else []) if isinstance(item, Mapping))


def _tags(data: JsonObject) -> JsonDict:
    return {str(item.get("Key")): item.get("Value") for item in _objects(data, "Tags")}


EXISTING_POOLS = ExistingPools(
    resource="NodeGroup",
    described=_pool_from_cli,
    declared=_pool_from_state,
    keys=_pool_keys,
    adopt=_adopt,
    referred=_template_versions,
    referred_in_state=_template_in_state,
    joined=_merge_template,
    beside="LaunchTemplate",
    there=_existing_resources,
)
