"""The public facts of a fit, and its records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._progress import draw_bar
from skdp.linear_model._shared.design import Design
from skdp.rows import Rows
from skdp.trusted.arrays import FloatArray
from skdp.trusted.statement import records_changed

# Privacy losses with counts.
Losses = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """The public facts of a fit, from which algorithms make their plans."""

    design: Design
    n: int | None  # the number of records; None if it is private
    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    n_models: int = 1  # that share the budget
    n_public: int | None = None  # a public order of magnitude of the number of records
    # Whether a record is a person with any number of rows, whose weights add up to at most 1.
    are_persons: bool = False

    @property
    def known(self) -> int | None:
        """The number of records or its public order of magnitude, if either is public."""
        return self.n_public if self.n is None else self.n

    @property
    def moved(self) -> float:
        """The number of records whose contributions differ between neighbouring data sets."""
        return float(records_changed(self.neighbors))


def removed_and_added(task: Task) -> Task:
    """Return a task under add/remove whose release is private under replace-one.

    A replacement is a removal and an addition. A release that is (epsilon / 2, delta')-private for
    each is private for both at epsilon and delta' (1 + e^(epsilon / 2)). It is needed where the
    weights of a person may add up to any number below 1, so that their sum over persons is private.
    """
    half = task.epsilon / 2
    return replace(
        task,
        neighbors="add_remove",
        n=None,
        n_public=task.known,
        epsilon=half,
        delta=task.delta / (1 + math.exp(min(half, 700.0))) * (1 - 1e-12),
    )


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a fit, with what is public of them."""

    design: Design
    rows: Rows  # the private rows with their targets
    labels: tuple[int, ...] = ()  # positions of those that models predict; none in a regression
    label_weights: FloatArray | None = None  # in [0, 1], of rows with each label; None if all are 1
    n: int = 0  # of units, rows or persons; it may be private
    unit: str = "row"  # of privacy; or "person"
    attributes: dict[str, Any] = field(default_factory=dict)  # public, of the fitted estimator

    @property
    def models(self) -> tuple[int | None, ...]:
        """The label of each model; one None for a regression."""
        return self.labels or (None,)


def target_of(target: NDArray, label: int | None) -> FloatArray:
    """Return the target of a model: indicators of its label, or the numbers of a regression."""
    return target if label is None else (target == label).astype(float)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class Progress:
    """A model after one pass of coordinate descent; it depends on released gradients only.

    Attributes
    ----------
    model, n_models : int
        Position of the model, from 0, and number of models: one, or one per class if there are
        more than two classes and no joint model of them.
    n_pass, n_passes : int
        Number of passes made, and number planned.
    coef : ndarray of shape (n_encoded,), or (n_classes, n_encoded) for a joint model
        Coefficients in the user's units, as in ``coef_``, but not averaged over passes.
    intercept : float, or ndarray of shape (n_classes,)

    Examples
    --------
    >>> from skdp import Domain, DPCoordinateDescentClassifier
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(500, random_state=0, with_target=True)  # artificial rows
    >>> seen = []
    >>> model = DPCoordinateDescentClassifier(n_passes=3, domain=domain, callback=seen.append)
    >>> model = model.fit(X, y)
    >>> seen[-1].n_pass == seen[-1].n_passes
    True
    """

    model: int
    n_models: int
    n_pass: int
    n_passes: int
    coef: NDArray[np.float64]
    intercept: float | NDArray[np.float64]

    def show(self) -> None:
        """Draw a progress bar on standard error."""
        done = self.model * self.n_passes + self.n_pass
        draw_bar(done, self.n_models * self.n_passes, "pass")
