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
    DRAWS,
    NoisyCurvatures,
    NoisyEstimate,
    user_units,
)
from skdp.linear_model._inference.plan import InferencePlan
from skdp.linear_model._inference.table import Inference
from skdp.linear_model._inference.theorem import CELLS
from skdp.linear_model._shared.gram import (
    GRAM_BITS,
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

    def moved(self, step: FloatArray) -> ScoreRows:
        """Return the maps at coefficients that differ by a step in those of the columns f z."""
        step = self.factor * step / np.append(1.0, self.scaler.scale[:-1])
        constant = self.scores.constant + step[0] - float(step[1:] @ self.scaler.centre[:-1])
        scores = replace(self.scores, slopes=self.scores.slopes + step[1:], constant=constant)
        return replace(self, scores=scores)


@dataclass(frozen=True, eq=False)
class Instruments:
    """The sums of w psi v and of w h v x over records, for directions v and one column x of each.

    The vector w v of a row is shrunk to length 1 at most, as is that of the products.
    """

    rows: ScoreRows
    matrix: FloatArray  # (m, n_encoded + 1): the directions
    columns: NDArray[np.intp]  # (m,)
    units: FloatArray  # of the columns f z in the products, (m,)
    gain: float  # the factor of products w psi v, which are then shrunk to length 1 at most

    @cached_property
    def _matrix(self) -> FloatArray:
        return few_bits(self.matrix, self.matrix.shape[1])

    def sums(self, block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return both sums over a block in units of 2^-40, (m,) each."""
        found = np.zeros((2, len(self.matrix)), dtype=np.int64)
        for rows in whole_rows(self.rows.scores.domain, block, None):
            psi, curvature = self.rows.scores.of(rows)
            z, root = self.rows.weighted(rows)
            own = z * np.square(root)[:, None]
            on_grid(own)
            own = bounded(own @ self._matrix.T)
            found[0] += in_units(np.ones(len(own)) @ bounded(own * (self.gain * psi)[:, None]))
            own = bounded(own * (z[:, self.columns] / self.units) * curvature[:, None])
            found[1] += in_units(np.ones(len(own)) @ own)
        return found[0], found[1]


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


def counts_of_sizes(
    scores: Scores, columns: NDArray[np.intp], centre: FloatArray, block: Block
) -> NDArray[np.int64]:
    """Return the numbers of deviations of columns, and of residuals, by size, in units of 2^-40.

    Cell j has those of half sizes from 2^(-(j + 1) / 2) to 2^(-j / 2); the ends have all others.
    """
    m = len(columns) + (scores.label is None)
    found = np.zeros(m * CELLS, dtype=np.int64)
    for rows in whole_rows(scores.domain, block, None):
        values = rows[:, 1 + columns] - centre
        if scores.label is None:
            values = np.column_stack([values, scores.residuals(rows)])
        share, exponent = np.frexp(np.abs(values) / 2)
        cell = np.where(share == 0, CELLS, -2 * exponent + (share < math.sqrt(0.5)))
        cell = cell.clip(0, CELLS - 1) + CELLS * np.arange(m)
        found += np.bincount(cell.ravel(), minlength=len(found))
    return np.asarray(found * 2**GRAM_BITS)


def deviations_of(counts: FloatArray, noise: float) -> FloatArray:
    """Return the root mean squares of values from noisy counts by size, (m, CELLS) to (m,).

    Cells with fewer records than the noise could add are left out, and so are far values. It is 2
    where no cell is left.
    """
    seen = np.where(counts > SEEN * noise, counts, 0.0)
    total = seen.sum(axis=1)
    squares = 4 * 2.0 ** -(np.arange(CELLS) + 0.5)
    return np.sqrt(np.where(total > 0, seen @ squares, 4.0) / np.where(total > 0, total, 1.0))


# Residuals are clipped at so many standard deviations. Cells of residuals with counts below so
# many standard deviations of the noise are left out.
RESIDUALS, SEEN = 4.0, 3.0
# The greatest sum of squared influences of a record is such that the noise in a ratio is
# RATIO_NOISE, but at least a multiple of the number of coefficients over n.
RATIO_NOISE, LEAST_LONGEST = 0.2, 8.0
# The ratios of variances to those for independent rows and errors of one variance: the standard
# deviation of their mean from 1, that of each from their mean as a share of it, and the least
# share. A mean below HIDDEN deviations of its noise is raised to them.
COMMON, UNEQUAL, LEAST_RATIO, HIDDEN = 1.0, 0.5, 0.2, 1.5
# Greatest length of the vector of v over their deviations, for one coefficient and as a multiple
# of the root of their number; greatest product of v and a number's column, in the same units.
ONE_REACH, MANY_REACH = 4.0, 2.5
ONE_LEVER, MANY_LEVER = 2.0, 4.0
# Greatest product of v and a residual, in deviations of both, and its multiple of the reach.
ONE_PRODUCT, MANY_PRODUCT = 7.0, 2.5


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
        return self.plan.scales.sums.exact(*exact_sums(self.rows))

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
        first_factor = float(self.plan.factor[0]) ** 2
        if n is None:  # weights and curvatures are at most 1
            n = max(1.0, float(curved[0]) / first_factor)
        noise = math.sqrt(float(variances(self.plan.curvatures)[0]))
        mass = min(max(float(curved[0]), noise) / first_factor, n)
        found = self._quotients(places, crossed, curved, n, mass, rng)
        # The map of changes of coefficients of scaled columns to the user's units.
        step = np.diag(np.append(1.0, 1 / scaler.scale[:-1]))
        step[0, 1:] = -scaler.centre[:-1] / scaler.scale[:-1]
        skipped = int(not self.intercept)
        domain = self.rows.domain
        rows, constants = user_units(domain, self.intercept, scores.label is None)
        model = np.append(scores.constant, scores.slopes)[skipped:]
        units = rows @ step[skipped:, skipped:]
        return Inference.of(found, self._at, units, constants + rows @ model, domain, notes)

    @cached_property
    def _at(self) -> NDArray[np.intp]:
        """Positions of the estimated coefficients among those of the model."""
        return np.array(self.plan.targets) - int(not self.intercept)

    def _quotients(
        self,
        places: ScoreRows,
        crossed: FloatArray,
        curved: FloatArray,
        n: float,
        mass: float,
        rng: Generator,
    ) -> NoisyEstimate:
        """Release numerators, denominators and squares; return the estimate.

        Coefficients are those of the columns f z.
        """
        plan, at, unit = self.plan, self._at, places.scores.unit
        kept = slice(int(not self.intercept), None)
        draws = np.random.default_rng(0)
        noises = self.layout.gram(plan.curvatures.rvs(draws, DRAWS))[:, kept, kept]
        rough = NoisyCurvatures(self.layout.gram(curved)[kept, kept], noises)
        step = rough.inverse @ crossed[kept] / unit
        places = places.moved(np.append(np.zeros(self.layout.n_rows - len(step)), step))
        # Directions, and the sums of w h v^2 in them.
        w = rough.directions(at)
        gram = w.T @ rough.raised @ w
        size = np.sqrt(np.diag(gram) / mass)
        m = len(at)
        reach = ONE_REACH if m == 1 else math.sqrt(MANY_REACH * m)
        gain = 1.0
        if places.scores.label is None:
            gain = RESIDUALS * (reach / ONE_PRODUCT if m == 1 else 1 / MANY_PRODUCT)
        # A rare level moves its own coefficient only by shares of at most the usual reach.
        factor = plan.factor[kept][at]
        is_level = np.isin(
            np.array(plan.targets), np.concatenate([[-1], *self.layout.block_columns])
        )
        share = np.minimum(1.0, max(ONE_REACH, math.sqrt(2 * m)) * size / (1.1 * factor))
        share[~is_level] = 1.0
        entries = factor * np.where(is_level, 1.0, ONE_LEVER if m == 1 else MANY_LEVER)
        units = size * reach / share
        matrix = np.zeros((m, self.layout.n_rows))
        matrix[:, kept] = (w / units).T
        sums = Instruments(places, matrix, np.array(plan.targets), entries, gain)
        exact = exact_sum(self.rows, sums.sums)
        scale = units / (gain * unit)
        numerator = release_exact(self._releases["numerators"], exact[0], rng) * scale
        denominator = release_exact(self._releases["denominators"], exact[1], rng) * units * entries
        # H (theta - theta~) is the rest of the equations, plus noise.
        rest = crossed[kept] / unit - rough.matrix @ step
        noise = rough.noise @ step - plan.scores.rvs(draws, DRAWS)[:, kept] / unit
        second = rough.second_order(w, at, rest, noise)
        privacy = np.cov(second.T).reshape(m, m)
        privacy += np.diag(variances(plan.numerators) * scale**2)
        usual = (places.scores.usual if places.scores.label is None else unit) / unit**2
        ratios, deviation = self._ratios(places, w, usual * np.diag(gram) * unit**2, n, rng)
        root = np.sqrt(ratios)
        sampling = usual * gram * np.outer(root, root)
        if places.scores.label is not None:
            sampling = sampling + gram * bending(rough, step, rest + noise, mass, n)
        return NoisyEstimate(
            step[at],
            numerator - second.mean(axis=0),
            denominator,
            sampling,
            privacy,
            variances(plan.denominators) * (units * entries) ** 2,
            np.zeros(m),
            2 / max(deviation, 1e-9) ** 2,
        ).times(factor)

    def _scaled(self, exact: Any, rng: Generator) -> tuple[float | None, Scaler, Scores]:
        """Release scales; return the number of records, the scaler, and the bounded scores."""
        stage, q, scores = self.plan.scales, self.layout.n_encoded, self.scores
        n, scaler = self.size, Scaler.of(q, [], np.empty(0), np.empty(0))
        columns, mean, spread = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
        if stage is not None:
            seen = stage.release(self._releases["scales"], exact, rng)
            n, columns = seen.n, np.array(stage.sums.columns)
            noise = stage.deviations(n)[-len(seen.square) :] / stage.sums.factor
            mean = seen.mean.clip(-1, 1) if self.intercept else np.zeros(len(columns))
            # Too great a scale loses little.
            spread = np.sqrt(np.clip(seen.square - mean**2, noise, 1.0) + noise)
        if self.plan.sizes is not None:
            counts = exact_sum(self.rows, partial(counts_of_sizes, scores, columns, mean))
            found = release_exact(self._releases["sizes"], counts, rng)
            deviation = math.sqrt(float(variances(self.plan.sizes)[0]))
            sizes = deviations_of(found.reshape(-1, CELLS), deviation)
            spread = np.minimum(spread, sizes[: len(columns)])
            if scores.label is None:
                bound = min(RESIDUALS * float(sizes[-1]), 2.0 * RESIDUALS)
                scores = replace(scores, bound=bound, usual=1 / RESIDUALS**2)
                if n is None:
                    n = max(1.0, float(found[-CELLS:].sum()))
            scaler = Scaler.of(q, columns, mean, spread)
        return n, scaler, scores

    def _ratios(
        self, places: ScoreRows, w: FloatArray, usual: FloatArray, n: float, rng: Generator
    ) -> tuple[FloatArray, float]:
        """Release squares of w v psi; return their ratios to the usual sums."""
        m = len(usual)
        noise = math.sqrt(float(variances(self.plan.squares)[0]))
        matrix = np.zeros((m, self.layout.n_rows))
        matrix[:, self.layout.n_rows - len(w) :] = (w / np.sqrt(np.maximum(usual, 1e-300))).T
        # No influence is longer than the norm of the matrix.
        greatest = float(norm(matrix, 2)) ** 2
        longest = min(max(RATIO_NOISE / noise, LEAST_LONGEST * m / n), greatest) or 1.0
        matrix /= math.sqrt(longest)
        exact = exact_squares(self.rows, Influences(places, matrix), self.are_persons)
        ratios = release_exact(self._releases["squares"], exact, rng) * longest
        return shrunk_ratios(ratios, noise * longest)


def bending(
    rough: NoisyCurvatures, step: FloatArray, rest: FloatArray, mass: float, n: float
) -> float:
    """Return a bound on the square of the error of linear equations of labels, over w'Hw.

    The curvatures are those at the fitted model, ``step`` away, and the scores are linear up to
    the error of the coefficients, whose draws are the solutions of ``rest``.
    """
    # The root mean square of 1 - 2 p, and so of p'' / p'.
    bent = 1 - min(mass / n, 1.0)
    errors = np.linalg.solve(rough.raised, rest.T)
    square = float(np.einsum("kd,kd->d", errors, rough.raised @ errors).mean()) / mass
    moved = max(float(step @ rough.raised @ step) / mass, 0.0)
    return bent * mass * square * (moved + square / 4)


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
