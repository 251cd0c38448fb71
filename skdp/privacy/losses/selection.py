"""The loss of a private choice among candidates: the exponential mechanism and its like.

The index of the greatest score plus Gumbel noise has log probabilities that one record moves all
by amounts from one interval (Durfee & Rogers 2019: bounded range). Of all pairs of laws whose
loss stays in some interval of length w = ``width`` the greatest profile is

    delta(epsilon) = (e^(w/2) - e^(epsilon/2))^2 / (e^w - 1),    -w <= epsilon <= w,

that of the loss with density proportional to e^(l/2) on [-w, w]. Statement and proof:
``docs/proofs/coordinate_descent.md``, Theorem 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray
from skdp._checks import check_positive
from skdp.privacy.tradeoff.curves import log1mexp

Tails = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class SelectionLoss:
    """The pair that dominates every choice whose privacy loss has a bounded range.

    Parameters
    ----------
    width : float in (0, inf)
        Length of an interval that holds log P(i) - log Q(i) for all candidates i; which interval
        it is may depend on the data. The index of the greatest of scores plus Gumbel noise of
        scale s has width 2 D / s, if one record moves each score by at most D up or down, and
        D / s if it moves all of them up or all of them down.

    Raises
    ------
    ValueError
        If ``width`` is out of range.

    Examples
    --------
    It tells far less than the worst release with epsilon = 1 and delta = 0, whose delta at
    epsilon = 0 is 0.462:

    >>> choice = SelectionLoss(1.0)
    >>> round(float(np.exp(choice.log_delta(0.0))), 6)
    0.244919
    """

    width: float
    symmetric: ClassVar[bool] = True

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
        # Below the least loss of all every outcome counts: delta is 1 - e^epsilon.
        certain = log1mexp(np.minimum(epsilon, 0.0))
        return np.asarray(np.where(epsilon < -self.width, certain, found))

    def reversed(self) -> SelectionLoss:
        """Return the loss of (Q, P): this one."""
        return self

    def _heavy(self, at: FloatArray) -> FloatArray:
        """Return log P(L > at) = log Q(L < -at)."""
        # The logs of numbers next to each other may be out of order by a last bit.
        found = log1mexp((at - self.width) / 2) - log1mexp(-self.width)
        return np.asarray(np.minimum(found, 0.0))

    def _light(self, at: FloatArray) -> FloatArray:
        """Return log Q(L > at) = log P(L < -at)."""
        return np.asarray(self._heavy(at) - (at + self.width) / 2)
