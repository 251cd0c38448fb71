r"""A gradient with a proven error bound for every order of summation in BLAS.

Write u = 2^-53 and gamma_k = k u / (1 - k u). A sum of k products, computed in any order, fused
or not, has an error of at most gamma_k times the sum of the absolute products (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.1). The error is 0 if all products are multiples of one
power of two g and no partial sum reaches 2^53 g. So each factor is split exactly into a leading
part on a coarse grid and a small rest (Ozaki et al. 2012): leading times leading is exact, and
gamma_k applies to products with a rest only. Let 2^A >= |x_i|_2, 2^T >= |theta|_2, 2^C >= c.

1. *Predictor.* x = xh + xl with xh on the grid 2^(A-24), theta = th + tl with th on 2^(T-26).
   Partial sums of xh'th stay below |xh| |th| < 2^(A+T+3): exact. The rest xl'th + x'tl is at most
   sqrt(d) 2^(A+T-24) and has relative error gamma_{d+1}; the final sum z adds u |z|:
       dz_i = u |z_i| + gamma_{d+1} sqrt(d) 2^(A+T-24).
2. *Slope.* The loss is accurate to 16 units in the last place of c. Between the exact predictor and
   z the slope changes by at most kappa dz_i for a curvature bound kappa, and, since it is monotone,
   by at most its change between z and z -+ dz_i. Times the weight (one more rounding, of at most
   u c) this is the error eta_i of v_i.
3. *Sum over rows.* An error eta_i in each v_i changes sum_i v_i x_i by at most |x_i|_2 eta_i each.
   Over b <= 4096 rows, v = vh + vl with vh on the grid 2^(C-16): partial sums of xh'vh stay below
   b 2^(A+C+1) <= 2^53 2^(A-24) 2^(C-16): exact. The rest xl'v + xh'vl, summed over all rows, is
   at most n 2^(A+C) (sqrt(d) 2^-25 + 2^-16) in norm, with relative error gamma_{b + blocks + 2}.
4. *Total.* One math.fsum adds the exact sums of the blocks, the rest, the linear term and the two
   halves of the exact product ridge_j theta_j. Its only error is u |gradient_j|.

The factor SLACK covers the rounding errors of the bound and rows that exceed the public norm by
rounding; TINY covers underflow. Rounding must be to nearest, the default of the processor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdp._arrays import FloatArray
from skdp.linear_model._objective.problem import Objective, block_rows, euclidean, predictor

UNIT = 2.0**-53
SLACK = 1 + 2.0**-20
TINY = 2.0**-900
LEAST = 2.0**-200  # replaces smaller |theta|, so that the grids do not underflow
SLOPE_ULPS = 16  # required of every Loss
BLOCK_ROWS = 4096  # the most that step 3 allows


@dataclass(frozen=True)
class CertifiedGradient:
    """A computed gradient and a bound on its distance from the exact one."""

    value: FloatArray
    error: float

    @property
    def norm(self) -> float:
        """Upper bound on the norm of the exact gradient."""
        return (math.hypot(*self.value.tolist()) + self.error) * SLACK


def certified_gradient(
    objective: Objective, theta: FloatArray, *, local: bool = False
) -> CertifiedGradient:
    """Evaluate grad J(theta) with a proven error bound.

    ``local`` bounds the error of each slope by two more evaluations. This takes longer and gives a
    smaller bound for large predictors, at which the slope is nearly constant.
    """
    n, d = objective.design.shape
    c, size = objective.loss.slope_bound, max(euclidean(theta), LEAST)
    x_grid = _power_above(objective.row_norm) * 2.0**-24
    v_grid = _power_above(c * SLACK) * 2.0**-16
    theta_high, theta_low = _split(theta, _power_above(size) * 2.0**-26)
    rest, sums, error = np.zeros(d), [], 0.0
    space = np.empty((2, min(n, block_rows(d, BLOCK_ROWS)), d))
    for rows in objective.blocks(BLOCK_ROWS):
        x = objective.design[rows]
        high, low = _split(x, x_grid, space)
        z = predictor(high, theta_high) + (predictor(low, theta_high) + predictor(x, theta_low))
        y = objective.target[rows]
        slope = objective.loss.slope(z, y)
        v = objective.weighted(slope, rows)
        v_high, v_low = _split(v, v_grid)
        sums.append(v_high @ high)
        rest += v @ low + v_low @ high
        dz = UNIT * np.abs(z) + _rest_of_predictor(d, objective.row_norm * size)
        moved = _slope_error(objective, z, y, slope, dz, local)
        error += float(objective.weighted(moved, rows).sum())
    value = _total(objective, theta, sums, rest)
    error = objective.row_norm * (error + n * UNIT * c) + UNIT * euclidean(value)
    error += _rest_of_sum(n, d, objective.row_norm * c)
    return CertifiedGradient(value, float(error * SLACK + TINY))


def attainable_tolerance(
    n: int,
    row_norm: float,
    dim: int,
    slope_bound: float,
    curvature_bound: float,
    *,
    radius: float = 100.0,
    linear_term: float = 0.0,
) -> float:
    """Return a gradient norm that can be reached and certified in double precision.

    It is twice the sum of the certificate's error bound and of the change of the gradient when
    theta is rounded to double precision.

    Parameters
    ----------
    n, dim : int >= 1
        Numbers of rows and of columns.
    row_norm : float in (0, inf)
        Bound on |x_i|_2.
    slope_bound, curvature_bound : float in (0, inf)
        Bounds on the loss's first and second derivative.
    radius : float in (0, inf), default=100.0
        Bound on sum_j |x_ij theta_j|, and on dim^-1/2 row_norm |theta|_2. Both hold if
        |theta|_1 <= radius and |x_ij| <= 1, and if row_norm |theta|_2 <= radius.
    linear_term : float in [0, inf), default=0.0
        Bound on |linear_term|_2.

    Examples
    --------
    >>> tolerance = attainable_tolerance(
    ...     1000, row_norm=2.0, dim=4, slope_bound=1.0, curvature_bound=0.25
    ... )
    >>> f"{tolerance:.1e}"
    '3.7e-11'
    """
    dz = UNIT * radius + _rest_of_predictor(dim, math.sqrt(dim) * radius)
    slope = SLOPE_ULPS * math.ulp(slope_bound) + UNIT * slope_bound + curvature_bound * dz
    certificate = n * row_norm * slope + _rest_of_sum(n, dim, row_norm * slope_bound)
    # At the minimum |ridge * theta| <= n c |x| + |linear_term|, and theta is rounded by u |theta|.
    moved = n * row_norm * (curvature_bound * radius + slope_bound) + linear_term
    return float(2 * (certificate + UNIT * moved) * SLACK + 2 * TINY)


def _split(
    a: FloatArray, grid: float, space: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the nearest multiples of ``grid``, a power of two, and the exact remainders."""
    high, low = np.empty((2, *a.shape)) if space is None else space[:, : len(a)]
    # Numbers between 2^52 grid and 2^53 grid have the spacing grid.
    shift = 1.5 * 2.0**52 * grid
    np.add(a, shift, out=high)
    np.subtract(high, shift, out=high)
    np.subtract(a, high, out=low)
    return high, low


