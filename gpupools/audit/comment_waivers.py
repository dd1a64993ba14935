"""Finds waivers in comments of files that people write: `# gpupools:ignore RULE until=DAY owner=WHO reason="…"`."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from gpupools.audit.document import Resource
from gpupools.audit.terraform_sources import Sources
from gpupools.common.input_files import read_bytes
from gpupools.common.structured_text import MAX_BYTES

_MARK = "gpupools:ignore"
_COMMENTS = ("#", "//")


def comments_of(
    path: Path, resources: Mapping[str, Resource], sources: Sources | None, folders: Iterable[Path]
) -> dict[str, tuple[str, ...]]:
    """Return the texts behind the mark, by the address of the resource that follows the comment or is around it.

    Args:
        path: The file with the resources.
        resources: Those of the document.
        sources: The configuration beside a Terraform plan.
        folders: Its folders.
    """
    files = [file for folder in folders for file in folder.glob("*.tf")] if sources is not None else [path]
    marked = {file.resolve(): text for file in files if file.is_file() and _MARK in (text := _text(file))}
    starts: dict[Path, dict[int, list[str]]] = {file: {} for file in marked}
    for address, each in resources.items() if marked else ():
        place = sources.place(each.address, "") if sources is not None else (path, each.line)
        if place is not None and place[1] is not None and place[0].resolve() in starts:
            starts[place[0].resolve()].setdefault(place[1], []).append(address)
    found: dict[str, tuple[str, ...]] = {}
    for file, text in marked.items():
        lines = text.splitlines()
        for number, line in enumerate(lines, start=1):
            before, mark, rest = line.partition(_MARK)
            if mark and before.strip() in _COMMENTS:
                for address in _about(lines, number, starts[file]):
                    found[address] = (*found.get(address, ()), rest.strip())
    return found


def _about(lines: list[str], number: int, starts: Mapping[int, list[str]]) -> list[str]:
    beside = ("---", *_COMMENTS)
    rest = ((place, line.strip()) for place, line in enumerate(lines[number:], start=number + 1))
    following = next((place for place, line in rest if line and not line.startswith(beside)), 0)
    if following in starts:
        return starts[following]
    above = [start for start in starts if start <= number]
    return starts[max(above)] if above else []


def _text(file: Path) -> str:
    try:
        return read_bytes(file, MAX_BYTES).decode("utf-8")
    except (OSError, ValueError):
        return ""
