"""Coordinate descent against its proof: what is released, with which noise, and what it tells.

The draws of a fit are written down, so that a few lines of arithmetic can follow it; for these
lines the least delta of whole runs is an integral.
"""

import math
from typing import NamedTuple

import numpy as np
import pytest
from descent_runs import fitted, followed, weights
from scipy.special import expit, ndtr, roots_legendre

from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.noise import Gaussian, Laplace
from skdp.privacy import Composition
from skdp.privacy.conversions import gaussian_mu
from skdp.privacy.shift import ShiftLoss

# What is released is what the proof says

TABLE = np.array([[1.0, 0.5, -0.25], [0.25, -1.0, 0.5], [0.0, 1.0, 1.0], [-0.5, 0.75, -1.0]])
CASES = [
    (DPCoordinateDescentClassifier, {}),
    (DPCoordinateDescentClassifier, {"clip": 0.3}),
    (DPCoordinateDescentRegressor, {"clip": None}),
    (DPCoordinateDescentRegressor, {"clip": 0.3}),
]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(("kind", "parameters"), CASES, ids=str)
def test_a_fit_is_the_descent_of_the_proof(kind, parameters, mechanism):
    """Every sum once, with noise of its own: the path follows from the draws alone."""
    y = [0, 1, 1, 0] if kind is DPCoordinateDescentClassifier else [-1.0, 0.25, 1.0, 0.5]
    facts = {"n_passes": 6, "step_size": 0.1, "epsilon": 30.0, "mechanism": mechanism}
    run = fitted(kind, TABLE, y, **facts, **parameters)
    assert len(run.draws) == 18
    expected = followed(kind, TABLE, y, run, size=0.1, **parameters)
    # Slopes and weights are on a grid of 2^-20, and an exponential is right to 2^-22.
    np.testing.assert_allclose(run.path, expected, atol=1e-5)
    assert np.abs(np.diff(expected, axis=0)).max() > 1e-2
    np.testing.assert_array_equal(np.ravel(run.model.coef_), run.path[-1])


@pytest.mark.parametrize("clip", [None, "auto", 0.2])
def test_the_noise_is_calibrated_for_all_sums_of_all_models(clip):
    """Three labels, five passes, three blocks: 45 sums that one record moves by 2 in their unit."""
    facts = {"clip": clip, "n_passes": 5, "mechanism": "laplace"}
    run = fitted(DPCoordinateDescentClassifier, TABLE, [0, 1, 2, 1], classes=[0, 1, 2], **facts)
    found = Composition([(ShiftLoss(run.plan.noise.law, 2.0), 45)]).delta_at(1.0)
    assert 0.98e-3 <= found.upper <= 1.000001e-3
    assert len(run.draws) == 45
    assert (run.precision == 1).all()


