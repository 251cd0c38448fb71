"""The public facts of a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from skdp.linear_model._shared.design import Design


@dataclass(frozen=True)
class Task:
    """The public facts of a fit, from which algorithms make their plans.

    Attributes
    ----------
    design : Design
    n : int or None
        The number of records; None if it is private.
    n_public : int or None
        A public order of magnitude of the number of records.
    epsilon, delta : float
        The budget of the fit.
    neighbors : {"replace_one", "add_remove"}
    n_models : int
        Number of models that share the budget.
    unit_rows : float
        Public bound on the number of rows of one record: 1, or for persons a greater number or
        inf. The weights of the rows of a record add up to at most 1.
    """

    design: Design
    n: int | None
    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    n_models: int = 1
    n_public: int | None = None
    unit_rows: float = 1.0

    @property
    def known(self) -> int | None:
        """The number of records or its public order of magnitude, if either is public."""
        return self.n_public if self.n is None else self.n

    @property
    def moved(self) -> float:
        """The number of records whose contributions differ between neighbouring data sets."""
        return 2.0 if self.neighbors == "replace_one" else 1.0


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
