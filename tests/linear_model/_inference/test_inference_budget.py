"""The budget of the inference stage, its errors, and where its rows come from."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from inner_fits import Design
from inner_inference import release_module

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
from skdp.trusted import NotPrivate, Public, certify, overview
from skdp.trusted.randomness import Lattice

CLASSIFIERS = [DPLogisticRegression, DPCoordinateDescentClassifier]
REGRESSORS = [DPHuberRegressor, DPLinearRegression, DPCoordinateDescentRegressor]
COLUMNS = {"a": (0, 3), "job": ["x", "y", "z"], "b": (-1, 1)}
N = 400
ALL = pytest.mark.parametrize("kind", [*CLASSIFIERS, *REGRESSORS])


def made(kind, columns=COLUMNS, **parameters):
    target = ["no", "yes"] if kind in CLASSIFIERS else (-1.0, 1.0)
    domain = Domain(columns, target=target)
    return kind(**{"domain": domain, "random_state": 3, "inference_share": 0.3} | parameters)


def table(kind, n=N):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 3, n), "b": rng.uniform(-1, 1, n)})
    frame["job"] = rng.choice(["x", "y", "z"], n)
    z = frame.b / 2 + 0.2 * rng.normal(size=n)
    frame["y"] = np.where(z > 0, "yes", "no") if kind in CLASSIFIERS else z.clip(-1, 1)
    frame["person"] = rng.integers(0, n // 3, n)
    return frame


@pytest.mark.parametrize("share", [1e-3, 0.3, 0.9])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-6), (30.0, 1e-3)])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@ALL
def test_the_parts_add_up_to_the_budget_and_not_beyond(kind, neighbors, epsilon, delta, share):
    """In fractions: at most the budget, and at least the budget up to 1e-9 of it."""
    model = made(kind, neighbors=neighbors, epsilon=epsilon, delta=delta, inference_share=share)
    public = N if neighbors == "replace_one" else None
    plan = model._plan(Design(model.domain, True), public, 1)
    first = share_of_the_model = Fraction(epsilon) * (1 - Fraction(share))
    whole = certify(plan.releases, Public(epsilon, delta, neighbors))
    almost = 1 - 1e-9
    with pytest.raises(NotPrivate):
        certify(plan.releases, Public(epsilon * (almost if delta == 0 else 0.7), delta, neighbors))
    known = [
        own.epsilon for own in overview(plan.model.releases, Public(epsilon, delta, neighbors))
    ]
    if delta == 0:
        assert sum(map(Fraction, known)) >= share_of_the_model * Fraction(almost)
        assert sum(map(Fraction, known)) <= first / Fraction(almost)
    assert whole.delta in (0, delta)


@pytest.mark.parametrize("delta", [0.0, 1e-4])
@pytest.mark.parametrize("persons", [False, True])
@ALL
def test_the_guarantee_is_the_whole_budget_and_is_charged_once_before_noise(
    kind, persons, delta, monkeypatch
):
    events, spend, publish = [], Ledger.spend, Lattice.release

    def noted(name, function):
        def called(*given, **facts):
            events.append(name)
            return function(*given, **facts)

        return called

    monkeypatch.setattr(Ledger, "spend", noted("spend", spend))
    monkeypatch.setattr(Lattice, "release", noted("noise", publish))
    ledger = Ledger(epsilon=1.5, delta=1e-3)
    groups = "person" if persons else None
    frame = table(kind) if persons else table(kind).drop(columns="person")
    model = made(kind, delta=delta, ledger=ledger).fit(frame, target="y", groups=groups)
    assert events[0] == "spend"
    assert events.count("spend") == 1
    assert events.count("noise") >= 4
    assert model.guarantee_.epsilon == 1.0
    assert delta * 0.49 <= model.guarantee_.delta <= delta
    assert ledger.spent.epsilon <= 1.0 + 1e-9
    names = [release.name for release in model.releases_]
    assert names[-5:] == ["scales", "limits", "scores", "curvatures", "squares"]
    parts = [own.epsilon for own in overview(model.releases_, model.public_)]
    if delta == 0:
        assert 1 - 1e-9 <= sum(map(Fraction, parts)) <= 1 + 1e-12
    with pytest.raises(BudgetExceeded):
        made(kind, ledger=ledger).fit(frame, target="y", groups=groups)
    assert events[-1] == "spend"


BAD = [
    (DPLogisticRegression, {"inference_share": 0.0}),
    (DPLogisticRegression, {"inference_share": 1.0}),
    (DPLinearRegression, {"inference_share": -0.5}),
    (DPHuberRegressor, {"inference_share": math.nan}),
    (DPCoordinateDescentRegressor, {"inference_share": "auto"}),
    (DPLogisticRegression, {"class_weight": "balanced"}),
    (DPCoordinateDescentClassifier, {"class_weight": {"no": 1.0, "yes": 2.0}}),
    (DPLogisticRegression, {"additive": "auto"}),
    (DPHuberRegressor, {"additive": "auto"}),
    *((kind, {"domain": Domain(COLUMNS, target=["maybe", "no", "yes"])}) for kind in CLASSIFIERS),
]


@pytest.mark.parametrize(("kind", "parameters"), BAD)
def test_bad_input_raises_before_anything_is_charged(kind, parameters):
    ledger, frame = Ledger(epsilon=5.0), table(kind).drop(columns="person")
    with pytest.raises((ValueError, TypeError), match="inference_share") as error:
        made(kind, ledger=ledger, **parameters).fit(frame, target="y")
    assert "No budget was spent" in "".join(error.value.__notes__)
    assert ledger.spent.epsilon == 0


def numbers_of(model):
    found = model._inference
    estimate, rows, constants = found.estimate, found.rows, found.constants
    return [estimate.theta, estimate.covariance, rows, constants, estimate.freedom]


def assert_same(one, other):
    for a, b in zip(numbers_of(one), numbers_of(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("groups", [None, "person"])
@pytest.mark.parametrize("kind", [DPLinearRegression, DPCoordinateDescentClassifier])
def test_batches_partitions_and_memory_release_the_same_numbers(kind, groups):
    """Bit by bit, for one seed: sums are exact, also those of persons across batches."""
    frame = table(kind) if groups else table(kind).drop(columns="person")
    # Rows of a person are in one order everywhere.
    facts = {"target": "y", "groups": groups}
    whole = made(kind).fit(frame, **facts)
    cuts = np.split(np.arange(N), [1, 50, 333])
    assert_same(whole, made(kind).fit(lambda: (frame.iloc[own] for own in cuts), **facts))
    dask = pytest.importorskip("dask.dataframe")
    assert_same(whole, made(kind).fit(dask.from_pandas(frame, npartitions=3), **facts))


@pytest.mark.parametrize("groups", [None, "person"])
def test_a_later_reading_without_rows_is_no_error(groups):
    """An error would depend on the data after the budget was spent."""
    kind, readings = DPLinearRegression, []
    frame = table(kind) if groups else table(kind).drop(columns="person")

    def source():
        readings.append(0)
        return iter([frame] if len(readings) <= readings_of_model else [])

    readings_of_model = 10**6
    made(kind, neighbors="add_remove").fit(source, target="y", groups=groups)
    every, readings_of_model = len(readings), 0
    # The stage reads four times: scales, limits, scores with curvatures, and squares.
    for left in (4, 3, 2, 1):
        readings.clear()
        readings_of_model = every - left
        model = made(kind, neighbors="add_remove").fit(source, target="y", groups=groups)
        assert len(readings) == every
        assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("n", [1, 2])
@ALL
def test_tables_of_one_or_two_records_are_no_error(kind, n, neighbors):
    frame = table(kind, 3).iloc[:n].drop(columns="person")
    model = made(kind, neighbors=neighbors).fit(frame, target="y")
    assert hasattr(model, "_inference")


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e300])
@pytest.mark.parametrize("other", [1e-300, 1e300])
@pytest.mark.parametrize("intercept", [True, False])
def test_units_that_overflow_are_bounded(size, other, intercept, monkeypatch):
    """The matrix of influences is finite, and no sum exceeds the number of records."""
    sums, exact = [], release_module.exact_squares

    def kept(*given):
        sums.append(exact(*given))
        return sums[-1]

    monkeypatch.setattr(release_module, "exact_squares", kept)
    rng = np.random.default_rng(0)
    X = np.column_stack([size * rng.uniform(size=N), rng.uniform(size=N)])
    domain = Domain({"a": (0, size), "b": (0, 1)}, target=(-other, other))
    model = DPLinearRegression(
        epsilon=5, domain=domain, fit_intercept=intercept, inference_share=0.3, random_state=0
    )
    model.fit(pd.DataFrame(X, columns=["a", "b"]), other * rng.uniform(-1, 1, N))
    assert all(0 <= own <= N * 2**40 for own in sums[0])
    assert np.all(np.isfinite(model._inference.estimate.covariance))
    assert not np.isnan(model.conf_int()).any()


@pytest.mark.parametrize("kind", [DPLinearRegression, DPHuberRegressor])
def test_a_model_without_a_finite_coefficient_is_no_error(kind):
    """An error would come after the budget was spent."""
    rng = np.random.default_rng(0)
    domain = Domain({"a": (0, 1e-300)}, target=(-1e300, 1e300))
    X = pd.DataFrame({"a": 1e-300 * rng.uniform(size=N)})
    model = made(kind, domain=domain, fit_intercept=False)
    assert hasattr(model.fit(X, 1e300 * rng.uniform(-1, 1, N)), "inference_")


def test_results_do_not_depend_on_units():
    """Bit by bit for powers of two, also where the squares of coefficients overflow."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(N, 2)), rng.uniform(-1, 1, N)
    found = []
    for unit in (1.0, 2.0**-700):
        domain = Domain({"a": (0, unit), "b": (0, 1)}, target=(-1, 1))
        table = pd.DataFrame(X * [unit, 1], columns=["a", "b"])
        model = DPLinearRegression(domain=domain, inference_share=0.3, random_state=0)
        inference = model.fit(table, y)._inference
        estimate, rows = inference.estimate, inference.rows
        found.append([estimate.theta, estimate.covariance, rows[0], rows[1] * unit, rows[2]])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_private_number_of_records_is_estimated_where_no_number_is_declared(monkeypatch):
    """Levels alone have no scales, whose release has the count."""
    seen, exact = [], release_module.InferenceRelease._equations

    def kept(self, crossed, curved, n, unit):
        seen.append(n)
        return exact(self, crossed, curved, n, unit)

    monkeypatch.setattr(release_module.InferenceRelease, "_equations", kept)
    frame = table(DPLogisticRegression, 20_000)[["job", "y"]]
    model = made(DPLogisticRegression, {"job": ["x", "y", "z"]}, neighbors="add_remove")
    model.fit(frame, target="y")
    # Weights and curvatures are below 1 and positive.
    assert 5000 < seen[0] < 21_000


