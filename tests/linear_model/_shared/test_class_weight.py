"""Public weights of labels: what they compute, and that no record counts more than without them."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from exact_minimiser import Weighted, greatest_ratio, noise_scale
from inner_descent import Blocks, Gradients, logistic_slope
from inner_fits import Design
from inner_objective import ClippingBounds, finisher, greatest_leverage, row_builder, weigher
from sklearn.linear_model import LogisticRegression
from summed_records import MIXED, ONE, kept, moved, scaled, table

import skdp
from skdp import Domain, DPCoordinateDescentClassifier, DPLogisticRegression, Ledger, load_model
from skdp.linear_model.losses import LogisticLoss, SharpLogistic
from skdp.linear_model.validation import label_weights
from skdp.rows import MemoryRows
from skdp.rows.persons import Persons, Shares
from skdp.trusted import overview

KINDS = [DPLogisticRegression, DPCoordinateDescentClassifier]
UNCHARGED = ["No budget was spent and no noise was drawn."]
# Noise that changes nothing within the tolerances.
LITTLE = {"epsilon": 1e12, "random_state": 0, "scaling_share": 0}


def people(n=600, labels=("no", "yes"), seed=0):
    """Numbers in [-1, 1], and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    score = X @ [1.5, -1] + rng.logistic(size=n) / 2 - 0.7
    places = np.digitize(score, np.linspace(-1, 1, len(labels) + 1)[1:-1])
    return X, np.array(list(labels))[places]


def made(kind, labels=("no", "yes"), **settings):
    domain = Domain.unit_box(2, target=list(labels))
    return kind(**{"domain": domain, "random_state": 0, "epsilon": 3.0} | settings)


def told(model):
    return overview(model.releases_, model.public_)


def assert_same(one, other):
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    assert one.guarantee_ == other.guarantee_
    assert told(one) == told(other)


# What weights compute


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", KINDS)
def test_only_quotients_of_weights_matter(kind, delta):
    """Equal weights are no weights, a common factor changes nothing, and other labels have 1."""
    X, y = people()

    def fitted(weights):
        return made(kind, delta=delta, class_weight=weights).fit(X, y)

    plain = fitted(None)
    for weights in ({}, {"no": 1.0}, {"no": 3, "yes": 3}, {"no": 1e-300, "yes": 1e-300}):
        assert_same(fitted(weights), plain)
    quarter = fitted({"no": 0.25})
    assert not np.array_equal(quarter.coef_, plain.coef_)
    for weights in ({"no": 1, "yes": 4}, {"yes": 4.0}, {"no": np.float32(0.5), "yes": 2}):
        assert_same(fitted(weights), quarter)
    # Plans do not depend on weights.
    assert quarter.guarantee_ == plain.guarantee_
    assert told(quarter) == told(plain)


TWO = ("no", "yes")
LABELLED = [(TWO, {"no": 0.2}), (TWO, {"no": 2, "yes": 7}), (TWO, {"yes": 0.1})]
LABELLED += [("abc", {"a": 0.1, "c": 0.6})]


@pytest.mark.parametrize(
    ("labels", "weights", "persons"), [(*own, k % 3 == 0) for k, own in enumerate(LABELLED)]
)
@pytest.mark.parametrize(("kind", "clip"), [*((kind, None) for kind in KINDS), (KINDS[1], 3.0)])
def test_without_noise_models_are_those_of_scikit_learn(kind, clip, labels, weights, persons):
    """A row has the weight of its label times its share of its person's, in every model.

    The penalty counts relative to the greatest weight. Models of three labels are joint, and with
    a bound ``clip``, beyond every share, separate ones.
    """
    X, y = people(1500, labels)
    weight, groups = np.array([float(weights.get(label, 1)) for label in y.tolist()]), None
    greatest = weight.max()
    if persons:
        groups = np.random.default_rng(1).integers(0, 900, len(y))
        weight /= np.bincount(groups)[groups]
    if kind is DPLogisticRegression:
        own = {"loss": "logistic", "regularization": 5.0, "fit_intercept": False}
    else:
        own = {"penalty": "l2", "alpha": 0.01, "n_passes": 300, "average": False, "clip": clip}
    model = made(kind, labels, class_weight=weights, **own, **LITTLE).fit(X, y, groups=groups)
    n = len(np.unique(groups)) if persons else len(y)
    ridge = greatest * (model.ridge_[0] if kind is DPLogisticRegression else 0.01 * n)
    free = LogisticRegression(C=1 / ridge, fit_intercept=model.fit_intercept, tol=1e-10)
    if clip is None:  # one joint model
        free.fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(model.coef_, free.coef_, atol=2e-4)
        np.testing.assert_allclose(model.predict_proba(X), free.predict_proba(X), atol=2e-4)
        return
    for k, label in enumerate(labels[-len(model.coef_) :]):
        free.fit(X, y == label, sample_weight=weight)
        np.testing.assert_allclose(model.coef_[k], free.coef_[0], atol=2e-4)
        np.testing.assert_allclose(model.intercept_[k], free.intercept_[0], atol=2e-4)


