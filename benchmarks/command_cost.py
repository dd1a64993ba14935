"""Measure the CPU time of `gpupools` commands, compared with an empty interpreter and with importing pydantic.

Prints the median CPU seconds of each command and its ratio to the empty interpreter. Commands take turns in one run, so
that a slow or busy machine affects all figures alike.

    python benchmarks/command_cost.py [RUNS]

With a second checkout that has its own `.venv`, compares both instead: `check` of 3 and of 1,000 pools and `preview` of
3 pools, in turn, as the median of the ratios of this checkout to the other.

    python benchmarks/command_cost.py [RUNS] --against CHECKOUT
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests import one_pool

HERE = Path(__file__).resolve().parents[1]
ONE_POOL = {"EKS": one_pool.EKS, "AKS": one_pool.AKS, "GKE": one_pool.GKE}


def cpu_seconds(command: list[str], folder: Path | None = None) -> float:
    """Run a command to its end and return the CPU time the operating system charged it with.

    Compiled code is kept, as it is for most users, so that only the first run compiles.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stack_file(pools: int) -> str:
    """Return a stack file with one cluster on each service and this many pools spread over them."""
    clusters, kinds = {}, []
    for text in ONE_POOL.values():
        config = yaml.safe_load(text)["config"]
        clusters |= config["gpupools:clusters"]
        kinds += config["gpupools:pools"].values()
    named = {f"p{number}": kinds[number % len(kinds)] for number in range(pools)}
    return yaml.dump({"config": {"gpupools:clusters": clusters, "gpupools:pools": named}}, Dumper=WithoutAliases)


class WithoutAliases(yaml.SafeDumper):
    """Writes each pool in full: stack files take no aliases."""

    def ignore_aliases(self, data: object) -> bool:
        """Write every value in full."""
        return True


def gpupools_of(checkout: Path) -> list[str]:
    """Return the command that runs a checkout's own gpupools; the working directory has to be the checkout."""
    module = "gpupools.cli" if (checkout / "gpupools/cli.py").exists() else "gpupools.cli.main"
    python = sys.executable if checkout == HERE else str(checkout / ".venv/bin/python")
    return [python, "-c", f"from {module} import program; program()"]


def against(other: Path, runs: int) -> None:
    """Measure this checkout and another in turn, and print the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = Path(folder) / "Pulumi.few.yaml", Path(folder) / "Pulumi.many.yaml"
        few.write_text(stack_file(3), encoding="utf-8")
        many.write_text(stack_file(1000), encoding="utf-8")
        for name, arguments in {
            "check of 3 pools": ["check", str(few)],
            "check of 1,000 pools": ["check", str(many)],
            "preview of 3 pools": ["preview", str(few)],
        }.items():
            figures: dict[Path, list[float]] = {HERE: [], other: []}
            for run in range(runs + 1):
                for checkout, seconds in figures.items():
                    spent = cpu_seconds([*gpupools_of(checkout), *arguments], checkout)
                    if run:  # The first run compiles.
                        seconds.append(spent)
            ratios = [mine / its for mine, its in zip(figures[HERE], figures[other], strict=True)]
            mine, its = (statistics.median(seconds) for seconds in figures.values())
            print(f"{name:22} {mine:6.3f} s CPU, other {its:6.3f} s; ratio of pairs {statistics.median(ratios):.2f}")


def alone(runs: int) -> None:
    """Measure this checkout's commands and an empty interpreter in turn, and print both."""
    python = [sys.executable]
    gpupools = [str(Path(sys.executable).with_name("gpupools"))]
    with tempfile.TemporaryDirectory() as folder:
        files = {service: Path(folder) / f"Pulumi.{service.lower()}.yaml" for service in ONE_POOL}
        for service, file in files.items():
            file.write_text(ONE_POOL[service], encoding="utf-8")
        commands = {
            "an empty interpreter": [*python, "-c", "pass"],
            "import pydantic.main": [*python, "-c", "import pydantic.main"],
            **{f"gpupools check ({service})": [*gpupools, "check", str(file)] for service, file in files.items()},
            "gpupools catalog --json": [*gpupools, "catalog", "--json"],
            "gpupools mig fit": [*gpupools, "mig", "fit", "--gpu", "A100-40GB", "3g.20gb", "2g.10gb", "1g.5gb"],
            "gpupools mig pack": [
                *gpupools,
                "mig",
                "pack",
                "--gpu",
                "A100-40GB",
                "1g.5gb=31",
                "2g.10gb=17",
                "3g.20gb=9",
            ],
        }
        for command in commands.values():
            cpu_seconds(command)
        figures: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                figures[name].append(cpu_seconds(command))
    floor = statistics.median(figures["an empty interpreter"])
    for name, seconds in figures.items():
        median = statistics.median(seconds)
        print(
            f"{name:28} {median:6.3f} s CPU (lowest {min(seconds):.3f})  {median / floor:5.1f} × an empty interpreter"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", nargs="?", type=int, default=9)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT")
    given = parser.parse_args()
    if given.against:
        against(given.against.resolve(), given.runs)
    else:
        alone(given.runs)


if __name__ == "__main__":
    main()
