"""Reads the groups of nodes of eksctl's ClusterConfig. Pure.

Source, as repository and path: eksctl-io/eksctl pkg/apis/eksctl.io/v1alpha5/types.go (99984adb6) and
https://docs.aws.amazon.com/eks/latest/eksctl/.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, PoolFacts
from gpupools.providers.aws.user_data import part_format, read_user_data
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    accelerator_by_name,
    at,
    flag,
    group_facts,
    items,
    number,
    string_map,
    text,
)
from gpupools.readback.registry import Clouds

_MACHINES = ("instanceType", "instanceTypes", "instancesDistribution.instanceTypes")


def read_cluster_config(given: JsonObject, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read eksctl's groups: it adds no taint of its own, and m5.large where no type is named (`DefaultNodeType`)."""
    late: list[str] = []
    for key in ("managedNodeGroups", "nodeGroups"):
        for path, one in items(given.get(key), key, late):
            machines = Machines()
            for machine in _MACHINES:
                named, where = at(one, machine), f"{path}.{machine}"
                listed = [(where, named)] if isinstance(named, str) else items(named, where, machines.unknown)
                for where, name in listed:
                    if text(name):
                        machines.add(name, accelerator_by_name(name, "aws", clouds), where)
            selector = at(one, "instanceSelector")
            gpus = at(selector, "gpus")
            if (number(gpus) or 0) > 0:
                machines.show(Accelerator("nvidia", None), f"{path}.instanceSelector.gpus {number(gpus)}")
            elif selector is UNKNOWN or (isinstance(selector, Mapping) and number(gpus) != 0):
                machines.unknown.append(f"{path}.instanceSelector.gpus")  # 0 selects machines without GPUs
            template = at(one, "launchTemplate")
            if template is not None and not machines.names:
                machines.unknown.append(f"{path}.launchTemplate")
            read = TaintsRead()
            taints = at(one, "taints")
            if isinstance(taints, Mapping):  # the older form, key to `value:Effect`
                for name, rest in taints.items():
                    if rest is UNKNOWN:
                        read.unknown.append(f"{path}.taints.{name}")
                    else:
                        read.line(f"{name}={rest}" if isinstance(rest, str) else rest, f"{path}.taints.{name}")
            else:
                read.objects(taints, f"{path}.taints", KUBERNETES_EFFECTS)
            command = text(at(one, "overrideBootstrapCommand"))
            # In place of eksctl's own: https://docs.aws.amazon.com/eks/latest/eksctl/custom-ami-support.html.
            # A NodeConfig comes after eksctl's and replaces its taints (eksctl-io/eksctl pkg/nodebootstrap/al2023.go).
            is_merged = part_format("", command) == "NodeConfig"
            is_whole = is_merged or command.startswith("#!")
            said = read_user_data(
                command if is_whole else f"#!/bin/bash\n{command}", f"{path}.overrideBootstrapCommand"
            )
            if is_merged:
                keeps = key == "managedNodeGroups" or "taint" not in command.casefold()  # EKS sets those of its groups
                read.taints = [*(read.taints if keeps else ()), *said.taints]
                read.unknown += said.unknown
            elif command.strip():
                read = TaintsRead(list(said.taints), list(said.unknown))
                read.note(f"{path}.overrideBootstrapCommand: replaces the command that sets the group's taints")
            hardening = Hardening("https://docs.aws.amazon.com/eks/latest/eksctl/security.html")
            ssh = flag(at(one, "ssh.allow"))
            hardening.want("remote-access", f"{path}.ssh.allow", ssh, ssh is not True, "false", "nodes need no SSH")
            least, most = (number(at(one, bound)) for bound in ("minSize", "maxSize"))
            fixed = number(at(one, "desiredCapacity"))
            yield replace(
                group_facts("aws", machines, read, f"{path}.taints"),
                min_nodes=fixed if least is None else least,
                max_nodes=fixed if most is None else most,
                labels=string_map(at(one, "labels")),
                tags=string_map(at(one, "tags")),
                pool=text(at(one, "name")),
                weaknesses=tuple(hardening.found),
                has_unevaluated_script=said.unevaluated,
            )
    for path in late:
        yield PoolFacts("aws", (), None, (), unknown=(path,), where=path)
