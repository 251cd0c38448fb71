"""The scores of the benchmark of everything, shares of the way, and two versions compared."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from examples.benchmarks.peers import contenders as field
from examples.benchmarks.peers import versions
from examples.benchmarks.peers.contenders import Run
from examples.benchmarks.peers.verdicts import Cell, Scores
from examples.benchmarks.rules import objective_rules
from examples.benchmarks.shared import measures
from examples.benchmarks.shared.measures import ACCURACY, AUROC, LOG_LOSS, R2


def run(method, score, epsilon=np.inf, name="adult", measure=AUROC):
    """Return a run of one epsilon and one measure."""
    return Run(name, method, "0", 0, {epsilon: {measure: score}}, 1.0)


class Told:
    """A model whose predictions are its rows, or whose probabilities are."""

    def __init__(self, *classes):
        self.classes_ = np.array(classes)

    def predict(self, X):
        return self.classes_[np.argmax(X, axis=1)] if len(self.classes_) else X

    def predict_proba(self, X):
        return X


def test_scores_of_unbounded_predictions_are_finite():
    y = np.arange(4.0)
    for predicted, score in [([0, 1, np.inf, 3], -1e12), (np.full(4, 1e100), -1e12), (y, 1)]:
        assert measures.number_scores(Told(), np.array(predicted), y) == {R2: score}


def test_scores_of_three_labels():
    """AUROC is the mean of one against the rest, log-loss as in scikit-learn; 0 is kept off."""
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b", "c"])
    chances, y = rng.dirichlet(np.ones(3), 200), labels[rng.integers(3, size=200)]
    found = measures.class_scores(Told(*labels), chances, y)
    assert found[AUROC] == pytest.approx(roc_auc_score(y, chances, multi_class="ovr"))
    assert found[LOG_LOSS] == pytest.approx(log_loss(y, chances))
    assert found[ACCURACY] == np.mean(labels[chances.argmax(axis=1)] == y)
    certain = measures.class_scores(Told("a", "b"), np.array([[1.0, 0.0]]), np.array(["b"]))
    assert certain == {ACCURACY: 0, AUROC: 0.5, LOG_LOSS: pytest.approx(-np.log(1e-15))}


def test_large_coefficients_still_order_rows():
    """Probabilities of 40 and 50 are both 1; the log-odds differ."""
    model = Told(0, 1)
    model.decision_function = lambda X: X[:, 1]
    X, y = np.array([[0.0, 40.0], [0.0, 50.0]]), np.array([0, 1])
    assert measures.class_scores(model, X, y)[AUROC] == 1


# Shares


def shared(own, trivial=0.5, plain=0.9):
    """Scores of AUROC on one set: ours, trivial, and without privacy."""
    references = run(field.TRIVIAL, trivial), run(field.PLAIN, plain)
    return Scores.of([run(field.LOGISTIC, own, 1.0), *references], AUROC)


@pytest.mark.parametrize(
    ("scores", "share"),
    [
        (shared(0.8), 0.75),
        (shared(0.95), 1.125),
        (shared(-5.0), -1.0),
        (shared(0.5, plain=0.51), None),
        (Scores.of([run(field.LOGISTIC, 0.8, 1.0)], AUROC), None),
    ],
)
def test_share_of_the_way_from_trivial_to_without_privacy(scores, share):
    """A small range has none; far below trivial counts as -1."""
    found = scores.share("adult", field.LOGISTIC, "0", 1.0)
    assert found is None if share is None else found == pytest.approx(share)


def test_a_smaller_log_loss_is_better():
    """Of the settings of a peer the better one is taken."""
    names = [f"{field.DIFFPRIVLIB}, C=1", f"{field.DIFFPRIVLIB}, C=0.1"]
    for measure, best in [(LOG_LOSS, 1.0), (AUROC, 2.0)]:
        runs = [run(name, k, 1.0, measure=measure) for k, name in enumerate(names, start=1)]
        assert Scores.of(runs, measure).median("adult", field.DIFFPRIVLIB, "0", 1.0) == best


def test_versions_are_compared_on_common_splits():
    """The second split of the new version has no partner; a gain of .2 where .3 were to gain."""
    old, new = shared(0.6), shared(0.8)
    new.by_cell[Cell("adult", field.LOGISTIC, "0", 1.0)][1] = 0.0
    (row,) = versions.rows(old, new)
    assert (row["splits"], row["old"], row["new"]) == (1, 0.6, 0.8)
    assert (row["gained"], row["to gain"]) == pytest.approx((0.2, 0.3))
    summary = list(versions.summaries([row]))[-1]
    assert summary["share, new"] == pytest.approx(0.75)
    assert (summary["open"], summary["of"]) == (1, "adult")


# Simulated populations of objective perturbation


def test_gains_are_of_the_same_problems():
    """Those of an older run that has other problems do not count; losses that fall are gains."""
    found = [{"seed": k, "weight": 10.0, "lost": [0.1]} for k in range(4)]
    older = {k: {"seed": k, "weight": 10.0, "lost": [0.3]} for k in (2, 3, 4)}
    rows = objective_rules.tables("regression", found, older)
    assert [row["n epsilon / d"] for row in rows] == ["5 to 12", "0 to inf"]
    assert {(row["lost R2"], row["gain R2"]) for row in rows} == {("0.1000", "+0.2000 (0.0000)")}


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_populations_are_repeatable_and_within_their_domain(task):
    drawn = [objective_rules.population(task, 3).standardised() for _ in range(2)]
    rows, target = drawn[0].sample(200, np.random.default_rng(0))
    again, _ = drawn[1].sample(200, np.random.default_rng(0))
    np.testing.assert_array_equal(rows, again)
    assert np.isfinite(drawn[0].domain.encode(rows)).all()
    assert np.abs(target).max() <= 1
    n, settings = objective_rules.settings(3)
    assert 100 <= n <= 1e5
    assert 0.1 <= settings["epsilon"] <= 4
