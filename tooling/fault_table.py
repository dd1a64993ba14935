"""Interrupt updates of the real engine, recover as docs/how-to/recover.md says, and count the remaining errors.

    python tooling/fault_table.py [PART...]

Each part breaks stacks of its own, with the stand-ins of `tests/engine` for clouds that remember what exists, and
writes its runs into `docs/how-to/recover.json`, from which `tooling/write_docs.py` makes the table of the page. The
parts take about an hour together; `pulumi` must be on PATH.
"""

import json
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.engine.breaking import Breaking, clouds_of  # noqa: E402 - the tests are no installed package
from tests.engine.cli import CommandResult, Engine  # noqa: E402
from tests.engine.clusters import AKS, EKS, GKE  # noqa: E402

RESULTS = ROOT / "docs" / "how-to" / "recover.json"
SAMPLED_TAGS = r"resources/nvidia\.com/gpu$|label/gpupools/pool$"
"""Of the tags of an autoscaling group, which are alike, these are broken off."""
FEW = rf"(?<!\$aws:autoscaling/tag:Tag)::[^:]+$|{SAMPLED_TAGS}"

SMALL: dict[str, Any] = {
    "clusters": {"train": EKS, "serve": AKS, "lab": GKE},
    "pools": {
        "a": {"clusters": ["train"], "instance_type": "g6e.12xlarge", "nodes": {"max": 4}},
        "b": {"clusters": ["serve"], "instance_type": "Standard_NC24ads_A100_v4", "nodes": {"max": 4}},
        "c": {"clusters": ["lab"], "instance_type": "g2-standard-8", "nodes": {"max": 4}},
    },
}
"""A pool on every cloud."""
EDITED: dict[str, dict[str, Any]] = {
    "a": {"instance_type": "g6e.24xlarge"},
    "b": {"disk_gib": 400},
    "c": {"capacity": {"mode": "spot"}},
}
"""What replaces each of them."""
MORE: dict[str, Any] = {"nodes": {"max": 6}, "labels": {"team": "vision"}}
"""What changes each of them in place."""


class Table:
    """The runs of one part."""

    def __init__(self, part: str) -> None:
        """Begin it: one engine, in a folder that goes with it."""
        self.part = part
        self.runs: list[dict[str, Any]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="fault-table-"))
        self.engine = Engine(self.folder)
        self.engine.lay_out()
        self.engine.unchecked()
        self.began = time.monotonic()

    def stack(self, name: str, config: Mapping[str, Any]) -> Breaking:
        """Make a stack."""
        self.engine.run("stack", "init", name).succeeded()
        made = Breaking(self.engine, name)
        made.write(config)
        return made

    def add(
        self, fault: str, hits: Sequence[Mapping[str, Any]], ran: CommandResult, recovery: str, counts: Any
    ) -> None:
        """Write down one break: what was hit, what the user saw, what was done and what was wrong after it."""
        kinds = [str(hit["type"]) for hit in hits]
        self.runs.append(
            {
                "fault": fault,
                "clouds": clouds_of(kinds),
                "hit": [f"{hit['call']} {hit['name']}" for hit in hits],
                "seen": seen(ran).replace(str(self.folder), "…"),
                "recovery": recovery,
                "duplicates": len(counts.duplicates),
                "orphans": len(counts.orphans),
                "lost": len(counts.lost),
                "seconds": round(time.monotonic() - self.began),
            }
        )
        self.began = time.monotonic()
        last = self.runs[-1]
        print(f"{self.part}: {json.dumps(last)}", flush=True)
        if counts:
            print(counts, ran.output[-3000:], flush=True)

    def write(self) -> None:
        """Put the part's runs into the results, in place of those it had."""
        kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"parts": {}}
        kept["parts"][self.part] = self.runs
        kept["parts"] = {part: kept["parts"][part] for part in PARTS if part in kept["parts"]}
        kept["date"] = datetime.now(UTC).date().isoformat()
        sdks = ("pulumi", "pulumi-aws", "pulumi-azure-native", "pulumi-gcp", "pulumi-kubernetes")
        engine = self.engine.run("version").succeeded().output.strip().removeprefix("v")
        kept["versions"] = {"engine": engine, "python": platform.python_version()} | {s: version(s) for s in sdks}
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(self.folder)


def seen(ran: CommandResult) -> str:
    """Return the first error that was shown, none of an update that ended well."""
    if ran.code == 0:
        return ""
    errors = [line.strip() for line in ran.output.splitlines() if re.match(r"\s*error: ", line)]
    # What Pulumi says of whatever it did not come to tells nothing of the fault.
    beside = ("error: update failed", "error: cannot complete a resource ")
    said = [error for error in errors if not error.startswith(beside)] or errors
    return said[0].removeprefix("error: ") if said else ("killed" if ran.code < 0 else "")


