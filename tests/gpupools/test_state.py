"""`gpupools diff --state`: what the next update changes, from the state of the last one."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.preview.command import PROGRAM
from gpupools.preview.program_run import preview_program
from gpupools.providers import clouds
from gpupools.providers.aws.declared_inputs import NODE_TEMPLATE
from tests.said import joined

STATES = Path(__file__).parents[1] / "states"
"""States that released versions left, made by the real engine with the stand-ins of tests/engine."""
AUTOSCALER_TAG = "serve/b: pods stay; in place: AgentPool.tags.k8s.io_cluster-autoscaler_node-template_resources_"
"""What changed after the state of 0.1.0-dev was made: tags tell the autoscaler what AKS nodes offer."""
IMAGES_BY_DIGEST = [
    "serve: running pods keep their GPUs; changes chart nvidia-device-plugin 0.20.0, chart dcgm-exporter 4.8.2",
]
"""What changed after the state of 0.1.0-dev was made: images are pinned by digest."""
CHANGES: Mapping[str, list[str]] = {
    "0.1.0-dev.json": [
        f"{AUTOSCALER_TAG}nvidia.com_gpu none → 2",
        *IMAGES_BY_DIGEST,
        "unchanged: 2 pools",
    ],
}
"""What an upgrade from each of them changes."""
RESOURCES = list[dict[str, Any]]


def edited(folder: Path, change: Callable[[RESOURCES], object], **keys: Any) -> list[str]:
    """Write a changed copy of a state and of its stack file; return the arguments that compare them."""
    state = json.loads((STATES / "0.1.0-dev.json").read_text(encoding="utf-8"))
    change(state["deployment"]["resources"])
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    file = yaml.safe_load((STATES / "Pulumi.acme.yaml").read_text(encoding="utf-8"))
    for path, value in keys.items():
        at = file["config"]
        *above, last = f"gpupools:{path}".split("__")
        for key in above:
            at = at[key]
        at[last] = value
    (folder / "Pulumi.acme.yaml").write_text(yaml.safe_dump(file, sort_keys=False), encoding="utf-8")
    return ["diff", "--state", str(folder / "state.json"), str(folder / "Pulumi.acme.yaml")]


def of(resources: RESOURCES, name: str) -> dict[str, Any]:
    (found,) = [each for each in resources if each["urn"].endswith(f"::{name}")]
    return found


@pytest.mark.parametrize("state", sorted(each.name for each in STATES.glob("*.json")))
def test_an_upgrade_replaces_no_pool_and_lists_what_changes(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (STATES / state).stat().st_size <= 60_000

    assert main(["diff", "--exit-code", "--state", str(STATES / state), str(STATES / "Pulumi.acme.yaml")]) == 0

    found = joined(capsys.readouterr().out.splitlines())
    assert [each.partition(": the device plugin restarts")[0] for each in found] == CHANGES[state]


def template(resources: RESOURCES) -> None:
    """Let the last update have declared what another version of gpupools declared."""
    of(resources, "train-a-template")["inputs"]["metadataOptions"]["httpPutResponseHopLimit"] = 2


def tag(resources: RESOURCES) -> None:
    resources.remove(of(resources, "train-a-label/gpupools/pool"))


def taken_away(resources: RESOURCES) -> None:
    """Let `pulumi refresh` have found a taint gone."""
    of(resources, "lab-c-nodes")["inputs"]["nodeConfig"]["taints"] = []


def spot(resources: RESOURCES) -> None:
    of(resources, "train-a-nodes")["outputs"]["capacityType"] = "SPOT"
    of(resources, "serve-b-pool")["outputs"]["scaleSetPriority"] = "Regular"
    of(resources, "lab-c-nodes")["outputs"]["nodeConfig"]["spot"] = False


def stopped(resources: RESOURCES) -> None:
    of(resources, "serve-b-pool")["outputs"] |= {"powerState": {"code": "Stopped"}, "gpuInstanceProfile": ""}


def sliced(resources: RESOURCES) -> None:
    of(resources, "serve-b-pool")["outputs"] |= {"gpuInstanceProfile": "MIG1g", "powerState": {"code": "Running"}}


def limited(resources: RESOURCES) -> None:
    of(resources, "lab-c-nodes")["outputs"]["nodeConfig"] |= {"maxRunDuration": "3600s", "flexStart": False}


def confidential(resources: RESOURCES) -> None:
    config = of(resources, "lab-c-nodes")["outputs"]["nodeConfig"]
    config |= {"confidentialNodes": {"enabled": True}, "maxRunDuration": ""}


def refreshed(name: str, path: str, value: Any) -> Callable[[RESOURCES], None]:
    """Let `pulumi refresh` have found another value of an input that the plan declares."""

    def change(resources: RESOURCES) -> None:
        inputs = of(resources, name)["inputs"]
        *above, last = path.split(".")
        for key in above:
            inputs = inputs[key]
        inputs[last] = value

    return change


def nothing(resources: RESOURCES) -> None:
    assert resources


@pytest.mark.parametrize(
    ("change", "keys", "line"),
    [
        (
            template,
            {},
            (
                "train/a: drains 1 node at a time; "
                "rolling: LaunchTemplate.metadataOptions.httpPutResponseHopLimit 2 → 1; EKS drains and replaces"
            ),
        ),
        (
            tag,
            {},
            f"train/a: pods stay; in place: Tag.tag.{NODE_TEMPLATE}/label/gpupools/pool none → a",
        ),
        (taken_away, {}, "lab/c: effect on pods unknown; in place: NodePool.nodeConfig.taints [] → "),
        (
            spot,
            {},
            "warning: train/a: NodeGroup.capacityType is SPOT in the cloud, and the stack file leaves it at ON_DEMAND",
        ),
        (
            stopped,
            {},
            "warning: serve/b: AgentPool.powerState.code is Stopped in the cloud, and the stack file leaves it at Run",
        ),
        (
            sliced,
            {},
            "warning: serve/b: AgentPool.gpuInstanceProfile is MIG1g in the cloud, and the stack file leaves it at no",
        ),
        (limited, {}, "warning: lab/c: NodePool.nodeConfig.maxRunDuration is 3600s in the cloud, and the stack file"),
        (confidential, {}, "warning: lab/c: NodePool.nodeConfig.confidentialNodes.enabled is True in the cloud, and"),
        *(
            (refreshed(*each), {}, line)
            for *each, line in (
                ("train-a-nodes", "labels.team", "x", "train/a: pods stay; in place: NodeGroup.labels.team x → none"),
                ("train-a-nodes", "amiType", "AL2023_x86_64_NVIDIA", "train/a: ends pods on up to 8 nodes at once; "),
                (
                    "train-a-nodes",
                    "scalingConfig.maxSize",
                    2,
                    "train/a: effect on pods unknown; in place: NodeGroup.scal",
                ),
                ("serve-b-pool", "osDiskType", "Ephemeral", "serve/b: ends pods on up to 8 nodes at once; "),
                ("serve-b-pool", "osDiskSizeGB", 64, "serve/b: ends pods on up to 8 nodes at once; "),
                (
                    "serve-b-pool",
                    "nodeTaints",
                    [],
                    "serve/b: effect on pods unknown; in place: AgentPool.nodeTaints [] → ",
                ),
                (
                    "lab-c-nodes",
                    "nodeConfig.imageType",
                    "UBUNTU_CONTAINERD",
                    "lab/c: drains 1 node at a time; rolling: ",
                ),
                ("lab-c-nodes", "nodeConfig.diskSizeGb", 100, "lab/c: drains 1 node at a time; rolling: "),
                (
                    "lab-c-nodes",
                    "autoscaling.totalMaxNodeCount",
                    2,
                    "lab/c: pods stay; in place: NodePool.autoscaling.totalMaxNodeC",
                ),
            )
        ),
        (
            nothing,
            {"pools__a__disk_gib": 400},
            "train/a: drains 1 node at a time; rolling: disk_gib 200 → 400; EKS drains and replaces every node",
        ),
        (
            nothing,
            {"pools__a__instance_type": "g6e.24xlarge"},
            "  pulumi up rejects this: train/a is a production pool; if this is intended, add train/a to",
        ),
    ],
)
def test_everything_that_the_next_update_changes_is_said(
    change: Callable[[RESOURCES], object],
    keys: Mapping[str, Any],
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ends = "pulumi up rejects" in line or "ends pods on" in line  # all its pools are production pools
    assert main(edited(tmp_path, change, **keys)) == (3 if ends else 0)

    shown = capsys.readouterr()
    lines = [*joined(shown.out.splitlines()), *shown.err.splitlines()]
    assert any(each.startswith(line) for each in lines), "\n".join(lines)
    # Nothing else differs.
    known = (*IMAGES_BY_DIGEST, AUTOSCALER_TAG)
    other = [each for each in lines if not each.startswith((*known, "  pulumi up rejects this: "))]
    assert sum(not each.startswith("unchanged: ") for each in other) <= 2, "\n".join(lines)


NET = "urn:pulumi:prod::net::pulumi:pulumi:Stack::net-prod"


def with_reference(resources: RESOURCES, production: bool) -> None:
    record = of(resources, "train-a")["outputs"]["record"]
    record["production"] = production
    record["values"]["cluster.subnet_ids"] = "output of acme/net/prod: subnets"
    used = {"name": "acme/net/prod", "outputs": {"subnets": ["subnet-0000000a"]}, "secretOutputNames": []}
    reference = {"type": "pulumi:pulumi:StackReference", "custom": True, "id": "acme/net/prod", "outputs": used}
    resources.append({"urn": "urn:pulumi:acme::gpupools::pulumi:pulumi:StackReference::acme/net/prod", **reference})


@pytest.mark.parametrize("production", [True, False])
@pytest.mark.parametrize("subnets", [["subnet-0000000a"], ["subnet-0000000b"], None])
def test_an_output_of_another_stack_that_would_replace_a_pool_is_said_and_refused(
    subnets: list[str] | None, production: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys: dict[str, Any] = {
        "production": production,
        "clusters__train__stack": "acme/net/prod",
        "clusters__train__subnet_ids": {"output": "subnets"},
    }
    arguments = edited(tmp_path, lambda resources: with_reference(resources, production), **keys)
    if subnets is not None:
        net = {"urn": NET, "type": "pulumi:pulumi:Stack", "custom": False, "outputs": {"subnets": subnets}}
        (tmp_path / "net.json").write_text(json.dumps({"version": 3, "deployment": {"resources": [net]}}))
        arguments[1:1] = ["--state", str(tmp_path / "net.json")]

    code = main([*arguments, "--exit-code"])

    shown = capsys.readouterr()
    if subnets == ["subnet-0000000b"]:
        assert code == 3
        assert (
            "train/a: ends pods on up to 8 nodes at once; "
            "replaces up to 8 nodes × 4 GPUs; creates the new pool before it deletes the old one\n"
            "  cluster.subnet_ids [subnet-0000000a] → [subnet-0000000b]\n" in shown.out
        )
        assert ("acme/net/prod: subnets has changed" in shown.out) is not production
        rejected = "pulumi up rejects this: train/a is a production pool; if this is intended, add train/a"
        warned = "train/a: this update replaces it (up to 8 nodes × 4 GPUs): cluster.subnet_ids (output of acme/net"
        assert (rejected in shown.out, warned in shown.err) == (production, not production)
    else:
        assert code == 0, shown.out
        assert ("outputs of acme/net/prod are not compared; add its state with --state" in shown.err) == (
            subnets is None
        )


def encrypted(resources: RESOURCES) -> None:
    sealed = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:xyz"}
    of(resources, "train-a")["outputs"]["record"] = sealed


def of_another_stack(resources: RESOURCES) -> None:
    for each in resources:
        each["urn"] = each["urn"].replace(":acme::", ":other::")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            encrypted,
            "state.json: the record of train-a is encrypted, as releases before this one left it; export it with",
        ),
        (of_another_stack, "state.json: is the state of gpupools/other, not of gpupools/acme; export that of acme"),
        (
            lambda resources: of(resources, "train-a").update(urn="urn:pulumi:x::y::a:b:C::d"),
            "state.json: has resources of the stacks gpupools/acme and y/x; import the stack's own last export, see",
        ),
        (list.clear, "state.json: is the state of an empty stack; see what it would create: gpupools preview"),
    ],
)
def test_a_state_that_cannot_be_compared_is_refused_in_one_line(
    change: Callable[[RESOURCES], object], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(edited(tmp_path, change)) == 1

    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_file_that_is_no_state_or_a_missing_cli_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(STATES / "Pulumi.acme.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    calls = [
        (["--state", "Pulumi.acme.yaml"], "Pulumi.acme.yaml: is not a state; use the output of: pulumi stack export"),
        (["--stack", "acme"], "--stack: pulumi is not on PATH; install the Pulumi CLI, or use --state FILE"),
        (["--state", "missing.json"], "missing.json: there is no such file"),
    ]
    for words, said in calls:
        assert main(["diff", *words]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(said)


NOT_OFFERED = {"clusters__train__region": "us-east-2", "pools__a__instance_type": "p4de.24xlarge"}
SEALED = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
OLD_SUBNET = "subnet-0secret0"


def exporting(folder: Path, monkeypatch: pytest.MonkeyPatch, secret: bool = True, **keys: Any) -> None:
    """Put a CLI on PATH that exports the state, with a subnet in its record that an older release encrypted."""

    def put(resources: RESOURCES, form: str = "") -> None:
        record = of(resources, "train-a")["outputs"]["record"]
        record["values"]["cluster.subnet_ids"] = [OLD_SUBNET]
        sealed = {"ciphertext": "v1:xyz"} if form == "ciphertext" else {"plaintext": json.dumps(record)}
        of(resources, "train-a")["outputs"]["record"] = {**SEALED, **sealed} if secret else record

    for name, form in (("sealed", "ciphertext"), ("clear", "plaintext")):
        edited(folder, lambda resources, form=form: put(resources, form), **keys)  # type: ignore[misc]
        (folder / "state.json").rename(folder / f"{name}.json")
    program = f"""#!/bin/sh
