"""The README says which versions of Python are tested, and these are they."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SAID = r"Python (3\.\d+) is fully\s+tested; .* also tested on (3\.\d+) and (3\.\d+)\."


def test_the_readme_names_the_oldest_python_and_the_newest_ones_that_the_proof_looks_for() -> None:
    said = re.search(SAID, (ROOT / "README.md").read_text(encoding="utf-8"))
    proof = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert said is not None
    assert said[1] == PROJECT["project"]["requires-python"].removeprefix(">=")
    assert said[1] == PROJECT["tool"]["mypy"]["python_version"]
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{said[1].replace('.', '')}"
    assert set(re.findall(r"3\.\d+", proof)) == {said[2], said[3]}
