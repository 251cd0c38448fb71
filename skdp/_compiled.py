"""Compiled functions, an optional dependency (``pip install 'skdp[fast]'``).

They save time for large data only, because importing numba takes as long as a medium fit.
"""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType

# Entries of a table from which compiled functions save time.
MANY = 2**21
# Up to so many columns, products of columns by compiled functions are faster than those by BLAS.
NARROW = 32

_KERNELS: list[ModuleType | None] = []


def kernels() -> ModuleType | None:
    """Return the module of compiled functions; None if they were not loaded."""
    return _KERNELS[0] if _KERNELS else None


def load_kernels(entries: float) -> ModuleType | None:
    """Return the module of compiled functions; None without numba, or for few entries."""
    if entries <= MANY:
        return None
    if not _KERNELS:
        found: ModuleType | None = None
        # An installation of numba that does not work may raise any error, as may its stored code.
        with suppress(Exception):
            from skdp import _kernels

            _kernels.try_out()
            found = _kernels
        # It is stored after the import: another thread waits for the same import until then.
        _KERNELS[:] = [found]
    return _KERNELS[0]
