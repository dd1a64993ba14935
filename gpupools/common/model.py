"""Base classes of the models of stack files.

Commands have to start fast: models are built at first use, and default values that are models use `model_construct()`,
because validation would build the model at import.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import CoreSchema, core_schema

from gpupools.common.errors import Path

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue


class StrictModel(BaseModel):
    """An immutable model that rejects unknown keys and converts no types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, defer_build=True)


class BuiltOnUse:
    """Marks a field whose model is built only when a file sets the field, as most files do not."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        """Validate with the model; pydantic puts the path of the field before those of its errors."""
        return core_schema.no_info_plain_validator_function(self.model.model_validate)

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: "GetJsonSchemaHandler") -> "JsonSchemaValue":
        """Describe the field by the model."""
        self.model.model_rebuild()
        return handler(self.model.__pydantic_core_schema__)


class ConflictingKeysError(ValueError):
    """Keys of a map conflict."""

    def __init__(self, found: Iterable[tuple[Path, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(text for _, text in self.found))


class ConsistentModel(StrictModel):
    """A model with conditions on several keys, whose violations are reported together."""

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Yield the path of each conflict relative to the model, with `what; fix`."""
        yield from ()

    @model_validator(mode="after")
    def _keys_do_not_conflict(self) -> Self:
        found = tuple(self.conflicting_keys())
        if found:
            raise ConflictingKeysError(found)
        return self
