"""Read the configuration of the running program, and find its encrypted values."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret
from pulumi.runtime.rpc import UNKNOWN

from gpupools.common.errors import Problem, Rejected, dotted
from gpupools.common.json_types import JsonDict, JsonObject, with_items
from gpupools.spec.models import LATE
from gpupools.stackfile.config_values import ValueMismatchError, from_text, marked, rewritten_dates
from gpupools.stackfile.reader import NAMESPACE, StackFile, read_values

FILE = "GPUPOOLS_STACK_FILE"
"""Environment variable with the path of the stack file, if it is not beside the program (`--config-file`)."""
_CONFIG_VARIABLE = "PULUMI_CONFIG"
"""Set by Pulumi's language host (https://github.com/pulumi/pulumi, sdk/python/lib/pulumi/runtime/config.py), but
not in an offline preview, where every secret is unknown."""


T = TypeVar("T")


@dataclass(frozen=True)
class StackConfig:
    """The values under `gpupools:`, by key without the namespace."""

    values: JsonObject
    """Decrypted, as Pulumi passes them."""
    marked: JsonObject
    """The same with `LATE` for every encrypted value; validation and error messages use these."""
    encrypted: frozenset[str]
    """Keys that contain an encrypted value."""
    others: tuple[str, ...]
    """The full keys of all other namespaces."""
    is_decrypted: bool
    """Whether `values` has encrypted values as clear text; an offline preview cannot read them."""
    folder: Path
    """Folder of the stack file; the program's if the file is not found."""


def read_stack_config() -> StackConfig:
    """Return the program's configuration with every key, so that misspelled keys are rejected.

    Pulumi passes every value decrypted and only marks a whole key as secret. The stack file shows which value is
    encrypted, if its other values match.

    Raises:
        Rejected: A value is ambiguous between YAML parsers, or the encrypted values cannot be located.
    """
    configured = {**get_config_env(), **CONFIG.get()}
    ours = f"{NAMESPACE}:"
    texts = {key.removeprefix(ours): text for key, text in configured.items() if key.startswith(ours)}
    encrypted = frozenset(key for key in texts if is_config_secret(f"{ours}{key}"))
    values: JsonDict = {}
    problems: list[Problem] = []
    for key, text in texts.items():
        try:
            values[key] = from_text(key, text)
        except Rejected as rejected:
            problems += rejected.problems
    problems += rewritten_dates({key: value for key, value in values.items() if key not in encrypted}, ())
    file = _stack_file()
    if problems:
        raise Rejected(problems)
    written = file.config if file is not None else {}
    known = dict(values)
    for key, value in values.items():
        try:
            known[key] = (
                _mark_unknown(value) if _CONFIG_VARIABLE not in os.environ else marked(value, written[key], (key,))
            )
        except (KeyError, ValueMismatchError) as error:
            if key in encrypted:
                what = "contains encrypted values, and Pulumi does not mark which"
                fix = f"keep this key in Pulumi.{pulumi.get_stack()}.yaml, or set {FILE} to its file"
                problems.append(Problem((key,), what, fix))
            elif isinstance(error, ValueMismatchError):
                assert file is not None, "a mismatch needs a file"
                if not file.environments:
                    # The value itself may be a secret.
                    pulumi.log.warn(
                        f"{dotted(error.path)}: Pulumi passed a value that differs from {file.path}, the file that "
                        f"gpupools check reads; with --config-file, set {FILE} to the same file"
                    )
    if problems:
        raise Rejected(problems)
    others = tuple(key for key in configured if not key.startswith(ours))
    is_decrypted = _CONFIG_VARIABLE in os.environ
    return StackConfig(
        values, known, encrypted, others, is_decrypted, file.path.parent if file is not None else Path.cwd()
    )


def _stack_file() -> StackFile | None:
    """Return the stack file of the configuration; None if it is not found."""
    if _CONFIG_VARIABLE not in os.environ:
        return None
    named, name = os.environ.get(FILE), f"Pulumi.{pulumi.get_stack()}.yaml"
    path = Path(named) if named else Path.cwd() / name  # `stackConfigDir` of Pulumi.yaml is the program's folder
    if not named and not path.is_file():
        path = Path(pulumi.get_root_directory()) / name
    return read_values(path) if path.is_file() else None


def _mark_unknown(value: Any) -> Any:
    """Return a value with `LATE` for each unknown value of an offline preview."""
    return LATE if value == UNKNOWN else with_items(value, _mark_unknown)


def hiding_values(function: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function of decrypted values; if it rejects them, the message repeats no value."""
    try:
        return function(*arguments)
    except Rejected as rejected:
        what, fix = "the decrypted value is invalid (not shown)", "test a similar plain value with gpupools check"
        raise Rejected(Problem(problem.path, what, fix, problem.source) for problem in rejected.problems) from None
