"""Noise is calibrated for weighted rows: brute force over rows, and exact densities."""

import functools
import math

import inner_objective
import numpy as np
import pytest
from inner_fits import Design
from inner_objective import JointProfile, greatest_leverage, weighted_length, weighted_radius
from scipy.special import expit, logit

from skdp import Domain, DPHuberRegressor, DPLogisticRegression
from skdp.geometry import LpBall
from skdp.linear_model.losses import LogisticLoss, PseudoHuber
from skdp.trusted import Public
from skdp.trusted.losses import gaussian_log_delta

MIXED = {"a": (0, 1), "b": list(range(7)), "c": (0, 9), "d": [0, 1]}
DESIGNS = {
    f"{name} {'with' if intercept else 'without'} intercept": Design(domain, intercept)
    for name, domain in {
        "numbers": Domain.unit_box(4),
        "mixed": Domain(MIXED),
        "levels": Domain({f"c{k}": list(range(2 + k)) for k in range(3)}),
        "ball": Domain.l2_ball(3, 3.0),
    }.items()
    for intercept in (True, False)
}


def rows_of(design, rng, n=20_000):
    """Rows of a design: corners, and rows that differ from a corner in a part of the numbers."""
    found = np.zeros((n, design.dim))
    for group in design.groups:
        at = list(group.index)
        if group.kind == "levels":
            levels = np.vstack([group.level_rows(0, group.n_levels), np.zeros((1, group.size))])
            if design.intercept:
                levels[-1] = -1 / (group.size + 1)
            found[:, at] = levels[rng.integers(0, group.size + 1, n)]
        elif group.kind == "intercept":
            found[:, at] = 1.0
        else:
            sizes = rng.beta(0.3, 0.3, (n, group.size)) ** rng.choice([0.2, 1, 3], (n, 1))
            if group.kind == "vector":
                sizes *= math.sqrt(group.square) * rng.beta(0.5, 0.5, (n, 1)) / _lengths(sizes)
            found[:, at] = sizes
    return found


def _lengths(rows):
    return np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.mark.parametrize("name", DESIGNS)
def test_no_weighted_row_is_longer_than_the_bound(name):
    """And for numbers some row nearly attains it. Ridges and variances differ between groups."""
    design, rng = DESIGNS[name], np.random.default_rng(0)
    rows = rows_of(design, rng)
    reached = []
    for _ in range(20):
        variance, ridge = 10.0 ** rng.uniform(-1.5, 1.5, (2, len(design.groups)))
        squares = np.array([np.square(rows[:, list(g.index)]).sum(axis=1) for g in design.groups])
        scores = squares.T @ (1 / ridge)
        leverage = float(scores.max()) * 10 ** rng.uniform(-2, 0.2)
        weights = np.minimum(1.0, leverage / np.maximum(scores, 1e-300))
        found = (weights * np.sqrt(squares.T @ (1 / variance))).max()
        bound = float(weighted_length(design, variance, ridge, leverage))
        assert found <= bound
        reached.append(found / bound)
    assert np.median(reached) > 0.85
    if name.startswith(("numbers", "ball")):
        assert min(reached) > 0.95


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("name", DESIGNS)
def test_no_weighted_row_has_a_gauge_above_the_radius(name, p):
    design, rng = DESIGNS[name], np.random.default_rng(2)
    rows, ball = rows_of(design, rng), LpBall(design.dim, p, 0.7)
    gauges, ones = ball.gauge(rows), np.ones(len(design.groups))
    for share in (0.1, 0.4, 2.0):
        scores = np.square(rows).sum(axis=1) / 3
        leverage = share * float(scores.max())
        weights = np.minimum(1.0, leverage / np.maximum(scores, 1e-300))
        radius = float(weighted_radius(design, ball, 3 * ones, np.array(leverage)))
        assert (weights * gauges).max() <= radius <= design.radius_in(ball)
    if p == 2:
        assert float(weighted_radius(design, ball, ones, np.array(0.5))) < design.radius_in(ball)


# Exact densities. Rows are (1, x1, ..., xd), and the intercept takes most of the leverage, so that
# the longest weighted rows have weights near .6. A public linear term b may be added to the
# objective: it moves V to where a bound is reached.

RIDGES = np.array([1.02, 6.0])


