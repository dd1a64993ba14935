"""A stack that breaks half-way and is brought back as docs/how-to/recover.md says, and what is wrong with it then."""

import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.stand_in import AGENT_POOL, ARM_RESOURCE, LAUNCH_TEMPLATE, NODE_GROUP, NODE_POOL

TAG = "aws:autoscaling/tag:Tag"
RELEASE = "kubernetes:helm.sh/v3:Release"


@dataclass(frozen=True)
class Counts:
    """What is wrong with a stack: nothing where every part is empty."""

    duplicates: tuple[str, ...]
    """What a cloud has twice for one pool."""
    orphans: tuple[str, ...]
    """What a cloud has and the state does not."""
    lost: tuple[str, ...]
    """What the state has and no cloud does."""

    def __bool__(self) -> bool:
        """Say whether something is wrong."""
        return bool(self.duplicates or self.orphans or self.lost)


@dataclass
class Breaking:
    """A stack of the engine."""

    engine: Engine
    name: str
    steps: list[str] = field(default_factory=list)
    """The commands of the recovery so far, shortened."""

    @property
    def file(self) -> Path:
        """The stack's file."""
        return self.engine.repository / "stacks" / f"Pulumi.{self.name}.yaml"

    def write(self, config: Mapping[str, Any]) -> None:
        """Write the stack's file anew, with the salt it has."""
        kept = yaml.safe_load(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        text = {"config": {f"gpupools:{key}": value for key, value in config.items()}}
        self.file.write_text(yaml.safe_dump((kept or {}) | yaml.safe_load(json.dumps(text))), encoding="utf-8")

    def run(self, *arguments: str) -> CommandResult:
        """Run `pulumi` for the stack."""
        return self.engine.run(*arguments, "--stack", self.name)

    def up(self, *arguments: str) -> CommandResult:
        """Run `pulumi up`."""
        return self.run("up", "--yes", "--skip-preview", *arguments)

    def struck(self) -> list[dict[str, Any]]:
        """Return the calls that went wrong so far."""
        return [each for each in self.engine.journal() if each["op"] == "fault"]

    # --- recovery ---

    def orphans(self, *, after_kill: bool) -> CommandResult:
        """Ask `gpupools orphans` about the state and what the clouds list.

        Args:
            after_kill: The engine was killed, so that what it was at stands in the state; otherwise a preview says
                what the next update would create.
        """
        folder = self.engine.folder / "lists"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        self.run("stack", "export", "--file", str(folder / "state.json")).succeeded()
        if not after_kill:
            shown = self.run("preview", "--json").succeeded().output
            (folder / "next.json").write_text(shown[shown.index("{") :].strip(), encoding="utf-8")
        for name, listed in self.listed():
            (folder / f"{name}.json").write_text(json.dumps(listed), encoding="utf-8")
        return self.engine.gpupools("orphans", *(str(each) for each in sorted(folder.iterdir())))

    def recover(self, *, after_kill: bool) -> list[str]:
        """Do what the page says until the next update can run; return the lines of `gpupools orphans`."""
        if after_kill:
            self.engine.settle()
            self.run("cancel", "--yes").succeeded()
        told = self.orphans(after_kill=after_kill)
        assert told.code in (0, 3), told.output
        lines = [line for line in told.output.splitlines() if line.strip()]
        for line in lines:
            command = re.search(r"pulumi (import|refresh) .*", line)
            if command is not None:
                ran = self.engine.run(*shlex.split(command[0])[1:], "--yes", "--skip-preview")
                if not ("if it is in this cluster" in line and "does not exist" in ran.output):
                    ran.succeeded()
            elif line.startswith("  delete it: "):
                self.delete(shlex.split(line.removeprefix("  delete it: ")))
        return lines

    def delete(self, words: Sequence[str]) -> None:
        """Do what a cloud's own command to delete a pool or a template would do; fail where it would find none."""
        options = dict(pairwise(words))
        ends = {
            "aws eks": "{--cluster-name}:{--nodegroup-name}",
            "aws ec2": "{--launch-template-id}",
            "az aks": "/managedClusters/{--cluster-name}/agentPools/{--name}",
            "gcloud container": "/locations/{--location}/clusters/{--cluster}/nodePools/{delete}",
        }
        end = ends[" ".join(words[:2])].format_map(options)
        (found,) = (each["id"] for each in self.engine.resources() if each["id"].endswith(end))
        self.engine.forget(found)

    def mend(self) -> str:
        """Mend what an engine that was killed while it wrote leaves in a folder; say what was mended."""
        attributes = self.state_file.with_name(f"{self.state_file.name}.attrs")
        if attributes.exists() and attributes.stat().st_size == 0:
            attributes.unlink()
            return "empty .attrs deleted"
        try:
            json.loads(self.state_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            shutil.copy(self.state_file.with_name(f"{self.state_file.name}.bak"), self.state_file)
            return ".bak copied"
        return ""

    def listed(self) -> Iterator[tuple[str, Any]]:
        """Yield what the clouds' own commands print of everything there is, whatever stack it is of."""
        for number, group in enumerate(self._there(NODE_GROUP)):
            inputs = group["inputs"]
            arn = f"arn:aws:eks:{inputs['region']}:123456789012:nodegroup/{inputs['clusterName']}/{number}"
            told = {"nodegroupName": inputs["nodeGroupName"], "nodegroupArn": arn, "clusterName": inputs["clusterName"]}
            yield f"group-{number}", {"nodegroup": told | {"tags": inputs["tags"]}}
        templates = [
            {
                "LaunchTemplateId": each["id"],
                "LaunchTemplateName": each["inputs"]["name"],
                "Tags": [{"Key": key, "Value": value} for key, value in each["inputs"]["tags"].items()],
            }
            for each in self._there(LAUNCH_TEMPLATE)
        ]
        yield "templates", {"LaunchTemplates": templates}
        pools = [
            {
                "id": each["id"],
                "nodeLabels": each["inputs"].get("nodeLabels", each["inputs"].get("properties", {}).get("nodeLabels")),
            }
            for each in self._there(AGENT_POOL, ARM_RESOURCE)
        ]
        yield "agent-pools", pools
        pools = [
            {
                "selfLink": f"https://container.googleapis.com/v1/{each['id']}",
                "config": {"labels": each["inputs"]["nodeConfig"]["labels"]},
            }
            for each in self._there(NODE_POOL)
        ]
        yield "node-pools", pools
        objects = [each for each in self.engine.resources() if each["type"].startswith("kubernetes:")]
        items = []
        for each in objects:
            _, version, kind = each["type"].split(":")
            metadata = dict(each["inputs"].get("metadata", {}))
            if each["type"] != RELEASE:
                version = version.removeprefix("core/")
                items.append({"apiVersion": version, "kind": kind, "metadata": metadata})
        yield "objects", {"apiVersion": "v1", "kind": "List", "items": items}
        releases = [each["inputs"] for each in objects if each["type"] == RELEASE]
        keys = ("name", "namespace", "chart")
        yield "releases", [{key: each.get(key) for key in keys} for each in releases]

    def _there(self, *kinds: str) -> list[dict[str, Any]]:
        return self.engine.resources(*kinds)

    # --- counting ---

    @property
    def state_file(self) -> Path:
        """Where a backend in a folder has the state."""
        (copy,) = self.engine.folder.glob(f"backend/.pulumi/stacks/*/{self.name}.json.bak")
        return copy.with_suffix("")

    def state(self) -> list[dict[str, Any]]:
        """Return the resources in the state's own file that a cloud or a cluster has."""
        deployment = json.loads(self.state_file.read_text(encoding="utf-8"))["checkpoint"]["latest"] or {}
        found: list[dict[str, Any]] = deployment.get("resources") or []
        return [each for each in found if each["custom"] and not each["type"].startswith("pulumi:")]

    def counts(self, *, settled: bool = True) -> Counts:
        """Count what is wrong, of the clouds' own file and the state's.

        Args:
            settled: An update has ended well since. Before, tags of autoscaling groups do not count, which the next
                update sets whether they are there or not.
        """
        there = [each for each in self.engine.resources() if settled or each["type"] != TAG]
        has = [each for each in self.state() if settled or each["type"] != TAG]
        in_cloud = Counter(_name(each) for each in there)
        in_state = Counter(_name(each) for each in has)
        # A replacement has both for a while, and the state still owes the old one's deletion.
        owed = {_name(each) for each in has if each.get("delete")}
        pools = Counter(_pool(each) for each in there if _name(each) not in owed)
        twice = sorted(pool for pool, number in pools.items() if pool and number > 1)
        return Counts(tuple(twice), tuple((in_cloud - in_state).elements()), tuple((in_state - in_cloud).elements()))


def _name(resource: Mapping[str, Any]) -> str:
    return f"{resource['type']} {resource['id']}"


def _pool(resource: Mapping[str, Any]) -> str:
    """Return which pool a resource is, empty for what is none."""
    inputs = resource["inputs"]
    if resource["type"] in (NODE_GROUP, LAUNCH_TEMPLATE):
        return f"{resource['type']} {inputs['tags']['gpupools:cluster']} {inputs['tags']['gpupools:pool']}"
    if resource["type"] == NODE_POOL:
        return f"{resource['type']} {inputs['cluster']} {inputs['nodeConfig']['labels']['gpupools/pool']}"
    if resource["type"] == AGENT_POOL:
        return f"{resource['type']} {inputs['resourceName']} {inputs['nodeLabels']['gpupools/pool']}"
    return ""


def clouds_of(kinds: Sequence[str]) -> list[str]:
    """Return the services whose resources these are, each once."""
    names = {"aws": "EKS", "azure-native": "AKS", "gcp": "GKE", "kubernetes": "Kubernetes"}
    return sorted({names[kind.partition(":")[0]] for kind in kinds if kind})
