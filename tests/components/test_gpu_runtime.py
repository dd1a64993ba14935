"""The GPU software of a cluster as it is declared: by the stack program over the whole matrix, and in a program."""

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.catalog.requirements import requirement
from gpupools.common.errors import Rejected
from gpupools.components.gpu_node_pool import TrustArgs
from gpupools.components.gpu_runtime import GpuRuntimeArgs, plan_args
from gpupools.diff.software_diff import protected_steps
from gpupools.plan.capability import Verdict
from gpupools.plan.software_plan import RuntimePlan
from gpupools.preview.command import preview_file
from gpupools.preview.format_preview import Report
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.program_run import Preview, preview_program
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.providers import clouds
from gpupools.spec.models import LATE, SHARING_KINDS
from gpupools.spec.software_spec import Trust
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import plan_config

RunProgram = Callable[[str], Preview]
STACKS = Path(__file__).resolve().parents[2] / "stacks"
PROGRAM = STACKS / "__main__.py"
COMPONENT = "gpupools:index:GpuRuntime"
POOL = "gpupools:index:GpuNodePool"
PROVIDER = "pulumi:providers:kubernetes"

MATRIX: dict[str, Any] = yaml.safe_load((STACKS / "Pulumi.matrix.yaml").read_text(encoding="utf-8"))["config"]


def run(config: Mapping[str, Any]) -> Preview:
    return preview_program(PROGRAM, "matrix", "gpupools", config)


def planned(config: Mapping[str, Any]) -> list[RuntimePlan]:
    keys = {key.removeprefix("gpupools:"): value for key, value in config.items()}
    return list(plan_config(keys, clouds()).runtimes)


def of_type(shown: Preview, *types: str) -> list[DeclaredResource]:
    return [resource for resource in shown.resources if resource.type in types]


def below(shown: Preview, component: DeclaredResource) -> list[DeclaredResource]:
    return [resource for resource in shown.resources if resource.parent == component.urn]


@pytest.fixture(scope="module")
def report() -> Report:
    """Preview the whole matrix once, and let the policy pack judge it."""
    return preview_file(check_stack_file(STACKS / "Pulumi.matrix.yaml", clouds()))


@pytest.fixture(scope="module")
def shown(report: Report) -> Preview:
    return report.preview


@pytest.fixture(scope="module")
def runtimes() -> list[RuntimePlan]:
    return planned(MATRIX)


# --- the stack program over the whole matrix ---


def test_every_way_the_matrix_has_is_in_the_example_stack() -> None:
    plan = plan_config({key.removeprefix("gpupools:"): value for key, value in MATRIX.items()}, clouds())
    there = {(pool.cloud, pool.software, pool.sharing.kind) for pool in plan.pools}

    possible = {
        (cloud.name, software, kind)
        for cloud in clouds().values()
        for software in cloud.software
        for kind in SHARING_KINDS
        if cloud.capabilities[software, kind].verdict is not Verdict.REFUSED
    }
    assert there >= possible
    assert {pool.sharing.kind for pool in plan.stack.pools.values()} >= {kind for _, _, kind in possible}


def test_nothing_is_wrong_with_any_release_or_object(shown: Preview) -> None:
    assert (shown.problems, shown.warnings) == ([], [])
    assert of_type(shown, "kubernetes:helm.sh/v3:Release")


def test_every_cluster_gets_what_its_plan_says_once_below_one_component(
    shown: Preview, runtimes: list[RuntimePlan]
) -> None:
    components = {component.name: component for component in of_type(shown, COMPONENT)}

    assert set(components) == {f"{plan.cluster}-runtime" for plan in runtimes if plan.needs_kubernetes}
    for plan in runtimes:
        children = below(shown, components[f"{plan.cluster}-runtime"])
        steps = [*(each.name for each in plan.releases), *(each.name for each in plan.objects)]
        assert sorted(child.name for child in children) == sorted(
            f"{plan.cluster}-runtime-{step.replace('/', '-')}" for step in steps
        )
        manifests = {f"{plan.cluster}-runtime-{each.name.replace('/', '-')}": each for each in plan.objects}
        for child in children:
            if child.name in manifests:
                manifest = manifests[child.name].manifest
                assert {key: value for key, value in child.inputs.items() if key != "metadata"} == {
                    key: value for key, value in plain(manifest).items() if key != "metadata"
                }


def plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=dict))


def test_each_cluster_is_spoken_to_through_its_own_provider_only(shown: Preview) -> None:
    assert {provider.name for provider in of_type(shown, PROVIDER)} == {
        f"{name}-kubernetes" for name in MATRIX["gpupools:clusters"]
    }
    for component in of_type(shown, COMPONENT):
        wanted = f"{component.name.removesuffix('-runtime')}-kubernetes"
        used = {child.options["provider"].rpartition("::")[0].rpartition("::")[2] for child in below(shown, component)}
        assert used == {wanted}


def test_every_step_waits_for_what_comes_before_it(shown: Preview, runtimes: list[RuntimePlan]) -> None:
    by_name = {resource.name: resource for resource in shown.resources}

    def made(plan: RuntimePlan, step: str) -> list[DeclaredResource]:
        if step.startswith("pool/"):
            return below(shown, by_name[f"{plan.cluster}-{step.removeprefix('pool/')}"])
        return [by_name[f"{plan.cluster}-runtime-{step.replace('/', '-')}"]]

    arrows = 0
    for plan in runtimes:
        for step, before in plan.depends.items():
            wanted = {each.urn for earlier in before for each in made(plan, earlier) if each.custom}
            for resource in made(plan, step):
                assert wanted <= set(dependencies(resource))
                arrows += len(wanted)
    assert arrows


def dependencies(resource: DeclaredResource) -> Iterable[str]:
    implied = [urn for urns in resource.options.get("propertyDependencies", {}).values() for urn in urns]
    return [*resource.options.get("dependsOn", []), *implied]


def test_pools_wait_for_software_only_where_the_plan_says_so(shown: Preview, runtimes: list[RuntimePlan]) -> None:
    waiting = {
        resource.name
        for component in of_type(shown, POOL)
        for resource in below(shown, component)
        if any("$kubernetes:" in urn or "::kubernetes:" in urn for urn in dependencies(resource))
    }

    meant = {f"{plan.cluster}-{step.removeprefix('pool/')}" for plan in runtimes for step in waiting_pools(plan)}
    assert {name for name in waiting if not any(name.startswith(f"{pool}-") for pool in meant)} == set()


def waiting_pools(plan: RuntimePlan) -> list[str]:
    return [
        step
        for step, before in plan.depends.items()
        if step.startswith("pool/") and any(not each.startswith("pool/") for each in before)
    ]


def test_software_that_protected_pools_live_by_is_protected_and_nothing_else_is() -> None:
    config = {**only("lab", MATRIX), "gpupools:production": True}
    plan = plan_config({key.removeprefix("gpupools:"): value for key, value in config.items()}, clouds())
    ((runtime,), meant) = plan.runtimes, protected_steps(plan.runtimes[0], plan.stack)
    shown = run(config)
    (component,) = of_type(shown, COMPONENT)
    steps = [*(each.name for each in runtime.releases), *(each.name for each in runtime.objects)]

    assert 0 < len(meant) < len(steps)
    assert {each.name: each.options.get("protect") for each in below(shown, component)} == {
        f"lab-runtime-{step.replace('/', '-')}": True if step in meant else None for step in steps
    }


def test_owners_and_pods_are_stack_outputs(shown: Preview, runtimes: list[RuntimePlan]) -> None:
    assert shown.outputs["owners"] == {plan.cluster: plan.as_json()["owners"] for plan in runtimes}
    for plan in runtimes:
        for pool, pod in plan.as_json()["pods"].items():
            output = shown.outputs["pools"][f"{plan.cluster}/{pool}"]
            assert output["pod"] == pod
            assert output.get("claim_template") == plan.claim_templates.get(pool)
    assert {pool for plan in runtimes for pool in plan.claim_templates} == {"claimed"}


def test_everything_declared_passes_the_policies(report: Report) -> None:
    assert report.verdicts
    assert [verdict.as_json() for verdict in report.verdicts if verdict.refuses] == []
    assert report.exit_code == 0


# --- access to the cluster ---


