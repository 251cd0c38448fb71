"""Estimated bounds for persons with several rows, and with rules for missing cells.

``docs/proofs/estimated_bounds.md``: what one person adds to the counts is checked exactly, for all
pairs of persons from a small set. The twin counts rows, and must exceed the proved norms.
"""

import math
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest
from inner_package import CountNoise, Magnitudes, Steps, counts

from skdp import Domain, DPLogisticRegression, Ledger, estimate_domain
from skdp.bounds.estimate import BoundsPlan, Data, Request
from skdp.model_selection import PrivateSearchCV
from skdp.rows.persons import WHOLE, Persons, Shares

pl = pytest.importorskip("polars")

NAN = math.nan
GRIDS = [Magnitudes(1e6), Steps(-2.0, 2.0, 16)]


def read(rows, ids, missing="indicator", columns=None):
    """What is read of rows of two columns."""
    X = pd.DataFrame(rows, columns=["a", "b"])
    return Request.of(X, columns, None, None, missing, 1e6).read(X, None, ids)


# Counts of numbers


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_counts_are_exact_means_of_the_rows_of_a_person(grid):
    """In integers: each row has the floor of its share, and the first row the remainder."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 60, 400)
    values = np.where(rng.random(400) < 0.2, NAN, rng.normal(0, 2, 400))
    expected = [0] * grid.n
    for person in range(60):
        own = values[ids == person]
        for k, value in enumerate(own):
            share = WHOLE // len(own) + (WHOLE % len(own) if k == 0 else 0)
            if not math.isnan(value):
                expected[grid.cells(np.array([value]))[0]] += share
    shares = Shares(Persons.of_table(ids, 400), 1).members(ids).shares
    assert counts(grid, values, shares).tolist() == expected
    assert counts(grid, np.nan_to_num(values), shares).sum() == 60 * WHOLE


PERSONS = [
    [(1.0, 1.0)],
    [(-100.0, 3.0)],
    [(NAN, 1.0)],
    [(NAN, NAN)],
    [(10.0**k, -(2.0**k)) for k in range(-5, 5)] * 5,
    [(k / 50, NAN if k % 2 else -1e9) for k in range(50)],
    [(-1.0, -1.0)] * 50,
]
OTHERS = [[(0.5, 7.0)] * 3, [(NAN, -1.0), (2.0, 2.0)]]


def weighted(person, grid, weights, by_rows=False):
    """Weighted exact counts of all columns, in persons, with a person among others."""
    persons = [*OTHERS, *([person] if person else [])]
    rows = [row for own in persons for row in own]
    ids = np.repeat(range(len(persons)), [len(own) for own in persons])
    data = read(rows, None if by_rows else ids)
    columns = zip(weights, data.numbers, strict=True)
    return np.concatenate([w * counts(grid, own, data.shares) / WHOLE for w, own in columns])


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_a_person_moves_the_counts_by_the_proved_norms_at_most(grid, neighbors):
    """All pairs of persons with 1 to 50 rows, some with missing cells; both norms are reached."""
    noise = CountNoise(1.0, 1e-6, neighbors, (1, 3))
    one = PERSONS if neighbors == "replace_one" else [None]
    found = []
    for by_rows in (False, True):
        moved = [
            weighted(a, grid, noise.weights, by_rows) - weighted(b, grid, noise.weights, by_rows)
            for a, b in product(one, PERSONS)
        ]
        found.append([max(np.linalg.norm(own, p) for own in moved) for p in (1, 2)])
    proved = [noise._sum, noise._length]
    assert found[0] == pytest.approx(proved, rel=1e-12)
    assert min(found[1]) > 5 * max(proved)


def test_one_row_for_each_person_is_the_estimate_of_rows():
    """Bit for bit with the same seed; so is any number of copies of the rows of each person."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=500), "s": rng.choice(["u", "v"], 500)})
    times = rng.integers(1, 51, 500)
    facts = {"columns": {"a": "bounds", "s": "levels"}, "epsilon": 3.0, "delta": 1e-3}
    expected = estimate_domain(X, random_state=2, **facts)
    long = X.loc[np.repeat(X.index, times)].assign(id=np.repeat(np.arange(500), times))
    for table in (X.assign(id=range(500)), long, long.sample(frac=1, random_state=0)):
        found = estimate_domain(table, groups="id", random_state=2, **facts)
        assert found == expected
    assert expected._columns[0].upper < 10


# Levels


WORDS = [
    ["x"],
    [3, None],
    ["x", "y", "y"],
    ["y", "x"],
    [f"own {k}" for k in range(50)],
    [*"abcde", *["x"] * 2] * 7,
    ["", "missing", "", "missing"],
]


