"""Says of declared containers by which `docker run` they would start, so that they are judged like one. Pure.

Compose files (https://github.com/compose-spec/compose-spec/blob/main/05-services.md), pods for `podman kube play`
(https://docs.podman.io/en/latest/markdown/podman-kube-play.1.html), Quadlet's units
(https://docs.podman.io/en/latest/markdown/podman-systemd.unit.5.html), `crictl run`
(https://github.com/kubernetes/cri-api/blob/master/pkg/apis/runtime/v1/api.proto) and what Docker's API creates
(https://docs.docker.com/reference/api/engine/).
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from gpupools.read.inputs import at, is_list, mapping, text

_MOST = 100
_MAY_DECLARE = re.compile(
    r"[\"']?services[\"']?\s*:|\[Container\]|hostPath|hostPID|privileged|HostConfig|host_path|namespace_options",
    re.IGNORECASE,
)
_SECTION = re.compile(r"(?m)^\[Container\][ \t]*\n(?P<lines>(?:(?!\[)[^\n]*(?:\n|\Z))*+)")


def may_declare(content: str) -> bool:
    """Say cheaply whether a text may declare a container that is more than a plain one."""
    return _MAY_DECLARE.search(content) is not None


def commands_of(document: Any) -> Iterator[str]:
    """Yield a `docker run` for each container that a document declares.

    Args:
        document: Parsed from YAML or JSON.
    """
    for service in islice(mapping(at(document, "services")).values(), _MOST):
        yield _of_service(service)
    pod = _pod(document)
    containers = [*_items(pod, "initContainers"), *_items(pod, "containers")]
    yield from (_of_pod(pod, container) for container in containers[:_MOST])
    if at(document, "image.image"):
        yield _of_cri(document)
    if isinstance(at(document, "HostConfig"), Mapping):
        yield _of_api(document)


def commands_of_units(content: str) -> Iterator[str]:
    """Yield a `podman run` for each container of a unit of Quadlet."""
    for section in islice(_SECTION.finditer(content), _MOST):
        pairs = [line.partition("=")[::2] for line in section["lines"].split("\n")]
        said = {"Volume": "-v", "Network": "--network", "AddCapability": "--cap-add", "Mount": "--mount"}
        words = [f"{said[key.strip()]} {value.strip()}" for key, value in pairs if key.strip() in said]
        words += [value.strip() for key, value in pairs if key.strip() in ("PodmanArgs", "GlobalArgs")]
        words += [value.strip() for key, value in pairs if key.strip() in ("Image", "Exec")]
        yield " ".join(("podman run", *words))


def _of_service(service: Any) -> str:
    words = ["--privileged"] if _is_true(at(service, "privileged")) else []
    words += [f"--pid {text(at(service, 'pid'))}", f"--network {text(at(service, 'network_mode'))}"]
    words += [f"--cap-add {text(one)}" for one in _items(service, "cap_add")]
    for volume in _items(service, "volumes"):
        if isinstance(volume, Mapping):
            mode = "ro" if _is_true(volume.get("read_only")) else "rw"
            words.append(f"-v {text(volume.get('source'))}:{text(volume.get('target'))}:{mode}")
        else:
            words.append(f"-v {text(volume)}")
    return _run(words, at(service, "image"), at(service, "command"), at(service, "entrypoint"))


def _pod(document: Any) -> Any:
    return at(document, "spec") if at(document, "kind") == "Pod" else at(document, "spec.template.spec")


def _of_pod(pod: Any, container: Any) -> str:
    words = ["--privileged"] if _is_true(at(container, "securityContext.privileged")) else []
    words += ["--pid host"] if _is_true(at(pod, "hostPID")) else []
    words += ["--network host"] if _is_true(at(pod, "hostNetwork")) else []
    words += [f"--cap-add {text(one)}" for one in _items(container, "securityContext.capabilities.add")]
    folders = {text(at(one, "name")): text(at(one, "hostPath.path")) for one in _items(pod, "volumes")}
    for mount in _items(container, "volumeMounts"):
        mode = "ro" if _is_true(at(mount, "readOnly")) else "rw"
        words.append(f"-v {folders.get(text(at(mount, 'name')), '')}:{text(at(mount, 'mountPath'))}:{mode}")
    return _run(words, at(container, "image"), at(container, "command"), at(container, "args"))


_NODES_NAMESPACE = (2, "2", "NODE")


def _of_cri(container: Any) -> str:
    words = ["--privileged"] if _is_true(at(container, "linux.security_context.privileged")) else []
    if at(container, "linux.security_context.namespace_options.pid") in _NODES_NAMESPACE:
        words.append("--pid host")
    for mount in _items(container, "mounts"):
        mode = "ro" if _is_true(at(mount, "readonly")) else "rw"
        words.append(f"-v {text(at(mount, 'host_path'))}:{text(at(mount, 'container_path'))}:{mode}")
    return _run(words, at(container, "image.image"), at(container, "command"), at(container, "args"))


def _of_api(container: Any) -> str:
    host = at(container, "HostConfig")
    words = ["--privileged"] if _is_true(at(host, "Privileged")) else []
    words += [f"--pid {text(at(host, 'PidMode'))}", f"--network {text(at(host, 'NetworkMode'))}"]
    words += [f"--cap-add {text(one)}" for one in _items(host, "CapAdd")]
    words += [f"-v {text(one)}" for one in _items(host, "Binds")]
    return _run(words, at(container, "Image"), at(container, "Cmd"), at(container, "Entrypoint"))


def _run(words: list[str], image: Any, *commands: Any) -> str:
    given = [text(one) for command in commands for one in (command if is_list(command) else [command])]
    return " ".join(("docker run", *words, text(image), *given)).replace("\n", " ")


def _items(given: Any, path: str) -> list[Any]:
    found = at(given, path)
    return list(found)[:_MOST] if is_list(found) else []


def _is_true(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.casefold() in ("true", "yes", "on"))
