"""Odd inputs: refused by their type or as bad cells, without a foreign word, before any charge."""

import traceback
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Ledger,
    UndeclaredDomainWarning,
)
from skdp.domain.layout import read_once
from skdp.domain.tables import ArrayTable, EncodedRows
from skdp.linear_model._shared.gram import exact_gram
from skdp.model_selection import PrivateSearchCV, epsilon_curve
from skdp.rows import MemoryRows

SECRET = "Zanzibar"
N = 1200
CLASSIFIERS = [DPLogisticRegression, DPCoordinateDescentClassifier]
REGRESSORS = [DPHuberRegressor, DPLinearRegression, DPCoordinateDescentRegressor]
ESTIMATORS = [*CLASSIFIERS, *REGRESSORS]
ALL = pytest.mark.parametrize("estimator", ESTIMATORS)

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (N, 2))
Y = (X[:, 0] > 0).astype(int)
BOUNDED, LABELLED = Domain.unit_box(2, (-1.0, 1.0)), Domain.unit_box(2, [0, 1])


def made(estimator, **parameters):
    """An estimator with its domain, and a ledger to look at."""
    domain = LABELLED if estimator in CLASSIFIERS else BOUNDED
    return estimator(**{"domain": domain, "random_state": 0, "ledger": Ledger(10.0)} | parameters)


@cache
def fitted(estimator):
    """A fitted estimator, to predict with."""
    return made(estimator, ledger=None).fit(X, Y)


