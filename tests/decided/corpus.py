"""Stack files of many kinds, and everything that is decided of each, in lines."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from gpupools.base.errors import Problem, Rejected
from gpupools.environment.stack import parse_cluster, parse_pool, plan_config
from gpupools.known.catalogue import InstanceType
from gpupools.known.gpus import gpu_models
from gpupools.known.mig import profiles
from gpupools.planned.cloud import Choices, Cloud
from gpupools.planned.labels import skypilot_label
from gpupools.planned.matrix import grouped, matrix
from gpupools.planned.plan import plan_pool
from gpupools.planned.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.read.kubernetes_pools import read_kubernetes_pools, read_template
from gpupools.runtime.changes import release_changes
from gpupools.runtime.planning import plan_runtime
from tests.steps import before_pools

HERE = Path(__file__).parent
LEAVE_OUT = "<left out>"
REGISTRIES = (
    *("123456789012.dkr.ecr.us-east-1.amazonaws.com", "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"),
    *("12345678901.dkr.ecr.us-east-1.amazonaws.com", "europe-west4-docker.pkg.dev", "eu.gcr.io", "x.azurecr.io"),
    *("mcr.microsoft.com", "quay.io"),
)
LONGEST = 140
"""Characters of a value that is written out; of a longer one stands the beginning and a digest."""


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Put the second map's keys over the first one's, map by map; a key with `LEAVE_OUT` is not there then."""
    found = dict(one)
    for key, value in other.items():
        both = isinstance(found.get(key), Mapping) and isinstance(value, Mapping)
        found[key] = merged(found[key], value) if both else value
    return found


def without_left_out(value: Any) -> Any:
    """Take away what is left out, on any level."""
    if isinstance(value, Mapping):
        return {key: without_left_out(item) for key, item in value.items() if item != LEAVE_OUT}
    return value


@cache
def _written(name: str) -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Mapping[str, Any] = yaml.load((HERE / f"{name}.yaml").read_text(encoding="utf-8"), loader)
    return found


@cache
def groups(name: str) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the cases of a file by group, each by the places of its parts in their lists: `0.2.1`."""
    return {
        group: {
            ".".join(str(place) for place, _ in parts): reduce(merged, (part for _, part in parts), {})
            for parts in product(*map(enumerate, lists))
        }
        for group, lists in _written(name)["groups"].items()
    }


def decided(name: str, case: Mapping[str, Any]) -> Collection[str]:
    """Return the lines of what comes of a case."""
    if name == "outside":
        return read(without_left_out(merged(common(name)[case["kind"]], case)))
    if name == "clouds":
        ((what, cloud),) = case.items()
        return {"contract": contract, "matrix": matrix_of, "machines": machines, "profiles": cut}[what](clouds()[cloud])
    if "file" in case:
        config = yaml.safe_load((HERE.parents[1] / case["file"]).read_text(encoding="utf-8"))["config"]
        return outcome({key.removeprefix("gpupools:"): value for key, value in config.items()}, as_json=True)
    given = {key: value for key, value in case.items() if key not in ("to", "component")}
    config = without_left_out(stack(name, given))
    if "component" in case:
        return in_component(config)
    if "to" in case:
        return changed(config, without_left_out(stack(name, merged(given, case["to"]))))
    return outcome(config)


def contract(cloud: Cloud) -> Collection[str]:
    """Return what a cloud's folder says of itself, but for its catalogue, which is data, and its functions."""
    said = {each.name: getattr(cloud, each.name) for each in fields(cloud) if each.name != "instance_types"}
    objects = cloud.reading().objects
    pools = said.pop("node_pools")
    said |= {"settings": pools.settings, "overridable": pools.overridable}
    said["skypilot"] = {model: skypilot_label(model, {}) for model in gpu_models()}
    outside = pools.outside and pools.outside()
    said["login"] = {host: cloud.registry_login(host) for host in REGISTRIES}
    said["outside"] = {each: getattr(outside, each, None) for each in ("resource", "beside", "prefixed")}
    karpenter = objects.karpenter
    if karpenter is not None:
        found = {each.name: getattr(karpenter, each.name) for each in fields(karpenter)}
        found = {key: value for key, value in found.items() if not callable(value)}
        for machine in karpenter.gpu_machines():
            found["labels"] = list(machine)
            found[f"labels of {next(iter(machine.values()))}"] = " ".join(machine.values())
        said["karpenter"] = found
    said |= {
        "commands": said.pop("described").commands,
        "types": cloud.reading().types,
        "objects": {**objects.held, **objects.machines},
        "labels of nodes": objects.node_labels,
    }
    for key in ("capabilities", "objects"):
        said[key] = {str(at): value for at, value in said[key].items()}
    return [line for key, value in said.items() if not callable(value) for line in lines(key, value)]


