"""Trusted. Privacy loss and privacy profile of a one-dimensional law against the shifted law.

X has an even log-concave density f, and v > 0 is a shift. P is the law of X, Q is the law of
X - v, and the privacy loss l(x) = log f(x) - log f(x + v) grows with x. So the optimal test is a
threshold, and the least delta at epsilon is sf(c) - e^epsilon sf(c + v), c the greatest x with
l(x) <= epsilon (Vinterbo 2022, Lemma 1; our proof is in docs/proofs/one_release.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, roots_legendre

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_positive, fail, require_comparable
from skdp.trusted.losses import SymmetricLoss, Tails

_NODES, _LENGTHS = roots_legendre(8)
# If the difference of the tails, in logs and less epsilon, is below the first share of their size,
# it has lost three digits. If also the tails differ by less than the second share, the probability
# of the interval is integrated instead.
_NARROW, _CLOSE = 2e-3, 0.25
_MOST_PIECES = 32
# A law without ``log_ratio`` is not evaluated beyond this quantile: differences of its
# log-densities have lost too many digits there.
_LEAST_TAIL = 1e-300
_FAR = 1e150


class ShiftedLaw(Protocol):
    """An even law with a log-concave density.

    Optional members are ``log_ratio(x, shift)``, which is logpdf(x) - logpdf(x + shift) without
    cancellation, and ``crossing(shift, epsilon)``, the function of this name below.
    """

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the log of the density."""

    def logsf(self, x: ArrayLike) -> FloatArray:
        """Return the log of the probability above x."""

    def isf(self, q: ArrayLike) -> FloatArray:
        """Return the inverse of the probability above x."""


def require_log_concave(law: object, name: str = "law") -> None:
    """Raise ValueError for a law of this package whose density is not log-concave."""
    if not getattr(law, "log_concave", True):
        remedy = "Canonical noise and staircases have guarantees of their own, for one release."
        raise fail(name, "have a log-concave density", type(law), remedy)


def log_ratio(law: ShiftedLaw, x: ArrayLike, shift: float) -> FloatArray:
    """Return the privacy loss logpdf(x) - logpdf(x + shift), an array of the shape of x.

    If both densities are 0, it is inf on the right and -inf on the left.
    """
    x = np.asarray(x, dtype=float)
    with np.errstate(all="ignore"):
        if hasattr(law, "log_ratio"):
            loss = np.asarray(law.log_ratio(x, shift), dtype=float)
        else:
            loss = np.asarray(law.logpdf(x)) - np.asarray(law.logpdf(x + shift))
    return np.where(np.isnan(loss), np.copysign(np.inf, x + shift / 2), loss)


def crossing(law: ShiftedLaw, shift: float, epsilon: ArrayLike) -> FloatArray:
    """Return sup {x : loss at x <= epsilon}, by the law's own ``crossing`` if it has one.

    It is inf if the loss never exceeds epsilon, and -inf if it always does. For a law without
    ``log_ratio``, inf stands for any point beyond its quantile at 1e-300.

    Examples
    --------
    >>> from skdp.noise.laws import Laplace
    >>> crossing(Laplace(1.0), 1.0, [0.5, 1.0])
    array([-0.25,   inf])
    """
    epsilon = np.asarray(epsilon, dtype=float)
    if hasattr(law, "crossing"):
        return np.asarray(law.crossing(shift, epsilon), dtype=float)
    found = np.where(epsilon < 0, -np.inf, np.inf)

    # The loss is odd about -v/2: y is the distance from there.
    def excess(y: FloatArray, target: FloatArray) -> FloatArray:
        return log_ratio(law, y - shift / 2, shift) - target

    # Farther away the loss is not precise.
    farthest = math.inf if hasattr(law, "log_ratio") else abs(float(law.isf(_LEAST_TAIL)))
    farthest = farthest if math.isfinite(farthest) else _FAR
    crossed = excess(np.copysign(farthest, epsilon), epsilon)
    inside = np.isfinite(epsilon) & np.where(epsilon < 0, crossed <= 0, crossed > 0)
    found[np.isnan(epsilon)] = np.nan
    if not inside.any():
        return found
    # A bracket of the sign of the target.
    target = epsilon[inside]
    sign, outer = np.where(target < 0, -1.0, 1.0), np.full(target.shape, min(shift, farthest))
    inner = np.zeros(target.shape)
    while True:
        beyond = (excess(sign * outer, target) > 0) == (sign > 0)
        if (beyond | (outer >= farthest)).all():
            break
        inner = np.where(beyond, inner, outer)
        outer = np.where(beyond, outer, np.minimum(8 * outer, farthest))
    low, high = np.where(sign > 0, inner, -outer), np.where(sign > 0, outer, -inner)
    found[inside] = _first_above(excess, target, low, high) - shift / 2
    return found


