"""Checks of parts of other packages when they are first used."""

from __future__ import annotations

from importlib import import_module

from skdp.trusted.ball import NormBall
from skdp.trusted.checks import check_count, fail
from skdp.trusted.identity import is_ours, others_in, remembered, require_comparable


def check_at_first_use(part: object, kind: str) -> None:
    """Raise ValueError if a law, ball or loss of another package breaks a rule of its protocol."""
    if not is_ours(part):
        require_comparable(part, kind)
        _check_once(part, kind)


@remembered(maxsize=256)
def _check_once(part: object, kind: str) -> None:
    import_module("skdp.testing.first_use").CHECKS[kind](part)


def check_ball(ball: object) -> None:
    """Raise ValueError unless an object is a norm ball, and those of others pass their checks."""
    if isinstance(ball, type) or not isinstance(ball, NormBall):
        remedy = "Give a norm ball such as LpBall(dim, p)."
        raise fail("ball", "have dim, exact, gauge and sample", type(ball), remedy)
    check_count("ball's dim", ball.dim)
    for other in others_in(ball):
        if isinstance(other, NormBall):
            check_at_first_use(other, "ball")
