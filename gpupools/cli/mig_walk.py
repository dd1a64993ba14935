"""`gpupools mig walk`: give the nodes of a pool another MIG layout, a few at a time, without ending pods by force.

The state is on the node: an annotation says that the walk cordoned it, so that a run after a crash finishes the node.
"""

import argparse
import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from gpupools.cli.help_texts import examples, whole_number
from gpupools.cli.preview import DEV_STACK
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.console.output import tell
from gpupools.plan.node_labels import MIG_CONFIG_LABEL
from gpupools.plan.node_resources import node_resources
from gpupools.plan.plugin_configs import mig_config
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.providers import clouds
from gpupools.spec.models import Mig
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import FileRejected
from gpupools.stackfile.stack import StackPlan

if TYPE_CHECKING:
    from gpupools.cli.live_cluster import ClusterApi

STATE_LABEL = "nvidia.com/mig.config.state"
"""`pending`, `rebooting`, `success` or `failed`: https://github.com/NVIDIA/mig-parted, cmd/nvidia-mig-manager."""
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
    parser.add_argument("--cluster", metavar="KEY", help="the pool's cluster, where it is on several")
    parser.add_argument(
        "--to", required=True, metavar="LAYOUT", help="a profile, or the profiles of a GPU: 3g.40gb,4g.40gb"
    )
    parser.add_argument("--yes", action="store_true", help="do the steps")
    parser.add_argument("--timeout", type=whole_number, default=3600, metavar="S", help="per step; default: 3600")
    parser.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig with the context")


def run_walk(given: argparse.Namespace) -> int:
    """Print or do the steps."""
    from gpupools.cli.live_cluster import ClusterApi, Unreachable, access_of

    try:
        plan = check_stack_file(given.file, clouds()).plan
        pool = _pool(plan, given)
        layout = _layout(pool, given.to)
        cluster = plan.stack.clusters[pool.cluster]
        plugin = clouds()[cluster.cloud].access
        contexts = [given.context] if given.context else []
        api = ClusterApi(access_of(pool.cluster, cluster, plugin, contexts, given.kubeconfig))
        return _Walk(api, pool, layout, plan.stack.pools[pool.name].upgrade.max_unavailable or 1, given.timeout).run(
            does=given.yes
        )
    except FileRejected as rejected:
        for each in locate(given.file, rejected):
            tell_located(each)
    except Rejected as rejected:
        for problem in rejected.problems:
            tell(problem if problem.path else f"{given.file}: {problem}", error=True)
    except (Unreachable, PermissionError) as error:
        tell(f"{given.file}: {error}", error=True)
    return 2


def _pool(plan: StackPlan, given: argparse.Namespace) -> PoolPlan:
    named = [each for each in plan.pools if each.name == given.pool]
    found = [each for each in named if given.cluster in (None, each.cluster)]
    if not named:
        what = f"the file has no pool {given.pool!r}"
        raise Rejected([Problem(("--pool",), what, nearest(given.pool, {each.name for each in plan.pools}))])
    if len(found) != 1:
        keys = " or ".join(each.cluster for each in named)
        raise Rejected([Problem(("--cluster",), f"the pool is on {len(named)} clusters", f"use --cluster {keys}")])
    return found[0]


class _Layout(NamedTuple):
    label: str
    resources: Mapping[str, str]
    """What a node offers with it."""
    config: JsonObject
    """Its entry for the MIG manager."""


def _layout(pool: PoolPlan, wanted: str) -> _Layout:
    """Return the layout that the pool would have with these profiles.

    Raises:
        Rejected: The MIG manager does not cut this pool, or the profiles do not fit.
    """
    mig = pool.sharing.mig
    if mig is None or MIG_CONFIG_LABEL not in pool.labels:
        what = "the GPU Operator's MIG manager does not cut the GPUs of this pool"
        raise Rejected([Problem(("--pool",), what, "change sharing in the stack file, and run gpupools diff")])
    from gpupools.catalog.mig import MigError, fit

    names = [each.strip() for each in wanted.split(",")]
    sharing = Mig(
        mode="mig",
        **({"profile": names[0]} if len(names) == 1 else {"layout": names}),
        strategy=mig.strategy,
        share=mig.share,
    )
    try:
        if len(names) > 1 and not (found := fit(pool.instance.gpu_model, names)).fits:
            raise Rejected([Problem(("--to",), found.why, "see gpupools mig fit")])
        made = mig_config(pool.instance, sharing)
        resources = {name: str(count) for name, count in node_resources(pool.instance, sharing).items()}
    except MigError as error:
        raise Rejected([Problem(("--to",), str(error), "see gpupools mig profiles")]) from None
    return _Layout(made.name, resources, made.document["mig-configs"])


