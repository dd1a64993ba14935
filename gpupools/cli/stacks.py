"""`gpupools stacks [DIR]`: list the stacks of a repository with their changes and deployment order."""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpupools.cli.diff import planned_side
from gpupools.cli.files import add_within, links_out
from gpupools.cli.git import NotThen, file_at, gone_since, top_of
from gpupools.cli.help_texts import Refusal, examples
from gpupools.cli.stack_objects import stack_objects
from gpupools.common.errors import Problem, Rejected
from gpupools.common.input_files import read_bytes
from gpupools.common.json_types import JsonDict
from gpupools.console.output import answer, tell, tell_json, tell_lines
from gpupools.diff.comparison import compare_files, counted, in_words
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.software.scaling_order import CONFIG_MAP
from gpupools.spec.identity import place
from gpupools.spec.models import Cluster
from gpupools.stackfile.check import CheckedFile, Located, check_stack_file, locate
from gpupools.stackfile.config_values import MAX_BYTES
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import stack_name
from gpupools.stackfile.repository import (
    STACK_FILE,
    Placed,
    Project,
    is_read,
    names_ours,
    project_file,
    read_project,
    same_stack,
    says_ours,
    stack_files,
    waves,
    within,
)
from gpupools.stackfile.stack import (
    ClusterOrder,
    StackPlan,
    adopted_pools,
    objects_in_clusters,
    orders_in_clusters,
    pools_in_clusters,
)

