"""Which account and region a stack's pools go to, and what the engine hands the program of a file nobody reads."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.stand_in import LAUNCH_TEMPLATE, NODE_GROUP

pytestmark = pytest.mark.engine

CLUSTER = {
    "cloud": "aws",
    "name": "train",
    "region": "us-east-1",
    "subnet_ids": ["subnet-0000000a"],
    "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
}
POOL = {"clusters": ["train"], "instance_type": "g6e.12xlarge", "nodes": {"max": 4}}

Run = Callable[..., CommandResult]


@pytest.fixture
def run(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return a function that runs a command on a stack of this test with more configuration than the usual."""
    name = re.sub("[^a-z0-9-]+", "-", request.node.name.lower())[:90]
    engine.run("stack", "init", name).succeeded()
    file = engine.repository / "stacks" / f"Pulumi.{name}.yaml"
    salt = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}

    config = {"gpupools:clusters": {"train": {**CLUSTER, "name": name}}, "gpupools:pools": {"a": POOL}}

    def command(*arguments: str, **more: Any) -> CommandResult:
        file.write_text(yaml.safe_dump((salt or {}) | {"config": config | more}, sort_keys=False), encoding="utf-8")
        return engine.run(*arguments, "--stack", name)

    yield command
    engine.log_in("")


def test_credentials_of_another_account_than_the_roles_make_nothing(engine: Engine, run: Run) -> None:
    before = engine.journal()
    engine.log_in("999999999999")

    refused = run("up", "--yes", "--skip-preview").failed()

    assert "AWS account ID not allowed: 999999999999" in refused.output
    assert engine.journal() == before
    engine.log_in("123456789012")
    run("up", "--yes", "--skip-preview").succeeded()
    assert engine.configured("aws")[-1]["allowedAccountIds"] == '["123456789012"]'
    assert engine.configured("aws")[-1]["region"] == "us-east-1"


def test_a_state_without_the_account_gets_it_in_place(engine: Engine, run: Run) -> None:
    run("up", "--yes", "--skip-preview").succeeded()
    state = json.loads(run("stack", "export").succeeded().output)
    for resource in state["deployment"]["resources"]:
        if resource["type"] == "pulumi:providers:aws":
            for side in ("inputs", "outputs"):
                assert resource[side].pop("allowedAccountIds") == '["123456789012"]'
    file = engine.folder / "without-account.json"
    file.write_text(json.dumps(state), encoding="utf-8")
    run("stack", "import", "--file", str(file)).succeeded()
    before = engine.journal()

    shown = run("up", "--yes", "--skip-preview").succeeded().output

    assert engine.journal() == before
    assert "1 updated" in shown


ROLE = "arn:aws:iam::{}:role/{}"
HERE, THERE = "123456789012", "999999999999"
PLATFORM = {"stack": "organization/platform/accounts", "node_role_arn": {"output": "role"}}
WRONG = [
    pytest.param({}, {"account": THERE}, f"not allowed: {THERE}", id="the login is of another account"),
    pytest.param({"account": HERE}, {"account": THERE}, f"not allowed: {THERE}", id="than the file says"),
    pytest.param({"profile": "prod"}, {"account": HERE, "prod": THERE}, f"not allowed: {THERE}", id="so is a profile"),
    pytest.param({"profile": "prd"}, {"account": HERE, "prod": HERE}, "profile, prd", id="no such profile"),
    pytest.param(
        {"profile": "prod", "assume_role": ROLE.format(THERE, "deployer")},
        {"account": HERE, "prod": HERE},
        f"assume_role: is in account {THERE}, but node_role_arn names {HERE}",
        id="a role of another account",
    ),
    pytest.param(
        {"account": THERE}, {"account": THERE}, f"node_role_arn: is in account {HERE}, but account names", id="two say"
    ),
    pytest.param({"account": int(HERE)}, {"account": HERE}, "write the 12 digits in quotes", id="a number"),
    pytest.param(PLATFORM, {"account": HERE}, f"not allowed: {HERE}", id="a late role is of another account"),
    pytest.param(
        {**PLATFORM, "account": HERE},
        {"account": HERE},
        f"a node_role_arn is of another account than {HERE}, which account says",
        id="a late role against the account",
    ),
    pytest.param(
        {**PLATFORM, "assume_role": ROLE.format(HERE, "deployer")},
        {"account": HERE},
        f"a node_role_arn is of another account than {HERE}, which assume_role says",
        id="a late role against the role to assume",
    ),
    pytest.param({"cloud": "azure", "tenant_id": "contoso"}, {"account": ""}, "write the tenant's id", id="a tenant"),
    pytest.param(
        {"cloud": "gcp", "impersonate_service_account": "me@example.com"},
        {"account": ""},
        "write the address of a service account",
        id="no service account",
    ),
]
OTHERS: dict[str, dict[str, Any]] = {
    "azure": {"cloud": "azure", "resource_group": "ml"},
    "gcp": {
        "cloud": "gcp",
        "project": "ml-lab",
        "location": "europe-west4",
        "service_account": "gpu@ml.iam.gserviceaccount.com",
    },
}


