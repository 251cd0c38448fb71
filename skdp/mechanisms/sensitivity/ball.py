"""Numerical checks of norm balls.

Balls from outside this package are probed in fixed random directions. `skdp.testing.check_ball`
checks more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy.stats import kstwobign

from skdp._arrays import FloatArray
from skdp._checks import check_count, fail
from skdp._identity import claims, is_ours
from skdp.geometry import NormBall
from skdp.geometry.ball import known

_PLAIN = (str, int, float, np.ndarray, np.generic, type(None))
_POINTS, _DRAWS, _ALARM = 64, 1000, 1e-9
# Far more than rounding.
_CLOSE = 1e-6
_SAY_SO = "If it draws from exactly the uniform law, set exact = True in the class with sample()."


def require_ball(ball: Any) -> None:
    """Raise unless ``ball`` is a norm ball and passes the numerical checks."""
    if isinstance(ball, type) or not isinstance(ball, NormBall):
        remedy = "Give a norm ball such as LpBall(dim, p)."
        raise fail("ball", "have dim, exact, gauge and sample", type(ball), remedy)
    if is_ours(ball):
        for part in _parts(ball):
            require_ball(part)
        return
    dim = check_count("ball's dim", ball.dim)
    if not isinstance(ball.exact, bool | np.bool_):
        raise fail("ball", "have an exact that is True or False", ball)
    rng = np.random.default_rng(0)
    v = rng.standard_normal((_POINTS, dim)) * np.exp(rng.uniform(-3, 3, (_POINTS, dim)))
    v = np.concatenate([v, np.eye(dim)[:_POINTS], rng.choice([-1.0, 0.0, 1.0], (_POINTS, dim))])
    v = v[np.abs(v).max(axis=1) > 0]
    _check_norm(ball, v, rng)
    # Points of gauge 1: the ball's boundary.
    _check_extent(ball, v / np.asarray(ball.gauge(v))[:, None], rng)
    if ball.exact:
        _check_draws(ball, rng)


def _parts(ball: Any) -> Iterator[Any]:
    """Yield the balls that a ball is made of."""
    for field in fields(ball) if is_dataclass(ball) else ():
        value = getattr(ball, field.name)
        for part in value if isinstance(value, tuple | list) else (value,):
            # The check of the methods takes longer than everything else here.
            if not isinstance(part, _PLAIN) and isinstance(part, NormBall):
                yield part


def _check_norm(ball: NormBall, v: FloatArray, rng: np.random.Generator) -> None:
    gauge = np.asarray(ball.gauge(v), dtype=float)
    if gauge.shape != (len(v),) or not (np.isfinite(gauge) & (gauge > 0)).all():
        rule = "have a gauge that is a finite number > 0 for each point but 0"
        raise fail("ball", rule, ball)
    factor = np.exp(rng.uniform(-6, 6, len(v)))
    if not np.allclose(ball.gauge(-v), gauge, rtol=_CLOSE, atol=0):
        raise fail("ball", "have a gauge that is symmetric: |-v| = |v|", ball)
    if not np.allclose(ball.gauge(factor[:, None] * v), factor * gauge, rtol=_CLOSE, atol=0):
        raise fail("ball", "have a gauge that is homogeneous: |t v| = t |v|", ball)
    order = rng.permutation(len(v))
    u = v / gauge[:, None]
    both = np.asarray(ball.gauge(u + u[order]))
    if not (both <= 2 * (1 + _CLOSE)).all():
        raise fail("ball", "have a gauge that keeps the triangle: |u + v| <= |u| + |v|", ball)


def _check_extent(ball: Any, edge: FloatArray, rng: np.random.Generator) -> None:
    """Check the optional members of a ball against points of its boundary."""
    w = rng.standard_normal((_POINTS, ball.dim))
    extent, slack = (edge @ w.T).max(axis=0), 1 - _CLOSE
    points = known(ball, "extreme_points")
    if points is not None and not (np.abs(points @ w.T).max(axis=0) >= extent * slack).all():
        raise fail("ball", "lie in the hull of its extreme_points()", ball)
    support = known(ball, "support", w)
    if support is not None and not (support >= extent * slack).all():
        raise fail("ball", "have a support() that is at least <w, u> for all of its points u", ball)
    box = known(ball, "bounding_box")
    if box is not None and not (box >= np.abs(edge).max(axis=0) * slack).all():
        raise fail("ball", "lie in its bounding_box()", ball)
    normals = known(ball, "facets")
    if normals is not None and not np.allclose(
        np.abs(edge @ normals.T).max(axis=1), 1, rtol=_CLOSE
    ):
        raise fail("ball", "have facets() that agree with its gauge", ball)


def _check_draws(ball: NormBall, rng: np.random.Generator) -> None:
    """Check that |U|^dim is uniform, |U| the gauge of a draw."""
    if not claims(ball, "exact", about=("gauge", "sample")):
        rule = "state exact in the class that defines its sampler"
        raise fail("ball", rule, ball, _SAY_SO)
    draws = np.asarray(ball.sample(_DRAWS, rng), dtype=float)
    if draws.shape != (_DRAWS, ball.dim) or not np.isfinite(draws).all():
        raise fail("ball", f"have a sample(n, rng) of finite points, (n, {ball.dim})", ball)
    filled = np.sort(np.asarray(ball.gauge(draws)) ** ball.dim)
    place = np.arange(_DRAWS + 1) / _DRAWS
    off = max((place[1:] - filled).max(), (filled - place[:-1]).max())
    if not kstwobign.sf(math.sqrt(_DRAWS) * off) > _ALARM or filled[-1] > 1 + _CLOSE * ball.dim:
        raise fail("ball", "have a sample() that is uniform on the ball of its gauge", ball)
