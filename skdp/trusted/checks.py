"""Checks of parameters with their errors, and parts that come from outside this package.

An error states the name, the rule, the public value and the remedy. Messages show public values
only: parameters, bounds, levels, shapes. Never pass a value that was read from the data.

A part is a loss, a law, a ball, a mechanism or a privacy loss. The contract for a part from
outside this package: it never changes, its ``==`` and ``hash`` compare all that decides its
results, and its members do what their protocol says. `skdp.testing` checks it once, when it is
first used. Guarantees name its class among their assumptions.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property, lru_cache, wraps
from importlib import import_module
from numbers import Number, Real
from pathlib import PurePath
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

# Entries of a list that somebody writes by hand, and an error shows.
_MOST = 20
# Characters of a value that an error shows.
_LONGEST = 1000
# Greatest count that a float holds exactly with all smaller ones, and of workers of joblib.
_EXACT, _WORKERS = 2**53, 4096


def fail(name: str, rule: str, value: object = None, remedy: str = "") -> ValueError:
    """Return the error ``<name> must <rule>, got <value>. <remedy>``; the caller raises it.

    Only what is written by hand is shown: numbers, texts, and a few of these in a list, tuple, set
    or dict. Of anything else the class is shown, because it may be a private column.
    """
    got = "" if value is None else f", got {_shown(value)}"
    error = ValueError(f"{name} must {rule}{got}.{' ' + remedy if remedy else ''}")
    error.shows_no_cell = True  # type: ignore[attr-defined]
    return error


def converted(call: Callable[[], T], name: str, rule: str, remedy: str = "") -> T:
    """Return ``call()``; where it fails raise an error that does not quote a cell.

    The call runs code from outside this package. Its error may quote cells, so it is neither shown
    nor the context of the error that is raised. Errors that `fail` made are kept.
    """
    try:
        return call()
    except Exception as error:
        if hasattr(error, "shows_no_cell"):
            raise
    raise fail(name, rule, remedy=remedy)


def check_positive(name: str, value: object, remedy: str = "") -> float:
    """Return ``value`` as a float in (0, inf)."""
    number = _as_float(value)
    # ``not >`` also catches NaN.
    if not 0 < number < math.inf:
        raise fail(name, "be a finite number > 0", value, remedy)
    return number


def check_epsilon(value: object, remedy: str = "") -> float:
    """Return an epsilon as a float; calibrations are accurate from 1e-12 to 1e12."""
    epsilon = check_positive("epsilon", value, remedy)
    if not 1e-12 <= epsilon <= 1e12:
        raise fail("epsilon", "be between 1e-12 and 1e12", epsilon, remedy)
    return epsilon


def check_interval(
    name: str, value: object, lower: float, upper: float, closed: str = "both", remedy: str = ""
) -> float:
    """Return ``value`` as a float between ``lower`` and ``upper``.

    ``closed`` names the ends that are allowed: "both", "left", "right" or "neither".
    """
    left, right = closed in ("both", "left"), closed in ("both", "right")
    number = _as_float(value)
    above = lower <= number if left else lower < number
    if not (above and (number <= upper if right else number < upper)):
        span = f"{'[' if left else '('}{lower:g}, {upper:g}{']' if right else ')'}"
        raise fail(name, f"be a number in {span}", value, remedy)
    return number


def check_choice(name: str, value: object, choices: Collection[str], remedy: str = "") -> str:
    """Return ``value`` if it is one of the strings in ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise fail(name, f"be one of {sorted(choices)}", value, remedy)
    return value


def check_count(name: str, value: Any, least: int = 1, remedy: str = "", most: int = _EXACT) -> int:
    """Return ``value`` as an int in [``least``, ``most``]; a bool is not a count."""
    number = _as_float(value)
    if not math.isnan(number) and most < value != math.inf:
        raise fail(name, f"be an integer <= {most}", value, remedy)
    if not (number >= least and number % 1 == 0):
        raise fail(name, f"be an integer >= {least}", value, remedy)
    return int(value)


def check_flag(name: str, value: object) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise fail(name, "be True or False", value)
    return bool(value)


def check_jobs(value: object) -> None:
    """Raise unless ``value`` is a number of workers, as of joblib."""
    size = abs(_as_float(value))
    if value is not None and not (0 < size <= _WORKERS and size % 1 == 0):
        raise fail("n_jobs", f"be None, or an integer from 1 to {_WORKERS} or < 0", value)


def check_entries(name: str, value: Any) -> tuple[Any, ...]:
    """Return the entries of a sequence."""
    try:
        return tuple(value)
    except TypeError:
        raise fail(name, "be a sequence", value) from None


def check_positives(name: str, value: object) -> tuple[float, ...]:
    """Return the entries of a sequence as floats in (0, inf)."""
    return tuple(check_positive(name, entry) for entry in check_entries(name, value))


