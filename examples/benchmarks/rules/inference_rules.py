"""How often the warning that ``infer`` gives before the charge is right, on simulated tables.

They have the populations of `descent_rules`, 500 to 20,000 records, epsilon from .3 to 4, a delta of
0 or 10^-6, and all coefficients or one. A row has the tables with a range of k s / n, for k encoded
columns with the intercept and the deviation s of the noise in the denominators: HIDING is the
inverse of the value from which on most intervals are unbounded in most tables. ``enough`` is the
share of the warnings whose epsilon suffices: then most intervals are bounded.
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
    """Return the noise, whether most intervals are unbounded, the warning, and whether it helps."""
    rng, task = np.random.default_rng([seed, 31]), ("classification", "regression")[seed % 2]
    drawn = Population.draw(task, seed)
    n, epsilon = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((500, 20_000), (300, 4000)))
    X, y = drawn.sample(n, rng)
    effects = [None, None, [drawn.domain.encoded_names()[0]]][rng.integers(3)]
    budget = {"delta": float(rng.choice([0.0, 1e-6])), "effects": effects, "random_state": seed}

    def inferred(epsilon: float) -> tuple[Any, str]:
        model: Any = (DPHuberRegressor if task == "regression" else DPLogisticRegression)
        model = model(domain=drawn.domain, epsilon=epsilon / 4, random_state=seed).fit(X, y)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            table = model.infer(X, y, epsilon=epsilon, **budget)
        return table, "".join(str(own.message) for own in seen)

    table, text = inferred(epsilon / 1000)
    deviation = {own.name: own for own in table.releases}["denominators"].deviation
    found = re.search(r"epsilon=([\d.,]*\d)", text)
    return {
        "noise": (table.records.n_encoded + 1) * deviation / n,
        "hidden": table.is_hidden.mean() > 0.5,
        "warned": found is not None,
        "enough": inferred(float(found[1].replace(",", "")))[0].is_hidden.mean() <= 0.5 if found else np.nan,
    }


def main() -> None:
    """Run the tables and print the shares."""
    arguments = report.parser_for(__doc__, repeats=200).parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.repeats)
    found = report.stacked(report.run(problem, [(k,) for k in seeds], arguments.jobs, "tables"))
    rows = []
    for low, high in [*pairwise(ENDS), (0.0, np.inf)]:
        own = {name: v[(found["noise"] >= low) & (found["noise"] < high)] for name, v in found.items()}
        means = {name: f"{np.nanmean(own[name]):.2f}" for name in ("hidden", "warned", "enough") if len(own["noise"])}
        rows.append({"k s / n": f"{low:g} to {high:g}", "tables": len(own["noise"])} | means)
    right = found["hidden"][found["warned"]].mean(), found["hidden"][~found["warned"]].mean()
    print(report.table(rows))
    print("Most intervals are unbounded in {:.0%} of the tables with a warning, {:.0%} of others.".format(*right))


if __name__ == "__main__":
    main()
