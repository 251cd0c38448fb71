"""The tables of `make upkeep`, from a small map that was made up."""

import json
import sqlite3
from contextlib import closing

import pytest

from examples.benchmarks.upkeep import upkeep
from examples.benchmarks.upkeep.mutations import COMPILED, COVERAGE, Map, changed, read_coverage

TESTS = Map(
    tests=["tests/a.py::one[1]", "tests/a.py::one[2]", "tests/a.py::two", "tests/b.py::three"],
    seconds=[1.0, 2.0, 2.5, 4.0],
    lines={},
    texts={},
    statements={
        "skdp/x.py": (10, []),
        "skdp/y.py": (8, [2, 4]),
        "skdp/z.py": (100, [1, 2, 3, 7, 9]),
    },
)


def test_files_with_lines_that_no_test_runs():
    """The most such lines come first, and a file without them is left out."""
    rows = upkeep.least_covered(TESTS, 25)
    assert [tuple(row.values()) for row in rows] == [
        ("skdp/z.py", 100, 5, "1-3, 7, 9"),
        ("skdp/y.py", 8, 2, "2, 4"),
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
    assert upkeep.survivors(tmp_path) == ([row | {"at": "m.py:2"}], 2)


def test_a_map_has_all_tests_and_the_lines_that_coverage_can_see(tmp_path):
    """Scripts run no line of the package, compiled functions seem to run none.

    A test that fails without any mutation would catch every one, and is not used.
    """
    (tmp_path / "skdp/rows").mkdir(parents=True)
    module = tmp_path / "skdp/rows/memory.py"
    module.write_text("1\n2\n3\n", encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / ".coverage")) as data:
        data.executescript(
            f"""CREATE TABLE context (id, context); CREATE TABLE file (id, path);
            CREATE TABLE line_bits (file_id, context_id, numbits);
            INSERT INTO context VALUES (1, ''), (2, 'tests/b.py::one|run'),
            (3, 'tests/b.py::wrong|run');
            INSERT INTO file VALUES (1, '{module}');
            INSERT INTO line_bits VALUES (1, 1, x'02'), (1, 2, x'0c'), (1, 3, x'0e');"""
        )
    files = {
        "skdp/rows/memory.py": {"summary": {"num_statements": 3}, "missing_lines": [2]},
        COMPILED: {"summary": {"num_statements": 9}, "missing_lines": [1]},
    }
    (tmp_path / COVERAGE).write_text(json.dumps({"files": files}), encoding="utf-8")
    found = read_coverage(
        tmp_path, "0.50s call     tests/b.py::one\n0.25s setup    tests/b.py::one\n"
        "2.00s call     tests/a.py::script[a b]\nFAILED tests/b.py::wrong - assert 1 == 2\n"
    )  # fmt: skip
    assert dict(zip(found.tests, found.seconds, strict=True)) == {
        "tests/a.py::script[a b]": 2.0,
        "tests/b.py::one": 0.75,
        "tests/b.py::wrong": 0.0,
    }
    assert found.of("rows/memory.py", iter([1])) == set()
    assert found.of("rows/memory.py", iter([2, 3])) == {1}
    assert found.statements == {"skdp/rows/memory.py": (3, [2])}
    assert changed(found, tmp_path) == []
    module.write_text("1\n", encoding="utf-8")
    assert changed(found, tmp_path) == ["rows/memory.py"]
