"""Automatic choices of coordinate descent: of public things, sane at all ends, and as they say."""

from __future__ import annotations

import math
from itertools import product

import inner_descent
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_descent import LOGISTIC, SQUARED, Blocks, penalties, residual_bound, scaling_of
from inner_descent import plan_module as rules
from inner_fits import Design, Task

from skdp import Domain
from skdp.noise import Laplace
from skdp.trusted.losses import GaussianLoss

COLUMNS = {"a": (0, 1), "b": (-2, 2), "c": ["x", "y", "z"], "d": ["p", "q"]}
MIXED = Domain(COLUMNS, target=(-1, 1))
USUAL = {"epsilon": 1.0, "delta": 1e-6, "neighbors": "replace_one"}


def planned(domain=MIXED, *, n=1000.0, stage=True, n_models=1, **facts):
    """A plan as an estimator asks for it."""
    budget = {name: facts.pop(name, usual) for name, usual in USUAL.items()}
    blocks = Blocks(domain, True, all_levels=True)
    sums = inner_descent.stage_sums(blocks, True, None if n is None else int(n)) if stage else None
    task = Task(Design(domain, True), n, n_models=n_models, **budget)
    return inner_descent.plan_descent(task, blocks, sums, **facts)


# Every corner

CORNERS = list(
    product((1.0, 1e9), (1e-6, 1e6), (0.0, 1e-12, 0.1), (1, 1000), ("replace_one", "add_remove"))
)


@pytest.mark.parametrize(("n", "epsilon", "delta", "d", "neighbors"), CORNERS)
def test_plans_and_penalties_are_finite_and_positive(n, epsilon, delta, d, neighbors):
    """From one record to 10^9, from no information to no noise."""
    domain = Domain.unit_box(d, target=(-1, 1))
    law = "gaussian" if delta > 0 else "laplace"
    facts = {"epsilon": epsilon, "delta": delta, "neighbors": neighbors, "mechanism": law}
    plan = planned(domain, n=n, **facts)
    assert 1 <= plan.passes <= 50
    assert 0 < plan.noise.var() < math.inf
    assert plan.ratio > 0
    assert (plan.rows.precision > 0).all()
    assert np.isfinite(plan.rows.precision).all()
    assert plan.rows.bound is None or 0 < plan.rows.bound < math.inf
    seen = None if plan.stage is None else np.full(plan.stage.sums.dim, -1e9)
    check_choices(plan, scaling_of(plan, seen))


def check_choices(plan, scaling):
    """All that comes after the stage is finite, and positive where it divides."""
    for kind in (LOGISTIC, SQUARED):
        curvature = inner_descent.curvatures(plan.blocks, scaling, kind)
        assert ((curvature > 0) & (curvature < math.inf)).all()
        bound = residual_bound(plan, scaling)
        assert 0 < bound <= 2
        unit = np.full(plan.blocks.dim, bound)
        for name in ("auto", "l1", "l2", "elasticnet", "none"):
            found = penalties(plan, scaling, kind, unit, name, None, 0.5)
            for values in found:
                assert ((values >= 0) & (values < math.inf)).all(), name


@settings(max_examples=25, deadline=None)
@given(seen=st.lists(st.floats(-1e9, 1e9), min_size=12, max_size=12), known=st.booleans())
def test_choices_are_safe_whatever_the_stage_says(seen, known):
    n, neighbors = (1000.0, "replace_one") if known else (None, "add_remove")
    plan = planned(n=n, neighbors=neighbors)
    assert plan.stage is not None
    check_choices(plan, scaling_of(plan, np.array(seen[: plan.stage.sums.dim])))


def test_nothing_known_of_the_number_of_records_is_the_usual_information():
    plan = planned(n=None, neighbors="add_remove")
    assert plan.information == pytest.approx(rules.USUAL_INFORMATION)
    assert plan.passes == rules.PASSES


# As they say


def total(plan):
    """All that a plan pays for: squares of sizes, or with delta = 0 sizes."""
    power = 2 if plan.noise.guarantee.delta > 0 else 1
    return sum(count * size**power for size, count in plan.noise.shifts)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("share", [None, 0.05, 0.6])
