"""What privacy costs: the curve's scores are those of the fits, and the picture shows them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold

import skdp
from skdp import BudgetExceeded, Domain, DPLogisticRegression, Ledger
from skdp.inspection import EpsilonCurveDisplay
from skdp.model_selection import EpsilonCurve, epsilon_curve
from skdp.model_selection.curve import _splits

EPSILONS = [10.0, 0.1, 1.0]
FEW: dict[str, Any] = {"repeats": 2, "cv": 3, "random_state": 0}


@pytest.fixture(scope="module")
def curve(domain, people, answers):
    return epsilon_curve(DPLogisticRegression(domain=domain), people, answers, EPSILONS, **FEW)


def test_scores_are_those_of_fits_to_the_same_parts(domain, people, answers):
    """By hand, with the splitter and the noise that were given; in increasing order of epsilon."""
    model = DPLogisticRegression(domain=domain, random_state=7)
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    found = epsilon_curve(model, people, answers, EPSILONS, repeats=1, cv=folds)
    np.testing.assert_array_equal(found.epsilons, [0.1, 1.0, 10.0])
    encoded = domain.encode(people)
    for k, (train, test) in enumerate(folds.split(people, answers)):
        for i, epsilon in enumerate(found.epsilons):
            model.set_params(epsilon=epsilon).fit(people.iloc[train], answers[train])
            assert found.scores[i, k] == model.score(people.iloc[test], answers[test])
        free = LogisticRegression(max_iter=1000).fit(encoded[train], answers[train])
        assert found.without_privacy[k] == free.score(encoded[test], answers[test])
        common = max(["no", "yes"], key=answers[train].tolist().count)
        assert found.trivial[k] == np.mean(answers[test] == common)


def test_runs_are_splits_times_repeats(curve):
    """Every repeat has splits of its own; quantiles are over the runs."""
    assert curve.scores.shape == (3, 6)
    assert curve.trivial.shape == curve.without_privacy.shape == (6,)
    assert len(set(curve.without_privacy)) > 3
    np.testing.assert_array_equal(curve.quantile(0.5), np.median(curve.scores, axis=1))
    assert curve.quantile([0.1, 0.9]).shape == (2, 3)
    assert curve.quantile(0.5)[0] < curve.quantile(0.5)[-1]
    assert repr(curve).startswith("EpsilonCurve(DPLogisticRegression, median accuracy 0.1: ")


def test_seeds_and_workers_change_nothing(curve, domain, people, answers):
    """The same numbers by two workers; other ones without a seed."""
    model = DPLogisticRegression(domain=domain)
    with parallel_config(backend="threading"):
        twin = epsilon_curve(model, people, answers, EPSILONS, n_jobs=2, **FEW)
    np.testing.assert_array_equal(curve.scores, twin.scores)
    other = epsilon_curve(model, people, answers, EPSILONS, **FEW | {"random_state": None})
    assert (curve.scores != other.scores).any()


def test_every_run_has_noise_of_its_own(domain, people, answers, monkeypatch):
    """All epsilons of a run share a seed, and no two runs do."""
    seeds = []
    fit = DPLogisticRegression.fit

    def noted(self, X, y):
        seeds.append(self.random_state)
        return fit(self, X, y)

    monkeypatch.setattr(DPLogisticRegression, "fit", noted)
    epsilon_curve(DPLogisticRegression(domain=domain), people, answers, [1.0, 2.0], **FEW)
    assert seeds[::2] == seeds[1::2]
    assert len(set(seeds)) == 6


def test_folds_are_the_same_whatever_the_labels_are(domain):
    """One label moves no record: the fits together are what a ledger counts."""
    y = np.repeat(["no", "yes"], 30)
    changed, model = y.copy(), DPLogisticRegression(domain=domain)
    changed[7] = "yes"
    one, other = (list(_splits(model, (y, own, None, None), 2, 4, 0)) for own in (y, changed))
    assert len(one) == 8
    for (train, test), (same_train, same_test) in zip(one, other, strict=True):
        np.testing.assert_array_equal(train, same_train)
        np.testing.assert_array_equal(test, same_test)
        np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(60))
        assert len(test) == 15
    assert len({tuple(test) for _, test in one}) == 8


def test_a_further_record_moves_no_other_one_under_add_remove():
    """Each record draws its fold; the same random bits give the first records the same folds."""
    model, y = DPLogisticRegression(neighbors="add_remove"), np.zeros(61)
    one, other = (list(_splits(model, (y[:n], y[:n], None, None), 1, 4, 0)) for n in (60, 61))
    for (train, test), (more_train, more_test) in zip(one, other, strict=True):
        np.testing.assert_array_equal(train, more_train[more_train < 60])
        np.testing.assert_array_equal(test, more_test[more_test < 60])
    with pytest.raises(ValueError, match="cv must leave records in every fold"):
        list(_splits(model, (y, y, None, None), 1, 60, 0))


def test_folds_are_cut_by_persons():
    """A person that has further rows moves no other person."""
    persons = np.repeat(np.arange(12), 3)
    more, model = np.sort(np.r_[persons, 5, 5]), DPLogisticRegression()
    one, other = (
        [set(own[test]) for _, test in _splits(model, (own, own, own, None), 1, 3, 0)]
        for own in (persons, more)
    )
    assert one == other
    assert sorted(map(len, one)) == [4, 4, 4]


@pytest.mark.parametrize("kind", ["Poisson", "Gamma", "Quantile"])
def test_all_models_of_a_curve_have_the_score_of_the_private_one(kind):
    """The trivial model has a D^2 of about 0, and the one without privacy is not below it."""
    rng = np.random.default_rng(0)
    people, domain = rng.uniform(-1, 1, (2000, 2)), Domain.unit_box(2, target=(0, 30))
    y = rng.poisson(np.exp(1 + people[:, 0])).clip(kind == "Gamma", 30)
    model = getattr(skdp, f"DP{kind}Regressor")(domain=domain)
    curve = epsilon_curve(model, people, y, [100.0], **FEW)
    assert curve.score_name.startswith("D^2")
    assert np.isfinite(curve.scores).all()
    np.testing.assert_allclose(curve.trivial, 0, atol=0.05)
    np.testing.assert_allclose(curve.scores[0], curve.without_privacy, atol=0.1)
    assert (curve.without_privacy > 0.1).all()
    if kind == "Quantile":
        model.set_params(quantile=[0.1, 0.9])
        with pytest.raises(ValueError, match="quantile must be one number"):
            epsilon_curve(model, people, y, [100.0], **FEW)
    if kind == "Gamma":
        with pytest.raises(ValueError, match="y must be numbers above 0"):
            epsilon_curve(model, people, y - 1, [100.0], **FEW)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_rare", [0, 1, 3])
def test_no_warning_and_no_error_tells_how_rare_a_label_is(n_rare, domain, people):
    """Also where all records of a label are in the test part: then no free model can be fitted."""
    y = np.where(np.arange(len(people)) < n_rare, "yes", "no")
    found = epsilon_curve(DPLogisticRegression(domain=domain), people, y, [1.0], repeats=1)
    assert np.isfinite(found.without_privacy).all()
    if n_rare < 2:
        assert (found.trivial == found.without_privacy).any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc", "balanced_accuracy"])
def test_scores_of_folds_without_a_label_are_nan_and_no_error_names_one(scoring, domain, people):
    """The errors of scikit-learn's scores name the labels of a fold."""
    y = np.where(np.arange(len(people)) < 1, "yes", "no")
    found = epsilon_curve(
        DPLogisticRegression(domain=domain), people, y, [1.0], repeats=1, scoring=scoring
    )
    assert np.isnan(found.scores).sum() == (0 if scoring == "balanced_accuracy" else 4)
    assert np.isfinite(found.quantile([0.25, 0.5])).all()  # of the folds that have a score