for last; do :; done
case "$*" in *--show-secrets*) cat {folder}/clear.json ;; *) cp {folder}/sealed.json "$last" ;; esac
"""
    (folder / "pulumi").write_text(program, encoding="utf-8")
    (folder / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
@pytest.mark.parametrize("road", ["--stack", "--state"])
def test_an_old_secret_is_compared_and_not_printed(
    road: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exporting(tmp_path, monkeypatch)
    source = "acme" if road == "--stack" else str(tmp_path / "clear.json")

    code = main(["diff", road, source, "--format", form, "--exit-code", str(tmp_path / "Pulumi.acme.yaml")])

    shown = capsys.readouterr()
    assert code == 3
    assert "cluster.subnet_ids" in shown.out
    assert "(encrypted)" in shown.out
    assert OLD_SUBNET not in shown.out + shown.err


def test_a_place_of_a_pool_that_runs_passes_by_the_cli_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exporting(tmp_path, monkeypatch, secret=False, **NOT_OFFERED)
    arguments = [str(tmp_path / "Pulumi.acme.yaml")]

    assert main(["check", *arguments]) == 1
    capsys.readouterr()
    main(["diff", "--stack", "acme", *arguments])
    assert "accepted, because the pool exists" in capsys.readouterr().err


STACKS = Path(__file__).parents[1] / "stacks"


def _concrete(value: Any) -> Any:
    """Return inputs as a state has them: what a preview does not know has a value there."""
    if isinstance(value, Mapping):
        return {key: _concrete(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_concrete(each) for each in value]
    return value if value is None or isinstance(value, str | bool | int | float) else "known-by-now"


@pytest.mark.parametrize("stack", [f"everything-{cloud}" for cloud in clouds()])
def test_right_after_an_update_nothing_changes(stack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = STACKS / f"Pulumi.{stack}.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    found = preview_program(PROGRAM, stack, "gpupools", config)
    assert found.problems == []
    resources = [
        {
            "urn": each.urn,
            "type": each.type,
            "parent": each.parent,
            "inputs": _concrete(each.inputs),
            "outputs": _concrete(found.registered.get(each.urn, {})),
        }
        for each in found.resources
    ]
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"version": 3, "deployment": {"manifest": {}, "resources": resources}}))

    assert main(["diff", "--exit-code", "--json", "--state", str(state), str(file)]) == 0
    pools = json.loads(capsys.readouterr().out)["pools"]
    assert [(each["pool"], each["fields"]) for each in pools if each["change"] != "unchanged"] == []
    assert len(pools) >= 5
