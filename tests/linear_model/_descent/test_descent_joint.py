"""Joint models of several classes by coordinate descent: fits, and the privacy of their steps."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import inner_descent
import numpy as np
import pandas as pd
import pytest
from descent_runs import undithered
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_descent import Blocks, Gradients, RowBound, Scaling, SoftmaxSlope, keep_scaled
from inner_descent import gradients_module as _gradients
from inner_descent import solve_module as _descent
from inner_fits import SUM_BITS, Design, in_sum_units
from scipy.special import softmax
from scipy.stats import norm

from skdp import Domain, DPCoordinateDescentClassifier
from skdp.linear_model.losses import Softmax
from skdp.mechanisms import calibrate_releases
from skdp.mechanisms.independent import Independent
from skdp.noise import Gaussian, Laplace
from skdp.noise.independent import RepeatedNoise
from skdp.rows import MemoryRows, tables
from skdp.rows.persons import Members
from skdp.trusted import NotPrivate, Public, certify


def three(n=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = np.array([[-0.6, 0.0], [0.6, 0.0], [0.0, 0.8]])[y] + 0.15 * rng.normal(size=(n, 2))
    return X.clip(-1, 1), y


BOX = Domain.unit_box(2, target=[0, 1, 2])
CASES = [
    ({}, True),
    ({"delta": 1e-6}, True),
    ({"mechanism": "laplace"}, True),
    ({"mechanism": "logistic"}, True),
    ({"mechanism": "gaussian", "delta": 1e-6}, True),
    ({"mechanism": Gaussian(), "delta": 1e-6}, True),
    ({"mechanism": Independent("gaussian"), "delta": 1e-6}, True),
    ({"clip": None}, True),
    ({"clip": None, "delta": 1e-6}, True),
    ({"order": "random"}, True),
    ({"scaling_share": 0, "neighbors": "add_remove"}, True),
    ({"mechanism": "laplace", "delta": 1e-6}, False),
    ({"mechanism": Laplace(), "delta": 1e-6}, False),
    ({"mechanism": "flipped_huber", "delta": 1e-6}, False),
    ({"order": "greedy"}, False),
    ({"clip": 0.5}, False),
    ({"clip": 0.5, "delta": 1e-6}, False),
]


@pytest.mark.parametrize(("parameters", "joint"), CASES, ids=str)
def test_models_are_joint_where_the_norm_of_slopes_bounds_the_loss(parameters, joint):
    X, y = three()
    model = DPCoordinateDescentClassifier(
        epsilon=20, domain=BOX, n_passes=4, random_state=0, **parameters
    ).fit(X, y)
    assert hasattr(model, "normalizer_") == joint
    assert model.coef_.shape == (3, 2)
    assert model.intercept_.shape == (3,)
    assert len(model.history_) == (4 if joint else 12)
    shape = (3, 2) if joint else (2,)
    assert all(np.shape(p.coef) == shape for p in model.history_)
    assert all(p.n_models == (1 if joint else 3) for p in model.history_)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(X))
    if joint:
        assert 0 < model.normalizer_ <= 1
        assert np.abs(model.coef_.sum(axis=0)).max() < 1e-9
        assert model.score(X, y) > 0.8
        wanted = Softmax(3, model.normalizer_).log_probabilities(model.decision_function(X))
        np.testing.assert_array_equal(model.predict_log_proba(X), wanted)


def test_few_steps_of_a_joint_model_have_gaussian_noise_and_other_noise_is_refused():
    """With a delta one record changes its gradients by a length (Theorem 8 (c))."""
    facts = {"delta": 1e-6, "clip": None, "scaling_share": 0, "domain": BOX}
    for passes, mechanism in ((1, "auto"), (2, "auto"), (1, "gaussian")):
        model = DPCoordinateDescentClassifier(n_passes=passes, mechanism=mechanism, **facts)
        plan = model._plan(Design(BOX, True), 600, 3)
        assert type(plan.noise.law) is Gaussian
        certify(plan.releases, Public(1.0, 1e-6))
        budget = {"neighbors": "replace_one", "epsilon": 1.0, "delta": 1e-6}
        laplace = calibrate_releases("laplace", plan.noise.shifts, **budget)
        with pytest.raises(NotPrivate, match="length of a change"):
            _ = replace(plan, noise=laplace).releases


def test_the_normalizer_grows_with_the_information():
    for delta in (0.0, 1e-6):
        found = [inner_descent.joint_slope(5, 2.0**k, delta).normalizer for k in range(-10, 30)]
        assert (np.diff(found) >= 0).all()
        assert found[-1] == 1
        assert 0.1 < found[0] < 0.5


def test_a_start_is_where_a_joint_descent_begins(monkeypatch):
    """Coefficients of three classes in the user's units; without noise or steps it stays there."""
    monkeypatch.setattr(RepeatedNoise, "publication_for", undithered)
    domain = Domain({"a": (0, 10), "b": list("uvw")}, target=[0, 1, 2])
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(0, 10, 300), "b": rng.choice(list("uvw"), 300)})
    y = rng.integers(0, 3, 300)
    coef, intercept = rng.normal(size=(3, 3)), rng.normal(size=3)
    still = {"start": (coef, intercept), "step_size": 1e-30, "penalty": None, "n_passes": 2}
    for share in (0, 0.3):
        model = DPCoordinateDescentClassifier(domain=domain, scaling_share=share, **still)
        model.fit(X, y)
        np.testing.assert_allclose(model.coef_, coef, rtol=1e-9)
        np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-8)
    with pytest.raises(ValueError, match="start"):
        model.set_params(start=(coef[:2], intercept[:2])).fit(X, y)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("most_kept", [0, 2**30], ids=["streamed", "kept"])
