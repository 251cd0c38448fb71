"""Scores of a model on held-out records: integers that one record changes by a bounded amount.

A score is a sum over records (`RecordScore`) or over pairs of records (`PairScore`). The number
of a record depends on the record and on the released model only, to the last bit: see
``docs/proofs/private_selection.md``, Theorems 6 and 7. The last bits of a product of matrices
depend on the number of rows, and may decide which label is predicted. Models of this package
predict each row separately (``row_products``), so they are called once for all rows. Every other
model is called with tables of one row.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
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

# Integer units between the least and the greatest score of a record; an even number.
UNITS = 2**20
_FARTHEST = 1e150
# All candidates have the same held-out targets, so R^2 orders them as the squared error does.
_POWERS = {"neg_mean_squared_error": 2, "neg_mean_absolute_error": 1, "r2": 2}
# Methods of a model, of which a score needs one.
_NEEDS: dict[str, tuple[str, ...]] = {
    "accuracy": ("predict",),
    "neg_log_loss": ("predict_proba",),
    "roc_auc": ("decision_function", "predict_proba"),
    "balanced_accuracy": ("predict",),
}
# The least probability of a label in the log loss is this divided by the number of labels.
_LEAST_SHARE = 0.04
_MODELS = (
    linear_model.DPCoordinateDescentClassifier,
    linear_model.DPCoordinateDescentRegressor,
    linear_model.DPHuberRegressor,
    linear_model.DPLinearRegression,
    linear_model.DPLogisticRegression,
)


class Score(ABC):
    """An integer function of the held-out records with a known sensitivity."""

    @abstractmethod
    def total(self, estimator: Any, X: Any, y: Any) -> int:
        """Return the score in integer units, by which candidates are compared."""

    @abstractmethod
    def mean(self, total: float, n: int) -> float:
        """Return the score of ``n`` records in its usual unit, from its total."""

    @property
    @abstractmethod
    def is_built_in(self) -> bool:
        """Whether the score is computed by functions of this package only."""

    def sensitivity(self, neighbors: str) -> int:
        """Return the greatest change of a total if one record changes (Theorems 6 and 7)."""
        return UNITS if neighbors == "replace_one" else UNITS // 2


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
        return _is_built_in(self.function)

    def total(self, estimator: Any, X: Any, y: Any) -> int:
        """Return the sum over the records, in units of (upper - lower) / UNITS.

        Each record contributes an integer from -UNITS / 2, for ``lower``, to UNITS / 2.
        """
        scores = _numbers(self.function, estimator, X, np.asarray(y))
        share = (scores - self.lower) / (self.upper - self.lower)
        share = np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        return int((np.rint(share * UNITS).astype(np.int64) - UNITS // 2).sum())

    def mean(self, total: float, n: int) -> float:
        """Return the mean score of ``n`` records whose sum is ``total`` units."""
        return self.lower + (self.upper - self.lower) * (0.5 + total / (UNITS * n))


@dataclass(frozen=True)
class PairScore(Score):
    """The order of all pairs of records with different labels, of which there are two.

    A pair counts 1 if the record with the greater label has the greater rank, -1 if it has the
    smaller one, and 0 if the ranks are equal. The sum over N+ positive and N- negative records is
    ``N+ N- (2 AUC - 1)``. Its quotient by twice the number of records but one is bounded by the
    sensitivity of a sum over records, although the numbers of positives and negatives are private.
    """

    rank: Function
    positive: Any

    @property
    def is_built_in(self) -> bool:
        """Whether the ranks are computed by a function of this package."""
        return _is_built_in(self.rank)

    def sensitivity(self, neighbors: str) -> int:
        """Return the greatest change of a total if one record changes.

        With ranks 0 and 1 a replaced record changes it no more than an added one (Theorem 7).
        """
        return UNITS // 2 if type(self.rank) is IsPredicted else super().sensitivity(neighbors)

    def total(self, estimator: Any, X: Any, y: Any) -> int:
        """Return the sum over the pairs, in units of 2 (n - 1) / UNITS, rounded down."""
        y = np.asarray(y)
        ranks = _numbers(self.rank, estimator, X, y)
        # No number is the least rank: comparisons with NaN would not be an order.
        ranks = np.nan_to_num(ranks, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        return UNITS * ordered_pairs(ranks, y == self.positive) // (2 * max(len(y) - 1, 1))

    def mean(self, total: float, n: int) -> float:
        """Return the share of ordered pairs; pairs of equal labels or ranks count one half."""
        return 0.5 + 2 * total / (UNITS * n)


def ordered_pairs(ranks: FloatArray, is_positive: NDArray[np.bool_]) -> int:
    """Return how many more pairs of different labels are ordered correctly than wrongly."""
    negatives, positives = np.sort(ranks[~is_positive]), ranks[is_positive]
    below = np.searchsorted(negatives, positives, side="left")
    not_above = np.searchsorted(negatives, positives, side="right")
    return int((below + not_above - len(negatives)).sum())


# Functions of records


@dataclass(frozen=True)
class LogOdds:
    """The log-odds of the greater label, or its probability if the model has no log-odds."""

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record."""
        if hasattr(estimator, "decision_function"):
            return np.asarray(estimator.decision_function(X), dtype=float)
        return np.asarray(estimator.predict_proba(X), dtype=float)[:, 1]


