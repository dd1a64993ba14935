"""A second opinion on GPU pools and taints, written from the definition of the rule and from the clouds' own pages.

It shares no code and no data with the readers and rules it is compared with: types are told apart by the shape of
their names alone, inputs are taken in wire form, and every question has three answers.

- A pool has GPUs by machine type, by an image for NVIDIA GPUs, by accelerator blocks with a count above 0, by a MIG
  profile. Inferentia, Trainium, Gaudi, FPGAs, IPUs and TPUs are other accelerators.
- It is tainted by one taint with a key and the effect NoSchedule or NoExecute, in the spelling of its API.
- A violation is a GPU that is known and a taint that is known to be missing. What is known to be without GPUs or to be
  tainted passes. Anything in between is unverified, unless another resource has the answer.
- A value of a type that the API refuses is no taint, and no machine unless that would hide a GPU.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE = "4dabf18193072939515e22adb298388d"

YES, NO, MAYBE = "yes", "no", "maybe"
OTHER = "other"
"""An accelerator that is no GPU."""

PASS, VIOLATION, UNVERIFIED, ADVISORY = "pass", "violation", "unverified", "advisory"

SHOUTED = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
"""Hard effects as EKS and GKE spell them."""
PLAIN = {"NoSchedule": "NoSchedule", "NoExecute": "NoExecute"}
"""Hard effects as Kubernetes, AKS and the kubelet spell them."""

START_UP = ("node.cilium.io/agent-not-ready", "startup-taint.cluster-autoscaler.kubernetes.io/driver")
"""Keys of taints that something takes off again."""

MACHINES = {
    "aws": (r"(g|gr|p)\d[\w-]*\.[\w-]+", r"(inf|trn|dl|vt|f)\d\w*(-\w+)?\.\w+"),
    "azure": (
        r"standard_(n(c|cc|d|v)\d\w*|ng\w+_v620_v\d)",
        r"standard_(np\d+s|nm\w+_ma35d|nd40s_v3)",
    ),
    "gcp": (r"[ag][2-9]\w*-[\w-]+", r"(ct|tpu)\d\w*-\w+-\d+t"),
}
"""Names of machines with GPUs, and of machines with another accelerator; the latter is asked first."""


def judge(type_: str, wire: Mapping[str, Any]) -> list[str]:
    """Return the verdict on each pool that a resource declares, sorted, without those that pass."""
    given = seen_through(wire)
    return sorted(one for one in _verdicts(type_, given) if one != PASS)


def seen_through(value: Any) -> Any:
    """Take secrets out of their envelopes."""
    if isinstance(value, Mapping):
        return (
            seen_through(value["value"])
            if SIGNATURE in value
            else {key: seen_through(item) for key, item in value.items()}
        )
    return [seen_through(item) for item in value] if isinstance(value, list) else value


def _verdicts(type_: str, given: dict[str, Any]) -> Iterator[str]:
    kind = type_.rsplit(":", 1)[1]
    if type_.startswith("kubernetes:karpenter.sh"):
        yield _karpenter(given)
    elif type_.startswith("kubernetes:"):
        yield from _object(type_.split(":")[1].split("/")[0], kind, given["spec"])
    elif kind in ("NodeGroup", "Nodegroup"):
        yield _eks(given)
    elif kind == "LaunchTemplate":
        yield _launch_template(given)
    elif kind in ("AgentPool", "KubernetesClusterNodePool"):
        yield _aks(given, kind == "AgentPool")
    elif kind == "ManagedCluster":
        yield from _each(given.get("agentPoolProfiles"), lambda pool: _aks(pool, True))
    elif kind == "Resource" and type_.startswith("azure-native:resources"):
        yield from _arm(given)
    elif kind == "NodePool":
        yield _gke(given, "config" if type_.startswith("google-native") else "nodeConfig")
    elif type_ == "gcp:container/cluster:Cluster":
        pools = given.get("nodePools")
        yield from _each(pools, lambda pool: _gke(pool, "nodeConfig"))
        if pools != UNKNOWN and not (isinstance(pools, list) and pools):
            yield _gke(given, "nodeConfig")  # the default pool


def _each(pools: Any, verdict: Any) -> Iterator[str]:
    if pools == UNKNOWN:
        yield UNVERIFIED
    for pool in pools if isinstance(pools, list) else []:
        yield UNVERIFIED if pool == UNKNOWN else verdict(pool if isinstance(pool, dict) else {})


def _verdict(
    evidence: Iterable[str], taints: list[str], left_to_another: bool = False, taints_elsewhere: bool = False
) -> str:
    """Put together what the nodes have (`YES`, `MAYBE`, `OTHER`, `NO`) and hard effects (an effect or `MAYBE`).

    What another resource may say of the machine, or of the taints, is for the rule on the whole stack.
    """
    seen = set(evidence)
    hard = set(taints) - {MAYBE}
    gpu = YES if YES in seen else MAYBE if MAYBE in seen else NO
    if hard:
        warned = hard == {"NoExecute"} and gpu != NO and not (gpu == MAYBE and OTHER in seen)
        return ADVISORY if warned else PASS
    if gpu == NO:
        return ADVISORY if OTHER in seen else PASS
    if gpu == YES and taints_elsewhere:
        return PASS
    if gpu == YES:
        return UNVERIFIED if MAYBE in taints else VIOLATION
    if left_to_another:
        return ADVISORY if OTHER in seen else PASS
    return UNVERIFIED


def _machine(cloud: str, name: str) -> str:
    gpu, other = MACHINES[cloud]
    name = name.lower() if cloud == "azure" else name
    return OTHER if re.fullmatch(other, name) else YES if re.fullmatch(gpu, name) else NO


# --- taints ---


def _objects(taints: Any, effects: Mapping[str, str]) -> list[str]:
    """Return the hard effects of a list of key, value and effect."""
    if taints == UNKNOWN:
        return [MAYBE]
    found = []
    for one in taints if isinstance(taints, list) else []:
        if one == UNKNOWN:
            found.append(MAYBE)
        elif isinstance(one, dict):
            key, effect = one.get("key"), one.get("effect")
            if not isinstance(key, str) or not key or key in START_UP or not isinstance(effect, str):
                continue
            if effect == UNKNOWN or effect in effects:
                found.append(MAYBE if UNKNOWN in (key, effect) else effects[effect])
    return found


def _texts(taints: Any) -> list[str]:
    """Return the hard effects of a list of `key=value:Effect`."""
    if taints == UNKNOWN:
        return [MAYBE]
    listed = taints if isinstance(taints, list) else []
    return [MAYBE if one == UNKNOWN else effect for one in listed if (effect := _text(one))]


def _text(taint: Any) -> str:
    """Return the hard effect of `key=value:Effect`, or nothing; something for an unknown one."""
    if not isinstance(taint, str) or taint == UNKNOWN:
        return MAYBE if taint == UNKNOWN else ""
    key, effect = _named(taint)
    return effect if _spelled(taint) and key not in START_UP and effect in PLAIN else ""


def _named(taint: str) -> tuple[str, str]:
    said, _, effect = taint.rpartition(":")
    return said.partition("=")[0], effect


def _spelled(taint: str) -> bool:
    """Say whether `key=value:Effect` is a taint at all, whatever it does."""
    said, colon, effect = taint.rpartition(":")
    key, _, value = said.partition("=")
    name = key.split("/")[-1]
    prefix = key[: -len(name) - 1] if "/" in key else "x"
    good = bool(colon) and _word(name) and key.count("/") < 2 and (not value or _word(value))
    known = effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")
    return good and known and re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", prefix) is not None


def _flag(given: str) -> list[str]:
    """Return the hard effects of the kubelet's list; it does not start with one that is wrong, or there twice."""
    each = [one for one in given.split(",") if not one.endswith("-")] if given else []
    known = [one for one in each if "$" not in one]
    named = [_named(one) for one in known]
    if len(set(named)) < len(named) or not all(map(_spelled, known)):
        known = []
    return [MAYBE for one in each if "$" in one] + [effect for one in known if (effect := _text(one))]


