"""`Domain.check` counts the cells that a fit would change in silence, for tables of all kinds."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdp import Domain
from skdp.domain import Spline

DOMAIN = Domain({"age": (17, 90), "sex": ["female", "male"]}, target=["no", "yes"])
# 10 is below, 107 and 200 above; "F" three times and "x" once unlisted; one cell missing in each.
CELLS = {
    "age": [10.0, 107.0, 200.0, 50.0, None, 17.0],
    "sex": ["F", "F", "F", "x", "male", None],
    "y": ["no", "yes", "perhaps", "no", "no", "no"],
    "note": ["a", "b", "c", "d", "e", "f"],
}
FOUND = [
    ("age", 3, 1, "above 2, below 1"),
    ("sex", 4, 1, "'F' 3, 'x' 1, never 'female'"),
    ("the target", 1, 0, "'perhaps' 1"),
]


def facts(check):
    return [(own["column"], own["outside"], own["missing"], own["notes"]) for own in check.rows]


def frame():
    return pd.DataFrame(CELLS)


def path(tmp_path, name):
    table = frame()
    getattr(table, {"a.parquet": "to_parquet", "a.feather": "to_feather"}[name])(tmp_path / name)
    return tmp_path / name


def csv(tmp_path):
    frame().to_csv(tmp_path / "a.csv", index=False)
    return tmp_path / "a.csv"


def pairs():
    for k in (0, 4):
        own = frame()[k : k + 4]
        yield own[["age", "sex"]], own["y"]


def dask(npartitions):
    return pytest.importorskip("dask.dataframe").from_pandas(frame(), npartitions=npartitions)


TABLES = {
    "frame": lambda tmp: frame(),
    "dict": lambda tmp: dict(CELLS),
    "records": lambda tmp: frame().to_dict("records"),
    "polars": lambda tmp: pl.DataFrame(CELLS),
    "pyarrow": lambda tmp: pa.table(CELLS),
    "categories": lambda tmp: frame().astype({"sex": "category"}),
    "objects": lambda tmp: frame().astype(object),
    "strings": lambda tmp: frame().astype({"sex": "string", "age": "Float64"}),
    "parquet": lambda tmp: path(tmp, "a.parquet"),
    "feather": lambda tmp: path(tmp, "a.feather"),
    "folder": lambda tmp: path(tmp, "a.parquet").parent,
    "function": lambda tmp: lambda: iter([frame()[:2], frame()[2:]]),
    "dask": lambda tmp: dask(2),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_kind_of_table_has_the_same_counts(name, tmp_path):
    """Also in parts, and with a column that the domain does not declare."""
    assert facts(DOMAIN.check(TABLES[name](tmp_path), target="y")) == FOUND


def test_a_target_of_its_own_or_none():
    table = frame()[["age", "sex"]]
    assert facts(DOMAIN.check(table, CELLS["y"])) == FOUND
    assert facts(DOMAIN.check(pairs)) == FOUND
    assert facts(DOMAIN.check(table)) == FOUND[:2]
    assert facts(Domain({"age": (17, 90)}).check(table, CELLS["y"])) == FOUND[:1]


def test_texts_of_a_csv_file_spell_levels_that_are_numbers(tmp_path):
    """An empty text is not a missing level without a rule, as in a fit."""
    pd.DataFrame({"a": [0, 1, 2], "y": [0, 1, 5]}).to_csv(tmp_path / "b.csv", index=False)
    found = Domain({"a": [0, 1]}, target=[0, 1]).check(tmp_path / "b.csv", target="y")
    assert facts(found) == [("a", 1, 0, "'2' 1"), ("the target", 1, 0, "'5' 1")]
    ruled = Domain({"age": (17, 90), "sex": ["female", "male"]}, missing="indicator")
    assert [own[:3] for own in facts(ruled.check(csv(tmp_path)))] == [own[:3] for own in FOUND[:2]]


A = "a"
ODD = {
    "codes for texts": ({A: ["0", "1"]}, [0, 1, 1], 3, 0, "1 2, 0 1, never '0', '1'"),
    "bools are numbers": ({A: [0, 1]}, [True, False], 0, 0, ""),
    "spaces": ({A: ["x", "y"]}, ["x ", "X", "y"], 2, 0, "'x ' 1, 'X' 1, never 'x'"),
    "NaN levels": ({A: [0.5, 1.5]}, [0.5, np.nan, np.nan], 0, 2, "never 1.5"),
    "lists": ({A: ["x", "y"]}, [["x"], "x", "y"], 1, 0, "<class 'list'> 1"),
    "lists in tuples": ({A: ["x", "y"]}, [(["x"],), "x", "y"], 1, 0, "<class 'tuple'> 1"),
    "inf": ({A: (0, 1)}, [np.inf, -np.inf, 0.5], 2, 0, "no number 2"),
    "texts": ({A: (0, 1)}, ["0.5", "many", "7", ""], 2, 1, "no number 1, above 1"),
    "dates": ({A: (0, 1)}, [dt.date(2000, 1, 1), 0.5], 1, 0, "no number 1"),
    "at the bounds": ({A: (0, 1)}, [0.0, 1.0], 0, 0, ""),
    "spline": ({A: Spline(0, 1)}, [2.0, 0.5], 1, 0, "above 1"),
    "no rows": ({A: (0, 1)}, [], 0, 0, ""),
    "decimals": ({A: (0, 1)}, [2**80, 0], 1, 0, "above 1"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_cells(name):
    declared, cells, outside, missing, notes = ODD[name]
    table = pd.DataFrame({A: pd.Series(cells, dtype=object)})
    (own,) = facts(Domain(declared).check(table))
    assert own[1:3] == (outside, missing)
    assert {*own[3].split(", ")} == {*notes.split(", ")}


def test_other_domains():
    """Positions, lengths of rows, and bounds of a target."""
    box = Domain.box([0, 0], [1, 1], target=(0, 10))
    table = np.array([[0.5, 2.0], [-1.0, 0.5]])
    assert [own[1] for own in facts(box.check(table, [5, 11]))] == [1, 1, 1]
    assert facts(Domain.l2_ball(2, 1.5).check(table)) == [("length of a row", 1, 0, "above 1")]
    joint = DOMAIN.interact("age", "sex")
    assert facts(joint.check(frame())) == FOUND[:2]
    assert DOMAIN.encoded.check(DOMAIN.encode([[20, "male"]])).rows[0]["outside"] == 0


def test_what_is_shown():
    """The share, the mark, escaped cells, and the five most frequent levels alone."""
    check = DOMAIN.check(frame(), target="y")
    assert str(check).startswith("Not for publication")
    assert "66.67%" in str(check)
    assert check.to_frame()["outside"].tolist() == [3, 4, 1]
    odd = DOMAIN.check({"age": [20] * 8, "sex": ["<b>"] + [f"l{k}" for k in range(7)]})
    assert "&lt;b&gt;" in odd._repr_html_()
    assert "<b>'" not in odd._repr_html_()
    assert "Not for publication" in odd._repr_html_()
    assert odd.rows[1]["notes"].count(" 1") == 5


ERRORS = {
    "no column": (lambda: DOMAIN.check({"age": [20]}), "missing from X"),
    "no target": (
        lambda: DOMAIN.check(frame(), target="z"),
        "target must be a column of X, got 'z'",
    ),
    "two targets": (lambda: DOMAIN.check(frame(), CELLS["y"], target="y"), "y must be None"),
    "target of a function": (lambda: DOMAIN.check(pairs, CELLS["y"]), "y must be None"),
    "text in a ball": (
        lambda: Domain.l2_ball(2, 1.0).check(np.array([["secret", 1]], dtype=object)),
        r"^X must have only numbers\.$",  # no cell
    ),
    "no file": (lambda: DOMAIN.check("nope.csv"), "there is none at this path, got 'nope.csv'"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, match = ERRORS[name]
    with pytest.raises((ValueError, OSError), match=match):
        call()


def test_a_domain_alone_imports_no_readers():
    """The check is found by its name when it is called."""
    code = "import sys; from skdp.domain import Domain; sys.exit('skdp.rows.check' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
