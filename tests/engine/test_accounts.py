"""Which account and region a stack's pools go to, and what the engine hands the program of a file nobody reads."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.engine.cli import Engine, Ran

pytestmark = pytest.mark.engine

CLUSTER = {
    "cloud": "aws",
    "name": "train",
    "region": "us-east-1",
    "subnet_ids": ["subnet-0a"],
    "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
}
POOL = {"clusters": ["train"], "instance_type": "g6e.12xlarge", "nodes": {"max": 4}}

Run = Callable[..., Ran]


@pytest.fixture
def run(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return a function that runs a command on a stack of this test with more configuration than the usual."""
    name = request.node.name.replace("_", "-")
    engine.run("stack", "init", name).well()
    file = engine.repository / "stacks" / f"Pulumi.{name}.yaml"
    salt = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}

    config = {"gpupools:clusters": {"train": {**CLUSTER, "name": name}}, "gpupools:pools": {"a": POOL}}

    def command(*arguments: str, **more: Any) -> Ran:
        file.write_text(yaml.safe_dump((salt or {}) | {"config": config | more}, sort_keys=False), encoding="utf-8")
        return engine.run(*arguments, "--stack", name)

    yield command
    engine.log_in("")


def test_credentials_of_another_account_than_the_roles_make_nothing(engine: Engine, run: Run) -> None:
    before = engine.journal()
    engine.log_in("999999999999")

    refused = run("up", "--yes", "--skip-preview").badly()

    assert "AWS account ID not allowed: 999999999999" in refused.output
    assert engine.journal() == before
    engine.log_in("123456789012")
    run("up", "--yes", "--skip-preview").well()
    assert engine.configured("aws")[-1]["allowedAccountIds"] == '["123456789012"]'
    assert engine.configured("aws")[-1]["region"] == "us-east-1"


def test_a_state_without_the_account_gets_it_in_place(engine: Engine, run: Run) -> None:
    run("up", "--yes", "--skip-preview").well()
    state = json.loads(run("stack", "export").well().output)
    for resource in state["deployment"]["resources"]:
        if resource["type"] == "pulumi:providers:aws":
            for side in ("inputs", "outputs"):
                assert resource[side].pop("allowedAccountIds") == '["123456789012"]'
    file = engine.folder / "without-account.json"
    file.write_text(json.dumps(state), encoding="utf-8")
    run("stack", "import", "--file", str(file)).well()
    before = engine.journal()

    shown = run("up", "--yes", "--skip-preview").well().output

    assert engine.journal() == before
    assert "1 updated" in shown


IDLE = {
    "aws:profile": ("prod-account", "set AWS_PROFILE where Pulumi runs"),
    "gcp:impersonateServiceAccount": ("d@x.example", "set GOOGLE_IMPERSONATE_SERVICE_ACCOUNT where Pulumi runs"),
    "azure-native:subscriptionId": ("0000", "write the cluster's subscription_id"),
    "kubernetes:context": ("prod", "write kubeconfig: {path: …, context: …} of the cluster"),
    "gpupools:prodution": (True, "did you mean 'production'?"),
    "gpupool:production": (True, "did you mean 'gpupools:production'?"),
}


def test_what_nobody_reads_is_refused_by_the_program_too(engine: Engine, run: Run) -> None:
    before = engine.journal()

    shown = run("up", "--yes", "--skip-preview", **{key: value for key, (value, _) in IDLE.items()}).badly().output

    lines = {line.strip() for line in shown.splitlines()}
    for key, (_, cure) in IDLE.items():
        assert [line for line in lines if line.startswith(f"{key}: ") and line.endswith(cure)], key
    assert "nothing was declared:" in shown
    assert engine.journal() == before


def test_configuration_of_others_is_left_alone(run: Run) -> None:
    run("preview", **{"acme-policies:cap": 3, "pulumi:tags": {"team": "ml"}}).well()