# Privacy: gradients of a descent


@pytest.mark.parametrize("clips", [None, np.full(7, 0.25)], ids=["weighted", "clipped"])
def test_gradients_are_exact_and_no_contribution_is_greater(clips):
    """Sums of all records are the sums of each record, and weights increase the size of none."""
    blocks, weights = Blocks(MIXED, intercept=True), np.array([0.3, 1.0, 0.05])
    scaling, moves = scaled(blocks, 0.1, 0.3), moved(blocks, 5, 2.0)
    X, _ = table(300)
    labels = np.random.default_rng(8).integers(0, 3, 300).astype(np.uint8)

    def gradient(rows, own):
        model = Gradients(
            kept(blocks, scaling, X[rows], labels[rows]), blocks, 1, logistic_slope, clips, own
        )
        for block, change in moves:
            model.move(block, change)
        return model.of_all()

    alone = [gradient(slice(k, k + 1), weights) for k in range(300)]
    without = [gradient(slice(k, k + 1), None) for k in range(300)]
    assert gradient(slice(None), weights).tolist() == np.sum(alone, axis=0).tolist()
    assert (np.abs(alone) <= np.abs(without)).all()
    assert np.abs(without).max() <= ONE
    assert np.any(alone != np.array(without))


def test_slopes_are_weighted_before_they_are_rounded():
    """By fractions: the contribution to the intercept is w s, rounded to the grid of 2^-20."""
    domain = Domain.unit_box(1, target=[0, 1])
    blocks, weights = Blocks(domain, intercept=True), np.array([1 / 3, 1.0])
    x = np.linspace(-1, 1, 200)[:, None]
    labels = np.arange(200, dtype=np.uint8) % 2
    model = Gradients(
        kept(blocks, scaled(blocks), x, labels), blocks, 1, logistic_slope, None, weights
    )
    model.move(1, np.array([0.7]))
    (state,) = model.kept.states
    slopes = logistic_slope(state.predictors(model.moves), labels.astype(float))
    exact = sum(
        Fraction(round(Fraction(float(weights[y] * s)) * 2**20), 2**20)
        for y, s in zip(labels, slopes, strict=True)
    )
    assert Fraction(int(model.of_block(0)[0]), ONE) == exact


def test_contributions_are_clipped_after_they_are_weighted():
    """A weighted slope below the clip is not clipped. One above it contributes the clip."""
    blocks = Blocks(Domain.unit_box(1, target=[0, 1]), intercept=False)
    for weight, expected in ((0.25, 0.5), (0.75, 1.0)):
        state = kept(blocks, scaled(blocks), np.ones((1, 1)), np.zeros(1, dtype=np.uint8))
        facts = logistic_slope, np.array([0.25]), np.array([weight, 1.0])
        model = Gradients(state, blocks, 1, *facts)
        assert model.of_block(0)[0] == expected * ONE  # the slope is 1/2


