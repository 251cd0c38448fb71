"""Smooth curves: the penalty, its bounds and exact densities; curves on knots between bounds."""

import contextlib
import math

import inner_objective
import numpy as np
import pandas as pd
import pytest
from inner_fits import NUMBER_BITS, Design
from inner_moments import CLIPPING, ColumnSums, sums_noise
from inner_objective import ClippingBounds, Curves, DesignRows, finisher, weigher, weighted_length
from inner_objective import solve_module as clipping
from scipy.special import expit, logit

from skdp import Domain, DPHuberRegressor, DPLogisticRegression, Ledger, Spline
from skdp.linear_model.losses import LogisticLoss
from skdp.trusted import overview

SPLINES = [
    Spline(0, 1, knots=4),
    Spline(-3, 9, knots=8, degree=3),
    Spline(0, 1, knots=1, degree=0),
    Spline(0, 1, knots=[0.1, 0.11, 0.7], degree=2),
    Spline(0, 1, knots=0, degree=1),
    Spline(0, 1, knots=3, degree=2, missing="indicator"),
]
MIXED = {"a": SPLINES[0], "b": (0, 1), "c": [0, 1, 2], "d": SPLINES[1], "e": SPLINES[5]}
DESIGNS = [Design(Domain(MIXED), intercept) for intercept in (True, False)]
IDS = ["with intercept", "without intercept"]
RELATIONS = ["replace_one", "add_remove"]


# The penalty


@pytest.mark.parametrize("spline", SPLINES, ids=repr)
def test_the_penalty_is_the_identity_plus_squared_differences(spline):
    """Whole numbers, each pair of neighbours with a weight of at least 1, the first being 0."""
    penalty, rng = spline.penalty, np.random.default_rng(0)
    size = spline.n_out - (spline.missing == "indicator")
    np.testing.assert_array_equal(penalty, np.rint(penalty))
    weights = -np.append(0.0, np.diagonal(penalty, 1)[: size - 1])
    weights[0] = penalty[0, 0] - 1 - (weights[1] if size > 1 else 0)
    assert (weights >= 1).all()
    for t in rng.normal(size=(20, spline.n_out)):
        steps = np.diff(np.append(0.0, t[:size]))
        assert t @ penalty @ t == pytest.approx(t @ t + weights @ steps**2)


def dense_penalty(design, ridge):
    """The matrix M: the ridges of the groups times the matrices of their penalties."""
    found = np.zeros((design.dim, design.dim))
    for group, own in zip(design.groups, ridge, strict=True):
        penalty = np.eye(group.size) if group.roughness is None else group.roughness.penalty
        found[np.ix_(group.index, group.index)] = own * penalty
    return found


def random_rows(design, n, rng):
    """Rows of the design matrix, and the same rows as they are kept."""
    levels = np.array([rng.integers(0, m, n) for m in design.positions], dtype=np.uint16)
    grid = np.rint(rng.uniform(-1, 1, (len(design.numbers), n)) * 2**NUMBER_BITS)
    numbers = (grid / 2**NUMBER_BITS).astype(np.float32)
    dense = np.zeros((n, design.dim))
    dense[:, design.number_coordinates] = numbers.T
    if design.intercept:
        dense[:, 0] = 1.0
    for column, block in enumerate(design.blocks):
        dense[:, block] = design.row_table(column)[:, levels[column]].T
    return dense, DesignRows(numbers, levels, np.zeros(n))


@pytest.mark.parametrize("design", DESIGNS, ids=IDS)
def test_weights_hold_the_leverage_in_the_metric_of_the_penalty(design):
    """w x'M^-1 x <= L for every row, and nearly L for rows with a weight below 1."""
    rng = np.random.default_rng(0)
    dense, rows = random_rows(design, 4000, rng)
    for _ in range(5):
        ridge = 10.0 ** rng.uniform(-1, 1, len(design.groups))
        whole = np.empty(design.dim)
        for group, own in zip(design.groups, ridge, strict=True):
            whole[list(group.index)] = own
        scores = np.vecdot(np.linalg.solve(dense_penalty(design, ridge), dense.T).T, dense)
        leverage = float(np.quantile(scores, 0.6))
        weights = weigher(design, whole, leverage)(rows).weight
        assert (weights * scores <= leverage * (1 + 1e-12)).all()
        np.testing.assert_allclose(weights, np.minimum(1, leverage / scores), rtol=1e-8)