@dataclass(frozen=True)
class IsPredicted:
    """1 for records for which a label is predicted, 0 for others."""

    label: Any

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record."""
        return np.asarray(estimator.predict(X) == self.label, dtype=float)


@dataclass(frozen=True)
class NegativeLogLoss:
    """The logarithm of the probability of the label, clipped to [least, 1 - least]."""

    n_labels: int

    @property
    def least(self) -> float:
        """The least probability that counts."""
        return _LEAST_SHARE / self.n_labels

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record, in [log(least), log(1 - least)]."""
        found, y = np.asarray(estimator.predict_proba(X), dtype=float), np.asarray(y)
        of_label = np.zeros(len(y))
        for column, label in enumerate(estimator.classes_):
            of_label[y == label] = found[y == label, column]
        of_label = np.clip(of_label, self.least, 1 - self.least)
        # Not numpy's logarithm, which may treat the last entries of an array differently.
        return np.array([math.log(p) for p in of_label.tolist()])


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


def as_score(
    scoring: Any,
    labels: Sequence[Any] | NDArray[Any] | None,
    bounds: tuple[float, float] | None,
    models: Sequence[Any] = (),
) -> Score:
    """Return the score that ``scoring`` stands for.

    None is the accuracy for classifiers, and minus the squared error for regressors.

    Parameters
    ----------
    scoring : None, str or RecordScore
    labels : sequence or None
        The labels in increasing order; None for regressors.
    bounds : (float, float) or None
        Bounds of the target of regressors; None is [-1, 1], as in the estimators.
    models : sequence
        The candidates, which must have the methods that the score needs.
    """
    if type(scoring) is RecordScore:  # a subclass may compute the sum in another way
        return scoring
    names = list(_POWERS if labels is None else _NEEDS)
    remedy = "For another score give a RecordScore, with bounds for the score of a record."
    name = check_choice("scoring", names[0] if scoring is None else scoring, names, remedy)
    if labels is None:
        lower, upper = bounds or (-1.0, 1.0)
        power = _POWERS[name]
        return RecordScore(NegativeError(lower, upper, power), -((upper - lower) ** power), 0.0)
    for model in models:
        if not any(hasattr(model, method) for method in _NEEDS[name]):
            rule = f"have {' or '.join(_NEEDS[name])} if scoring is {name!r}"
            raise fail("every candidate", rule, type(model))
    return _score_of_labels(name, labels)


def _score_of_labels(name: str, labels: Sequence[Any] | NDArray[Any]) -> Score:
    if name == "accuracy":
        return RecordScore(Accuracy())
    if name == "neg_log_loss":
        loss = NegativeLogLoss(len(labels))
        return RecordScore(loss, math.log(loss.least), math.log(1 - loss.least))
    if len(labels) != 2:
        remedy = (
            '"accuracy" and "neg_log_loss" take any number of labels. A RecordScore may give each'
            " label a public weight."
        )
        raise fail(f"scoring={name!r}", "have two labels", len(labels), remedy)
    return PairScore(LogOdds() if name == "roc_auc" else IsPredicted(labels[1]), labels[1])


# Numbers of records


def _is_built_in(function: Function) -> bool:
    """Return whether a function treats many rows as it treats each one alone, to the last bit.

    Probabilities of two labels are computed entry by entry, those of more labels by sums.
    """
    if type(function) is NegativeLogLoss:
        return function.n_labels == 2
    return type(function) in (Accuracy, IsPredicted, LogOdds, NegativeError)


def _numbers(function: Function, estimator: Any, X: Any, y: NDArray[Any]) -> FloatArray:
    """Return the number of each record, which does not depend on the other records."""
    if is_rowwise(estimator) and _is_built_in(function):
        return np.asarray(function(estimator, X, y))
    numbers = np.empty(len(y))
    for k, (model, row) in enumerate(one_by_one(estimator, X)):
        number = np.asarray(function(model, row, y[k : k + 1]), dtype=float)
        if number.size != 1:
            raise fail("scoring", "return one number per record")
        numbers[k] = number.item()
    return numbers


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
