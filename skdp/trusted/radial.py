"""The loss of noise with density proportional to exp(-|x|_2): one integral on a line.

Let X have that density in d dimensions and be shifted by a vector of length v. The loss
|X + v| - |X| is v tanh x for a real x whose density is proportional to

    exp(k tanh x) sech(x)^(d-1) (sech(x)^2 + b),

with k = v/2, b = (d-1) K_{d/2}(k) / (k K_{d/2-1}(k)) and K the modified Bessel functions: L / v
is a mixture of the first coordinates of two von Mises-Fisher laws, in d and in d + 2 dimensions.
For (Q, P), x becomes -x. Derivation and a bound on the error of the sums below:
``docs/proofs/knorm_delta.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import k0e, k1e, logsumexp, roots_legendre

from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import check_count, check_interval, check_positive
from skdp.trusted.losses import SymmetricLoss, Tails

# For greater shifts the sums have too many pieces to be fast.
MOST_SHIFT = 1e5
_CHUNK = 2**14
# Twenty nodes on pieces over which no logarithm changes by more than _CHANGE, up to twice their
# length away in the complex plane: the relative error of the sums is 1e-19 (Proposition 4).
_NODES, _LENGTHS = roots_legendre(20)
_POINTS, _LOG_SHARES = (1 + _NODES) / 2, np.log(_LENGTHS / 2)
_WIDEST, _CHANGE, _LENGTH = 0.24, 8.0, 2.04
# sup |sech z|^2 / sech(a)^2 for z within half a unit of [a, inf): e / cos(1/2)^2.
_BULGE = 3.53
# Logarithms of densities are followed this far below their maximum, beyond the least float.
_DEPTH = 800.0


@dataclass(frozen=True)
class RadialLoss(SymmetricLoss):
    """The loss of K-norm noise on a Euclidean ball, for the worst difference.

    P is the law of X with density proportional to exp(-|x|_2), Q that of X - u, |u|_2 = shift.

    Parameters
    ----------
    dim : int, >= 1
        Number of coordinates. For one it is the loss of a Laplace variable.
    shift : float in (0, inf), units of the noise's scale
        Length of the difference, divided by the scale; at most 100,000 unless ``dim`` is 1.

    Examples
    --------
    >>> loss = RadialLoss(10, 1.5)
    >>> round(float(np.exp(loss.log_delta(1.0))), 6)
    0.001983
    """

    dim: int
    shift: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", check_count("dim", self.dim))
        most = math.inf if self.dim == 1 else MOST_SHIFT
        remedy = "Take RadialLoss(1, shift), which is an upper bound."
        shift = check_interval(
            "shift", check_positive("shift", self.shift), 0.0, most, remedy=remedy
        )
        object.__setattr__(self, "shift", shift)

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > l), log Q(L > l), log P(L <= l) and log Q(L <= l).

        Parameters
        ----------
        loss : array-like of any shape
            The values l.

        Returns
        -------
        four arrays of that shape
            Logs of probabilities with an error below 1e-12 for shifts up to 100, and
            proportionally more beyond. Below e^-800 only leading terms are computed.
        """
        values = np.asarray(loss, dtype=float)
        size = np.abs(values).ravel()
        if self.dim == 1:
            return _laplace_tails(self.shift, values)
        parts = map(self._sum.tails, _chunks(size))
        found = np.concatenate([np.zeros((4, 0)), *parts], axis=1).reshape(4, *values.shape)
        # Under Q the loss is distributed as its negative under P.
        up_p, up_q, low_p, low_q = np.where(values >= 0, found, found[::-1])
        return up_p, up_q, low_p, low_q

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta at any real epsilon, rounded up.

        Parameters
        ----------
        epsilon : array-like of any shape

        Returns
        -------
        array of that shape
            Above the truth by less than 1e-12, for shifts up to 100.
        """
        values = np.asarray(epsilon, dtype=float)
        size = np.abs(values).ravel()
        if self.dim == 1:
            # log (1 - e^((epsilon - v) / 2)) where it is positive.
            with np.errstate(divide="ignore"):
                found = np.log(-np.expm1(np.minimum(size - self.shift, 0.0) / 2))
        else:
            found = np.concatenate([np.zeros(0), *map(self._sum.log_delta, _chunks(size))])
        found = found.reshape(values.shape)
        # More than the rounding error, which is mostly that of the log-density (Proposition 4).
        slack = 1e-13 + 1e-15 * (2 * self.shift + np.minimum(-found, 1e4))
        found = np.minimum(found + slack, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Q(L <= e) - e^-e P(L <= e) is the delta at -e, by the symmetry.
            below = np.logaddexp(np.log(-np.expm1(np.minimum(values, 0.0))), values + found)
        return np.asarray(np.minimum(np.where(values >= 0, found, below + 1e-15), 0.0))

    @cached_property
    def _sum(self) -> RadialSum:
        return RadialSum(self.dim, self.shift)


def _chunks(values: FloatArray) -> list[FloatArray]:
    return [values[i : i + _CHUNK] for i in range(0, len(values), _CHUNK)]


def _laplace_tails(shift: float, loss: FloatArray) -> Tails:
    """Return the four tails in one dimension: x in (-v, 0) has loss v + 2 x."""
    inside = np.clip(loss, -shift, shift)
    low_p, up_q = (inside - shift) / 2 - math.log(2), -(inside + shift) / 2 - math.log(2)
    above, below = loss >= shift, loss < -shift
    up_p, low_q = np.log1p(-np.exp(low_p)), np.log1p(-np.exp(up_q))
    ends = (
        (up_p, -np.inf, 0.0),
        (up_q, -np.inf, 0.0),
        (low_p, 0.0, -np.inf),
        (low_q, 0.0, -np.inf),
    )
    found = [np.where(above, top, np.where(below, bottom, t)) for t, top, bottom in ends]
    up_p, up_q, low_p, low_q = (np.where(np.isnan(loss), np.nan, t) for t in found)
    return up_p, up_q, low_p, low_q


# Sums. The loss is v tanh x; p and q(x) = p(-x) are integrated over x > 0, in logs, on pieces with
# Gauss-Legendre nodes. All terms are positive, so nothing cancels. A bound on the error is in
# docs/proofs/knorm_delta.md, Proposition 4.


@dataclass(frozen=True)
class RadialSum:
    """Integrals over x > 0 of p and q, and of the gain of P over Q, for dim >= 2."""

    dim: int
    shift: float

    def tails(self, loss: FloatArray) -> FloatArray:
        """Return log P(L > l), log Q(L > l), log P(L <= l), log Q(L <= l) for l >= 0, (4, n)."""
        inside = loss < self.shift
        x = self._place(np.where(inside, loss, 0.0))
        piece, within = self._piece(x), np.minimum(x, self.end)
        up = np.stack(self._log_integrals(within, self.edges[piece + 1])) - self.log_total
        up = np.logaddexp(self.log_above[:, piece + 1], up)
        far = self._log_far(np.maximum(x, self.end)) - self.log_total
        up = np.where(x < self.end, up, far)
        low = np.stack(self._log_integrals(self.edges[piece], within)) - self.log_total
        low = np.logaddexp(self.log_below[:, piece], low)
        found = np.concatenate([np.where(inside, up, -np.inf), np.where(inside, low, 0.0)])
        return np.where(np.isnan(loss), np.nan, np.minimum(found, 0.0))

    def log_delta(self, epsilon: FloatArray) -> FloatArray:
        """Return the log of the integral of p (1 - e^(epsilon - l)) over l > epsilon >= 0, (n,).

        The part of p beyond the next edge, with loss l there, gains 1 - e^(epsilon - l), plus
        e^(epsilon - l) times its gain at epsilon = l.
        """
        inside = epsilon < self.shift
        room = self.shift - np.where(inside, epsilon, 0.0)
        x = self._place(np.where(inside, epsilon, 0.0))
        after = self._piece(x) + 1
        lead = np.maximum(room - self.shift * _left(self.edges[after]), 0.0)
        terms = (
            self._log_gain(np.minimum(x, self.end), self.edges[after], room) - self.log_total,
            self.log_above[0, after] + _log_share(lead),
            self.log_delta_at_edges[after] - lead,
        )
        found = np.logaddexp(terms[0], np.logaddexp(terms[1], terms[2]))
        far = self._log_far(np.maximum(x, self.end))[0] - self.log_total + _log_share(room)
        found = np.where(x < self.end, found, far)
        return np.where(inside, found, np.where(np.isnan(epsilon), np.nan, -np.inf))

    @cached_property
    def extra(self) -> float:
        """The b of the density."""
        return (self.dim - 1) * bessel_ratio(self.dim, self.shift / 2) / (self.shift / 2)

    @cached_property
    def end(self) -> float:
        """End of the pieces, beyond which the density decreases exponentially."""
        half, power = self.shift / 2, self.dim - 1
        mode = math.asinh(2 * half / power) / 2
        top = -float(self._slow_part(np.asarray(mode)))
        straight = math.log(1e16 * (2 * half + 2 * self.dim)) / 2
        # The inverse of log cosh, at the point where the density is e^-800 of its maximum.
        fall = (_DEPTH + top) / power
        return min(straight, fall + math.log1p(math.sqrt(-math.expm1(-2 * fall))))

    @cached_property
    def edges(self) -> FloatArray:
        """Ends of the pieces, (n_pieces + 1,), from 0 up."""
        coarse = np.linspace(0.0, self.end, math.ceil(self.end / _WIDEST) + 1)
        width, height = coarse[1], _BULGE / np.cosh(coarse[:-1]) ** 2
        slope = self.shift / 2 * height + self.dim - 1
        counts = np.ceil(_LENGTH * width * slope / _CHANGE).astype(int)
        starts, pieces = np.repeat(coarse[:-1], counts), np.repeat(width / counts, counts)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.append(starts + place * pieces, self.end)

    @cached_property
    def _at_nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log p and 1 - tanh at the nodes of the pieces, and logs of lengths, (n_pieces, 20)."""
        x, log_length = _nodes(self.edges[:-1], self.edges[1:])
        return self.log_density(x), _left(x), log_length

    @cached_property
    def log_pieces(self) -> tuple[FloatArray, FloatArray]:
        """Logs of the integrals of p and of q over each piece, (n_pieces,) each."""
        density, left, log_length = self._at_nodes
        terms = density + log_length
        return _log_sum(terms), _log_sum(terms - self.shift * (1 - left))

    @cached_property
    def log_beyond(self) -> FloatArray:
        """Logs of the integrals of p and q over all x beyond the pieces, (2,)."""
        return self._log_far(np.array([self.end]))[:, 0]

    @cached_property
    def log_total(self) -> float:
        """Log of the integral of p over the line, which is that of p + q over x > 0."""
        return float(logsumexp(np.concatenate([*self.log_pieces, self.log_beyond])))

    @cached_property
    def log_above(self) -> FloatArray:
        """Logs of the probabilities of x beyond each edge, (2, n_pieces + 1)."""
        rows = np.stack(self.log_pieces)[:, ::-1]
        rows = np.concatenate([self.log_beyond[:, None], rows], axis=1)
        return np.asarray(np.logaddexp.accumulate(rows, axis=1)[:, ::-1] - self.log_total)

    @cached_property
    def log_below(self) -> FloatArray:
        """Logs of the probabilities of x up to each edge, (2, n_pieces + 1)."""
        # By symmetry p below 0 is q above 0, and q below 0 is p above 0.
        start = self.log_above[::-1, :1]
        rows = np.concatenate([start, np.stack(self.log_pieces) - self.log_total], axis=1)
        return np.asarray(np.logaddexp.accumulate(rows, axis=1))

    @cached_property
    def log_delta_at_edges(self) -> FloatArray:
        """Logs of delta at the losses of the edges, (n_pieces + 1,)."""
        left = self.shift * _left(self.edges)
        room, lead = left[:-1], left[:-1] - left[1:]
        density, of_nodes, log_length = self._at_nodes
        share = _log_share(room[:, None] - self.shift * of_nodes)
        own = _log_sum(density + share + log_length) - self.log_total
        rows = np.logaddexp(own, self.log_above[0, 1:] + _log_share(lead))
        # There 1 - tanh x decreases by e^-2 per unit, and p by e^-(d-1).
        last = self.log_above[0, -1] + math.log(left[-1] * 2 / (self.dim + 1))
        rows = np.append(rows, last) + left
        return np.asarray(np.logaddexp.accumulate(rows[::-1])[::-1] - left)

    def log_density(self, x: FloatArray) -> FloatArray:
        """Return log p at x >= 0, up to a constant."""
        return np.asarray(self._slow_part(x) + np.log1p(-(np.tanh(x) ** 2) / (1 + self.extra)))

    def _slow_part(self, x: FloatArray) -> FloatArray:
        """Return k (tanh x - 1) - (d - 1) log cosh x."""
        log_cosh = np.log1p(2 * np.sinh(x / 2) ** 2)
        return np.asarray(-self.shift / 2 * _left(x) - (self.dim - 1) * log_cosh)

    def _place(self, loss: FloatArray) -> FloatArray:
        """Return x with v tanh x = l, for 0 <= l < v."""
        # v - l is exact for l close to v, and the ratio l / v is not.
        return np.asarray(np.log1p(2 * loss / (self.shift - loss)) / 2)

    def _piece(self, x: FloatArray) -> NDArray[np.intp]:
        """Return the index of the piece that holds x, or of the last piece."""
        return np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, len(self.edges) - 2)

    def _log_integrals(self, start: FloatArray, stop: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the logs of the integrals of p and of q between points of one piece."""
        x, log_length = _nodes(start, stop)
        terms = self.log_density(x) + log_length
        loss = self.shift * (1 - _left(x))
        return _log_sum(terms), _log_sum(terms - loss)

    def _log_gain(self, start: FloatArray, stop: FloatArray, room: FloatArray) -> FloatArray:
        """Return the logs of the integrals of p (1 - e^(epsilon - l)), room being v - epsilon."""
        x, log_length = _nodes(start, stop)
        excess = room[:, None] - self.shift * _left(x)
        return _log_sum(self.log_density(x) + _log_share(excess) + log_length)

    def _log_far(self, x: FloatArray) -> FloatArray:
        """Return the logs of the integrals of p and q beyond x >= ``end``, (2, n).

        There the log-density is linear to sixteen digits, or at least 800 below its maximum.
        """
        left = _left(x)
        rise = self.shift / 2 * left * (2 - left)
        slope = (self.dim - 1) * (1 - left)
        p = self.log_density(x)
        q = p - self.shift * (1 - left)
        return np.stack([p - np.log(slope - rise), q - np.log(slope + rise)])


def bessel_ratio(dim: int, half: float) -> float:
    """Return K_{d/2}(half) / K_{d/2-1}(half) by upward recurrence, which is stable for K."""
    order, ratio = (0.0, float(k1e(half) / k0e(half))) if dim % 2 == 0 else (-0.5, 1.0)
    if (late := dim / 2 - 41) > max(order, half):
        # Each step divides the relative error by at least five, whatever the start.
        order, ratio = late, (late + math.hypot(late, half)) / half
    while order < dim / 2 - 1:
        order += 1
        ratio = 1 / ratio + 2 * order / half
    return ratio


def _left(x: FloatArray) -> FloatArray:
    """Return 1 - tanh x."""
    e = np.exp(-2 * x)
    return np.asarray(2 * e / (1 + e))


def _log_share(excess: FloatArray) -> FloatArray:
    """Return log(1 - e^-excess), or -inf if the excess is not positive."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(-np.maximum(excess, 0.0))))


def _nodes(start: FloatArray, stop: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes, and logs of lengths, for the integrals from start to stop, (n, 20) each."""
    width = (stop - start)[:, None]
    with np.errstate(divide="ignore"):
        return start[:, None] + width * _POINTS, np.log(width) + _LOG_SHARES


def _log_sum(terms: FloatArray) -> FloatArray:
    """Return the logs of the sums of exponentials over the last axis."""
    top = terms.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(terms - top).sum(axis=-1)) + top[..., 0])
