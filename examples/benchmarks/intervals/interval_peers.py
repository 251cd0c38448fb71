"""Published methods that give private confidence intervals of a linear regression, in numpy.

The noise is that of the publications, for comparisons on simulated data only. Where a published
calibration does not give the guarantee that is claimed, ``mended=True`` gives it; the difference
is written at the noise.

BinAgg: Lin, Slavkovic & Bhoomireddy (2026), arXiv:2510.16974, Algorithms 1 and 2, Theorem 4.2,
and the appendix for the constants. NSS: noisy sufficient statistics, dp-econometrics 0.1 (Ghenis
2025, github.com/MaxGhenis/dp-econometrics), ``DPOLS`` with its default division of the budget.
Bootstrap: Ferrando, Wang & Sheldon (2022), the code of github.com/ceciliaferrando/dp-ci.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import norm, t

from examples.benchmarks.shared.report import FloatArray
from skdp.privacy.conversions import gaussian_mu, pure_of_mu

LEVEL = 0.95
# BinAgg's mu of the bins, the counts, the sums of x and the sums of y. The appendix has 1:3:3:3;
# the authors' simulation has these, with which the intervals are shorter and its figures come out.
BUDGET = np.array([1.0, *[9 / math.sqrt(3)] * 3])
# Shares of epsilon of X'X, X'y and y'y.
SHARES = np.array([0.4, 0.4, 0.2])
RESAMPLES = 500


@dataclass(frozen=True)
class Bounds:
    """Public bounds: of every feature, and of the target."""

    x: tuple[float, float]
    y: tuple[float, float]

    @property
    def largest(self) -> tuple[float, float]:
        """The largest absolute values of a feature and of the target."""
        return max(map(abs, self.x)), max(map(abs, self.y))

    def clip(self, X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the table within the bounds."""
        return X.clip(*self.x), y.clip(*self.y)


# BinAgg


@dataclass(frozen=True)
class Bin:
    """A box of the features, and the positions of its rows."""

    lower: FloatArray
    upper: FloatArray
    rows: NDArray[np.intp]

    def halves(self, X: FloatArray, axis: int) -> list[Bin]:
        """Return the two halves of the box along a column."""
        middle = (self.lower[axis] + self.upper[axis]) / 2
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[axis] = upper[axis] = middle
        left = X[self.rows, axis] < middle
        return [Bin(self.lower, upper, self.rows[left]), Bin(lower, self.upper, self.rows[~left])]


def tree(X: FloatArray, bounds: Bounds, epsilon: float, rng: Generator) -> list[Bin]:
    """Return the leaves of PrivTree (Zhang, Xiao & Xie 2016) with two children and threshold 0.

    The boxes are epsilon-DP if a row is added or removed: the noise of a node is Laplace noise of
    scale (2 * 2 - 1) / (2 - 1) / epsilon. No count is released. Boxes are split until there are
    more than columns; this reads volumes only.
    """
    scale = 3 / epsilon
    penalty = scale * math.log(2)
    p = X.shape[1]
    lower, upper = np.array([bounds.x] * p, dtype=float).T
    root = Bin(lower, upper, np.arange(len(X)))
    waiting, leaves = [(root, 0)], []
    while waiting:
        node, depth = waiting.pop()
        score = max(len(node.rows) - penalty * depth, -penalty)
        if score + rng.laplace(scale=scale) > 0:
            halves = node.halves(X, int(np.argmax(node.upper - node.lower)))
            waiting += [(half, depth + 1) for half in halves]
        else:
            leaves.append(node)
    while len(leaves) <= p:
        place = int(np.argmax([np.prod(leaf.upper - leaf.lower) for leaf in leaves]))
        node = leaves.pop(place)
        widths = node.upper - node.lower
        leaves += node.halves(X, rng.choice(np.flatnonzero(widths == widths.max())))
    return leaves


def binagg_mu(mu: float, p: int) -> float:
    """Return the Gaussian-DP parameter of the published noise of `binagg` that claims mu."""
    return mu * float(np.linalg.norm(BUDGET * [1, 1, math.sqrt(p), 1]) / np.linalg.norm(BUDGET))