@pytest.mark.parametrize("scoring", ["f1", "r2", lambda model, X, y: sum({"no": 1}[v] for v in y)])
def test_scores_that_cannot_be_computed_are_refused_without_a_label(
    scoring, domain, people, answers
):
    """A named score before any fit is charged; another one where it fails."""
    ledger = Ledger(epsilon=100.0)
    model = DPLogisticRegression(domain=domain, ledger=ledger)
    with pytest.raises(ValueError, match="scoring must") as caught:
        epsilon_curve(model, people, answers, [1.0], repeats=1, scoring=scoring)
    assert callable(scoring) or ledger.spent.epsilon == 0
    assert "'no'" not in str(caught.value)
    assert caught.value.__context__ is None


def test_every_fit_is_charged_and_a_curve_that_does_not_fit_charges_nothing(
    domain, people, answers
):
    """Six needed: 5.9 are refused before the first fit, and 6 are enough."""
    for ceiling, spent in ((5.9, []), (6.0, [0.5] * 4 + [1.0] * 4)):
        ledger = Ledger(ceiling)
        model = DPLogisticRegression(domain=domain, ledger=ledger)
        if spent:
            epsilon_curve(model, people, answers, [0.5, 1.0], repeats=2, cv=2)
        else:
            with pytest.raises(BudgetExceeded, match=r"ask for epsilon=6 together; left epsilon=5"):
                epsilon_curve(model, people, answers, [0.5, 1.0], repeats=2, cv=2)
        assert sorted(entry.epsilon for entry in ledger.entries) == spent


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilons": []}, "epsilons must contain at least one"),
        ({"epsilons": [0.0]}, "epsilons must be a finite number > 0"),
        ({"repeats": 0}, "repeats must be"),
        ({"estimator": LogisticRegression()}, "estimator must have a parameter epsilon"),
        ({"cv": 1}, "cv must be an integer >= 2"),
        ({"cv": 10**6}, "cv must be at most the number of records"),
    ],
    ids=str,
)
def test_errors_name_the_rule(change, message, domain, people, answers):
    given = {"estimator": DPLogisticRegression(domain=domain), "epsilons": [1.0]} | change
    with pytest.raises(ValueError, match=message):
        epsilon_curve(X=people, y=answers, **given)


