"""Selects the reader of a file by its content."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any, Protocol, cast

from gpupools import audit
from gpupools.audit import kubernetes, terraform_configuration
from gpupools.audit.document import Document
from gpupools.common.errors import Problem, Rejected
from gpupools.common.structured_text import NotStructured, Text, read_text


class UnknownForm(Rejected):
    """A file has none of the forms, or is neither JSON nor YAML."""


class Form(Protocol):
    """Interface of the module of a form."""

    FORM: str
    recognises: Callable[[Any], bool]
    read: Callable[[Text], Document]


FORMS = cast("tuple[Form, ...]", tuple(import_module(f"{audit.__name__}.{name}") for name in audit.FORMS))
"""Every form but Kubernetes manifests: a value with `apiVersion` and `kind` is always an object."""

_OBJECTS = cast("Form", kubernetes)

_TAKEN = (
    "give it terraform show -json, pulumi preview --json, pulumi stack export, gpupools preview --json, a "
    "CloudFormation or ARM template, a change set, a what-if result, or a Kubernetes manifest"
)


def read_document(path: FilePath) -> Document:
    """Read a file of any form.

    Raises:
        UnknownForm: It has none of the forms.
        Rejected: It cannot be read, has several forms, or cannot be judged.
    """
    if path.suffix == ".tf" or (path.is_dir() and any(path.glob("*.tf"))):
        return terraform_configuration.read_configuration(path if path.is_dir() else path.parent)
    try:
        text = read_text(path)
    except NotStructured as rejected:
        raise UnknownForm(rejected.problems) from None
    forms = {form.FORM: form for value in text.values for form in _forms(value.data)}
    if not forms:
        raise _unknown(text)
    if len(forms) > 1:
        what = f"could be {' or '.join(f'a {name}' for name in forms)}, which are read differently"
        raise Rejected([Problem((), what, "put each in a file of its own, as its tool wrote it")])
    (form,) = forms.values()
    documents = sum(value.data is not None for value in text.values)
    if form is not _OBJECTS and documents > 1:
        what = f"holds {documents} documents, of which a {form.FORM} is one"
        raise Rejected([Problem((), what, "put each in a file of its own, as its tool wrote it")])
    return form.read(text)


def _forms(data: Any) -> list[Form]:
    if _OBJECTS.recognises(data):
        return [_OBJECTS]
    return [form for form in FORMS if form.recognises(data)]


def _unknown(text: Text) -> Rejected:
    data = text.values[0].data if text.values else None
    if not isinstance(data, dict):
        return UnknownForm([Problem((), "contains nothing to judge", _TAKEN)])
    if "terraform_version" in data and "lineage" in data:
        return Rejected([Problem((), "is a raw Terraform state", "write it with: terraform show -json")])
    if "@level" in data:
        fix = "save the plan (-out PLAN) and write it with: terraform show -json PLAN"
        return Rejected([Problem((), "is Terraform's log, not its plan", fix)])
    keys = ", ".join(list(map(str, data))[:5])[:100]
    return UnknownForm([Problem((), f"has no supported format (its keys: {keys or 'none'})", _TAKEN)])
