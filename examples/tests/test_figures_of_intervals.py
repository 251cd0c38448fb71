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

CELL = Cell("correlation .5", 500, 2, 1.0)
SHOWN = "covered", "length", "error", "z", "alarm"


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """Repetitions that are counted and take no time; cells are kept in a folder of the test."""
    made = collections.Counter()

    def repetition(cell, seed, r):
        made[cell] += 1
        length = np.inf if cell.epsilon < 1 else 0.5
        slopes = np.array([[1, length, 0.1, 1, 0], [r % 2 == 0, length, -0.2, r % 3, r % 4 == 0]])
        found = np.repeat(slopes.T[:, None], 3, axis=1)
        found[:, 0, 1:] = np.nan  # the first table has one effect
        return dict(zip(SHOWN, found, strict=True))

    monkeypatch.setattr(inference, "repetition", repetition)
    monkeypatch.setattr(inference, "KEPT", tmp_path / "inference.jsonl")
    monkeypatch.setattr(inference.report, "run", lambda f, calls, *_: [f(*call) for call in calls])
    return made


def asked(**changes):
    facts = {"kinds": inference.PLAIN, "page": True, "seed": 0, "repeats": 40, "jobs": 1}
    facts |= {"sizes": [500], "columns": [2], "epsilons": [1.0]}
    return argparse.Namespace(**facts | changes)


def test_a_cell_is_run_once_and_ended_if_nothing_is_bounded(calls):
    rows = inference.kept_rows(CELL, asked())
    assert calls[CELL] == rows[0]["repeats"] == 40
    assert inference.kept_rows(CELL, asked()) == rows
    assert calls[CELL] == 40
    one, _, every = rows
    assert (one["coverage"], one["least"], one["false alarms"]) == (1.0, 1.0, None)
    assert (every["coverage"], every["least"], every["unusable"]) == (0.75, 0.5, 0.0)
    assert (every["length"], every["bias"]) == (0.5, pytest.approx(0.2))
    assert every["false alarms"] == pytest.approx(0.25)
    few = CELL._replace(epsilon=0.1)
    assert inference.kept_rows(few, asked())[0]["unusable"] == 1.0
    assert calls[few] == inference.FEW
    inference.kept_rows(CELL, asked(repeats=2))  # other repetitions are another cell
    assert calls[CELL] == 42


def test_the_page_has_its_cells():
    """At least 100 tables of few effects; other sizes are those that are asked for."""
    found = list(inference.cells(asked()))
    assert len(found) == len(set(found)) == len(inference.PAGE) * len(inference.PLAIN)
    assert 2 * len(found) >= 100
    assert list(inference.cells(asked(page=False, kinds=["correlation .5"]))) == [CELL]


@pytest.mark.parametrize("kind", inference.KINDS)
def test_least_squares_holds_the_truth_of_a_kind(kind):
    """Of 15,000 records, before any is clipped: no slope is 5 errors away."""
    cell = Cell(kind, 15_000, 5, 1.0)
    X, y, ids = cell.draw(np.random.default_rng(0))
    slopes, errors = inference.least_squares(X, y, ids, cell.link)
    assert np.abs((slopes - cell.truth()) / errors).max() < 5


@pytest.mark.parametrize("kind", ["unequal errors", "labels", "counts, mean 3"])
def test_errors_of_persons_are_clustered(kind):
    """Three equal rows of each person tell as much as one."""
    cell = Cell(kind, 500, 3, 1.0)
    X, y, _ = cell.draw(np.random.default_rng(0))
    once = inference.least_squares(X, y, None, cell.link)
    thrice = np.repeat(X, 3, axis=0), np.repeat(y, 3), np.repeat(np.arange(500), 3)
    assert inference.least_squares(*thrice, cell.link) == pytest.approx(np.array(once))


def test_a_repetition_has_three_tables():
    """Of one, of three and of all columns, with the interval of each slope."""
    found = inference.repetition(Cell("level .05", 3000, 5, 8.0), 0, 0)
    assert tuple(found) == SHOWN
    shown = np.isfinite(found["error"])
    assert shown.tolist() == [[j in at for j in range(5)] for at in ([0], [0, 1, 4], range(5))]


def row(kind="correlation .5", n=20_000, p=5, epsilon=1.0, effects="all", **facts):
    size = {"n": n, "p": p, "epsilon": epsilon}
    measured = {"unusable": 0.0, "coverage": 0.95, "length": 1.0, "false alarms": 0.05}
    return {"kind": kind, "effects": effects} | size | measured | facts


def test_sizes_have_medians_over_kinds():
    """Those of correlations of .9 are apart, and an unbounded length has no number."""
    rows = [row(kind, effects=name) for kind in ("labels", "persons") for name in ("one", "three")]
    rows += [row(length=length, unusable=0.1) for length in (1.0, 1.5, 3.5)]
    rows += [row("correlation .9", effects=name) for name in ("one", "three")]
    rows += [row("correlation .9", length=np.inf, unusable=1.0)]
    (found,) = inference.by_size(rows)
    assert (found["ratio"], found["one"], found["all"]) == (4000, 1.0, 1.5)
    assert found["all, unbounded"] == pytest.approx(10)
    assert (found["all, .9"], found["all, .9, unbounded"]) == (None, 100)


def test_coverage_is_that_of_usable_cells():
    rows = [
        row(coverage=0.96),
        row(coverage=0.93),
        row(coverage=1.0, unusable=0.2),  # not usable
        row(effects="one", **{"false alarms": None}),
        row(effects="three", coverage=0.98, **{"false alarms": 0.01}),
    ]
    (found,) = inference.by_kind(rows)
    assert (found["all, usable"], found["all, in band"]) == (2, 1)
    assert (found["all, least"], found["all, median"]) == (0.93, pytest.approx(0.945))
    assert (found["few, usable"], found["few, in band"], found["few, least"]) == (2, 1, 0.95)
    assert found["false alarms"] == pytest.approx(0.11 / 3)


def test_the_tables_fill_every_cell_of_the_page():
    """From the cells that the command runs."""
    tables = ("one", "three", "all")
    rows = [
        row(**cell._asdict(), effects=name) for cell in inference.cells(asked()) for name in tables
    ]
    found = [
        Output("results/inference_sizes.json", inference.by_size(rows)),
        Output("results/inference_kinds.json", inference.by_kind(rows)),
    ]
    for name, count in (("inference-sizes", 7 * 6), ("inference-kinds", 16 * 5)):
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
