"""`gpupools matrix`: show which GPU sharing modes each cloud supports."""

import argparse

from gpupools.catalog.gpus import match_gpu_model
from gpupools.cli.help_texts import add_filters, chosen_clouds, examples
from gpupools.console.output import answer, tell
from gpupools.console.tables import tell_table
from gpupools.plan.capability import Verdict
from gpupools.plan.matrix import MatrixRow, grouped, matrix


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools matrix --cloud gcp --gpu L4")
    add_filters(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one row per cloud, software, sharing mode and GPU model as JSON"
    )
    parser.set_defaults(run=_exit_status, nothing={"rows": []})


def _exit_status(given: argparse.Namespace) -> int:
    chosen, gpu = chosen_clouds(given).values(), given.gpu
    models = frozenset(match_gpu_model(gpu)) if gpu is not None else None
    if given.json:
        answer("matrix", "accepted", [], {"rows": [row.as_json() for each in chosen for row in matrix(each, models)]})
        return 0
    for cloud in chosen:
        tell(f"{cloud.service} ({cloud.name})")
        offered = {
            row.gpu_model
            for row in cloud.instance_types.values()
            if row.lifecycle != "retired" and (models is None or row.gpu_model in models)
        }
        if not offered:
            tell(f"no instance type with {gpu}")
            tell("")
            continue
        table = [
            (row.software, row.sharing, row.verdict, _models(found, offered), _sentence(row), row.source)
            for row, found in grouped(matrix(cloud, models)).items()
        ]
        headers = ["software", "sharing", "verdict", "GPUs", "why", "source"]
        tell_table(table, headers, widths=[None, None, None, 24, 70, 50])
        tell("")
    return 0


def _models(found: tuple[str, ...], offered: set[str]) -> str:
    return "all" if len(found) == len(offered) else ", ".join(found)


def _sentence(row: MatrixRow) -> str:
    return f"{row.why}; instead: {row.instead}" if row.verdict is Verdict.REFUSED and row.instead else row.why
