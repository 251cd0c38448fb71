"""Parts of a private search that break a rule: refused before anything is spent, or harmless."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from inner_package import UNITS, _rows, as_score, private_step, row_products
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import skdp
from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Ledger, PrivacyLeakWarning
from skdp.geometry import LpBall
from skdp.mechanisms import KNorm
from skdp.model_selection import PrivateSearchCV, RecordScore
from skdp.privacy import Guarantee

BOX = Domain.box([0, 0], [10, 10], target=["no", "yes"])
NUMBERS = Domain.box([0, 0], [10, 10], target=(-10.0, 10.0))
OTHER = Ledger(100.0)


@pytest.fixture(scope="module")
def table():
    X = np.random.default_rng(3).uniform(0, 10, (300, 2))
    return X, np.where(X[:, 0] > X[:, 1], "yes", "no")


def logistic(**options):
    return DPLogisticRegression(**{"domain": BOX, "scaling_share": 0, **options})


def descent(**options):
    return skdp.DPCoordinateDescentClassifier(**{"domain": BOX, "n_passes": 2, **options})


def pipeline(*before, model=None, **options):
    steps = [(f"step{k}", step) for k, step in enumerate(before)]
    return Pipeline([*steps, ("model", model or logistic())], **options)


def stateless():
    return FunctionTransformer(np.tanh)


# Estimators that do what no estimator may


class Spendthrift(DPLogisticRegression):
    def _public(self, source):
        return replace(super()._public(source), epsilon=1.01 * float(self.epsilon))


class NoProbabilities(DPLogisticRegression):
    """A classifier with predictions only."""

    predict_proba = decision_function = property()


class Mean(TransformerMixin):
    """A step that learns without a fit of its own."""

    def fit_transform(self, X, y=None):
        self.mean = X.mean(axis=0)
        return X - self.mean

    def transform(self, X):
        return X - self.mean


class Learning(FunctionTransformer):
    """A subclass that learns, of a class that needs no fit."""

    def fit(self, X, y=None):
        self.kw_args = {"shift": np.asarray(X).mean(axis=0)}
        return self


class LearningPipeline(Pipeline):
    """A subclass that learns, of a class that fits only its steps."""

    def fit(self, X, y=None, **parameters):
        self.mean = np.asarray(X).mean(axis=0)
        return super().fit(X, y, **parameters)


ANY = {"model__fit_intercept": [True, False]}
# The model in the grid of a pipeline, and what the error says.
MODELS_IN_GRID = {
    "other neighbours": (logistic(neighbors="add_remove"), "leave neighbors as it is"),
    "a ledger": (logistic(ledger=OTHER), "leave ledger as it is"),
    "a domain": (logistic(domain=NUMBERS), "leave domain as it is"),
    "of numbers": (DPHuberRegressor(domain=BOX), "classifiers only, or regressors only"),
    "without a budget": (LogisticRegression(), "be a private estimator with parameters"),
}
# Steps before a model, each of which learns.
LEARNING = {
    "scaler": StandardScaler(),
    "scaler of some columns": ColumnTransformer(
        [("a", stateless(), [0]), ("b", StandardScaler(), [1])]
    ),
    "without a fit": Mean(),
    "subclass": Learning(),
    "composition": LearningPipeline([("own", stateless())]),
}
BY_TYPES = ColumnTransformer([("a", Normalizer(), make_column_selector())])
STEP = "before the model must learn nothing"
PREDICTS = {"model": [logistic(), NoProbabilities(domain=BOX)]}
# Estimator, grid, what the error says, and a score.
REFUSED = {
    **{
        name: (pipeline(), {"model": [logistic(), model]}, message)
        for name, (model, message) in MODELS_IN_GRID.items()
    },
    **{name: (pipeline(step), ANY, STEP) for name, step in LEARNING.items()},
    "scaler in the grid": (pipeline(stateless()), {"step0": [stateless(), StandardScaler()]}, STEP),
    "owned parameter of a step": (pipeline(), {"model__delta": [0.0]}, "leave out"),
    "columns by their types": (pipeline(BY_TYPES), ANY, "Select columns by a list of names"),
    "cache on disk": (pipeline(stateless(), memory="cache"), ANY, "memory must be None"),
    "search": (
        PrivateSearchCV(descent(), {"n_passes": [1, 2]}),
        {"held_out": [0.2, 0.3]},
        "estimator must not be a search",
    ),
    "more than its budget": (
        Spendthrift(domain=BOX),
        {"regularization": [0.5]},
        "ask for a guarantee that",
    ),
    "no ranks": (
        pipeline(),
        PREDICTS,
        "have decision_function or predict_proba if scoring is",
        "roc_auc",
    ),
    "no chances": (pipeline(), PREDICTS, "have predict_proba if scoring is", "neg_log_loss"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_before_anything_is_spent(case, table):
    """With nothing charged: neither the search's ledger nor anybody's."""
    estimator, grid, message, *scoring = REFUSED[case]
    ledger = Ledger(100.0)
    search = PrivateSearchCV(estimator, grid, ledger=ledger)
    search.set_params(scoring=scoring[0] if scoring else None)
    with pytest.raises(ValueError, match=message) as caught:
        search.fit(*table)
    assert caught.value.__notes__ == ["No budget was spent and no noise was drawn."]
    assert ledger.entries == OTHER.entries == ()
    assert not hasattr(search, "best_estimator_")


def test_steps_that_agree_are_taken(table):
    """Also other models, with the same ledger, and encoders that learn nothing or no more."""
    ledger, scaler = Ledger(8.0), StandardScaler().fit([[0.0, 0.0], [10.0, 10.0]])
    first = pipeline(ColumnTransformer([("all", BOX.encoder(), [0, 1])]))
    first.set_params(model__ledger=ledger)
    models = [logistic(ledger=ledger), descent(ledger=ledger)]
    other = Domain.box([0, 0], [20, 20]).encoder()  # that of BOX would need BOX.encoded
    grid = {"model": models, "step0": [other, FrozenEstimator(scaler), "passthrough"]}
    found = PrivateSearchCV(first, grid, epsilon=8.0).fit(*table)
    (entry,) = ledger.entries
    assert entry.epsilon == 8.0
    assert "DPCoordinateDescentClassifier or DPLogisticRegression" in found.guarantee_.mechanism
    assert all(private_step(model).ledger is ledger for model in models)
    assert not any(hasattr(model, "coef_") for model in models)


# What shows


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (stateless(), "FunctionTransformer"),
        (FeatureUnion([("a", Pipeline([("b", Normalizer())]))]), "Normalizer"),
        (FrozenEstimator(StandardScaler().fit(np.eye(2))), "Standard"),
    ],
)
def test_steps_from_elsewhere_are_named_before_anything_is_spent(step, name, table):
    """What they print or warn of is not covered; the card says so, too."""
    ledger = Ledger(8.0)
    search = PrivateSearchCV(pipeline(step), ANY, random_state=0, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        with pytest.raises(PrivacyLeakWarning, match=name):
            search.fit(*table)
    assert ledger.entries == ()
    with pytest.warns(PrivacyLeakWarning, match="guarantee does not cover this"):
        search.fit(*table)
    card = " ".join(str(search.guarantee_).split())
    assert "what other code prints or warns of are not observed" in card
    assert "types of columns, on which they may depend, are declared" in card


def test_encoders_of_a_domain_are_named_by_no_warning(table):
    model = logistic(domain=BOX.encoded)
    search = PrivateSearchCV(pipeline(BOX.encoder(), "passthrough", model=model), ANY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.set_params(epsilon=8.0).fit(*table)


def test_fits_that_are_counted_may_be_watched(table, capfd):
    """Fits to parts of their own are all in the guarantee; and errors keep what they say."""
    passes = []
    model = descent(callback=lambda progress: passes.append(progress.n_pass), verbose=1)
    search = PrivateSearchCV(model, {"n_passes": [1, 2]}, epsilon=8.0)
    search.set_params(refit_share=0.0)
    search.fit(*table)
    assert "pass 2 of 2" in capfd.readouterr().err
    assert sorted(passes) == [1, 1, 2]

    def fail(progress):
        raise RuntimeError("no")

    model.set_params(callback=fail)
    with pytest.raises(RuntimeError) as caught:
        search.fit(*table)
    assert caught.value.__notes__[0].startswith("The callback had seen the coefficients")
    assert caught.value.__notes__[1].startswith("The budget was spent: epsilon = 8.")


# Scores are functions of the record


@pytest.mark.parametrize("dim", [1, 2, 7, 8, 9, 31, 100, 129, 300, 9000])
def test_predictors_do_not_depend_on_other_rows(dim):
    """Bit by bit, of a row alone, among few, and among more than fit in a block."""
    rng = np.random.default_rng(dim)
    rows, coef = rng.standard_normal((2000, dim)), rng.standard_normal((3, dim))
    whole = row_products(rows, coef)
    np.testing.assert_allclose(whole, rows @ coef.T, rtol=1e-9, atol=1e-12)
    for start, stop in ((0, 1), (1, 2), (1999, 2000), (5, 12), (3, 1777)):
        np.testing.assert_array_equal(row_products(rows[start:stop], coef), whole[start:stop])
    np.testing.assert_array_equal(row_products(np.asfortranarray(rows), coef), whole)


@pytest.mark.parametrize("model", [logistic(), descent(), DPHuberRegressor(domain=NUMBERS)])
def test_predictions_do_not_depend_on_other_rows(model):
    """Of a wide table, in a box and in a ball, bit by bit."""
    X = np.random.default_rng(8).standard_normal((600, 60))
    labels = hasattr(model, "classes")
    target = ["no", "yes"] if labels else (-10.0, 10.0)
    y = np.where(X[:, 0] > 0, "yes", "no") if labels else X[:, 0]
    for domain in (Domain.box(-np.ones(60), np.ones(60), target), Domain.l2_ball(60, 3.0, target)):
        own = clone(model).set_params(domain=domain, random_state=0, epsilon=5.0).fit(X, y)
        ask = own.decision_function if labels else own.predict
        alone = [ask(X[k : k + 1])[0] for k in range(0, 600, 7)]
        np.testing.assert_array_equal(ask(X)[::7], alone)
        np.testing.assert_array_equal(ask(X[100:])[::7], ask(X)[100::7])


class Centred(ClassifierMixin, BaseEstimator):
    """A model whose prediction of a row depends on all rows."""

    def fit(self, X, y):
        self.is_fitted_ = True
        return self

    def predict(self, X):
        return np.where(X[:, 0] > X[:, 0].mean(), "yes", "no")


def close(model, X, y):
    """A score whose number depends on all rows."""
    return 1 - np.abs((y == "yes") - np.mean(model.predict(X) == "yes"))


def test_the_score_of_a_record_does_not_depend_on_the_others(table):
    """Sums over parts add up to the whole's, with models and scores that look at all rows."""
    X, y = table
    models = [Centred(), Pipeline([("a", FunctionTransformer()), ("b", Centred().fit(X, y))])]
    for model in models:
        for score in (as_score("accuracy", ["no", "yes"], None), RecordScore(close)):
            parts = [score.total(model, X[i:j], y[i:j]) for i, j in ((0, 1), (1, 130), (130, 300))]
            assert score.total(model, X, y) == sum(parts)


