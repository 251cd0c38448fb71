"""The scores of rows at a public model: what one row contributes to the estimating equations.

The model predicts eta = a + c'x from encoded columns. The score of a row is psi(y, eta), with
values in [-1, 1], and its curvature is h(y, eta) = -d psi / d eta. For labels psi = y - p and
h = p (1 - p), with the probability p = 1 / (1 + exp(-eta)). For numbers psi is the residual divided
by a public bound and clipped to [-1, 1], and h is the indicator that it is not clipped, divided by
the bound.

A row z = (1, scaled columns) has the weight w = min(1, 1 / |f z|^2) for public factors f. Then
w psi f z and sqrt(w h) f z are bounded, and the weight depends on the columns only. So the
equations sum w psi z = 0 have the solution that those without weights have in expectation.

Every result depends on one row only, bit for bit: products of matrices are exact, as all
entries are multiples of powers of two with few bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from skdp._arrays import FloatArray, squared_lengths
from skdp.domain import Domain
from skdp.linear_model._shared.gram import NUMBER_BITS, on_grid, whole_rows
from skdp.linear_model._standardize.scaler import Scaler
from skdp.rows import Block

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
    """The scores at a public model.

    Attributes
    ----------
    domain : Domain
    slopes : ndarray of shape (n_encoded,)
        Of the encoded columns; those of a ball are divided by their unit.
    constant : float
    label : int or None
        The position of the label that the model predicts; None for a regression.
    bound : float
        Of residuals, in units of the encoded target. Not used for labels.
    usual : float
        About the mean square of the scores of a regression.
    """

    domain: Domain
    slopes: FloatArray
    constant: float
    label: int | None
    bound: float = 1.0
    usual: float = 1.0

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
class WeightedRows:
    """Rows f z with their weights.

    Attributes
    ----------
    scaler : Scaler
        Of the encoded columns.
    factor : ndarray of shape (n_encoded + 1,)
        The factors f.
    """

    scaler: Scaler
    factor: FloatArray

    def of(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return f z and the square roots of the weights for rows (1, x, y)."""
        z = rows[:, :-1] * np.append(1.0, 1 / self.scaler.scale[:-1])
        z[:, 1:] -= self.scaler.centre[:-1] / self.scaler.scale[:-1]
        z *= self.factor
        return z, 1 / np.sqrt(np.maximum(squared_lengths(z), 1.0))


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """Maps of rows (1, x, y) for the sums of scores and of curvatures, in place.

    ``cross`` makes rows (w f z, psi), and ``square`` makes rows (sqrt(w h) f z, 0).
    """

    scores: Scores
    weighted: WeightedRows

    def cross(self, rows: FloatArray) -> None:
        """Replace rows by (w f z, psi)."""
        on_grid(rows)
        psi, _ = self.scores.of(rows)
        z, root = self.weighted.of(rows)
        rows[:, :-1] = z * np.square(root)[:, None]
        rows[:, -1] = psi

    def square(self, rows: FloatArray) -> None:
        """Replace rows by (sqrt(w h) f z, 0)."""
        on_grid(rows)
        _, curvature = self.scores.of(rows)
        z, root = self.weighted.of(rows)
        rows[:, :-1] = z * (root * np.sqrt(curvature))[:, None]
        rows[:, -1] = 0.0


@dataclass(frozen=True, eq=False)
class Influences:
    """The influence of each row on the coefficients: A w f z psi, before it is bounded.

    Called with a block, it returns the influences, (n, m). The matrix is (m, n_encoded + 1).
    """

    rows: ScoreRows
    matrix: FloatArray

    @cached_property
    def _matrix(self) -> FloatArray:
        return few_bits(self.matrix, self.matrix.shape[1])

    def __call__(self, block: Block) -> Iterator[FloatArray]:
        """Yield the influences of parts of a block."""
        for rows in whole_rows(self.rows.scores.domain, block, self.rows.cross):
            yield (rows[:, :-1] @ self._matrix.T) * rows[:, -1:]


def with_residuals(scores: Scores, block: Block) -> Block:
    """Return a block whose target is half of the residual, clipped to [-1, 1]."""
    parts = [scores.residuals(rows) / 2 for rows in whole_rows(scores.domain, block, None)]
    target: NDArray[np.float64] = np.concatenate(parts).clip(-1.0, 1.0)
    return replace(block, target=target)
