"""`gpupools matrix`: what each cloud can do with each GPU, by which software, and why not."""

import argparse
import json
import sys

from gpupools.cloud import Verdict
from gpupools.commands.tables import table_text
from gpupools.errors import nearest
from gpupools.gpus import gpu_models, match_gpu_model
from gpupools.matrix import grouped, matrix
from providers import clouds


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--cloud", metavar="CLOUD", help="only this cloud")
    parser.add_argument("--gpu", metavar="MODEL", help="only this GPU model")
    parser.add_argument("--json", action="store_true", help="one row per cloud, software, sharing and GPU model")
    parser.set_defaults(run=lambda given: show(given.cloud, given.gpu, given.json))


def show(cloud: str | None, gpu: str | None, as_json: bool) -> int:
    """Print the matrix; return 2 when the cloud or the GPU is unknown."""
    known = clouds()
    if cloud is not None and cloud not in known:
        print(f"--cloud: no cloud is called {cloud!r}; {nearest(cloud, known)}", file=sys.stderr)
        return 2
    models = frozenset(match_gpu_model(gpu)) if gpu is not None else None
    if gpu is not None and not models:
        print(f"--gpu: {gpu!r} is no NVIDIA GPU model; {nearest(gpu, gpu_models())}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in known if cloud in (None, name)]
    if as_json:
        print(json.dumps([row.as_json() for each in chosen for row in matrix(each, models)], indent=2))
        return 0
    for each in chosen:
        print(f"{each.service} ({each.name})")
        offered = {
            row.gpu_model
            for row in each.instance_types.values()
            if row.lifecycle != "retired" and (models is None or row.gpu_model in models)
        }
        if not offered:
            print(f"offers no {gpu}\n")
            continue
        table = [
            (software, sharing, verdict, _models(found, offered), _sentence(verdict, why, instead), source)
            for (_, software, sharing, verdict, why, source, instead), found in grouped(matrix(each, models)).items()
        ]
        headers = ["software", "sharing", "verdict", "GPUs", "why", "source"]
        widths = [None, None, None, 24, 70, 50]
        print(table_text(table, headers, widths=widths))
        print()
    return 0


def _models(found: tuple[str, ...], offered: set[str]) -> str:
    return "all" if len(found) == len(offered) else ", ".join(found)


def _sentence(verdict: Verdict, why: str, instead: str) -> str:
    return f"{why}; instead: {instead}" if verdict is Verdict.REFUSED and instead else why