@pytest.mark.parametrize("dtypes", [["f8"], ["f8", "f4"], ["f8", "Float64", "category"]])
@pytest.mark.parametrize("dim", [3, 40])
def test_a_row_of_a_frame_has_one_layout(dtypes, dim):
    """Bits of products, and strides, of a record that is alone and of one among others."""
    frame = pd.DataFrame(np.random.default_rng(2).standard_normal((40, dim)))
    frame = frame.astype({j: dtypes[j % len(dtypes)] for j in range(dim)})
    frame.columns = ["twice"] * dim
    matrix = np.random.default_rng(0).standard_normal((dim, 3))

    def seen(X):
        for row in _rows(X):
            cells = row.to_numpy(dtype=float)
            assert row.dtypes.tolist() == frame.dtypes.tolist()
            blocks = [(own.dtype, np.asarray(own.values).strides) for own in row._mgr.blocks]
            yield cells.strides, blocks, (cells @ matrix).tobytes()

    among = list(seen(frame))
    for source in (frame, frame.copy(), frame.iloc[np.arange(40)], frame.reset_index(drop=True)):
        for k in (0, 7, 39):
            assert list(seen(source.iloc[k : k + 1])) == [among[k]]
            assert list(seen(source.iloc[[k]])) == [among[k]]
            assert list(seen(source.iloc[k:])) == among[k:]


