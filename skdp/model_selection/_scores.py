"""Scores of models on held-out records, and their sensitivity to one record.

Scores are integers of the held-out records that one record changes by a bounded amount:
``docs/proofs/private_selection.md``, Theorems 3 to 5.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from skdp.domain.domain import DomainEncoder
from skdp.domain.tables import Frame
from skdp.linear_model.poisson import DPPoissonRegressor
from skdp.linear_model.validation import GRID, Weights
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_choice, check_interval, fail, is_ours

# The position of each row's person, or None if rows are records.
Persons = NDArray[np.intp] | None
Function = Callable[[Any, Any, Any], ArrayLike]


# The least mean that counts in a deviance, as a share of the bound of the target.
LEAST = 0.01


def accuracy(estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
    """Return 1 for records whose label is predicted, 0 for others."""
    return np.asarray(estimator.predict(X) == np.asarray(y), dtype=float)


@dataclass(frozen=True)
class NegativeError:
    """Minus the absolute or squared error (power 1 or 2) of targets clipped to their bounds."""

    lower: float
    upper: float
    power: int

    def __call__(self, estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
        """Return one number per record, in [-(upper - lower)^power, 0]."""
        target = np.clip(np.asarray(y, dtype=float), self.lower, self.upper)
        found = np.clip(np.asarray(estimator.predict(X), dtype=float), self.lower, self.upper)
        error = np.abs(found - target)
        # Not numpy's power, which may treat the last entries of an array differently.
        return np.asarray(-(error * error if self.power == 2 else error))


@dataclass(frozen=True)
class NegativePinball(NegativeError):
    """Minus the pinball loss of a quantile of targets clipped to their bounds."""

    power: int = 1
    level: float = 0.5

    def __call__(self, estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
        """Return one number per record, at least -max(level, 1 - level) (upper - lower)."""
        found = np.asarray(estimator.predict(X), dtype=float)
        is_above = np.asarray(y, dtype=float) > found
        return super().__call__(estimator, X, y) * np.where(is_above, self.level, 1 - self.level)


@dataclass(frozen=True)
class NegativeDeviance:
    """Minus the Poisson deviance of targets clipped to [0, upper].

    Predictions are clipped to [`LEAST` upper, upper].
    """

    upper: float

    def __call__(self, estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
        """Return one number per record, at least 2 upper (1 - LEAST + log(LEAST))."""
        target = np.clip(np.asarray(y, dtype=float), 0.0, self.upper)
        mean = np.clip(np.asarray(estimator.predict(X), float), LEAST * self.upper, self.upper)
        # Not numpy's logarithm, which may treat the last entries of an array differently.
        logs = np.array([math.log(q) if q > 0 else 0.0 for q in (target / mean).tolist()])
        return np.asarray(2 * (target - mean - target * logs))


@dataclass(frozen=True)
class NegativeLogLoss:
    """The logarithm of the probability of the label, if it is not below ``least``.

    The bounds of its RecordScore clip probabilities to [least, 1 - least].
    """

    n_labels: int

    @property
    def least(self) -> float:
        """The least probability that counts."""
        return 0.04 / self.n_labels

    def __call__(self, estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
        """Return one number per record, at least log(least)."""
        probabilities, y = np.asarray(estimator.predict_proba(X), dtype=float), np.asarray(y)
        of_label = np.zeros(len(y))
        for column, label in enumerate(estimator.classes_):
            of_label[y == label] = probabilities[y == label, column]
        # Not numpy's logarithm, which may treat the last entries of an array differently.
        return np.array([math.log(p) for p in np.maximum(of_label, self.least).tolist()])


def log_odds(estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
    """Return log-odds of the greater label, or its probabilities if the model has no log-odds."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=float)
    return np.asarray(estimator.predict_proba(X), dtype=float)[:, 1]


