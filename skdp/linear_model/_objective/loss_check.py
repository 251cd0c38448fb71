"""What a loss must be for the privacy proof, as far as looking can tell.

A loss of a user is evaluated for targets at both ends of their range and between them,
and for predictors from 0 to 10^6 on both sides of each. Nothing is drawn or spent before.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_positive, fail
from skdp._identity import is_ours
from skdp.linear_model.losses import TARGETS, Loss, is_one_sided

_PROBED = {"labels": (0.0, 1.0), "number": (-1.0, -0.3, 0.0, 0.6, 1.0)}
_MEMBERS = ("slope_bound", "value", "slope", "curvature", "curvature_bound")
# Distances of predictors from the target, in steps of 2 %.
_FAR = np.geomspace(1e-8, 1e6, 1600)
# Slopes are good to 16 units in the last place of their bound.
_ROUNDING = 16 * float(np.finfo(float).eps)
# What members may differ by that are no slopes.
_CLOSE = 1e-6


def check_loss(loss: Any, target: str) -> None:
    """Raise unless a loss is for targets of a kind, and is what the proof needs where it is probed.

    Parameters
    ----------
    loss : Loss
    target : {"labels", "number"}
        What the model's targets are: 0 or 1, or numbers in [-1, 1].
    """
    lacking = [name for name in _MEMBERS if not hasattr(loss, name)]
    if isinstance(loss, type) or lacking:
        rule = f"have the members of a Loss, {', '.join(_MEMBERS)}"
        raise fail("loss", rule, loss, "See skdp.linear_model.losses.")
    said = getattr(loss, "target", None)
    if said not in TARGETS:
        remedy = "Its slope bound is to hold for all of them; the class must say so."
        raise fail("loss", f"have a target, one of {sorted(TARGETS)}", said, remedy)
    if said != target:
        remedy = f"This model's target is {TARGETS[target]}."
        raise fail("loss", f'be for target = "{target}"', f'{loss!r}, for "{said}"', remedy)
    if not is_ours(loss):
        with np.errstate(all="ignore"):
            _check(loss, np.array(_PROBED[target]))


def _check(loss: Loss, targets: FloatArray) -> None:
    c = check_positive("loss's slope_bound", loss.slope_bound)
    away = np.concatenate([-_FAR[::-1], [0.0], _FAR])
    z = targets[:, None] + away
    y = np.broadcast_to(targets[:, None], z.shape)
    slope = _told(loss, "slope", z, y)
    if not (np.abs(slope) <= c * (1 + _ROUNDING)).all():
        raise fail("loss", "have a slope that is at most slope_bound for every target", loss)
    if not (np.diff(slope, axis=1) >= -2 * _ROUNDING * c).all():
        raise fail("loss", "be convex: its slope must not fall as the predictor grows", loss)
    _check_bound(loss, c)
    _check_curvature(loss, c, z, y, slope)
    _check_value(loss, c, z, y, slope)
    both = (slope > _ROUNDING * c).any(axis=1) & (slope < -_ROUNDING * c).any(axis=1)
    if is_one_sided(loss) and both.any():
        rule = "have a slope that never changes its sign for a target, as one_sided = True says"
        raise fail("loss", rule, loss)


def _told(loss: Loss, member: str, z: FloatArray, y: FloatArray) -> FloatArray:
    """Return what a member gives for a table; each entry must be a function of its own record."""
    found = np.asarray(getattr(loss, member)(z.ravel(), y.ravel()), dtype=float)
    if found.shape != (z.size,) or not np.isfinite(found).all():
        raise fail("loss", f"have a {member}(z, y) of finite numbers, one for each record", loss)
    few = np.linspace(0, z.size - 1, 40).astype(int)
    alone = [getattr(loss, member)(z.ravel()[[k]], y.ravel()[[k]]) for k in few]
    if not np.allclose(np.ravel(alone), found[few], rtol=1e-12, atol=1e-15 * loss.slope_bound):
        rule = f"have a {member}(z, y) that depends on each record alone, and never changes"
        raise fail("loss", rule, loss)
    return found.reshape(z.shape)


def _check_bound(loss: Loss, c: float) -> None:
    """Check that the bound on the curvature is one number for each interval, and grows with it."""
    ends = c * np.linspace(0.0, 1.0, 65)
    low, high = (np.ravel(ends[k]) for k in np.triu_indices(len(ends)))
    bound = np.asarray(loss.curvature_bound(low, high), dtype=float)
    if bound.shape != low.shape or not ((bound >= 0) & (bound < math.inf)).all():
        rule = "have a curvature_bound(low, high) of finite numbers >= 0, one for each interval"
        raise fail("loss", rule, loss)
    table = np.full((len(ends), len(ends)), -np.inf)
    table[np.triu_indices(len(ends))] = bound
    # More slopes have no lesser greatest curvature.
    least = np.maximum(table[:-1, 1:], 0.0) * (1 + 1e-9) + 1e-12
    if not ((table[:-1, :-1] <= least) & (table[1:, 1:] <= least)).all():
        raise fail("loss", "have a curvature_bound no less for a wider range of slopes", loss)


def _check_curvature(loss: Loss, c: float, z: FloatArray, y: FloatArray, slope: FloatArray) -> None:
    """Check the bound on the curvature against the curvature, and against rises of the slope."""
    size, off = np.minimum(np.abs(slope), c), _ROUNDING * c
    curvature = _told(loss, "curvature", z, y)
    low, high = np.maximum(size - off, 0.0), np.minimum(size + off, c)
    whole = float(np.max(loss.curvature_bound(0.0, c)))
    bound = np.asarray(loss.curvature_bound(low.ravel(), high.ravel())).reshape(z.shape)
    least = (1 + _CLOSE) * bound + 1e-9 * whole
    rule = "have a curvature_bound(low, high) that is no less than the curvature at such slopes"
    if not ((curvature >= 0) & (curvature <= least)).all():
        raise fail("loss", rule, loss)
    before, after = slope[:, :-1], slope[:, 1:]
    low = np.where(before * after < 0, 0.0, np.minimum(np.abs(before), np.abs(after)))
    high = np.minimum(np.maximum(np.abs(before), np.abs(after)), c)
    low = np.minimum(low, high)
    bound = np.asarray(loss.curvature_bound(low.ravel(), high.ravel())).reshape(low.shape)
    most = np.diff(z, axis=1) * ((1 + _CLOSE) * bound + 1e-9 * whole) + 4 * off
    if not (after - before <= most).all():
        raise fail("loss", rule, loss)


def _check_value(loss: Loss, c: float, z: FloatArray, y: FloatArray, slope: FloatArray) -> None:
    """Check that the value rises as the slope says: by the mean value theorem, in between."""
    value = _told(loss, "value", z, y)
    rise, step = np.diff(value, axis=1), np.diff(z, axis=1)
    slack = 1e-12 * (np.abs(value[:, 1:]) + np.abs(value[:, :-1]) + c) + _CLOSE * c * step
    held = (rise >= slope[:, :-1] * step - slack) & (rise <= slope[:, 1:] * step + slack)
    if not held.all():
        raise fail("loss", "have a value(z, y) whose derivative is slope(z, y)", loss)
