"""How long fitting a covariance takes, and what it gains over the box and the round Gaussian.

The sums and products of p numbers and a target in {-1, 1}: replacing a record flips k of the
P = p + 1 signs, so the sum of squares of the changes, weighted by a for sums and c for products,
is at most the greatest 4 (a k + c k (P - k)). Needs no data files, and nothing is random.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from skdp.geometry import LpBall
from skdp.mechanisms.knorm import EllipticGaussian, IsotropicGaussian
from skdp.mechanisms.sensitivity import Sensitivity
from skdp.trusted.noise import GaussianNoise

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class SignMoments:
    """The box around the changes of all sums and products of ``signs`` numbers in {-1, 1}."""

    signs: int
    exact: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.signs * (self.signs + 1) // 2

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge of v, (..., dim) to (...)."""
        return np.asarray(np.abs(np.asarray(v)).max(axis=-1) / 2)

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws, (n, dim)."""
        return rng.uniform(-2, 2, (n, self.dim))

    def orbits(self) -> NDArray[np.intp]:
        """Return 0 for sums and 1 for products, (dim,)."""
        return np.repeat([0, 1], [self.signs, self.dim - self.signs])

    def greatest_square(self, weights: FloatArray) -> float:
        """Return the greatest weighted sum of squares of the changes."""
        k = np.arange(self.signs + 1)
        squares = weights[0] * k + weights[-1] * k * (self.signs - k)
        return 4 * float(squares.max())


def milliseconds(function: Callable[[], GaussianNoise], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def error(noise: GaussianNoise, weights: FloatArray) -> float:
    return float(weights @ noise.covariance().diagonal())


def row(signs: int, ratio: float, arguments: argparse.Namespace) -> list[float]:
    """Return dimension, milliseconds, and weighted errors over that of the fitted noise."""
    ball = SignMoments(signs)
    weights = np.where(ball.orbits() == 0, 1.0, ratio)
    asked = {"epsilon": arguments.epsilon, "delta": arguments.delta}
    box = Sensitivity(LpBall(ball.dim, p=math.inf, radius=2.0))
    fitted = EllipticGaussian(weights).calibrate(Sensitivity(ball), **asked)
    others = [
        EllipticGaussian(weights).calibrate(box, **asked),
        IsotropicGaussian().calibrate(box, **asked),
        IsotropicGaussian().calibrate(Sensitivity(ball), **asked),
    ]
    took = milliseconds(
        lambda: EllipticGaussian(weights).calibrate(Sensitivity(ball), **asked), arguments.repeats
    )
    # In the order of the table's last columns.
    return [ball.dim, took, *(error(noise, weights) / error(fitted, weights) for noise in others)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signs", nargs="+", type=int, default=[3, 6, 11, 20, 50])
    parser.add_argument("--ratios", nargs="+", type=float, default=[0.01, 1.0, 100.0])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print("weighted squared error in units of the fitted noise's own")
    print("signs  weight of products   dim      ms  box fitted  box round  round")
    for signs in arguments.signs:
        for ratio in arguments.ratios:
            dim, took, *errors = row(signs, ratio, arguments)
            shown = "  ".join(
                f"{value:{w}.3f}" for value, w in zip(errors, (10, 9, 5), strict=True)
            )
            print(f"{signs:5d}  {ratio:18g}  {dim:4.0f}  {took:6.1f}  {shown}")


if __name__ == "__main__":
    main()
