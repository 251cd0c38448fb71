"""Rows of measuring commands: a few small runs have what the layouts of the pages ask for."""

import argparse
from itertools import product

import numpy as np
import pytest

from examples.benchmarks.accuracy import linear
from examples.benchmarks.descent import descent, descent_baseline, descent_lasso
from examples.benchmarks.speed import linear_speed, speed
from examples.figures.layout import differences, filled
from examples.figures.manifest import figures, placed
from examples.figures.outputs import Output
from skdp.rows.tables import StreamedRows

FIGURES = figures()
SMALL = {"repeats": 2, "seed": 0, "jobs": 1, "neighbors": "replace_one", "epsilons": [1.0]}


def arguments(**settings):
    return argparse.Namespace(**SMALL | settings)


def fields_of(name):
    """Return the fields that a layout reads."""
    layout = FIGURES[name].layout
    fields = {*layout.rows, *layout.where, *layout.cells, layout.pivot}
    return fields.union(*layout.headings.values()) - {""}


def filled_cells(name, rows):
    """Return how many cells of the page the rows fill; the filled table has their values."""
    layout, table = FIGURES[name].layout, placed()[name].table
    output = [Output(layout.table, rows)]
    table = filled(table, layout, output)
    count, wrong = differences(table, layout, output)
    assert not wrong
    return count


def test_defaults_of_descent():
    rows = descent.figures("diabetes", arguments(pure=False))
    assert fields_of("descent-defaults") <= set(rows[0])
    assert {row["model"] for row in rows} >= {"descent", "descent, l1", "huber"}
    rows = [row | {"set": "california_housing"} for row in rows]
    assert filled_cells("descent-defaults", rows) == 4


def test_laws_of_descent():
    """Rows by law; the summary has the greatest noise of each law, which auto's never is."""
    asked = arguments(pure=False, styles=["source"], penalties=["l1", "l2"], passes=[1, 2])
    rows = [dict(row) for row in descent.table("diabetes", asked)]
    descent.judge(rows)
    groups = descent.summary(rows, ("penalty",))
    assert filled_cells("descent-laws-summary", groups) == 14
    assert [group["rows"] for group in groups] == [2, 2]
    for group in groups:
        own = [row["laplace noise"] for row in rows if row["penalty"] == group["penalty"]]
        assert group["laplace, at most"] == max(own) > group["auto, at most"] == 1
    shown = [row | {"set": "boston_housing"} for row in rows]
    assert filled_cells("descent-laws", shown) == 4  # of two passes, with penalty l2


def test_best_numbers_of_passes():
    """The least gap of each order, with its number of passes, in any order of the rows."""
    rows = [
        {"features": "normal", "alpha": 0.1, "order": order, "n_passes": n, "gap": gap, "w = 0": 2}
        for order, n, gap in [
            ("cyclic", 1, 0.9),
            ("cyclic", 2, 0.8),
            ("random", 5, 0.8),
            ("greedy", 5, 0.3),
            ("greedy", 10, 0.1),
            ("greedy", 20, 0.2),
        ]
    ]
    (best,) = descent_lasso.best(rows)
    assert best == descent_lasso.best(rows[::-1])[0]
    assert fields_of("descent-lasso") <= set(best)
    assert (best["cyclic"], best["greedy"], best["greedy passes"]) == (0.8, 0.1, 10)
    assert filled_cells("descent-lasso", [best]) == 4


@pytest.mark.parametrize(
    ("shift", "expected"), [(0.1, "ahead"), (-0.1, "behind"), (0.001, "tie"), (0, "tie")]
)
def test_verdicts_on_descent(shift, expected):
    """A difference within the margin, or one that the limits do not tell from 0, is a tie."""
    noise = np.linspace(-0.001, 0.001, 20)
    own = noise + shift
    row = descent_baseline.verdict(own, np.zeros(20), 0.002)
    assert row["verdict"] == expected
    assert descent_baseline.verdict(100 * noise + shift, np.zeros(20), 0)["verdict"] == (
        expected if abs(shift) > 0.05 else "tie"
    )
    facts = {"data": "electricity", "baseline": "gradient", "its score": 0.5}
    facts |= {"descent": 1.0, "descent, no look": 0.7}
    assert filled_cells("descent-gradient", [facts | row]) == 6


