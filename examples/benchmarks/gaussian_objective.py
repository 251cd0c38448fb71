"""Gaussian objective perturbation: what noise the joint profile asks for, beside published ones.

Noise multipliers: standard deviations over the greatest length of a record's gradient. "Gaussian"
is the analytic Gaussian mechanism, which pays for no curvature (Balle & Wang 2018): nothing that
protects the same gradients can have less. "RKW" is Redberg, Koskela & Wang (2023), Theorem 3.1;
under replace_one, which it is not stated for, a removal and an addition by it at the best split
of epsilon. "KST" is Kifer, Smith & Thakurta (2012), Algorithm 1, which asks for a ridge that takes
at most epsilon / 2; under replace_one with twice the gradient. The leverage is the greatest
x' ridge^-1 x, in units of epsilon, the curvature what it multiplies a determinant by, less 1. A
dash stands where an analysis has no answer. Fails if ours ever needs more noise than another
analysis. Nothing is random.

    python examples/benchmarks/gaussian_objective.py
    python examples/benchmarks/gaussian_objective.py --epsilons 1 8 --leverages 0.01 0.5 0.99
"""

from __future__ import annotations

import argparse
import math
from itertools import product
from typing import Any

import numpy as np
import report
from scipy.optimize import brentq, minimize_scalar

from skdp.linear_model._objective.gaussian import greatest_shift
from skdp.linear_model.losses import Logistic, Loss, PseudoHuber
from skdp.mechanisms.gaussian.noise import gaussian_scale
from skdp.privacy.losses.normal_profile import log_delta

# The multiplier of the second does not depend on its threshold, which only sets the unit.
LOSSES: dict[str, Loss] = {"logistic": Logistic(), "pseudo-Huber": PseudoHuber(1.0)}
NEIGHBORS = ["add_remove", "replace_one"]
# Ours is calibrated to 1e-9; beyond this it would need more noise.
ROUNDING = 1e-8
_NEVER = 1e12


def published_log_delta(shift: float, epsilon: float, bend: float) -> float:
    """Return the log of Theorem 3.1's delta for one record more or less, ``bend`` = beta/lambda."""
    left = epsilon - abs(math.log1p(-bend))
    flat = shift**2 / 2
    if left >= flat:
        return min(0.0, math.log(2) + log_delta(shift, left))
    inner = math.log(2) + log_delta(shift, flat)
    # At most 0: a curvature that alone exceeds epsilon leaves no shift that would do.
    excess = left - flat
    return min(0.0, float(np.logaddexp(math.log(-math.expm1(excess)), excess + inner)))


def published_replaced(shift: float, epsilon: float, bend: float) -> float:
    """Return the log of the least delta(a) + e^a delta(epsilon - a) over the splits a."""

    def both(a: float) -> float:
        first = published_log_delta(shift, a, bend)
        return float(np.logaddexp(first, a + published_log_delta(shift, epsilon - a, bend)))

    grid = np.linspace(0, epsilon, 33)
    best = int(np.argmin([both(float(a)) for a in grid]))
    ends = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 32)])
    return min(float(minimize_scalar(both, bounds=ends, method="bounded").fun), both(ends[0]))


def published(epsilon: float, delta: float, bend: float, neighbors: str) -> float:
    """Return the least noise multiplier by Theorem 3.1, infinite where none will do."""
    if bend >= 1:
        return math.inf
    profile = published_log_delta if neighbors == "add_remove" else published_replaced

    def excess(log_noise: float) -> float:
        return profile(math.exp(-log_noise), epsilon, bend) - math.log(delta)

    low, high = math.log(gaussian_scale(epsilon, delta)), math.log(_NEVER)
    if excess(high) > 0:
        return math.inf
    return math.exp(float(brentq(excess, low, high, xtol=1e-12)))


def closed_form(epsilon: float, delta: float, bend: float, neighbors: str) -> float:
    """Return the noise multiplier of Kifer, Smith & Thakurta; infinite if the ridge is too small.

    Their ridge is at least 2 lambda / epsilon, lambda the greatest eigenvalue of a record's bend.
    """
    if bend > epsilon / 2:
        return math.inf
    records = 2 if neighbors == "replace_one" else 1
    return records * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon


def ours(loss: Loss, leverage: float, epsilon: float, delta: float, neighbors: str) -> float:
    """Return our least noise multiplier, infinite where none will do."""
    shift = greatest_shift(loss, leverage, epsilon, delta, neighbors)
    return 1 / shift if shift > 0 else math.inf


def row_of(name: str, neighbors: str, epsilon: float, delta: float, share: float) -> report.Row:
    """Return the multipliers of one case, and those of others over ours."""
    loss, leverage = LOSSES[name], share * epsilon
    bend = leverage * float(loss.curvature_bound(0.0, loss.slope_bound))
    own = ours(loss, leverage, epsilon, delta, neighbors)
    records = 2 if neighbors == "replace_one" else 1
    return {
        "loss": name,
        "neighbors": neighbors,
        "epsilon": epsilon,
        "delta": delta,
        "leverage / epsilon": share,
        "curvature": bend,
        "ours": own,
        "ours / Gaussian": own / (records * gaussian_scale(epsilon, delta)),
        "RKW / ours": over(published(epsilon, delta, bend, neighbors), own),
        "KST / ours": over(closed_form(epsilon, delta, bend, neighbors), own),
    }


def over(noise: float, own: float) -> float | None:
    """Return noise / own; None where the other analysis has no answer."""
    return noise / own if math.isfinite(noise) else None


def shown(row: report.Row) -> report.Row:
    """Return the row with a dash where there is no answer."""
    return {k: "-" if v is None or v == math.inf else v for k, v in row.items()}


def verdict(rows: list[report.Row], column: str) -> bool:
    """Print how the other analysis compares over all rows; return whether it ever needs less."""
    ratios = [float(row[column]) for row in rows if row[column] is not None]
    if not ratios:
        print(f"{column}: no answer in any of {len(rows)} cases")
        return False
    print(
        f"{column}: {min(ratios):.6g} to {max(ratios):.4g} in {len(ratios)} of {len(rows)} cases;"
        f" median {float(np.median(ratios)):.4g}"
    )
    return min(ratios) < 1 - ROUNDING


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--losses", nargs="+", choices=list(LOSSES), default=list(LOSSES))
    parser.add_argument("--neighbors", nargs="+", choices=NEIGHBORS, default=NEIGHBORS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 4.0])
    parser.add_argument("--deltas", nargs="+", type=float, default=[1e-5, 1e-9])
    shares, of = [0.1, 0.25, 0.5, 1.0, 2.0], "leverages in units of epsilon"
    parser.add_argument("--leverages", nargs="+", type=float, default=shares, help=of)
    arguments = parser.parse_args()
    asked: Any = vars(arguments).values()
    rows = [row_of(*case) for case in product(*asked)]
    print(report.table([shown(row) for row in rows]) + "\n")
    worse = [verdict(rows, column) for column in ("RKW / ours", "KST / ours")]
    if any(worse):
        raise SystemExit("Another analysis needs less noise than ours.")


if __name__ == "__main__":
    main()
