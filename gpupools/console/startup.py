"""What a command is spared before its first line and after its last; `benchmarks/command_cost.py` has the figures."""

import gc
import importlib
import os
import sys
from types import ModuleType
from typing import Any

MANY = 400_000
"""More objects than a command that checks one file makes, most of them while it imports."""


def start_lightly() -> None:
    """Spare the process what no command needs; call it before anything imports pydantic."""
    # What an import makes stays, so collecting garbage between imports finds none.
    gc.set_threshold(MANY)
    # pydantic would look through the metadata of every installed package for plugins, and nothing here wants one.
    # https://docs.pydantic.dev/latest/concepts/plugins/#disabling-plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # It imports the way to look through them all the same, and with it the mail parser of the standard library.
    if "importlib.metadata" not in sys.modules:
        importlib.metadata = sys.modules["importlib.metadata"] = _Later("importlib.metadata", "entry_points")
    # pydantic compares secrets of a type that nothing here has, and imports OpenSSL for it.
    sys.modules.setdefault("secrets", _Later("secrets"))


def end_lightly() -> None:
    """Spare the process a last search for garbage in all it has imported; call it when nothing is left to do."""
    gc.freeze()


class _Later(ModuleType):
    """Stands in `sys.modules` for a module until somebody calls one of its functions or looks for anything else.

    `importlib.util.LazyLoader` would import it as soon as a `from … import …` names one of them.
    """

    def __init__(self, name: str, *functions: str) -> None:
        super().__init__(name)
        for each in functions:
            setattr(self, each, lambda *args, each=each, **named: getattr(self._module(), each)(*args, **named))

    def _module(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for them before it asks for what it wants
            raise AttributeError(name)
        return getattr(self._module(), name)
