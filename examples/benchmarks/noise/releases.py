"""One noise multiplier for many releases: which law, and how fast.

For each (epsilon, delta) and count, releases that one record moves by at most 1: the variance of
every law over the Gaussian's, what "auto" takes, and the milliseconds of each calibration from a
cold start, its search for the shape included.

The last table has the noise of a scaling stage, which releases the sums of k numbers and of their
squares: standard deviations in a mean and in a mean square, times n epsilon or n mu, and those of
noise for which the changes of both are charged separately.

    python -m examples.benchmarks.noise.releases
    python -m examples.benchmarks.noise.releases --only-sums
    python -m examples.benchmarks.noise.releases --counts 10000 --mixed --repeats 9
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from examples.benchmarks.noise.composition import forget
from examples.benchmarks.shared import report
from skdp.geometry import LpBall
from skdp.linear_model._descent.advice import independent
from skdp.linear_model._shared.gram import ColumnSums
from skdp.linear_model._shared.scaling import sums_noise
from skdp.mechanisms import KNorm, Sensitivity
from skdp.mechanisms import independent as repeated

CELLS = [(0.1, 1e-3), (1.0, 1e-2), (1.0, 1e-5), (1.0, 1e-8), (10.0, 1e-5)]
COUNTS = [1, 2, 4, 8, 16, 64, 256, 1024, 10_000]
SHIFTED = "gaussian"

Shifts = list[tuple[float, int]]


def cold(name: str, shifts: Shifts, epsilon: float, delta: float) -> tuple[Any, float]:
    """Return noise that was calibrated with nothing remembered, and the time."""
    forget()
    repeated._calibrated.cache_clear()
    start = time.perf_counter()
    noise = repeated.calibrate_releases(
        name, shifts, neighbors="replace_one", epsilon=epsilon, delta=delta
    )
    return noise, 1e3 * (time.perf_counter() - start)


def rows(shifts: Shifts, epsilon: float, delta: float, repeats: int) -> list[report.Row]:
    """Return a row for each mechanism."""
    gaussian = cold(SHIFTED, shifts, epsilon, delta)[0].var()
    found: list[report.Row] = []
    for name in repeated.MECHANISMS:
        runs = [cold(name, shifts, epsilon, delta) for _ in range(repeats)]
        noise, times = runs[0][0], [taken for _, taken in runs]
        found.append(
            {
                "epsilon": epsilon,
                "delta": delta,
                "releases": sum(n for _, n in shifts),
                "sizes": len(shifts),
                "law": name,
                "variance over Gaussian": noise.var() / gaussian,
                "taken": type(noise.law).__name__,
                "ms": float(np.median(times)),
            }
        )
    return found


def sums_row(k: int, neighbors: str, noise: str, in_ball: bool = False) -> report.Row:
    """Return the noise in means and mean squares, jointly and separately charged."""
    moved, n = (2.0, 1) if neighbors == "replace_one" else (1.0, None)
    sums = ColumnSums(tuple(range(k)), n, tuple(range(k)))
    places = [sums.dim - 2 * k, sums.dim - k]
    if noise == "K-norm":
        joint = np.sqrt(sums_noise(sums, moved, neighbors, 1.0).variance())[places]
        box = KNorm("linf").calibrate(Sensitivity(LpBall(sums.dim, math.inf, moved)), epsilon=1.0)
        apart = np.sqrt(box.variance())[places]
        factors = np.array([1.0, 1 / sums.factor])
    else:
        gaussian, power = noise == "Gaussian", 2 if noise == "Gaussian" else 1
        planned = independent(replace(sums, factor=1), gaussian, k if in_ball else 0)
        size = sum(count * own**power for own, count in planned.shifts) ** (1 / power)
        root = 1.0 if gaussian else math.sqrt(2)
        joint = root * size * planned.units[places]
        separate = sum(k * own**power for own in (moved, 1.0)) + (n is None)
        apart = np.full(2, root * separate ** (1 / power))
        factors = np.array([1.0, 1 / planned.sums.factor])
        apart /= factors
    row = {"numbers": k, "neighbors": neighbors, "noise": noise, "rows in a ball": in_ball}
    for name, one, other in zip(("mean", "square"), joint * factors, apart * factors, strict=True):
        row |= {name: one, f"{name}, apart": other, f"{name}, ratio": one / other}
    return row


def sums_rows() -> list[report.Row]:
    rows = [
        sums_row(k, neighbors, noise)
        for noise in ("K-norm", "Gaussian", "Laplace")
        for neighbors in ("replace_one", "add_remove")
        for k in (1, 5, 30)
    ]
    balls = [
        sums_row(k, neighbors, noise, True)
        for noise in ("Gaussian", "Laplace")
        for neighbors in ("replace_one", "add_remove")
        for k in (5, 30)
    ]
    return [*rows, *balls]


def main() -> None:
    parser: argparse.ArgumentParser = report.parser_for(__doc__, repeats=3)
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS)
    parser.add_argument("--mixed", action="store_true", help="three sizes in place of one")
    parser.add_argument("--only-sums", action="store_true", help="only the scaling stage")
    arguments = parser.parse_args()
    report.publish("releases_sums", sums_rows(), arguments)
    if arguments.only_sums:
        return
    measured = []
    for epsilon, delta in CELLS:
        for count in arguments.counts:
            third = count // 3
            mixed = [(1.0, count - 2 * third), (0.5, third), (2.0, third)]
            shifts = mixed if arguments.mixed and third else [(1.0, count)]
            measured += rows(shifts, epsilon, delta, arguments.repeats)
    report.publish("releases_mixed" if arguments.mixed else "releases", measured, arguments)


if __name__ == "__main__":
    main()
