"""Arguments and help texts that several commands share."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpupools.common.errors import Problem, Rejected, shown
from gpupools.console.output import answer, tell
from gpupools.plan.cloud import Cloud
from gpupools.stackfile.check import Located, locate
from gpupools.stackfile.format_problem import tell_located


def examples(*calls: str) -> str:
    """Return the examples at the end of a command's help. Tests run each in a checkout of this project."""
    return "".join([f"example{'s' if len(calls) > 1 else ''}:\n", *(f"  {call}\n" for call in calls)])


def whole_number(text: str) -> int:
    """Return a number for argparse, with a better error than "invalid int value"."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ArgumentTypeError(f"{shown(text)} is not a whole number; write digits")
    return int(text)


def add_filters(parser: ArgumentParser) -> None:
    """Declare `--cloud` and `--gpu`."""
    parser.add_argument("--cloud", metavar="CLOUD", help="only this cloud")
    parser.add_argument("--gpu", metavar="MODEL", help="only this GPU model, e.g. L4 or A100-80GB (A100: every A100)")


def chosen_clouds(given: Namespace) -> Mapping[str, Cloud]:
    """Return the clouds that `--cloud` leaves; raise `Refusal` if it or `--gpu` is wrong."""
    from gpupools.providers import clouds

    if (wrong := filter_problem(given.cloud, given.gpu)) is not None:
        raise Refusal([wrong], "failed")
    return {name: cloud for name, cloud in clouds().items() if given.cloud in (None, name)}


class Refusal(Exception):
    """A command does nothing; has why, and the result as for `answer`."""

    def __init__(self, problems: Sequence[Problem | Located], result: str = "refused") -> None:
        super().__init__(*map(str, problems))
        self.problems, self.result = problems, result


def refuse_overwriting(outputs: Iterable[tuple[str, Path | None]], inputs: Iterable[Path | None]) -> None:
    """Raise `Refusal` if a file to write, with its option, is also read."""
    read = [file for file in inputs if file is not None and file.exists()]
    for option, output in outputs:
        if output is not None and output.exists() and any(map(output.samefile, read)):
            raise Refusal([Problem((option,), f"{output} is an input file", "use another file")], "failed")


@contextmanager
def located_in(file: Path, result: str = "refused") -> Iterator[None]:
    """Turn what is `Rejected` meanwhile into a `Refusal` at the lines of a file."""
    try:
        yield
    except Rejected as rejected:
        raise Refusal(locate(file, rejected), result) from None


def exit_code(command: str, given: Namespace) -> int:
    """Run a command and return its exit code; print why it does nothing, in JSON with the keys in `given.nothing`.

    The result of a call that is wrong by itself is `failed`.
    """
    try:
        code: int = given.run(given)
    except (Refusal, Rejected) as error:
        result = error.result if isinstance(error, Refusal) else "refused"
        as_json = getattr(given, "json", False) or getattr(given, "format", "") == "json"
        if as_json:
            answer(command, result, [problem.as_json() for problem in error.problems], getattr(given, "nothing", {}))
        for problem in () if as_json else error.problems:
            if isinstance(problem, Located):
                tell_located(problem)
            else:
                tell(f"gpupools {command}: {problem}" if result == "failed" else problem, error=True)
        return 2 if result == "failed" else 1
    return code


def filter_problem(cloud: str | None, gpu: str | None) -> Problem | None:
    """Return the problem of `--cloud` or `--gpu`; None if both are valid."""
    from gpupools.catalog.gpus import match_gpu_model, nearest_gpu_model
    from gpupools.plan.cloud import nearest_cloud
    from gpupools.providers import clouds

    if cloud is not None and cloud not in clouds():
        return Problem(("--cloud",), f"unknown cloud {cloud!r}", nearest_cloud(cloud, clouds()))
    if gpu is not None and not match_gpu_model(gpu):
        return Problem(("--gpu",), f"{gpu!r} is not an NVIDIA GPU model", nearest_gpu_model(gpu))
    return None
