r"""Trusted. A gradient with a proven error bound for every order of summation.

Write u = 2^-53 and gamma_k = k u / (1 - k u). A sum of k products, computed in any order, fused
or not, has an error of at most gamma_k times the sum of the absolute products (Higham, Accuracy and
Stability of Numerical Algorithms, section 3.1). The error is 0 if all products are multiples of one
power of two g and no partial sum exceeds 2^53 g. So each factor is split exactly into a leading
part on a coarse grid and a small rest (Ozaki et al. 2012): leading times leading is exact, and
gamma_k applies to products with a rest only.

A row has p numbers U x_j, where U is a power of two and the x_j are multiples of g = 2^-20 with
|x_j| <= 1, and one level of each of k columns. With t_j = U theta_j, which is exact, its predictor
is sum_j x_j t_j + kappa + sum_c table_c[level_c]: the constant kappa is the intercept less the mean
of each centred table. Let C be the sum of the absolute values of these k + 1 parts of kappa,
S >= |t|_1 + C + sum_c max|table_c|, and 2^B >= c. A column of B-splines has positions in place of
levels. Its table is T theta_c, where the rows of T are multiples of g, at least 0, with a sum of at
most 1 and at most 16 entries that are not 0: 4, or 4 x 4 for an interaction. Then S has
max|theta_c| in place of max|table_c|.

1. *Predictor.* With h in [2^-32, 2^-31] S a power of two, t = th + tl with th on the grid h, and
   constant and tables are split on the grid 2 g h. Coefficients of B-splines are split on the grid
   h: T times a leading part is exact, and T times a rest counts as 17 more terms. All partial sums
   of leading parts are multiples of g h of size at most 2 S <= 2^53 g h: exact. The rests are at
   most h / 2 each, and p + k + 1 in number; their sum has relative error gamma_{p+k+2}. kappa is a
   fraction whose error of 2^-105 C is smaller than one more such term. The final sum z adds u |z|:
       dz_i = u |z_i| + gamma_{p+k+2} (p + k + 2) 2^-32 S.
2. *Slope.* The loss is accurate to 16 units in the last place of c. Between the exact predictor and
   z the slope changes by at most K dz_i for a curvature bound K, and, since it is monotone, by at
   most its change between z and z -+ dz_i. Times the weight (one more rounding, of at most u c)
   this is the error eta_i of v_i.
3. *Sum over rows.* An error eta_i in each v_i changes sum_i v_i x_i by at most |x_i|_2 eta_i each.
   Over b <= 2^13 rows, v = vh + vl with vh on the grid 2^(B-20): partial sums of x'vh stay below
   2^13 2^B = 2^53 g 2^(B-20): exact, and so are the sums of vh over all rows and over those of a
   level. Blocks are added as integers. The rest, |vl| <= 2^(B-21), is summed in floats in any order
   with relative error gamma_{b + blocks + 2}; the sums for centred levels are combinations with
   coefficients 1 and 1 / (m + 1). Those of B-splines have at most 2^13 positions as terms, which
   are added to the index of gamma. So in norm the error is at most 3 n R 2^(B-21) gamma for rows of
   norm at most R.
4. *Total.* One math.fsum adds the exact sums, which are divided by m + 1 with one rounding where
   levels are centred, the rests, the linear term and two floats whose sum is
   ridge_j (P theta)_j with a relative error of u^2, where P is the matrix of whole numbers of the
   penalty. Its error is u |gradient_j|. The quotients of centred levels have an error of at
   most u n c R in norm, as the products of weights and slopes have: together 2 n u c R.

With a softmax of K classes a row has K predictors and K slopes, see `Softmax.slopes`. The steps
hold for each class; the errors of all classes are added, which bounds the norm. In step 2, if every
predictor has an error of at most dz, sum_k |change of p_k| <= 2 dz sum_k p_k (1 - p_k) at some
point between, because |dp_k / dz_l| sums to 2 p_k (1 - p_k) over l. On the way log p_k and
log(1 - p_k) change by at most 2 dz. Subtracting the greatest predictor, the exponentials, their sum
and the quotients have errors that add up over the slopes to at most (4 K + 32) u: an error of
u t in the exponent changes e^-t by at most u t e^-t <= .37 u.

The factor SLACK covers the rounding errors of the bound and rows that exceed the public norm by
rounding; TINY covers underflow. Rounding must be to nearest, the default of the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain.splines import units_of
from skdp.linear_model._objective.problem import (
    STEP,
    DesignRows,
    Objective,
    Sums,
    Terms,
    constants_of,
    euclidean,
    gradient_of,
    power_above,
    predictor,
    sums_over,
    terms_of,
)
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.task import target_of
from skdp.linear_model.losses import AnyLoss, Softmax, greatest_curvature, shares, slopes_of
from skdp.rows.memory import MOST_ROWS, block_rows
from skdp.trusted.arrays import Array, FloatArray

UNIT = 2.0**-53
SLACK = 1 + 2.0**-20
TINY = 2.0**-900
LEAST = 2.0**-200  # replaces smaller |theta|, so that the grids do not underflow
SLOPE_ULPS = 16  # required of every Loss


class CertifiedGradient(NamedTuple):
    """A computed gradient, a bound on its distance from the exact one, and one on its norm."""

    value: FloatArray
    error: float
    norm: float


def certified_gradient(
    objective: Objective, theta: FloatArray, *, local: bool = False
) -> CertifiedGradient:
    """Evaluate grad J(theta) with a proven error bound.

    ``local`` bounds the error of each slope by two more evaluations. This takes longer and gives a
    smaller bound for large predictors, at which the slope is nearly constant.
    """
    design, c = objective.design, objective.loss.slope_bound
    models = objective.models_of(theta)
    split = [_split_terms(design, own) for own in models]
    grid = power_above(c * SLACK) * 2.0**-20
    # The rows are counted during the same reading as the sums.
    sums, error, blocks, n = objective.rows.sum(_summing(objective, split, grid, local))
    ridge, linear_term = map(objective.models_of, (objective.ridge, objective.linear_term))
    parts = zip(models, ridge, linear_term, sums, strict=True)
    value = np.concatenate([_total(design, *of_model, grid=grid) for of_model in parts])
    norm, c = design.row_norm, c * len(models)
    error = norm * (error + 2 * n * UNIT * c) + UNIT * euclidean(value)
    error += 2 * UNIT**2 * euclidean(objective.penalty(theta))
    error += _rest_of_sum(n, norm * c, blocks)
    error = float(error * SLACK + TINY)
    return CertifiedGradient(value, error, (math.hypot(*value.tolist()) + error) * SLACK)


def attainable_tolerance(
    n: int,
    row_norm: float,
    dim: int,
    slope_bound: float,
    curvature_bound: float,
    *,
    radius: float = 100.0,
    linear_term: float = 0.0,
    stiffest: float = 1.0,
) -> float:
    """Return a gradient norm that can be reached and certified in double precision.

    It is twice the sum of the certificate's error bound and of the change of the gradient when
    theta is rounded to double precision. ``row_norm`` bounds |x_i|_2, ``slope_bound`` and
    ``curvature_bound`` the loss's derivatives, and ``linear_term`` |linear_term|_2. ``radius``
    bounds sum_j |x_ij theta_j|, and dim^-1/2 row_norm |theta|_2. Both hold if |theta|_1 <= radius
    and |x_ij| <= 1, and if row_norm |theta|_2 <= radius. ``stiffest`` bounds |P|_2, where P >= 1 is
    the matrix of the penalty for ridges of 1.
    """
    dz = UNIT * radius + _rest_of_predictor(dim, 3 * dim * radius)
    slope = SLOPE_ULPS * math.ulp(slope_bound) + 2 * UNIT * slope_bound + curvature_bound * dz
    blocks = n // block_rows(dim) + 1
    certificate = n * row_norm * slope + _rest_of_sum(n, row_norm * slope_bound, blocks)
    # At the minimum |ridge * theta| <= |ridge * P theta| <= n c |x| + |linear_term|, and theta is
    # rounded by u |theta|. This changes ridge * P theta by at most |P|_2 times as much.
    moved = n * row_norm * (curvature_bound * radius + stiffest * slope_bound)
    moved += stiffest * linear_term
    return float(2 * (certificate + UNIT * moved) * SLACK + 2 * TINY)


class SplitTerms(NamedTuple):
    """The leading parts and the rests of a predictor, and the parts of dz that rows share."""

    high: Terms
    low: Terms
    error: float


def _split_terms(design: Design, theta: FloatArray) -> SplitTerms:
    terms, parts = terms_of(design, theta), constants_of(design, theta)
    constants = math.nan if None in parts else math.fsum(abs(float(part)) for part in parts)
    # The terms of B-splines are weighted means of coefficients, which may be greater.
    tops = [float(np.abs(theta[block]).max()) for block in design.blocks]
    size = float(np.abs(terms.slopes).sum()) + constants + math.fsum(tops)
    size = max(size * SLACK, LEAST) if size < math.inf else math.nan
    grid = power_above(size) * 2.0**-32
    fine = 2 * grid * STEP
    slopes, tables = _split(terms.slopes, grid), []
    for table, basis, block in zip(terms.tables, design.tables, design.blocks, strict=True):
        parts_of = _split(table, fine) if basis is None else _split(theta[block], grid)
        # B-splines are multiples of 2^-20: the sums of leading parts are not rounded.
        tables.append(parts_of if basis is None else tuple(basis @ own for own in parts_of))
    near = float(_split(np.array([terms.constant]), fine)[0][0])
    rest = float(sum(parts) - Fraction(near)) if math.isfinite(near) else math.nan
    high = Terms(slopes[0], near, tuple(table[0] for table in tables))
    low = Terms(slopes[1], rest, tuple(table[1] for table in tables))
    return SplitTerms(high, low, _rest_of_predictor(len(terms.slopes) + 17 * len(tables), size))


def _summing(
    objective: Objective, split: list[SplitTerms], grid: float, local: bool
) -> Callable[[DesignRows], tuple[Any, float, int, int]]:
    """Return the function from rows to the sums of step 3, the error of the slopes, 1 and n.

    The sums are those of leading parts, in their units, and those of the rests, for each model.
    """
    # The function is sent to workers: it must not hold the rows.
    loss, label, smoothness = objective.loss, objective.label, greatest_curvature(objective.loss)
    design, own_error = objective.design, _own_error(objective.loss)
    compiled = None if local else objective.compiled(*split[0][:2], grid)
    most = max(own.error for own in split)

    def in_units(exact: Sums) -> tuple[Any, ...]:
        levels = tuple(_integers(own / grid) for own in exact.levels)
        return _integers(exact.numbers / (grid * STEP)), _integers(exact.total / grid), levels

    def summed(rows: DesignRows) -> tuple[Any, float, int, int]:
        y = target_of(rows.target, label)
        found = None if compiled is None else compiled(rows, y)
        if found is not None:
            exact, rest, weights, sizes = found
            # The error of a slope is at most own + smoothness * dz, of step 2.
            error = (own_error + smoothness * most) * weights + smoothness * UNIT * sizes
            return ((in_units(exact), tuple(rest)),), error, 1, len(rows)
        numbers, levels = rows.numbers.astype(np.float64), rows.levels
        parts_of_z = [[predictor(own, numbers, levels) for own in model[:2]] for model in split]
        z = np.array([high + low for high, low in parts_of_z])
        slopes, dz = slopes_of(loss, z, y), UNIT * np.abs(z).max(axis=0) + most
        moved = _moved_slopes(loss, smoothness, z, y, dz, slopes[0] if local else None)
        sums = []
        for slope in slopes:
            parts = _split(rows.weighted(slope), grid)
            exact, rest = (sums_over(rows, numbers, part, design) for part in parts)
            sums.append((in_units(exact), tuple(rest)))
        return tuple(sums), float(rows.weighted(own_error + moved).sum()), 1, len(rows)

    return summed


def _own_error(loss: AnyLoss) -> float:
    """Return the error of a slope at an exact predictor; the sum over the classes of a softmax."""
    if isinstance(loss, Softmax):
        return (2 * loss.n_classes + SLOPE_ULPS) * 2 * UNIT
    return SLOPE_ULPS * math.ulp(loss.slope_bound)


def _moved_slopes(
    loss: AnyLoss,
    smoothness: float,
    z: FloatArray,
    y: FloatArray,
    dz: FloatArray,
    slope: FloatArray | None,
) -> FloatArray:
    """Return the bound of step 2 on the changes of a row's slopes if predictors change by dz.

    With the ``slope`` at z it is also at most the slope's own change; not for a softmax.
    """
    if isinstance(loss, Softmax):
        return loss.normalizer * _moved_shares(z, dz)
    moved = smoothness * dz
    if slope is None:
        return moved
    # 3 dz, because z + 3 dz is rounded: by at most u |z| + 3 u dz <= 2 dz.
    rise = loss.slope(z[0] + 3 * dz, y) - slope
    fall = slope - loss.slope(z[0] - 3 * dz, y)
    return np.minimum(moved, np.maximum(np.maximum(rise, fall), 0.0))


def _moved_shares(z: FloatArray, dz: FloatArray) -> FloatArray:
    """Return a bound on sum_k |change of p_k| if each predictor changes by at most dz, (n,)."""
    p = shares(z)
    spread = (p * (1 - p)).sum(axis=0) + len(p) * 2.0**-48
    # p (1 - p) changes by a factor of at most e^(4 dz). The sum over the classes is below 1.
    return np.asarray(2 * dz * np.where(dz < 0.1, spread * np.exp(4 * dz), 1.0))


def _split(a: FloatArray, grid: float) -> tuple[FloatArray, FloatArray]:
    """Return the nearest multiples of ``grid``, a power of two, and the exact remainders."""
    # Numbers between 2^52 grid and 2^53 grid have the spacing grid.
    shift = 1.5 * 2.0**52 * grid
    high = a + shift
    high -= shift
    return high, a - high


def _integers(multiples: FloatArray) -> NDArray[np.int64]:
    """Return whole numbers as integers. Others, such as NaN, are 0; the rest is NaN, too."""
    return np.where(np.isfinite(multiples), multiples, 0.0).astype(np.int64)


def _gamma(k: int) -> float:
    return k * UNIT / (1 - k * UNIT)


def _rest_of_predictor(count: int, size: float) -> float:
    """Return the second term of dz for ``count`` numbers and columns of levels."""
    return _gamma(count + 2) * (count + 2) * size * 2.0**-32


def _rest_of_sum(n: int, size: float, blocks: int) -> float:
    """Return the error of the rests in step 3 for size >= |w phi' x|."""
    return 3 * n * 2 * size * 2.0**-21 * _gamma(2 * MOST_ROWS + blocks + 2)


