"""The sums of a regression table at a public model, and the estimate that follows from them.

The model predicts eta = a + c'x from encoded columns. The score of a row is psi(y, eta), with
values in [-1, 1], and its curvature is h(y, eta) = -d psi / d eta. For labels psi = y - p and
h = p (1 - p), with the probability p = 1 / (1 + exp(-eta)). For numbers psi is the residual divided
by a public bound and clipped to [-1, 1], and h is the indicator that it is not clipped, divided by
the bound. For counts the residual is that from the mean exp(eta), times the weight top / mean where
the mean is above a public number; h is the mean up to this number in place of 1.

A row z = (1, scaled columns) has coordinates u, which are linear in z, and the weight
w = min(1, 1 / |u|^2). Then w psi u and sqrt(w h) u are bounded, and the weight depends on the
columns only. A first matrix of curvatures chooses coordinates in which |u|^2 is the leverage of a
row. Scores and curvatures in them give a step to the model theta~, and directions. There the sums
of products with psi and h in these directions are released: the numerators and denominators of the
estimates, as `estimate.py` says. Every result depends on one row only, bit for bit: products of
matrices are exact, as all entries are multiples of powers of two with few bits. Statement and
proof: ``docs/proofs/inference.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.linalg import norm
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, expit

from skdp.domain import Domain
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._inference.estimate import (
    DRAWS,
    NoisyCurvatures,
    NoisyEquations,
    NoisyEstimate,
    explained,
    normal_draws,
    user_units,
    usual_norm,
)
from skdp.linear_model._inference.plan import InferencePlan
from skdp.linear_model._inference.table import Inference
from skdp.linear_model._inference.theorem import CELLS
from skdp.linear_model._shared.gram import (
    GRAM_BITS,
    NUMBER_BITS,
    exact_both,
    exact_moments,
    exact_sum,
    exact_sums,
    in_units,
    on_grid,
    release_exact,
    whole_rows,
)
from skdp.linear_model._shared.scaling import Scaler
from skdp.noise.matrix import MatrixNoise
from skdp.rows import Block, Rows
from skdp.rows.memory import MOST_ROWS
from skdp.rows.persons import WHOLE
from skdp.trusted.arrays import Array, FloatArray, squared_lengths
from skdp.trusted.certify import NoisySum
from skdp.trusted.noise import KNormNoise, variances

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
    is_log: bool = False  # whether eta is the logarithm of the mean, in the user's units
    bound: float = 1.0  # of residuals, in units of the encoded target; 1 for labels
    usual: float = 1.0  # about the mean square of the scores of a regression
    top: float = 2.0  # of counts, the mean above which records have smaller weights

    @property
    def is_curved(self) -> bool:
        """Whether curvatures depend on the model: those of labels and of counts."""
        return self.label is not None or self.is_log

    @property
    def slope(self) -> float:
        """The greatest slope of the mean, in units of the encoded target."""
        return 0.25 if self.label is not None else self.top if self.is_log else 1.0

    @property
    def target_unit(self) -> float:
        """The unit of the encoded target, in the user's units."""
        low, high = self.domain.target_bounds or (0.0, 2.0)
        return high / 2 - low / 2

    @property
    def unit(self) -> float:
        """The greatest curvature, for which `of` returns 1."""
        return self.slope / self.bound

    @cached_property
    def _slopes(self) -> FloatArray:
        return few_bits(self.slopes, len(self.slopes))

    @cached_property
    def _constant(self) -> float:
        return float(finite(self.constant))

    def residuals(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the weighted residuals of rows (1, x, y), and slopes of means over `slope`."""
        y, eta = rows[:, -1], rows[:, 1:-1] @ self._slopes + self._constant
        if self.label is not None:
            p = expit(eta)
            return (y == self.label) - p, 4 * p * (1 - p)
        if not self.is_log:
            return y - eta, np.ones(len(y))
        # The weight of a record is 1 up to the mean `top`, and top / mean above.
        u = eta - math.log(self.top * self.target_unit)
        share = np.exp(np.minimum(u, 0.0))
        return (y + 1) * np.exp(-np.maximum(u, 0.0)) - self.top * share, share

    def of(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of rows (1, x, y) and their curvatures over `unit`, (n,) each.

        The columns are on the grid.
        """
        residual, slope = self.residuals(rows)
        share = residual / self.bound
        return share.clip(-1.0, 1.0), slope * (np.abs(share) <= 1.0)


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Maps of rows (1, x, y) for the sums of scores and of curvatures, in place.

    The coordinates u of a row are linear in z = (1, scaled columns), and its weight is
    w = min(1, 1 / |u|^2). ``cross`` makes rows (w u, psi), and ``square`` rows (sqrt(w h) u, 0).
    """

    scores: Scores
    scaler: Scaler  # of the encoded columns
    matrix: FloatArray  # from z to u, (k, k)

    @cached_property
    def _map(self) -> FloatArray:
        """The map from (1, x) to u."""
        scale, own = self.scaler.scale[:-1], self.matrix.copy()
        own[:, 1:] /= scale
        own[:, 0] -= own[:, 1:] @ self.scaler.centre[:-1]
        return few_bits(own, len(own))

    def weighted(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return u and the square roots of the weights for rows (1, x, y)."""
        u = rows[:, :-1] @ self._map.T
        return u, 1 / np.sqrt(np.maximum(squared_lengths(u), 1.0))

    def cross(self, rows: FloatArray) -> None:
        on_grid(rows)
        psi, _ = self.scores.of(rows)
        u, root = self.weighted(rows)
        rows[:, :-1] = u * np.square(root)[:, None]
        rows[:, -1] = psi

    def square(self, rows: FloatArray) -> None:
        on_grid(rows)
        _, curvature = self.scores.of(rows)
        u, root = self.weighted(rows)
        rows[:, :-1] = u * (root * np.sqrt(curvature))[:, None]
        rows[:, -1] = 0.0

    def moved(self, step: FloatArray) -> ScoreRows:
        """Return the maps at coefficients that differ by a step in those of z."""
        slopes = step[1:] / self.scaler.scale[:-1]
        constant = self.scores.constant + step[0] - float(slopes @ self.scaler.centre[:-1])
        scores = replace(self.scores, slopes=self.scores.slopes + slopes, constant=constant)
        return replace(self, scores=scores)


@dataclass(frozen=True, eq=False)
class Products:
    """Products of rows with w v, for directions v from u. Each vector is shrunk to length 1."""

    rows: ScoreRows
    matrix: FloatArray  # (m, k)

    @cached_property
    def _matrix(self) -> FloatArray:
        return few_bits(self.matrix, self.matrix.shape[1])

    def of(self, block: Block) -> Iterator[FloatArray]:
        """Yield the products w v psi of parts of a block, (n, m), on the grid."""
        for rows in whole_rows(self.rows.scores.domain, block, self.rows.cross):
            yield bounded((rows[:, :-1] @ self._matrix.T) * rows[:, -1:])

    def sums(self, block: Block) -> NDArray[np.int64]:
        """Return the sums of the products w v psi, in units of 2^-40."""
        return _added(in_units(np.ones(len(own)) @ own) for own in self.of(block))

    def curvatures(
        self, columns: NDArray[np.intp], units: FloatArray, block: Block
    ) -> NDArray[np.int64]:
        """Return the sums of w h v times a column of z each over its unit, in units of 2^-40."""
        found = np.zeros(len(self.matrix), dtype=np.int64)
        centre = np.append(0.0, self.rows.scaler.centre)[columns]
        scale = finite(np.append(1.0, self.rows.scaler.scale)[columns] * units)
        scale[scale == 0] = 1.0
        for rows in whole_rows(self.rows.scores.domain, block, None):
            _, curvature = self.rows.scores.of(rows)
            column = (rows[:, columns] - centre) / scale * curvature[:, None]
            self.rows.cross(rows)
            on_grid(rows)
            found += in_units(
                np.ones(len(rows)) @ bounded((rows[:, :-1] @ self._matrix.T) * column)
            )
        return found

    def both(
        self, columns: NDArray[np.intp], units: FloatArray, block: Block
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return `sums` and `curvatures`, by one reading of the rows."""
        return self.sums(block), self.curvatures(columns, units, block)


def counts_of_sizes(
    scores: Scores, columns: Sequence[int], centre: FloatArray, block: Block
) -> NDArray[np.int64]:
    """Return the numbers of deviations of columns by size, in units of 2^-40.

    The columns are those of (x, residual, mean); the mean is that of counts. Cell j has deviations
    of half sizes from 2^(-(j + 1) / 2) to 2^(-j / 2); the ends have all others.
    """
    m, chosen = len(columns), np.array(columns)
    found = np.zeros(m * CELLS, dtype=np.int64)
    for rows in whole_rows(scores.domain, block, None):
        values = rows[:, 1:]
        if scores.label is None:
            values[:, -1], share = scores.residuals(rows)
            values = np.column_stack([values, scores.slope * share])
        values = values[:, chosen] - centre[chosen]
        share, exponent = np.frexp(np.abs(values) / 2)
        cell = np.where(share == 0, CELLS, -2 * exponent + (share < math.sqrt(0.5)))
        cell = cell.clip(0, CELLS - 1) + CELLS * np.arange(m)
        found += np.bincount(cell.ravel(), minlength=len(found))
    return np.asarray(found * 2**GRAM_BITS)


def deviations_of(counts: FloatArray, noise: float) -> FloatArray:
    """Return the standard deviations of values from noisy counts by size, (m, CELLS) to (m,).

    That of normal values whose expected counts agree best, or the root mean square of the values
    up to 8 times this, if it is greater. It is 2 where the noise could be the best agreement.
    """
    ends = 2.0 ** (1 - np.arange(CELLS + 1) / 2)
    scales = ends[:-1]
    shares = -np.diff(erf(ends / scales[:, None] / math.sqrt(2)), axis=1)
    shares /= np.linalg.norm(shares, axis=1)[:, None]
    agreement = counts @ shares.T
    best = scales[np.argmax(agreement, axis=1)]
    seen = np.where((counts > SEEN * noise) & (scales <= 8 * best[:, None]), counts, 0.0)
    total = seen.sum(axis=1)
    square = seen @ np.square(scales) / math.sqrt(2) / np.where(total > 0, total, 1.0)
    found = np.maximum(best, np.sqrt(square))
    return np.where(agreement.max(axis=1) > CERTAIN * noise, found, 2.0)


# Directions of the curvatures have a ridge of this multiple of the noise's norm, and are believed
# up to this norm over the usual eigenvalue.
COARSE, TRUST = 0.5, 4.0
# The share of a column's variance in rows with small weights of which a table tells.
LOST = 0.1
# Greatest product of v and a column of z, in deviations, over that of v.
LEVER = 2.0
# Cells of residuals with counts below so
# many standard deviations of the noise are left out.
SEEN, CERTAIN = 3.0, 6.0
# The greatest sum of squared influences of a record is such that the noise in a ratio is
# RATIO_NOISE, but at least a multiple of the number of coefficients over n.
RATIO_NOISE, LEAST_LONGEST = 0.2, 8.0
# The ratios of variances to those for independent rows and errors of one variance: the standard
# deviation of their mean from 1, that of each from their mean as a share of it, and the least
# share. A mean below HIDDEN deviations of its noise is raised to them.
COMMON, UNEQUAL, LEAST_RATIO, HIDDEN = 1.0, 0.5, 0.2, 1.5
# The kurtosis of a normal variable times the square of (1 - 6 p (1 - p)) / 2 at p = 1/2.
CUBIC = 3 / 16
# The mean of counts above which weights fall below 1, in root mean squares of the means.
TOP = 2.0
NOISE, LEAST_PRODUCT, MOST_PRODUCT, MOST_RESIDUAL = 0.65, 6.0, 20.0, 8.0


def exact_squares(rows: Rows, influences: Products, are_persons: bool) -> Array:
    """Return the sums over records of their squared influences, in units of 2^-40.

    The influence of a record is the sum of those of its rows times their shares. Its length is at
    most 1, as that of a row.
    """

    def weighted(block: Block) -> Iterator[FloatArray]:
        weight = 1.0 if block.share is None else block.share / WHOLE
        for own in influences.of(block):
            own *= weight
            on_grid(own)
            yield own

    def squares(block: Block) -> Array:
        return _added(map(squares_of, weighted(block)))

    def of_persons(block: Block) -> list[tuple[NDArray[np.intp], FloatArray]]:
        """Return the person of each row, and the influences of rows times their shares."""
        if block.person is None or block.share is None:  # a later reading found no rows
            return []
        # Multiples of 2^-20 times 30 bits.
        own = np.concatenate([*influences.of(block)]) * (block.share / WHOLE)
        return [(block.person.copy(), own)]

    if not are_persons:  # the square of an influence has that of the weight
        return np.asarray(rows.sum(squares))
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


def _added(parts: Iterable[Array]) -> Array:
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
        n, scaler, scores, spreads = self._scaled(first, rng)
        limits, clipped = self.plan.limits, 1 / math.sqrt(scores.usual)
        what = _OF_COUNTS if scores.is_log else _OF_NUMBERS
        top = scores.top * scores.target_unit
        what = _OF_LABELS if scores.label is not None else what.format(clipped, top)
        notes = [*_NOTES, what, _WEIGHTS.format(self.plan.reach)]
        if limits is not None and n is not None:
            notes.append(limits.release(self._releases["limits"], self.rows, n, rng))
        n, mass, places = self._coordinates(
            ScoreRows(scores, scaler, np.diag(self.plan.factor)), n, rng
        )
        found, rough, equations, r_squared = self._quotients(places, n, mass, rng)
        if self.intercept:
            names = self.rows.domain.encoded_names()
            if lost := [names[j] for j in light(rough, scaler, spreads)]:
                notes.append(_LIGHT.format(", ".join(lost)))
        # The map of changes of coefficients of scaled columns to the user's units.
        step = np.diag(np.append(1.0, 1 / scaler.scale[:-1]))
        step[0, 1:] = -scaler.centre[:-1] / scaler.scale[:-1]
        skipped = int(not self.intercept)
        domain = self.rows.domain
        rows, constants = user_units(domain, self.intercept, not scores.is_curved)
        model = np.append(scores.constant, scores.slopes)[skipped:]
        units = rows @ step[skipped:, skipped:]
        whole = Inference.of(found, self._at, units, constants + rows @ model, domain, notes)
        slope = scores.slope * mass / n if scores.is_curved else 1.0
        slope *= scores.target_unit if scores.is_log else 1.0
        return replace(whole, equations=equations, r_squared=r_squared, slope=slope)

    @cached_property
    def _at(self) -> NDArray[np.intp]:
        """Positions of the estimated coefficients among those of the model."""
        return np.array(self.plan.targets) - int(not self.intercept)

    def _coordinates(
        self, places: ScoreRows, n: float | None, rng: Generator
    ) -> tuple[float, float, ScoreRows]:
        """Release curvatures, and choose coordinates in which they are about the unit matrix.

        Return the numbers of records, and with weights w h, and the rows in these coordinates.
        """
        layout, first = self.plan.coordinates.layout, float(self.plan.factor[0]) ** 2
        exact = exact_moments(self.rows, layout, places.square)
        found = release_exact(self._releases["coordinates"], exact, rng)
        if n is None:  # weights and curvatures are at most 1
            n = max(1.0, float(found[0]) / first)
        noise = math.sqrt(float(variances(self.plan.coordinates)[0]))
        mass = min(max(float(found[0]), noise) / first, n)
        size = usual_norm(normal_draws(deviations(self.plan.coordinates), 20))
        curved, own, f = layout.gram(found), layout.indicators, self.plan.factor
        curved[own, own] *= f[own] / f[0]  # an indicator is its own square
        values, vectors = np.linalg.eigh(curved)
        # Scaled columns without correlations have eigenvalues of about this size. Where noise is
        # larger, nothing is learned from others.
        plain = mass * float(np.square(self.plan.factor).mean())
        learned = 1 / (1 + (size / plain / TRUST) ** 2)
        values = plain + learned * (values.clip(min=0) - plain) + min(COARSE * size, plain)
        root = (vectors / np.sqrt(values)) @ vectors.T
        bound = self.plan.reach * len(root)
        return n, mass, replace(places, matrix=math.sqrt(mass / bound) * root @ places.matrix)

    def _quotients(
        self, places: ScoreRows, n: float, mass: float, rng: Generator
    ) -> tuple[NoisyEstimate, NoisyCurvatures, NoisyEquations | None, float | None]:
        """Release scores, curvatures, squares, numerators and denominators; return the estimate.

        Coefficients are those of z.
        """
        plan, at, scores, unit = self.plan, self._at, places.scores, places.scores.unit
        label, curvature = scores.label, mass / n if scores.is_curved else 1.0
        kept, layout = slice(int(not self.intercept), None), self.layout
        exact, statistic = exact_both(self.rows, places.cross, layout, places.square)
        crossed = release_exact(self._releases["scores"], exact, rng)
        curved = release_exact(self._releases["curvatures"], statistic, rng)
        # From u to z.
        back = np.asarray(np.linalg.inv(places.matrix)[kept], dtype=np.float64)
        released = layout.gram(curved), deviations(plan.curvatures), back
        rough = NoisyCurvatures.of(*released)
        crossed = back @ crossed / unit
        step = rough.inverse @ crossed
        places = places.moved(np.append(np.zeros(layout.n_rows - len(step)), step))
        # Directions, and the sums of w h v^2 in them.
        w = rough.directions(at)
        gram = w.T @ rough.raised @ w
        size = np.sqrt(np.diag(gram) / mass)
        m = len(at)
        # Rows of a rare level are far in its direction, and keep their weight.
        far = math.sqrt(max(16.0, 2.5 * m, min(plan.reach * layout.n_rows, 49.0)))
        blocks = self.plan.coordinates.layout.block_columns
        is_level = np.isin(np.array(plan.targets), np.concatenate([[-1], *blocks]))
        rare = np.where(is_level, np.minimum(1.0, max(4.0, math.sqrt(2 * m)) * size / 1.1), 1.0)
        # Squares of scores over curvatures.
        usual = scores.usual / curvature if label is None else unit
        ratios, deviation = self._ratios(places, w.T @ back, usual * np.diag(gram), n, rng)
        square = usual * curvature
        root = np.sqrt(ratios)
        most = root * self._product(n) * math.sqrt(m * square)
        if label is not None:
            most = most.clip(math.sqrt(max(9.0, 2.0 * m)), far)
        units = size / rare * most
        products = Products(places, (w / units).T @ back)
        entries = np.where(is_level, 1.0, LEVER) * far / most
        exact = exact_sum(self.rows, partial(products.both, np.array(plan.targets), entries))
        scale, entries = units / unit, entries * units
        numerator = release_exact(self._releases["numerators"], exact[0], rng) * scale
        denominator = release_exact(self._releases["denominators"], exact[1], rng) * entries
        # H (theta - theta~) is the rest of the equations, plus noise.
        rest = crossed - rough.matrix @ step
        draws = np.random.default_rng(1).normal(size=(DRAWS, layout.n_rows))
        noise = rough.noise @ step - draws * np.sqrt(variances(plan.scores)) @ back.T / unit
        law = rough.law(w, at, rest, noise, np.zeros((DRAWS, m)))
        direct = variances(plan.numerators) * scale**2
        # A coordinate of K-norm noise on the ball in m dimensions has the excess 6 / (m + 1).
        heavy = 6 / (m + 1) if isinstance(plan.numerators, KNormNoise) else 0.0
        # Two estimates of the denominators, weighted by their variances. Curvatures of labels and
        # counts at the new model are others than those of the matrix, by about one factor.
        matrix, leverage = np.vecdot(w.T, rough.matrix[:, at].T), np.zeros(m)
        if scores.is_curved:
            total = max(float(matrix @ matrix), 1e-300)
            leverage = matrix**2 / total
            matrix *= max(float(matrix @ denominator) / total, 0.0)
        apart = variances(plan.denominators) * entries**2
        # In the rows of a level of counts, curvatures change by about the step of its coefficient.
        own = law.spread + np.square(matrix * step[at]) * scores.is_log
        share = apart / (apart + own)
        denominator += share * (matrix - denominator)
        # The factor contains a part of the first estimate.
        spread = share * own + share * (2 - share) * leverage * apart
        sampling = usual / unit**2 * gram * np.outer(root, root)
        if scores.is_curved:
            facts = mass, n, scores.is_log
            sampling = sampling + gram * bending(rough, step, rest + noise, *facts)
        found = NoisyEstimate(
            step[at],
            numerator - law.mean,
            denominator,
            sampling,
            law.privacy + np.diag(direct),
            spread,
            share * law.shared,
            (law.fourth + heavy * direct**2) / np.diag(law.privacy + np.diag(direct)) ** 2,
            2 / max(deviation, 1e-9) ** 2,
        )
        # A smaller model of labels or counts has other curvatures, which no sum of these tells.
        if m < len(step) or scores.is_curved:
            return found, rough, None, None
        r_squared = None
        if self.intercept:
            slopes = places.scores.slopes * places.scaler.scale[:-1] + found.step[1:]
            error = float((np.diag(sampling) / np.diag(gram)).mean())
            r_squared = explained(rough.matrix, slopes, found.covariance[1:, 1:], error)
        return found, rough, NoisyEquations(*released, step, numerator, direct), r_squared

    def _product(self, n: float) -> float:
        """Return the bound of products of v and a residual, in deviations of both.

        The noise in one numerator is then NOISE of the sampling error, within limits.
        """
        noise = self.plan.numerators
        deviation = math.sqrt(float(variances(noise)[0]) / n) * noise.dim**0.25
        return float(np.clip(NOISE / deviation, LEAST_PRODUCT, MOST_PRODUCT))

    def _scaled(
        self, exact: Any, rng: Generator
    ) -> tuple[float | None, Scaler, Scores, dict[int, tuple[float, float]]]:
        """Release scales; return the number of records, the scaler, and the bounded scores.

        Also return the variances of the numbers and the deviations of their noise.
        """
        stage, q, scores = self.plan.scales, self.layout.n_encoded, self.scores
        n, spreads = self.size, {}
        columns, mean, spread = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
        if stage is not None:
            seen = stage.release(self._releases["scales"], exact, rng)
            n, columns = seen.n, np.array(stage.sums.columns)
            off, noise = np.split(stage.deviations(n)[-2 * len(columns) :], 2)
            noise = noise / stage.sums.factor
            mean = seen.mean.clip(-1, 1) if self.intercept else np.zeros(len(columns))
            variance = seen.square - seen.mean**2
            spreads = dict(zip(map(int, columns), zip(variance, noise, strict=True), strict=True))
            # Too great a scale loses little. The centre may be far from the mean.
            spread = np.sqrt(np.clip(seen.square - mean**2, noise, 1.0) + noise + off**2)
        centre, scale = np.zeros(q + 2), np.full(q + 2, 2.0)
        centre[columns], scale[columns] = mean, spread
        for own in self.plan.sizes:
            counts = exact_sum(self.rows, partial(counts_of_sizes, scores, own.columns, centre))
            found = release_exact(self._releases[own.name], counts, rng).reshape(-1, CELLS)
            chosen, deviation = np.array(own.columns), math.sqrt(float(variances(own.noise)[0]))
            scale[chosen] = np.minimum(scale[chosen], deviations_of(found, deviation))
            if n is None:
                n = max(1.0, float(found[-1].sum()))
        if scores.label is None:
            most = min(self._product(n or 1.0), MOST_RESIDUAL)
            bound, top = np.minimum(np.array([most, TOP]) * scale[q:], 2.0).tolist()
            scores = replace(scores, bound=bound, usual=1 / most**2, top=top)
        scaler = Scaler.of(q, columns, mean, scale[columns])
        return n, scaler, scores, spreads

    def _ratios(
        self, places: ScoreRows, matrix: FloatArray, usual: FloatArray, n: float, rng: Generator
    ) -> tuple[FloatArray, float]:
        """Release squares of w v psi; return their ratios to the usual sums."""
        m = len(usual)
        noise = math.sqrt(float(variances(self.plan.squares)[0]))
        matrix = matrix / np.sqrt(np.maximum(usual, 1e-300))[:, None]
        # No influence is longer than the norm of the matrix.
        greatest = float(norm(matrix, 2)) ** 2
        longest = min(max(RATIO_NOISE / noise, LEAST_LONGEST * m / n), greatest) or 1.0
        matrix /= math.sqrt(longest)
        exact = exact_squares(self.rows, Products(places, matrix), self.are_persons)
        ratios = release_exact(self._releases["squares"], exact, rng) * longest
        return shrunk_ratios(ratios, noise * longest)


def deviations(noise: MatrixNoise) -> FloatArray:
    """Return the standard deviations of the entries of a noisy matrix."""
    return noise.layout.gram(np.sqrt(variances(noise)))


def bending(
    rough: NoisyCurvatures,
    step: FloatArray,
    rest: FloatArray,
    mass: float,
    n: float,
    is_log: bool = False,
) -> float:
    """Return a bound on the square of the error of linear equations of labels, over w'Hw.

    Or of counts, if the predictor is the logarithm of the mean.

    The curvatures are those at the fitted model, ``step`` away, and the scores are linear up to
    the error of the coefficients, whose draws are the solutions of ``rest``.
    """
    # Mean squares of 1 - 2 p = p'' / p', of the log-odds of the step, and of the error. Means of
    # counts, below `top`, have 1 in place of 1 - 2 p, and of (1 - 6 p (1 - p)) <= 1/2 for p = 1/2.
    bent, cubic = (1.0, 4 * CUBIC) if is_log else (1 - min(mass / n, 1.0), CUBIC)
    matrix = rough.floored(0.0)
    moved = float(step @ matrix @ step) / mass
    errors = np.linalg.solve(rough.raised, rest.T)
    square = float(np.einsum("kd,kd->d", errors, matrix @ errors).mean()) / mass
    # The error of a step of Newton's method is along the step, so a direction may have all of their
    # product. That of the noise has any direction, and one of k has a k-th part of the product.
    own = moved * (bent * moved + cubic * moved**2) / 4
    path = moved + (square + own) / 4
    return mass * (square / len(step) + own) * (bent * path + cubic * path**2)


def light(
    rough: NoisyCurvatures, scaler: Scaler, spreads: dict[int, tuple[float, float]]
) -> list[int]:
    """Return the columns of which rows with small weights have more than LOST of the variance."""
    found, count = [], rough.matrix[0, 0]
    for j, (variance, noise) in spreads.items() if count > 0 else ():
        own = rough.matrix[j + 1, j + 1] / count - (rough.matrix[j + 1, 0] / count) ** 2
        error = float(rough.noise[:, j + 1, j + 1].std()) / count
        kept = (own + 2 * error) * float(scaler.scale[j]) ** 2
        if kept < (1 - LOST) * (variance - 2 * noise):
            found.append(j)
    return found


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
    "Method: two steps of Newton's method from the model, with noisy sums of scores and curvatures."
    " The coefficients are not shrunk.",
    "Standard errors are robust: they assume neither equal variances of the errors nor independent"
    " rows of a person. Records are independent.",
)
_OF_LABELS = (
    "The coefficients are those of the logistic likelihood, for records clipped to the bounds of"
    " the domain. Sampling errors contain a bound on the error of the steps, which is large if the"
    " model is far from the estimate."
)
_OF_NUMBERS = (
    "The coefficients are those of least squares, for records clipped to the bounds of the domain"
    " and residuals clipped at {:.2g} standard deviations. If errors are skewed, the intercept is"
    " not that of the mean."
)
_OF_COUNTS = (
    "The coefficients are those of the logarithm of the mean, for records clipped to the bounds of"
    " the domain, and residuals clipped at {:.2g} standard deviations. Skewed residuals that are"
    " clipped make the intercept too small. Records with means above {:.3g} have smaller weights."
)
_LIGHT = (
    "Rows with smaller weights have more than a tenth of the variance of {}: the coefficients can"
    " differ from those of least squares without weights. Narrower bounds would clip these rows."
)
_WEIGHTS = "Rows with a leverage of more than {:.2g} times the mean have smaller weights."
