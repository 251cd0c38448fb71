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

``--costs`` prints what a curvature costs: the noise with the share 1 - q of epsilon for it over
that without, the least and the greatest over epsilon from .1 to 8 and delta from 1e-8 to 1e-2.
``--softmax`` has the noise of a joint loss of K labels with the normalizer a over that of one
gradient of the same length, the least and the greatest of epsilon = 1 and 10.

With ``--populations`` estimators are fitted to simulated tables: the mean accuracy of the logistic
model and the mean R^2 of the Huber regressor on new rows, for delta = 1e-6, with Gaussian noise and
with the automatic noise. The columns "reach" are the greatest length of a weighted row in units of
the noise, over that of the longest row: the factor by which weights reduce the Gaussian noise. To
compare with another version of the package, set PYTHONPATH to it.

    python -m examples.benchmarks.noise.gaussian_objective
    python -m examples.benchmarks.noise.gaussian_objective --epsilons 1 8 --leverages 0.01 0.5 0.99
    python -m examples.benchmarks.noise.gaussian_objective --costs
    python -m examples.benchmarks.noise.gaussian_objective --softmax
    python -m examples.benchmarks.noise.gaussian_objective --populations --repeats 5
"""

from __future__ import annotations

import argparse
import math
import warnings
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from examples.benchmarks.shared import report
from skdp import Domain, DPHuberRegressor, DPLogisticRegression
from skdp.linear_model._objective.advice import leverage_apart
from skdp.linear_model._objective.profiles import SoftmaxRecord, greatest_shift
from skdp.linear_model.losses import LogisticLoss, Loss, PseudoHuber, SharpLogistic, Softmax
from skdp.mechanisms.knorm import gaussian_scale
from skdp.trusted.losses import gaussian_log_delta

# The multiplier of the second does not depend on its threshold, which only sets the unit.
LOSSES: dict[str, Loss] = {
    "logistic": LogisticLoss(),
    "sharp logistic": SharpLogistic(0.75),
    "pseudo-Huber": PseudoHuber(1.0),
}
NEIGHBORS = ["add_remove", "replace_one"]
# Ours is calibrated to 1e-9; beyond this it would need more noise.
ROUNDING = 1e-8
_NEVER = 1e12


def published_log_delta(shift: float, epsilon: float, bend: float) -> float:
    """Return the log of Theorem 3.1's delta for one record more or less, ``bend`` = beta/lambda."""
    left = epsilon - abs(math.log1p(-bend))
    flat = shift**2 / 2
    if left >= flat:
        return min(0.0, math.log(2) + gaussian_log_delta(shift, left))
    inner = math.log(2) + gaussian_log_delta(shift, flat)
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


# What a curvature and several labels cost

SHARES, EPSILONS, DELTAS = [0.9, 0.8, 0.7, 0.5], np.geomspace(0.1, 8, 7), [1e-8, 1e-5, 1e-2]


def cost_row(name: str, neighbors: str, q: float) -> report.Row:
    """Return the least and the greatest noise over that without curvature."""
    loss, found = LOSSES[name], []
    for epsilon, delta in product(EPSILONS.tolist(), DELTAS):
        leverage = leverage_apart(loss, q, epsilon)
        own, bare = (ours(loss, at, epsilon, delta, neighbors) for at in (leverage, 0.0))
        found.append(own / bare)
    ends = {"least": min(found), "greatest": max(found)}
    return {"loss": name, "neighbors": neighbors, "q": q, **ends}


def softmax_row(n_classes: int, normalizer: float) -> report.Row:
    """Return the least and the greatest noise of a joint loss over that of one gradient."""
    loss = SoftmaxRecord(Softmax(n_classes, normalizer), n_classes - 1, is_row=True)
    found = [
        1 / greatest_shift(loss, epsilon / 20, epsilon, DELTA, "replace_one") / gaussian
        for epsilon, gaussian in ((e, 2 * gaussian_scale(e, DELTA)) for e in (1.0, 10.0))
    ]
    return {"K": n_classes, "a": normalizer, "least": min(found), "greatest": max(found)}


