"""A law, a ball and a mechanism as examples for the documentation.

The package does not use them. Each has the members of its protocol and few others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from skdp.geometry import NormBall
from skdp.mechanisms import Sensitivity
from skdp.noise.law import Size
from skdp.trusted import Statement
from skdp.trusted.arrays import FloatArray


@dataclass(frozen=True)
class HyperbolicSecant:
    """Law with density proportional to 1 / cosh: smooth at 0, with the tails of a Laplace law."""

    scale: float = 1.0

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Return the natural log of the density at x."""
        u = np.abs(np.asarray(x, dtype=float)) / self.scale
        return np.asarray(-u - np.log1p(np.exp(-2 * u)) - math.log(math.pi * self.scale / 2))

    def logsf(self, x: ArrayLike) -> FloatArray:
        """Return log P(X > x)."""
        u = np.asarray(x, dtype=float) / self.scale
        far = np.abs(u)
        # P(X > x) = (2 / pi) arctan(e^-u) for u > 0, and the arctangent of a small t is t.
        near = np.log(np.arctan(np.exp(-np.minimum(far, 40))))
        tail = math.log(2 / math.pi) + np.where(far > 40, -far, near)
        return np.asarray(np.where(u < 0, np.log1p(-np.exp(tail)), tail))

    def isf(self, q: ArrayLike) -> FloatArray:
        """Return the x with P(X > x) = q."""
        p = np.asarray(q, dtype=float)
        less = np.minimum(p, 1 - p)
        with np.errstate(divide="ignore"):
            far = -np.log(less) - math.log(math.pi / 2)  # where a tangent is its angle
            tail = np.where(less < 1e-9, far, -np.log(np.tan(math.pi / 2 * less)))
        # Near 1/2 the tangent is near 1, and its logarithm loses all digits.
        centre = np.arcsinh(np.tan(math.pi * (0.5 - less)))
        u = np.where(less < 0.2, tail, centre)
        return np.asarray(self.scale * np.where(p > 0.5, -u, u))

    def rvs(self, size: Size, rng: Generator) -> FloatArray:
        """Return draws: the log of the absolute ratio of two Gaussian variables."""
        ratio = rng.normal(size=size) / rng.normal(size=size)
        return np.asarray(self.scale * np.log(np.abs(ratio)))

    def var(self) -> float:
        """Return the variance."""
        return (math.pi * self.scale / 2) ** 2

    def scaled(self, s: float) -> Self:
        """Return the law of s X."""
        return type(self)(s * self.scale)


@dataclass(frozen=True)
class Cylinder:
    """All (x, y, z) with x^2 + y^2 <= 1 and |z| <= height: a point in a disc, and a number."""

    height: float = 1.0
    dim: int = 3
    exact: bool = True

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the greater of the norms of the two parts."""
        x, y, z = np.moveaxis(np.asarray(v, dtype=float), -1, 0)
        return np.asarray(np.maximum(np.hypot(x, y), np.abs(z) / self.height))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return uniform draws: the square of the distance from the axis is uniform."""
        distance, angle = np.sqrt(rng.random(n)), rng.uniform(0, 2 * math.pi, n)
        z = rng.uniform(-self.height, self.height, n)
        return np.column_stack([distance * np.cos(angle), distance * np.sin(angle), z])

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u> over the ball."""
        x, y, z = np.moveaxis(np.asarray(w, dtype=float), -1, 0)
        return np.asarray(np.hypot(x, y) + self.height * np.abs(z))

    def bounding_box(self) -> FloatArray:
        """Return half-widths."""
        return np.array([1.0, 1.0, self.height])

    def log_volume(self) -> float:
        """Return the log of the volume."""
        return math.log(2 * math.pi * self.height)

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law: 1/4 in a disc, height^2 / 3 along the axis."""
        return np.diag([0.25, 0.25, self.height**2 / 3])


@dataclass(frozen=True)
class BoxNoise:
    """Independent Laplace noise."""

    scales: tuple[float, ...]
    guarantee: Statement

    def rvs(self, rng: Generator) -> FloatArray:
        """Return one draw, (dim,)."""
        return rng.laplace(scale=np.array(self.scales))

    def covariance(self) -> FloatArray:
        """Return the covariance of a draw: twice the squares of the scales on the diagonal."""
        return np.diag(2 * np.array(self.scales) ** 2)

    def expected_norm(self, ball: NormBall) -> float:
        """Return an estimate of the mean gauge of a draw, from 4096 draws."""
        rng = np.random.default_rng(0)
        return float(np.mean(ball.gauge(rng.laplace(scale=self.scales, size=(4096, ball.dim)))))


@dataclass(frozen=True)
class LaplaceInTheBox:
    """Mechanism with one Laplace variable for each coordinate, scaled to the bounding box."""

    def calibrate(
        self, sensitivity: Sensitivity, *, epsilon: float, delta: float = 0.0
    ) -> BoxNoise:
        """Return noise that is epsilon-private; delta is not used."""
        widths = sensitivity.radius * sensitivity.ball.bounding_box()  # type: ignore[attr-defined]
        # The log-ratio of d densities adds up to the sum of width / scale = epsilon at most.
        scales = len(widths) * widths / epsilon * (1 + 1e-12)
        claim = Statement(epsilon, neighbors=sensitivity.neighbors, mechanism="Laplace in a box")
        return BoxNoise(tuple(map(float, scales)), claim)
