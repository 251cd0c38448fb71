"""Parts of this package and of others: caches of results, checks at first use, and their names.

A part is a loss, a law, a ball, a mechanism or a privacy loss. The contract for a part from
outside this package: it never changes, its ``==`` and ``hash`` compare all that decides its
results, and its members do what their protocol says. `skdp.testing` checks it once, when it is
first used. Guarantees name its class among their assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property, lru_cache, wraps
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from skdp.trusted.checks import fail

P = ParamSpec("P")
R = TypeVar("R", covariant=True)

_OURS = __name__.partition(".")[0]
# A member that only a part has.
_MARKS = (
    *("logsf", "gauge", "curvature_bound", "calibrate", "log_delta", "guarantee", "spent"),
    *("radius_in", "length_in", "row_square"),
)
# Types of values that hold no parts.
_PLAIN = {bool, int, float, str, bytes, type(None), np.ndarray, np.float64, np.int64}


class Remembered(Protocol[P, R]):
    """A function with a cache, and the two members of functools.lru_cache."""

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Return the result of the function."""

    def cache_clear(self) -> None:
        """Forget all results."""

    def cache_info(self) -> Any:
        """Return how often a result was in the cache."""


def remembered(maxsize: int) -> Callable[[Callable[P, R]], Remembered[P, R]]:
    """Return functools.lru_cache, without a cache for arguments that have no hash."""

    def decorated(function: Callable[P, R]) -> Remembered[P, R]:
        kept = lru_cache(maxsize)(function)

        @wraps(function)
        def asked(*arguments: P.args, **named: P.kwargs) -> R:
            try:
                hash((arguments, *named.values()))
            except TypeError:
                return function(*arguments, **named)
            return kept(*arguments, **named)  # type: ignore[arg-type]

        asked.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        asked.cache_info = kept.cache_info  # type: ignore[attr-defined]
        return cast(Remembered[P, R], asked)

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
    elif is_dataclass(part):
        for field in fields(part):
            own = getattr(part, field.name)
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