# Columns of numbers in [-1, 1], for a generator and a shape.
POPULATIONS: dict[str, Any] = {
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "normal": lambda rng, shape: 0.3 * rng.normal(size=shape),
    "heavy": lambda rng, shape: 0.1 * rng.standard_t(3, size=shape),
    "skew": lambda rng, shape: 2 * rng.beta(0.7, 6, size=shape) - 1,
    "rare": lambda rng, shape: rng.choice([-1.0, 1.0], size=shape, p=[0.95, 0.05]),
}
SIZES = [(500, 10, 1.0), (2000, 10, 0.5), (5000, 30, 1.0), (30_000, 30, 0.2), (2000, 60, 2.0)]
SIGNALS, TEST_ROWS, DELTA = [1.0, 3.0], 4000, 1e-6


def drawn(name: str, signal: float, n: int, d: int, rng: Generator) -> tuple[Any, Any]:
    """Return rows and a linear predictor of standard deviation ``signal``."""
    X = np.clip(POPULATIONS[name](rng, (n, d)), -1.0, 1.0)
    z = X @ rng.normal(size=d)
    return X, signal * (z - z.mean()) / z.std()


def scores(name: str, size: tuple[int, int, float], repeat: int) -> dict[str, float]:
    """Return the scores of one repetition, averaged over the signals."""
    (n, d, epsilon), found = size, []
    for signal in SIGNALS:
        rng = np.random.default_rng([repeat, n, d])
        X, z = drawn(name, signal, n + TEST_ROWS, d, rng)
        label = (rng.uniform(size=len(z)) < expit(z + 0.5)).astype(int)
        number = np.clip((z + rng.normal(size=len(z))) / (4 * math.hypot(1, signal)), -1, 1)
        row = {}
        for kind, target, y in (
            (DPLogisticRegression, [0, 1], label),
            (DPHuberRegressor, (-1.0, 1.0), number),
        ):
            domain = Domain.unit_box(d, target=target)
            for mechanism in ("elliptic", "auto"):
                asked: Any = {"mechanism": mechanism, "delta": DELTA, "domain": domain}
                model = kind(epsilon=epsilon, random_state=repeat, **asked).fit(X[:n], y[:n])
                key = f"{kind.__name__[2:7]} {mechanism}"
                row[key] = max(-1.0, model.score(X[n:], y[n:]))
                if mechanism == "elliptic":
                    row[f"{kind.__name__[2:7]} reach"] = reach(model)
        found.append(row)
    return {key: float(np.mean([row[key] for row in found])) for key in found[0]}


def reach(model: Any) -> float:
    """Return the greatest length of a weighted row over that of the longest row."""
    whole = model.loss_.slope_bound * math.sqrt((1 / model.noise_.variance()).sum())
    ((loss, _),) = model.guarantee_.losses
    return float(loss.profile.shift / whole)


def populations(repeats: int) -> None:
    """Print the scores on all populations."""
    warnings.simplefilter("ignore")
    rows: list[report.Row] = []
    for name, size in product(POPULATIONS, SIZES):
        runs = [scores(name, size, repeat) for repeat in range(repeats)]
        mean = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        n, d, epsilon = size
        rows.append({"population": name, "n": n, "d": d, "epsilon": epsilon, **mean})
    whole = {key: float(np.mean([float(row[key]) for row in rows])) for key in list(rows[0])[4:]}
    rows.append({"population": "all", "n": "", "d": "", "epsilon": "", **whole})
    print(report.table(rows))


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
    parser.add_argument("--costs", action="store_true", help="what a curvature costs")
    parser.add_argument("--softmax", action="store_true", help="what several labels cost")
    parser.add_argument("--populations", action="store_true", help="fit simulated tables")
    parser.add_argument("--repeats", type=int, default=5, help="fits behind each figure")
    asked = parser.parse_args()
    if asked.populations:
        return populations(asked.repeats)
    if asked.costs:
        cases = product(asked.losses, asked.neighbors, SHARES)
        return report.publish("gaussian_objective_costs", [cost_row(*c) for c in cases], asked)
    if asked.softmax:
        cells = product([3, 10], [0.1, 0.5, 1.0])
        return report.publish("gaussian_objective_softmax", [softmax_row(*c) for c in cells], asked)
    grid = asked.losses, asked.neighbors, asked.epsilons, asked.deltas, asked.leverages
    rows = [row_of(*case) for case in product(*grid)]
    print(report.table([shown(row) for row in rows]) + "\n")
    worse = [verdict(rows, column) for column in ("RKW / ours", "KST / ours")]
    if any(worse):
        raise SystemExit("Another analysis needs less noise than ours.")


if __name__ == "__main__":
    main()
