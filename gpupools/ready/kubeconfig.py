"""Reads one context of a kubeconfig, and runs its exec plugin. No other library opens a file or starts a program.

https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import base64
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected
from gpupools.common.input_files import read_bytes
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.readback.inputs import at
from gpupools.stackfile.reader import holds_home, is_in_checkout

MAX_BYTES = 4 * 1024 * 1024
"""Of a kubeconfig and of what a plugin prints; a kubeconfig for a thousand clusters has about 3 MB."""
PLUGIN_TIMEOUT_S = 60

_FILES = {
    "certificate-authority": "certificate-authority-data",
    "client-certificate": "client-certificate-data",
    "client-key": "client-key-data",
    "tokenFile": "token",
}
"""Keys that name a file, and the key for its content."""
_CLUSTER_KEYS = {"server", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name", "proxy-url"}
_USER_KEYS = {"token", "client-certificate-data", "client-key-data", "username", "password"}
_UNSUPPORTED = {"auth-provider", "as", "as-uid", "as-groups", "as-user-extra"}
"""Keys of a user that change who is asked, or from whom a token comes."""


class Unreachable(Exception):
    """The API of a cluster gave no answer, or nothing leads to it.

    `may_pass` says whether waiting may help, `wait_s` how long the API asks for, and `status` what it answers.
    """

    def __init__(self, why: str, *, may_pass: bool = False, wait_s: float | None = None, status: int = 0) -> None:
        self.may_pass, self.wait_s, self.status = may_pass, wait_s, status
        super().__init__(why)


class Context(NamedTuple):
    """What one context says; files are read already."""

    cluster_name: str
    """Name of the cluster's entry, in which `aws` and `gcloud` write the identity of the cluster."""
    host: str
    cluster: JsonDict
    user: JsonDict
    plugin: JsonDict
    """The exec plugin; empty for none."""
    folder: Path | None
    """That of the stack file."""


def read_context(source: JsonObject | Path | None, context: str | None, folder: Path | None) -> Context:
    """Return a context of a kubeconfig that is given, in a file, or in kubectl's default file.

    Args:
        source: Content, or a file; None for `KUBECONFIG` or `~/.kube/config`.
        context: Name; None for the current context.
        folder: Folder of the stack file, no file of whose checkout is read or run; None for no such folder.

    Raises:
        Unreachable: The kubeconfig cannot be read, or it has no such context.
    """
    base, data = None, source
    if not isinstance(source, Mapping):
        named = str(source or os.environ.get("KUBECONFIG") or "~/.kube/config")
        file = Path(os.path.expanduser(named))  # noqa: PTH111 - never raises
        base, data = file.absolute().parent, parsed(_content(file, folder), str(file))
    about = str(file) if base else "the kubeconfig"
    try:
        return _context(data, context, base, folder)
    except ValueError as error:
        raise Unreachable(f"{about}: {error}; check it, or use --context") from None


def parsed(content: bytes, about: str) -> JsonDict:
    """Return the content of a kubeconfig; raise `Unreachable`, without repeating any of it."""
    try:
        documents = parse_yaml(content.decode("utf-8-sig"), unique=True, private=True)
    except UnicodeDecodeError:
        raise Unreachable(f"{about}: is not text; check that it is a kubeconfig") from None
    except Rejected as rejected:
        raise Unreachable(f"{about}: {rejected}") from None
    if len(documents) != 1 or not isinstance(documents[0].data, dict):
        raise Unreachable(f"{about}: is not a kubeconfig: it has {len(documents)} YAML documents with a map")
    return documents[0].data


def _is_of_checkout(path: str | Path, folder: Path | None) -> bool:
    """Return whether a path leads into the checkout of the stack file, or through a link that lies there."""
    if folder is None or holds_home(folder):
        return False
    named = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links
    return any(is_in_checkout(str(each), folder) for each in (named, *named.parents))


