"""The roles in docs/reference/permissions are enough for their commands, and no verb is spare, on a real API server."""

import threading
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli import mig_walk, smoke
from gpupools.cli.main import main
from gpupools.fit import live
from gpupools.ready import live_cluster
from gpupools.software.objects import SMOKE_NAMESPACE
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_mig_walk import NAMES, filled, node
from tests.apiserver.test_ready import Live
from tests.gpupools.ready.world import FILE, World, plan_of
from tests.gpupools.test_mig_walk import FILE as WALK_FILE
from tooling.write_permissions import documents

pytestmark = pytest.mark.apiserver

ROLES = {
    "ready": ("cluster-ready.json", "namespace-ready.json"),
    "fit": ("cluster-fit.json", "cluster-ready.json", "namespace-ready.json"),
    "smoke": ("namespace-ready-smoke.json",),
    "policy": ("cluster-policy.json",),
    "mig walk": ("cluster-mig-walk.json", "namespace-mig-walk.json"),
}
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{SMOKE_NAMESPACE}/resourceclaimtemplates"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("roles")) as plane:
        filled(plane)
        plane.add_namespaces(SMOKE_NAMESPACE, "dev")
        world = World("train", "whole")
        world.heal()
        Live(plane).copy(world)
        yield plane


class Account:
    """A service account with roles of the documentation, and the requests that the API forbade it."""

    def __init__(self, server: ControlPlane, name: str, folder: Path) -> None:
        self.server, self.denied = server, list[str]()
        self.user = f"system:serviceaccount:dev:{name}"
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "dev"}}
        server.apply(account).succeeded()
        path = f"/api/v1/namespaces/dev/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = server._ask("POST", path, asked, "application/json").succeeded()["status"]["token"]
        self.kubeconfig = folder / "kube"
        content = yaml.safe_load(server.kubeconfig.read_text())
        content["users"][0]["user"]["token"] = token
        self.kubeconfig.write_text(yaml.safe_dump(content))

    def grant(self, role: dict[str, Any]) -> None:
        self.server.apply(role).succeeded()
        kind, meta = (
            role["kind"],
            {**role["metadata"], "name": f"{self.user.replace(':', '-')}-{role['metadata']['name']}"},
        )
        subject = {"kind": "ServiceAccount", "name": self.user.rpartition(":")[2], "namespace": "dev"}
        reference = {"apiGroup": RBAC, "kind": kind, "name": role["metadata"]["name"]}
        binding = {"apiVersion": f"{RBAC}/v1", "kind": f"{kind}Binding", "metadata": meta, "roleRef": reference}
        self.server.apply({**binding, "subjects": [subject]}).succeeded()
        for rule in role["rules"]:
            for verb in rule["verbs"]:
                self.wait(role, rule, verb, True)

    def wait(self, role: dict[str, Any], rule: dict[str, Any], verb: str, allowed: bool) -> None:
        """Wait until the authorizer knows the roles."""
        (resource,), (group,) = rule["resources"], rule["apiGroups"]
        plural, _, part = resource.partition("/")
        where = {"group": group, "resource": plural, "subresource": part, "verb": verb}
        where |= {"namespace": role["metadata"].get("namespace", ""), "name": rule.get("resourceNames", [""])[0]}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {"name": ""}}
        spec = {"user": self.user, "resourceAttributes": where}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

        def is_so() -> bool:
            answer = self.server._ask("POST", path, {**review, "spec": spec}, "application/json").succeeded()
            return bool(answer["status"]["allowed"]) == allowed

        self.server.wait("the role", is_so)


@pytest.fixture
def account(
    request: pytest.FixtureRequest, server: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Account:
    made = Account(server, f"of-{request.param}".replace(" ", "-"), tmp_path)
    real: Any = live_cluster.ClusterApi.request

    def recorded(api: Any, path: str, *given: Any, **named: Any) -> Any:
        try:
            return real(api, path, *given, **named)
        except PermissionError as error:
            made.denied.append(str(error))
            raise

    monkeypatch.setattr(live_cluster.ClusterApi, "request", recorded)
    monkeypatch.setattr(mig_walk, "_INTERVAL_S", 0.05)
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.05)))
    return made


