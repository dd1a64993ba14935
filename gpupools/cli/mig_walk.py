"""`gpupools mig walk`: give the nodes of a pool another MIG layout, a few at a time, without ending pods by force.

The state is on the node: an annotation says which run cordoned it. A later run writes its own and finishes the node, so
that one run at a time holds a node.
"""

import argparse
import json
import secrets
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpupools.cli.help_texts import examples, located_in, whole_number
from gpupools.cli.preview import DEV_STACK
from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Problem, Rejected, amount_of, nearest
from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.console.output import tell
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from gpupools.plan.node_resources import node_resources
from gpupools.plan.plugin_configs import mig_config, mig_configs
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.providers import clouds
from gpupools.readback.inputs import at, text
from gpupools.ready import live_cluster
from gpupools.ready.same_cluster import other_group, prove
from gpupools.ready.snapshot import full_name, has_ended, is_leaving, is_ready
from gpupools.spec.models import Mig
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.parsing import parse
from gpupools.stackfile.stack import StackPlan

ANNOTATION = "gpupools/mig-walk"
"""On a node that a walk cordoned: the layout that it is to have, and a word of the run that holds the node."""
_INTERVAL_S = 5.0
_PATIENCE_S = 300
"""How long an API server that does not answer is asked again, such as while it is restarted, once a node is begun."""

Given = argparse.Namespace


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
    for flag, (pods, _) in _LOSSES.items():
        parser.add_argument(flag, action="store_true", help=f"evict {pods} too")
    parser.add_argument("--timeout", type=whole_number, default=3600, metavar="S", help="per step; default: 3600")
    parser.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig with the context")
    what = "let the credential of the cloud's login go to this host, which the stack file names"
    parser.add_argument("--trust-endpoint", action="append", default=[], metavar="HOST", help=what)


def run_walk(given: Given) -> int:
    """Print or do the steps."""
    with located_in(given.file, "failed"):
        plan = check_stack_file(given.file, clouds()).plan
        pool = _pool(plan, given)
        wrong = list(live_cluster.unknown_hosts(given.trust_endpoint, plan.stack.clusters))
        if given.kubeconfig and not given.context:
            wrong.append(Problem(("--kubeconfig",), "is read only with --context", "add --context"))
        if wrong:
            raise Rejected(wrong)
        _layout(plan, pool, given.to)  # before the cluster is asked
    try:
        contexts = [f"{pool.cluster}={given.context.removeprefix(f'{pool.cluster}=')}"] if given.context else []
        where = (given.kubeconfig, given.trust_endpoint, given.file.parent)
        access = live_cluster.access_of(pool.cluster, plan.stack.clusters, clouds(), contexts, *where)
        _Walk(access, plan, pool, given).run()
        return 0
    except _Failed as error:
        tell(error, error=True)
        return 1
    except (live_cluster.Unreachable, PermissionError) as error:
        tell(f"{given.file}: {error}", error=True)
        return 2


def _pool(plan: StackPlan, given: Given) -> PoolPlan:
    named = {pool.cluster: pool for pool in plan.pools if pool.name == given.pool}
    if not named:
        fix = nearest(given.pool, plan.stack.pools)
        raise Rejected([Problem(("--pool",), f"the file has no pool {given.pool!r}", fix)])
    names = {key: (None, key, getattr(plan.stack.clusters[key], "name", "")) for key in named}
    pools = [pool for key, pool in named.items() if given.cluster in names[key]]
    if len(pools) != 1:
        what = f"the pool is not on {given.cluster!r}" if given.cluster else f"the pool is on {len(named)} clusters"
        raise Rejected([Problem(("--cluster",), what, f"use --cluster {' or '.join(named)}")])
    return pools[0]


