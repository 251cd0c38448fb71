"""Identity of parts: own claims, equality, and caches of results.

A part is a loss, a law, a ball or a privacy loss, and may come from outside this package. Its
``==`` and ``hash`` are not used: a subclass inherits them without its own attributes, they may
omit a field, and an object that changes keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import cached_property, lru_cache, wraps
from types import FunctionType, MethodType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

import numpy as np

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
T = TypeVar("T")


class Remembered(Protocol[P, R]):
    """A function with a cache, and the two members of functools.lru_cache."""

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R: ...
    def cache_clear(self) -> None: ...
    def cache_info(self) -> Any: ...


# A mark of the present call, None outside of all calls.
_CALL: ContextVar[object] = ContextVar("skdp_call", default=None)
_LASTING = {__name__.partition(".")[0], "builtins", "numpy"}
_PLAIN = (bool, int, str, bytes, type(None))
_CODE = (type, FunctionType)
_NUMPY = (np.number, np.bool_)


def fingerprint(part: object) -> Hashable | None:
    """Return a value that two parts share if and only if they are equal now, or None.

    It exists for numbers, strings, tuples, functions without a closure, and instances of a class
    that is itself a frozen dataclass with such fields and no further attributes. A subclass that
    is no dataclass itself has none, since it may hold and do anything.
    """
    kind = type(part)
    if kind in _PLAIN:
        return kind, part
    if kind is float:
        return kind, part.hex()  # type: ignore[attr-defined]  # 0.0 == -0.0
    if kind is tuple:
        return _all(kind, part)  # type: ignore[arg-type]
    if isinstance(part, _NUMPY):
        return kind, part.tobytes()
    if isinstance(part, FunctionType):
        return part if part.__closure__ is None else None
    if isinstance(part, MethodType):
        owner = fingerprint(part.__self__)
        return None if owner is None else (part.__func__, owner)
    names = _fields(part)
    return None if names is None else _all(kind, [getattr(part, name) for name in names])


def is_ours(part: object) -> bool:
    """Return whether a part's own class is of this package, so that its closed forms hold.

    A subclass that is defined elsewhere may have changed their assumptions.
    """
    return type(part).__module__.partition(".")[0] == __name__.partition(".")[0]


def claims(part: object, claim: str, about: tuple[str, ...]) -> bool:
    """Return whether a part claims a property of its present methods.

    The attribute ``claim`` must be true, and set in the class that defines the methods or below
    it. A claim is not inherited by a class with other methods.
    """
    line = type(part).__mro__

    def place(name: str) -> int:
        return next((k for k, kind in enumerate(line) if name in vars(kind)), len(line))

    said = min(place(claim), place("__init__") if claim in getattr(part, "__dict__", ()) else 99)
    return bool(getattr(part, claim, False)) and said <= min(map(place, about))


def same(one: object, other: object) -> bool:
    """Return whether two parts are one object, or have the same fingerprint."""
    if one is other:
        return True
    mark = fingerprint(one)
    return mark is not None and mark == fingerprint(other)


def counted(parts: Iterable[tuple[T, int]]) -> tuple[tuple[T, int], ...]:
    """Return the parts in their order, equal ones counted together."""
    return Counts[T]().plus(parts).parts


class Counts(Generic[T]):
    """Parts with counts, equal ones counted together. An instance does not change."""

    def __init__(self, kept: dict[Hashable, tuple[T, int]] | None = None) -> None:
        self._kept = kept or {}

    @property
    def parts(self) -> tuple[tuple[T, int], ...]:
        """The parts in their order, with counts."""
        return tuple(self._kept.values())

    def plus(self, parts: Iterable[tuple[T, int]]) -> Counts[T]:
        """Return the counts with further parts; only these are compared with all others."""
        kept = dict(self._kept)
        for part, count in parts:
            mark = fingerprint(part)
            mark = ("one object", id(part)) if mark is None else mark
            first, known = kept.get(mark, (part, 0))
            kept[mark] = first, known + count
        return Counts(kept)


def remembered(maxsize: int) -> Callable[[Callable[P, R]], Remembered[P, R]]:
    """Return a decorator that caches results for arguments with a fingerprint.

    For other arguments, which may change, the function is called anew. Functions and classes from
    outside this package may depend on values that change later, such as a global of their module.
    For them results are cached within one call (`one_call`) only.
    """

    def decorated(function: Callable[P, R]) -> Remembered[P, R]:
        kept = lru_cache(maxsize)(lambda call: function(*call.arguments, **call.named))

        @wraps(function)
        def asked(*arguments: P.args, **named: P.kwargs) -> R:
            mark = _while_it_holds(fingerprint((arguments, tuple(sorted(named.items())))))
            if mark is None:
                return function(*arguments, **named)
            return kept(_Call(mark, arguments, named))

        asked.cache_clear = kept.cache_clear  # type: ignore[attr-defined]
        asked.cache_info = kept.cache_info  # type: ignore[attr-defined]
        return cast(Remembered[P, R], asked)

    return decorated


@contextmanager
def one_call() -> Iterator[None]:
    """Within this context, such as one fit, cache results of parts from outside this package."""
    token = _CALL.set(_CALL.get() or object())
    try:
        yield
    finally:
        _CALL.reset(token)


def _while_it_holds(mark: Hashable | None) -> Hashable | None:
    """Return a lasting mark as it is, else with the present call, or None outside of calls."""
    if mark is None or _known_to_last(mark):
        return mark
    call = _CALL.get()
    return None if call is None else (call, mark)


def _is_lasting(mark: Hashable) -> bool:
    if isinstance(mark, tuple):
        return all(map(_is_lasting, mark))
    if isinstance(mark, _CODE):
        return str(mark.__module__).partition(".")[0] in _LASTING
    return True


_known_to_last = lru_cache(maxsize=8192)(_is_lasting)


class _Call:
    """Arguments that compare by their fingerprint."""

    def __init__(self, mark: Hashable, arguments: Any, named: Any) -> None:
        self.mark, self.arguments, self.named = mark, arguments, named

    def __hash__(self) -> int:
        return hash(self.mark)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Call) and self.mark == other.mark


def _all(kind: type, parts: Iterable[object]) -> Hashable | None:
    marks = tuple(map(fingerprint, parts))
    return None if None in marks else (kind, marks)


def _fields(part: Any) -> list[str] | None:
    """Return the names of all fields of an instance, or None if it may hold more."""
    kind = type(part)
    parameters = vars(kind).get("__dataclass_params__")
    if parameters is None or not parameters.frozen:
        return None
    names = [field.name for field in fields(part)]
    slots = [slot for base in kind.__mro__ for slot in vars(base).get("__slots__", ())]
    further = {*vars(part), *slots}.difference(names) if hasattr(part, "__dict__") else {*slots}
    further -= {name for name in further if isinstance(getattr(kind, name, None), cached_property)}
    return None if further - {*names, "__dict__", "__weakref__"} else names
