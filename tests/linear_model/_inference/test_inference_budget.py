"""The budget of ``infer``, its errors, and where its records come from."""

from __future__ import annotations

import dataclasses
import math
from copy import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from spent import refused

from skdp import (
    BudgetExceeded,
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
    Ledger,
    from_json,
)
from skdp.linear_model import check_proof
from skdp.noise.matrix import MatrixGaussianNoise
from skdp.trusted import NotPrivate, certify
from skdp.trusted.randomness import Lattice

CLASSIFIERS = [DPLogisticRegression, DPCoordinateDescentClassifier]
REGRESSORS = [DPHuberRegressor, DPLinearRegression, DPCoordinateDescentRegressor]
COLUMNS = {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1)}
RELEASES = ["scales", "limits", "sizes", "coordinates", "scores", "curvatures"]
RELEASES += ["squares", "numerators", "denominators"]
N = 400
ALL = pytest.mark.parametrize("kind", [*CLASSIFIERS, *REGRESSORS])
FREE = "No budget was spent and no noise was drawn."


def made(kind, columns=COLUMNS, **parameters):
    target = ["no", "yes"] if kind in CLASSIFIERS else (-1.0, 1.0)
    domain = Domain(columns, target=target)
    return kind(**{"domain": domain, "random_state": 3} | parameters)


@cache
def table(kind, n=N, persons=False):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 3, n), "b": rng.uniform(-1, 1, n)})
    frame["job"] = rng.choice(["x", "y", "z"], n)
    z = frame.b / 2 + 0.2 * rng.normal(size=n)
    frame["y"] = np.where(z > 0, "yes", "no") if kind in CLASSIFIERS else z.clip(-1, 1)
    return frame.assign(person=rng.integers(0, n // 3, n)) if persons else frame


def inferred(model, X, groups=None, **given):
    """The inference of a model, which is the same before and after, also after an error."""
    before = vars(model).copy()
    text = model.to_json() if hasattr(model, "coef_") else ""
    facts = {"target": "y", "groups": groups, "epsilon": 1.0, "random_state": 5}
    try:
        return model.infer(X, **facts | given)
    finally:
        assert before.keys() == vars(model).keys()
        assert all(before[name] is value for name, value in vars(model).items())
        assert not text or model.to_json() == text


def numbers_of(found):
    own = found.estimate
    return [own.theta, own.covariance, found.rows, found.constants, own.freedom]


def assert_same(one, other):
    for a, b in zip(numbers_of(one), numbers_of(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (30.0, 1e-3), (0.1, 1e-3)])
@pytest.mark.parametrize("cap", [None, 1, 2])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearRegression])
def test_the_guarantee_is_the_budget_of_the_call_and_exactly_that(
    kind, neighbors, cap, epsilon, delta
):
    """Of rows and of persons, with one weight or weights up to 2; 1e-9 less is refused.

    The last budget has Gaussian noise, of which 3 % less is.
    """
    groups, frame = "person" if cap else None, table(kind, persons=bool(cap))
    model = made(kind, neighbors=neighbors, epsilon=7.0, rows_per_person=cap or 1)
    model = model.fit(frame, target="y", groups=groups)
    found = inferred(model, frame, groups, epsilon=epsilon, delta=delta)
    public = found.public
    is_gaussian = any(isinstance(own.noise, MatrixGaussianNoise) for own in found.releases)
    assert [own.name for own in found.releases] == RELEASES
    assert found.guarantee.epsilon == public.epsilon == epsilon
    assert found.guarantee.delta == public.delta == (delta if is_gaussian else 0)
    assert found.guarantee.unit == public.unit == ("person" if cap else "row")
    assert public.in_two_steps is (cap == 2 and neighbors == "replace_one")
    certify(found.releases, public)
    for less in (0.97 if is_gaussian else 1 - 1e-9, 0.5):
        with pytest.raises(NotPrivate):
            certify(found.releases, dataclasses.replace(public, epsilon=epsilon * less))
    if public.in_two_steps:
        with pytest.raises(NotPrivate):
            certify(found.releases, dataclasses.replace(public, in_two_steps=False))
    assert check_proof(from_json(found.to_json())).lines == check_proof(found).lines


