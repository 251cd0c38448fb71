"""Gaussian mechanisms of the literature that the benchmark of everything runs beside skdp.

Each is written from its paper, with the least noise that makes all its releases (epsilon, delta)-
private together: squared shifts of Gaussian releases add up. The intercept is a column of ones;
rows are divided by the greatest length that the domain allows, or each by its own; a numeric target
is scaled to [-1, 1] and predictions are clipped to it. The number of rows is taken as public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from examples.benchmarks.accuracy.adassp import RHO, SQUARES
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain
from skdp.mechanisms.knorm import gaussian_scale

Slopes = Callable[[FloatArray], FloatArray]
Codes = NDArray[np.intp]


@dataclass
class Opponent:
    """What all of them have: public facts, rows of length at most 1, and coefficients.

    ``own_lengths`` divides each row by its own length, and not all by the greatest one.
    """

    domain: Domain
    epsilon: float
    delta: float
    neighbors: str
    seed: int
    own_lengths: bool = False
    coef: FloatArray = field(init=False, repr=False)

    @property
    def scale(self) -> float:
        """Standard deviation of the noise of one release that a record shifts by 1."""
        return gaussian_scale(self.epsilon, self.delta)

    def _rows(self, X: FloatArray) -> FloatArray:
        rows = np.hstack([X, np.ones((len(X), 1))])
        if self.own_lengths:
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / self.domain.row_norm(2, intercept=True)


class Regressor(Opponent):
    """A linear model of a number; subclasses return its coefficients."""

    def fit(self, X: FloatArray, y: FloatArray) -> Regressor:
        """Release the coefficients."""
        rng = np.random.default_rng(self.seed)
        self.coef = self._solution(self._rows(X), self.domain.encode_target(y), rng)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return predictions in the target's units, within its bounds."""
        return self.domain.decode_target(np.clip(self._rows(X) @ self.coef, -1, 1))

    def _solution(self, rows: FloatArray, t: FloatArray, rng: Generator) -> FloatArray:
        raise NotImplementedError


class Classifier(Opponent):
    """A logistic model of two labels; subclasses return its coefficients."""

    def fit(self, X: FloatArray, y: Any) -> Classifier:
        """Release the coefficients."""
        self.classes_ = np.unique(y)
        is_second = np.asarray(y == self.classes_[1], dtype=np.float64)
        rng = np.random.default_rng(self.seed)
        self.coef = self._solution(self._rows(X), is_second, rng)
        return self

    def decision_function(self, X: FloatArray) -> FloatArray:
        """Return the log-odds of the second label."""
        return np.asarray(self._rows(X) @ self.coef)

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probabilities of both labels."""
        chance = expit(self.decision_function(X))
        return np.column_stack([1 - chance, chance])

    def predict(self, X: FloatArray) -> Any:
        """Return the more probable label."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def _solution(self, rows: FloatArray, is_second: FloatArray, rng: Generator) -> FloatArray:
        raise NotImplementedError


# Linear regression


def symmetric(d: int, rng: Generator) -> FloatArray:
    """Return standard normal noise, symmetrised as in AdaSSP's code: less than Algorithm 2 has."""
    noise = rng.standard_normal((d, d))
    return (noise + noise.T) / 2


@dataclass
class AdaSSP(Regressor):
    """Wang 2018, Algorithm 2.

    ``extra`` is the square of the change of the third release, the least eigenvalue; 0 releases
    two only and takes the eigenvalue of the noisy matrix.
    """

    extra: float = 1.0

    def _solution(self, rows: FloatArray, t: FloatArray, rng: Generator) -> FloatArray:
        d = rows.shape[1]
        scale = math.sqrt(SQUARES[self.neighbors] + self.extra) * self.scale
        exact = rows.T @ rows
        XX = exact + scale * symmetric(d, rng)
        Xy = rows.T @ t + scale * rng.standard_normal(d)
        least = np.linalg.eigvalsh(exact if self.extra else XX)[0]
        if self.extra:
            least += scale * rng.standard_normal()
        wanted = scale * math.sqrt(d * math.log(2 * d**2 / RHO))
        return np.linalg.solve(XX + max(0.0, wanted - max(0.0, least)) * np.eye(d), Xy)


