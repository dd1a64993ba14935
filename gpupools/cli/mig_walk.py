"""`gpupools mig walk`: give the nodes of a pool another MIG layout, a few at a time, without ending pods by force.

The state is on the node: an annotation says that the walk cordoned it, so that a run after a crash finishes the node.
"""

import argparse
import json
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpupools.cli.help_texts import examples, whole_number
from gpupools.cli.preview import DEV_STACK
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.console.output import tell
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from gpupools.plan.node_resources import node_resources
from gpupools.plan.plugin_configs import mig_config
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.providers import clouds
from gpupools.ready import live_cluster
from gpupools.spec.models import Mig
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.stack import StackPlan

ANNOTATION = "gpupools/mig-walk"
"""On a node that the walk cordoned: the layout that it is to have."""
_INTERVAL_S = 5.0


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        f"{examples('gpupools mig walk --pool slices --to 1g.10gb stacks/Pulumi.prod.yaml')}\n"
        "Without --yes it prints the steps and changes nothing. Exit code 0: all nodes have the layout, or the steps\n"
        "are printed. 1: a node has not. 2: the cluster could not be read.\n"
    )
    parser.add_argument("file", nargs="?", type=Path, default=DEV_STACK, metavar="FILE", help=f"default: {DEV_STACK}")
    parser.add_argument("--pool", required=True, metavar="NAME")
    what = "name or key of the cluster; required if the pool is on several, or nothing proves that it is the file's"
    parser.add_argument("--cluster", metavar="NAME", help=what)
    parser.add_argument(
        "--to", required=True, metavar="LAYOUT", help="a profile, or the profiles of a GPU: 3g.40gb,4g.40gb"
    )
    parser.add_argument("--yes", action="store_true", help="do the steps")
    parser.add_argument("--timeout", type=whole_number, default=3600, metavar="S", help="per step; default: 3600")
    parser.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig with the context")
    what = "let the credential of the cloud's login go to this host, which the stack file names"
    parser.add_argument("--trust-endpoint", action="append", default=[], metavar="HOST", help=what)


def run_walk(given: argparse.Namespace) -> int:
    """Print or do the steps."""
    try:
        plan = check_stack_file(given.file, clouds()).plan
        pool = _pool(plan, given)
        _layout(pool, given.to)  # before the cluster is asked
        contexts = [given.context] if given.context else []
        where = (given.kubeconfig, given.trust_endpoint, given.file.parent)
        access = live_cluster.access_of(pool.cluster, plan.stack.clusters, clouds(), contexts, *where)
        walk = _Walk(live_cluster.ClusterApi(access), plan, pool, given.to, given.timeout)
        walk.is_named = given.cluster is not None
        walk.run(does=given.yes)
        return 0
    except _Failed as error:
        tell(error, error=True)
        return 1
    except Rejected as rejected:
        for each in locate(given.file, rejected):
            tell_located(each)
    except (live_cluster.Unreachable, PermissionError) as error:
        tell(f"{given.file}: {error}", error=True)
    return 2


def _pool(plan: StackPlan, given: argparse.Namespace) -> PoolPlan:
    named = [each for each in plan.pools if each.name == given.pool]
    names = {
        each.cluster: (None, each.cluster, getattr(plan.stack.clusters[each.cluster], "name", "")) for each in named
    }
    found = [each for each in named if given.cluster in names[each.cluster]]
    wrong = Problem(("--pool",), f"the file has no pool {given.pool!r}", nearest(given.pool, plan.stack.pools))
    if named:
        fix = f"use --cluster {' or '.join(each.cluster for each in named)}"
        what = f"the pool is not on {given.cluster!r}" if given.cluster else f"the pool is on {len(named)} clusters"
        wrong = Problem(("--cluster",), what, fix)
    if len(found) != 1:
        raise Rejected([wrong])
    return found[0]


def _layout(pool: PoolPlan, wanted: str) -> tuple[str, Mapping[str, str], JsonObject]:
    """Return the label, the resources of a node and the MIG manager's configuration of a layout with these profiles."""
    from gpupools.catalog.mig import MigError, fit

    mig = pool.sharing.mig
    if mig is None or MIG_CONFIG_LABEL not in pool.labels:
        what = "the GPU Operator's MIG manager does not cut the GPUs of this pool"
        raise Rejected([Problem(("--pool",), what, "change sharing in the stack file, and run gpupools diff")])
    names = [each.strip() for each in wanted.split(",")]
    profiles: dict[str, Any] = {"profile": names[0]} if len(names) == 1 else {"layout": names}
    sharing = Mig(mode="mig", **profiles, strategy=mig.strategy, share=mig.share)
    try:
        if len(names) > 1 and not (found := fit(pool.instance.gpu_model, names)).fits:
            raise MigError(found.why, "see gpupools mig fit")
        made = mig_config(pool.instance, sharing)
        resources = {name: str(count) for name, count in node_resources(pool.instance, sharing).items()}
    except MigError as error:
        raise Rejected([Problem(("--to",), error.what, error.cure)]) from None
    return made.name, resources, made.document["mig-configs"]