@pytest.mark.parametrize("groups", [None, "person"])
@ALL
def test_the_ledger_is_charged_once_before_noise_and_for_this_call_only(kind, groups, monkeypatch):
    events, spend, publish = [], Ledger.spend, Lattice.release

    def noted(name, function):
        def called(*given, **facts):
            events.append(name)
            return function(*given, **facts)

        return called

    first, ledger, frame = (
        Ledger(epsilon=5.0),
        Ledger(epsilon=1.5),
        table(kind, persons=bool(groups)),
    )
    model = made(kind, epsilon=5.0, ledger=first).fit(frame, target="y", groups=groups)
    monkeypatch.setattr(Ledger, "spend", noted("spend", spend))
    monkeypatch.setattr(Lattice, "release", noted("noise", publish))
    found = inferred(model, frame, groups, ledger=ledger)
    assert events[0] == "spend"
    assert events[1:] == ["noise"] * len(RELEASES)
    assert (ledger.spent.epsilon, first.spent.epsilon) == (1.0, 5.0)
    (entry,) = ledger.entries
    assert entry.note == f"{kind.__name__}.infer"
    assert (entry.epsilon, entry.mechanism) == (1.0, found.guarantee.mechanism)
    with pytest.raises(BudgetExceeded) as error:
        inferred(model, frame, groups, ledger=ledger)
    assert error.value.__notes__ == [FREE]
    assert events[-1] == "spend"


def changed(column, value):
    """A table with another value in its last row."""

    def of(frame):
        frame = frame.astype({column: object})
        frame.loc[N - 1, column] = value
        return frame

    return of


GIVEN = [
    ({"epsilon": None}, r"epsilon must be given. Write infer\(X, y, epsilon=1.0\)"),
    ({"epsilon": 0.0}, "epsilon must"),
    ({"epsilon": math.nan}, "epsilon must"),
    ({"delta": 1.0}, "delta must"),
    ({"ledger": 3}, "ledger must"),
    ({"random_state": "x"}, "random_state must"),
    ({"target": None}, "unseen at fit time:\n- y"),
    ({"target": "z"}, "target must"),
    ({"X": None}, "X must be given"),
    ({"X": changed("a", None)}, "missing"),
    ({"X": changed("a", math.inf)}, "'a' must contain only finite numbers"),
    ({"estimand": "median"}, "estimand must"),
    ({"effects": "b"}, "effects must be a list of names"),
    ({"effects": [["b"]]}, "effects must be a list of names"),
    ({"effects": 3}, "effects must be a list of names, got 3"),
    ({"effects": iter(["b"])}, "effects must be a list of names, got <class 'list_iterator'>"),
    ({"epsilon": 1e-12}, r"epsilon must be a number in \[1e-10, 1e\+12\], got 1e-12"),
    ({"effects": []}, "effects must name at least one column"),
    ({"effects": ["b", "c"]}, r"names of coefficients or columns, .*'job_y'"),
    ({"Effects": ["b"]}, "Effects"),
    ({"X": changed("b", "text")}, "'b'"),
    ({"X": changed("y", math.nan)}, "(y|target) must contain"),
    ({"X": lambda frame: frame.iloc[:0]}, "must have records"),
    ({"X": lambda frame: frame.drop(columns="b")}, "yet now missing:\n- b"),
    ({"X": lambda frame: frame.assign(c=1.0)}, "unseen at fit time:\n- c"),
]


@pytest.mark.parametrize(("given", "message"), GIVEN)
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearRegression])
def test_errors_are_raised_before_anything_is_spent(kind, given, message):
    model, ledger = made(kind).fit(table(kind), target="y"), Ledger(epsilon=5.0)
    given = {"ledger": ledger, "X": lambda frame: frame} | given
    change = given.pop("X")
    with refused(message, ledger):
        inferred(model, change and change(table(kind)), **given)


@pytest.mark.parametrize(
    ("columns", "name"),
    [
        ({"intercept": (0, 1)}, "intercept"),
        ({"intercept": ["x", "y"]}, "intercept"),
        ({"l": ["x", "y"], "l_y": ["p", "q"]}, "l_y"),
    ],
)
def test_a_column_with_the_name_of_another_coefficient_is_refused(columns, name):
    """The name would stand for both; without an intercept there is only one."""
    X, y = (domain := Domain(columns, target=(0, 1))).sample(100, 0, with_target=True)
    model, ledger = DPLinearRegression(domain=domain).fit(X, y), Ledger(1.0)
    with refused(rf"columns must have other names than coefficients, got \['{name}'\]", ledger):
        model.infer(X, y, epsilon=1.0, ledger=ledger)
    if name == "intercept":
        own = model.set_params(fit_intercept=False).fit(X, y).infer(X, y, epsilon=1.0)
        assert {*own.columns} == {"intercept"}


