"""Private scores: their values, what one record changes, their guarantee, and their intervals."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from inner_package import score_sums
from scipy.stats import binom
from sklearn import metrics as sk
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from examples.benchmarks.intervals import private_score as benchmark
from skdp import Domain, DPLinearRegression, DPLogisticRegression, Ledger
from skdp.model_selection import PrivateSearchCV, private_score
from skdp.privacy import BudgetExceeded
from skdp.testing import replay
from skdp.trusted import NotPrivate, certify

LABELS, NUMBERS = list(benchmark.LABELS), list(benchmark.NUMBERS)
RELATIONS = ("replace_one", "add_remove")
SURE = 1e7  # an epsilon with which noise is no more than rounding


@pytest.fixture(scope="module")
def table():
    """Held-out records of a rare label, and targets."""
    X, y, _ = benchmark.draw("rare", 400, np.random.default_rng(1))
    return X, y, X @ [1.0, 2.0, 3.0] + 3.0


@pytest.fixture(scope="module")
def classifier(table):
    X, y, _ = table
    return DPLogisticRegression(domain=Domain.unit_box(3, target=[0, 1]), random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def regressor(table):
    X, _, t = table
    domain = Domain.unit_box(3, target=(-5, 10))
    return DPLinearRegression(domain=domain, epsilon=20.0, random_state=0).fit(X, t)


def scores_of(y, found, p):
    """The scores of scikit-learn, in the order of LABELS without the calibration curve."""
    clipped = np.clip(p, 0.02, 0.98)
    return {
        "accuracy": sk.accuracy_score(y, found),
        "balanced_accuracy": sk.balanced_accuracy_score(y, found),
        "confusion_matrix": (sk.confusion_matrix(y, found) / len(y)).ravel(),
        "roc_auc": sk.roc_auc_score(y, p),
        "log_loss": sk.log_loss(y, np.column_stack([1 - clipped, clipped])),
        "brier_score": sk.brier_score_loss(y, p),
    }


# Values


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_without_noise_scores_are_those_of_scikit_learn(classifier, regressor, table, neighbors):
    X, y, t = table
    facts = {"epsilon": SURE, "neighbors": neighbors}
    p = classifier.predict_proba(X)[:, 1]
    found = private_score(classifier, X, y, metric=LABELS, **facts)
    for name, truth in scores_of(y, classifier.predict(X), p).items():
        at = 0.01 if name == "roc_auc" else 1e-4
        assert found[name].value == pytest.approx(truth, abs=at)
    low, high = found["roc_auc"].interval[0]
    assert low < sk.roc_auc_score(y, p) < high
    alone = private_score(classifier, X, y, **facts)
    assert alone.value == pytest.approx(found["accuracy"].value, abs=1e-4)
    found = private_score(regressor, X, t, metric=NUMBERS, **facts)
    clipped = regressor.predict(X), np.clip(t, -5, 10)
    assert found["r2"].value == pytest.approx(sk.r2_score(*clipped[::-1]), abs=1e-4)
    mean = sk.mean_absolute_error(*clipped)
    assert found["mean_absolute_error"].value == pytest.approx(mean, abs=1e-4)
    # Of an affine target R^2 has the sampling error of the delta method.
    error = (t - clipped[0]) ** 2 / t.var()
    influence = error - error.mean() * (t - t.mean()) ** 2 / t.var()
    assert found["r2"].sampling == pytest.approx(influence.std() / 20, rel=0.01)


def test_models_of_scikit_learn_pipelines_and_searches(table):
    X, y, t = table
    public = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    found = private_score(public, X, y, metric=LABELS, epsilon=SURE)
    truth = scores_of(y, public.predict(X), public.predict_proba(X)[:, 1])
    for name in ("accuracy", "balanced_accuracy", "log_loss", "brier_score"):
        assert found[name].value == pytest.approx(truth[name], abs=1e-4)
    assert any("separately" in text for text in found.guarantee.assumptions)
    line = LinearRegression().fit(X, t)
    assert private_score(line, X, t, metric="r2", bounds=(-5, 10), epsilon=SURE).value > 0.99
    model = DPLogisticRegression(domain=Domain.unit_box(3, target=[0, 1]), ledger=Ledger(9.0))
    search = PrivateSearchCV(model, {"mechanism": ["l1", "l2"]}, random_state=0).fit(X, y)
    private_score(search, X, y, epsilon=2.0)
    assert search.best_estimator_.ledger.remaining.epsilon == 6.0


def test_several_labels(table):
    X, _, t = table
    y = np.digitize(t, [1.0, 4.0])
    for model in (
        DPLogisticRegression(domain=Domain.unit_box(3, target=[0, 1, 2]), epsilon=9.0).fit(X, y),
        RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y),
    ):
        names = ["accuracy", "confusion_matrix", "log_loss", "brier_score"]
        found = private_score(model, X, y, metric=names, epsilon=SURE)
        shares = (sk.confusion_matrix(y, model.predict(X)) / len(y)).ravel()
        assert found["confusion_matrix"].value == pytest.approx(shares, abs=1e-4)
        square = np.square(model.predict_proba(X) - np.eye(3)[y]).sum(axis=1).mean()
        assert found["brier_score"].value == pytest.approx(square, abs=1e-4)


def test_a_person_has_the_weight_of_a_record(classifier, table):
    """Rows that are repeated within a person change nothing, and the noise is the same."""
    X, y, _ = table
    rows = np.repeat(np.arange(len(y)), 1 + np.arange(len(y)) % 3)
    facts = {"metric": LABELS, "epsilon": 1.0, "random_state": 0}
    alone = private_score(classifier, X, y, **facts)
    found = private_score(classifier, X[rows], y[rows], groups=rows, **facts)
    assert found.value == pytest.approx(alone.value, abs=1e-6, nan_ok=True)
    assert found.privacy == pytest.approx(alone.privacy, abs=1e-6, nan_ok=True)
    assert found.guarantee.unit == "person"


def test_what_noise_hides_is_not_a_number(classifier, table):
    X, y, _ = table
    found = private_score(classifier, X, y, metric=LABELS, epsilon=1e-3)
    hidden = np.isnan(found.value)
    assert hidden[1]
    ends = found.interval[hidden]
    assert (ends[:, 0] <= 0.03).all()
    assert (ends[:, 1] >= 1).all()
    empty = private_score(
        classifier, X[:0], y[:0], metric=LABELS, epsilon=1.0, neighbors="add_remove"
    )
    assert np.isnan(empty.value).all()


def test_a_score_prints_as_a_table(classifier, table):
    X, y, _ = table
    text = repr(private_score(classifier, X, y, metric=["accuracy", "brier_score"], epsilon=1.0))
    first, accuracy, brier, last = text.splitlines()
    assert "95 % interval" in first
    assert (accuracy[:8], brier[:5]) == ("accuracy", "brier")
    assert last == "epsilon = 1, delta = 0 in all"


# What one record changes (private_score.md, Theorem 1)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_greatest_change_is_that_of_all_pairs_of_records(dim, neighbors):
    """Of persons too, which are means of rows; the bound is reached in every norm."""
    rng = np.random.default_rng(0)
    corners = {False: np.eye(dim), True: np.array([*itertools.product((-1.0, 1.0), repeat=dim)])}
    for numbers, rows in corners.items():
        persons = rng.dirichlet(np.full(len(rows), 0.3), 200) @ rows
        records = np.concatenate([rows, persons, np.zeros((1, dim))])
        others = records if neighbors == "replace_one" else np.zeros((1, dim))
        moved = (records[:, None] - others).reshape(-1, dim)
        for p in (1.0, 2.0, math.inf):
            bound = score_sums.change(numbers, dim, neighbors, p).radius
            reached = np.linalg.norm(moved, p, axis=1).max()
            assert reached * (1 - 1e-12) <= bound <= reached * (1 + 1e-9)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_log_densities_change_by_epsilon_at_most_and_by_epsilon_somewhere(
    classifier, table, neighbors
):
    """Of the four counts of predictions, for every pair of records, at many published values."""
    X, y, _ = table
    facts = {"metric": "confusion_matrix", "epsilon": 0.7, "neighbors": neighbors}
    (release,) = private_score(classifier, X, y, **facts).releases
    records = np.eye(4)
    others = records if neighbors == "replace_one" else np.zeros((1, 4))
    points = np.random.default_rng(0).normal(size=(4000, 4)) * 30
    norm = partial(np.linalg.norm, ord=release.noise.ball.p, axis=1)
    ratios = [
        (norm(points - other) - norm(points - one)) / release.noise.scale
        for one in records
        for other in others
    ]
    assert 0.999 * 0.7 < np.abs(ratios).max() <= 0.7 * (1 + 1e-12)


@pytest.mark.parametrize("metric", ["accuracy", "confusion_matrix", "roc_auc"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_record_that_spends_epsilon(classifier, table, metric, sign):
    """The witness: a label is replaced by the other one, and counts of it are far too great."""
    X, y, _ = table

    def far(entry):
        half = len(entry.value) // 2
        return sign * np.repeat([1e4, -1e4], half)

    other = np.where(np.arange(len(y)) == 0, 1 - y, y)
    score = partial(private_score, classifier, metric=metric, epsilon=1.0)
    found = replay(score, (X, y), (X, other), choose=far).check()
    (loss,) = found.losses.values()
    assert 0.99 < max(map(abs, loss)) <= 1.0 + 1e-6


def changed(X, y, kind, rng):
    """Neighbours of a table: a record that is replaced, added or removed, or a whole person."""
    if kind == "replaced":
        other = X.copy()
        other[5] = rng.choice([-1.0, 1.0, 1e9], 3)
        targets = y.copy()
        targets[5] = 1 - y[5] if y.max() == 1 else -1e9
        return other, targets
    return X[1:], y[1:]


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("of_persons", [False, True])
def test_replay(classifier, regressor, table, neighbors, delta, of_persons):
    """Everything that a score shows is a function of published values."""
    X, y, t = table
    rng, kind = np.random.default_rng(0), "replaced" if neighbors == "replace_one" else "removed"
    for model, target, names in ((classifier, y, LABELS), (regressor, t, NUMBERS)):
        facts = {"epsilon": 0.8, "delta": delta, "neighbors": neighbors, "metric": names}
        score = partial(private_score, model, **facts)
        one, other = (X, target), changed(X, target, kind, rng)
        if of_persons:
            groups = np.arange(len(X)) // 3
            one = dict(zip(("X", "y", "groups"), (*one, groups), strict=True))
            last = groups if kind == "replaced" else groups[3:]
            rows = other if kind == "replaced" else (X[3:], target[3:])
            other = dict(zip(("X", "y", "groups"), (*rows, last), strict=True))
        found = replay(score, one, other).check()
        assert found.n_published == len(found.changes) > 0
        assert max(found.changes.values()) > 0.3


# The guarantee


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_noise_of_5_percent_less_is_refused(classifier, regressor, table, neighbors, delta):
    X, y, t = table
    facts = {"epsilon": 0.5, "delta": delta, "neighbors": neighbors}
    for score in (
        private_score(classifier, X, y, metric=LABELS, **facts),
        private_score(regressor, X, t, metric=NUMBERS, **facts),
        private_score(classifier, X, y, metric="roc_auc", **facts),
    ):
        proved = certify(score.releases, score.public)
        assert (proved.epsilon, proved.delta) == (score.guarantee.epsilon, score.guarantee.delta)
        with pytest.raises(NotPrivate):
            certify([replace(own, noise=less(own.noise)) for own in score.releases], score.public)


def less(noise):
    if hasattr(noise, "scale"):
        return replace(noise, scale=0.95 * noise.scale)
    return replace(noise, factor=0.95 * noise.factor)


def test_gaussian_noise_is_used_for_many_counts(classifier, table):
    X, y, _ = table
    score = private_score(classifier, X, y, metric=LABELS, epsilon=0.5, delta=1e-3)
    assert {own.law for own in score.releases} == {"GaussianNoise"}
    assert score.guarantee.delta == 1e-3
    pure = private_score(classifier, X, y, epsilon=0.5, delta=1e-9)
    assert pure.guarantee.delta == 0.0


def test_a_ledger_is_charged_once_and_before_any_noise(classifier, table):
    X, y, _ = table
    ledger = Ledger(1.0)
    private_score(classifier, X, y, metric=LABELS, epsilon=0.75, ledger=ledger)
    assert ledger.remaining.epsilon == 0.25
    with pytest.raises(BudgetExceeded) as error:
        private_score(classifier, X, y, epsilon=0.5, ledger=ledger)
    assert "No budget was spent" in error.value.__notes__[-1]
    assert not private_score(classifier, X, y, epsilon=1.0, random_state=0).guarantee.holds


# Errors


def wrong(**facts):
    return pytest.param(facts, id=str(facts))


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"metric": "f1"}, "metric must be one of .*, got 'f1'"),
        ({"metric": []}, "metric must be a name or a list of different names"),
        ({"metric": ["accuracy", "accuracy"]}, "metric must be a name or a list of different"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"delta": 1.0}, "delta must be"),
        ({"neighbors": "other"}, "neighbors must be"),
        ({"ledger": 1.0}, "ledger must be a Ledger"),
        ({"model": LogisticRegression()}, "not fitted"),
        ({"model": StandardScaler()}, "model must be a fitted classifier or regressor"),
        ({"y": np.full(400, 7)}, "y must contain only declared labels"),
        ({"X": np.zeros((400, 2))}, "X must have the domain's 3 columns|features"),
        ({"target": "y"}, "y must be None|target must be a name only if"),
        ({"epsilon": 1e-300}, "epsilon must be"),
    ],
    ids=str,
)
def test_errors_name_the_rule_and_spend_nothing(classifier, table, facts, text):
    X, y, _ = table
    ledger = Ledger(1.0)
    given = {"model": classifier, "X": X, "y": y, "epsilon": 1.0, "ledger": ledger} | facts
    with pytest.raises(ValueError, match=text) as error:
        private_score(**given)
    assert "No budget was spent" in error.value.__notes__[-1]
    assert ledger.remaining.epsilon == 1.0


def test_a_model_of_persons_is_scored_on_persons(table):
    X, y, _ = table
    groups = np.arange(len(y)) // 2
    model = DPLogisticRegression(domain=Domain.unit_box(3, target=[0, 1]))
    model.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="groups must be given, as in the fit"):
        private_score(model, X, y, epsilon=1.0)
    assert private_score(model, X, y, epsilon=1.0, groups=groups).public.unit == "person"


def test_errors_of_models_do_not_show_cells(table):
    X, y, t = table
    model = LogisticRegression().fit(X, y)
    cells = X.astype(object)
    cells[3, 1] = "secret"
    with pytest.raises(ValueError, match="X must have records that the model predicts") as error:
        private_score(model, cells, y, epsilon=1.0)
    assert "secret" not in "".join(map(str, (error.value, error.value.__cause__)))
    with pytest.raises(ValueError, match="bounds must be two increasing numbers"):
        private_score(LinearRegression().fit(X, t), X, t, metric="r2", epsilon=1.0)
    with pytest.raises(ValueError, match="model must have predict_proba for 'roc_auc'"):
        private_score(LinearSVC().fit(X, y), X, y, metric="roc_auc", epsilon=1.0)
    many = LogisticRegression().fit(X, np.arange(400) % 3)
    with pytest.raises(ValueError, match="model must have two labels for 'roc_auc'"):
        private_score(many, X, y, metric="roc_auc", epsilon=1.0)


# Intervals


def held(design, repeats, epsilon, **facts):
    """Of each metric whether its intervals hold the score of the population, (cells, runs)."""
    asked = {"n": 1000, "epsilon": epsilon, "delta": 0.0, "neighbors": "replace_one"} | facts
    runs = [benchmark.held(design, [asked], 0, k) for k in range(repeats)]
    return {name: np.array([run[name][0] for run in runs]).T for name in runs[0]}


@pytest.mark.slow("400 samples for each design")
@pytest.mark.parametrize("design", benchmark.DESIGNS)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_intervals_hold_the_score_of_the_population(design, neighbors):
    """Each in at least 93 % of the samples; a false alarm once in 10^5 runs of a test."""
    for name, inside in held(design, 400, 2.0, neighbors=neighbors).items():
        for cell in inside:
            shown = cell[~np.isnan(cell)]
            if len(shown) >= 300:
                assert shown.sum() >= binom.ppf(1e-5, len(shown), 0.93), name


@pytest.mark.slow("300 samples")
def test_intervals_without_the_noise_do_not_hold_it(monkeypatch):
    """The twin: where noise is great, an interval of the sampling error alone is too short."""
    module = __import__("skdp.model_selection.score", fromlist=["NORMAL"])
    monkeypatch.setattr(module, "LAPLACE", 0.0)
    (inside,) = held("labels", 300, 0.3)["accuracy"]
    assert inside.sum() < binom.ppf(1e-5, 300, 0.93)
