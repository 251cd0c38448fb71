"""A private search from end to end: one budget, one charge, and a choice worth having."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from inner_fits import base_module as base
from inner_objective import ObjectivePerturbation
from inner_package import UNITS
from inner_package import selection_module as _selection
from inner_package import theorem_module as _theorem
from joblib import parallel_config
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import skdp
import skdp.model_selection.search as module
from skdp import BudgetExceeded, Domain, DPLogisticRegression, Ledger
from skdp.model_selection import PrivateSearchCV
from skdp.privacy.ledger import Budget

# A ridge that leaves nothing of the coefficients, and none.
RIDGES = {"regularization": [1e9, 0.0]}
INTERCEPTS = {"fit_intercept": [False, True]}


def search(domain, grid=RIDGES, **options):
    model = DPLogisticRegression(domain=domain)
    return PrivateSearchCV(model, grid, **{"epsilon": 8.0, "random_state": 0, **options})


@pytest.fixture
def fits(monkeypatch):
    """The (epsilon, delta) of every fit that goes so far as to draw noise."""
    made, algorithm = [], DPLogisticRegression._algorithm

    def noting(self):
        found = algorithm(self)

        def release(*args):
            made.append((self.epsilon, self.delta))
            return ObjectivePerturbation.release(found, *args)

        object.__setattr__(found, "release", release)
        return found

    monkeypatch.setattr(DPLogisticRegression, "_algorithm", noting)
    return made


# What is chosen


@pytest.fixture(scope="module")
def plain():
    """Two numbers, of which the greater one says the label."""
    X = np.random.default_rng(9).uniform(0, 10, (2000, 2))
    domain = Domain.box([0, 0], [10, 10], target=["no", "yes"])
    return domain, X, np.where(X[:, 0] > X[:, 1], "yes", "no")


@pytest.fixture(scope="module")
def shifted(plain):
    """Numbers of the upper half of their range and their sum as the label.

    A model without an intercept gives nearly all records one label.
    """
    domain, X, _ = plain
    X = 5 + X / 2
    return domain, X, np.where(X.sum(axis=1) > 15, "yes", "no")


def test_the_better_candidate_is_found(shifted):
    """And the model predicts as the chosen candidate does."""
    domain, X, y = shifted
    many = {"epsilon": 4.0, "grid": INTERCEPTS}
    found = [search(domain, random_state=seed, **many).fit(X, y) for seed in range(4)]
    # About half of 400 labels are right by the bad candidate, at least 300 by the good one: the
    # bad one has a chance of e^-50.
    assert all(one.best_params_ == {"fit_intercept": True} for one in found)
    assert np.median([one.score(X, y) for one in found]) > 0.9
    one = found[0]
    assert one.best_estimator_.fit_intercept == one.best_params_["fit_intercept"]
    np.testing.assert_array_equal(one.predict(X), one.best_estimator_.predict(X))
    np.testing.assert_array_equal(one.classes_, ["no", "yes"])
    assert one.predict_proba(X).shape == one.predict_log_proba(X).shape == (2000, 2)
    assert one.decision_function(X).shape == (2000,)


def test_cv_results_hold_what_was_released_and_no_more(people, domain, answers):
    """A position, and no score."""
    grid = [{"regularization": [1e9, 0.0]}, {"scaling_share": [0.1]}]
    found = search(domain, grid).fit(people, answers)
    results = found.cv_results_
    assert results["params"][found.best_index_] == found.best_params_
    assert results["param_scaling_share"].tolist() == [None, None, 0.1]
    assert sorted(results["rank_test_score"].tolist()) == [1, 2, 2]
    assert results["rank_test_score"][found.best_index_] == 1
    assert set(results) == {
        "params",
        "param_scaling_share",
        "param_regularization",
        "rank_test_score",
    }


# What it costs


@pytest.mark.parametrize("where", ["search", "estimator"])
def test_one_search_is_charged_once(where, people, domain, answers):
    """Whoever holds the ledger; the inner fits charge nothing, and later ones of the model do."""
    ledger = Ledger(100.0, 1e-5)
    found = search(domain, delta=1e-6, random_state=None)
    found.estimator.set_params(mechanism="l2")
    owner = found if where == "search" else found.estimator
    owner.set_params(ledger=ledger)
    found.fit(people, answers)
    (entry,) = ledger.entries
    assert (entry.epsilon, entry.delta, entry.holds) == (8.0, 1e-6, True)
    assert entry.note == "PrivateSearchCV.fit"
    assert found.guarantee_.epsilon == 8.0
    assert found.guarantee_ == found.best_estimator_.guarantee_
    epsilon = found.best_estimator_.epsilon
    found.best_estimator_.fit(people, answers)
    assert [own.epsilon for own in ledger.entries] == [8.0, epsilon]


def test_a_chosen_pipeline_charges_the_ledger_of_its_search(people, domain, answers):
    ledger = Ledger(100.0)
    steps = domain.encoder(), DPLogisticRegression(domain=domain.encoded)
    grid = {"dplogisticregression__regularization": [1e9, 0.0]}
    found = PrivateSearchCV(make_pipeline(*steps), grid, epsilon=8.0, ledger=ledger)
    best = found.fit(people, answers).best_estimator_
    best.fit(people, answers)
    clone(best).fit(people, answers)
    assert [own.epsilon for own in ledger.entries] == [8.0, best[-1].epsilon, best[-1].epsilon]
    assert steps[-1].ledger is None


SCORINGS = ["accuracy", "roc_auc", "balanced_accuracy", "neg_log_loss", "neg_brier_score"]


@pytest.mark.parametrize("scoring", SCORINGS)
def test_no_held_out_record_is_a_score_of_zero(scoring, monkeypatch):
    """Whether a part is empty depends on private draws: the search goes on after its charge."""

    def none_held_out(n, shares, *others):
        return [*np.array_split(np.arange(n), len(shares) - 1), np.arange(0)]

    monkeypatch.setattr(module, "parts", none_held_out)
    domain = Domain.unit_box(1, target=["no", "yes"])
    X, y = np.linspace(-1, 1, 8)[:, None], np.resize(["no", "yes"], 8)
    model = DPLogisticRegression(domain=domain, neighbors="add_remove", n_public=8)
    found = PrivateSearchCV(model, {"regularization": [0.5, 0.8]})
    assert found.set_params(scoring=scoring).fit(X, y).best_index_ in (0, 1)


def test_a_search_that_does_not_fit_draws_nothing(people, domain, answers, fits):
    ledger = Ledger(7.9)
    found = search(domain, ledger=ledger)
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon=8\.0") as caught:
        found.fit(people, answers)
    assert caught.value.__notes__ == ["No budget was spent and no noise was drawn."]
    assert ledger.entries == ()
    assert fits == []
    assert not hasattr(found, "best_estimator_")


def test_budgets_of_the_fits_by_parts(people, domain, answers, fits):
    """A quarter for each trial, whose records are apart; three quarters for the last fit."""
    search(domain, epsilon=1.0).fit(people, answers)
    assert [epsilon for epsilon, *_ in fits] == [0.25, 0.25, 0.75]
    search(domain, epsilon=1.0, refit_share=0.0).fit(people, answers)
    assert [epsilon for epsilon, *_ in fits[3:]] == [1.0, 1.0]


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_rate_of_the_choice(neighbors, people, domain, answers, monkeypatch):
    """Epsilon over twice what one record may change a score by."""
    rates, draw = [], _theorem.permute_and_flip

    def noted(totals, rate, rng):
        rates.append(rate)
        return draw(totals, rate, rng)

    monkeypatch.setattr(_theorem, "permute_and_flip", noted)
    model = DPLogisticRegression(domain=domain, neighbors=neighbors, n_public=400)
    PrivateSearchCV(model, RIDGES, epsilon=1.0).fit(people, answers)
    sensitivity = {"replace_one": UNITS, "add_remove": UNITS // 2}[neighbors]
    assert rates == [Fraction(1, 4 * 2 * sensitivity)]


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_no_record_is_in_two_parts(neighbors, people, domain, answers):
    """Nor in a fit and in the scores."""
    found = search(domain)
    found.estimator.set_params(neighbors=neighbors)
    candidates, X, y = found._read(people, answers)
    made = found._task(Budget(1.0, 0.0), candidates, (X, y, None, None), 400)
    rows = [fit.rows for fit in made.fits]
    assert sorted(np.concatenate([*rows, made.held_out]).tolist()) == list(range(400))
    # Five standard deviations of a count of 400 under add/remove.
    assert len(made.held_out) == pytest.approx(80, abs=0 if neighbors == "replace_one" else 40)


def test_seeds_repeat_and_void_the_guarantee(people, domain, answers):
    """Without one, two searches have noise of their own, and so have the fits of one search."""
    one, two = (search(domain).fit(people, answers) for _ in range(2))
    np.testing.assert_array_equal(one.best_estimator_.coef_, two.best_estimator_.coef_)
    assert not one.guarantee_.holds
    three, four = (search(domain, random_state=None).fit(people, answers) for _ in range(2))
    assert (three.best_estimator_.coef_ != four.best_estimator_.coef_).all()
    assert three.guarantee_.holds
    # A seed of the estimator's own is not taken: its noise would be known.
    own = search(domain, random_state=None)
    own.estimator.set_params(random_state=0)
    assert own.fit(people, answers).best_estimator_.random_state is None


def test_fits_of_a_seeded_search_have_seeds_of_their_own(people, domain, answers, monkeypatch):
    seeds, fit = [], DPLogisticRegression.fit

    def seen(self, X, y):
        seeds.append(self.random_state)
        return fit(self, X, y)

    monkeypatch.setattr(DPLogisticRegression, "fit", seen)
    search(domain, {"regularization": [1e9, 1.0, 0.0]}).fit(people, answers)
    assert len({seed for seed in seeds if seed is not None}) >= 3


def test_labels_that_nobody_declared_are_told_to_all_parts(people, answers):
    X = np.clip(people[["age", "hours"]].to_numpy() / 50 - 1, -1, 1)
    found = PrivateSearchCV(DPLogisticRegression(), RIDGES, epsilon=8.0)
    with pytest.warns(skdp.PrivacyLeakWarning, match="labels were read from y"):
        found.fit(X[:30], answers[:30])
    assert any("read from y" in sentence for sentence in found.guarantee_.assumptions)


# What goes wrong


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
        (
            {"scoring": "r2"},
            "scoring must be one of .*'neg_brier_score', 'neg_log_loss', 'roc_auc'",
        ),
        ({"held_out": 1.0}, "held_out must be"),
        ({"refit_share": 1.0}, "refit_share must be"),
        ({"ledger": 3.0}, "ledger must be a Ledger"),
        ({"grid": {"epsilon": [1.0, 2.0]}}, "param_grid must leave out"),
        ({"grid": {"nothing": [1.0]}}, "Invalid parameter 'nothing'"),
        ({"grid": []}, "param_grid must contain"),
        # What only a candidate's own fit sees.
        ({"grid": {"regularization": [0.9, -1.5]}}, "regularization must be"),
        ({"grid": {"mechanism": ["l2", "gaussian"]}}, "delta"),
    ],
    ids=str,
)
def test_errors_come_before_anything_is_spent(options, message, people, domain, answers, fits):
    ledger = Ledger(10.0)
    given = {"ledger": ledger, **options}
    with pytest.raises(ValueError, match=message) as caught:
        search(domain, **given).fit(people, answers)
    assert caught.value.__notes__ == ["No budget was spent and no noise was drawn."]
    assert ledger.entries == ()
    assert fits == []


def test_a_target_in_the_table_is_refused_with_its_remedy(people, domain, answers):
    with pytest.raises(TypeError, match="does not support target: pass y"):
        search(domain).fit(people.assign(income=answers), target="income")


@pytest.mark.parametrize("row", [0, 399])
def test_a_bad_cell_anywhere_is_found_before_anything_is_spent(row, people, domain, answers):
    """Also among the records that only scores see."""
    ledger, X = Ledger(10.0), people.copy()
    X.loc[row, "age"] = np.nan
    with pytest.raises(ValueError, match="column 'age' must contain only finite numbers"):
        search(domain, ledger=ledger).fit(X, answers)
    assert ledger.entries == ()


def test_a_fit_that_fails_after_the_charge_says_so(people, domain, answers, monkeypatch):
    """The whole budget is gone, and an earlier model is left as it was."""
    found = search(domain).fit(people, answers)
    before = found.best_estimator_

    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(ObjectivePerturbation, "release", fail)
    with pytest.raises(RuntimeError) as caught:
        found.fit(people, answers)
    (note,) = caught.value.__notes__
    assert "The budget was spent: epsilon = 8" in note
    assert found.best_estimator_ is before


def test_two_ledgers_are_one_too_many(people, domain, answers):
    found = search(domain, ledger=Ledger(9.0))
    found.estimator.set_params(ledger=Ledger(9.0))
    with pytest.raises(ValueError, match="ledger must be the estimator's"):
        found.fit(people, answers)


def test_an_estimator_that_ignores_its_ledger_is_caught(people, domain, answers):
    class Careless(DPLogisticRegression):
        def fit(self, X, y, **unsupported):
            self.ledger = None
            return super().fit(X, y, **unsupported)

    with pytest.raises(ValueError, match="charge its ledger before it draws noise"):
        PrivateSearchCV(Careless(domain=domain), RIDGES).fit(people, answers)


def test_too_few_records_for_the_parts(people, domain, answers):
    with pytest.raises(ValueError, match="at least 3 records"):
        search(domain).fit(people[:2], answers[:2])


# Among scikit-learn's own


def test_pipelines_clones_pickles_and_workers(shifted):
    """A pipeline that encodes gives what the estimator gives alone."""
    domain, X, y = shifted
    pipeline = make_pipeline(domain.encoder(), DPLogisticRegression(domain=domain.encoded))
    grid = {"dplogisticregression__fit_intercept": [False, True]}
    found = PrivateSearchCV(pipeline, grid, epsilon=8.0, random_state=0)
    with parallel_config(backend="threading"):
        found = clone(found).set_params(n_jobs=2).fit(X, y)
    assert found.best_params_ == {"dplogisticregression__fit_intercept": True}
    assert found.best_estimator_[-1].guarantee_ == found.guarantee_
    assert any("steps before the model" in s for s in found.guarantee_.assumptions)
    again = pickle.loads(pickle.dumps(found))
    direct = search(domain, INTERCEPTS).fit(X, y)
    for one in (found, direct):
        np.testing.assert_array_equal(again.predict(X), one.predict(X))


@pytest.mark.parametrize("share", [0.75, 0.1, 1e-11, 1 - 1e-11, 1 - 1e-15, 1 - 2**-53, 5e-324])
@pytest.mark.parametrize("whole", [0.1, 1 / 3, 7.0, 0.9007199254740994, 1e-12, 1e12])
def test_the_parts_of_a_budget_add_up_to_no_more_than_it(whole, share):
    """As exact fractions of their decimals, however near a share is to all or to nothing.

    Some differences have more digits than the 28 of decimal's default context.
    """
    parts = _selection.split(Budget(whole, whole / 1e13), share)
    for name, limit in (("epsilon", whole), ("delta", whole / 1e13)):
        spent = sum(Fraction(repr(getattr(part, name))) for part in parts)
        assert spent <= Fraction(repr(limit))
        assert spent >= Fraction(repr(limit)) * (1 - Fraction(1, 10**15))


def test_progress_is_shown_where_it_tells_nothing(people, domain, answers, capsys):
    search(domain, verbose=1).fit(people, answers)
    assert "candidate 2 of 2" in capsys.readouterr().err


def test_the_dry_run_draws_no_noise(people, domain, answers, monkeypatch, fits):
    """Every candidate is looked at under both budgets before the first draw of a fit."""
    plans = []
    public = base.PrivateLinearModel._public

    def noted(self, source):
        plans.append((self.regularization, self.epsilon, len(fits)))
        return public(self, source)

    monkeypatch.setattr(base.PrivateLinearModel, "_public", noted)
    search(domain, epsilon=1.0).fit(people, answers)
    seen = {(ridge, epsilon) for ridge, epsilon, made in plans if made == 0}
    assert seen == {(ridge, epsilon) for ridge in (1e9, 0.0) for epsilon in (0.25, 0.75)}
