"""What needs care: files with lines that no fast test runs, slow tests, mutations that survived.

The first two come from the map of ``mutations.py``, which runs the fast tests once with coverage
and keeps what it found in the folder ``results``; remove this file to measure again. The survivors
are those of all runs of ``mutations.py`` that are kept there. Needs pytest-cov.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from examples.benchmarks.shared import report
from examples.benchmarks.upkeep import mutations
from examples.benchmarks.upkeep.mutations import Map

Rows = list[dict[str, Any]]


def least_covered(tests: Map, count: int) -> Rows:
    """Return the files with the most statements that no fast test runs."""
    order = sorted(tests.statements.items(), key=lambda item: (-item[1][1], item[0]))
    return [
        {"file": name, "statements": total, "not run": missed, "run": f"{1 - missed / total:.1%}"}
        for name, (total, missed) in order[:count]
        if missed
    ]


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


def survivors(folder: Path) -> Rows:
    """Return the mutations in the files of results that no test noticed."""
    rows = {}
    for path in sorted(folder.glob("mutations_*.jsonl")):
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            rows[row["key"]] = row  # the last one counts: a mutation may have been tried again
    alive = [row for row in rows.values() if row["result"] != "caught"]
    return [{k: row[k] for k in ("at", "old", "new", "line")} for row in alive]


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
    total, missed = map(sum, zip(*tests.statements.values(), strict=True))
    alive = survivors(report.RESULTS)
    tables = {
        f"Coverage: {1 - missed / total:.2%} of {total} statements": least_covered(
            tests, arguments.count
        ),
        f"Slowest files, of {sum(tests.seconds):.0f} seconds": files,
        "Slowest tests": functions,
        f"Mutations that survived: {len(alive)}": alive,
    }
    for title, rows in tables.items():
        print(f"\n{title}\n")
        if rows:
            print(report.table(rows))


if __name__ == "__main__":
    main()