def test_the_stage_has_its_share_of_the_budget(delta, neighbors, share):
    plan = planned(n=1e5, delta=delta, neighbors=neighbors, share=share)
    power, usual = (2, rules.STAGE_SHARE) if delta > 0 else (1, rules.PURE_STAGE_SHARE)
    if delta == 0:
        of_stage = plan.stage.norm.guarantee.epsilon
        whole = of_stage + plan.noise.guarantee.epsilon
        assert of_stage == pytest.approx((share or usual) * USUAL["epsilon"])
        assert whole == pytest.approx(USUAL["epsilon"])
        return
    spent = sum(c * (s / plan.ratio) ** power for s, c in plan.stage.shifts)
    assert spent / total(plan) == pytest.approx(share or usual)


def test_rows_are_paid_for_by_their_length():
    """mu of the steps is 2 sqrt(B L K) over the noise, as Theorem 6 has it."""
    plan = planned(stage=False, n_passes=7, n_models=3)
    ((loss, count),) = plan.noise.guarantee.losses
    assert isinstance(loss, GaussianLoss)
    expected = 2 * math.sqrt(plan.rows.bound * 7 * 3 / plan.noise.var())
    assert loss.mu * math.sqrt(count) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("mechanism", "facts", "by_length"),
    [
        ("auto", {}, True),
        ("gaussian", {}, True),
        ("laplace", {}, False),
        (Laplace(1.0), {}, False),
        ("auto", {"delta": 0.0}, True),
        ("laplace", {"delta": 0.0}, True),
        ("laplace", {"delta": 0.0, "clips": True}, False),
        ("laplace", {"delta": 0.0, "order": "greedy"}, False),
        ("auto", {"order": "greedy"}, False),
        ("gaussian", {"clips": True}, False),
        ("gaussian", {"order": "random"}, True),
    ],
    ids=str,
)
def test_rows_are_bounded_where_the_proof_holds_and_nowhere_else(mechanism, facts, by_length):
    plan = planned(mechanism=mechanism, **facts)
    assert (plan.rows.bound is not None) == by_length
    steps = plan.passes * (1 if plan.order == "greedy" else len(plan.blocks))
    if not by_length:
        assert (plan.rows.precision == 1).all()
        assert dict(plan.noise.shifts).get(2.0, 0) >= steps


def test_without_a_delta_rows_are_paid_for_by_the_sum_of_their_sizes():
    """The whole epsilon is L K 2 B over the scale, and rows are bounded in the same power."""
    plan = planned(stage=False, delta=0.0, n_passes=3, n_models=2)
    assert plan.rows.power == 1
    scale = math.sqrt(plan.noise.var() / 2)
    assert 3 * 2 * 2 * plan.rows.bound / scale == pytest.approx(1.0, rel=1e-9)


# Penalties


def estimated(n=2000, d=4, **facts):
    """A plan with the scaling of columns of deviation .2, of which nothing is hidden."""
    plan = planned(Domain.unit_box(d, target=(-1, 1)), n=float(n), share=0.2, **facts)
    k = d + 1
    return plan, scaling_of(plan, n * np.array([0.1] * k + [0.05] * k))


def test_an_alpha_is_that_of_scikit_learn():
    """On the encoded columns and the mean loss, none on the intercept."""
    plan, scaling = estimated()
    unit = np.ones(plan.blocks.dim)
    l1, ridge = penalties(plan, scaling, SQUARED, unit, "elasticnet", 0.3, 0.25)
    theta = np.array([5.0, 1.0, -2.0, 0.5, 0.0])
    w = theta[1:] / scaling.scale
    of_mean = 0.3 * (0.25 * np.abs(w).sum() + 0.75 * (w @ w) / 2)
    assert l1 @ np.abs(theta) + ridge @ theta**2 / 2 == pytest.approx(2000 * of_mean)
    for name, share in (("l1", 1.0), ("l2", 0.0)):
        found = penalties(plan, scaling, SQUARED, unit, name, 0.3, 0.25)
        again = penalties(plan, scaling, SQUARED, unit, "elasticnet", 0.3, share)
        np.testing.assert_array_equal(found, again)
