"""Balls that the tests of orders share, and a search that the bounds are held against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from examples import compare_norm_balls as example
from skdp import geometry
from skdp.geometry import EncodedRowsBall, LpBall, MappedBall, ProductBall, ShearedBall

CURVED = example.CurvedBall()
INF = math.inf


@dataclass(frozen=True)
class Hexagon:
    """{v : |F v| <= 1}, known by its faces only, as a hull of half-spaces may be."""

    dim: ClassVar[int] = 2
    exact: ClassVar[bool] = True

    def facets(self) -> Any:
        return np.array([[1.0, 0.2], [-0.3, 0.8], [0.9, -0.7]])

    def gauge(self, v: Any) -> Any:
        return np.abs(np.asarray(v) @ self.facets().T).max(axis=-1)

    def sample(self, n: int, rng: Any) -> Any:
        u = rng.uniform(-3, 3, (40 * n + 400, 2))
        return u[self.gauge(u) <= 1][:n]


SHEAR = np.array([[1.0, 0.7], [-0.2, 1.5]])
PLANE = [
    LpBall(2, p=1), LpBall(2, p=1.5, weights=(1.0, 3.0)), LpBall(2, p=2, radius=0.3),
    LpBall(2, p=7, weights=(20.0, 1.0)), LpBall(2, p=INF), MappedBall(LpBall(2, p=3), SHEAR),
    MappedBall(LpBall(2), SHEAR), ShearedBall(LpBall(2, p=3), (0.0, 0.7)),
    MappedBall(LpBall(2, p=INF, radius=2.0), SHEAR.T), geometry.SimplexBall(2),
    EncodedRowsBall(0, (1,)), geometry.SumBall((LpBall(1), LpBall(1)), (1.0, 2.0)),
    ProductBall((LpBall(1), LpBall(1, radius=3.0)), ((1,), (0,))), CURVED, Hexagon(),
]  # fmt: skip


def brute(ball: Any, over: Any) -> float:
    """Return the greatest |u|_ball / |u|_over over many angles, finer around the best."""

    def ratio(turn: Any) -> Any:
        u = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
        return ball.gauge(u) / over.gauge(u)

    turns = np.linspace(0, np.pi, 2001)
    at = turns[np.argsort(ratio(turns))[-3:]]
    step = turns[1]
    for _ in range(5):  # fifty times as fine in each round
        around = at[:, None] + np.linspace(-step, step, 101)
        at, step = around[np.arange(3), ratio(around).argmax(axis=1)], step / 50
    return float(ratio(at).max())
