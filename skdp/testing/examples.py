"""A mechanism as an example for the documentation.

The package does not use it. It has the members of its protocol and no others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from skdp.geometry import NormBall
from skdp.mechanisms import Sensitivity
from skdp.trusted import Statement
from skdp.trusted.arrays import FloatArray


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
