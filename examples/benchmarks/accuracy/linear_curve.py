"""R^2 of DPLinearRegression along a grid of epsilon, on simulated populations and on real sets.

Each population draws the number of records (100 to 100,000) and of columns (1 to 40), their
shapes (normal, skewed, heavy-tailed, of two values, collinear, columns of levels), the share of
variance that the columns explain (0 to .95) and the target's kind (numbers or small integers).
A figure is the median of R^2 over draws of the noise, on 4000 further records of a population or
on the fifth of a set that was left out. A curve falls if R^2 at an epsilon is below an earlier
one. "Mean alone" predicts the mean of the target with Laplace noise, for all of epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import names_of, read
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPLinearRegression

GRID = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 4.0)
LEAST, MOST_FALL = -0.02, 0.02
RECORDS, COLUMNS, TESTS, MOST_CELLS = (100, 100_000), (1, 40), 4000, 1_000_000
EXPLAINED = (0.0, 0.02, 0.1, 0.3, 0.6, 0.8, 0.95)
SHAPES = ("normal", "skewed", "heavy", "two values")
LEVELS = "abcdefgh"


@dataclass(frozen=True, eq=False)
class Table:
    """Encoded records to learn from and to test on, with the domain."""

    name: str
    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    domain: Domain

    def r2(self, predicted: FloatArray) -> float:
        """Return R^2 of predictions of the records to test on, clipped to the target's bounds."""
        low, high = self.domain.target_bounds or (-1.0, 1.0)
        off = self.y_test - np.clip(predicted, low, high)
        return 1 - float(np.mean(off**2) / self.y_test.var())