@pytest.fixture(scope="module")
def platform(engine: Engine) -> None:
    """Create another stack, whose role is of another account."""
    project = engine.project("platform", "")
    engine.run("stack", "init", "accounts", project=project).succeeded()
    resource = {
        "type": "pulumi:pulumi:Stack",
        "urn": "urn:pulumi:accounts::platform::pulumi:pulumi:Stack::platform-accounts",
        "custom": False,
        "outputs": {"role": ROLE.format(THERE, "gpu-nodes")},
    }
    manifest = {"time": "2026-01-01T00:00:00Z", "magic": "", "version": ""}
    file = project / "state.json"
    file.write_text(json.dumps({"version": 3, "deployment": {"manifest": manifest, "resources": [resource]}}))
    engine.run("stack", "import", "--stack", "accounts", "--file", str(file), project=project).succeeded()


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(("keys", "login", "said"), WRONG)
def test_a_wrong_account_makes_nothing(
    keys: dict[str, Any], login: dict[str, str], said: str, engine: Engine, run: Run
) -> None:
    before = engine.journal()
    engine.log_in(**login)
    cluster = (
        {**CLUSTER, "name": "wrong", **keys}
        if "cloud" not in keys
        else {"name": "wrong", **OTHERS[keys["cloud"]], **keys}
    )

    refused = run("up", "--yes", "--skip-preview", **{"gpupools:clusters": {"train": cluster}}).failed()

    assert said in refused.output
    assert engine.journal() == before


def test_every_provider_that_acts_for_a_cluster_gets_its_identity(engine: Engine, run: Run) -> None:
    engine.log_in(THERE, prod=THERE)
    tenant, actor = "00000000-1111-2222-3333-444444444444", "deploy@ml.iam.gserviceaccount.com"
    access = {"endpoint": "https://10.0.0.1", "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"}
    clusters = {
        "train": {
            **CLUSTER,
            "name": "id-train",
            "account": HERE,
            "profile": "prod",
            "assume_role": ROLE.format(HERE, "d"),
        },
        "serve": {
            **OTHERS["azure"],
            "name": "id-serve",
            "subscription_id": "55555555-3333-2222-1111-000000000000",
            "tenant_id": tenant,
        },
        "lab": {**OTHERS["gcp"], "name": "id-lab", "impersonate_service_account": actor},
    }
    tags = {"owner": "ml"}
    pools = {
        key: {"clusters": [key], "instance_type": machine, "nodes": {"max": 1}, "software": "device-plugin"}
        for key, machine in (("train", "g6e.12xlarge"), ("serve", "Standard_NC24ads_A100_v4"), ("lab", "g2-standard-8"))
    }
    given = {
        key: {**cluster, **access, "endpoint": f"https://{key}.example", "tags": tags}
        for key, cluster in clusters.items()
    }

    run("up", "--yes", "--skip-preview", **{"gpupools:clusters": given, "gpupools:pools": pools}).succeeded()

    aws, azure, gcp = (engine.configured(package)[-1] for package in ("aws", "azure-native", "gcp"))
    assert (aws["allowedAccountIds"], aws["profile"]) == (json.dumps([HERE]), "prod")
    assert json.loads(aws["assumeRoles"]) == [{"roleArn": ROLE.format(HERE, "d")}]
    assert (azure["subscriptionId"], azure["tenantId"]) == ("55555555-3333-2222-1111-000000000000", tenant)
    assert (gcp["project"], gcp["impersonateServiceAccount"]) == ("ml-lab", actor)
    tokens = {
        config["current-context"]: config["users"][0]["user"]["exec"]["args"]
        for each in engine.configured("kubernetes")[-3:]
        for config in [json.loads(each["kubeconfig"])]
    }
    assert tokens["id-train"][:2] == ["--profile", "prod"]
    assert tokens["id-train"][tokens["id-train"].index("--role-arn") + 1] == ROLE.format(HERE, "d")
    assert tokens["id-serve"][-2:] == ["--tenant-id", tenant]
    assert tokens["id-lab"] == ["--impersonate_service_account", actor]
    made = {each["type"]: each["inputs"] for each in engine.resources()}
    assert made["azure-native:containerservice:AgentPool"]["tags"]["owner"] == "ml"
    assert made["gcp:container/nodePool:NodePool"]["nodeConfig"]["resourceLabels"]["owner"] == "ml"
    group = next(each for each in engine.resources(NODE_GROUP) if each["inputs"]["clusterName"] == "id-train")
    template = next(each for each in engine.resources(LAUNCH_TEMPLATE) if each["inputs"]["tags"].get("owner") == "ml")
    assert group["inputs"]["tags"]["owner"] == "ml"
    assert {
        each["resourceType"] for each in template["inputs"]["tagSpecifications"] if each["tags"]["owner"] == "ml"
    } >= {
        "instance",
        "volume",
    }


IDLE = {
    "aws:profile": ("prod-account", "write profile of the cluster"),
    "aws:defaultTags": ({"tags": {"x": "y"}}, "write tags of the cluster, which all its pools get"),
    "gcp:impersonateServiceAccount": ("d@x.example", "write impersonate_service_account of the cluster"),
    "gcp:defaultLabels": ({"x": "y"}, "write tags of the cluster, which all its pools get"),
    "azure-native:tenantId": ("0000", "write the cluster's tenant_id"),
    "azure-native:subscriptionId": ("0000", "write the cluster's subscription_id"),
    "kubernetes:context": ("prod", "write kubeconfig: {path: …, context: …} of the cluster"),
    "gpupools:prodution": (True, "did you mean 'production'?"),
    "gpupool:production": (True, "did you mean 'gpupools:production'?"),
}


def test_what_nobody_reads_is_refused_by_the_program_too(engine: Engine, run: Run) -> None:
    before = engine.journal()

    shown = run("up", "--yes", "--skip-preview", **{key: value for key, (value, _) in IDLE.items()}).failed().output

    lines = {line.strip() for line in shown.splitlines()}
    for key, (_, cure) in IDLE.items():
        assert [line for line in lines if line.startswith(f"{key}: ") and line.endswith(cure)], key
    assert "nothing was declared:" in shown
    assert engine.journal() == before


def test_configuration_of_others_is_left_alone(run: Run) -> None:
    run("preview", **{"acme-policies:cap": 3, "pulumi:tags": {"team": "ml"}}).succeeded()