def refusal(call, pattern, ledger=None):
    """The error of a call that must fail with no foreign word or warning, and without a charge."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")  # an error would be caught like one of a cell's
        with pytest.raises((ValueError, TypeError), match=pattern) as caught:
            call()
    assert not heard
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(error))
    assert error.args == (str(error),)
    assert ledger is None or ledger.entries == ()
    return error


def spoiled(cell, rows=X):
    """Rows as objects, with one odd cell."""
    cells = rows.astype(object)
    cells[4, 1] = cell
    return cells


def framed(cell):
    """A frame whose second column holds an odd cell."""
    column = pd.Series([0.5] * N, dtype=object)
    column[4] = cell
    return pd.DataFrame({0: X[:, 0], 1: column})


def targets(cell):
    """A target with one odd entry."""
    cells = Y.astype(object)
    cells[4] = cell
    return cells


# What is refused by its type, whatever it holds

RECORDS = np.zeros((N, 2), dtype=[("a", float), ("b", float)])
KINDS = {
    "masked": (np.ma.masked_greater(X, 0.9), "X must be an array without a mask.*filled"),
    "masked nowhere": (np.ma.array(X), "X must be an array without a mask.*filled"),
    "masked rows": ([np.ma.array(row) for row in X], "X must be an array without a mask"),
    "complex": (X + 0j, "X must be real, got 'complex128'.*Complex data not supported"),
    "complex of single precision": ((X + 0j).astype("c8"), "X must be real"),
    "records": (RECORDS, "X must not be a structured array"),
    "dates": (np.zeros((N, 2), "M8[s]"), "column 0 must hold finite numbers"),
    "durations": (np.zeros((N, 2), "m8[s]"), "column 0 must hold finite numbers"),
    "frame, complex": (pd.DataFrame(X + 0j), "column 0 must hold finite"),
    "frame, categories of dates": (
        pd.DataFrame({0: X[:, 0], 1: pd.Categorical(pd.to_datetime(["1986-01-01"] * N))}),
        "column 1 must hold finite",
    ),
    "frame, complex categories": (
        pd.DataFrame({0: X[:, 0], 1: pd.Categorical([1j] * N)}),
        "column 1 must hold finite",
    ),
    "frame, durations": (
        pd.DataFrame({0: X[:, 0], 1: pd.to_timedelta([5] * N)}),
        "column 1 must hold finite",
    ),
}


@ALL
@pytest.mark.parametrize("name", KINDS)
def test_tables_of_other_kinds_are_refused(estimator, name):
    """In a fit, and in a prediction."""
    table, pattern = KINDS[name]
    model = made(estimator)
    refusal(lambda: model.fit(table, Y), pattern, model.ledger)
    refusal(lambda: fitted(estimator).predict(table), pattern)


@pytest.mark.parametrize("name", KINDS)
def test_the_other_doors_refuse_them_too(name):
    """The domain, its encoder, the search and the curve."""
    table, pattern = KINDS[name]
    refusal(lambda: BOUNDED.encode(table), pattern)
    refusal(lambda: BOUNDED.encoder().transform(table), pattern)
    model = made(DPLogisticRegression)
    search = PrivateSearchCV(model, {"q": [0.4, 0.6]}, random_state=0)
    refusal(lambda: search.fit(table, Y), pattern, model.ledger)
    refusal(lambda: epsilon_curve(model, table, Y, [1.0], repeats=1), pattern, model.ledger)


TARGETS = {
    "masked": (np.ma.masked_equal(Y, 1), "y must be an array without a mask.*y.filled"),
    "masked nowhere": (np.ma.array(Y), "y must be an array without a mask"),
    "complex": (Y + 0j, "y must be real.*Complex data not supported"),
    "records": (RECORDS[:, 0], "y must not be a structured array"),
    "records in a column": (RECORDS[:, :1], "y must not be a structured array"),
    "dates": (Y.astype("M8[s]"), "declared labels only|target must hold finite"),
    "durations": (Y.astype("m8[s]"), "declared labels only|target must hold finite"),
}


@ALL
@pytest.mark.parametrize("name", TARGETS)
def test_targets_of_other_kinds_are_refused(estimator, name):
    model = made(estimator)
    refusal(lambda: model.fit(X, TARGETS[name][0]), TARGETS[name][1], model.ledger)


@pytest.mark.parametrize("name", TARGETS)
def test_the_other_doors_refuse_such_targets_too(name):
    target, pattern = TARGETS[name]
    refusal(lambda: BOUNDED.encode_target(target), pattern)
    model = made(DPHuberRegressor)
    search = PrivateSearchCV(model, {"q": [0.4, 0.6]}, random_state=0)
    refusal(lambda: search.fit(X, target), pattern, model.ledger)
    if name not in ("dates", "durations"):  # they reach the models to compare with
        refusal(lambda: epsilon_curve(model, X, target, [1.0], repeats=1), pattern, model.ledger)


# Cells that are no numbers


class Odd:
    """A cell whose own code raises what it is told to."""

    def __init__(self, error):
        self.error = error

    def _raise(self, *args, **kwargs):
        raise self.error

    __float__ = __int__ = __index__ = __complex__ = __bool__ = __len__ = __iter__ = _raise
    __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __hash__ = _raise
    __str__ = __repr__ = __format__ = __array__ = __getitem__ = __contains__ = _raise
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = __abs__ = _raise
    __array_ufunc__ = __array_function__ = __reduce__ = __copy__ = __deepcopy__ = _raise


class Stopping(float):
    """A cell at which somebody stops the program."""

    def __new__(cls, stop):
        found = super().__new__(cls, 0.5)
        found.stop = stop
        return found

    def _stop(self, *args):
        raise self.stop

    __float__ = __hash__ = __eq__ = _stop


class Failure(Exception):
    """An error that nobody knows, with the cell in its text, its notes and its chain."""

    def __init__(self):
        super().__init__(SECRET)
        self.add_note(SECRET)
        self.__cause__ = KeyError(SECRET)


class Spelled:
    """No number, but with a conversion to one."""

    def __float__(self):
        return 0.5


ERRORS = {
    "ValueError": lambda: ValueError(SECRET),
    "TypeError": lambda: TypeError(SECRET),
    "RuntimeError": lambda: RuntimeError(SECRET),
    "OverflowError": lambda: OverflowError(SECRET),
    "MemoryError": lambda: MemoryError(SECRET),
    "StopIteration": lambda: StopIteration(SECRET),
    "UserWarning": lambda: UserWarning(SECRET),
    "Failure": Failure,
    "AttributeError": lambda: AttributeError(SECRET),
}
CELLS = {
    "complex": 1j,
    "complex of numpy": np.complex128(0.5),
    "date": np.datetime64("1986-01-01"),
    "duration": np.timedelta64(1, "s"),
    "unitless duration": np.timedelta64(1),
    "masked": np.ma.masked,
    "array": np.array([0.5]),
    "array without dimension": np.array(0.5),
    "masked number": np.ma.array(0.5, mask=True),
    "record": RECORDS[0, 0],
    "pandas date": pd.Timestamp("1986-01-01"),
    "pandas duration": pd.Timedelta(5, "s"),
    "no date": pd.NaT,
    "huge integer": 10**400,
    "far decimal": Decimal("1e400"),
    "long float": np.longdouble("1e4000"),
    "word": SECRET,
    "object with a number": Spelled(),
    **{f"raises {name}": Odd(make()) for name, make in ERRORS.items()},
}
NOT_A_NUMBER = "column 1 must hold finite numbers"


@ALL
@pytest.mark.parametrize("name", CELLS)
def test_odd_cells_are_bad_cells(estimator, name):
    """One sentence for all, in an array, a list or a frame; in a fit or a prediction."""
    model = made(estimator)
    cells = spoiled(CELLS[name])
    for table in (cells, cells[:10].tolist(), framed(CELLS[name])):
        some = Y[: len(table)]
        refusal(lambda t=table, y=some: model.fit(t, y), NOT_A_NUMBER, model.ledger)
        refusal(lambda t=table: fitted(estimator).predict(t), NOT_A_NUMBER)


@ALL
@pytest.mark.parametrize("name", CELLS)
def test_odd_entries_of_a_target_are_bad_entries(estimator, name):
    """A classifier says that the label is not declared, a regressor that it is no number."""
    pattern = {True: "y must hold declared labels", False: "target must hold finite numbers"}
    model = made(estimator)
    cells = targets(CELLS[name])
    for target in (cells, cells.tolist(), pd.Series(cells)):
        refusal(lambda y=target: model.fit(X, y), pattern[estimator in CLASSIFIERS], model.ledger)


@pytest.mark.parametrize("name", CELLS)
def test_the_other_doors_refuse_odd_cells_too(name):
    cells, target = spoiled(CELLS[name]), targets(CELLS[name])
    for table in (cells, framed(CELLS[name])):
        refusal(lambda t=table: BOUNDED.encode(t), NOT_A_NUMBER)
        refusal(lambda t=table: BOUNDED.encoder().transform(t), NOT_A_NUMBER)
    refusal(lambda: BOUNDED.encode_target(target), "target must hold finite numbers")
    model = made(DPLogisticRegression)
    search = PrivateSearchCV(model, {"q": [0.4, 0.6]}, random_state=0)
    refusal(lambda: search.fit(cells, Y), NOT_A_NUMBER, model.ledger)
    refusal(lambda: search.fit(X, target), "declared labels only", model.ledger)
    refusal(lambda: epsilon_curve(model, X, target, [1.0], repeats=1), "y must", model.ledger)
    refusal(lambda: epsilon_curve(model, cells, Y, [1.0], repeats=1), NOT_A_NUMBER, model.ledger)


LEVELS = Domain({"a": (-1, 1), "b": ["u", "v"]}, target=[0, 1])


@pytest.mark.parametrize("name", ERRORS)
def test_odd_cells_of_levels(name):
    """What cannot be hashed is no level; what raises anything else is refused by its column."""
    cells = np.array([[0.5, "u"]] * N, dtype=object)
    cells[4, 1] = Odd(ERRORS[name]())
    for estimator in CLASSIFIERS:
        model = made(estimator, domain=LEVELS)
        for rows in (cells, pd.DataFrame(cells, columns=["a", "b"])):
            if name == "TypeError":
                assert LEVELS.encode(rows)[4, 1] == 0
            else:
                pattern = "column 'b' must hold cells that can be hashed"
                refusal(lambda t=rows, m=model: m.fit(t, Y), pattern, model.ledger)
                refusal(lambda t=rows: LEVELS.encode(t), pattern)


@pytest.mark.parametrize("cell", [Decimal("0.5"), Fraction(1, 2), np.float16(0.5), "0.5", b"0.5"])
def test_numbers_of_python_and_numpy_are_read(cell):
    """In an array, a list or a frame, and in a target; no warning comes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (spoiled(cell), spoiled(cell).tolist(), framed(cell)):
            assert BOUNDED.encode(rows)[4, 1] == 0.5
        assert BOUNDED.encode_target(targets(cell))[4] == 0.5


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_whoever_stops_a_fit_is_heard(stop):
    model = made(DPLogisticRegression)
    for table, target in ((spoiled(Stopping(stop)), Y), (X, targets(Stopping(stop)))):
        with pytest.raises(stop):
            model.fit(table, target)
    with pytest.raises(stop):
        LEVELS.encode([[0.5, Stopping(stop)]])
    assert model.ledger.entries == ()


