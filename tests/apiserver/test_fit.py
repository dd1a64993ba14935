"""What `gpupools fit` says of 60 pod templates and the 56 pools of a stack, against the real scheduler, pair by pair.

Each pair has a node of its own, made of what `preview --json` shows of the pool, so that no pod is in another's way.
"""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from gpupools.fit.offers import Offer, offers
from gpupools.fit.pod_judging import Context, judge
from gpupools.fit.team_queues import sharing_of, team_reasons
from gpupools.fit.workloads import REASONS, Level, Manifests, PodTemplate, Verdict, Workload
from gpupools.plan.hami import HAMI
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_apiserver import DAEMON_SETS, bare_node, namespace, pod
from tests.apiserver.test_fabric import CLASSES, devices, slice_of

pytestmark = pytest.mark.apiserver

STACK = Path(__file__).parents[2] / "stacks" / "Pulumi.matrix.yaml"
PLAN = check_stack_file(STACK, clouds()).plan
TEMPLATES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("fit_templates.yaml").read_text(encoding="utf-8")
)
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "research": {"gpupools/trust": "research"}, "vision": {}, "default": {}, "kube-system": {},
}  # fmt: skip
SCHEDULERS = ("default-scheduler", "kai-scheduler", "hami-scheduler", "volcano")
"""All with the plugins of kube-scheduler, so that pods that name them are scheduled at all."""

BEFORE_BINDING = {"API server", "admission policy"}
REGIONS = {"aws": "eu-central-1", "azure": "westeurope", "gcp": "europe-west4"}


class Outcome(NamedTuple):
    """What became of a pod."""

    bound: bool
    message: str = ""
    """What the API server or the scheduler says against it."""
    status: int = 201
    """Of its creation; 0 where the cluster has no scheduler of that name."""

    def classes(self) -> set[str]:
        """Return the messages of the table of reasons that the scheduler's message has; else keys of reasons.

        Without a term that matches the one node alone, the scheduler speaks of all nodes.
        """
        if self.status == 0:
            return {"scheduler-name"}
        if self.status == 403:
            return {"admission"} if "ValidatingAdmissionPolicy" in self.message else {"invalid"}
        if self.status >= 300:
            return {"invalid"}
        if "satisfy plugin(s) [NodeAffinity]" not in self.message:
            return set()
        return {row["message"] for row in REASONS.values() if row["message"] and row["message"] in self.message}


class Pair(NamedTuple):
    """A template and a pool."""

    template: str
    pool: str
    """`<cluster>/<pool>`."""
    verdict: Verdict
    outcome: Outcome

    def difference(self) -> str:
        """Say where the verdict is not the outcome; empty for nowhere, or where the verdict is that it is not known."""
        keys = {each.key for each in self.verdict.reasons if each.level is Level.UNFIT}
        stops = {key for key in keys if REASONS[key]["message"] or REASONS[key]["by"] in BEFORE_BINDING}
        stops |= keys & {"scheduler-name"}
        is_open = any(each.level is Level.UNKNOWN for each in self.verdict.reasons)
        if is_open and not stops:
            return ""
        if self.outcome.bound == bool(stops):
            return f"said {sorted(keys)}, {self.outcome}"
        if is_open:  # what is not known may be what the scheduler names
            return ""
        ours = {REASONS[key]["message"] or key for key in stops}
        missing = self.outcome.classes() - ours
        text = " ".join(each.text for each in self.verdict.reasons)
        missing |= {name for name in re.findall(r"Insufficient ([\w./-]+\w)", self.outcome.message) if name not in text}
        return f"not said {sorted(missing)}: {self.outcome}" if missing else ""


