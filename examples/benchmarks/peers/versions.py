"""Two versions of the package on the benchmark's sets, from two stores of runs.

    cd path/to/old
    python -m examples.benchmarks.peers.everything --methods DPLogistic --store old.jsonl --docs x
    cd path/to/new
    python -m examples.benchmarks.peers.everything --methods DPLogistic --store new.jsonl --docs x
    python -m examples.benchmarks.peers.versions path/to/old/old.jsonl new.jsonl --measure auroc

Python imports skdp from the folder where it is started with ``-m``, before ``PYTHONPATH``.
Both stores also need ``--methods trivial privacy`` for the shares; one of them is enough. A row has
the medians over the splits that both have. Below are means over cells, and the greatest loss.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from examples.benchmarks.peers.contenders import NO_EPSILON, NONE, PLAIN, TRIVIAL
from examples.benchmarks.peers.everything import load
from examples.benchmarks.peers.verdicts import Scores
from examples.benchmarks.shared import report
from examples.benchmarks.shared.measures import AUROC, MEASURES

# Cells with more to gain than this count in the mean gain.
LEAST_GAIN = 0.02


def rows(old: Scores, new: Scores) -> Iterator[report.Row]:
    """Yield a row for each cell that both have."""
    sign = -1 if new.is_loss else 1
    for cell in old.by_cell:
        if cell not in new.by_cell or cell.method in (TRIVIAL, PLAIN):
            continue
        splits = sorted(set(old.by_cell[cell]) & set(new.by_cell[cell]))
        pair = [float(np.median([s.by_cell[cell][r] for r in splits])) for s in (old, new)]
        ends = [reference(old, new, cell.set, method) for method in (TRIVIAL, PLAIN)]
        gained = sign * (pair[1] - pair[0])
        facts = {"set": cell.set, "method": cell.method, "delta": cell.delta}
        facts |= {"epsilon": cell.epsilon, "splits": len(splits), "old": pair[0], "new": pair[1]}
        to_gain = None if ends[1] is None else sign * (ends[1] - pair[0])
        yield {**facts, "gained": gained, "to gain": to_gain, "trivial": ends[0], "plain": ends[1]}


def reference(old: Scores, new: Scores, name: str, method: str) -> float | None:
    """Return the median of a reference in either store."""
    found = [s.median(name, method, NONE, NO_EPSILON) for s in (old, new)]
    return next((median for median in found if median is not None), None)


def summaries(found: list[report.Row]) -> Iterator[report.Row]:
    """Yield means over the sets, for each method, delta and epsilon, and for all epsilon."""
    keys = dict.fromkeys((r["method"], r["delta"]) for r in found)
    for method, delta in keys:
        mine = [r for r in found if (r["method"], r["delta"]) == (method, delta)]
        for epsilon in [*dict.fromkeys(r["epsilon"] for r in mine), None]:
            own = [r for r in mine if epsilon in (None, r["epsilon"])]
            open_ = [r["gained"] for r in own if (r["to gain"] or 0) > LEAST_GAIN]
            worst = min(own, key=lambda r: r["gained"])
            yield {
                "method": method,
                "delta": delta,
                "epsilon": epsilon,
                **{f"share, {key}": share(own, key) for key in ("old", "new")},
                "gained": float(np.mean([r["gained"] for r in own])),
                "gained where open": float(np.mean(open_)) if open_ else None,
                "open": len(open_),
                "worst": worst["gained"],
                "of": worst["set"],
            }


def share(found: list[report.Row], key: str) -> float | None:
    """Return the mean share of the way from trivial to without privacy."""
    known = [r for r in found if r["plain"] is not None and r["trivial"] is not None]
    ways = [(r[key] - r["trivial"]) / (r["plain"] - r["trivial"]) for r in known]
    return float(np.mean(ways)) if ways else None


def main() -> None:
    """Read both stores and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    names = [name for known in MEASURES.values() for name in known]
    parser.add_argument("--measure", choices=names, default=AUROC)
    parser.add_argument("--summary", action="store_true", help="means only")
    arguments = parser.parse_args()
    old, new = (Scores.of(load(p), arguments.measure) for p in (arguments.old, arguments.new))
    found = list(rows(old, new))
    if not arguments.summary:
        print(report.table(found) + "\n")
    print(report.table(list(summaries(found))))


if __name__ == "__main__":
    main()
