"""Reads the groups of nodes of eksctl's ClusterConfig. Pure.

Source, as repository and path: eksctl-io/eksctl pkg/apis/eksctl.io/v1alpha5/types.go (99984adb6) and
https://docs.aws.amazon.com/eks/latest/eksctl/.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpupools.audit.node_groups import NodeGroup, group_facts, read_group
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, PoolFacts
from gpupools.providers.aws.user_data import read_user_data
from gpupools.readback.inputs import Hardening, TaintsRead, at, flag, items, number, text
from gpupools.readback.registry import Clouds

_EKSCTL = NodeGroup(
    "aws",
    ("instanceType", "instanceTypes", "instancesDistribution.instanceTypes"),
    "labels",
    ("minSize", "maxSize"),
    "desiredCapacity",
    "tags",
)


def read_cluster_config(given: JsonObject, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read eksctl's groups: it adds no taint of its own, and m5.large where no type is named (`DefaultNodeType`)."""
    late: list[str] = []
    for key in ("managedNodeGroups", "nodeGroups"):
        for path, one in items(given.get(key), key, late):
            facts, machines = read_group(_EKSCTL, one, path, clouds)
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
            said = read_user_data(command if command.startswith("#!") else f"#!/bin/bash\n{command}", path)
            if command.strip():
                read = TaintsRead(list(said.taints), list(said.unknown))
                read.note(f"{path}.overrideBootstrapCommand: replaces the command that sets the group's taints")
            hardening = Hardening("https://docs.aws.amazon.com/eks/latest/eksctl/security.html")
            ssh = flag(at(one, "ssh.allow"))
            hardening.want("remote-access", f"{path}.ssh.allow", ssh, ssh is not True, "false", "nodes need no SSH")
            found = group_facts(facts, machines, read, f"{path}.taints")
            yield replace(
                found,
                pool=text(at(one, "name")),
                weaknesses=tuple(hardening.found),
                has_unevaluated_script=said.unevaluated,
            )
    for path in late:
        yield PoolFacts("aws", (), None, (), unknown=(path,), where=path)
