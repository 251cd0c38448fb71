"""Private coordinate descent as an estimator: poor data, starts, callbacks, noise, labels."""

import numpy as np
import pytest
from descent_runs import undithered
from poor_tables import TABLES, both, fit_quietly

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    Ledger,
)
from skdp.linear_model import Progress
from skdp.mechanisms.independent import RepeatedNoise

RELATIONS = ["replace_one", "add_remove"]
# Quickly calibrated, for whatever number of releases.
NORMAL = {"delta": 1e-6, "mechanism": "gaussian"}
DESCENTS = DPCoordinateDescentClassifier, DPCoordinateDescentRegressor
WIDE = Domain.unit_box(300), np.linspace(-1, 1, 900).reshape(3, 300).tolist()
QUIET = {"epsilon": 1e9, "random_state": 0}


@pytest.fixture(params=["classifier", "regressor"])
def case(request, people, domain, answers, pay_domain, pay):
    """An estimator class, its domain, a table and a target."""
    if request.param == "classifier":
        return DPCoordinateDescentClassifier, domain, people, answers
    return DPCoordinateDescentRegressor, pay_domain, people, pay


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("name", [*TABLES, "very wide"])
def test_poor_data_are_fitted(name, neighbors):
    """However poor: with and without an intercept, a scaling stage and a delta."""
    domain, rows = (TABLES | {"very wide": WIDE})[name]
    X = np.array(rows, dtype=object)
    settings = [
        {},
        NORMAL | {"scaling_share": 0.2, "fit_intercept": False},
        {"scaling_share": 0, "clip": 0.3, "penalty": "l1", "alpha": 0.1},
        {"order": "greedy", "penalty": "elasticnet", "alpha": 0.1, "epsilon": 0.1},
        NORMAL | {"order": "random", "penalty": None, "clip": None, "epsilon": 1e3},
    ]
    for parameters in settings:
        parameters = {"n_passes": 2, "neighbors": neighbors, "random_state": 0} | parameters
        for model, ends in both(*DESCENTS, domain, **parameters):
            fit_quietly(model, X, np.resize(ends, len(X)))
            assert set(model.predict(X)) <= set(ends) or model.predict(X).dtype == float


@pytest.mark.parametrize("order", ["cyclic", "random", "greedy"])
@pytest.mark.parametrize(
    "parameters", [{}, {"clip": 0.5}, {"clip": None, "scaling_share": 0}], ids=str
)
def test_huge_steps_end_in_finite_models(parameters, order):
    """On separable data, too, and with a penalty or none; no warning comes."""
    X = np.linspace(-1, 1, 200)[:, None] * [1.0, 0.5, 0.0]
    for step_size in (2.5, 1e30):
        settings = parameters | {
            "n_passes": 12,
            "step_size": step_size,
            "order": order,
            "penalty": None,
        }
        for budget in (NORMAL, {"epsilon": 1e6}):
            for model, ends in both(
                *DESCENTS, Domain.unit_box(3), random_state=0, **budget, **settings
            ):
                fit_quietly(model, X, np.where(X[:, 0] > 0, *ends[::-1]))


@pytest.mark.parametrize("order", ["cyclic", "greedy"])
def test_parameters_at_the_ends_of_their_ranges_are_fitted_quietly(order):
    """Nothing overflows to what is no number, whatever is multiplied by whatever."""
    ends = [
        {"alpha": 1e30, "penalty": "l1", "step_size": 1e30},
        {"alpha": 1e30, "penalty": "l2", "scaling_share": 1e-6},
        {"clip": 1e30, "penalty": "elasticnet", "step_size": 1e30},
        {"clip": 1e-30, "step_size": 1e-30, "epsilon": 1e-6},
        {"epsilon": 1e-6, "step_size": 1e30, "penalty": "l1", "alpha": 1e-30},
        {"epsilon": 1e12, "alpha": 0, "penalty": "l2", "scaling_share": 1 - 1e-6},
    ]
    X = np.linspace(-1, 1, 90).reshape(30, 3)
    for parameters in ends:
        for model, labels in both(
            *DESCENTS, Domain.unit_box(3), order=order, random_state=0, **parameters
        ):
            fit_quietly(model, X, np.resize(labels, 30))


def test_separable_data_are_separated():
    X, domain = np.linspace(-1, 1, 4000)[:, None], Domain.unit_box(1, target=[0, 1])
    model = DPCoordinateDescentClassifier(domain=domain, **NORMAL, random_state=0)
    assert fit_quietly(model, X, (X[:, 0] > 0).astype(int)).score(X, X[:, 0] > 0) > 0.95


