"""Private coordinate descent as an estimator: poor data, starts, callbacks, mechanisms, labels."""

from itertools import product

import numpy as np
import pytest
from descent_runs import undithered
from own_parts import HyperbolicSecant
from poor_tables import TABLES, both, fit_quietly

from skdp import Domain, DPCoordinateDescentClassifier, DPCoordinateDescentRegressor, Ledger
from skdp.linear_model import Progress
from skdp.mechanisms import Independent
from skdp.noise import FlippedHuber, Gaussian, Laplace
from skdp.noise.independent import RepeatedNoise
from skdp.privacy import Composition

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
def test_parameters_at_the_ends_of_their_ranges_are_fitted_quietly(order):
    """Nothing overflows to what is no number. Huge steps on separable data end in finite models."""
    steps = [{}, {"clip": 0.5}, {"clip": None, "scaling_share": 0}]
    budgets = [NORMAL, {"epsilon": 1e6}]
    ends = [
        {"step_size": size, "penalty": None, "n_passes": 12} | more | budget
        for size, more, budget in product((2.5, 1e30), steps, budgets)
    ]
    ends += [
        {"alpha": 1e30, "penalty": "l1", "step_size": 1e30},
        {"alpha": 1e30, "penalty": "l2", "scaling_share": 1e-6},
        {"clip": 1e30, "penalty": "elasticnet", "step_size": 1e30},
        {"clip": 1e-30, "step_size": 1e-30, "epsilon": 1e-6},
        {"epsilon": 1e-6, "step_size": 1e30, "penalty": "l1", "alpha": 1e-30},
        {"epsilon": 1e12, "alpha": 0, "penalty": "l2", "scaling_share": 1 - 1e-6},
    ]
    X, facts = np.linspace(-1, 1, 90).reshape(30, 3), {"order": order, "random_state": 0}
    for parameters in ends:
        for model, labels in both(*DESCENTS, Domain.unit_box(3), **facts, **parameters):
            fit_quietly(model, X, np.resize(labels, 30))
            fit_quietly(model, X, np.where(X[:, 0] > 0, *labels[::-1]))


# Starts


def test_a_model_may_begin_where_another_ended(case):
    """Units and levels there and back: with tiny steps it stays, also after a scaling stage."""
    estimator, domain, X, y = case
    first = estimator(domain=domain, epsilon=20.0, **NORMAL, random_state=1).fit(X, y)
    still = {"start": (first.coef_, first.intercept_), "step_size": 1e-14, "n_passes": 2}
    for share, more in ((0, {}), (0.5, {}), (0.5, {"penalty": "l2", "alpha": 0})):
        settings = {"scaling_share": share} | more
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
    np.testing.assert_allclose(found[0, 2:4], 0.99 * 2.0**20)  # three levels have no other units


# History and callbacks


@pytest.mark.parametrize(
    "settings", [{}, {"scaling_share": 0, "penalty": "l1", "alpha": 0.02}], ids=str
)
def test_the_history_holds_the_models_of_all_passes(case, settings):
    """The last one is the model, or the mean without the first quarter; nothing else is in it."""
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
    if not settings:  # an l1 penalty sets what is mostly 0 to 0
        wanted = np.mean([np.append(p.coef, p.intercept) for p in mean.history_[1:]], axis=0)
        found = np.append(mean.coef_, mean.intercept_)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_the_history_is_made_of_released_gradients_alone(monkeypatch):
    """Plain steps with the noise that the generator gives, worked out without the estimator."""
    monkeypatch.setattr(RepeatedNoise, "publication_for", undithered)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (50, 1)), rng.uniform(-1, 1, 50)
    X, y = np.round(X * 2**10) / 2**10, np.round(y * 2**10) / 2**10  # sums of floats are exact
    plain = {"scaling_share": 0, "clip": None, "penalty": None, "fit_intercept": False}
    plain["step_size"] = 1.0
    model = DPCoordinateDescentRegressor(**plain, **NORMAL, n_passes=5, random_state=7).fit(X, y)
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
    expected = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (2, 1), (2, 2), (2, 3), (2, 4)]
    assert [(p.model, p.n_pass) for p in model.history_] == expected
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
    bars = [f"[{'#' * (10 * k):<30}] pass {k} of 3" for k in (1, 2, 3)]
    assert err.split("\r") == ["", *bars[:2], bars[2] + "\n"]
    three = model.set_params(classes=[0, 1, 2], n_passes=2)
    three.fit(people, np.arange(len(people)) % 3)
    assert capsys.readouterr().err.count("of 2") == 2  # a joint model
    three.set_params(mechanism="laplace", delta=1e-6).fit(people, np.arange(len(people)) % 3)
    assert capsys.readouterr().err.count("of 6") == 6