def test_scores_of_this_package_add_up_too(people, domain, answers, pay_domain, pay):
    """By scores of one's own, of frames and arrays, alone and behind an encoder."""
    behind = Pipeline([("a", domain.encoder()), ("b", logistic(domain=domain.encoded))])

    def likelihood(model, X, y):
        column = model.classes_.tolist().index(y[0])
        return model.predict_proba(X)[:, column] * (X.shape == (1, 4))

    likely = RecordScore(likelihood)
    by_error = as_score(None, None, (-10.0, 50.0))
    for model, y, score in (
        (logistic(domain=domain, random_state=0), answers, likely),
        (behind.set_params(b__random_state=0), answers, likely),
        (behind, answers, as_score("accuracy", ["no", "yes"], None)),
        (DPHuberRegressor(domain=pay_domain, random_state=0), np.asarray(pay), by_error),
    ):
        model.fit(people, y)
        parts = [score.total(model, people[i:j], y[i:j]) for i, j in ((0, 1), (1, 77), (77, 400))]
        assert score.total(model, people, y) == sum(parts)
        assert abs(sum(parts)) < 400 * UNITS // 2
        if score is likely:
            chances = model.predict_proba(people)[np.arange(400), (y == "yes").astype(int)]
            assert sum(parts) == (np.rint(chances * UNITS) - UNITS // 2).sum()


def test_models_asked_about_other_rows_answer_about_those(people, domain, answers):
    """A score may ask a model about a changed record."""

    def robust(model, X, y):
        return model.predict(X.assign(age=17.0)) == y

    changed = people.assign(age=17.0)
    behind = Pipeline([("a", domain.encoder()), ("b", logistic(domain=domain.encoded))])
    for model in (logistic(domain=domain), behind):
        model.fit(people, answers)
        right = (model.predict(changed) == answers).sum()
        assert RecordScore(robust).total(model, people, answers) == (right - 200) * UNITS


# Scores are tried before anything is spent


def two(model, X, y):
    """It must return one number."""
    return [0.0, 1.0]


def misspelt(model, X, y):
    return model.predict_probability(X)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("score", [two, misspelt])
def test_a_score_that_fails_costs_nothing(score, neighbors, people, domain, answers):
    """Of frames in any order of columns, of arrays, and behind an encoder."""
    alone = logistic(domain=domain, neighbors=neighbors)
    behind = pipeline(domain.encoder(), model=logistic(domain=domain.encoded, neighbors=neighbors))
    rows = people[list(domain.names)].to_numpy()
    cases = [(alone, people), (alone, people.iloc[:, ::-1]), (alone, rows)]
    for model, X in [*cases, (behind, people)]:
        ledger = Ledger(1.0)
        name = "model__regularization" if model is behind else "regularization"
        search = PrivateSearchCV(model, {name: [0.5]}, ledger=ledger)
        search.set_params(scoring=RecordScore(score))
        with pytest.raises((ValueError, AttributeError)) as caught:
            search.fit(X, answers)
        assert caught.value.__notes__ == [
            "The score was tried on artificial records, drawn from the domain.",
            "No budget was spent and no noise was drawn.",
        ]
        assert ledger.entries == ()


def test_a_score_is_tried_on_no_record_of_the_data(people, pay_domain, pay):
    """But on rows of the same form; the models that are tried show themselves to nobody."""
    asked, passes = [], []

    def closeness(model, X, y):
        asked.append((X, y))
        return -np.abs(model.predict(X) - y)

    def search(**options):
        step = skdp.DPCoordinateDescentRegressor(
            domain=pay_domain, n_passes=1, callback=passes.append
        )
        score = RecordScore(closeness, -60.0, 0.0)
        grid = {"penalty": ["none", "l1"]}
        return PrivateSearchCV(step, grid, scoring=score, **options)

    columns = people.columns[::-1]
    with pytest.raises(skdp.BudgetExceeded):
        search(ledger=Ledger(0.5)).fit(people[columns], np.full(len(people), 50.0))
    assert len(asked) == 10
    assert passes == []
    assert all(list(X.columns) == list(columns) for X, _ in asked)
    assert all((X.dtypes.map(str) == people[columns].dtypes.map(str)).all() for X, _ in asked)
    assert len({float(y[0]) for _, y in asked}) == 10
    search(epsilon=50.0).fit(people, pay)
    assert len(passes) == 3


# What the chosen model says of its privacy


class Computed:
    """Noise that computes its guarantee."""

    def __init__(self, epsilon, law):
        self.epsilon, self.law = epsilon, law
        self.rvs, self.covariance = law.rvs, law.covariance

    @property
    def guarantee(self):
        return Guarantee(self.epsilon)


class Plugged:
    """A mechanism from elsewhere."""

    def calibrate(self, sensitivity, *, epsilon, delta=0.0):
        law = KNorm(LpBall(sensitivity.ball.dim)).calibrate(sensitivity, epsilon=epsilon)
        return Computed(epsilon, law)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (logistic(), {}),
        (logistic(mechanism=Plugged()), {}),
        (descent(mechanism="gaussian"), {"delta": 1e-5}),
        (DPHuberRegressor(domain=NUMBERS), {}),
        (skdp.DPLinearRegression(domain=NUMBERS), {}),
        (skdp.DPLinearRegression(domain=NUMBERS, mechanism="matrix"), {}),
        (skdp.DPCoordinateDescentRegressor(domain=NUMBERS), {}),
        (pipeline(stateless(), model=logistic()), {}),
    ],
)
def test_a_chosen_model_claims_no_less_than_the_search_cost(model, options, table):
    """Wherever it says something of privacy, in pickles too; and losses are the search's."""
    X, y = table
    if not isinstance(model, DPLogisticRegression | skdp.DPCoordinateDescentClassifier | Pipeline):
        y = X[:, 0] - X[:, 1]
    prefix = "model__" if isinstance(model, Pipeline) else ""
    grid = {f"{prefix}fit_intercept": [True]}
    search = PrivateSearchCV(model, grid, epsilon=3.0, **options).fit(X, y)
    best = search.best_estimator_[-1] if prefix else search.best_estimator_
    noises = [best.noise_, *([best.moments_.noise] if hasattr(best, "moments_") else [])]
    whole = search.guarantee_
    assert best.guarantee_ == whole
    assert whole.epsilon == 3.0
    assert best.public_.epsilon < 3.0  # the releases are those of one fit
    for noise in noises:
        assert (noise is None) == ("Plugged" in repr(model))
        assert getattr(noise, "guarantee", whole) == whole
        assert getattr(noise, "losses", whole.losses) == whole.losses
    if hasattr(best, "from_moments"):
        assert best.from_moments().noise_.guarantee == whole


def test_every_fit_says_what_it_says_itself(table):
    """Only a model from a search says what the search says; parameters keep theirs."""
    model = logistic().fit(*table)
    before = model.noise_.guarantee
    search = PrivateSearchCV(
        pipeline(model=model), {"model__regularization": [0.5]}, epsilon=3.0
    ).fit(*table)
    assert model.noise_.guarantee == before
    assert search.estimator["model"].noise_ is model.noise_
    mechanism = Plugged()
    mechanism.guarantee = Guarantee(0.1, mechanism="of something else")
    found = PrivateSearchCV(
        logistic(mechanism=mechanism), {"regularization": [0.5]}, epsilon=3.0
    ).fit(*table)
    assert found.best_estimator_.mechanism.guarantee == mechanism.guarantee
