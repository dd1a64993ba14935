"""The stack program and its stack's earlier state, as far as that goes without an engine."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import grpc
import pytest

from gpupools.preview.command import PROGRAM
from gpupools.preview.monitor import StrictMonitor
from gpupools.preview.program_run import Preview, preview_program
from gpupools.spec.models import LATE

CONFIG: dict[str, Any] = {
    "gpupools:production": True,
    "gpupools:clusters": {
        "serve": {"cloud": "azure", "name": "serve", "resource_group": "ml"},
        "lab": {
            "cloud": "gcp",
            "name": "lab",
            "project": "ml-lab",
            "location": "europe-west4",
            "service_account": "gpu@ml.iam.gserviceaccount.com",
        },
    },
    "gpupools:pools": {
        "a": {"clusters": ["serve"], "instance_type": "Standard_NC24ads_A100_v4", "nodes": {"max": 4}},
        "b": {"clusters": ["serve", "lab"], "gpu": "T4", "nodes": {"max": 4}},
        "c": {"clusters": ["lab"], "instance_type": "g2-standard-8", "nodes": {"max": 4}, "protect": False},
    },
}


def run(config: Mapping[str, Any], earlier: Mapping[str, Any] | None = None) -> Preview:
    """Preview a configuration; `earlier` is the state of the last update, URN to `{type, outputs}`."""

    def answered(monitor: StrictMonitor, request: Any) -> Any:
        response = INVOKE(monitor, request)
        if request.tok == "pulumi:pulumi:readStackResourceOutputs":
            getattr(response, "return").update({"outputs": earlier})
        return response

    with pytest.MonkeyPatch.context() as patched:
        if earlier is not None:
            patched.setattr(StrictMonitor, "Invoke", answered)
        return preview_program(PROGRAM, "prod", "gpupools", config)


INVOKE = StrictMonitor.Invoke


def state_after(preview: Preview) -> dict[str, Any]:
    outputs = preview.registered
    return {each.urn: {"type": each.type, "outputs": outputs.get(each.urn, {})} for each in preview.resources}


@pytest.fixture(scope="module")
def first() -> Preview:
    """Preview the stack when nobody knows what was before."""
    return run(CONFIG)


def edited(pools: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    config = copy.deepcopy(CONFIG) | {f"gpupools:{key}": value for key, value in keys.items()}
    for name, changes in pools.items():
        config["gpupools:pools"][name] |= changes
    return config


def protected(preview: Preview) -> dict[str, bool]:
    pools = [each for each in preview.resources if each.type.rpartition(":")[2] in ("AgentPool", "NodePool")]
    return {each.name: "protect" in each.options for each in pools}


def test_a_preview_without_an_earlier_state_refuses_nothing_and_says_nothing_of_it(first: Preview) -> None:
    assert (first.problems, first.messages) == ([], [])


def test_every_pool_of_a_production_stack_is_protected_that_does_not_say_otherwise(first: Preview) -> None:
    assert protected(first) == {"serve-a-pool": True, "serve-b-pool": True, "lab-b-nodes": True, "lab-c-nodes": False}


def test_a_pool_the_switch_names_is_declared_without_protection_on_that_cluster_alone() -> None:
    found = run(edited({}, allow_destroy=["serve/b", "serve/gone"]))

    assert found.messages == []  # whether serve/gone is there nobody knows
    assert protected(found) == {"serve-a-pool": True, "serve-b-pool": False, "lab-b-nodes": True, "lab-c-nodes": False}


def test_what_was_left_is_compared_and_refused_before_anything_is_declared(first: Preview) -> None:
    found = run(
        edited({"a": {"disk_gib": 400}, "b": {"disk_gib": 400}, "c": {"capacity": {"mode": "spot"}}}),
        state_after(first),
    )

    assert found.resources == []
    (problem,) = found.problems
    assert str(problem).splitlines() == [
        "the program logged an error: the stack was rejected, nothing was declared:",
        *(
            f"serve/{name}: is a production pool, and this update would replace it (up to 4 nodes × 1 GPU): disk_gib"
            f" 200 → 400; if this is intended, add serve/{name} to gpupools:allow_destroy"
            for name in "ab"
        ),
    ]


def test_the_same_file_again_declares_the_same(first: Preview) -> None:
    found = run(CONFIG, state_after(first))

    # What guards an update of pools that are there is not for their first one.
    guarded = [replace(each, options={**each.options, "hooks": None}) for each in found.resources]

    assert found.problems == []
    assert guarded == [replace(each, options={**each.options, "hooks": None}) for each in first.resources]


def test_the_switch_goes_through(first: Preview) -> None:
    found = run(edited({"a": {"disk_gib": 400}}, allow_destroy=["serve/a"]), state_after(first))

    said = "serve/a: this update would replace it (up to 4 nodes × 1 GPU): disk_gib 200 → 400"
    assert found.problems == []
    assert found.messages == [f"warning: {said}; allowed by gpupools:allow_destroy"]


def test_a_name_in_the_switch_that_never_was_is_refused(first: Preview) -> None:
    found = run(edited({"a": {"disk_gib": 400}}, allow_destroy=["serve/a", "serve/x"]), state_after(first))

    assert found.resources == []
    (problem,) = found.problems
    (said,) = str(problem).splitlines()[1:]
    assert said.startswith("allow_destroy[1]: 'serve/x' is no pool of this stack")
    assert said.endswith("did you mean 'serve/b' or 'serve/a'?")


def test_the_first_update_knows_that_there_was_nothing() -> None:
    found = run(edited({}, allow_destroy=["serve/x"]), {})

    assert "allow_destroy[0]: 'serve/x' is no pool of this stack" in str(found.problems)


def test_a_renamed_pool_is_neither_deleted_nor_replaced(first: Preview) -> None:
    config = edited({})
    pools = config["gpupools:pools"]
    pools["z"] = pools.pop("a") | {"renamed_from": "a"}

    assert run(config, state_after(first)).problems == []


def test_a_record_holds_no_address_that_another_stack_or_a_secret_gives() -> None:
    late = edited({})
    late["gpupools:clusters"]["serve"] |= {"stack": "org/net/prod", "subnet_id": {"output": "subnet"}}
    state = state_after(run(late))
    (urn,) = [urn for urn in state if urn.endswith("GpuNodePool::serve-a")]

    assert state[urn]["outputs"]["record"]["values"]["cluster.subnet_id"] == "output of org/net/prod: subnet"


def test_a_record_has_no_encrypted_value() -> None:
    late = edited({})
    late["gpupools:clusters"]["serve"] |= {"subscription_id": LATE}
    state = state_after(run(late))
    (urn,) = [urn for urn in state if urn.endswith("GpuNodePool::serve-a")]

    assert state[urn]["outputs"]["record"]["values"]["cluster.subscription_id"] == "output of the configuration"


def test_a_state_that_cannot_be_read_is_said_and_left_to_pulumis_own_protection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failed(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNKNOWN

        def details(self) -> str:
            return "no backend client is available"

    def fail(*_: object) -> None:
        raise Failed

    monkeypatch.setattr(StrictMonitor, "Invoke", fail)
    found = run(CONFIG)

    assert found.problems == []
    (message,) = found.messages
    assert message.startswith(
        "warning: gpupools cannot read the stack's state, so only Pulumi's protect guards against deletion: "
    )
    assert message.endswith("no backend client is available")


@pytest.mark.parametrize("name", ["organization/gpupools/dev", "acme/other/prod"])
def test_the_state_of_another_stack_is_not_answered(name: str, tmp_path: Any) -> None:
    program = tmp_path / "__main__.py"
    program.write_text(
        f"import pulumi\npulumi.runtime.invoke('pulumi:pulumi:readStackResourceOutputs', {{'stackName': '{name}'}})\n",
        encoding="utf-8",
    )
    (problem,) = preview_program(program, "prod", "gpupools", {}).problems

    assert f"reads the state of the stack '{name}'" in str(problem)