def _word(text: str) -> bool:
    """Say whether text may be a name or a label's value in Kubernetes."""
    ends = bool(text) and text[0].isalnum() and text[-1].isalnum()
    return ends and len(text) < 64 and all(each.isascii() and (each.isalnum() or each in "-_.") for each in text)


# --- each kind of pool ---


def _eks(given: Mapping[str, Any]) -> str:
    types, image, template = given.get("instanceTypes"), given.get("amiType"), given.get("launchTemplate")
    listed = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    named = [one for one in listed if isinstance(one, str) and one != UNKNOWN]
    evidence = [_machine("aws", one) for one in named]
    if UNKNOWN in listed:
        evidence.append(MAYBE)
    only_other = bool(evidence) and set(evidence) <= {OTHER, MAYBE} and OTHER in evidence
    if image == UNKNOWN and not listed:
        evidence.append(MAYBE)
    elif isinstance(image, str) and not only_other:
        # The GPU image of Amazon Linux 2 was Inferentia's as well, so other accelerators come first.
        if "NVIDIA" in image or image == "AL2_x86_64_GPU":
            evidence.append(YES)
        elif "NEURON" in image:
            evidence.append(OTHER)
    no_type = not named and UNKNOWN not in listed
    if template and no_type:
        evidence.append(MAYBE)
    # Nodes of an own image, and of EKS's images whose user data it merges, may register with taints of the template.
    own_image = image in (None, "CUSTOM", UNKNOWN) or str(image).startswith(("AL2023_", "BOTTLEROCKET_"))
    tainting = bool(template) and own_image
    left = tainting or (bool(template) and no_type)
    return _verdict(evidence, _objects(given.get("taints"), SHOUTED), left, tainting)


