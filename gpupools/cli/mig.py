"""`gpupools mig profiles|fit|pack`: MIG profiles and layouts of a GPU, offline; `walk` changes nodes."""

import argparse
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpupools.catalog.gpus import gpu_models, match_gpu_model
from gpupools.catalog.mig import MigError, geometry, profiles
from gpupools.catalog.mig_fit import Fit, Layout, Packing, fit, pack
from gpupools.cli import mig_walk
from gpupools.cli.help_texts import examples, whole_number
from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.console.output import answer, tell, tell_lines
from gpupools.console.tables import tell_table


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the subcommands."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    form = parser.formatter_class
    listing = verbs.add_parser("profiles", help="list the MIG profiles of a GPU", formatter_class=form)
    what = "check whether slices fit on one GPU, and show where"
    fitting = verbs.add_parser("fit", help=what, formatter_class=form)
    fitting.add_argument("names", nargs="+", metavar="PROFILE", help="e.g. 3g.20gb 2g.10gb 1g.5gb")
    packing = verbs.add_parser("pack", help="compute the fewest GPUs for a set of slices", formatter_class=form)
    packing.add_argument("slices", nargs="+", metavar="PROFILE=COUNT", help="e.g. 1g.5gb=10 3g.20gb=2")
    packing.add_argument(
        "--max-gpus", type=whole_number, default=16, metavar="N", help="maximum number of GPUs, 1 to 16 (default: 16)"
    )
    listing.epilog = examples("gpupools mig profiles --gpu A100-40GB")
    fitting.epilog = examples("gpupools mig fit --gpu A100-40GB 3g.20gb 2g.10gb 1g.5gb")
    packing.epilog = examples("gpupools mig pack --gpu H100-80GB 1g.10gb=10 3g.40gb=2")
    parser.epilog = examples("gpupools mig profiles --gpu A100-40GB")
    walking = verbs.add_parser(
        "walk", help="give the nodes of a pool another layout, a few at a time", formatter_class=form
    )
    mig_walk.add(walking)
    walking.set_defaults(run=mig_walk.run_walk)
    for verb, run in ((listing, _profiles), (fitting, _fit), (packing, _pack)):
        verb.add_argument("--gpu", required=True, metavar="MODEL", help="e.g. A100-40GB or H100-80GB")
        verb.add_argument("--json", action="store_true")
        verb.set_defaults(run=lambda given, run=run: _answer(run, given))


_HOLDS: Mapping[str, JsonObject] = {
    "profiles": {"profiles": []},
    "fit": {"gpu": None, "fits": False, "layout": [], "largest": [], "left_over": [], "why": "", "status": None},
    "pack": {"gpu": None, "fits": False, "gpus": None, "layouts": [], "why": "", "status": None},
}
"""JSON keys of each subcommand, with their values when nothing could be computed."""


def _answer(run: Any, given: argparse.Namespace) -> int:
    try:
        given.gpu = _model(given.gpu)
        code: int = run(given)
    except (Rejected, MigError) as error:
        failed = isinstance(error, Rejected)
        problem = error.problems[0] if isinstance(error, Rejected) else Problem((), str(error))
        if given.json:
            answer(f"mig {given.verb}", "failed" if failed else "refused", [problem.as_json()], _HOLDS[given.verb])
        else:
            tell(problem, error=True)
        return 2 if failed else 1
    return code


def _model(named: str) -> str:
    models = match_gpu_model(named)
    if len(models) == 1:
        return models[0]
    if models:
        raise Rejected([Problem(("--gpu",), f"{named!r} is ambiguous: {' or '.join(models)}", "use one of them")])
    raise Rejected([Problem(("--gpu",), f"unknown GPU {named!r}", nearest(named, gpu_models()))])


def _answer_slices(given: argparse.Namespace, result: Fit | Packing, *lines: str) -> int:
    """Print the result; slices that do not fit are reported as refused, with the reason in `why`."""
    if given.json:
        holds: JsonDict = {key: getattr(result, key) for key in _HOLDS[given.verb]}
        if isinstance(result, Packing):
            holds["layouts"] = [_layout(layout) for layout in result.layouts]
        else:
            holds |= {"layout": _layout(result.layout), "largest": _layout(result.largest)}
        problems = [] if result.fits else [Problem((), result.why).as_json()]
        answer(f"mig {given.verb}", "accepted" if result.fits else "refused", problems, holds)
    else:
        tell_lines("\n".join([*lines, *([result.diagram] if result.diagram else [])]))
    return 0 if result.fits else 1


_COUNTS = (
    *("compute_slices", "memory_slices", "usable_gib", "sm_count", "copy_engines", "decoders", "jpeg", "ofa"),
    "max_instances",
)
_COLUMNS = ("profile", "max_instances", *_COUNTS[:6])
_FACTS = ("resource_name", "gi_profile_id", "min_driver_branch", "status", "source")


def _profiles(given: argparse.Namespace) -> int:
    found = profiles(given.gpu)
    if not found:
        geometry(given.gpu)  # raises the reason
    rows: list[JsonDict] = [
        {
            "gpu": profile.gpu,
            "profile": profile.name,
            **{key: getattr(profile, key) for key in _COUNTS},
            "placements": {"starts": list(profile.starts), "size": profile.size},
            **{key: getattr(profile, key) for key in _FACTS},
        }
        for profile in found
    ]
    if given.json:
        answer("mig profiles", "accepted", [], {"profiles": rows})
        return 0
    table = []
    for row in rows:
        starts, size = row["placements"]["starts"], row["placements"]["size"]
        cells = [*(row[key] for key in _COLUMNS), ",".join(map(str, starts)), size, row["resource_name"]]
        table.append(["?" if cell in (None, "") else cell for cell in cells])
    headers = ["profile", "max", "compute", "memory", "GiB", "SMs", "copy", "decoders", "starts", "size"]
    tell_table(table, [*headers, "resource (strategy mixed)"])
    tell("")
    tell("compute and memory are in slices; ? means that no reliable source has the value")
    return 0


def _fit(given: argparse.Namespace) -> int:
    result = fit(given.gpu, given.names)
    if result.fits:
        return _answer_slices(given, result, f"fits: {result.why}")
    part = f"the largest part that fits, without {_counted(result.left_over)}:"
    return _answer_slices(given, result, f"does not fit: {result.why}", part)


def _pack(given: argparse.Namespace) -> int:
    counts: dict[str, int] = {}
    for text in given.slices:
        match = re.fullmatch(r"([^=\s]+)=([0-9]{1,6})", text)
        if match is None:
            raise Rejected([Problem((), f"invalid argument {text!r}", "write PROFILE=COUNT, e.g. 1g.5gb=10")])
        counts[match[1]] = counts.get(match[1], 0) + int(match[2])
    result = pack(given.gpu, counts, given.max_gpus)
    verdict = f"{result.gpus} × {result.gpu}" if result.fits else f"does not fit on {given.max_gpus} × {result.gpu}"
    return _answer_slices(given, result, f"{verdict}: {result.why}")


def _counted(names: Sequence[str]) -> str:
    return ", ".join(name if count == 1 else f"{count} × {name}" for name, count in Counter(names).items())


def _layout(layout: Layout) -> Sequence[JsonDict]:
    return [{"profile": placed.profile.name, "start": placed.start, "size": placed.size} for placed in layout]
