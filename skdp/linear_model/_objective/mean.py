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
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp.linear_model._objective.problem import DesignRows, Terms, predictors_apart
from skdp.linear_model._shared.gram import ColumnSums, exact_sum, release_exact, sums_of
from skdp.linear_model._shared.scaling import sums_deviation, sums_noise
from skdp.linear_model._shared.task import Task
from skdp.linear_model.validation import is_auto
from skdp.mechanisms import KNormNoise
from skdp.rows import Kept
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
    def noisy(self) -> NoisySum:
        change = self.sums.change("add_remove" if self.sums.is_counted else "replace_one")
        return NoisySum("mean", change, self.noise, "objective_perturbation.md, Theorem 6")

    def shift(
        self, loss: Any, terms: Terms, rows: Kept, ends: tuple[float, float], rng: Generator
    ) -> float:
        """Return the shrunk mean of the residuals."""

        def part(own: DesignRows) -> tuple[NDArray[np.int64], ...]:
            residual = (own.target - np.clip(predictors_apart(terms, own), *ends)) / REACH
            return *sums_of(np.clip(residual, -1.0, 1.0)[:, None]), np.array([len(own)])

        sums, squares, count = exact_sum(rows, part)
        exact = self.sums.exact(sums, squares, count[0])
        seen = self.sums.estimates(release_exact(self.noisy, exact, rng))
        noise = float(variances(self.noise)[int(self.sums.is_counted)]) * (REACH / seen.n) ** 2
        # A mean that is mostly noise is shrunk towards 0.
        return float(seen.mean[0]) * REACH * BIAS**2 / (BIAS**2 + noise)


def plan_mean(share: Any, task: Task, size: float, is_scaled: bool) -> MeanStage | None:
    """Return a calibrated stage; None for a share of 0, or if "auto" would be too noisy.

    ``size`` is the number of records or a public guess of it; ``is_scaled`` says whether the scale
    of the target is estimated.
    """
    if share == 0:
        return None
    sums = ColumnSums((0,), task.n, (0,))
    spent = (MEAN_SHARE if is_auto(share) else float(share)) * task.epsilon
    noise = REACH * sums_deviation(sums, task.records_changed) / (spent * size)
    if is_auto(share) and (noise > MOST_NOISE or not is_scaled):
        return None
    return MeanStage(sums, sums_noise(sums, task.records_changed, task.neighbors, spent), spent)
