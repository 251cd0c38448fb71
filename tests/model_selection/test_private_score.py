"""Private scores: their values, what one record changes, their guarantee, and their intervals."""

import itertools
import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from inner_package import score_sums
from scipy.stats import binomtest
from sklearn import metrics as sk
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import skdp
from examples.benchmarks.intervals import private_score as benchmark
from skdp import Domain, DPLinearRegression, DPLogisticRegression, Ledger
from skdp.mechanisms import KNorm
from skdp.model_selection import PrivateSearchCV, private_score
from skdp.model_selection import score as score_module
from skdp.testing import replay
from skdp.trusted import NoisySum, NotPrivate, certify

LABELS, NUMBERS = list(benchmark.LABELS), list(benchmark.NUMBERS)
SURE = 1e7  # an epsilon with which noise is no more than rounding
RNG = np.random.default_rng(1)
X, Y, _ = benchmark.draw("rare", 400, RNG)
T = X @ [1.0, 2.0, 3.0] + 3.0 + RNG.normal(size=400)
DOMAIN, OF_T = Domain.unit_box(3, target=[0, 1]), Domain.unit_box(3, target=(-5, 10))
CLASSIFIER = DPLogisticRegression(domain=DOMAIN, random_state=0).fit(X, Y)
REGRESSOR = DPLinearRegression(domain=OF_T, epsilon=20.0, random_state=0).fit(X, T)
BOTH = [(CLASSIFIER, Y, LABELS), (REGRESSOR, T, NUMBERS)]
both_relations = pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])


def score_of(model=CLASSIFIER, X=X, y=Y, epsilon=1.0, **facts):
    return private_score(model, X, y, epsilon=epsilon, **facts)


# Values


def agree(score, y, labels, chances):
    """The values are those of scikit-learn."""
    k = chances.shape[1]
    of_label = chances[np.arange(len(y)), y].clip(0.04 / k, 1 - 0.04 / k)
    square = np.square(chances - np.eye(k)[y]).sum(axis=1).mean()
    truth = {
        "accuracy": sk.accuracy_score(y, labels),
        "balanced_accuracy": sk.balanced_accuracy_score(y, labels),
        "confusion_matrix": (sk.confusion_matrix(y, labels) / len(y)).ravel(),
        "log_loss": -np.log(of_label).mean(),
        "brier_score": square / (2 if k == 2 else 1),
    }
    for name, own in truth.items():
        assert score[name].value == pytest.approx(own, abs=1e-4), name


@both_relations
def test_without_noise_values_and_errors_are_the_usual_ones(neighbors):
    certain = partial(score_of, epsilon=SURE, neighbors=neighbors)
    score, p = certain(metric=LABELS), CLASSIFIER.predict_proba(X)
    agree(score, Y, CLASSIFIER.predict(X), p)
    area, (low, high) = sk.roc_auc_score(Y, p[:, 1]), score["roc_auc"].interval[0]
    assert low < area < high
    assert score["roc_auc"].value == pytest.approx(area, abs=0.01)
    coarse = sk.roc_auc_score(Y, np.searchsorted(score_module.EDGES, p[:, 1]))
    many = certain(X=np.repeat(X, 1000, axis=0), y=np.repeat(Y, 1000), metric="roc_auc")
    half = 1.96 * many.sampling + abs(many.value - coarse)  # with what the cells may hide
    assert np.diff(many.interval)[0] == pytest.approx(2 * half, rel=0.05)
    hits = binomtest((CLASSIFIER.predict(X) == Y).sum(), 400).proportion_ci(method="wilson")
    for own in (score["accuracy"], certain()):  # the second with cells of its own
        assert own.interval[0] == pytest.approx(hits, abs=1e-4)
    error = np.square(p[:, 1] - Y).std() / 20
    assert score["brier_score"].sampling == pytest.approx(error, rel=1e-3)
    score, y, found = certain(REGRESSOR, y=T, metric=NUMBERS), T.clip(-5, 10), REGRESSOR.predict(X)
    assert score["r2"].value == pytest.approx(sk.r2_score(y, found), abs=1e-4)
    mean = sk.mean_absolute_error(y, found)
    assert score["mean_absolute_error"].value == pytest.approx(mean, abs=1e-4)
    # The variance of R^2, for targets of this kurtosis that do not depend on the errors.
    error, kurtosis = (y - found) ** 2, score_module.KURTOSIS
    variance = np.square(error).mean() + (kurtosis - 2) * error.mean() ** 2
    assert score["r2"].sampling == pytest.approx(variance**0.5 / y.var() / 20, rel=1e-3)


