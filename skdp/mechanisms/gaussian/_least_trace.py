"""The least trace of a covering ellipsoid, from its dual.

Find S > 0 of least trace with tr(B_j S^-1) <= 1 for given B_j >= 0: z_j z_j' for points, or
diag(q_j). With M(mu) = sum_j mu_j B_j over mu >= 0 the dual maximises 2 tr M^(1/2) - sum(mu),
S is M^(1/2), and the slope in mu_j is r_j - 1 with r_j = tr(B_j S^-1), the left-hand side of the
constraint. A barrier method is used: if r_j = 1 - t / mu_j, every constraint holds strictly, and
trace and dual differ by t for each of them. Callers check the cover that they build from S, so
only the last digits of optimality depend on this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, qr
from scipy.linalg.lapack import dposv

from skdp._arrays import FloatArray

COARSE, TOLERANCE = 1e-3, 1e-5  # relative, of the least trace
MOST_ROUNDS = 100
_SHRINK, _MOST_LEVELS = 0.1, 30  # of the barrier
_MOST_STEPS, _LEAST_LENGTH = 60, 1e-10  # of Newton's method
_LEAST_ROOT = 1e-150
_BESIDE, _STEP = 1e-4, 1e-7  # relative: where a tangent is taken, and its differences


class DualValue(NamedTuple):
    """tr S at mu, the r_j, and minus the derivatives of r, (count, count)."""

    trace: float
    ratios: FloatArray
    curvature: FloatArray


Dual = Callable[[FloatArray], DualValue]


def dual_of_sums(cuts: FloatArray, mu: FloatArray) -> DualValue:
    """Return the dual for B_j = diag(cuts[j])."""
    root = np.sqrt(mu @ cuts).clip(_LEAST_ROOT)
    return DualValue(float(root.sum()), cuts @ (1 / root), (cuts / (2 * root**3)) @ cuts.T)


def dual_of_points(z: FloatArray, mu: FloatArray) -> DualValue:
    """Return the dual for B_j = z[j] z[j]'."""
    root, axes = _root_and_axes(z, mu)
    y = z @ axes
    # The derivative of M^(-1/2) along E is -E_ab / (r_a r_b (r_a + r_b)) in M's own axes. Except
    # for powers of r_a and r_b this is a smooth kernel, which has few eigenvalues that matter.
    sizes, vectors = np.linalg.eigh(np.sqrt(np.outer(root, root)) / np.add.outer(root, root))
    curvature = np.zeros((len(z), len(z)))
    for size, vector in zip(sizes, vectors.T, strict=True):
        if size > 1e-10 * sizes[-1]:
            with np.errstate(over="ignore"):
                curvature += size * ((y * (vector / root**1.5)) @ y.T) ** 2
    return DualValue(float(root.sum()), y**2 @ (1 / root), curvature)