@pytest.mark.parametrize("design", DESIGNS, ids=IDS)
def test_no_weighted_row_is_longer_than_the_bound(design):
    """With the penalty's metric in the weights. A bound for 3 times the resistance is exceeded."""
    rng = np.random.default_rng(1)
    dense, _ = random_rows(design, 20_000, rng)
    squares = np.array([np.square(dense[:, list(g.index)]).sum(axis=1) for g in design.groups]).T
    reached, false = [], 0
    for _ in range(20):
        variance, ridge = 10.0 ** rng.uniform(-1, 1, (2, len(design.groups)))
        scores = np.vecdot(np.linalg.solve(dense_penalty(design, ridge), dense.T).T, dense)
        leverage = float(scores.max()) * 10 ** rng.uniform(-1, 0)
        weights = np.minimum(1.0, leverage / np.maximum(scores, 1e-300))
        found = (weights * np.sqrt(squares @ (1 / variance))).max()
        reached.append(found / float(weighted_length(design, variance, ridge, leverage)))
        false += found > float(weighted_length(design, variance, ridge / 3, leverage))
    assert max(reached) <= 1
    assert np.median(reached) > 0.6
    assert false > 0


def test_the_penalty_lowers_the_leverage_of_a_row():
    """And its own bounds hold for all positions."""
    for group in (g for design in DESIGNS for g in design.groups if g.roughness):
        is_whole = group.size != SPLINES[5].n_out  # an indicator of missing cells has no neighbour
        assert group.leverage < group.square * (0.95 if is_whole else 1 + 1e-8)
        assert 0 < group.roughness.resistance < 1
        assert np.linalg.eigvalsh(group.roughness.penalty)[0] >= 1 - 1e-12


# Curves on estimated knots


def table_of(n, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"u": rng.normal(3, 1, n), "v": rng.uniform(-5, 5, n)})
    X["c"] = rng.choice(["a", "b"], n)
    return X, np.sin(X.v.to_numpy()) + 0.5 * (X.c == "b").to_numpy() + 0.1 * rng.normal(size=n)


COLUMNS = {"u": (-50, 50), "c": ["a", "b"], "v": (-20, 20)}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_a_regressor_finds_curves_inside_wide_bounds(neighbors, delta):
    """A line explains little. The knots lie where the numbers are, within the bounds."""
    X, y = table_of(20_000)
    facts = {"n_public": 20_000} if neighbors == "add_remove" else {}
    facts |= {"domain": Domain(COLUMNS, target=(-3, 3)), "random_state": 0, "delta": delta}
    line = DPHuberRegressor(neighbors=neighbors, **facts).fit(X, y)
    model = DPHuberRegressor(neighbors=neighbors, additive="auto", **facts).fit(X, y)
    assert line.score(X, y) < 0.3 < 0.8 < model.score(X, y)
    assert line.domain_ == line.domain
    u, c, v = model.domain_._columns
    assert (u.degree, v.knots, c) == (3, u.knots, line.domain_._columns[1])
    assert -30 < u.lower < 1 < 5 < u.upper < 35
    assert model.coef_.shape == (model.domain_.n_encoded,)
    assert model.bounds_.shape == (0, 2)
    assert model.releases_[0].name == "scaling"
    spent = [own.epsilon for own in overview(model.releases_, model.public_)]
    assert None in spent or sum(spent) <= 1 + 1e-12


def test_a_classifier_of_three_labels_has_curves():
    X, y = table_of(20_000)
    labels = np.digitize(y, [-0.4, 0.7])
    facts = {"domain": Domain(COLUMNS, target=[0, 1, 2]), "random_state": 0}
    line = DPLogisticRegression(**facts).fit(X, labels).score(X, labels)
    model = DPLogisticRegression(additive=6, **facts).fit(X, labels)
    assert model.score(X, labels) > line + 0.1
    assert model.domain_._columns[0].knots == 6


def kept(numbers, levels):
    return DesignRows(
        np.ascontiguousarray(numbers, np.float32), np.asarray(levels), np.zeros(numbers.shape[1])
    )