class _Failed(Exception):
    """A step did not end as it should."""


class _Walk:
    def __init__(self, api: "ClusterApi", pool: PoolPlan, layout: _Layout, at_once: int, timeout_s: int) -> None:
        self.api, self.pool, self.layout, self.at_once, self.timeout_s = api, pool, layout, at_once, timeout_s

    def run(self, *, does: bool) -> int:
        nodes = self._nodes()
        left = [name for name, node in nodes.items() if not self._is_done(node)]
        tell(f"{len(nodes) - len(left)} of {len(nodes)} nodes have {self.layout.label}")
        if not left:
            return 0
        if missing := self._missing_layout():
            tell(missing, error=True)
            return 1
        others = [name for name in nodes if _is_cordoned(nodes[name]) and ANNOTATION not in _annotations(nodes[name])]
        at_once = self.at_once - len(others)
        if at_once < 1:
            tell(f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} cordoned already, and max_unavailable is"
                 f" {self.at_once}; uncordon them first", error=True)  # fmt: skip
            return 1
        # First those that an earlier run began.
        left.sort(key=lambda name: ANNOTATION not in _annotations(nodes[name]))
        lost = [f"{name}: {pod}" for name in left for pod in self._lost_pods(name)]
        for each in lost:
            tell(f"{each} has no controller and would not come back; delete it, or let it end", error=True)
        if lost:
            return 1
        try:
            for start in range(0, len(left), at_once):
                self._walk(left[start : start + at_once], does)
        except _Failed as error:
            tell(error, error=True)
            return 1
        return 0

    def _walk(self, names: list[str], does: bool) -> None:
        if not does:
            for name in names:
                pods = len(list(self._pods(name)))
                offers = ", ".join(f"{count} {resource}" for resource, count in self.layout.resources.items())
                tell(f"would cordon {name}, evict {pods} pod{'' if pods == 1 else 's'}, set {MIG_CONFIG_LABEL}="
                     f"{self.layout.label}, wait for {offers}, and uncordon it")  # fmt: skip
            return
        for name in names:
            tell(f"{name}: cordon and drain")
            self._patch(
                name, {"spec": {"unschedulable": True}, "metadata": {"annotations": {ANNOTATION: self.layout.label}}}
            )
        for name in names:
            self._wait(f"{name}: its pods did not end", partial(self._evicted, name))
        for name in names:
            tell(f"{name}: set {MIG_CONFIG_LABEL}={self.layout.label}")
            self._relabel(name)
        for name in names:
            self._wait(f"{name}: the layout did not come", partial(self._is_cut, name))
            self._patch(name, {"spec": {"unschedulable": None}, "metadata": {"annotations": {ANNOTATION: None}}})
            tell(f"{name}: has {self.layout.label}")

    def _relabel(self, name: str) -> None:
        """Set the label, unless an earlier run did and the MIG manager works on it or is done.

        It acts when the label changes, so a node that failed with this layout gets no label between:
        https://github.com/NVIDIA/mig-parted/blob/main/cmd/nvidia-mig-manager/main.go.
        """
        labels = self._node(name)["metadata"].get("labels", {})
        if labels.get(MIG_CONFIG_LABEL) == self.layout.label:
            if labels.get(STATE_LABEL) in ("pending", "rebooting", "success"):
                return
            self._patch(name, {"metadata": {"labels": {MIG_CONFIG_LABEL: None}}})
        self._patch(name, {"metadata": {"labels": {MIG_CONFIG_LABEL: self.layout.label, STATE_LABEL: "pending"}}})

    def _is_done(self, node: JsonObject) -> bool:
        labels = node["metadata"].get("labels", {})
        return (
            labels.get(MIG_CONFIG_LABEL) == self.layout.label
            and labels.get(STATE_LABEL) == "success"
            and ANNOTATION not in _annotations(node)
            and self._offers(node)
        )

    def _offers(self, node: JsonObject) -> bool:
        found = node["status"].get("allocatable", {})
        return all(found.get(name) == count for name, count in self.layout.resources.items())

    def _is_cut(self, name: str) -> bool:
        """Say whether a node offers the layout.

        Raises:
            _Failed: The MIG manager refused it.
        """
        node = self._node(name)
        labels = node["metadata"].get("labels", {})
        if labels.get(STATE_LABEL) == "failed":
            raise _Failed(f"{name}: the MIG manager failed, and the node stays cordoned; see"
                          f" kubectl logs -n {self._namespace()} -l app=nvidia-mig-manager")  # fmt: skip
        return labels.get(STATE_LABEL) == "success" and self._offers(node)

    def _evicted(self, name: str) -> bool:
        """Ask for the eviction of each pod; return whether none is left. A disruption budget may refuse for now."""
        from gpupools.cli.live_cluster import Unreachable

        left = list(self._pods(name))
        for pod in left:
            meta = {key: pod["metadata"][key] for key in ("name", "namespace")}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
            try:
                self.api.request(path, method="POST", body=body)
            except Unreachable as error:
                if not error.may_pass:
                    raise
        return not left

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        end = time.monotonic() + self.timeout_s
        while not done():
            if time.monotonic() > end:
                raise _Failed(f"{what} in {self.timeout_s} s; run the command again to go on")
            time.sleep(_INTERVAL_S)

    def _nodes(self) -> dict[str, JsonDict]:
        found = self.api.items("/api/v1/nodes", "", labelSelector=f"{POOL_LABEL}={self.pool.name}")
        return {name: self._node(name) for name in sorted(each["metadata"]["name"] for each in found)}

    def _node(self, name: str) -> JsonDict:
        found = self.api.request(f"/api/v1/nodes/{name}")
        if found is None:
            raise _Failed(f"{name}: the node is gone; run the command again")
        return dict(found)

    def _pods(self, name: str) -> Iterator[JsonDict]:
        """Yield the pods of a node that a drain moves."""
        for pod in self.api.items("/api/v1/pods", "", fieldSelector=f"spec.nodeName={name}"):
            owners = {each["kind"] for each in pod["metadata"].get("ownerReferences", ())}
            if not owners & {"DaemonSet", "Node"} and pod["status"].get("phase") not in ("Succeeded", "Failed"):
                yield pod

    def _lost_pods(self, name: str) -> Iterator[str]:
        for pod in self._pods(name):
            if not pod["metadata"].get("ownerReferences"):
                yield f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"

    def _patch(self, name: str, body: JsonDict) -> None:
        self.api.request(f"/api/v1/nodes/{name}", method="PATCH", body=body)

    def _namespace(self) -> str:
        return self._config()[0]

    def _config(self) -> tuple[str, str]:
        """Return namespace and name of the MIG manager's ConfigMap."""
        policy = next(iter(self.api.items("/apis/nvidia.com/v1/clusterpolicies", "")), {})
        manager = policy.get("spec", {}).get("migManager", {})
        status = policy.get("status", {})
        return status.get("namespace") or "gpu-operator", manager.get("config", {}).get("name") or ""

    def _missing_layout(self) -> str:
        """Return what to do where the MIG manager does not know the layout."""
        space, name = self._config()
        if not name:
            return "the cluster has no ClusterPolicy that names the MIG manager's layouts; run gpupools ready"
        found = self.api.request(f"/api/v1/namespaces/{space}/configmaps/{name}") or {}
        text = found.get("data", {}).get("config.yaml", "")
        known = (yaml.safe_load(text) or {}).get("mig-configs", {})
        if self.layout.label in known:
            return ""
        merged = {"version": "v1", "mig-configs": {**known, **self.layout.config}}
        patch = json.dumps({"data": {"config.yaml": yaml.safe_dump(merged, sort_keys=False)}})
        return (
            f"the MIG manager does not know {self.layout.label}; wait a minute after this, and run the walk again:"
            f" kubectl -n {space} patch configmap {name} --type merge --patch {shlex.quote(patch)}"
        )


def _is_cordoned(node: JsonObject) -> bool:
    return node["spec"].get("unschedulable") is True


def _annotations(node: JsonObject) -> Mapping[str, str]:
    found: Mapping[str, str] = node["metadata"].get("annotations", {})
    return found