def means(lines: Sequence[str]) -> str:
    """Say by the lines of `gpupools orphans` what the recovery needed beside the next update."""
    parts = []
    if any("pulumi import" in line for line in lines):
        parts.append("import")
    if any(line.startswith("  delete it: ") for line in lines):
        parts.append("delete")
    if any("pulumi refresh" in line for line in lines):
        parts.append("refresh")
    return " + ".join((*parts, "up"))


def recovered(stack: Breaking, hits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Recover where something may be left over; else the next update is all."""
    return stack.recover(after_kill=False) if any(hit["how"] in UNTOLD for hit in hits) else []


UNTOLD = ("lose", "cut-after", "die")
"""Faults after which a cloud has what nobody was told of."""


# --- the parts ---


def dev_config() -> dict[str, Any]:
    """Return what the dev stack declares."""
    return config_of("dev")


def config_of(name: str) -> dict[str, Any]:
    """Return the configuration of one of the repository's stacks."""
    file = ROOT / "stacks" / f"Pulumi.{name}.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    return {key.removeprefix("gpupools:"): value for key, value in config.items()}


def every_create(table: Table, name: str, config: Mapping[str, Any], hows: Sequence[str], urn: str = "") -> None:
    """Let each create go wrong in each of these ways, as many at once as the update reaches."""
    stack = table.stack(name, config)
    table.engine.misbehave(*hows, urn=urn)
    for _ in range(40):
        before = len(stack.struck())
        ran = stack.up("--continue-on-error")
        hits = stack.struck()[before:]
        if ran.code == 0:
            break
        assert hits, ran.output
        lines = recovered(stack, hits)
        for how in dict.fromkeys(str(hit["how"]) for hit in hits):
            mine = [hit for hit in hits if hit["how"] == how]
            # What was offered is for those that left something.
            done = means(lines if how in UNTOLD else [])
            table.add(how, mine, ran, done, stack.counts(settled=False))
    ended = stack.up("--expect-no-changes")
    table.add("after all of these", [], ended.succeeded(), "up: nothing to do", stack.counts())


def creates(table: Table) -> None:
    """Break every create of the dev stack: refused, throttled, with a lost answer."""
    every_create(table, "dev", dev_config(), ("fail", "throttle", "lose"))


def timeouts(table: Table) -> None:
    """Let every create of the dev stack time out."""
    every_create(table, "dev", dev_config(), ("time-out",))


def matrix(table: Table) -> None:
    """Break sampled creates of the matrix stack: pools on every cluster."""
    config = config_of("matrix")
    for cluster in config["clusters"].values():
        if cluster.pop("stack", None):  # where the API is says another stack, which is not here
            cluster |= {
                "endpoint": f"https://api.{cluster['name']}.example.com",
                "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
            }
    every_create(
        table, "matrix", config, ("fail", "throttle", "lose"), r"-(operator|claimed|slice)-(nodes|pool|template)$"
    )


KILLS = ("kill-engine", "kill-engine-after")
PROGRAM_KILLS = ("kill-program", "kill-program-after")


def killing(table: Table, stack: Breaking, *command: str, hows: Sequence[str]) -> None:
    """Kill at each change that an update makes, before and after the cloud makes it, until the update is done."""
    calls = ("create", "update", "delete")
    table.engine.misbehave(*hows, calls=calls, urn=FEW)
    for _ in range(60):
        before = len(stack.struck())
        ran = stack.run(*command, "--yes", "--skip-preview")
        table.engine.settle()
        hits = stack.struck()[before:]
        if ran.code == 0:
            break
        assert hits, ran.output
        # After the first one there is no program any more that could be killed, but the engine goes on.
        struck = hits[-1:] if hits[-1]["how"] in KILLS else hits[:1]
        mended = stack.mend() if struck[0]["how"] in KILLS else ""
        lines = stack.recover(after_kill=True) if struck[0]["how"] in KILLS else []
        table.add(
            str(struck[0]["how"]),
            struck,
            ran,
            (f"{mended} + " if mended else "") + means(lines),
            stack.counts(settled=False),
        )
    table.add("after all of these", [], ran, "up: done", stack.counts())


def kills(table: Table) -> None:
    """Kill the engine while it creates a pool on every cloud."""
    killing(table, table.stack("small", SMALL), "up", hows=KILLS)


def replaced(table: Table) -> None:
    """Kill the engine while it replaces a pool on every cloud, and while it deletes them."""
    stack = table.stack("replaced", SMALL)
    stack.up().succeeded()
    stack.write(SMALL | {"pools": {key: pool | EDITED[key] for key, pool in SMALL["pools"].items()}})
    killing(table, stack, "up", hows=KILLS)
    killing(table, stack, "destroy", hows=KILLS)


def software(table: Table) -> None:
    """Kill the engine while it installs the GPU software of a cluster."""
    pool = SMALL["pools"]["b"] | {
        "software": "device-plugin",
        "sharing": {"mode": "time-slicing", "replicas": 2},
        "trust": {"namespaces": ["vision"], "quota": 4},
    }
    cluster = SMALL["clusters"]["serve"] | {"name": "shared", "kubeconfig": {"path": "~/.kube/shared"}}
    stack = table.stack("software", {"clusters": {"serve": cluster}, "pools": {"b": pool}})
    killing(table, stack, "up", hows=KILLS)


def edits(table: Table) -> None:
    """Kill the engine while it changes pools in place."""
    stack = table.stack("edits", SMALL)
    stack.up().succeeded()
    stack.write(SMALL | {"pools": {key: pool | MORE for key, pool in SMALL["pools"].items()}})
    killing(table, stack, "up", hows=KILLS)


def alone(pool: str, name: str, edit: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the configuration of a stack with one pool.

    Args:
        pool: Which of the small stack's.
        name: That of the cluster: each stack has one of its own, since the clouds are the same for all.
        edit: What the pool has differently.
    """
    (cluster,) = SMALL["pools"][pool]["clusters"]
    clusters = {cluster: SMALL["clusters"][cluster] | {"name": name}}
    return {"clusters": clusters, "pools": {pool: SMALL["pools"][pool] | edit}}


def one_cloud(table: Table, pool: str, hows: Sequence[str], urn: str) -> None:
    """Break a stack with one pool again and again, each time in the next way."""
    name = f"{pool}-{hows[0]}"
    config = alone(pool, name)
    stack = table.stack(name, config)
    table.engine.misbehave(*hows, urn=urn)
    for how in hows:
        ran = stack.up()
        assert ran.code != 0, ran.output
        table.engine.unreachable()
        lines = recovered(stack, stack.struck()[-1:])
        table.add(how, stack.struck()[-1:], ran, means(lines), stack.counts(settled=False))
    table.add("after all of these", [], stack.up().succeeded(), "up: done", stack.counts())
    stack.run("destroy", "--yes", "--skip-preview").succeeded()


POOL = {"a": "nodeGroup:", "b": "AgentPool", "c": "nodePool:"}
"""The resource that is each of the small stack's pools."""


def programs(table: Table) -> None:
    """Kill the program while it makes, changes and replaces each pool; let the provider die."""
    for pool, how in product(POOL, PROGRAM_KILLS):
        name = f"{pool}-{how}"
        stack = table.stack(name, {})
        for edit in ({}, MORE, MORE | EDITED[pool]):
            stack.write(alone(pool, name, edit))
            # Once is all there is of each call: the engine ends it without the program.
            killing(table, stack, "up", hows=(how,))
        stack.run("destroy", "--yes", "--skip-preview").succeeded()
    for pool, kind in POOL.items():
        one_cloud(table, pool, ("die",), kind)


def cuts(table: Table) -> None:
    """Cut the network, before a cloud is asked and before it answers."""
    for pool, kind in POOL.items():
        one_cloud(table, pool, ("cut", "cut-after"), kind)


def locks(table: Table) -> None:
    """Start a second update while the first one runs."""
    stack = table.stack("locks", SMALL)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(stack.up)
        while not [*table.folder.glob("backend/.pulumi/locks/**/*.json")]:
            assert not first.done(), first.result().output
            time.sleep(0.1)
        second = stack.up().failed()
        first.result().succeeded()
    hit = {"type": "", "call": "update", "name": "while another one runs"}
    table.add("second-update", [hit], second, "none: the first one ends", stack.counts())


PARTS: Mapping[str, Callable[[Table], None]] = {
    "creates": creates,
    "timeouts": timeouts,
    "matrix": matrix,
    "kills": kills,
    "replaced": replaced,
    "edits": edits,
    "software": software,
    "programs": programs,
    "cuts": cuts,
    "locks": locks,
}


def main(parts: Sequence[str]) -> Iterator[str]:
    """Run parts, all if none is named."""
    for part in parts or PARTS:
        table = Table(part)
        PARTS[part](table)
        table.write()
        yield f"{part}: {len(table.runs)} runs"


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print(line, flush=True)