@pytest.mark.parametrize(
    ("lower", "upper"), [(-1.0, 1.0), (0.25, 0.251), (-1e-3, 1e-3), (0.9, 1.0)]
)
def test_every_row_is_one_of_the_planned_design(lower, upper):
    """For all bounds that can be released: positions of the planned tables, missing cells last."""
    missing = {"u": "indicator", "v": "middle"}
    origin = Design(Domain(COLUMNS, target=(-3, 3), missing=missing), True)
    curves, rng = Curves(origin, 5, 3), np.random.default_rng(0)
    grid = rng.integers(-(2**20), 2**20 + 1, (2, 500)) / 2**20
    grid[:, :2] = [[-1, 1], [1, -1]]
    gone, other = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    bounds = ClippingBounds(origin.domain.number_index, np.full(2, lower), np.full(2, upper))
    finish = finisher(bounds, None, curves=curves)
    found = finish(kept(grid, np.array([gone, other], dtype=np.uint8)))
    limits = curves.design.positions
    assert found.numbers.shape == (0, 500)
    assert found.levels.shape == (3, 500)
    assert all((own < limit).all() for own, limit in zip(found.levels, limits, strict=True))
    assert (found.levels[0][gone == 1] == limits[0] - 1).all()
    assert (found.levels[0][gone == 0] < limits[0] - 1).all()
    np.testing.assert_array_equal(found.levels[1], other)
    # The knots in units: predictions round numbers to the same nodes.
    domain = curves.domain(bounds.in_units(origin.domain))
    v = domain._columns[2].positions(np.clip(20 * grid[1], 20 * lower, 20 * upper))
    assert np.mean(v == found.levels[2]) > 0.99
    assert (np.abs(v.astype(int) - found.levels[2]) <= 1).all()


