"""The scores of a fitted model on test rows. Imports nothing of skdp: the peer's script needs it.

With several labels AUROC is the mean over the labels of that of each against all others. A label
that is in all test rows, or in none, is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

ACCURACY, AUROC, LOG_LOSS, R2 = "accuracy", "auroc", "log-loss", "r2"
# The first of a task is that of verdicts.
MEASURES = {"classification": (ACCURACY, AUROC, LOG_LOSS), "regression": (R2,)}
# The measure of the share of the way to the model without privacy.
SHARED = {"classification": AUROC, "regression": R2}
# A score below this one is as bad: predictions without bounds reach -1e30 and the infinite.
LEAST_SCORE = -1e12
# Probabilities are kept so far from 0 in the log-loss.
LEAST_PROBABILITY = 1e-15


def class_scores(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Return accuracy, AUROC, and the mean log-loss of the probabilities."""
    classes, chances = np.asarray(model.classes_), np.asarray(model.predict_proba(X))
    is_own = np.asarray(y)[:, None] == classes
    own = np.where(is_own, chances, 0.0).sum(axis=1).clip(LEAST_PROBABILITY, 1.0)
    order = chances
    if len(classes) == 2 and hasattr(model, "decision_function"):
        # Many probabilities of a model with large coefficients are 0 or 1, and equal.
        u = np.ravel(model.decision_function(X))
        order = np.column_stack([-u, u])
    return {
        ACCURACY: float(accuracy_score(y, model.predict(X))),
        AUROC: auroc(is_own, order),
        LOG_LOSS: float(-np.log(own).mean()),
    }


def auroc(is_own: Any, order: Any) -> float:
    """Return the mean AUROC of the labels, each against all others; .5 if none can be measured.

    Parameters
    ----------
    is_own : ndarray of bool, shape (rows, labels)
    order : ndarray of shape (rows, labels)
        Probabilities of the labels, or log-odds.
    """
    found = [
        roc_auc_score(truth, own)
        for truth, own in zip(is_own.T, order.T, strict=True)
        if 0 < truth.sum() < len(truth)
    ]
    return float(np.mean(found)) if found else 0.5


def number_scores(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Return R^2, at least LEAST_SCORE, and LEAST_SCORE where predictions are not finite."""
    predicted = np.asarray(model.predict(X))
    if not np.isfinite(predicted).all():
        return {R2: LEAST_SCORE}
    return {R2: max(LEAST_SCORE, float(r2_score(y, predicted)))}
