"""Standard errors and intervals of coefficients from noisy moments. They cost no privacy.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.linear_model._moments.moments import Moments
from skdp.linear_model._moments.postprocess import noise_covariance
from skdp.linear_model._shared.gram import row_unit


@dataclass(frozen=True, eq=False)
class NoisyEquations:
    """Noisy means of products of (1, x, y), and the variances of their noise.

    Attributes
    ----------
    matrix : ndarray of shape (k + 1, k + 1)
        The means; the target is last. The first column is the ones if there is an intercept.
    variance : ndarray of shape (k + 1, k + 1)
        Variance of the noise in each entry. The noises of two entries are uncorrelated.
    own_square : ndarray of bool, shape (k + 1,)
        Columns that are their own squares: if the first column is the ones, the sum and the sum
        of squares have one noise.
    n : float
        The number of records.
    excess : float
        Upper bound on the excess kurtosis of linear combinations of the noise.
    """

    matrix: FloatArray
    variance: FloatArray
    own_square: NDArray[np.bool_]
    n: float
    excess: float = 0.0

    @classmethod
    def of(cls, moments: Moments, intercept: bool) -> NoisyEquations:
        """Return the equations of a release, of which all moments are in the domain's units."""
        n, own = moments.n_records, moments.own_square
        matrix, deviation = moments.gram / n, moments.deviation / n
        if not intercept:
            matrix, deviation, own = matrix[1:, 1:], deviation[1:, 1:], np.zeros_like(own[1:])
        # Of w'Nu for the difference of two Wishart matrices, which have d + 1 degrees of freedom.
        return cls(matrix, deviation**2, own, n, 6 / (moments.layout.n_rows + 1))

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
class Estimate:
    """Coefficients that are not shrunk, and what their intervals need.

    Attributes
    ----------
    theta : ndarray of shape (k,)
    inverse : ndarray of shape (k, k)
        The inverse of H.
    error_variance : float
        Estimate of the variance of the errors.
    sampling, privacy : ndarray of shape (k, k)
        The parts of the covariance of ``theta``, to first order.
    is_usable : bool
        Whether H is positive definite.
    """

    equations: NoisyEquations
    theta: FloatArray
    inverse: FloatArray
    error_variance: float
    sampling: FloatArray
    privacy: FloatArray
    is_usable: bool
    freedom: float = math.inf

    @property
    def covariance(self) -> FloatArray:
        """The covariance of ``theta``."""
        return self.sampling + self.privacy

    def standard_errors(self, rows: FloatArray) -> FloatArray:
        """Return the standard errors of rows @ theta; infinite if the equations are not usable."""
        if not self.is_usable:
            return np.full(len(rows), np.inf)
        size = np.abs(rows).max(axis=1, keepdims=True)
        return np.asarray(
            size[:, 0] * np.sqrt(np.vecdot(rows / size @ self.covariance, rows / size))
        )

    def intervals(self, rows: FloatArray, level: float = 0.95) -> FloatArray:
        """Return the lower and upper ends of intervals for rows @ theta, (m, 2).

        Parameters
        ----------
        rows : ndarray of shape (m, k)
        level : float in (0, 1)
            The share of releases in which an interval holds the true value.
        """
        if not self.is_usable:
            return np.tile([-np.inf, np.inf], (len(rows), 1))
        # Rows with units such as 1e-300 have squares that overflow.
        size = np.abs(rows).max(axis=1, keepdims=True)
        return np.asarray(size * [self._interval(row, (1 - level) / 2) for row in rows / size])

    def _interval(self, row: FloatArray, tail: float) -> tuple[float, float]:
        """Return the values row @ theta + d with d^2 <= quantile^2 (a + b d + c d^2)."""
        spread = self.covariance @ row
        step = np.append(spread / (row @ spread), 0.0)
        start, weight = np.append(-self.theta, 1.0), self.inverse @ row

        def part(u: FloatArray, v: FloatArray) -> float:
            return float(weight @ self.equations.noise_covariance(u, v) @ weight)

        a = float(row @ spread)
        own = float(row @ self.sampling @ row)
        quantile = float(t.isf(tail, min(self.freedom * (a / own) ** 2, 1e9)))
        b, c = -2 * part(start, step), part(step, step)
        # The quantile of a sum of normal errors and noise with this kurtosis (Cornish and Fisher).
        excess = self.equations.excess * float(row @ self.privacy @ row / a) ** 2
        square = (quantile + max(0.0, quantile**3 - 3 * quantile) * excess / 24) ** 2
        lead = 1 - square * c
        if lead <= 0:
            return -np.inf, np.inf
        middle = square * b / (2 * lead)
        half = float(np.sqrt(middle**2 + square * a / lead))
        value = float(row @ self.theta)
        return value + middle - half, value + middle + half


def estimate(equations: NoisyEquations) -> Estimate:
    """Return the solution of the noisy normal equations, and its covariance."""
    matrix, n = equations.matrix, equations.n
    H, b = matrix[:-1, :-1], matrix[:-1, -1]
    inverse = np.asarray(np.linalg.pinv(H, hermitian=True))
    theta = inverse @ b
    u = np.append(-theta, 1.0)
    noise = equations.noise_covariance(u, u)
    # u'(G + N)u is least at theta. The second term is what the noise lets it fall by.
    freedom = 1 - len(theta) / n
    rest = float(u @ matrix @ u) / max(freedom, 1 / n) + float(np.sum(inverse * noise))
    least = np.sqrt(equations.product_variance(u)) / 2
    error_variance = max(rest, float(least))
    sampling = error_variance / n * inverse
    usable = bool(np.linalg.eigvalsh(H)[0] > 0)
    return Estimate(
        equations, theta, inverse, error_variance, sampling, inverse @ noise @ inverse, usable
    )


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
