"""Options of the compiler."""

from __future__ import annotations

from typing import Any

from numba import config

if config.DISABLE_JIT:
    raise ImportError("numba does not compile in this process, and loops of Python are slow")

COMPILED: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
# For functions of sums of products, which may be added in another order.
ANY_ORDER: dict[str, Any] = {**COMPILED, "fastmath": {"reassoc", "contract"}}