class _Failed(Exception):
    """A step did not end as it should."""


class _Walk:
    def __init__(self, api: live_cluster.ClusterApi, plan: StackPlan, pool: PoolPlan, to: str, timeout_s: int) -> None:
        self.api, self.pool, self.timeout_s = api, pool, timeout_s
        self.at_once = plan.stack.pools[pool.name].upgrade.max_unavailable or 1
        self.label, self.resources, self.config = _layout(pool, to)
        self.labelled: set[str] = set()
        self.cluster = plan.stack.clusters[pool.cluster]
        self.is_named = False

    def run(self, *, does: bool) -> None:
        nodes = self._nodes()
        self._prove(nodes, does=does)
        left = [name for name, node in nodes.items() if _annotation(node) is not None or not self._has_layout(node)]
        tell(f"{len(nodes) - len(left)} of {len(nodes)} nodes have {self.label}")
        if not left:
            return
        self._require_layout()
        others = [each for each, one in nodes.items() if one["spec"].get("unschedulable") and _annotation(one) is None]
        at_once = self.at_once - len(others)
        if at_once < 1:
            what = f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} cordoned already"
            raise _Failed(f"{what}, and max_unavailable is {self.at_once}; uncordon them first")
        # First those that an earlier run began.
        left.sort(key=lambda name: _annotation(nodes[name]) is None)
        pods = {name: self._pods(name) for name in left}
        metas = [(name, pod["metadata"]) for name in left for pod in pods[name]]
        alone = [f"{name}: {pod['namespace']}/{pod['name']}" for name, pod in metas if not pod.get("ownerReferences")]
        if alone:
            raise _Failed(f"{', '.join(alone)} has no controller and would not come back; delete it, or let it end")
        for start in range(0, len(left) if does else 0, at_once):
            self._walk(left[start : start + at_once])
        offers = ", ".join(f"{count} {resource}" for resource, count in self.resources.items())
        for name in () if does else left:
            count = f"{len(pods[name])} pod{'' if len(pods[name]) == 1 else 's'}"
            label = f"{MIG_CONFIG_LABEL}={self.label}"
            tell(f"would cordon {name}, evict {count}, set {label}, wait for {offers}, and uncordon it")

    def _prove(self, nodes: Mapping[str, JsonObject], *, does: bool) -> None:
        """Raise `Unreachable` unless the nodes are of the file's cluster; what is not known, the caller has to name."""
        cloud = clouds()[self.cluster.cloud]
        proof = live_cluster.proof_of(self.api, self.cluster, cloud, list(nodes.values()))
        if proof.other:
            raise live_cluster.Unreachable(f"this is not the cluster of the file: {proof.other}; use its context")
        if proof.unproven and not self.is_named:
            what = f"nothing proves that this is cluster {self.pool.cluster} of the file: {proof.unproven}"
            if does:
                raise live_cluster.Unreachable(f"{what}; add --cluster {self.pool.cluster} if it is")
            tell(what, error=True)

    def _walk(self, names: list[str]) -> None:
        self._prove({name: self._node(name) for name in names}, does=True)
        for name in names:  # first all, so that no pod moves from one to another
            tell(f"{name}: cordon and drain")
            self._patch(name, {"annotations": {ANNOTATION: self.label}}, unschedulable=True)
        before, end = dict[str, str](), 0.0
        while waits := {name: why for name in names if (why := self._step(name))}:
            if waits != before:
                before, end = waits, time.monotonic() + self.timeout_s
            elif time.monotonic() > end:
                name, why = next(iter(waits.items()))
                raise _Failed(f"{name}: {why} in {self.timeout_s} s; run the command again to go on")
            names = list(waits)
            time.sleep(_INTERVAL_S)

    def _step(self, name: str) -> str:
        """Do the next steps of a node; return what it waits for, empty when it is done."""
        node = self._node(name)
        if pods := self._pods(name):
            for pod in pods:
                meta = {key: pod["metadata"][key] for key in ("name", "namespace")}
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
                try:
                    self.api.request(path, method="POST", body=body)
                except live_cluster.Unreachable as error:  # a disruption budget may refuse for now
                    if not error.may_pass:
                        raise
            return "its pods did not end"
        labels = node["metadata"].get("labels", {})
        is_set, state = labels.get(MIG_CONFIG_LABEL) == self.label, labels.get(MIG_STATE_LABEL)
        if name not in self.labelled and not (is_set and state in ("pending", "rebooting", "success")):
            tell(f"{name}: set {MIG_CONFIG_LABEL}={self.label}")
            # The MIG manager acts when the label changes, so a node that failed with this layout gets none between:
            # https://github.com/NVIDIA/mig-parted/blob/main/cmd/nvidia-mig-manager/main.go
            if is_set:
                self._patch(name, {"labels": {MIG_CONFIG_LABEL: None}})
            self._patch(name, {"labels": {MIG_CONFIG_LABEL: self.label, MIG_STATE_LABEL: "pending"}})
        elif state == "failed":
            what = f"{name}: the MIG manager failed, and the node stays cordoned"
            raise _Failed(f"{what}; see kubectl logs -n {self._config()[0]} -l app=nvidia-mig-manager")
        elif self._has_layout(node):
            self._patch(name, {"annotations": {ANNOTATION: None}}, unschedulable=None)
            tell(f"{name}: has {self.label}")
            return ""
        self.labelled.add(name)
        return "the layout did not come"

    def _has_layout(self, node: JsonObject) -> bool:
        labels, found = node["metadata"].get("labels", {}), node["status"].get("allocatable", {})
        is_set = (labels.get(MIG_CONFIG_LABEL), labels.get(MIG_STATE_LABEL)) == (self.label, "success")
        return is_set and all(found.get(name) == count for name, count in self.resources.items())

    def _nodes(self) -> dict[str, JsonDict]:
        found = self.api.items("/api/v1/nodes", "", labelSelector=f"{POOL_LABEL}={self.pool.name}")
        return {name: self._node(name) for name in sorted(each["metadata"]["name"] for each in found)}

    def _node(self, name: str) -> JsonDict:
        found = self.api.request(f"/api/v1/nodes/{name}")
        if found is None:
            raise _Failed(f"{name}: the node is gone; run the command again")
        return dict(found)

    def _pods(self, name: str) -> list[JsonDict]:
        """Return the pods of a node that a drain moves."""
        return [
            pod
            for pod in self.api.items("/api/v1/pods", "", fieldSelector=f"spec.nodeName={name}")
            if not {"DaemonSet", "Node"} & {each["kind"] for each in pod["metadata"].get("ownerReferences", ())}
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def _patch(self, name: str, metadata: JsonObject, **spec: bool | None) -> None:
        body = {"metadata": metadata, **({"spec": spec} if spec else {})}
        self.api.request(f"/api/v1/nodes/{name}", method="PATCH", body=body)

    def _config(self) -> tuple[str, str]:
        """Return namespace and name of the MIG manager's ConfigMap."""
        policy = next(iter(self.api.items("/apis/nvidia.com/v1/clusterpolicies", "")), {})
        name = policy.get("spec", {}).get("migManager", {}).get("config", {}).get("name") or ""
        return policy.get("status", {}).get("namespace") or "gpu-operator", name

    def _require_layout(self) -> None:
        """Say what to do where the MIG manager does not know the layout."""
        space, name = self._config()
        if not name:
            what = "the cluster has no ClusterPolicy that names the MIG manager's layouts"
            raise _Failed(f"{what}; run gpupools ready")
        found = self.api.request(f"/api/v1/namespaces/{space}/configmaps/{name}") or {}
        known = (yaml.safe_load(found.get("data", {}).get("config.yaml", "")) or {}).get("mig-configs", {})
        if self.label not in known:
            merged = {"version": "v1", "mig-configs": {**known, **self.config}}
            patch = json.dumps({"data": {"config.yaml": yaml.safe_dump(merged, sort_keys=False)}})
            what = f"the MIG manager does not know {self.label}; wait a minute after this, and run the walk again"
            command = f"kubectl -n {space} patch configmap {name} --type merge --patch {shlex.quote(patch)}"
            raise _Failed(f"{what}: {command}")


def _annotation(node: JsonObject) -> str | None:
    found: str | None = node["metadata"].get("annotations", {}).get(ANNOTATION)
    return found