_EXITS = """\
exit codes:
  0  listed
  1  a stack file is invalid, two files configure the same stack, pool or software, stacks reference each other in
     a circle, or DIR is not in a repository
  2  incorrect call, no git checkout, or unknown git reference
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools stacks") + "\n" + _EXITS
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: current folder")
    parser.add_argument("--since", metavar="GIT-REF", help="show the changes of each stack since this commit")
    parser.add_argument("--changed", action="store_true", help="with --since: only changed stacks")
    parser.add_argument(
        "--json", action="store_true", help="print JSON for a CI job matrix (docs/how-to/environments.md)"
    )
    what = "print JSON batches of at most N stacks in deployment order, for CI jobs (GitHub allows 256 in a matrix)"
    parser.add_argument("--matrix", type=_jobs, metavar="N", help=what)
    what = "print Stack objects of the Pulumi Kubernetes Operator; requires --repository and --organization"
    parser.add_argument("--operator", action="store_true", help=what)
    parser.add_argument("--repository", metavar="URL", help="git repository from which the operator fetches the stacks")
    parser.add_argument("--branch", metavar="NAME", default="main", help="default: main")
    parser.add_argument("--organization", metavar="NAME", help="organization of the stacks in Pulumi's backend")
    add_within(parser)
    nothing: JsonDict = {"stacks": [], "waves": [], "removed": [], "left_out": []}
    parser.set_defaults(run=_exit_status, nothing=nothing)


@dataclass
class _Listed:
    """A stack file with its plan or problems, and its changes."""

    placed: Placed
    checked: CheckedFile | None = None
    refused: list[Located] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    """Changed files of the stack and its project."""
    becomes: Mapping[str, int] | None = None
    """Number of pools by effect; None if nothing was compared."""
    not_compared: str = ""

    def clusters(self) -> Iterator[tuple[str, Cluster, list[PoolPlan]]]:
        if self.checked is not None:
            for key, cluster in self.checked.plan.stack.clusters.items():
                yield key, cluster, [pool for pool in self.checked.plan.pools if pool.cluster == key]

    def after(self, others: Sequence[Placed]) -> list[tuple[str, Placed | None]]:
        return [(reference, within(reference, others)) for reference in self.placed.references]


def _exit_status(given: argparse.Namespace) -> int:
    if (wrong := _wrong_call(given)) is not None:
        raise Refusal([wrong], "failed")
    listed, left_out = _stack_files(given.folder, given.within)
    gone = _compare(listed, given.folder, given.since) if given.since is not None else []
    placed = [stack.placed for stack in listed]
    placed_in_order, refused = _judged(listed, given.folder)
    shown = [stack for stack in listed if not given.changed or stack.changed]
    by_file = {stack.placed.file: stack for stack in shown}
    order = [
        kept for wave in placed_in_order if (kept := [by_file[entry.file] for entry in wave if entry.file in by_file])
    ]
    if given.json:
        holds = {
            "stacks": [_as_json(stack, placed) for stack in shown],
            "waves": [[_for_a_job(stack.placed) for stack in wave] for wave in order],
            "removed": gone,
            "left_out": left_out,
        }
        answer("stacks", "refused" if refused else "accepted", [problem.as_json() for problem in refused], holds)
    elif refused:
        for located in refused:
            tell_located(located)
    elif given.matrix is not None:
        tell_json(list(_batches(order, given.matrix)), indent=None)
    elif given.operator:
        return _tell_objects(given, [(stack.placed, stack.after(placed)) for stack in shown])
    else:
        for number, wave in enumerate(order, 1):
            for stack in wave:
                tell_lines("\n".join(_as_text(stack, placed, number if len(order) > 1 else 0)))
    if not given.json and not refused:
        rest = [f"{name}: deleted since {given.since}; its pools exist until pulumi destroy" for name in gone]
        rest += [f"{out['file']}: ignored, {out['why']}" for out in left_out]
        rest += [] if listed else [f"{given.folder} has no stack files of gpupools"]
        for line in rest:
            tell(line, error=given.matrix is not None)
    return 1 if refused else 0


def _judged(listed: Sequence[_Listed], folder: Path) -> tuple[list[list[Placed]], list[Located]]:
    """Return the waves in which the stacks are deployed, and all problems."""
    placed = [stack.placed for stack in listed]
    refused = [located for stack in listed for located in stack.refused]
    refused += [Located(path, None, problem) for path, problem in same_stack(placed)]
    plans = {stack.placed.file: stack.checked.plan for stack in listed if stack.checked is not None}
    refused += [*_pools_twice(plans), *_installed_twice(plans), *_orders_apart(plans)]
    try:
        return waves(placed), refused
    except Rejected as rejected:
        return [], [*refused, *(Located(folder, None, problem) for problem in rejected.problems)]


def _tell_objects(
    given: argparse.Namespace, shown: Sequence[tuple[Placed, Sequence[tuple[str, Placed | None]]]]
) -> int:
    try:
        root = top_of(given.folder.absolute()) or given.folder
        tell_lines(stack_objects(shown, given.repository, given.branch, given.organization, root))
    except Rejected as rejected:
        for problem in rejected.problems:
            tell(f"gpupools stacks: {problem}", error=True)
        return 1
    return 0


def _is_in_a_repository(folder: Path) -> bool:
    here = folder.resolve()
    return any(os.path.lexists(path / name) for path in (here, *here.parents) for name in (".git", "Pulumi.yaml"))


def _wrong_call(given: argparse.Namespace) -> Problem | None:
    if given.changed and given.since is None:
        return Problem(("--changed",), "requires --since", "add --since GIT-REF")
    if given.operator and given.json:
        return Problem(("--operator",), "cannot be combined with --json", "remove one of them")
    if given.matrix is not None and (given.json or given.operator):
        return Problem(("--matrix",), "cannot be combined with --json or --operator", "remove one of them")
    missing = [f"--{option}" for option in ("repository", "organization") if not getattr(given, option)]
    if given.operator and missing:
        return Problem(("--operator",), f"requires {' and '.join(missing)}", "add them")
    return None


# --- finding ---


def _stack_files(folder: Path, checkout: Path | None) -> tuple[list[_Listed], list[dict[str, str]]]:
    """Check all stacks of a folder.

    Raises:
        Refusal: The folder does not exist or is not in a repository, or a link leads out of the checkout.
    """
    try:
        files = stack_files(folder)
    except Rejected as rejected:
        problems = [Located(folder, None, replace(problem, path=())) for problem in rejected.problems]
        raise Refusal(problems) from None
    if not files and not _is_in_a_repository(folder):
        what = "is not in a repository: there is no stack file, and no Pulumi.yaml or .git in it or above"
        raise Refusal([Located(folder, None, Problem((), what, "use the folder of a repository"))])
    found = {file: project_file(file) for file in files}
    if outside := links_out([*found, *found.values()], checkout):
        raise Refusal([Located(path, None, problem) for path, problem in outside])
    projects: dict[Path, Project] = {}
    listed: list[_Listed] = []
    left_out: list[dict[str, str]] = []
    for file, of in found.items():
        if not says_ours(file):
            continue  # another program's, or settings of Pulumi Deployments
        if of is None:
            left_out.append({"file": str(file), "why": "there is no Pulumi.yaml above it"})
            continue
        try:
            project = projects.setdefault(of, read_project(of))
        except Rejected as rejected:
            raise Refusal([Located(of, None, problem) for problem in rejected.problems]) from None
        if outside := links_out(_beside(project), checkout):
            raise Refusal([Located(path, None, problem) for path, problem in outside])
        if not is_read(file, project):
            left_out.append({"file": str(file), "why": f"the stack files of {project.name} are in another folder"})
            continue
        listed.append(_checked(file, project))
    return listed, left_out


def _checked(file: Path, project: Project) -> _Listed:
    try:
        checked = check_stack_file(file, clouds())
    except Rejected as rejected:
        return _Listed(Placed(file, project), refused=locate(file, rejected))
    clusters = checked.plan.stack.clusters.values()
    references = dict.fromkeys(cluster.stack for cluster in clusters if cluster.stack is not None)
    return _Listed(Placed(file, project, tuple(references)), checked)


def _pools_twice(plans: Mapping[Path, StackPlan]) -> Iterator[Located]:
    """Yield pools that two stacks import, and names that two pools of a cluster have.

    Of two stacks with the same existing pool each would revert the other's changes; nodes of two pools with one name
    have the same label.
    """
    seen: dict[tuple[Any, ...], str] = {}
    for file, plan in plans.items():
        for which, key in adopted_pools(plan):
            if other := seen.get(("adopted", *which)):
                at, what = ("pools", key.rpartition("/")[2], "adopt", "name"), f"{which[-1]} is already imported as"
                yield Located(file, None, Problem(at, f"{what} {other}", "remove one of the two"))
            seen.setdefault(("adopted", *which), f"{key} of {file}")
        for which, key in pools_in_clusters(plan):
            if other := seen.get(which):
                what = f"the same cluster has {other}, so pods cannot select the nodes of one of them"
                yield Located(file, None, Problem(("pools", which[-1]), what, "rename one of the two"))
            seen.setdefault(which, f"{key} of {file}")


def _installed_twice(plans: Mapping[Path, StackPlan]) -> Iterator[Located]:
    """Yield clusters in which two stacks install the same software: each would overwrite or delete the other's."""
    seen: dict[tuple[Any, ...], str] = {}
    for file, plan in plans.items():
        twice: dict[tuple[str, str], list[str]] = {}
        for which, called, key in objects_in_clusters(plan):
            if which in seen and which[-1] != CONFIG_MAP:  # `_orders_apart` has what to do about it
                twice.setdefault((key, seen[which]), []).append(called)
            seen.setdefault(which, f"{key} of {file}")
        for (key, other), names in twice.items():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            what = f"installs {names[0]}{more} in the same cluster as {other}"
            fix = "move its pools to one stack, or set management: external and existing in one of the two"
            yield Located(file, None, Problem(("clusters", key, "runtime"), what, fix))