def binagg(
    X: FloatArray, y: FloatArray, bounds: Bounds, mu: float, rng: Generator, mended: bool = False
) -> FloatArray:
    """Return BinAgg's intervals of the slopes of a regression without intercept, shape (p, 2).

    One row is added or removed. It changes one bin: the count by 1, the sum of column j by at most
    the largest |x_j| in the bin, the sum of y by at most the target's bound. The publication adds
    noise of the scale (largest |x_j|) / mu_s to *each* of the p sums of x and counts them as one
    release of mu_s-GDP. One row can change all of them, so that together they are sqrt(p) mu_s-GDP
    and the whole has sqrt(mu_bin^2 + mu_c^2 + p mu_s^2 + mu_t^2) in the place of mu: 1.52 for
    p = 5 and mu = 1 (`binagg_mu`). ``mended`` multiplies the scale by sqrt(p), and mu holds.

    The matrix D is subtracted as in Algorithm 2, divided by the number of bins. The proof of
    Theorem 4.2 needs it undivided; this makes the intervals slightly longer. The quantile is that
    of the normal law, as in Algorithm 2; the authors' simulation takes Student's, which is larger.
    """
    X, y = bounds.clip(X, y)
    mu_bin, mu_c, mu_s, mu_t = mu * BUDGET / np.linalg.norm(BUDGET)
    leaves, p = tree(X, bounds, pure_of_mu(mu_bin), rng), X.shape[1]
    counts = np.rint([len(leaf.rows) + rng.normal() / mu_c for leaf in leaves])
    kept = [(leaf, c) for leaf, c in zip(leaves, counts, strict=True) if c >= 2]
    if not kept:
        return np.tile([-np.inf, np.inf], (p, 1))
    leaves, k = [leaf for leaf, _ in kept], len(kept)
    largest = np.array([np.maximum(abs(leaf.lower), abs(leaf.upper)) for leaf in leaves])
    scales = largest / mu_s * (math.sqrt(p) if mended else 1.0)
    sums = np.array([X[leaf.rows].sum(axis=0) for leaf in leaves]) + scales * rng.normal(
        size=(k, p)
    )
    targets = np.array([y[leaf.rows].sum() for leaf in leaves])
    targets = targets + bounds.largest[1] / mu_t * rng.normal(size=k)
    weights = 1 / np.array([c for _, c in kept])
    return sandwich(sums, targets, weights, scales)


def sandwich(
    sums: FloatArray, targets: FloatArray, weights: FloatArray, scales: FloatArray
) -> FloatArray:
    """Return the intervals of Theorem 4.2 from the noisy sums of k bins."""
    k, p = sums.shape
    weighted = sums * weights[:, None]
    corrections = weights[:, None] * scales**2
    D = np.diag(corrections.mean(axis=0))
    slopes = np.linalg.solve(weighted.T @ sums - D, weighted.T @ targets)
    inverse = np.linalg.inv(weighted.T @ sums / k - D)
    Q = weighted * (targets - sums @ slopes)[:, None] + corrections * slopes
    variance = inverse @ (Q.T @ Q) @ inverse.T / (k * max(k - p, 1))
    return around(slopes, np.sqrt(np.diag(variance)), norm.isf((1 - LEVEL) / 2))


# Noisy sufficient statistics


def nss_mu(epsilon: float, delta: float) -> float:
    """Return the Gaussian-DP parameter of the three releases of `nss` together."""
    return epsilon * float(np.linalg.norm(SHARES)) / _classical(delta / 3)


def nss(
    X: FloatArray,
    y: FloatArray,
    bounds: Bounds,
    epsilon: float,
    delta: float,
    rng: Generator,
    mended: bool = False,
) -> FloatArray:
    """Return the intervals of the slopes of dp-econometrics, shape (p, 2), with an intercept.

    One row is added or removed, and the number of rows is public. With k columns (the intercept
    counts) of largest value B and a target's bound C, X'X changes by at most k B^2, X'y by
    sqrt(k) B C and y'y by C^2 in l2. Each has Gaussian noise of the scale
    sensitivity * sqrt(2 log(1.25 / (delta/3))) / (share * epsilon), with SHARES of epsilon.

    ``mended`` is not about the guarantee, which holds, but about its waste: all sums are one
    release with the least noise that is (epsilon, delta)-DP, each in units of its own bounds, the
    number of rows has no noise, and the variance of the coefficients is exact to first order.
    """
    X, y = bounds.clip(X, y)
    n, p = X.shape
    rows = np.column_stack([np.ones(n), X, y])
    scales = _joint(p, bounds, epsilon, delta) if mended else _apart(p, bounds, epsilon, delta)
    noise = np.triu(scales * rng.normal(size=scales.shape))
    sums = rows.T @ rows + noise + np.triu(noise, 1).T
    A, b, square = sums[:-1, :-1], sums[:-1, -1], sums[-1, -1]
    least = float(np.linalg.eigvalsh(A)[0])
    if least <= 0:
        A = A + (abs(least) + 1e-6) * np.eye(p + 1)
    inverse, k = np.linalg.inv(A), p + 1
    slopes = inverse @ b
    residual = max((square - slopes @ b) / (n - k), 1e-10)
    if mended:
        # The noise of b - A slopes; entries (i, j) and (j, i) of the noise of A are one number.
        squares = scales[:-1, :-1] ** 2
        spread = squares * np.outer(slopes, slopes)
        np.fill_diagonal(spread, scales[:-1, -1] ** 2 + squares @ slopes**2)
    else:
        spread = (scales[1, -1] ** 2 + scales[1, 1] ** 2 * slopes @ slopes) * np.eye(k)
    variance = np.diag(residual * inverse + inverse @ spread @ inverse)
    errors = np.sqrt(np.maximum(variance, 1e-10))
    return around(slopes, errors, t.isf((1 - LEVEL) / 2, n - k))[1:]


