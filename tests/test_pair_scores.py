"""Scores of a search beside accuracy: their sensitivity, their order, and the private choice."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.pipeline import Pipeline
from test_private_selection import law_of_choice

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPHuberRegressor,
    DPLogisticRegression,
    Ledger,
)
from skdp.model_selection import PrivateSearchCV
from skdp.model_selection._scoring import UNITS, as_score

LABELS = ["no", "yes"]
RELATIONS = ("replace_one", "add_remove")
PAIRS = ("roc_auc", "balanced_accuracy")


class Column(BaseEstimator):
    """A model whose log-odds are one column of the table."""

    classes_ = np.array(LABELS)

    def __init__(self, which=0):
        self.which = which

    def decision_function(self, X):
        return np.asarray(X, dtype=float)[:, self.which]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self.decision_function(X)))
        return np.column_stack([1 - p, p])


class OnlyProbabilities(Column):
    """A model without log-odds."""

    decision_function = property()

    def predict_proba(self, X):
        return Column(self.which).predict_proba(X)


def total(name, records, which=0):
    """The total of records (label, rank of the first candidate, rank of the second)."""
    if not records:
        return as_score(name, LABELS, None).total(Column(which), np.empty((0, 2)), np.empty(0, str))
    y = np.array([LABELS[record[0]] for record in records])
    return as_score(name, LABELS, None).total(Column(which), [*map(_ranks, records)], y)


def _ranks(record):
    return np.array(record[1:], dtype=float)


# Sensitivity


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_sensitivity_is_the_greatest_change_of_all_small_tables(name, neighbors):
    """Of up to five records with three ranks: never more, and reached (Theorem 7)."""
    kinds = list(itertools.product([0, 1], [-1, 0, 1]))
    totals = {
        table: total(name, [(*record, 0) for record in table])
        for n in range(6)
        for table in itertools.combinations_with_replacement(kinds, n)
    }
    most = dict.fromkeys(range(5), 0)
    for table, found in totals.items():
        if len(table) == 5:
            continue
        more = [totals[tuple(sorted((*table, kind)))] for kind in kinds]
        if neighbors == "add_remove":
            change = max(abs(one - found) for one in more)
        else:
            change = max(more) - min(more)
        most[len(table)] = max(most[len(table)], change)
    # A single record has no pair.
    assert most.pop(0) == 0
    sensitivity = as_score(name, LABELS, None).sensitivity(neighbors)
    assert set(most.values()) == {sensitivity}
    is_halved = (name, neighbors) != ("roc_auc", "replace_one")
    assert sensitivity == (UNITS // 2 if is_halved else UNITS)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("n", [7, 40, 400])
def test_no_random_table_moves_more(neighbors, n):
    """Of many records with few and with many equal ranks, also where totals are rounded."""
    rng, score = np.random.default_rng(n), as_score("roc_auc", LABELS, None)
    bound, nearest = score.sensitivity(neighbors), 0
    for _ in range(30):
        share, spread = rng.choice([0.02, 0.3, 0.5, 0.98]), rng.choice([2, 1000])
        ranks = rng.integers(-spread, spread + 1, (n, 1)).astype(float)
        y = np.where(rng.random(n) < share, "yes", "no")
        # The strongest records: either label at either end.
        found = [
            score.total(Column(), np.vstack([ranks, [[end]]]), np.append(y, label))
            for end in (-1e9, 1e9)
            for label in LABELS
        ]
        before = score.total(Column(), ranks, y)
        change = (
            max(found) - min(found)
            if neighbors == "replace_one"
            else max(abs(one - before) for one in found)
        )
        assert change <= bound
        nearest = max(nearest, change)
    assert nearest > 0.9 * bound


# Order


def imbalanced(rng, n=200):
    y = np.where(rng.random(n) < 0.1, "yes", "no")
    y[:2] = LABELS
    # Few values, so that many are equal.
    return np.round(rng.normal(size=(n, 1)) + rng.uniform(0, 2) * (y == "yes")[:, None], 1), y


@pytest.mark.parametrize(("name", "known"), [("roc_auc", roc_auc_score), ("balanced_accuracy", 0)])
def test_a_total_is_the_measure_of_scikit_learn(name, known):
    """Scaled by the numbers of the labels, which all candidates share; so the order is the same."""
    rng = np.random.default_rng(1)
    score, (X, y) = as_score(name, LABELS, None), imbalanced(np.random.default_rng(2))
    pairs = 2 * np.sum(y == "yes") * np.sum(y == "no") / (len(y) * (len(y) - 1))
    found, truth = [], []
    for noise in rng.uniform(0, 4, 40):
        ranks = X + noise * rng.normal(size=X.shape).round(1) - 1.0
        measure = (
            roc_auc_score(y, ranks[:, 0])
            if known
            else balanced_accuracy_score(y, Column().predict(ranks))
        )
        found.append(score.total(Column(), ranks, y))
        truth.append(measure)
        mean = score.mean(found[-1], len(y))
        assert mean == pytest.approx(0.5 + pairs * (measure - 0.5), abs=1e-7)
    found, truth = np.array(found), np.array(truth)
    above = truth[:, None] > truth + 1e-9
    assert above.any()
    assert (found[:, None] > found)[above].all()


def test_ranks_that_are_no_number_are_the_least():
    score = as_score("roc_auc", LABELS, None)
    y = np.array(["yes", "no", "no"])
    assert score.total(Column(), [[np.nan], [-5.0], [np.inf]], y) == -UNITS // 2
    assert score.total(Column(), [[-np.inf], [np.nan], [-np.inf]], y) == 0


def test_models_without_log_odds_are_ranked_by_probability():
    X, y = imbalanced(np.random.default_rng(3))
    score = as_score("roc_auc", LABELS, None, [OnlyProbabilities()])
    assert score.total(OnlyProbabilities(), X, y) == score.total(Column(), X, y)


@pytest.mark.parametrize("labels", [LABELS, ["a", "b", "c"]])
def test_log_loss_is_that_of_scikit_learn(labels):
    """Of clipped probabilities; and each record has the same bits alone and among others."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (300, 3))
    y = np.array(labels)[np.argmax(5 * X[:, : len(labels)] + rng.normal(size=(300, 1)), axis=1)]
    domain = Domain.box([-1] * 3, [1] * 3, target=labels)
    model = DPLogisticRegression(epsilon=1e4, domain=domain, random_state=0).fit(X, y)
    score, least = as_score("neg_log_loss", np.array(labels), None), 0.04 / len(labels)
    p = model.predict_proba(X)
    assert (p < least).any()
    assert (p > 1 - least).any()
    clipped = np.clip(p[np.arange(300), np.searchsorted(labels, y)], least, 1 - least)
    found = score.total(model, X, y)
    assert score.mean(found, 300) == pytest.approx(np.log(clipped).mean(), abs=1e-5)
    if len(labels) == 2:
        wanted = -log_loss(y, np.clip(p, least, 1 - least))
        assert score.mean(found, 300) == pytest.approx(wanted, abs=1e-5)
    assert found == sum(score.total(model, X[k : k + 1], y[k : k + 1]) for k in range(300))
    bounds = score.lower, score.upper
    assert bounds == (math.log(least), math.log(1 - least))
    # A label that a model does not know has no probability.
    assert score.total(model, X[:1], np.array(["z"])) == -UNITS // 2


