"""The types of every resource whose SDK a test has imported, where the preview's data has only those of our own."""

import functools

from gpupools.preview import sdk_schema
from gpupools.preview.sdk_schema import Schema, schema
from tooling.sdk_types import input_types, resource_class, short_name

_stored = sdk_schema.schema_of


def _qualified(kind: type) -> str:
    return f"{kind.__module__}:{short_name(kind)}"


@functools.cache
def _of_class(token: str, _resource: type) -> Schema:
    return schema(input_types([token], _qualified))


def schema_of(token: str) -> Schema | None:
    """Return the schema that the preview has of a token, else what an imported SDK declares."""
    found = _stored(token)
    resource = resource_class(token) if found is None else None
    return _of_class(token, resource) if resource is not None else found


def read_sdks() -> None:
    """Let the preview judge the resources of any program from now on."""
    sdk_schema.schema_of = schema_of
