"""Measure the CPU time of the tests as `make test` runs them: of both workers and of every program that they start.

    python benchmarks/suite_cost.py [PYTEST_ARGUMENT...]

Compiled code is kept, so the first run after a change of dependencies compiles and takes more.
"""

import sys

from command_cost import HERE, cpu_seconds


def main() -> int:
    """Run the tests and print what they took; fails where a test fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *sys.argv[1:]]
    print(f"{cpu_seconds(command, HERE):.0f} CPU seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
