"""Every example is accepted, and the page of examples says what each is and for which clouds."""

import re
from pathlib import Path

import pytest

from gpupools.policies.classify import classify
from gpupools.preview.program_run import preview_program
from gpupools.providers import clouds
from gpupools.stackfile.check import CheckedFile, check_stack_file
from gpupools.stackfile.reader import NAMESPACE

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


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_policies_understand_all_that_an_example_declares(file: Path) -> None:
    checked = check_stack_file(file, clouds())
    config = {f"{NAMESPACE}:{key}": value for key, value in checked.file.config.items()}
    preview = preview_program(EXAMPLES.parent / "stacks" / "__main__.py", "x", NAMESPACE, config)

    assert preview.problems == []
    found = [classify(each.type, each.inputs, component=not each.custom) for each in preview.resources]
    assert [each for each in found if each is not None] == []
