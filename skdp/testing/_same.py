"""The comparison of two objects, bit for bit, with the place of each difference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from skdp.trusted.publish import Recorder

_PLAIN = (str, bytes, bool, int, float, complex, type(None), np.generic, type, CodeType)
# What a replay itself gives to an estimator.
_GIVEN = ("random_state", "ledger")


def differences(place: str, first: Any, second: Any) -> Iterator[str]:
    """Yield the places, such as ``model.coef_``, where two objects are not the same.

    Arrays have the same bits, type and layout. Parts of an object are its attributes, also private
    ones, but for ``random_state`` and ``ledger``.
    """
    yield from _differ(place, first, second, set())


def _differ(place: str, a: Any, b: Any, seen: set[tuple[int, int]]) -> Iterator[str]:
    if a is b or (id(a), id(b)) in seen or (isinstance(a, Recorder) and isinstance(b, Recorder)):
        return
    seen.add((id(a), id(b)))
    mine, others = _inside(a), _inside(b)
    if type(a) is not type(b) or mine is None or others is None:
        # The repr shows NaN and -0.0, too.
        if type(a) is not type(b) or _bits(a) != _bits(b):
            yield place
        return
    for name in dict.fromkeys([*mine, *others]):
        if name in mine and name in others:
            yield from _differ(f"{place}{name}", mine[name], others[name], seen)
        elif not isinstance(getattr(type(a), name[1:], None), cached_property):
            yield f"{place}{name}"
    if [*mine] != [*others] and sorted(mine) == sorted(others):
        yield f"the order in {place}"


def _bits(value: Any) -> tuple[Any, ...]:
    """Return what tells a value without parts from others."""
    if not isinstance(value, np.ndarray):
        return (text_of(value),)
    flags = value.flags
    layout = value.dtype, value.shape, value.strides, flags.writeable, flags.owndata
    return value.tobytes(), *layout


def text_of(value: Any) -> str:
    """Return the repr of an object, without an address."""
    own: Any = type(value).__repr__
    return "" if own is object.__repr__ else repr(value)


def _inside(value: Any) -> dict[str, Any] | None:
    """Return the parts of an object by their names, in their order; None if it has none."""
    match value:
        case np.ndarray():
            return None if value.dtype.kind != "O" else {".list": value.tolist()}
        case dict():
            return {f"[{key!r}]": own for key, own in value.items()}
        case list() | tuple():
            return {f"[{k}]": own for k, own in enumerate(value)}
        case set() | frozenset():
            return dict.fromkeys(sorted(map(repr, value)))
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return {".code": value.__code__, ".closure": cells, ".defaults": value.__defaults__}
        case MethodType():
            return {".self": value.__self__, ".function": value.__func__}
        case partial():
            return {".function": value.func, ".given": (value.args, value.keywords)}
        case _ if isinstance(value, _PLAIN):
            return None
    return _attributes(value)


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object, also those in slots; None if it has none."""
    found = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        found |= {name: getattr(value, name) for name in names if hasattr(value, name)}
    # When a property is cached depends on earlier computations, and not on the data.
    kinds = {name: isinstance(getattr(type(value), name, None), cached_property) for name in found}
    names = sorted(found, key=lambda name: name * kinds[name])
    return {f".{name}": found[name] for name in names if name not in _GIVEN} or None