def test_choices_of_linear_models():
    """A choice has the same score beside others as alone, and others have other scores."""
    choices = ["auto/auto", "auto/pinv", "linf/auto"]
    rows = linear.figures("diabetes", arguments(approximate=False, choices=choices))
    alone = linear.figures("diabetes", arguments(approximate=False, choices=choices[1:2]))
    assert [row["choice"] for row in rows] == choices
    assert rows[1] == alone[0]
    assert len({row["R2"] for row in rows}) == 3
    rows = [row | {"set": "protein_casp", "epsilon": 4} for row in rows]
    assert filled_cells("linear-options", rows) == 3


def test_times_of_linear_models(monkeypatch):
    monkeypatch.setattr(linear_speed, "in_a_child", lambda *_: 3.0)
    rows = linear_speed.time_rows(300, 3, arguments(threads=1))
    assert fields_of("linear-time") <= set(rows[0])
    rows = [rows[0] | {"what": "seconds, n=1000000, d=100, in memory, matrix"}]
    rows += [linear_speed.memory_row(1_000_000, 100, arguments(threads=1))]
    assert filled_cells("linear-time", rows) == 5 + 2


def test_times_beside_other_libraries(monkeypatch):
    """A row for each fit: times and memory of the first number of threads, a ratio of the next."""
    monkeypatch.setattr(speed, "in_a_child", lambda *_: 0.5)
    rows = [speed.fit_row(f"{model}:300x14", arguments(threads=[2, 1])) for model in speed.FITS]
    assert all(fields_of("scale-memory") <= set(row) for row in rows)
    asked = [case.split(":") for case in speed.CASES]
    sizes = [(model, *map(int, size.split("x"))) for model, size in asked]
    by_model = dict(zip(speed.FITS, rows, strict=True))
    rows = [by_model[model] | {"rows": n, "columns": d} for model, n, d in sizes]
    assert filled_cells("scale-memory", rows) == 5 * len(placed()["scale-memory"].table.rows)


def test_times_of_files(monkeypatch, tmp_path):
    scale = pytest.importorskip("examples.benchmarks.speed.scale")
    monkeypatch.setattr(scale, "measured", lambda *_: (1.0, 2**30, 2))
    rows = [row for n in (10, 20) for row in scale.rows_for(n, arguments(), tmp_path)]
    assert fields_of("scale-files") <= set(rows[0])
    sizes = product((10**6, 10**7, 10**8), rows[:2])
    assert filled_cells("scale-files", [row | {"rows": n} for n, row in sizes]) == 30
    scale.draw(rows, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").stat().st_size


def test_readings_of_a_file_are_counted(monkeypatch, tmp_path):
    """One of a small file, which is kept; where nothing is kept, each sum is one."""
    scale = pytest.importorskip("examples.benchmarks.speed.scale")
    path = tmp_path / "rows.parquet"
    scale.write_file(path, 500, 0)
    runs = StreamedRows._runs
    for most_kept, least, most in ((3 * 2**27, 1, 1), (0, 3, 20)):
        monkeypatch.setattr(StreamedRows, "_runs", runs)  # the command replaces it, in a process
        monkeypatch.setattr(scale.streamed, "MOST_KEPT", most_kept)
        assert least <= scale.fit(str(path), "label", 0)[2] <= most


def test_times_of_clusters(monkeypatch):
    cluster = pytest.importorskip("examples.benchmarks.speed.cluster")
    monkeypatch.setattr(cluster, "on_workers", lambda _, *arrays: arrays)
    rows = cluster.compared(None, arguments(rows=300))
    assert filled_cells("scale-cluster", rows) == 9