@ALL
@pytest.mark.parametrize("name", ERRORS)
def test_a_table_or_a_target_that_raises_itself(estimator, name):
    """All of its attributes raise, or its parts do."""

    class Table:
        def __getattribute__(self, attribute):
            raise ERRORS[name]()

    model, odd = made(estimator), Odd(ERRORS[name]())
    for table in (Table(), odd, [odd], [[odd, 0.5]], [Table()] * 3):
        refusal(lambda t=table: model.fit(t, Y[:1]), "X|y|column|target", model.ledger)
    for target in (Table(), odd, [odd] * N, [Table()] * N):
        refusal(lambda y=target: model.fit(X, y), "X|y|column|target", model.ledger)


class Column(pd.api.extensions.ExtensionArray):
    """A column of a frame that cannot be read."""

    dtype = pd.array([1.0]).dtype

    def __len__(self):
        return N

    def _raise(self, *args, **kwargs):
        raise Failure

    __getitem__ = take = copy = isna = __array__ = to_numpy = _raise


@ALL
def test_a_column_of_a_frame_that_cannot_be_read(estimator):
    domain = Domain({"a": (-1, 1), "b": (-1, 1)}, target=(-1.0, 1.0))
    levels = Domain({"a": (-1, 1), "b": [0, 1]}, target=(-1.0, 1.0))
    if estimator in CLASSIFIERS:
        levels = Domain({"a": (-1, 1), "b": [0, 1]}, target=[0, 1])
        domain = Domain({"a": (-1, 1), "b": (-1, 1)}, target=[0, 1])
    table = pd.DataFrame({"a": X[:, 0], "b": Column()}, copy=False)
    for own, pattern in ((domain, "'b' must hold finite"), (levels, "'b' must hold cells")):
        model = made(estimator, domain=own)
        refusal(lambda m=model: m.fit(table, Y), pattern, model.ledger)