def _classical(delta: float) -> float:
    return math.sqrt(2 * math.log(1.25 / delta))


def _apart(p: int, bounds: Bounds, epsilon: float, delta: float) -> FloatArray:
    k, (B, C) = p + 1, bounds.largest
    changes = np.array([k * B**2, math.sqrt(k) * B * C, C**2])
    xx, xy, yy = changes * _classical(delta / 3) / (SHARES * epsilon)
    scales = np.full((k + 1, k + 1), xx)
    scales[-1, :], scales[:, -1], scales[-1, -1] = xy, xy, yy
    return scales


def _joint(p: int, bounds: Bounds, epsilon: float, delta: float) -> FloatArray:
    B, C = bounds.largest
    units = np.array([1.0, *[B] * p, C])
    entries = len(units) * (len(units) + 1) / 2 - 1
    scales = np.outer(units, units) * math.sqrt(entries) / gaussian_mu(epsilon, delta)
    scales[0, 0] = 0
    return scales


# Parametric bootstrap


def bootstrap(
    X: FloatArray,
    y: FloatArray,
    bounds: Bounds,
    epsilon: float,
    rng: Generator,
    mended: bool = False,
) -> FloatArray:
    """Return the intervals of Ferrando et al. for a regression without intercept, shape (p, 2).

    One row is replaced. X'X changes by at most p (p + 1) B^2 in l1, X'y by 2 p B C. The code
    divides by epsilon and by 3, and so adds a ninth of the noise of its own division of epsilon
    into thirds: each of the three releases is 3 epsilon-DP, and the whole 9 epsilon-DP. ``mended``
    multiplies by 3. The scale
    of the noise of the residual variance contains the coefficients without noise, in the code and
    here: nothing about it is private.
    """
    X, y = bounds.clip(X, y)
    n, p = X.shape
    B, C = bounds.largest
    factor = 3 / epsilon if mended else 1 / (3 * epsilon)
    at_xx, at_xy = p * (p + 1) * B**2 * factor, 2 * p * B * C * factor
    XX, Xy = X.T @ X, X.T @ y
    exact = np.linalg.solve(XX, Xy)
    noisy = XX + _symmetric(at_xx, (p, p), rng)
    slopes = np.linalg.solve(noisy, Xy + rng.laplace(0, at_xy, p))
    values, vectors = np.linalg.eigh(noisy / n)
    Q = (vectors * np.where(values > 0, values, 0.1)) @ vectors.T
    widest = (C + B * abs(exact).sum()) ** 2 / (n - p)
    residual = ((y - X @ exact) ** 2).sum() / (n - p) + rng.laplace(0, widest * factor)
    residual = residual if residual > 0 else 0.1
    errors = rng.multivariate_normal(np.zeros(p), residual * Q, RESAMPLES) / math.sqrt(n)
    noise = rng.laplace(0, at_xy / n, (RESAMPLES, p))
    designs = Q + _symmetric(at_xx / n, (RESAMPLES, p, p), rng)
    again = np.linalg.solve(designs, (Q @ slopes + errors + noise)[..., None])[..., 0]
    return np.quantile(again, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0).T


def _symmetric(scale: float, shape: tuple[int, ...], rng: Generator) -> FloatArray:
    upper = np.triu(rng.laplace(0, scale, shape))
    return np.asarray(upper + np.swapaxes(np.triu(upper, 1), -1, -2))


def around(centre: FloatArray, errors: FloatArray, quantile: float) -> FloatArray:
    return np.column_stack([centre - quantile * errors, centre + quantile * errors])
