"""`gpupools catalog`: list the instance types with NVIDIA GPUs and their sources."""

import argparse
from collections.abc import Iterable, Mapping

from gpupools.catalog.gpus import gpu_models, match_gpu_model
from gpupools.catalog.instance_types import InstanceType
from gpupools.cli.help_texts import Refusal, add_filters, chosen_clouds, examples
from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict
from gpupools.console.output import answer, tell
from gpupools.console.tables import tell_table
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_plan import gpus_as_json


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools catalog --cloud aws --gpu H100", "gpupools catalog --sources")
    add_filters(parser)
    parser.add_argument(
        "--sources", action="store_true", help="list the tables of places, prices, quotas and types instead, with dates"
    )
    parser.add_argument("--json", action="store_true", help="print all columns as JSON")
    parser.set_defaults(run=_exit_status, nothing={"instance_types": [], "tables": []})


def _exit_status(given: argparse.Namespace) -> int:
    chosen, gpu = chosen_clouds(given), given.gpu
    if given.sources and gpu is not None:
        raise Refusal([Problem(("--gpu",), "cannot be combined with --sources", "remove one of them")], "failed")
    if given.sources:
        _tell_sources(chosen, given.json)
        return 0
    models = match_gpu_model(gpu) if gpu is not None else tuple(gpu_models())
    every = [(name, row) for name, cloud in chosen.items() for row in cloud.instance_types.values()]
    rows = [(name, row) for name, row in every if row.gpu_model in models]
    if given.json:
        answer("catalog", "accepted", [], {"instance_types": [_as_json(*row) for row in rows], "tables": []})
    else:
        _print_table(rows)
        for name in (cloud_name for cloud_name in chosen if cloud_name not in dict(rows)):
            tell(f"{name} has no instance type with {' or '.join(models)}")
    return 0


def _tell_sources(chosen: Mapping[str, Cloud], as_json: bool) -> None:
    """Print each table of a cloud with its number of rows, their dates and its sources."""
    tables: list[JsonDict] = [
        {
            "cloud": name,
            "table": file.name,
            "rows": len(rows),
            "oldest": min(row[column] for row in rows),
            "newest": max(row[column] for row in rows),
            "sources": list(dict.fromkeys(row["source"] for row in rows)),
        }
        for name, found in chosen.items()
        for file, column in found.dated_tables()
        if (rows := csv_rows(file))
    ]
    if as_json:
        answer("catalog", "accepted", [], {"instance_types": [], "tables": tables})
    else:
        columns = ("cloud", "table", "rows", "oldest", "newest")
        told = [(*(table[key] for key in columns), str(len(table["sources"]))) for table in tables]
        tell_table(told, (*columns, "sources"))


def _as_json(cloud: str, row: InstanceType) -> JsonDict:
    """Return a row with all columns; `gpus` is below 1 for a fraction of a GPU, which `gpus_exact` has as text."""
    found = row._asdict()
    name, extra = found.pop("name"), found.pop("extra")
    exact = {"gpus": gpus_as_json(row.gpus), "gpus_exact": str(row.gpus)}
    empty = {"rdma": row.rdma or None, "lifecycle_date": row.lifecycle_date or None}
    return {"cloud": cloud, "instance_type": name, **found, **exact, **empty, **extra}


def _print_table(rows: Iterable[tuple[str, InstanceType]]) -> None:
    table = [
        (
            name,
            row.name,
            row.gpu_model,
            str(row.gpus),
            f"{row.gpu_memory_gib:g}",
            row.vcpus if row.vcpus is not None else "?",
            f"{row.memory_gib:g}" if row.memory_gib is not None else "?",
            row.architecture,
            f"{row.rdma} ×{row.rdma_interfaces}" if row.rdma and row.rdma_interfaces else row.rdma,
            f"{row.lifecycle} {row.lifecycle_date}".strip(),
        )
        for name, row in rows
    ]
    headers = ["cloud", "instance type", "GPU", "GPUs", "GiB/GPU", "vCPUs", "GiB", "arch", "RDMA", "lifecycle"]
    tell_table(table, headers)