def test_labels_that_are_read_off_are_plain():
    """Sorting them would run code of the cells."""
    model = DPLogisticRegression(domain=Domain.unit_box(2), ledger=Ledger(1.0))
    for cell in (*map(Odd, (ValueError(SECRET), TypeError(SECRET))), Decimal(1), 1j, np.ma.masked):
        refusal(lambda c=cell: model.fit(X, targets(c)), "y must|Unknown label", model.ledger)


def test_real_numbers_of_all_kinds_are_taken():
    """Whatever is a real number or spells one."""
    values = [0.5, Decimal("0.5"), Fraction(1, 2), np.float32(0.5), "0.5", b"0.5", True, np.int8(1)]
    expected = [0.5] * 6 + [1.0] * 2
    column = np.array(values, dtype=object)[:, None]
    domain = Domain.unit_box(1, (-1.0, 1.0))
    for table in (column, column.tolist(), pd.DataFrame(column)):
        assert domain.encode(table)[:, 0].tolist() == expected
    assert domain.encode_target(values).tolist() == expected
    for kind in ("?", "b", "H", "q", "e", "f", "d", "g", ">f8", "<i2"):
        assert domain.encode(np.ones((3, 1), kind)).tolist() == [[1.0]] * 3
        assert domain.encode(pd.DataFrame(np.ones((3, 1)).astype(kind))).tolist() == [[1.0]] * 3


