"""The scores that names stand for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from skdp._checks import check_choice, fail
from skdp.model_selection._scoring.functions import Accuracy, NegativeError, NegativeLogLoss
from skdp.model_selection._scoring.labels import AreaScore, RecallScore
from skdp.model_selection._scoring.records import RecordScore
from skdp.model_selection._scoring.score import Score

# All candidates have the same held-out targets, so R^2 orders them as the squared error does.
_POWERS = {"neg_mean_squared_error": 2, "neg_mean_absolute_error": 1, "r2": 2}
# Methods of a model, of which a score needs one.
_NEEDS: dict[str, tuple[str, ...]] = {
    "accuracy": ("predict",),
    "neg_log_loss": ("predict_proba",),
    "roc_auc": ("decision_function", "predict_proba"),
    "balanced_accuracy": ("predict",),
}


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
    if name == "balanced_accuracy":
        return RecallScore(tuple(labels))
    if len(labels) != 2:
        remedy = 'Use "balanced_accuracy" or "neg_log_loss", which take any number of labels.'
        raise fail("scoring='roc_auc'", "have two labels", len(labels), remedy)
    return AreaScore(labels[1])
