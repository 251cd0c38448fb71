"""Accuracy of joint models of several labels, beside one model for each label.

The models are those of `DPLogisticRegression` and of `DPCoordinateDescentClassifier`. Digits (8 x 8
pixels in [0, 16]), wine and iris are bundled with scikit-learn, so that no data files are needed. A
fifth of the rows is left out. ``--populations N`` compares normalizers of the joint loss on N
simulated populations instead, from which the rules were set, with ``--descent`` those of coordinate
descent: 3 to 10 classes, 2 to 70 columns, 120 to 20,000 rows, classes of equal or unequal size,
skewed and heavy-tailed columns. With ``--delta n`` the delta is 1 / n^2.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPCoordinateDescentClassifier, DPLogisticRegression
from skdp.linear_model import coordinate_descent as _algorithm
from skdp.linear_model._descent import advice as _plan
from skdp.linear_model.losses import Softmax

SETS: dict[str, Callable[..., Any]] = {"digits": load_digits, "wine": load_wine, "iris": load_iris}
EPSILONS = [0.5, 1, 4, 10]
TARGETS = {("digits", 1): 0.45, ("digits", 4): 0.83, ("digits", 10): 0.90}
NORMALIZERS = (0.1, 0.35, 0.5, 0.75, 1.0)
TESTED = 3000


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table of the sets, or that of the populations."""
    arguments = parse(argv)
    if arguments.populations:
        print_populations(arguments)
    else:
        print_sets(arguments)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = report.parser_for(__doc__, repeats=20)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--delta", default="0", help="a number, or n for 1 / n^2")
    parser.add_argument("--populations", type=int, default=0, metavar="N")
    parser.add_argument("--descent", action="store_true")
    return parser.parse_args(argv)


def print_sets(arguments: argparse.Namespace) -> None:
    """Print median accuracies of the joint models and of separate ones."""
    print("                  objective           descent")
    print("set      epsilon   joint   separate   joint   separate   without privacy   target")
    for name in arguments.sets:
        for epsilon in arguments.epsilons:
            seeds = range(arguments.seed, arguments.seed + arguments.repeats)
            jobs = (delayed(scores)(name, epsilon, arguments.delta, seed) for seed in seeds)
            *found, free = np.median(Parallel(arguments.jobs)(jobs), axis=0)
            target = TARGETS.get((name, epsilon), "")
            pairs = " ".join(
                f"{joint:7.3f} {apart:10.3f}" for joint, apart in (found[:2], found[2:])
            )
            print(f"{name:8} {epsilon:7g} {pairs} {free:17.3f} {target:>8}")


def scores(name: str, epsilon: float, delta: str, seed: int) -> list[float]:
    """Return accuracies: joint and separate models of each kind, and one without privacy."""
    X, y = SETS[name](return_X_y=True)
    # The bounds of wine and iris are those of the data, which are public here.
    lower, upper = (X.min(axis=0), X.max(axis=0)) if name != "digits" else (np.zeros(64), 16.0)
    upper = np.broadcast_to(upper, lower.shape)
    domain = Domain.box(lower, upper, target=sorted(set(y.tolist())))
    split = train_test_split(X, y, test_size=report.TEST_SHARE, random_state=seed)
    train, test = split[::2], split[1::2]
    made = {"epsilon": epsilon, "delta": delta_of(delta, len(train[1])), "domain": domain}
    found = []
    for model, context in [
        *objective(["auto", "sharp"]),
        (DPCoordinateDescentClassifier(), nullcontext()),
        separate(),
    ]:
        with context:
            fitted = model.set_params(random_state=seed, **made).fit(*train)
        found.append(float(fitted.score(*test)))
    half = np.where(upper > lower, (upper - lower) / 2, 1.0)
    scaled = [(part - lower) / half - 1 for part in (train[0], test[0])]
    plain = LogisticRegression(max_iter=2000).fit(scaled[0], train[1])
    return [*found, float(plain.score(scaled[1], test[1]))]


def delta_of(delta: str, n: int) -> float:
    """Return the delta for n records."""
    return 1 / n**2 if delta == "n" else float(delta)


# A model, and the context in which it is fitted.
Case = tuple[Any, AbstractContextManager[Any]]


def objective(losses: Sequence[Any]) -> list[Case]:
    """Return models by objective perturbation."""
    return [(DPLogisticRegression(loss=loss), nullcontext()) for loss in losses]