@cache
def shown_pools() -> Mapping[str, Mapping[str, Any]]:
    """Return the pools of `gpupools preview --json` by cluster and name."""
    command = [str(Path(sys.executable).with_name("gpupools")), "preview", str(STACK), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return {f"{each['cluster']}/{each['name']}": each for each in json.loads(done.stdout)["pools"]}


def node_name(template: str, pool: str) -> str:
    return f"{pool.replace('/', '.')}.{template}"


def node(template: str, pool: str, plan: PoolPlan) -> dict[str, Any]:
    """Write a node of a pool as its kubelet and its cloud would, empty."""
    shown, machine = shown_pools()[pool], plan.instance
    name = node_name(template, pool)
    kind = shown["instance_type"].partition("+")[0]
    labels = {"node.kubernetes.io/instance-type": kind, "topology.kubernetes.io/region": REGIONS[shown["cloud"]]}
    labels |= {"kubernetes.io/arch": machine.architecture, "kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
    labels |= {key: value for key, value in plan.provider_plan.cloud_labels().items() if isinstance(value, str)}
    taints = [dict(zip(("key", "value", "effect"), re.split("[=:]", each), strict=True)) for each in shown["taints"]]
    made = bare_node(name, {**shown["labels"], **labels}, taints, shown["capacity"])
    room = made["status"]["capacity"] | shown["node_resources"]
    room |= {"cpu": f"{(machine.vcpus or 0) * 950}m", "memory": f"{int((machine.memory_gib or 0) * 972)}Mi"}
    room |= {"ephemeral-storage": f"{shown['disk_gib'] * 8 // 10}Gi", "pods": "20"}
    if plan.software == HAMI:  # its scheduler counts these, and gives a pod one part of each GPU at most
        room |= {"nvidia.com/gpu": str(machine.devices), "nvidia.com/gpumem-percentage": "100"}
        room |= {"nvidia.com/gpucores": "100", "nvidia.com/gpumem": str(int(machine.gpu_memory_gib * 1000))}
    made["status"] |= {"capacity": room, "allocatable": room}
    return made


def pinned(spec: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a pod's spec that fits one node only: each term that matches any node matches only this one."""
    found = deepcopy(dict(spec))
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = found.setdefault("affinity", {}).setdefault("nodeAffinity", {}).setdefault(
        "requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": [{"matchFields": [field]}]}
    )  # fmt: skip
    for term in required["nodeSelectorTerms"]:
        term |= {"matchFields": [field]} if term else {}
    return found


def space_of(template: str) -> str:
    return str(TEMPLATES[template].get("namespace", "research"))


CLAIMS = {
    ("ResourceClaimTemplate", space_of(name), claim): devices
    for name, each in TEMPLATES.items()
    for claim, devices in each.get("claims", {}).items()
}
CONTEXT, SHARING = Context(PLAN, Manifests((), CLAIMS, NAMESPACES)), sharing_of(PLAN)


def judged(name: str, given: Mapping[str, Any], offer: Offer) -> Verdict:
    """Judge metadata and spec of a template on a pool."""
    template = PodTemplate("", None, given.get("metadata", {}), given["spec"])
    kind = TEMPLATES[name].get("kind", "Pod")
    workload = Workload(kind, name, space_of(name), "fit_templates.yaml", None, {}, (template,))
    reasons = judge(workload, template, offer, CONTEXT).reasons
    # Queues are KAI's own, whose scheduler does not run here; the policies of teams are in force.
    of_team = team_reasons(workload, template, offer, CONTEXT, SHARING)
    return Verdict(offer.where, (*reasons, *(each for each in of_team if each.key == "admission")))


def verdicts() -> dict[tuple[str, str], Verdict]:
    """Judge each template and pool."""
    return {(name, each.where): judged(name, TEMPLATES[name], each) for name in TEMPLATES for each in offers(PLAN)}


# --- the cluster ---


def start(plane: ControlPlane, template: str, pool: str) -> Outcome | None:
    """Create the pod of a pair with its claims; return what the API server says against it, or None."""
    given = TEMPLATES[template]
    wanted = pod(f"{template}.{pool.replace('/', '.')}", space_of(template), given["spec"])
    wanted["spec"] = pinned(wanted["spec"], node_name(template, pool))
    metadata = deepcopy(given.get("metadata", {}))
    metadata["labels"] = {**metadata.get("labels", {}), "tests/cluster": pool.partition("/")[0]}
    is_daemon = given.get("kind") == "DaemonSet"
    if is_daemon:
        metadata["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": template, "uid": "1"}]
    wanted["metadata"] |= metadata
    answer = plane.create(wanted, by=DAEMON_SETS if is_daemon else None)
    if answer.status >= 300:
        return Outcome(bound=False, message=answer.message, status=answer.status)
    cluster = pool.partition("/")[0]
    names = {each["pod"].get("schedulerName") for each in shown_pools().values() if each["cluster"] == cluster}
    if (given["spec"].get("schedulerName") or "default-scheduler") not in names | {"default-scheduler"}:
        plane.delete_now(wanted).succeeded()
        return Outcome(bound=False, message="no scheduler of this name", status=0)
    statuses = []
    for each in given["spec"].get("resourceClaims", ()):  # as kube-controller-manager does
        owner = {"apiVersion": "v1", "kind": "Pod", "name": wanted["metadata"]["name"], "controller": True}
        owner["uid"] = answer.body["metadata"]["uid"]
        own = {
            "name": f"{wanted['metadata']['name']}.claim",
            "namespace": space_of(template),
            "ownerReferences": [owner],
        }
        spec = {"devices": given["claims"][each["resourceClaimTemplateName"]]}
        claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": own, "spec": spec}
        plane.create(claim).succeeded()
        statuses.append({"name": each["name"], "resourceClaimName": own["name"]})
    if statuses:
        plane.merge(wanted, {"status": {"resourceClaimStatuses": statuses}}, "/status").succeeded()
    return None


def decided(plane: ControlPlane, cluster: str) -> dict[str, Outcome]:
    """Return the pods of a cluster that are bound, or that the scheduler found no node for, by name."""
    found = {}
    for each in plane.items(f"/api/v1/pods?labelSelector=tests/cluster={cluster}"):
        failed = [
            one["message"] for one in each["status"].get("conditions", ()) if one.get("reason") == "Unschedulable"
        ]
        if each["spec"].get("nodeName") or failed:
            text = "".join(failed).partition(" preemption:")[0]
            found[each["metadata"]["name"]] = Outcome(bool(each["spec"].get("nodeName")), text)
    return found


def policies(plane: ControlPlane, cluster: str) -> list[Mapping[str, Any]]:
    """Put the admission policies of a cluster into force, but for those that judge nodes named by hand."""
    (runtime,) = (each for each in PLAN.runtimes if each.cluster == cluster)
    planned = [each for each in runtime.objects if each.kind.startswith("ValidatingAdmissionPolicy")]
    planned = [each for each in planned if not each.name.removesuffix("/binding").endswith("/nodes")]
    made = [json.loads(json.dumps(each.manifest, default=dict)) for each in planned]
    for each in made:
        plane.apply(each).succeeded()
    for each in refusing(made):
        plane.wait("policy", lambda each=each: plane.create(each, dry_run=True).status == 403)  # type: ignore[misc]
    return made


def refusing(made: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a pod for each policy that judges pods by themselves, which the policy rejects."""
    for each in made:
        name = each["metadata"]["name"]
        if each["kind"] != "ValidatingAdmissionPolicy":
            continue
        if name.startswith("gpupools-trust-"):
            mark = {"key": "gpupools/trust", "value": name.removeprefix("gpupools-trust-")}
            yield pod("probe", "default", {"tolerations": [mark], "containers": [{"name": "main"}]})
        elif name == "gpupools-team-pods":
            asks = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}
            yield pod("probe", "default", {"containers": [asks]})


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Outcome]:
    return tried(tmp_path_factory.mktemp("fit"))


def tried(folder: Path) -> Mapping[tuple[str, str], Outcome]:
    """Return what became of the pod of each template and pool, cluster by cluster, each with its own policies."""
    plans = {f"{each.cluster}/{each.name}": each for each in PLAN.pools}
    assert plans.keys() == shown_pools().keys()
    found: dict[tuple[str, str], Outcome] = {}
    with ControlPlane(folder, schedulers=SCHEDULERS) as plane, ThreadPoolExecutor(6) as threads:
        for name, labels in NAMESPACES.items():
            plane.apply(namespace(name, labels)).succeeded()
        handler = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
        plane.apply({**handler, "handler": "nvidia"}).succeeded()
        gpus = CLASSES["gpu.nvidia.com"]
        for name, expression in (("gpu.nvidia.com", gpus), ("mig.nvidia.com", gpus.replace("'gpu'", "'mig'"))):
            spec = {"selectors": [{"cel": {"expression": expression}}]}
            plane.apply(
                {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
            ).succeeded()
        for cluster in sorted({each.cluster for each in PLAN.pools}):
            own = [pool for pool in plans if pool.startswith(f"{cluster}/")]
            pairs = [(template, pool) for template in TEMPLATES for pool in own]
            nodes = [node(template, pool, plans[pool]) for template, pool in pairs]
            slices = [
                slice_of(node_name(template, pool), driver, listed)
                for template, pool in pairs
                for driver, listed in devices(plans[pool]).items()
                if TEMPLATES[template].get("claims") and driver == "gpu.nvidia.com"
            ]
            for answer in threads.map(plane.create, [*nodes, *slices]):
                answer.succeeded()
            guards = policies(plane, cluster)
            refused = dict(zip(pairs, threads.map(lambda pair: start(plane, *pair), pairs), strict=True))
            named = {pair: f"{pair[0]}.{pair[1].replace('/', '.')}" for pair, said in refused.items() if said is None}
            plane.wait("verdicts", lambda: len(decided(plane, cluster)) == len(named), within_s=300)  # noqa: B023
            verdicts = decided(plane, cluster)
            found |= {pair: said or verdicts[named[pair]] for pair, said in refused.items()}
            for each in guards:
                plane.delete(each).succeeded()
            for probe in refusing(guards):
                plane.wait("the end of a policy", lambda: plane.create(probe, dry_run=True).status < 300)  # noqa: B023
    return found


def test_the_lines_to_change_are_a_strategic_merge_patch_that_works(tmp_path: Path) -> None:
    """The API server merges them into each template; the reasons that they are for are then gone."""
    tried = 0
    with ControlPlane(tmp_path) as plane:
        plane.add_namespaces(*NAMESPACES)
        for name, given in TEMPLATES.items():
            made = {**pod(name, space_of(name), given["spec"]), "kind": "PodTemplate"}
            made["template"] = {"metadata": given.get("metadata", {}), "spec": made.pop("spec")}
            if plane.create(made).status >= 300:
                assert "invalid" in {each.key for each in judged(name, given, offers(PLAN)[0]).reasons}
                continue
            for offer in offers(PLAN):
                found = judged(name, given, offer)
                if not found.patch:
                    continue
                answer, tried = plane.merge(made, {"template": found.patch}, "?dryRun=All"), tried + 1
                assert answer.status < 300, (name, offer.where, answer.message, found.patch)
                after = judged(name, answer.body["template"], offer)
                left = {each.text for each in found.reasons if each.patch} & {each.text for each in after.reasons}
                assert not left, (name, offer.where, found.patch)
    print(f"{tried} patches")
    assert tried > 1000


def test_the_verdicts_are_those_of_the_scheduler(outcomes: Mapping[tuple[str, str], Outcome]) -> None:
    said = verdicts()
    pairs = [Pair(*pair, said[pair], outcome) for pair, outcome in outcomes.items()]
    counts = Counter((each.template, each.verdict.level) for each in pairs)
    for name in TEMPLATES:
        row = " ".join(f"{counts[name, level]:>3} {level.value:<13}" for level in Level)
        print(f"{name:<30} {row} {sum(each.outcome.bound for each in pairs if each.template == name):>3} bound")
    unknown = [each for each in pairs if each.verdict.level is Level.UNKNOWN]
    keys = Counter((each.template, reason.key) for each in unknown for reason in each.verdict.reasons)
    print(f"{len(pairs)} verdicts, {len(unknown)} unknown: {dict(keys)}")
    differences = [f"{each.template} on {each.pool}: {text}" for each in pairs if (text := each.difference())]

    assert differences == []
    assert len(pairs) == 60 * 56
    assert len(unknown) <= 0.05 * len(pairs)
