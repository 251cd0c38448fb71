"""Packages that import their parts when a name is first used (PEP 562)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data


def lazily(
    package: str, submodules: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its names are those that the stub beside it, ``__init__.pyi``, imports for type checkers.

    Parameters
    ----------
    package : str
        ``__name__`` of the package.
    submodules : str, default=""
        Modules below the package that are names of it themselves, separated by spaces.
    """
    stub, modules = ast.parse(get_data(package, "__init__.pyi") or b""), submodules.split()
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> object:
        if name in modules or homes.get(name) == package:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # the next use finds it at once
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return get, listed, sorted(homes)
