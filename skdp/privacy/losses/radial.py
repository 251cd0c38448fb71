"""The privacy loss of noise with density proportional to exp(-|x|_2): one integral on a line.

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
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_interval, check_positive
from skdp.privacy.radial import RadialSum
from skdp.privacy.losses import SymmetricLoss, Tails

# For greater shifts the sums have too many pieces to be fast.
MOST_SHIFT = 1e5
_CHUNK = 2**14


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
            found = _laplace_log_delta(self.shift, size)
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


def _laplace_log_delta(shift: float, epsilon: FloatArray) -> FloatArray:
    """Return log (1 - e^((epsilon - v) / 2)) where it is positive."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(-np.expm1(np.minimum(epsilon - shift, 0.0) / 2)))
