"""The loss of a private choice among candidates, such as the exponential mechanism.

The choice is the index of the greatest score plus Gumbel noise. One record changes all its log
probabilities by amounts from one interval (Durfee & Rogers 2019: bounded range). Of all pairs of
laws whose loss stays in an interval of length w = ``width``, the greatest profile is

    delta(epsilon) = (e^(w/2) - e^(epsilon/2))^2 / (e^w - 1),    -w <= epsilon <= w.

It belongs to the loss with density proportional to e^(l/2) on [-w, w]. Statement and proof:
``docs/proofs/coordinate_descent.md``, Theorem 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_positive
from skdp.privacy.losses import SymmetricLoss, Tails
from skdp.privacy.curves import log1mexp


@dataclass(frozen=True)
class SelectionLoss(SymmetricLoss):
    """The loss of the pair that dominates every choice with a bounded range.

    Parameters
    ----------
    width : float in (0, inf)
        Length of an interval that holds log P(i) - log Q(i) for all candidates i. The interval
        may depend on the data. The index of the greatest of scores plus Gumbel noise of scale s
        has width 2 D / s if one record changes each score by at most D in either direction, and
        D / s if it changes all scores in the same direction.

    Raises
    ------
    ValueError
        If ``width`` is out of range.

    Examples
    --------
    The worst release with epsilon = 1 and delta = 0 has delta = 0.462 at epsilon = 0. The choice
    has less:

    >>> choice = SelectionLoss(1.0)
    >>> round(float(np.exp(choice.log_delta(0.0))), 6)
    0.244919
    """

    width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", check_positive("width", self.width))

    def log_tails(self, loss: ArrayLike) -> Tails:
        """Return log P(L > loss), log Q(L > loss), log P(L <= loss), log Q(L <= loss)."""
        at = np.clip(np.asarray(loss, dtype=float), -self.width, self.width)
        return self._heavy(at), self._light(at), self._light(-at), self._heavy(-at)

    def log_delta(self, epsilon: ArrayLike) -> FloatArray:
        """Return the log of the least delta at each epsilon."""
        epsilon = np.asarray(epsilon, dtype=float)
        inside = np.clip(epsilon, -self.width, self.width)
        found = 2 * log1mexp((inside - self.width) / 2) - log1mexp(-self.width)
        # Below the least loss every outcome counts: delta is 1 - e^epsilon.
        certain = log1mexp(np.minimum(epsilon, 0.0))
        return np.asarray(np.where(epsilon < -self.width, certain, found))

    def _heavy(self, at: FloatArray) -> FloatArray:
        """Return log P(L > at) = log Q(L < -at)."""
        # Logs of neighbouring numbers may be out of order by the last bit.
        found = log1mexp((at - self.width) / 2) - log1mexp(-self.width)
        return np.asarray(np.minimum(found, 0.0))

    def _light(self, at: FloatArray) -> FloatArray:
        """Return log Q(L > at) = log P(L < -at)."""
        return np.asarray(self._heavy(at) - (at + self.width) / 2)