@pytest.mark.parametrize(("neighbors", "far"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_gaussian_noise_is_calibrated_for_rows_of_bounded_length(neighbors, far):
    """Passes times the square of what one row, or two, can move."""
    facts = {"neighbors": neighbors, "n_passes": 5, "fit_intercept": True}
    run = fitted(DPCoordinateDescentClassifier, TABLE, [0, 1, 0, 1], **facts)
    mu = far * math.sqrt(5 * run.plan.rows.bound) / run.plan.noise.law.scale
    assert mu == pytest.approx(gaussian_mu(1.0, 1e-3), rel=1e-9)


def test_the_average_of_many_passes_has_the_noise_of_their_mean():
    """Theorem 7 in the plain account: the minimiser, less B^-1 times the mean noise, and ends."""
    rng, n = np.random.default_rng(0), 40
    X = rng.uniform(-1, 1, (n, 3)) * [1.0, 0.5, 0.2] + [0.0, 0.3, 0.0]
    y = X @ [0.3, -0.2, 0.4] + rng.uniform(-0.2, 0.2, n)
    noise = rng.normal(scale=0.1, size=(30, 3))
    run = fitted(DPCoordinateDescentRegressor, X, y, n_passes=1, mechanism="laplace")
    found = followed(DPCoordinateDescentRegressor, X, y, run, draws=noise)
    B, best = X.T @ X, np.linalg.lstsq(X, y)[0]
    ends = (n * np.eye(3) - np.triu(B)) @ -found[-1] / len(noise)
    # A sum of 1 stands for the bound of 2 on residuals.
    expected = best + np.linalg.solve(B, ends - 2 * noise.mean(axis=0))
    np.testing.assert_allclose(found.mean(axis=0), expected, atol=1e-12)


# What whole runs tell: exact integrals against the guarantee


def gaussian_delta(scale, shift, epsilon):
    mu = np.maximum(np.abs(shift) / scale, 1e-12)
    with np.errstate(over="ignore"):
        factor = np.exp(np.minimum(epsilon, 700.0))
    return ndtr(mu / 2 - epsilon / mu) - factor * ndtr(-mu / 2 - epsilon / mu)


def laplace_delta(scale, shift, epsilon):
    v = np.abs(shift) / scale
    between = -np.expm1((np.clip(epsilon, -v, v) - v) / 2)
    return np.where(epsilon < -v, -np.expm1(np.minimum(epsilon, 0.0)), between)


EXACT = {Gaussian: gaussian_delta, Laplace: laplace_delta}


class Toy(NamedTuple):
    """One number and one coefficient: its noise, and what is public of a step."""

    law: object
    rows: object
    passes: int
    step: float
    bound: float | None

    def sums(self, records, theta):
        """The sum over records (x, y), in units of the bound; theta an array."""
        total = np.zeros_like(theta)
        for x, y in records:
            slope = np.clip((theta * x - y) / self.bound, -1, 1) if self.bound else None
            slope = expit(theta * x) - y if slope is None else slope
            total += weights(np.array([[x]]), self.rows)[0] * x * slope
        return total


def run_delta(toy, records, others, epsilon):
    """Least delta of the released path of one coefficient, between two sets of records.

    The last step has a closed form; the integrals over the earlier ones are sums of Gauss's
    over pieces that end where one of the densities has its peak.
    """
    law = toy.law
    nodes, weight_of = roots_legendre(12)
    edges = law.scale * np.array([-20, -9, -5, -3, -1.5, 0.0, 1.5, 3, 5, 9, 20])

    def outer(theta, told, left):
        here, there = toy.sums(records, theta), toy.sums(others, theta)
        if left == 1:
            return EXACT[type(law)](law.scale, here - there, epsilon - told)
        low, high = np.minimum(here, there)[:, None], np.maximum(here, there)[:, None]
        ends = np.concatenate([low + edges[:5], low, (low + high) / 2, high, high + edges[6:]], 1)
        ends = np.sort(ends, axis=1)
        half = np.diff(ends, axis=1)[..., None] / 2
        at = (ends[:, :-1, None] + half * (1 + nodes)).reshape(len(theta), -1)
        weight = (half * weight_of).reshape(len(theta), -1)
        density = law.logpdf(at - here[:, None])
        told_now = told[:, None] + density - law.logpdf(at - there[:, None])
        after = (theta[:, None] - toy.step * at).ravel()
        inner = outer(after, told_now.ravel(), left - 1).reshape(at.shape)
        return (weight * np.exp(density) * inner).sum(axis=1)

    return float(outer(np.zeros(1), np.zeros(1), toy.passes)[0])


WORST = [(1.0, -1.0)], [(1.0, 1.0)]
PAIRS = [
    WORST,
    ([(1.0, -1.0), (0.5, 0.0)], [(1.0, 1.0), (0.5, 0.0)]),
    ([(1.0, -1.0), (-1.0, 1.0)], [(1.0, -1.0), (1.0, 1.0)]),
    ([(0.3, 1.0), (1.0, 0.2), (-1.0, 0.9)], [(0.3, 1.0), (1.0, 0.2), (0.4, -0.7)]),
]
BUDGETS = [("gaussian", 1.0, 0.05), ("gaussian", 3.0, 1e-3), ("laplace", 1.0, 0.0)]


def one_number(mechanism, epsilon, delta, passes, **facts):
    """A fit of one number, for its noise, and the same as a toy."""
    run = fitted(
        *(DPCoordinateDescentRegressor, [[1.0]], [1.0]),
        **{"mechanism": mechanism, "epsilon": epsilon, "delta": delta, "n_passes": passes},
    )
    law = run.plan.noise.law.scaled(1 / run.precision[0])
    return run.model.guarantee_, Toy(law, run.plan.rows, passes, **facts)


@pytest.mark.parametrize("passes", [2, 3])
@pytest.mark.parametrize(("mechanism", "epsilon", "delta"), BUDGETS)
def test_runs_tell_no_more_than_was_promised(mechanism, epsilon, delta, passes):
    """Robust regression and logistic, small steps and great ones, at several epsilons."""
    for bound, step in [(0.4, 0.2), (0.4, 1e-9), (None, 4.0)]:
        promise, toy = one_number(mechanism, epsilon, delta, passes, bound=bound, step=step)
        for pair in PAIRS if passes == 2 else PAIRS[:1]:
            sides = [[(x, y if bound else float(y > 0)) for x, y in side] for side in pair]
            for at in (0.5 * epsilon, epsilon):
                found = run_delta(toy, *sides, at)
                # The rule of points has a relative error of 2e-4.
                assert -1e-9 <= found <= promise.delta_at(at) * (1 + 2e-4) + 1e-9


@pytest.mark.parametrize("passes", [2, 3])
@pytest.mark.parametrize(("mechanism", "epsilon", "delta"), BUDGETS)
def test_the_worst_run_tells_what_was_promised_and_a_twin_more(mechanism, epsilon, delta, passes):
    """One record at either end of the target: the guarantee is met, not only kept.

    With 5 % less noise it is broken.
    """
    promise, toy = one_number(mechanism, epsilon, delta, passes, bound=0.4, step=1e-9)
    twin = toy._replace(law=toy.law.scaled(0.95))
    at = epsilon if delta > 0 else 0.9 * epsilon
    weight = weights(np.ones((1, 1)), toy.rows)[0]
    promised = Composition([(ShiftLoss(toy.law, 2 * weight), passes)]).delta_at(at).upper
    exact = run_delta(toy, *WORST, at)
    assert exact == pytest.approx(promised, rel=3e-3)
    assert 0.98 * delta < exact <= promise.delta_at(at) * (1 + 1e-5)
    assert run_delta(twin, *WORST, at) > 1.02 * promised
    if delta == 0:
        assert run_delta(toy, *WORST, epsilon) < 1e-12
        assert run_delta(twin, *WORST, epsilon) > 1e-4