def test_batches_give_what_the_table_gives(delta, most_kept, monkeypatch):
    """Also where predictors are lost between the blocks, and computed again from all moves."""
    monkeypatch.setattr(tables, "MOST_KEPT", most_kept)
    X, y = three(3000)
    facts = {"domain": BOX, "delta": delta, "random_state": 0, "n_passes": 3}
    whole = DPCoordinateDescentClassifier(**facts).fit(X, y)
    batches = [(X[i:j], y[i:j]) for i, j in itertools.pairwise([0, 1, 700, 701, 3000])]
    found = DPCoordinateDescentClassifier(**facts).fit(lambda: iter(batches))
    np.testing.assert_array_equal(whole.coef_, found.coef_)
    np.testing.assert_array_equal(whole.intercept_, found.intercept_)


# The privacy of the steps


UNIT = 2**SUM_BITS
COLUMNS = {"a": (0.0, 1.0), "b": (-2.0, 2.0), "c": ["x", "y", "z"], "d": ["p", "q"]}
CLASSES = 4
DOMAIN = Domain(COLUMNS, target=list(range(CLASSES)))
CELLS = st.tuples(st.floats(-1, 2), st.floats(-3, 3), st.sampled_from("xyz"), st.sampled_from("pq"))
RECORD = st.tuples(CELLS, st.integers(0, CLASSES - 1))
NORMALIZERS = st.sampled_from([1e-6, 0.2, 0.5, 0.9, 1.0])


# Slopes


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("a", [0.01, 0.4, 1.0])
def test_slopes_are_those_of_the_loss(a, power):
    """a p - e_y, and with lengths bounded less their mean over the classes: as `Softmax` has it."""
    rng, k = np.random.default_rng(0), 5
    z = np.hstack([rng.normal(0, s, (k, 400)) for s in (0.1, 3, 30, 1e6)])
    y = rng.integers(0, k, z.shape[1]).astype(np.uint8)
    found = SoftmaxSlope(k, a, power)(z, y)
    wanted = a * softmax(z, axis=0) - (np.arange(k)[:, None] == y)
    wanted += (power == 2) * (1 - a) / k
    assert np.abs(found - wanted).max() < 2.0**-20
    assert np.abs(found).max() <= 1
    if power == 2:
        np.testing.assert_allclose(found, Softmax(k, a).slopes(z, y), atol=2.0**-20)
        assert np.abs(found.sum(axis=0)).max() < 1e-12