@dataclass
class BoostedAdaSSP(Regressor):
    """Tang et al. 2023: AdaSSP on what is left, 10 times.

    X'X, its least eigenvalue, and X'r of clipped residuals r in all rounds together take a third
    of the squared shift each.
    """

    rounds: int = 10

    def _solution(self, rows: FloatArray, t: FloatArray, rng: Generator) -> FloatArray:
        d, unit = rows.shape[1], math.sqrt(3) * self.scale
        # A replaced record moves X'X by sqrt(2) in the Frobenius norm, its eigenvalues by 1, and
        # X'r by 2. One record more or less moves each by 1.
        matrix, vector = (1.0, 1.0) if self.neighbors == "add_remove" else (math.sqrt(2), 2.0)
        XX = rows.T @ rows
        least = float(np.linalg.eigvalsh(XX)[0]) + unit * rng.standard_normal()
        wanted = matrix * unit * math.sqrt(d * math.log(2 * d**2 / RHO))
        noisy = XX + matrix * unit * symmetric(d, rng)
        noisy += max(0.0, wanted - max(0.0, least)) * np.eye(d)
        coef, deviation = np.zeros(d), vector * unit * math.sqrt(self.rounds)
        for _ in range(self.rounds):
            residual = np.clip(t - rows @ coef, -1, 1)
            coef += np.linalg.solve(noisy, rows.T @ residual + deviation * rng.standard_normal(d))
        return coef


@dataclass
class HessianMixing(Regressor):
    """Lev et al. 2026, with the constants of their code; one record more or less.

    Half of epsilon is for the sketches of the rows and half for X'r of the clipped residuals.
    A sketch of k rows, k independent normal combinations of all rows with noise added, has
    independent rows of the normal law of covariance X'X + noise: they are drawn from that.
    """

    rounds: int = 3
    factor: int = 6

    def _solution(self, rows: FloatArray, t: FloatArray, rng: Generator) -> FloatArray:
        d, T, failure = rows.shape[1], self.rounds, self.delta / 10
        k = max(self.factor * d, int(self.factor * math.log(4 * T / failure)))
        needed = sketch_variance(k, T, self.epsilon / 2, self.delta / 4)
        XX = rows.T @ rows
        least = float(np.linalg.eigvalsh(XX)[0])
        tail = math.sqrt(2 * math.log(max(4 / self.delta, 4 / failure)))
        known = max(0.0, least - needed / math.sqrt(k) * (tail - rng.standard_normal()))
        root = np.linalg.cholesky(XX + (max(0.0, needed - known) + 1e-9) * np.eye(d))
        deviation = math.sqrt(T) * gaussian_scale(self.epsilon / 2, self.delta / 4)
        coef = np.zeros(d)
        for _ in range(T):
            sketch = rng.standard_normal((k, d)) @ root.T
            residual = np.clip(t - rows @ coef, -1, 1)
            step = rows.T @ residual + deviation * rng.standard_normal(d)
            coef += k * np.linalg.solve(sketch.T @ sketch, step)
        return coef


def sketch_variance(k: int, rounds: int, epsilon: float, delta: float) -> float:
    """Return the variance that makes sketches of k rows (epsilon, 3 delta)-private together.

    The Rényi divergence of the sketches, converted to epsilon at its best order, and the Gaussian
    release of the least eigenvalue.
    """

    def spent(log_order: float, variance: float) -> float:
        order = 1 + math.exp(log_order)
        if order >= variance:
            return math.inf
        divergence = order * math.log1p(-1 / variance) - math.log1p(-order / variance)
        converted = -math.log(delta * order) + (order - 1) * math.log1p(-1 / order)
        return (rounds * k * divergence / 2 + converted) / (order - 1)

    def surplus(log_variance: float) -> float:
        variance = math.exp(log_variance)
        bounds = (math.log(1e-5), math.log(variance - 1 - 1e-5))
        best = minimize_scalar(spent, bounds=bounds, args=(variance,), method="bounded").fun
        eigenvalue = math.sqrt(2 * math.log(1.25 / delta) * k) / variance
        return float(best + eigenvalue - epsilon)

    return math.exp(brentq(surplus, math.log(1.1), math.log(1e12), xtol=1e-9))