# Privacy: rows of an objective


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("leverage", [0.5, 1e9])
def test_weights_of_rows_are_never_greater_than_without_weights_of_labels(leverage, persons):
    """And w(x, y) x' ridge^-1 x is at most the leverage, in exact arithmetic."""
    rng = np.random.default_rng(0)
    domain = Domain({"a": (-1, 1), "b": (-1, 1), "c": [*"uvw"]}, target=[*"xyz"])
    X = pd.DataFrame(rng.uniform(-1, 1, (400, 2)), columns=["a", "b"])
    X["c"], y = rng.choice([*"uvw"], 400), rng.integers(0, 3, 400).astype(np.uint8)
    ids = rng.integers(0, 150, 400)
    members = Shares(Persons.of([ids]), 1).members(ids) if persons else None
    design = Design(domain, True)
    ridge = rng.uniform(0.5, 3, design.dim)
    weigh = weigher(design, ridge, leverage) if leverage < 1e9 else None
    finish = finisher(ClippingBounds.whole(design), weigh)

    def states(weights):
        rows = MemoryRows(domain, X, y, members)
        kept = rows.keep(row_builder(design, weights), dtype=np.float32)
        return kept.map(finish).states

    given, total = np.array([1 / 3, 1.0, 1e-3]), Fraction(0)
    for own, plain in zip(states(given), states(None), strict=True):
        without = np.ones(len(own)) if plain.weight is None else plain.weight
        assert (own.weight <= without).all()
        np.testing.assert_allclose(own.weight, given[own.target] * without, rtol=1e-15)
        total += sum(map(Fraction, without.tolist()))
        for k in range(len(own)):
            own_row = exact_row(own, k)
            length = sum(x * x / Fraction(r) for x, r in zip(own_row, ridge, strict=True))
            assert Fraction(float(own.weight[k])) * length <= Fraction(leverage)
    assert total <= (len(np.unique(ids)) if persons else 400)


def exact_row(rows, k):
    """The intercept, two numbers and two centred indicators as fractions."""
    level = int(rows.levels[0, k])
    indicators = [Fraction(int(level == place)) - Fraction(1, 3) for place in (1, 2)]
    return [Fraction(1), *map(Fraction, rows.numbers[:, k].tolist()), *indicators]


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", [LogisticLoss(), SharpLogistic(0.75)], ids=repr)
def test_no_output_has_a_loss_above_epsilon(loss, neighbors):
    """The exact density for all pairs of a grid of records, in one dimension.

    The twin: weights that are not divided by the greatest one break the promise.
    """
    assert worst_loss(loss, neighbors, (1.0, 1.0)) > 0.5
    for weights in ({0: 3.0}, {0: 0.2}, {1: 1e-3}, {0: 2.0, 1: 1.5}):
        found = label_weights(weights, np.array([0, 1]))
        assert 0.2 < worst_loss(loss, neighbors, found) <= 1
    assert worst_loss(loss, neighbors, (3.0, 1.0)) > 1


def worst_loss(loss, neighbors, weights, epsilon=1.0, q=0.9):
    records = list(itertools.product([-1.0, -0.4, 0.7, 1.0], [0, 1]))
    outputs = np.concatenate([-np.geomspace(1e-3, 50, 25), np.geomspace(1e-3, 50, 25)])
    ridge = [1 / greatest_leverage(loss, q, epsilon, neighbors)]
    law = {"scale": noise_scale(loss, q, epsilon, neighbors), "ridge": ridge}

    def law_of(data):
        rows, targets = np.array([x for x, _ in data])[:, None], [y for _, y in data]
        return Weighted(loss, rows, targets, [weights[y] for y in targets], **law)

    tables = [(0.9, 1), (-0.3, 0)], [(1.0, 1)] * 5, [(1.0, 0)] * 5
    return max(greatest_ratio(law_of, own, records, outputs, neighbors) for own in tables)


# Labels


@pytest.mark.parametrize("kind", KINDS)
def test_positions_of_declared_strings_have_the_weights_of_the_strings(kind):
    """As meta-estimators of scikit-learn fit them; the guarantee has one more assumption."""
    X, y = people()
    model = made(kind, class_weight={"yes": 0.2})
    positions = made(kind, class_weight={"yes": 0.2}).fit(X, (y == "yes").astype(int))
    *assumptions, numbers = positions.guarantee_.assumptions
    assert "positions among all declared labels" in numbers
    positions.guarantee_ = replace(positions.guarantee_, assumptions=tuple(assumptions))
    assert_same(model.fit(X, y), positions)
    assert positions.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "keys"),
    [
        ([0, 1], [np.int8(0), 1.0]),
        ([False, True], [0, np.True_]),
        ([0.5, 2.0], [np.float32(0.5), 2]),
        (["a", "b"], [np.str_("a"), "b"]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), [np.datetime64("2020-01-01")]),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), [pd.Timestamp("2020-01-01").date()]),
    ],
    ids=str,
)
def test_keys_are_labels_that_are_equal(labels, keys):
    found = label_weights({keys[0]: 0.5}, np.asarray(labels))
    assert found.tolist() == [0.5, 1.0]
    if len(keys) == 2:
        assert label_weights(dict.fromkeys(keys, 0.5), np.asarray(labels)) is None


