"""Checks of losses for objective perturbation: `check_loss`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdp.testing._require import members_of, require
from skdp.trusted.arrays import FloatArray

MEMBERS = ("target", "slope_bound", "value", "slope", "curvature", "curvature_bound")
_PROBED = {
    "labels": (0.0, 1.0),
    "number": (-1.0, -0.3, 0.0, 0.6, 1.0),
    "count": (-1.0, -0.9, 0.0, 1.0, 30.0),
}
# Distances of predictors from the target, in steps of 2 %.
_FAR = np.geomspace(1e-8, 1e6, 1600)
# Slopes are accurate to 16 units in the last place of their bound.
_ROUNDING = 16 * float(np.finfo(float).eps)
# Relative tolerance for the other members.
_CLOSE = 1e-6


def check_loss(loss: Any) -> None:
    """Raise AssertionError unless an object is a loss that estimators can use.

    It must have the members of `skdp.linear_model.losses.Loss`, and the properties that the
    privacy proof of objective perturbation needs: it is convex, and the bounds on its slope and
    curvature hold. It is evaluated for targets at both ends of their range and between them, and
    for predictors at distances up to 10^6 on both sides of each target.

    Parameters
    ----------
    loss : object
        Any loss, of this package or a third-party one.

    Raises
    ------
    AssertionError
        If a rule is broken; the message gives the member and the rule.

    Examples
    --------
    >>> from skdp.linear_model.losses import PseudoHuber
    >>> from skdp.testing import check_loss
    >>> check_loss(PseudoHuber(0.5))
    """
    members_of(loss, MEMBERS)
    name, c = type(loss).__name__, loss.slope_bound
    require(loss.target in _PROBED, f"{name}.target", f"be one of {sorted(_PROBED)}", loss.target)
    finite = isinstance(c, int | float | np.number) and 0 < c < math.inf
    require(finite, f"{name}.slope_bound", "be a finite number > 0", c)
    targets = np.array(_PROBED[loss.target])
    z = targets[:, None] + np.concatenate([-_FAR[::-1], [0.0], _FAR])
    y = np.broadcast_to(targets[:, None], z.shape)
    with np.errstate(all="ignore"):
        slope = _evaluated(loss, "slope", z, y)
        rule = "be at most slope_bound for every target"
        require(np.abs(slope) <= c * (1 + _ROUNDING), f"{name}.slope", rule)
        rule = "not decrease in the predictor: the loss must be convex"
        require(np.diff(slope, axis=1) >= -2 * _ROUNDING * c, f"{name}.slope", rule)
        _check_curvature(loss, c, z, y, slope)
        # The value has this slope, by the mean value theorem.
        value = _evaluated(loss, "value", z, y)
        rise, step = np.diff(value, axis=1), np.diff(z, axis=1)
        slack = 1e-12 * (np.abs(value[:, 1:]) + np.abs(value[:, :-1]) + c) + _CLOSE * c * step
        held = (rise >= slope[:, :-1] * step - slack) & (rise <= slope[:, 1:] * step + slack)
        require(held, f"{name}.value", "have the derivative slope(z, y)")
    both = (slope > _ROUNDING * c).any(axis=1) & (slope < -_ROUNDING * c).any(axis=1)
    rule = "never change its sign for a target, as one_sided = True states"
    require(not (getattr(loss, "one_sided", False) and both.any()), f"{name}.slope", rule)


def _evaluated(loss: Any, member: str, z: FloatArray, y: FloatArray) -> FloatArray:
    """Return the values of a member; each must be a function of its own record."""
    name = f"{type(loss).__name__}.{member}"
    found = np.asarray(getattr(loss, member)(z.ravel(), y.ravel()), dtype=float)
    held = found.shape == (z.size,) and np.isfinite(found).all()
    require(held, name, "give finite numbers, one for each record")
    few = np.linspace(0, z.size - 1, 40).astype(int)
    single = [getattr(loss, member)(z.ravel()[[k]], y.ravel()[[k]]) for k in few]
    held = np.allclose(np.ravel(single), found[few], rtol=1e-12, atol=1e-15 * loss.slope_bound)
    require(held, name, "depend on each record alone")
    return found.reshape(z.shape)


def _check_curvature(loss: Any, c: float, z: FloatArray, y: FloatArray, slope: FloatArray) -> None:
    """Check that the bound is one number for each interval and monotone in it.

    And that it holds for the curvature, and for changes of the slope.
    """
    name, ends = f"{type(loss).__name__}.curvature_bound", c * np.linspace(0.0, 1.0, 65)
    at = np.triu_indices(len(ends))
    bound = np.asarray(loss.curvature_bound(ends[at[0]], ends[at[1]]), dtype=float)
    held = bound.shape == at[0].shape and ((bound >= 0) & (bound < math.inf)).all()
    require(held, name, "give a finite number >= 0 for each interval")
    table = np.full((len(ends), len(ends)), -np.inf)
    table[at] = bound
    # A wider interval of slopes must not have a smaller bound.
    least = np.maximum(table[:-1, 1:], 0.0) * (1 + 1e-9) + 1e-12
    held = (table[:-1, :-1] <= least) & (table[1:, 1:] <= least)
    require(held, name, "not decrease for a wider interval of slopes")
    size, off = np.minimum(np.abs(slope), c), _ROUNDING * c
    whole = float(np.max(loss.curvature_bound(0.0, c)))

    def greatest(low: FloatArray, high: FloatArray) -> FloatArray:
        bound = np.asarray(loss.curvature_bound(low.ravel(), high.ravel())).reshape(low.shape)
        return np.asarray((1 + _CLOSE) * bound + 1e-9 * whole)

    curvature = _evaluated(loss, "curvature", z, y)
    most = greatest(np.maximum(size - off, 0.0), np.minimum(size + off, c))
    rule = "be no less than the curvature at slopes in the interval"
    require((curvature >= 0) & (curvature <= most), name, rule)
    before, after = slope[:, :-1], slope[:, 1:]
    low = np.where(before * after < 0, 0.0, np.minimum(np.abs(before), np.abs(after)))
    high = np.minimum(np.maximum(np.abs(before), np.abs(after)), c)
    rise = np.diff(z, axis=1) * greatest(np.minimum(low, high), high) + 4 * off
    require(after - before <= rise, name, rule)
