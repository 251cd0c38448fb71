"""One noise multiplier for many releases: which law, how fast, and what other accounting costs.

For each (epsilon, delta) and count, releases that one record moves by at most 1: the variance of
every law over the Gaussian's, what "auto" takes, and what each calibration takes from a cold
start, its search for the shape included: milliseconds, certified bounds and looks. The second
table compares flipped Huber noise under zero-concentrated DP (docs/proofs/repeated_releases.md,
Theorem 3), its shape optimised for that bound, with the same law under the certified bounds.

    python examples/benchmarks/releases.py
    python examples/benchmarks/releases.py --counts 10000 --mixed --repeats 9
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import report
from composition import forget
from scipy.optimize import brentq

from skdp.mechanisms.independent import _sketch, repeated
from skdp.mechanisms.independent._composed import Composed
from skdp.noise import FlippedHuber
from skdp.privacy.conversions import zcdp_delta

CELLS = [(0.1, 1e-3), (1.0, 1e-2), (1.0, 1e-5), (1.0, 1e-8), (10.0, 1e-5)]
COUNTS = [1, 2, 4, 8, 16, 64, 256, 1024, 10_000]
SHIFTED = "gaussian"
MOST_MS = 500.0
ASKED: Counter[str] = Counter()

Shifts = list[tuple[float, int]]


def counted(name: str) -> Callable[..., Any]:
    """Return a method of `Composed` that counts how often it is called."""
    method = getattr(Composed, name)

    def called(self: Composed, *arguments: Any) -> Any:
        ASKED[name] += 1
        return method(self, *arguments)

    return called


def cold(name: str, shifts: Shifts, epsilon: float, delta: float) -> tuple[Any, float]:
    """Return noise that was calibrated with nothing remembered, and the time."""
    forget()
    repeated._calibrated.cache_clear()
    _sketch._ends.cache_clear()
    ASKED.clear()
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
                "bounds": ASKED["_bound"],
                "looks": ASKED["_look"],
                "in time": report.verdict(float(np.median(times)), MOST_MS, None, higher=False),
            }
        )
    return found


def concentrated_variance(bend: float, count: int, epsilon: float, delta: float) -> float:
    """Return the variance of flipped Huber noise, alpha = bend gamma, under zCDP."""

    def excess(log_gamma: float) -> float:
        gamma = math.exp(log_gamma)
        rest = max(bend - 1 / gamma, 0.0)
        xi, rho = count * (bend**2 - rest**2) / 2, count / gamma**2 / 2
        found = zcdp_delta(rho, epsilon, xi)
        return math.log(max(found, 1e-300) / delta)

    middle = math.log(count) / 2 - math.log(epsilon)
    if excess(middle + 40) > 0:
        return math.inf
    gamma = math.exp(brentq(excess, middle - 20, middle + 40, xtol=1e-6))
    return FlippedHuber(bend, 1.0).var() * gamma**2


def concentrated_row(count: int, epsilon: float, delta: float) -> report.Row:
    """Compare both kinds of accounting of flipped Huber noise."""
    bends = [0.0, *np.geomspace(1e-4, 30, 24)]
    variances = [concentrated_variance(float(b), count, epsilon, delta) for b in bends]
    best = int(np.argmin(variances))
    mine = cold("flipped_huber", [(1.0, count)], epsilon, delta)[0]
    gaussian = cold(SHIFTED, [(1.0, count)], epsilon, delta)[0]
    return {
        "epsilon": epsilon,
        "delta": delta,
        "releases": count,
        "variance, certified": mine.var(),
        "Gaussian": gaussian.var(),
        "zCDP": variances[best],
        "its alpha / gamma": bends[best],
        "zCDP over certified": variances[best] / mine.var(),
        "zCDP, our shape": concentrated_variance(
            mine.law.alpha / mine.law.gamma, count, epsilon, delta
        )
        / mine.var(),
    }


def main() -> None:
    parser: argparse.ArgumentParser = report.parser_for(__doc__, repeats=3)
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS)
    parser.add_argument("--mixed", action="store_true", help="three sizes in place of one")
    arguments = parser.parse_args()
    for name in ("_bound", "_look"):
        setattr(Composed, name, counted(name))
    measured, compared = [], []
    for epsilon, delta in CELLS:
        for count in arguments.counts:
            third = count // 3
            mixed = [(1.0, count - 2 * third), (0.5, third), (2.0, third)]
            shifts = mixed if arguments.mixed and third else [(1.0, count)]
            measured += rows(shifts, epsilon, delta, arguments.repeats)
            compared.append(concentrated_row(count, epsilon, delta))
    report.publish("releases_mixed" if arguments.mixed else "releases", measured, arguments)
    report.publish("releases_concentrated", compared, arguments)


if __name__ == "__main__":
    main()
