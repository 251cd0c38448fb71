"""A small domain with a table of it, and strategies for any domain, for this folder's tests."""

import sys

import numpy as np
import pandas as pd
from hypothesis import assume
from hypothesis import strategies as st

from skdp import Spline
from skdp.domain import Domain
from skdp.domain.splines import GRID

LARGEST = sys.float_info.max
PEOPLE = Domain(
    {"age": (17, 90), "sex": ["Female", "Male"], "hours": (1, 99), "job": ["a", "b", "c"]},
    target=(0, 50_000),
)


def people(**columns):
    table = {
        "age": [17, 53.5, 90, 200],
        "sex": ["Male", "Female", "unheard of", None],
        "hours": [50, -7, 99, 1],
        "job": ["a", "b", "c", float("nan")],
    }
    return pd.DataFrame(table | columns)


ENCODED_PEOPLE = np.array(
    # age, sex_Male, hours, job_b, job_c
    [[-1, 1, 0, 0, 0], [0, 0, -1, 1, 0], [1, 0, 1, 0, 1], [1, 0, -1, 0, 0]],
    dtype=float,
)


# Any domain of named columns, with its declaration

finite = st.floats(allow_nan=False, allow_infinity=False)
LEVELS = st.lists(st.sampled_from(["a", "b", "c", "d", 0, 1, 1.5]), min_size=1, unique=True)

WORDS = ["indicator", "middle"]


@st.composite
def bounds(draw):
    lower, upper = sorted([draw(finite), draw(finite)])
    assume(upper / 2 - lower / 2 > 1e-300)
    return lower, upper


@st.composite
def domains(draw):
    declared = draw(st.lists(bounds() | LEVELS, min_size=1, max_size=6))
    columns = {f"column {k}": column for k, column in enumerate(declared)}
    other = {
        name: draw(st.sampled_from(levels))
        for name, levels in columns.items()
        if isinstance(levels, list) and draw(st.booleans())
    }
    missing = {
        name: draw(st.sampled_from(["indicator"] if isinstance(own, list) else [*WORDS, *own]))
        for name, own in columns.items()
        if draw(st.booleans())
    }
    return Domain(columns, other=other, missing=missing), columns


# Curves

SPLINES = [
    Spline(17, 90, knots=5, degree=0),
    Spline(-1, 1, knots=7, degree=1),
    Spline(0, 1e6, knots=(10.0, 1e3, 5e5), degree=1),
    Spline(0, 1, knots=4, degree=2),
    Spline(-3, 5, knots=9, degree=3),
    Spline(0, 1, knots=(), degree=3),
    Spline(0, 1, knots=3, degree=1, missing="indicator"),
]


def whole(values):
    """Return all values of rows or nodes, the first one included, which is not encoded."""
    return np.column_stack([1 - values.sum(axis=1), values])


def check_simplex(table, most):
    """All bounds of columns of levels need: values >= 0 on a grid that add up to exactly 1."""
    values = whole(table)
    assert (values >= 0).all()
    assert (values / GRID == np.rint(values / GRID)).all()
    assert (values.sum(axis=1) == 1).all()  # without rounding, on the grid
    assert ((values > 0).sum(axis=1) <= most).all()
