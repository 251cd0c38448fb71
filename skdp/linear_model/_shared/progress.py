"""What can be told of a descent while it runs: nothing that was not released."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_WIDTH = 30


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class Progress:
    """A model after one pass, from released gradients alone.

    Attributes
    ----------
    model, n_models : int
        Which model, from 0 on, of how many: one per class where there are more than two.
    n_pass, n_passes : int
        Passes made, and planned.
    coef : ndarray of shape (n_encoded,)
        Coefficients in the user's units, as in ``coef_``; no average yet.
    intercept : float
    """

    model: int
    n_models: int
    n_pass: int
    n_passes: int
    coef: NDArray[np.float64]
    intercept: float

    def show(self) -> None:
        """Draw a bar on standard error."""
        done = self.model * self.n_passes + self.n_pass
        total = self.n_models * self.n_passes
        bar = "#" * (_WIDTH * done // total)
        end = "\n" if done == total else ""
        print(f"\r[{bar:<{_WIDTH}}] pass {done} of {total}", end=end, file=sys.stderr, flush=True)
