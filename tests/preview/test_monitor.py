"""The strict monitor refuses what the engine or a provider would, and answers as the engine's preview does."""

import asyncio
import contextvars

import pulumi
import pulumi_gcp
import pytest
from pulumi.runtime.proto import resource_pb2

from gpupools.preview.monitor import DeclaredResource, Refused, StrictMonitor, plain_struct
from gpupools.preview.program_run import Preview
from gpupools.preview.sdk_schema import SECRET, SIGNATURE, UNKNOWN
from tests.preview.conftest import RunProgram

COMPONENT = """
import pulumi

class Box(pulumi.ComponentResource):
    def __init__(self, name, opts=None):
        super().__init__("test:index:Box", name, {"size": 1}, opts)
        self.register_outputs({})
"""

GOOD = {
    "aws": """
import pulumi_aws as aws
group = aws.eks.NodeGroup("a", cluster_name="c", node_role_arn="r", subnet_ids=["s"],
    scaling_config={"desired_size": 0, "min_size": 0, "max_size": 4}, opts=OPTS)
""",
    "azure": """
from pulumi_azure_native import containerservice
pool = containerservice.AgentPool("a", resource_group_name="g", resource_name_="c", mode="User", opts=OPTS)
""",
    "gcp": """
import pulumi_gcp as gcp
pool = gcp.container.NodePool("a", cluster="c", node_config={"labels": {"a": "b"}}, opts=OPTS)
""",
    "kubernetes": """
import pulumi_kubernetes as kubernetes
release = kubernetes.helm.v3.Release("a", chart="c", values={"driver": {"enabled": False}}, opts=OPTS)
""",
}


def declare(sdk: str, options: str = "None") -> str:
    return "import pulumi\n" + GOOD[sdk].replace("OPTS", options)


def options_of(found: Preview, name: str = "a") -> dict[str, object]:
    return dict(named(found, name).options)


def named(found: Preview, name: str) -> DeclaredResource:
    return next(resource for resource in found.resources if resource.name == name)


def said(found: Preview) -> list[str]:
    return [str(problem) for problem in found.problems]


@pytest.mark.parametrize("sdk", GOOD)
def test_a_right_program_has_no_problem(preview: RunProgram, sdk: str) -> None:
    found = preview(declare(sdk))

    assert said(found) == []
    assert found.warnings == []
    assert [resource.name for resource in found.resources] == ["a"]


@pytest.mark.parametrize(
    ("sdk", "right", "wrong", "expected"),
    [
        ("aws", '"max_size": 4', '"max_size": "lots"', "NodeGroup::a.scalingConfig.maxSize: got 'lots'"),
        ("aws", '"max_size": 4', '"max_size": 4, "bogus_key": 7', "NodeGroup::a.scalingConfig.bogus_key: "),
        ("aws", '"min_size": 0, ', "", "NodeGroup::a.scalingConfig.minSize: is missing"),
        ("aws", 'node_role_arn="r"', "node_role_arn=123", "NodeGroup::a.nodeRoleArn: got 123"),
        ("azure", 'mode="User"', 'count="two"', "AgentPool::a.count: got 'two'"),
        ("azure", 'mode="User"', 'upgrade_settings={"surge": "1"}', "AgentPool::a.upgradeSettings.surge: "),
        ("azure", 'mode="User"', "node_taints=[1]", "AgentPool::a.nodeTaints[0]: got 1"),
        ("gcp", '"labels": {"a": "b"}', '"labels": {"a": 1}', "NodePool::a.nodeConfig.labels.a: got 1"),
        ("gcp", '"labels": {"a": "b"}', '"lables": {}', "NodePool::a.nodeConfig.lables: "),
        ("gcp", '"labels": {"a": "b"}', '"taints": [{"key": "k"}]', "NodePool::a.nodeConfig.taints[0].effect: is miss"),
        ("kubernetes", 'chart="c"', "chart=5", "Release::a.chart: got 5"),
        ("kubernetes", 'chart="c"', 'chart="c", repository_opts={"repos": "x"}', "Release::a.repositoryOpts.repos: "),
    ],
)
def test_a_seeded_error_is_found(preview: RunProgram, sdk: str, right: str, wrong: str, expected: str) -> None:
    program = declare(sdk)
    assert right in program

    found = preview(program.replace(right, wrong))

    assert any(expected in text for text in said(found)), said(found)


def test_a_value_the_sdk_does_not_know_is_a_warning(preview: RunProgram) -> None:
    found = preview(declare("azure").replace('"User"', '"Usr"'))

    assert said(found) == []
    assert "::a.mode: got 'Usr'" in str(found.warnings[0])


