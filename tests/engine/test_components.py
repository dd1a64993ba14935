"""`GpuNodePool` outside the stack program: in a program of one's own, and hosted for programs in other languages."""

import json
from typing import Any

import pytest

from tests.engine.cli import Engine
from tests.engine.stand_in import NODE_GROUP, NODE_POOL

pytestmark = pytest.mark.engine

# What a generated SDK does: it sends the inputs to the engine, which has the component's own process expand them.
HOSTED = """
import pulumi


class Pool(pulumi.ComponentResource):
    node_pool_name: pulumi.Output[str]
    capacity: pulumi.Output[dict]

    def __init__(self, name, inputs):
        outputs = {"node_pool_name": None, "capacity": None}
        super().__init__("gpupools:index:GpuNodePool", name, inputs | outputs, remote=True)

    def translate_output_property(self, name):
        return {"nodePoolName": "node_pool_name"}.get(name, name)


lab = {
    "name": pulumi.Output.from_input("lab-dev"),
    "project": "ml-dev",
    "location": "europe-west4",
    "serviceAccount": "gpu@ml.iam.gserviceaccount.com",
}
sharing = {"mode": "time-slicing", "replicas": 4}
pool = Pool(
    "hosted",
    {
        "cloud": "gcp",
        "cluster": lab,
        "poolName": "shared",
        "pool": {"gpu": "L4", "nodes": {"max": 3}, "sharing": sharing, "trust": {"team": "vision"}},
    },
)
pulumi.export("name", pool.node_pool_name)
pulumi.export("capacity", pool.capacity)
if pulumi.Config().get_bool("software"):
    import pulumi_kubernetes as kubernetes

    class Runtime(pulumi.ComponentResource):
        owners: pulumi.Output[dict]

        def __init__(self, name, inputs, opts):
            super().__init__("gpupools:index:GpuRuntime", name, inputs | {"owners": None}, opts, remote=True)

    pools = {"shared": {"gpu": "L4", "nodes": {"max": 3}, "sharing": sharing, "trust": {"team": "vision"}}}
    inside = kubernetes.Provider("inside", kubeconfig="{}")
    opts = pulumi.ResourceOptions(providers=[inside], depends_on=[pool])
    runtime = Runtime("software", {"cloud": "gcp", "cluster": lab, "pools": pools}, opts)
    pulumi.export("owners", runtime.owners)
if pulumi.Config().get_bool("refused"):
    Pool("refused", {"cloud": "gcp", "cluster": lab, "pool": {"gpu": "L4", "nodes": {"max": 0}, "diskGib": 1}})
"""
OF_ITS_OWN = """
from gpupools.components.gpu_node_pool import GpuNodePool

GpuNodePool("refused", {"cloud": "gcp", "cluster": {}, "pool": {"gpu": "L4", "nodes": {"max": 0}, "disk_gib": 1}})
"""
NOISE = (
    "Unexpected <class",
    "always* a bug",
    "connection is closing",
    "resource monitor shut down",
    "unhandled exception",
    "components/gpu_node_pool.py",
)
"""What a refusal read like when the engine took it for a crash."""


@pytest.fixture(scope="module")
def hosted(engine: Engine) -> Any:
    """Lay a project that finds the components where `PulumiPlugin.yaml` is."""
    plugin = {"name": "gpupools", "path": "../repository/components"}
    folder = engine.project("hosted", HOSTED, plugins={"providers": [plugin]})
    engine.run("stack", "init", "dev", project=folder).succeeded()
    return folder


def test_a_hosted_component_declares_its_pool_and_returns_its_outputs(engine: Engine, hosted: Any) -> None:
    engine.up("dev", project=hosted).succeeded()

    (pool,) = [pool for pool in engine.resources(NODE_POOL) if pool["inputs"]["cluster"] == "lab-dev"]
    (accelerator,) = pool["inputs"]["nodeConfig"]["guestAccelerators"]
    assert accelerator["gpuSharingConfig"] == {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 4}
    outputs = engine.run("stack", "output", "--json", "--stack", "dev", project=hosted).succeeded().output
    assert pool["inputs"]["name"] in outputs
    assert '"nvidia.com/gpu": 4' in outputs


@pytest.mark.parametrize("command", ["preview", "up --yes --skip-preview"])
def test_a_refused_hosted_component_says_why(engine: Engine, hosted: Any, command: str) -> None:
    ran = engine.run(*command.split(), "--stack", "dev", "--config", "refused=true", project=hosted)

    assert ran.code != 0
    assert "pool.nodes.max: got 0; use 1 or more\n    pool.diskGib: got 1; use 100 or more\n" in ran.output
    assert [noise for noise in NOISE if noise in ran.output] == []
    assert ran.output.count("pool.diskGib: got 1") <= 4  # the live display repeats its last line


def test_a_component_refused_in_its_own_program_shows_no_traceback(engine: Engine) -> None:
    project = engine.project("of-its-own", OF_ITS_OWN)
    engine.run("stack", "init", "dev", project=project).succeeded()
    ran = engine.run("preview", "--stack", "dev", project=project).failed()

    assert "    error: cluster" in ran.output
    assert "pool.disk_gib: got 1; use 100 or more\n" in ran.output
    assert [noise for noise in NOISE if noise in ran.output] == []


def test_a_resource_that_fails_inside_a_hosted_component_is_the_only_error(engine: Engine, hosted: Any) -> None:
    engine.unreachable("gcp")
    try:
        ran = engine.up("dev", "--config", "refused=false", "--replace", "**hosted-nodes", project=hosted)
    finally:
        engine.unreachable()

    assert ran.code != 0
    assert "error: the gcp API is unreachable" in ran.output
    assert [noise for noise in NOISE if noise in ran.output] == []


def test_the_software_of_a_cluster_goes_where_the_programs_provider_says(engine: Engine, hosted: Any) -> None:
    engine.up("dev", "--config", "software=true", "--config", "refused=false", project=hosted).succeeded()

    outputs = json.loads(engine.run("stack", "output", "--json", "--stack", "dev", project=hosted).succeeded().output)
    assert outputs["owners"]["shared"]["driver"]
    (provider,) = engine.configured("kubernetes")
    assert provider["kubeconfig"] == "{}"


def test_the_example_waits_until_its_own_role_may_be_used(engine: Engine) -> None:
    example = engine.repository / "examples" / "own_program"
    engine.run("stack", "init", "dev", project=example).succeeded()
    before = len(engine.journal())
    engine.up("dev", "--policy-pack", "../../policies", project=example).succeeded()

    (group,) = engine.resources(NODE_GROUP)
    assert group["inputs"]["clusterName"] == "research"
    created = [entry["type"] for entry in engine.journal()[before:]]
    permissions = [index for index, kind in enumerate(created) if kind.endswith(":RolePolicyAttachment")]
    assert len(permissions) == 3
    assert max(permissions) < created.index(NODE_GROUP)