def words_of(person, missing=None, by_rows=False):
    persons = [["x", "y"], ["y"], *([person] if person else [])]
    rows = [(word, 0.0) for own in persons for word in own]
    ids = np.repeat(range(len(persons)), [len(own) for own in persons])
    columns = {"a": "levels", "b": (0, 1)}
    return read(rows, None if by_rows else ids, missing, columns).strings[0]


def test_a_person_counts_for_one_string():
    """That of most of its rows; so a person moves at most two counts by 1, and rows far more."""
    found = [words_of(person) - words_of(None) for person in WORDS]
    most = [["x"], [], ["y"], ["y"], ["own 9"], ["x"], ["missing"]]
    assert found == list(map(Counter, most))
    assert all(words_of(person).total() <= 3 for person in WORDS)
    assert words_of(WORDS[4], by_rows=True).total() == 53


def test_names_of_missing_cells_are_no_levels_under_a_rule():
    """Empty texts are missing cells then, and the indicator has the name of "missing"."""
    assert not words_of(WORDS[-1], "indicator") - words_of(None)
    X = pd.DataFrame({"s": ["", "missing", "x", "y", None] * 400, "s_y": 0.5})
    columns, facts = {"s": "levels", "s_y": (0, 1)}, {"epsilon": 5, "delta": 1e-3}
    found = [
        estimate_domain(X, columns=columns, missing=rule, random_state=0, **facts)
        for rule in (None, {"s": "indicator"})
    ]
    assert set(found[0]._columns[0].levels) <= {"", "missing", "x", "y"}
    assert found[0].estimated.unit == "row"
    assert {"", "missing"} < set(found[0]._columns[0].levels)
    assert set(found[1]._columns[0].levels) <= {"x", "y"}
    assert "s_missing" in found[1].encoded_names()
    column = list(found[1].encoded_names()).index("s_missing")
    assert found[1].encode(X)[:5, column].tolist() == [1, 0, 0, 0, 1]


def test_a_level_with_the_name_of_an_indicator_is_left_out():
    """Without it the names of encoded columns differ, and no error tells of the level."""
    X = pd.DataFrame({"s": ["x"] * 600 + ["y_missing", "z"] * 400, "s_y": 0.5})
    columns, facts = {"s": "levels", "s_y": (0, 1)}, {"epsilon": 5, "delta": 1e-3}
    found = estimate_domain(X, columns=columns, missing="indicator", random_state=0, **facts)
    assert found.encoded_names() == ("s_z", "s_missing", "s_y", "s_y_missing")


# Missing numbers


def test_rules_are_those_of_the_columns():
    X = np.column_stack([np.arange(50.0), np.full(50, NAN), np.arange(50.0)])
    frame = pd.DataFrame(X, columns=list("abc"))
    columns = {"a": "bounds", "b": (0, 9), "c": "bounds"}
    rules = {"b": 3, "c": "middle"}
    found = estimate_domain(frame, columns=columns, missing=rules, epsilon=1)
    assert [column.missing for column in found._columns] == [None, 3.0, "middle"]
    found = estimate_domain(X, missing={1: "indicator"}, epsilon=1)
    assert [column.missing for column in found._columns] == [None, "indicator", None]
    rules = Domain(columns | {"a": (0, 1), "c": (0, 1)}, missing="middle")
    found = estimate_domain(frame, columns=columns, missing="middle", epsilon=1)
    assert [column.missing for column in found._columns] == [c.missing for c in rules._columns]


@pytest.mark.parametrize("cell", [None, NAN, "", pd.NA, pd.NaT])
def test_missing_cells_of_any_kind_are_not_counted(cell):
    rows = [(1.0, 2.0), (cell, 2.0), (1.0, cell)]
    found = read(np.array(rows, object), None)
    sums = [counts(GRIDS[0], own, found.shares).sum() / WHOLE for own in found.numbers]
    assert sums == [2, 2]


@pytest.mark.parametrize("ruled", [{}, {0: "middle"}, "middle"])
def test_a_private_number_of_numbers_is_not_used(ruled):
    """Under add_remove nothing but noisy counts is read, with and without rules."""
    X = np.random.default_rng(0).normal(size=(500, 2))
    for neighbors, is_private in (("add_remove", True), ("replace_one", False)):
        plan = BoundsPlan.of(Request.of(X, None, None, None, ruled, 1e6), 5.0, 0.0, neighbors)
        found = [
            plan.release(Data(n, np.full(500, WHOLE), list(X.T), []), np.random.default_rng(3))
            for n in (1, 500, 50_000)
        ]
        assert (found[0] == found[1] == found[2]) is is_private


# Tables, guarantees, errors