def test_r2_is_the_order_by_squared_error():
    by_r2, by_error = (as_score(name, None, (-2.0, 2.0)) for name in ("r2", None))
    assert by_r2 == by_error


# The private choice


def worst_case(neighbors, n_positive, n=1000):
    """Two tables; candidate 0 predicts the changed record correctly in one of them only.

    Some positive records favour candidate 1, so that candidate 0 is chosen rarely.
    """
    if neighbors == "add_remove":
        others = [(0, -1, 1)] * (n - 1)
        return others, [*others, (1, 2, -2)]
    others = [(1, -1, 1)] * n_positive + [(0, 0, 0)] * (n - 1 - n_positive)
    return [*others, (1, 2, -2)], [*others, (1, -2, 2)]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("too_small", [False, True])
def test_the_choice_costs_epsilon_and_no_less(name, neighbors, too_small):
    """Exact probabilities on neighbours; a sensitivity that is 5 % too small is caught."""
    epsilon, tables = 0.7, worst_case(neighbors, 2)
    sensitivity = as_score(name, LABELS, None).sensitivity(neighbors)
    rate = epsilon / (2 * sensitivity * (0.95 if too_small else 1))
    here, there = (
        law_of_choice([total(name, table, which) for which in (0, 1)], rate) for table in tables
    )
    loss = np.abs(np.log(here / there)).max()
    if too_small:
        assert loss > 1.03 * epsilon
    else:
        assert 0.99 * epsilon < loss <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_noisy_score_costs_epsilon_and_no_less(name, neighbors):
    """Discrete Laplace noise at the rate of random stopping: the greatest ratio is e^epsilon."""
    epsilon, score = Fraction(7, 10), as_score(name, LABELS, None)
    totals = [total(name, table) for table in worst_case(neighbors, 0, 50)]
    rate = epsilon / score.sensitivity(neighbors)
    # P(x) is proportional to exp(-rate |x - total|): the ratio is greatest outside of the totals.
    assert rate * abs(totals[0] - totals[1]) == epsilon


# From end to end


@pytest.fixture(scope="module")
def rare():
    """One record in ten is positive, with greater values in the first column."""
    rng = np.random.default_rng(5)
    y = np.where(rng.random(4000) < 0.1, "yes", "no")
    X = np.clip(rng.normal(size=(4000, 2)) / 4, -1, 1)
    X[:, 0] = np.clip(X[:, 0] + 0.3 * (y == "yes"), -1, 1)
    return X, y


# Bounds that leave nearly nothing of the first column, and those of the data.
BLIND, SEEING = (Domain.box([-end, -1], [end, 1]).encoder() for end in (1e9, 1))


