"""Coverage of the 95 % intervals of private scores, over repeated samples of a population.

    python -m examples.benchmarks.intervals.private_score --repeats 1000

A model is fitted once and is public. Each repetition draws held-out records, in the design
"persons" four rows for each person with a common effect, and scores the model on them. The truth is
the score on a million other rows. A row has the share of intervals that hold the truth (its
standard error is .007 for 1000 repetitions and a single cell), the median half-width, and the
median share of the noise in the variance. Matrices and curves count the cells that have a value.
Designs: "labels" (a third positive), "rare" (one in ten), "persons", "numbers". Needs no data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import (
    balanced_accuracy_score,
    brier_score_loss,
    confusion_matrix,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)

from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPLinearRegression, DPLogisticRegression
from skdp.model_selection import private_score
from skdp.model_selection.score import EDGES

DESIGNS = ("labels", "rare", "persons", "numbers")
LABELS = (
    *("accuracy", "balanced_accuracy", "confusion_matrix"),
    *("roc_auc", "calibration_curve", "log_loss", "brier_score"),
)
NUMBERS = ("r2", "mean_absolute_error")
BOUND, MILLION = 8.0, 1_000_000


def draw(design: str, n: int, rng: Generator) -> tuple[FloatArray, NDArray[Any], Any]:
    """Return rows, targets and persons or None of n records."""
    persons = np.repeat(np.arange(n), 4) if design == "persons" else None
    rows = n if persons is None else 4 * n
    X = rng.uniform(-1, 1, (rows, 3))
    if design == "numbers":
        return X, np.clip(X @ [1.0, 2.0, 3.0] + rng.normal(size=n), -BOUND, BOUND), None
    eta = 3 * X[:, 0] - 2 * X[:, 1] - (3 if design == "rare" else 1)
    if persons is not None:
        eta = eta + rng.normal(size=n)[persons]
    return X, (rng.uniform(size=rows) < expit(eta)).astype(int), persons


@report.remembered
def population(design: str, seed: int) -> tuple[Any, dict[str, FloatArray]]:
    """Return a public model, and the scores of the population."""
    rng = np.random.default_rng([seed, DESIGNS.index(design)])
    X, y, _ = draw(design, 5000, rng)
    target: Any = (-BOUND, BOUND) if design == "numbers" else [0, 1]
    kind = DPLinearRegression if design == "numbers" else DPLogisticRegression
    model = kind(epsilon=5.0, domain=Domain.unit_box(3, target=target), random_state=seed).fit(X, y)
    X, y, _ = draw(design, MILLION, rng)
    found = model.predict(X)
    if design == "numbers":
        return model, {
            "r2": np.array([r2_score(y, found)]),
            "mean_absolute_error": np.array([mean_absolute_error(y, found)]),
        }
    p = model.predict_proba(X)[:, 1]
    shares = confusion_matrix(y, found).ravel() / len(y)
    cells = np.searchsorted(EDGES, p)
    counts = [np.bincount(cells[y >= label], minlength=len(EDGES) + 1) for label in (0, 1)]
    of_label = np.clip(np.where(y == 1, p, 1 - p), 0.02, 0.98)
    truth: dict[str, Any] = {
        "accuracy": [np.mean(y == found)],
        "balanced_accuracy": [balanced_accuracy_score(y, found)],
        "confusion_matrix": shares,
        "roc_auc": [roc_auc_score(y, p)],
        "calibration_curve": counts[1] / np.maximum(counts[0], 1),
        "log_loss": [-np.log(of_label).mean()],
        "brier_score": [brier_score_loss(y, p)],
    }
    return model, {name: np.asarray(own) for name, own in truth.items()}


def held(design: str, settings: list[dict[str, Any]], seed: int, repetition: int) -> dict[str, Any]:
    """Return of each metric whether its intervals hold the truth, and its parts of the errors."""
    (asked,) = settings
    model, truth = population(design, seed)
    rng = np.random.default_rng([seed, repetition, asked["n"], 2])
    X, y, persons = draw(design, asked["n"], rng)
    budget = {name: asked[name] for name in ("epsilon", "neighbors")}
    names, noise = [*truth], report.noise_seed(seed, repetition)
    facts = {"metric": names, "groups": persons, "random_state": noise}
    score = private_score(model, X, y, **budget, **facts)
    found = {}
    for name in names:
        own = score[name]
        low, high = own.interval.T
        inside = ((low <= truth[name]) & (truth[name] <= high)).astype(float)
        inside[np.isnan(own.value)] = np.nan
        parts = inside, (high - low) / 2, own.privacy**2 / (own.sampling**2 + own.privacy**2)
        found[name] = np.array(parts)
    return found


def rows_of(design: str, arguments: Any) -> list[report.Row]:
    rows = []
    for n in arguments.sizes:
        for epsilon in arguments.epsilons:
            for neighbors in ("replace_one", "add_remove"):
                asked = {"n": n, "epsilon": epsilon, "neighbors": neighbors}
                found = report.measure(held, design, [asked], arguments)
                for name, own in found.items():
                    inside, half, share = np.moveaxis(own, 1, 0)
                    values = ~np.isnan(inside)
                    rows.append(
                        {"design": design, **asked, "metric": name}
                        | {"values": values.mean()}
                        | {"coverage": np.nanmean(inside) if values.any() else None}
                        | {"half-width": np.median(half[values]) if values.any() else None}
                        | {"noise": np.median(share[values]) if values.any() else None}
                    )
    return rows


def main() -> None:
    parser = report.parser_for(__doc__, repeats=1000)
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[500, 2000, 10_000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 2.0])
    arguments = parser.parse_args()
    rows = [row for design in arguments.designs for row in rows_of(design, arguments)]
    report.publish("private_score", rows, arguments)


if __name__ == "__main__":
    main()
