"""The public facts of a fit."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    design: Design
    n: int | None
    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    n_models: int = 1
    n_public: int | None = None

    @property
    def known(self) -> int | None:
        """The number of records or its public order of magnitude, if either is public."""
        return self.n_public if self.n is None else self.n

    @property
    def moved(self) -> float:
        """The number of records whose contributions differ between neighbouring data sets."""
        return 2.0 if self.neighbors == "replace_one" else 1.0
