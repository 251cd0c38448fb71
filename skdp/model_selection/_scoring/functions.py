"""Functions of records: one number for each, from a fitted model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skdp._arrays import FloatArray

Function = Callable[[Any, Any, Any], ArrayLike]

# The least probability of a label in the log loss is this divided by the number of labels.
_LEAST_SHARE = 0.04


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


@dataclass(frozen=True)
class NegativeLogLoss:
    """The logarithm of the probability of the label, if it is not below ``least``.

    The bounds of its RecordScore clip probabilities to [least, 1 - least].
    """

    n_labels: int

    @property
    def least(self) -> float:
        """The least probability that counts."""
        return _LEAST_SHARE / self.n_labels

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record, at least log(least)."""
        found, y = np.asarray(estimator.predict_proba(X), dtype=float), np.asarray(y)
        of_label = np.zeros(len(y))
        for column, label in enumerate(estimator.classes_):
            of_label[y == label] = found[y == label, column]
        of_label = np.maximum(of_label, self.least)
        # Not numpy's logarithm, which may treat the last entries of an array differently.
        return np.array([math.log(p) for p in of_label.tolist()])


@dataclass(frozen=True)
class LogOdds:
    """The log-odds of the greater label, or its probability if the model has no log-odds."""

    def __call__(self, estimator: Any, X: Any, y: Any) -> FloatArray:
        """Return one number per record."""
        if hasattr(estimator, "decision_function"):
            return np.asarray(estimator.decision_function(X), dtype=float)
        return np.asarray(estimator.predict_proba(X), dtype=float)[:, 1]


def is_built_in(function: Function) -> bool:
    """Return whether a function treats many rows as it treats each one alone, to the last bit.

    Probabilities of two labels are computed entry by entry, those of more labels by sums.
    """
    if type(function) is NegativeLogLoss:
        return function.n_labels == 2
    return type(function) in (Accuracy, LogOdds, NegativeError)
