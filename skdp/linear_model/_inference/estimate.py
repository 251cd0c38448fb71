"""Coefficients as quotients of released sums, with standard errors, intervals and tests.

Let H be the sum of w h z z' over records, and theta~ any public coefficients. For a direction w_j
with w_j[j] = 1, the coefficient of the equations H (theta - theta~) = g is

    theta_j = theta~_j + (w_j'g - T_j) / (w_j'H e_j),   T_j = sum over k != j of
                                                        (w_j'H e_k) (theta_k - theta~_k).

The directions come from a noisy H with a ridge: w_j is near to column j of the inverse. So each
factor of T_j is small, and is a public number plus noise of a known law, which the ridge bounds
where noise hides H. Therefore two released numbers for each coefficient, w_j'g and w_j'H e_j,
determine it, and a direction that the noise hides does not widen the intervals of others. The law
of T_j is known from draws of the noise. Statement and proof: ``docs/proofs/inference.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.stats import chi2, f, t

from skdp.domain import Domain
from skdp.linear_model._shared.gram import row_unit
from skdp.trusted.arrays import FloatArray

# Quantiles with more degrees of freedom are normal ones to 1e-12.
MOST_FREEDOM = 1e12
# Eigenvalues below this part of the greatest one are rounding errors. Greater variances are safe.
ROUNDING = 1e-13
# Draws of the noise, from which the law of the second-order term is computed. Their mean norm is
# the ridge of the directions. The least eigenvalue in the law is a multiple of it.
DRAWS, LEAST = 1000, 2.0


@dataclass(frozen=True, eq=False)
class NoisyCurvatures:
    """A noisy matrix H + N in the coordinates z, and draws of N."""

    matrix: FloatArray  # (k, k)
    noise: FloatArray  # (draws, k, k)
    metric: FloatArray  # (k, k): the unit matrix of the coordinates of the release
    ridge: float  # the usual norm of the noise, in units of the metric

    @classmethod
    def of(cls, matrix: FloatArray, deviation: FloatArray, back: FloatArray) -> NoisyCurvatures:
        """Return the matrix of rows ``back @ u``, from that of rows u and its deviations."""
        noise = normal_draws(deviation, DRAWS)
        size = usual_norm(noise[:20])
        return cls(back @ matrix @ back.T, back @ noise @ back.T, back @ back.T, size)

    @cached_property
    def _parts(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues in units of the metric, and the eigenvectors."""
        found = eigh(self.matrix, self.metric)
        return found[0], found[1]

    @cached_property
    def inverse(self) -> FloatArray:
        """The inverse of the nonnegative part with a ridge."""
        values, vectors = self._parts
        return np.asarray((vectors / (values.clip(min=0) + self.ridge)) @ vectors.T)

    @cached_property
    def raised(self) -> FloatArray:
        """The matrix with eigenvalues of at least the ridge."""
        return self.floored(self.ridge)

    def floored(self, least: float) -> FloatArray:
        """Return the matrix with eigenvalues of at least a number."""
        values, vectors = self._parts
        own = self.metric @ vectors
        return np.asarray((own * values.clip(min=least)) @ own.T)

    def directions(self, at: NDArray[np.intp]) -> FloatArray:
        """Return the columns ``at`` of the inverse over their diagonal entries, (k, m)."""
        return np.asarray(self.inverse[:, at] / self.inverse[at, at])

    def law(
        self,
        w: FloatArray,
        at: NDArray[np.intp],
        rest: FloatArray,
        noise: FloatArray,
        errors: FloatArray,
    ) -> QuotientLaw:
        """Return the law of the errors of the quotients of directions ``w``.

        H (theta - theta~) is ``rest`` plus ``noise``, (draws, k), and the numerators have
        ``errors``, (draws, m), beside those that are independent of the noise. The product of a
        direction with this, less the own term, is the second-order term. So an eigenvalue that the
        noise hides cancels, but for the coefficients that depend on its direction.
        """
        values, vectors = self._parts
        inverse = (vectors / values.clip(min=LEAST * self.ridge)) @ vectors.T
        whole = rest + noise
        term = error = whole @ inverse
        for _ in range(2):  # to second order in N, as the second-order term is
            term = np.vecdot(self.noise, term[:, None]) @ inverse
            error = error + term
        own = np.einsum("jm,djm->dm", w, self.noise[:, :, at])
        second = whole @ w - (np.vecdot(w.T, self.matrix[:, at].T) - own) * error[:, at]
        mean = second.mean(axis=0)
        second += errors - mean
        variance = np.square(second).mean(axis=0)
        return QuotientLaw(
            mean,
            second.T @ second / len(second),
            np.square(own).mean(axis=0),
            (own * second).mean(axis=0),
            np.maximum((second**4).mean(axis=0) - 3 * variance**2, 0.0),
        )


