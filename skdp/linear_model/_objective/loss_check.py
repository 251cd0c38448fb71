"""Numerical checks of the assumptions of the privacy proof for losses of users.

A loss is evaluated for targets at both ends of their range and between them, and for predictors at
distances up to 10^6 on both sides of each target. The checks precede any noise or spending.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_positive, fail
from skdp._identity import is_ours
from skdp.linear_model.losses import TARGETS, Loss, Softmax, is_one_sided

_PROBED = {"labels": (0.0, 1.0), "number": (-1.0, -0.3, 0.0, 0.6, 1.0)}
_MEMBERS = ("slope_bound", "value", "slope", "curvature", "curvature_bound")
# Distances of predictors from the target, in steps of 2 %.
_FAR = np.geomspace(1e-8, 1e6, 1600)
# Slopes are accurate to 16 units in the last place of their bound.
_ROUNDING = 16 * float(np.finfo(float).eps)
# Relative tolerance for the other members.
_CLOSE = 1e-6


def check_loss(loss: Any, target: str) -> None:
    """Raise an error unless a loss is for ``target`` and satisfies the assumptions of the proof.

    Parameters
    ----------
    loss : Loss
    target : {"labels", "number"}
        The kind of the model's targets: 0 or 1, or numbers in [-1, 1].
    """
    if type(loss) is Softmax and target == loss.target:
        return
    if isinstance(loss, type) or not all(hasattr(loss, name) for name in _MEMBERS):
        rule = f"have the members of a Loss, {', '.join(_MEMBERS)}"
        raise fail("loss", rule, loss, "See skdp.linear_model.losses.")
    stated = getattr(loss, "target", None)
    if stated not in TARGETS:
        remedy = "Set it in the class of the loss, whose bounds must hold for all such targets."
        raise fail("loss", f"have a target, one of {sorted(TARGETS)}", stated, remedy)
    if stated != target:
        remedy = f"This model's target is {TARGETS[target]}."
        raise fail("loss", f'be for target = "{target}"', f'{loss!r}, for "{stated}"', remedy)
    if not is_ours(loss):
        with np.errstate(all="ignore"):
            _check(loss, np.array(_PROBED[target]))


def _check(loss: Loss, targets: FloatArray) -> None:
    c = check_positive("loss's slope_bound", loss.slope_bound)
    away = np.concatenate([-_FAR[::-1], [0.0], _FAR])
    z = targets[:, None] + away
    y = np.broadcast_to(targets[:, None], z.shape)
    slope = _evaluated(loss, "slope", z, y)
    if not (np.abs(slope) <= c * (1 + _ROUNDING)).all():
        raise fail("loss", "have a slope that is at most slope_bound for every target", loss)
    if not (np.diff(slope, axis=1) >= -2 * _ROUNDING * c).all():
        raise fail("loss", "be convex: its slope must not decrease in the predictor", loss)
    _check_bound(loss, c)
    _check_curvature(loss, c, z, y, slope)
    _check_value(loss, c, z, y, slope)
    both = (slope > _ROUNDING * c).any(axis=1) & (slope < -_ROUNDING * c).any(axis=1)
    if is_one_sided(loss) and both.any():
        rule = "have a slope that never changes its sign for a target, as one_sided = True states"
        raise fail("loss", rule, loss)


def _evaluated(loss: Loss, member: str, z: FloatArray, y: FloatArray) -> FloatArray:
    """Return the values of a member; each must be a function of its own record."""
    found = np.asarray(getattr(loss, member)(z.ravel(), y.ravel()), dtype=float)
    if found.shape != (z.size,) or not np.isfinite(found).all():
        raise fail("loss", f"have a {member}(z, y) of finite numbers, one for each record", loss)
    few = np.linspace(0, z.size - 1, 40).astype(int)
    single = [getattr(loss, member)(z.ravel()[[k]], y.ravel()[[k]]) for k in few]
    if not np.allclose(np.ravel(single), found[few], rtol=1e-12, atol=1e-15 * loss.slope_bound):
        rule = f"have a {member}(z, y) that depends on each record alone, and never changes"
        raise fail("loss", rule, loss)
    return found.reshape(z.shape)


def _check_bound(loss: Loss, c: float) -> None:
    """Check that the curvature bound is one number for each interval and monotone in it."""
    ends = c * np.linspace(0.0, 1.0, 65)
    low, high = (np.ravel(ends[k]) for k in np.triu_indices(len(ends)))
    bound = np.asarray(loss.curvature_bound(low, high), dtype=float)
    if bound.shape != low.shape or not ((bound >= 0) & (bound < math.inf)).all():
        rule = "have a curvature_bound(low, high) of finite numbers >= 0, one for each interval"
        raise fail("loss", rule, loss)
    table = np.full((len(ends), len(ends)), -np.inf)
    table[np.triu_indices(len(ends))] = bound
    # A wider interval of slopes must not have a smaller bound.
    least = np.maximum(table[:-1, 1:], 0.0) * (1 + 1e-9) + 1e-12
    if not ((table[:-1, :-1] <= least) & (table[1:, 1:] <= least)).all():
        rule = "have a curvature_bound that does not decrease for a wider interval of slopes"
        raise fail("loss", rule, loss)


def _check_curvature(loss: Loss, c: float, z: FloatArray, y: FloatArray, slope: FloatArray) -> None:
    """Check the bound on the curvature against the curvature and against changes of the slope."""
    size, off = np.minimum(np.abs(slope), c), _ROUNDING * c
    whole = float(np.max(loss.curvature_bound(0.0, c)))

    def greatest(low: FloatArray, high: FloatArray) -> FloatArray:
        bound = np.asarray(loss.curvature_bound(low.ravel(), high.ravel())).reshape(low.shape)
        return np.asarray((1 + _CLOSE) * bound + 1e-9 * whole)

    curvature = _evaluated(loss, "curvature", z, y)
    most = greatest(np.maximum(size - off, 0.0), np.minimum(size + off, c))
    rule = "have a curvature_bound(low, high) that is no less than the curvature at such slopes"
    if not ((curvature >= 0) & (curvature <= most)).all():
        raise fail("loss", rule, loss)
    before, after = slope[:, :-1], slope[:, 1:]
    low = np.where(before * after < 0, 0.0, np.minimum(np.abs(before), np.abs(after)))
    high = np.minimum(np.maximum(np.abs(before), np.abs(after)), c)
    rise = np.diff(z, axis=1) * greatest(np.minimum(low, high), high) + 4 * off
    if not (after - before <= rise).all():
        raise fail("loss", rule, loss)


def _check_value(loss: Loss, c: float, z: FloatArray, y: FloatArray, slope: FloatArray) -> None:
    """Check the value against the slope, by the mean value theorem."""
    value = _evaluated(loss, "value", z, y)
    rise, step = np.diff(value, axis=1), np.diff(z, axis=1)
    slack = 1e-12 * (np.abs(value[:, 1:]) + np.abs(value[:, :-1]) + c) + _CLOSE * c * step
    held = (rise >= slope[:, :-1] * step - slack) & (rise <= slope[:, 1:] * step + slack)
    if not held.all():
        raise fail("loss", "have a value(z, y) whose derivative is slope(z, y)", loss)