def test_a_target_at_its_bounds_is_predicted_within_them():
    X = np.linspace(-1, 1, 2000)[:, None]
    for low, high in ((0.1, 0.7), (-1e-3, 1e9), (-3.0, -2.9)):
        domain = Domain.box([-1.0], [1.0], target=(low, high))
        model = DPCoordinateDescentRegressor(domain=domain, **NORMAL, random_state=0)
        found = fit_quietly(model, X, np.where(X[:, 0] > 0, high, low)).predict(100 * X)
        assert low <= found.min() < found.max() <= high


def test_without_an_intercept_zero_predicts_zero(case):
    """Numbers in the middle of their bounds and first levels have a predictor of 0."""
    estimator, domain, X, y = case
    model = estimator(domain=domain, fit_intercept=False, random_state=0, **NORMAL).fit(X, y)
    middle = X.head(1).assign(age=53.5, hours=40.0, sex="f", job="none")
    assert (model._predictor(middle) == 0.0).all()


# Starts


def test_a_model_may_begin_where_another_ended(case):
    """Units and levels there and back: with tiny steps it stays, also after a scaling stage."""
    estimator, domain, X, y = case
    first = estimator(domain=domain, epsilon=20.0, **NORMAL, random_state=1).fit(X, y)
    for settings in (
        {"scaling_share": 0},
        {"scaling_share": 0.5},
        {"scaling_share": 0.5, "penalty": "l2", "alpha": 0},
    ):
        still = {"start": (first.coef_, first.intercept_), "step_size": 1e-14, "n_passes": 2}
        again = estimator(domain=domain, **QUIET, **(still | settings)).fit(X, y)
        np.testing.assert_allclose(again._encoded_coef, first._encoded_coef, atol=1e-9)
        np.testing.assert_allclose(again._encoded_intercept, first._encoded_intercept, atol=1e-9)
        np.testing.assert_allclose(again.coef_, first.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(again._predictor(X), first._predictor(X), atol=1e-8)
    cold = estimator(domain=domain, **QUIET, step_size=1e-14, n_passes=2, scaling_share=0).fit(X, y)
    assert np.abs(cold._encoded_coef - first._encoded_coef).max() > 0.01  # the twin


def test_starts_are_given_for_each_of_several_models(people, domain):
    """One row per label, and no label gets another's."""
    y = np.arange(len(people)) % 3
    start = (np.arange(15.0).reshape(3, 5) / 100, np.array([1.0, 2.0, 3.0]))
    model = DPCoordinateDescentClassifier(
        domain=domain, classes=[0, 1, 2], start=start, step_size=1e-14, n_passes=1, **QUIET
    ).fit(people, y)
    np.testing.assert_allclose(model.coef_, start[0], atol=1e-9)
    np.testing.assert_allclose(model.intercept_, start[1], atol=1e-9)


def test_a_start_beyond_the_box_of_a_scaling_is_moved_into_it(case):
    """Numbers of 2^20 in the domain's units may be more in the scaling's: no step overflows."""
    estimator, domain, X, y = case
    regression = estimator is DPCoordinateDescentRegressor
    start = domain.decode_coef(np.full(5, 0.99 * 2.0**20), 0.0, regression=regression)
    still = {"step_size": 1e-14, "n_passes": 1}
    model = estimator(domain=domain, start=start, scaling_share=0.5, **QUIET, **still)
    found = fit_quietly(model, X, y)._encoded_coef
    assert 0 < found[0, 0] < 0.9 * 2.0**20  # age, in units of its deviations, was more
    np.testing.assert_allclose(found[0, 1:4], 0.99 * 2.0**20)  # levels have no other units


# History and callbacks


@pytest.mark.parametrize(
    "settings", [{}, {"scaling_share": 0, "penalty": "l1", "alpha": 0.02}], ids=str
)
def test_the_history_holds_the_models_of_all_passes(case, settings):
    """The last one is the model, or the mean of the second half; nothing else is in it."""
    estimator, domain, X, y = case
    common = {"domain": domain, "n_passes": 7, "random_state": 3} | NORMAL | settings
    last = estimator(average=False, **common).fit(X, y)
    mean = estimator(average=True, **common).fit(X, y)
    assert [vars(p).keys() for p in last.history_] == [Progress.__annotations__.keys()] * 7
    for a, b in zip(last.history_, mean.history_, strict=True):
        np.testing.assert_array_equal(a.coef, b.coef)
        assert (a.model, a.n_models, a.n_passes) == (0, 1, 7)
    assert [p.n_pass for p in last.history_] == [1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_array_equal(last.history_[-1].coef, last.coef_.ravel())
    assert last.history_[-1].intercept == np.ravel(last.intercept_)[0]
    tail = mean.history_[3:]
    if not settings:  # an l1 penalty sets what is mostly 0 to 0
        wanted = np.mean([p.coef for p in tail], axis=0)
        np.testing.assert_allclose(mean.coef_.ravel(), wanted, rtol=1e-9, atol=1e-12)
    wanted = np.mean([p.intercept for p in tail])
    if not settings:
        np.testing.assert_allclose(mean.intercept_, wanted, rtol=1e-9, atol=1e-12)


def test_the_history_is_made_of_released_gradients_alone(monkeypatch):
    """Plain steps with the noise that the generator gives, worked out without the estimator."""
    monkeypatch.setattr(RepeatedNoise, "publication_for", undithered)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 1)), rng.uniform(-1, 1, 50)
    X, y = np.round(X * 2**10) / 2**10, np.round(y * 2**10) / 2**10  # sums of floats are exact
    model = DPCoordinateDescentRegressor(
        scaling_share=0,
        clip=None,
        penalty=None,
        fit_intercept=False,
        n_passes=5,
        **NORMAL,
        random_state=7,
    ).fit(X, y)
    w, found = 0.0, []
    for draw in model.noise_.rvs(np.random.default_rng(7), (5, 1)):
        gradient = 2.0 * (X[:, 0] @ ((X[:, 0] * w - y) / 2).clip(-1, 1) + draw[0])
        w -= gradient / 50
        found.append(w)
    np.testing.assert_allclose([p.coef[0] for p in model.history_], found, atol=1e-7)