def population(seed: int, number: int) -> Table:
    """Draw a population, and records of it."""
    rng = np.random.default_rng([seed, number])
    columns = round(math.exp(rng.uniform(*np.log(COLUMNS))))
    n = round(math.exp(rng.uniform(*np.log(RECORDS))))
    n = max(100, min(n, MOST_CELLS // columns))
    levels = int(rng.integers(0, 1 + columns // 2)) if rng.random() < 0.4 else 0
    domain = _domain(columns - levels, levels, rng)
    X, signal_of = _features(domain, n + TESTS, rng)
    explained = float(rng.choice(EXPLAINED))
    y = _target(signal_of, explained, rng)
    name = f"{number}: n {n}, numbers {columns - levels}, levels {levels}, R2 {explained:g}"
    return Table(name, X[:n], y[:n], X[n:], y[n:], domain)


def _domain(numbers: int, columns: int, rng: Generator) -> Domain:
    bounds = {f"x{j}": (-1.0, 1.0) for j in range(numbers)}
    levels = {f"c{j}": list(LEVELS[: rng.integers(2, 9)]) for j in range(columns)}
    return Domain({**bounds, **levels}, target=(-1.0, 1.0)).encoded


def _features(domain: Domain, n: int, rng: Generator) -> tuple[FloatArray, FloatArray]:
    """Return encoded rows, and the part of the target that they explain, of variance 1."""
    p = len(domain.number_index)
    loadings = rng.normal(size=(p, 3)) * rng.choice([0.0, 0.5, 1.5])
    z = rng.normal(size=(n, 3)) @ loadings.T + rng.normal(size=(n, p))
    z /= np.sqrt((loadings**2).sum(axis=1) + 1)
    if p > 1 and rng.random() < 0.3:  # collinear columns
        for j in range(1, p, 2):
            z[:, j] = z[:, j - 1] + rng.choice([0.01, 0.1]) * z[:, j]
    usual = rng.choice(len(SHAPES), p=[0.4, 0.3, 0.2, 0.1], size=p)
    for j, shape in enumerate(usual):
        z[:, j] = _shaped(z[:, j], SHAPES[shape])
    X = np.zeros((n, domain.n_encoded))
    centre, spread = rng.uniform(-0.8, 0.4, p), np.exp(rng.uniform(*np.log([0.04, 0.5]), p))
    X[:, domain.number_index] = np.clip(centre + spread * z, -1, 1)
    for block in domain.blocks:
        size = block.stop - block.start
        level = rng.choice(size + 1, n, p=rng.dirichlet(np.full(size + 1, 1.0)))
        X[:, block] = np.eye(size + 1)[level, 1:]
    wanted = rng.normal(size=X.shape[1]) * (rng.random(X.shape[1]) < rng.choice([0.2, 0.7, 1.0]))
    if not wanted.any():
        wanted[int(rng.integers(len(wanted)))] = 1.0
    signal = ((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-9)) @ wanted
    return X, (signal - signal.mean()) / (signal.std() + 1e-9)


def _shaped(z: FloatArray, shape: str) -> FloatArray:
    """Return a normal column as one of another shape."""
    if shape == "skewed":
        return np.exp(z) / 2 - 0.8
    if shape == "heavy":
        return np.sign(z) * (np.exp(np.abs(z) ** 1.5) - 1) / 3
    return np.where(z > 0.5, 1.0, -1.0) if shape == "two values" else z


def _target(signal: FloatArray, explained: float, rng: Generator) -> FloatArray:
    """Return targets in [-1, 1]; some are small integers, and some have heavy tails."""
    noise = rng.normal(size=len(signal))
    if rng.random() < 0.25:
        noise = _shaped(noise, "heavy")
        noise /= noise.std()
    y = math.sqrt(explained) * signal + math.sqrt(1 - explained) * noise
    y = rng.uniform(-0.6, 0.4) + math.exp(rng.uniform(*np.log([0.08, 0.45]))) * y
    if rng.random() < 0.25:
        steps = int(rng.integers(2, 6))
        y = np.round(y * steps) / steps
    y = np.clip(y, -1, 1)
    # A target that rounding or clipping made constant has no R^2.
    return y if y.std() > 0.01 else np.clip(signal / 4, -1, 1)


def real(name: str, seed: int, repetition: int) -> Table:
    """Return a split of a set."""
    data = read(name)
    train, test = report.split(len(data.y), seed, repetition)
    X, y = data.encoded, np.asarray(data.y, dtype=float)
    return Table(name, X[train], y[train], X[test], y[test], data.domain.encoded)


def curve(table: Table, facts: dict[str, Any], seeds: list[int]) -> FloatArray:
    """Return R^2, (draws, epsilons)."""
    asked = dict(facts)
    approximate = asked.pop("approximate")
    if approximate:
        asked["delta"] = len(table.y) ** -2.0
    found = [
        [
            table.r2(
                DPLinearRegression(epsilon=e, domain=table.domain, random_state=seed, **asked)
                .fit(table.X, table.y)
                .predict(table.X_test)
            )
            for e in GRID
        ]
        for seed in seeds
    ]
    return np.array(found)


def mean_alone(table: Table, seeds: list[int]) -> FloatArray:
    """Return R^2 of the noisy mean of the target, (draws, epsilons). One record is replaced."""
    low, high = table.domain.target_bounds or (-1.0, 1.0)
    n = len(table.y)  # in the seed, or all populations would have the same draws
    noise = [np.random.default_rng([seed, n]).laplace(size=len(GRID)) for seed in seeds]
    means = table.y.mean() + (high - low) / n * np.array(noise) / GRID
    return np.array([[table.r2(np.full(len(table.y_test), own)) for own in row] for row in means])


def plain(table: Table) -> float:
    """Return R^2 of least squares without privacy."""
    design, further = (np.column_stack([np.ones(len(X)), X]) for X in (table.X, table.X_test))
    return table.r2(further @ np.linalg.lstsq(design, table.y)[0])


def simulated_row(seed: int, number: int, repeats: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the medians of one population."""
    table, seeds = population(seed, number), list(range(repeats))
    return _row(table.name, curve(table, facts, seeds), mean_alone(table, seeds), [plain(table)])


def real_row(name: str, seed: int, repeats: int, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the medians of one set, each draw on another split."""
    scores, alone, without = [], [], []
    for r in range(repeats):
        table, seeds = real(name, seed, r), [report.noise_seed(seed, r)]
        scores.append(curve(table, facts, seeds)[0])
        alone.append(mean_alone(table, seeds)[0])
        without.append(plain(table))
    return _row(name, scores, alone, without)


def _row(name: str, scores: Any, alone: Any, without: list[float]) -> dict[str, Any]:
    found = {"R2": scores, "mean alone": alone}
    medians = {key: np.median(own, axis=0).tolist() for key, own in found.items()}
    return {"name": name, "plain": float(np.median(without)), **medians}


def fall(scores: Any) -> float:
    """Return by how much a curve falls below an earlier value."""
    values = np.array(scores)
    return float((np.maximum.accumulate(values) - values).max())


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each epsilon the mean of R^2, of what is lost, and the cells below the floor."""
    scores, alone = (np.array([row[key] for row in rows]) for key in ("R2", "mean alone"))
    lost = np.array([row["plain"] for row in rows]).clip(min=0)[:, None] - scores
    before = np.maximum.accumulate(scores, axis=1) - scores
    return [
        {
            "epsilon": e,
            "mean R2": float(scores[:, k].clip(min=-1).mean()),
            "mean loss": float(lost[:, k].clip(max=1.5).mean()),
            f"below {LEAST}": int((scores[:, k] < LEAST).sum()),
            f"mean alone below {LEAST}": int((alone[:, k] < LEAST).sum()),
            "least": float(scores[:, k].min()),
            f"falls by {MOST_FALL}": int((before[:, k] > MOST_FALL).sum()),
            "greatest fall": float(before[:, k].max()),
        }
        for k, e in enumerate(GRID)
    ]


def show(rows: list[dict[str, Any]], each: bool) -> None:
    """Print how many curves fall, and the rows."""
    if each:
        own = [
            {"": r["name"], **dict(zip(map(str, GRID), r["R2"], strict=True)), "plain": r["plain"]}
            for r in rows
        ]
        print(report.table(own) + "\n")
    scores = np.array([row["R2"] for row in rows])
    below = int((scores.min(axis=1) < LEAST).sum())
    falls = sum(fall(own) > MOST_FALL for own in scores)
    print(f"{len(rows)} curves: {below} below {LEAST}, {falls} fall by more than {MOST_FALL}\n")


def main() -> None:
    parser = report.parser_for(__doc__, repeats=9)
    parser.add_argument("--populations", type=int, default=200)
    parser.add_argument("--sets", nargs="*", default=None, help="all if left out; none if empty")
    parser.add_argument("--neighbors", choices=["replace_one", "add_remove"], default="replace_one")
    parser.add_argument("--approximate", action="store_true", help="delta = 1/n^2 in place of 0")
    parser.add_argument("--each", action="store_true", help="print every curve")
    arguments = parser.parse_args()
    facts = {"neighbors": arguments.neighbors, "approximate": arguments.approximate}
    parts: dict[str, list[dict[str, Any]]] = {}
    common = (arguments.repeats, facts)
    if arguments.populations:
        calls = [(arguments.seed, k, *common) for k in range(arguments.populations)]
        parts["populations"] = report.run(simulated_row, calls, arguments.jobs, "populations")
    names = names_of("regression") if arguments.sets is None else arguments.sets
    if names:
        calls = [(name, arguments.seed, *common) for name in names]
        parts["sets"] = report.run(real_row, calls, arguments.jobs, "sets")
    for what, rows in parts.items():
        print(f"## {what}, {report.kind_of(arguments)}\n")
        show(rows, arguments.each or what == "sets")
        report.publish(f"linear_curve_{what}", summary(rows), arguments)


if __name__ == "__main__":
    main()
