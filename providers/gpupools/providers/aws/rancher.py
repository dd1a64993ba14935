"""Reads the configuration of an agent of k3s or RKE2, which several files make together. Pure.

After `pkg/configfilearg/parser.go` of k3s-io/k3s at f646604 (https://docs.k3s.io/installation/configuration): files of
`config.yaml.d` come after `config.yaml` by their names, a later key replaces an earlier, and `key+` is appended to it.
`tests/providers/test_nodes_read_the_same.py` compares this with what that parser said.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpupools.read import kubelet
from gpupools.read.inputs import is_list

CONFIG = re.compile(r"(?P<product>.*/rancher/(?:k3s|rke2|rancherd))/config\.yaml(?:\.d/(?P<name>[^/]+\.ya?ml))?", re.I)
"""The path of such a file."""


def merged(files: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the files of one product make together.

    Args:
        files: Each document by its path, which `CONFIG` matches.
    """
    made: dict[str, Any] = {}
    for path in sorted(files, key=lambda path: (CONFIG.fullmatch(path) or {"name": ""})["name"] or ""):
        document = files[path]
        for key, value in document.items() if isinstance(document, Mapping) else ():
            name = str(key).removesuffix("+")
            appended = name != key and name in made
            made[name] = [*_listed(made[name]), *_listed(value)] if appended else value
    return made


def register_with_taints(config: Mapping[str, Any]) -> str | None:
    """Return the kubelet's `--register-with-taints`, of which `kubelet-arg` has the last word; None for none."""
    argued = kubelet.last(kubelet.FLAG, (f"--{one.removeprefix('--')}" for one in texts(config.get("kubelet-arg"))))
    if argued is not None:
        return argued
    taints = texts(config.get("node-taint"))
    return ",".join(taints) if taints else None


def texts(value: Any) -> Iterable[str]:
    """Return what stands in a list, or in its place, as text, of which blanks around it are nothing."""
    return ["" if one is None else str(one).strip() for one in _listed(value)]


def _listed(value: Any) -> list[Any]:
    return list(value) if is_list(value) else [] if value is None else [value]