def probability(estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
    """Return probabilities of the greater of two labels."""
    return np.asarray(estimator.predict_proba(X), dtype=float)[:, 1]


def predicted_place(estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
    return np.asarray(np.searchsorted(estimator.classes_, estimator.predict(X)), dtype=float)


@dataclass(frozen=True)
class NegativeBrier:
    """Minus the squared distance of probabilities from the label, halved for two labels."""

    n_labels: int

    def __call__(self, estimator: BaseEstimator, X: Frame, y: ArrayLike) -> FloatArray:
        """Return one number per record, at least -2, or -1 for two labels."""
        hits = np.asarray(y)[:, None] == np.asarray(estimator.classes_)
        square = np.square(np.asarray(estimator.predict_proba(X), dtype=float) - hits)
        return np.asarray(-(square[:, 1] if self.n_labels == 2 else square.sum(axis=1)))


def is_built_in(function: Function) -> bool:
    """Return whether a function treats many rows as it treats each one alone, to the last bit.

    Probabilities of two labels are computed entry by entry, those of more labels by sums.
    """
    if isinstance(function, NegativeLogLoss | NegativeBrier):
        return function.n_labels == 2
    plain = (accuracy, log_odds, probability, predicted_place)
    losses = NegativeError, NegativePinball, NegativeDeviance
    return type(function) in losses or function in plain


# Numbers of records that depend on the record and the model only, to the last bit: the proof
# page, Theorem 3. The last bits of a product of matrices depend on the number of rows, and may
# decide which label is predicted. Models of this package predict each row separately
# (``row_products``), so they are called once for all rows. Every other model is called with
# tables of one row.


def numbers_of(function: Function, estimator: BaseEstimator, X: Frame, y: Array) -> FloatArray:
    """Return the number of each record, which does not depend on the other records."""
    if not len(y):
        return np.empty(0)
    if is_built_in(function) and rowwise_steps(estimator):
        return np.asarray(function(estimator, X, y))
    numbers = np.empty(len(y))
    for k, (model, row) in enumerate(one_by_one(estimator, X)):
        number = np.asarray(function(model, row, y[k : k + 1]), dtype=float)
        if number.size != 1:
            raise fail("scoring", "return one number per record")
        numbers[k] = number.item()
    return numbers


def rowwise_steps(model: BaseEstimator) -> list[BaseEstimator]:
    """Return the steps of a model that predicts each row separately, to the last bit, else [].

    This holds for models of this package, alone or in a pipeline behind its encoders.
    """
    steps = [model]
    if type(model) is Pipeline:
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
    *before, last = steps
    rowwise = is_ours(last) and all(type(step) is DomainEncoder for step in before)
    return steps if rowwise else []


def one_by_one(model: BaseEstimator, X: Frame) -> Iterator[tuple[BaseEstimator, Frame]]:
    """Yield for each record a model and a table of one row.

    The model is the given one, or a copy that returns the same predictions without computing them
    again.
    """
    if not (steps := rowwise_steps(model)):
        yield from ((model, row) for row in _rows(X))
        return

    def predictors_of(X: Frame) -> FloatArray:
        for encoder in steps[:-1]:
            X = encoder.transform(X)
        return np.asarray(steps[-1]._predictor(X))

    predictors, last = predictors_of(X), copy.copy(steps[-1])
    copied = last
    if type(model) is Pipeline:
        copied = Pipeline([(name, "passthrough") for name, _ in model.steps])
        copied.steps[-1] = (model.steps[-1][0], last)
    for k, row in enumerate(_rows(X)):

        def predictor(X: Frame, k: int = k, row: Frame = row) -> FloatArray:
            return predictors[k : k + 1] if X is row else predictors_of(X)

        last._predictor = predictor
        yield copied, row


def _rows(X: Frame) -> Iterator[Frame]:
    """Yield copies of single rows, whose memory layout does not depend on the number of rows."""
    if not hasattr(X, "iloc"):
        yield from (np.array(X[k : k + 1], order="C") for k in range(len(X)))
        return
    columns = [X.iloc[:, j].array for j in range(X.shape[1])]
    for k in range(len(X)):
        # By position: names may repeat.
        cells = {j: column[k : k + 1] for j, column in enumerate(columns)}
        yield type(X)(cells, index=X.index[k : k + 1]).set_axis(X.columns, axis=1)


# Integer units between the least and the greatest score of a record; an even number.
UNITS = 2**20


class SearchScore(ABC):
    """An integer function of the held-out records with a known sensitivity."""

    @abstractmethod
    def total(self, estimator: BaseEstimator, X: Frame, y: Array, persons: Persons = None) -> int:
        """Return the score in integer units, by which candidates are compared.

        ``persons`` has the person of each row, if rows are not records. Each person then counts as
        a record does, and its rows share this weight equally.
        """

    def sensitivity(self, neighbors: str) -> int:
        """Return the greatest change of a total if one record or person changes."""
        return UNITS if neighbors == "replace_one" else UNITS // 2


@dataclass(frozen=True)
class RecordScore(SearchScore):
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
            value = check_interval(name, getattr(self, name), -1e150, 1e150)
            object.__setattr__(self, name, value)
        if not self.lower < self.upper:
            raise fail("lower", f"be below upper, {self.upper:g}", self.lower)

    def total(
        self,
        estimator: BaseEstimator,
        X: Frame,
        y: Array,
        persons: Persons = None,
        weights: Weights = None,
    ) -> int:
        """Return the sum over the records, in units of (upper - lower) / UNITS.

        Each record contributes an integer from -UNITS / 2, for ``lower``, to UNITS / 2. A person
        contributes the mean of its rows, each times its weight, rounded down.
        """
        scores = numbers_of(self.function, estimator, X, np.asarray(y))
        share = (scores - self.lower) / (self.upper - self.lower)
        share = np.clip(np.nan_to_num(share, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
        units = np.rint(share * UNITS).astype(np.int64) - UNITS // 2
        if persons is None and weights is None:
            return int(units.sum())
        persons = np.arange(len(units)) if persons is None else persons
        _, codes, counts = np.unique(persons, return_inverse=True, return_counts=True)
        totals = np.zeros(len(counts), dtype=np.int64)
        np.add.at(totals, codes, units * (GRID if weights is None else weights))
        return int((totals // (GRID * counts)).sum())


# Scores of classifiers that do not depend on how frequent the labels are. Their usual forms are
# quotients by private numbers of records. The scores here are multiplied by numbers that all
# candidates share, so that one record changes them by a bounded amount: Theorems 4 and 5.


@dataclass(frozen=True)
class AreaScore(SearchScore):
    """The area under the ROC curve (AUC) of two labels, times a factor that all candidates share.

    A pair of a positive and a negative record counts 1 if it is ordered correctly by the log-odds,
    -1 if wrongly, and 0 if they are equal. The sum over N+ N- pairs is ``N+ N- (2 AUC - 1)``. It
    is divided by the number of records but one, because N+ and N- are private. Two persons count
    the mean over the pairs of their rows, and rows of one person are not compared.
    """

    positive: object

    def total(self, estimator: BaseEstimator, X: Frame, y: Array, persons: Persons = None) -> int:
        """Return the sum over the pairs, in units of 2 (n - 1) / UNITS, rounded down."""
        y = np.asarray(y)
        ranks = numbers_of(log_odds, estimator, X, y)
        # NaN is the least rank: comparisons with NaN would not be an order.
        ranks = np.nan_to_num(ranks, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        is_positive, (weights, whole, n) = y == self.positive, _weights(len(y), persons)
        ordered = _ordered_pairs(ranks, is_positive, weights)
        if persons is not None:
            _, counts = np.unique(persons, return_counts=True)
            for rows in np.split(np.argsort(persons, kind="stable"), np.cumsum(counts)[:-1]):
                if len(rows) > 1:
                    ordered -= _ordered_pairs(ranks[rows], is_positive[rows], weights[rows])
        return UNITS * ordered // (2 * whole**2 * max(n - 1, 1))


@dataclass(frozen=True)
class RecallScore(SearchScore):
    """The mean recall of all labels, times a factor that all candidates share.

    The factor is the harmonic mean of the numbers of records of the labels. It is 0 if a label
    has no records, and it is small if a label is rare, so that one record changes the product by
    a bounded amount. Rows of a person are fractions of a record.
    """

    labels: tuple[object, ...]

    def sensitivity(self, neighbors: str) -> int:
        """Return the greatest change of a total, the same for both relations."""
        return UNITS // 2

    def total(self, estimator: BaseEstimator, X: Frame, y: Array, persons: Persons = None) -> int:
        """Return (mean recall - 1/2) x (harmonic mean of numbers) in units of K / UNITS.

        K is the number of labels. The result is rounded down.
        """
        y = np.asarray(y)
        is_right = numbers_of(accuracy, estimator, X, y) > 0
        weights, whole, _ = _weights(len(y), persons)
        counts = [int(weights[y == label].sum()) for label in self.labels]
        if 0 in counts:
            return 0
        right = [int(weights[is_right & (y == label)].sum()) for label in self.labels]
        recalls = sum(map(Fraction, right, counts)) - Fraction(len(counts), 2)
        scale = len(counts) * sum(Fraction(whole, count) for count in counts)
        return math.floor(UNITS * recalls / scale)


def _weights(n: int, persons: Persons) -> tuple[NDArray[np.int64], int, int]:
    """Return the weights of rows, that of a person, which its rows share, and their number."""
    if persons is None:
        return np.ones(n, dtype=np.int64), 1, n
    _, codes, counts = np.unique(persons, return_inverse=True, return_counts=True)
    return (UNITS // counts)[codes], UNITS, len(counts)


def _ordered_pairs(
    ranks: FloatArray, is_positive: NDArray[np.bool_], weights: NDArray[np.int64]
) -> int:
    """Return the weight of correctly ordered pairs of different labels, minus that of wrong ones.

    The weight of a pair is the product of the weights of its rows.
    """
    order = np.argsort(ranks[~is_positive])
    negatives, positives = ranks[~is_positive][order], ranks[is_positive]
    below = np.concatenate([[0], np.cumsum(weights[~is_positive][order])])
    first = below[np.searchsorted(negatives, positives, side="left")]
    last = below[np.searchsorted(negatives, positives, side="right")]
    excess = first + last - below[-1]
    # Python's integers, because the sum of products may be greater than 2^63.
    return sum(a * b for a, b in zip(weights[is_positive].tolist(), excess.tolist(), strict=True))


# All candidates have the same held-out targets, so R^2 orders them as the squared error does.
_POWERS = {"neg_mean_squared_error": 2, "neg_mean_absolute_error": 1, "r2": 2}
# Methods of a model, of which a score needs one.
_NEEDS: dict[str, tuple[str, ...]] = {
    "accuracy": ("predict",),
    "neg_log_loss": ("predict_proba",),
    "neg_brier_score": ("predict_proba",),
    "roc_auc": ("decision_function", "predict_proba"),
    "balanced_accuracy": ("predict",),
}


def own_loss(model: object) -> tuple[str, float | None] | None:
    """Return the name of the loss that a regressor's prediction minimises, and its quantile.

    None is the squared error.
    """
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    if isinstance(model, DPPoissonRegressor):
        return "mean_poisson_deviance", None
    level = getattr(model, "quantile", None)
    return None if level is None or np.ndim(level) else ("mean_pinball_loss", float(level))


def as_score(
    scoring: object,
    labels: Sequence[object] | Array | None,
    bounds: tuple[float, float] | None,
    models: Sequence[object] = (),
) -> SearchScore:
    """Return the score that ``scoring`` stands for.

    None is the accuracy for classifiers, and for regressors minus the loss of `own_loss`, or else
    the squared error. Labels are in increasing order, and None for regressors. Bounds are those of
    the target of regressors, [-1, 1] if they are None. The candidates must have the methods that
    the score needs.
    """
    if isinstance(scoring, RecordScore):
        return scoring
    remedy = "For another score give a RecordScore, with bounds for the score of a record."
    if labels is None:
        return _score_of_numbers(scoring, bounds or (-1.0, 1.0), [*map(own_loss, models)], remedy)
    name = check_choice("scoring", "accuracy" if scoring is None else scoring, _NEEDS, remedy)
    for model in models:
        if not any(hasattr(model, method) for method in _NEEDS[name]):
            rule = f"have {' or '.join(_NEEDS[name])} if scoring is {name!r}"
            raise fail("every candidate", rule, type(model))
    if name == "accuracy":
        return RecordScore(accuracy)
    if name == "neg_log_loss":
        loss = NegativeLogLoss(len(labels))
        return RecordScore(loss, math.log(loss.least), math.log(1 - loss.least))
    if name == "neg_brier_score":
        return RecordScore(NegativeBrier(len(labels)), -1.0 if len(labels) == 2 else -2.0, 0.0)
    if name == "balanced_accuracy":
        return RecallScore(tuple(labels))
    if len(labels) != 2:
        remedy = 'Use "balanced_accuracy" or "neg_log_loss", which take any number of labels.'
        raise fail("scoring='roc_auc'", "have two labels", len(labels), remedy)
    return AreaScore(labels[1])


def _score_of_numbers(
    scoring: object,
    bounds: tuple[float, float],
    losses: list[tuple[str, float | None] | None],
    remedy: str,
) -> RecordScore:
    (lower, upper), own = bounds, sorted({f"neg_{loss[0]}" for loss in losses if loss})
    names = [*own, *_POWERS]
    name = check_choice("scoring", names[0] if scoring is None else scoring, names, remedy)
    if name not in own:
        power = _POWERS[name]
        return RecordScore(NegativeError(lower, upper, power), -((upper - lower) ** power), 0.0)
    loss = losses[0]
    if loss is None or {*losses} != {loss}:
        rule = "be given where candidates have different quantiles or losses"
        raise fail("scoring", rule, scoring, "For example neg_mean_absolute_error.")
    if (level := loss[1]) is None:
        least = 2 * upper * (1 - LEAST + math.log(LEAST))
        return RecordScore(NegativeDeviance(upper), least, 0.0)
    least = -max(level, 1 - level) * (upper - lower)
    return RecordScore(NegativePinball(lower, upper, level=level), least, 0.0)
