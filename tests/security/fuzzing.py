"""Spoils what people write, for every reader of it: whatever comes, a reader answers or refuses.

A corpus of right things is spoilt, by a seeded generator: `thoroughly` puts each of `VALUES` in each place, `at_random`
changes a few places or bytes. `tooling/fuzz.py` runs the readers for as long as one likes and keeps what crashes them.
"""

import contextlib
import copy
import io
import json
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpupools.audit.document import Document, Resource
from gpupools.audit.judging import FileReport, judge_document, judge_file
from gpupools.audit.junit import junit
from gpupools.audit.sarif import sarif
from gpupools.catalog.mig import NoMig, UnknownProfile
from gpupools.catalog.mig_fit import fit, pack
from gpupools.catalog.mig_nodes import advertised, mig_parted_config
from gpupools.cli.main import main
from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected, shown
from gpupools.common.taints import parse_taint
from gpupools.diff.records import PoolRecord, record
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.policy_config import Config, read_config
from gpupools.providers import clouds
from gpupools.providers.aws.user_data import read_user_data
from gpupools.spec.models import LATE
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.stack import plan_config
from tests.security import stacks

ROOT = Path(__file__).resolve().parents[2]
CRASHERS = Path(__file__).parent / "crashers"
"""What once crashed a reader, in a folder for each: JSON where the reader takes data, text where it takes text."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 2**63, 10**400, 0.5, 1e308, float("inf"), float("nan"), UNKNOWN),
    *(
        "",
        "x",
        "1",
        "1e9",
        "١",
        "²",
        "9" * 5000,
        "{}",
        "[",
        "a: [",
        "${x}",
        "{{ x }}",
        "*",
        "a.b[0]",
        "\x00\x1b\ud800",
        "é" * 50,
    ),
    *([], [None], [[]], [{}], [UNKNOWN], ["x", 1], {}, {"": None}, {"x": {}}, {"key": None}, {"name": UNKNOWN}),
)
"""A value of every type, and of some that look like another."""
KEYS: tuple[Any, ...] = ("", "x", "a.b", "a[0]", "<<", "\n", "\ud800", "apiVersion", "spec", "name", "value", "key")
ODD_KEYS: tuple[Any, ...] = (*KEYS, None, 1, True, 0.5, float("nan"), (1, 2), UNKNOWN)
"""Where a program hands data over, which may have other keys than text."""

PIECES = (
    *("", "{", "}", "[", "]", ":", ": ", ",", "\n", "\r", "\n- ", "&a ", "*a", "<<: *a", "!!int ", "!x ", "'"),
    *('"', "#", "\t", "? ", "|", ">", "%", "@", "`", "\x00", "\x85", "\u2028", "\u202e", "9" * 30, "~", "---\n"),
    *("...\n", "\ufeff", "=", "-", "--", "\\", "$(", "`x`", "<<EOF\n", "1:30", "0x", "1e999", ".nan", "é", "😀"),
    *("null", "true", "=:", ",,"),
)
"""What a text gets in odd places."""


@dataclass(frozen=True)
class Reader:
    """Something that reads what somebody else wrote."""

    read: Callable[[Any], Any]
    """Must answer, or raise `Rejected`."""
    corpus: Callable[[], list[Any]]
    """What it reads: data, or text."""
    keys: tuple[Any, ...] = KEYS
    values: tuple[Any, ...] = VALUES


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside a tree."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


def thoroughly(given: Any, reader: Reader) -> Iterator[Any]:
    """Yield the data with each value in each place, and with each key in place of each."""
    yield from reader.values
    for path in places(given):
        for value in reader.values:
            spoilt = copy.deepcopy(given)
            at(spoilt, path[:-1])[path[-1]] = copy.deepcopy(value)
            yield spoilt
        for key in reader.keys if isinstance(at(given, path[:-1]), dict) else ():
            spoilt = copy.deepcopy(given)
            above = at(spoilt, path[:-1])
            above[key] = above.pop(path[-1])
            yield spoilt


def spoilt_text(text: str, chance: random.Random) -> str:
    """Put one to four pieces into a text, or in the place of a part of it."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        piece = chance.choice((*PIECES, text[start : start + 20], text[: chance.randrange(len(text) + 1)][-30:]))
        text = text[:start] + piece + text[start + chance.choice((0, 0, 1, 1, 5, 60)) :]
    return text


