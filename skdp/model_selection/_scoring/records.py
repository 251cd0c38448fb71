"""A score that is a sum over records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._checks import check_interval, fail
from skdp.model_selection._scoring.functions import Function, is_built_in
from skdp.model_selection._scoring.rowwise import numbers_of
from skdp.model_selection._scoring.score import UNITS, Score

_FARTHEST = 1e150


@dataclass(frozen=True)
class RecordScore(Score):
    """A score that is a sum over records, with public bounds for the score of one record.

    Parameters
    ----------
    function : callable
        ``function(estimator, X, y)`` returns one number, or an array of size 1; greater is
        better. It is called with one record at a time, so that the score of a record does not
        depend on the other records. It must return the same number for the same record and
        estimator, and must not store or show anything.
        Before the budget is spent, a search calls it on artificial records if the estimator, or
        the encoder before it, declares a domain. Without a domain, errors of the function are
        found only after the budget is spent.
    lower, upper : float, lower < upper
        Public bounds of the score of one record. Scores outside are clipped, and NaN counts as
        ``lower``.

    Raises
    ------
    ValueError
        If ``function`` is not callable, or the bounds are not finite and in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> def closeness(estimator, X, y):
    ...     return -np.abs(estimator.predict(X) - y)
    >>> score = RecordScore(closeness, lower=-2.0, upper=0.0)
    """

    function: Function
    lower: float = 0.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise fail("function", "be callable", type(self.function))
        for name in ("lower", "upper"):
            value = check_interval(name, getattr(self, name), -_FARTHEST, _FARTHEST)
            object.__setattr__(self, name, value)
        if not self.lower < self.upper:
            raise fail("lower", f"be below upper, {self.upper:g}", self.lower)

    @property
    def is_built_in(self) -> bool:
        """Whether the function is one of this package, which scores each record separately."""
        return is_built_in(self.function)

    def total(self, estimator: Any, X: Any, y: Any, persons: Any = None) -> int:
        """Return the sum over the records, in units of (upper - lower) / UNITS.

        Each record contributes an integer from -UNITS / 2, for ``lower``, to UNITS / 2. A person
        contributes the mean of its rows, rounded down.
        """
        scores = numbers_of(self.function, estimator, X, np.asarray(y))
        share = (scores - self.lower) / (self.upper - self.lower)
        share = np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        units = np.rint(share * UNITS).astype(np.int64) - UNITS // 2
        if persons is None:
            return int(units.sum())
        _, codes, counts = np.unique(persons, return_inverse=True, return_counts=True)
        totals = np.zeros(len(counts), dtype=np.int64)
        np.add.at(totals, codes, units)
        return int((totals // counts).sum())
