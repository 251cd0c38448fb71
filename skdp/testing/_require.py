"""Assertions of the checks: errors give a name, a rule and what was found."""

from __future__ import annotations

import pickle
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from skdp.trusted.checks import fail

T = TypeVar("T")


def require(holds: object, what: str, rule: str, found: object = None, remedy: str = "") -> None:
    """Raise AssertionError ``<what> must <rule>, got <found>. <remedy>`` unless all hold."""
    if not np.all(np.asarray(holds)):
        raise AssertionError(str(fail(what, rule, found, remedy)))


def agree(
    found: ArrayLike, expected: ArrayLike, rtol: float, what: str, rule: str, atol: float = 0.0
) -> None:
    """Require two arrays of one shape to agree to a relative and an absolute tolerance."""
    x, y = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    require(x.shape == y.shape, what, f"{rule}, in the shape {y.shape}", x.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        off = ~((np.abs(x - y) <= rtol * np.abs(y) + atol) | (x == y) | (np.isnan(x) & np.isnan(y)))
    if off.any():
        at = np.argmax(off)
        seen = f"{float(x.flat[at])!r} where {float(y.flat[at])!r} was expected"
        raise AssertionError(str(fail(what, rule, None, f"It gave {seen}.")))


def members_of(part: object, names: tuple[str, ...]) -> None:
    lacking = [name for name in names if not hasattr(part, name)]
    kind = type(part).__name__
    require(not lacking, kind, f"have the members {list(names)}", f"none of {lacking}")


def pickled(part: T, name: str, rule: str = "be picklable") -> T:
    try:
        copy: T = pickle.loads(pickle.dumps(part))
        return copy
    except Exception as error:
        raise AssertionError(str(fail(name, rule, repr(error)))) from error
