"""Scores and curvatures at a public model, and the estimate that follows from them.

The model predicts eta = a + c'x from encoded columns. The score of a row is psi(y, eta), with
values in [-1, 1], and its curvature is h(y, eta) = -d psi / d eta. For labels psi = y - p and
h = p (1 - p), with the probability p = 1 / (1 + exp(-eta)). For numbers psi is the residual divided
by a public bound and clipped to [-1, 1], and h is the indicator that it is not clipped, divided by
the bound.

A row z = (1, scaled columns) has the weight w = min(1, 1 / |f z|^2) for public factors f. Then
w psi f z and sqrt(w h) f z are bounded, and the weight depends on the columns only. So the
equations sum w psi z = 0 have the solution that those without weights have in expectation. Every
result depends on one row only, bit for bit: products of matrices are exact, as all entries are
multiples of powers of two with few bits.

With the released sums of scores g and of curvatures S, in the coordinates z of scaled rows, the
difference d of the population's coefficients and the public model satisfies to first order
g - unit S d = (sum of w psi z at the population's coefficients) + noise. The solution S^-1 g / unit
is one step of Newton's method; it is not shrunk. Its covariance has a sampling part, from the
released sums of squared influences, and a privacy part, from the known laws of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.linalg import norm
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from skdp.domain import Domain
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._inference.estimate import (
    NoisyEquations,
    NoisyEstimate,
    estimate,
    user_units,
)
from skdp.linear_model._inference.plan import InferencePlan
from skdp.linear_model._inference.table import Inference
from skdp.linear_model._shared.gram import (
    NUMBER_BITS,
    exact_both,
    exact_sum,
    exact_sums,
    in_units,
    on_grid,
    release_exact,
    whole_rows,
)
from skdp.linear_model._shared.scaling import Scaler
from skdp.rows import Block, Rows
from skdp.rows.memory import MOST_ROWS
from skdp.rows.persons import WHOLE
from skdp.trusted.arrays import FloatArray, squared_lengths
from skdp.trusted.certify import NoisySum
from skdp.trusted.noise import variances

# Bits of a float.
_FLOAT_BITS = 53
# Coefficients are at most 2^MOST_POWER, and multiples of 2^-MOST_POWER or so. Then no product with
# them overflows, and none loses bits.
MOST_POWER = 400


def finite(values: ArrayLike) -> FloatArray:
    """Return values within the limits of coefficients; 0 stands for nan.

    Released coefficients overflow if units are extreme. The result of a record would then be no
    number, and a sum that is no number is not bounded.
    """
    most = math.ldexp(1.0, MOST_POWER)
    return np.asarray(np.nan_to_num(np.asarray(values, float), nan=0.0).clip(-most, most))


def few_bits(values: FloatArray, terms: int) -> FloatArray:
    """Return values rounded such that their products with rows on the grid are exact.

    The sum of ``terms`` products of them with multiples of 2^-20 in [-1, 1] is then exact in
    floats, in any order.
    """
    values = finite(values)
    bits = _FLOAT_BITS - NUMBER_BITS - math.ceil(math.log2(max(terms, 2)))
    top = max(math.frexp(float(np.abs(values).max(initial=0.0)))[1], -MOST_POWER)
    return np.asarray(np.ldexp(np.round(np.ldexp(values, bits - 1 - top)), top + 1 - bits))


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores at a public model."""

    domain: Domain
    slopes: FloatArray  # of the encoded columns; those of a ball are divided by their unit
    constant: float
    label: int | None  # the position of the one that the model predicts; None for a regression
    bound: float = 1.0  # of residuals, in units of the encoded target; not used for labels
    usual: float = 1.0  # about the mean square of the scores of a regression

    @property
    def unit(self) -> float:
        """The greatest curvature, for which `of` returns 1."""
        return 1 / self.bound if self.label is None else 0.25

    @cached_property
    def _slopes(self) -> FloatArray:
        return few_bits(self.slopes, len(self.slopes))

    @cached_property
    def _constant(self) -> float:
        return float(finite(self.constant))

    def residuals(self, rows: FloatArray) -> FloatArray:
        """Return y - eta of rows (1, x, y) of a regression, (n,)."""
        return rows[:, -1] - (rows[:, 1:-1] @ self._slopes + self._constant)

    def of(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of rows (1, x, y) and their curvatures over `unit`, (n,) each.

        The columns are on the grid.
        """
        if self.label is None:
            share = self.residuals(rows) / self.bound
            return share.clip(-1.0, 1.0), (np.abs(share) <= 1.0).astype(float)
        p = expit(rows[:, 1:-1] @ self._slopes + self._constant)
        return (rows[:, -1] == self.label) - p, 4 * p * (1 - p)


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Maps of rows (1, x, y) for the sums of scores and of curvatures, in place.

    ``cross`` makes rows (w f z, psi), and ``square`` makes rows (sqrt(w h) f z, 0).
    """

    scores: Scores
    scaler: Scaler  # of the encoded columns
    factor: FloatArray  # the factors f, (n_encoded + 1,)

    def weighted(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return f z and the square roots of the weights for rows (1, x, y)."""
        z = rows[:, :-1] * np.append(1.0, 1 / self.scaler.scale[:-1])
        z[:, 1:] -= self.scaler.centre[:-1] / self.scaler.scale[:-1]
        z *= self.factor
        return z, 1 / np.sqrt(np.maximum(squared_lengths(z), 1.0))

    def cross(self, rows: FloatArray) -> None:
        on_grid(rows)
        psi, _ = self.scores.of(rows)
        z, root = self.weighted(rows)
        rows[:, :-1] = z * np.square(root)[:, None]
        rows[:, -1] = psi

    def square(self, rows: FloatArray) -> None:
        on_grid(rows)
        _, curvature = self.scores.of(rows)
        z, root = self.weighted(rows)
        rows[:, :-1] = z * (root * np.sqrt(curvature))[:, None]
        rows[:, -1] = 0.0


@dataclass(frozen=True, eq=False)
class Influences:
    """The influence of each row on the coefficients: A w f z psi, shrunk to length 1 at most.

    The matrix is (m, n_encoded + 1).
    """

    rows: ScoreRows
    matrix: FloatArray

    @cached_property
    def _matrix(self) -> FloatArray:
        return few_bits(self.matrix, self.matrix.shape[1])

    def of(self, block: Block) -> Iterator[FloatArray]:
        """Yield the bounded influences of parts of a block, (n, m), on the grid."""
        for rows in whole_rows(self.rows.scores.domain, block, self.rows.cross):
            yield bounded((rows[:, :-1] @ self._matrix.T) * rows[:, -1:])


def with_residuals(scores: Scores, block: Block) -> Block:
    """Return a block whose target is half of the residual, clipped to [-1, 1]."""
    parts = [scores.residuals(rows) / 2 for rows in whole_rows(scores.domain, block, None)]
    target: NDArray[np.float64] = np.concatenate(parts).clip(-1.0, 1.0)
    return replace(block, target=target)


# Residuals are clipped at so many standard deviations.
RESIDUALS = 4.0
# The greatest sum of squared influences of a record is such that the noise in a ratio is
# RATIO_NOISE, but at least a multiple of the number of coefficients over n.
RATIO_NOISE, LEAST_LONGEST = 0.2, 8.0
# The ratios of variances to those for independent rows and errors of one variance: the standard
# deviation of their mean from 1, that of each from their mean as a share of it, and the least
# share. A mean below HIDDEN deviations of its noise is raised to them.
COMMON, UNEQUAL, LEAST_RATIO, HIDDEN = 1.0, 0.5, 0.2, 1.5
# The kurtosis of the changes of predictors (that of Laplace's law), and the longest step from
# which their size is estimated.
KURTOSIS, MOST_STEP = 6.0, 0.95


def exact_squares(rows: Rows, influences: Influences, are_persons: bool) -> NDArray[Any]:
    """Return the sums over records of their squared influences, in units of 2^-40.

    The influence of a person is the sum of those of its rows times their shares. Its length is at
    most 1, as that of a row.
    """

    def squares(block: Block) -> NDArray[Any]:
        return _added(squares_of(own) for own in influences.of(block))

    def of_persons(block: Block) -> list[tuple[NDArray[np.intp], FloatArray]]:
        """Return the person of each row, and the influences of rows times their shares."""
        if block.person is None or block.share is None:  # a later reading found no rows
            return []
        # Multiples of 2^-20 times 30 bits.
        own = np.concatenate([*influences.of(block)]) * (block.share / WHOLE)
        return [(block.person.copy(), own)]

    if not are_persons:
        return np.asarray(exact_sum(rows, squares))
    found = rows.sum(of_persons)
    codes = np.concatenate([np.empty(0, np.intp), *(own for own, _ in found)])
    values = np.concatenate([np.empty((0, len(influences.matrix))), *(own for _, own in found)])
    # Sums of multiples of 2^-50 that are at most 1 are exact in any order.
    sums = np.zeros((int(codes.max(initial=0)) + 1, values.shape[1]))
    for j, own in enumerate(values.T):
        sums[:, j] = np.bincount(codes, own, len(sums))
    on_grid(sums)
    parts = (sums[at : at + MOST_ROWS] for at in range(0, len(sums), MOST_ROWS))
    return _added(squares_of(part).astype(object) for part in parts)


def _added(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.asarray(sum(parts))


def bounded(influences: FloatArray) -> FloatArray:
    """Return rows shrunk to a length of at most 1, on the grid."""
    length = np.sqrt(np.maximum(squared_lengths(influences), 1.0))
    found = influences / length[:, None]
    on_grid(found)
    return found


def squares_of(rows: FloatArray) -> NDArray[np.int64]:
    return in_units(np.ones(len(rows)) @ np.square(rows))


@dataclass(frozen=True, eq=False)
class InferenceRelease:
    """The releases at a public model, and the estimate that follows from them."""

    plan: InferencePlan
    rows: Rows
    intercept: bool
    scores: Scores  # at the model; residuals have the greatest bound
    size: float | None  # a public number of records, if there is one, used where none is released
    are_persons: bool  # whether records are persons, with the influences of all their rows

    @cached_property
    def _releases(self) -> dict[str, NoisySum]:
        return {own.name: own for own in self.plan.releases}

    @property
    def layout(self) -> MomentLayout:
        return self.plan.curvatures.layout

    def first(self) -> Any:
        """Return the exact sums of the first release; errors in the data are raised here."""
        if self.plan.scales is None:
            return self.rows.sum(len)
        residuals = partial(with_residuals, self.scores) if self.scores.label is None else None
        return self.plan.scales.sums.exact(*exact_sums(self.rows, residuals))

    def release(self, first: Any, rng: Generator) -> Inference:
        """Return the estimate of the coefficients; it is not shrunk."""
        n, scaler, scores = self._scaled(first, rng)
        limits, notes = self.plan.limits, [*_NOTES]
        notes.append(_OF_NUMBERS if scores.label is None else _OF_LABELS)
        if limits is not None and n is not None:
            notes.append(limits.release(self._releases["limits"], self.rows, n, rng))
        places = ScoreRows(scores, scaler, self.plan.factor)
        exact, statistic = exact_both(self.rows, places.cross, self.layout, places.square)
        crossed = release_exact(self._releases["scores"], exact, rng)
        curved = release_exact(self._releases["curvatures"], statistic, rng)
        if n is None:  # weights and curvatures are at most 1
            n = max(1.0, float(curved[0]) / float(self.plan.factor[0]) ** 2)
        equations = self._equations(crossed, curved, n, scores.unit)
        # The sampling part of errors with one variance: the mean of psi^2 over that of h, in units.
        usual = scores.usual if scores.label is None else scores.unit
        found = estimate(equations, usual / scores.unit**2)
        found = with_ratios(found, *self._ratios(found, places, n, rng))
        if scores.label is not None:
            # The mean of the weighted curvatures, from 0 to 1 and at least its noise.
            noise = math.sqrt(float(variances(self.plan.curvatures)[0]))
            mean = max(float(curved[0]), noise) / float(self.plan.factor[0]) ** 2 / n
            found = with_bending(found, min(mean, 1.0))
        # The map of changes of coefficients of scaled columns to the user's units.
        step = np.diag(np.append(1.0, 1 / scaler.scale[:-1]))
        step[0, 1:] = -scaler.centre[:-1] / scaler.scale[:-1]
        skipped = int(not self.intercept)
        domain = self.rows.domain
        rows, constants = user_units(domain, self.intercept, scores.label is None)
        model = np.append(scores.constant, scores.slopes)[skipped:]
        units = rows @ step[skipped:, skipped:]
        return Inference.of(found, units, constants + rows @ model, domain, notes)

    def _scaled(self, exact: Any, rng: Generator) -> tuple[float | None, Scaler, Scores]:
        """Release scales; return the number of records, the scaler, and the bounded scores."""
        stage, q, scores = self.plan.scales, self.layout.n_encoded, self.scores
        if stage is None:
            return self.size, Scaler.of(q, [], np.empty(0), np.empty(0)), scores
        is_number = scores.label is None
        seen = stage.release(self._releases["scales"], exact, rng)
        noise = stage.deviations(seen.n)[-len(seen.square) :] / stage.sums.factor
        mean = seen.mean.clip(-1, 1)
        if not self.intercept:
            mean = np.zeros_like(mean)
        # Too great a scale loses little.
        variance = np.clip(seen.square - mean**2, noise, 1.0)
        spread = np.sqrt(variance + noise)
        columns = np.array(stage.sums.columns)
        if is_number:
            bound, usual = RESIDUALS * spread[-1], variance[-1] / (RESIDUALS * spread[-1]) ** 2
            scores = replace(scores, bound=2 * float(bound), usual=float(usual))
            columns, mean, spread = columns[:-1], mean[:-1], spread[:-1]
        return seen.n, Scaler.of(q, columns, mean, spread), scores

    def _equations(
        self, crossed: FloatArray, curved: FloatArray, n: float, unit: float
    ) -> NoisyEquations:
        """Return the equations S d = g / unit, divided by the number of records."""
        layout, factor, k = self.layout, self.plan.factor, self.layout.n_rows
        matrix, variance = np.zeros((2, k + 1, k + 1))
        both = np.outer(factor, factor)
        matrix[:k, :k] = layout.gram(curved) / both
        i, j = layout.pairs.T
        own = variances(self.plan.curvatures) / layout.scale**2 / both[i, j] ** 2
        variance[i, j] = variance[j, i] = own
        at = layout.indicators
        matrix[at, at], variance[at, at] = matrix[0, at], variance[0, at]
        matrix[k, :k] = matrix[:k, k] = crossed / factor / unit
        variance[k, :k] = variance[:k, k] = variances(self.plan.scores) / (factor * unit) ** 2
        own_square = np.isin(np.arange(k + 1), at)
        kept = slice(None) if self.intercept else slice(1, None)
        own_square &= self.intercept
        facts = matrix[kept, kept] / n, variance[kept, kept] / n**2, own_square[kept]
        return NoisyEquations(*facts, n, 6 / (k + 1))

    def _ratios(
        self, found: NoisyEstimate, places: ScoreRows, n: float, rng: Generator
    ) -> tuple[FloatArray, float]:
        """Release squared influences; return the ratios of variances to those of ``found``."""
        k = len(found.theta)
        size = np.sqrt(np.abs(np.diag(found.sampling)))
        size[size == 0] = 1.0
        noise = math.sqrt(float(variances(self.plan.squares)[0]))
        step = found.inverse / n / places.scores.unit
        matrix = np.zeros((k, self.layout.n_rows))
        matrix[:, self.layout.n_rows - k :] = step / size[:, None]
        matrix /= self.plan.factor
        # No influence is longer than the norm of the matrix.
        greatest = float(norm(matrix, 2)) ** 2
        longest = min(max(RATIO_NOISE / noise, LEAST_LONGEST * k / n), greatest) or 1.0
        matrix /= math.sqrt(longest)
        exact = exact_squares(self.rows, Influences(places, matrix), self.are_persons)
        padded = np.zeros(self.layout.n_rows, dtype=object)
        padded[:k] = exact
        ratios = release_exact(self._releases["squares"], padded, rng)[:k] * longest
        return shrunk_ratios(ratios, noise * longest)


def with_bending(found: NoisyEstimate, curvature: float) -> NoisyEstimate:
    """Return an estimate of labels whose sampling part holds the error of the linear equations.

    ``curvature`` is the mean of the weighted curvatures 4 p (1 - p). The square of a bound on the
    error is added to the variance: an interval of a normal estimate at this distance from the true
    value then holds it as often as one without an error.
    """
    H = found.equations.matrix[:-1, :-1]
    # Without what sampling and noise add to it.
    size = float(found.theta @ H @ found.theta) - float(np.sum(H * found.covariance))
    # The root mean square of 1 - 2 p, and so of p'' / p'.
    bent = math.sqrt(max(1 - curvature, 0.0))
    if not (found.is_usable and size > 0 and bent > 0):
        return found
    step = bent * math.sqrt(size / curvature)
    # A change of predictors by t may give a step of 1 - exp(-t) only.
    change = -math.log1p(-min(step, MOST_STEP))
    bound = KURTOSIS * curvature / 4 * change**4 / bent**2
    return replace(found, sampling=found.sampling + bound * found.inverse)


def shrunk_ratios(ratios: FloatArray, noise: float) -> tuple[FloatArray, float]:
    """Return noisy ratios shrunk towards their mean, and their mean towards 1.

    The mean is at least what the noise could hide. Also return the relative deviation of the
    results.
    """
    k = len(ratios)
    share = COMMON**2 / (COMMON**2 + noise**2 / k)
    middle = max(1 + share * (float(ratios.mean()) - 1), HIDDEN * noise / math.sqrt(k))
    prior = (UNEQUAL * middle) ** 2
    kept = prior / (prior + noise**2)
    found = np.maximum(middle + kept * (ratios - middle), LEAST_RATIO * middle)
    left = math.sqrt(kept * noise**2 + (1 - kept) ** 2 * share * noise**2 / k)
    return found, left / middle


def with_ratios(found: NoisyEstimate, ratios: FloatArray, deviation: float) -> NoisyEstimate:
    """Return an estimate whose sampling variances are multiplied by the ratios.

    They are those of the coefficients of scaled columns. An intercept in the user's units may be
    far from the records and correlated with slopes, and a ratio of its own would change
    combinations of them, such as predictors near the records, by more than this ratio.
    """
    root = np.sqrt(ratios)
    sampling = found.sampling * np.outer(root, root)
    return replace(found, sampling=sampling, freedom=2 / max(deviation, 1e-9) ** 2)


_NOTES = (
    "Method: one step of Newton's method from the model, with sums of scores and of curvatures. The"
    " coefficients are not shrunk.",
    "Standard errors are robust: they assume neither equal variances of the errors nor independent"
    " rows of a person. Records are independent.",
)
_OF_LABELS = (
    "The coefficients are those of the logistic likelihood, for records clipped to the bounds of"
    " the domain. Rows far from the centre have smaller weights. Sampling errors contain a bound on"
    " the error of the one step, which is large if the model is far from the estimate."
)
_OF_NUMBERS = (
    "The coefficients are those of least squares with residuals clipped at 4 standard deviations,"
    " for records clipped to the bounds of the domain. Rows far from the centre have smaller"
    " weights. If errors are skewed, the intercept is not that of the mean."
)
