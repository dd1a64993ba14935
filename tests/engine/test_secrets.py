"""Secrets planted in every kind of key: what Pulumi marks stays marked, or is refused before anything is declared."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine

pytestmark = pytest.mark.engine

CLUSTERS: dict[str, dict[str, Any]] = {
    "train": {
        "cloud": "aws",
        "name": "train",
        "region": "us-east-1",
        "subnet_ids": ["subnet-0a1b2c3d4e5f60718", "subnet-1a1b2c3d4e5f60718"],
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
        "kubeconfig": {"path": "/nowhere"},
    },
    "serve": {"cloud": "azure", "name": "serve", "resource_group": "ml", "kubeconfig": {"path": "/elsewhere"}},
    "lab": {
        "cloud": "gcp",
        "name": "lab",
        "project": "ml-lab",
        "location": "europe-west4",
        "service_account": "gpu@ml.iam.gserviceaccount.com",
    },
}
POOLS: dict[str, Any] = {
    "a": {"clusters": ["train"], "gpu": "L4", "nodes": {"max": 2}, "tags": {"team": "vision"}},
    "b": {"clusters": ["serve"], "gpu": "T4", "nodes": {"max": 2}},
    "c": {"clusters": ["lab"], "gpu": "L4", "nodes": {"max": 2}},
}
SUBNET = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/hunter-net/providers"
    "/Microsoft.Network/virtualNetworks/hunter-net/subnets/hunter"
)
PLANTED = {
    "clusters.train.name": "hunter-name",
    "clusters.train.node_role_arn": "arn:aws:iam::123456789012:role/hunter-role",
    "clusters.train.subnet_ids[1]": "subnet-0fedcba9876543210",
    "clusters.train.kubeconfig.secret": "token: hunter-kubeconfig",
    "clusters.serve.name": "hunter-aks",
    "clusters.serve.resource_group": "hunter-group",
    "clusters.serve.subnet_id": SUBNET,
    "clusters.serve.endpoint": "hunter.azmk8s.io",
    "clusters.serve.certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCmh1bnRlci1jYQo=",
    "clusters.lab.name": "hunter-gke",
    "clusters.lab.project": "hunter-project",
    "clusters.lab.service_account": "hunter@ml.iam.gserviceaccount.com",
}
"""Addresses, which may be secrets."""
REFUSED = {
    "pools.a.tags.licence": "hunter-licence",
    "pools.a.labels.rev": "hunter-label",
    "pools.a.gpu": "hunter-gpu",
    "pools.b.overrides.azure.AgentPool.osDiskType": "hunter-disk",
    "pools.a.taints[0]": "hunter=a:NoSchedule",
    "pools.a.unknown": "hunter-unknown",
    "clusters.train.region": "hunter-region",
    "clusters.train.password": "hunter-password-under-a-key-that-does-not-exist-and-is-long",
    "clusters.train.kubeconfig.path": "/hunter-path",
    "clusters.lab.location": "hunter-location",
    "clusters.lab.runtime.kubernetes": "1.34",
}
"""What a plan depends on, or what nobody reads."""
WHOLE = (
    {"production": "true", "pools": json.dumps(POOLS | {"hunter": {}})},
    {"clusters": json.dumps(CLUSTERS | {"hunter": {}})},
)
"""Keys that are one secret."""
FORBIDDEN = ("hunter", "aHVudGVy")


@dataclass(frozen=True)
class Stack:
    """A stack file with one or several encrypted values."""

    engine: Engine
    name: str
    file: Path

    def plant(self, secrets: Mapping[str, str]) -> None:
        """Let the CLI encrypt each value in the file."""
        for path, secret in secrets.items():
            flags = ["--secret", "--path"] if "." in path else ["--secret"]
            self.engine.run("config", "set", *flags, "--stack", self.name, "--", f"gpupools:{path}", secret).succeeded()
        assert not any(each in self.file.read_text(encoding="utf-8") for each in FORBIDDEN)


def laid(engine: Engine, name: str, clusters: Any = CLUSTERS) -> Stack:
    file = engine.repository / "stacks" / f"Pulumi.{name}.yaml"
    file.write_text(yaml.safe_dump({"config": {"gpupools:clusters": clusters, "gpupools:pools": POOLS}}))
    engine.run("stack", "init", name).succeeded()
    return Stack(engine, name, file)


def shown(stack: Stack, *ran: CommandResult) -> str:
    """Return everything that Pulumi wrote of a stack: on the screen, in the state and in its history."""
    state = stack.engine.run("stack", "export", "--stack", stack.name).succeeded().output
    backend = "".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted((stack.engine.folder / "backend").rglob("*"))
        if path.is_file() and stack.name in path.name
    )
    return state + backend + "".join(each.output for each in ran)


def without_ids(written: str, engine: Engine) -> str:
    """Take out the ids that the clouds gave, which Pulumi keeps readable whatever they are made of."""
    ids = {each["id"] for each in engine.resources()}
    for each in sorted(ids, key=len, reverse=True):
        written = written.replace(each, "(id)")
    return written


def test_secret_addresses_are_in_the_state_and_on_the_screen_as_secrets_only(engine: Engine) -> None:
    clusters = json.loads(json.dumps(CLUSTERS))
    del clusters["train"]["kubeconfig"], clusters["serve"]["kubeconfig"]
    stack = laid(engine, "planted", clusters)
    stack.plant(PLANTED)
    preview = engine.run("preview", "--diff", "--json", "--stack", "planted").succeeded()
    text = engine.run("preview", "--diff", "--show-config", "--stack", "planted").succeeded()
    up = engine.up("planted", "--logtostderr", "-v=1").succeeded()
    again = engine.run("preview", "--diff", "--show-sames", "--stack", "planted").succeeded()
    written = without_ids(shown(stack, preview, text, up, again), engine)

    assert [each for each in PLANTED.values() if each in written] == []
    assert not any(each in written for each in FORBIDDEN)
    decrypted = engine.run("stack", "export", "--show-secrets", "--stack", "planted").succeeded().output
    assert all(json.dumps(each)[1:-1] in decrypted for each in PLANTED.values() if "kubeconfig" not in each)


SIGNATURE, SECRET = "4dabf18193072939515e22adb298388d", "1b47061264138c4ac30d75fd1eb44270"
"""The key and the value that mark a secret in a state (pulumi/pulumi sdk/go/common/resource/sig/sig.go)."""


def test_records_hold_no_secret_and_are_compared_with_those_that_older_releases_encrypted(engine: Engine) -> None:
    clusters = json.loads(json.dumps(CLUSTERS))
    del clusters["train"]["kubeconfig"], clusters["serve"]["kubeconfig"]
    stack = laid(engine, "compared", clusters)
    # The clouds are those of the stack before, so this one has clusters of its own.
    planted = {path: secret.replace("hunter", "hunter-again") for path, secret in PLANTED.items()}
    stack.plant(planted)
    engine.up("compared").succeeded()
    state = json.loads(engine.run("stack", "export", "--stack", "compared").succeeded().output)
    having = [each for each in state["deployment"]["resources"] if "record" in each.get("outputs", {})]
    records = [each["outputs"]["record"] for each in having]

    assert len(records) == 4  # three pools, and the software of one cluster
    assert not any(each in json.dumps(records) for each in (SIGNATURE, *FORBIDDEN))
    now = engine.gpupools("diff", "--exit-code", "--stack", "compared").succeeded()
    told = [each for each in now.output.split("\n") if not each.startswith("warning: clusters.")]
    assert "an edit of what is encrypted is not seen here" in now.output
    assert told[0] == "unchanged: 3 pools"

    for each in having:
        record = each["outputs"]["record"]
        for key in ("name", "node_role_arn"):
            if record["cluster"] == "train" and f"cluster.{key}" in record.get("values", {}):
                record["values"][f"cluster.{key}"] = planted[f"clusters.train.{key}"]
        each["outputs"]["record"] = {SIGNATURE: SECRET, "plaintext": json.dumps(record)}
    old = engine.folder / "old.json"
    old.write_text(json.dumps(state), encoding="utf-8")
    engine.run("stack", "import", "--stack", "compared", "--file", str(old)).succeeded()
    then = engine.gpupools("diff", "--exit-code", "--stack", "compared").succeeded()

    assert then.output == now.output
    assert not any(each in without_ids(shown(stack, now, then), engine) for each in FORBIDDEN)


OUTPUTS: dict[str, dict[str, Any]] = {
    "train": {
        "name": "hunter-name",
        "role": "arn:aws:iam::123456789012:role/hunter-role",
        "subnets": ["subnet-0a1b2c3d4e5f60718", "subnet-0fedcba9876543210"],
        "kubeconfig": "token: hunter-kubeconfig-too",
    },
    "serve": {
        "name": "hunter-aks-too",
        "group": "hunter-group",
        "subnet": SUBNET,
    },
    "lab": {"name": "hunter-gke-too", "project": "hunter-project", "account": "hunter@ml.iam.gserviceaccount.com"},
}
PLATFORM = f"""
import pulumi

