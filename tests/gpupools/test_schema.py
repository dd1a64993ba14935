"""The JSON schema of a stack file, judged by a real validator: it takes what check takes, and refuses what it can."""

import copy
import json
import random
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from gpupools.catalog.gpus import gpu_models
from gpupools.catalog.mig import profiles
from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.plan.cloud import Cloud
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config
from gpupools.stackfile.stack_validation import parse_stack
from tests.docs.test_docs import BLOCK, PAGES
from tests.rows import each_row
from tooling import write_schema

ROOT = Path(__file__).resolve().parents[2]
SCHEMA: dict[str, Any] = json.loads((files("gpupools") / "data/stack-file.schema.json").read_text("utf-8"))
STACK_FILES = [*sorted((ROOT / "stacks").glob("*.yaml")), *sorted((ROOT / "tests" / "stacks").glob("*.yaml"))]
ON_PAGES = [
    block["body"]
    for page in PAGES
    for block in BLOCK.finditer(page.read_text(encoding="utf-8"))
    if block["kind"] == "yaml" and "gpupools:clusters" in block["body"]
]
CLUSTERS = {"train": clouds()["aws"].example_cluster, "lab": clouds()["gcp"].example_cluster}
POOL: Mapping[str, Any] = {"clusters": ["train"], "gpu": "L4", "nodes": {"max": 4}}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(SCHEMA)


def stack(pool: Mapping[str, Any] = POOL, clusters: Mapping[str, Any] = CLUSTERS, **more: Any) -> dict[str, Any]:
    config = {"gpupools:clusters": clusters, "gpupools:pools": {"one": pool}}
    return {"config": {**config, **{f"gpupools:{key}": value for key, value in more.items()}}}


def is_taken(document: Any, judge: Any = plan_config) -> bool:
    """Say whether check takes it; `parse_stack` does all that needs no catalogue and no second key."""
    config = {key.removeprefix("gpupools:"): value for key, value in document["config"].items()}
    try:
        judge(config, clouds())
    except Rejected:
        return False
    return True


def test_it_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_it_says_what_the_models_say() -> None:
    assert write_schema.main(["--check"]) == 0, "run: python tooling/write_schema.py"


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


@pytest.mark.parametrize("file", STACK_FILES, ids=lambda file: file.name)
def test_it_takes_every_stack_file_of_the_repository(file: Path, validator: jsonschema.Draft7Validator) -> None:
    validator.validate(yaml.safe_load(file.read_text(encoding="utf-8")))


@each_row("text", ON_PAGES)
def test_it_takes_every_stack_file_of_the_documentation(text: str, validator: jsonschema.Draft7Validator) -> None:
    document = yaml.safe_load(text)
    if is_taken(document):
        validator.validate(document)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*at, key))


def spoilt(document: Any, chance: random.Random) -> Any:
    """Return a stack file with a value replaced, a key taken away or a key added."""
    found = copy.deepcopy(document)
    *above, last = chance.choice([each for each in places(found) if len(each) > 1])
    inner = found
    for key in above:
        inner = inner[key]
    what = chance.choice(("replaced", "replaced", "taken", "added"))
    if what == "replaced":
        inner[last] = chance.choice(VALUES)
    elif what == "taken":
        del inner[last]
    elif isinstance(inner, dict):
        inner[chance.choice(KEYS)] = chance.choice(VALUES)
    return found


VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        7,
        2.5,
        -1,
        "",
        "x",
        "1",
        "true",
        "8",
        "1/4",
        [],
        {},
        ["x"],
        {"x": "y"},
        {"mode": "none"},
    ),
    *(
        {"output": "a.b"},
        [{"output": "a"}],
        {"max": 1},
        {"fixed": 2},
        {"min": 1, "max": 2},
        {"mode": "spot"},
        "l4",
        "T4",
    ),
    *(
        {"team": "a"},
        {"waiver": "one team has it all"},
        {"mode": "mig", "profile": "1g.5gb"},
        "team=a:NoSchedule",
        "H200",
    ),
    *({"mode": "mps", "replicas": 2}, {"path": "~/.kube/x"}, ["1g.5gb"], {"0": ["1g.5gb"]}, {0: ["1g.5gb"]}, "raid0"),
    *("standard_nc24ads_a100_v4", "n1-standard-8+nvidia-tesla-t4:1", "eu-west-1", "v26.7.0", "1.34", "a100-80gb"),
]
KEYS = [
    "gpu",
    "instance_type",
    "gpus_per_node",
    "nodes",
    "capacity",
    "trust",
    "sharing",
    "min",
    "fixed",
    "zones",
    "image",
]
KEYS += [
    "overrides",
    "kubeconfig",
    "endpoint",
    "runtime",
    "existing",
    "subnet_ids",
    "stack",
    "mode",
    "layout",
    "x",
    "tags",
]


@pytest.mark.slow
def test_it_refuses_nothing_that_check_takes(validator: jsonschema.Draft7Validator) -> None:
    chance = random.Random(7)
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in STACK_FILES]
    wrong, taken, refused, seen = [], 0, 0, 0
    for _ in range(300):
        document = spoilt(chance.choice(documents), chance)
        if is_taken(document):
            taken += 1
            # GPU indices as numbers are text as soon as anything reads JSON.
            error = next(iter(validator.iter_errors(json.loads(json.dumps(document)))), None)
            wrong += [(error.json_path, error.message[:200])] if error is not None else []
        elif not is_taken(document, parse_stack):
            refused += 1
            seen += not validator.is_valid(json.loads(json.dumps(document)))

    assert wrong == []
    assert taken > 50
    assert seen > 0.85 * refused