@pytest.mark.parametrize(
    ("columns", "bad"),
    [
        (COLUMNS, changed("b", math.nan)),
        (COLUMNS, changed("y", "w")),
        ({"job": ["x", "y", "z"]}, changed("y", "w")),
    ],
)
def test_cells_in_batches_are_checked_before_anything_is_spent(columns, bad):
    """Also where there is no number, and so no release of scales."""
    kind, ledger = DPLogisticRegression, Ledger(epsilon=5.0)
    frame = table(kind)[[*columns, "y"]]
    model = made(kind, columns).fit(frame, target="y")
    with refused(r"missing|only declared labels", ledger):
        inferred(model, lambda: [frame, bad(frame)], ledger=ledger)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_models_with_weights_of_labels_or_more_than_two_are_refused(kind):
    frame, ledger = table(kind), Ledger(epsilon=5.0)
    weighted = made(kind, class_weight={"yes": 2.0})
    several = made(kind, classes=["maybe", "no", "yes"])
    for model, message in ((weighted, "class_weight must be None"), (several, "two labels")):
        with refused(message, ledger):
            inferred(model.fit(frame, target="y"), frame, ledger=ledger)
    with refused("not fitted", ledger):
        inferred(made(kind), frame, ledger=ledger)
    unit = made(kind).fit(frame, target="y").set_params(rows_per_person=2)
    with refused("rows_per_person must be 1", ledger):
        inferred(unit, frame, ledger=ledger)


def test_the_guarantee_assumes_a_public_model_and_no_parts_of_its_fit():
    kind = DPHuberRegressor
    model = made(kind).fit(table(kind), target="y")
    found = inferred(model, table(kind))
    assert any("the model is public" in text for text in found.guarantee.assumptions)
    assert not any("the model is public" in text for text in model.guarantee_.assumptions)
    assert_same(inferred(from_json(model.to_json()), table(kind)), found)
    # Two releases together have no guarantee if one of them has none.
    assert not inferred(model, table(kind), random_state=None).guarantee.holds
    model = made(kind, random_state=None).fit(table(kind), target="y")
    assert inferred(model, table(kind), random_state=None).guarantee.holds
    assert not inferred(model, table(kind)).guarantee.holds


def test_the_ledger_of_the_model_is_charged_where_none_is_given():
    kind, ledger = DPHuberRegressor, Ledger(epsilon=2.5)
    model = made(kind, ledger=ledger).fit(table(kind), target="y")
    assert inferred(model, table(kind)).guarantee.epsilon == 1.0
    assert ledger.spent.epsilon == 2.0
    with pytest.raises(BudgetExceeded):
        inferred(model, table(kind))
    again = from_json(model.to_json())  # its ledger is left out
    with pytest.raises(ValueError, match="ledger must"):
        again.infer(table(kind), target="y", epsilon=1.0)
    assert again.infer(table(kind), target="y", epsilon=1.0, ledger=Ledger(1.0))


def test_the_relation_and_the_unit_are_those_of_the_fit():
    """Otherwise the guarantees of both could not be added."""
    kind, ledger = DPHuberRegressor, Ledger(epsilon=9.0)
    frame = table(kind, persons=True)
    rows, columns = made(kind).fit(table(kind), target="y"), frame.drop(columns="person")
    persons = made(kind).fit(frame, target="y", groups="person")
    other = copy(rows).set_params(neighbors="add_remove")
    for model, given, message in (
        (persons, (columns,), "groups must be given, as in the fit"),
        (rows, (frame, "person"), "groups must be None, as in the fit"),
        (other, (columns,), "neighbors must be 'replace_one', as in the fit"),
    ):
        with refused(message, ledger):
            inferred(model, *given, ledger=ledger)
    found = inferred(persons, frame, "person")
    assert found.guarantee.unit == "person"
    assert found.fit == persons.guarantee_ == from_json(found.to_json()).fit
    assert "adds to this one: epsilon = 1" in " ".join(str(found.summary()).split())


@pytest.mark.parametrize("kind", [DPHuberRegressor, DPLogisticRegression])
def test_curves_have_an_inference(kind):
    """Their knots are within bounds that the fit estimated, of which the guarantee tells.

    There are so many knots that less epsilon hides them.
    """
    model = made(kind, epsilon=20.0, additive="auto").fit(table(kind, 5000), target="y")
    found = inferred(model, table(kind, 5000), epsilon=1e6)
    assert found.domain == found.records == model.domain_ != model.domain
    assert "were estimated from the data" in found.guarantee.assumptions[0]
    assert check_proof(from_json(found.to_json())).guarantee.epsilon == 1e6
    assert found.wald_test("b").p_value < 1e-3 < found.wald_test("a").p_value
    assert found.wald_test("b").n_restrictions > 10
    assert inferred(model, table(kind, 5000), epsilon=1.0).is_hidden.sum() > 10


