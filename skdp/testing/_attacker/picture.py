"""The content of an object as nested tuples that can be compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np


def public_picture(model: Any, released: Collection[str]) -> dict[str, Any]:
    """Return the content of the public fitted attributes of a model, without the released ones."""
    names = [k for k in vars(model) if k.endswith("_") and not k.startswith("_")]
    return {name: picture(getattr(model, name)) for name in sorted(names) if name not in released}


def picture(value: Any) -> Any:
    """Return the content of an object: arrays with shape and type, objects with their fields."""
    if isinstance(value, np.ndarray):
        return ("array", value.shape, str(value.dtype), value.tolist())
    if isinstance(value, dict):
        return tuple((repr(k), picture(value[k])) for k in sorted(value, key=repr))
    if isinstance(value, list | tuple):
        return tuple(picture(item) for item in value)
    parameters = getattr(value, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and not isinstance(value, type):
        # Only fields: all else are caches, which may be filled or empty. An estimator is not
        # frozen, and holds what it was fitted to.
        inside = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return (type(value).__name__, picture(inside))
    if callable(value) or not hasattr(value, "__dict__"):
        return value if _compares(value) else repr(value)
    return (type(value).__name__, picture(vars(value)))


def _compares(value: Any) -> bool:
    try:
        return bool(value == value)
    except Exception:
        return False
