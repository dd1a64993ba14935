"""What Pulumi's CLI made of YAML: `cli_readings.json`, which the engine tier holds to the CLI that is on PATH."""

import json
from pathlib import Path
from typing import Any, NamedTuple

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


class Reading(NamedTuple):
    """One way to write a value."""

    at: str
    """`values of a key` or `values in a map`."""
    text: str
    """As it stands in the file."""
    handed_on: str | None
    """The text a program receives for the key; None where the CLI refuses the file."""
    ours: str
    """`same` where our reader comes to the same value, `refused` where it says what to write instead."""

    def below(self, key: str) -> str:
        """Return the lines of a stack file that give a key this value."""
        return f"  {key}: {self.text}\n" if self.at == "values of a key" else f"  {key}:\n    a: {self.text}\n"

    @property
    def file(self) -> str:
        """A stack file with this value."""
        return f"config:\n{self.below('gpupools:pools')}"


READINGS = [Reading(at, *row) for at in ("values of a key", "values in a map") for row in RECORDED[at]]
"""Every way, of scalars, maps, lists and JSON text."""
