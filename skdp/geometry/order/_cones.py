"""The greatest norm over a convex body, by subdivision of the directions into cones.

In a cone of directions spanned by points r_1, ..., r_d of the body, u = sum_i c_i r_i with c >= 0
has |u| <= sum_i c_i |r_i|, and sum_i c_i <w, r_i> = <w, u> is at most the body's support in w.
So the norm is at most support(w) max_i |r_i| / <w, r_i> there, whatever w is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skdp._arrays import FloatArray
from skdp.geometry.ball import NormBall
from skdp.geometry.lp import sign_patterns

# Relative difference of the bounds at which subdivision stops.
GAP = 2.5e-10

Gauge = Callable[[FloatArray], FloatArray]


def half_of_signs(dim: int) -> FloatArray:
    """Return all vectors of +1 and -1 that begin with 1, (2**(dim - 1), dim)."""
    return np.column_stack([np.ones(2 ** (dim - 1)), sign_patterns(dim - 1)])


def by_cones(
    gauge: Gauge, body: NormBall, support: Gauge, *, enough: float, most: int
) -> tuple[float, float]:
    """Return bounds on the greatest norm over a body; cones with a high bound are subdivided.

    Parameters
    ----------
    gauge : callable
        The norm, (..., dim) to (...).
    body : NormBall
    support : callable
        Its support function.
    enough : float >= 0
        The upper bound need not be less than this, nor the lower one greater by more than a
        share of 1e-8.
    most : int
        Greatest number of cones.
    """
    cones = _orthants(body)
    at_rays, scale = gauge(cones), np.linalg.norm(cones[0], axis=0)
    seen, lower = 0, float(at_rays.max())
    while True:
        upper = _bounds_on_cones(cones, at_rays, support)
        goal = max(lower, enough) * (1 + GAP)
        seen += len(cones)
        if seen > most or 0 < enough * (1 + 1e-8) < lower:
            return lower, max(goal, float(upper.max()))
        wide = upper > goal
        if not wide.any():
            return lower, goal
        cones, at_rays = _halved(cones[wide], at_rays[wide], gauge, body, scale)
        lower = max(lower, float(at_rays.max()))


def _orthants(body: NormBall) -> FloatArray:
    """Return half of the orthants, (2**(dim - 1), dim, dim): the rows are points of the body."""
    axes = np.eye(body.dim)
    return np.asarray(half_of_signs(body.dim)[:, :, None] * (axes / body.gauge(axes)[:, None]))


def _bounds_on_cones(cones: FloatArray, at_rays: FloatArray, support: Gauge) -> FloatArray:
    """Bound the norm over the part of the body in each cone, (count,)."""
    # u = sum_i c_i r_i with c >= 0 has norm at most sum_i c_i |r_i|, and for any w
    # sum_i c_i <w, r_i> = <w, u> <= support(w). Take the w that is 1 at every ray.
    ones = np.ones((*cones.shape[:2], 1))
    normals = np.asarray(np.linalg.solve(cones, ones)[..., 0], dtype=float)
    products = np.einsum("nij,nj->ni", cones, normals)
    return np.asarray(support(normals) * (at_rays / products).max(axis=1))


def _halved(
    cones: FloatArray, at_rays: FloatArray, gauge: Gauge, body: NormBall, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Cut each cone in two through the middle of its longest edge, in units of ``scale``."""
    first, second = np.triu_indices(cones.shape[1], 1)
    lengths = np.linalg.norm((cones[:, first] - cones[:, second]) / scale, axis=2)
    longest, rows = lengths.argmax(axis=1), np.arange(len(cones))
    first, second = first[longest], second[longest]
    middle = cones[rows, first] + cones[rows, second]
    middle /= body.gauge(middle)[:, None]
    cones, at_rays = np.repeat(cones[None], 2, axis=0), np.repeat(at_rays[None], 2, axis=0)
    at_middle = gauge(middle)
    for half, replaced in enumerate((first, second)):
        cones[half, rows, replaced], at_rays[half, rows, replaced] = middle, at_middle
    return np.concatenate(cones), np.concatenate(at_rays)
