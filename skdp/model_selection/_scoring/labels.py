"""Scores of classifiers that do not depend on how frequent the labels are.

Their usual forms are quotients by private numbers of records. The scores here are multiplied by
numbers that all candidates share, so that one record changes them by a bounded amount:
``docs/proofs/private_selection.md``, Theorems 4 and 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.model_selection._scoring.functions import Accuracy, LogOdds
from skdp.model_selection._scoring.rowwise import numbers_of
from skdp.model_selection._scoring.score import UNITS, Score

# The weight of a person, which its rows share in whole numbers.
_WHOLE = 2**20


@dataclass(frozen=True)
class AreaScore(Score):
    """The area under the ROC curve (AUC) of two labels, times a factor that all candidates share.

    A pair of a positive and a negative record counts 1 if it is ordered correctly by the log-odds,
    -1 if wrongly, and 0 if they are equal. The sum over N+ N- pairs is ``N+ N- (2 AUC - 1)``. It
    is divided by the number of records but one, because N+ and N- are private. Two persons count
    the mean over the pairs of their rows, and rows of one person are not compared.
    """

    positive: Any

    def total(self, estimator: Any, X: Any, y: Any, persons: Any = None) -> int:
        """Return the sum over the pairs, in units of 2 (n - 1) / UNITS, rounded down."""
        y = np.asarray(y)
        ranks = numbers_of(LogOdds(), estimator, X, y)
        # NaN is the least rank: comparisons with NaN would not be an order.
        ranks = np.nan_to_num(ranks, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        is_positive, (weights, whole, n) = y == self.positive, _weights(len(y), persons)
        ordered = _ordered_pairs(ranks, is_positive, weights)
        for own in _rows_of_persons(persons):
            ordered -= _ordered_pairs(ranks[own], is_positive[own], weights[own])
        return UNITS * ordered // (2 * whole**2 * max(n - 1, 1))


@dataclass(frozen=True)
class RecallScore(Score):
    """The mean recall of all labels, times a factor that all candidates share.

    The factor is the harmonic mean of the numbers of records of the labels. It is 0 if a label
    has no records, and it is small if a label is rare, so that one record changes the product by
    a bounded amount. Rows of a person are fractions of a record.
    """

    labels: tuple[Any, ...]

    def sensitivity(self, neighbors: str) -> int:
        """Return the greatest change of a total, the same for both relations."""
        return UNITS // 2

    def total(self, estimator: Any, X: Any, y: Any, persons: Any = None) -> int:
        """Return (mean recall - 1/2) x (harmonic mean of numbers) in units of K / UNITS.

        K is the number of labels. The result is rounded down.
        """
        y = np.asarray(y)
        is_right = numbers_of(Accuracy(), estimator, X, y) > 0
        weights, whole, _ = _weights(len(y), persons)
        counts = [int(weights[y == label].sum()) for label in self.labels]
        if 0 in counts:
            return 0
        right = [int(weights[is_right & (y == label)].sum()) for label in self.labels]
        recalls = sum(map(Fraction, right, counts)) - Fraction(len(counts), 2)
        scale = len(counts) * sum(Fraction(whole, count) for count in counts)
        return math.floor(UNITS * recalls / scale)


def _weights(n: int, persons: Any) -> tuple[NDArray[np.int64], int, int]:
    """Return the weights of rows, the greatest weight of a person, and the number of persons."""
    if persons is None:
        return np.ones(n, dtype=np.int64), 1, n
    _, codes, counts = np.unique(persons, return_inverse=True, return_counts=True)
    return (_WHOLE // counts)[codes], _WHOLE, len(counts)


def _rows_of_persons(persons: Any) -> list[NDArray[np.intp]]:
    """Return the rows of each person that has several."""
    if persons is None:
        return []
    _, counts = np.unique(persons, return_counts=True)
    each = np.split(np.argsort(persons, kind="stable"), np.cumsum(counts)[:-1])
    return [rows for rows in each if len(rows) > 1]


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
