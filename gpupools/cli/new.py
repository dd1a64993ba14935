"""`gpupools new`: generate a stack file from flags and questions, or a whole project with --project."""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupools.catalog.gpus import match_gpu_model, nearest_gpu_model
from gpupools.catalog.mig import profiles
from gpupools.cli.help_texts import examples, filter_problem, whole_number
from gpupools.cli.project import PULUMI_NAME, make_project
from gpupools.cli.schema import stack_schema
from gpupools.cli.stack_text import cluster_key, cluster_schema, stack_text
from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Problem, Rejected, nearest, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.structured_text import read_text
from gpupools.console.output import line, tell
from gpupools.plan.cloud import Cloud
from gpupools.plan.discovery import Described, listed, read_description
from gpupools.providers import clouds
from gpupools.spec.models import MODES, SHARED_MODES
from gpupools.stackfile.check import CheckedFile, file_access_problems, warnings
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import read_stack_file
from gpupools.stackfile.repository import project_file, read_project
from gpupools.stackfile.stack import StackPlan, plan_config
from gpupools.stackfile.stack_validation import bad_key

_MODES = tuple(mode for mode in MODES if mode != "fractions")
"""Without the mode that needs a scheduler and teams in the file."""

_FLAGS = {
    "gpu": ("gpu",),
    "instance_type": ("instance_type",),
    "gpus_per_node": ("gpus_per_node",),
    "max_nodes": ("nodes", "max"),
    "zones": ("zones",),
    "capacity": ("capacity", "mode"),
    "capacity_name": ("capacity", "name"),
    "software": ("software",),
    "sharing": ("sharing", "mode"),
    "replicas": ("sharing", "replicas"),
    "profile": ("sharing", "profile"),
    "team": ("trust", "team"),
}
"""Flags with the path of the pool's key that each sets."""


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
    what = "the cluster as the cloud's CLI or terraform output -json describes it, or - for standard input; repeatable"
    parser.add_argument("--describe", action="append", default=[], metavar="FILE", help=what)
    parser.add_argument("--cluster", metavar="NAME", help="name of the cluster")
    what = "another key of the cluster, e.g. region=eu-central-1; write a list as A,B and a map as {KEY: VALUE}"
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="keys", help=what)
    parser.add_argument(
        "--kubeconfig", metavar="PATH", help="path of a kubeconfig, if software is installed in the cluster"
    )
    parser.add_argument("--gpu", metavar="MODEL", help="GPU model, e.g. L4 or A100-80GB")
    parser.add_argument("--instance-type", metavar="TYPE", help="instance type of the cloud, instead of --gpu")
    parser.add_argument(
        "--gpus-per-node", type=whole_number, metavar="N", help="default: the fewest that an instance type has"
    )
    parser.add_argument("--max-nodes", type=whole_number, default=2, metavar="N", help="default: 2")
    parser.add_argument("--sharing", choices=_MODES, metavar="MODE", help=f"{', '.join(_MODES)}; default: none")
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
    parser.set_defaults(run=lambda given: _exit_status(parser, given))


