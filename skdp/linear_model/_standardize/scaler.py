"""Centres and scales of encoded columns, from noisy means and squares.

The rules use only released and public numbers. The privacy proof does not depend on them. The
origin of the constants: ``docs/mathematics/automatic_choices.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray, squared_lengths


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
        own = np.square(noise)
        return mean if math.isinf(self.prior) else mean * (self.prior / (self.prior + own))

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
        """Return the scaler of some columns of (x, y); the others are not scaled."""
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


@dataclass(frozen=True, eq=False)
class RowScaler:
    """A map that scales and bounds rows (1, x, y), each row by itself."""

    columns: Scaler
    factor: FloatArray  # (n_encoded + 2,); scaled rows are multiplied by it, and then bounded
    clips: bool = False  # entries to [-1, 1]; otherwise rows are shrunk to length 1

    @cached_property
    def centre(self) -> FloatArray:
        """Centres of the columns of (1, x, y)."""
        return np.append(0.0, self.columns.centre)

    @cached_property
    def scale(self) -> FloatArray:
        """Scales of the columns of (1, x, y)."""
        return np.append(1.0, self.columns.scale)

    def place(self, rows: FloatArray) -> None:
        """Scale and bound rows (1, x, y), in place."""
        rows *= self.factor / self.scale
        rows -= self.factor * self.centre / self.scale
        if self.clips:
            np.clip(rows, -1.0, 1.0, out=rows)
            return
        length = np.sqrt(squared_lengths(rows))
        outside = np.flatnonzero(length > 1)
        rows[outside] /= length[outside, None]
