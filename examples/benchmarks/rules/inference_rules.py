"""How often the warning that ``infer`` gives before the charge is right, on simulated tables.

They have the populations of `descent_rules`, 500 to 20,000 records, epsilon .3 to 4, a delta of 0
or 10^-6, and all coefficients or one. ``noise`` is k s / n, for k encoded columns with the
intercept and the deviation s of the noise in the denominators: the constant HIDING is the inverse
of the noise from which on most intervals are unbounded in most tables ("hidden"). "enough" is the
share of the warnings whose epsilon suffices: with it, most intervals are bounded.
"""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from typing import Any

import numpy as np

from examples.benchmarks.rules.descent_rules import Population
from examples.benchmarks.shared import report
from skdp import DPHuberRegressor, DPLogisticRegression

ENDS = (0.0, 0.08, 0.17, 0.25, 0.33, 0.5, 0.7, 1.0, 2.0, np.inf)


def problem(seed: int) -> dict[str, float]:
    """Return the noise, whether it hides most intervals, and whether the warning is right."""
    rng, task = np.random.default_rng([seed, 31]), ("classification", "regression")[seed % 2]
    drawn = Population.draw(task, seed)
    n, epsilon = np.exp(rng.uniform(np.log([500, 0.3]), np.log([20_000, 4])))
    X, y = drawn.sample(int(n), rng)
    effects = [None, None, [drawn.domain.encoded_names()[0]]][rng.integers(3)]
    budget = {"delta": float(rng.choice([0.0, 1e-6])), "effects": effects, "random_state": seed}
    estimator: Any = DPHuberRegressor if task == "regression" else DPLogisticRegression

    def inferred(epsilon: float) -> Any:
        model = estimator(domain=drawn.domain, epsilon=epsilon / 4, random_state=seed).fit(X, y)
        return model.infer(X, y, epsilon=epsilon, **budget)

    with warnings.catch_warnings(record=True, action="always") as seen:
        table = inferred(float(epsilon))
        found = re.search(r"epsilon=([\d.,]*\d)", " ".join(str(own.message) for own in seen))
        enough = found and inferred(float(found[1])).is_hidden.mean() <= 0.5
    deviation = {own.name: own for own in table.releases}["denominators"].deviation
    noise = (table.records.n_encoded + 1) * deviation / int(n)
    facts = {"noise": noise, "hidden": table.is_hidden.mean() > 0.5, "warned": found is not None}
    return facts | {"enough": np.nan if enough is None else enough}


def main() -> None:
    """Run the tables and print the shares."""
    arguments = report.parser_for(__doc__, repeats=200).parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.repeats)
    found = report.stacked(report.run(problem, [(k,) for k in seeds], arguments.jobs, "tables"))
    noise, warned = found.pop("noise"), found["warned"].astype(bool)
    parts = {
        f"{low:g} to {high:g}": (noise >= low) & (noise < high) for low, high in pairwise(ENDS)
    }
    parts |= {"with a warning": warned, "others": ~warned}
    rows = [
        {"noise": name, "tables": int(part.sum())}
        | {what: f"{np.mean(own[part]):.2f}" for what, own in found.items() if part.any()}
        for name, part in parts.items()
    ]
    print(report.table(rows))


if __name__ == "__main__":
    main()
