"""The battery for this package's own balls: `skdp.testing.check_ball`'s parts, one by one.

`check_norm` looks for a counter-example besides. False alarms are derived in
skdp/testing/ball.py.
"""

# ruff: noqa: F401
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.random import Generator

from skdp.geometry import NormBall
from skdp.testing import ball as public
from skdp.testing.ball import (
    ALARM,
    Array,
    Check,
    check_box,
    check_covariance,
    check_polytope,
    check_protocol,
    check_radius,
    check_rejection,
    check_stationary,
    check_support,
    lp_gauge,
)

QUICK = settings(
    max_examples=25, deadline=None, derandomize=True, database=None, report_multiple_bugs=False
)


def check_norm(ball: Any, rng: Generator) -> None:
    """The gauge is a norm, also where a search looks for a point at which it is none."""
    assert isinstance(ball, NormBall)
    public.check_norm(ball, rng)
    numbers = st.floats(-1e3, 1e3, allow_subnormal=False)
    pairs = arrays(np.float64, (2, ball.dim), elements=numbers)

    @settings(QUICK)
    @given(pairs, st.floats(1e-3, 1e3))
    def holds(pair: Array, factor: float) -> None:
        public.check_norm_at(ball, pair, factor)

    holds()


BATTERY: tuple[Check, ...] = tuple(
    check_norm if check is public.check_norm else check for check in public.BATTERY
)


def member(name: str) -> Any:
    """Return a method that calls the replacement of a member, or the ball's own."""

    def called(self: Twin, *given: Any) -> Any:
        if name in self.other:
            return self.other[name](self.ball, *given)
        return getattr(self.ball, name)(*given)

    return called


@dataclass(frozen=True)
class Twin:
    """A ball with some of its members replaced; each replacement is given the ball first."""

    ball: Any
    other: dict[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        return int(self.ball.dim)

    exact = True

    gauge, sample = member("gauge"), member("sample")
    log_volume, support = member("log_volume"), member("support")
    bounding_box, covariance = member("bounding_box"), member("covariance")
    variance, extreme_points = member("variance"), member("extreme_points")


@dataclass(frozen=True)
class Shy:
    """A ball that has nothing but what it must have."""

    ball: Any
    exact = False

    @property
    def dim(self) -> int:
        return int(self.ball.dim)

    def gauge(self, v: Any) -> Any:
        return self.ball.gauge(v)

    def sample(self, n: int, rng: Any) -> Any:
        return self.ball.sample(n, rng)