def _launch_template(given: Mapping[str, Any]) -> str:
    """Judge a template that starts nodes by itself: one with an instance profile, which node groups refuse."""
    if not given.get("iamInstanceProfile"):
        return PASS
    name, user_data = given.get("instanceType"), given.get("userData")
    evidence = [MAYBE if name == UNKNOWN else _machine("aws", name) if isinstance(name, str) else NO]
    if user_data == UNKNOWN:
        return UNVERIFIED if YES in evidence else PASS
    script = user_data if isinstance(user_data, str) else ""
    if script and "\n" not in script:
        script = base64.b64decode(script).decode()
    lines = [line for line in script.split("\n") if not line.startswith("#")]
    if not any("/etc/eks/bootstrap.sh" in line for line in lines):
        return UNVERIFIED if any(lines) and YES in evidence else PASS
    taints: list[str] = []
    for line in lines:
        taints += _flag(line.partition("--register-with-taints=")[2].partition("'")[0])
    return _verdict(evidence, taints)


def _karpenter(given: Mapping[str, Any]) -> str:
    spec = given["spec"]["template"]["spec"]
    evidence = []
    for one in spec["requirements"]:
        values = one["values"]
        for value in [values] if values == UNKNOWN else values:
            if value == UNKNOWN:
                evidence.append(MAYBE)
            elif one["key"] == "node.kubernetes.io/instance-type":
                evidence.append(_machine("aws", value))
            elif one["key"] == "karpenter.k8s.aws/instance-category":
                evidence.append(_machine("aws", f"{value}9.xlarge"))
    return _verdict(evidence, _objects(spec.get("taints"), PLAIN))


MANAGED_MACHINES = {
    "AWSManagedMachinePool": ("aws", "instanceType", "taints", ("no-schedule", "no-execute")),
    "ROSAMachinePool": ("aws", "instanceType", "taints", ("NoSchedule", "NoExecute")),
    "AzureManagedMachinePool": ("azure", "sku", "taints", ("NoSchedule", "NoExecute")),
    "GCPManagedMachinePool": ("gcp", "machineType", "kubernetesTaints", ("NoSchedule", "NoExecute")),
    "MachineSet": ("aws", "instanceType", "taints", ("NoSchedule", "NoExecute")),
}
"""Cluster API's pools that have taints themselves: cloud, field of the machine, field of the taints, hard effects."""


def _object(group: str, kind: str, spec: Any) -> Iterator[str]:
    """Judge a Kubernetes object that stands for a pool."""
    if spec == UNKNOWN:
        yield UNVERIFIED
    elif kind in MANAGED_MACHINES:
        cloud, machine, field, hard = MANAGED_MACHINES[kind]
        if kind == "MachineSet":  # OpenShift: the machine is a part of its template
            inside = spec["template"]["spec"]
            spec = {**inside, **inside["providerSpec"]["value"]}
        name = spec.get(machine)
        evidence = MAYBE if name == UNKNOWN else _machine(cloud, name) if isinstance(name, str) else NO
        yield _verdict([evidence], _objects(spec.get(field), dict(zip(hard, PLAIN, strict=True))))
    elif group == "eks.services.k8s.aws":
        yield _eks(spec)
    elif kind == "ManagedClustersAgentPool":
        yield _aks(spec, True)
    else:
        if "forProvider" in spec and spec["forProvider"] == UNKNOWN:
            yield UNVERIFIED
            return
        # What is said for the provider goes before what is said for the creation only.
        spec = {**spec.get("initProvider", {}), **spec["forProvider"]} if "forProvider" in spec else spec
        yield _terraform(group, kind, spec)


