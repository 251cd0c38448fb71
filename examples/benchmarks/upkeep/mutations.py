"""Mutations: a bound, a scale or a sign is changed by script, and some test has to notice it.

Works in a copy of the project. There the fast tests run once, to learn which of them run each
line of the folders that privacy rests on; the map is kept in the folder ``results``. Then
mutations are drawn, stratified over the lines. For each of them some tests that run its line are
run: the fastest case of each test function, and the file that is named after the module. A run that
was stopped goes on where it was, for the same seed. A survivor is not yet an error: it needs a
look, and often a test.

Needs pytest-cov. The map takes a quarter of an hour on two cores, a mutation half a minute.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np

from examples.benchmarks.shared import report
from examples.benchmarks.upkeep import mutation_sites
from examples.benchmarks.upkeep.mutation_sites import FOLDERS, Mutation

ROOT = report.RESULTS.parent
UNUSED = shutil.ignore_patterns("__pycache__", "_build", ".*_cache", ".hypothesis")
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
FASTEST, TIMEOUT = 40, 120.0
COVERAGE = "coverage.json"
# Coverage does not see what compiled functions run.
COMPILED = "skdp/_kernels.py"
# Bytecode of a file that was changed within a second would be taken for that of the original.
QUIET = {"PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
_SECONDS = re.compile(r"^([\d.]+)s (?:setup|call) +(.+?)\s*$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


# The map: which tests run a line


@dataclass(frozen=True)
class Map:
    """Tests with their seconds; for each line of a module a number whose bits are tests.

    ``statements`` has, for each module of the package, how many it has and the lines of those that
    no test runs.
    """

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[str, str]]
    texts: dict[str, str]
    statements: dict[str, tuple[int, list[int]]]

    def of(self, module: str, lines: Iterator[int]) -> set[int]:
        """Return the places of the tests that run some of the lines."""
        found, bits = self.lines.get(module, {}), 0
        for line in lines:
            bits |= int(found.get(str(line), "0"), 16)
        return {k for k in range(bits.bit_length()) if bits >> k & 1}

    def usual(self, names: list[str]) -> float:
        """Return the seconds that some tests take; unknown ones take none."""
        seconds = dict(zip(self.tests, self.seconds, strict=True))
        return sum(seconds.get(name, 0.0) for name in names)

    def chosen(self, mutation: Mutation, seconds: float) -> list[str]:
        """Return the tests for a mutation, fastest first; all of them for infinite seconds."""
        running: set[int] = set()
        for module, first, last in mutation.places:
            running |= self.of(module, iter(range(first, last + 1)))
        stem = Path(mutation.module).stem.strip("_")
        named = re.compile(rf"tests/(\w+/)*test_{stem}(_\w+)?\.py::|skdp/{mutation.module}::")
        if not running:  # a line that runs while its module is imported, such as a field
            running = {k for k, name in enumerate(self.tests) if named.match(name)}
        order = sorted(running, key=self.seconds.__getitem__)
        if math.isinf(seconds):
            return [self.tests[k] for k in order]
        taken, spent = [], 0.0
        for place, k in enumerate(self._spread(order)):
            wanted = place < FASTEST or named.match(self.tests[k])
            if wanted and spent + self.seconds[k] <= seconds:
                spent += self.seconds[k]
                taken.append(self.tests[k])
        return taken

    def _spread(self, order: list[int]) -> list[int]:
        """Return the first of every test function, then the second: cases are much alike."""
        seen: defaultdict[str, int] = defaultdict(int)
        ranks = {}
        for k in order:
            function = self.tests[k].partition("[")[0]
            ranks[k], seen[function] = seen[function], seen[function] + 1
        return sorted(order, key=lambda k: (ranks[k], self.seconds[k]))


def text_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def measured(copy: Path) -> Map:
    """Run the fast tests once, and return which run what."""
    options = ["--cov=skdp", "--cov-context=test", f"--cov-report=json:{COVERAGE}"]
    options += ["--durations=0", "--durations-min=0", "-vv"]
    command = [*PYTEST, "-n", "2", "--dist", "worksteal", *options]
    done = subprocess.run(command, cwd=copy, env=os.environ | QUIET, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit("The tests did not run to their end:\n" + done.stdout[-3000:])
    for name in _FAILED.findall(done.stdout):
        print(f"Fails without any mutation, and is left out: {name}", file=sys.stderr)
    return read_coverage(copy, done.stdout)


def read_coverage(copy: Path, output: str) -> Map:
    """Put together what coverage and pytest wrote."""
    # Read as what it is: its own module has the name of a neighbouring command.
    with closing(sqlite3.connect(copy / ".coverage")) as data:
        names = dict(data.execute("SELECT id, context FROM context"))
        paths = dict(data.execute("SELECT id, path FROM file"))
        found = data.execute("SELECT file_id, context_id, numbits FROM line_bits").fetchall()
    names = {k: name.rpartition("|")[0] for k, name in names.items()}
    spent: defaultdict[str, float] = defaultdict(float)
    for taken, name in _SECONDS.findall(output):
        spent[name] += float(taken)
    # Tests that run no line of the package, such as those of scripts, take their time as well.
    tests = sorted({*names.values(), *spent} - {""})
    place = {name: k for k, name in enumerate(tests)}
    package = (copy / "skdp").resolve()
    modules = {k: Path(p).relative_to(package) for k, p in paths.items()}
    modules = {k: path for k, path in modules.items() if path.parts[0] in FOLDERS}
    masks: dict[str, dict[int, int]] = {path.as_posix(): {} for path in modules.values()}
    left_out = {"", *_FAILED.findall(output)}
    for file, context, bits in found:
        if names[context] not in left_out and file in modules:
            lines = masks[modules[file].as_posix()]
            for line in np.flatnonzero(
                np.unpackbits(np.array([*bits], np.uint8), bitorder="little")
            ):
                lines[int(line)] = lines.get(int(line), 0) | 1 << place[names[context]]
    texts = {module: text_of(copy / "skdp" / module) for module in masks}
    as_text = {m: {str(k): f"{v:x}" for k, v in lines.items()} for m, lines in masks.items()}
    totals = json.loads((copy / COVERAGE).read_text(encoding="utf-8"))["files"]
    statements = {
        name: (found["summary"]["num_statements"], found["missing_lines"])
        for name, found in totals.items()
        if not name.startswith(COMPILED)
    }
    return Map(tests, [spent[name] for name in tests], as_text, texts, statements)


def known_map(path: Path, copy: Path) -> Map:
    """Return the map in a file, measured now if there is none."""
    if not path.exists():
        print(
            "The fast tests run once, for about 15 minutes, to see which lines they run.",
            file=sys.stderr,
            flush=True,
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(measured(copy))), encoding="utf-8")
    return Map(**json.loads(path.read_text(encoding="utf-8")))


def changed(tests: Map, root: Path) -> list[str]:
    """Return the modules that are not as they were when the map was made."""
    paths = {module: root / "skdp" / module for module in tests.texts}
    return [
        module
        for module, path in paths.items()
        if not path.exists() or text_of(path) != tests.texts[module]
    ]


# Runs


def copied(source: Path, target: Path) -> Path:
    """Copy what is under version control, as it is now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=source, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (source / name).is_file():  # not if it was removed without a commit
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
    return target


