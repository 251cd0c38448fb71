"""The tables of docs/figures/inference_figures.md: which cells they have, and what they count."""

import argparse
import collections

import numpy as np
import pytest

from examples.benchmarks.intervals import inference, inference_peers
from examples.benchmarks.intervals.inference import Cell
from examples.figures.layout import differences
from examples.figures.manifest import figures, placed
from examples.figures.outputs import Output

CELL = Cell("linear", "row", "replace_one", "normal", 500, 2, 1.0, 0.0, 0.8)


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """Repetitions that are counted and take no time; cells are kept in a folder of the test."""
    made = collections.Counter()

    def repetition(cell, seed, r):
        made[cell] += 1
        length = np.inf if cell.epsilon < 1 else 0.5
        return {
            "covered": np.array([True, r % 2 == 0]),
            "length": np.array([length, length]),
            "error": np.array([0.1, 0.1]),
            "alarm": np.array([False, r % 4 == 0]),
        }

    monkeypatch.setattr(inference, "repetition", repetition)
    monkeypatch.setattr(inference, "KEPT", tmp_path / "inference.jsonl")
    monkeypatch.setattr(inference.report, "run", lambda f, calls, *_: [f(*call) for call in calls])
    return made


def asked(**changes):
    facts = {"estimators": list(inference.ESTIMATORS)[:3], "designs": list(inference.DESIGNS)}
    facts |= {"columns": inference.COLUMNS, "epsilons": inference.EPSILONS}
    facts |= {"delta": 0.0, "share": 0.8, "seed": 0, "repeats": 40, "jobs": 1}
    return argparse.Namespace(**facts | changes)


def test_a_cell_is_run_once_and_ended_if_nothing_is_bounded(calls):
    row = inference.kept_row(CELL, asked())
    assert calls[CELL] == row["repeats"] == 40
    assert inference.kept_row(CELL, asked()) == row
    assert calls[CELL] == 40
    assert row["coverage"] == pytest.approx(0.75)
    assert (row["least"], row["unusable"]) == (0.5, 0.0)
    assert row["length"] == pytest.approx(0.5 / 0.2)
    assert row["false alarms"] == pytest.approx(0.25)
    few = CELL._replace(epsilon=0.1)
    assert inference.kept_row(few, asked())["unusable"] == 1.0
    assert calls[few] == inference.FEW
    inference.kept_row(CELL, asked(repeats=2))  # other repetitions are another cell
    assert calls[CELL] == 42


def test_the_page_has_its_cells():
    """Every size, number of columns and epsilon of rows, with all designs of an estimator."""
    found = list(inference.page_cells(asked()))
    assert len(found) == len(set(found))
    grid = [c for c in found if (c.unit, c.neighbors) == ("row", "replace_one")]
    count = collections.Counter(cell.estimator for cell in grid)
    # Labels have no errors of different variances.
    assert count == {"linear": 12 * 15, "huber": 12 * 15, "logistic": 12 * 12}
    assert {(c.unit, c.neighbors) for c in found} - {("row", "replace_one")} == {
        ("row", "add_remove"),
        ("person", "replace_one"),
    }


def row(design="normal", n=20_000, epsilon=1.0, p=5, **facts):
    known = {"estimator": "linear", "unit": "row", "neighbors": "replace_one", "design": design}
    measured = {"unusable": 0.0, "coverage": 0.95, "length": 1.0, "false alarms": 0.05}
    return known | {"n": n, "epsilon": epsilon, "p": p} | measured | facts


def test_unbounded_shares_are_means_over_designs():
    grid = [
        row(design, n, epsilon, p, unusable=(design == "normal") * 0.5)
        for n in inference.SIZES[:3]
        for epsilon in inference.EPSILONS
        for p in inference.COLUMNS
        for design in ("normal", "skewed", "collinear")
    ]
    found = inference.unbounded([*grid, row(unit="person", unusable=1.0)])
    assert len(found) == 12
    assert found[0] == {"n": 500, "epsilon": 0.1, "1": 25.0} | {
        "5": 25.0,
        "5 correlated": 0.0,
        "20": 25.0,
        "20 correlated": 0.0,
    }


def test_coverage_is_that_of_usable_cells():
    rows = [
        row(coverage=0.96),
        row(coverage=0.93, length=1.5),
        row(coverage=1.0, unusable=0.2, length=9.0),  # not usable
        row(n=500, length=5.0),  # too few records for a length
        row(estimator="huber", p=1, **{"false alarms": None}),
        row(estimator="huber", **{"false alarms": 0.01}),
    ]
    linear, huber = inference.covered(rows)
    assert (linear["cells"], linear["usable"], linear["in band"]) == (4, 3, 2)
    assert (linear["least"], linear["median"], linear["greatest"]) == (0.93, 0.95, 0.96)
    assert (linear["median length"], linear["greatest length"]) == (1.25, 1.5)
    assert huber["false alarms"] == 0.01


def test_the_tables_fill_every_cell_of_the_page():
    """From the cells that the command runs: 12 rows of shares, 9 of coverages."""
    rows = [row(**cell._asdict()) for cell in inference.page_cells(asked())]
    found = [
        Output("results/inference_unbounded.json", inference.unbounded(rows)),
        Output("results/inference_coverage.json", inference.covered(rows)),
    ]
    for name, count in (("inference-unbounded", 12 * 5), ("inference-coverage", 9 * 6)):
        assert differences(placed()[name].table, figures()[name].layout, found)[0] == count


def test_a_setting_of_peers_has_a_row_with_the_methods_of_the_page():
    name = "binagg d=1"
    kinds = inference_peers.methods_of(inference_peers.SETTINGS[name])
    rows = [
        {"setting": name, "method": method, "privacy": f"{kind}: epsilon", "length": k}
        | {"coverage": k / 100}
        for k, (method, kind, _) in enumerate(kinds)
    ]
    found = inference_peers.page_row(name, [*rows, rows[0] | {"setting": "binagg"}])
    assert found["setting"] == name
    for column, method, kind in (
        ("published", "binagg", "claimed"),
        ("corrected", "binagg, mended", "claimed"),
        ("ours", "skdp", "nominal"),
    ):
        place = [own[:2] for own in kinds].index((method, kind))
        assert (found[column], found[f"coverage, {column}"]) == (place, place / 100)


def test_a_length_that_is_infinite_is_left_out():
    """A page has no number for it: such a cell says so in words."""
    name = "binagg d=1"
    rows = [
        {"setting": name, "method": method, "privacy": kind, "length": np.inf, "coverage": 1.0}
        for method, kind, _ in inference_peers.methods_of(inference_peers.SETTINGS[name])
    ]
    found = inference_peers.page_row(name, rows)
    assert (found["ours"], found["coverage, ours"]) == (None, 1.0)