@settings(max_examples=200, deadline=None)
@given(
    z=st.lists(st.one_of(st.floats(-40, 40), st.floats(-1e12, 1e12)), min_size=3, max_size=9),
    y=st.integers(0, 2),
    a=st.floats(1e-6, 1.0),
    power=st.sampled_from([1, 2]),
)
def test_the_norm_of_slopes_is_bounded_with_their_rounding_errors(z, y, a, power):
    """In fractions. The exact bound is that of a class that is certain and wrong."""
    slope = SoftmaxSlope(len(z), a, power)
    entries = [Fraction(s) for s in slope(np.array(z)[:, None], np.array([y])).ravel().tolist()]
    assert max(map(abs, entries)) <= 1
    assert sum(abs(s) ** power for s in entries) <= Fraction(slope.size) ** power


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("k", "a"), [(3, 0.2), (10, 0.5), (4, 1.0)])
def test_the_bound_is_attained(k, a, power):
    z = np.zeros((k, 1))
    z[1] = 1e6
    slope = SoftmaxSlope(k, a, power)
    size = np.sum(np.abs(slope(z, np.array([0]))) ** power) ** (1 / power)
    assert slope.size * (1 - 1e-5) < size <= slope.size


# How far one record moves a pass


def passes(records, facts, moves):
    """The sums of one pass, whose moves are given, in units of 2^-70: (dim, classes)."""
    scaling, slope, weights = facts
    blocks = Blocks(DOMAIN, True, all_levels=True)
    X = pd.DataFrame([cells for cells, _ in records], columns=list(COLUMNS))
    y = np.array([label for _, label in records], dtype=np.uint8)
    kept = keep_scaled(MemoryRows(DOMAIN, X, y), blocks, scaling)
    gradients = Gradients(kept, blocks, None, slope, None, weights, (CLASSES,))
    found = []
    for block, place in enumerate(blocks.places):
        found.append(gradients.of_block(block))
        gradients.move(block, moves[place])
    return [in_sum_units(own.ravel()).reshape(own.shape) for own in found]


def length(found, precision, power):
    """sum_g a_g^power sum_k |v_gk|^power, in fractions."""
    sizes = [sum(abs(Fraction(int(v), UNIT)) ** power for v in own.ravel()) for own in found]
    return sum(Fraction(a) ** power * s for a, s in zip(precision, sizes, strict=True))


@settings(max_examples=80, deadline=None)
@given(
    records=st.lists(RECORD, min_size=1, max_size=3),
    new=RECORD,
    centre=st.tuples(*[st.floats(-1, 1)] * 3),
    scale=st.tuples(*[st.floats(0.03, 3)] * 3),
    precision=st.lists(st.floats(0.1, 30), min_size=5, max_size=5),
    bound=st.one_of(st.none(), st.floats(0.01, 100)),
    power=st.sampled_from([1, 2]),
    a=NORMALIZERS,
    seed=st.integers(0, 10**6),
    size=st.sampled_from([0.1, 3.0, 1e6]),
    weighted=st.booleans(),
)
def test_one_record_moves_a_pass_by_no_more_than_its_shift(
    records, new, centre, scale, precision, bound, power, a, seed, size, weighted
):
    """To the last bit, over all classes: D B^(1/power) times the norm of the slopes.

    Without a bound on rows each block moves by no more than D times this norm.
    """
    rng, rows = np.random.default_rng(seed), RowBound(np.array(precision), bound, power=power)
    parts = np.array(centre), np.array(scale), np.ones(7), 0.0, 1.0, True, rows
    slope = SoftmaxSlope(CLASSES, a, power)
    facts = Scaling(10.0, *parts), slope, np.array([0.3, 1.0, 0.05, 1.0]) if weighted else None
    moves = size * rng.uniform(-1, 1, (7, CLASSES))
    whole = passes(records, facts, moves)
    pairs = [
        (passes([new, *records[1:]], facts, moves), 2),
        (passes([*records, new], facts, moves), 1),
    ]
    for other, moved in pairs:
        change = [after - before for after, before in zip(other, whole, strict=True)]
        most = (Fraction(moved) * Fraction(slope.size)) ** power
        if bound is not None:
            assert length(change, precision, power) <= most * Fraction(bound)
        else:
            assert all(length([own], [1.0], power) <= most for own in change)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("a", [0.3, 1.0])