def run_tests(copy: Path, tests: list[str], usual: float) -> tuple[str, str]:
    """Return "caught", "survived" or "no test", and the test that failed; usual seconds."""
    if not tests:
        return "no test", ""
    command = [*PYTEST, "-x", "-p", "no:xdist", "--tb=no", *tests]
    with subprocess.Popen(
        command,
        cwd=copy,
        env=os.environ | QUIET,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT + 2 * usual)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # what the tests started as well
            return "caught", "timeout"
    failed = _FAILED.search(output)
    by = failed.group(1) if failed else ""
    return ("caught" if process.returncode else "survived"), by


def tried(
    mutation: Mutation, copies: Queue[Path], tests: Map, seconds: float, extra: list[str]
) -> dict[str, Any]:
    """Make a mutation in a free copy, run its tests, and undo it."""
    copy = copies.get()
    path = copy / "skdp" / mutation.module
    original = path.read_bytes()
    chosen = [*extra, *tests.chosen(mutation, seconds)]
    try:
        path.write_bytes(mutation.applied(original))
        result, by = run_tests(copy, chosen, tests.usual(chosen))
    finally:
        path.write_bytes(original)
        copies.put(copy)
    row = {"at": mutation.at, "old": mutation.old, "new": mutation.new, "line": mutation.text}
    return row | {"tests": len(chosen), "result": result, "by": by}