def _first_above(
    excess: Callable[[FloatArray, FloatArray], FloatArray],
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Return the first point where the excess is > 0, in full precision, from above.

    Two steps of false position (the value of an end that stays twice is halved) alternate with
    one of bisection. Points keep a least distance from both ends, so that both close in. At the
    end of the support the loss jumps to inf: from below, e^epsilon would multiply a rounding
    error.
    """
    at_low, at_high = excess(low, target), excess(high, target)
    last, found, active = ~(at_low <= 0), high.copy(), np.arange(len(high))
    for step in range(400):
        least = 2.3e-16 * np.maximum(np.abs(low), np.abs(high))
        going = high - low > 2 * least
        found[active] = high
        if not going.any():
            break
        if not going.all():
            active, last = active[going], last[going]
            low, high, target, least = low[going], high[going], target[going], least[going]
            at_low, at_high = at_low[going], at_high[going]
        middle = low / 2 + high / 2
        if step % 3 != 2:
            with np.errstate(all="ignore"):
                line = low - at_low * ((high - low) / (at_high - at_low))
            line = np.clip(line, low + least, high - least)
            middle = np.where(np.isfinite(line), line, middle)
        value = excess(middle, target)
        below = value <= 0
        again = below == last
        at_high = np.where(below, np.where(again, at_high / 2, at_high), value)
        at_low = np.where(below, value, np.where(again, at_low / 2, at_low))
        low, high = np.where(below, middle, low), np.where(below, high, middle)
        last = below
    return found


def log_delta(law: ShiftedLaw, shift: float, epsilon: ArrayLike) -> FloatArray:
    """Return the log of the least delta at epsilon, in full precision.

    It is log(sf(c) - e^epsilon sf(c + shift)), c the crossing; -inf if the loss never exceeds
    epsilon. The profile of a pair is also defined for negative epsilons. The result is exact for a
    shift and an epsilon with rounding errors.

    Examples
    --------
    >>> from skdp.noise.laws import Laplace
    >>> log_delta(Laplace(1.0), 1.0, 0.5).round(12) == round(math.log(1 - math.exp(-0.25)), 12)
    np.True_
    """
    # At infinity the result is the mass where the other law has no density.
    epsilon = np.asarray(np.minimum(epsilon, 1e300), dtype=float)
    c = crossing(law, shift, epsilon)
    with np.errstate(all="ignore"):
        tail, next_tail = _tails(law, c, shift)
        gap = np.maximum(tail - next_tail - epsilon, 0.0)
        found = np.asarray(tail + np.log(-np.expm1(-gap)))
        if (tail > -math.log(2)).any():
            # A delta near 1 is computed from its distance to 1.
            spared = _log_spared(law, c, epsilon, next_tail)
            found = np.where(spared < -math.log(2), np.log1p(-np.exp(spared)), found)
        narrow = np.isfinite(c) & (tail - next_tail < _CLOSE * (1 - tail))
        narrow &= gap < _NARROW * (1 - tail)
        if narrow.any():
            # P(c < X <= c + v) - (e^epsilon - 1) sf(c + v), both terms in full precision.
            at = c[narrow]
            first, second = np.asarray(law.logsf(at)), np.asarray(law.logsf(at + shift))
            rest = np.expm1(epsilon[narrow]) * np.exp(second - first)
            between = _share_between(law, at, shift, first)
            found[narrow] = first + np.log(np.maximum(between - rest, 0.0))
    return np.asarray(np.where(np.isneginf(tail), -np.inf, found))


def log_spared(law: ShiftedLaw, shift: float, epsilon: ArrayLike) -> FloatArray:
    """Return the log of one minus the least delta: cdf(c) + e^epsilon sf(c + shift)."""
    epsilon = np.asarray(epsilon, dtype=float)
    c = crossing(law, shift, epsilon)
    with np.errstate(all="ignore"):
        return _log_spared(law, c, epsilon, _tails(law, c, shift)[1])


def _log_spared(
    law: ShiftedLaw, c: FloatArray, epsilon: FloatArray, next_tail: FloatArray
) -> FloatArray:
    below = np.asarray(law.logsf(-c))  # the law is even
    rest = np.where(c == np.inf, -np.inf, epsilon + next_tail)
    return np.asarray(np.minimum(np.logaddexp(below, rest), 0.0))


def _tails(law: ShiftedLaw, c: FloatArray, shift: float) -> tuple[FloatArray, FloatArray]:
    """Return log sf(c) and log sf(c + v), also precise if c + v is the end b of the support.

    There c = b - v may have lost all digits of v, and e^epsilon would multiply a rounding error.
    """
    tail, next_tail = np.asarray(law.logsf(c)), np.asarray(law.logsf(c + shift))
    bound = float(law.support()) if hasattr(law, "support") else math.inf
    at_end = np.isfinite(c) & (c + shift >= bound * (1 - 4e-16))
    if at_end.any():
        if shift > bound / 50:
            log_end = float(np.asarray(law.logsf(bound - shift)))
        else:
            density = np.asarray(law.logpdf(bound - shift * (1 - _NODES) / 2))
            log_end = float(logsumexp(density, b=_LENGTHS) + math.log(shift / 2))
        tail = np.where(at_end, log_end, tail)
        next_tail = np.where(at_end, -np.inf, next_tail)
    return tail, next_tail


def _share_between(law: ShiftedLaw, c: FloatArray, shift: float, tail: FloatArray) -> FloatArray:
    """Return P(c < X <= c + v) / P(X > c), each piece halved until its quadrature converges.

    If the density has kinks, only the pieces with a kink are halved repeatedly.
    """

    def integral(left: FloatArray, width: FloatArray, owner: NDArray[np.intp]) -> FloatArray:
        x = left[:, None] + width[:, None] * (1 + _NODES) / 2
        density = np.exp(np.asarray(law.logpdf(x)) - tail[owner][:, None])
        return np.asarray(density @ _LENGTHS * width / 2)

    total, owner = np.zeros(c.shape), np.tile(np.arange(len(c)), 2)
    before = np.clip(-c, 0.0, shift)  # most kinks are at 0
    left, width = np.concatenate([c, c + before]), np.concatenate([before, shift - before])
    whole = integral(left, width, owner)
    scale = whole[: len(c)] + whole[len(c) :]
    # Densities have the rounding error of their logs, which are about as large as the tail's.
    settled_at = 1e-15 * (1 + np.abs(tail)) * scale
    for _ in range(50):
        half = width / 2
        first, second = integral(left, half, owner), integral(left + half, half, owner)
        rest = np.abs(first + second - whole) > settled_at[owner]
        rest &= rest.sum() <= _MOST_PIECES * len(c)
        np.add.at(total, owner[~rest], (first + second)[~rest])
        if not rest.any():
            break
        left = np.concatenate([left[rest], (left + half)[rest]])
        width = np.concatenate([half[rest], half[rest]])
        owner = np.concatenate([owner[rest], owner[rest]])
        whole = np.concatenate([first[rest], second[rest]])
    else:
        np.add.at(total, owner, whole)
    return total


@dataclass(frozen=True)
class ShiftLoss(SymmetricLoss):
    """The loss of an even log-concave law in one dimension against the shifted law.

    Parameters
    ----------
    law : even log-concave law
        Any object with ``logpdf``, ``logsf`` and ``isf``; see `skdp.privacy.shift`.
    shift : float in (0, inf), units of the law

    Examples
    --------
    >>> from skdp.noise.laws import Laplace
    >>> loss = ShiftLoss(Laplace(2.0), 1.0)
    >>> round(math.exp(loss.log_delta(0.0)), 6)
    0.221199
    """

    law: ShiftedLaw
    shift: float

    def __post_init__(self) -> None:
        require_log_concave(self.law)
        require_comparable(self.law, "law")
        object.__setattr__(self, "shift", check_positive("shift", self.shift))

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > loss), log Q(L > loss), log P(L <= loss), log Q(L <= loss)."""
        x = crossing(self.law, self.shift, loss)
        y = x + self.shift
        logsf = self.law.logsf
        return logsf(x), logsf(y), logsf(-x), logsf(-y)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta at each epsilon."""
        return log_delta(self.law, self.shift, epsilon)
