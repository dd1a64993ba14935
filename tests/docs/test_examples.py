"""Every example is accepted, and the page of examples says what each is and for which clouds."""

import re
from pathlib import Path

import pytest

from gpupools.environment.check import CheckedFile, check_stack_file
from gpupools.providers import clouds

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted((EXAMPLES / "stacks").glob("*.yaml"))
ROWS = {
    file: named.split(", ")
    for file, named in re.findall(
        r"\]\(stacks/(Pulumi\.\w+\.yaml)\) \| ([\w, ]+) \|", (EXAMPLES / "README.md").read_text(encoding="utf-8")
    )
}
SERVICES = {"aws": "EKS", "azure": "AKS", "gcp": "GKE"}


def test_the_page_lists_every_file() -> None:
    assert sorted(ROWS) == [file.name for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_is_accepted_on_the_clouds_the_page_names(file: Path) -> None:
    checked = check_stack_file(file, clouds())

    assert isinstance(checked, CheckedFile), checked
    assert file.read_text(encoding="utf-8").startswith("# ")
    assert {SERVICES[pool.cloud] for pool in checked.plan.pools} == set(ROWS[file.name])
