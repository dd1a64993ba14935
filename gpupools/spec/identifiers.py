"""Forms of the identifiers that a stack file gives for a cluster, checked before any cloud is asked. Pure."""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gpupools.common.errors import shown

_TEMPLATE_MARKS = ("${", "$(", "{{", "{%", "%{", "<%", "<<")
"""Starts of a place that a template tool fills in: shell, Jinja, Go, Terraform, ERB."""


class Form(NamedTuple):
    """Form of one identifier in its cloud."""

    matches: Callable[[str], object]
    """Returns something true for a valid identifier."""
    fix: str
    """What to write."""
    source: str
    """URL of the page that documents the form."""
    pattern: str = ""
    """The same as a regular expression, if it is one."""
    is_secret: bool = False
    """Whether a wrong value is not shown, because users may paste a secret there."""


def pattern(text: str, fix: str, source: str) -> Form:
    """Return the form of identifiers that match a regular expression."""
    return Form(re.compile(text).fullmatch, fix, source, text)


def texts(value: object) -> Iterator[str]:
    """Yield a text, or all texts in a list or map."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(key)
            yield from texts(item)


def check_form(value: object, form: Form | None) -> None:
    """Check the texts of one key; values that are known only later are not checked.

    Raises:
        ValueError: A template that was not filled in, or a text of another form.
    """
    for text in texts(list(value.values()) if isinstance(value, Mapping) else value):
        if any(mark in text for mark in _TEMPLATE_MARKS):
            raise ValueError(f"got {shown(text)}, a template that was not filled in; write the value")
        if form is not None and not form.matches(text):
            given = "is no certificate" if form.is_secret else f"got {shown(text)}"
            raise ValueError(f"{given}; {form.fix}")


def _is_certificate(text: str) -> bool:
    try:
        return b64decode("".join(text.split()), validate=True).startswith(b"-----BEGIN CERTIFICATE-----")
    except (Error, ValueError):
        return False


CERTIFICATE = Form(
    _is_certificate,
    "write the base64 text that the cloud shows, which decodes to -----BEGIN CERTIFICATE-----",
    "https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/#Cluster",
    is_secret=True,
)


def pattern_of(value: object, most: int | None = None) -> str:
    """Return a pattern of at most the first characters of a value, which may be known only to Pulumi."""
    return re.escape(value[:most]) if isinstance(value, str) and value else "[^/ ]*"
