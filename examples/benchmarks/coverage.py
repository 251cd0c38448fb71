"""Share of private estimates within the 95 % intervals of least squares (Awan & Slavkovic 2020).

Their Algorithm 4: p = 5 columns uniform on [-1, 1], coefficients from -1.5 to 1.5, normal errors
of variance 1; the estimates are those of Equation 4, the pseudo-inverse of the noisy moments,
with K-norm noise in l_1, l_inf and on the body K_T, and ours. For the noise the target is clipped
to a public bound and scaled by it, which the paper leaves open. Needs no data files.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import report
from numpy.random import Generator
from report import FloatArray
from scipy.stats import t

from skdp import Domain
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.linear_model._gram import GRAM_BITS
from skdp.linear_model._moment_rules import plan_moments
from skdp.linear_model._moments import MomentPlan, Moments
from skdp.linear_model._postprocess import solve
from skdp.mechanisms import Sensitivity, calibrate

P = 5
TRUTH = np.array([0.0, *np.linspace(-1.5, 1.5, P)])
SIZES = [10_000, 1_000_000]
EPSILONS = [2.0**k for k in range(-4, 3)]
OURS, TRUE = "auto", "truth"
# Rows of the design that are drawn at once.
BLOCK = 100_000


@dataclass(frozen=True)
class Method:
    """A mechanism, what makes coefficients of its release, and the body of what a record moves.

    ``body`` is the box of half-width 2, in which l_1 has twice the dimension as its radius, or
    the paper's K_T. Without it the release is planned as in a fit, with the target's square.
    """

    mechanism: str
    postprocess: str = "pinv"
    body: str | None = None

    def plan(self, domain: Domain, n: int, epsilon: float) -> MomentPlan:
        """Return what is released, and with which noise."""
        if self.body:
            layout = MomentLayout.of(domain)
            box, K_T = LpBall(layout.dim, p=math.inf, radius=2.0), MomentBall(layout, level=1)
            sensitivity = Sensitivity(box if self.body == "box" else K_T)
            noise = calibrate(self.mechanism, sensitivity, epsilon=epsilon)
            return MomentPlan(layout, noise, n)
        facts: dict[str, Any] = {"neighbors": "replace_one", "n": n, "n_public": None}
        return plan_moments(domain, self.mechanism, epsilon=epsilon, delta=0.0, **facts)

    def coefficients(self, plan: MomentPlan, gram: FloatArray, rng: Generator) -> FloatArray:
        """Return (intercept, slopes) of one release; 0 for columns without moments."""
        exact = np.ldexp(gram, GRAM_BITS).astype(np.int64)
        names = tuple(map(str, range(plan.layout.n_rows)))
        moments = Moments.of(plan, plan.release(exact, rng), names)
        found = solve(self.postprocess, moments.noisy(intercept=True)).theta
        return np.concatenate([found, np.zeros(len(gram) - 1 - len(found))])


METHODS = {
    "l1": Method("l1", body="box"),
    "linf": Method("linf", body="box"),
    "K_T": Method("hull", body="K_T"),
    "l1 of K_T": Method("l1", body="K_T"),
    "matrix": Method("matrix"),
    OURS: Method("auto", "auto"),
}
# What "auto" is compared with; "matrix" is its own noise.
OTHERS = ("l1", "linf", "K_T", "l1 of K_T")


@cache
def plan_of(name: str, n: int, epsilon: float) -> MomentPlan:
    return METHODS[name].plan(Domain.unit_box(P, target=(-1, 1)), n, epsilon)


def draw_grams(n: int, bound: float, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrices of (1, x, y) and of (1, x, y clipped / bound)."""
    whole, clipped = np.zeros((2, P + 2, P + 2))
    for start in range(0, n, BLOCK):
        rows = np.ones((min(BLOCK, n - start), P + 2))
        rows[:, 1:-1] = rng.uniform(-1, 1, (len(rows), P))
        rows[:, -1] = rows[:, :-1] @ TRUTH + rng.standard_normal(len(rows))
        whole += rows.T @ rows
        rows[:, -1] = rows[:, -1].clip(-bound, bound) / bound
        clipped += rows.T @ rows
    return whole, clipped