class QuotientLaw(NamedTuple):
    """The mean and the variances of the second-order terms, (m,) or (m, m)."""

    mean: FloatArray
    privacy: FloatArray
    spread: FloatArray  # of the denominators
    shared: FloatArray  # the covariances of both
    fourth: FloatArray  # the excess of the fourth moments


def normal_draws(deviation: FloatArray, size: int) -> FloatArray:
    """Return symmetric matrices of normal entries with given deviations, (size, k, k)."""
    draws = np.triu(np.random.default_rng(0).normal(size=(size, *deviation.shape)))
    return np.asarray((draws + np.swapaxes(np.triu(draws, 1), 1, 2)) * deviation)


def usual_norm(matrices: FloatArray) -> float:
    """Return the mean norm of symmetric matrices."""
    return float(np.linalg.norm(matrices, 2, axis=(1, 2)).mean())


@dataclass(frozen=True, eq=False)
class NoisyEstimate:
    """Coefficients ``start + numerator / denominator``, and the law of the errors of both."""

    start: FloatArray  # (k,)
    numerator: FloatArray
    denominator: FloatArray
    sampling: FloatArray  # the parts of the covariance of the numerators, (k, k)
    privacy: FloatArray
    spread: FloatArray  # the variance of the noise in the denominators, (k,)
    shared: FloatArray  # its covariance with that in the numerators, (k,)
    excess: FloatArray  # the excess kurtosis of the noise in the numerators, (k,)
    # Degrees of freedom of the estimate of the sampling part. The privacy part is known.
    freedom: float = math.inf

    @cached_property
    def step(self) -> FloatArray:
        """The quotients."""
        quotient = np.zeros(len(self.start))
        np.divide(self.numerator, self.denominator, out=quotient, where=self.denominator != 0)
        return quotient

    @property
    def theta(self) -> FloatArray:
        """The coefficients, (k,)."""
        return self.start + self.step

    @cached_property
    def covariance(self) -> FloatArray:
        """The covariance of ``theta``, to first order."""
        return self._of_quotients(self.sampling + self.privacy, noisy=True)

    def _of_quotients(self, part: FloatArray, noisy: bool = False) -> FloatArray:
        own = part.copy()
        if noisy:
            own += np.diag(self.step**2 * self.spread - 2 * self.step * self.shared)
        size = np.where(self.denominator == 0, 1.0, self.denominator)
        return np.asarray(own / np.outer(size, size))

    def is_hidden(self, tail: float) -> NDArray[np.bool_]:
        """Return whether the noise can hide a denominator, (k,), at the two tails."""
        freedom, factor = self._law
        root = factor * t.isf(tail, freedom)
        return np.asarray(~(self.denominator > root * np.sqrt(self.spread)))

    @cached_property
    def _law(self) -> tuple[FloatArray, FloatArray]:
        """Degrees of freedom and factors: the errors of the numerators are t times the factor.

        The degrees are those of Satterthwaite for the estimate of the sampling part, and those that
        have the excess kurtosis of the noise. A Laplace law has the quantile .975 exactly.
        """
        sampling = np.diag(self.sampling)
        whole = sampling + np.diag(self.privacy)
        share = np.divide(sampling, whole, out=np.zeros(len(whole)), where=whole > 0)
        heavy = 4 + 6 / (self.excess * (1 - share) ** 2).clip(min=1e-9)
        freedom = 1 / (1 / heavy + share**2 / self.freedom)
        return np.minimum(freedom, MOST_FREEDOM), np.sqrt(1 - 1.5 / heavy)

    def standard_errors(self, rows: FloatArray, part: FloatArray | None = None) -> FloatArray:
        """Return the standard errors of rows @ theta, to first order; infinite where one is hidden.

        ``part`` is ``sampling`` or ``privacy``, or None for their sum.
        """
        rows, size = _of_size_one(rows)
        own = self.covariance if part is None else self._of_quotients(part, part is self.privacy)
        found = size * np.sqrt(np.vecdot(rows @ own, rows).clip(min=0))
        return np.where((rows != 0) @ self.is_hidden(0.025), np.inf, found)

    def intervals(self, rows: FloatArray, level: float = 0.95) -> FloatArray:
        """Return the lower and upper ends of intervals for rows @ theta, (m, 2).

        An interval contains the true value in a share ``level`` of releases.
        """
        rows, size = _of_size_one(rows)
        ends = [self._interval(row, (1 - level) / 2) for row in rows]
        return np.asarray(size[:, None] * np.reshape(ends, (-1, 2)))

    def _interval(self, row: FloatArray, tail: float) -> tuple[float, float]:
        value, at = float(row @ self.theta), np.flatnonzero(row)
        if self.is_hidden(tail)[at].any():
            return -math.inf, math.inf
        freedom, factor = self._law_of(row[None])
        root = factor * float(t.isf(tail, freedom))
        if len(at) != 1:
            half = root * float(self.standard_errors(row[None])[0])
            return value - half, value + half
        # Fieller: the x with (numerator - x denominator)^2 <= quantile^2 times its variance at x.
        j, square = int(at[0]), root**2
        a, b = self.numerator[j], self.denominator[j]
        whole = self.sampling[j, j] + self.privacy[j, j]
        lead, middle = b**2 - square * self.spread[j], a * b - square * self.shared[j]
        half = math.sqrt(max(middle**2 - lead * (a**2 - square * whole), 0.0))
        ends = np.array([middle - half, middle + half]) / lead + self.start[j]
        return float((row[j] * ends).min()), float((row[j] * ends).max())

    def test(self, rows: FloatArray, values: FloatArray) -> tuple[float, float]:
        """Return the statistic and the p-value of the test of rows @ theta = values.

        The rows, (m, k), are linearly independent. For one row the p-value is at least 1 - level
        if and only if the interval contains the value. For m rows the statistic is compared with m
        times F with m degrees of freedom, and with chi-square if the sampling part is known.
        """
        rows, size = _of_size_one(rows)
        values = values / size
        used = np.flatnonzero(rows.any(axis=0))
        if len(rows) * len(used) == 1:
            j = int(used[0])
            x = float(values[0] / rows[0, j] - self.start[j])
            whole = self.sampling[j, j] + self.privacy[j, j]
            # Over the size of x, whose square may overflow.
            one = 1 / max(1.0, abs(x))
            part = x * one
            variance = whole * one**2 - 2 * part * one * self.shared[j] + part**2 * self.spread[j]
            distance = self.numerator[j] * one - part * self.denominator[j]
            square = distance**2 / max(variance, 1e-300)
            # The limit for values far away, if the noise explains the denominator.
            if self.spread[j] > 0:
                square = min(square, max(self.denominator[j], 0.0) ** 2 / self.spread[j])
        elif self.is_hidden(0.025)[used].any():
            return 0.0, 1.0
        else:
            square = _square_in(rows @ self.covariance @ rows.T, values - rows @ self.theta)
        freedom, factor = self._law_of(rows)
        return float(square), _tail(float(square) / factor**2, len(rows), freedom)

    def _law_of(self, rows: FloatArray) -> tuple[float, float]:
        """Return the degrees of freedom and the factor of the worst coefficient in the rows."""
        used = rows.any(axis=0)
        freedom, factor = self._law
        return float(freedom[used].min(initial=MOST_FREEDOM)), float(factor[used].max(initial=0.0))


