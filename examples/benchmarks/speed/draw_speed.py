"""Exact draws a second from the balls of the estimators, and the time of a composition.

Draws come from the cryptographic source, many at a time and one alone.
Each line is the best of its repetitions, with the rate that it must reach beside it.
Needs no data files.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from threadpoolctl import threadpool_limits

from examples.benchmarks.shared import report
from skdp.geometry import EncodedRowsBall, LpBall, ProductBall, SimplexBall, SumBall
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.privacy import Guarantee, compose
from skdp.privacy.conversions import gaussian_epsilon
from skdp.trusted.losses import GaussianLoss
from skdp.trusted.randomness import as_generator

RATE = "a second"
COLUMNS = [SimplexBall(m) for m in (8, 15, 6, 14, 5, 4, 1, 40, 3, 2, 7, 9, 11)]
NUMBERS = LpBall(6, p=math.inf)
# Six numbers and columns of levels; with an intercept 101 coordinates.
LEVELS = (8, 15, 6, 14, 5, 4, 1, 41)
INTERVAL = LpBall(1)
FLAT = SumBall((INTERVAL, NUMBERS, *COLUMNS), (1.0,) * 15)
ONE_PRODUCT = SumBall((ProductBall((INTERVAL, NUMBERS, *COLUMNS[:5])), *COLUMNS[5:]), (1.0,) * 9)
PRODUCTS = SumBall(tuple(ProductBall((INTERVAL, column)) for column in COLUMNS), (1.0,) * 13)


def moments(p: int) -> MomentBall:
    return MomentBall(MomentLayout(p, tuple(range(p))))


# A ball, how many draws at once, and the least rate.
DRAWS: dict[str, tuple[Any, int, float]] = {
    "simplex, 40 levels": (SimplexBall(40), 10_000, 1e5),
    "sum of columns, one draw": (FLAT, 1, 500),
    "sum with a product, one draw": (ONE_PRODUCT, 1, 500),
    "sum of products, one draw": (PRODUCTS, 1, 500),
    "encoded rows": (EncodedRowsBall(6, LEVELS), 5000, 5000),
    "encoded rows, one draw": (EncodedRowsBall(6, LEVELS), 1, 200),
    "encoded rows, no intercept": (EncodedRowsBall(6, LEVELS, False), 5000, 5000),
    "moments, 5 numbers": (moments(5), 500, 10_000),
    "moments, 12 numbers": (moments(12), 50, 1000),
}
COMPOSED = 10_000
MOST_SECONDS = 2.0


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def draw_row(what: str, repeats: int) -> report.Row:
    ball, count, least = DRAWS[what]
    rng = as_generator(None)
    tries = repeats * (10 if count == 1 else 1)
    rate = count / min(seconds(lambda: ball.sample(count, rng)) for _ in range(tries))
    return {"what": what, RATE: rate, **report.judged(rate, (least,), higher=True)}


def composition_row(repeats: int) -> report.Row:
    step = Guarantee(gaussian_epsilon(0.01, 1e-6), 1e-6, losses=((GaussianLoss(0.01), 1),))
    steps = [step] * COMPOSED
    rate = 1 / min(seconds(lambda: compose(*steps, delta=1e-6)) for _ in range(repeats))
    what = f"compositions of {COMPOSED} releases"
    return {"what": what, RATE: rate, **report.judged(rate, (1 / MOST_SECONDS,), higher=True)}


def main() -> None:
    arguments = report.parser_for(__doc__, repeats=5).parse_args()
    with threadpool_limits(1):
        rows = [draw_row(what, arguments.repeats) for what in DRAWS]
        rows.append(composition_row(arguments.repeats))
    report.publish("draw_speed", rows, arguments)


if __name__ == "__main__":
    main()
