"""The base of everything a reader may write.

A command has to start fast: models are built at their first use, and a default that is a model is written as
`model_construct()`, because making an instance the ordinary way would build the model at import.
"""

from collections.abc import Iterable, Iterator
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from gpupools.common.errors import Path


class StrictModel(BaseModel):
    """A model that takes the keys it names, of the types it names, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, defer_build=True)


class ConflictingKeysError(ValueError):
    """Keys of one map that do not go together."""

    def __init__(self, found: Iterable[tuple[Path, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(text for _, text in self.found))


class ConsistentModel(StrictModel):
    """A model whose keys have to go together; what does not is told all at once."""

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Yield where keys stand against each other, below the model, with what and cure as `what; cure`."""
        yield from ()

    @model_validator(mode="after")
    def _keys_go_together(self) -> Self:
        found = tuple(self.conflicting_keys())
        if found:
            raise ConflictingKeysError(found)
        return self