# Parameters and mechanisms

X, Y = np.linspace(-1, 1, 60).reshape(20, 3), np.array([0, 1] * 10)


@pytest.mark.parametrize("estimator", DESCENTS)
def test_good_values_at_the_ends_are_taken(estimator):
    """The twin: what is in range is fitted."""
    for parameters in (
        {"alpha": 0, "penalty": "l1", "l1_ratio": 0},
        {"alpha": 1e6, "penalty": "elasticnet", "l1_ratio": 1, "n_passes": np.int64(1)},
        {"n_passes": 2.0, "step_size": np.float32(0.5), "average": np.True_, "verbose": False},
        {"penalty": "none", "clip": np.float64(0.1), "scaling_share": 0.999, "callback": print},
        {"start": ([[0, 0, 0]], [0]), "scaling_share": 0.0},
    ):
        given = {"classes": [0, 1]} if estimator is DPCoordinateDescentClassifier else {}
        model = estimator(**given, **parameters).fit(X, Y)
        assert np.isfinite(model.coef_).all()


# All names are calibrated in tests/mechanisms/independent/test_repeated.py.
NAMES = {"laplace": Laplace, "gaussian": Gaussian, "flipped_huber": FlippedHuber}
LAWS = [FlippedHuber(2.0, 1.0), Laplace(3.0), HyperbolicSecant()]


def fitted(delta=1e-6, **parameters):
    model = DPCoordinateDescentClassifier(classes=[0, 1], n_passes=3, delta=delta, **parameters)
    return model.fit(X, Y)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_a_law(name):
    """Its guarantee carries what was asked, and says which noise it was."""
    model = fitted(mechanism=name, scaling_share=0)
    assert type(model.noise_.law) is NAMES[name]
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-6)
    assert NAMES[name].__name__ in model.guarantee_.mechanism
    assert model.guarantee_.losses
    assert Composition(model.guarantee_.losses).delta_at(1.0).upper <= 1e-6 * (1 + 1e-9)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "parameters", [{}, {"order": "greedy"}, {"clip": 0.5}, {"scaling_share": 0}], ids=str
)
def test_the_guarantee_carries_losses_that_use_delta_up(parameters, neighbors):
    """Of all steps, choices and the scaling stage: together delta, and hardly less. Never more."""
    model = fitted(
        mechanism="gaussian", neighbors=neighbors, **({"scaling_share": 0.2} | parameters)
    )
    spent = Composition(model.guarantee_.losses).delta_at(1.0)
    assert 0.98e-6 < spent.upper <= 1e-6 * (1 + 1e-9)
    assert not model.guarantee_.void_because
    names = [release.name for release in model.releases_]
    assert ("scaling" in names) == (parameters != {"scaling_share": 0})
    assert all(name in model.guarantee_.mechanism for name in names)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_law_keeps_its_shape_and_is_scaled(law):
    """Also one of six members that this package has never seen, and also as `Independent`."""
    found = [fitted(mechanism=m).noise_.law for m in (law, Independent(law), law.scaled(7.0))]
    assert all(type(f) is type(law) for f in found)
    # Laws have different names for their scale: the ratio of quantiles is the shape.
    for f in found:
        assert f.isf(1e-3) / f.isf(0.1) == pytest.approx(law.isf(1e-3) / law.isf(0.1), rel=1e-6)
        assert f.var() == pytest.approx(found[0].var(), rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_models_of_several_labels_share_the_budget(delta):
    """K models of L passes cost what one of K L passes does: with delta = 0, K times the noise.

    With rows of the same length, or none: clipped shares.
    """
    common = {"delta": delta, "mechanism": "gaussian" if delta else "laplace", "scaling_share": 0}
    common |= {"clip": 0.5}
    parameters = {"n_passes": 4, **common}
    three = DPCoordinateDescentClassifier(classes=[0, 1, 2], **parameters).fit(X, Y)
    longer = DPCoordinateDescentClassifier(classes=[0, 1], **common, n_passes=12).fit(X, Y)
    one = DPCoordinateDescentClassifier(classes=[0, 1], **parameters).fit(X, Y)
    assert three.noise_.var() == pytest.approx(longer.noise_.var(), rel=1e-6)
    assert three.noise_.var() / one.noise_.var() == pytest.approx(3.0 if delta else 9.0, rel=1e-3)
    assert three.guarantee_.epsilon == one.guarantee_.epsilon == 1.0
    np.testing.assert_allclose(three.predict_proba(X).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(three.predict_log_proba(X)), three.predict_proba(X))