def test_counts_and_quantiles_have_the_mean_of_their_own_loss():
    y = RNG.poisson(3 * np.exp(X[:, 0])).clip(0, 30)
    domain = Domain.unit_box(3, target=(0, 30))
    for kind, name, measure in (
        (skdp.DPPoissonRegressor, "mean_poisson_deviance", sk.mean_poisson_deviance),
        (skdp.DPGammaRegressor, "mean_poisson_deviance", sk.mean_poisson_deviance),
        (skdp.DPQuantileRegressor, "mean_pinball_loss", sk.mean_pinball_loss),
    ):
        model = kind(domain=domain, epsilon=9.0).fit(X, y)
        found = private_score(model, X, y, metric=name, epsilon=SURE)
        least = 0.3 if "poisson" in name else 0.0
        exact = measure(y, model.predict(X).clip(least))
        assert found.value == pytest.approx(exact, abs=1e-4)
        with pytest.raises(ValueError, match="metric must be one of"):
            private_score(model, X, y, metric="log_loss", epsilon=1.0)


def test_several_labels_other_models_pipelines_and_searches():
    three = np.digitize(T, [1.0, 4.0])
    names = ["accuracy", "balanced_accuracy", "confusion_matrix", "log_loss", "brier_score"]
    for model, y in (
        (DPLogisticRegression(domain=Domain.unit_box(3, target=[0, 1, 2]), epsilon=9.0), three),
        (RandomForestClassifier(5, max_depth=3, random_state=0), three),
        (make_pipeline(StandardScaler(), LogisticRegression()), Y),
    ):
        score = score_of(model.fit(X, y), y=y, metric=names, epsilon=SURE)
        agree(score, y, model.predict(X), model.predict_proba(X))
    assert any("separately" in text for text in score.guarantee.assumptions)
    assert score_of(LINE, y=T, metric="r2", bounds=(-5, 10), epsilon=SURE).value > 0.8
    model = DPLogisticRegression(domain=DOMAIN, ledger=Ledger(9.0))
    search = PrivateSearchCV(model, {"mechanism": ["l1", "l2"]}, random_state=0).fit(X, Y)
    score_of(search, epsilon=2.0)
    assert search.best_estimator_.ledger.remaining.epsilon == 6.0


@pytest.mark.parametrize(("model", "y", "names"), BOTH)
def test_a_person_has_the_weight_of_a_record(model, y, names):
    """Rows that are repeated within a person change nothing, and the noise is the same."""
    rows = np.repeat(np.arange(400), 1 + np.arange(400) % 3)
    facts = {"metric": names, "epsilon": 9.0, "random_state": 0}
    alone = score_of(model, y=y, **facts)
    score = score_of(model, X[rows], y[rows], groups=rows, **facts)
    for name in ("value", "sampling", "privacy"):
        assert getattr(score, name) == pytest.approx(getattr(alone, name), abs=1e-5, nan_ok=True)
    assert (score.guarantee.unit, score.guarantee.holds) == ("person", False)


def test_what_noise_hides_is_not_a_number_and_its_interval_is_everything():
    score = score_of(metric=LABELS, epsilon=1e-3, random_state=0)
    hidden = np.isnan(score.value)
    assert hidden[1]
    assert (score.interval[hidden] == [0.0, 1.0]).all()
    for model, y, names in BOTH:
        empty = {"metric": names, "neighbors": "add_remove", "random_state": 0}
        assert np.isnan(score_of(model, X[:0], y[:0], **empty).value).mean() > 0.9


