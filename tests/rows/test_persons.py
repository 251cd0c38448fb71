"""Persons: shares of rows, exact sums, fits by groups, and what must not depend on their rows."""

import itertools
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_fits import exact_gram, exact_sums
from inner_package import UNITS, parts
from public_estimators import CLASSIFIERS, ESTIMATORS
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skdp
from examples.benchmarks.attacks.attack_sources import moments, sources
from examples.benchmarks.attacks.attack_sources import panel as panel_of
from skdp import Domain, DPLinearRegression, DPLogisticRegression, Guarantee, Ledger
from skdp.model_selection import PrivateSearchCV, RecordScore
from skdp.privacy import compose
from skdp.rows import MemoryRows, tables
from skdp.rows.persons import WHOLE, Persons, Shares, runs_of
from skdp.trusted import Public, certify

COLUMNS = {"a": (-1, 1), "b": (-2.0, 2.0), "c": ["u", "v", "w"]}


def panel(n_persons=60, most=7, seed=0):
    """Rows of persons in a random order, with identifiers, labels and numbers as targets."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(n_persons), rng.integers(1, most + 1, n_persons)))
    n = len(ids)
    X = pd.DataFrame(
        {"a": rng.uniform(-1, 1, n), "b": rng.uniform(-2, 2, n), "c": rng.choice(list("uvw"), n)}
    )
    return X, rng.choice(["no", "yes"], n), rng.uniform(-1, 1, n), ids


def domain_for(kind):
    if issubclass(kind, skdp.DPPoissonRegressor):
        return Domain(COLUMNS, target=(0.0, 1.0))
    return Domain(COLUMNS, target=["no", "yes"] if kind in CLASSIFIERS else (-1.0, 1.0))


def fitted(kind, X, labels, numbers, groups, **settings):
    y = labels if kind in CLASSIFIERS else numbers
    model = kind(domain=domain_for(kind), random_state=0, epsilon=5.0, **settings)
    return model.fit(X, y, groups=groups)


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("coef_", "intercept_")
    )


# Shares


@pytest.mark.parametrize("cap", [1, 2, 5])
def test_shares_of_a_person_add_up_to_at_most_one_person(cap):
    """Exactly, and to exactly one if a person has as many rows as the cap."""
    _, _, _, ids = panel(300, 50)
    shares = shares_of(ids, cap)
    for person, m in zip(*np.unique(ids, return_counts=True), strict=True):
        own = shares[ids == person]
        assert (own > 0).sum() == m
        assert own.sum() <= WHOLE
        assert own.sum() == WHOLE or m < cap
        # Each row counts nearly 1 / m.
        assert own[own > 0] == pytest.approx(WHOLE / max(m, cap), abs=int(m))


def shares_of(ids, cap=1):
    return Shares(Persons.of([ids]), cap).members(ids).shares


def test_the_share_of_a_row_depends_on_its_person_only():
    _, _, _, ids = panel()
    shares = shares_of(ids)
    for person in range(5):
        others = np.where(ids == person, ids, ids + 1000)[ids != (person + 1)]
        np.testing.assert_array_equal(shares_of(others)[others == person], shares[ids == person])


@pytest.mark.parametrize("sizes", [(1,) * 30, (10, 20), (7, 1, 2, 20), (0, 30), (5, 0, 25)])
@pytest.mark.parametrize("kind", ["integers", "strings", "mixed"])
def test_the_share_of_a_row_does_not_depend_on_batches_or_partitions(kind, sizes):
    """Neither on the batches in which identifiers were counted, nor on those that are read."""
    ids = np.random.default_rng(1).integers(0, 6, 30)
    if kind != "integers":
        ids = np.array([f"p{i}" if i % 2 or kind == "strings" else i for i in ids], dtype=object)
    whole = Shares(Persons.of([ids]), 1).members(ids)
    for person in set(ids.tolist()):
        assert whole.shares[ids == person].sum() == WHOLE
    cut = np.split(ids, np.cumsum(sizes)[:-1])
    for counted in ([ids], cut, cut[::-1]):
        shares = Shares(Persons.of(counted), 1)
        found = [shares.members(batch) for batch in cut]
        assert np.concatenate([own.shares for own in found]).tolist() == whole.shares.tolist()
    # Partitions are read side by side, each with what it needs of the persons.
    persons, parts = Persons.of_parts(cut)
    expected = Shares(Persons.of(cut), 1).members(ids)
    found = [Shares(part, 1).members(own) for part, own in zip(parts, cut, strict=True)]
    assert len(persons) == 6
    assert np.concatenate([own.shares for own in found]).tolist() == expected.shares.tolist()
    assert np.concatenate([own.codes for own in found]).tolist() == expected.codes.tolist()


@settings(deadline=None, max_examples=200)
@given(
    first=st.lists(st.lists(st.integers(0, 4), max_size=8), min_size=1, max_size=4),
    later=st.lists(st.lists(st.integers(0, 6), max_size=20), max_size=5),
    cap=st.integers(1, 4),
)
def test_shares_add_up_to_at_most_one_person_whatever_is_read_later(first, later, cap):
    """Rows that have appeared since the first reading have no share, in batches and partitions."""
    first = [np.array(own, dtype=np.int64) for own in first]
    later = [np.array(own, dtype=np.int64) for own in later]
    whole, parts = Persons.of_parts(first)
    in_batches = Shares(whole, cap)
    totals = np.zeros((2, 7), object)
    for own in later:
        np.add.at(totals[0], own, in_batches.members(own).shares)
    for part, own in zip(parts, later, strict=False):
        np.add.at(totals[1], own, Shares(part, cap).members(own).shares)
    assert totals.max() <= WHOLE
    known = np.unique(np.concatenate(first))
    assert not totals[:, np.setdiff1d(np.arange(7), known)].any()


KINDS = {
    "int64": lambda ids: ids,
    "int8": lambda ids: ids.astype(np.int8),
    "uint64": lambda ids: ids.astype(np.uint64) + 2**63,
    "strings": lambda ids: np.array([f"p{i}" for i in ids]),
    "objects": lambda ids: np.array([f"p{i}" if i % 2 else i for i in ids], dtype=object),
    "list": lambda ids: [int(i) for i in ids],
    "floats": lambda ids: ids / 2,
    "dates": lambda ids: np.datetime64("2020-01-01") + ids,
    "category": lambda ids: pd.Series(ids).astype("category"),
    "string": lambda ids: pd.Series([f"p{i}" for i in ids], dtype="string"),
    "Int64": lambda ids: pd.Series(ids, dtype="Int64"),
    "column": lambda ids: pd.DataFrame({"id": ids}),
    "tuples": lambda ids: pd.Series([("ward", int(i)) for i in ids]),
    "other order": lambda ids: np.array([f"person {1000 - i}" for i in ids]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_identifiers_of_any_hashable_type(kind):
    X, labels, numbers, ids = panel(30)
    expected = fitted(DPLogisticRegression, X, labels, numbers, ids)
    assert same(fitted(DPLogisticRegression, X, labels, numbers, KINDS[kind](ids)), expected)


def test_equal_identifiers_are_one_person_whatever_the_others_are():
    """Numbers and strings in one list stay different: no row changes who another row belongs to."""
    persons = Persons.of([[1, "p1", 1, "x"]])
    assert persons.counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("ids", [[3, 1], [3, "x"]])
def test_identifiers_of_a_later_reading_that_are_not_known_have_no_share(ids):
    """Whether they have the type of the known ones or another."""
    persons = Persons.of([ids])
    for later in ([2, 9], ["1", "y"], [1.5, 2.5]):
        assert persons.codes(later).tolist() == [-1, -1]
        assert Shares(persons, 1).members(later).shares.tolist() == [0, 0]


@pytest.mark.parametrize("batches", [[[1, 2, "1"]], [np.array([1, 2]), np.array(["1", "A2"])]])
def test_numbers_and_strings_of_numbers_are_refused(batches):
    """A reader that infers types for parts of a file would count the person 1 twice."""
    with pytest.raises(ValueError, match="not mix numbers and strings of numbers"):
        Persons.of(batches)


def test_days_are_the_same_in_every_unit():
    days = np.datetime64("2020-01-01") + np.arange(3)
    persons = Persons.of([days, days.astype("M8[ns]"), days.astype("M8[s]")])
    assert persons.counts.tolist() == [3, 3, 3]
    assert persons.codes(days.astype("M8[ms]")).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "ids",
    [
        np.datetime64("2020-01-01", "ns") + np.arange(3),
        np.array([2**62, 2**61], "m8[s]"),
        np.array(["9999999-01-01", "2020-01-01"], "M8[D]"),
    ],
    ids=["nanoseconds", "far", "far days"],
)
def test_times_that_a_common_unit_would_make_equal_are_refused(ids):
    """Different identifiers are never one person."""
    with pytest.raises(ValueError, match="groups must be times of whole microseconds"):
        Persons.of([ids])


MISSING = "groups must have an identifier in every row"
BAD = {
    "None": ([None, 1, 2], MISSING),
    "nan": (np.array([np.nan, 1.0, 2.0]), MISSING),
    "NaT": (np.array(["NaT", "2020", "2021"], dtype="datetime64[D]"), MISSING),
    "NA": (pd.Series([None, 1, 2], dtype="Int64"), MISSING),
    "missing string": (pd.Series([None, "a", "b"]), MISSING),
    "decimal": ([Decimal("NaN"), Decimal(1), Decimal(2)], MISSING),
    "few": ([1, 2], "as many entries as X"),
    "two columns": ([[1, 2], [1, 2], [1, 2]], "1d array"),
    "name": ("who", "column"),
    "dicts": ([{}, {}, {}], "hashed"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_identifiers_are_refused_before_anything_is_spent(kind):
    groups, message = BAD[kind]
    ledger = Ledger(1.0)
    model = DPLogisticRegression(domain=Domain.unit_box(1, target=[0, 1]), ledger=ledger)
    with pytest.raises(ValueError, match=message) as error:
        model.fit(np.zeros((3, 1)), [0, 1, 0], groups=groups)
    assert ledger.spent.epsilon == 0
    assert "2020" not in str(error.value)
    assert any("No budget was spent" in note for note in error.value.__notes__)


# Exact sums


def person_means(values, ids):
    """The sum over persons of the exact mean of their rows, as fractions of integers."""
    shares = shares_of(ids)
    return sum(Fraction(int(s), WHOLE) * v for s, v in zip(shares, values, strict=True))


@pytest.mark.parametrize("rows", [3, 500])
def test_sums_are_exact_convex_combinations(rows):
    rng = np.random.default_rng(2)
    ids = rng.integers(0, max(2, rows // 4), rows)
    X = rng.integers(-(2**20), 2**20, (rows, 2)) / 2.0**20
    y = rng.integers(-(2**20), 2**20, rows) / 2.0**20
    members = Shares(Persons.of([ids]), 1).members(ids)
    source = MemoryRows(Domain.unit_box(2, target=(-1.0, 1.0)), X, y, members)
    table = np.column_stack([np.ones(rows), X, y]) * 2.0**20
    gram = exact_gram(source)
    for i, j in itertools.product(range(4), range(4)):
        own = [int(a) * int(b) for a, b in zip(table[:, i], table[:, j], strict=True)]
        assert gram[i, j] == person_means(own, ids)
    sums, squares, count = exact_sums(source)
    assert count == len(np.unique(ids))
    assert sums[0] == person_means([int(a) * 2**20 for a in table[:, 1]], ids)
    assert squares[2] == person_means([int(a) ** 2 for a in table[:, 3]], ids)


# Fits


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_persons_with_one_row_are_fitted_like_rows_where_the_noise_is_the_same(kind, delta):
    """Sums and gradients need no more noise for persons. An objective has another condition."""
    X, labels, numbers, _ = panel(80, 1)
    ids = np.arange(80)
    persons = fitted(kind, X, labels, numbers, ids, delta=delta)
    rows = fitted(kind, X, labels, numbers, None, delta=delta)
    assert persons.guarantee_.unit == "person"
    assert rows.guarantee_.unit == "row"
    if hasattr(kind(), "additive"):
        assert not same(persons, rows)
    else:
        assert same(persons, rows)


@pytest.mark.parametrize(
    ("neighbors", "settings"), [("replace_one", {"rows_per_person": 3}), ("add_remove", {})]
)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_estimator_fits_persons(kind, neighbors, settings):
    X, labels, numbers, ids = panel()
    model = fitted(kind, X, labels, numbers, ids, neighbors=neighbors, **settings)
    assert model.guarantee_.unit == "person"
    assert (model.guarantee_.epsilon, model.guarantee_.neighbors) == (5.0, neighbors)
    assert "one person is all rows of X with one identifier" in str(model.guarantee_)
    assert len(model.predict(X)) == len(X)
    assert pickle.loads(pickle.dumps(model)).guarantee_ == model.guarantee_


@pytest.mark.parametrize("settings", [{}, {"scaling_share": 0}], ids=["scaled", "plain"])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_person_with_equal_rows_counts_as_one_row(kind, settings):
    """Rows of full weight would change the model: a third of the persons get 64 rows each."""
    if kind is DPLinearRegression:
        settings = {}
    X, labels, numbers, ids = panel(60, 1)
    times = np.where(ids < 20, 64, 1)
    again = np.repeat(np.arange(60), times)
    once = fitted(kind, X, labels, numbers, ids, **settings)
    parts = X.iloc[again].reset_index(drop=True), labels[again], numbers[again], ids[again]
    often = fitted(kind, *parts, **settings)
    assert often.coef_ == pytest.approx(once.coef_, abs=1e-6)
    assert often.intercept_ == pytest.approx(once.intercept_, abs=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_cap_under_replace_one_is_planned_as_removal_and_addition(delta):
    settings = {"delta": delta, "rows_per_person": 4}
    X, labels, numbers, ids = panel()
    model = fitted(DPLinearRegression, X, labels, numbers, ids, **settings)
    assert model.guarantee_.epsilon == 5.0
    assert model.guarantee_.losses == ()
    releases = model._plan(model._design, 60, 1, "person").releases
    assert all(release.change.neighbors == "add_remove" for release in releases)
    half = Public(2.5, delta / (1 + np.exp(2.5)), "add_remove", "person")
    assert certify(releases, half).delta * (1 + np.exp(2.5)) <= delta
    assert model.guarantee_.delta in (0.0, delta)


def test_a_mechanism_of_its_own_is_refused_for_persons_with_a_delta():
    X, labels, numbers, ids = panel()
    with pytest.raises(ValueError, match="mechanism must be a name or a norm ball"):
        fitted(DPLogisticRegression, X, labels, numbers, ids, mechanism="logistic", delta=1e-6)
    model = fitted(DPLogisticRegression, X, labels, numbers, ids, mechanism="gaussian", delta=1e-6)
    assert model.guarantee_.unit == "person"


def test_identifiers_may_be_a_column():
    X, labels, numbers, ids = panel()
    table = X.assign(who=ids, y=labels)
    model = DPLogisticRegression(domain=domain_for(DPLogisticRegression), random_state=0, epsilon=5)
    expected = fitted(DPLogisticRegression, X, labels, numbers, ids)
    assert same(model.fit(table, target="y", groups="who"), expected)
    assert model.n_features_in_ == 3


@pytest.mark.parametrize("source", ["batches", "parquet", "csv", "dask"])
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearRegression])
def test_rows_of_a_person_may_lie_in_several_batches(kind, source, tmp_path):
    X, labels, numbers, ids = panel(60)
    # One row for each share, so that the remainder falls on the same rows.
    order = np.argsort(ids, kind="stable")
    y = labels if kind in CLASSIFIERS else numbers
    table = X.assign(who=ids, y=y).iloc[order].reset_index(drop=True)
    expected = fitted(kind, X.iloc[order], labels[order], numbers[order], ids[order])
    if source == "batches":
        cut = [table.iloc[a : a + 17] for a in range(0, len(table), 17)]
        data = lambda: iter(cut)  # noqa: E731
    elif source == "dask":
        dd = pytest.importorskip("dask.dataframe")
        data = dd.from_pandas(table, npartitions=4)
    else:
        pytest.importorskip("pyarrow")
        data = tmp_path / f"rows.{source}"
        getattr(table, f"to_{source}")(data, index=False)
    model = kind(domain=domain_for(kind), random_state=0, epsilon=5.0)
    model.fit(data, target="y", groups="who")
    assert model.guarantee_ == expected.guarantee_
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("columns", [3, 17])
def test_the_sums_of_persons_are_those_of_memory_wherever_the_rows_are(
    columns, tmp_path, monkeypatch
):
    """Bit by bit for one seed. Files are read in batches whose sizes depend on the columns."""
    monkeypatch.setattr(tables, "BATCH_ROWS", 300)
    monkeypatch.setattr(tables, "BATCH_CELLS", 2000)
    pytest.importorskip("pyarrow")
    pytest.importorskip("dask.dataframe")
    table = panel_of(columns, 90, 30)
    released = [moments(table, data) for data in sources(table, tmp_path, 2000)]
    assert len(released) == 13
    assert len(set(released)) == 1


def growing(table, late, first_readings):
    """A function whose later readings have further rows of a known person."""
    readings = []

    def batches():
        readings.append(1)
        whole = table if len(readings) <= first_readings else pd.concat([table, late])
        return (whole[at : at + 100] for at in range(0, len(whole), 100))

    return batches


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kind", [DPLinearRegression, DPLogisticRegression])
def test_rows_of_a_person_that_appear_after_the_identifiers_were_read_do_not_count(kind, neighbors):
    """One person with many late rows would otherwise count as many persons."""
    X, labels, numbers, ids = panel(200)
    y = labels if kind in CLASSIFIERS else numbers
    table = X.assign(who=ids, y=y)
    late = table[:1].loc[[0] * 4000].assign(a=1.0, y="yes" if kind in CLASSIFIERS else 1.0)
    model = kind(domain=domain_for(kind), epsilon=5.0, neighbors=neighbors, random_state=0)
    expected = clone(model).fit(lambda: iter([table]), target="y", groups="who")
    # The first readings are those of names, numbers of rows and identifiers.
    found = model.fit(growing(table, late, 3), target="y", groups="who")
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [DPLinearRegression, DPLogisticRegression])
def test_rows_of_persons_that_vanish_are_found_where_their_weight_is_public(kind):
    """Under replace-one every person has the weight 1 at each reading."""
    X, labels, numbers, ids = panel(200)
    table = X.assign(who=ids, y=labels if kind in CLASSIFIERS else numbers)
    fewer = growing(table[:-1], table[-1:].assign(who=-1), 0)  # the last person lost a row
    readings = []

    def batches():
        readings.append(1)
        return iter([table]) if len(readings) <= 3 else fewer()

    ledger = Ledger(5.0)
    model = kind(domain=domain_for(kind), epsilon=1.0, ledger=ledger)
    with pytest.raises(ValueError, match="same rows at each reading"):
        model.fit(batches, target="y", groups="who")
    assert ledger.spent.epsilon == 0
    readings.clear()
    model.set_params(neighbors="add_remove").fit(batches, target="y", groups="who")


@pytest.mark.parametrize("source", ["batches", "dask"])
@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.array([1, 2]), "be the name of a column"),
        ("else", "be a column of X"),
        ("y", "be another column than the target"),
    ],
)
def test_identifiers_of_batches_are_a_column(groups, message, source):
    X, labels, _, ids = panel()
    table = X.assign(who=ids, y=labels)
    data = lambda: iter([table])  # noqa: E731
    if source == "dask":
        data = pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=2)
    model = DPLogisticRegression(domain=domain_for(DPLogisticRegression))
    with pytest.raises(ValueError, match=message):
        model.fit(data, target="y", groups=groups)


# The search


@pytest.mark.parametrize("routing", [False, True])
def test_the_search_is_private_for_persons(routing):
    X, labels, _, ids = panel(200, 5)
    domain = domain_for(DPLogisticRegression)
    pipeline = make_pipeline(domain.encoder(), DPLogisticRegression(domain=domain.encoded))
    grid = {"dplogisticregression__mechanism": ["l1", "hull"]}
    ledger = Ledger(2.0)
    search = PrivateSearchCV(pipeline, grid, epsilon=2.0, ledger=ledger)
    with sklearn.config_context(enable_metadata_routing=routing):
        search.fit(X, labels, groups=ids)
    assert search.guarantee_.unit == "person"
    assert search.best_estimator_[-1].guarantee_ == search.guarantee_
    assert {entry.unit for entry in ledger.entries} == {"person"}


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_all_rows_of_a_person_are_in_one_part(neighbors):
    _, _, _, ids = panel(300, 6)
    rng = np.random.default_rng(0)
    found = parts(300, [0.4, 0.4, 0.2], neighbors, rng, ids)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(ids)))
    owners = [set(ids[rows].tolist()) for rows in found]
    assert sum(map(len, owners)) == 300
    if neighbors == "replace_one":
        assert list(map(len, owners)) == [120, 120, 60]


def test_the_score_of_a_person_is_the_mean_of_its_rows_rounded_down():
    score = RecordScore(lambda model, X, y: np.asarray(y, dtype=float))
    X, y = np.zeros((6, 1)), np.array([1.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    persons = np.array([3, 3, 3, 5, 9, 9])
    half = UNITS // 2
    assert score.total(None, X, y, persons) == half // 3 + half + 0
    one = score.total(None, X[3:], y[3:], persons[3:])
    assert -half <= score.total(None, X, y, persons) - one <= half


# Guarantees and ledgers


def test_the_card_says_persons():
    text = str(Guarantee(1.0, unit="person"))
    assert "all rows of any one person replaced by any others" in " ".join(text.split())
    assert "knows every other person" in " ".join(text.split())
    assert "record" not in text


def test_units_do_not_mix():
    row, person = Guarantee(0.1), Guarantee(0.1, unit="person")
    with pytest.raises(ValueError, match="share one unit"):
        compose(row, person)
    assert compose(person, person).unit == "person"
    ledger = Ledger(1.0)
    ledger.spend(person)
    with pytest.raises(ValueError, match=r"unit 'person'.*got 'row'.*Fit with `groups`"):
        ledger.spend(row)
    assert ledger.spent.epsilon == 0.1


def test_units_survive_the_file(tmp_path):
    ledger = Ledger(1.0, path=tmp_path / "ledger.sqlite3")
    ledger.spend(Guarantee(0.1, neighbors="add_remove", unit="person"))
    again = Ledger(1.0, path=tmp_path / "ledger.sqlite3")
    assert (again.entries[0].unit, again.entries[0].neighbors) == ("person", "add_remove")
    with pytest.raises(ValueError, match="unit"):
        again.spend(Guarantee(0.1, neighbors="add_remove"))
    again.spend(Guarantee(0.01, neighbors="add_remove").group(20, unit="person"))
    assert again.spent.epsilon == pytest.approx(0.3)


def test_a_group_of_rows_is_a_person():
    row = Guarantee(0.1, 1e-9, neighbors="add_remove")
    person = row.group(20, unit="person")
    assert (person.epsilon, person.unit) == (2.0, "person")
    assert person.delta == pytest.approx(1e-9 * np.expm1(2.0) / np.expm1(0.1), rel=1e-9)
    assert row.group(1) == row
    assert row.group(3).unit == "row"
    assert Guarantee(50.0, 1e-9).group(20).delta == 1.0
    assert Guarantee(0.1).group(10**9).epsilon == 1e8
    assert Guarantee(0.0, 1e-9).group(7).delta >= 7e-9


@pytest.mark.parametrize(
    ("guarantee", "unit"),
    [(Guarantee(0.1, unit="person"), "row"), (Guarantee(0.1), "person"), (Guarantee(0.1), "house")],
)
def test_units_that_cannot_be_converted_are_refused(guarantee, unit):
    with pytest.raises(ValueError, match="unit"):
        guarantee.group(2, unit=unit)


def test_runs_leave_out_rows_without_a_share():
    order, runs = runs_of(np.array([5, 0, 3, 5, 0, 3, 3]))
    assert order.tolist() == [2, 5, 6, 0, 3]
    assert runs == [(0, 3, 3), (3, 5, 5)]
    assert runs_of(np.zeros(3, np.int64))[1] == []
