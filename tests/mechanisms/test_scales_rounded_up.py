"""Scales and bounds are above the truth by their own margin, not by luck: in exact fractions.

What floats lose on the way is at most a few roundings, and each bound adds more than that. A bound
without its margin, or with the margin on the wrong side, fails in one of these draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from skdp.geometry import LpBall, MappedBall
from skdp.mechanisms import Independent, Sensitivity, calibrate
from skdp.mechanisms.ellipsoid import least_cover
from skdp.mechanisms.independent import pure_scale
from skdp.mechanisms.knorm import gaussian_scale
from skdp.noise import Laplace, Logistic
from skdp.trusted.ball import greatest_gauge
from skdp.trusted.composition import infinity_mass
from skdp.trusted.losses import PairLoss

DRAWS = range(20)
MARGIN = 1 + Fraction(2) ** -45


class Interval:
    """A ball of somebody else's, of which nothing but its gauge is known."""

    dim, exact = 1, True

    def __init__(self, size: float) -> None:
        self.size = size

    def gauge(self, v: Any) -> Any:
        return np.abs(v)[..., 0] / self.size

    def sample(self, n: int, rng: np.random.Generator) -> Any:
        return self.size * rng.uniform(-1, 1, (n, 1))


class Boxed(Interval):
    """And what its box is."""

    def bounding_box(self) -> Any:
        return np.array([self.size])


class Supported(Interval):
    """And how far it reaches in each direction."""

    def support(self, w: Any) -> Any:
        return self.size * np.abs(w)[..., 0]


class Cornered(Interval):
    """And its ends."""

    def extreme_points(self) -> Any:
        return np.array([[self.size], [-self.size]])


def numbers(draw: int, count: int) -> list[float]:
    return np.exp(np.random.default_rng(draw).uniform(-4, 4, count)).tolist()


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("law", [Laplace(), Logistic()], ids=repr)
def test_the_scale_of_independent_noise(draw: int, law: Laplace | Logistic) -> None:
    """Scale times epsilon is at least the difference: the greatest slope of both laws is 1."""
    radius, epsilon = numbers(draw, 2)
    noise = calibrate(Independent(law), Sensitivity(LpBall(1), radius), epsilon=epsilon)
    alone = pure_scale(law, radius, epsilon, required=True)
    for scale in (float(noise.scale[0]), alone):
        assert Fraction(scale) * Fraction(epsilon) >= Fraction(radius) * MARGIN


@pytest.mark.parametrize("draw", DRAWS)
def test_the_scale_of_gaussian_noise(draw: int) -> None:
    radius, epsilon = numbers(draw, 2)
    sensitivity = Sensitivity(LpBall(1), radius)
    noise = calibrate("gaussian", sensitivity, epsilon=epsilon, delta=1e-6)
    least = Fraction(radius) * Fraction(gaussian_scale(epsilon, 1e-6))
    assert Fraction(float(np.ravel(noise.factor)[0])) >= least * MARGIN


@pytest.mark.parametrize("draw", DRAWS)
def test_the_cover_of_a_mapped_ball(draw: int) -> None:
    """Its corners lie inside the ellipsoid by more than the map's rounding."""
    stretch = np.array(numbers(draw, 3))
    ball = MappedBall(LpBall(3, p=math.inf), stretch)
    factor = np.asarray(least_cover(ball, np.ones(3)))
    assert factor.shape == (3,)
    inside = sum(
        (Fraction(s) / Fraction(f)) ** 2 for s, f in zip(stretch, factor.tolist(), strict=True)
    )
    # Both the inner cover and the map leave a margin of 1e-12.
    assert inside <= 1 - 3e-12


PAIRS: dict[str, Callable[[float, float], tuple[Any, Any]]] = {
    "boxes": lambda size, factor: (Interval(factor), Boxed(size)),
    "a box in an l_p ball": lambda size, factor: (LpBall(1, radius=factor), Boxed(size)),
    "corners": lambda size, factor: (Interval(factor), Cornered(size)),
    "facets": lambda size, factor: (LpBall(1, p=math.inf, radius=factor), Supported(size)),
    "l_p balls": lambda size, factor: (LpBall(1, radius=factor), LpBall(1, p=1, radius=size)),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_gauge_over_a_body(pair: str, draw: int) -> None:
    """In one dimension the box around the body is the body."""
    size, factor = numbers(draw, 2)
    found = Fraction(greatest_gauge(*PAIRS[pair](size, factor)))
    assert found >= Fraction(size) / Fraction(factor) * MARGIN


@pytest.mark.parametrize("draw", DRAWS)
def test_the_mass_at_infinity_of_a_composition(draw: int) -> None:
    delta = 1e-6 * numbers(draw, 1)[0]
    count = 2 + draw
    exact = 1 - (1 - Fraction(delta)) ** count
    assert Fraction(infinity_mass(((PairLoss(0.5, delta), count),))) >= exact * MARGIN