def _terraform(group: str, kind: str, spec: dict[str, Any]) -> str:
    """Judge a pool in Terraform's names: `taint`, `guestAccelerator`, and blocks that may be in lists."""
    if kind == "NodeGroup":
        return _eks({**_block(spec), "taints": spec.get("taint")})
    if kind == "KubernetesClusterNodePool":
        return _aks(spec, False)
    config = spec.get("nodeConfig")
    config = config[0] if isinstance(config, list) and len(config) == 1 else config
    if isinstance(config, dict):
        config = {**config, "taints": config.get("taint"), "guestAccelerators": config.get("guestAccelerator")}
    return _gke({"nodeConfig": config}, "nodeConfig")


def _block(spec: dict[str, Any]) -> dict[str, Any]:
    template = spec.get("launchTemplate")
    single = isinstance(template, list) and len(template) == 1
    return {**spec, "launchTemplate": template[0]} if isinstance(template, list) and single else spec


def _aks(given: Mapping[str, Any], native: bool) -> str:
    size, profile = given.get("vmSize"), given.get("gpuInstanceProfile" if native else "gpuInstance")
    evidence = []
    if isinstance(size, str) and size != UNKNOWN:
        evidence.append(_machine("azure", size))
    else:
        # A size that is no text is refused by the API, and yet the only thing that could prove the pool safe.
        evidence.append(NO if size is None else MAYBE)
        if profile == UNKNOWN:
            evidence.append(MAYBE)
    if isinstance(profile, str) and profile not in ("", UNKNOWN):
        evidence.append(YES)
    return _verdict(evidence, _texts(given.get("nodeTaints")))


def _arm(given: Mapping[str, Any]) -> Iterator[str]:
    """Judge a resource by its address, which is `/providers/<namespace>/<parent>/<type>/<name>` in any case."""
    namespace, kind = given.get("resourceProviderNamespace"), given.get("resourceType")
    if not isinstance(kind, str) or kind == UNKNOWN:
        return
    address = f"{'microsoft.containerservice' if namespace == UNKNOWN else namespace}/{kind}".lower().strip("/")
    properties = given.get("properties")
    late = properties == UNKNOWN
    properties = properties if isinstance(properties, dict) else {}
    if "microsoft.containerservice" not in address.split("/"):
        return
    if address.endswith("/agentpools"):
        yield UNVERIFIED if late else _aks(properties, True)
    elif address.endswith("/managedclusters"):
        yield from _each(UNKNOWN if late else properties.get("agentPoolProfiles"), lambda pool: _aks(pool, True))


def _gke(pool: Mapping[str, Any], key: str) -> str:
    config = pool.get(key)
    if config == UNKNOWN:
        return UNVERIFIED
    config = config if isinstance(config, dict) else {}
    machine = config.get("machineType")
    evidence = [MAYBE if machine == UNKNOWN else _machine("gcp", machine) if isinstance(machine, str) else NO]
    native = key == "config"
    blocks = config.get("accelerators" if native else "guestAccelerators")
    if blocks == UNKNOWN:
        evidence.append(MAYBE)
    for block in blocks if isinstance(blocks, list) else []:
        if block == UNKNOWN:
            evidence.append(MAYBE)
        elif isinstance(block, dict):
            kind, count = (block.get(f"accelerator{one}" if native else one.lower()) for one in ("Type", "Count"))
            profile = block.get("gpuPartitionSize")
            evidence.append(_accelerator(kind, count, profile))
    return _verdict(evidence, _objects(config.get("taints"), SHOUTED))


def _accelerator(kind: Any, count: Any, profile: Any) -> str:
    if isinstance(profile, str) and profile not in ("", UNKNOWN):
        return YES
    nvidia = MAYBE if kind == UNKNOWN else YES if isinstance(kind, str) and "nvidia" in kind else NO
    if count == UNKNOWN:
        some = MAYBE
    elif isinstance(count, str):
        some = YES if count.isdigit() and int(count) > 0 else NO
    else:
        some = YES if isinstance(count, int | float) and not isinstance(count, bool) and count >= 1 else NO
    return NO if NO in (nvidia, some) else MAYBE if MAYBE in (nvidia, some) else YES
