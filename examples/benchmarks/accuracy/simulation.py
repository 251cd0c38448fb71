"""Error of private logistic regression in the simulation of Awan & Slavkovic (2020).

Their Algorithm 3: n = 10^4 rows uniform on [-1, 1]^7, no intercept, labels from a logistic
model, median l2 distance of the estimate to the truth. Beside our estimator stand their own
mechanisms, Algorithm 2 with the sign in gamma corrected, and the fit without privacy. Needs no
data files.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from scipy import special
from scipy.optimize import minimize

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPLogisticRegression
from skdp.geometry import LpBall

TRUTH = np.array([0, -1, -1 / 2, -1 / 4, 0, 3 / 4, 3 / 2])
N, M = 10_000, len(TRUTH)
EPSILONS = [2.0**k for k in range(-6, 2)]
OURS, WITHOUT = "skdp", "without privacy"
BOUNDS = {1 / 16: (0.62, 0.50), 1 / 4: (0.215, 0.19), 1: (0.116, 0.110)}


@dataclass(frozen=True)
class Mechanism:
    """What Algorithm 2 takes: a norm, the gradient's sensitivity in it, and q in (0, 1)."""

    p: float
    sensitivity: float
    q: float

    def noise(self, epsilon: float, rng: Generator) -> FloatArray:
        """Draw V with density proportional to exp(-(epsilon q / sensitivity) |v|_p)."""
        radius = rng.gamma(M + 1, self.sensitivity / (epsilon * self.q))
        return radius * LpBall(M, self.p).sample(1, rng)[0]

    def gamma(self, epsilon: float) -> float:
        """Return the ridge; the paper prints exp(epsilon (q - 1)), which makes it negative."""
        return (M / 4) / math.expm1(epsilon * (1 - self.q))


PAPER = {
    "l1, q=.5": Mechanism(1, 2 * M, 0.5),
    "l2, q=.5": Mechanism(2, 2 * math.sqrt(M), 0.5),
    "linf, q=.5": Mechanism(math.inf, 2, 0.5),
    "linf, q=.85": Mechanism(math.inf, 2, 0.85),
}


def draw_data(rng: Generator) -> tuple[FloatArray, FloatArray]:
    X = rng.uniform(-1, 1, (N, M))
    return X, (rng.uniform(size=N) < special.expit(X @ TRUTH)).astype(float)


def minimiser(X: FloatArray, y: FloatArray, gamma: float, V: FloatArray) -> FloatArray:
    """Return argmin of sum_i log(1 + exp(t'x_i)) - y_i t'x_i + (gamma / 2) t't + V't."""

    def value(t: FloatArray) -> float:
        margin = X @ t
        return float(np.logaddexp(0, margin).sum() - y @ margin + gamma / 2 * (t @ t) + V @ t)

    def gradient(t: FloatArray) -> FloatArray:
        return X.T @ (special.expit(X @ t) - y) + gamma * t + V

    def hessian(t: FloatArray) -> FloatArray:
        p = special.expit(X @ t)
        return (X.T * (p * (1 - p))) @ X + gamma * np.eye(M)

    # A gradient of 1e-4 is an error below 1e-7: the sum is over ten thousand rows.
    options = {"gtol": 1e-4}
    start = np.zeros(M)
    found = minimize(
        value, start, jac=gradient, hess=hessian, method="trust-exact", options=options
    )
    return found.x


def paper_fit(mechanism: Mechanism) -> Callable[..., FloatArray]:
    def fit(X: FloatArray, y: FloatArray, epsilon: float, seed: int) -> FloatArray:
        noise = mechanism.noise(epsilon, np.random.default_rng(seed))
        return minimiser(X, y, mechanism.gamma(epsilon), noise)

    return fit


def our_fit(X: FloatArray, y: FloatArray, epsilon: float, seed: int) -> FloatArray:
    model = DPLogisticRegression(
        epsilon=epsilon,
        domain=Domain.unit_box(M, target=[0, 1]),
        fit_intercept=False,
        mechanism="auto",
        random_state=seed,
    )
    return model.fit(X, y.astype(int)).coef_[0]


METHODS = {OURS: our_fit} | {name: paper_fit(mechanism) for name, mechanism in PAPER.items()}


def errors(epsilons: list[float], seed: int, repetition: int) -> dict[str, FloatArray]:
    """Return the l2 distances to the truth in one repetition, for every method and epsilon."""
    X, y = draw_data(np.random.default_rng([seed, repetition]))
    noise = report.noise_seed(seed, repetition)
    found = {
        name: np.array([np.linalg.norm(fit(X, y, e, noise) - TRUTH) for e in epsilons])
        for name, fit in METHODS.items()
    }
    plain = np.linalg.norm(minimiser(X, y, 0.0, np.zeros(M)) - TRUTH)
    return found | {WITHOUT: np.full(len(epsilons), plain)}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=100)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    arguments = parser.parse_args()
    calls = [(arguments.epsilons, arguments.seed, r) for r in range(arguments.repeats)]
    found = report.stacked(report.run(errors, calls, arguments.jobs, "simulation"))
    medians = {name: np.median(values, axis=0) for name, values in found.items()}
    rows = []
    for k, epsilon in enumerate(arguments.epsilons):
        figures = {name: float(values[k]) for name, values in medians.items()}
        verdict = report.judged(figures[OURS], BOUNDS.get(epsilon), higher=False)
        rows.append({"epsilon": epsilon, **figures, **verdict})
    report.publish("simulation", rows, arguments)


if __name__ == "__main__":
    main()