# Rows that are not in memory


# Errors, before anything is spent


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("balanced", "class_weight must be None or a dict .*, got 'balanced'.*frequencies"),
        ("auto", "class_weight must be None or a dict"),
        ([1, 2], "class_weight must be None or a dict .*got <class 'list'>"),
        (2.0, "class_weight must be None or a dict"),
        ({"yes": 0}, r"class_weight\['yes'\] must be a finite number > 0, got 0"),
        ({"yes": -1.0}, "a finite number > 0"),
        ({"yes": np.nan}, "a finite number > 0"),
        ({"yes": np.inf}, "a finite number > 0"),
        ({"yes": 10**400}, "a finite number > 0"),
        ({"yes": "2"}, "a finite number > 0"),
        ({"yes": None}, "a finite number > 0"),
        ({"yes": True}, "a finite number > 0"),
        ({"maybe": 1.0}, r"class_weight must have only labels as keys, got \['maybe'\]"),
        ({1: 1.0}, r"only labels as keys, got \[1\]"),
        ({None: 1.0, "yes": 2.0}, r"only labels as keys, got \[None\]"),
    ],
    ids=str,
)
@pytest.mark.parametrize("declares", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::skdp.PrivacyLeakWarning")
def test_wrong_weights_are_errors_before_anything_is_spent(kind, declares, weights, message):
    X, y = people(40)
    domain = Domain.unit_box(2, target=["no", "yes"] if declares else None)
    model = made(kind, domain=domain, class_weight=weights, ledger=Ledger(5.0))
    with pytest.raises(ValueError, match=message) as error:
        model.fit(X, y)
    assert error.value.__notes__ == UNCHARGED
    assert error.value.__context__ is None
    assert model.ledger.spent.epsilon == 0
    assert not hasattr(model, "coef_")


def test_regressors_have_no_weights_of_labels():
    with pytest.raises(TypeError, match="class_weight"):
        skdp.DPHuberRegressor(class_weight={0: 1.0})


# Search and export


@pytest.mark.parametrize(
    ("labels", "weights"),
    [
        (["no", "yes"], {"yes": 0.2, "no": 3}),
        ([0, 1], {1: 0.2}),
        ([False, True], {True: np.float64(0.2)}),
        ([0.5, 2.5], {0.5: 2}),
        (["no", "yes"], {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_exported(kind, labels, weights):
    """As pairs: the keys of JSON are strings."""
    X, y = people(60, labels)
    model = made(kind, labels, class_weight=weights).fit(X, y)
    content = json.loads(model.to_json())
    assert content["parameters"]["class_weight"] == [[*pair] for pair in weights.items()]
    again = skdp.from_json(model.to_json())
    assert again.class_weight == weights
    assert [*map(type, again.class_weight)] == [*map(type, weights)]
    assert again.to_json() == model.to_json()
    assert_same(again.set_params(random_state=0).fit(X, y), model)


@pytest.mark.parametrize(
    "wrong",
    [{"yes": 2.0}, "balanced", 2, [["yes"]], [["yes", 2.0, 1]], ["yes"], [[["yes"], 2.0]], True]
    + [[["yes", None]], [["yes", np.nan]], [["yes", 1.0], ["yes", 2.0]]],
    ids=str,
)
def test_wrong_weights_in_a_file(wrong):
    X, y = people(60)
    content = made(DPLogisticRegression, class_weight={"yes": 2.0}).fit(X, y).to_dict()
    content["parameters"]["class_weight"] = wrong
    with pytest.raises(ValueError, match="parameters: class_weight must"):
        load_model(content)