def intervals(gram: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the 95 % intervals of the slopes."""
    A, b, n = gram[:-1, :-1], gram[:-1, -1], gram[0, 0]
    beta, free = np.linalg.solve(A, b), n - len(b)
    variance = (gram[-1, -1] - b @ beta) / free
    half = t.isf(0.025, free) * np.sqrt(variance * np.diag(np.linalg.inv(A)))
    return (beta - half)[1:], (beta + half)[1:]


def coverage(
    n: int, epsilons: list[float], bound: float, seed: int, repetition: int
) -> dict[str, FloatArray]:
    """Return the share of slopes within their intervals, for every method and epsilon."""
    whole, clipped = draw_grams(n, bound, np.random.default_rng([seed, n, repetition]))
    low, high = intervals(whole)
    noise = report.noise_seed(seed, repetition)

    def share(estimate: FloatArray) -> float:
        return float(np.mean((low <= estimate) & (estimate <= high)))

    found = {
        name: np.array(
            [
                share(bound * method.coefficients(plan_of(name, n, e), clipped, _rng(noise))[1:])
                for e in epsilons
            ]
        )
        for name, method in METHODS.items()
    }
    return found | {TRUE: np.full(len(epsilons), share(TRUTH[1:]))}


def _rng(seed: int) -> Generator:
    return np.random.default_rng(seed)


def rows_of(n: int, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each epsilon: the mean coverages, and ours against the best other."""
    epsilons = arguments.epsilons
    calls = [(n, epsilons, arguments.bound, arguments.seed, r) for r in range(arguments.repeats)]
    found = report.stacked(report.run(coverage, calls, arguments.jobs, f"n={n}"))
    means = {name: values.mean(axis=0) for name, values in found.items()}
    rows: list[dict[str, Any]] = []
    for k, epsilon in enumerate(epsilons):
        others = {name: found[name][:, k] for name in OTHERS}
        best = max(others, key=lambda name: others[name].mean())
        gain = found[OURS][:, k] - others[best]
        rows.append(
            {
                "n": n,
                "epsilon": epsilon,
                **{name: float(values[k]) for name, values in means.items()},
                "gain": float(gain.mean()),
                "standard error": float(gain.std() / math.sqrt(len(gain))),
                "reached": reached(gain),
            }
        )
    return rows


def reached(gain: FloatArray) -> str:
    if not gain.any():
        return "alike"
    return "above all" if gain.mean() > 0 else "missed"


def share_of_budget(rows: list[dict[str, Any]], name: str, against: str = "l1") -> float:
    """Return the median of epsilon / epsilon' at which two curves have the same coverage."""
    epsilons = np.log([row["epsilon"] for row in rows])
    own, other = (np.array([row[key] for row in rows]) for key in (name, against))
    levels = other[(other > own.min()) & (other < own.max())]
    at: Callable[..., FloatArray] = np.interp
    reached = at(levels, np.maximum.accumulate(own), epsilons)
    needed = at(levels, np.maximum.accumulate(other), epsilons)
    return float(np.exp(np.median(reached - needed))) if len(levels) else math.nan


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the coverage over epsilon, a panel for each n."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = sorted({row["n"] for row in rows})
    figure, axes = plt.subplots(1, len(sizes), figsize=(5 * len(sizes), 4), squeeze=False)
    for axis, n in zip(axes[0], sizes, strict=True):
        of_n = [row for row in rows if row["n"] == n]
        epsilons = [row["epsilon"] for row in of_n]
        for name in METHODS:
            axis.plot(epsilons, [row[name] for row in of_n], marker="o", label=name)
        axis.axhline(np.mean([row[TRUE] for row in of_n]), color="black", label=TRUE)
        axis.set_xscale("log", base=2)
        axis.set(title=f"n = {n:,}", xlabel="epsilon", ylim=(0, 1))
    axes[0, 0].set_ylabel("share within the 95 % interval")
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = report.parser_for(__doc__, repeats=200)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--bound", type=float, default=8.0, help="public bound on the target")
    parser.add_argument("--out", type=Path, help="file for a picture")
    arguments = parser.parse_args()
    rows = [row for n in arguments.sizes for row in rows_of(n, arguments)]
    out, arguments.out = arguments.out, arguments.out and str(arguments.out)
    report.publish("coverage", rows, arguments)
    for n in arguments.sizes:
        of_n = [row for row in rows if row["n"] == n]
        shares = {name: round(share_of_budget(of_n, name), 2) for name in METHODS if name != "l1"}
        print(f"n = {n}: budget for the coverage of l1, as a share of l1's: {shares}")
    if out:
        draw(rows, out)


if __name__ == "__main__":
    main()
