"""Budgets of what a reader has to hold: the size of the package, and how much of it a fit executes.

``python -m examples.benchmarks.upkeep.size`` prints the numbers. A change that needs more than a
budget should remove something first.
"""

import json
import subprocess
import sys

import pytest

from examples.benchmarks.upkeep import size

SIZES = {
    "lines of skdp": 45_544,
    "lines of stubs": 110,
    "files of skdp": 145,
    "lines of tests": 44_697,
    "lines with Any": 468,
    "lines of imports": 2_685,
    "class names that occur twice": 0,
}
FITS = {
    "DPLogisticRegression": {"files": 38, "classes": 50, "lines of functions": 4_490},
    "DPHuberRegressor": {"files": 38, "classes": 46, "lines of functions": 3_983},
    "DPLinearRegression": {"files": 36, "classes": 51, "lines of functions": 3_789},
    "DPCoordinateDescentClassifier": {"files": 33, "classes": 41, "lines of functions": 3_655},
    "DPCoordinateDescentRegressor": {"files": 33, "classes": 42, "lines of functions": 3_567},
}


def over(found, budgets):
    """Return what is over its budget, with both numbers."""
    return {what: (found[what], most) for what, most in budgets.items() if found[what] > most}


def test_sizes_are_within_their_budgets():
    assert over(size.sizes(), SIZES) == {}


@pytest.fixture(scope="module")
def fits():
    """Counts of a process of its own, in which no test has filled a cache."""
    code = (
        "import json; from examples.benchmarks.upkeep import size; print(json.dumps(size.fits()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=size.ROOT, check=True, capture_output=True, text=True
    )
    return {row["fit"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_executes_what_its_budget_allows(name, fits):
    assert over(fits[name], FITS[name]) == {}


def test_what_is_over_a_budget_is_seen(tmp_path, monkeypatch):
    """A class name for the second time, a file and its lines."""
    for name in ("skdp", "tests"):
        (tmp_path / name).mkdir()
    (tmp_path / "skdp" / "a.py").write_text("class A:\n    x: Any\n", encoding="utf-8")
    (tmp_path / "skdp" / "b.py").write_text("import os\n\nclass A: ...\n", encoding="utf-8")
    monkeypatch.setattr(size, "ROOT", tmp_path)
    most = {"lines of skdp": 5, "files of skdp": 1, "lines of tests": 0, "lines with Any": 0}
    found = size.sizes()
    assert over(found, most) == {"files of skdp": (2, 1), "lines with Any": (1, 0)}
    assert (found["class names that occur twice"], found["lines of imports"]) == (1, 1)
