"""Measure previews of a stack with the real engine, compared with a plain program that declares the same resources.

    python benchmarks/engine_cost.py [POOLS] [ROUNDS]

The plain program is written out of what our own would declare: every resource that a provider manages, with the same
inputs, provider and order, and nothing else (no component, no output, no look at the last update). Both are previewed
in turn by `pulumi` with stand-in providers, so that a slow or busy machine changes both alike. Wall clock is what a
user waits for; CPU is that of the command with its program and providers (Linux). Needs `pulumi` on PATH.
"""

import graphlib
import json
import re
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.program_run import preview_program
from gpupools.preview.sdk_schema import UNKNOWN
from tests.engine.cli import ROOT, CommandResult, Engine
from tooling.sdk_types import args_class, resource_class, wire_names

CLUSTERS = {
    "train": {
        "cloud": "aws",
        "name": "train",
        "region": "eu-central-1",
        "subnet_ids": ["subnet-0a1b2c3d4e5f60718", "subnet-0b1c2d3e4f5061728"],
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
    },
    "serve": {
        "cloud": "azure",
        "name": "serve",
        "resource_group": "ml",
        "subscription_id": "00000000-0000-0000-0000-000000000000",
    },
    "lab": {
        "cloud": "gcp",
        "name": "lab",
        "project": "ml-dev",
        "location": "europe-west4",
        "service_account": "gpu-nodes@ml-dev.iam.gserviceaccount.com",
    },
}
GPUS = {"train": "L4", "serve": "T4", "lab": "L4"}


def configuration(pools: int) -> dict[str, Any]:
    """Write a stack of this many pools, spread over a cluster of each cloud."""
    names = list(CLUSTERS)
    wanted = {
        f"p{number}": {"clusters": [names[number % 3]], "gpu": GPUS[names[number % 3]], "nodes": {"max": 4}}
        for number in range(pools)
    }
    return {"gpupools:clusters": CLUSTERS, "gpupools:pools": wanted}


def plain_program(pools: int) -> tuple[str, int]:
    """Return a program that declares what ours would, written out, and how many resources it has."""
    found = preview_program(ROOT / "stacks" / "__main__.py", "plain", "gpupools", configuration(pools))
    assert not found.problems, found.problems
    managed = _in_order([each for each in found.resources if each.custom])
    variables = {each.urn: f"r{number}" for number, each in enumerate(managed)}
    modules: set[str] = set()
    lines = []
    for each in managed:
        class_ = resource_class(each.type)
        args = args_class(class_) if class_ is not None else None
        assert class_ is not None, each.type
        assert args is not None, each.type
        modules.add(class_.__module__)
        depends = each.options.get("propertyDependencies", {})
        names = {wire: python for python, wire in wire_names(args).items()}
        names["resourceName"] = "resource_name_"  # the name of the resource itself has taken the other one
        given = {
            names.get(key, key): _written(_decoded(each.type, value), [variables[urn] for urn in depends.get(key, ())])
            for key, value in each.inputs.items()
        }
        arguments = "".join(f", {name}={text}" for name, text in given.items())
        options = ", ".join(_options(each.options, variables))
        lines.append(
            f"{variables[each.urn]} = {class_.__module__}.{class_.__name__}({each.name!r}"
            f"{arguments}, opts=pulumi.ResourceOptions({options}))"
        )
    imports = [f"import {name}" for name in ("pulumi", *sorted(modules))]
    return "\n".join([*imports, *lines, ""]), len(managed)


def _in_order(managed: Sequence[DeclaredResource]) -> list[DeclaredResource]:
    """Put what others refer to before them."""
    known = {declared_resource.urn: declared_resource for declared_resource in managed}
    before = {
        each.urn: [
            urn
            for given in (each.options.get("dependsOn", ()), *each.options.get("propertyDependencies", {}).values())
            for urn in given
            if urn in known
        ]
        + [urn for urn in known if each.options.get("provider", "").startswith(f"{urn}::")]
        for each in managed
    }
    return [known[urn] for urn in graphlib.TopologicalSorter(before).static_order()]


def _decoded(type_: str, value: Any) -> Any:
    """Undo what an SDK does to the settings of a provider, which travel as JSON text."""
    if type_.startswith("pulumi:providers:") and isinstance(value, str) and re.match(r"[\[{]|true$|false$", value):
        return json.loads(value)
    return value


def _written(value: Any, others: Sequence[str]) -> str:
    """Write a value as Python; what is not known yet is the id of the resource it comes from."""
    if value == UNKNOWN:
        return f"{others[0]}.id" if others else "''"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_written(inner, others)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(inner, others) for inner in value) + "]"
    return repr(value)


def _options(given: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[str]:
    provider = variables.get(str(given.get("provider", "")).rpartition("::")[0])
    if provider:
        yield f"provider={provider}"
    if given.get("ignoreChanges"):
        yield f"ignore_changes={given['ignoreChanges']!r}"
    if given.get("customTimeouts"):
        yield f"custom_timeouts=pulumi.CustomTimeouts(**{given['customTimeouts']!r})"
    depends = [variables[urn] for urn in given.get("dependsOn", ()) if urn in variables]
    if depends:
        yield f"depends_on=[{', '.join(depends)}]"


def measured(engine: Engine, project: Path | None) -> tuple[float, float, CommandResult]:
    """Preview once; return seconds on the clock, seconds of CPU and what was printed."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = engine.run("preview", "--stack", "bench", project=project).succeeded()
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ran


def main() -> None:
    """Measure and print."""
    pools = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Path(folder) / "engine")
        engine.folder.mkdir()
        engine.lay_out()
        written = json.dumps({"config": configuration(pools)})
        (engine.repository / "stacks" / "Pulumi.bench.yaml").write_text(written, encoding="utf-8")
        program, resources = plain_program(pools)
        plain = engine.project("plain", program)
        engine.run("stack", "init", "bench").succeeded()
        engine.run("stack", "init", "bench", project=plain).succeeded()
        figures: dict[str, list[tuple[float, float]]] = {"ours": [], "plain": []}
        created = {}
        for _ in range(rounds + 1):
            for name, project in (("plain", plain), ("ours", None)):
                wall, cpu, ran = measured(engine, project)
                figures[name].append((wall, cpu))
                created[name] = next(line.strip() for line in ran.output.splitlines() if " to create" in line)
    print(f"{pools} pools, {resources} resources of providers; {created}; {rounds} rounds after one to warm up")
    for position, what in enumerate(("wall", "CPU")):
        ours, other = ([each[position] for each in figures[name][1:]] for name in ("ours", "plain"))
        ratios = [mine / its for mine, its in zip(ours, other, strict=True)]
        print(
            f"{what}: ours {statistics.median(ours):.2f} s, plain {statistics.median(other):.2f} s, "
            f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
