"""Whether the checker accepts every plan of a fit, and refuses it with less noise.

    python -m examples.benchmarks.upkeep.certified --estimators DPLinearRegression

It plans fits without data: all estimators with the parameters that change what is released, and
``infer`` at a model of labels or of numbers. There are domains of numbers, levels, both, and rows
in a ball, both relations, rows and persons, three budgets and three numbers of records. For each
estimator the table has the plans, those that are accepted, and those that are refused with 2 % less
noise in all releases. Then it has the greatest share of the noise at which a plan is refused: the
least of plans without a delta, and the median and the least of those with one. The last columns are
times of the first check, and the median of a second one, in milliseconds of one processor. Nothing
is random, and no data files are needed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import skdp
from examples.benchmarks.shared import report
from skdp import Domain
from skdp.linear_model._inference.plan import plan_inference
from skdp.linear_model._shared.design import Design
from skdp.trusted.certify import PrivateChoice, Release, certify
from skdp.trusted.statement import NotPrivate, Public

CURVES = {"additive": 4}
INFERENCE = {"infer, labels": "DPLogisticRegression", "infer, numbers": "DPHuberRegressor"}
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "DPLogisticRegression": [{}, CURVES, {"mechanism": "gaussian"}, {"loss": "sharp"}],
    "DPHuberRegressor": [{}, CURVES, {"mechanism": "l2"}],
    "DPPoissonRegressor": [{}, CURVES, {"scaling_share": 0.2}],
    "DPLinearRegression": [
        {},
        *({"mechanism": name} for name in ("l1", "linf", "matrix", "gaussian", "elliptic")),
    ],
    "DPCoordinateDescentClassifier": [
        *({}, {"mechanism": "gaussian"}, {"order": "greedy"}),
        *({"scaling_share": 0}, {"clip": None}, {"clip": None, "n_passes": 1}),
    ],
    "DPCoordinateDescentRegressor": [{}, {"order": "greedy"}, {"clip": 1.0}],
    **{name: [{}, CURVES] for name in INFERENCE},
}
NUMBERS, LEVELS = {f"n{k}": (0, 1) for k in range(12)}, {f"s{k}": list("abcde") for k in range(4)}
COLUMNS: dict[str, tuple[dict[str, Any] | None, int]] = {
    "numbers": (NUMBERS, 2),
    "numbers, 3 labels": (NUMBERS, 3),
    "levels": (LEVELS, 2),
    "mixed": (NUMBERS | LEVELS, 2),
    "ball": (None, 2),
}
BUDGETS = [(1.0, 0.0), (0.3, 1e-6), (4.0, 1e-6)]
UNITS = [("row", 1), ("person", 1), ("person", 3)]
RECORDS = [300, 5000, 200_000]
FACTORS = np.append(np.linspace(1.0, 0.98, 5), np.geomspace(0.97, 0.3, 20))


def plans(name: str) -> Iterator[tuple[tuple[Release, ...], Public]]:
    """Yield the releases of the plans of an estimator, and what is public of them."""
    kind = getattr(skdp, INFERENCE.get(name, name))
    is_classifier = hasattr(kind, "predict_proba")
    cases = itertools.product(
        COLUMNS.values(), PARAMETERS[name], ("replace_one", "add_remove"), UNITS, BUDGETS, RECORDS
    )
    for (columns, labels), given, neighbors, (unit, rows), (epsilon, delta), n in cases:
        target = None if is_classifier else (0, 10)
        if labels > 2 and (not is_classifier or name in INFERENCE):
            continue
        domain = Domain.l2_ball(4, 2.0, target) if columns is None else Domain(columns, target)
        facts = {"epsilon": epsilon, "delta": delta, "neighbors": neighbors, "domain": domain}
        model = kind(**facts, rows_per_person=rows, **given)
        try:
            model._check_parameters()
            if name in INFERENCE:
                design = Design(domain.additive(knots=4) if given else domain, True)
                every = tuple(range(design.domain.n_encoded + 1))
                targets = every[1:2] if n == RECORDS[1] else every
                task = model._task(design, n, 1, unit)
                plan = plan_inference(task, not is_classifier, targets, n > RECORDS[0])
            else:
                plan = model._plan(Design(domain, True), n, labels if labels > 2 else 1, unit)
        except ValueError:  # the parameters do not go together
            continue
        yield plan.releases, Public(epsilon, delta, neighbors, unit, not model._is_whole(unit))


def weaker(noise: Any, factor: float = 0.98) -> Any:
    """Return the noise with its scale times a factor."""
    for name, power in (("scale", 1), ("factor", 1), ("deviation", 1), ("precision", -1)):
        if hasattr(noise, name):
            value = np.multiply(getattr(noise, name), factor**power)[()]
            return replace(noise, **{name: value})
    return replace(noise, law=noise.law.scaled(factor))


def less(release: Any, factor: float) -> Any:
    """Return the release with its noise times a factor."""
    if isinstance(release, PrivateChoice):
        return replace(release, width=release.width / factor)
    return replace(release, noise=weaker(release.noise, factor))


def is_accepted(releases: tuple[Release, ...], public: Public, factor: float = 1.0) -> bool:
    """Return whether the checker accepts the releases with their noise times a factor."""
    try:
        certify([less(release, factor) for release in releases] if factor < 1 else releases, public)
    except NotPrivate:
        return False
    return True


def row(name: str) -> dict[str, Any]:
    """Return the row of an estimator."""
    accepted, refused, count = 0, 0, 0
    times, again = [], []
    shares: dict[bool, list[float]] = {True: [], False: []}
    for releases, public in plans(name):
        start = time.process_time()
        accepted += is_accepted(releases, public)
        times.append(1000 * (time.process_time() - start))
        start = time.process_time()
        is_accepted(releases, public)  # what its parts remember
        again.append(1000 * (time.process_time() - start))
        count, refused = count + 1, refused + (not is_accepted(releases, public, 0.98))
        least = next((f for f in FACTORS if not is_accepted(releases, public, f)), 0.0)
        shares[public.delta > 0].append(float(least))
    return {
        "estimator": name,
        "plans": count,
        "accepted": accepted,
        "refused with 2 % less": refused,
        "refused at, delta = 0": f"{min(shares[False]):.3f}",
        "delta > 0, median": f"{np.median(shares[True]):.3f}",
        "least": f"{min(shares[True]):.2f}",
        "ms, median": f"{np.median(times):.1f}",
        "most": f"{max(times):.0f}",
        "again": f"{np.median(again):.2f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--estimators", nargs="*", default=list(PARAMETERS), choices=PARAMETERS)
    print(report.table([row(name) for name in parser.parse_args().estimators]))


if __name__ == "__main__":
    main()
