"""Scores of a search beside accuracy: their sensitivity, their order, and the private choice."""

import itertools
import math

import numpy as np
import pytest
from inner_package import UNITS, as_score, is_built_in
from sklearn.base import BaseEstimator
from sklearn.metrics import (
    balanced_accuracy_score,
    log_loss,
    mean_pinball_loss,
    mean_poisson_deviance,
    roc_auc_score,
)
from sklearn.pipeline import Pipeline
from test_private_selection import law_of_choice

import skdp
from skdp import Domain, DPCoordinateDescentClassifier, DPLogisticRegression, Ledger
from skdp.model_selection import PrivateSearchCV

LABELS = ["no", "yes"]
RELATIONS = ("replace_one", "add_remove")
SCORES = ("roc_auc", "balanced_accuracy")


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


class Fixed(BaseEstimator):
    """A regressor with given predictions."""

    def __init__(self, found):
        self.found = found

    def predict(self, X):
        return self.found


def total(name, records, which=0, labels=LABELS):
    """The total of records (position of the label, rank of candidate 0, rank of candidate 1)."""
    X = np.array([record[1:] for record in records], dtype=float).reshape(-1, 2)
    y = np.array([labels[record[0]] for record in records], dtype="U9")
    return as_score(name, labels, None).total(Column(which), X, y)


# Sensitivity


def changes(kinds, total_of, most):
    """For each number below ``most``, the greatest change by an added and by a replaced kind."""
    totals = {
        table: total_of(table)
        for n in range(most + 1)
        for table in itertools.combinations_with_replacement(kinds, n)
    }
    found = {}
    for table in totals:
        if len(table) < most:
            # Tables are sorted in the order of the kinds.
            more = [totals[tuple(sorted((*table, kind), key=kinds.index))] for kind in kinds]
            added, replaced = found.get(len(table), (0, 0))
            added = max(added, *(abs(one - totals[table]) for one in more))
            found[len(table)] = added, max(replaced, max(more) - min(more))
    return found


