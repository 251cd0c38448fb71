"""Every estimator against the peers on every data set, at four epsilon.

There are 20 splits of each set, and 10 of the sets whose fits take seconds.

Runs are stored as they are made, and a command that was stopped goes on where it was. The first
five splits of all sets but the largest come first, so that a table is there early. Page, table and
pictures are written from what is stored, whatever is there. Runs of an older version of the
package are not told apart: remove the store to begin anew, or name another with ``--store``. Runs
in an older format, or of a method that is no longer there, stay in the store and are not used.
Reads the folder that SKDP_DATA names.

Some peers have an environment of their own, see ``peers.py``; ``make benchmark`` makes them.
``--peers`` names the folder of the environments. Runs of peers that are not there are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from joblib import Parallel, delayed

from examples.benchmarks.peers import everything_page
from examples.benchmarks.peers.contenders import Contender, Run, contenders, runs
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import names_of

STORE = report.RESULTS / "everything.jsonl"
DOCS = report.RESULTS.parent / "docs" / "figures"
TASKS = ("classification", "regression")
# Splits in one job. The sets whose fits take seconds have one in a job, and fewer in all.
CHUNK, LARGE, LARGE_SPLITS = 5, {"nyc_flights_2013"}, 10


class Job(NamedTuple):
    """Runs of one contender on one set that are made in one go."""

    contender: Contender
    name: str
    wanted: tuple[tuple[int, tuple[float, ...]], ...]


def main(argv: list[str] | None = None) -> None:
    """Measure what is missing, then write the page."""
    arguments = parse(argv)
    stored = list(load(arguments.store))
    if not arguments.page_only:
        jobs = list(missing(stored, chosen(arguments), arguments.sets, arguments.repeats))
        measure(jobs, arguments)
        stored = list(load(arguments.store))
    everything_page.write(stored, arguments.docs)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = report.parser_for(__doc__, repeats=20)
    known = [name for task in TASKS for name in names_of(task)]
    parser.add_argument("--sets", nargs="+", choices=known, default=known, metavar="SET")
    parser.add_argument("--methods", nargs="+", help="parts of the names of the methods to run")
    parser.add_argument("--peers", type=Path, help="the folder of the environments of peers")
    parser.add_argument("--store", type=Path, default=STORE, help="the file of runs")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the page goes")
    parser.add_argument("--page-only", action="store_true", help="write the page, run nothing")
    return parser.parse_args(argv)


def chosen(arguments: argparse.Namespace) -> list[Contender]:
    """Return the contenders that can be run and are asked for."""
    words = arguments.methods or [""]
    return [
        c
        for c in contenders()
        if any(word in c.method for word in words)
        and (not c.peer or (arguments.peers and c.peer.python(arguments.peers).exists()))
    ]


def missing(
    stored: Iterable[Run], field: Sequence[Contender], sets: Iterable[str], repeats: int
) -> Iterator[Job]:
    """Yield jobs for what is not stored: the first splits of all sets first, large sets last."""
    done: dict[tuple[str, str, str, int], set[float]] = {}
    for run in stored:
        done.setdefault((run.set, run.method, run.delta, run.repetition), set()).update(run.scores)
    for start, name, contender in ordered(field, set(sets), repeats):
        wanted = []
        end = min(start + CHUNK, repeats, contender.splits or repeats)
        for repetition in range(start, end):
            have = done.get((name, contender.method, contender.delta, repetition), set())
            if left := tuple(e for e in contender.epsilons if e not in have):
                wanted.append((repetition, left))
        size = 1 if name in LARGE else CHUNK
        for k in range(0, len(wanted), size):
            yield Job(contender, name, tuple(wanted[k : k + size]))


def ordered(
    field: Sequence[Contender], sets: set[str], repeats: int
) -> Iterator[tuple[int, str, Contender]]:
    """Yield first repetition, set and contender in the order in which they are to be run."""
    of_task = {task: [c for c in field if c.task == task] for task in TASKS}
    named = [(task, name) for task in TASKS for name in names_of(task) if name in sets]
    for is_large in (False, True):
        group = [pair for pair in named if (pair[1] in LARGE) == is_large]
        for start in range(0, min(repeats, LARGE_SPLITS) if is_large else repeats, CHUNK):
            for task, name in group:
                own = [c for c in of_task[task] if not c.sets or name in c.sets]
                yield from ((start, name, contender) for contender in own)


def measure(jobs: Sequence[Job], arguments: argparse.Namespace) -> None:
    """Run the jobs on several cores, store each as it comes, and show how far it is."""
    arguments.store.parent.mkdir(exist_ok=True)
    repair(arguments.store)
    calls = (delayed(runs)(*job, arguments.peers) for job in jobs)
    total, made, began = sum(len(job.wanted) for job in jobs), 0, perf_counter()
    work = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
    with arguments.store.open("a", encoding="utf-8") as file:
        for found in work(calls):
            file.writelines(run.line() + "\n" for run in found)
            file.flush()
            made += len(found)
            show(made, total, perf_counter() - began, found[-1])


def show(made: int, total: int, seconds: float, last: Run) -> None:
    """Write a line over the last one on standard error."""
    left = seconds / made * (total - made) / 60
    text = f"{made}/{total} runs, about {left:.0f} min left ({last.set}, {last.method})"
    print(f"\r{text:<100}", end="\n" if made == total else "", file=sys.stderr, flush=True)


def load(path: Path) -> Iterator[Run]:
    """Yield the stored runs; not those of an older version, nor a last one that was cut off."""
    if not path.exists():
        return
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    found = [Run.from_line(line) for line in whole.splitlines()]
    known = {(c.method, c.delta) for c in contenders()}
    used = [run for run in found if run and (run.method, run.delta) in known]
    if older := len(found) - len(used):
        print(f"{path}: {older} runs of an older version are not used.", file=sys.stderr)
    yield from used


def repair(path: Path) -> None:
    """Drop a last line that was cut off, so that lines can be appended."""
    if path.exists():
        whole, end, _ = path.read_text(encoding="utf-8").rpartition("\n")
        path.write_text(whole + end, encoding="utf-8")


if __name__ == "__main__":
    main()
