"""Numerical checks of the conditions on a law under which its calibration is true.

A law from outside this package is probed from the centre to its tail at 1e-300, and a hundred
thousand draws with a fixed generator are compared with it; draws that are narrower by a tenth are
detected. `skdp.testing.check_law` checks more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy.special import roots_legendre
from scipy.stats import kstwobign

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._identity import is_ours, remembered
from skdp.noise.law import Law

# Tail probabilities of the quantiles at which a law is probed.
_TAILS = np.concatenate([np.linspace(0.49, 0.05, 12), np.geomspace(0.04, 1e-300, 230)])
_NODES, _LENGTHS = roots_legendre(12)
# Tolerance between members: far more than rounding, and too little to matter for privacy.
_CLOSE = 1e-6
# Number of intervals that may hold a kink of the density, and tolerance of the sum over one.
_KINKS, _KINKED = 4, 0.3
# Near an end of the support floats are too coarse for intervals narrower than this.
_NARROW = 1e-6
_DRAWS, _ALARM = 100_000, 1e-9


def check_law(law: Any, name: str = "law") -> None:
    """Raise unless a law has the members and passes the numerical checks.

    Its density must be even and log-concave, and agree with the tail, the quantiles, the variance,
    the draws and the optional members; and so must the density of the scaled law.
    """
    if isinstance(law, type) or not isinstance(law, Law):
        remedy = "Give a law of skdp.noise, or an object with logpdf, logsf, isf, rvs, var, scaled."
        raise fail(name, "have the members of a law", type(law), remedy)
    if not isinstance(law, Hashable):
        raise fail(name, "be hashable", type(law), "Make it a frozen dataclass of numbers.")
    if not is_ours(law):
        _probe(law, name)


def scaled_law(law: Any, s: float, name: str = "law") -> Any:
    """Return the law of s X; raise unless it passes the checks at this scale."""
    wide = law.scaled(s)
    if not is_ours(law):
        _probe_scaled(law, s, name)
    return wide


@remembered(maxsize=1024)
def _probe_scaled(law: Any, s: float, name: str) -> None:
    wide = law.scaled(s)
    with np.errstate(all="ignore"):
        _check_scaled(law, wide, s, name)
        _check_draws(wide, name)


@remembered(maxsize=64)  # a plan calibrates a law many times
def _probe(law: Any, name: str) -> None:
    with np.errstate(all="ignore"):
        for one in (law, law.scaled(3.0)):
            _check(one, name)
        _check_scaled(law, law.scaled(3.0), 3.0, name)


def _check(law: Any, name: str) -> None:
    spread = float(law.var())
    if not 0 < spread < math.inf:
        raise fail(name, "have a variance that is a finite number > 0", law)
    spread, x = math.sqrt(spread), np.asarray(law.isf(_TAILS), dtype=float)
    if x.shape != _TAILS.shape or not np.isfinite(x).all() or not (x > 0).all():
        raise fail(name, "have an isf() that gives finite quantiles > 0 for tails below 1/2", law)
    left, right = np.asarray(law.logpdf(-x)), np.asarray(law.logpdf(x))
    upper, lower = np.asarray(law.logsf(x)), np.asarray(law.logsf(-x))
    if not np.allclose(left, right, rtol=1e-9, atol=1e-9):
        raise fail(name, "have a density that is even", law)
    _check_concave(law, x / spread, right, name)
    _check_quantiles(law, x, name)
    if not np.allclose(lower, np.log1p(-np.exp(upper)), rtol=_CLOSE, atol=1e-9):
        raise fail(name, "have a tail that is even: P(X > -x) = 1 - P(X > x)", law)
    _check_tail(law, x, upper, spread, name)
    _check_claims(law, x, spread, name)
    _check_draws(law, name)


def _check_quantiles(law: Any, x: FloatArray, name: str) -> None:
    outer, inner = np.asarray(law.logsf(x * (1 + 1e-9))), np.asarray(law.logsf(x * (1 - 1e-9)))
    allowed = _CLOSE * (1 - np.log(_TAILS))
    held = (outer <= np.log(_TAILS) + allowed) & (inner >= np.log(_TAILS) - allowed)
    if not (held.all() and (np.diff(x) >= 0).all()):
        raise fail(name, "have an isf() that is the inverse of logsf()", law)


def _check_concave(law: Any, x: FloatArray, heights: FloatArray, name: str) -> None:
    """Check that slopes never increase, in units of the standard deviation."""
    points, heights = np.append(0.0, x), np.append(law.logpdf(0.0), heights)
    keep = np.diff(points, prepend=-np.inf) > 1e-6 * (1 + x.max())
    slopes = np.diff(heights[keep]) / np.diff(points[keep])
    if not (np.diff(slopes, prepend=0.0) <= 1e-6 * (1 + np.abs(slopes))).all():
        raise fail(name, "have a log-concave density", law, "Take one of skdp.noise.")


def _check_tail(law: Any, x: FloatArray, tail: FloatArray, spread: float, name: str) -> None:
    """Check that integrals of the density over intervals give the tail and the variance."""
    ends, tail = np.append(0.0, x), np.append(law.logsf(0.0), tail)
    width = np.diff(ends)
    nodes = ends[:-1, None] + width[:, None] * (1 + _NODES) / 2
    share = np.exp(np.asarray(law.logpdf(nodes)) - tail[:-1, None]) * _LENGTHS
    found, expected = share.sum(axis=1) * width / 2, -np.expm1(np.diff(tail))
    wide = width > _NARROW * ends[1:]
    off = np.abs(found[wide] / expected[wide] - 1)
    if not (off <= _KINKED).all() or (off > _CLOSE).sum() > _KINKS:
        raise fail(name, "have a density that integrates to the tail of logsf()", law)
    second = ((share * nodes**2).sum(axis=1) * width * np.exp(tail[:-1]))[wide]
    if not abs(second.sum() / spread**2 - 1) < 0.01:
        raise fail(name, "have the variance of var()", law)


def _check_claims(law: Any, x: FloatArray, spread: float, name: str) -> None:
    """Check the optional members of a law."""
    if hasattr(law, "greatest_slope"):
        heights = np.append(law.logpdf(0.0), law.logpdf(x))
        apart = np.diff(np.append(0.0, x))
        steep = -np.diff(heights)[apart > _NARROW * x] / apart[apart > _NARROW * x]
        if not float(law.greatest_slope()) * (1 + _CLOSE) >= steep.max():
            raise fail(name, "have a log-density no steeper than greatest_slope()", law)
    if hasattr(law, "support") and not float(law.support()) * (1 + 1e-9) >= x.max():
        raise fail(name, "have no draw beyond support()", law)
    for shift in spread * np.array([1e-3, 0.3, 2.0, 10.0]):
        _check_shift(law, x, float(shift), name)


def _check_shift(law: Any, x: FloatArray, shift: float, name: str) -> None:
    at = np.concatenate([-x[::-1], [0.0], x])
    here, there = np.asarray(law.logpdf(at)), np.asarray(law.logpdf(at + shift))
    ratio = here - there
    if hasattr(law, "log_ratio"):
        told = np.asarray(law.log_ratio(at, shift))
        seen = np.isfinite(here) & np.isfinite(there)
        allowed = 1e-9 * (1 + np.abs(here) + np.abs(there))
        rule = "have a log_ratio() that is logpdf(x) - logpdf(x + shift)"
        if not (np.abs(told - ratio) <= allowed)[seen].all():
            raise fail(name, rule, law)
        if not (told[np.isfinite(here) & np.isneginf(there)] > 1e300).all():
            raise fail(name, rule, law)
        ratio = told
    if hasattr(law, "crossing"):
        levels = np.unique(np.abs(ratio[np.isfinite(ratio) & (ratio > 1e-9)]))[::16] * 0.999
        crossed = np.asarray(law.crossing(shift, levels))
        step = 1e-6 * (np.abs(crossed) + shift)
        before = np.asarray(law.logpdf(crossed - step) - law.logpdf(crossed - step + shift))
        after = np.asarray(law.logpdf(crossed + step) - law.logpdf(crossed + step + shift))
        slack = _CLOSE * (1 + levels)
        held = (before <= levels + slack) & ((after >= levels - slack) | np.isnan(after))
        if not held.all():
            raise fail(name, "have a crossing() where its log-ratio passes the level", law)


def _check_scaled(law: Any, wide: Any, s: float, name: str) -> None:
    x = np.asarray(law.isf(_TAILS), dtype=float)
    tails = np.allclose(wide.isf(_TAILS), s * x, rtol=_CLOSE, atol=0)
    heights, scaled = np.asarray(law.logpdf(x)), np.asarray(wide.logpdf(s * x)) + math.log(s)
    inner = np.isfinite(heights) & np.isfinite(scaled)
    at = np.concatenate([-x, x])
    tails = tails and np.allclose(wide.logsf(s * at), law.logsf(at), rtol=_CLOSE, atol=_CLOSE)
    tails = tails and math.isclose(float(wide.var()), s * s * float(law.var()), rel_tol=_CLOSE)
    if not (tails and np.allclose(scaled[inner], heights[inner], rtol=_CLOSE, atol=_CLOSE)):
        raise fail(name, "have a scaled(s) that is the law of s X", law)


def _check_draws(law: Any, name: str) -> None:
    """Check the shape of draws, and their distribution by the Kolmogorov-Smirnov test."""
    draws = np.asarray(law.rvs(_DRAWS, np.random.default_rng(0)), dtype=float)
    if draws.shape != (_DRAWS,) or not np.isfinite(draws).all():
        raise fail(name, "have an rvs(size, rng) that draws finite numbers of that shape", law)
    below = np.sort(np.exp(np.asarray(law.logsf(-draws))))
    place = np.arange(_DRAWS + 1) / _DRAWS
    off = max((place[1:] - below).max(), (below - place[:-1]).max())
    if not kstwobign.sf(math.sqrt(_DRAWS) * off) > _ALARM:
        raise fail(name, "draw from the law of logsf()", law)