def at_random(given: Any, reader: Reader, chance: random.Random) -> Any:
    """Return data with one to four places changed, or text with one to four pieces."""
    if isinstance(given, str):
        return spoilt_text(given, chance)
    spoilt = copy.deepcopy(given)
    for _ in range(chance.randint(1, 4)):
        every = list(places(spoilt))
        if not every:
            return spoilt
        path = chance.choice(every)
        above, key = at(spoilt, path[:-1]), path[-1]
        match chance.choice(("value", "value", "key", "drop", "copy", "wrap", "grow")):
            case "value":
                above[key] = copy.deepcopy(chance.choice(reader.values))
            case "key" if isinstance(above, dict):
                above[chance.choice(reader.keys)] = above.pop(key)
            case "drop":
                del above[key]
            case "copy":
                above[key] = copy.deepcopy(at(spoilt, chance.choice(every)))
            case "wrap":
                above[key] = chance.choice(([above[key]], {"x": above[key]}))
            case "grow" if isinstance(above[key], str):
                above[key] = spoilt_text(above[key], chance)
    return spoilt


# --- the readers ------------------------------------------------------------------------------------------------------


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


def _file(content: Any, name: str) -> Path:
    """Write text as it is, data as JSON, to a file."""
    text = content if isinstance(content, str) else json.dumps(content, default=_written)
    path = _folder() / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def _written(value: Any) -> Any:
    return "04da6b54-80e4-46f7-96ec-b56ff0331ba9" if value is UNKNOWN else str(value)


def _told(*judged: FileReport) -> None:
    """Write a verdict in every form: a problem that cannot be told is as bad as none found."""
    json.dumps([each.as_json() for each in judged])
    json.dumps(sarif(judged))
    junit(judged)


def read_stack_file(content: Any) -> None:
    path = _file(content, "Pulumi.dev.yaml")
    try:
        json.dumps([plan.as_json() for plan in check_stack_file(path, clouds()).plan.pools])
        return
    except Rejected as rejected:
        refusal = rejected
    assert refusal.problems
    assert all(str(located).isprintable() for located in locate(path, refusal))


def plan_configuration(given: Any) -> None:
    """Plan what a program gets of a stack file, in which addresses may be secret."""
    if isinstance(given, dict):
        json.dumps([pool.as_json() for pool in plan_config(given, clouds()).pools])


def read_document(content: Any) -> None:
    _told(judge_file(_file(content, "document.json"), Config()))


def compare_stack_files(content: Any) -> None:
    old = _file(_stack_file(), "Pulumi.old.yaml")
    new = _file(content, "Pulumi.new.yaml")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(["diff", str(old), str(new), "--json"])
        main(["diff", str(old), str(new), "--format", "markdown"])
        main(["diff", str(new), str(old)])


def read_policy_configuration(content: Any) -> None:
    with contextlib.suppress(Rejected):
        config = read_config(_file(content, "policy-config.json"), date(2026, 11, 22))
        judge_document(Path("x"), Document("x", (Resource("p", "aws:eks/nodeGroup:NodeGroup", _eks()),)), config)


def read_properties(given: Any) -> None:
    """Ask every reader of resources, and every rule, about each resource of a stack."""
    listed = given if isinstance(given, list) else [given]
    resources = []
    for number, each in enumerate(listed):
        if isinstance(each, dict) and isinstance(each.get("type"), str) and isinstance(each.get("inputs"), dict):
            given_refers = each.get("refers")
            refers = {
                key: tuple(map(str, urns))
                for key, urns in (given_refers.items() if isinstance(given_refers, dict) else ())
                if isinstance(key, str) and isinstance(urns, list)
            }
            resources.append(Resource(f"r{number}", each["type"], each["inputs"], refers=refers))
    _told(judge_document(Path("x"), Document("x", tuple(resources)), Config()))


def read_record(given: Any) -> None:
    PoolRecord.from_json(given)