def search(scoring, model=None, **options):
    model = model or DPLogisticRegression(domain=Domain.box([-1] * 2, [1] * 2, target=LABELS))
    steps = Pipeline([("columns", SEEING), ("model", model)])
    given = {"strategy": "disjoint", "epsilon": 4.0, "random_state": 0, **options}
    return PrivateSearchCV(steps, {"columns": [BLIND, SEEING]}, scoring=scoring, **given)


def chosen(scoring, table):
    """How often the candidate that sees the informative column is chosen, of eight searches."""
    found = [search(scoring, random_state=seed).fit(*table) for seed in range(8)]
    return sum(one.best_index_ for one in found)


def test_auc_tells_apart_what_accuracy_cannot(rare):
    """All candidates predict the frequent label, so accuracy guesses; the AUC is .5 and .8."""
    assert chosen("accuracy", rare) in range(1, 8)
    assert chosen("roc_auc", rare) == 8


def test_log_loss_tells_them_apart_too(rare):
    assert chosen("neg_log_loss", rare) >= 7


def test_balanced_accuracy_tells_a_threshold_apart(rare):
    """A constant prediction has 1/2; labels that are equally frequent are predicted better."""
    X, y = rare
    kept = np.concatenate([np.flatnonzero(y == "yes"), np.flatnonzero(y == "no")[:400]])
    found = search("balanced_accuracy", epsilon=8.0).fit(X[kept], y[kept])
    assert found.best_params_ == {"columns": SEEING}


@pytest.mark.parametrize("name", [*PAIRS, "neg_log_loss"])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_random_stopping_releases_what_is_documented(name, neighbors, rare):
    """Only under "replace_one"; of the pairs a share near 1/2 + 2 pi (1 - pi) (AUC - 1/2)."""
    X, y = rare
    domain = Domain.box([-1] * 2, [1] * 2, target=LABELS)
    model = DPLogisticRegression(domain=domain, neighbors=neighbors)
    found = search(name, model, strategy="random_stopping", epsilon=1e3, mean_runs=8.0).fit(X, y)
    if neighbors == "add_remove":
        assert not hasattr(found, "best_score_")
        return
    predicted, share = found.predict(X), np.mean(y == "yes")
    measures = {
        "roc_auc": lambda: roc_auc_score(y, found.decision_function(X)),
        "balanced_accuracy": lambda: balanced_accuracy_score(y, predicted),
    }
    if name == "neg_log_loss":
        wanted = -log_loss(y, np.clip(found.predict_proba(X), 0.02, 0.98))
    else:
        wanted = 0.5 + 2 * share * (1 - share) * (measures[name]() - 0.5)
    # The held-out share of 800 records has fluctuations of this size.
    assert found.best_score_ == pytest.approx(wanted, abs=0.03)


def test_r2_releases_minus_the_squared_error(people, pay_domain, pay):
    model = DPHuberRegressor(domain=pay_domain)
    options = {"strategy": "random_stopping", "epsilon": 1e3, "random_state": 1, "mean_runs": 2.0}
    by_r2, by_error = (
        PrivateSearchCV(model, {"q": [0.8]}, scoring=name, **options).fit(people, pay)
        for name in ("r2", "neg_mean_squared_error")
    )
    assert by_r2.best_score_ == by_error.best_score_ < 0


# What goes wrong


class NoProbabilities(DPLogisticRegression):
    """A classifier with predictions only."""

    predict_proba = decision_function = property()


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ("roc_auc", "have decision_function or predict_proba if scoring is 'roc_auc'"),
        ("neg_log_loss", "have predict_proba if scoring is 'neg_log_loss'"),
        ("r2", "scoring must be one of .*'balanced_accuracy', 'neg_log_loss', 'roc_auc'"),
    ],
)
def test_missing_methods_are_found_before_anything_is_spent(scoring, message, rare):
    """In any candidate."""
    ledger, domain = Ledger(10.0), Domain.box([-1] * 2, [1] * 2, target=LABELS)
    asked = Pipeline([("model", DPLogisticRegression(domain=domain))])
    grid = {"model": [DPLogisticRegression(domain=domain), NoProbabilities(domain=domain)]}
    with pytest.raises(ValueError, match=message) as caught:
        PrivateSearchCV(asked, grid, scoring=scoring, ledger=ledger).fit(*rare)
    assert caught.value.__notes__ == ["No budget was spent and no noise was drawn."]
    assert ledger.entries == ()


@pytest.mark.parametrize("scoring", PAIRS)
@pytest.mark.parametrize("model", [DPLogisticRegression, DPCoordinateDescentClassifier])
def test_three_labels_are_refused(scoring, model, rare):
    ledger = Ledger(10.0)
    domain = Domain.box([-1] * 2, [1] * 2, target=["may", *LABELS])
    message = f"scoring='{scoring}' must have two labels, got 3"
    with pytest.raises(ValueError, match=message):
        search(scoring, model(domain=domain), ledger=ledger).fit(*rare)
    assert ledger.entries == ()
    # Scores of single records have no such limit.
    found = search("neg_log_loss", DPLogisticRegression(domain=domain), ledger=ledger).fit(*rare)
    assert len(found.classes_) == 3
