"""Plans of a fit in many columns: in little time and without matrices over all moments.

Times have a wide margin, for machines that are slow or busy: examples/benchmarks/plans.py measures.
"""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples" / "benchmarks"))

from plans import ESTIMATORS, Case

CASES = [
    # Few records, and a column of three or more levels.
    Case("linear", 3, (10, 10), 100, 1e-6, "replace_one", False),
    Case("linear", 3, (3,), 100, 1e-6, "replace_one", True),
    Case("linear", 100, (), 2000, 1e-6, "replace_one", False),
    Case("linear", 200, (3,), 2000, 1e-6, "add_remove", True),
    Case("linear", 300, (100,), 100, 1e-6, "replace_one", True),
    Case("linear", 20, (10_000,), 2000, 0.0, "replace_one", True),
    Case("linear", 20, (10_000,), 2000, 1e-6, "add_remove", False),
    *(
        Case(name, 300, (10_000,), 2000, 1e-6, "replace_one", True)
        for name in ESTIMATORS
        if name != "linear"
    ),
]


@pytest.mark.rest_is_slow(4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_plan_takes_no_room(case: Case) -> None:
    """At most 400 MB; a matrix of all numbers would take up to 40 GB."""
    tracemalloc.start()
    try:
        case.plan()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4e8


def test_the_command_times_a_plan_in_a_process_of_its_own() -> None:
    from plans import timed

    found = timed(Case("huber", 3, (), 100, 0.0, "replace_one", True), limit=60, memory=8)
    assert not found.failure
    assert 0 < found.seconds < 60
    late = timed(Case("linear", 300, (), 100, 1e-6, "replace_one", True), limit=1e-3, memory=8)
    assert late.failure == "took more than 0.001 s"