def test_a_callback_sees_every_pass_and_may_end_it(case):
    """It is told of released models only, in the user's units; the whole budget is charged."""
    estimator, domain, X, y = case
    seen, ledger = [], Ledger(1.0, 1e-6)

    def callback(progress):
        seen.append(progress)
        return progress.n_pass == 3

    common = {"domain": domain, "n_passes": 10, "random_state": 0, "average": False} | NORMAL
    model = estimator(callback=callback, ledger=ledger, **common).fit(X, y)
    whole = estimator(**common).fit(X, y)
    assert [p.n_pass for p in seen] == [1, 2, 3]
    assert seen == model.history_
    assert (model.n_iter_, model.converged_) == (3, False)
    assert (whole.n_iter_, whole.converged_) == (10, True)
    np.testing.assert_array_equal(model.coef_.ravel(), seen[-1].coef)
    for a, b in zip(seen, whole.history_, strict=False):
        np.testing.assert_array_equal(a.coef, b.coef)
    assert (ledger.spent.epsilon, ledger.spent.delta) == (1.0, 1e-6)
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-6)
    assert model.noise_.law == whole.noise_.law


def test_a_callback_may_end_one_model_of_several(people, domain):
    y = np.arange(len(people)) % 3
    separate = {"mechanism": "laplace", "delta": 1e-6}
    model = DPCoordinateDescentClassifier(
        domain=domain, classes=[0, 1, 2], n_passes=4, callback=lambda p: p.model == 1, **separate
    ).fit(people, y)
    assert [(p.model, p.n_pass) for p in model.history_] == [
        *((0, k) for k in (1, 2, 3, 4)),
        (1, 1),
        *((2, k) for k in (1, 2, 3, 4)),
    ]
    assert (model.n_iter_, model.converged_) == (4, False)
    assert all(p.n_models == 3 for p in model.history_)


def test_an_error_in_a_callback_leaves_the_earlier_model(case):
    """The budget is spent, says the note, and the model that was there is still there."""
    estimator, domain, X, y = case
    ledger = Ledger(2.0)
    model = estimator(domain=domain, ledger=ledger).fit(X, y)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    before.pop("feature_names_in_")  # an equal one

    def fails(progress):
        raise RuntimeError("too dark")

    with pytest.raises(RuntimeError, match="too dark") as caught:
        model.set_params(callback=fails).fit(X, y)
    assert "The callback had seen" in caught.value.__notes__[0]
    assert "The budget was spent: epsilon = 1" in caught.value.__notes__[1]
    assert ledger.spent.epsilon == 2.0
    assert len(before) > 6
    assert all(getattr(model, name) is value for name, value in before.items())


def test_a_bar_is_drawn_on_standard_error(people, domain, answers, capsys):
    """And nothing else: no number of the data's. Without verbose, nothing at all."""
    model = DPCoordinateDescentClassifier(domain=domain, n_passes=3)
    model.fit(people, answers)
    assert capsys.readouterr() == ("", "")
    model.set_params(verbose=1).fit(people, answers)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.split("\r") == [
        "",
        f"[{'#' * 10}{' ' * 20}] pass 1 of 3",
        f"[{'#' * 20}{' ' * 10}] pass 2 of 3",
        f"[{'#' * 30}] pass 3 of 3\n",
    ]
    three = model.set_params(classes=[0, 1, 2], n_passes=2)
    three.fit(people, np.arange(len(people)) % 3)
    assert capsys.readouterr().err.count("of 2") == 2  # a joint model
    three.set_params(mechanism="laplace", delta=1e-6).fit(people, np.arange(len(people)) % 3)
    assert capsys.readouterr().err.count("of 6") == 6
