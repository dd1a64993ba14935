"""The types of inputs that are here as data are those of the installed SDKs."""

from pathlib import Path

import pytest

from gpupools.preview.sdk_schema import _wire_name, schema
from tooling import sdk_types, write_inputs

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # classes of the SDKs' own


@pytest.mark.parametrize("file", write_inputs.FILES, ids=lambda file: file.parent.name)
def test_the_data_is_what_the_installed_sdks_declare(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == write_inputs.text(write_inputs.FILES[file]), (
        "run python -m tooling.write_inputs"
    )


@pytest.mark.parametrize("file", write_inputs.FILES, ids=lambda file: file.parent.name)
def test_a_python_name_is_known_by_the_name_on_the_wire(file: Path) -> None:
    """Those in snake case, which people write in `overrides` and property paths."""
    classes: dict[str, type] = {}

    def noted(kind: type) -> str:
        name = sdk_types.short_name(kind)
        classes[name] = kind
        return name

    shapes = schema(sdk_types.input_types(write_inputs.FILES[file], noted)).shapes
    wrong = {
        (name, python): wire
        for name, shape in shapes.items()
        for python, wire in sdk_types.wire_names(classes[name]).items()
        if python != wire and _wire_name(python, shape) != wire
    }

    assert len(shapes) > 10
    assert wrong == {}