def complete(server: ControlPlane, done: threading.Event) -> None:
    """Do what the controller of Jobs and a kubelet do."""
    jobs = f"/apis/batch/v1/namespaces/{SMOKE_NAMESPACE}/jobs"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [{"type": each, "status": "True"} for each in ("SuccessCriteriaMet", "Complete")]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
    status |= {"uncountedTerminatedPods": {}, "ready": 0, "terminating": 0}
    while not done.wait(0.05):
        for job in server.items(jobs):
            if not job.get("status", {}).get("conditions"):
                name = job["metadata"]["name"]
                # On a node it would stop the walk.
                pod = {"schedulerName": "none", "containers": [{"name": "c", "image": "registry.example.com/none"}]}
                meta = {"name": name, "namespace": SMOKE_NAMESPACE, "labels": {"job-name": name}}
                server.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})
                whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": job["metadata"]}
                server.merge(whole, {"status": status}, "/status")


def cut(server: ControlPlane, done: threading.Event) -> None:
    """Do what the MIG manager does."""
    while not done.wait(0.05):
        for each in server.items("/api/v1/nodes"):
            name = each["metadata"]["name"]
            if name in NAMES and each["metadata"]["labels"].get("nvidia.com/mig.config.state") == "pending":
                offers = {"status": {"capacity": {"nvidia.com/gpu": "24"}, "allocatable": {"nvidia.com/gpu": "24"}}}
                server.merge(node(name), offers, "/status").succeeded()
                state = {"metadata": {"labels": {"nvidia.com/mig.config.state": "success"}}}
                server.merge(node(name), state).succeeded()


def run(command: str, account: Account, folder: Path) -> int:
    kube = ["--context", "own", "--kubeconfig", str(account.kubeconfig)]
    if command == "policy":
        return main(["policy", *kube])
    file = folder / "stack" / "Pulumi.dev.yaml"
    file.parent.mkdir(exist_ok=True)
    if command == "mig walk":
        file.write_text(WALK_FILE.replace("fixed: 5", "fixed: 3"))
        words = ["--pool", "slices", "--to", "2g.20gb", "--timeout", "30", "--yes", "--cluster", "train", str(file)]
        return main(["mig", "walk", *words, *kube])
    if command == "smoke":
        for left in account.server.items(CLAIMS):  # what a run without the permission to delete left
            kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": left["metadata"]}
            account.server.delete(kind).succeeded()
        api = live_cluster.ClusterApi(live_cluster.Access(account.kubeconfig, "own"))
        return smoke.run_smoke_tests([plan_of("lab", "claimed")], {"lab": api}, 20)
    config = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    pool = {**config["gpupools:pools"]["whole"], "clusters": ["train"]}
    cluster = config["gpupools:clusters"]["train"]
    content = {"gpupools:clusters": {"train": cluster}, "gpupools:pools": {"whole": pool}}
    if command == "ready":
        file.write_text(yaml.safe_dump({"config": content}))
        return main(["ready", str(file), *kube])
    codes = []
    for scheduler in live.GROUPS:  # each has pod groups of its own
        runtime = {**cluster["runtime"], "scheduler": scheduler}
        content["gpupools:clusters"] = {"train": {**cluster, "runtime": runtime}}
        file.write_text(yaml.safe_dump({"config": content}))
        codes.append(main(["fit", "--stack", str(file), *kube]))
    return max(codes)


AS_THE_CONTROLLERS: dict[str, Callable[[ControlPlane, threading.Event], None]] = {"smoke": complete, "mig walk": cut}


@pytest.mark.parametrize(("account", "command"), [(each, each) for each in ROLES], indirect=["account"])
def test_a_role_is_enough_and_no_verb_is_spare(
    command: str, account: Account, server: ControlPlane, tmp_path: Path
) -> None:
    roles = [documents()[name] for name in ROLES[command]]
    done = threading.Event()
    acts = AS_THE_CONTROLLERS.get(command, lambda server, done: None)
    thread = threading.Thread(target=acts, args=(server, done))
    thread.start()
    try:
        for role in roles:
            account.grant(role)
        for role in roles:
            for place, rule in enumerate(role["rules"]):
                for verb in rule["verbs"]:
                    fewer = deepcopy(role)
                    fewer["rules"][place]["verbs"].remove(verb)
                    fewer["rules"] = [each for each in fewer["rules"] if each["verbs"]]
                    server.apply(fewer).succeeded()
                    account.wait(role, rule, verb, False)
                    account.denied.clear()
                    run(command, account, tmp_path)
                    assert account.denied, f"{command} does not need {verb} {rule['resources'][0]}"
            account.grant(role)
        account.denied.clear()
        code = run(command, account, tmp_path)
        assert account.denied == []
        # Nodes here have no taints.
        assert code == (1 if command == "policy" else 0)
    finally:
        done.set()
        thread.join()
