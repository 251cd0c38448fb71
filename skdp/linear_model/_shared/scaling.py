"""The scaling stage, which spends a share of the budget on centres and scales of columns.

Bounds that hold for all records are wide, and most records lie close together. A scaling stage
releases sums of columns and of their squares. Centres and scales are computed from them and are
public. With independent noise, that of a sum of squares is 1 / w times that of a sum of numbers.
One record cannot change both by as much as possible, so up to some w its squares cost little or
nothing. Statements and proofs: ``docs/proofs/objective_perturbation.md``, Theorem 5,
``docs/proofs/moment_release.md`` and ``docs/proofs/coordinate_descent.md``, Theorem 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from skdp.geometry import LpBall, NormBall, SquaresBall, SumBall
from skdp.linear_model._shared.gram import ColumnSums, Estimates, release_exact
from skdp.linear_model.validation import is_auto
from skdp.mechanisms import GaussianNoise, KNorm, KNormNoise, Sensitivity
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import NoisySum
from skdp.trusted.checks import check_interval
from skdp.trusted.noise import variances

# Weight of squares for Gaussian noise if a record is replaced; at most sqrt((11 + 5 sqrt 5) / 8).
REPLACED_WEIGHT = math.sqrt(11 / 4)
# The share of epsilon is chosen for noise of GOOD_NOISE in the means, within these limits.
LEAST_SHARE, MOST_SHARE, GOOD_NOISE = 0.05, 0.2, 0.05


@dataclass(frozen=True, eq=False)
class ScalingStage:
    """A release of column sums; public information only."""

    sums: ColumnSums
    noise: KNormNoise | GaussianNoise

    def deviations(self, n: float) -> FloatArray:
        """Return the standard deviation of the noise in each sum over n, (dim,)."""
        return np.asarray(np.sqrt(variances(self.noise)) / n)

    def release(self, release: NoisySum, exact: NDArray[Any], rng: Generator) -> Estimates:
        """Release the sums with the noise of the stage, and return what they estimate."""
        return self.sums.estimates(release_exact(release, exact, rng))


def sums_deviation(sums: ColumnSums, moved: float) -> float:
    """Return the standard deviation of K-norm noise in a sum of numbers, times epsilon.

    The counts of levels are left out.
    """
    ball = SquaresBall(len(sums.columns), sums.is_counted)
    variance = float(ball.variance()[int(sums.is_counted)])
    return moved * math.sqrt((ball.dim + 1) * (ball.dim + 2) * variance)


def sums_noise(
    sums: ColumnSums, moved: float, neighbors: str, epsilon: float, apart: float = 0.0
) -> KNormNoise:
    """Return K-norm noise for sums with a square for each column, times 2.

    ``moved`` records may differ. Numbers with their squares, and the count, have the hull of their
    changes. Levels have an l1 ball. The part of either is in proportion to the noise that it would
    need alone. If ``apart`` > 0, the last of several columns and the count have this share of
    epsilon, and noise of their own.
    """
    k, counted = len(sums.columns), sums.is_counted
    ball: NormBall = SquaresBall(k, counted)
    if apart:
        last = *range(counted), counted + k - 1, counted + 2 * k - 1
        others = tuple(np.delete(np.arange(counted + 2 * k), last).tolist())
        # The records (z, 2 z^2 - 1) of a number, with both signs, span a square.
        rest = LpBall(len(others), p=math.inf) if counted else SquaresBall(k - 1)
        ball = SumBall((SquaresBall(1, counted), rest), (apart, 1 - apart), (last, others))
    elif sums.blocks:
        needed = sums_deviation(sums, 1.0)
        share = needed / (needed + math.sqrt(2) * len(sums.blocks))
        parts = ball, LpBall(sums.n_levels, p=1.0)
        ball = SumBall(parts, (share, (1 - share) / len(sums.blocks)))
    return KNorm().calibrate(Sensitivity(ball, moved, neighbors), epsilon=epsilon)


def usual_share(needed: float, good: float = GOOD_NOISE) -> float:
    """Return the share of epsilon; ``needed`` is the noise in the means with all of epsilon."""
    return min(max(needed / good, LEAST_SHARE), MOST_SHARE)


def check_share(name: str, share: Any, of_zero: str) -> None:
    """Raise an error unless a share of epsilon is "auto" or a number in [1e-6, 1) or 0."""
    if not is_auto(share) and not (isinstance(share, Real) and share == 0):
        check_interval(name, share, 1e-6, 1.0, "left", f'{of_zero} Or give "auto".')


# Centres and scales of encoded columns, from noisy means and squares. The rules use only released
# and public numbers, and the privacy proof does not depend on them. The origin of the constants:
# docs/mathematics/automatic_choices.md.


@dataclass(frozen=True)
class SpreadRule:
    """Lower limits of variances and shrinkage of means, for columns in [-1, 1].

    Variances are at least ``per_noise`` standard deviations of the noise of a mean, but this limit
    is kept between ``least`` and ``usual``. A mean that is mostly noise, compared with its
    ``prior`` variance, is shrunk towards 0.
    """

    least: float
    per_noise: float
    usual: float
    prior: float = math.inf

    def centre(self, mean: FloatArray, noise: FloatArray | float) -> FloatArray:
        """Return shrunk means (James & Stein's shrinkage)."""
        if math.isinf(self.prior):
            return mean
        return mean * (self.prior / (self.prior + np.square(noise)))

    def variance(self, variance: FloatArray, noise: FloatArray | float) -> FloatArray:
        """Return noisy variances within the limits of the rule."""
        least = np.clip(self.per_noise * np.asarray(noise), self.least, self.usual)
        return np.asarray(np.clip(variance, least, 1.0))


# In this order: clipping bounds of objective perturbation; coordinate descent, where greater
# variances give shorter steps; moments of scaled columns.
CLIPPING = SpreadRule(least=1e-4, per_noise=0.5, usual=0.04, prior=0.25)
DESCENT = SpreadRule(least=1e-4, per_noise=1.0, usual=0.04, prior=0.25)
MOMENTS = SpreadRule(least=0.03**2, per_noise=0.35, usual=0.3**2)


@dataclass(frozen=True, eq=False)
class Scaler:
    """A centre and a scale for each column of the encoded (x, y): v becomes (v - centre) / scale.

    They are 0 and 1 for columns that are not scaled. The target is last.
    """

    centre: FloatArray
    scale: FloatArray

    @classmethod
    def of(
        cls, n_encoded: int, columns: ArrayLike, centre: FloatArray, scale: FloatArray
    ) -> Scaler:
        centres, scales = np.zeros(n_encoded + 1), np.ones(n_encoded + 1)
        at = np.asarray(columns, dtype=np.intp)
        centres[at], scales[at] = centre, scale
        return cls(centres, scales)

    def undo(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return models of scaled columns as models of encoded columns, (models, n_encoded)."""
        coef = coef / self.scale[:-1]
        intercept = intercept - coef @ self.centre[:-1]
        return coef * self.scale[-1], intercept * self.scale[-1] + self.centre[-1]

    def apply(self, coef: FloatArray, intercept: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return models of encoded columns as models of scaled columns: the inverse of `undo`."""
        coef, intercept = coef / self.scale[-1], (intercept - self.centre[-1]) / self.scale[-1]
        return coef * self.scale[:-1], intercept + coef @ self.centre[:-1]

    def undo_covariance(self, covariance: FloatArray) -> FloatArray:
        """Return the covariance of (intercept, coefficients) after `undo`, (q + 1, q + 1)."""
        slopes = self.scale[-1] / self.scale[:-1]
        step = np.diag(np.concatenate([[self.scale[-1]], slopes]))
        step[0, 1:] = -slopes * self.centre[:-1]
        return np.asarray(step @ covariance @ step.T)