def separate() -> Case:
    """Return separate models by coordinate descent."""
    apart = mock.patch.object(_algorithm, "may_be_joint", return_value=False)
    return DPCoordinateDescentClassifier(), apart


def descent_at(normalizer: float) -> Case:
    """Return a joint model by coordinate descent with a normalizer."""
    usual = _plan.joint_slope

    def slope(*facts: Any) -> Any:
        return replace(usual(*facts), normalizer=normalizer)

    return DPCoordinateDescentClassifier(), mock.patch.object(_plan, "joint_slope", slope)


class Population(NamedTuple):
    """Rows of a simulated population, their labels, and public bounds."""

    n: int
    X: FloatArray
    y: FloatArray
    bounds: FloatArray
    n_classes: int


def population(seed: int) -> Population:
    """Return n rows to fit, and further rows to test."""
    rng = np.random.default_rng(seed)
    n, d = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((120, 20_000), (2, 70)))
    k = int(rng.choice([3, 4, 5, 7, 10]))
    distance, evenness = rng.uniform(0.5, 4.0), rng.choice([3.0, 300.0])
    rank = min(d, int(rng.integers(2, k + 2)))
    basis = np.linalg.qr(rng.normal(size=(d, rank)))[0]
    centres = distance * rng.normal(size=(k, rank)) @ basis.T
    y = rng.choice(k, size=n + TESTED, p=rng.dirichlet(np.full(k, evenness)))
    X = centres[y] + rng.normal(size=(n + TESTED, d))
    kind = rng.integers(3)
    if kind == 1:
        X[:, ::2] = np.expm1(X[:, ::2] / 2)  # skewed
    elif kind == 2:
        X += rng.standard_t(3, size=X.shape) / 2  # heavy-tailed
    middle = np.median(X, axis=0)
    half = np.quantile(np.abs(X - middle), 0.995, axis=0) * rng.uniform(1, 2.5, d)
    middle += half * rng.uniform(-0.3, 0.3, d)
    return Population(n, X, y, np.column_stack([middle - half, middle + half]), k)


def print_populations(arguments: argparse.Namespace) -> None:
    """Print mean losses of accuracy against the best normalizer, by the number of records."""
    jobs = (
        delayed(compare)(seed, epsilon, arguments.delta, arguments.descent)
        for seed in range(arguments.seed, arguments.seed + arguments.populations)
        for epsilon in arguments.epsilons
    )
    groups = defaultdict(list)
    for group, accuracies in Parallel(arguments.jobs)(jobs):
        groups[group].append(np.array(accuracies) - max(accuracies))
    print(
        "n epsilon / dim  populations "
        + " ".join(f"{a:6g}" for a in NORMALIZERS)
        + "   auto  separate"
    )
    for group, lost in sorted(groups.items()):
        means = " ".join(f"{value:6.3f}" for value in np.mean(lost, axis=0))
        print(f"from 2^{group:<9} {len(lost):11} {means}")


def compare(seed: int, epsilon: float, delta: str, descent: bool) -> tuple[int, list[float]]:
    """Return log2 of n epsilon / dim, rounded down to even, and an accuracy for each model."""
    made = population(seed)
    domain = Domain.box(*made.bounds.T, target=list(range(made.n_classes)))
    if descent:
        cases = [
            *map(descent_at, NORMALIZERS),
            (DPCoordinateDescentClassifier(), nullcontext()),
            separate(),
        ]
    else:
        losses = [*(Softmax(made.n_classes, a) for a in NORMALIZERS), "auto", "sharp"]
        cases = objective(losses)
    fit = {"epsilon": epsilon, "delta": delta_of(delta, made.n), "domain": domain}
    accuracies = []
    for model, context in cases:
        with context:
            accuracies.append(
                float(np.mean([_score(model, made, noise, fit) for noise in range(2)]))
            )
    return int(np.log2(made.n * epsilon / (made.X.shape[1] + 1))) // 2 * 2, accuracies


def _score(model: Any, made: Population, noise: int, fit: dict[str, Any]) -> float:
    model.set_params(random_state=noise, **fit).fit(made.X[: made.n], made.y[: made.n])
    return float(model.score(made.X[made.n :], made.y[made.n :]))


if __name__ == "__main__":
    main()