@both_relations
@pytest.mark.parametrize(("model", "y", "names"), BOTH)
def test_privacy_is_the_standard_deviation_over_draws_of_the_noise(model, y, names, neighbors):
    facts = {"metric": names, "epsilon": 20.0, "neighbors": neighbors}
    draws = [score_of(model, y=y, random_state=k, **facts) for k in range(200)]
    values, errors = (
        np.array([own.value for own in draws]),
        np.array([own.privacy for own in draws]),
    )
    rows = values.min(axis=0) > 0  # no value is hidden, or clipped
    assert rows.sum() >= 2
    assert values.std(axis=0)[rows] == pytest.approx(errors.mean(axis=0)[rows], rel=0.25)


def test_a_score_prints_as_a_table():
    _, accuracy, brier, last = repr(score_of(metric=["accuracy", "brier_score"])).splitlines()
    assert (accuracy[:8], brier[:5], last) == ("accuracy", "brier", "epsilon = 1 in all")


# What one record changes (private_score.md, Theorem 1)


@both_relations
@pytest.mark.parametrize(("is_column", "size"), [(False, 2), (False, 4), (True, 1), (True, 2)])
def test_the_greatest_change_is_that_of_all_pairs_of_persons(is_column, size, neighbors):
    """Persons are means of rows. The bound is reached."""
    v = np.linspace(-1, 1, 21)
    pairs = itertools.product(np.column_stack([v, (v * v - 1) / 2]), repeat=size)
    rows = np.array([np.ravel(own) for own in pairs]) if is_column else np.eye(size)
    persons = np.random.default_rng(0).dirichlet(np.full(len(rows), 0.1), 200) @ rows
    own = np.concatenate([rows, persons])
    if is_column and neighbors == "add_remove":  # the number of records is one of the sums
        own = np.insert(own, 0, 1.0, axis=1)
    others = own if neighbors == "replace_one" else np.zeros((1, own.shape[1]))
    body = score_sums.change(is_column, size, neighbors)
    reached = max(np.linalg.norm(own - other, body.ball.p, axis=1).max() for other in others)
    assert reached == pytest.approx(body.radius, rel=1e-12)


def test_what_is_added_lies_in_the_body_whatever_is_given():
    def released(function, is_column, size, *given):
        body = score_sums.change(is_column, size, "add_remove")
        release = NoisySum("sums", body, KNorm().calibrate(body, epsilon=SURE))
        with np.errstate(invalid="ignore"):
            return function(release, *map(np.array, given), np.random.default_rng(0))

    for x, s, expected in (
        (0.5, 0.5, (1, 0.5, -0.25)),
        (math.nan, math.nan, (1, -1.0, 0.0)),
        (3.0, 9.0, (1, 1.0, 0.0)),
        (0.5, 0.0, (1, 0.5, -0.375)),  # less than the square
    ):
        sums = released(score_sums.add, True, 1, [[x]], [[s]])
        assert sums == pytest.approx(expected, abs=1e-5)
    counts = released(score_sums.count, False, 2, [0, 1, 1, 7], [0, 0, 0, 1])
    assert counts == pytest.approx([1 / 3, 5 / 3], abs=1e-5)
    means = score_sums.means(np.array([[9.0], [math.nan], [0.5], [0.0]]), np.array([0, 1, 1, 0]))
    assert means.tolist() == [[0.5], [-0.25]]


@both_relations
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("model", "y", "names"), BOTH)
def test_replay(model, y, names, k, neighbors):
    """Everything that a score shows is a function of published values; k rows are a person."""
    rows = slice(5, 5 + k)
    groups = np.concatenate([np.arange(5), np.full(k, 5), np.arange(6, 401 - k)])
    x, other = X.copy(), y.copy()
    x[rows], other[rows] = -1e9, 1 - y[rows] if names is LABELS else 1e9
    one, two = {"X": X, "y": y, "groups": groups}, {"X": x, "y": other, "groups": groups}
    if neighbors == "add_remove":
        two = {name: np.delete(own, rows, axis=0) for name, own in one.items()}
    score = partial(private_score, model, metric=names, epsilon=0.8, neighbors=neighbors)
    found = replay(score, one, two).check()
    assert found.n_published == len(found.changes) > 0
    assert max(found.changes.values()) > 0.3


