"""Standard errors, intervals and tests of coefficients from noisy moments. They cost no privacy.

The released means are G + N, with noise N of known variances, and H and b are the parts of G + N
for (1, x) and for their products with y. For the true coefficients theta and u = (-theta, 1)

    b - H theta = sum of x e / n + (N u) without its last entry,

as H and b contain the same noise that the right-hand side does. The mean of the right-hand side is
0 and its covariance V(theta) = sigma^2 X'X / n^2 + Cov(N u) is known for a known theta. So the
solution of H theta = b, which is not shrunk, differs from theta by H^-1 (b - H theta). Its
covariance is H^-1 V H^-1, the sum of a sampling part and a privacy part. The sampling part needs
equal variances of the errors: sums for other errors are not released.

The solution has no mean if the noise can make H singular. The intervals are those of Fieller and
of Anderson and Rubin: the values that a test of them does not reject, where the variance of the
test is that under the value. They are unbounded where the noise in H explains H.

A test of R theta = r has the statistic D'V^-1 D with D = R H^-1 (b - H theta) and its covariance
V, both at the theta with R theta = r that the covariance of the solution prefers. D is the
distance of R times the solution from r. For one combination theta moves on a line, so that V is a
quadratic polynomial of D, and the interval has closed ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, f, t

from skdp.domain import Domain
from skdp.linear_model._shared.gram import row_unit
from skdp.trusted.arrays import FloatArray

# Quantiles with more degrees of freedom are normal ones to 1e-12.
MOST_FREEDOM = 1e12
# Eigenvalues below this part of the greatest one are rounding errors. Greater variances are safe.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class NoisyEquations:
    """Noisy means of products of (1, x, y), and the variances of their noise.

    The target is last. The first column is the ones if there is an intercept. The noises of two
    entries are uncorrelated.
    """

    matrix: FloatArray  # the means, (k + 1, k + 1)
    variance: FloatArray  # of the noise in each entry
    # Columns that are their own squares: if the first column is the ones, the sum and the sum of
    # squares have one noise.
    own_square: NDArray[np.bool_]
    n: float  # the number of records
    # Upper bound on the excess kurtosis of linear combinations of the noise, below 24 / (k + 2).
    excess: float = 0.0

    def noise_covariance(self, u: FloatArray, v: FloatArray) -> FloatArray:
        """Return Cov(N u, N v) without the last entries, (k, k)."""
        return noise_covariance(self.variance, self.own_square, u, v)

    def product_variance(self, u: FloatArray) -> float:
        """Return the variance of u'Nu."""
        weight = np.outer(u, u)
        off = 2 * np.triu(weight, 1)
        own = np.flatnonzero(self.own_square)
        off[0, own] += weight[own, own]
        diagonal = np.where(self.own_square, 0.0, np.diag(weight))
        return float(np.sum(off**2 * self.variance) + diagonal**2 @ np.diag(self.variance))