def read_slices(given: Any) -> None:
    """Ask for MIG layouts, as a stack file's author may write them once it is known to be text and numbers."""
    gpu, names, wished = (given.get(key) if isinstance(given, dict) else None for key in ("gpu", "names", "wished"))
    if not isinstance(gpu, str) or not isinstance(names, list) or not isinstance(wished, dict):
        return
    if not all(isinstance(name, str) for name in (*names, *wished)):
        return
    if not all(type(count) is int and count >= 0 for count in wished.values()):  # the command reads digits alone
        return
    for ask in (
        lambda: fit(gpu, names),
        lambda: pack(gpu, wished),
        lambda: advertised(gpu, [names], "mixed"),
        lambda: mig_parted_config(gpu, [names]),
    ):
        with contextlib.suppress(NoMig, UnknownProfile, ValueError):
            ask()


def read_taint(given: str) -> None:
    with contextlib.suppress(ValueError):
        parse_taint(given)
    assert shown(given).isprintable()


def read_yaml(given: str) -> None:
    with contextlib.suppress(Rejected):
        parse_yaml(given)


# --- what they read ---------------------------------------------------------------------------------------------------


def _stack_file() -> dict[str, Any]:
    return {
        "config": {
            "gpupools:clusters": {
                "train": {
                    "cloud": "aws",
                    "name": "train",
                    "region": "eu-central-1",
                    "subnet_ids": ["subnet-0a1b2c3d4e5f60718", {"output": "subnet"}],
                    "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
                    "stack": "o/p/s",
                },
                "serve": {
                    "cloud": "azure",
                    "name": "serve",
                    "resource_group": "serve",
                    "location": "westeurope",
                    "subscription_id": "11111111-2222-3333-4444-555555555555",
                },
            },
            "gpupools:pools": {
                "mig": {
                    "clusters": ["train"],
                    "gpu": "A100-40GB",
                    "gpus_per_node": 8,
                    "nodes": {"min": 0, "max": 4},
                    "sharing": {"mode": "mig", "profile": "1g.5gb"},
                    "labels": {"example.com/team": "vision"},
                    "taints": ["team=vision:NoSchedule"],
                    "overrides": {"aws": {"NodeGroup": {"tags": {"a": "b"}}}},
                    "capacity": {"mode": "spot"},
                },
                "whole": {"clusters": ["serve"], "instance_type": "Standard_NC24ads_A100_v4", "nodes": {"max": 2}},
            },
            "gpupools:production": True,
        }
    }


def _sections() -> list[Any]:
    return [{key.removeprefix("gpupools:"): each for key, each in _stack_file()["config"].items()}]


def _stack_files() -> list[Any]:
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))]
    return [_stack_file(), *texts]


def _eks() -> dict[str, Any]:
    return dict(stacks.node_group(0)["inputs"])


def _documents() -> list[Any]:
    plans = sorted((ROOT / "tests/audit/plans").glob("*/plan.json"))
    several = (
        stacks.clusters_of_their_own(2),
        stacks.templates(2),
        stacks.one_wide_template(2),
        stacks.nested(2),
        stacks.inline_pools(2),
    )
    made = [
        stacks.objects([stacks.daemon_set(0), stacks.daemon_set(1, {"pool": "p1"}), *stacks.machines(0, "m")]),
        stacks.preview(several[0]),
        *map(stacks.state, several),
    ]
    read = [json.loads(text) for text in made]
    whole = [json.loads(path.read_text(encoding="utf-8")) for path in plans]
    manifest = yaml.safe_dump_all([stacks.karpenter(0), stacks.node_class(0), *stacks.machines(0, "m")])
    return [*read, *whole, manifest, *made[:3]]


USER_DATA = (
    "#!/bin/bash\nset -e\n/etc/eks/bootstrap.sh train --kubelet-extra-args '--register-with-taints=a=b:NoSchedule'\n",
    "[settings.kubernetes]\ncluster-name = 'train'\n[settings.kubernetes.node-taints]\na = ['x:NoSchedule']\n",
    (
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: train}\n  kubelet:\n"
        "    config:\n"
        "      registerWithTaints: [{key: a, value: b, effect: NoSchedule}]\n    flags: ['--node-labels=a=b']\n"
    ),
    (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\n'
        "Content-Type: application/node.eks.aws\n\n"
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n--B\nContent-Type: text/x-shellscript\n\n"
        "#!/bin/sh\nnodeadm init\n--B--\n"
    ),
    "#cloud-config\nwrite_files:\n- {path: /x, content: '#!/bin/sh'}\nruncmd:\n- [/x]\n- kubeadm join a\n",
)


