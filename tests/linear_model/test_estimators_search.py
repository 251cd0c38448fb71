"""Cross-validation, grid search and workers charge one ledger, once for every fit."""

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline

import skdp
from skdp import BudgetExceeded, DPCoordinateDescentClassifier, DPLogisticRegression, Ledger

GRID = {"epsilon": [0.1, 1, 10]}


def charges(ledger):
    spent = [entry.epsilon for entry in ledger.entries]
    return {epsilon: spent.count(epsilon) for epsilon in sorted(set(spent))}


@pytest.mark.parametrize(
    ("estimator", "n_jobs"),
    [(DPLogisticRegression, 1), (DPLogisticRegression, 2), (DPCoordinateDescentClassifier, 1)],
)
def test_a_grid_search_charges_every_fit_once(estimator, n_jobs, people, domain, answers):
    """Three folds for each of three budgets, and one more fit of the best."""
    ledger = Ledger(100.0)
    model = estimator(domain=domain, ledger=ledger)
    search = GridSearchCV(model, GRID, cv=3, n_jobs=n_jobs).fit(people, answers)
    best = search.best_params_["epsilon"]
    assert charges(ledger) == {e: 3 + (e == best) for e in GRID["epsilon"]}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.guarantee_.epsilon == best
    assert search.best_estimator_.ledger == ledger
    assert all(entry.holds for entry in ledger.entries)


def test_a_pipeline_in_a_grid_search(people, pay_domain, pay):
    """The encoder first, the parameter by its step's name, frames split into folds."""
    ledger = Ledger(100.0)
    step = skdp.DPHuberRegressor(domain=pay_domain.encoded, ledger=ledger)
    pipeline = make_pipeline(pay_domain.encoder(), step)
    grid = {"dphuberregressor__epsilon": [0.5, 5.0]}
    search = GridSearchCV(pipeline, grid, cv=2, refit=False, n_jobs=2).fit(people, pay)
    assert charges(ledger) == {0.5: 2, 5.0: 2}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_validation_charges_every_fold(people, domain, answers):
    ledger = Ledger(5.0)
    model = DPLogisticRegression(epsilon=0.5, domain=domain, ledger=ledger)
    scores = cross_val_score(model, people, answers, cv=4)
    assert scores.shape == (4,)
    assert ledger.spent.epsilon == 2.0
    found = cross_validate(model, people, answers, cv=2, return_estimator=True)
    assert ledger.spent.epsilon == 3.0
    assert all(fold.ledger == ledger for fold in found["estimator"])


@pytest.mark.parametrize("estimator", [DPLogisticRegression, DPCoordinateDescentClassifier])
def test_folds_have_noise_of_their_own(estimator, people, domain, answers):
    """Also in worker processes: no two of ten fits share a coefficient."""
    model = estimator(domain=domain)
    found = cross_validate(model, people, answers, cv=10, return_estimator=True, n_jobs=2)
    coefs = np.concatenate([fold.coef_ for fold in found["estimator"]])
    assert len(np.unique(coefs)) == coefs.size


def test_a_budget_that_ends_midway_stops_the_rest(people, domain, answers):
    """Two of four fits fit in; the others fail, and nothing beyond the ceiling is charged."""
    ledger = Ledger(1.0)
    model = DPLogisticRegression(epsilon=0.4, domain=domain, ledger=ledger)
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon=0\.4.*left epsilon=0\.2") as caught:
        cross_val_score(model, people, answers, cv=4, error_score="raise")
    assert "No budget was spent" in caught.value.__notes__[0]
    assert charges(ledger) == {0.4: 2}
    with pytest.warns(FitFailedWarning, match="2 fits failed"):
        scores = cross_val_score(model.set_params(ledger=Ledger(1.0)), people, answers, cv=4)
    assert np.isnan(scores).sum() == 2


def test_two_workers_cannot_spend_the_same_budget(people, domain, answers):
    ledger = Ledger(0.3)
    model = DPLogisticRegression(epsilon=0.1, domain=domain, ledger=ledger)
    with pytest.warns(FitFailedWarning, match="5 fits failed"):
        scores = cross_val_score(model, people, answers, cv=8, n_jobs=2)
    assert np.isfinite(scores).sum() == 3
    assert charges(ledger) == {0.1: 3}


def test_one_ledger_takes_one_relation(people, domain, answers):
    """Guarantees under two neighbouring relations do not add up, and nothing is charged."""
    ledger = Ledger(3.0)
    DPLogisticRegression(domain=domain, ledger=ledger).fit(people, answers)
    other = DPLogisticRegression(domain=domain, ledger=ledger, neighbors="add_remove")
    with pytest.raises(ValueError, match="neighbors='replace_one'") as caught:
        other.fit(people, answers)
    assert "No budget was spent" in caught.value.__notes__[0]
    assert ledger.spent.epsilon == 1.0


def test_a_ledger_says_who_spent_what(people, domain, answers):
    """Seeded fits are charged as well, and marked as not holding."""
    ledger = Ledger(3.0)
    DPLogisticRegression(domain=domain, ledger=ledger, random_state=0).fit(people, answers)
    (entry,) = ledger.entries
    assert entry.note == "DPLogisticRegression.fit"
    assert "objective perturbation" in entry.mechanism
    assert not entry.holds