@ALL
@pytest.mark.parametrize("kind", ["d", "g", "O"])
def test_no_number_is_too_far_for_silence(estimator, kind):
    """Sums of such numbers, and their squares, would overflow with a warning."""
    rows = np.resize([1e308, -1e308, 5e-324, 0.0, -0.0, 1e-300, 2.0], (N, 2)).astype(kind)
    target = Y if estimator in CLASSIFIERS else np.resize([1e308, -1e308, 5e-324], N).astype(kind)
    domain = Domain.box([-1e300, 0], [1e300, 1e-200], target=made(estimator).domain.target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UndeclaredDomainWarning)
        for own in (None, domain, Domain.l2_ball(2, 100.0, target=domain.target)):
            parameters = {"classes": [0, 1]} if estimator in CLASSIFIERS else {}
            model = estimator(domain=own, random_state=0, **parameters).fit(rows, target)
            assert np.isfinite(model.predict(rows)).all()


# What changes between two readings


class Fickle(float):
    """A number until it is told otherwise."""

    good = True

    def __float__(self):
        if not Fickle.good:
            raise Failure
        return float.__add__(self, 0.0)

    def __hash__(self):
        if not Fickle.good:
            raise Failure
        return hash(float.__add__(self, 0.0))

    def __eq__(self, other):
        if not Fickle.good:
            raise Failure
        return float.__eq__(self, other)

    @staticmethod
    def spoil(table):
        Fickle.good = False


class Lazy(np.ndarray):
    """An array that computes what is asked of it, once."""

    good = True

    def _fail(self, *args, **kwargs):
        raise Failure

    __getitem__ = __array_function__ = __array_ufunc__ = __len__ = __iter__ = __array__ = _fail
    shape = property(_fail)
    ndim = dtype = T = shape
    tolist = astype = copy = ravel = reshape = view = _fail


class LazyFrame(pd.DataFrame):
    """A frame that cannot be read twice, nor by any method of its own."""

    @property
    def iloc(self):
        raise Failure

    def to_numpy(self, *args, **kwargs):
        raise Failure

    shape = dtypes = columns = iloc


class Once:
    """An array-like that can be asked once."""

    def __init__(self, cells):
        self.cells = cells

    def __array__(self, *args, **kwargs):
        cells, self.cells = self.cells, None
        if cells is None:
            raise Failure
        return cells


def fickle(rows):
    return np.array([list(map(Fickle, row)) for row in rows], dtype=object)


def on_disk(folder):
    tables = []
    for name, table in (("rows", X), ("target", Y.astype(float))):
        tables.append(np.memmap(folder / name, float, "w+", shape=table.shape))
        tables[-1][:] = table
    return tables


def put(table, value):
    """Write one value everywhere."""
    if isinstance(table, list):
        table.clear()
    elif isinstance(table, pd.DataFrame | pd.Series):
        table.iloc[:] = value
    else:
        table.fill(value)


# Tables with targets, and what happens to both at the charge.
CHANGING = {
    "array": (lambda _: [X.copy(), Y.copy()], lambda t: put(t, np.nan) if t.ndim == 2 else None),
    "infinite": (lambda _: [X.copy(), Y.astype(float)], lambda t: put(t, -np.inf)),
    "file": (on_disk, lambda t: put(t, np.nan)),
    "objects": (lambda _: [fickle(X), fickle(Y[:, None])[:, 0]], Fickle.spoil),
    "list": (lambda _: [X.tolist(), Y.tolist()], lambda t: put(t, None)),
    "frame": (lambda _: [pd.DataFrame(X.copy()), pd.Series(Y * 1.0)], lambda t: put(t, np.nan)),
    "frame of objects": (
        lambda _: [pd.DataFrame(fickle(X)), pd.Series(fickle(Y[:, None])[:, 0])],
        Fickle.spoil,
    ),
    "lazy": (lambda _: [X.copy().view(Lazy), Y.copy().view(Lazy)], lambda t: None),
    "lazy frame": (lambda _: [LazyFrame(X), Y], lambda t: None),
    "once": (lambda _: [Once(X), Once(Y)], lambda t: None),
    "reshaped": (lambda _: [X.copy(), Y.copy()], lambda t: setattr(t, "shape", (2, -1))),
}
# Their numbers are read where they are, twice.
IN_PLACE = {"array", "infinite", "file"}
if int(pd.__version__.partition(".")[0]) < 3:  # later versions copy a frame before they write
    IN_PLACE |= {"frame"}