def _layout(plan: StackPlan, pool: PoolPlan, wanted: str) -> tuple[str, Mapping[str, str], JsonDict]:
    """Return the label and resources of a node with these profiles, and the layouts of the cluster's MIG manager."""
    from gpupools.catalog.mig import MigError
    from gpupools.catalog.mig_fit import fit

    mig = pool.sharing.mig
    if mig is None or MIG_CONFIG_LABEL not in pool.labels:
        what = "the GPU Operator's MIG manager does not cut the GPUs of this pool"
        raise Rejected([Problem(("--pool",), what, "change sharing in the stack file, and run gpupools diff")])
    names = [part.strip() for part in wanted.split(",")]
    profiles: dict[str, Any] = {"profile": names[0]} if len(names) == 1 else {"layout": names}
    sharing = parse(Mig, ("--to",), {"mode": "mig", **profiles, "strategy": mig.strategy, "share": mig.share})
    try:
        if len(names) > 1 and not (found := fit(pool.instance.gpu_model, names)).fits:
            raise MigError(found.why, "see gpupools mig fit")
        made = mig_config(pool.instance, sharing)
        resources = {name: str(count) for name, count in node_resources(pool.instance, sharing).items()}
    except MigError as error:
        raise Rejected([Problem(("--to",), error.what, error.cure)]) from None
    here = (each for each in plan.pools if each.cluster == pool.cluster and MIG_CONFIG_LABEL in each.labels)
    cut = [mig_config(each.instance, each.sharing.mig) for each in here if each.sharing.mig is not None]
    return made.name, resources, mig_configs([*cut, made])


class _Failed(Exception):
    """A step did not end as it should."""


_LOSSES = {
    "--force": ("pods without a controller", "has no controller and would not come back"),
    "--delete-emptydir-data": ("pods with an emptyDir or ephemeral volume", "would lose the data of its volumes"),
    "--evict-jobs": ("pods of Jobs and other controllers that work towards an end", "would lose the work it has done"),
}
"""By flag, the pods that it allows to evict and what they lose. The first two names and what they mean are of kubectl
drain, which evicts pods of Jobs without a word: https://github.com/kubernetes/kubectl/blob/master/pkg/drain/filters.go"""
_LOST_VOLUMES = {"emptyDir", "ephemeral"}
"""They end with the pod: https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/."""
_STAYING = ("DaemonSet", "Node", "ClusterPolicy")
"""Controllers of pods that a drain leaves: a node controls its static pods, and a ClusterPolicy the validators that the
GPU Operator runs after each cut (https://github.com/NVIDIA/gpu-operator/blob/main/cmd/nvidia-validator/main.go)."""
_REPLACED = ("ReplicaSet", "ReplicationController", "StatefulSet")
"""Controllers whose pods serve, and do not work towards an end."""
_CUTTING = ("pending", "rebooting")
"""States of a node that the MIG manager has not finished."""
_CONFLICT = 409
_MOST_NAMED = 5
"""Pods that one sentence names."""
_FAILURES = (_Failed, PermissionError, live_cluster.Unreachable)


@dataclass
class _State:
    """How far this run is with a node."""

    uid: str
    """Of the node that is proven to be of the file's cluster: no other is changed."""
    is_begun: bool = False
    is_labelled: bool = False
    waits_for: str = ""
    until: float = 0
    stays: list[str] = field(default_factory=list)
    """Why pods stay on the node."""
    told: list[str] = field(default_factory=list)


