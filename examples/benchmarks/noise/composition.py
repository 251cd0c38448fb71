"""Ten thousand releases: two-sided epsilon, and its time, beside Google's dp_accounting.

Gaussian noise with sigma = 100 and Laplace noise of scale 100 for differences of 1, delta = 1e-6;
release by release, though Gaussian ones have a closed form. By turns in one process: both bounds
of ours, everything from the start, and the other library's upper bound (connect the dots where
it has that, interval 1e-4). Without that library (the extra "oracle") our figures are printed
alone. A second table goes through counts, epsilons and deltas, with randomised response too.

Then the time of a spend from a ledger with many entries, in memory and in a file, and that of
Laplace noise of distinct scales: of `compose` for each scale, and of a spend from a ledger with
composition="fixed" beyond the sum of the epsilons. Last, how many fits of greedy coordinate descent
a ledger takes one by one.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from examples.benchmarks.shared import report
from examples.benchmarks.speed.speed import seconds
from skdp import Domain, DPCoordinateDescentClassifier
from skdp.mechanisms.knorm import gaussian_scale
from skdp.noise import Laplace
from skdp.privacy import BudgetExceeded, Guarantee, Ledger, compose
from skdp.privacy import composition as _lower
from skdp.privacy.composition import Bounds, epsilon_bounds
from skdp.privacy.shift import ShiftLoss
from skdp.trusted import composition as _plan
from skdp.trusted import fold as _fold
from skdp.trusted.losses import GaussianLoss, PairLoss, Profile

COUNT, SCALE, DELTA, INTERVAL = 10_000, 100.0, 1e-6, 1e-4
CLOSED_FORM = 4.88655
MOST_GAP, MOST_TIME = 1e-4, 1.0
ENTRIES, SCALES, LAST = [10, 10_000], [10, 20, 50], 50
MOST_IN_FILE = 1000
CEILING, GREEDY = (3.0, 1e-4), [(0.1, 1e-6), (0.3, 1e-6), (1.0, 1e-6)]
COUNTS = [1, 10, 1000, 100_000]
PROMISES = [(0.01, 1e-2), (0.3, 1e-6), (1.0, 1e-12), (10.0, 1e-30), (50.0, 1e-6)]


def forget() -> None:
    """Empty what the package keeps from call to call."""
    for kept in (
        _fold._weights,
        _fold.upper,
        _lower.lower,
        _fold.extent,
        _plan._rough,
        _plan._extent,
    ):
        kept.cache_clear()


def ours(loss: Profile, count: int, delta: float) -> Callable[[], Any]:
    def both() -> Any:
        forget()
        return epsilon_bounds(((loss, count),), delta)

    return both


def theirs(name: str) -> Callable[[], Any] | None:
    """Return the other library's epsilon, or None without it."""
    try:
        pld = importlib.import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        return None
    make = getattr(pld, f"from_{name}_mechanism")

    def upper() -> Any:
        one = make(SCALE, value_discretization_interval=INTERVAL)
        return one.self_compose(COUNT).get_epsilon_for_delta(DELTA)

    return upper


def interval(at: Bounds) -> dict[str, str]:
    return {"lower": f"{at.lower:.9g}", "upper": f"{at.upper:.9g}"}


def race(name: str, loss: Profile, arguments: argparse.Namespace) -> report.Row:
    """Return both results and times, the medians of runs by turns."""
    mine, other = ours(loss, COUNT, DELTA), theirs(name)
    at = mine()
    row: dict[str, Any] = {"releases": f"{COUNT} {name}", "delta": DELTA} | interval(at)
    row |= {"gap": at.upper - at.lower} | report.judged(at.upper - at.lower, (MOST_GAP,), False)
    if name == "gaussian":
        row["farthest from closed form"] = max(CLOSED_FORM - at.lower, at.upper - CLOSED_FORM)
    if other is None:
        print("dp_accounting is not installed: no comparison.", file=sys.stderr)
        return row | {"ms": 1e3 * np.median([seconds(mine) for _ in range(arguments.repeats)])}
    row["dp_accounting"] = f"{other():.9g}"
    times = np.array([(seconds(mine), seconds(other)) for _ in range(arguments.repeats)])
    ratio = float(np.median(times[:, 0] / times[:, 1]))
    quick = report.verdict(ratio, MOST_TIME, None, higher=False)
    medians = dict(zip(("ms", "its ms"), 1e3 * np.median(times, axis=0), strict=True))
    return row | medians | {"time ratio": ratio, "in time": quick}