for name, value in {OUTPUTS!r}.items():
    pulumi.export(name, pulumi.Output.secret(value))
"""


def output(name: str) -> dict[str, str]:
    return {"output": name}


REFERRING: dict[str, dict[str, Any]] = {
    "train": {
        "cloud": "aws",
        "region": "us-east-1",
        "name": output("train.name"),
        "subnet_ids": output("train.subnets"),
        "node_role_arn": output("train.role"),
        "kubeconfig": output("train.kubeconfig"),
    },
    "serve": {
        "cloud": "azure",
        "name": output("serve.name"),
        "resource_group": output("serve.group"),
        "subnet_id": output("serve.subnet"),
    },
    "lab": {
        "cloud": "gcp",
        "location": "europe-west4",
        "name": output("lab.name"),
        "project": output("lab.project"),
        "service_account": output("lab.account"),
    },
}


def test_secret_outputs_of_another_stack_stay_secrets(engine: Engine) -> None:
    platform = engine.project("platform", PLATFORM)
    engine.run("stack", "init", "base", project=platform).succeeded()
    engine.up("base", project=platform).succeeded()
    clusters = {key: {**given, "stack": "organization/platform/base"} for key, given in REFERRING.items()}
    stack = laid(engine, "referring", clusters)
    preview = engine.run("preview", "--diff", "--json", "--stack", "referring").succeeded()
    up = engine.up("referring", "--logtostderr", "-v=1").succeeded()
    outputs = engine.run("stack", "output", "--json", "--stack", "referring").succeeded()
    again = engine.run("preview", "--diff", "--show-sames", "--stack", "referring").succeeded()
    edited = json.loads(json.dumps(POOLS))
    edited["c"]["nodes"]["max"] = 3
    content = yaml.safe_load(stack.file.read_text(encoding="utf-8"))
    content["config"]["gpupools:pools"] = edited
    stack.file.write_text(yaml.safe_dump(content), encoding="utf-8")
    later = engine.up("referring").succeeded()
    written = without_ids(shown(stack, preview, up, outputs, again, later), engine)

    assert [each for each in FORBIDDEN if each in written] == []
    decrypted = engine.run("stack", "export", "--show-secrets", "--stack", "referring").succeeded().output
    planted = [value for given in OUTPUTS.values() for key, value in given.items() if key != "kubeconfig"]
    every = [each for value in planted for each in (value if isinstance(value, list) else [value])]
    assert [each for each in every if json.dumps(each)[1:-1] not in decrypted] == []


@pytest.fixture(scope="module")
def check_pool(engine: Engine) -> Stack:
    return laid(engine, "refusals")


@pytest.mark.parametrize("planted", [REFUSED, *WHOLE], ids=lambda each: ", ".join(each)[:40])
def test_secrets_that_a_plan_depends_on_are_refused_as_check_refuses_them(
    check_pool: Stack, planted: Mapping[str, str]
) -> None:
    content = {"config": {"gpupools:clusters": CLUSTERS, "gpupools:pools": POOLS}}
    check_pool.file.write_text(yaml.safe_dump(content), encoding="utf-8")
    check_pool.plant(planted)
    up = check_pool.engine.up("refusals", "--logtostderr", "-v=1").failed()
    check = check_pool.engine.gpupools("check", str(check_pool.file)).failed()
    said = [line.partition(".yaml:")[2].partition(": ")[2] for line in check.output.splitlines() if ".yaml:" in line]

    assert "nothing was declared:" in up.output
    assert [path for path in planted if not any(line.startswith(f"{path}: ") for line in said)] == []
    assert [line for line in said if line not in up.output] == []
    assert [each for each in FORBIDDEN if each in shown(check_pool, up, check)] == []


def test_a_secret_whose_place_no_file_tells_is_refused(check_pool: Stack, tmp_path: Path) -> None:
    content = {"config": {"gpupools:clusters": CLUSTERS, "gpupools:pools": POOLS}}
    check_pool.file.write_text(yaml.safe_dump(content), encoding="utf-8")
    check_pool.plant({"clusters.lab.service_account": "hunter@ml.iam.gserviceaccount.com"})
    elsewhere = tmp_path / "other.yaml"
    check_pool.file.rename(elsewhere)
    up = check_pool.engine.up("refusals", "--config-file", str(elsewhere)).failed()

    assert (
        "clusters: contains encrypted values, and Pulumi does not mark which; "
        "keep this key in Pulumi.refusals.yaml, or set GPUPOOLS_STACK_FILE to its file"
    ) in up.output
    assert not any(each in shown(check_pool, up) for each in FORBIDDEN)
    named = check_pool.engine.up("refusals", "--config-file", str(elsewhere), GPUPOOLS_STACK_FILE=str(elsewhere))
    assert not any(each in shown(check_pool, named.succeeded()) for each in FORBIDDEN)


DATED = """
config:
  gpupools:clusters:
    lab: {cloud: gcp, name: l, project: ml-lab, location: europe-west4, service_account: gpu@ml.iam.gserviceaccount.com}
  gpupools:pools:
    c: {clusters: [lab], gpu: L4, nodes: {max: 2}, tags: {expires: 2026-12-31}}
"""


@pytest.mark.parametrize(
    ("salted", "said"),
    [
        (True, "is a date, which Pulumi would convert to other text; write it in quotes"),
        # The CLI adds the salt on its way to the program, and saves its own text for the date.
        (False, "is an unquoted date that Pulumi rewrote; write the date in quotes"),
    ],
    ids=["as written", "rewritten by the CLI"],
)
def test_the_program_refuses_a_date_as_check_does(engine: Engine, salted: bool, said: str) -> None:
    name = f"dated-{salted}".lower()
    file = engine.repository / "stacks" / f"Pulumi.{name}.yaml"
    engine.run("stack", "init", name).succeeded()
    file.write_text((file.read_text(encoding="utf-8") if salted else "") + DATED, encoding="utf-8")
    up = engine.up(name).failed()
    check = engine.gpupools("check", str(file)).failed()

    assert f"pools.c.tags.expires: {said}" in up.output
    assert f"pools.c.tags.expires: {said}" in check.output
