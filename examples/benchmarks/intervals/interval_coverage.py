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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.stats import t

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.linear_model._moments.advice import MomentPlan, plan_moments
from skdp.linear_model._moments.solve import Moments, solve
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import GRAM_BITS, exact_statistic, release_exact
from skdp.linear_model._shared.task import Task
from skdp.linear_model.linear import DPLinearRegression
from skdp.mechanisms import Sensitivity, calibrate

IntArray = NDArray[np.int64]

P = 5
TRUTH = np.array([0.0, *np.linspace(-1.5, 1.5, P)])
SIZES = [10_000, 1_000_000]
EPSILONS = [2.0**k for k in range(-4, 3)]
OURS, TRUE = "auto", "truth"
DOMAIN = Domain.unit_box(P, target=(-1, 1))


BODIES: dict[str, Callable[[MomentLayout], Any]] = {
    "box": lambda layout: LpBall(layout.dim, p=math.inf, radius=2.0),
    "least box": lambda layout: MomentBall(layout, level=0),
    "K_T": lambda layout: MomentBall(layout, level=1),
}


@dataclass(frozen=True)
class Method:
    """K-norm noise on the moments, and their pseudo-inverse: Equation 4.

    ``body`` is a box of half-width 2, in which l_1 has twice the dimension as its radius, the
    least box around the moments, or the paper's K_T. Without it the release is planned as in a
    fit, which takes the target's square along.
    """

    mechanism: str
    body: str | None = None

    def plan(self, domain: Domain, n: int, epsilon: float) -> MomentPlan:
        """Return what is released, and with which noise."""
        if self.body:
            layout = MomentLayout.of(domain)
            change = Sensitivity(BODIES[self.body](layout))
            noise = calibrate(self.mechanism, change, epsilon=epsilon)
            return MomentPlan(layout, noise, n, change)
        return plan_moments(Task(Design(domain, True), n, epsilon), self.mechanism)

    def coefficients(self, plan: MomentPlan, gram: IntArray, rng: Generator) -> FloatArray:
        """Return (intercept, slopes) of one release of a Gram matrix in units of 2^-40."""
        names = tuple(map(str, range(plan.layout.n_rows)))
        released = release_exact(plan.releases[0], exact_statistic(plan.layout, gram), rng)
        moments = Moments.of(plan, released, names)
        return solve("pinv", moments.noisy(intercept=True))[0]


def our_coefficients(
    X: FloatArray, y: FloatArray, domain: Domain, epsilon: float, seed: int
) -> FloatArray:
    """Return (intercept, slopes) of one fit with the defaults."""
    model = DPLinearRegression(epsilon=epsilon, domain=domain, random_state=seed).fit(X, y)
    return np.concatenate([[model.intercept_], model.coef_])


METHODS = {
    "l1": Method("l1", body="box"),
    "linf": Method("linf", body="box"),
    "K_T": Method("hull", body="K_T"),
    "l1 of K_T": Method("l1", body="K_T"),
    "matrix": Method("matrix"),
}
# What "auto" is compared with; "matrix" is its own noise, or a part of it.
OTHERS = ("l1", "linf", "K_T", "l1 of K_T")


@report.remembered
def plan_of(name: str, n: int, epsilon: float) -> MomentPlan:
    return METHODS[name].plan(DOMAIN, n, epsilon)


def draw_data(n: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """Return rows and targets, these not yet bounded."""
    X = rng.uniform(-1, 1, (n, P))
    return X, X @ TRUTH[1:] + TRUTH[0] + rng.standard_normal(n)


def gram_of(X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the Gram matrix of the rows (1, x, y)."""
    rows = np.column_stack([np.ones(len(y)), X, y])
    return np.asarray(rows.T @ rows)


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
    X, y = draw_data(n, np.random.default_rng([seed, n, repetition]))
    low, high = intervals(gram_of(X, y))
    y = y.clip(-bound, bound) / bound
    gram = np.ldexp(gram_of(X, y), GRAM_BITS).astype(np.int64)
    noise = report.noise_seed(seed, repetition)

    def share(theta: FloatArray) -> float:
        slopes = bound * theta[1:]
        return float(np.mean((low <= slopes) & (slopes <= high)))

    found = {OURS: np.array([share(our_coefficients(X, y, DOMAIN, e, noise)) for e in epsilons])}
    for name, method in METHODS.items():
        plans = [plan_of(name, n, e) for e in epsilons]
        thetas = [method.coefficients(p, gram, np.random.default_rng(noise)) for p in plans]
        found[name] = np.array([share(theta) for theta in thetas])
    return found | {TRUE: np.full(len(epsilons), share(TRUTH / bound))}


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
                **{name: float(means[name][k]) for name in (*METHODS, OURS, TRUE)},
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
        for name in (*METHODS, OURS):
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
        shares = {name: round(share_of_budget(of_n, name), 2) for name in (*METHODS, OURS)[1:]}
        print(f"n = {n}: budget for the coverage of l1, as a share of l1's: {shares}")
    if out:
        draw(rows, out)


if __name__ == "__main__":
    main()
