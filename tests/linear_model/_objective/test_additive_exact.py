"""Exact density ratios with a smoothness penalty, and faults of curves that were found once."""

import contextlib
import math
import tracemalloc

import numpy as np
import pytest
from scipy.special import expit, logit

from skdp import Domain, DPLogisticRegression, Ledger, Spline
from skdp.linear_model._objective.perturbation import greatest_leverage, weighted_length
from skdp.linear_model._shared.design import Design
from skdp.linear_model._solver.design_rows import Coordinates, Curves, DesignRows, weigher
from skdp.linear_model.losses import Logistic

DESIGN = Design(Domain({"a": Spline(0, 1, knots=3, degree=3), "b": Spline(0, 1, knots=2)}), True)
# Ridges, in units of 1 / leverage, for which a row of weight below 1 is the longest.
RIDGES = np.array([0.668, 1.006, 5.86])


def law(leverage):
    """All rows, their weights, the matrix of the penalty, and the bound on weighted rows."""
    ridge = np.empty(DESIGN.dim)
    for group, own in zip(DESIGN.groups, RIDGES / leverage, strict=True):
        ridge[list(group.index)] = own
    tables = [Coordinates(DESIGN).row_table(k).T for k in (0, 1)]
    a, b = (axis.ravel() for axis in np.indices([len(table) for table in tables]))
    rows = np.hstack([np.ones((len(a), 1)), tables[0][a], tables[1][b]])
    kept = DesignRows(np.empty((0, len(a)), np.float32), np.array([a, b]), np.zeros(len(a)))
    weights = weigher(Coordinates(DESIGN), ridge, leverage)(kept).weight
    metric = np.diag(ridge)
    for group in DESIGN.groups[1:]:
        metric[np.ix_(group.index, group.index)] = ridge[group.index[0]] * group.roughness.penalty
    return rows, weights, metric, float(weighted_length(DESIGN, 1.0, RIDGES / leverage, leverage))


def worst_ratio(epsilon, q, *, noise=1.0, ridge=1.0):
    """The greatest log-ratio over slopes, where a longest row is replaced by one near to it.

    The noise has the density exp(-|v| / scale). A public linear term moves V far away in the
    direction of the row. Another label and output give the second row its full slope.
    """
    loss, leverage = Logistic(), greatest_leverage(Logistic(), q, epsilon, "replace_one")
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
    plan = DPLogisticRegression()._plan(DESIGN, 3000, 1).objective
    metric = np.diag(plan.ridge)
    for group in DESIGN.groups[1:]:
        own = plan.ridge[group.index[0]] * group.roughness.penalty
        metric[np.ix_(group.index, group.index)] = own
    distance = math.sqrt(DESIGN.dim) * plan.tolerance / np.linalg.eigvalsh(metric)[0]
    steps = distance / 2.0**plan.hidden.exponent + DESIGN.dim
    assert steps <= plan.hidden.scale * plan.output_epsilon / 2 <= 1.1 * steps


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
    assert first.stages_[0].name == "scaling"
    second = DPLogisticRegression(domain=first.domain_, random_state=0).fit(X, y)
    assert "the domain, the labels" not in second.guarantee_.assumptions[0]


def test_positions_of_many_levels_are_kept():
    origin = Design(Domain({"x": (0, 1), "k": list(range(70_000))}), True)
    levels = np.array([[0, 1, 65_536, 69_999]], np.uint32)
    rows = DesignRows(np.zeros((1, 4), np.float32), levels, np.zeros(4))
    np.testing.assert_array_equal(Curves(origin, 5, 3)(rows).levels[1], levels[0])


def test_the_second_derivative_with_curves_is_small_for_many_levels():
    """The memory does not grow with the square of the number of levels, as `problem` states."""
    domain = Domain({"x": Spline(0, 1), "k": list(range(4000))}, target=[0, 1])
    X = np.column_stack([np.linspace(0, 1, 50), np.arange(50)])
    tracemalloc.start()
    DPLogisticRegression(domain=domain, random_state=0).fit(X, np.tile([0, 1], 25))
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