@functools.cache
def worst_row(dim, leverage):
    """The squared length of the numbers of a worst row, its weight and its weighted length.

    Ridges are ``RIDGES / leverage``, and all variances are 1.
    """
    square = np.linspace(0, dim, 100_001)
    weight = np.minimum(1.0, 1 / (1 / RIDGES[0] + square / RIDGES[1]))
    length = weight * np.sqrt(1 + square)
    at = np.argmax(length)
    bound = weighted_length(
        Design(Domain.unit_box(dim), True), [1.0, 1.0], RIDGES / leverage, leverage
    )
    assert length[at] <= bound <= length[at] * (1 + 1e-6)
    assert bound < 0.9 * math.sqrt(1 + dim)
    assert 0.5 < weight[at] < 0.8
    return square[at], weight[at], length[at]


def log_ratios(dim, slopes, *, leverage, scale):
    """The log-ratios of densities at outputs a, where one worst row is replaced by another one.

    The rows are nearly parallel. The target of the first is 0 and x'a gives its slope; that of the
    second is 1, and its slope is full. V is far away in the direction of the rows.
    """
    loss, ridge = LogisticLoss(), np.append(RIDGES[0], np.full(dim, RIDGES[1])) / leverage
    square, weight, _ = worst_row(dim, leverage)
    rows = np.full((2, dim + 1), math.sqrt(square / dim))
    rows[:, 0] = 1.0
    turned = math.pi / 4 + 0.01
    rows[1, 1:3] = math.sqrt(2 * square / dim) * np.array([math.cos(turned), math.sin(turned)])
    assert rows.max() <= 1
    z = np.stack([logit(slopes), np.full(len(slopes), -40.0)])
    a = np.linalg.lstsq(rows, z, rcond=None)[0].T
    b = -ridge * a - 1e7 * rows[0]
    logs = []
    for x, target in zip(rows, (0.0, 1.0), strict=True):
        z = a @ x[:, None]
        v = -(weight * loss.slope(z, np.full_like(z, target)) * x + ridge * a + b)
        bend = weight * loss.curvature(z, np.full_like(z, target))[..., None] * np.outer(x, x)
        determinant = np.linalg.slogdet(bend + np.diag(ridge))[1]
        logs.append(determinant - np.linalg.norm(v, axis=1) / scale)
    return np.abs(logs[0] - logs[1])


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("dim", [4, 6])
def test_the_bound_for_weighted_rows_is_exact_with_noise_on_a_euclidean_ball(dim, epsilon, q):
    """Epsilon is reached to three digits, and exceeded with 5 % less noise."""
    leverage = greatest_leverage(LogisticLoss(), q, epsilon, "replace_one")
    length = worst_row(dim, leverage)[2]
    slopes = expit(np.linspace(-6, 12, 181))
    for noise, low, high in ((1.0, 1 - 1e-3, 1.0), (0.95, 1.01, 1.06)):
        law = {"leverage": leverage, "scale": noise * 2 * length / (epsilon * q)}
        found = log_ratios(dim, slopes, **law).max()
        assert low * epsilon <= found <= high * epsilon


def gaussian_deltas(loss, epsilon, dim, *, shift, leverage, far, noise=1.0):
    """The exact deltas of one worst row against none, and none against it, by quadrature.

    By symmetry all coordinates of the numbers but that in the direction of the row cancel. A public
    linear term moves the output by ``far``, in standard deviations; at 1000 the slope is full.
    """
    ridge = RIDGES / leverage
    square, weight, length = worst_row(dim, leverage)
    x, deviation = np.array([1.0, math.sqrt(square)]), loss.slope_bound * length / shift * noise
    grid = deviation * np.linspace(-8, 8, 601)
    v = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    # Outputs of the data set without the row, one for each V.
    a = far * deviation * leverage * x - v / ridge
    z = a @ x
    moved = v - weight * loss.slope(z, 0 * z)[:, None] * x
    bend = 1 + weight * loss.curvature(z, 0 * z) * (x @ (x / ridge))
    half = np.square([v, moved]).sum(axis=2) / deviation**2 / 2
    ratio, mass = np.log(bend) + half[0] - half[1], np.exp(-half[0])
    excesses = np.exp(ratio) - math.exp(epsilon), 1 - np.exp(epsilon + ratio)
    return [float(mass @ np.maximum(excess, 0.0) / mass.sum()) for excess in excesses]


FAR = [-1000.0, -2.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0, 1000.0]