def test_problems_of_all_resources_are_found_in_one_run(preview: RunProgram) -> None:
    program = "".join(
        f'gcp.container.NodePool("{name}", cluster="c", initial_node_count="{name}")\n' for name in ("a", "b", "c")
    )

    assert len(said(preview(f"import pulumi_gcp as gcp\n{program}"))) == 3


@pytest.mark.parametrize("sdk", GOOD)
def test_two_resources_of_one_urn_are_refused(preview: RunProgram, sdk: str) -> None:
    found = preview(declare(sdk) + declare(sdk))

    assert [text.partition(": ")[2] for text in said(found)] == [
        "is declared twice; change the name or parent of one of them"
    ]


def test_one_name_below_two_parents_of_one_type_is_refused_too(preview: RunProgram) -> None:
    found = preview(
        COMPONENT
        + """
for name in ("x", "y"):
    Box("inner", pulumi.ResourceOptions(parent=Box(name)))
"""
    )

    assert [text.partition(": ")[2] for text in said(found)] == [
        "is declared twice; change the name or parent of one of them"
    ], "the engine's URN holds the parents' types, not their names"


def test_urns_hold_the_whole_chain_of_types_without_the_stack(preview: RunProgram) -> None:
    found = preview(
        COMPONENT
        + declare("gcp", "pulumi.ResourceOptions(parent=Box('in', pulumi.ResourceOptions(parent=Box('out'))))")
    )

    assert [resource.urn for resource in found.resources] == [
        "urn:pulumi:test::gpupools::test:index:Box::out",
        "urn:pulumi:test::gpupools::test:index:Box$test:index:Box::in",
        "urn:pulumi:test::gpupools::test:index:Box$test:index:Box$gcp:container/nodePool:NodePool::a",
    ]
    assert [resource.parent for resource in found.resources] == [None, *(r.urn for r in found.resources[:2])]


LOOK_UPS = {
    "function": "import pulumi_aws as aws\naws.get_region()",
    "function with output": "import pulumi_aws as aws\npulumi.export('x', aws.get_region_output().name)",
    "function that lists": "import pulumi_gcp as gcp\ngcp.container.get_engine_versions(location='l')",
    "existing resource": "import pulumi_gcp as gcp\ngcp.container.NodePool.get('a', 'id')",
    "azure function": "from pulumi_azure_native import containerservice as c\nc.get_agent_pool('a', 'g', 'c')",
}


@pytest.mark.parametrize("program", LOOK_UPS.values(), ids=list(LOOK_UPS))
def test_a_look_up_is_refused_once(preview: RunProgram, program: str) -> None:
    found = preview(f"import pulumi\n{program}")

    assert len(said(found)) == 1
    assert "cloud" in said(found)[0]


def test_a_resource_of_the_program_itself_may_be_looked_up() -> None:
    monitor = StrictMonitor()
    box = resource_pb2.RegisterResourceRequest(type="test:index:Box", name="a")
    box.object.update({"size": 1, "parts": [True]})
    urn = monitor.RegisterResource(box).urn

    request = resource_pb2.ResourceInvokeRequest(tok="pulumi:pulumi:getResource")
    request.args.update({"urn": urn})
    found = plain_struct(getattr(monitor.Invoke(request), "return"))
    assert found == {"urn": urn, "id": "", "state": {"size": 1, "parts": [True]}}

    request.args.update({"urn": "urn:nobody"})
    with pytest.raises(Refused):
        monitor.Invoke(request)
    assert len(monitor.problems) == 1


