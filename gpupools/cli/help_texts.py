"""What several commands say of their words."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from gpupools.common.errors import Problem, shown
from gpupools.common.json_types import JsonDict
from gpupools.console.output import answer, tell


def examples(*calls: str) -> str:
    """Write the examples at the end of a command's help; each is run by a test, in a checkout of this project."""
    return "".join([f"example{'s' if len(calls) > 1 else ''}:\n", *(f"  {call}\n" for call in calls)])


def whole_number(text: str) -> int:
    """Read a number for argparse, which says of a word that is none only that it is an "invalid int value"."""
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"{shown(text)} is no whole number; write digits") from None


def add_filters(parser: ArgumentParser) -> None:
    """Declare `--cloud` and `--gpu`."""
    parser.add_argument("--cloud", metavar="CLOUD", help="only this cloud")
    parser.add_argument("--gpu", metavar="MODEL", help="only this GPU model, e.g. L4 or A100-80GB (A100: every A100)")


def filters_are_wrong(command: str, given: Namespace, holds: JsonDict) -> bool:
    """Print what is wrong with `--cloud` or `--gpu`; return whether anything is."""
    wrong = wrong_words(given.cloud, given.gpu)
    if wrong is not None and given.json:
        answer(command, "failed", [wrong.as_json()], holds)
    elif wrong is not None:
        tell(wrong, error=True)
    return wrong is not None


def wrong_words(cloud: str | None, gpu: str | None) -> Problem | None:
    """Say what is wrong with `--cloud` or `--gpu`; None when nothing is."""
    from gpupools.catalog.gpus import match_gpu_model, nearest_gpu_model
    from gpupools.plan.cloud import nearest_cloud
    from gpupools.providers import clouds

    if cloud is not None and cloud not in clouds():
        return Problem(("--cloud",), f"no cloud is called {cloud!r}", nearest_cloud(cloud, clouds()))
    if gpu is not None and not match_gpu_model(gpu):
        return Problem(("--gpu",), f"{gpu!r} is not an NVIDIA GPU model", nearest_gpu_model(gpu))
    return None
