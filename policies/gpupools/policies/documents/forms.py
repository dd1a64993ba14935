"""Recognises a file's form and hands it to the form's module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any, Protocol, cast

from gpupools.base.errors import Problem, Rejected
from gpupools.policies.documents import (
    gpupools_preview,
    kubernetes,
    pulumi_preview,
    pulumi_state,
    stack_file,
    terraform_plan,
    terraform_state,
)
from gpupools.policies.documents.document import Document
from gpupools.policies.documents.text import Text, read_text


class Form(Protocol):
    """What the module of a form offers."""

    FORM: str
    recognises: Callable[[Any], bool]
    read: Callable[[Text], Document]


FORMS = cast(
    "tuple[Form, ...]",
    (terraform_plan, terraform_state, pulumi_preview, pulumi_state, gpupools_preview, kubernetes, stack_file),
)

_TAKEN = (
    "give it terraform show -json, pulumi preview --json, pulumi stack export, gpupools preview --json, or a "
    "Kubernetes manifest"
)


def read_document(path: FilePath) -> Document:
    """Read a file of any form.

    Raises:
        Rejected: It cannot be read, has none of the forms, or cannot be judged.
    """
    text = read_text(path)
    for form in FORMS:
        if any(form.recognises(value.data) for value in text.values):
            return form.read(text)
    raise Rejected([_unknown(text)])


def _unknown(text: Text) -> Problem:
    data = text.values[0].data if text.values else None
    if not isinstance(data, dict):
        return Problem((), "holds nothing that could be judged", _TAKEN)
    if "terraform_version" in data and "lineage" in data:
        return Problem((), "is a raw Terraform state", "write it with: terraform show -json")
    if "@level" in data:
        fix = "save the plan (-out PLAN) and write it with: terraform show -json PLAN"
        return Problem((), "is Terraform's log, not its plan", fix)
    keys = ", ".join(list(map(str, data))[:5])[:100]
    return Problem((), f"has none of the forms that can be judged (its keys: {keys or 'none'})", _TAKEN)
