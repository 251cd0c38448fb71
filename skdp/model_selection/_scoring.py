"""Scores of single records in a bounded range, and their exact sums.

The score of a record depends on the record and on the released model only, to the last bit: see
``docs/proofs/private_selection.md``, Theorem 6. The last bits of a product of matrices depend on
the number of rows, and may decide which label is predicted. Models of this package predict each
row separately (``row_products``), so they are called once for all rows. Every other model is
called with tables of one row.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline

from skdp import linear_model
from skdp._arrays import FloatArray
from skdp._checks import check_choice, check_interval, fail
from skdp.domain import Domain
from skdp.domain.encoder import DomainEncoder

Function = Callable[[Any, Any, Any], ArrayLike]

# Integer units between the least and the greatest score of a record.
UNITS = 2**20
_FARTHEST = 1e150
_POWERS = {"neg_mean_squared_error": 2, "neg_mean_absolute_error": 1}
_MODELS = (
    linear_model.DPCoordinateDescentClassifier,
    linear_model.DPCoordinateDescentRegressor,
    linear_model.DPHuberRegressor,
    linear_model.DPLinearRegression,
    linear_model.DPLogisticRegression,
)


@dataclass(frozen=True)
class RecordScore:
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
        return type(self.function) in (Accuracy, NegativeError)

    def total(self, estimator: Any, X: Any, y: Any, persons: Any = None) -> int:
        """Return the sum over the records, in units of (upper - lower) / UNITS above lower.

        Each record contributes an integer from 0 to UNITS. A person contributes the mean of its
        rows, rounded down.
        """
        scores = self._of_records(estimator, X, np.asarray(y))
        share = (scores - self.lower) / (self.upper - self.lower)
        share = np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        units = np.rint(share * UNITS).astype(np.int64)
        if persons is None:
            return int(units.sum())
        _, codes, counts = np.unique(persons, return_inverse=True, return_counts=True)
        totals = np.zeros(len(counts), dtype=np.int64)
        np.add.at(totals, codes, units)
        return int((totals // counts).sum())

    def _of_records(self, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
        if is_rowwise(estimator) and self.is_built_in:
            return np.asarray(self.function(estimator, X, y))
        scores = np.empty(len(y))
        for k, (model, row) in enumerate(one_by_one(estimator, X)):
            score = np.asarray(self.function(model, row, y[k : k + 1]), dtype=float)
            if score.size != 1:
                raise fail("scoring", "return one number per record")
            scores[k] = score.item()
        return scores

    def mean(self, total: int, n: int) -> float:
        """Return the mean score of ``n`` records whose sum is ``total`` units."""
        return self.lower + (self.upper - self.lower) * total / (UNITS * n)


@dataclass(frozen=True)
class Accuracy:
    """1 for records whose label is predicted, 0 for others."""

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record."""
        return np.asarray(estimator.predict(X) == np.asarray(y), dtype=float)


@dataclass(frozen=True)
class NegativeError:
    """Minus the absolute or squared error (power 1 or 2) of targets clipped to their bounds."""

    lower: float
    upper: float
    power: int

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record, in [-(upper - lower)^power, 0]."""
        target = np.clip(np.asarray(y, dtype=float), self.lower, self.upper)
        found = np.clip(np.asarray(estimator.predict(X), dtype=float), self.lower, self.upper)
        error = np.abs(found - target)
        # Not numpy's power, which may treat the last entries of an array differently.
        return np.asarray(-(error * error if self.power == 2 else error))


def as_record_score(
    scoring: Any, is_classifier: bool, bounds: tuple[float, float] | None
) -> RecordScore:
    """Return the score that ``scoring`` stands for.

    None is the accuracy for classifiers, and minus the squared error for regressors. ``bounds``
    are those of the target; None is [-1, 1], as in the estimators.
    """
    if type(scoring) is RecordScore:  # a subclass may compute the sum in another way
        return scoring
    names = ["accuracy"] if is_classifier else list(_POWERS)
    remedy = "For another score give a RecordScore, with bounds for the score of a record."
    name = check_choice("scoring", names[0] if scoring is None else scoring, names, remedy)
    if is_classifier:
        return RecordScore(Accuracy())
    lower, upper = bounds or (-1.0, 1.0)
    power = _POWERS[name]
    return RecordScore(NegativeError(lower, upper, power), -((upper - lower) ** power), 0.0)


# Predictions row by row


def is_rowwise(model: Any) -> bool:
    """Return whether a model predicts each row separately, to the last bit.

    This holds for models of this package, alone or in a pipeline behind its encoders. It need not
    hold for derived classes.
    """
    *before, last = model.steps if type(model) is Pipeline else [("", model)]
    encoders = [step for _, step in before if step not in (None, "passthrough")]
    if not all(type(step) is DomainEncoder for step in encoders):
        return False
    domains = [getattr(step, "domain", None) for step in (*encoders, last[1])]
    known = all(domain is None or type(domain) is Domain for domain in domains)
    return known and type(last[1]) in _MODELS


def one_by_one(model: Any, X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield for each record a model and a table of one row.

    The model is the given one, or a copy that returns the same predictions without computing them
    again.
    """
    if not is_rowwise(model):
        yield from ((model, row) for row in _rows(X))
        return
    steps = model.steps if type(model) is Pipeline else [("", model)]
    (*before, (name, last)) = steps
    encoders = [step for _, step in before if step not in (None, "passthrough")]

    def predictors_of(X: Any) -> FloatArray:
        for encoder in encoders:
            X = encoder.transform(X)
        return np.asarray(last._predictor(X))

    predictors, one = predictors_of(X), copy.copy(last)
    behind = [*((step, "passthrough") for step, _ in before), (name, one)]
    asked = Pipeline(behind) if type(model) is Pipeline else one
    for k, row in enumerate(_rows(X)):

        def predictor(X: Any, k: int = k, row: Any = row) -> FloatArray:
            return predictors[k : k + 1] if X is row else predictors_of(X)

        one._predictor = predictor
        yield asked, row


def _rows(X: Any) -> Iterator[Any]:
    """Yield tables of one row; rows of arrays are copied, so all have the same memory layout."""
    for k in range(len(X)):
        row = slice(k, k + 1)
        yield X.iloc[row] if hasattr(X, "iloc") else np.array(X[row], order="C")