def changed(cluster: str, **keys: Any) -> dict[str, Any]:
    """Return the matrix with another way into one cluster."""
    config = copy.deepcopy(MATRIX)
    for key in ("kubeconfig", "endpoint", "certificate_authority"):
        config["gpupools:clusters"][cluster].pop(key, None)
    config["gpupools:clusters"][cluster] |= keys
    return config


def only(cluster: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a configuration that one cluster and its pools are, with whole GPUs and nothing extra."""
    alone = {key: value for key, value in config["gpupools:clusters"][cluster].items() if key != "runtime"}
    pools = {
        name: pool | {"clusters": [cluster]}
        for name, pool in config["gpupools:pools"].items()
        if cluster in pool["clusters"] and "sharing" not in pool
    }
    return {"gpupools:clusters": {cluster: alone}, "gpupools:pools": pools}


def test_a_cluster_whose_address_is_not_known_yet_is_planned_in_full(runtimes: list[RuntimePlan]) -> None:
    shown = run(only("train", MATRIX))  # endpoint and authority are outputs of another stack, unknown here

    assert shown.problems == []
    (provider,) = of_type(shown, PROVIDER)
    assert provider.inputs["kubeconfig"] == UNKNOWN
    (component,) = of_type(shown, COMPONENT)
    (plan,) = planned(only("train", MATRIX))
    assert len(below(shown, component)) == len(plan.releases) + len(plan.objects)


def test_a_kubeconfig_in_the_stacks_secrets_reaches_the_provider_alone() -> None:
    shown = run(only("serve", changed("serve", kubeconfig={"secret": LATE})))

    assert shown.problems == []
    (provider,) = of_type(shown, PROVIDER)
    assert provider.inputs["kubeconfig"]["value"] == UNKNOWN
    assert [each.name for each in shown.resources if "kubeconfig" in json.dumps(each.inputs, default=dict)] == [
        provider.name
    ]


def test_a_kubeconfig_in_clear_text_is_refused_and_not_repeated() -> None:
    shown = run(only("serve", changed("serve", kubeconfig={"secret": "token: hunter2"})))

    (said,) = map(str, shown.problems)
    assert "clusters.serve.kubeconfig.secret: is stored as clear text; set it with pulumi config set --secret" in said
    assert "hunter2" not in said
    assert shown.resources == []


def test_a_cluster_that_needs_software_but_names_no_way_in_is_refused_with_the_cure() -> None:
    config = only("serve", changed("serve"))
    config["gpupools:pools"] = {
        name: {**pool, "sharing": {"mode": "time-slicing", "replicas": 2}, "trust": {"team": "research"}}
        for name, pool in config["gpupools:pools"].items()
        if pool["software"] in ("device-plugin", "gpu-operator")
    }

    with pytest.raises(Rejected) as rejected:
        planned(config)

    (said,) = map(str, rejected.value.problems)
    assert said.startswith("clusters.serve: its pools need software in the cluster (")
    assert "add kubeconfig: {path: …}, {secret: {secure: …}} or {output: …}, or endpoint and" in said


def test_whole_gpus_need_no_way_in_and_the_plan_says_who_then_brings_the_plugin() -> None:
    config = only("serve", changed("serve"))
    pools = {k: v for k, v in config["gpupools:pools"].items() if v["software"] == "device-plugin"}

    runtimes = planned({**config, "gpupools:pools": pools})

    (runtime,) = runtimes
    assert (runtime.releases, runtime.objects) == ((), ())
    assert "nothing is installed in it, and no device plugin is named" in str(runtime.warnings[0])


def test_pools_that_no_software_could_serve_together_are_refused_before_anybody_gives_a_way_in() -> None:
    pool = {"clusters": ["lab"], "gpu": "T4", "nodes": {"max": 2}, "software": "gpu-operator"}
    pools = {"a": pool, "b": {**pool, "image": {"family": "ubuntu"}}, "c": {**pool, "taints": ["team=x:NoExecute"]}}
    cluster = dict(clouds()["gcp"].example_cluster)
    reasons = []
    for access in ({}, {"kubeconfig": {"path": "~/.kube/lab"}}):
        with pytest.raises(Rejected) as rejected:
            plan_config({"clusters": {"lab": cluster | access}, "pools": pools}, clouds())
        reasons.append([str(problem) for problem in rejected.value.problems])

    assert reasons[0] == reasons[1]
    assert [reason.partition(" (")[0] for reason in reasons[0]][:1] == [
        "pools.b.software: needs different pieces from pool a"
    ]


@pytest.mark.parametrize("cluster", ["train", "serve", "lab"])
def test_a_cluster_whose_pools_need_nothing_in_it_has_no_runtime_and_needs_no_way_in(cluster: str) -> None:
    config = only(cluster, changed(cluster))
    pools = {k: v for k, v in config["gpupools:pools"].items() if v["software"] == "cloud-managed"}
    shown = run({**config, "gpupools:pools": pools})

    assert shown.problems == []
    assert of_type(shown, POOL)
    assert [each.type for each in shown.resources if "kubernetes" in each.type] == []
    assert of_type(shown, COMPONENT) == []


# --- in a program of one's own ---


def own_args(**changes: Any) -> GpuRuntimeArgs:
    """Return the arguments for two AKS pools."""
    keys: Any = {
        "cloud": "azure",
        "cluster": {key: value for key, value in clouds()["azure"].example_cluster.items() if key != "cloud"},
        "pools": {
            "a": {"gpu": "T4", "nodes": {"max": 2}, "software": "device-plugin"},
            "b": {"gpu": "T4", "nodes": {"max": 2}, "software": "device-plugin", "taints": ["team=x:NoSchedule"]},
        },
    }
    return keys | changes  # type: ignore[no-any-return]


OWN = """
import pulumi_kubernetes as kubernetes
from gpupools.components.gpu_runtime import GpuRuntime
api = kubernetes.Provider("api", kubeconfig="/etc/kubeconfig")
"""


def test_a_program_gives_the_provider_and_the_pools_to_wait_for(preview: RunProgram) -> None:
    shown = preview(
        f"""
        {OWN.replace(chr(10), chr(10) + " " * 8)}
        args = {own_args()!r}
        pools = [
            GpuNodePool(name, {{"cloud": "azure", "cluster": args["cluster"], "pool": pool}})
            for name, pool in args["pools"].items()
        ]
        made = GpuRuntime("software", args, pulumi.ResourceOptions(providers=[api], depends_on=pools))
        pulumi.export("owners", made.owners)
        pulumi.export("pods", made.pods)
        """
    )

    assert shown.problems == []
    (component,) = of_type(shown, COMPONENT)
    plan = plan_args(own_args())
    assert len(below(shown, component)) == len(plan.releases) + len(plan.objects)
    assert set(shown.outputs["owners"]) == set(shown.outputs["pods"]) == {"a", "b"}
    assert shown.registered[component.urn] == shown.outputs
    pools = {each.urn for each in shown.resources if each.type.endswith(":AgentPool")}
    (release, *_) = [each for each in below(shown, component) if each.type.endswith(":Release")]
    assert pools <= set(dependencies(release))


@pytest.mark.parametrize(
    ("options", "waited"),
    [
        ("depends_on=pool", ["pool-pool"]),
        ("depends_on=[pool]", ["pool-pool"]),
        ("depends_on=[]", []),
        ("", []),
    ],
    ids=["one", "a list", "none", "not said"],
)
def test_what_the_plan_puts_after_the_pools_waits_for_those_it_is_given(
    preview: RunProgram, options: str, waited: list[str]
) -> None:
    shown = preview(
        f"""
        {OWN.replace(chr(10), chr(10) + " " * 8)}
        args = {own_args()!r}
        pool = GpuNodePool("pool", {{"cloud": "azure", "cluster": args["cluster"], "pool": args["pools"]["a"],
            "pool_name": "a"}})
        GpuRuntime("software", args, pulumi.ResourceOptions(providers=[api], {options}))
        """
    )
    pools = {each.urn: each.name for each in shown.resources if each.type.endswith(":AgentPool")}
    steps = plan_args(own_args()).depends
    after = {each for each, before in steps.items() if any(step.startswith("pool/") for step in before)}
    found = {
        each.name.removeprefix("software-"): sorted(pools[urn] for urn in dependencies(each) if urn in pools)
        for each in below(shown, of_type(shown, COMPONENT)[0])
    }

    assert shown.problems == []
    assert after
    assert {step: found[step.replace("/", "-")] for step in after} == dict.fromkeys(after, waited)


def test_a_cluster_that_needs_nothing_in_it_needs_no_options(preview: RunProgram) -> None:
    pools = {"a": {"gpu": "L4", "nodes": {"max": 2}}}
    cluster = {key: value for key, value in clouds()["gcp"].example_cluster.items() if key != "cloud"}
    given = own_args(cloud="gcp", cluster=cluster, pools=pools)
    shown = preview(f"{OWN}GpuRuntime('software', {given!r})\nGpuRuntime('more', {given!r}, pulumi.ResourceOptions())")

    assert shown.problems == []
    assert [below(shown, each) for each in of_type(shown, COMPONENT)] == [[], []]


def test_without_a_provider_for_the_cluster_nothing_is_installed_anywhere(preview: RunProgram) -> None:
    shown = preview(OWN + f"GpuRuntime('software', {own_args()!r})")

    (said,) = map(str, shown.problems)
    assert said.startswith("opts.providers: this cluster needs a Kubernetes provider; add one")
    assert [each.type for each in shown.resources if each.type.startswith("kubernetes:")] == []


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        pytest.param({"cloud": "gpc"}, ["cloud: unknown cloud 'gpc'"], id="cloud"),
        pytest.param({"pools": {}}, ["pools: must be a map of pools"], id="no pools"),
        pytest.param({"pools": ["a"]}, ["pools: must be a map of pools"], id="a list of pools"),
        pytest.param({"pools": {"A": {"gpu": "T4", "nodes": {"max": 1}}}}, ["pools.A: is not a valid"], id="a bad key"),
        pytest.param(
            {"cluster": {"name": "x"}, "pools": {"a": {"gpu": "T9", "nodes": {"max": 0}}}},
            ["cluster.resource_group: is missing", "pools.a.nodes.max: got 0"],
            id="cluster and pool",
        ),
        pytest.param(
            {"pools": {"a": {"gpu": "T9", "nodes": {"max": 1}}}}, ["pools.a.gpu: 'T9' is not an NVIDIA"], id="a plan"
        ),
    ],
)
def test_every_reason_is_given_with_the_argument_it_is_about(changes: dict[str, Any], starts: list[str]) -> None:
    with pytest.raises(Rejected) as rejected:
        plan_args(own_args(**changes))

    said = [str(problem) for problem in rejected.value.problems]
    assert [text.startswith(start) for text, start in zip(said, starts, strict=True)] == [True] * len(starts)


def test_two_owners_of_a_piece_are_refused_under_the_components_own_arguments() -> None:
    existing = {"existing": {"device_plugin": "kube-system/nvidia-device-plugin-daemonset"}}
    cluster = {**own_args()["cluster"], "runtime": existing}
    with pytest.raises(Rejected) as rejected:
        plan_args(own_args(cluster=cluster))

    said = str(rejected.value)
    assert "device plugin" in said
    assert "kube-system/nvidia-device-plugin-daemonset" in said
    assert {problem.path[0] for problem in rejected.value.problems} <= {"pools", "cluster"}


def test_a_reason_keeps_its_source_under_the_components_own_arguments() -> None:
    cluster = {**own_args()["cluster"], "runtime": {"kubernetes": "1.20", "trust_policy": True}}
    shared = {"sharing": {"mode": "time-slicing", "replicas": 2}, "trust": {"team": "research"}}
    pool = {"gpu": "T4", "nodes": {"max": 2}, "software": "device-plugin", **shared}
    with pytest.raises(Rejected) as caught:
        plan_args(own_args(cluster=cluster, pools={"a": pool}))

    old = next(each for each in caught.value.problems if each.path == ("cluster", "runtime", "kubernetes"))
    assert str(old).endswith(f"(see {requirement('ValidatingAdmissionPolicy', 'kubernetes').source})")


def test_the_typed_trust_has_the_keys_of_a_stack_file() -> None:
    assert set(TrustArgs.__annotations__) == set(Trust.model_fields)