def test_the_shift_of_a_pass_is_attained(a, power):
    """By an added record of full length for which a wrong class is certain throughout."""
    rows = RowBound(np.array([1.5, 2.0, 2.0, 1.0, 1.0]), 3.0, power=power)
    scaling = Scaling(10.0, np.zeros(3), np.ones(3), np.ones(7), 0.0, 1.0, True, rows)
    slope, moves = SoftmaxSlope(CLASSES, a, power), np.zeros((7, CLASSES))
    moves[0, 2] = 1e5  # then slopes of later blocks have the greatest norm
    some = ((0.2, 0.3, "x", "p"), 1)
    record = ((1.0, 2.0, "y", "q"), 0)
    facts = scaling, slope, None
    whole, more = passes([some], facts, moves), passes([some, record], facts, moves)
    change = [after - before for after, before in zip(more, whole, strict=True)]
    # In the first block, before the move, all classes are equally probable.
    sizes = np.array([float(length([own], [1.0], power)) for own in change])
    weight = min(1.0, (3.0 / np.sum(rows.precision**power)) ** (1 / power))
    np.testing.assert_allclose(sizes[1:], (weight * slope.size) ** power, rtol=1e-4)


@pytest.mark.parametrize("nearest", [False, True])
def test_rounding_to_the_nearest_point_would_exceed_the_bound(nearest, monkeypatch):
    """The twin rounds the products of slopes and weights as those of one class are rounded."""
    if nearest:
        monkeypatch.setattr(_gradients, "_truncate", _gradients.on_grid)
    rows = RowBound(np.ones(5), power=1)
    scale = np.array([2.0**-9, 2.0**-9, 1.0])
    scaling = Scaling(10.0, np.zeros(3), scale, np.ones(7), 0.0, 1.0, True, rows)
    slope, moves = SoftmaxSlope(CLASSES, 0.7, 1), np.zeros((7, CLASSES))
    moves[0, 2] = 1e5
    some, record = ((0.5, 0.0, "x", "p"), 1), ((1.0, 2.0, "y", "q"), 0)
    facts = scaling, slope, None
    whole, more = passes([some], facts, moves), passes([some, record], facts, moves)
    sizes = [length([after - before], [1.0], 1) for after, before in zip(more, whole, strict=True)]
    # A number of 512 has a weight of 2^-9, and 0.7 * 2^-9 lies between two points of the grid.
    assert (max(sizes) <= Fraction(slope.size)) != nearest
    assert max(sizes) > 1.699


def test_rows_of_persons_move_sums_as_a_row_does():
    """Convex combinations of the contributions of rows, for the classes too."""
    blocks, rng = Blocks(Domain.unit_box(2), True), np.random.default_rng(1)
    rows = RowBound(np.array([1.5, 2.0, 2.0]), 4.0)
    scaling = Scaling(10.0, np.zeros(2), np.ones(2), np.ones(3), 0.0, 1.0, True, rows)
    slope, moves = SoftmaxSlope(3, 0.6, 2), rng.normal(size=(3, 3))
    shares = np.array([2**29, 2**28, 2**28])
    X, y = rng.uniform(-1, 1, (3, 2)), np.array([0, 2, 1], dtype=np.uint8)

    def sums(X, y, shares=None):
        members = None if shares is None else Members(np.zeros(len(y), np.intp), shares)
        source = MemoryRows(blocks.domain, X, y, members=members)
        gradients = Gradients(
            keep_scaled(source, blocks, scaling), blocks, None, slope, classes=(3,)
        )
        found = []
        for block in range(3):
            found.append(in_sum_units(gradients.of_block(block).ravel()))
            gradients.move(block, moves[block : block + 1])
        return np.array(found)

    each = [sums(X[i : i + 1], y[i : i + 1]) for i in range(3)]
    parts = [own * int(share) for own, share in zip(each, shares, strict=True)]
    assert (sums(X, y, shares) * 2**30 == sum(parts)).all()