class _Walk:
    def __init__(self, access: live_cluster.Access, plan: StackPlan, pool: PoolPlan, given: Given) -> None:
        self.api, self.pool, self.given = live_cluster.ClusterApi(access), pool, given
        self.cluster = plan.stack.clusters[pool.cluster]
        self.at_once = plan.stack.pools[pool.name].upgrade.max_unavailable or 1
        self.label, self.resources, self.config = _layout(plan, pool, given.to)
        self.held = f"{self.label} {secrets.token_hex(4)}"
        file = ["--kubeconfig", str(access.kubeconfig.expanduser())] if isinstance(access.kubeconfig, Path) else []
        context = "NAME" if isinstance(access.kubeconfig, dict) else access.context  # that one is in no file
        self.flags = [*(["--context", context] if context else ()), *file]
        asked = ["--context", f"{pool.cluster}={context}", *file] if given.context else []
        asked += [f"--trust-endpoint={host}" for host in given.trust_endpoint]
        self.ready = shlex.join(["gpupools", "ready", "--pool", pool.name, *asked, str(given.file)])
        self.refused = [flag for flag in _LOSSES if not vars(given)[flag[2:].replace("-", "_")]]
        self.api.patience_s = live_cluster.RETRY_S if given.yes else 0

    def run(self) -> None:
        walked: set[str] = set()
        steps = f"set {MIG_CONFIG_LABEL}={self.label}, wait for {_amounts(self.resources)}"
        while left := self._left(walked):
            batch = list(left)[: self.now_at_once]
            pods = {name: self._pods(name) for name in (batch if walked else left)}
            for name in () if self.given.yes else left:
                tell(f"would cordon {name}, evict {amount_of(len(pods[name]), 'pod')}, {steps}, and uncordon it")
            losses = [loss for name, here in pods.items() for loss in self._losses(name, here)]
            for loss in losses:
                tell(loss, error=True)
            if losses:
                raise _Failed(f"nothing is done to {', '.join(left)}: let these pods end, or add the flags")
            if not self.given.yes:
                return
            self._walk({name: _State(left[name]) for name in batch})
            walked.update(left[name] for name in batch)

    def _left(self, walked: set[str]) -> dict[str, str]:
        """Return names and uids of the nodes without the layout; first those that an earlier run began."""
        found = self.api.items("/api/v1/nodes", "", labelSelector=f"{POOL_LABEL}={self.pool.name}")
        nodes = dict(sorted((item["metadata"]["name"], item) for item in found))
        self._prove(nodes, does=self.given.yes)
        begun = {name: layout for name, node in nodes.items() if (layout := _held(node).partition(" ")[0])}
        if others := [name for name, layout in begun.items() if layout != self.label]:
            what = f"another walk gives {', '.join(others)} the layout {begun[others[0]]}"
            raise _Failed(f"{what}: let it end, or run it again; if none runs, {self._undo(*others)}")
        free = {name: node for name, node in nodes.items() if name not in begun}
        left = [*begun, *(name for name, node in free.items() if self._offers(node) != self.resources)]
        tell(f"{len(nodes) - len(left)} of {len(nodes)} nodes have {self.label}")
        hindered = {name: why for name, node in free.items() if (why := self._hindrance(node))}
        if again := [name for name in left if nodes[name]["metadata"].get("uid") in walked and name not in hindered]:
            what = f"{', '.join(again)} lost the layout again: something else sets {MIG_CONFIG_LABEL}"
            raise _Failed(f"{what}, such as pulumi up with the old stack file")
        if left and not walked:
            self._require_layout()
            if (old := self.pool.labels[MIG_CONFIG_LABEL]) != self.label:
                what = f"{self.given.file}: pools.{self.pool.name} still has {old}, and nodes that join get it"
                tell(f"{what}; change it there after the walk, and run no pulumi up before")
        self.now_at_once = self.at_once - len(hindered)
        if left and (self.now_at_once < 1 or set(left) <= hindered.keys()):
            what = "; ".join(f"{name} {why}" for name, why in hindered.items())
            raise _Failed(
                f"{what}; max_unavailable is {self.at_once}: uncordon or repair them, or wait until they are gone"
            )
        for name in (each for each in left if each in hindered):
            tell(f"{name} {hindered[name]}: nothing is done to it", error=True)
        return {name: nodes[name]["metadata"].get("uid", "") for name in left if name not in hindered}

    def _losses(self, name: str, pods: Iterable[JsonObject]) -> Iterator[str]:
        """Yield what the pods of a node would lose and no flag allows."""
        for pod in (item for item in pods if not item["metadata"].get("deletionTimestamp")):
            owner = _controller(pod)
            kind = owner.get("kind")
            loses_data = any(_LOST_VOLUMES & volume.keys() for volume in pod["spec"].get("volumes") or ())
            is_lost = {"--force": not owner, "--delete-emptydir-data": loses_data}
            is_lost["--evict-jobs"] = kind is not None and kind not in _REPLACED
            for flag in (option for option in self.refused if is_lost[option]):
                by = f" of {kind} {owner.get('name')}" if owner else ""
                yield f"{name}: {full_name(pod)}{by} {_LOSSES[flag][1]} ({flag} allows it)"

    def _prove(self, nodes: Mapping[str, JsonObject], *, does: bool) -> None:
        """Raise `Unreachable` unless the nodes are of the file's cluster; what is not known, the caller has to name."""
        proof = prove(self.cluster, clouds()[self.cluster.cloud], list(nodes.values()), self.api.where)
        if proof.other:
            raise live_cluster.Unreachable(f"this is not the cluster of the file: {proof.other}; use its context")
        if others := [f"{name}: {why}" for name, node in nodes.items() if (why := other_group(self.pool, node))]:
            raise live_cluster.Unreachable(f"{'; '.join(others)}; use the context of the file's cluster")
        if proof.unproven and self.given.cluster is None:
            what = f"nothing proves that this is cluster {self.pool.cluster} of the file: {proof.unproven}"
            if does:
                raise live_cluster.Unreachable(f"{what}; add --cluster {self.pool.cluster} if it is")
            tell(what, error=True)

    def _walk(self, pending: dict[str, _State]) -> None:
        failed = list[str]()
        try:
            while pending:
                for name, state in list(pending.items()):
                    try:
                        if not self._is_done(name, state):
                            continue
                    except _FAILURES as error:
                        failed.append(f"{name}: {error}; {self._let_go(name, state)}")
                    del pending[name]
                time.sleep(_INTERVAL_S if pending else 0)
        except BaseException:
            tell(f"{', '.join(pending)} may stay cordoned: run the command again or {self._undo(*pending)}", error=True)
            raise
        if failed:
            raise _Failed("; ".join(failed))

    def _is_done(self, name: str, state: _State) -> bool:
        """Do the next step of a node; raise `_Failed` where one takes too long."""
        try:
            why = self._step(name, state)
        except live_cluster.Unreachable as error:
            if error.status != _CONFLICT:
                raise
            why = state.waits_for or "other programs change it all the time"
        if why != state.waits_for:
            state.waits_for, state.until = why, time.monotonic() + self.given.timeout
        elif why and time.monotonic() > state.until:
            more = len(state.stays) - _MOST_NAMED
            rest = [f"{more} more"] if more > 0 else []
            raise _Failed("; ".join([f"{why} in {self.given.timeout} s", *state.stays[:_MOST_NAMED], *rest]))
        return not why

    def _let_go(self, name: str, state: _State, tries: int = 5) -> str:
        """Uncordon a node whose step failed, if this run holds it; return what became of it."""
        again = f"run the command again or {self._undo(name)}"
        try:
            node = self.api.request(f"/api/v1/nodes/{name}")
            held = _held(node) if node else ""
            if held != self.held:
                return "nothing more is done to it" + (f"; if it stays cordoned, {again}" if held else "")
            labels = node["metadata"].get("labels", {})
            found = f"{MIG_CONFIG_LABEL}={labels.get(MIG_CONFIG_LABEL, '')} in state {labels.get(MIG_STATE_LABEL)}"
            if state.is_labelled and labels.get(MIG_STATE_LABEL) in _CUTTING:
                return f"it stays cordoned with {found}, as the MIG manager may cut or restart it yet: {again}"
            self._patch(node, {"annotations": {ANNOTATION: None}}, unschedulable=None)
        except _FAILURES as error:
            if tries and getattr(error, "status", 0) == _CONFLICT:
                time.sleep(live_cluster.PAUSE_S)
                return self._let_go(name, state, tries - 1)
            return f"it may stay cordoned ({error}): {again}"
        keeps = f" with {found}, and pods get only what it offers" if state.is_labelled else ""
        return f"it is uncordoned{keeps}; run the command again to go on"

    def _step(self, name: str, state: _State) -> str:
        """Do the next steps of a node; return what it waits for, empty when it is done."""
        node = self.api.request(f"/api/v1/nodes/{name}")
        if node is None or node["metadata"].get("uid") != state.uid:
            tell(f"{name}: the node is gone" + (", and another one has its name" if node else ""))
            return ""
        self._prove({name: node}, does=True)
        self.api.patience_s = min(self.given.timeout, _PATIENCE_S)
        labels = node["metadata"].get("labels", {})
        is_set, cut = labels.get(MIG_CONFIG_LABEL) == self.label, labels.get(MIG_STATE_LABEL)
        held = _held(node)
        if held in ("", self.held) and self._offers(node) == self.resources:
            if held:
                self._patch(node, {"annotations": {ANNOTATION: None}}, unschedulable=None)
            tell(f"{name}: has {self.label}")
            return ""
        if held != self.held:
            if state.is_begun or held.partition(" ")[0] not in ("", self.label):
                raise _Failed(f"another run has it: {ANNOTATION} is {held}" if held else "something else uncordoned it")
            if not held and (why := self._hindrance(node)):
                raise _Failed(f"it {why}")
            tell(f"{name}: cordon and drain; if the command is ended here, run it again or {self._undo(name)}")
            self._patch(node, {"annotations": {ANNOTATION: self.held}}, unschedulable=True)
            state.is_begun = True
            return "it is not cordoned"  # first all, so that no pod moves from one to another
        state.is_begun, state.stays = True, []
        if state.is_labelled and not is_set:
            what = f"{MIG_CONFIG_LABEL} is {labels.get(MIG_CONFIG_LABEL, 'gone')} again: something else sets it"
            raise _Failed(f"{what}, such as pulumi up with the old stack file")
        if pods := self._pods(name):
            if losses := list(self._losses(name, pods)):
                raise _Failed("; ".join(loss.removeprefix(f"{name}: ") for loss in losses))
            self._evict(name, state, pods)
            state.stays += [_ending(pod, node) for pod in pods if pod["metadata"].get("deletionTimestamp")]
            return "its pods did not end"
        if not state.is_labelled and not (is_set and cut in (*_CUTTING, "success")):
            tell(f"{name}: set {MIG_CONFIG_LABEL}={self.label}")
            # The MIG manager acts when the label changes, so a node that failed with this layout gets none between:
            # https://github.com/NVIDIA/mig-parted/blob/main/cmd/nvidia-mig-manager/main.go
            if is_set:
                node = self._patch(node, {"labels": {MIG_CONFIG_LABEL: None}})
            self._patch(node, {"labels": {MIG_CONFIG_LABEL: self.label, MIG_STATE_LABEL: "pending"}})
        elif cut == "failed":
            logs = self._kubectl("logs", "-n", self._config()[0], "-l", "app=nvidia-mig-manager")
            raise _Failed(f"the MIG manager failed: see {logs}")
        state.is_labelled = True
        return "the layout did not come"

    def _evict(self, name: str, state: _State, pods: Iterable[JsonObject]) -> None:
        """Ask to evict the pods that do not end yet; keep what the API refuses."""
        for pod in (item for item in pods if not item["metadata"].get("deletionTimestamp")):
            meta = {key: pod["metadata"][key] for key in ("name", "namespace")}
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
            # A StatefulSet may have another pod of this name on another node by now.
            options = {"preconditions": {"uid": pod["metadata"]["uid"]}}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": options}
            try:
                self.api.request(path, method="POST", body=body)
            except live_cluster.Unreachable as error:
                if not error.may_pass and error.status != _CONFLICT:
                    raise
                # A disruption budget, which the answer names, may refuse for now; 409 says that this pod is gone.
                state.stays.append(f"{full_name(pod)} stays: {error}")
        for reason in state.stays:
            if reason not in state.told:
                tell(f"{name}: {reason}", error=True)
        state.told = list(state.stays)

    def _offers(self, node: JsonObject) -> Mapping[str, str]:
        """Return what a node offers that has the layout by its labels; empty for another."""
        labels, found = node["metadata"].get("labels", {}), node["status"].get("allocatable", {})
        is_set = (labels.get(MIG_CONFIG_LABEL), labels.get(MIG_STATE_LABEL)) == (self.label, "success")
        return {name: found.get(name, "0") for name in self.resources} if is_set else {}

    def _hindrance(self, node: JsonObject) -> str:
        """Return why a node that no walk began is not begun and counts as unavailable, as it does for the GPU Operator.

        https://github.com/NVIDIA/k8s-operator-libs/blob/main/pkg/upgrade/upgrade_state.go, GetCurrentUnavailableNodes
        """
        if is_leaving(node):
            return "is being removed"
        if node["spec"].get("unschedulable"):
            return "is cordoned already"
        if not is_ready(node):
            return "is not ready"
        # To cut it again would end pods and mend neither a GPU nor the device plugin.
        offers = self._offers(node)
        is_short = offers and offers != self.resources
        return f"has {self.label} but offers {_amounts(offers)} (see {self.ready})" if is_short else ""

    def _pods(self, name: str) -> list[JsonDict]:
        """Return the pods of a node that a drain moves."""
        found = self.api.items("/api/v1/pods", "", fieldSelector=f"spec.nodeName={name}")
        return [pod for pod in found if _controller(pod).get("kind") not in _STAYING and not has_ended(pod)]

    def _patch(self, node: JsonObject, metadata: JsonObject, **spec: bool | None) -> JsonDict:
        """Change a node as it was read: the API answers 409 to another uid, or if it was changed meanwhile."""
        sys.stdout.flush()  # that a node may stay cordoned is said before, even if the process is killed
        meta = node["metadata"]
        read = {key: meta[key] for key in ("uid", "resourceVersion") if key in meta}
        body = {"metadata": {**metadata, **read}, **({"spec": spec} if spec else {})}
        changed: JsonDict = self.api.request(f"/api/v1/nodes/{meta['name']}", method="PATCH", body=body)
        return changed

    def _kubectl(self, *words: str) -> str:
        """Return a command of kubectl for the cluster of this run."""
        return shlex.join(["kubectl", *words, *self.flags])

    def _undo(self, *names: str) -> str:
        uncordon = self._kubectl("uncordon", *names)
        return f"{uncordon} && {self._kubectl('annotate', 'node', *names, f'{ANNOTATION}-')}"

    def _config(self) -> tuple[str, str]:
        """Return namespace and name of the MIG manager's ConfigMap."""
        policy = next(self.api.items("/apis/nvidia.com/v1/clusterpolicies", ""), {})
        return text(at(policy, "status.namespace")) or "gpu-operator", text(at(policy, "spec.migManager.config.name"))

    def _require_layout(self) -> None:
        """Say what to do where the MIG manager does not know the layout."""
        space, name = self._config()
        if not name:
            raise _Failed(f"the cluster has no ClusterPolicy that names the MIG manager's layouts; run {self.ready}")
        found = self.api.request(f"/api/v1/namespaces/{space}/configmaps/{name}")
        try:
            documents = parse_yaml(mapping(at(found, "data")).get("config.yaml", ""))
        except Rejected as rejected:
            raise _Failed(f"config.yaml of ConfigMap {name}: {rejected}") from None
        known = mapping(at(documents[0].data, "mig-configs")) if documents else {}
        if self.label not in known:
            config = {**self.config, "mig-configs": {**self.config["mig-configs"], **known}}
            if found is None:
                words = ["create", "configmap", name, f"--from-literal=config.yaml={json.dumps(config)}"]
            else:
                patch = json.dumps({"data": {"config.yaml": yaml.safe_dump(config, sort_keys=False)}})
                words = ["patch", "configmap", name, "--type", "merge", "--patch", patch]
            what = f"the MIG manager does not know {self.label}; wait a minute after this, and run the walk again"
            raise _Failed(f"{what}: {self._kubectl('-n', space, *words)}")


def _controller(pod: JsonObject) -> JsonObject:
    """Return the reference to the controller of a pod; empty for none."""
    owners: Sequence[JsonObject] = pod["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def _held(node: JsonObject) -> str:
    """Return the annotation of a node that a walk has cordoned; empty for another."""
    return (at(node, f"metadata.annotations.{ANNOTATION}") or "") if node["spec"].get("unschedulable") else ""


def _ending(pod: JsonObject, node: JsonObject) -> str:
    meta = pod["metadata"]
    if finalizers := meta.get("finalizers"):
        why = f"finalizers {', '.join(finalizers)}"
    elif not is_ready(node):
        why = "its node is not ready, and the kubelet ends no pod"
    else:
        why = f"it has {meta.get('deletionGracePeriodSeconds', 0)} s, until {meta['deletionTimestamp']}"
    return f"{full_name(pod)} is ending: {why}"


def _amounts(resources: Mapping[str, str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in resources.items())