def _content(file: Path, folder: Path | None) -> bytes:
    """Return the content of a regular file outside the checkout, within the limit."""
    if {":", ";"} & set(str(file)):
        raise Unreachable(f"{file}: is a list of files, or has : or ; in its name; name one file with --kubeconfig")
    if _is_of_checkout(file, folder):
        raise Unreachable(f"{file}: is inside the checkout, but a kubeconfig names programs that run; move it outside")
    try:
        return read_bytes(file, MAX_BYTES, only_files=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise Unreachable(f"{file}: cannot be read: {reason}; use --kubeconfig and --context") from None


def _context(data: Any, name: str | None, base: Path | None, folder: Path | None) -> Context:
    name = name or _text_at(data, "current-context")
    if not name:
        raise ValueError("it has no current context")
    context = _entry(data, "context", name)
    cluster_name, user_name = _text_at(context, "cluster"), _text_at(context, "user")
    cluster = _with_files(_entry(data, "cluster", cluster_name), base, folder)
    user = _with_files(_entry(data, "user", user_name), base, folder) if user_name else {}
    server, _ = _address(cluster, "server"), _address(cluster, "proxy-url")
    if server.scheme not in ("http", "https") or not server.hostname or "@" in server.netloc or server.query:
        raise ValueError(f"the server of cluster {cluster_name} is not an https address")
    if unsupported := sorted(_UNSUPPORTED & user.keys()):
        raise ValueError(f"user {user_name} has {unsupported[0]}, which gpupools does not support; use an exec plugin")
    plugin = user.get("exec") or {}
    if not isinstance(plugin, dict) or not isinstance(plugin.get("args") or [], list):
        raise ValueError(f"exec of user {user_name} is not a map with a list of args")
    command = plugin and _text_at(plugin, "command")
    if command and os.path.basename(command) != command and not os.path.isabs(command):  # noqa: PTH117, PTH119
        if base is None:
            raise ValueError(f"the program {command} has no absolute path")
        plugin = {**plugin, "command": str(base / command)}
    cluster = {key: value for key, value in cluster.items() if key in _CLUSTER_KEYS}
    user = {key: user[key] for key in _USER_KEYS & user.keys()}
    return Context(cluster_name, server.netloc, cluster, user, plugin, folder)


def _text_at(holder: Any, key: str) -> str:
    value = holder.get(key, "") if isinstance(holder, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"{key} is not text")
    return value


def _address(cluster: JsonDict, key: str) -> SplitResult:
    """Return the parts of a URL; a password may be where its port should be, so none of it is repeated."""
    text = _text_at(cluster, key)
    with suppress(ValueError):
        found = urlsplit(text)
        if found.port != 0:
            return found
    raise ValueError(f"{key} is not a URL, or its port is not from 1 to 65535")


def _entry(data: JsonObject, kind: str, name: str) -> JsonDict:
    listed = data.get(f"{kind}s")
    found = [item for item in listed if at(item, "name") == name] if isinstance(listed, list) else []
    if len(found) != 1 or not isinstance(found[0].get(kind), dict):
        raise ValueError(f"it has {len(found) or 'no'} {kind}{'s' if found[1:] else ''} named {name!r}")
    return dict(found[0][kind])


def _with_files(entry: JsonDict, base: Path | None, folder: Path | None) -> JsonDict:
    """Return an entry with the content of the files that it names."""
    for key, content in _FILES.items():
        if name := _text_at(entry, key):
            if base is None and not Path(name).is_absolute():
                raise ValueError(f"{key} is not an absolute path")
            read = _content((base or Path()) / name, folder)
            entry.setdefault(content, read.decode().strip() if key == "tokenFile" else base64.b64encode(read).decode())
    if not isinstance(entry.get("insecure-skip-tls-verify", False), bool):
        raise ValueError("insecure-skip-tls-verify is neither true nor false")
    for key in (_USER_KEYS | _CLUSTER_KEYS) - {"insecure-skip-tls-verify"}:
        _header_at(entry, key)
    return entry


def _header_at(holder: JsonDict, key: str) -> None:
    text = _text_at(holder, key)
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"{key} has characters that a header of HTTP cannot have")


