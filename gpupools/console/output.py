"""All output of commands, escaped for its format.

Names of files, objects and keys are untrusted. They must not control the terminal, start new lines, be executed as
workflow commands by a CI, or break the format of a report.
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from gpupools.common.json_types import JsonObject
from gpupools.console.terminal import shows_colour

VERSION = 1
"""Version of the JSON output (docs/reference/json.md), which increases when a key is removed or changes its meaning."""

# Invisible characters that Python counts as letters or marks: https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt,
# Default_Ignorable_Code_Point.
_INVISIBLE = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
# Workflow commands of GitHub's runner, on both streams: `::` at the start of a line, `##[` anywhere.
# https://github.com/actions/runner src/Runner.Common/ActionCommand.cs, TryParseV2 and TryParse.
_AT_START = r"^( *)::"


def printable(text: object) -> str:
    r"""Return text with control and invisible characters escaped as in Python: `\n`, `\x1b`, `\u202e`, `\udcff`."""
    given = str(text)
    if given.isprintable():
        return given if given.isascii() else re.sub(_INVISIBLE, lambda match: _escape(match[0]), given)
    return "".join(one if one.isprintable() and not re.match(_INVISIBLE, one) else _escape(one) for one in given)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def line(text: object) -> str:
    """Return one printable line that a CI runner does not execute."""
    return re.sub(_AT_START, r"\1\\::", printable(text)).replace("##[", r"##\[")


def tell(text: object, *, error: bool = False) -> None:
    """Print one line; with `error` to standard error."""
    _write(f"{line(text)}\n", error)


class Style(StrEnum):
    """How a terminal shows a part of a line (ECMA-48, SGR)."""

    BAD = "31"
    GOOD = "32"
    WARNING = "33"
    PLACE = "1"
    FAINT = "2"


def tell_parts(*parts: tuple[object, Style | None], error: bool = False) -> None:
    """Print one line of parts, in color if the terminal supports it."""
    if not shows_colour(sys.stderr if error else sys.stdout):
        tell("".join(str(text) for text, _ in parts), error=error)
        return
    said = (printable(text) if style is None else f"\x1b[{style}m{printable(text)}\x1b[0m" for text, style in parts)
    _write("".join(said) + "\n", error)


def tell_lines(text: str, *, error: bool = False) -> None:
    """Print preformatted lines, such as a table."""
    _write("".join(f"{line(part)}\n" for part in text.removesuffix("\n").split("\n")), error)


def tell_xml(text: str) -> None:
    """Print XML whose values are `printable`."""
    _write(text.replace("##[", "#&#35;["), False)


def _write(text: str, error: bool) -> None:
    stream: TextIO = sys.stderr if error else sys.stdout
    stream.write(text)


# --- JSON ---


def answer(
    command: str, result: str, problems: Iterable[JsonObject], holds: JsonObject, *, indent: int | None = 2
) -> None:
    """Print the JSON output of a command, whose own keys are in `holds`, as documented in docs/reference/json.md."""
    shown = {"version": VERSION, "command": command, "result": result, "problems": list(problems), **holds}
    tell_json(shown, indent=indent)


def tell_json(value: Any, *, indent: int | None = 2) -> None:
    """Print JSON in ASCII with unpaired surrogates (RFC 8259, section 8.2) escaped.

    It is on one line without an indent, and where it is large: Python takes ten times as long to write an indented one.
    """
    text = json.dumps(value, default=dict)
    if indent is not None and len(text) < _LARGE:
        text = json.dumps(value, default=dict, indent=indent)
    if r"\ud" in text:
        text = re.sub(_SURROGATE, lambda match: match[0] if match[1] else f"\\{match[0]}", text)
    # An escaped `#` is the same text in JSON, but not a workflow command in a log.
    _write(text.replace("##[", r"#\u0023[") + "\n", False)


_LARGE = 5_000_000
"""Characters."""
_SURROGATE = r"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f].."
"""In JSON: one without its other half, unless it is in the group."""


# --- GitHub Actions ---


def annotation(kind: str, file: object, at: int | None, title: str, message: object) -> str:
    """Return one workflow command, a single line, of kind `error`, `warning` or `notice`.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
    """
    properties = {"file": str(file), "line": str(at) if at is not None else "", "title": title}
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    lines = str(message).split("\n")
    return f"::{kind} {given}::{_data(chr(10).join(map(printable, lines)))}"


# What the runner unescapes: actions/toolkit `packages/core/src/command.ts`, escapeData and escapeProperty.
def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


def annotate(kind: str, file: object, at: int | None, title: str, message: object) -> None:
    """Print one annotation to standard output, where the runner reads it."""
    _write(annotation(kind, file, at, title, message) + "\n", False)


# --- SARIF ---


def sarif_text(text: object) -> str:
    """Return text for a SARIF message, in which `[…](…)` would be a link (section 3.11.6)."""
    return printable(text).replace("](", r"\](")


def uri(path: Path) -> str:
    """Return the URI of a file, relative if it is below the working folder; names may have any bytes."""
    whole, here = path.absolute(), Path.cwd()
    relative = whole.is_relative_to(here)
    address = quote(os.fsencode((whole.relative_to(here) if relative else whole).as_posix()))
    return address if relative else f"file://{address}"


# --- Markdown ---


def markdown_code(text: object) -> str:
    """Return text as a code span: elsewhere GitHub turns it into mentions, references and links, even if escaped.

    A span ends at as many backticks as it starts with, and one space at each end is removed
    (https://spec.commonmark.org/0.31.2/#code-spans).
    """
    shown = line(text) or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if longest or shown != shown.strip() else ""
    return f"{fence}{padding}{shown}{padding}{fence}"
