"""Assertions of the checks: errors give a name, a rule and what was found."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp.trusted.checks import fail
from skdp.trusted.statement import Statement


def require(holds: Any, what: str, rule: str, found: object = None, remedy: str = "") -> None:
    """Raise AssertionError ``<what> must <rule>, got <found>. <remedy>`` unless all hold."""
    if not np.all(holds):
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
    """Require a part to have members by these names."""
    lacking = [name for name in names if not hasattr(part, name)]
    kind = type(part).__name__
    require(not lacking, kind, f"have the members {list(names)}", f"none of {lacking}")


def pickled(part: Any, name: str, rule: str = "be picklable") -> Any:
    """Return a copy from a pickle; require that there is one."""
    try:
        return pickle.loads(pickle.dumps(part))
    except Exception as error:
        raise AssertionError(str(fail(name, rule, repr(error)))) from error


def check_claim(name: str, claim: Any, epsilon: float, delta: float, neighbors: str) -> None:
    """Require a guarantee that holds, with what was asked for."""
    require(isinstance(claim, Statement), name, "be a Guarantee or a Statement", type(claim))
    rule = f"claim epsilon <= {epsilon:g}, the epsilon asked for"
    require(claim.epsilon <= epsilon * (1 + 1e-9), name, rule, claim.epsilon)
    rule = f"claim delta <= {delta:g}, the delta asked for"
    require(claim.delta <= delta, name, rule, claim.delta)
    require(
        claim.neighbors == neighbors, name, f"be under neighbors={neighbors!r}", claim.neighbors
    )
    require(claim.holds, name, "hold without a seed", claim.void_because)