class Credential(NamedTuple):
    """What an exec plugin gives: keys of a user, and when they expire."""

    user: JsonDict
    expires: datetime | None


def run_plugin(context: Context) -> Credential:
    """Return what the exec plugin of a context gives; raise `Unreachable` with its reason."""
    try:
        return _credential(context)
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        text = " ".join(str(error).split())[:200]
        command = context.plugin.get("command")
        raise Unreachable(f"{command} gave no token: {text}; install it, log in again, or use --context") from None


def _credential(context: Context) -> Credential:
    plugin, version = context.plugin, context.plugin["apiVersion"]
    spec: JsonDict = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = context.cluster
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    env = {**os.environ, **{each["name"]: each["value"] for each in plugin.get("env") or ()}}
    # The plugin searches there for programs too: gke-gcloud-auth-plugin runs gcloud.
    folders = [each for each in os.get_exec_path(env) if os.path.isabs(each)]  # noqa: PTH117
    env["PATH"] = os.pathsep.join(each for each in folders if not _is_of_checkout(each, context.folder))
    program = shutil.which(plugin["command"], path=env["PATH"]) or plugin["command"]
    if not os.path.isabs(program) or _is_of_checkout(program, context.folder):  # noqa: PTH117
        what = f"{plugin['command']}: no such program is outside the checkout, which a pull request may change"
        raise Unreachable(f"{what}; install it in a folder of PATH outside, or name its path in the kubeconfig")
    words = [program, *(plugin.get("args") or ())]
    answer = json.loads(_output(words, {**env, "KUBERNETES_EXEC_INFO": json.dumps(asked)}))
    if (answer["apiVersion"], answer["kind"]) != (version, "ExecCredential"):
        raise ValueError(f"it does not answer with an ExecCredential of {version}")
    given = answer["status"]
    user = {"token": given.get("token")}
    if user["token"] is None:
        names = {"client-certificate-data": "clientCertificateData", "client-key-data": "clientKeyData"}
        user = {key: base64.b64encode(given[name].encode()).decode() for key, name in names.items()}
    _header_at(user, next(iter(user)))
    expires = given.get("expirationTimestamp")
    try:
        until = datetime.fromisoformat(expires) if expires else None
    except ValueError:
        raise ValueError("its expirationTimestamp is not a time") from None
    return Credential(user, until if until is None or until.tzinfo else until.replace(tzinfo=UTC))


def _output(words: list[str], env: Mapping[str, str]) -> bytes:
    """Run a program without input, and return what it prints within the limits of time and size."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    program: subprocess.Popen[bytes] = subprocess.Popen(words, **pipes, env=env, start_new_session=True)  # type: ignore[call-overload]
    printed, errors = (started(partial(pipe.read, MAX_BYTES + 1)) for pipe in (program.stdout, program.stderr) if pipe)
    end = time.monotonic() + PLUGIN_TIMEOUT_S
    try:
        found = printed.result(PLUGIN_TIMEOUT_S)
        if len(found) > MAX_BYTES:
            raise ValueError(f"it prints more than {MAX_BYTES} bytes")
        program.wait(end - time.monotonic())
    except (TimeoutError, subprocess.TimeoutExpired):
        raise ValueError(f"it did not end in {PLUGIN_TIMEOUT_S} s") from None
    finally:
        # With what it started, which may keep the pipes open.
        with suppress(OSError):
            os.killpg(program.pid, signal.SIGKILL) if hasattr(os, "killpg") else program.kill()
        program.wait()
    if program.returncode:
        said = " ".join(errors.result(1).decode(errors="replace").split())
        raise ValueError(f"exec: process returned {program.returncode}" + (f": {said}" if said else ""))
    return found


Result = TypeVar("Result")


def started(call: Callable[[], Result]) -> Future[Result]:
    """Return what a call will return or raise; its thread does not keep the process from ending."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