def _orders_apart(plans: Mapping[Path, StackPlan]) -> Iterator[Located]:
    """Yield stacks with steps that the order of their cluster lacks: it has one, which one stack writes."""
    found: dict[tuple[Any, ...], list[tuple[Path, ClusterOrder]]] = {}
    for file, plan in plans.items():
        for where, order in orders_in_clusters(plan, clouds()):
            found.setdefault(where, []).append((file, order))
    for all_orders in found.values():
        first, owner = next((candidate for candidate in all_orders if candidate[1].is_declared), all_orders[0])
        for file, order in all_orders:
            missing = [steps for steps in order.orders if steps not in owner.others]
            if file == first or not (missing or order.is_declared):
                continue
            key = "runtime.existing.cluster_autoscaler.other_orders"
            fixes = [f"add {json.dumps(missing)} to clusters.{owner.cluster}.{key} there"] * bool(missing)
            fixes += ["set management: external here"] * order.is_declared
            what = f"{first} writes the order of steps for the autoscaler of this cluster, which reads one"
            at = ("clusters", order.cluster, "runtime", "existing", "cluster_autoscaler")
            yield Located(file, None, Problem(at, what, " and ".join(fixes)))


# --- comparing ---

_OF_A_PROJECT = ("Pulumi.yaml", "Pulumi.yml", "requirements.txt", "pyproject.toml", "uv.lock", "poetry.lock")
_OF_ITS_PROGRAM = ("__main__.py", "requirements.txt")


_LARGEST = 2**20
"""Bytes of one of these files."""


def _beside(project: Project) -> list[Path]:
    """Return the files on which every stack of a project depends."""
    found = [project.folder / name for name in _OF_A_PROJECT]
    return found + [project.files / name for name in _OF_ITS_PROGRAM if project.files != project.folder]


def _compare(listed: Sequence[_Listed], folder: Path, since: str) -> list[str]:
    """Set the changes of all stacks; return the deleted stack files."""
    of_projects: dict[Path, list[str]] = {}
    for stack in listed:
        project, file = stack.placed.project, stack.placed.file
        if project.folder not in of_projects:
            of_projects[project.folder] = [path.name for path in _beside(project) if _is_other(path, since, folder)]
        then = _then(file, since, folder)
        if then != read_bytes(file, MAX_BYTES):
            stack.changed.append(str(file))
        stack.changed += of_projects[project.folder]
        if stack.checked is not None:
            _count(stack, stack.checked, since, then)
    gone = gone_since(since, folder, STACK_FILE.fullmatch)
    return sorted(str(path) for path, text in gone if names_ours(text))


