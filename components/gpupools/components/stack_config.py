"""The configuration of the running program: what Pulumi handed over, and what of it is encrypted."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret
from pulumi.runtime.rpc import UNKNOWN

from gpupools.common.errors import Problem, Rejected, dotted
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.spec.models import LATE
from gpupools.stackfile.config_values import ValueMismatchError, from_text, marked, rewritten_dates
from gpupools.stackfile.reader import NAMESPACE, StackFile, read_values

FILE = "GPUPOOLS_STACK_FILE"
"""Environment variable with the path of the stack file, where it is not beside the program (`--config-file`)."""
_HANDED_OVER = "PULUMI_CONFIG"
"""Set by Pulumi's language host (https://github.com/pulumi/pulumi, sdk/python/lib/pulumi/runtime/config.py), and by it
alone: an offline preview has the values themselves, in which every secret is unknown."""


T = TypeVar("T")


@dataclass(frozen=True)
class StackConfig:
    """The values under `gpupools:`, by key without the namespace."""

    values: JsonObject
    """As Pulumi hands them over: decrypted."""
    marked: JsonObject
    """The same with `LATE` for every value that is encrypted; what is refused is refused of these, and shown."""
    encrypted: frozenset[str]
    """Keys that hold an encrypted value."""
    others: tuple[str, ...]
    """The whole keys of all other namespaces."""


def read_stack_config() -> StackConfig:
    """Read the program's configuration: every key there is, since a misspelt one would otherwise do nothing.

    Pulumi hands a program every value decrypted, and says of a whole key only that something in it is a secret. Which
    value that is stands in the stack file, as long as the file says the same otherwise.

    Raises:
        Rejected: A value would mean something else to another reader of the file, or nothing says what is secret.
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
            known[key] = _offline(value) if _HANDED_OVER not in os.environ else marked(value, written[key], (key,))
        except (KeyError, ValueMismatchError) as found:
            if key in encrypted:
                what = "holds encrypted values, and Pulumi does not say which"
                fix = f"keep this key in Pulumi.{pulumi.get_stack()}.yaml, or name its file in {FILE}"
                problems.append(Problem((key,), what, fix))
            elif isinstance(found, ValueMismatchError):
                assert file is not None, "it is unlike what a file has"
                if not file.environments:
                    # The value itself may be nobody's to show.
                    pulumi.log.warn(
                        f"{dotted(found.path)}: Pulumi handed over another value than {file.path} has, "
                        f"and gpupools check judges the file; with --config-file name it in {FILE}"
                    )
    if problems:
        raise Rejected(problems)
    return StackConfig(values, known, encrypted, tuple(key for key in configured if not key.startswith(ours)))


def _stack_file() -> StackFile | None:
    """Read the file that the configuration comes from; None where it is not beside the program."""
    if _HANDED_OVER not in os.environ:
        return None
    for path in _candidates():
        if path.is_file():
            return read_values(path)
    return None


def _candidates() -> Iterator[Path]:
    if named := os.environ.get(FILE):
        yield Path(named)
        return
    name = f"Pulumi.{pulumi.get_stack()}.yaml"
    yield Path.cwd() / name  # `stackConfigDir` of Pulumi.yaml is the program's folder
    yield Path(pulumi.get_root_directory()) / name


def _offline(value: Any) -> Any:
    """Put `LATE` where an offline preview has Pulumi's sign for what is unknown."""
    if isinstance(value, dict):
        return {key: _offline(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_offline(item) for item in value]
    return LATE if value == UNKNOWN else value


def decrypted(decide: Callable[..., T], *arguments: Any) -> T:
    """Decide on decrypted values.

    Raises:
        Rejected: Where `decide` refuses; what it says may repeat a value.
    """
    try:
        return decide(*arguments)
    except Rejected as rejected:
        what, fix = "its decrypted value is refused, and not shown", "try such a value in clear with gpupools check"
        raise Rejected(Problem(each.path, what, fix, each.source) for each in rejected.problems) from None