def test_the_sensitivity_of_the_area_is_reached_by_all_small_tables():
    """Of up to five records with three ranks: the greatest change is the bound (Theorem 7)."""
    kinds = [(label, rank, 0) for label in (0, 1) for rank in (-1, 0, 1)]
    found = changes(kinds, lambda table: total("roc_auc", table), 5)
    score = as_score("roc_auc", LABELS, None)
    bounds = score.sensitivity("add_remove"), score.sensitivity("replace_one")
    assert bounds == (UNITS // 2, UNITS)
    # A single record has no pair.
    assert found == {0: (0, 0), **dict.fromkeys(range(1, 5), bounds)}


class Certain(Column):
    """A model that predicts one of many labels, by its position in the first column."""

    def __init__(self, classes_):
        self.classes_ = np.asarray(classes_)

    def predict(self, X):
        return self.classes_[np.asarray(X)[:, 0].astype(int)]


@pytest.mark.parametrize(("n_labels", "most"), [(2, 8), (3, 7), (4, 6)])
def test_the_sensitivity_of_recalls_is_neared_by_all_small_tables(n_labels, most):
    """The worst table has correct records of all labels but one (Theorem 8)."""
    labels = [f"label {k}" for k in range(n_labels)]
    score, model = as_score("balanced_accuracy", labels, None), Certain(labels)

    def total_of(table):
        X = np.array([[label if right else (label + 1) % n_labels] for label, right in table])
        y = np.array([labels[label] for label, _ in table], dtype="U9")
        return score.total(model, X.reshape(-1, 1), y)

    kinds = list(itertools.product(range(n_labels), [False, True]))
    found = changes(kinds, total_of, most)
    for n in range(n_labels - 1, most):
        counts = [len(part) for part in np.array_split(range(n), n_labels - 1)]
        worst = UNITS / 2 / (1 + sum(1 / count for count in counts))
        assert found[n] == pytest.approx((worst, worst), abs=1)
        assert max(found[n]) <= score.sensitivity("add_remove") == UNITS // 2
    assert score.sensitivity("replace_one") == UNITS // 2
    # With many records of the other labels the bound is nearly reached.
    table = [(label, True) for label in range(1, n_labels)] * 1000
    assert total_of(table) == 0
    assert total_of([*table, (0, True)]) > 0.99 * UNITS / 2


@pytest.mark.parametrize("name", SCORES)
def test_a_person_changes_a_total_no_more_than_a_record(name):
    """Of up to three persons with one or two rows each, of any labels."""
    rows = list(itertools.product([0, 1], [-1, 0, 1]))
    kinds = [*((row,) for row in rows), *itertools.combinations_with_replacement(rows, 2)]
    score = as_score(name, LABELS, None)

    def total_of(table):
        records = np.array([row for person in table for row in person], dtype=int).reshape(-1, 2)
        persons = np.repeat(np.arange(len(table)), [len(person) for person in table])
        y = np.array(LABELS)[records[:, 0]]
        return score.total(Column(1), records, y, persons)

    found = changes(kinds, total_of, 3)
    for relation, most in zip(RELATIONS[::-1], np.transpose(list(found.values())), strict=True):
        assert max(most) <= score.sensitivity(relation)
        if name == "roc_auc":
            assert max(most) == score.sensitivity(relation)


def test_persons_count_the_mean_over_their_rows():
    """For pairs the mean over all draws of one row of each person; single rows are records."""
    rng, score = np.random.default_rng(0), as_score("roc_auc", LABELS, None)
    persons = np.array([3, 0, 3, 1, 0, 2, 3])
    X, y = rng.integers(0, 4, (7, 1)).astype(float), rng.choice(LABELS, 7)
    draws = itertools.product(*(np.flatnonzero(persons == k) for k in range(4)))
    each = [score.total(Column(), X[list(rows)], y[list(rows)]) for rows in draws]
    # Totals are rounded down, and thirds of a person too.
    assert score.total(Column(), X, y, persons) == pytest.approx(np.mean(each), abs=3)
    for name in (*SCORES, "accuracy", "neg_log_loss"):
        one = as_score(name, LABELS, None)
        order = rng.permutation(7)
        assert one.total(Column(), X, y, order) == one.total(Column(), X, y)
    recalls = as_score("balanced_accuracy", LABELS, None)
    # Half a record twice is one record.
    twice, alone = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    found = recalls.total(Column(), twice, alone, np.repeat(np.arange(7), 2))
    assert found == recalls.total(Column(), X, y)


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
    """Ranks of few values, so that many are equal; one label in ten is positive."""
    y = np.where(rng.random(n) < 0.1, "yes", "no")
    y[:2] = LABELS
    return np.round(rng.normal(size=(n, 1)) + rng.uniform(0, 2) * (y == "yes")[:, None], 1), y


MEASURES = {
    "roc_auc": lambda y, model, X: roc_auc_score(y, model.decision_function(X)),
    "balanced_accuracy": lambda y, model, X: balanced_accuracy_score(y, model.predict(X)),
}


def usual(name, total, n, n_labels=2):
    """Return a total in the unit of the measure: shrunk towards 1/2 by the frequencies."""
    factor = 4 * (n - 1) / n if name == "roc_auc" else n_labels**2
    return 0.5 + factor * total / (UNITS * n)


@pytest.mark.parametrize("name", SCORES)
def test_a_total_is_the_measure_of_scikit_learn(name):
    """Times a factor of the label counts, which all candidates share; so the order is the same."""
    rng, (X, y) = np.random.default_rng(1), imbalanced(np.random.default_rng(2))
    score, share, found, truth = as_score(name, LABELS, None), np.mean(y == "yes"), [], []
    for noise in rng.uniform(0, 4, 40):
        ranks = X + noise * rng.normal(size=X.shape).round(1) - 1.0
        truth.append(MEASURES[name](y, Column(), ranks))
        found.append(score.total(Column(), ranks, y))
        mean = 0.5 + 4 * share * (1 - share) * (truth[-1] - 0.5)
        assert usual(name, found[-1], len(y)) == pytest.approx(mean, abs=1e-7)
    found, truth = np.array(found), np.array(truth)
    above = truth[:, None] > truth + 1e-9
    assert above.any()
    assert (found[:, None] > found)[above].all()


def test_recalls_of_many_labels_are_those_of_scikit_learn():
    rng, labels = np.random.default_rng(3), np.array(["a", "b", "c", "d"])
    score, counts = as_score("balanced_accuracy", labels, None), np.array([50, 20, 5, 1])
    y = np.repeat(labels, counts)
    X = np.where(rng.random(76) < 0.6, np.searchsorted(labels, y), rng.integers(4, size=76))
    factor = 4 / (1 / counts).sum() / counts.mean()
    truth = balanced_accuracy_score(y, labels[X])
    found = usual("balanced_accuracy", score.total(Certain(labels), X[:, None], y), 76, 4)
    assert found == pytest.approx(0.5 + factor * (truth - 0.5), abs=1e-6)


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
    mean = score.lower + (score.upper - score.lower) * (0.5 + found / (UNITS * 300))
    assert mean == pytest.approx(np.log(clipped).mean(), abs=1e-5)
    if len(labels) == 2:
        wanted = -log_loss(y, np.clip(p, least, 1 - least))
        assert mean == pytest.approx(wanted, abs=1e-5)
    assert found == sum(score.total(model, X[k : k + 1], y[k : k + 1]) for k in range(300))
    bounds = score.lower, score.upper
    assert bounds == (math.log(least), math.log(1 - least))
    # Sums of exponentials of many rows may differ from those of one row in the last bits.
    assert is_built_in(score.function) == (len(labels) == 2)
    # A label that a model does not know has no probability.
    assert score.total(model, X[:1], np.array(["z"])) == -UNITS // 2


def test_r2_is_the_order_by_squared_error():
    by_r2, by_error = (as_score(name, None, (-2.0, 2.0)) for name in ("r2", None))
    assert by_r2 == by_error


@pytest.mark.parametrize("level", [0.1, 0.9])
def test_models_of_quantiles_are_scored_by_their_pinball_loss(level):
    """Against scikit-learn; the range is reached, and is no greater."""
    model, rng = skdp.DPQuantileRegressor(quantile=level), np.random.default_rng(0)
    score = as_score(None, None, (0.0, 4.0), [model])
    y, found = rng.uniform(-1, 5, (2, 500))
    own = score.function(Fixed(found), None, y)
    assert -own.mean() == pytest.approx(
        mean_pinball_loss(y.clip(0, 4), found.clip(0, 4), alpha=level)
    )
    ends = score.function(Fixed([0.0, 4.0]), None, [4.0, 0.0])
    assert own.min() >= score.lower == ends.min() == pytest.approx(-3.6)
    assert (own.max(), is_built_in(score.function)) == (score.upper, True)


@pytest.mark.parametrize("kind", [skdp.DPPoissonRegressor, skdp.DPGammaRegressor])
def test_models_of_counts_are_scored_by_the_poisson_deviance(kind):
    """Also with means of 0, targets above the bound and targets near 0."""
    score = as_score(None, None, (0.0, 50.0), [kind()])
    y, found = np.random.default_rng(0).uniform(0, 50, (2, 500))
    own = score.function(Fixed(found), None, y)
    assert -own.mean() == pytest.approx(mean_poisson_deviance(y, found.clip(0.5, 50)))
    extremes = np.array([0, 5e-324, 1e-9, 50, 1e300, np.inf])
    grid = np.array([*itertools.product(extremes, extremes)]).T
    ends = score.function(Fixed(grid[0]), None, grid[1])
    assert (ends.min(), ends.max()) == pytest.approx((score.lower, score.upper))
    assert np.isnan(score.function(Fixed([np.nan]), None, [1.0]))
    assert is_built_in(score.function)


def test_a_search_over_quantiles_needs_a_score():
    models = [skdp.DPQuantileRegressor(quantile=level) for level in (0.1, 0.5)]
    with pytest.raises(ValueError, match="scoring must be given where candidates have different"):
        as_score(None, None, None, models)
    assert as_score("r2", None, None, models).lower == -4.0


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


@pytest.mark.parametrize("name", SCORES)
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
    given = {"epsilon": 4.0, "random_state": 0, **options}
    return PrivateSearchCV(steps, {"columns": [BLIND, SEEING]}, scoring=scoring, **given)


# What goes wrong


@pytest.mark.parametrize("model", [DPLogisticRegression, DPCoordinateDescentClassifier])
def test_the_area_needs_two_labels(model, rare):
    """The other scores of labels do not; a label without records is no error."""
    ledger = Ledger(10.0)
    domain = Domain.box([-1] * 2, [1] * 2, target=["may", *LABELS])
    with pytest.raises(ValueError, match="scoring='roc_auc' must have two labels, got 3"):
        search("roc_auc", model(domain=domain), ledger=ledger).fit(*rare)
    assert ledger.entries == ()
    for name in ("neg_log_loss", "balanced_accuracy"):
        found = search(name, model(domain=domain), ledger=ledger).fit(*rare)
        assert len(found.classes_) == 3
