"""Test R^2 of DPLinearRegression and of Boosted AdaSSP, all columns, on the same splits.

Boosted AdaSSP (Tang et al. 2023, "Improved differentially private regression via gradient
boosting") releases X'X and its least eigenvalue once, and X'r of clipped residuals r in each of
10 rounds. Its noise is Gaussian with the least scale for which all releases are (epsilon, delta)-
private together, with delta = 1 / n^2: squared shifts add up. The authors' code has less noise
than this. DPLinearRegression has delta = 0 in one column and the same delta in the other. One
record is replaced. ``huber`` is the distance to DPHuberRegressor, delta = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import report
from adassp import RHO
from data import check_names, names_of, read
from report import FloatArray
from sklearn.metrics import r2_score

from skdp import Domain, DPHuberRegressor, DPLinearRegression
from skdp.mechanisms.gaussian.noise import gaussian_scale

EPSILONS = [0.1, 1.0]
ROUNDS = 10
LEAST_SCORE = -1e12


@dataclass
class BoostedAdaSSP:
    """Boosted AdaSSP; a third of the squared shift for X'X, the eigenvalue, and all rounds each.

    The intercept is a column of ones. Rows are divided by the greatest length that the domain
    allows, the target is scaled to [-1, 1], and residuals are clipped to [-1, 1].
    """

    domain: Domain
    epsilon: float
    delta: float
    seed: int
    rounds: int = ROUNDS

    def fit(self, X: FloatArray, y: FloatArray) -> BoostedAdaSSP:
        """Release the moments and add up the solutions of all rounds."""
        rows, t = self._rows(X), self.domain.encode_target(y)
        d, rng = rows.shape[1], np.random.default_rng(self.seed)
        unit = gaussian_scale(self.epsilon, self.delta) * math.sqrt(3)
        # |xx' - zz'| is at most sqrt(2) in the Frobenius norm, and 1 in the spectral norm.
        noise = rng.standard_normal((d, d))
        XX = rows.T @ rows
        noisy = XX + math.sqrt(2) * unit * (noise + noise.T) / 2
        least = float(np.linalg.eigvalsh(XX)[0]) + unit * rng.standard_normal()
        wanted = unit * math.sqrt(2 * d * math.log(2 * d**2 / RHO))
        ridged = noisy + max(0.0, wanted - max(0.0, least)) * np.eye(d)
        self.coef = np.zeros(d)
        for _ in range(self.rounds):
            residual = np.clip(t - rows @ self.coef, -1, 1)
            # A replaced record moves x'r by at most 2.
            step = 2 * unit * math.sqrt(self.rounds) * rng.standard_normal(d)
            self.coef += np.linalg.solve(ridged, rows.T @ residual + step)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return predictions in the target's units, within its bounds."""
        return self.domain.decode_target(np.clip(self._rows(X) @ self.coef, -1, 1))

    def _rows(self, X: FloatArray) -> FloatArray:
        return np.hstack([X, np.ones((len(X), 1))]) / self.domain.row_norm(2, intercept=True)


def scores(name: str, epsilon: float, seed: int, repetition: int) -> dict[str, float]:
    """Return the test R^2 of all methods on one split."""
    data = read(name)
    train, test = report.split(len(data.y), seed, repetition)
    X, y, domain = data.encoded, data.y, data.domain.encoded
    noise = report.noise_seed(seed, repetition)
    delta = float(report.facts_of_fit(len(y), 1.0, "replace_one", approximate=True)["delta"])
    common = {"epsilon": epsilon, "domain": domain, "random_state": noise}
    models = {
        "linear": DPLinearRegression(**common),
        "linear, delta": DPLinearRegression(**common, delta=delta),
        "boosted": BoostedAdaSSP(domain, epsilon, delta, noise),
        "huber": DPHuberRegressor(**common),
    }
    found = {m: model.fit(X[train], y[train]).predict(X[test]) for m, model in models.items()}
    return {m: max(LEAST_SCORE, float(r2_score(y[test], p))) for m, p in found.items()}


def row_of(name: str, epsilon: float, arguments: object) -> report.Row:
    """Return the medians of one set at one epsilon."""
    repeats, seed, jobs = (getattr(arguments, key) for key in ("repeats", "seed", "jobs"))
    calls = [(name, epsilon, seed, r) for r in range(repeats)]
    found = report.stacked(report.run(scores, calls, jobs, f"{name}, {epsilon:g}"))
    medians = {method: float(np.median(values)) for method, values in found.items()}
    return {
        "set": name,
        "epsilon": epsilon,
        **medians,
        "to huber": medians["huber"] - medians["linear"],
        "verdict": "level" if medians["linear"] >= medians["boosted"] else "below",
        "verdict, delta": "level" if medians["linear, delta"] >= medians["boosted"] else "below",
    }


def main() -> None:
    parser = report.parser_for(__doc__, repeats=10)
    parser.add_argument("--sets", nargs="+", help="data sets; all if left out")
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    arguments = parser.parse_args()
    names = check_names(arguments.sets or names_of("regression"), "regression")
    rows = [row_of(name, e, arguments) for name in names for e in arguments.epsilons]
    report.publish("boosted", rows, arguments)
    for epsilon in arguments.epsilons:
        own = [row for row in rows if row["epsilon"] == epsilon]
        level = [sum(row[key] == "level" for row in own) for key in ("verdict", "verdict, delta")]
        mean = float(np.mean([row["to huber"] for row in own]))
        print(
            f"epsilon {epsilon:g}: at least level on {level[0]} of {len(own)}, with delta"
            f" {level[1]}; mean distance to DPHuberRegressor {mean:.4f}"
        )


if __name__ == "__main__":
    main()