def test_the_guarantee_is_for_persons():
    """In its unit, its card, the domain's text, and the ledger, which does not mix units."""
    X, ids = np.random.default_rng(0).normal(size=(200, 1)), np.arange(200) // 2
    ledger = Ledger(3.0)
    domain = estimate_domain(X, groups=ids, epsilon=0.5, ledger=ledger)
    assert domain.estimated.unit == "person"
    assert domain.estimated.holds
    assert "one person is all rows of X with one identifier" in str(domain.estimated)
    assert repr(domain).endswith("estimated with epsilon = 0.5, delta = 0 per person")
    assert Domain.from_json(domain.to_json()).estimated.unit == "person"
    with pytest.raises(ValueError, match="person"):
        estimate_domain(X, epsilon=0.5, ledger=ledger)
    assert ledger.spent.epsilon == 0.5


@pytest.mark.parametrize(
    ("estimated", "fitted", "said"),
    [("row", "person", "one row under"), ("person", "row", "one person under")],
)
def test_models_name_the_unit_of_the_estimate_if_it_is_another(estimated, fitted, said):
    X, ids = np.random.default_rng(0).normal(size=(200, 1)), np.arange(200) // 2
    groups = {"row": None, "person": ids}
    domain = estimate_domain(X, groups=groups[estimated], target=[False, True], epsilon=0.5)
    text = f"with epsilon = 0.5 and delta = 0 for {said} 'replace_one', which this"
    model = DPLogisticRegression(domain=domain)
    found = model.fit(X, X[:, 0] > 0, groups=groups[fitted])
    assert text in found.guarantee_.assumptions[0]
    search = PrivateSearchCV(model, {"regularization": [0.5, 1.0]}, epsilon=2.0)
    found = search.fit(X, X[:, 0] > 0, groups=groups[fitted])
    assert text in found.guarantee_.assumptions[0]


TABLE = pd.DataFrame({"a": [1.0, 2.0], "city": ["SECRET", "b"], "hole": [1.0, NAN]})
CITY = "declare levels, or give columns={'a': 'bounds', 'city': 'levels'} with delta > 0"
BOTH = {"a": "bounds", "city": "bounds"}
HOLE = 'For missing cells give missing={\'hole\': "indicator"} or "middle"'


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"X": TABLE[["a", "city"]], "columns": BOTH}, CITY),
        ({"X": TABLE[["a", "city"]].astype({"city": "string"}), "columns": BOTH}, CITY),
        ({"X": TABLE[["a", "city"]].astype({"city": "category"}), "columns": BOTH}, CITY),
        ({"X": pl.from_pandas(TABLE[["a", "city"]]), "columns": BOTH}, CITY),
        ({"X": TABLE[["a", "city"]].astype({"city": object})}, CITY),
        ({"X": TABLE[["a", "city"]], "delta": 0}, "or list the levels of ['city']"),
        ({"X": TABLE[["a", "city"]], "epsilon": None}, "columns={'a': 'bounds', 'city': 'levels'}"),
        ({"X": TABLE[["city"]].to_numpy(object)}, "columns={'name': 'levels'}"),
        ({"X": TABLE[["a", "hole"]]}, HOLE),
        ({"X": TABLE[["hole"]].to_numpy()}, 'missing={0: "indicator"}'),
        ({"X": TABLE[["a"]].replace(2.0, np.inf), "missing": "middle"}, "and missing cells"),
        ({"missing": 1.5}, 'missing must be "indicator" or "middle" for a column of estimated'),
        ({"missing": {"a": 0.5}}, 'missing[\'a\'] must be "indicator" or "middle"'),
        ({"missing": {"z": "middle"}}, "missing must name only declared columns"),
        ({"missing": "most"}, "missing must be"),
        ({"columns": {"a": (0, 1)}, "missing": 2}, "a number within the bounds"),
        (
            {"X": TABLE[["city"]], "columns": {"city": "levels"}, "missing": {"city": "middle"}},
            "for a categorical column",
        ),
        ({"groups": "id"}, "groups must be a column of X, which has ['a']"),
        ({"groups": "a", "X": TABLE[["a"]].to_numpy()}, "groups must be a name only if X has"),
        ({"groups": "a"}, "X must have records and columns"),
        ({"groups": [1]}, "groups must have as many entries"),
        ({"groups": [1, None]}, "groups must have an identifier in every row"),
        ({"groups": [{}, {}]}, "identifiers that can be hashed"),
    ],
)
def test_wrong_arguments_raise_before_the_budget(given, words):
    ledger = Ledger(1.0)
    facts = {"X": TABLE[["a"]], "epsilon": 1, "delta": 0.1, "ledger": ledger}
    with pytest.raises(ValueError) as caught:
        estimate_domain(**(facts | given))
    assert words in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
    assert not ledger.entries