def test_outputs_of_another_stack_are_unknown(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi, pulumi_aws as aws
        other = pulumi.StackReference("organization/network/dev")
        again = pulumi.StackReference("second", stack_name="organization/network/dev")
        def never(value):
            raise AssertionError("an apply ran on an unknown value")
        aws.eks.NodeGroup("a", cluster_name=other.require_output("name"), node_role_arn=other.get_output("role"),
            subnet_ids=[again.require_output("subnets").apply(never)],
            scaling_config={"desired_size": 0, "min_size": 0, "max_size": 4})
        """
    )

    inputs = named(found, "a").inputs
    assert said(found) == []
    assert found.stack_references == ["organization/network/dev"]
    assert (inputs["clusterName"], inputs["nodeRoleArn"], inputs["subnetIds"]) == (UNKNOWN, UNKNOWN, [UNKNOWN])
    assert [resource.name for resource in found.resources] == ["a"]


def test_outputs_are_the_inputs_and_everything_else_is_unknown(preview: RunProgram) -> None:
    found = preview(
        declare("aws")
        + """
for name, value in {"known": group.cluster_name, "nested": group.scaling_config.max_size,
                    "arn": group.arn, "id": group.id, "left out": group.ami_type}.items():
    pulumi.export(name, value.apply(lambda value: value))
pulumi.export("urn", group.urn)
"""
    )

    assert found.outputs == {
        "known": "c",
        "nested": 4,
        "arn": UNKNOWN,
        "id": UNKNOWN,
        "left out": UNKNOWN,
        "urn": "urn:pulumi:test::gpupools::aws:eks/nodeGroup:NodeGroup::a",
    }


def test_inputs_are_recorded_as_they_go_over_the_wire(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi, pulumi_gcp as gcp
        first = gcp.container.NodePool("first", cluster="c")
        gcp.container.NodePool("a", cluster=pulumi.Output.secret("hidden"), initial_node_count=2,
            max_pods_per_node=None, node_locations=[first.id, "z"],
            node_config={"disk_size_gb": 100, "spot": False, "labels": {"my_key": "v"}},
            upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(max_surge=1))
        """
    )

    assert said(found) == []
    assert named(found, "a").inputs == {
        "cluster": {SIGNATURE: SECRET, "value": "hidden"},
        "initialNodeCount": 2,
        "nodeConfig": {"diskSizeGb": 100, "labels": {"my_key": "v"}, "spot": False},
        "nodeLocations": [UNKNOWN, "z"],
        "upgradeSettings": {"maxSurge": 1},
    }


def test_options_are_recorded_in_the_engines_words(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi, pulumi_gcp as gcp
        provider = gcp.Provider("p", project="x")
        first = gcp.container.NodePool("first", cluster="c")
        second = gcp.container.NodePool("second", cluster=first.cluster)
        gcp.container.NodePool("a", cluster=second.name, opts=pulumi.ResourceOptions(
            provider=provider, protect=True, retain_on_delete=True, delete_before_replace=False, depends_on=[first],
            ignore_changes=["node_count", "nodeConfig.labels"], replace_on_changes=["cluster"], version="10.2.0",
            additional_secret_outputs=["operation"], custom_timeouts=pulumi.CustomTimeouts(create="1h"),
            aliases=[pulumi.Alias(name="old", parent=pulumi.ROOT_STACK_RESOURCE), "urn:pulumi:x::y::a:b:c::d"]))
        """
    )

    urn = "urn:pulumi:test::gpupools::gcp:container/nodePool:NodePool::"
    assert said(found) == []
    assert options_of(found) == {
        "provider": f"urn:pulumi:test::gpupools::pulumi:providers:gcp::p::{UNKNOWN}",
        "version": "10.2.0",
        "protect": True,
        "retainOnDelete": True,
        "deleteBeforeReplace": False,
        "dependsOn": [f"{urn}first"],
        "propertyDependencies": {"cluster": [f"{urn}second"]},
        "ignoreChanges": ["nodeCount", "nodeConfig.labels"],
        "replaceOnChanges": ["cluster"],
        "additionalSecretOutputs": ["operation"],
        "customTimeouts": {"create": "1h"},
        "aliases": [{"name": "old", "parent": None}, {"urn": "urn:pulumi:x::y::a:b:c::d"}],
    }


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("pulumi.CustomResource('aws:eks/nodeGroop:NodeGroup', 'a', {})", "has the type 'aws:eks/nodeGroop:NodeGroup'"),
        ("pulumi.CustomResource('gpupools:index:GpuNodePool', 'a', {})", "has the type 'gpupools:index:GpuNodePool'"),
    ],
)
def test_a_type_nobody_here_declares_is_refused(preview: RunProgram, program: str, expected: str) -> None:
    found = preview(f"import pulumi, pulumi_aws\n{program}")

    assert len(said(found)) == 1
    assert expected in said(found)[0]


def test_the_monitor_works_with_the_stock_set_mocks() -> None:
    monitor = StrictMonitor()

    def program() -> None:
        pulumi_gcp.container.NodePool("a", cluster="c", max_pods_per_node=True)

    async def main() -> None:
        pulumi.runtime.set_mocks(monitor.mocks, "gpupools", "test", preview=True, monitor=monitor)
        await pulumi.runtime.stack.run_pulumi_func(program)

    contextvars.copy_context().run(asyncio.run, main())

    assert [resource.name for resource in monitor.declared.values()] == ["a"]
    assert "maxPodsPerNode: got true" in str(monitor.problems[0])
