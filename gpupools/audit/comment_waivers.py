"""Finds waivers in comments of files that people write: `# gpupools:ignore RULE until=DAY owner=WHO reason="…"`."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpupools.audit.document import Resource
from gpupools.audit.terraform_sources import Sources
from gpupools.common.input_files import read_bytes
from gpupools.common.structured_text import MAX_BYTES
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.waivers import Comment
from gpupools.readback.inputs import steps

_MARK = "gpupools:ignore"
_COMMENTS = ("#", "//")
_NOT_READ = ("#", "//", "/*", "*", "<!--", "--", ";")
"""What starts a comment behind something else on its line, or of a form that is not read."""


def comments_of(
    path: Path,
    resources: Mapping[str, Resource],
    pools: Mapping[str, Sequence[PoolFacts]],
    sources: Sources | None,
    folders: Iterable[Path],
) -> dict[str, list[Comment]]:
    """Return the comments with the mark, by the address of the resource that follows the comment or is around it.

    Args:
        path: The file with the resources.
        resources: Those of the document.
        pools: The pools of each resource.
        sources: The configuration beside a Terraform plan.
        folders: Its folders.
    """
    files = [file for folder in folders for file in folder.glob("*.tf")] if sources is not None else [path]
    marked = {file.resolve(): text for file in files if file.is_file() and _MARK in (text := _file_text(file))}
    lines = {file: [*_marked_lines(text)] for file, text in marked.items()}
    wanted = {following for of_file in lines.values() for _, following, _ in of_file}
    starts: dict[Path, dict[int, list[str]]] = {file: {} for file in marked}
    pool_at: dict[tuple[str, int], str] = {}
    for address, resource in resources.items() if marked else ():
        place = sources.place(resource.address, "") if sources is not None else (path, resource.line)
        if place is not None and place[1] is not None and place[0].resolve() in starts:
            starts[place[0].resolve()].setdefault(place[1], []).append(address)
            found_at = _pool_lines(resource, pools.get(address, ()), sources, wanted)
            pool_at |= {(address, line): pool for line, pool in found_at}
    comments: dict[str, list[Comment]] = {}
    for file, of_file in lines.items():
        ordered = sorted(starts[file])
        for line, following, comment in of_file:
            inside = max([line, *ordered[:1]]) if comment.fault else line  # one that waives nothing belongs to any
            for address in _about(starts[file], ordered, inside, following):
                several = len(pools.get(address, ())) > 1
                pool = pool_at.get((address, following), "")
                fault = comment.fault
                if several and not pool and "pool=" not in comment.text:
                    fault = fault or "add pool=NAME, or write it above the lines of one pool: the object has several"
                comments.setdefault(address, []).append(Comment(comment.text, pool, fault))
    return comments


def _marked_lines(text: str) -> Iterator[tuple[int, int, Comment]]:
    """Yield the number of each line with the mark, that of the next line that is no comment, and the comment."""
    following, found = 0, []
    lines = text.splitlines()
    for number in range(len(lines), 0, -1):
        line = lines[number - 1].strip()
        before, mark, rest = line.partition(_MARK)
        if mark and before.strip() in _COMMENTS:
            found.append((number, following, Comment(rest.strip())))
        elif mark and before.rstrip().endswith(_NOT_READ):
            fault = f"line {number}: write it on a line of its own that starts with # or //"
            found.append((number, following or number, Comment(rest.strip(), fault=fault)))
        if line and not line.startswith(("---", *_COMMENTS)):
            following = number
    return reversed(found)


def _about(starts: Mapping[int, list[str]], ordered: Sequence[int], number: int, following: int) -> list[str]:
    """Return the resources that start at the following line, or the one around the comment."""
    if following in starts:
        return starts[following]
    above = bisect_right(ordered, number)
    return starts[ordered[above - 1]] if above else []


def _pool_lines(
    resource: Resource, pools: Sequence[PoolFacts], sources: Sources | None, wanted: Collection[int]
) -> Iterator[tuple[int, str]]:
    """Yield the wanted lines of each of several pools in one resource; in Terraform, the first line of each."""
    if len(pools) < 2:
        return
    paths = [(tuple(steps(pool.where)), pool) for pool in pools]
    counted = Counter(path[:size] for path, _ in paths for size in range(1, len(path) + 1))
    blocks = {
        next((path[:size] for size in range(1, len(path) + 1) if counted[path[:size]] == 1), ()): pool.pool
        for path, pool in paths
    }
    for path, line in ((path, line) for path, line in resource.lines.items() if line in wanted):
        yield from ((line, blocks[path[:size]]) for size in range(1, len(path) + 1) if path[:size] in blocks)
    if sources is None:
        return
    for path, name in blocks.items():
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        place = sources.place(resource.address, resource.spelled(where))
        if place is not None:
            yield place[1], name


def _file_text(file: Path) -> str:
    try:
        return read_bytes(file, MAX_BYTES).decode("utf-8")
    except (OSError, ValueError):
        return ""