def test_squared_influences_are_those_of_persons_where_rows_have_persons(monkeypatch):
    """That of one row of a person would have the square of its share."""
    seen, exact = [], release_module.exact_squares

    def kept(rows, influences, are_persons):
        seen.append(are_persons)
        return exact(rows, influences, are_persons)

    monkeypatch.setattr(release_module, "exact_squares", kept)
    frame = table(DPLinearRegression)
    for given, groups in [({}, "person"), ({"rows_per_person": 2}, "person"), ({}, None)]:
        rows = frame if groups else frame.drop(columns="person")
        made(DPLinearRegression, **given).fit(rows, target="y", groups=groups)
        assert seen[-1] is (groups is not None)


@pytest.mark.parametrize("epsilon", [0.5, 50.0])
@ALL
def test_a_file_keeps_the_model_and_its_inference(kind, epsilon):
    """Whether the coefficients were moved, as with much epsilon, or not."""
    frame = table(kind).drop(columns="person")
    model = made(kind, epsilon=epsilon).fit(frame, target="y")
    again = from_json(model.to_json())
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.conf_int(), model.conf_int())
    X = frame.drop(columns="y")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if epsilon > 1 and hasattr(model, "bounds_"):  # those of the domain
        np.testing.assert_allclose(model.bounds_, [[0, 3], [-1, 1]], atol=1e-12)


def test_a_bound_of_zero_is_no_bound_that_clips():
    """A third of the counts are 0, which their bound leaves as they are; a tenth are clipped."""
    X = np.resize([0.0, 0.0, 0.0, 3.0, 5.0, 5.0, 5.0, 5.0, 5.0, 12.0], (3000, 1))
    domain = Domain({"visits": (0, 10)}, target=(-5, 5))
    model = DPHuberRegressor(domain=domain, inference_share=0.5, random_state=0, epsilon=50.0)
    (note,) = [own for own in model.fit(X, X[:, 0]).inference_.notes if "Of the records" in own]
    low, high = (float(part) for part in note.split(" % ")[0].split()[-3::2])
    assert low <= 10 <= high
    assert "a lower bound of 0 is not counted" in note