def table_rows(epsilon: float, delta: float, count: int) -> list[report.Row]:
    """Return the bounds of losses that have about this epsilon at this delta in all."""
    each = 1 / gaussian_scale(epsilon, delta) / math.sqrt(count)
    losses = {
        "gaussian": GaussianLoss(each),
        "randomised response": PairLoss(each),
        "laplace": ShiftLoss(Laplace(1 / each), 1.0),
    }
    rows = []
    for name, loss in losses.items():
        found: list[Any] = []
        time = seconds(lambda loss=loss, found=found: found.append(ours(loss, count, delta)()))
        at = found[0]
        row = {"releases": f"{count} {name}", "delta": delta} | interval(at)
        rows.append(row | {"gap": at.upper - at.lower, "ms": 1e3 * time})
    return rows


def spend_times(ledger: Ledger, spends: list[Guarantee]) -> list[float]:
    return [1e3 * seconds(lambda spend=spend: ledger.spend(spend)) for spend in spends]


def ledger_rows(entries: list[int]) -> list[report.Row]:
    """Return the milliseconds of the last spends, by composition, place and entries."""
    noise = Guarantee(1e-4, 1e-6, losses=((GaussianLoss(1e-5), 1),))
    pure, rows = Guarantee(1e-7), []
    for name, ceiling in (("sums", 1.0), ("adaptive", 1e-5)):
        for kind, spend in (("pure", pure), ("gaussian", noise)):
            for count in entries:
                with tempfile.TemporaryDirectory() as folder:
                    places = [("memory", None), ("file", Path(folder) / "ledger")]
                    # A file is filled at the speed of its disk.
                    for place, path in places[: 1 if count > MOST_IN_FILE else 2]:
                        ledger = Ledger(100.0, ceiling, path=path, composition=name)
                        times = spend_times(ledger, [spend] * count)[-LAST:]
                        row = {"ledger": f"{name}, {kind}", "place": place, "entries": count}
                        rows.append(row | _quantiles(times))
    return rows


def scale_rows(scales: list[int]) -> list[report.Row]:
    """Return the milliseconds for each of several distinct Laplace scales."""
    rows: list[report.Row] = []
    for count in scales:
        spends = [_laplace(20 * (1 + k / 50)) for k in range(count)]
        forget()
        times = [
            1e3 * seconds(lambda spends=spends: compose(*spends, delta=DELTA)) for _ in range(4)
        ]
        each = {"first ms": times[0] / count, "ms": min(times[1:]) / count}
        rows.append({"compose": f"{count} scales"} | each)
    forget()
    ledger = Ledger(1.0, DELTA, composition="fixed")
    times = spend_times(ledger, [_laplace(50 * (1 + k / 70)) for k in range(200)])[50:]
    return [*rows, {"ledger": "fixed, 50 to 200 scales"} | _quantiles(times)]


def taken_rows() -> list[report.Row]:
    """Return the numbers of equal greedy fits that a ledger takes."""
    domain, rows = Domain({f"x{j}": (-1, 1) for j in range(10)}, target=["no", "yes"]), []
    X, y = domain.sample(20_000, random_state=0, with_target=True)
    for epsilon, delta in GREEDY:
        model = DPCoordinateDescentClassifier(
            domain=domain, epsilon=epsilon, delta=delta, order="greedy"
        )
        spend, ledger = model.fit(X, y).guarantee_, Ledger(*CEILING)
        taken = 0
        with suppress(BudgetExceeded):
            while True:
                ledger.spend(spend)
                taken += 1
        row = {"greedy fits of": f"({epsilon}, {delta})", "ceiling": CEILING, "mu": spend.mu}
        rows.append(row | {"taken": taken})
    return rows


def _laplace(scale: float) -> Guarantee:
    return Guarantee(1 / scale, losses=((ShiftLoss(Laplace(scale), 1.0), 1),))


def _quantiles(times: list[float]) -> dict[str, float]:
    middle, most = float(np.median(times)), float(np.quantile(times, 0.95))
    return {"ms": middle, "95 %": most, "most": max(times)}


def main() -> None:
    parser = report.parser_for(__doc__, repeats=9)
    parser.add_argument("--entries", type=int, nargs="*", default=ENTRIES, help="ledger sizes")
    parser.add_argument("--no-table", action="store_true", help="only the ten thousand releases")
    arguments = parser.parse_args()
    ledgers = [*ledger_rows(arguments.entries), *scale_rows(SCALES)]
    report.publish("ledgers", ledgers, arguments)
    report.publish("greedy fits on a ledger", taken_rows(), arguments)
    rows = [
        race("gaussian", GaussianLoss(1 / SCALE), arguments),
        race("laplace", ShiftLoss(Laplace(SCALE), 1.0), arguments),
    ]
    if not arguments.no_table:
        rows += [
            row
            for epsilon, delta in PROMISES
            for count in COUNTS
            for row in table_rows(epsilon, delta, count)
        ]
    report.publish("composition", rows, arguments)


if __name__ == "__main__":
    main()