def matrix_of(cloud: Cloud) -> Collection[str]:
    """Return every answer of the matrix."""
    return [
        short(f"{software} {sharing} {' '.join(models)}: {verdict.value}: {why}; {instead}", 2 * LONGEST)
        for (_, software, sharing, verdict, why, _, instead), models in grouped(matrix(cloud)).items()
    ]


def machines(cloud: Cloud) -> Collection[str]:
    """Say which machines can be a pool with each software, and why the others cannot."""
    return asked(
        cloud,
        (
            {"instance_type": row.name, "software": software}
            for row in cloud.instance_types.values()
            for software in cloud.software
        ),
    )


def cut(cloud: Cloud) -> Collection[str]:
    """Say into which MIG profiles the GPUs of a pool can be cut, and why not into the others."""
    by_model = {row.gpu_model: row.name for row in cloud.instance_types.values() if row.lifecycle == "current"}
    return asked(
        cloud,
        (
            {"instance_type": machine, "software": software, "sharing": {"mode": "mig", "profile": each.name}}
            for model, machine in by_model.items()
            for each in profiles(model)
            for software in dict.fromkeys(("cloud-managed", "gpu-operator", cloud.default_software["mig-single"]))
        ),
    )


def asked(cloud: Cloud, pools: Iterable[Mapping[str, Any]]) -> Collection[str]:
    """Plan each pool on the cloud's example, and put those together of which the same is said."""
    cluster = parse_cluster((), cloud.example_cluster, clouds())
    found: dict[str, list[str]] = {}
    for keys in pools:
        machine, profile = keys["instance_type"], keys.get("sharing", {}).get("profile", "")
        said = ["can be"]
        try:
            plan_pool("a", parse_pool((), {**keys, "nodes": {"min": 6, "max": 6}}), "c", cluster, cloud)
        except Rejected as rejected:
            said = [f"{each.key}: {each.what}" for each in rejected.problems]
        for each in said:
            same = f"{keys['software']}: {each.replace(machine, '*').replace(profile or '*', '*')}"
            found.setdefault(same, []).append(f"{machine} {profile}".strip())
    return [short(f"{said}: {', '.join(names)}", 4 * LONGEST) for said, names in found.items()]


@cache
def common(name: str) -> Mapping[str, Any]:
    """Return what all cases of a file have unless they say otherwise."""
    found: Mapping[str, Any] = _written(name)["common"]
    return found


def stack(name: str, case: Mapping[str, Any]) -> dict[str, Any]:
    """Write a stack file: the cluster's keys are under `cluster`, further pools under `pools`, the rest is pool `a`."""
    whole = merged(common(name), case)
    cluster, pools = whole.pop("cluster"), whole.pop("pools", {})
    every = {"a": whole, **pools} if whole else pools
    return {"clusters": {"c": cluster}, "pools": {key: {"clusters": ["c"], **pool} for key, pool in every.items()}}


def in_component(config: Mapping[str, Any]) -> Collection[str]:
    """Plan pool `a` and its software as the components do, in whose inputs a cluster has no key."""
    raw = config["clusters"]["c"]
    cloud = clouds()[raw["cloud"]]
    try:
        cluster = parse_cluster(("cluster",), raw, clouds())
        keys = {key: value for key, value in config["pools"]["a"].items() if key != "clusters"}
        pool = plan_pool("a", parse_pool(("pools", "a"), keys), "", cluster, cloud)
        return [*lines("pool", pool), *lines("runtime.notes", plan_runtime("", cluster, cloud, [pool]).notes)]
    except Rejected as rejected:
        return refused(rejected)


def changed(config: Mapping[str, Any], then: Mapping[str, Any]) -> Collection[str]:
    """Say what an edit does to the software that runs, there and back."""
    try:
        plans = [plan_config(each, clouds()) for each in (config, then)]
    except Rejected as rejected:
        return refused(rejected)
    return [
        line
        for old, new in (plans, reversed(plans))
        for each in release_changes(old.runtimes, new.runtimes, old.pools)
        for line in (f"change {each}", *lines(f"change of {each.chart}", each.as_json()))
    ]


def refused(rejected: Rejected) -> Collection[str]:
    """Return every reason."""
    return {short(f"refused {problem}", 2 * LONGEST) for problem in rejected.problems}


