"""Bounds for records whose loss has several classes.

With u = 1 - p_y and a normalizer a, the absolute slopes of a row for K classes add up to at most
(1 - a) + 2 a u, the trace of its second derivative is bounded by a concave function of u, and its
rank is K - 1. The direction of the gradient depends on the linear term V, so that profiles need
the law of the greatest of several normal numbers. Statements and proofs: docs/proofs/softmax.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from skdp._arrays import FloatArray
from skdp._identity import remembered
from skdp.linear_model._objective.persons import (
    ROUNDING,
    RecordLoss,
    lines_above,
    log_delta_of_line,
)
from skdp.linear_model.losses import Softmax
from skdp.privacy.normal import log_delta

# Among the lines of `persons` every so many: a profile takes longer with several classes.
_EACH = 6


@dataclass(frozen=True)
class SoftmaxRecord(RecordLoss):
    """The bounds of the weighted losses of a record's rows, for a loss of several classes.

    Parameters
    ----------
    loss : Softmax
    rank : int >= 1
    is_row : bool
        Whether every record is one row. Theorem 4 has a smaller profile for them.
    """

    loss: Softmax
    is_row: bool = False

    @property
    def least_share(self) -> float:
        """The sum of a row's absolute slopes for u = 0, as a share of the greatest sum."""
        a = self.loss.normalizer
        return (1 - a) / (1 + a)

    @property
    def rough_excess(self) -> float:
        """About the Gaussian noise over that of one class with the same bounds."""
        a = self.loss.normalizer
        return math.hypot(1, a) * (1 + 0.08 * a * math.log(self.loss.n_classes))

    def removed(self, shift: float, leverage: float, epsilon: FloatArray) -> FloatArray:
        """Return an upper bound on log delta for a removed record, of the shape of ``epsilon``."""
        slopes, heights = lines_above(self, leverage)
        rising = np.flatnonzero(slopes >= 0)[::_EACH]  # with the flat line first
        pairs = zip(slopes[rising].tolist(), heights[rising].tolist(), strict=True)
        return np.asarray(np.min([self._log_delta(*own, shift, epsilon) for own in pairs], axis=0))

    def added(self, shift: float, epsilon: FloatArray) -> FloatArray:
        """Return an upper bound on log delta for an added record, of the shape of ``epsilon``."""
        return self._log_delta(0.0, 0.0, shift, epsilon)

    def _log_delta(
        self, slope: float, height: float, shift: float, epsilon: FloatArray
    ) -> FloatArray:
        """Return the log of Delta of Theorem 4 for rows, else of Theorem 3. At most 0."""
        epsilon, n_classes = np.asarray(epsilon, dtype=float), self.loss.n_classes
        at, log_mass = _greatest_normal(n_classes)
        moved = shift * self.loss.normalizer
        if self.is_row:
            moved_by = slope + moved * at + moved**2 / 2
            left = epsilon[..., None] - height
            parts = np.where(left < 0, 0.0, log_delta(shift, left - moved_by))
            rest = log_ndtr(-at[-1])
        else:
            # Given M a mean may be above 1: only that over M is at most 1.
            parts = log_delta_of_line(slope + moved * at, height, shift, epsilon[..., None], 1)
            # Beyond the last point: e^(height + l) <= e^height (1 + e^(slope + shift Z + moved M)).
            rest = slope + (shift**2 + moved**2) / 2 + log_ndtr(moved - at[-1])
            rest = height + np.logaddexp(rest, log_ndtr(-at[-1]))
        found = np.logaddexp.reduce(parts + log_mass, axis=-1)
        found = np.logaddexp(found, rest + math.log(n_classes)) + math.log(ROUNDING)
        return np.asarray(np.minimum(found, 0.0))


@remembered(maxsize=64)
def _greatest_normal(n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return points, and log probabilities that M of Theorem 3 is in the cells that end there."""
    # The far points matter for epsilons of a million, where e^epsilon multiplies the tail.
    at = np.concatenate([np.linspace(0, 8, 65), 8 * 1.5 ** np.arange(1, 30)])
    # Above = 1 - P(M <= t) is computed without cancellation.
    above = -np.expm1((n_classes - 1) * log_ndtr(at))
    below = math.exp((n_classes - 1) * math.log(0.5))
    with np.errstate(divide="ignore"):
        return at, np.log(np.concatenate([[below], (above[:-1] - above[1:]) * ROUNDING]))
