"""What needs care: files with lines that no fast test runs, slow tests, mutations that survived.

The first two come from the map of ``mutations.py``, which runs the fast tests once with coverage
and keeps what it found in the folder ``results``; remove this file to measure again. Lines of
compiled functions are left out. The survivors are those of all runs of ``mutations.py`` that are
kept in this folder. Needs pytest-cov.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from examples.benchmarks.shared import report
from examples.benchmarks.upkeep import mutations
from examples.benchmarks.upkeep.mutations import Map

Rows = list[dict[str, Any]]


def least_covered(tests: Map, count: int) -> Rows:
    """Return the files with the most statements that no fast test runs."""
    order = sorted(tests.statements.items(), key=lambda item: (-len(item[1][1]), item[0]))
    return [
        {"file": name, "statements": total, "not run": len(missed), "lines": in_ranges(missed)}
        for name, (total, missed) in order[:count]
        if missed
    ]


def in_ranges(lines: list[int]) -> str:
    """Return lines as a text, such as "3, 7-9"."""
    runs = groupby(enumerate(lines), key=lambda item: item[1] - item[0])
    parts = [[line for _, line in run] for _, run in runs]
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else f"{p[0]}" for p in parts)


def slowest(tests: Map, count: int) -> tuple[Rows, Rows]:
    """Return the files and the functions of tests that take most seconds, in all their cases."""
    sums: dict[str, dict[str, list[float]]] = {"file": defaultdict(list), "test": defaultdict(list)}
    for name, seconds in zip(tests.tests, tests.seconds, strict=True):
        sums["file"][name.partition("::")[0]].append(seconds)
        sums["test"][name.partition("[")[0]].append(seconds)
    files, functions = (
        [
            {what: name, "cases": len(spent), "seconds": round(sum(spent), 2)}
            for name, spent in sorted(found.items(), key=lambda item: -sum(item[1]))[:count]
        ]
        for what, found in sums.items()
    )
    return files, functions


def survivors(folder: Path) -> tuple[Rows, int]:
    """Return the mutations in the files of results that no test noticed, and how many there are."""
    rows = {}
    for path in sorted(folder.glob("mutations_*.jsonl")):
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            rows[row["key"]] = row  # the last one counts: a mutation may have been tried again
    alive = [row for row in rows.values() if row["result"] != "caught"]
    return [{k: row[k] for k in ("at", "old", "new", "line")} for row in alive], len(rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=25, help="rows of a table")
    parser.add_argument("--map", type=Path, default=report.RESULTS / "mutation_map.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = mutations.copied(mutations.ROOT, Path(folder) / "copy")
        tests = mutations.known_map(arguments.map, copy)
    files, functions = slowest(tests, arguments.count)
    statements, missed = zip(*tests.statements.values(), strict=True)
    share = 1 - sum(map(len, missed)) / sum(statements)
    alive, tried = survivors(report.RESULTS)
    measured = datetime.fromtimestamp(arguments.map.stat().st_mtime)
    others = len(mutations.changed(tests, mutations.ROOT))
    print(
        f"Measured on {measured:%Y-%m-%d}. Modules on which privacy rests that changed: {others}."
    )
    tables = {
        f"Coverage: {share:.2%} of {sum(statements)} statements": least_covered(
            tests, arguments.count
        ),
        f"Slowest files, of {sum(tests.seconds):.0f} seconds": files,
        "Slowest tests": functions,
        f"Mutations that survived: {len(alive)} of {tried}": alive,
    }
    for title, rows in tables.items():
        print(f"\n{title}\n")
        if rows:
            print(report.table(rows))


if __name__ == "__main__":
    main()
