"""What is checked of a law, ball or loss from outside this package when it is first used.

These are parts of `check_law`, `check_ball` and `check_loss`, with fewer draws and wider
tolerances. They take about a tenth of a second, find mistakes and prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skdp.testing.ball import check_extent, check_norm, check_radius
from skdp.testing.law import (
    check_density,
    check_draws,
    check_inverse,
    check_scaled,
    check_shift,
)
from skdp.testing.loss import check_loss

# Factor on the tolerances: six digits are enough.
_SLACK = 1e6


def _law(law: Any) -> None:
    for check in (check_density, check_inverse, check_shift, check_scaled):
        check(law, _SLACK)
    check_draws(law, np.random.default_rng(0), draws=50_000)


def _ball(ball: Any) -> None:
    rng = np.random.default_rng(0)
    for check in (check_norm, check_extent):
        check(ball, rng)
    if ball.exact:
        check_radius(ball, rng, draws=min(20_000, max(1000, 10**6 // ball.dim)))


def _told(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a check that raises ValueError, as errors of parameters are."""

    def checked(part: Any) -> None:
        try:
            with np.errstate(all="ignore"):
                check(part)
        except AssertionError as error:
            raise ValueError(str(error)) from None

    return checked


CHECKS = {"law": _told(_law), "ball": _told(_ball), "loss": _told(check_loss)}