def _configurations() -> list[Any]:
    files = [each for each in sorted((ROOT / "policies").glob("policy-config.*.json")) if "schema" not in each.name]
    return [json.loads(path.read_text(encoding="utf-8")) for path in files]


@cache
def cases() -> list[Any]:
    """Return the resources of the corpus that is judged by hand."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    listed = yaml.load((ROOT / "tests/policies/corpus.yaml").read_text(encoding="utf-8"), loader)
    return [{"type": each["type"], "inputs": _marked(each["inputs"])} for each in listed]


def _marked(value: Any) -> Any:
    if value == "<unknown>":
        return UNKNOWN
    if isinstance(value, dict):
        return _marked(value["<secret>"]) if set(value) == {"<secret>"} else {k: _marked(v) for k, v in value.items()}
    return [_marked(item) for item in value] if isinstance(value, list) else value


def _properties() -> list[Any]:
    several = [
        stacks.clusters_of_their_own(2),
        stacks.templates(2),
        stacks.one_wide_template(2),
        stacks.inline_pools(2),
    ]
    made = [
        [{"type": one["type"], "inputs": one["inputs"], "refers": one.get("propertyDependencies", {})} for one in each]
        for each in several
    ]
    objects = [stacks.karpenter(0), stacks.node_class(0), stacks.daemon_set(0), *stacks.machines(0, "m")]
    joined = [{"type": f"kubernetes:{each['apiVersion']}:{each['kind']}", "inputs": each} for each in objects]
    return [*made, joined, *cases()]


def _records() -> list[Any]:
    checked = check_stack_file(_file(_stack_files()[-1], "Pulumi.dev.yaml"), clouds()).plan
    return [json.loads(json.dumps(record(plan, checked.stack).as_json())) for plan in checked.pools[:3]]


READERS: Mapping[str, Reader] = {
    "stack-file": Reader(read_stack_file, _stack_files),
    "configuration": Reader(plan_configuration, _sections, keys=ODD_KEYS, values=(*VALUES, LATE)),
    "documents": Reader(read_document, _documents),
    "resources": Reader(read_properties, _properties, keys=ODD_KEYS),
    "user-data": Reader(read_user_data, lambda: list(USER_DATA)),
    "policy-configuration": Reader(read_policy_configuration, _configurations),
    "diff": Reader(compare_stack_files, _stack_files),
    "records": Reader(read_record, _records, keys=ODD_KEYS),
    "slices": Reader(
        read_slices,
        lambda: [{"gpu": "A100-40GB", "names": ["3g.20gb", "1g.5gb"], "wished": {"1g.5gb": 3, "2g.10gb": 2}}],
    ),
    "taints": Reader(read_taint, lambda: ["nvidia.com/gpu=present:NoSchedule", "a:NoExecute"]),
    "yaml": Reader(read_yaml, lambda: [text for text in _stack_files() if isinstance(text, str)]),
}
"""By name, as `tooling/fuzz.py` and the folders of crashers have them."""


def kept(given: Any) -> str:
    """Write what a reader was given, odd keys and values included; text stays text."""
    return given if isinstance(given, str) else json.dumps(_encoded(given), indent=1)


def found(path: Path) -> Any:
    """Read what `kept` wrote."""
    text = path.read_bytes().decode("utf-8", "surrogatepass")
    return text if path.suffix == ".txt" else _decoded(json.loads(text))


def _encoded(value: Any) -> Any:
    if value is UNKNOWN:
        return {"<unknown>": None}
    if value is LATE:
        return {"<late>": None}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _encoded(item) for key, item in value.items()}
        return {"<map>": [[_encoded(key), _encoded(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"<tuple>": [_encoded(item) for item in value]}
    return [_encoded(item) for item in value] if isinstance(value, list) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"<unknown>": None}:
            return UNKNOWN
        case {"<late>": None}:
            return LATE
        case {"<map>": list(entries)}:
            return {_decoded(key): _decoded(item) for key, item in entries}
        case {"<tuple>": list(entries)}:
            return tuple(_decoded(item) for item in entries)
    return {key: _decoded(item) for key, item in value.items()}


def crashes(reader: Reader, given: Any) -> Exception | None:
    """Return what a reader raises beside a refusal."""
    try:
        reader.read(given)
    except Rejected:
        return None
    except Exception as error:
        return error
    return None
