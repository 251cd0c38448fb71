"""Progress of a coordinate descent, computed from released gradients only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skdp._progress import draw_bar


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