def run_all(
    mutations: list[Mutation], tests: Map, copy: Path, kept: Path, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Try the mutations that are not in the file of results, or that survived; and keep these."""
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    rows = {row["key"]: row for row in map(json.loads, lines)}
    again = arguments.again or arguments.everything
    todo = [
        m for m in mutations if m.key not in rows or (again and rows[m.key]["result"] != "caught")
    ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        copies: Queue[Path] = Queue()
        for job in range(arguments.jobs):
            copies.put(shutil.copytree(copy, Path(folder) / str(job), ignore=UNUSED))
        seconds = math.inf if arguments.everything else arguments.seconds
        work = partial(tried, copies=copies, tests=tests, seconds=seconds, extra=arguments.extra)
        for done, (mutation, row) in enumerate(zip(todo, pool.map(work, todo), strict=True), 1):
            rows[mutation.key] = {"key": mutation.key, **row}
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[mutation.key]) + "\n")
            print(f"{done}/{len(todo)} {row['result']}: {row['at']}", file=sys.stderr, flush=True)
    return [rows[m.key] for m in mutations]


def check_catchers(rows: list[dict[str, Any]], copy: Path, tests: Map) -> None:
    """Make sure that the tests which noticed something pass where nothing was changed."""
    names = sorted({row["by"] for row in rows if "::" in row["by"]})
    for name in names if run_tests(copy, names, tests.usual(names))[0] == "caught" else []:
        if run_tests(copy, [name], tests.usual([name]))[0] == "caught":
            print(f"{name} fails without any mutation: see what it caught.")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60, help="mutations")
    parser.add_argument("--seed", type=int, default=0, help="what is drawn follows from it")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time")
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for a mutation")
    parser.add_argument("--copy", type=Path, default=Path(tempfile.gettempdir()) / "skdp_mutations")
    parser.add_argument("--map", type=Path, default=report.RESULTS / "mutation_map.json")
    parser.add_argument("--list", action="store_true", help="only say what would be changed")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    parser.add_argument("--everything", action="store_true", help="and with all tests of the line")
    what = "folders and files of the package, such as trusted"
    parser.add_argument("--places", nargs="+", default=FOLDERS, help=what)
    parser.add_argument("--extra", nargs="+", default=[], help="tests to run that the map lacks")
    arguments = parser.parse_args()
    copy = arguments.copy if arguments.copy.exists() else copied(ROOT, arguments.copy)
    if arguments.extra:
        shutil.copytree(ROOT / "tests", copy / "tests", ignore=UNUSED, dirs_exist_ok=True)
    rng = np.random.default_rng(arguments.seed)
    mutations = mutation_sites.drawn(copy / "skdp", arguments.count, rng, arguments.places)
    if arguments.list:
        print("\n".join(f"{m.at}: {m.old} -> {m.new}    {m.text}" for m in mutations))
        return
    kept = report.RESULTS / f"mutations_{arguments.seed}.jsonl"
    tests = known_map(arguments.map, copy)
    if others := changed(tests, copy):
        raise SystemExit(f"{arguments.map} knows other versions of {', '.join(others)}: remove it.")
    rows = run_all(mutations, tests, copy, kept, arguments)
    check_catchers(rows, copy, tests)
    summary: dict[str, dict[str, int]] = defaultdict(lambda: {"tried": 0, "caught": 0})
    for row in rows:
        counts = summary[row["at"].partition("/")[0]]
        counts["tried"] += 1
        counts["caught"] += row["result"] == "caught"
    print(report.table([{"folder": folder, **counts} for folder, counts in summary.items()]))
    alive = [row for row in rows if row["result"] != "caught"]
    if alive:
        print("\nSurvivors, which need a look:\n")
        print(report.table([{k: row[k] for k in ("at", "old", "new", "line")} for row in alive]))


if __name__ == "__main__":
    main()
