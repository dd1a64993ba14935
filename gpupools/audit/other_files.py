"""Finds what a file refers to in the other files of a run: Cluster API objects, and templates of nested stacks."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gpupools.audit import cloudformation_template, kubernetes
from gpupools.audit.document import Document, Resource
from gpupools.audit.forms import read_document
from gpupools.common.errors import Rejected
from gpupools.common.input_files import read_bytes
from gpupools.common.structured_text import MAX_BYTES
from gpupools.readback.inputs import at, group_and_kind, text

_CLUSTER_API = "cluster.x-k8s.io"
_Key = tuple[str, str, str]


def with_nested_templates(path: Path, document: Document, files: tuple[Path, ...]) -> Document:
    """Mark the nested stacks of a CloudFormation template whose local template is another file of the run."""
    if document.form != cloudformation_template.FORM or len(files) < 2:
        return document
    here = path.resolve()
    others = {file.resolve() for file in files} - {here}
    resources = tuple(
        replace(resource, in_other_file=True)
        if (url := text(resource.inputs.get("templateURL"))) and (here.parent / url).resolve() in others
        else resource
        for resource in document.resources
    )
    return replace(document, resources=resources)


def is_called_module(path: Path, files: tuple[Path, ...]) -> bool:
    """Return whether a folder of `.tf` files is a module that was read with the arguments of a caller in the run.

    Of modules that call each other in a circle none is.
    """
    here, read = path.resolve(), _configurations(files) if path.is_dir() else {}
    calls = read[path].folders if path in read else ()
    return any(here in value.folders and caller.resolve() not in calls for caller, value in read.items())


def read_in_run(path: Path, files: tuple[Path, ...]) -> Document:
    """Read a file of a run, of which a folder of `.tf` files may have been read before.

    Raises:
        Rejected: As `read_document`.
    """
    return (_configurations(files).get(path) if path.is_dir() else None) or read_document(path)


@lru_cache(maxsize=1)
def _configurations(files: tuple[Path, ...]) -> Mapping[Path, Document]:
    """Return the folders of `.tf` files in a run of several files, as far as they can be read."""
    configurations: dict[Path, Document] = {}
    for folder in (file for file in files if len(files) > 1 and file.is_dir()):
        with suppress(Rejected, RecursionError):  # the report on the folder itself says so
            configurations[folder] = read_document(folder)
    return configurations


def objects_elsewhere(path: Path, document: Document, files: tuple[Path, ...]) -> tuple[Resource, ...]:
    """Return the Cluster API objects of the other files of the run.

    None are returned where one is in several files, such as the layers of Kustomize: which one is meant is not known.
    """
    if document.form != kubernetes.FORM or len(files) < 2:
        return ()
    own = {key for resource in document.resources if (key := _key(resource)) is not None}
    if not own:
        return ()
    others = [
        [each for file, each in found if file != path] for key, found in _objects(files).items() if key not in own
    ]
    return () if any(len(other) > 1 for other in others) else tuple(one for other in others for one in other)


@lru_cache(maxsize=1)
def _objects(files: tuple[Path, ...]) -> Mapping[_Key, list[tuple[Path, Resource]]]:
    """Return the Cluster API objects of all files, each with its file."""
    objects: dict[_Key, list[tuple[Path, Resource]]] = {}
    for file in files:
        for resource in _read(file):
            if (key := _key(resource)) is not None:
                objects.setdefault(key, []).append((file, resource))
    return objects


def _read(file: Path) -> Iterator[Resource]:
    with suppress(Rejected, RecursionError, OSError):  # the report on the file itself says so
        if file.is_file() and _CLUSTER_API.encode() in read_bytes(file, MAX_BYTES):
            document = read_document(file)
            yield from document.resources if document.form == kubernetes.FORM else ()


def _key(resource: Resource) -> _Key | None:
    group, kind = group_and_kind(resource.type)
    if not group.endswith(_CLUSTER_API):
        return None
    name, namespace = (text(at(resource.inputs, f"metadata.{key}")) for key in ("name", "namespace"))
    return kind, namespace or "default", name
