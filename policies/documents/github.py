"""Annotations that a GitHub Actions step prints.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
"""

from __future__ import annotations


def annotation(kind: str, file: str, line: int | None, title: str, message: str) -> str:
    """Write one workflow command.

    Args:
        kind: `error`, `warning` or `notice`.
        file: Relative to the repository.
        line: From 1; None for the file as a whole.
        title: Shown in bold.
        message: May have several lines.
    """
    properties = {"file": file, "line": str(line) if line is not None else "", "title": title}
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{kind} {given}::{_data(message)}"


# What the runner takes back: actions/toolkit `packages/core/src/command.ts`, escapeData and escapeProperty.
def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