def check_numbers(name: str, value: object) -> NDArray[np.float64]:
    """Return a copy of numbers as an array of floats, which nobody can change."""
    try:
        numbers = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, ArithmeticError):
        raise fail(name, "be a number or an array of numbers", value) from None
    numbers.setflags(write=False)
    return numbers


def optional_module(name: str, use: str, extra: str) -> Any:
    """Return a module of an optional dependency; the error names the extra that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        package, remedy = name.split(".")[0], f"Install it with: pip install 'skdp[{extra}]'"
        raise ImportError(str(fail(package, f"be installed {use}", None, remedy))) from error


def _shown(value: object) -> str:
    if issubclass(type(value), np.generic):
        value = cast("np.generic", value).item()  # 1.0 in the place of np.float64(1.0)
    try:
        text = repr(value) if _is_by_hand(value) else str(type(value))
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    except ValueError:  # of an int with too many digits
        return f"{type(value)} with more than {sys.get_int_max_str_digits()} digits"


def _is_by_hand(value: object) -> bool:
    """Return whether a value is one that is written by hand, or is of this package."""
    kind = type(value)
    if kind is dict:
        return _is_by_hand([*cast("dict[object, object]", value).items()])
    if kind in (tuple, list, set, frozenset):
        entries = [*cast("Iterable[object]", value)]
        return len(entries) <= _MOST and all(map(_is_by_hand, entries))
    own = kind.__module__.startswith("skdp.") or value is None
    return own or issubclass(kind, Number | str | bytes | range | PurePath | type | FunctionType)


def _as_float(value: object) -> float:
    """Return a number as a float, and NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, (value > 0) - 0.5)  # type: ignore[operator]


F = TypeVar("F", bound=Callable[..., object])

_OURS = __name__.partition(".")[0]
# A member that only a part has.
_MARKS = (
    *("logsf", "gauge", "curvature_bound", "calibrate", "log_delta", "guarantee", "spent"),
    *("radius_in", "length_in", "row_square"),
)
# Types of values that hold no parts.
_PLAIN = {bool, int, float, str, bytes, type(None), np.ndarray, np.float64, np.int64}


def remembered(maxsize: int) -> Callable[[F], F]:
    """Return functools.lru_cache, without a cache for arguments that have no hash."""

    def decorated(function: F) -> F:
        kept = lru_cache(maxsize)(function)

        @wraps(function)
        def asked(*arguments: object, **named: object) -> object:
            try:
                hash((arguments, *named.values()))
            except TypeError:
                return function(*arguments, **named)
            return kept(*arguments, **named)

        asked.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        return cast("F", asked)

    return decorated


def is_ours(part: object) -> bool:
    """Return whether a part's own class is of this package, so that its closed forms hold."""
    return is_our_class(type(part))


def is_our_class(kind: type) -> bool:
    """Return whether a class is of this package."""
    return kind.__module__.partition(".")[0] == _OURS


def others_in(part: Any) -> Iterator[Any]:
    """Yield the parts of other packages that a part is or holds."""
    if type(part) in (tuple, list) or (isinstance(part, tuple) and is_ours(part)):
        for item in part:
            if type(item) not in _PLAIN:
                yield from others_in(item)
    elif not is_ours(part):
        if not isinstance(part, type) and any(hasattr(part, mark) for mark in _MARKS):
            yield part
    else:
        for name in getattr(part, "__dataclass_fields__", ()):
            own = getattr(part, name, None)
            if type(own) not in _PLAIN:
                yield from others_in(own)


def relied_on(*parts: Any) -> tuple[str, ...]:
    """Return the assumptions of a guarantee that depends on parts of other packages."""
    kinds = dict.fromkeys(type(part) for part in others_in(parts))
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]
    return tuple(f"It relies on {name}, which is not part of skdp." for name in names)


def require_comparable(part: Any, name: str) -> None:
    """Raise ValueError if the ``==`` of a part of another package does not see all that it holds.

    A plain subclass of a dataclass inherits such an ``==``: what is cached for one instance would
    be taken for another one. So may a part inside the part.
    """
    if isinstance(part, tuple):
        # Of numbers there may be many.
        for own in part if part and not isinstance(part[0], float | int) else ():
            require_comparable(own, name)
    if isinstance(part, type) or not is_dataclass(part):
        return
    kind, names = type(part), [field.name for field in fields(part)]
    for own in names:
        require_comparable(getattr(part, own), name)
    by_hand = "__eq__" in vars(kind) and "__dataclass_params__" not in vars(kind)
    if is_ours(part) or by_hand:
        return
    compared = {field.name for field in fields(part) if field.compare}
    cached = {own for own in vars(part) if isinstance(getattr(kind, own, None), cached_property)}
    if further := sorted(vars(part).keys() - compared - cached):
        remedy = "Make its class a frozen dataclass whose fields are all that it holds."
        raise fail(name, "compare all its attributes by ==", further, remedy)