@dataclass(frozen=True, eq=False)
class NoisyEstimate:
    """Coefficients that are not shrunk, and what their intervals need."""

    equations: NoisyEquations
    theta: FloatArray  # (k,)
    inverse: FloatArray  # of H, (k, k)
    sampling: FloatArray  # this and the next are the parts of the covariance, to first order
    privacy: FloatArray
    is_usable: bool  # whether H is positive definite
    # Degrees of freedom of the estimate of the sampling part. The privacy part is known.
    freedom: float = math.inf

    @property
    def covariance(self) -> FloatArray:
        return self.sampling + self.privacy

    def standard_errors(self, rows: FloatArray, part: FloatArray | None = None) -> FloatArray:
        """Return the standard errors of rows @ theta; infinite if the equations are not usable.

        ``part`` is ``sampling`` or ``privacy``, or None for their sum.
        """
        if not self.is_usable:
            return np.full(len(rows), np.inf)
        rows, size = _of_size_one(rows)
        part = self.covariance if part is None else part
        return np.asarray(size * np.sqrt(np.vecdot(rows @ part, rows).clip(min=0)))

    def intervals(self, rows: FloatArray, level: float = 0.95) -> FloatArray:
        """Return the lower and upper ends of intervals for rows @ theta, (m, 2).

        An interval holds the true value in a share ``level`` of releases.
        """
        if not self.is_usable:
            return np.tile([-np.inf, np.inf], (len(rows), 1))
        rows, size = _of_size_one(rows)
        ends = [self._interval(row, (1 - level) / 2) for row in rows]
        return np.asarray(size[:, None] * np.reshape(ends, (-1, 2)))

    def _interval(self, row: FloatArray, tail: float) -> tuple[float, float]:
        """Return the values row @ theta + d with d^2 <= quantile^2 (a + b d + c d^2)."""
        value, a = float(row @ self.theta), float(row @ self.covariance @ row)
        if not a > 0:  # a row of zeros
            return value, value
        step = np.append(self.covariance @ row / a, 0.0)
        start, weight = np.append(-self.theta, 1.0), self.inverse @ row

        def part(u: FloatArray, v: FloatArray) -> float:
            return float(weight @ self.equations.noise_covariance(u, v) @ weight)

        b, c = -2 * part(start, step), part(step, step)
        freedom, excess = self._shares(row[None] / math.sqrt(a))
        square = widened(float(t.isf(tail, freedom)), excess) ** 2
        lead = 1 - square * c
        if lead <= 0:
            return -np.inf, np.inf
        middle = square * b / (2 * lead)
        half = float(np.sqrt(middle**2 + square * a / lead))
        return value + middle - half, value + middle + half

    def test(self, rows: FloatArray, values: FloatArray) -> tuple[float, float]:
        """Return the statistic and the p-value of the test of rows @ theta = values.

        The rows, (m, k), are linearly independent.

        For one row the p-value is at least 1 - level if and only if the interval holds the value.
        For m rows the statistic has the law of m times F with m degrees of freedom, and of chi-
        square without a privacy part that is not normal or a sampling part that is estimated. The
        degrees of freedom and the kurtosis are those of the worst combination of the rows. The
        statistic is at most its limit for values on the line through the estimate and the values:
        if the noise in H explains H, all values far away are as likely.
        """
        if not self.is_usable:
            return 0.0, 1.0
        rows, size = _of_size_one(rows)
        distance = values / size - rows @ self.theta
        variances, vectors = np.linalg.eigh(rows @ self.covariance @ rows.T)
        deviations = np.sqrt(variances.clip(min=ROUNDING * variances[-1]))
        # Combinations with the unit matrix as covariance, and the direction of the distance.
        rows, distance = (vectors / deviations).T @ rows, vectors.T @ distance / deviations
        most = float(np.abs(distance).max())
        if not most > 0:
            return 0.0, 1.0
        far = most * float(np.linalg.norm(distance / most))  # squares of values may overflow
        square = self._square(rows, distance / far, far)
        freedom, excess = self._shares(rows)
        root = narrowed(math.sqrt(square), excess, len(rows))
        return square, _tail(root**2, len(rows), freedom)

    def _square(self, rows: FloatArray, direction: FloatArray, far: float) -> float:
        """Return the statistic of the values at ``far * direction`` from the estimate.

        The covariance of ``rows @ theta`` is the unit matrix.
        """
        step = np.append(self.covariance @ rows.T @ direction, 0.0)
        start, weight = np.append(-self.theta, 1.0), rows @ self.inverse

        def part(u: FloatArray, v: FloatArray) -> FloatArray:
            found = weight @ self.equations.noise_covariance(u, v) @ weight.T
            return np.asarray((found + found.T) / 2)

        # The covariance at the values over far^2, and its limit for values further away.
        unit, limit = np.eye(len(rows)) / far / far, part(step, step)
        own = unit - 2 * part(start, step) / far + limit
        return min(_square_in(own, direction), _square_in(limit + 1e-12 * unit, direction))

    def _shares(self, rows: FloatArray) -> tuple[float, float]:
        """Return degrees of freedom and excess kurtosis of the worst combination of the rows.

        The covariance of ``rows @ theta`` is the unit matrix. The degrees of freedom are those of
        Satterthwaite: the privacy part of the variance is known.
        """
        sampling, privacy = (
            float(np.linalg.eigvalsh(rows @ part @ rows.T)[-1].clip(0, 1))
            for part in (self.sampling, self.privacy)
        )
        freedom = self.freedom / sampling**2 if sampling > 1e-9 else math.inf
        return min(freedom, MOST_FREEDOM), self.equations.excess * privacy**2