@dataclass(frozen=True, eq=False)
class NoisyEquations:
    """The released sums of a whole table, from which those of fewer coefficients follow."""

    curvatures: FloatArray  # of rows u, (q, q)
    deviation: FloatArray  # of the noise in them
    back: FloatArray  # from u to z, (k, q)
    start: FloatArray  # (k,)
    numerator: FloatArray  # in the directions of the curvatures
    direct: FloatArray  # the variances of their noise

    def restricted(
        self, matrix: FloatArray, constant: FloatArray, whole: NoisyEstimate
    ) -> NoisyEstimate:
        """Return the estimate of gamma for coefficients ``matrix @ gamma + constant``.

        Its equations are those of ``whole`` times the transpose of the matrix.
        """
        own = NoisyCurvatures.of(self.curvatures, self.deviation, self.back)
        w = own.directions(np.arange(len(self.start)))
        H, noise, metric = (
            matrix.T @ part @ matrix for part in (own.matrix, own.noise, own.metric)
        )
        less = NoisyCurvatures(H, noise, metric, own.ridge)
        first = less.inverse @ matrix.T @ own.matrix @ (self.start - constant)
        left = self.start - constant - matrix @ first
        rest = matrix.T @ (np.linalg.solve(w.T, self.numerator) + own.matrix @ left)
        draws = np.random.default_rng(1).normal(size=(DRAWS, len(w))) * np.sqrt(self.direct)
        errors = (np.linalg.solve(w.T, draws.T).T + own.noise @ left) @ matrix
        at = np.arange(len(first))
        v = less.directions(at)
        law = less.law(v, at, rest, -errors, errors @ v)
        into = v.T @ matrix.T @ np.linalg.inv(w.T)
        numerator, denominator = v.T @ rest - law.mean, np.vecdot(v.T, less.matrix)
        # What is left out is a part of the errors. It is z'gap, whose mean square is that of the
        # equations less their noise, but for what gamma takes up of both.
        gap = self.start - constant - matrix @ (first + numerator / denominator)
        crossed = np.linalg.solve(w.T, self.numerator) + own.matrix @ gap
        errors = np.linalg.solve(w.T, draws.T).T + own.noise @ gap
        errors -= errors @ matrix @ less.inverse @ matrix.T @ own.matrix
        square = crossed @ own.inverse @ crossed
        square -= np.vecdot(errors @ own.inverse, errors).mean()
        left_out = max(float(square / own.matrix[0, 0]), 0.0)
        return NoisyEstimate(
            first,
            numerator,
            denominator,
            into @ whole.sampling @ into.T + left_out * v.T @ less.raised @ v,
            law.privacy,
            law.spread,
            law.shared,
            law.fourth / np.diag(law.privacy) ** 2,
            whole.freedom,
        )


def explained(
    matrix: FloatArray, slopes: FloatArray, covariance: FloatArray, error: float
) -> float | None:
    """Return the share of the variance of the target that rows z explain, None if it overflows.

    ``matrix`` has the sums of products of (1, z), ``covariance`` is that of the slopes, whose
    errors add to the variance, and ``error`` is the variance of the errors.
    """
    mean = matrix[0, 1:] / matrix[0, 0]
    own = matrix[1:, 1:] / matrix[0, 0] - np.outer(mean, mean)
    found = max(float(slopes @ own @ slopes - np.sum(own * covariance)), 0.0)
    share = found / (found + error) if error > 0 else 1.0
    return share if math.isfinite(share) else None


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
