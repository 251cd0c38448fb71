"""The perturbed objective of one fit, evaluated in blocks of rows that fit in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.linalg import norm

from skdp._arrays import FloatArray
from skdp._checks import check_positive, fail
from skdp.linear_model.losses import Loss, greatest_curvature

MOST_ROWS = 2**14  # the predictor and its slopes fit in the cache, too
BLOCK_ENTRIES = 2**18  # 2 MB of design: it is still in the cache for the second product
LONG_ROW = 32


@dataclass(frozen=True)
class Objective:
    """J(theta) = sum_i w_i phi(x_i'theta, y_i) + sum_j ridge_j theta_j^2 / 2 + linear_term'theta.

    Parameters
    ----------
    loss : Loss
        phi.
    design : (n, d) float64 array in C order
        The rows x_i.
    target : (n,) float64 array
        The y_i.
    ridge, linear_term : (d,) float64 arrays, ridge > 0
    row_norm : float in (0, inf)
        Public bound on |x_i|_2. Rounding may increase the norm of a row beyond it by a relative
        10^-7 at most: the certificate relies on this.
    weight : (n,) float64 array with entries in [0, 1], or None for ones
        The w_i.
    """

    loss: Loss
    design: FloatArray
    target: FloatArray
    ridge: FloatArray
    linear_term: FloatArray
    row_norm: float
    weight: FloatArray | None = None

    def __post_init__(self) -> None:
        # Messages do not contain the number of rows: it is private under "add_remove".
        if self.design.ndim != 2 or not self.design.flags.c_contiguous:
            raise fail("design", "be a matrix in C order", remedy="Use np.ascontiguousarray.")
        n, d = self.design.shape
        arrays = {"design": (n, d), "target": (n,), "ridge": (d,), "linear_term": (d,)}
        if self.weight is not None:
            arrays["weight"] = (n,)
        for name, shape in arrays.items():
            array = getattr(self, name)
            if array.dtype != np.float64 or array.shape != shape:
                raise fail(name, "be a float64 array that matches the design's shape")
        if not (self.ridge > 0).all():
            raise fail("ridge", "be > 0 in every coordinate")
        check_positive("row_norm", self.row_norm)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return grad J(theta), (d,), with the rounding errors of plain arithmetic."""
        total = self.ridge * theta + self.linear_term
        for rows in self.blocks():
            x = self.design[rows]
            slope = self.loss.slope(predictor(x, theta), self.target[rows])
            total += self.weighted(slope, rows) @ x
        return total

    def noise(self, theta: FloatArray) -> float:
        """Return an estimate, without proof, of the rounding errors in the gradient's norm."""
        n, c = len(self.target), self.loss.slope_bound
        slopes = c + self.smoothness * self.row_norm * euclidean(theta)
        rest = euclidean(self.ridge * theta) + euclidean(self.linear_term)
        return 4e-15 * (n * self.row_norm * slopes + rest)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Return the second derivative of J at theta, (d, d)."""
        total = np.diag(self.ridge)
        for rows in self.blocks():
            x = self.design[rows]
            second = self.loss.curvature(predictor(x, theta), self.target[rows])
            scaled = np.sqrt(self.weighted(second, rows))[:, None] * x
            total += scaled.T @ scaled
        return total

    def subsample(self, stride: int) -> Objective:
        """Return J on one row out of each ``stride``, divided by ``stride``.

        A fixed generator picks one row of each run, so that sorted and periodic data are sampled
        well. The choice needs no secrecy, because every result is certified on all rows.
        """
        m = len(self.target) // stride
        rows = np.arange(m) * stride + np.random.default_rng(0).integers(0, stride, m)
        return Objective(
            self.loss,
            self.design[rows],
            self.target[rows],
            self.ridge / stride,
            self.linear_term / stride,
            self.row_norm,
            None if self.weight is None else self.weight[rows],
        )

    @cached_property
    def smoothness(self) -> float:
        """Bound on the curvature of the loss."""
        return greatest_curvature(self.loss)

    def blocks(self, most: int = MOST_ROWS) -> Iterator[slice]:
        """Yield slices of :func:`block_rows` rows, the last one shorter."""
        n, d = self.design.shape
        size = block_rows(d, most)
        yield from (slice(start, min(start + size, n)) for start in range(0, n, size))

    def weighted(self, values: FloatArray, rows: slice) -> FloatArray:
        """Return w_i values_i over one slice of rows."""
        return values if self.weight is None else self.weight[rows] * values


def block_rows(dim: int, most: int) -> int:
    """Return the number of rows of a block."""
    return min(most, max(64, BLOCK_ENTRIES // dim))


def predictor(x: FloatArray, theta: FloatArray) -> FloatArray:
    """Return x theta, (rows,)."""
    # One dot product per row is twice as fast as a matrix product, except for short rows.
    return np.asarray(np.vecdot(x, theta) if len(theta) >= LONG_ROW else x @ theta)


def euclidean(v: FloatArray) -> float:
    """Return |v|_2."""
    return float(norm(v))
