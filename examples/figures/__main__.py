"""Repeat the figures of the README and of the documentation.

    make figures                                        # all that are not done yet
    make figures FIGURES="--list"                       # each with its time and state
    make figures FIGURES="--only papers which-noise"    # whose names begin so
    make figures FIGURES="--check"                      # compare, write nothing
    make figures-check                                  # a fast part, without data files

A command that has ended is kept in the folder ``results/figures`` and is not run again, so a run
that was stopped goes on where it was. The list tells at which commit it has ended, and ``--again``
runs it once more. Pages are written as soon as a command has ended. A fast part is always compared
and never written.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from examples.figures import samples
from examples.figures.layout import differences, filled
from examples.figures.manifest import Figure, figures, placed, records, write_records
from examples.figures.pages import ROOT, Item, written
from examples.figures.runs import Run, kept, place_of, run


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the arguments."""
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("make figures", description=__doc__, formatter_class=kind)
    parser.add_argument("--list", action="store_true", help="print the figures, run nothing")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="names begin so")
    parser.add_argument("--fast", action="store_true", help="a part, compared with the pages")
    parser.add_argument("--check", action="store_true", help="compare in place of writing")
    parser.add_argument("--again", action="store_true", help="run what has ended before, too")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, and return the number of figures that are not what the page says."""
    arguments = parse(argv)
    chosen = [f for f in figures().values() if f.name.startswith(tuple(arguments.only))]
    if not chosen:
        raise SystemExit(f"No figure has a name that begins with {' or '.join(arguments.only)}.")
    show(chosen)
    if arguments.list:
        return 0
    wrong = fast(chosen) if arguments.fast else full(chosen, arguments)
    for text in wrong:
        print(text)
    print(f"{len(wrong)} differences." if wrong else "The pages have these figures.")
    return len(wrong) > 0


# The list


def show(chosen: Sequence[Figure]) -> None:
    """Print each figure with its time and state, and the time of what is left."""
    known, left = records(), {}
    name, page = (
        max(map(len, texts)) for texts in zip(*((f.name, f.page) for f in chosen), strict=True)
    )
    print(f"{'figure':{name}} {'page':{page}} {'kind':9} {'minutes':>8}  {'as of':10}  state")
    for f in chosen:
        state = state_of(f)
        if state == "to run":
            left[f.command] = f.minutes
        date = known.get(f.name, {}).get("date", "")
        print(f"{f.name:{name}} {f.page:{page}} {f.kind:9} {f.minutes:8g}  {date:10}  {state}")
    print(f"To run: {len(left)} commands, about {in_words(sum(left.values()))} on two cores.")


def state_of(figure: Figure) -> str:
    """Return whether the command has ended, can be run, or what is missing."""
    if found := kept(figure.command):
        return f"done at {found.facts['commit']}"
    if "SKDP_DATA" in figure.needs and not os.environ.get("SKDP_DATA"):
        return "needs SKDP_DATA"
    return "to run"


def in_words(minutes: float) -> str:
    """Return a time in its unit."""
    if minutes < 90:
        return f"{minutes:.0f} minutes"
    return f"{minutes / 60:.0f} hours" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"


# What is run


def full(chosen: Sequence[Figure], arguments: argparse.Namespace) -> list[str]:
    """Run what is left, shortest first, and write or compare each figure."""
    wrong = []
    for figure in sorted(chosen, key=lambda f: f.minutes):
        if state_of(figure).startswith("needs"):
            continue
        found = None if arguments.again else kept(figure.command)
        if found is None:
            print(f"{figure.name}: python {figure.command}", file=sys.stderr, flush=True)
            found = run(figure.command)
        if arguments.check:
            wrong += compared(figure, found, item_of(figure))[1]
        else:
            write(figure, found)
    return wrong


def fast(chosen: Sequence[Figure]) -> list[str]:
    """Run the fast parts, two at a time, and compare them."""
    wrong, commands = [], list(dict.fromkeys(f.fast for f in chosen if f.fast))
    with ThreadPoolExecutor(2) as pool:
        runs = dict(zip(commands, pool.map(run, commands), strict=True))
    for figure in chosen:
        item = item_of(figure)
        if figure.fast:
            count, found = compared(figure, runs[figure.fast], item)
            say = f"{count} cells compared" if count else "no cell compared"
            print(f"{figure.name}: {say}", flush=True)
            wrong += found or ([] if count else [f"{figure.name}: no cell was found"])
        if figure.sample:
            count, found = samples.compared(figure, item)
            print(f"{figure.name}: {count} cells compared", flush=True)
            wrong += found
    return wrong


def item_of(figure: Figure) -> Item:
    """Return the table or picture of a figure."""
    return placed()[figure.name]


def compared(figure: Figure, found: Run, item: Item) -> tuple[int, list[str]]:
    """Return how many cells were compared, and texts about those that differ."""
    if not figure.is_compared or item.table is None or figure.layout is None:
        return 0, []
    count, wrong = differences(item.table, figure.layout, found.tables)
    return count, [f"{figure.name} ({item.page}:{item.line + 1}), {text}" for text in wrong]


def write(figure: Figure, found: Run) -> None:
    """Write the numbers of a run into the page, or its picture beside it, and what was run."""
    item = item_of(figure)
    if item.table is not None and figure.layout is not None:
        path = ROOT / figure.page
        table = filled(item.table, figure.layout, found.tables)
        lines = written(table, path.read_text(encoding="utf-8").splitlines())
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif item.picture is not None or figure.file:
        copy(figure, item)
    write_records(records() | {figure.name: {**found.facts, "seconds": found.seconds}})


def copy(figure: Figure, item: Item) -> None:
    """Copy what a command drew or wrote to its place; a page with the table beside it."""
    page, place = ROOT / item.page, place_of(figure.command)
    if item.picture is None:
        for path in place.with_suffix("").glob(f"{page.stem}.*"):
            shutil.copyfile(path, page.with_suffix(path.suffix))
    elif "{" in figure.command:
        drawn = place.with_suffix("") / figure.file if figure.file else place.with_suffix(".png")
        shutil.copyfile(drawn, page.parent / item.picture)


if __name__ == "__main__":
    sys.exit(main())
