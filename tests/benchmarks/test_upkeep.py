"""The tables of `make upkeep`, from a small map that was made up."""

import json

import pytest

from examples.benchmarks.upkeep import upkeep
from examples.benchmarks.upkeep.mutations import Map

TESTS = Map(
    tests=["tests/a.py::one[1]", "tests/a.py::one[2]", "tests/a.py::two", "tests/b.py::three"],
    seconds=[1.0, 2.0, 2.5, 4.0],
    lines={},
    texts={},
    statements={"skdp/x.py": (10, 0), "skdp/y.py": (8, 2), "skdp/z.py": (100, 5)},
)


def test_files_with_lines_that_no_test_runs():
    """The most such lines come first, and a file without them is left out."""
    rows = upkeep.least_covered(TESTS, 25)
    assert [tuple(row.values()) for row in rows] == [
        ("skdp/z.py", 100, 5, "95.0%"),
        ("skdp/y.py", 8, 2, "75.0%"),
    ]
    assert upkeep.least_covered(TESTS, 1) == rows[:1]


@pytest.mark.parametrize("count", [1, 25])
def test_cases_of_a_test_are_added(count):
    files, functions = upkeep.slowest(TESTS, count)
    assert [tuple(row.values()) for row in files] == [
        ("tests/a.py", 3, 5.5),
        ("tests/b.py", 1, 4.0),
    ][:count]
    assert [tuple(row.values()) for row in functions] == [
        ("tests/b.py::three", 1, 4.0),
        ("tests/a.py::one", 2, 3.0),
        ("tests/a.py::two", 1, 2.5),
    ][:count]


def test_the_last_trial_of_a_mutation_counts(tmp_path):
    """One was caught when it was tried again, another never."""
    row = {"at": "m.py:1", "old": "+", "new": "-", "line": "a + b"}
    again = {"key": "again", **row}
    trials = [
        again | {"result": "survived"},
        again | {"result": "caught"},
        {"key": "never", **row, "at": "m.py:2", "result": "survived"},
    ]
    kept = "\n".join(map(json.dumps, trials))
    (tmp_path / "mutations_0.jsonl").write_text(kept, encoding="utf-8")
    assert upkeep.survivors(tmp_path) == [row | {"at": "m.py:2"}]
