"""The records of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from skdp._arrays import FloatArray
from skdp.domain import Domain
from skdp.domain.layout import read_once
from skdp.linear_model._shared.design import Design


@dataclass(frozen=True, eq=False)
class Rows:
    """The records of a fit: the private side of a design.

    Attributes
    ----------
    design : Design
    X : DataFrame, array-like or table of `skdp.domain.tables`, with n rows
    targets : sequence of ndarray of shape (n,)
        The target of each model.
    """

    design: Design
    X: Any
    targets: Sequence[FloatArray]

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.targets[0])

    @property
    def one(self) -> tuple[Domain, Any, FloatArray]:
        """The domain, the table and the first target."""
        return self.design.domain, self.X, self.targets[0]

    def matrix(self) -> FloatArray:
        """Return the design matrix, (n, dim)."""
        return self.design.matrix(self.X, self.n)

    def once(self) -> Rows:
        """Return the same rows; only the first reading of them can raise an error."""
        return replace(self, X=read_once(self.design.domain, self.X))

    def again(self) -> Rows:
        """Return rows that were read `once` for a second reading, which raises no error."""
        return replace(self, X=replace(self.X, again=True))