# The picture


@pytest.fixture
def plt():
    return pytest.importorskip("matplotlib.pyplot")


def a_curve(n_epsilons=3):
    rng = np.random.default_rng(1)
    epsilons = np.geomspace(0.01, 10, n_epsilons)
    scores = np.sort(rng.uniform(0.6, 0.8, (n_epsilons, 9)), axis=0)
    ends = rng.uniform(0.4, 0.5, 9), rng.uniform(0.85, 0.9, 9)
    return EpsilonCurve(epsilons, scores, *ends, "Model", "accuracy")


def test_the_picture_shows_medians_quartiles_and_both_lines(plt):
    found = a_curve()
    shown = EpsilonCurveDisplay.from_curve(found)
    x, y = shown.line_.get_data()
    np.testing.assert_array_equal(x, found.epsilons)
    np.testing.assert_array_equal(y, found.quantile(0.5))
    corners = shown.band_.get_paths()[0].vertices
    for q in (0.25, 0.75):
        for point in zip(found.epsilons, found.quantile(q), strict=True):
            assert (corners == point).all(axis=1).any()
    heights = [line.get_ydata()[0] for line in shown.references_]
    assert heights == [np.median(found.without_privacy), np.median(found.trivial)]
    assert shown.ax_.get_xscale() == "log"
    assert shown.ax_.get_ylabel() == "test accuracy"
    texts = [text.get_text() for text in shown.ax_.get_legend().get_texts()]
    assert texts == ["Model", "without privacy", "trivial"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n_words", [1, 2, 30])
def test_labels_of_several_types_cost_nothing(n_words, people):
    """A training part without the words could be fitted, and charged, before another one."""
    y = np.ones(len(people), dtype=object)
    y[::2] = 0
    y[:n_words] = "a"
    ledger = Ledger(epsilon=100.0)
    X = people[["age", "hours"]].to_numpy() / 40
    with pytest.raises(ValueError, match="labels of one type"):
        epsilon_curve(DPLogisticRegression(ledger=ledger), X, y, [1.0], repeats=1, cv=KFold(5))
    assert ledger.entries == ()