def _total(
    design: Design,
    theta: FloatArray,
    ridge: FloatArray,
    linear_term: FloatArray,
    sums: tuple[Any, Any],
    grid: float,
) -> FloatArray:
    """Return the sums of step 4 of one model, each rounded once; NaN if any part is not finite."""
    exact, rest = Sums(*sums[0]), gradient_of(design, Sums(*sums[1]))
    if not all(np.isfinite(part).all() for part in (rest, linear_term, ridge * theta)):
        return np.full(len(theta), math.nan)
    points = [Fraction(t) for t in theta.tolist()]
    smooth = points.copy()  # P theta
    for block, matrix in zip(design.blocks, design.penalties, strict=True):
        for row, weights in enumerate([] if matrix is None else matrix.tolist()):
            pairs = zip(weights, points[block], strict=True)
            smooth[block.start + row] = sum((int(w) * t for w, t in pairs if w), Fraction(0))
    penalty = [Fraction(r) * own for r, own in zip(ridge.tolist(), smooth, strict=True)]
    near = [float(own) for own in penalty]
    far = [float(own - Fraction(half)) for own, half in zip(penalty, near, strict=True)]
    parts = np.vstack([rest, linear_term, near, far, _whole(design, exact, grid)])
    return np.array([math.fsum(column) for column in parts.T.tolist()])


