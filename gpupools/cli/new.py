"""`gpupools new`: generate a stack file from flags and questions, or a whole project with --project."""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from gpupools.catalog.gpus import match_gpu_model, nearest_gpu_model
from gpupools.catalog.mig import profiles
from gpupools.cli.help_texts import examples, filter_problem, whole_number
from gpupools.cli.project import PULUMI_NAME, make_project
from gpupools.cli.schema import stack_schema
from gpupools.cli.stack_text import cluster_schema, flow, stack_text
from gpupools.common.errors import Problem, Rejected, nearest, shown
from gpupools.common.input_files import read_bytes
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.console.output import line, tell
from gpupools.plan.cloud import Cloud
from gpupools.plan.discovery import Described, read_description
from gpupools.providers import clouds
from gpupools.spec.models import MODES, SHARED_MODES
from gpupools.stackfile.check import CheckedFile, check_stack_file, warnings
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.stack import bad_key, parse_cluster

_MOST = 8 * 1024 * 1024
"""Maximum size of a cluster's description; with many node pools it has some hundred thousand bytes."""
_BESIDE = "stack-file.schema.json"

Given = argparse.Namespace
Wrong = Callable[[str], Problem | None]


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples(
        "gpupools new lab --cloud azure --cluster lab --set resource_group=ml --gpu T4 --kubeconfig ~/.kube/lab"
        " -o Pulumi.lab.yaml"
    )
    parser.add_argument(
        "env", metavar="ENV", nargs="?", help="stack name, as in Pulumi.<ENV>.yaml; with --project, the folder"
    )
    parser.add_argument("--project", action="store_true", help="create a repository that depends on gpupools")
    parser.add_argument("--cloud", metavar="CLOUD", help=", ".join(clouds()))
    parser.add_argument(
        "--describe",
        action="append",
        default=[],
        metavar="FILE",
        help="the cluster as JSON by the cloud's CLI or terraform output -json, or - for standard input; repeatable",
    )
    parser.add_argument("--cluster", metavar="NAME", help="name of the cluster")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="keys",
        help="another key of the cluster, e.g. region=eu-central-1; separate list items with commas",
    )
    parser.add_argument(
        "--kubeconfig", metavar="PATH", help="path of a kubeconfig, if software is installed in the cluster"
    )
    parser.add_argument("--gpu", metavar="MODEL", help="GPU model, e.g. L4 or A100-80GB")
    parser.add_argument("--instance-type", metavar="TYPE", help="instance type of the cloud, instead of --gpu")
    parser.add_argument(
        "--gpus-per-node", type=whole_number, metavar="N", help="default: the fewest that an instance type has"
    )
    parser.add_argument("--max-nodes", type=whole_number, default=2, metavar="N", help="default: 2")
    parser.add_argument("--sharing", metavar="MODE", help=f"{', '.join(_MODES)}; default: none")
    parser.add_argument("--replicas", type=whole_number, metavar="N", help="containers that share one GPU")
    parser.add_argument("--profile", metavar="PROFILE", help="MIG profile, e.g. 1g.10gb")
    parser.add_argument("--team", metavar="TEAM", help="team whose pods may share a GPU by time-slicing or MPS")
    parser.add_argument("--zones", type=_split_commas, metavar="ZONES", help="zones of the nodes, separated by commas")
    parser.add_argument("--capacity", metavar="MODE", help="e.g. spot; default: on-demand")
    parser.add_argument("--capacity-name", metavar="NAME", help="name of the reservation or capacity block")
    parser.add_argument("--software", metavar="NAME", help="what installs driver and device plugin, e.g. gpu-operator")
    parser.add_argument("--pool", metavar="NAME", help="key of the pool; default: the GPU model, or gpus")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: Pulumi.<ENV>.yaml among the project's stack files"
    )
    parser.set_defaults(run=lambda given: _run(parser, given))


