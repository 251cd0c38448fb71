"""Packages that import their parts when a name is first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(
    package: str, places: Mapping[str, str], submodules: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    The package repeats the imports under ``if TYPE_CHECKING:``, for type checkers and readers.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    places : dict of str to str
        For each module, given by its path below the package, or by its whole path below skdp: the
        names that are taken from it, separated by spaces.
    submodules : str, default=""
        Modules below the package that are names of it themselves, separated by spaces.
    """
    homes = {name: place for place, names in places.items() for name in names.split()}
    modules = submodules.split()

    def get(name: str) -> object:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place = homes[name]
        module = place if place.startswith("skdp.") else f"{package}.{place}"
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)  # the next use finds it at once
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return get, listed
