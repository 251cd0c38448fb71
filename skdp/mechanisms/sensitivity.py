"""What one record can change: the set of differences, held by a norm ball."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skdp._checks import check_choice, check_positive, fail
from skdp.geometry import LpBall, NormBall
from skdp.privacy.guarantee import NEIGHBORS

# Gauges are computed in floats; a bound on one is raised by more than their error.
ROUND_UP = 1 + 1e-12


@dataclass(frozen=True)
class Sensitivity:
    """Every difference f(D) - f(D') of neighbours D, D' has gauge at most ``radius``.

    Parameters
    ----------
    ball : NormBall
        The norm in which differences are measured; best the hull of the differences
        themselves (Awan & Slavkovic 2020, Definition 2.7).
    radius : float > 0, units of the released value
        Greatest gauge of a difference.
    neighbors : {"replace_one", "add_remove"}
        The relation under which the differences were taken.

    Examples
    --------
    >>> from skdp.geometry import LpBall
    >>> Sensitivity(LpBall(3, p=2), radius=2.0).radius_in(LpBall(3, p=1)) / 2.0 >= 3**0.5
    True
    """

    ball: NormBall
    radius: float = 1.0
    neighbors: str = "replace_one"

    def __post_init__(self) -> None:
        require_ball(self.ball)
        check_positive("radius", self.radius)
        check_choice("neighbors", self.neighbors, tuple(NEIGHBORS))

    def radius_in(self, ball: NormBall) -> float:
        """Return a bound on the gauge of any difference in another ball's norm.

        Exact for the ball itself, for plain l_p balls and for bodies with at most 65,536
        extreme points; otherwise the box around the body is used, which is safe.
        """
        if ball.dim != self.ball.dim:
            raise fail("ball", f"have dimension {self.ball.dim}", ball.dim)
        return self.radius * greatest_gauge(ball, self.ball)


def require_ball(ball: object) -> None:
    """Raise unless ``ball`` has the members of a norm ball."""
    if not isinstance(ball, NormBall):
        remedy = "Give a norm ball such as LpBall(dim, p)."
        raise fail("ball", "have dim, exact, gauge and sample", type(ball), remedy)


def greatest_gauge(ball: NormBall, over: NormBall) -> float:
    """Return an upper bound on the gauge of ``ball`` over the body ``over``."""
    if ball is over or (type(ball) is type(over) and ball == over):
        return 1.0
    if _is_plain(ball) and _is_plain(over):
        return _lp_in_lp(ball, over)  # type: ignore[arg-type]
    try:
        corners = over.extreme_points()  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return _through_the_box(ball, over)
    return float(np.max(ball.gauge(corners))) * ROUND_UP


def _is_plain(ball: NormBall) -> bool:
    return isinstance(ball, LpBall) and ball.weights is None


def _lp_in_lp(ball: LpBall, over: LpBall) -> float:
    # |v|_r <= d^(1/r - 1/p) |v|_p for r < p, and |v|_r <= |v|_p otherwise.
    power = max(0.0, 1 / ball.p - 1 / over.p)
    return over.radius / ball.radius * math.pow(ball.dim, power) * ROUND_UP


def _through_the_box(ball: NormBall, over: NormBall) -> float:
    """Bound a convex function over a body by the triangle inequality over its box."""
    try:
        half_widths = over.bounding_box()  # type: ignore[attr-defined]
    except AttributeError:
        remedy = "Add bounding_box() to its class, or measure the differences in the same ball."
        raise fail("ball", "have extreme_points() or bounding_box()", type(over), remedy) from None
    return float(np.sum(ball.gauge(np.diag(half_widths)))) * ROUND_UP