# The guarantee


@both_relations
@pytest.mark.parametrize("metric", [*LABELS, LABELS, *NUMBERS, NUMBERS], ids=str)
def test_half_a_percent_less_noise_is_refused(metric, neighbors):
    model, y = (REGRESSOR, T) if {*NUMBERS} & {*np.ravel(metric)} else (CLASSIFIER, Y)
    score = score_of(model, y=y, metric=metric, neighbors=neighbors)
    assert certify(score.releases, score.public).epsilon == score.guarantee.epsilon == 1.0
    first, *others = score.releases
    weaker = replace(first, noise=replace(first.noise, scale=0.995 * first.noise.scale))
    with pytest.raises(NotPrivate):
        certify([weaker, *others], score.public)


CELLS = X.astype(object)
CELLS[3, 1] = "secret"
PUBLIC, LINE = LogisticRegression().fit(X, Y), LinearRegression().fit(X, T)
MARGIN, THREE = LinearSVC().fit(X, Y), LogisticRegression().fit(X, np.arange(400) % 3)
OF_PERSONS = DPLogisticRegression(domain=DOMAIN).fit(X, Y, groups=np.arange(400) // 2)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("metric must be one of .*, got 'f1'", {"metric": "f1"}),
        (r"metric must be one of .*, got \[\]", {"metric": []}),
        ("got 'roc_auc'. .*two labels", {"model": THREE, "metric": "roc_auc"}),
        ("got 'roc_auc'. .*predict_proba", {"model": MARGIN, "metric": "roc_auc"}),
        ("epsilon must be", {"epsilon": 1e-300}),
        ("epsilon = 1.1 was asked|left", {"epsilon": 1.1}),
        ("neighbors must be", {"neighbors": "other"}),
        ("ledger must be a Ledger", {"ledger": 1.0}),
        ("random_state must be|seed", {"random_state": "now"}),
        ("not fitted", {"model": LogisticRegression()}),
        ("model must be a fitted classifier or regressor", {"model": StandardScaler()}),
        ("bounds must be two increasing numbers", {"model": LINE, "metric": "r2"}),
        *(
            (
                f"bounds must be .*{re.escape(str(bounds))}",
                {"model": LINE, "y": T, "bounds": bounds},
            )
            for bounds in [("a", "b"), (None, 1), (0, 1e200), (0, math.inf), (0, 1e-320), (1, 0)]
        ),
        ("model must be a fitted classifier or regressor", {"model": "x"}),
        ("model must be a fitted classifier or regressor", {"model": LogisticRegression}),
        (r"epsilon must be a number in \[1e-10, 1e\+12\], got 1e-12", {"epsilon": 1e-12}),
        ("groups must be given, as in the fit", {"model": OF_PERSONS}),
        ("groups must", {"groups": np.arange(3)}),
        ("y must contain only declared labels", {"y": np.full(400, 7)}),
        ("X has 2 features", {"X": np.zeros((400, 2))}),
        ("X must have records", {"X": X[:0], "y": Y[:0]}),
        ("a list_iterator is not a table in memory", {"X": iter([X])}),
        ("X must have records that the model predicts", {"model": PUBLIC, "X": CELLS}),
    ],
    ids=lambda own: own if isinstance(own, str) else "",
)
def test_errors_name_the_rule_and_spend_nothing(text, facts):
    ledger = Ledger(1.0)
    with pytest.raises((ValueError, TypeError), match=text) as error:
        score_of(**{"ledger": ledger} | facts)
    assert "No budget was spent" in error.value.__notes__[-1]
    assert "secret" not in f"{error.value} {error.value.__cause__}"
    assert ledger.remaining.epsilon == 1.0


# Intervals
