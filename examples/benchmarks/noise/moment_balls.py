"""Speed of the exact samplers of moments, and how much noise the smaller bodies save.

For each layout and level: draws a second; how much smaller the body is than the box, as the
geometric mean of its scale in each dimension; the mean squared error of K-norm noise against
the box's, in all and for each kind of entry; and the l_1 radius of the changes, to which l_1 noise
is proportional, against that of the box. With --sensitivities: only the l_1 radius, and the l_2
radius of moments of rows bounded in length, without and with the weights natural to matrices.
Needs no data files.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np

from examples.benchmarks.shared import report
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout, RadialMomentBall
from skdp.mechanisms import Sensitivity

# (numbers, sizes of blocks, level): draws a second that are asked for.
LEAST: dict[tuple[int, tuple[int, ...], Any], float] = {
    (5, (), 1): 10_000.0,
    (12, (), 1): 1_000.0,
    (8, (), 2): 10.0,
}
LAYOUTS: list[tuple[int, tuple[int, ...]]] = [
    (1, ()),
    (2, ()),
    (5, ()),
    (8, ()),
    (12, ()),
    (50, ()),
    (3, (1, 1, 1)),
    (5, (1, 3, 4)),
    (6, (8, 15, 6, 14, 5, 4, 1, 41)),
]
KINDS = ("linear", "square", "product", "target")
MOST_SECONDS = 2.0


def layout_of(n_numbers: int, sizes: tuple[int, ...], neighbors: str) -> MomentLayout:
    starts = np.cumsum([n_numbers, *sizes])
    blocks = tuple(tuple(range(s, s + m)) for s, m in zip(starts[:-1], sizes, strict=True))
    total = int(starts[-1])
    return MomentLayout(total, tuple(range(n_numbers)), blocks, neighbors=neighbors)


def draws_a_second(ball: MomentBall, rng: np.random.Generator) -> float:
    """Return the greatest rate over batches that grow as long as they are quick."""
    n, best = 1, 0.0
    while True:
        start = time.perf_counter()
        ball.sample(n, rng)
        seconds = time.perf_counter() - start
        best = max(best, n / seconds)
        if seconds > MOST_SECONDS / 10 or n >= 20_000:
            return best
        n *= 4


def errors(ball: MomentBall, rng: np.random.Generator, draws: int) -> dict[str, float | None]:
    """Return mean squares against the box's, in all and by the kind of the entry."""
    box = ball.bounding_box() ** 2 / 3
    own = np.diag(ball.estimate_covariance(draws, rng))
    kinds = ball.layout.kinds
    found: dict[str, float | None] = {"error / box": float(own.sum() / box.sum())}
    for kind in KINDS:
        here = kinds == kind
        found[f"{kind} error"] = float(own[here].sum() / box[here].sum()) if here.any() else None
    return found


def row_of(
    n_numbers: int, sizes: tuple[int, ...], level: Any, arguments: argparse.Namespace
) -> report.Row:
    layout = layout_of(n_numbers, sizes, arguments.neighbors)
    ball, rng = MomentBall(layout, level), np.random.default_rng(arguments.seed)
    value, error = ball.estimate_log_volume(arguments.draws, rng)
    log_box = float(np.log(2 * ball.bounding_box()).sum())
    rate = draws_a_second(ball, rng)
    least = LEAST.get((n_numbers, sizes, level))
    return {
        "numbers": n_numbers,
        "blocks": " ".join(map(str, sizes)),
        "level": level,
        "dim": ball.dim,
        "draws a second": rate,
        "scale / box": math.exp((value - log_box) / ball.dim) if math.isfinite(value) else None,
        "standard error": error / ball.dim if math.isfinite(error) else None,
        **errors(ball, rng, arguments.draws if level != 2 or ball.dim < 60 else 20),
        "greatest square / box": ball.greatest_square(np.ones(ball.dim))
        / float((ball.bounding_box() ** 2).sum()),
        "l_1 radius / box": l1_share(ball),
        **report.judged(rate, (least,) if least else None, higher=True),
    }


def l1_share(ball: MomentBall) -> float:
    """Return the l_1 radius of the changes over that of the box."""
    sensitivity = Sensitivity(ball, neighbors=ball.layout.neighbors)
    return sensitivity.radius_in(LpBall(ball.dim, p=1)) / float(ball.bounding_box().sum())


def radial_row(q: int, radius: float, neighbors: str) -> report.Row:
    """Return the l_2 radii of the changes for q numbers with |x|_2 <= radius."""
    layout = MomentLayout(
        q, tuple(range(q)), target_square=True, neighbors=neighbors, shifted=False
    )
    ball = RadialMomentBall(layout, radius)
    natural = np.where(layout.kinds == "product", 2.0, 1 / layout.scale**2)
    return {
        "numbers": q,
        "bound on rows": radius,
        "l_2 radius": math.sqrt(ball.greatest_square(np.ones(ball.dim))),
        "l_2 radius, natural": math.sqrt(ball.greatest_square(natural)),
    }


def sensitivities(neighbors: str) -> list[report.Row]:
    """Return the radii for all layouts, and for rows bounded in length."""
    rows: list[report.Row] = []
    for n_numbers, sizes in LAYOUTS:
        layout = layout_of(n_numbers, sizes, neighbors)
        start = time.perf_counter()
        share = l1_share(MomentBall(layout, 0))
        seconds = time.perf_counter() - start
        named = {"numbers": n_numbers, "blocks": " ".join(map(str, sizes)), "dim": layout.dim}
        rows.append({**named, "l_1 radius / box": share, "seconds": seconds})
    return rows + [radial_row(q, radius, neighbors) for q in (1, 2, 10) for radius in (0.3, 1.0)]


def levels_of(layout: MomentLayout) -> list[Any]:
    """Return the levels that the layout has, those for which no sampler is fast left out."""
    found = []
    for level in (1, 2, "exact"):
        try:
            MomentBall(layout, level)
        except ValueError:
            continue
        found.append(level)
    return found


def main() -> None:
    parser = report.parser_for(__doc__, repeats=1)
    parser.add_argument("--draws", type=int, default=2_000, help="behind volumes and errors")
    parser.add_argument("--neighbors", choices=["replace_one", "add_remove"], default="replace_one")
    parser.add_argument("--sensitivities", action="store_true", help="only radii, no draws")
    arguments = parser.parse_args()
    if arguments.sensitivities:
        radii = sensitivities(arguments.neighbors)
        report.publish(f"moment_radii_{arguments.neighbors}", radii, arguments)
        return
    rows = [
        row_of(n_numbers, sizes, level, arguments)
        for n_numbers, sizes in LAYOUTS
        for level in levels_of(layout_of(n_numbers, sizes, arguments.neighbors))
    ]
    report.publish(f"moment_balls_{arguments.neighbors}", rows, arguments)


if __name__ == "__main__":
    main()
