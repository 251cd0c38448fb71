"""Calibration of matrix Laplace noise for the moments of a regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.mechanisms.independent import LEAST_GAIN
from skdp.mechanisms.knorm import check_budget, shift_in_any_norm, spendable
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.noise.matrix import MatrixLaplaceNoise
from skdp.privacy.guarantee import certified
from skdp.trusted.arrays import ROUND_UP, FloatArray
from skdp.trusted.checks import check_interval, fail, is_ours

# Of Newton's method.
_MOST_STEPS, _LEAST_LENGTH = 100, 1e-8


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class MatrixLaplace:
    """The difference of two Wishart matrices as noise for the moments of a regression.

    It is epsilon-private for records whose rows v = (1, x, y) have a bounded v'Sv, S diagonal. The
    S with the least weighted mean squared error is used. At most one indicator of a block is 1, so
    a categorical column with many levels costs no more than a number. See
    ``docs/proofs/matrix_laplace.md``, Theorem 1 and Corollary 2.

    Parameters
    ----------
    weights : sequence of float >= 0, (dim,), or None for ones
        Weights of the squared errors of the entries.

    Examples
    --------
    >>> from skdp.geometry.moments import MomentBall, MomentLayout
    >>> ball = MomentBall(MomentLayout(8, range(8)), level=0)
    >>> matrix = MatrixLaplace().calibrate(Sensitivity(ball), epsilon=1.0)
    >>> box = ball.dim * 2 / 3**0.5  # standard deviation of K-norm noise on the box
    >>> print(round(np.median(matrix.variance()) ** 0.5 / box, 2))
    0.71
    """

    weights: Sequence[float] | FloatArray | None = None

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> MatrixLaplaceNoise:
        """Return noise of this kind that is (epsilon, delta)-private.

        v'Sv + u'Su is at most epsilon - 2 log(1 - delta) (``docs/proofs/matrix_laplace.md``,
        Corollary 2). If delta reduces the noise by less than a thousandth, it is not spent and the
        guarantee has delta = 0. ``sensitivity.ball`` must be a `MomentBall` or a
        `RadialMomentBall`.
        """
        epsilon, delta = check_budget(epsilon, delta)
        ball = sensitivity.ball
        if not isinstance(ball, MomentBall | RadialMomentBall) or not is_ours(ball):
            remedy = "Pass the sensitivity as a MomentBall."
            raise fail("sensitivity", "be that of moments", type(ball), remedy)
        if sensitivity.radius != 1.0 or sensitivity.neighbors != ball.layout.neighbors:
            raise fail("sensitivity", "be the moment ball's own: radius 1, the same neighbours")
        shift = shift_in_any_norm(epsilon, spendable(delta))
        if shift <= epsilon * (1 + LEAST_GAIN):
            shift, delta = epsilon, 0.0
        rows = ball if isinstance(ball, RadialMomentBall) else ball.layout
        sorts = ball.layout.column_sorts
        units = np.eye(int(sorts.max()) + 1)
        # With one weight for each sort the greatest sum of squares of a row is linear in them.
        cost = np.array([rows.row_square(unit[sorts]) for unit in units])
        shape = least_product(cost, self._demand(ball.layout, sorts))[sorts]
        records = 1 if ball.layout.adds else 2
        # The sum of v'Sv over the records that differ is at most the shift.
        spent = records * rows.row_square(shape) * ROUND_UP
        noise = MatrixLaplaceNoise(ball.layout, shape * (shift / spent))
        said = f"matrix Laplace noise on {ball.dim} moments"
        return certified(noise, sensitivity, epsilon, delta, said)

    def _demand(self, layout: MomentLayout, sorts: NDArray[np.intp]) -> FloatArray:
        """Return the matrix (sorts, sorts) whose entries weigh 1 / (S_ii S_jj) in the error."""
        if self.weights is None:
            weights = np.ones(layout.dim)
        else:
            weights = np.asarray(self.weights)
            if weights.dtype != float or not (weights >= 0).all():
                checked = [check_interval("weights", w, 0.0, math.inf) for w in self.weights]
                weights = np.array(checked)
        if weights.shape != (layout.dim,) or not (np.all(np.isfinite(weights)) and weights.any()):
            rule = f"be {layout.dim} finite numbers, one for each moment, and not all 0"
            raise fail("weights", rule)
        (i, j), count = layout.pairs.T, int(sorts.max()) + 1
        entries = weights * layout.scale**2 * np.where(i == j, 2.0, 1.0)
        demand = np.bincount(sorts[i] * count + sorts[j], entries, count**2).reshape(count, count)
        counted = 2 * float(weights @ layout.shift**2)
        demand[0, 0] += counted
        most = max(float(entries.max()), counted + float(entries[(i + j) == 0].sum()))
        # A tiny demand everywhere, so that an optimum exists if a row has no weight.
        sizes = np.bincount(sorts)
        return np.asarray((demand + demand.T) / 2 + 1e-9 * most * np.outer(sizes, sizes))


def least_product(cost: FloatArray, demand: FloatArray) -> FloatArray:
    """Return s > 0, (n,), of greatest entry 1, that minimises (cost's)^2 times (1/s)'demand (1/s).

    All entries of cost, (n,), and of the symmetric demand, (n, n), are > 0. Newton's method in
    x = log s: the logarithm is convex in x, as the sum of two logarithms of sums of exponentials.
    It does not change if a number is added to all of x.
    """

    def height(x: FloatArray) -> float:
        return 2 * math.log(cost @ np.exp(x)) + math.log(np.exp(-x) @ demand @ np.exp(-x))

    x = np.zeros(len(cost))
    for _ in range(_MOST_STEPS):
        shares, pairs = cost * np.exp(x), demand * np.exp(-np.add.outer(x, x))
        shares, pairs = shares / shares.sum(), pairs / pairs.sum()
        sums = pairs.sum(axis=1)
        slope = 2 * (shares - sums)
        curved = np.diag(shares + sums) + pairs
        curved = curved - np.outer(shares, shares) - 2 * np.outer(sums, sums)
        # The ones fix the sum of the step.
        step = -np.linalg.solve(2 * curved + 1.0, slope)
        length = 1.0
        while height(x + length * step) > height(x) and length > _LEAST_LENGTH:
            length /= 2
        x = x + length * step
        if float(np.abs(step).max()) < _LEAST_LENGTH or length <= _LEAST_LENGTH:
            break
    return np.asarray(np.exp(x - x.max()))