def test_predictions_are_those_of_the_fitted_rows():
    """Without noise the residuals of a curve on a grid vanish, missing cells included."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"v": rng.uniform(-5, 5, 50_000)})
    y = np.abs(X.v.to_numpy())
    X.loc[::10, "v"], y[::10] = np.nan, 7.0
    domain = Domain({"v": (-5, 5)}, target=(0, 10), missing="indicator")
    model = DPHuberRegressor(epsilon=1e4, additive=9, domain=domain, scaling_share=0.0)
    model = model.set_params(random_state=0).fit(X, y)
    errors = np.abs(model.predict(X) - y)
    assert errors[::10].max() < 0.01
    assert errors.max() < 0.5
    assert np.median(errors) < 0.05


def test_the_automatic_number_of_knots_is_public():
    """It grows with the public number of records, and is the same for all data."""

    def knots(n_public, seed):
        X, y = table_of(400, seed)
        model = DPHuberRegressor(neighbors="add_remove", additive="auto", n_public=n_public)
        domain = Domain(COLUMNS, target=(-3, 3))
        own = model.set_params(domain=domain, random_state=seed).fit(X, y).domain_._columns[0]
        return own.knots if isinstance(own, Spline) else 0

    found = [{knots(n_public, seed) for seed in (0, 1)} for n_public in (None, 99, 10**4, 10**6)]
    assert [len(counts) for counts in found] == [1, 1, 1, 1]
    none, few, many, most = (min(counts) for counts in found)
    assert none == few == 0 < many < most


def test_estimated_bounds_are_at_least_so_far_apart_as_the_check_of_the_room_assumes():
    """With the least variance, and a centre at the end of the declared bounds."""
    half = clipping.CURVE_RADIUS * math.sqrt(CLIPPING.least)
    assert half / 2 >= clipping.LEAST_WIDTH


@pytest.mark.parametrize(
    ("additive", "domain", "words"),
    [
        (0, Domain(COLUMNS, target=[0, 1]), "additive must be an integer >= 1"),
        ("yes", Domain(COLUMNS, target=[0, 1]), "additive must be"),
        (True, Domain(COLUMNS, target=[0, 1]), "additive must be"),
        (500, Domain(COLUMNS, target=[0, 1]), "knots must be at most 100"),
        (4, Domain.l2_ball(3, 1.0, target=[0, 1]), "additive must be None where the domain bounds"),
    ],
)
def test_invalid_parameters_are_errors_before_anything_is_spent(additive, domain, words):
    X = pd.DataFrame({"u": [0.0, 1.0], "c": ["a", "b"], "v": [0.0, 1.0]})
    X = X if domain.names else np.zeros((2, 3))
    with pytest.raises(ValueError, match=words):
        DPLogisticRegression(additive=additive, domain=domain).fit(X, [0, 1])


# The target of the scaling stage apart


def changes_of(counted, n_numbers, rng):
    """Changes of the released sums by an added record, or half of those by a replaced one."""
    z = rng.choice([-1.0, -0.5, 0.0, 0.3, 1.0], (4000, n_numbers))
    sums = np.hstack([z, 2 * z**2 - counted])
    if counted:
        return np.hstack([np.ones((4000, 1)), sums])
    return (sums[:2000] - sums[2000:]) / 2


@pytest.mark.parametrize("n_numbers", [2, 4])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_no_change_is_outside_the_ball_with_the_target_apart(neighbors, n_numbers):
    """Some change is on its boundary; with another order of the sums some would be outside."""
    counted, rng = neighbors == "add_remove", np.random.default_rng(0)
    columns = tuple(range(n_numbers))
    sums = ColumnSums(columns, None if counted else 9, columns)
    moved = 1 if counted else 2
    noise = sums_noise(sums, moved, neighbors, 1.0, apart=0.25)
    changes = changes_of(counted, n_numbers, rng)
    gauges = noise.ball.gauge(changes)
    assert gauges.max() == pytest.approx(1.0, rel=1e-9)
    # Its noise is that of a release of its own with a quarter of epsilon.
    alone = sums_noise(ColumnSums((0,), sums.n, (0,)), moved, neighbors, 0.25)
    places = [*range(counted), counted + n_numbers - 1, counted + 2 * n_numbers - 1]
    np.testing.assert_allclose(noise.variance()[places], alone.variance(), rtol=1e-9)
    at = rng.normal(0, 3, (300, noise.dim))
    away = noise.ball.gauge(at[:, None] - moved * changes[:200]) - noise.ball.gauge(at)[:, None]
    ratio = np.abs(away).max() / noise.scale
    assert ratio <= 1 + 1e-9
    assert ratio / 0.8 > 1


# Exact density ratios, and faults of curves that were found once


DESIGN = Design(Domain({"a": Spline(0, 1, knots=3, degree=3), "b": Spline(0, 1, knots=2)}), True)
# Ridges, in units of 1 / leverage, for which a row of weight below 1 is the longest.
RIDGES = np.array([0.668, 1.006, 5.86])


def law(leverage):
    """All rows, their weights, the matrix of the penalty, and the bound on weighted rows."""
    ridge = np.empty(DESIGN.dim)
    for group, own in zip(DESIGN.groups, RIDGES / leverage, strict=True):
        ridge[list(group.index)] = own
    tables = [DESIGN.row_table(k).T for k in (0, 1)]
    a, b = (axis.ravel() for axis in np.indices([len(table) for table in tables]))
    rows = np.hstack([np.ones((len(a), 1)), tables[0][a], tables[1][b]])
    kept = DesignRows(np.empty((0, len(a)), np.float32), np.array([a, b]), np.zeros(len(a)))
    weights = weigher(DESIGN, ridge, leverage)(kept).weight
    metric = dense_penalty(DESIGN, RIDGES / leverage)
    return rows, weights, metric, float(weighted_length(DESIGN, 1.0, RIDGES / leverage, leverage))


def worst_ratio(epsilon, q, *, noise=1.0, ridge=1.0):
    """The greatest log-ratio over slopes, where a longest row is replaced by one near to it.

    The noise has the density exp(-|v| / scale). A public linear term moves V far away in the
    direction of the row. Another label and output give the second row its full slope.
    """
    loss, leverage = (
        LogisticLoss(),
        inner_objective.greatest_leverage(LogisticLoss(), q, epsilon, "replace_one"),
    )
    rows, weights, metric, bound = law(leverage)
    scale = noise * 2 * bound / (epsilon * q)
    lengths = weights * np.linalg.norm(rows, axis=1)
    assert 0.9999 * bound < lengths.max() <= bound
    first = int(np.argmax(lengths))
    assert weights[first] < 0.7
    near = lengths[first] - lengths + np.linalg.norm(rows - rows[first], axis=1)
    near[first] = np.inf
    pair = [first, int(np.argmin(near))]
    found = []
    for slope in expit(np.linspace(-6, 12, 91)):
        point = np.linalg.lstsq(rows[pair], np.array([logit(slope), -40.0]))[0]
        logs = []
        for at, target in zip(pair, (0.0, 1.0), strict=True):
            z = rows[at] @ point
            gradient = weights[at] * loss.slope(z, target) * rows[at]
            v = -(gradient - 1e7 * rows[first])
            bend = weights[at] * loss.curvature(z, target)
            score = rows[at] @ np.linalg.solve(ridge * metric, rows[at])
            logs.append(-np.linalg.norm(v) / scale + math.log1p(bend * score))
        found.append(abs(logs[0] - logs[1]))
    return max(found)


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_epsilon_is_reached_and_exceeded_with_five_percent_less_noise_or_ridge(epsilon, q):
    """To three digits, with the weights and the bound of the package."""
    assert 0.999 * epsilon < worst_ratio(epsilon, q) <= epsilon
    assert worst_ratio(epsilon, q, noise=0.95) > 1.01 * epsilon
    assert worst_ratio(epsilon, q, ridge=0.95) > 1.003 * epsilon


def test_the_output_noise_covers_the_distance_in_the_flattest_direction():
    """The tolerance over the least eigenvalue of the penalty's matrix, in steps of the lattice."""
    plan = DPLogisticRegression()._plan(DESIGN, 3000, 1).minimisers[0]
    metric = dense_penalty(DESIGN, [plan.ridge[group.index[0]] for group in DESIGN.groups])
    distance = math.sqrt(DESIGN.dim) * plan.tolerance / np.linalg.eigvalsh(metric)[0]
    steps = distance / 2.0**plan.publication.exponent + DESIGN.dim
    assert steps <= plan.publication.scale * plan.output_epsilon / 2 <= 1.1 * steps