def _power_above(size: float) -> float:
    """Return the power of two in (size, 2 size]."""
    return math.ldexp(1.0, math.frexp(size)[1]) if size < math.inf else math.nan


def _gamma(k: int) -> float:
    return k * UNIT / (1 - k * UNIT)


def _rest_of_predictor(dim: int, radius: float) -> float:
    """Return the second term of dz for radius >= |x| |theta|."""
    return _gamma(dim + 1) * math.sqrt(dim) * radius * 2.0**-22


def _rest_of_sum(n: int, dim: int, size: float) -> float:
    """Return the error of the rests in step 3 for size >= |w phi' x|."""
    blocks = n // block_rows(dim, BLOCK_ROWS) + 1
    return n * 4 * size * _gamma(BLOCK_ROWS + blocks + 2) * (math.sqrt(dim) * 2.0**-25 + 2.0**-16)


def _slope_error(
    objective: Objective,
    z: FloatArray,
    y: FloatArray,
    slope: FloatArray,
    dz: FloatArray,
    local: bool,
) -> FloatArray:
    """Return the bound of step 2 on the error of the slope."""
    loss = objective.loss
    own = SLOPE_ULPS * math.ulp(loss.slope_bound)
    moved = objective.smoothness * dz
    if local:
        # 3 dz, because z + 3 dz is rounded: by at most u |z| + 3 u dz <= 2 dz.
        rise = loss.slope(z + 3 * dz, y) - slope
        fall = slope - loss.slope(z - 3 * dz, y)
        moved = np.minimum(moved, np.maximum(np.maximum(rise, fall), 0.0))
    return own + moved


def _total(
    objective: Objective, theta: FloatArray, sums: list[FloatArray], rest: FloatArray
) -> FloatArray:
    """Return the sums of step 4, each rounded once; NaN if any part is not finite."""
    parts = np.array([*sums, rest, objective.linear_term, objective.ridge * theta])
    if not np.isfinite(parts).all():
        return np.full(len(theta), math.nan)
    pairs = zip(objective.ridge.tolist(), theta.tolist(), strict=True)
    halves = [float(Fraction(r) * Fraction(t) - Fraction(r * t)) for r, t in pairs]
    return np.array([math.fsum(column) for column in np.vstack([parts, halves]).T.tolist()])