def _split_commas(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _run(parser: argparse.ArgumentParser, given: Given) -> int:
    answers = _Answers()
    try:
        if given.project:
            others = (key for key in vars(given) if key not in ("env", "project", "run", "command"))
            if given.env == "" or any(getattr(given, key) != parser.get_default(key) for key in others):
                parser.error("--project takes only a folder")
            make_project(Path(given.env if given.env is not None else "."))
            return 0
        if given.env is None:
            parser.error("the following arguments are required: ENV")
        file, nowhere = _output_file(given, answers)
        try:
            asked = _asked(given, answers)
        except Rejected as rejected:
            raise Rejected([*nowhere, *rejected.problems]) from None
        if file is None:
            raise Rejected(nowhere)
        cloud, cluster, left_out, key, pool = asked
        checked, unused = _write_file(given.env, file, cloud, cluster, key, pool)
    except Rejected as rejected:
        for problem in rejected.problems:
            tell(f"gpupools new: {problem}", error=True)
        tell("gpupools new: no file was written", error=True)
        if answers.typed:
            tell(f"Your answers as flags: {shlex.join(answers.typed)}", error=True)
        return 1
    for located in warnings(checked):
        tell_located(located, warning=True)
    for made in checked.plan.pools:
        tell(f"{file}: written; pool {made.name} uses {made.instance.name} on {made.cluster}")
    for why in (*left_out, *unused):
        tell(f"{file}: not taken over: {why}")
    tell(f"Next: gpupools check {file}, then gpupools preview {file}")
    return 0


# --- the output file --------------------------------------------------------------------------------------------------


def _output_file(given: Given, answers: "_Answers") -> tuple[Path | None, Sequence[Problem]]:
    """Return the file to write, or its problems, which without a terminal are reported with all others."""
    try:
        return _place(given.env, given.output), ()
    except Rejected as rejected:
        if answers.can_ask:
            raise
        return None, rejected.problems


def _place(env: str, output: Path | None) -> Path:
    """Return the file to write: `output`, or the stack file in the project of this folder."""
    if not re.fullmatch(PULUMI_NAME, env):
        fix = "use at most 100 letters, digits, '-', '_' and '.', and start with a letter or digit"
        raise Rejected([Problem(("ENV",), f"{shown(env)} is not a valid stack name", fix)])
    if whole := re.fullmatch(r"(?i)Pulumi\.(.+)\.ya?ml", env):
        raise Rejected([Problem(("ENV",), f"{shown(env)} is a file name", f"write the stack name alone: {whole[1]}")])
    if output is not None and output.name in ("", "-"):
        raise Rejected([Problem(("--output",), f"{shown(str(output))} is not a file", "use a file name")])
    file = output or _stacks() / f"Pulumi.{env}.yaml"
    if os.path.lexists(file):
        fix = "edit it, or use another stack name"
        raise Rejected([Problem((str(file),), "already exists, and nothing is overwritten", fix)])
    if output is not None and not output.parent.is_dir():
        raise Rejected([Problem((str(output),), "is in a folder that does not exist", "create the folder first")])
    return file


def _stacks() -> Path:
    """Return the folder of the stack files of this folder's project.

    https://www.pulumi.com/docs/iac/concepts/projects/project-file/
    """
    here = Path.cwd()
    found = next((each / "Pulumi.yaml" for each in (here, *here.parents) if (each / "Pulumi.yaml").is_file()), None)
    if found is None:
        fix = "run the command in a project, create one with gpupools new --project, or set --output"
        raise Rejected([Problem((), "there is no Pulumi.yaml in this folder or above", fix)])
    try:
        project = yaml.safe_load(read_bytes(found, _MOST))
    except (yaml.YAMLError, RecursionError):
        raise Rejected([Problem((str(found),), "is not YAML", "fix it first")]) from None
    folder = project.get("stackConfigDir", ".") if isinstance(project, dict) else None
    if not isinstance(folder, str):
        raise Rejected([Problem((str(found),), "is not a Pulumi project file", "fix it first")])
    return Path(os.path.relpath(found.parent / folder, here))


# --- flags and questions ----------------------------------------------------------------------------------------------


class _Answers:
    """Values from flags or from questions at a terminal. Without one, all missing flags are reported at once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.typed: list[str] = []
        """Answers at the terminal, as flags."""
        self.can_ask = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def text(
        self, flag: str, given: str | None, question: str, wrong: Wrong = lambda _: None, default: str | None = None
    ) -> str:
        """Return the value of a flag, or the answer to a question; collect problems."""
        if given is None and self.can_ask:
            answer = self._answer(question, wrong, default)
            word, _, key = flag.partition(" ")
            self.typed += [word, key.replace("…", answer) if key else answer]
            return answer
        if given is None and default is None:
            self.wrong(flag, "is missing", f"set it ({question})")
        found = given if given is not None else default or ""
        problem = wrong(found) if found else None
        if problem is not None:
            self.wrong(flag, problem.what, problem.fix)
        return found

    def wrong(self, flag: str, what: str, fix: str) -> None:
        """Add a problem of a flag."""
        self.problems.append(Problem((flag,), what, fix))

    def _answer(self, question: str, wrong: Wrong, default: str | None) -> str:
        while True:
            sys.stderr.write(line(f"{question}{f' [{default}]' if default else ''}: "))
            sys.stderr.flush()
            try:
                typed = sys.stdin.readline()
            except UnicodeDecodeError:
                tell("  the input is not text", error=True)
                continue
            if not typed:
                sys.stderr.write("\n")
                raise Rejected([Problem((), "the input ended", "set the remaining values with flags, see --help")])
            found = typed.strip() or default
            problem = wrong(found) if found else Problem((), "a value is required")
            if found and problem is None:
                return found
            tell(f"  {problem}", error=True)

    def stop_if_wrong(self) -> None:
        """Stop if a value on which others depend is invalid or missing."""
        if self.problems:
            raise Rejected(self.problems)


def _asked(given: Given, answers: _Answers) -> tuple[Cloud, JsonObject, list[str], str, JsonObject]:
    """Return the cloud, the keys of the cluster and why others are left out, and key and keys of the pool."""
    answers.problems += [
        Problem((f"--{flag.replace('_', '-')}",), "is empty", "set a value, or remove the flag")
        for flag, value in vars(given).items()
        if value == ""
    ]
    answers.stop_if_wrong()
    described = [_described(name) for name in given.describe]
    named = {cloud for cloud, _ in described}
    if len(named) > 1:
        what = f"describes clusters of {' and '.join(sorted(named))}"
        raise Rejected([Problem(("--describe",), what, "describe a single cluster")])
    if given.cloud is None and len(named) == 1:
        given.cloud = named.pop()
    choices = ", ".join(clouds())
    name = answers.text("--cloud", given.cloud, f"Cloud: {choices}", lambda word: filter_problem(word, None))
    if answers.problems:  # other required values are reported at the same time
        for flag, missing, question in (
            ("--cluster", given.cluster is None and not described, "Name of the cluster"),
            ("--gpu", given.gpu is None and given.instance_type is None, "GPU model, e.g. L4"),
        ):
            if missing:
                answers.text(flag, None, question)
        _rest(given, given.gpu or "", answers)
    answers.stop_if_wrong()
    if named - {name}:
        what, fix = f"describes a cluster of {named.pop()}, not of {name}", "use the description of the right cluster"
        raise Rejected([Problem(("--describe",), what, fix)])
    cloud = clouds()[name]
    cluster = {"cloud": name, **dict(_cluster(given, cloud, [each.keys for _, each in described], answers))}
    access = {"kubeconfig"} if "endpoint" in cluster else set()
    known = {*(key for key, value in cluster.items() if value != []), *cluster.get("runtime", {}), *access}
    left_out = [why for _, each in described for key, why in each.left_out.items() if key not in known]
    answers.problems += _wrong_keys(cluster)
    pool = _pool(given, cloud, answers)
    answers.stop_if_wrong()
    named_after = re.sub(r"-[0-9]+gb$", "", pool["gpu"].casefold()) if "gpu" in pool else "gpus"
    key = given.pool or named_after
    return cloud, cluster, left_out, key, pool


def _asked_keys(cloud: Cloud) -> list[str]:
    """Return the required keys of a cluster."""
    fields = cloud.cluster.model_fields.items()
    return [key for key, field in fields if key != "cloud" and (field.is_required() or key in cloud.discover().asked)]


def _described(name: str) -> tuple[str, Described]:
    """Return the cloud and the keys of a described cluster."""
    hidden: list[str] = []
    try:
        told = _one_document(name)
        is_output = isinstance(told, dict) and bool(told) and all(map(_is_terraform_output, told.values()))
        found = _outputs(told, hidden) if is_output else _read_by_any(told)
    except Rejected as rejected:
        raise Rejected(replace(problem, path=("--describe",)) for problem in rejected.problems) from None
    if len(found) == 1:
        return found[0]
    commands = [command for cloud in clouds().values() for command in cloud.discover().commands]
    fix = f"write it with one of: {'; '.join(commands)}"
    what = f"{name} describes no cluster"
    if found:
        what, fix = f"{name} has the outputs of {len(found)} clusters", "keep those of a single cluster"
    elif hidden:
        what += f", and its sensitive outputs are not read: {', '.join(hidden)}"
        fix = f"output the module's values one by one, without its secrets; or {fix}"
    raise Rejected([Problem(("--describe",), what, fix)])


def _one_document(name: str) -> Any:
    """Return the document in a file; of a list its only item."""
    what, fix = f"{name} is not JSON", "use JSON output of the cloud's CLI: --output json, or --format json of gcloud"
    try:
        told = json.loads(read_bytes(Path(name), _MOST))
    except OSError as error:
        what, fix = f"{name} cannot be read: {error.strerror}", "use a file, or - for standard input"
    except (ValueError, RecursionError) as error:
        if getattr(error, "msg", "") == "Extra data":
            what, fix = f"{name} has more than one document", "write a file for each, and repeat --describe"
    else:
        if not isinstance(told, list) or len(told) == 1:
            return told[0] if isinstance(told, list) else told
        named = [str(each["name"]) for each in told if isinstance(each, dict) and "name" in each]
        what = f"{name} lists {len(told)} clusters" + (f": {', '.join(map(shown, named[:5]))}" if named else "")
        fix = "describe a single cluster"
    raise Rejected([Problem((), what, fix)])


def _read_by_any(told: Any, *, outputs: bool = False) -> list[tuple[str, Described]]:
    """Return what each cloud reads in a document, or in Terraform outputs by name."""
    known = clouds().values() if isinstance(told, dict) else ()
    read = ((cloud.name, read_description(cloud.discover(), told, outputs=outputs)) for cloud in known)
    return [(name, each) for name, each in read if each is not None][:1]


def _is_terraform_output(value: Any) -> bool:
    return isinstance(value, dict) and {"value", "sensitive"} <= value.keys()


def _outputs(told: JsonObject, hidden: list[str]) -> list[tuple[str, Described]]:
    """Return the clusters that `terraform output -json` describes; add the names of sensitive outputs.

    It prints sensitive values in clear text, and an output may be all outputs of a module:
    https://developer.hashicorp.com/terraform/cli/commands/output
    """
    hidden += [key for key, each in told.items() if each["sensitive"]]
    plain = {key: each["value"] for key, each in told.items() if not each["sensitive"]}
    modules = [each for each in plain.values() if isinstance(each, dict)]
    everything = {key: value for each in (*modules, plain) for key, value in each.items()}
    whole = [each for each in modules if _read_by_any({**plain, **each}, outputs=True)]
    single = [everything] if _read_by_any(plain, outputs=True) else [{**everything, **each} for each in whole]
    found = [one for each in single for one in _read_by_any(each, outputs=True)]
    why = (
        f"sensitive outputs {', '.join(hidden)}; add --kubeconfig PATH, or output nonsensitive(…) of what is no secret"
    )
    left = {"kubeconfig": why} if hidden else {}
    return [(name, each._replace(left_out={**each.left_out, **left})) for name, each in found]


def _cluster(
    given: Given, cloud: Cloud, described: Sequence[JsonObject], answers: _Answers
) -> Iterator[tuple[str, Any]]:
    told = _told_keys(given, cloud, answers)
    for key in cloud.discover().which:
        said = [keys[key] for keys in (*described, told) if key in keys]
        if len({str(each).casefold() for each in said}) > 1:
            what = f"{key} is {' and '.join(dict.fromkeys(map(shown, said)))}, so these are different clusters"
            answers.wrong("--describe", what, "describe a single cluster, or remove the conflicting flag")
    said_by_all = [(key, value) for keys in described for key, value in keys.items()]
    found = dict(sorted(said_by_all, key=lambda each: each[1] != []))
    pair = {"endpoint", "certificate_authority"}
    if given.kubeconfig is not None or len(pair & (found.keys() | told.keys())) == 1:
        found = {key: value for key, value in found.items() if key not in pair}
    known: JsonDict = found | _runtime(described) | told
    asked = _asked_keys(cloud)
    for key in cloud.cluster.model_fields:
        if key in asked and key not in known:
            known[key] = _value(cloud, key, answers.text(_cluster_flag(key), None, _meaning(cloud, key)))
        if key in known and key != "cloud":
            yield key, known[key]


def _runtime(described: Sequence[JsonObject]) -> JsonDict:
    """Return the key `runtime` from what descriptions say about the cluster."""
    groups = [taints for keys in described for taints in keys.get("cpu_taints", ())]
    # The software runs on any CPU node whose taints it tolerates; where one has none, it needs nothing.
    taints = [] if [] in groups else list(dict.fromkeys(each for group in groups for each in group))
    merged = {key: value for keys in described for key, value in keys.items()}
    runtime: JsonDict = {"kubernetes": merged["kubernetes"]} if "kubernetes" in merged else {}
    runtime |= {"cpu_taints": taints} if taints else {}
    runtime |= {"existing": {"karpenter": merged["karpenter"]}} if "karpenter" in merged else {}
    return {"runtime": runtime} if runtime else {}


def _told_keys(given: Given, cloud: Cloud, answers: _Answers) -> JsonDict:
    """Return the keys of the cluster from flags; collect the problems of `--set`."""
    fields = cloud.cluster.model_fields
    told: JsonDict = {"name": given.cluster} if given.cluster is not None else {}
    told |= {"kubeconfig": {"path": given.kubeconfig}} if given.kubeconfig is not None else {}
    for pair in given.keys:
        key, equals, value = pair.partition("=")
        if not equals or key not in fields or key == "cloud":
            fix = nearest(key, fields) if equals else "write KEY=VALUE"
            fix = "use --cloud" if equals and key == "cloud" else fix
            answers.wrong("--set", f"{shown(pair)} does not set a key of the cluster", fix)
        elif key in told:
            answers.wrong(f"--set {key}=…", "is set twice", "remove one of them")
        else:
            told[key] = _value(cloud, key, value)
    return told


def _wrong_keys(cluster: JsonObject) -> Iterator[Problem]:
    """Yield the problems of the cluster's keys; missing keys are reported elsewhere."""
    try:
        parse_cluster((), cluster, clouds())
    except Rejected as rejected:
        for problem in rejected.problems:
            key = str(problem.path[0]) if problem.path else ""
            if cluster.get(key) not in (None, "", []):
                yield Problem((_cluster_flag(key),), problem.what, problem.fix)


def _value(cloud: Cloud, key: str, text: str) -> Any:
    """Return the value of a key from text: a list, a boolean or the text, depending on the schema."""
    form = json.dumps(cluster_schema(cloud)["properties"][key])
    if '"array"' in form:
        return _split_commas(text)
    return text == "true" if '"boolean"' in form and text in ("true", "false") else text


def _meaning(cloud: Cloud, key: str) -> str:
    """Return the first sentence of a key's description, with an example."""
    found = cluster_schema(cloud)["properties"][key]
    examples = found.get("examples", [])
    example = examples[0] if examples else ""
    shows = ",".join(example) if isinstance(example, list) else example
    said = re.split(r"[;:.] | \(|, e\.g\. ", found["description"].rstrip("."))[0]
    return f"{said}, e.g. {shows}" if shows else said


def _pool(given: Given, cloud: Cloud, answers: _Answers) -> JsonDict:
    offered = {row.gpu_model: row for row in cloud.instance_types.values() if row.lifecycle != "retired"}

    def wrong_gpu(word: str) -> Problem | None:
        found = [model for model in match_gpu_model(word) if model in offered]
        if len(found) == 1:
            return None
        if found:
            what, fix = f"{shown(word)} is ambiguous: {' or '.join(found)}", "use the model with its memory size"
            return Problem((), what, fix)
        return Problem((), f"{cloud.name} has no GPU {shown(word)}", nearest_gpu_model(word, offered))

    pool: JsonDict = {}
    machines = cloud.instance_types
    if given.instance_type is not None:
        machine = cloud.find_instance_type(machines, given.instance_type)
        pool["instance_type"], model = given.instance_type, machine.gpu_model if machine is not None else ""
        for flag, value in (("--gpu", given.gpu), ("--gpus-per-node", given.gpus_per_node)):
            if value is not None:
                answers.wrong(flag, "cannot be combined with --instance-type", "remove one of them")
    else:
        gpu = answers.text("--gpu", given.gpu, f"GPU: {', '.join(offered)}", wrong_gpu)
        if wrong_gpu(gpu) is not None:
            _rest(given, gpu, answers)  # its problems are reported at the same time
        answers.stop_if_wrong()
        pool["gpu"] = model = next(each for each in match_gpu_model(gpu) if each in offered)
        sizes = {row.gpus for row in machines.values() if row.gpu_model == model}
        counts = sorted({each for each in sizes if machines.with_gpus(model, each)} or sizes)
        if given.gpus_per_node is not None:
            pool["gpus_per_node"] = given.gpus_per_node
        elif counts and 1 not in counts:
            pool["gpus_per_node"] = int(counts[0]) if counts[0].denominator == 1 else str(counts[0])
    pool["nodes"] = {"max": given.max_nodes}
    return {**pool, **_rest(given, model, answers)}


def _rest(given: Given, model: str, answers: _Answers) -> JsonDict:
    """Return the keys of the pool that do not depend on the instance type: capacity, sharing, software."""
    pool: JsonDict = {}
    if given.zones is not None:
        pool["zones"] = given.zones
    if given.capacity is not None:
        name = given.capacity_name
        if given.capacity in _NAMED_CAPACITY:
            name = answers.text("--capacity-name", name, "The reservation or capacity block")
        pool["capacity"] = {"mode": given.capacity, **({"name": name} if name is not None else {})}
    elif given.capacity_name is not None:
        answers.wrong("--capacity-name", "requires --capacity", "add --capacity")
    if given.software is not None:
        pool["software"] = given.software
    sharing = _sharing(given, model, answers)
    if sharing:
        pool["sharing"] = sharing
        if sharing["mode"] in SHARED_MODES:
            pool["trust"] = {"team": answers.text("--team", given.team, "Team whose pods may share a GPU, a DNS label")}
    return pool


_MODES = tuple(mode for mode in MODES if mode != "fractions")
"""Without the mode that needs a scheduler and teams in the file."""

_NAMED_CAPACITY = ("reservation", "capacity-block")
"""Capacity modes that require a name."""


def _sharing(given: Given, model: str, answers: _Answers) -> JsonDict:
    """Return the keys of `sharing`; empty without sharing."""

    def wrong_mode(word: str) -> Problem | None:
        return None if word in _MODES else Problem((), f"unknown sharing mode {shown(word)}", nearest(word, _MODES))

    def wrong_number(word: str) -> Problem | None:
        is_number = word.isascii() and word.isdigit()
        return None if is_number else Problem((), f"{shown(word)} is not a number", "write digits")

    mode = answers.text("--sharing", given.sharing, f"Sharing of one GPU: {', '.join(_MODES)}", wrong_mode, "none")
    found: JsonDict = {"mode": mode}
    for flag, value, modes in (
        ("--replicas", given.replicas, SHARED_MODES),
        ("--profile", given.profile, ("mig",)),
        ("--team", given.team, SHARED_MODES),
    ):
        if value is not None and mode in _MODES and mode not in modes:
            fix = f"remove it, or set --sharing {' or '.join(modes)}"
            answers.wrong(flag, f"requires sharing {' or '.join(modes)}, but sharing is {mode}", fix)
    if mode in SHARED_MODES:
        number = None if given.replicas is None else str(given.replicas)
        replicas = answers.text("--replicas", number, "Containers that share one GPU", wrong_number)
        found["replicas"] = int(replicas) if replicas.isdigit() else replicas
    elif mode == "mig":
        meant = match_gpu_model(model)  # several for an ambiguous model, none for an unknown one
        names = ", ".join(dict.fromkeys(each.name for one in meant for each in profiles(one)))
        if names or not meant:
            names = names or "e.g. 1g.10gb"
            found["profile"] = answers.text("--profile", given.profile, f"MIG profile: {names}")
        else:
            answers.wrong("--sharing", f"{model} does not support MIG", "use another sharing mode")
    return found if mode != "none" else {}


# --- writing ----------------------------------------------------------------------------------------------------------


def _write_file(
    env: str, file: Path, cloud: Cloud, cluster: JsonObject, key: str, pool: JsonObject
) -> tuple[CheckedFile, list[str]]:
    """Write the file and validate it; remove it if it is invalid. Return also which keys this pool has no use for."""
    is_new = not file.parent.exists()
    file.parent.mkdir(parents=True, exist_ok=True)
    schema = _schema(file)
    unused: list[str] = []
    checked: CheckedFile | None = None
    while checked is None:
        text = stack_text(env, cloud, cluster, key, pool, os.path.relpath(schema, file.parent))
        try:
            with file.open("x", encoding="utf-8") as out:
                out.write(text)
        except FileExistsError:
            raise Rejected([Problem((str(file),), "already exists, and nothing is overwritten")]) from None
        try:
            checked = check_stack_file(file, clouds())
        except BaseException as error:
            file.unlink()
            problems = error.problems if isinstance(error, Rejected) else ()
            cluster, idle = _without_idle(cluster, problems)
            if not idle:
                if is_new:
                    file.parent.rmdir()
                if not problems:
                    raise
                raise Rejected(map(_with_flag, problems)) from None
            unused += idle
    if not os.path.lexists(schema):
        schema.write_text(json.dumps(stack_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        tell(f"{schema}: written; editors use it to complete and check the file")
    return checked, unused


def _without_idle(cluster: JsonObject, problems: Sequence[Problem]) -> tuple[JsonObject, list[str]]:
    """Return the cluster without the keys of `runtime` that `check` refuses as changing nothing, and say which."""
    idle = {each.path[3] for each in problems if each.path[2:3] == ("runtime",) and each.fix == "leave it out"}
    runtime = cluster.get("runtime", {})
    rest = {key: value for key, value in runtime.items() if key not in idle}
    about = [
        f"runtime.{key}: {flow(runtime[key])}, which nothing on this pool depends on" for key in runtime if key in idle
    ]
    return {key: value for key, value in {**cluster, "runtime": rest}.items() if value != {}}, about


def _schema(file: Path) -> Path:
    """Return the path of the schema: the checkout's, or one beside the file."""
    projects = [each for each in file.absolute().parents if (each / "Pulumi.yaml").is_file()]
    own = [each / "gpupools" / "data" / _BESIDE for each in projects[:1]]
    return next((each for each in own if each.is_file()), file.parent / _BESIDE)


_FLAGS = {
    "gpu": "--gpu",
    "instance_type": "--instance-type",
    "gpus_per_node": "--gpus-per-node",
    "nodes.max": "--max-nodes",
    "zones": "--zones",
    "capacity.mode": "--capacity",
    "capacity.name": "--capacity-name",
    "software": "--software",
    "sharing.mode": "--sharing",
    "sharing.replicas": "--replicas",
    "sharing.profile": "--profile",
    "trust.team": "--team",
}
"""Flags by key of the pool."""


def _with_flag(problem: Problem) -> Problem:
    """Return a problem of a key as a problem of its flag."""
    if "API access is not set" in problem.what:
        fix = "set --kubeconfig PATH, or use a --describe that contains the endpoint"
        return replace(problem, path=("--kubeconfig",), fix=fix)
    kind, key = problem.path[:1], ".".join(str(part) for part in problem.path[2:] if isinstance(part, str))
    if kind == ("clusters",) and key:
        return replace(problem, path=(_cluster_flag(key.partition(".")[0]),))
    if kind == ("pools",) and not key:
        return replace(problem, path=("--gpu" if bad_key((), str(problem.path[1])) is None else "--pool",))
    fix = problem.fix.replace("write zones: […]", "set --zones")
    return replace(problem, path=(_FLAGS[key],), fix=fix) if kind == ("pools",) and key in _FLAGS else problem


def _cluster_flag(key: str) -> str:
    return {"name": "--cluster", "kubeconfig": "--kubeconfig", "cloud": "--cloud"}.get(key, f"--set {key}=…")
