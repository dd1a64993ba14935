"""Reduces the start and exit time of commands; `benchmarks/command_cost.py` measures it."""

import gc
import importlib
import os
import sys
from types import ModuleType
from typing import Any

MANY = 400_000
"""More objects than `gpupools check` of one file creates, most of them during imports."""


def start_lightly() -> None:
    """Disable work that no command needs; call it before pydantic is imported."""
    # Imported objects are permanent, so garbage collection between imports is useless.
    gc.set_threshold(MANY)
    # pydantic would search the metadata of all installed packages for plugins, which are not used here.
    # https://docs.pydantic.dev/latest/concepts/plugins/#disabling-plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # It imports importlib.metadata anyway, and with it the email parser of the standard library.
    if "importlib.metadata" not in sys.modules:
        importlib.metadata = sys.modules["importlib.metadata"] = _Later("importlib.metadata", "entry_points")
    # pydantic imports `secrets`, and with it OpenSSL, for a type that is not used here.
    sys.modules.setdefault("secrets", _Later("secrets"))


def end_lightly() -> None:
    """Skip the final garbage collection; call it when the command is done."""
    gc.freeze()


class _Later(ModuleType):
    """Placeholder in `sys.modules` for a module that is imported when a function is called or an attribute is read.

    `importlib.util.LazyLoader` would already import it for `from … import …`.
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
        if name.startswith("__"):  # read by the import system
            raise AttributeError(name)
        return getattr(self._module(), name)
