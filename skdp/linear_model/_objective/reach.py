"""The greatest length of a weighted row.

A row x has a weight of at most w(x) = min(1, leverage / x'M^-1 x) with the penalty's matrix M, a
diagonal of ridges except for B-splines. Its gradient is this weight times a slope times x. Noise
therefore hides slopes times w(x) x, which is shorter than the longest row if that row has a weight
below 1. Statement and proof: docs/proofs/objective_perturbation.md, the lemma on weighted rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp.geometry import LpBall, NormBall
from skdp.linear_model._shared.design import Design
from skdp.mechanisms.sensitivity import ROUND_UP

# Relative error of one addition of floats, with a margin.
_ROUNDING = 4 * float(np.finfo(float).eps)


def weighted_length(
    design: Design, variance: ArrayLike, ridge: ArrayLike, leverage: ArrayLike
) -> FloatArray:
    """Return a bound on w(x) (sum_j x_j^2 / variance_j)^(1/2) over all rows x.

    For columns of B-splines x'M^-1 x >= resistance |x|^2 / ridge takes the place of |x|^2 / ridge.

    Parameters
    ----------
    design : Design
    variance, ridge : array of shape (..., groups), > 0
        The variance and the ridge of each coordinate of a group.
    leverage : array of shape (...), > 0

    Returns
    -------
    ndarray of shape (...)
        The exact supremum, rounded up, if the squared lengths of the groups' parts take all
        values between their bounds. They do for numbers, and for columns of two centred levels.

    Notes
    -----
    With t = sum_j x_j^2 / ridge_j the greatest value K(t) of sum_j x_j^2 / variance_j is a
    fractional knapsack: groups are filled in the order of ridge / variance. So K is concave and
    linear between the breakpoints, and min(1, leverage / t)^2 K(t) has its maximum at a breakpoint,
    at t = leverage, or on a piece K = a + b t at t = -2 a / b.
    """
    least = np.array([group.least for group in design.groups])
    most = np.array([group.square for group in design.groups])
    resistance = np.array([group.resistance for group in design.groups])
    variance, ridge = np.broadcast_arrays(variance, np.asarray(ridge) / resistance)
    order = np.argsort(-(ridge / variance), axis=-1)
    shares = (values / by for by in (ridge, variance) for values in (least, most - least))
    low, more, base, gain = (np.take_along_axis(own, order, axis=-1) for own in shares)
    t, k = _sums(low, more), _sums(base, gain)
    rate = np.take_along_axis(ridge / variance, order, axis=-1)
    start, at_start = t[..., :-1], k[..., :-1]
    bound = np.asarray(leverage)[..., None]
    inner = [np.clip(at, start, t[..., 1:]) for at in (bound, 2 * (start - at_start / rate))]
    places = np.concatenate([t, *inner], axis=-1)
    lengths = np.concatenate([k, *(at_start + rate * (at - start) for at in inner)], axis=-1)
    with np.errstate(divide="ignore"):
        weights = np.minimum(1.0, bound / places)
    found = np.sqrt((weights**2 * lengths).max(axis=-1))
    return np.asarray(found * (ROUND_UP + _ROUNDING * len(least)))


def _sums(first: FloatArray, steps: FloatArray) -> FloatArray:
    """Return the sum of ``first``, and that with one more of the steps each time."""
    total = first.sum(axis=-1, keepdims=True)
    return np.concatenate([total, total + np.cumsum(steps, axis=-1)], axis=-1)


def counts_weights(ball: NormBall) -> bool:
    """Return whether weights reduce the greatest gauge of a row in this ball.

    In the balls of other norms a row that is short in the Euclidean norm has the greatest gauge.
    """
    return type(ball) is LpBall and ball.weights is None and ball.p <= 2


def weighted_radius(
    design: Design, ball: NormBall, ridge: FloatArray, leverage: ArrayLike
) -> FloatArray:
    """Return a bound on w(x) times the gauge of x over all rows x, of the shape of ``leverage``.

    In dim dimensions |x|_p <= dim^(1/p - 1/2) |x|_2 for p <= 2.
    """
    whole = design.radius_in(ball)
    if not (isinstance(ball, LpBall) and counts_weights(ball)):
        return np.full(np.shape(leverage), whole)
    length = weighted_length(design, np.ones(len(design.groups)), ridge, leverage)
    factor = ball.dim ** (1 / ball.p - 0.5) / ball.radius * ROUND_UP
    return np.asarray(np.minimum(whole, length * factor))