@pytest.fixture
def changing(request, tmp_path, monkeypatch):
    """A table and its target, which both change when a ledger is charged."""
    Fickle.good = True
    make, change = CHANGING[request.param]
    tables, spend = make(tmp_path), Ledger.spend

    def spent(*args, **kwargs):
        spend(*args, **kwargs)
        for table in tables:
            change(table)

    monkeypatch.setattr(Ledger, "spend", spent)
    return tables


@ALL
@pytest.mark.parametrize("changing", sorted({*CHANGING} - IN_PLACE), indirect=True)
def test_what_changes_after_the_charge_is_not_read_again(estimator, changing):
    """The fit is that of what was there before."""
    model = made(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*changing)
    assert len(model.ledger.entries) == 1
    np.testing.assert_array_equal(model.coef_, fitted(estimator).coef_)


@ALL
@pytest.mark.parametrize("changing", sorted(IN_PLACE), indirect=True)
def test_numbers_that_turn_bad_after_the_charge_are_not_noticed(estimator, changing):
    """A fit that was charged for is finished, without a word about it."""
    model = made(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*changing)
    assert len(model.ledger.entries) == 1
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    "changing", sorted({*CHANGING} - {"objects", "frame of objects"}), indirect=True
)
def test_a_search_fits_what_its_dry_run_has_seen(changing):
    """All but cells with code of their own: each fit of a search reads these anew."""
    model = made(DPLogisticRegression)
    search = PrivateSearchCV(model, {"q": [0.4, 0.6]}, random_state=0)
    assert np.isfinite(search.fit(*changing).best_estimator_.coef_).all()
    assert len(model.ledger.entries) == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("domain", [BOUNDED, Domain.box([2, -9], [3, -5]), Domain.l2_ball(2, 0.3)])
def test_what_turned_bad_counts_as_zero(bad, domain):
    """A public value for each such entry: the sums are those of rows in the domain."""
    rows = X[:50].copy()
    rows[::3, 0] = bad
    mended = np.where(np.isfinite(rows), rows, 0.0)
    found = domain.encode(ArrayTable(rows, again=True))
    np.testing.assert_array_equal(found, domain.encode(mended))
    sums = [exact_gram(MemoryRows(domain, table, Y[:50] * 1.0)) for table in
            (ArrayTable(rows, again=True), mended)]  # fmt: skip
    assert sums[0].tolist() == sums[1].tolist()
    refusal(lambda: domain.encode(ArrayTable(rows)), "column 0 must hold finite")


def test_a_table_that_was_kept_is_encoded_alike():
    """Numbers of arrays stay where they are; all else is read, level by level."""
    table = LEVELS.sample(300, random_state=1).astype(object)
    table.iloc[:5, 1] = ["w", None, np.nan, 3, "v"]
    table.iloc[:3, 0] = [7.0, -7.0, 0.0]
    for rows in (table, table.to_numpy(object), table.to_numpy(object).tolist(), table[["b", "a"]]):
        kept = read_once(LEVELS, rows)
        assert isinstance(kept, EncodedRows)
        expected = LEVELS.encode(table)
        np.testing.assert_array_equal(LEVELS.encode(kept), expected)
        np.testing.assert_array_equal(LEVELS.encode(kept.part(7, 90)), expected[7:90])
    numbers = X.copy()
    assert np.shares_memory(read_once(BOUNDED, numbers).cells, numbers)