@each_row(
    ("wrong", "at"),
    [
        (stack({**POOL, "gpu": "L5"}), "gpu"),
        (stack({**POOL, "gpus": 1}), "one"),
        (stack({**POOL, "nodes": {"max": "4"}}), "max"),
        (stack({**POOL, "nodes": {"max": 4, "fixed": 2}}), "nodes"),
        (stack({**POOL, "nodes": {"min": 4}}), "nodes"),
        (stack({**POOL, "instance_type": "g6.xlarge"}), "one"),
        (stack({"clusters": ["train"], "nodes": {"max": 4}}), "one"),
        (stack({"clusters": ["train"], "instance_type": "g6.xxlarge", "nodes": {"max": 4}}), "instance_type"),
        (stack({**POOL, "sharing": {"mode": "mig", "profile": "1g.4gb"}}), "profile"),
        (stack({**POOL, "sharing": {"mode": "mig"}}), "sharing"),
        (stack({**POOL, "sharing": {"mode": "timeslicing", "replicas": 4}}), "mode"),
        (stack({**POOL, "sharing": {"mode": "time-slicing", "replicas": 1}}), "replicas"),
        (stack({**POOL, "sharing": {"mode": "none", "replicas": 4}}), "sharing"),
        (stack({**POOL, "taints": ["team=a:Never"]}), "taints[0]"),
        (stack({**POOL, "labels": {"team": 7}}), "team"),
        (stack({**POOL, "trust": {}}), "trust"),
        (stack({**POOL, "overrides": {"aws": {"Nodegroup": {}}}}), "aws"),
        (stack({**POOL, "overrides": {"aws": {"NodeGroup": {"labls": {}}}}}), "NodeGroup"),
        (stack(clusters={"train": {"cloud": "amazon"}}), "cloud"),
        (stack(clusters={"Train": CLUSTERS["train"]}), "gpupools:clusters"),
        (stack(clusters={"train": {**CLUSTERS["lab"], "region": "europe-west4"}}), "train"),
        (stack(clusters={"train": {**CLUSTERS["train"], "endpoint": "https://a.example"}}), "train"),
        (stack(clusters={"train": {**CLUSTERS["train"], "runtime": {"kubernetes": 1.34}}}), "kubernetes"),
        (
            stack(clusters={"train": {**CLUSTERS["train"], "runtime": {"versions": {"gpu-operator": "26"}}}}),
            "gpu-operator",
        ),
        (stack(clusters={"train": {**CLUSTERS["train"], "kubeconfig": {"secret": "apiVersion: v1"}}}), "kubeconfig"),
        (stack(clusters={"train": {**CLUSTERS["train"], "account": "1234"}}), "account"),
        (stack(clusters={"train": {**CLUSTERS["train"], "region": "Frankfurt"}}), "region"),
        (stack(clusters={"train": {**CLUSTERS["lab"], "location": "europe"}}), "location"),
        (stack({**POOL, "gpu": 7}), "gpu"),
        (stack({**POOL, "gpu": []}), "gpu"),
        (stack({"clusters": ["train"], "instance_type": {"name": "g6.xlarge"}, "nodes": {"max": 1}}), "instance_type"),
        (stack(production="yes"), "gpupools:production"),
        (stack(allow_destroy="train/one"), "gpupools:allow_destroy"),
        (stack(pool={}), "one"),
        ({"config": {"gpupools:clusters": CLUSTERS}}, "config"),
        ({}, ""),
    ],
    ids=lambda value: json.dumps(value)[-60:],
)
def test_it_refuses_what_a_schema_can(wrong: Any, at: str, validator: jsonschema.Draft7Validator) -> None:
    errors = list(validator.iter_errors(wrong))

    assert errors
    assert any(re.sub(r"[\"'\]]", "", error.json_path).endswith(at.replace("]", "")) for error in errors), [
        error.json_path for error in errors
    ]


@pytest.mark.parametrize("cloud", clouds().values(), ids=lambda cloud: cloud.name)
def test_every_word_of_the_catalogues_is_one_an_editor_offers(
    cloud: Cloud, validator: jsonschema.Draft7Validator
) -> None:
    for name in cloud.instance_types:
        validator.validate(stack({"clusters": ["train"], "instance_type": name, "nodes": {"max": 1}}))
    for gpu in gpu_models():
        validator.validate(stack({**POOL, "gpu": gpu}))
        validator.validate(stack({**POOL, "gpu": gpu.lower()}))
        for each in profiles(gpu) if gpu_models()[gpu].mig_profiles else ():
            validator.validate(stack({**POOL, "gpu": gpu, "sharing": {"mode": "mig", "profile": each.name}}))


def test_what_an_environment_completes_is_not_complained_about(validator: jsonschema.Draft7Validator) -> None:
    half = {"gpupools:pools": {"one": {"gpu": "L4"}}}
    inline = {"values": {"pulumiConfig": {"gpupools:clusters": CLUSTERS}}}

    assert validator.is_valid({"environment": inline, "config": half})
    assert not validator.is_valid({"environment": ["shared"], "config": half})


def test_every_key_has_a_description() -> None:
    bare = [
        f"{name}.{key}"
        for name, definition in SCHEMA["definitions"].items()
        for key, each in definition.get("properties", {}).items()
        if name not in ("Cluster", "capacity") and not each.get("description")
    ]

    assert bare == []