# Faults that were found once


def test_equally_spaced_knots_have_equal_penalties():
    """Where 0.3 (knots + 1) ends in a half, rounding errors choose among two whole numbers."""
    for knots in (4, 14, 24):
        for lower, upper in ((-1.0, 1.0), (0.0, 1.0), (17.0, 90.0)):
            penalty = Spline(lower, upper, knots, 3).penalty
            assert len(np.unique(np.diagonal(penalty, 1))) == 1
            np.testing.assert_array_equal(penalty, Spline(-1.0, 1.0, knots, 3).penalty)


def test_released_bounds_never_end_in_an_error_after_the_charge():
    """Bounds that are a few thousand floats apart: either refused before the charge, or fitted."""
    lower, ledger = 1e16, Ledger(10.0)
    X, y = np.full((20_000, 1), lower + 200), np.tile([0, 1], 10_000)
    domain = Domain.box([lower], [lower + 400], target=[0, 1])
    model = DPLogisticRegression(domain=domain, additive=24, random_state=0, ledger=ledger)
    with contextlib.suppress(ValueError):
        model.fit(X, y)
    assert bool(ledger.entries) == hasattr(model, "coef_")


def test_a_second_fit_on_estimated_knots_does_not_say_that_they_are_public():
    X, y = np.random.default_rng(0).normal(3, 1, (5000, 1)), np.tile([0, 1], 2500)
    domain = Domain.box([-50], [50], target=[0, 1])
    first = DPLogisticRegression(domain=domain, additive=4, random_state=0).fit(X, y)
    assert first.releases_[0].name == "scaling"
    second = DPLogisticRegression(domain=first.domain_, random_state=0).fit(X, y)
    assert "the domain, the labels" not in second.guarantee_.assumptions[0]


def test_positions_of_many_levels_are_kept():
    origin = Design(Domain({"x": (0, 1), "k": list(range(70_000))}), True)
    levels = np.array([[0, 1, 65_536, 69_999]], np.uint32)
    rows = DesignRows(np.zeros((1, 4), np.float32), levels, np.zeros(4))
    np.testing.assert_array_equal(Curves(origin, 5, 3)(rows).levels[1], levels[0])
