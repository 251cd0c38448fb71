"""Time that importing skdp adds to importing scikit-learn's linear models.

Every repetition is a new process that imports ``sklearn.linear_model`` first. Times depend on the
machine; their ratio to the import of ``sklearn.linear_model`` in the same process does so less.
Needs no data files.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np

from examples.benchmarks.shared import report

FIRST = "import sklearn.linear_model"
STATEMENTS = (
    "import skdp",
    "from skdp import Domain",
    "from skdp import DPLogisticRegression",
    "from skdp import *",
)
# Seconds that `import skdp` may add.
MOST = 0.15
CODE = """
import json, sys, time
start = time.perf_counter()
exec(sys.argv[1])
between = time.perf_counter()
exec(sys.argv[2])
print(json.dumps([between - start, time.perf_counter() - between]))
"""


def seconds(statement: str) -> list[float]:
    """Return the seconds of the first import, and of a statement after it, in a new process."""
    command = [sys.executable, "-c", CODE, FIRST, statement]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def row(statement: str, repeats: int) -> report.Row:
    """Return medians over processes, after one that is not counted: it may compile the files."""
    seconds(statement)
    calls = [(statement,)] * repeats
    base, added = np.array(report.run(seconds, calls, 1, statement)).T
    low, median, high = report.quartiles(added)
    return {
        "statement": statement,
        "seconds added": median,
        "lower quartile": low,
        "upper quartile": high,
        f"seconds of {FIRST}": float(np.median(base)),
        "ratio": float(np.median(added / base)),
        **report.judged(median, (MOST,) if statement == STATEMENTS[0] else None, higher=False),
    }


def main() -> None:
    parser = report.parser_for(__doc__, repeats=9)
    arguments = parser.parse_args()
    rows = [row(statement, arguments.repeats) for statement in STATEMENTS]
    report.publish("import_time", rows, arguments)


if __name__ == "__main__":
    main()
