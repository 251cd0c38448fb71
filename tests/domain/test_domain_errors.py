"""Errors tell what is public in full, and of what is private nothing at all."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from declared import LARGEST, PEOPLE, people
from scipy.sparse import csr_array

from skdp.domain import Domain

DECLARATIONS = {
    "infinite bound": (lambda: Domain({"age": (0, math.inf)}), "'age'.*finite.*inf.*public"),
    "NaN bound": (lambda: Domain.box([0, math.nan], [1, 1]), "column 1 .*finite.*nan"),
    "huge integer": (lambda: Domain({"age": (0, 10**400)}), "'age'.*finite"),
    "bounds in the wrong order": (lambda: Domain({"age": (5, 3)}), r"'age'.*<.*\(5, 3\)"),
    "equal bounds": (lambda: Domain({"age": (5, 5)}), r"'age'.*<.*\(5, 5\).*Leave out"),
    "bounds too close": (lambda: Domain({"x": (0, 5e-324)}), "'x'.*apart.*Rescale"),
    "three bounds": (lambda: Domain({"x": (1, 2, 3)}), r"'x'.*pair.*\(1, 2, 3\).*list"),
    "levels in a tuple": (lambda: Domain({"x": ("a", "b")}), "'x'.*pair.*as a list"),
    "bools as bounds": (lambda: Domain({"x": (False, True)}), "'x'.*pair.*as a list"),
    "no levels": (lambda: Domain({"x": []}), "'x'.*at least one level"),
    "repeated level": (lambda: Domain({"x": ["a", "b", "a"]}), "'x'.*distinct.*'a'.*once"),
    "equal levels": (lambda: Domain({"x": [1, True]}), "'x'.*distinct.*True"),
    "equal numbers": (lambda: Domain({"x": [1, 2, 1.0]}), "'x'.*distinct.*1.0"),
    "missing level": (lambda: Domain({"x": ["a", None]}), "'x'.*missing.*other"),
    "NaN level": (lambda: Domain({"x": [np.nan, 1]}), "'x'.*missing.*nan"),
    "NA level": (lambda: Domain({"x": [pd.NA, 1]}), "'x'.*missing.*NA"),
    "level not hashable": (lambda: Domain({"x": [["a"]]}), "'x'.*hashable"),
    "set of levels": (lambda: Domain({"x": {"a", "b"}}), "'x'.*order"),
    "string of levels": (lambda: Domain({"x": "abc"}), "'x'.*list of levels.*'abc'"),
    "number as a column": (lambda: Domain({"x": 3}), "'x'.*list of levels.*3"),
    "no columns": (lambda: Domain({}), "at least one column"),
    "no dict": (lambda: Domain([(0, 1)]), "dict"),
    "name not a string": (lambda: Domain({"a": (0, 1), 1: (0, 1)}), "strings.*1.*Domain.box"),
    "repeated name": (lambda: Domain.box([0, 0], [1, 1], names=["a", "a"]), "differ.*'a'"),
    "too few names": (lambda: Domain.box([0, 0], [1, 1], names=["a"]), "2 entries.*1"),
    "colliding name": (
        lambda: Domain({"x_b": (0, 1), "x": ["a", "b"]}),
        "encoded.*differ.*'x_b'.*Rename",
    ),
    "other is no level": (
        lambda: Domain({"x": ["a", "b"]}, other={"x": "c"}),
        r"other\['x'\].*\['a', 'b'\].*'c'",
    ),
    "other of a number": (
        lambda: Domain({"x": (0, 1), "k": [1, 2]}, other={"x": 0}),
        r"other.*\['k'\].*'x'",
    ),
    "other of no column": (lambda: Domain({"k": [1, 2]}, other={"z": 1}), "other.*'z'"),
    "other no dict": (lambda: Domain({"k": [1, 2]}, other="k"), "other.*dict.*'k'"),
    "lengths": (lambda: Domain.box([0, 0], [1]), "upper.*2.*1.*both"),
    "scalar bounds": (lambda: Domain.box(0, 1), "lower.*one entry"),
    "text as bound": (lambda: Domain.box(["a"], [1]), "column 0.*pair"),
    "empty box": (lambda: Domain.box([], []), "number of columns.*>= 1.*0"),
    "no dimension": (lambda: Domain.unit_box(0), "d must.*>= 1.*0"),
    "ball without dimension": (lambda: Domain.l2_ball(0, 1.0), "d must.*>= 1.*0"),
    "radius zero": (lambda: Domain.l2_ball(2, 0), "radius.*0"),
    "radius negative": (lambda: Domain.l2_ball(2, -1.5), "radius.*-1.5"),
    "radius NaN": (lambda: Domain.l2_ball(2, math.nan), "radius.*nan"),
    "target bounds": (lambda: Domain.unit_box(1, target=(1, 0)), r"target.*<.*\(1, 0\)"),
    "target labels": (lambda: Domain.unit_box(1, target=["a", "a"]), "target.*distinct.*'a'"),
    "p too small": (lambda: PEOPLE.row_norm(0.5), "p must.*0.5"),
    "coef too short": (lambda: PEOPLE.decode_coef(np.ones(3)), r"coef.*5 columns.*\(3,\)"),
    "no target": (lambda: Domain.unit_box(1).encode_target([0]), "target.*bounds.*lower, upper"),
    "labels, no bounds": (
        lambda: Domain.unit_box(1, target=["n", "y"]).decode_target([0]),
        r"target.*bounds.*\['n', 'y'\]",
    ),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_errors_about_declarations(name):
    declare, pattern = DECLARATIONS[name]
    with pytest.raises(ValueError, match=pattern):
        declare()


@pytest.mark.parametrize("kind", [pd.Series, np.array, pd.Categorical])
def test_a_column_in_the_place_of_its_levels_is_not_printed(kind):
    """It has cells of persons; only a list is written by hand."""
    with pytest.raises(ValueError, match=r"distinct.*List") as caught:
        Domain({"x": kind(["secret", "secret"])})
    assert "secret" not in str(caught.value)


TABLES = {
    "missing column": (people().drop(columns="sex"), r"\['sex'\].*missing.*add"),
    "extra columns": (people(shoe=1, hat=2), r"Drop.*\['shoe', 'hat'\].*declare"),
    "column twice": (people()[["age", "sex", "hours", "job", "age"]], "once.*'age'"),
    "too few columns": (np.zeros((7, 3)), "4 columns, got 3"),
    "one dimension": (np.zeros(4), "two dimensions, got 1.*Reshape your data"),
    "complex": (np.zeros((7, 4), dtype=complex), "Complex data not supported"),
    "sparse": (csr_array((7, 4)), "sparse.*toarray"),
}


@pytest.mark.parametrize("name", TABLES)
def test_errors_about_tables(name):
    table, pattern = TABLES[name]
    with pytest.raises(ValueError, match=pattern) as caught:
        PEOPLE.encode(table)
    assert "7" not in str(caught.value)  # the number of rows may be private


def test_other_libraries_tables_are_refused():
    """By position they would be read in the wrong order without a word."""

    class Table:
        columns = ("age", "sex", "hours", "job")

    with pytest.raises(ValueError, match=r"pandas DataFrame.*to_pandas"):
        PEOPLE.encode(Table())


@pytest.mark.parametrize("out", [np.zeros((4, 4)), np.zeros((4, 5), np.float32), "out"])
def test_out_must_fit(out):
    with pytest.raises(ValueError, match="out must be a float64 array of 5 columns"):
        PEOPLE.encode(people(), out=out)


SECRETS = {
    "NaN": [1.0, math.nan, 2.0, 3.0],
    "inf": [1.0, math.inf, 2.0, 3.0],
    "-inf": [1.0, -math.inf, 2.0, 3.0],
    "text": [1.0, "Zanzibar", 2.0, 3.0],
    "bytes": [1.0, b"Zanzibar", 2.0, 3.0],
    "None": [1.0, None, 2.0, 3.0],
    "NA": [1.0, pd.NA, 2.0, 3.0],
    "dict": [1.0, {"Zanzibar": 1}, 2.0, 3.0],
    "list": [1.0, [986], 2.0, 3.0],
    "nullable": pd.array([1, None, 2, 3], dtype="Int64"),
    "dates": pd.to_datetime(["1986-01-01"] * 4),
    "strings": np.array(["Zanzibar"] * 4),
}
PRIVATE_ERROR = (
    "column 'hours' must contain only finite numbers: no NaN, no inf, and every argument must be "
    "a real number or a string that represents a number. "
    "For missing cells declare missing={'hours': \"indicator\"} in the domain, or a number within "
    "the bounds. Drop or fill the other cells by a public rule before this step."
)
TARGET_ERROR = re.sub(" For missing.*bounds.", "", PRIVATE_ERROR).replace(
    "column 'hours'", "target"
)


def private_error(call):
    """The sentence of an error, after checking that nothing else travels with it."""
    with pytest.raises(ValueError) as caught:
        call()
    error = caught.value
    assert isinstance(error, TypeError)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert error.args == (str(error),)
    return str(error)


@pytest.mark.parametrize("name", SECRETS)
def test_bad_numbers_tell_the_column_and_nothing_else(name, recwarn):
    """One sentence for every cause. In a frame the type of the column may change the remedy."""
    frame = people(hours=SECRETS[name])
    shown = private_error(lambda: PEOPLE.encode(frame))
    remedy = {"dates": "Use days since a public date", "strings": "Drop.* declare its levels"}
    # Before version 3 pandas has no type for texts.
    if name in remedy and frame["hours"].dtype != object:
        assert re.match(
            re.escape(PRIVATE_ERROR.partition(" For missing")[0]) + f" {remedy[name]}", shown
        )
    else:
        assert shown == PRIVATE_ERROR
    array = frame.to_numpy(object)
    assert private_error(lambda: PEOPLE.encode(array)) == PRIVATE_ERROR
    assert not recwarn.list


def test_large_numbers_are_clipped_though_their_sum_overflows(recwarn):
    rows = np.full((100, 2), LARGEST)
    np.testing.assert_array_equal(Domain.unit_box(2).encode(rows), 1)
    np.testing.assert_array_equal(Domain.box([0, 0], [1, LARGEST]).encode(-rows), -1)
    assert not recwarn.list


@pytest.mark.parametrize("bad", [math.nan, math.inf, "Zanzibar", None, pd.NA])
def test_bad_targets_tell_nothing(bad):
    for y in ([1.0, bad], pd.Series([1.0, bad], dtype=object)):
        message = private_error(lambda y=y: PEOPLE.encode_target(y))
        assert message == TARGET_ERROR


def test_indicators_must_be_finite_too():
    rows = [[0, math.nan, 0, 0, 0]]
    assert private_error(lambda: PEOPLE.encoded.encode(rows)).startswith("column 'sex_Male'")
