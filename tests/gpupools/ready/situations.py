"""Situations of clusters, which situations.yaml describes as changes of one that holds its plan."""

import re
from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.gpupools.ready.world import World

UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}


class Situation(NamedTuple):
    name: str
    source: str
    at: str
    """`cluster/pool`."""
    truth: str
    cause: str = ""
    title: str = ""
    next: str = ""
    says: str = ""
    """Text that it must print."""
    broken: bool = False
    """Whether the advice may end pods."""
    unseen: str = ""
    """Kind that may not be read."""
    do: Mapping[str, Any] = {}

    def world(self, now: datetime) -> World:
        """Return the cluster at a time."""
        world = World(*self.at.split("/"))
        if world.plan.min_nodes:
            world.heal()
        for key, patch in _timed(self.do, now).items():
            kind, *space, name = key.split("/")
            found = world.objects.setdefault(kind, [])
            old = next((each for each in found if each["metadata"]["name"] == name), None)
            if old is not None:
                found.remove(old)
            if patch is None:
                continue
            like = patch.pop("like", None)
            if like is not None:
                old = deepcopy(world.named(kind, like))
                old["metadata"] |= {"name": name, "uid": f"{kind}-{name}"}
            made = {"metadata": {"name": name, **({"namespace": space[0]} if space else {})}}
            world.put(kind, _merged(old or made, patch))
        return world


def _timed(value: Any, now: datetime) -> Any:
    if isinstance(value, Mapping):
        return {key: _timed(each, now) for key, each in value.items()}
    if isinstance(value, list):
        return [_timed(each, now) for each in value]
    past = re.fullmatch(r"(\d+)([smh]) ago", value) if isinstance(value, str) else None
    if past is None:
        return value
    return f"{now - timedelta(**{UNITS[past[2]]: int(past[1])}):%Y-%m-%dT%H:%M:%SZ}"


def _merged(old: Any, patch: Any) -> Any:
    """Apply a JSON merge patch: https://www.rfc-editor.org/rfc/rfc7386."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        found[key] = _merged(found.get(key), value)
    return {key: value for key, value in found.items() if value is not None}


FILE = Path(__file__).with_name("situations.yaml")
SITUATIONS = [Situation(**each) for each in yaml.safe_load(FILE.read_text(encoding="utf-8"))]
