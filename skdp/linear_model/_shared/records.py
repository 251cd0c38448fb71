"""The records of a fit."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp.linear_model._shared.design import Design
from skdp.rows import Rows


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a fit, with what is public of them.

    Attributes
    ----------
    design : Design
    rows : Rows
        The private rows with their targets.
    labels : tuple of int
        For a classifier, the position of the label that each model predicts. Empty for a
        regression.
    label_weights : ndarray of shape (n_labels,) or None
        The weight in [0, 1] of rows with each label. None if all are 1.
    """

    design: Design
    rows: Rows
    labels: tuple[int, ...] = ()
    label_weights: FloatArray | None = None

    @property
    def models(self) -> tuple[int | None, ...]:
        """The label of each model; one None for a regression."""
        return self.labels or (None,)


def target_of(target: NDArray, label: int | None) -> FloatArray:
    """Return the target of a model: indicators of its label, or the numbers of a regression."""
    return target if label is None else (target == label).astype(float)
