"""Calibration of one release: every scale against fifty digits, and how long the shape takes.

Three tables. "grid": all laws over epsilon and delta; "random": laws, shapes, epsilon and delta at
random; for both, how many scales are private at fifty digits (all must be), and the greatest
excess over the least scale. "flipped_huber": the least variance over the shape against a table
computed apart, and the time of one calibration, its search for the shape included, against a plain
nested search by scipy. Needs mpmath; the exact side is that of the tests.

The default is a small sample; --full is the setting of the figures, some minutes on two cores.
"""

from __future__ import annotations

import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from examples.benchmarks.shared import report
from skdp.geometry import LpBall
from skdp.mechanisms import Sensitivity
from skdp.mechanisms.independent import Independent, least_scale
from skdp.noise.laws import (
    FlippedHuber,
    Gaussian,
    Laplace,
    Logistic,
    OffsetGaussian,
    Subbotin,
    TruncatedLaplace,
)
from skdp.privacy.shift import log_delta

TESTS = str(Path(__file__).resolve().parents[3] / "tests" / "support")

DIGITS = 50
STEPS = (2e-12, 1e-11, 1e-10, 1e-9, 1e-6)
SHAPED = {
    "Subbotin": lambda t: Subbotin(1 + math.exp(t)),
    "FlippedHuber": lambda t: FlippedHuber(math.exp(t), 1.0),
    "TruncatedLaplace": lambda t: TruncatedLaplace(math.exp(t), 1.0),
    "OffsetGaussian": lambda t: OffsetGaussian(math.exp(t), 1.0),
}
PLAIN = {"Laplace": Laplace(), "Logistic": Logistic(), "Gaussian": Gaussian()}
# Least variance over the shape for sensitivity 1, computed apart in double precision.
FLIPPED = [
    (0.1, 0.05, 19.699595682403647),
    (0.1, 0.01, 76.35049010081005),
    (0.1, 0.001, 159.89631058335038),
    (0.1, 1e-06, 199.76775831324267),
    (1.0, 0.05, 1.2556937748937915),
    (1.0, 0.01, 1.703841102696785),
    (1.0, 0.001, 1.9399257602812052),
    (1.0, 1e-06, 1.9997815040664146),
]


def is_private(law: Any, scale: Any, epsilon: float, delta: float) -> bool:
    """Tell whether a scale hides a shift of 1, at fifty digits."""
    if TESTS not in sys.path:  # also in another process
        sys.path.append(TESTS)
    from exact_profile import exact_delta
    from mpmath import mpf, workdps

    with workdps(DIGITS):
        found, spared = exact_delta(law, 1 / mpf(scale), epsilon, DIGITS)
        return bool(found <= delta if delta <= 0.5 else spared >= 1 - mpf(delta))


def checked(law: Any, epsilon: float, delta: float) -> tuple[str, bool, float]:
    """Return the law's name, whether its scale is private, and a bound on its relative excess."""
    scale = least_scale(law, 1.0, epsilon=epsilon, delta=delta)
    safe = is_private(law, scale, epsilon, delta)
    from mpmath import mpf, workdps  # its module cannot be sent to another process

    with workdps(DIGITS):
        less = (s for s in STEPS if not is_private(law, mpf(scale) * (1 - s), epsilon, delta))
        return type(law).__name__, safe, next(less, math.inf)


def random_case(seed: int, k: int) -> tuple[str, bool, float]:
    """Check a law of random shape at a random epsilon and delta."""
    rng = np.random.default_rng([seed, k])
    name = rng.choice([*SHAPED, *PLAIN])
    law = PLAIN[name] if name in PLAIN else SHAPED[name](rng.uniform(-6, 4))
    return checked(law, 10 ** rng.uniform(-4, math.log10(700)), 10 ** rng.uniform(-30, -0.05))


def summary(table: str, results: list[tuple[str, bool, float]]) -> list[report.Row]:
    """Return a row for each law."""
    return [
        {
            "table": table,
            "law": name,
            "cases": len(of := [r for r in results if r[0] == name]),
            "private": sum(safe for _, safe, _ in of),
            "greatest excess below": max(excess for _, _, excess in of),
        }
        for name in sorted({name for name, _, _ in results})
    ]


def grid_cases(full: bool) -> list[tuple[Any, float, float]]:
    """Return laws with epsilon and delta."""
    shapes = (-4.0, -1.0, 0.4, 1.5, 3.0) if full else (-1.0, 1.5)
    laws = [*PLAIN.values(), *(make(t) for make in SHAPED.values() for t in shapes)]
    epsilons = (0.01, 0.1, 1.0, 10.0, 100.0) if full else (0.01, 100.0)
    deltas = (1e-2, 1e-4, 1e-6, 1e-9, 1e-12) if full else (1e-2, 1e-12)
    return [(law, e, d) for law in laws for e in epsilons for d in deltas]


def plain_search(epsilon: float, delta: float) -> float:
    """Return the least variance by Brent's methods, one inside the other."""

    def variance(t: float) -> float:
        law = FlippedHuber(math.exp(t), 1.0)
        excess = partial(log_delta, law, epsilon=epsilon)
        shift = brentq(
            lambda u: max(float(excess(math.exp(u))), -1e3) - math.log(delta), -15, 15, xtol=1e-12
        )
        return law.var() * math.exp(-2 * shift)

    return float(minimize_scalar(variance, bounds=(-8, 6), method="bounded").fun)


def flipped_row(epsilon: float, delta: float, variance: float, repeats: int) -> report.Row:
    """Return the variance found and the median times."""
    release, sensitivity = Independent("flipped_huber"), Sensitivity(LpBall(1))
    times: dict[str, list[float]] = {"ours": [], "plain": []}
    found = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        noise = release.calibrate(sensitivity, epsilon=epsilon, delta=delta)
        middle = time.perf_counter()
        plain_search(epsilon, delta)
        times["ours"].append(middle - start)
        times["plain"].append(time.perf_counter() - middle)
        found = float(noise.covariance()[0, 0])
    ours, plain = (1e3 * float(np.median(times[name])) for name in ("ours", "plain"))
    return {
        "table": "flipped_huber",
        "epsilon": epsilon,
        "delta": delta,
        "variance": found,
        "excess over table": found / variance - 1,
        "milliseconds": ours,
        "of plain search": ours / plain,
    }


def main() -> None:
    parser = report.parser_for(__doc__, repeats=5)
    parser.add_argument("--cases", type=int, default=200, help="random calibrations")
    parser.add_argument("--full", action="store_true", help="the whole grid and 10,000 cases")
    arguments = parser.parse_args()
    cases = 10_000 if arguments.full else arguments.cases
    timed = [flipped_row(*row, arguments.repeats) for row in FLIPPED]
    report.publish("calibrations_flipped_huber", timed, arguments)
    grid = report.run(checked, grid_cases(arguments.full), arguments.jobs, "grid")
    calls = [(arguments.seed, k) for k in range(cases)]
    drawn = report.run(random_case, calls, arguments.jobs, "random")
    rows = [*summary("grid", grid), *summary("random", drawn)]
    report.publish("calibrations", rows, arguments)


if __name__ == "__main__":
    main()
