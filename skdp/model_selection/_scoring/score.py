"""Scores: integers of the held-out records that one record changes by a bounded amount."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

# Integer units between the least and the greatest score of a record; an even number.
UNITS = 2**20


class Score(ABC):
    """An integer function of the held-out records with a known sensitivity."""

    @property
    def is_built_in(self) -> bool:
        """Whether functions of this package compute the score. They need no dry run."""
        return True

    @abstractmethod
    def total(self, estimator: Any, X: Any, y: Any, persons: Any = None) -> int:
        """Return the score in integer units, by which candidates are compared.

        Parameters
        ----------
        estimator : fitted model
        X : DataFrame or ndarray of shape (n, n_features)
        y : array-like of shape (n,)
        persons : ndarray of int, shape (n,), or None
            The person of each row. Each person then counts as a record does, and its rows share
            this weight equally. None: each row is a record.
        """

    def sensitivity(self, neighbors: str) -> int:
        """Return the greatest change of a total if one record or person changes."""
        return UNITS if neighbors == "replace_one" else UNITS // 2
