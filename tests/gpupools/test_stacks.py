"""`gpupools stacks`: what it lists of a repository, in which order, and what changed since a commit."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main

PIPELINES = Path(__file__).resolve().parents[2] / "examples" / "ci" / "environments"
STACK = """\
config:
  gpupools:clusters:
    train: {cloud: aws, name: train, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"%s}
  gpupools:pools:
    one: {clusters: [train], instance_type: g6.xlarge, nodes: {max: 2}}
"""
ON_AKS = """\
config:
  gpupools:clusters:
    serve: {cloud: azure, name: serve, resource_group: ml%s}
  gpupools:pools:
    one: {clusters: [serve], gpu: T4, nodes: {max: 2}}
"""
OPERATED = "max: 2}, software: gpu-operator"


def of_cluster(name: str, more: str = "") -> str:
    """Return a stack file for another cluster than that of `STACK`."""
    return (STACK % more).replace("name: train", f"name: {name}")


GPUS = "name: gpus\nruntime: python\nmain: stacks\nstackConfigDir: stacks\n"


def laid(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with two projects, of which one takes outputs of the other."""
    monkeypatch.chdir(tmp_path)
    laid(
        tmp_path,
        {
            "gpus/Pulumi.yaml": GPUS,
            "gpus/requirements.txt": "gpupools==1.0\n",
            "gpus/stacks/Pulumi.dev.yaml": of_cluster("dev", ", stack: acme/base/dev"),
            "gpus/stacks/Pulumi.prod.yaml": of_cluster("prod", ", stack: acme/network/prod"),
            "gpus/stacks/Pulumi.dev.deploy.yaml": "settings: {operationContext: {}}\n",
            "base/Pulumi.yaml": "name: base\nruntime: python\n",
            "base/Pulumi.dev.yaml": STACK % "",
            "base/Pulumi.old.yaml": of_cluster("old"),
            "other/Pulumi.yaml": "name: other\nruntime: go\n",
            "other/Pulumi.dev.yaml": "config: {aws:region: eu-central-1}\n",
            "examples/Pulumi.shown.yaml": STACK % "",
            ".venv/Pulumi.yaml": GPUS,
            ".venv/Pulumi.dev.yaml": STACK % "",
        },
    )
    return tmp_path


def git(*arguments: str) -> None:
    who = ("-c", "user.name=Example", "-c", "user.email=someone@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["stacks", *arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def names(wave: list[dict[str, str]]) -> list[str]:
    return [f"{each['project']}/{each['stack']}" for each in wave]


def test_the_stacks_that_pulumi_reads_are_listed_with_accounts_pools_and_order(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answered(capsys)

    assert [names(wave) for wave in found["waves"]] == [["base/dev", "base/old", "gpus/prod"], ["gpus/dev"]]
    assert found["waves"][1][0] == {
        "file": "gpus/stacks/Pulumi.dev.yaml",
        "directory": "gpus",
        "project": "gpus",
        "stack": "dev",
    }
    (dev,) = [each for each in found["stacks"] if (each["project"], each["stack"]) == ("gpus", "dev")]
    (cluster,) = dev["clusters"]
    assert {key: cluster[key] for key in ("cloud", "account", "region", "name")} == {
        "cloud": "aws",
        "account": "123456789012",
        "region": "eu-central-1",
        "name": "dev",
    }
    assert cluster["pools"] == [{"pool": "one", "instance_type": "g6.xlarge", "min_nodes": 0, "max_nodes": 2}]
    assert dev["after"] == [{"stack": "acme/base/dev", "file": "base/Pulumi.dev.yaml"}]
    assert dev["changed"] == []
    assert dev["changes"] is None
    assert [each["file"] for each in found["left_out"]] == ["examples/Pulumi.shown.yaml"]
    assert main(["stacks"]) == 0
    said = capsys.readouterr().out
    assert "gpus/stacks/Pulumi.dev.yaml: gpus/dev, wave 2" in said
    assert "  train: Amazon EKS 123456789012 eu-central-1: one (≤ 2 × g6.xlarge)" in said
    assert "  after acme/network/prod, which is in another repository" in said
    assert "examples/Pulumi.shown.yaml: ignored, there is no Pulumi.yaml above it" in said


def test_what_changed_since_a_commit_is_told_and_the_rest_left_out(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "One")
    assert answered(capsys, "--since", "HEAD", "--changed")["waves"] == []
    file = repository / "gpus" / "stacks" / "Pulumi.dev.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("g6.xlarge", "g6.2xlarge"), encoding="utf-8")
    (repository / "base" / "Pulumi.old.yaml").unlink()
    laid(repository, {"base/Pulumi.new.yaml": of_cluster("new")})

    found = answered(capsys, "--since", "HEAD", "--changed")
    assert [names(wave) for wave in found["waves"]] == [["base/new"], ["gpus/dev"]]
    changes = {each["stack"]: {key for key, count in each["changes"].items() if count} for each in found["stacks"]}
    assert changes == {"new": {"created"}, "dev": {"moved"}}
    assert found["removed"] == ["base/Pulumi.old.yaml"]
    assert main(["stacks", "--since", "HEAD"]) == 0
    said = capsys.readouterr().out
    assert "  changed: gpus/stacks/Pulumi.dev.yaml: 1 moved to new nodes" in said
    assert "base/Pulumi.old.yaml: deleted since HEAD; its pools exist until pulumi destroy" in said
    # What the program is made of counts for every stack of its project, and for no other.
    (repository / "gpus" / "requirements.txt").write_text("gpupools==1.1\n", encoding="utf-8")
    found = answered(capsys, "--since", "HEAD", "--changed")
    assert {each["stack"]: each["changed"] for each in found["stacks"] if each["project"] == "gpus"} == {
        "dev": ["gpus/stacks/Pulumi.dev.yaml", "requirements.txt"],
        "prod": ["requirements.txt"],
    }
    assert "unknown commit 'nowhere'" in answered(capsys, "--since", "nowhere", code=2)["problems"][0]["what"]


def test_a_submodule_is_compared_with_the_commit_that_the_repository_has_of_it(
    repository: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner = tmp_path_factory.mktemp("inner")
    laid(
        inner,
        {
            "Pulumi.yaml": "name: inner\nruntime: python\n",
            "Pulumi.dev.yaml": of_cluster("inner"),
            "Pulumi.old.yaml": of_cluster("older"),
        },
    )
    for folder in (inner, repository):
        monkeypatch.chdir(folder)
        git("init", "-q")
        if folder == repository:
            git("-c", "protocol.file.allow=always", "submodule", "add", str(inner), "inner")
        git("add", "-A")
        git("commit", "-qm", "One")
    since = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert answered(capsys, "--since", since, "--changed")["waves"] == []
    monkeypatch.chdir(repository / "inner")
    laid(repository / "inner", {"Pulumi.dev.yaml": of_cluster("inner").replace("max: 2", "max: 3")})
    (repository / "inner" / "Pulumi.old.yaml").unlink()
    git("commit", "-qam", "Two")
    monkeypatch.chdir(repository)

    for ref in (since, "HEAD"):  # the second one is another commit in the submodule
        found = answered(capsys, "--since", ref, "--changed")
        assert [names(wave) for wave in found["waves"]] == [["inner/dev"]]
        assert {key for key, count in found["stacks"][0]["changes"].items() if count} == {"in_place"}
        assert found["removed"] == ["inner/Pulumi.old.yaml"]
    # A clone that lies in the repository and is none of its submodules was not there.
    laid(
        repository / "clone", {"Pulumi.yaml": "name: clone\nruntime: python\n", "Pulumi.dev.yaml": of_cluster("clone")}
    )
    monkeypatch.chdir(repository / "clone")
    git("init", "-q")
    monkeypatch.chdir(repository)
    assert names(answered(capsys, "--since", since, "--changed")["waves"][0]) == ["clone/dev", "inner/dev"]


def test_a_submodule_that_is_not_checked_out_is_no_reason_to_stop(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("init", "-q")
    git("add", "-A")
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},inner")
    git("commit", "-qm", "One")
    (repository / "inner").mkdir()

    assert answered(capsys, "--since", "HEAD", "--changed")["removed"] == []


@pytest.mark.parametrize("stands_in", ["Pulumi.yaml", ".git", "../Pulumi.yaml", "../.git"])
def test_a_folder_of_a_repository_may_hold_no_stack(
    stands_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    assert answered(capsys, code=1)["result"] == "refused"
    Path(stands_in).write_text("name: a\nruntime: go\n", encoding="utf-8")

    assert answered(capsys)["stacks"] == []


def test_clusters_of_which_not_all_is_known_are_not_taken_for_one(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    laid(repository, {f"base/Pulumi.{name}.yaml": ON_AKS % "" for name in ("dev", "old")})
    assert answered(capsys)["result"] == "accepted"
    subscription = ", subscription_id: 01234567-89ab-cdef-0123-456789abcdef"
    laid(repository, {f"base/Pulumi.{name}.yaml": ON_AKS % subscription for name in ("dev", "old")})

    assert answered(capsys, code=1)["problems"][0]["what"].startswith(
        "the same cluster has serve/one of base/Pulumi.dev"
    )


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"base/Pulumi.dev.yaml": STACK % ", stack: acme/gpus/dev"}, "stacks reference each other in a circle: "),
        ({"base/Pulumi.dev.yaml": STACK % ", stack: acme/base/dev"}, "base/dev → base/dev"),
        (
            {"base/Pulumi.yaml": "name: gpus\nruntime: python\n"},
            "configures the stack gpus/dev, like base/Pulumi.dev.yaml",
        ),
        ({"base/Pulumi.dev.yaml": (STACK % "").replace("g6.xlarge", "g6.tiny")}, "g6.tiny"),
        ({"base/Pulumi.dev.yaml": "config: {gpupools:pools: [\n"}, "base/Pulumi.dev.yaml"),
        (
            {
                "base/Pulumi.dev.yaml": (STACK % "").replace("max: 2}", "max: 2}, adopt: {name: gpu}"),
                "base/Pulumi.old.yaml": (STACK % "").replace("max: 2}", "max: 2}, adopt: {name: gpu}"),
            },
            "base/Pulumi.old.yaml: pools.one.adopt.name: gpu is already imported as train/one of base/Pulumi.dev.yaml",
        ),
        (
            {
                f"base/Pulumi.{name}.yaml": ON_AKS.replace("one:", f"{name}:").replace("max: 2}", OPERATED)
                % ", kubeconfig: {path: ~/.kube/serve}"
                for name in ("dev", "old")
            },
            "clusters.serve.runtime: installs chart gpu-operator and 2 more in the same cluster as serve of base/",
        ),
        (
            {
                f"base/Pulumi.{name}.yaml": (STACK % ", stack: acme/net/dev, kubeconfig: {output: kubeconfig}")
                .replace("name: train", "name: {output: name}")
                .replace("one:", f"{name}:")
                .replace("max: 2}", OPERATED)
                for name in ("dev", "old")
            },
            "base/Pulumi.old.yaml: clusters.train.runtime: installs chart gpu-operator and 2 more in the same cluster",
        ),
        (
            {"base/Pulumi.old.yaml": STACK % ", account: '123456789012'"},
            "base/Pulumi.old.yaml: pools.one: the same cluster has train/one of base/Pulumi.dev.yaml, so",
        ),
        ({"base/Pulumi.yaml": "runtime: python\n"}, "base/Pulumi.yaml: name: is missing"),
        ({"base/Pulumi.yaml": "name: [\n"}, "base/Pulumi.yaml"),
    ],
)
def test_what_is_no_order_of_stacks_is_refused(
    repository: Path, files: dict[str, str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    laid(repository, files)

    assert main(["stacks"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert reason in said.err
    assert answered(capsys, code=1)["result"] == "refused"


# --- the engines of docs/how-to/environments.md ---


def test_the_operator_gets_a_stack_object_for_each(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    origin = ("--repository", "https://git.example.com/gpus.git", "--organization", "acme")
    assert main(["stacks", "--operator", *origin]) == 0
    found = {each["metadata"]["name"]: each for each in yaml.safe_load_all(capsys.readouterr().out)}

    assert sorted(found) == ["base-dev", "base-old", "gpus-dev", "gpus-prod"]
    assert found["gpus-dev"]["spec"] == {
        "stack": "acme/gpus/dev",
        "projectRepo": "https://git.example.com/gpus.git",
        "branch": "refs/heads/main",
        "repoDir": "gpus",
        "serviceAccountName": "pulumi",
        "useLocalStackOnly": True,
        "destroyOnFinalize": False,
        "prerequisites": [{"name": "base-dev"}],
    }
    assert main(["stacks", "--operator"]) == 2
    assert "requires --repository and --organization" in capsys.readouterr().err


def chained(wave: int) -> str:
    """Return a stack file whose clusters take outputs of a stack of the wave before."""
    return of_cluster(f"w{wave}", f", stack: acme/gpus/w{wave - 1}" if wave > 1 else "")


def test_the_workflow_of_the_page_runs_every_stack_of_every_wave_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 stacks: 280 in the first wave, one that they wait for in each later one, as GitHub's runner expands them."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "None")
    waves = {f"w{wave}": wave for wave in range(1, 22)} | {f"s{number}": 1 for number in range(279)}
    files = {f"w{wave}": chained(wave) for wave in range(1, 22)} | {f"s{n}": of_cluster(f"s{n}") for n in range(279)}
    laid(tmp_path, {"Pulumi.yaml": GPUS, **{f"stacks/Pulumi.{name}.yaml": text for name, text in files.items()}})
    texts = [(PIPELINES / name).read_text(encoding="utf-8") for name in ("previews.yml", "batch.yml")]
    caller, called = (yaml.safe_load(each) for each in texts)
    (step,) = [each for each in caller["jobs"]["list"]["steps"] if each.get("id") == "list"]
    outputs = tmp_path / "outputs"
    environment = {**os.environ, "BASE": "HEAD", "GITHUB_OUTPUT": str(outputs)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    subprocess.run(["bash", "-e", "-c", step["run"]], check=True, env=environment, cwd=tmp_path)
    name, _, batches = outputs.read_text(encoding="utf-8").partition("=")
    batch, stack = caller["jobs"]["batch"], called["jobs"]["stack"]
    ran = [(each["stacks"], each["wave"]) for each in json.loads(batches)]

    # What the runner reads where, and one batch after another.
    assert caller["jobs"]["list"]["outputs"] == {name: "${{ steps.list.outputs.batches }}"}
    assert batch["strategy"] == {"max-parallel": 1, "matrix": {"batch": "${{ fromJSON(needs.list.outputs.batches) }}"}}
    assert batch["with"] == {"stacks": "${{ toJSON(matrix.batch.stacks) }}"}
    assert stack["strategy"]["matrix"] == {"one": "${{ fromJSON(inputs.stacks) }}"}
    assert texts[1].startswith(f"# {batch['uses'].removeprefix('./')}\n")
    assert set(re.findall(r"matrix\.one\.(\w+)", json.dumps(stack))) == ran[0][0][0].keys()
    # Every stack once, in its wave, no matrix beyond GitHub's limit.
    assert sorted((one["stack"], wave) for stacks, wave in ran for one in stacks) == sorted(waves.items())
    assert [wave for _, wave in ran] == [1, *range(1, 22)]
    assert [len(stacks) for stacks, _ in ran] == [256, 24, *[1] * 20]
    assert len(batches) < 32_768


def test_batches_are_printed_alone_and_what_is_left_out_beside_them(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stacks", "--matrix", "2"]) == 0
    said = capsys.readouterr()
    dev, old, prod = ({"directory": where, "stack": stack} for where, stack in STACKS_OF_THE_FIRST_WAVE)

    assert json.loads(said.out) == [
        {"wave": 1, "stacks": [dev, old]},
        {"wave": 1, "stacks": [prod]},
        {"wave": 2, "stacks": [{"directory": "gpus", "stack": "dev"}]},
    ]
    assert said.out.count("\n") == 1
    assert "examples/Pulumi.shown.yaml: ignored" in said.err
    laid(repository, {"base/Pulumi.bad.yaml": STACK % "" + "    two: {}\n"})
    assert main(["stacks", "--matrix", "2"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "base/Pulumi.bad.yaml" in said.err


STACKS_OF_THE_FIRST_WAVE = [("base", "dev"), ("base", "old"), ("gpus", "prod")]


@pytest.mark.parametrize("wrong", [["0"], ["many"], ["-1"], ["2", "--json"], ["2", "--operator"]])
def test_a_matrix_of_no_jobs_or_in_another_format_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str], wrong: list[str]
) -> None:
    try:
        code = main(["stacks", "--matrix", *wrong])
    except SystemExit as exit_:
        code = int(str(exit_.code))

    assert code == 2
    assert "--matrix" in "".join(capsys.readouterr())


def test_the_jobs_that_gitlab_gets_are_one_per_stack_in_order(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not on PATH")
    (program,) = re.findall(r"jq '(.*?)'", (PIPELINES / "gitlab-ci.yml").read_text("utf-8"), re.DOTALL)
    answer = json.dumps(answered(capsys))
    done = subprocess.run(["jq", program], input=answer, capture_output=True, text=True, check=True)
    pipeline = json.loads(done.stdout)

    assert pipeline["stages"] == ["turn 1", "turn 2"]
    jobs = {name: each for name, each in pipeline.items() if name != "stages"}
    assert {name: each["stage"] for name, each in jobs.items()} == {
        "base/dev": "turn 1",
        "base/old": "turn 1",
        "gpus/prod": "turn 1",
        "gpus/dev": "turn 2",
    }
    assert jobs["gpus/dev"]["script"] == ['pulumi preview --cwd "$DIRECTORY" --stack "$STACK"']
    assert jobs["gpus/dev"]["variables"] == {"DIRECTORY": "gpus", "STACK": "dev"}