@pytest.mark.parametrize("groups", [None, "person"])
@pytest.mark.parametrize("kind", [DPLinearRegression, DPCoordinateDescentClassifier])
def test_batches_partitions_files_and_memory_release_the_same_numbers(kind, groups, tmp_path):
    """Bit by bit, for one seed: sums are exact, also those of persons across batches."""
    frame = table(kind, persons=bool(groups))
    # Rows of a person are in one order everywhere.
    model = made(kind).fit(frame, target="y", groups=groups)
    whole = inferred(model, frame, groups)
    cuts = np.split(np.arange(N), [1, 50, 333])
    assert_same(whole, inferred(model, lambda: (frame.iloc[own] for own in cuts), groups))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=90)
    assert_same(whole, inferred(model, tmp_path / "rows.parquet", groups))
    dask = pytest.importorskip("dask.dataframe")
    assert_same(whole, inferred(model, dask.from_pandas(frame, npartitions=3), groups))


@pytest.mark.parametrize("groups", [None, "person"])
def test_a_later_reading_without_rows_is_no_error(groups):
    """An error would depend on the data after the budget was spent; before, it is raised."""
    kind, readings, full = DPLinearRegression, [], 10**6
    frame = table(kind, persons=bool(groups))
    model = made(kind, neighbors="add_remove").fit(frame, target="y", groups=groups)

    def source():
        readings.append(0)
        return iter([frame] if len(readings) <= full else [])

    inferred(model, source, groups)
    every = len(readings)
    # It reads seven times: scores are summed with curvatures, and numerators with denominators.
    assert every == 9 + (groups is not None)  # two are of the header
    full = every - 7
    readings.clear()
    with refused("same rows at each reading"):
        inferred(model, source, groups)
    for full in range(every - 6, every):  # noqa: B007
        readings.clear()
        found = inferred(model, source, groups)
        assert len(readings) == every
        assert np.all(np.isfinite(found.estimate.covariance))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPLinearRegression])
def test_tables_of_one_or_two_records_are_no_error(kind, n, neighbors):
    model = made(kind, neighbors=neighbors).fit(table(kind), target="y")
    assert inferred(model, table(kind).iloc[:n]).n_records in (n, None)


def test_results_do_not_depend_on_units():
    """Bit by bit for powers of two, also where the squares of coefficients overflow.

    With units that leave no finite coefficient there is no error: the budget was spent before.
    """
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(N, 2)), rng.uniform(-1, 1, N)
    found = []
    for unit in (1.0, 2.0**-700):
        domain = Domain({"a": (0, 2 * unit), "b": (0, 2)}, target=(-1, 1))
        rows = pd.DataFrame(X * [unit, 1], columns=["a", "b"]).assign(y=y)
        model = DPLinearRegression(domain=domain, random_state=0).fit(rows, target="y")
        inference = inferred(model, rows)
        estimate, rows = inference.estimate, inference.rows
        found.append([estimate.theta, estimate.covariance, rows[0], rows[1] * unit, rows[2]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    domain = Domain({"a": (0, 1e-300)}, target=(-1e300, 1e300))
    rows = pd.DataFrame({"a": 1e-300 * X[:, 0], "y": 1e300 * y})
    model = DPLinearRegression(domain=domain, fit_intercept=False).fit(rows, target="y")
    with np.errstate(invalid="ignore"):
        assert not np.isnan(model.infer(rows, target="y", epsilon=1.0).conf_int()).any()


def test_natural_bounds_are_no_bounds_that_clip():
    """A third of the counts are 0, which their bound leaves as they are; a tenth are clipped.

    Half of the values of an indicator are at its upper bound, and the others at its lower one.
    """
    visits = np.resize([0.0, 0.0, 0.0, 3.0, 5.0, 5.0, 5.0, 5.0, 5.0, 12.0], 3000)
    X = np.column_stack([visits, np.arange(3000) // 10 % 2])
    domain = Domain({"visits": (0, 10), "member": (0, 1)}, target=(-5, 5))
    model = DPHuberRegressor(domain=domain, random_state=0).fit(X, visits)
    found = model.infer(X, visits, epsilon=50.0, random_state=0)
    (note,) = [own for own in found.notes if "Of the records" in own]
    low, high = (float(part) for part in note.split(" % ")[0].split()[-3::2])
    assert low <= 10 <= high
    assert "a lower bound of 0 is not counted, nor are bounds of 0 and 1" in note
    model.set_params(domain=Domain({"member": (0, 1)}, target=(0, 1))).fit(X[:, 1:], X[:, 1])
    found = model.infer(X[:, 1:], X[:, 1], epsilon=1.0)  # nothing is left to count
    assert "limits" not in [own.name for own in found.releases]
    assert not [own for own in found.notes if "Of the records" in own]
