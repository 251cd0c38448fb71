"""Accuracy of models for persons, beside those that know one averaged row of each person.

A simulated panel has 5,000 persons with 1 to 20 rows each. Numbers and labels of a person's rows
are similar. ``persons`` is a fit with ``groups`` at epsilon. ``one row`` has one row for each
person, the mean of its numbers and one of its labels, at epsilon for rows: the published advice
where groups are not supported. ``divided`` fits all rows at epsilon / 20, the advice of group
privacy. The real panel is the bike-sharing data by day, with 24 rows for each day at most; its
group privacy divides epsilon by 24. Scores are accuracy or R^2 on rows of other persons.

    python -m examples.benchmarks.accuracy.persons --repeats 20
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import read
from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)

N_PERSONS, MOST_ROWS, COLUMNS = 5000, 20, 20
# Of the columns, half matter.
WEIGHTS = np.resize([1.0, 0.0, -0.5, 0.0], COLUMNS)
EPSILON, DELTA = 1.0, 1e-6
WAYS = ("persons", "one row", "divided")
CLASSIFIERS = (DPLogisticRegression, DPCoordinateDescentClassifier)
REGRESSORS = (DPLinearRegression, DPHuberRegressor, DPCoordinateDescentRegressor)
BIKES = {
    "season": [1, 2, 3, 4],
    "hr": list(range(24)),
    "weathersit": [1, 2, 3, 4],
    "workingday": [0, 1],
    "temp": (0.0, 1.0),
    "hum": (0.0, 1.0),
    "windspeed": (0.0, 1.0),
}


def panel(seed: int, classes: bool) -> tuple[Any, Any, Any]:
    """Return rows, targets and identifiers of a simulated panel, in a random order."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(N_PERSONS), rng.integers(1, MOST_ROWS + 1, N_PERSONS))
    ids = rng.permutation(ids)
    own = rng.uniform(-0.7, 0.7, (N_PERSONS, COLUMNS))
    X = np.clip(own[ids] + rng.normal(0, 0.3, (len(ids), COLUMNS)), -1, 1)
    signal = X @ (rng.permutation(WEIGHTS) / 2)
    person = rng.normal(0, 0.2, N_PERSONS)[ids]
    if classes:
        return X, (rng.logistic(size=len(ids)) < 4 * (signal + person)).astype(int), ids
    y = signal / 3 + person / 3 + rng.normal(0, 0.1, len(ids))
    return X, np.clip(y, -1, 1), ids


def bikes() -> tuple[Any, Any, Any]:
    """Return hours of bike sharing with the day of each."""
    data = read("bike_sharing_hour")
    days = data.X[["yr", "mnth", "day"]].astype(int) @ [372, 31, 1]
    X = data.X[list(BIKES)].astype({name: int for name, own in BIKES.items() if type(own) is list})
    return X, data.y, days.to_numpy()


def one_row(X: Any, y: Any, ids: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return the mean of the numbers of each person, and the target of one of its rows.

    Levels are those of the same row; numbers of targets are averaged.
    """
    frame = pd.DataFrame(X).assign(_y=y, _id=ids).sample(frac=1, random_state=int(rng.integers(99)))
    first = frame.groupby("_id").first()
    means = frame.groupby("_id").mean(numeric_only=True)
    levels = set(BIKES) & {name for name, own in BIKES.items() if isinstance(own, list)}
    rows = means.drop(columns="_y").assign(**{name: first[name] for name in levels & {*frame}})
    integer = np.issubdtype(np.asarray(y).dtype, np.integer) and len(np.unique(y)) == 2
    target = first["_y"] if integer else means["_y"]
    return (rows if isinstance(X, pd.DataFrame) else rows.to_numpy()), target.to_numpy()


def scores(kind: Any, domain: Domain, data: Any, delta: float, seed: int, most: int) -> list[float]:
    """Return the score of each of the `WAYS` on the rows of a fifth of the persons."""
    (X, y, ids), rng = data, np.random.default_rng(seed)
    names = np.unique(ids)
    test = np.isin(ids, rng.choice(names, len(names) // 5, replace=False))
    rows = X[~test], y[~test], ids[~test]
    settings = {"domain": domain, "delta": delta, "random_state": seed}
    fits = [
        kind(epsilon=EPSILON, **settings).fit(*rows[:2], groups=rows[2]),
        kind(epsilon=EPSILON, **settings).fit(*one_row(*rows, rng)),
        kind(epsilon=EPSILON / most, **settings).fit(*rows[:2]),
    ]
    return [float(model.score(X[test], y[test])) for model in fits]


def cases() -> Iterator[tuple[str, Any, Domain, Any, int]]:
    """Yield a name, the estimator, the domain, a function of the seed, and the most rows."""
    for kind in CLASSIFIERS:
        box = Domain.unit_box(COLUMNS, target=[0, 1])
        yield "simulated", kind, box, lambda seed: panel(seed, classes=True), MOST_ROWS
    for kind in REGRESSORS:
        box = Domain.unit_box(COLUMNS, target=(-1.0, 1.0))
        yield "simulated", kind, box, lambda seed: panel(seed, classes=False), MOST_ROWS
    hours = bikes()
    for kind in REGRESSORS:
        yield "bikes by day", kind, Domain(BIKES, target=(0, 1000)), lambda _: hours, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    lines = []
    for name, kind, domain, data, most in cases():
        for delta in (0.0, DELTA):
            found = [scores(kind, domain, data(k), delta, k, most) for k in range(repeats)]
            medians = np.median(found, axis=0)
            row = {"panel": name, "model": kind.__name__, "delta": f"{delta:g}"}
            lines.append(row | {way: f"{own:.3f}" for way, own in zip(WAYS, medians, strict=True)})
    print(report.table(lines))


if __name__ == "__main__":
    main()
