"""The mean stage: a released mean of residuals corrects the intercept.

A robust loss estimates a centre of the target, which differs from the mean where residuals are
skewed. After the release of the coefficients, a small share of epsilon is spent on the sum of
clipped residuals and of their squares; the mean of the residuals is added to the intercept. Every
residual depends on one record and on released numbers. Statement and proof:
``docs/proofs/objective_perturbation.md``, Theorem 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.linear_model._objective.problem import DesignRows, terms_of
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import ColumnSums, exact_sum, release_exact, sums_of
from skdp.linear_model._shared.scaling import sums_deviation, sums_noise
from skdp.linear_model._shared.task import Task
from skdp.mechanisms import KNormNoise
from skdp.rows import Kept
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.noise import variances

# The share of epsilon, and the distance at which residuals are clipped. It is in half-ranges of the
# scaled target, which are about three standard deviations.
MEAN_SHARE, REACH = 0.03, 1.0
# The standard deviation of corrections that the rules assume, and the greatest noise of the mean
# with which "auto" makes a correction, in the same units.
BIAS, MOST_NOISE = 0.03, 0.02


@dataclass(frozen=True, eq=False)
class MeanStage:
    """A release of the mean residual; public information only."""

    sums: ColumnSums
    noise: KNormNoise
    epsilon: float

    @cached_property
    def noisy_sum(self) -> NoisySum:
        change = self.sums.change("add_remove" if self.sums.is_counted else "replace_one")
        return NoisySum("mean", change, self.noise, "objective_perturbation.md, Theorem 6")

    def shift(
        self,
        rows: Kept,
        design: Design,
        theta: FloatArray,
        ends: tuple[float, float],
        rng: Generator,
    ) -> float:
        """Return the correction of the intercept, for predictions that are clipped to ``ends``."""
        terms = terms_of(design, theta)

        def part(own: DesignRows) -> tuple[NDArray[np.int64], ...]:
            # Number by number: the last bits of a matrix product depend on other rows.
            z = np.full(len(own), terms.constant)
            for slope, numbers in zip(terms.slopes, own.numbers, strict=True):
                z += slope * numbers.astype(np.float64)
            for table, codes in zip(terms.tables, own.levels, strict=True):
                z += table.take(codes)
            residual = (own.target - np.clip(z, *ends)) / REACH
            return *sums_of(np.clip(residual, -1.0, 1.0)[:, None]), np.array([len(own)])

        sums, squares, count = exact_sum(rows, part)
        exact = self.sums.exact(sums, squares, count[0])
        seen = self.sums.estimates(release_exact(self.noisy_sum, exact, rng))
        noise = float(variances(self.noise)[int(self.sums.is_counted)]) * (REACH / seen.n) ** 2
        # A mean that is mostly noise is shrunk towards 0.
        return float(seen.mean[0]) * REACH * BIAS**2 / (BIAS**2 + noise)


def plan_mean(task: Task, size: float, share: float | None) -> MeanStage | None:
    """Return a calibrated stage, or None if the mean would be too noisy.

    ``size`` is the number of records or a public guess of it. If ``share`` is None, the rules
    choose it.
    """
    sums = ColumnSums((0,), task.n, ((0,),))
    spent = (MEAN_SHARE if share is None else share) * task.epsilon
    if (
        share is None
        and REACH * sums_deviation(sums, task.records_changed) > MOST_NOISE * spent * size
    ):
        return None
    return MeanStage(sums, sums_noise(sums, task.records_changed, task.neighbors, spent), spent)
