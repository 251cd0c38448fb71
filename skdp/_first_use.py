"""Checks of parts of other packages when they are first used.

They are those of `skdp.testing.check_law`, `check_ball` and `check_loss`, with fewer draws and
wider tolerances. They take about a tenth of a second, find mistakes and prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skdp.noise.law import Law
from skdp.trusted.ball import NormBall
from skdp.trusted.checks import (
    check_count,
    fail,
    is_ours,
    others_in,
    remembered,
    require_comparable,
)

# Factor on the tolerances of a law: six digits are enough.
_SLACK = 1e6


def check_at_first_use(part: object, kind: str) -> None:
    """Raise ValueError if a law, ball or loss of another package breaks a rule of its protocol."""
    if not is_ours(part):
        require_comparable(part, kind)
        _check_once(part, kind)


@remembered(maxsize=256)
def _check_once(part: object, kind: str) -> None:
    # The tests of distributions that they use are slow to import.
    from skdp.testing import ball, law, loss

    def law_of_others(own: Law) -> None:
        for check in (law.check_density, law.check_inverse, law.check_shift, law.check_scaled):
            check(own, _SLACK)
        law.check_draws(own, np.random.default_rng(0), draws=50_000)

    def ball_of_others(own: NormBall) -> None:
        rng = np.random.default_rng(0)
        ball.check_norm(own, rng)
        ball.check_extent(own, rng)
        if own.exact:
            ball.check_radius(own, rng, draws=min(20_000, max(1000, 10**6 // own.dim)))

    checks: dict[str, Callable[[Any], None]]
    checks = {"law": law_of_others, "ball": ball_of_others, "loss": loss.check_loss}
    try:
        with np.errstate(all="ignore"):
            checks[kind](part)
    except AssertionError as error:
        raise ValueError(str(error)) from None


def check_ball(ball: object) -> None:
    """Raise ValueError unless an object is a norm ball, and those of others pass their checks."""
    if isinstance(ball, type) or not isinstance(ball, NormBall):
        remedy = "Pass a norm ball such as LpBall(dim, p)."
        raise fail("ball", "have dim, exact, gauge and sample", type(ball), remedy)
    check_count("ball's dim", ball.dim)
    for other in others_in(ball):
        if isinstance(other, NormBall):
            check_at_first_use(other, "ball")
