"""The perturbed objective of one fit, evaluated in blocks of rows that fit in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from numpy.linalg import norm

from skdp._arrays import FloatArray
from skdp._checks import check_positive, fail
from skdp._identity import is_ours
from skdp.linear_model._shared.task import target_of
from skdp.linear_model._solver.compiled import CompiledSums, is_compiled
from skdp.linear_model._solver.design_rows import (
    Coordinates,
    DesignRows,
    Sums,
    Terms,
    joined,
    sums_over,
)
from skdp.linear_model._solver.hessian import CurvatureSums, Hessian, assembled, pairs_of
from skdp.linear_model.losses import (
    AnyLoss,
    Softmax,
    count_predictors,
    greatest_curvature,
    slopes_of,
)
from skdp.rows import Kept, KeptBlocks

# Rounding errors of gradients in single and in double precision: an estimate without proof.
SINGLE, DOUBLE = 2.0**-22, 2.0**-48
# A sample takes groups of so many adjacent rows from a block, which is faster than single rows, if
# there are so many groups.
GROUP, LEAST_GROUPS = 4, 16
# A sample of rows that are read again has about so many numbers, or the share of this stride.
SAMPLE_CELLS, LEAST_STRIDE = 2**24, 4


@dataclass(frozen=True)
class Objective:
    """J(theta) = sum_i w_i phi(x_i'theta, y_i) + theta'M theta / 2 + linear_term'theta.

    The penalty M is diagonal with the ridges. For the coefficients of a spline it is their ridge
    times the matrix of the smoothness penalty.
    With a `Softmax` phi is a function of the predictors of all classes. Then theta, ridge and
    linear_term hold the coordinates of the first class, then those of the second, and so on.

    Parameters
    ----------
    loss : Loss or Softmax
        phi.
    rows : Kept
        The rows x_i with their targets and weights; a state is a `DesignRows`.
    coordinates : Coordinates
        The coordinates of the rows.
    ridge, linear_term : (d,) float64 arrays, ridge > 0
        For K classes of a softmax d is K times the number of coordinates of a row.
    row_norm : float in (0, inf)
        Public bound on |x_i|_2. Rounding may increase the norm of a row beyond it by a relative
        10^-7 at most: the certificate relies on this.
    n : int
        The number of rows.
    label : int or None
        The position of the label that the model predicts; None for a regression or a softmax.
    sample : KeptBlocks or None
        Some of the rows, which are in memory, for `subsample`. None if it shall take some.
    """

    loss: AnyLoss
    rows: Kept
    coordinates: Coordinates
    ridge: FloatArray
    linear_term: FloatArray
    row_norm: float
    n: int
    label: int | None = None
    sample: KeptBlocks | None = None

    def __post_init__(self) -> None:
        # Messages do not contain the number of rows: it is private under "add_remove".
        for name in ("ridge", "linear_term"):
            array = getattr(self, name)
            if array.dtype != np.float64 or array.shape != (self.dim,):
                raise fail(name, f"be a float64 array of {self.dim} entries")
        if not (self.ridge > 0).all():
            raise fail("ridge", "be > 0 in every coordinate")
        check_positive("row_norm", self.row_norm)

    @property
    def dim(self) -> int:
        """Number of coordinates of theta."""
        return self.coordinates.dim * self.n_models

    @property
    def n_models(self) -> int:
        """Number of predictors of a row."""
        return count_predictors(self.loss)

    @property
    def has_whole_hessian(self) -> bool:
        """Whether products of different classes are part of the second derivative."""
        return len(pairs_of(self.coordinates, self.n_models)) > self.n_models or self.n_models == 1

    def models_of(self, theta: FloatArray) -> FloatArray:
        """Return the coordinates of each predictor, (models, coordinates)."""
        return theta.reshape(self.n_models, -1)

    def gradient(self, theta: FloatArray, *, single: bool = False) -> FloatArray:
        """Return grad J(theta), (d,), with the rounding errors of plain arithmetic.

        ``single`` multiplies numbers in single precision, unless a compiled function does it.
        """
        return self._gradient(theta, self.rows.sum(self._slopes(theta, single)))

    def noise(self, theta: FloatArray, unit: float) -> float:
        """Return an estimate, without proof, of the rounding errors in the gradient's norm."""
        slopes = self.loss.slope_bound + self.smoothness * self.row_norm * euclidean(theta)
        rest = euclidean(self.penalty(theta)) + euclidean(self.linear_term)
        return unit * (self.n * self.row_norm * slopes + rest)

    def hessian(self, theta: FloatArray) -> Hessian:
        """Return the second derivative of J at theta, with the errors of `CurvatureSums`."""
        return self._assembled(self.rows.sum(self._curvatures(theta)))

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, Hessian]:
        """Return the gradient and the second derivative of J at theta, from one pass."""
        parts = self._slopes(theta), self._curvatures(theta)
        slopes, curvatures = self.rows.sum(Each(parts))
        return self._gradient(theta, slopes), self._assembled(curvatures)

    def subsample(self, stride: int) -> Objective | None:
        """Return J on about one row out of each ``stride``, divided by the share of the rows.

        If there is a sample in memory, J is that on the sample. None if no row was chosen.
        A fixed generator picks rows of each run, so that sorted and periodic data are sampled well.
        The choice needs no secrecy, because every result is certified on all rows.
        """
        sample = self.sample
        if sample is None:
            parts = self.rows.sum(_Sample(stride))
            if not parts:
                return None
            sample = joined(parts)
        m = sample.sum(len)
        share = m / self.n
        return replace(
            self,
            rows=sample,
            sample=None,
            ridge=self.ridge * share,
            linear_term=self.linear_term * share,
            n=m,
        )

    def _slopes(self, theta: FloatArray, single: bool = False) -> _Slopes:
        terms = [self.coordinates.terms(own) for own in self.models_of(theta)]
        compiled = self.compiled(terms[0])
        if single and compiled is None:
            terms = [own.single() for own in terms]
        return _Slopes(self.loss, self.label, self.coordinates, terms, compiled)

    def _curvatures(self, theta: FloatArray) -> CurvatureSums:
        # Newton's method for streams has no other curvature: with errors above the ridge it fails.
        precise = self.rows.is_read_again
        terms = [self.coordinates.terms(own) for own in self.models_of(theta)]
        own = self.loss, self.label, self.coordinates, terms, self.compiled(terms[0])
        return CurvatureSums(*own, precise)

    def _assembled(self, sums: tuple[Any, ...]) -> Hessian:
        return assembled(self.coordinates, self.models_of(self.ridge), sums)

    def _gradient(self, theta: FloatArray, sums: tuple[Any, ...]) -> FloatArray:
        found = np.concatenate([self.coordinates.gradient(Sums(*own)) for own in sums])
        return np.asarray(found + self.penalty(theta) + self.linear_term)

    def penalty(self, theta: FloatArray) -> FloatArray:
        """Return the gradient of the penalty, (d,)."""
        penalised = self.coordinates.design.penalised
        found = np.concatenate([penalised(own) for own in self.models_of(theta)])
        return np.asarray(self.ridge * found)

    def compiled(
        self, high: Terms, low: Terms | None = None, grid: float = 0.0
    ) -> CompiledSums | None:
        """Return `CompiledSums` of a predictor; None if compiled functions are not used."""
        known = self.loss, self.coordinates, high, low, grid
        return CompiledSums(*known) if self.is_compiled else None

    @property
    def cells(self) -> int:
        """Number of cells of the table."""
        return self.n * self.coordinates.design.domain.n_columns

    @cached_property
    def is_compiled(self) -> bool:
        """Whether compiled functions are used."""
        return is_compiled(self.loss, self.cells)

    @cached_property
    def smoothness(self) -> float:
        """Bound on the curvature of the loss."""
        return greatest_curvature(self.loss)


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Sums of weighted slopes times the rows for each predictor, in the precision of the terms."""

    loss: AnyLoss
    label: int | None
    coordinates: Coordinates
    terms: list[Terms]
    compiled: CompiledSums | None

    def __call__(self, rows: DesignRows) -> tuple[Sums, ...]:
        y = target_of(rows.target, self.label)
        found = None if self.compiled is None else self.compiled(rows, y)
        if found is not None:
            return (found[0],)
        numbers = rows.numbers.astype(self.terms[0].slopes.dtype, copy=False)
        z = np.array([own.of(numbers, rows.levels) for own in self.terms])
        # The package's losses keep the precision; others may expect that of float.
        kind = z.dtype if is_ours(self.loss) else np.dtype(np.float64)
        target = y if isinstance(self.loss, Softmax) else y.astype(kind, copy=False)
        slopes = slopes_of(self.loss, z.astype(kind, copy=False), target)
        return tuple(
            sums_over(rows, numbers, rows.weighted(own), self.coordinates) for own in slopes
        )


@dataclass(frozen=True, eq=False)
class Each:
    """The sums of several functions of the same rows."""

    parts: tuple[Callable[[DesignRows], Any], ...]

    def __call__(self, rows: DesignRows) -> tuple[Any, ...]:
        return tuple(part(rows) for part in self.parts)


def sample_of(n: int, dim: int) -> Callable[[DesignRows], list[DesignRows]]:
    """Return a function whose sum over n rows is a sample that is kept in memory."""
    return _Sample(max(LEAST_STRIDE, n * dim // SAMPLE_CELLS))


@dataclass(frozen=True, eq=False)
class _Sample:
    """About one row out of each ``stride``, in groups of adjacent rows where there are many."""

    stride: int

    def __call__(self, rows: DesignRows) -> list[DesignRows]:
        n = len(rows)
        if n < self.stride:
            # One row with the probability of its share. The generators of small blocks differ.
            first = rows.numbers[:, :1].tobytes() + rows.target.tobytes()
            rng = np.random.default_rng(crc32(first))
            if rng.random() * self.stride >= n:
                return []
        group = min(GROUP, max(1, n // (LEAST_GROUPS * self.stride)))
        count = max(1, n // (group * self.stride))
        start = np.arange(count) * (n // count)
        offset = np.random.default_rng(0).integers(0, n // count - group + 1, count)
        return [rows.chosen(((start + offset)[:, None] + np.arange(group)).ravel())]


def euclidean(v: FloatArray) -> float:
    """Return |v|_2."""
    return float(norm(v))


def power_above(size: float) -> float:
    """Return the power of two in (size, 2 size]."""
    return math.ldexp(1.0, math.frexp(size)[1]) if size < math.inf else math.nan