def _split_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _exit_status(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    missing = _Missing()
    try:
        if given.project:
            others = (key for key in vars(given) if key not in ("env", "project", "run", "command"))
            if given.env == "" or any(getattr(given, key) != parser.get_default(key) for key in others):
                parser.error("--project takes only a folder")
            make_project(Path(given.env if given.env is not None else "."))
            return 0
        if given.env is None:
            parser.error("the following arguments are required: ENV")
        file = _place(given, missing)
        described = [_described(name) for name in given.describe]
        cloud = _cloud(given, {name for name, _ in described}, missing)
        cluster = _cluster(given, cloud, [details.keys for _, details in described], missing)
        access = {"kubeconfig"} if "endpoint" in cluster else set()
        known = {*(key for key, value in cluster.items() if value != []), *cluster.get("runtime", {}), *access}
        left_out = [why for _, details in described for key, why in details.left_out.items() if key not in known]
        key, pool = _pool(given, cloud, missing)
        plan = _judged(cluster, key, pool, file, missing)
        _write_file(file, lambda schema: stack_text(given.env, cloud, cluster, key, pool, schema))
    except Rejected as rejected:
        for problem in dict.fromkeys([*missing.problems, *rejected.problems]):
            tell(f"gpupools new: {problem}", error=True)
        tell("gpupools new: no file was written", error=True)
        if missing.typed:
            tell(f"Your answers as flags: {shlex.join(missing.typed)}", error=True)
        return 1
    for located in warnings(CheckedFile(read_stack_file(file), plan)):
        tell_located(located, warning=True)
    for made in plan.pools:
        tell(f"{file}: written; pool {made.name} uses {made.instance.name} on {made.cluster}")
    for why in left_out:
        tell(f"{file}: not taken over: {why}")
    tell(f"Next: gpupools check {file}, then gpupools preview {file}")
    return 0


class _Missing:
    """Asks at a terminal for what flags do not set. Without one, collects what is missing, to report all at once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.typed: list[str] = []
        """Answers at the terminal, as flags."""
        self.can_ask = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def add(self, flag: str, what: str, fix: str) -> None:
        """Add a problem of a flag."""
        self.problems.append(Problem((flag,), what, fix))

    def ask(
        self, flag: str, question: str, wrong: Callable[[str], object] = lambda _: None, default: str | None = None
    ) -> str | None:
        """Return the answer to a question, the default, or None; `wrong` returns what is wrong with an answer."""
        if not self.can_ask:
            if default is None:
                self.add(flag, "is missing", f"set it ({question})")
            return default
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
            answer = typed.strip() or default
            problem = wrong(answer) if answer else "a value is required"
            if answer and problem is None:
                word, _, key = flag.partition(" ")
                self.typed += [word, key.replace("…", answer) if key else answer]
                return answer
            tell(f"  {problem}", error=True)


# --- the output file --------------------------------------------------------------------------------------------------


def _place(given: argparse.Namespace, missing: _Missing) -> Path:
    """Return the file to write; its problems, and those of empty flags, are reported before any question."""
    env, output = given.env, given.output
    missing.problems += [
        Problem((f"--{flag.replace('_', '-')}",), "is empty", "set a value, or remove the flag")
        for flag, value in vars(given).items()
        if value == "" and flag != "env"
    ]
    file = output or Path(f"Pulumi.{env}.yaml")
    if not re.fullmatch(PULUMI_NAME, env):
        fix = "use at most 100 letters, digits, '-', '_' and '.', and start with a letter or digit"
        missing.add("ENV", f"{shown(env)} is not a valid stack name", fix)
    elif whole := re.fullmatch(r"(?i)Pulumi\.(.+)\.ya?ml", env):
        missing.add("ENV", f"{shown(env)} is a file name", f"write the stack name alone: {whole[1]}")
    elif output is None:
        file = _stack_folder(missing) / file
    elif output.name in ("", "-"):
        missing.add("--output", f"{shown(str(output))} is not a file", "use a file name")
    elif not output.parent.is_dir():
        missing.add(str(output), "is in a folder that does not exist", "create the folder first")
    if os.path.lexists(file):
        missing.add(str(file), "already exists, and nothing is overwritten", "edit it, or use another stack name")
    if missing.problems and missing.can_ask:
        raise Rejected(())
    return file


def _stack_folder(missing: _Missing) -> Path:
    """Return the folder of the stack files of this folder's project."""
    found = project_file(Path("Pulumi.yaml"))
    if found is None:
        fix = "run the command in a project, create one with gpupools new --project, or set --output"
        missing.problems.append(Problem((), "there is no Pulumi.yaml in this folder or above", fix))
        return Path()
    try:
        return Path(os.path.relpath(read_project(found).files))
    except Rejected as rejected:
        missing.problems += [replace(problem, path=(str(found), *problem.path)) for problem in rejected.problems]
        return Path()


def _write_file(file: Path, text: Callable[[str], str]) -> None:
    """Write the file, and beside it its schema if the project has none; `text` takes the path of the schema."""
    file.parent.mkdir(parents=True, exist_ok=True)
    project, name = project_file(file), "stack-file.schema.json"
    own = project.parent / "gpupools" / "data" / name if project is not None else file
    schema = own if own.is_file() else file.parent / name
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(text(os.path.relpath(schema, file.parent)))
    except FileExistsError:
        raise Rejected([Problem((str(file),), "already exists, and nothing is overwritten")]) from None
    if not os.path.lexists(schema):
        schema.write_text(json.dumps(stack_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        tell(f"{schema}: written; editors use it to complete and check the file")


# --- the cluster ------------------------------------------------------------------------------------------------------


def _described(name: str) -> tuple[str, Described]:
    """Return the cloud and the keys of a described cluster."""
    try:
        told = _one_document(name)
        values = list(told.values()) if isinstance(told, dict) else []
        is_output = values and all(isinstance(item, dict) and {"value", "sensitive"} <= item.keys() for item in values)
        hidden = [key for key, value in told.items() if value["sensitive"]] if is_output else []
        found = _read_outputs(told) if is_output else _read_by_any(told)
    except Rejected as rejected:
        raise Rejected(
            replace(problem, path=("--describe",), what=f"{name}: {problem.what}") for problem in rejected.problems
        ) from None
    if len(found) == 1:
        cloud, description = found[0]
        why = f"sensitive outputs {', '.join(hidden)}; add --kubeconfig PATH, or output nonsensitive(…) of what is"
        left = {"kubeconfig": f"{why} no secret"} if hidden else {}
        return cloud, description._replace(left_out={**description.left_out, **left})
    commands = [command for cloud in clouds() for command in listed(_table(clouds()[cloud]), "command")]
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
    told = [value.data for value in read_text(Path(name)).values]
    told = told[0] if len(told) == 1 and isinstance(told[0], list) else told
    if len(told) == 1:
        return told[0]
    named = [str(item["name"]) for item in told if isinstance(item, dict) and "name" in item]
    what = f"has {len(told)} documents" + (f": {', '.join(map(shown, named[:5]))}" if named else "")
    raise Rejected([Problem((), what, "describe a single cluster, and repeat --describe for each document of it")])


def _table(cloud: Cloud) -> Path:
    table = cloud.file("discovery.csv")
    assert table is not None  # a test has it of every cloud
    return table


def _read_by_any(told: Any, *, outputs: bool = False) -> list[tuple[str, Described]]:
    """Return what each cloud reads in a document, or in Terraform outputs by name."""
    known = clouds().values() if isinstance(told, dict) else ()
    read = ((cloud.name, read_description(_table(cloud), told, outputs=outputs)) for cloud in known)
    return [(name, description) for name, description in read if description is not None][:1]


def _read_outputs(told: JsonObject) -> list[tuple[str, Described]]:
    """Return the clusters that `terraform output -json` describes, which prints sensitive values in clear text.

    An output may be all outputs of a module: https://developer.hashicorp.com/terraform/cli/commands/output
    """
    plain = {key: value["value"] for key, value in told.items() if not value["sensitive"]}
    modules = [item for item in plain.values() if isinstance(item, dict)]
    everything = {key: value for item in (*modules, plain) for key, value in item.items()}
    whole = [module for module in modules if _read_by_any({**plain, **module}, outputs=True)]
    single = [everything] if _read_by_any(plain, outputs=True) else [{**everything, **module} for module in whole]
    return [one for item in single for one in _read_by_any(item, outputs=True)]


def _cloud(given: argparse.Namespace, described: set[str], missing: _Missing) -> Cloud:
    """Return the cloud of the descriptions, the flag or an answer; with a wrong one, report what else is missing."""
    if len(described) > 1:
        what = f"describes clusters of {' and '.join(sorted(described))}"
        raise Rejected([Problem(("--describe",), what, "describe a single cluster")])
    name = given.cloud if given.cloud is not None else next(iter(described), None)
    if name is None:
        name = missing.ask("--cloud", f"Cloud: {', '.join(clouds())}", lambda word: filter_problem(word, None))
    wrong = filter_problem(name, None)
    if name is None or wrong is not None:
        missing.problems += [wrong] if wrong is not None and name else []
        if given.cluster is None and not described:
            missing.add("--cluster", "is missing", "set it (Name of the cluster)")
        if given.gpu is None and given.instance_type is None:
            missing.add("--gpu", "is missing", "set it (GPU model, e.g. L4)")
        if not missing.can_ask:
            _ask_sharing(given, "", missing)
        raise Rejected(())
    if described - {name}:
        what = f"describes a cluster of {described.pop()}, not of {name}"
        raise Rejected([Problem(("--describe",), what, "use the description of the right cluster")])
    return clouds()[name]


def _cluster(given: argparse.Namespace, cloud: Cloud, described: Sequence[JsonObject], missing: _Missing) -> JsonDict:
    """Return the keys of the cluster from descriptions, flags and answers."""
    table, fields = _table(cloud), cloud.cluster.model_fields
    told = _told_keys(given, cloud, missing)
    for key in listed(table, "identity"):
        said = [keys[key] for keys in (*described, told) if key in keys]
        if len({str(item).casefold() for item in said}) > 1:
            what = f"{key} is {' and '.join(dict.fromkeys(map(shown, said)))}, so these are different clusters"
            missing.add("--describe", what, "describe a single cluster, or remove the conflicting flag")
    said_by_all = [(key, value) for keys in described for key, value in keys.items()]
    found = dict(sorted(said_by_all, key=lambda item: item[1] != []))
    pair = {"endpoint", "certificate_authority"}
    if given.kubeconfig is not None or len(pair & (found.keys() | told.keys())) == 1:
        found = {key: value for key, value in found.items() if key not in pair}
    known: JsonDict = found | _runtime(described) | told | {"cloud": cloud.name}
    asked = [] if known.keys() & set(listed(table, "asked")) else listed(table, "asked")[:1]
    for key, field in fields.items():
        if key not in known and (field.is_required() or key in asked):
            answer = missing.ask(_cluster_flag(key), _meaning(cloud, key))
            known |= {key: _value(cloud, key, answer)} if answer is not None else {}
    return {key: known[key] for key in fields if key in known}


def _runtime(described: Sequence[JsonObject]) -> JsonDict:
    """Return the key `runtime` from what descriptions say about the cluster."""
    groups = [taints for keys in described for taints in keys.get("cpu_taints", ())]
    # The software runs on any CPU node whose taints it tolerates; where one has none, it needs nothing.
    taints = [] if [] in groups else list(dict.fromkeys(taint for group in groups for taint in group))
    merged = {key: value for keys in described for key, value in keys.items()}
    runtime: JsonDict = {"kubernetes": merged["kubernetes"]} if "kubernetes" in merged else {}
    runtime |= {"cpu_taints": taints} if taints else {}
    runtime |= {"existing": {"karpenter": merged["karpenter"]}} if "karpenter" in merged else {}
    return {"runtime": runtime} if runtime else {}


def _told_keys(given: argparse.Namespace, cloud: Cloud, missing: _Missing) -> JsonDict:
    """Return the keys of the cluster from flags; collect the problems of `--set`."""
    fields = cloud.cluster.model_fields
    told: JsonDict = {"name": given.cluster} if given.cluster is not None else {}
    told |= {"kubeconfig": {"path": given.kubeconfig}} if given.kubeconfig is not None else {}
    for pair in given.keys:
        key, equals, value = pair.partition("=")
        if not equals or key not in fields or key == "cloud":
            fix = nearest(key, fields) if equals else "write KEY=VALUE"
            fix = "use --cloud" if equals and key == "cloud" else fix
            missing.add("--set", f"{shown(pair)} does not set a key of the cluster", fix)
        elif key in told:
            missing.add(f"--set {key}=…", "is set twice", "remove one of them")
        else:
            told[key] = _value(cloud, key, value)
    return told


def _value(cloud: Cloud, key: str, text: str) -> Any:
    """Return the value of a key from text: a map, a list, a boolean or the text, depending on the schema."""
    form = json.dumps(cluster_schema(cloud)["properties"][key])
    if '"object"' in form and text.startswith("{"):
        with suppress(Rejected):
            return parse_yaml(text)[0].data
    if '"array"' in form:
        return _split_commas(text)
    return text == "true" if '"boolean"' in form and text in ("true", "false") else text


def _meaning(cloud: Cloud, key: str) -> str:
    """Return the first sentence of a key's description, with an example."""
    found = cluster_schema(cloud)["properties"][key]
    example = next(iter(found.get("examples", ())), "")
    shows = ",".join(example) if isinstance(example, list) else example
    said = re.split(r"[;:.] | \(|, e\.g\. ", found["description"].rstrip("."))[0]
    return f"{said}, e.g. {shows}" if shows else said


# --- the pool ---------------------------------------------------------------------------------------------------------


def _pool(given: argparse.Namespace, cloud: Cloud, missing: _Missing) -> tuple[str, JsonDict]:
    """Return key and keys of the pool from flags and answers."""
    models = dict.fromkeys(row.gpu_model for row in cloud.instance_types.values() if row.lifecycle != "retired")

    def offered(word: str) -> list[str]:
        return [model for model in match_gpu_model(word) if model in models]

    if given.gpu is None and given.instance_type is None:
        question, fix = f"GPU: {', '.join(models)}", "write one model, with its memory size where there are several"
        given.gpu = missing.ask(
            "--gpu",
            question,
            lambda word: None if len(offered(word)) == 1 else f"{nearest_gpu_model(word, models)}; {fix}",
        )
    machine = cloud.instance_types.find(given.instance_type) if given.instance_type else None
    found = [machine.gpu_model] if machine is not None else offered(given.gpu or "")
    model = found[0] if len(found) == 1 else ""
    if given.gpu is not None:
        given.gpu = model or given.gpu
        sizes = {row.gpus for row in cloud.instance_types.values() if row.gpu_model == model}
        counts = sorted({size for size in sizes if cloud.instance_types.with_gpus(model, size)} or sizes)
        if given.gpus_per_node is None and counts and 1 not in counts:
            given.gpus_per_node = int(counts[0]) if counts[0].denominator == 1 else str(counts[0])
    _ask_sharing(given, model, missing)
    pool: JsonDict = {}
    for flag, (key, *inner) in _FLAGS.items():
        value = getattr(given, flag)
        if value is not None:
            pool[key] = {**pool.get(key, {}), inner[0]: value} if inner else value
    named_after = re.sub(r"-[0-9]+gb$", "", model.casefold()) if given.gpu is not None and model else "gpus"
    return given.pool or named_after, pool


def _ask_sharing(given: argparse.Namespace, model: str, missing: _Missing) -> None:
    """Ask for the keys of `sharing` that no flag sets, and that the mode requires."""
    is_whole = given.replicas is None and given.profile is None
    if given.sharing is None:
        given.sharing = missing.ask(
            "--sharing",
            f"Sharing of one GPU: {', '.join(_MODES)}",
            lambda word: None if word in _MODES else nearest(word, _MODES),
            "none" if is_whole else None,
        )
    if given.sharing in SHARED_MODES and given.replicas is None:
        digits = missing.ask(
            "--replicas",
            "Containers that share one GPU",
            lambda word: None if re.fullmatch("[0-9]{1,9}", word) else f"{shown(word)} is not a number; write digits",
        )
        given.replicas = int(digits) if digits is not None else None
    if given.sharing in SHARED_MODES and given.team is None:
        given.team = missing.ask("--team", "Team whose pods may share a GPU, a DNS label")
    if given.sharing == "mig" and given.profile is None:
        names = dict.fromkeys(profile.name for profile in profiles(model)) if model else ["e.g. 1g.10gb"]
        if names:
            given.profile = missing.ask("--profile", f"MIG profile: {', '.join(names)}")
        else:
            missing.add("--sharing", f"{model} does not support MIG", "use another sharing mode")
    if given.sharing == "none" and is_whole:
        given.sharing = None  # the default needs no key


# --- judging ----------------------------------------------------------------------------------------------------------


def _judged(cluster: JsonDict, key: str, pool: JsonDict, file: Path, missing: _Missing) -> StackPlan:
    """Return the plan as `check` makes it.

    Raises:
        Rejected: Its problems, by the flag that sets the key, and without those that follow from missing flags.
    """
    named = cluster_key(str(cluster.get("name", "")))
    config = {"clusters": {named: cluster}, "pools": {key: {"clusters": [named], **pool}}}
    try:
        plan = plan_config(config, clouds(), also=file_access_problems(file.parent))
    except Rejected as rejected:
        told = {problem.path for problem in missing.problems}
        found = [_with_flag(problem) for problem in rejected.problems]
        raise Rejected(problem for problem in found if problem.path not in told) from None
    if missing.problems:
        raise Rejected(())
    return plan


def _with_flag(problem: Problem) -> Problem:
    """Return a problem of a key as a problem of its flag."""
    if "API access is not set" in problem.what:
        fix = "set --kubeconfig PATH, or use a --describe that contains the endpoint"
        return replace(problem, path=("--kubeconfig",), fix=fix)
    kind, keys = problem.path[:1], tuple(part for part in problem.path[2:] if isinstance(part, str))
    if kind == ("clusters",) and keys:
        return replace(problem, path=(_cluster_flag(keys[0]),))
    if kind == ("pools",) and not keys:
        return replace(problem, path=("--gpu" if bad_key((), str(problem.path[1])) is None else "--pool",))
    flags = [flag for flag, path in _FLAGS.items() if kind == ("pools",) and path[: len(keys)] == keys]
    fix = problem.fix.replace("write zones: […]", "set --zones")
    return replace(problem, path=(f"--{flags[-1].replace('_', '-')}",), fix=fix) if flags else problem


def _cluster_flag(key: str) -> str:
    return {"name": "--cluster", "kubeconfig": "--kubeconfig", "cloud": "--cloud"}.get(key, f"--set {key}=…")