def _whole(design: Design, exact: Sums, grid: float) -> FloatArray:
    """Return exact sums as the sums of two floats, (2, dim)."""
    found = np.zeros((2, design.dim))
    found[:, design.number_coordinates] = _halves(exact.numbers) * (grid * STEP * design.unit)
    total = int(exact.total[0])
    if design.intercept:
        found[:, :1] = _halves(exact.total) * grid
    facts = design.blocks, design.tables, design.sizes, exact.levels
    for block, table, size, own in zip(*facts, strict=True):
        unit, counts = 1, own[1:]
        if table is not None:  # the sums of each B-spline, in units of 2^-20
            at, column = np.nonzero(table)  # few of the entries
            unit, counts = 2**20, np.zeros(table.shape[1], dtype=object)
            units = units_of(table[at, column]).astype(object)
            np.add.at(counts, column, own[at].astype(object) * units)
        if not design.intercept:
            found[:, block] = _halves(counts) * (grid / unit)
        else:  # a quotient of integers is rounded once
            shift = total * unit
            found[0, block] = [(int(c) * size - shift) / (size * unit) * grid for c in counts]
    return found


def _halves(integers: Array) -> FloatArray:
    """Return two floats for each integer, whose sum is exact."""
    high = integers.astype(np.float64)
    low = [int(whole) - int(near) for whole, near in zip(integers, high, strict=True)]
    return np.array([high, np.array(low, dtype=np.float64)])