def _root_and_axes(z: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues and axes of M^(1/2), from a QR factor: M keeps half of the digits."""
    triangle = np.linalg.qr(np.sqrt(mu)[:, None] * z, mode="r")
    _, root, axes = np.linalg.svd(triangle)
    return root.clip(_LEAST_ROOT), axes.T


def solve_dual(dual: Dual, count: int, gap: float) -> FloatArray:
    """Return mu, (count,), whose S has a trace within ``gap`` of the least, relative."""
    share = np.full(count, 1 / count)
    trace = dual(share).trace
    mu, t = trace**2 * share, trace**2 / count
    for _ in range(_MOST_LEVELS):
        mu = _centre(dual, mu, t)
        if count * t <= gap * mu.sum():
            break
        t *= _SHRINK
    return mu


def _centre(dual: Dual, mu: FloatArray, t: float) -> FloatArray:
    """Maximise the dual + t sum(log mu) by Newton steps, in units of mu itself."""
    here = dual(mu)
    for _ in range(_MOST_STEPS):
        slope = mu * (here.ratios - 1) + t
        step = _newton_step(mu[:, None] * here.curvature * mu, slope, t)
        gain = float(step @ slope)
        if not gain > 1e-3 * t:
            break
        value, length = _height(here, mu, t), min(1.0, 0.95 / max(-step.min(), 1e-300))
        while length > _LEAST_LENGTH:
            there = mu * (1 + length * step)
            seen = dual(there)
            if _height(seen, there, t) >= value + 0.1 * length * gain:
                break
            length /= 2
        else:
            break  # the remaining gain is below the rounding error
        mu, here = there, seen
    return mu


def _height(here: DualValue, mu: FloatArray, t: float) -> float:
    return 2 * here.trace - float(mu.sum()) + t * float(np.log(mu).sum())


def _newton_step(curvature: FloatArray, slope: FloatArray, t: float) -> FloatArray:
    """Return (curvature + t)^-1 slope.

    Raises
    ------
    LinAlgError
        If the sum of the B_j is singular, as for points that do not span the space.
    """
    matrix = curvature + t * np.eye(len(slope))
    if not np.isfinite(matrix).all():
        raise LinAlgError("the curvature is infinite")
    _, step, failed = dposv(matrix, slope)
    if failed:
        ridge = 1e-12 * float(np.trace(matrix)) * np.eye(len(slope))
        step = np.linalg.solve(matrix + ridge, slope)
    return np.asarray(step)


def cover_points(z: FloatArray) -> FloatArray:
    """Return A, (dim, dim), with S = A A' of nearly least trace and z' S^-1 z <= 1 for rows z.

    The points span the space. The constraints may be violated by a share of ``TOLERANCE``.
    """
    most = 4 * z.shape[1]  # how many points a round may add
    chosen, gap = _spanning(z, most), COARSE
    for _ in range(MOST_ROUNDS):
        part = z[chosen]
        mu = solve_dual(partial(dual_of_points, part), len(part), gap / 10)
        root, axes = _root_and_axes(part, mu)
        ratios = ((z @ axes) ** 2) @ (1 / root)
        ratios[chosen] = 0
        worst = np.argsort(ratios)[-most:]
        worst = worst[ratios[worst] > 1 + gap]
        if not len(worst) and gap == TOLERANCE:
            break
        gap = gap if len(worst) else TOLERANCE
        chosen = np.concatenate([chosen, worst])
    return np.asarray(axes * np.sqrt(root))


def _spanning(z: FloatArray, most: int) -> NDArray[np.intp]:
    """Return indices of points that span the space, and of the longest points."""
    count, dim = z.shape
    if count <= 2 * most:
        return np.arange(count)
    pivots = qr(z.T, mode="r", pivoting=True)[1][:dim]
    longest = np.argsort((z**2).sum(axis=1))[::-1][: most - dim]
    return np.unique(np.concatenate([pivots, longest]))


def cover_sums(
    worst: Callable[[FloatArray], float],
    sums: FloatArray,
    worst_of_rows: Callable[[FloatArray], FloatArray] | None = None,
) -> FloatArray:
    """Return w > 0, (k,), that makes sum(sums / w) nearly least among those with worst(w) <= 1.

    ``worst_of_rows`` computes it for rows of w, (n, k) to (n,), if this is faster. ``worst`` is
    convex, positively homogeneous and nondecreasing, so it lies above its tangents, which serve as
    cuts. A tangent is taken a little beside the current point, where a piecewise linear function
    is linear, and its slope is found by differences.
    """
    # As it is nondecreasing, its value at a single coordinate is a lower bound.
    rows = worst_of_rows or (lambda rows: np.array([worst(row) for row in rows]))
    cuts, upper = np.diag(rows(np.eye(len(sums)))), math.inf
    w = best = 1 / np.sqrt(sums)
    rng, gap = np.random.default_rng(0), COARSE
    for _ in range(MOST_ROUNDS):
        beside = w * (1 + _BESIDE * rng.uniform(-1, 1, len(w)))
        cuts = np.vstack([cuts, _tangent(rows, beside)])
        mu = solve_dual(partial(dual_of_sums, cuts * sums), len(cuts), gap)
        root = np.sqrt(mu @ (cuts * sums))
        w = sums / root
        w = w / worst(w)
        if (value := float((sums / w).sum())) < upper:
            best, upper = w, value
        # Every mu gives a lower bound. The dual is solved to a part of the distance from it.
        off = upper / float(2 * root.sum() - mu.sum()) - 1
        if off <= TOLERANCE:
            break
        gap = max(min(gap, off / 10), TOLERANCE / 100)
    return np.asarray(best)


def _tangent(worst_of_rows: Callable[[FloatArray], FloatArray], w: FloatArray) -> FloatArray:
    """Return the slope at w, (k,), by differences."""
    own, *moved = worst_of_rows(w * (1 + _STEP * np.eye(len(w) + 1, len(w), k=-1)))
    return np.asarray((moved - own) / (_STEP * w)).clip(0)