# The whole guarantee


def one_column(x, y, **parameters):
    """A descent of three classes on one number without an intercept."""
    made = {"fit_intercept": False, "scaling_share": 0, "penalty": None, "average": False}
    made |= {"classes": [0, 1, 2], "domain": Domain.unit_box(1), "random_state": 0}
    model = DPCoordinateDescentClassifier(**made | parameters)
    return model.fit(np.reshape(x, (-1, 1)), y)


def released(monkeypatch, x, y, path, **parameters):
    """The exact sums before the noise, where what is released is given, (passes, classes)."""
    exact, at = [], iter(path)

    def release(place, sums):
        exact.append([int(v) / UNIT for v in in_sum_units(sums.ravel())])
        return np.reshape(next(at), sums.shape)

    with monkeypatch.context() as patch:
        patch.setattr(_descent, "_passes", lambda *_: itertools.repeat(release))
        model = one_column(x, y, **parameters)
    return np.array(exact), model


# Predictors of a record for which another class than its own is certain.
WRONG = np.array([[1e6], [0.0], [0.0]])
NEIGHBOURS = [
    ([0.9, -1.0, 1.0], [0, 1, 2], [0.9, -1.0, -1.0], [0, 1, 2]),
    ([0.9, -1.0, 1.0], [0, 1, 2], [0.9, -1.0, 1.0], [0, 1, 0]),
    ([0.1, 0.3, 1.0], [1, 1, 2], [0.1, 0.3, -1.0], [1, 1, 0]),
]


@pytest.mark.parametrize("pair", NEIGHBOURS, ids=["row", "label", "both"])
def test_ratios_of_densities_of_whole_paths(monkeypatch, pair):
    """Laplace noise: log-densities of all that is released differ by at most epsilon, always.

    Paths are drawn widely, so that slopes have all values up to their corners.
    """
    facts = {"epsilon": 1.5, "n_passes": 4, "mechanism": "laplace"}
    rng, most = np.random.default_rng(0), 0.0
    x, y, other, labels = pair
    sides = [rng.choice([-1.0, 1.0], (4, 3)) for _ in range(30)]
    sides += [np.tile(side, (4, 1)) for side in itertools.product([-1.0, 1.0], repeat=3)]
    for side, size in itertools.product(sides, [10.0, 1e4]):
        path = size * side * np.abs(rng.normal(size=(4, 3)))
        here, model = released(monkeypatch, x, y, path, **facts)
        there, _ = released(monkeypatch, other, labels, path, **facts)
        (precision,) = model._plan(model._design, 3, 3).rows.precision
        law = model.noise_.law
        ratio = law.logpdf((path - here) * precision) - law.logpdf((path - there) * precision)
        most = max(most, abs(np.sum(ratio)))
    assert most <= 1.5
    assert most > 0.5 * 1.5


@pytest.mark.parametrize("scale", [1.0, 0.95])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_noise_is_what_the_worst_record_needs(delta, scale):
    """In closed form for an added record that moves each pass by its greatest shift.

    Noise of 95 % is too little, and is caught.
    """
    facts = {"epsilon": 1.0, "delta": delta, "neighbors": "add_remove", "n_public": 100}
    model = one_column([0.5, -0.5, 1.0], [0, 1, 2], n_passes=3, **facts)
    rows = model._plan(model._design, None, 3).rows
    slopes = SoftmaxSlope(3, model.normalizer_, rows.power)(WRONG, np.array([1]))
    # The number 1 has the weight that makes its length the bound of the rows.
    change = np.abs(slopes) * rows.bound ** (1 / rows.power)
    noise = scale * model.noise_.law.scale
    if delta == 0:
        loss = 3 * change.sum() / noise
        assert (loss <= 1.0) == (scale == 1.0)
        assert loss > 0.99
        return
    mu = math.sqrt(3) * np.linalg.norm(change) / noise
    found = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert (found <= delta) == (scale == 1.0)
    assert found > 0.99 * delta
