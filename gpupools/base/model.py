"""The base of everything a reader may write.

A command has to start fast: models are built at their first use, and a default that is a model is written as
`model_construct()`, because making an instance the ordinary way would build the model at import.
"""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A model that takes the keys it names, of the types it names, and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=True, defer_build=True)