def _of_size_one(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows over their greatest entry, and these entries.

    Rows with units such as 1e-300 have squares that overflow.
    """
    size = np.abs(rows).max(axis=1)
    size[size == 0] = 1.0
    return rows / size[:, None], size


def _square_in(covariance: FloatArray, direction: FloatArray) -> float:
    """Return direction' covariance^-1 direction, with eigenvalues above rounding errors."""
    variances, vectors = np.linalg.eigh(covariance)
    variances = variances.clip(min=max(ROUNDING * float(variances[-1]), 1e-300))
    return float(np.sum((vectors.T @ direction) ** 2 / variances))


def widened(root: float, excess: float, m: int = 1) -> float:
    """Return the root of a quantile of m normal errors with noise of this excess kurtosis.

    ``root`` is that of the quantile of chi-square with m degrees of freedom. With v of mean 1 and
    variance excess / 3, v times chi-square exceeds x with probability
    sf(x) + excess / 12 x (x - m - 2) pdf(x) to first order. For m = 1 it is the expansion of
    Cornish and Fisher. The result is not below ``root``.
    """
    return root + max(0.0, root**3 - (m + 2) * root) * excess / 24


def narrowed(root: float, excess: float, m: int = 1) -> float:
    """Return what :func:`widened` maps to ``root``; ``excess`` is below 24 / (m + 2)."""
    if root <= math.sqrt(m + 2) or excess < 1e-12:
        return root
    # The real root x of x^3 + p x = r.
    p, r = 24 / excess - (m + 2), 24 / excess * root
    size = math.sqrt(p / 3)
    return 2 * size * math.sinh(math.asinh(r / (2 * size**3)) / 3)


def noise_covariance(
    variance: FloatArray, own_square: NDArray[np.bool_], u: FloatArray, v: FloatArray
) -> FloatArray:
    """Return Cov(N u, N v) without the last entries, for symmetric noise N of given variances.

    The entries are uncorrelated. The sum of a column that is its own square, in the first row, and
    its sum of squares have one noise. Returns (k, k) for ``u`` and ``v`` of shape (k + 1,).
    """
    # An entry off the diagonal is in two equations, with the coefficient of the other column.
    found = variance * np.outer(v, u)
    np.fill_diagonal(found, variance @ (u * v))
    own = np.flatnonzero(own_square)
    # The noise of an indicator's mean and of its square is the same: add their covariance.
    shared = variance[0, own]
    found[own, own] += shared * (u[0] * v[own] + u[own] * v[0])
    found[0, own] += shared * u[own] * v[own]
    found[own, 0] += shared * u[own] * v[own]
    return np.asarray(found[:-1, :-1])


def estimate(equations: NoisyEquations, error_variance: float | None = None) -> NoisyEstimate:
    """Return the solution of the noisy normal equations, and its covariance.

    The sampling part is that of errors with one variance, which is estimated if it is not given.
    """
    H, b = equations.matrix[:-1, :-1], equations.matrix[:-1, -1]
    inverse = np.asarray(np.linalg.pinv(H, hermitian=True))
    theta = inverse @ b
    u = np.append(-theta, 1.0)
    noise = equations.noise_covariance(u, u)
    if error_variance is None:
        # u'(G + N)u is least at the solution, and lower than at the truth by what the noise has
        # fallen.
        freedom = max(1 - len(theta) / equations.n, 1 / equations.n)
        rest = float(u @ equations.matrix @ u) / freedom + float(np.sum(inverse * noise))
        error_variance = max(rest, math.sqrt(equations.product_variance(u)) / 2)
    sampling = error_variance / equations.n * inverse
    usable = bool(np.linalg.eigvalsh(H)[0] > 0)
    return NoisyEstimate(equations, theta, inverse, sampling, inverse @ noise @ inverse, usable)


def user_units(
    domain: Domain, intercept: bool, regression: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return the affine map of coefficients to the user's units: rows and constants.

    The rows, (q + 1, k), map coefficients of (1, x) or of x to the intercept and the slopes of the
    columns. A model without an intercept has one in the user's units if the middle of the bounds
    is not 0.
    """
    q = domain.n_encoded
    units = np.vstack([np.zeros(q + 1), np.eye(q + 1)])
    slopes, constants = domain.decode_coef(
        units[:, 1:] / row_unit(domain), units[:, 0], regression=regression
    )
    points = np.column_stack([constants, slopes])
    rows = (points[1:] - points[0]).T
    return rows[:, int(not intercept) :], points[0]


def _tail(square: float, k: int, freedom: float) -> float:
    """Return P(k F > square) for F of k and ``freedom`` degrees of freedom."""
    # Before scipy 1.17 the law of F loses digits if freedom is large. The limit differs by 1e-8.
    law = chi2.sf(square, k) if freedom > 1e8 else f.sf(square / k, k, freedom)
    return float(law)
