"""Serves the components without dropping what a program in another language wrote and no component has."""

from typing import Any

from pulumi.provider.experimental.component import ComponentProvider

from gpupools.base.errors import Problem, Rejected, nearest
from gpupools.components.arguments import input_error


class NothingDropped(ComponentProvider):
    """The SDK's own, which takes from the inputs what the schema has and forgets the rest (seen with 3.272)."""

    def map_input_properties(
        self, inputs: Any, properties: Any, mapping: Any, component_name: str, property_path: str
    ) -> Any:
        """Refuse inputs, on every level, that the schema does not have.

        Raises:
            pulumi.InputPropertiesError: There are some.
        """
        given = inputs if isinstance(inputs, dict) else {}
        path = tuple(property_path.split(".")) if property_path else ()
        unknown = [key for key in given if key not in properties]
        if unknown:
            raise input_error(
                Rejected(Problem((*path, key), "unknown argument", nearest(key, properties)) for key in unknown)
            )
        return super().map_input_properties(inputs, properties, mapping, component_name, property_path)