@dataclass
class TukeyEM(Regressor):
    """Amin et al. 2023: a point deep among least-squares models of disjoint parts of the rows.

    Half of epsilon and of delta tests whether regions of great depth have volume enough, and the
    rest draws a point of one of them. If the test fails all coefficients are 0, so that the middle
    of the target's bounds is predicted. There is a model for each d rows at least.
    """

    models: int = 1000

    def _solution(self, rows: FloatArray, t: FloatArray, rng: Generator) -> FloatArray:
        n, d = rows.shape
        m = min(self.models, n // d)
        least, epsilon, delta = max(1, m // 4), self.epsilon / 2, self.delta / 2
        parts = rng.permutation(n)[: n // m * m].reshape(m, -1)
        fits = (np.linalg.pinv(rows[parts]) @ t[parts][:, :, None])[:, :, 0]
        # Equal coefficients would make empty regions: they are moved apart, as by the authors.
        points = np.sort(fits + 1e-10 * rng.uniform(size=fits.shape), axis=0)
        volumes = np.log((points[::-1] - points)[: m // 2]).sum(axis=1)
        distance = distance_to_unsafe(volumes, least, epsilon, delta)
        if not passes(distance, epsilon, delta, rng):
            return np.zeros(d)
        chances = region_chances(volumes, least, epsilon)
        drawn = least - 1 + int(np.argmax(chances + rng.gumbel(size=len(chances))))
        return np.asarray(rng.uniform(points[drawn], points[-1 - drawn]))


def distance_to_unsafe(volumes: FloatArray, least: int, epsilon: float, delta: float) -> int:
    """Return how many models can be replaced before the draw is not private; -1 if it is not.

    A lower bound. ``volumes`` has the logarithm of the volume of depth k + 1 or more at position k.
    """
    for k in range(least - 2, -1, -1):
        inner = volumes[least + k + 1 :]
        ratios = volumes[least - k - 2] - inner - epsilon / 2 * np.arange(1, len(inner) + 1)
        if len(inner) and ratios.min() <= math.log(delta / 4) - epsilon:
            return k
    return -1


def passes(distance: int, epsilon: float, delta: float, rng: Generator) -> bool:
    """Test with noise whether a distance is 0 or more; -1 passes with a chance below delta."""
    return bool(distance + rng.laplace(scale=1 / epsilon) > -math.log(2 * delta) / epsilon)


def region_chances(volumes: FloatArray, least: int, epsilon: float) -> FloatArray:
    """Return the logarithms of the chances of the regions of each depth from ``least`` on.

    A uniform point of a region drawn with them has a density proportional to
    exp(epsilon depth / 2): it is the sum of the densities of the regions that hold the point.
    """
    found = volumes[least - 1 :] + epsilon / 2 * np.arange(least, len(volumes) + 1)
    found[1:] += math.log(-math.expm1(-epsilon / 2))
    return np.asarray(found)


@dataclass
class Marginals(Regressor):
    """Our version of DD-SSP (Ferrando & Sheldon 2025): moments of noisy tables of pairs of columns.

    First each column has a noisy table. It gives means and variances, less that of a bin, and joins
    the bins of a number to a few with about the same counts. Then all pairs of columns have tables
    with the same noise, the target included; DD-SSP chooses pairs by AIM. Tables become
    nonnegative, and those of pairs get the margins of the columns. ``marginal_rules.py`` simulates
    the rules for the numbers of bins and the ridge.
    """

    fineness: float = 1.0
    ridge: float = 0.5
    singles: float = 0.4  # share of the squared shift

    def _solution(self, rows: FloatArray, t: FloatArray, rng: Generator) -> FloatArray:
        n, d, length = len(rows), rows.shape[1] - 1, self.domain.row_norm(2, intercept=True)
        size = d + 1 - sum(self.domain.block_sizes) + len(self.domain.blocks)
        pairs = list(combinations(range(size), 2))
        single = self.scale * math.sqrt(self.change(size) / self.singles)
        double = self.scale * math.sqrt(self.change(len(pairs)) / (1 - self.singles))
        fine = int(np.clip(round(2 * math.sqrt(n / single)), 8, 128))
        few = int(np.clip(round(self.fineness * (n / double) ** (1 / 3)), 3, 32))
        codes, values = coded(np.column_stack([rows[:, :-1] * length, t]), self.domain.blocks, fine)
        places = np.split(np.arange(d + 1), np.cumsum([v.shape[1] for v in values])[:-1])
        means, moments, margins = np.zeros(d + 1), np.zeros((d + 1, d + 1)), []
        for k, place in enumerate(places):
            counts = np.bincount(codes[k], minlength=len(values[k]))
            margin = nonnegative(counts + single * rng.standard_normal(len(counts)), n)
            means[place] = margin @ values[k] / n
            moments[np.ix_(place, place)] = (values[k].T * margin) @ values[k]
            if values[k].min() < 0:  # a number
                moments[place, place] -= n / (3 * fine**2)
                group, values[k], margin = merged(values[k][:, 0], margin, few)
                codes[k] = group[codes[k]]
            margins.append(margin)
        for a, b in pairs:
            cells = counted(codes[a], codes[b], (len(values[a]), len(values[b])))
            table = nonnegative(cells + double * rng.standard_normal(cells.shape), n)
            product = values[a].T @ raked(table, margins[a], margins[b]) @ values[b]
            moments[np.ix_(places[a], places[b])] = product
            moments[np.ix_(places[b], places[a])] = product.T
        levels, vectors = np.linalg.eigh(moments / n - np.outer(means, means))
        C = (vectors * np.maximum(levels, 0)) @ vectors.T
        ridge = self.ridge * double / n * math.sqrt(d)
        slopes = np.linalg.solve(C[:-1, :-1] + ridge * np.eye(d), C[:-1, -1])
        return length * np.append(slopes, means[-1] - means[:-1] @ slopes)

    def change(self, tables: int) -> int:
        """Return the greatest squared change of the counts of tables together.

        A record is in one cell of each table, and a replaced record in two.
        """
        return tables * (1 if self.neighbors == "add_remove" else 2)


def coded(
    data: FloatArray, blocks: Sequence[slice], bins: int
) -> tuple[list[Codes], list[FloatArray]]:
    """Return the cell of each record by column, and what the columns of a cell are encoded as.

    A block of indicators is one column. Others are numbers in [-1, 1].
    """
    codes, values, start = [], [], 0
    middles = (2 * np.arange(bins)[:, None] + 1) / bins - 1
    while start < data.shape[1]:
        block = next((b for b in blocks if b.start == start), None)
        if block:
            width = block.stop - start
            codes.append(np.rint(data[:, block] @ np.arange(1, width + 1)).astype(int))
            values.append(np.eye(width + 1)[:, 1:])
        else:
            width = 1
            codes.append(np.minimum((data[:, start] + 1) / 2 * bins, bins - 1).astype(int))
            values.append(middles)
        start += width
    return codes, values


def counted(first: Codes, second: Codes, shape: tuple[int, int]) -> FloatArray:
    """Return the table of two columns: how many records are in each cell."""
    cells = first * shape[1] + second
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(float)


def merged(middles: FloatArray, counts: FloatArray, most: int) -> tuple[Codes, Any, FloatArray]:
    """Join cells of a number to groups of similar counts: groups, their means, and their counts."""
    before = np.cumsum(counts) - counts / 2
    wanted = np.minimum((before / counts.sum() * most).astype(int), most - 1)
    group = np.unique(wanted, return_inverse=True)[1]
    weights = counts + 1e-9  # a group without records has the mean of its cells
    means = np.bincount(group, weights * middles) / np.bincount(group, weights)
    return group, means[:, None], np.bincount(group, counts).astype(float)


def nonnegative(table: FloatArray, total: float) -> FloatArray:
    """Return the nearest table of nonnegative numbers with a sum."""
    ordered = np.sort(table, axis=None)[::-1]
    levels = (np.cumsum(ordered) - total) / np.arange(1, ordered.size + 1)
    return np.asarray(np.maximum(table - levels[ordered > levels][-1], 0))


def raked(table: FloatArray, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return a table with the wanted margins, nearly: two rounds of proportional fitting."""
    for _ in range(2):
        table = table * (first / np.maximum(table.sum(axis=1), 1e-9))[:, None]
        table = table * (second / np.maximum(table.sum(axis=0), 1e-9))
    return table


# Gradient descent and Newton's method


def descended(
    model: Opponent, rows: FloatArray, slopes: Slopes, step: float, steps: int, rng: Generator
) -> FloatArray:
    """Return the last of the coefficients of noisy descents, each with all records.

    Gradients of records, ``slopes`` times rows, are clipped to length 1.
    """
    shift = 1.0 if model.neighbors == "add_remove" else 2.0
    deviation = shift * model.scale * math.sqrt(steps)
    most = 1 / np.linalg.norm(rows, axis=1)
    coef = np.zeros(rows.shape[1])
    for _ in range(steps):
        total = rows.T @ np.clip(slopes(rows @ coef), -most, most)
        coef -= step / len(rows) * (total + deviation * rng.standard_normal(len(coef)))
    return coef


@dataclass
class DescentRegressor(Regressor):
    """Gradient descent on squares; the step is 1 over the greatest curvature of a record."""

    steps: int = 100

    def _solution(self, rows: FloatArray, t: FloatArray, rng: Generator) -> FloatArray:
        return descended(self, rows, lambda u: u - t, 1.0, self.steps, rng)


@dataclass
class DescentClassifier(Classifier):
    """Gradient descent on the logistic loss, whose curvature is at most 1/4."""

    steps: int = 100

    def _solution(self, rows: FloatArray, is_second: FloatArray, rng: Generator) -> FloatArray:
        return descended(self, rows, lambda u: expit(u) - is_second, 4.0, self.steps, rng)


@dataclass
class DoubleNoise(Classifier):
    """Ganesh et al. 2023, the double noise method; one record more or less.

    Each step releases the gradient, the trace of the curvature, from which the least eigenvalue
    follows, and the direction. Curvature is that of the quadratic upper bound of the loss, and
    eigenvalues are clipped. Shares of the squared shift and steps are those of the authors' code.
    """

    steps: int = 15

    def _solution(self, rows: FloatArray, is_second: FloatArray, rng: Generator) -> FloatArray:
        n, d = rows.shape
        square = 1 / self.scale**2 / self.steps
        first, trace, last = (math.sqrt(square * share) for share in (0.7, 0.03, 0.27))
        coef = np.zeros(d)
        for _ in range(self.steps):
            u = rows @ coef
            gradient = rows.T @ (expit(u) - is_second) / n + rng.standard_normal(d) / (n * first)
            curvature = (rows.T * bound_curvature(u)) @ rows / n
            noisy = max(0.0, np.trace(curvature) + rng.standard_normal() / (4 * n * trace))
            least = max((noisy / (n * last) ** 2) ** (1 / 3), 1 / n)
            values, vectors = np.linalg.eigh(curvature)
            coef -= vectors @ (vectors.T @ gradient / np.maximum(values, least))
            moved = np.linalg.norm(gradient) / (4 * n * least**2 - least)
            coef += moved / last * rng.standard_normal(d)
        return coef


def bound_curvature(u: FloatArray) -> FloatArray:
    """Return the curvature of the least parabola at u that is above the logistic loss."""
    safe = np.where(np.abs(u) < 1e-6, 1e-6, u)
    return np.asarray(np.tanh(safe / 2) / (2 * safe))