def _count(stack: _Listed, now: CheckedFile, since: str, then: bytes | None) -> None:
    file, before = stack.placed.file, None
    if then is not None:
        before = planned_side(file, since, then) if str(file) in stack.changed else now
    if isinstance(before, list):
        stack.not_compared = f"the file is invalid in {since}"
    else:
        stack.becomes = counted(compare_files(before, now, clouds()).judged.changes)


def _then(file: Path, since: str, folder: Path) -> bytes | None:
    """Return the content of a file in the commit; None if it did not exist."""
    try:
        return file_at(since, file, folder)
    except NotThen:
        return None


def _is_other(file: Path, since: str, folder: Path) -> bool:
    """Return whether a file differs from the commit; a file that is missing in both does not."""
    if not file.is_file():
        return _then(file, since, folder) is not None
    try:
        return _then(file, since, folder) != read_bytes(file, _LARGEST)
    except OSError:  # a larger one counts as changed
        return True


# --- telling ---


def _where(cluster: Cluster) -> dict[str, str | None]:
    """Return account, region and name by the same keys on every cloud; None for values known only later."""
    found = {key: value if isinstance(value, str) else None for key, value in place(cluster).items()}
    keys = {"cloud": "cloud", "account": cluster.account_key, "region": cluster.region_key, "name": "name"}
    return {word: found.get(key) for word, key in keys.items()}


def _for_a_job(placed: Placed) -> dict[str, str]:
    return {
        "file": str(placed.file),
        "directory": str(_from_here(placed.project.folder)),
        "project": placed.project.name,
        "stack": stack_name(placed.file),
    }


def _jobs(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}; use the number of jobs that the CI allows, e.g. 256 on GitHub")
    return number


def _batches(order: Sequence[Sequence[_Listed]], most: int) -> Iterator[JsonDict]:
    """Yield at most `most` stacks of a wave at a time, with what a job needs; the batches run one after another."""
    for number, wave in enumerate(order, 1):
        found = [_for_a_job(stack.placed) for stack in wave]
        jobs = [{key: job[key] for key in ("directory", "stack")} for job in found]
        yield from ({"wave": number, "stacks": jobs[first : first + most]} for first in range(0, len(jobs), most))


def _from_here(path: Path) -> Path:
    """Return a path relative to the current folder if it is below it."""
    here = Path().absolute()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def _as_json(stack: _Listed, others: Sequence[Placed]) -> JsonDict:
    return {
        **_for_a_job(stack.placed),
        "result": "refused" if stack.checked is None else "accepted",
        "production": stack.checked.plan.stack.production if stack.checked is not None else None,
        "clusters": [
            {
                "cluster": key,
                **_where(cluster),
                "pools": [
                    {
                        "pool": pool.name,
                        "instance_type": pool.instance.name,
                        "min_nodes": pool.min_nodes,
                        "max_nodes": pool.max_nodes,
                    }
                    for pool in pools
                ],
            }
            for key, cluster, pools in stack.clusters()
        ],
        "after": [
            {"stack": name, "file": str(found.file) if found is not None else None}
            for name, found in stack.after(others)
        ],
        "changed": stack.changed,
        "changes": stack.becomes,
    }


def _as_text(stack: _Listed, others: Sequence[Placed], number: int) -> Iterator[str]:
    turn = f", wave {number}" if number else ""
    yield f"{stack.placed.file}: {stack.placed.name}{turn}"
    for key, cluster, pools in stack.clusters():
        where, known = _where(cluster), place(cluster)
        parts = (("account", cluster.account_key), ("region", cluster.region_key))  # AKS clusters have no region
        told = " ".join(where[part] or f"(unknown {part})" for part, key in parts if key in known)
        names = ", ".join(f"{pool.name} (≤ {pool.max_nodes} × {pool.instance.name})" for pool in pools) or "no pools"
        yield f"  {key}: {clouds()[cluster.cloud].service} {told}: {names}"
    for name, found in stack.after(others):
        yield f"  after {name}{f' ({found.file})' if found is not None else ', which is in another repository'}"
    if stack.becomes is not None and stack.changed:
        yield f"  changed: {', '.join(stack.changed)}: {in_words(stack.becomes)}"
    elif stack.changed:
        yield f"  changed: {', '.join(stack.changed)}; {stack.not_compared or 'not compared'}"