@pytest.mark.parametrize("loss", [LogisticLoss(), PseudoHuber(0.3)], ids=repr)
@pytest.mark.parametrize(("epsilon", "delta", "q"), [(0.5, 1e-2, 0.5), (1.0, 1e-5, 0.8)])
def test_the_profile_for_weighted_rows_is_reached_with_gaussian_noise(loss, epsilon, delta, q):
    """By a removed record with a full slope, to three digits. 5 % less noise is caught.

    Between the ends the slope and, for the second loss, its sign change with V.
    """
    leverage = inner_objective.leverage_apart(loss, q, epsilon)
    shift = inner_objective.greatest_shift(loss, leverage, epsilon, delta, "add_remove")
    law = {"shift": shift, "leverage": leverage}
    profile = JointProfile(loss, shift, leverage)
    bounds = np.exp([profile._removed(np.array(epsilon)), profile._added(np.array(epsilon))])
    for far in FAR:
        found = gaussian_deltas(loss, epsilon, 4, far=far, **law)
        assert np.all(found <= bounds * (1 + 1e-4))
    full = math.exp(gaussian_log_delta(shift, epsilon))
    assert FAR[-1] == 1000
    assert found[0] == pytest.approx(full, rel=1e-3)
    if isinstance(loss, LogisticLoss) and q > 0.5:  # otherwise a smaller slope is worst
        assert full == pytest.approx(delta, rel=1e-3)
        assert gaussian_deltas(loss, epsilon, 4, far=1000, noise=0.95, **law)[0] > 1.05 * delta


def test_both_sides_of_an_added_record_count_if_its_slope_changes_its_sign():
    """An output in the middle reaches more than the delta of one side, and at most twice it."""
    loss, shift, epsilon = PseudoHuber(0.3), 0.4, 1.0
    law = {"shift": shift, "leverage": 30.0}
    one = math.exp(gaussian_log_delta(shift, epsilon))
    assert 1.9 * one < gaussian_deltas(loss, epsilon, 4, far=0.0, **law)[1] <= 2 * one
    # The profile covers both orders, also where a removed record needs less.
    for leverage in (0.01, 30.0):
        assert math.exp(JointProfile(loss, shift, leverage)(epsilon)) >= 2 * one
    added = gaussian_deltas(loss, epsilon, 4, far=1000, **law)[1]
    assert added == pytest.approx(one, rel=1e-3)


# Plans of estimators


SETTINGS = {
    "elliptic": {"mechanism": "elliptic", "delta": 1e-6},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-6},
    "l2": {"mechanism": "l2"},
    "l1": {"mechanism": "l1"},
    "linf": {"mechanism": "linf"},
    "auto": {"mechanism": "auto"},
}


@pytest.mark.parametrize("regularization", ["auto", 3.0])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", [DPLogisticRegression, DPHuberRegressor])
@pytest.mark.parametrize("unit", ["row", "person"])
def test_the_noise_of_a_plan_covers_all_weighted_rows(kind, setting, regularization, unit):
    """By brute force, from what the plan has: ridges, leverage, noise and losses."""
    target = [0, 1] if kind is DPLogisticRegression else (-1.0, 1.0)
    rng = np.random.default_rng(3)
    for declared in ({f"x{j}": (0, 1) for j in range(4)}, MIXED):
        design = Design(Domain(declared, target=target), True)
        model = kind(**SETTINGS[setting], regularization=regularization, scaling_share=0)
        (plan,) = model._plan(design, 3000, 1, unit).releases
        rows = rows_of(design, rng)
        scores = np.square(rows) @ (1 / plan.ridge)
        weights = np.minimum(1.0, plan.leverage / scores)
        gradients = plan.loss.slope_bound * weights[:, None] * rows
        if "delta" in SETTINGS[setting]:
            lengths = np.sqrt(np.square(gradients) @ (1 / plan.noise.variance()))
            public = Public(1.0, 1e-6, unit=unit)
            ((loss, _),) = plan.spent(public).losses
            allowed = loss.profile.shift
        else:
            lengths = 2 * plan.noise.ball.gauge(gradients) / plan.noise.scale
            allowed = plan.q * (plan.epsilon - plan.output_epsilon)
        # Brute force finds no corner of many levels that fills the leverage exactly.
        assert (0.6 if declared is MIXED else 0.9) * allowed < lengths.max() <= allowed
        if regularization != "auto":
            assert plan.weigh() is None
