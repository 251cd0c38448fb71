"""Scores of single records in a bounded range, added up in whole units.

A record's score is a function of the record and of the released model, to the last bit: see
``docs/proofs/private_selection.md``, Theorem 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_interval, fail
from skdp.model_selection._candidates.alone import is_rowwise, one_by_one

Function = Callable[[Any, Any, Any], ArrayLike]

# Whole units between the least and the greatest score of a record.
UNITS = 2**20
_FARTHEST = 1e150


@dataclass(frozen=True)
class RecordScore:
    """A score that is a sum over records, each in a declared range.

    Parameters
    ----------
    function : callable
        ``function(estimator, X, y)`` returns one number, greater for better, alone or in an array
        of size 1. It is called for one record at a time, so that a record's number cannot depend
        on the others.
        It must compute the same for the same record and estimator, and keep or show nothing.
        A search first tries it on made-up records, before anything is spent, if the estimator or
        the encoder before it declares a domain. Without one its first error comes after.
    lower, upper : float, lower < upper
        Public bounds; what is outside is clipped, and NaN counts as ``lower``.

    Raises
    ------
    ValueError
        If ``function`` cannot be called, or the bounds are not finite and in order.

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
    def is_ours(self) -> bool:
        """Whether the function is of this package: one that scores each record by itself."""
        return type(self.function) in (Accuracy, NegativeError)

    def total(self, estimator: Any, X: Any, y: Any) -> int:
        """Return the sum over the records, in units of (upper - lower) / UNITS above lower.

        One record changes it by a whole number from 0 to UNITS, whatever it is.
        """
        found = self._of_records(estimator, X, np.asarray(y))
        share = (found - self.lower) / (self.upper - self.lower)
        share = np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        return int(np.rint(share * UNITS).astype(np.int64).sum())

    def _of_records(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        if is_rowwise(estimator) and self.is_ours:
            return np.asarray(self.function(estimator, X, y))
        numbers = np.empty(len(y))
        for k, (asked, row) in enumerate(one_by_one(estimator, X)):
            found = np.asarray(self.function(asked, row, y[k : k + 1]), dtype=float)
            if found.size != 1:
                raise fail("scoring", "return one number per record")
            numbers[k] = found.item()
        return numbers

    def mean(self, total: int, n: int) -> float:
        """Return the mean score of ``n`` records whose sum is ``total`` units."""
        return self.lower + (self.upper - self.lower) * total / (UNITS * n)


@dataclass(frozen=True)
class Accuracy:
    """1 where the label is predicted, else 0."""

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record."""
        return np.asarray(estimator.predict(X) == np.asarray(y), dtype=float)


@dataclass(frozen=True)
class NegativeError:
    """Minus the error's size to the power 1 or 2, of a target that is clipped to its bounds."""

    lower: float
    upper: float
    power: int

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record, in [-(upper - lower)^power, 0]."""
        target = np.clip(np.asarray(y, dtype=float), self.lower, self.upper)
        found = np.clip(np.asarray(estimator.predict(X), dtype=float), self.lower, self.upper)
        error = np.abs(found - target)
        # Not a power of the library's, which may treat the rest of a block in another way.
        return np.asarray(-(error * error if self.power == 2 else error))


_POWERS = {"neg_mean_squared_error": 2, "neg_mean_absolute_error": 1}


def as_record_score(
    scoring: Any, classifier: bool, bounds: tuple[float, float] | None
) -> RecordScore:
    """Return the score that ``scoring`` names.

    Parameters
    ----------
    scoring : None, str or RecordScore
    classifier : bool
        None stands for accuracy then, and for minus the squared error else.
    bounds : (float, float) or None
        Of the target; None stands for [-1, 1], as in the estimators.
    """
    if type(scoring) is RecordScore:  # a subclass may have any sum
        return scoring
    if scoring is None:
        scoring = "accuracy" if classifier else "neg_mean_squared_error"
    remedy = "For another one give a RecordScore itself, with bounds for a record."
    names = ["accuracy"] if classifier else list(_POWERS)
    check_choice("scoring", scoring, names, remedy)
    if scoring == "accuracy":
        return RecordScore(Accuracy())
    lower, upper = bounds or (-1.0, 1.0)
    power = _POWERS[scoring]
    return RecordScore(NegativeError(lower, upper, power), -((upper - lower) ** power), 0.0)