def read(case: Mapping[str, Any]) -> Collection[str]:
    """Read a pool or a cluster as another tool tells of it."""
    cloud = clouds()[case["cloud"]]
    if "form" in case:
        forms = cloud.free_form(case["form"])
        return list(lines("form", forms(known(case["inputs"])) if forms is not None else None))
    if "type" in case:
        return declared(cloud, case["type"], known(case["inputs"]))
    if "access" in case:
        return list(lines("access", cloud.access(case["access"])))
    told, outside = case.get("told", {}), cloud.node_pools.outside and cloud.node_pools.outside()
    found: list[str] = []
    try:
        if "cluster" in case:
            return list(lines("cluster", cloud.described.read(case["cluster"])))
        assert outside is not None
        for there in outside.there(told):
            found += lines("there", there)
        others = {**outside.referred(case.get("beside", {}))}
        for token, inputs, identifier in case.get("state", ()):
            others |= outside.referred_in_state(token, inputs, identifier)
        found += lines("beside", others)
        pool = outside.declared(case["token"], told, case["id"]) if "token" in case else outside.described(told)
        pool = pool and outside.joined(pool, others)
        found += lines("found", pool)
        if pool is not None:
            found += lines("adopt", outside.adopt(pool))
            cluster, keys = outside.keys(pool)
            found += [*lines("cluster", cluster), *lines("pool", keys)]
    except Rejected as rejected:
        found += refused(rejected)
    return found


def known(value: Any) -> Any:
    """Put in what stands for a value that is not known yet."""
    if isinstance(value, dict):
        return {key: known(item) for key, item in value.items()}
    return [known(item) for item in value] if isinstance(value, list) else UNKNOWN if value == "<unknown>" else value


def declared(cloud: Cloud, token: str, inputs: Mapping[str, Any]) -> Collection[str]:
    """Read a resource back that anybody declared."""
    reading = cloud.reading()
    found = [*lines("unread", reading.unread(token, inputs)), *lines("held", list(reading.held_types(token, inputs)))]
    for pool in (*reading.read_pools(token, inputs), *read_kubernetes_pools(token, inputs, clouds())):
        found += lines(f"pool {pool.pool}", pool)
    found += lines("template", reading.read_template(token, inputs) or read_template(token, inputs, clouds()))
    return found + list(lines("overridden", list(reading.overridden(token, inputs))))


def outcome(config: Mapping[str, Any], *, as_json: bool = False) -> Collection[str]:
    """Plan a stack file; return the lines of the plan, or every reason against it."""
    try:
        plan = plan_config(config, clouds())
    except Rejected as rejected:
        return refused(rejected)
    found: list[str] = []
    for pool in plan.pools:
        cluster = plan.stack.clusters[pool.cluster]
        given = {key: getattr(cluster, key) for key in type(cluster).model_fields}
        found += lines(f"pool {pool.name}", pool)
        found += lines("place", type(cluster).place_of(given))
        found += lines(f"told {pool.name}", cluster.told(pool.choices.zones_asked()))
        found += lines(f"says {pool.name}", says(pool.choices))
    for runtime in plan.runtimes:
        # A plan's own words for a table are those of its parts.
        whole = {each.name: getattr(runtime, each.name) for each in fields(runtime)}
        for part in ("releases", "objects"):
            whole[part] = {each.name: each for each in whole[part]}
        whole["depends"] = list(runtime.depends.items())
        found += lines("runtime", whole)
    if not as_json:
        return found
    for pool in plan.pools:
        found += lines(f"JSON {pool.cluster} {pool.name}", pool.as_json())
    for runtime in plan.runtimes:
        found += lines(f"JSON {runtime.cluster}", runtime.as_json())
        found += [*lines("alike", list(runtime.owners_alike().items())), *lines("before", before_pools(runtime))]
    return found


def says(choices: Choices) -> dict[str, Any]:
    """Return the answers of a pool's choices to what every cloud's are asked."""
    asked = ("takes_over", "cuts_gpus", "autoscaler_is_told", "nodes_come_late", "pods_bring_no_nodes")
    found = {each: getattr(choices, each)() for each in (*asked, "repairs_nodes", "beside_gpus")}
    whose = {field: choices.stays_with_its_makers(field, ["LaunchTemplate.userData"]) for field in ("disk_gib", "x")}
    return found | {"whose": whose | {"sharing": choices.stays_with_its_makers("sharing.mode", ["NodeGroup.labels"])}}


def lines(at: str, value: Any) -> Iterator[str]:
    """Write a value as `path: value`, one line for each part of it that holds no others but lists."""
    if isinstance(value, Problem | InstanceType):
        value = str(value) if isinstance(value, Problem) else value.name
    elif isinstance(value, BaseModel):
        value = value.model_dump(mode="json", exclude_none=True)
    elif is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    elif hasattr(value, "_fields"):
        value = value._asdict()
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from lines(f"{at}.{getattr(key, 'value', key)}", item)
    else:
        yield short(f"{at}: {json.dumps(_plain(value), ensure_ascii=False)}", LONGEST)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(getattr(key, "value", key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Problem):
        return str(value)
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if hasattr(value, "_fields"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.__name__ if callable(value) else str(value)


def short(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[:most]}… {hashlib.sha256(text.encode()).hexdigest()[:12]}"
