"""The descent itself, on quadratics whose gradients are known: steps, penalties, box, averages."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from inner_descent import FARTHEST, Blocks, Descent, RowBound
from inner_fits import GRAM_BITS
from scipy.stats import chisquare

from skdp import Domain
from skdp.trusted.noise import Publication
from skdp.trusted.randomness import Lattice

UNIT = 2**GRAM_BITS
ALARM = 1e-7
# Coordinates: the intercept; a; b's three levels, of which the first does not move.
BLOCKS = Blocks(Domain({"a": (-1, 1), "b": list("uvw")}), True)
CURVATURE = np.array([4.0, 3.0, 5.0, 2.0, 1.0])


class Quadratic:
    """sum_ij H_ij t_i t_j / 2 - b t, with gradients in a unit and on the lattice."""

    def __init__(self, unit, target, couple=0.2):
        self.h = np.diag(CURVATURE) + couple * (1 - np.eye(5))
        self.b, self.unit, self.theta, self.asked = np.asarray(target), unit, np.zeros(5), []

    def move(self, block, change):
        self.theta[BLOCKS.places[block]] += change

    def of_all(self):
        exact = (self.h @ self.theta - self.b) / self.unit
        return np.array([round(v * UNIT) for v in exact], dtype=object)

    def of_block(self, block):
        self.asked.append(block)
        return self.of_all()[BLOCKS.places[block]]


class Noise:
    """Draws of one size, or none, that are counted."""

    def __init__(self, size=0.0):
        self.size, self.draws = size, []

    def rvs(self, rng, size=None):
        self.draws += [size[1]] * size[0]  # a row for each pass
        return self.size * rng.standard_normal(size)


def descent_of(
    *, blocks=BLOCKS, precision=(1.0, 1.0, 1.0), order="cyclic", n_passes=60, choice=None, **changed
):
    published = Publication(Lattice(np.full(5, -40), np.full(5, -80), 1), 1.0)
    facts = {"blocks": blocks, "order": order, "passes": n_passes, "classes": ()}
    facts |= {"rows": RowBound(np.array(precision)), "choice": choice}
    facts |= {"factors": np.repeat(1 / np.array(precision), blocks.sizes)}
    free = Descent(
        plan=SimpleNamespace(published=lambda _: published, **facts),
        unit=np.ones(5),
        step=np.where(BLOCKS.free, 1 / CURVATURE, 0.0),
        l1=np.zeros(5),
        ridge=np.zeros(5),
        average=False,
    )
    return replace(free, **changed)


def run(descent, target=(1.0, -2.0, 9.0, 0.5, 0.1), noise=None, watch=None):
    """Where a descent ends, and what was asked of the data."""
    data = Quadratic(descent.unit, target)
    releases = [SimpleNamespace(name=name) for name in ("gradients", "choices")]
    facts = {"noise": noise or Noise(), "releases": releases}
    descent = replace(descent, plan=SimpleNamespace(**vars(descent.plan), **facts))
    rng, start = np.random.default_rng(0), np.zeros(5)
    return descent.run(data, start, rng, watch or (lambda *_: False)), data


def subgradient(theta, data, l1, ridge):
    """The least one of all coordinates that may move: 0 at the minimum."""
    smooth = data.h @ theta - data.b + ridge * theta
    at_zero = np.sign(smooth) * np.maximum(np.abs(smooth) - l1, 0)
    return np.where(theta == 0, at_zero, smooth + l1 * np.sign(theta))[BLOCKS.free]


@pytest.mark.parametrize("order", ["cyclic", "random"])
@pytest.mark.parametrize("unit", [1.0, 0.01, np.array([0.1, 1.0, 2.0, 0.3, 50.0])], ids=str)
@pytest.mark.parametrize(("l1", "ridge"), [(0.0, 0.0), (0.6, 0.0), (0.0, 3.0), (0.3, 2.0)])
def test_without_noise_it_ends_at_the_minimum(order, unit, l1, ridge):
    """The conditions of a minimum, to the fineness of the lattice; the unit does not matter."""
    l1, ridge = l1 * np.array([0, 1, 1, 1, 1]), ridge * np.array([0, 1, 1, 1, 1])
    descent = descent_of(unit=np.broadcast_to(unit, 5), l1=l1, ridge=ridge, order=order)
    theta, data = run(descent)
    assert np.abs(subgradient(theta, data, l1, ridge)).max() < 1e-9
    assert theta[2] == 0.0  # the first level did not move
    np.testing.assert_allclose(theta, data.theta, atol=1e-12)
    # The twins: other penalties have another minimum.
    assert np.abs(subgradient(theta, data, l1 + 0.05, ridge)).max() > 1e-3
    assert np.abs(subgradient(theta, data, l1, ridge + 0.05)).max() > 1e-3


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("order", ["cyclic", "random", "greedy"])
def test_a_penalty_on_differences_is_that_of_the_dense_problem(order, first):
    """Without noise the descent ends at its minimum, and no pass increases the objective."""
    matrix = 2.0 * np.array([[1.5, -1.0, 0.0], [-1.0, 3.5, -2.0], [0.0, -2.0, 2.5]])
    free = BLOCKS.free | first
    step = np.where(free, 1 / (CURVATURE + 0.8), 0.0)  # the sums of rows of the data's matrix
    facts = {"order": order, "choice": 1e-6, "n_passes": 300, "rough": {2: matrix}}
    facts["blocks"] = replace(BLOCKS, all_levels=first)
    descent = descent_of(step=step, ridge=np.array([0, 1.0, 0, 0, 0]), **facts)
    whole, seen = np.diag([0, 1.0, 0, 0, 0]), []
    whole[2:, 2:] = matrix
    theta, data = run(descent, watch=lambda _, theta: seen.append(theta))
    dense = (data.h + whole)[np.ix_(free, free)]
    np.testing.assert_allclose(theta[free], np.linalg.solve(dense, data.b[free]), atol=1e-5)
    assert first or theta[2] == 0.0
    values = [t @ (data.h + whole) @ t / 2 - data.b @ t for t in seen]
    assert (np.diff([0.0, *values]) <= 1e-9).all()
    assert values[0] < -0.1


@pytest.mark.parametrize("size", [3.0, 1e6, 1e300])
@pytest.mark.parametrize("order", ["cyclic", "random", "greedy"])
def test_huge_steps_end_in_the_box(size, order):
    """A descent that diverges does so to finite coordinates, and says nothing."""
    step = np.where(BLOCKS.free, size, 0.0)
    rough = {2: np.eye(3) + np.diag([1.0, 2, 1]) - np.eye(3, k=1) - np.eye(3, k=-1)}
    descent = descent_of(step=step, order=order, choice=1.0)
    smooth = replace(descent, rough=rough)
    assert np.abs(run(smooth, noise=Noise(1.0))[0]).max() <= FARTHEST
    theta, data = run(descent, noise=Noise(1.0))
    assert np.isfinite(run(replace(descent, average=True), noise=Noise(1.0))[0]).all()
    assert np.abs(theta).max() <= FARTHEST
    assert np.abs(data.theta).max() <= FARTHEST * (1 + 1e-12)
    assert np.abs(theta).max() > 10  # it did diverge


def test_the_average_leaves_out_the_first_quarter_of_the_passes():
    """Passes L // 4 + 1 to L; of a single pass that one."""
    for n_passes in (1, 2, 5, 8):
        seen = []
        descent = descent_of(n_passes=n_passes, average=True)
        theta, _ = run(descent, noise=Noise(0.3), watch=lambda _, t, seen=seen: seen.append(t))
        assert len(seen) == n_passes
        np.testing.assert_allclose(theta, np.mean(seen[n_passes // 4 :], axis=0), atol=1e-15)
        last, _ = run(replace(descent, average=False), noise=Noise(0.3))
        np.testing.assert_array_equal(last, seen[-1])
        if n_passes > 4:  # the twins: all passes, or the last one alone
            assert np.abs(theta - np.mean(seen, axis=0)).max() > 1e-3
            assert np.abs(theta - last).max() > 1e-3


def test_an_average_is_zero_where_most_models_are():
    """A penalty that is to leave few coefficients leaves few, whatever the noise did once."""
    seen = []
    l1 = np.array([0, 1.2, 1.2, 1.2, 1.2])
    descent = descent_of(l1=l1, average=True, n_passes=40)
    theta, _ = run(descent, (1, -2, 9, 0.5, 0.1), Noise(0.5), watch=lambda _, t: seen.append(t))
    zeros = np.mean(np.array(seen[10:]) == 0, axis=0)
    assert ((theta == 0) == (zeros > 0.5)).all()
    assert np.any((zeros > 0) & (zeros < 0.5)) or np.any((zeros > 0.5) & (zeros < 1))


def test_every_block_is_released_as_often_as_it_was_paid_for():
    """One draw for each coordinate and pass, also for a level that does not move."""
    for order in ("cyclic", "random"):
        noise = Noise()
        _, data = run(descent_of(order=order, n_passes=9), noise=noise)
        assert len(data.asked) == 9 * len(BLOCKS)
        assert noise.draws == [BLOCKS.dim] * 9
        passes = np.reshape(data.asked, (9, len(BLOCKS)))
        assert (np.sort(passes, axis=1) == np.arange(len(BLOCKS))).all()  # no block comes twice
        if order == "cyclic":
            assert (passes == np.arange(len(BLOCKS))).all()
        else:
            assert len(np.unique(passes, axis=0)) > 1


def test_the_noise_of_a_block_may_be_quieter():
    """Its draws are divided by the precision of the block, and by no other's."""
    exact, _ = run(descent_of(n_passes=1))
    theta, _ = run(descent_of(precision=(2.0, 1.0, math.inf), n_passes=1), noise=Noise(1.0))
    draws = np.random.default_rng(0).standard_normal((1, 5))[0]
    assert theta[0] - exact[0] == pytest.approx(-0.5 * draws[0] / CURVATURE[0], rel=1e-9)
    moved = theta[1] - exact[1] + 0.2 * (theta[0] - exact[0]) / CURVATURE[1]
    assert moved == pytest.approx(-draws[1] / CURVATURE[1], rel=1e-9)


def test_greedy_coordinates_have_the_exponential_mechanisms_law():
    """P(j) ~ exp(score_j / scale), where only free coordinates are chosen.

    One p-value of 20,000 choices held against ALARM. The twin's scale is 10 % too small.
    """
    scale, theta = 0.3, np.array([0.0, 1.0, 0.0, 0.0, -1.0])
    l1, ridge = np.array([0, 0.2, 0.2, 0.2, 0.2]), np.full(5, 0.1)
    gradient = np.array([0.5, -1.5, 9.0, -0.1, 0.7])
    descent = descent_of(l1=l1, ridge=ridge, choice=scale, order="greedy", unit=np.full(5, 0.5))
    # By hand, over the unit: what is at zero may be as steep as l1.
    score = np.array([0.5, abs(-1.5 + 0.6), 0, 0, abs(0.7 - 0.6)])
    exact = np.array([round(v * UNIT) for v in gradient], dtype=object)
    rng = np.random.default_rng(0)
    chosen = [descent._steepest(theta, exact, None, rng) for _ in range(20_000)]
    counts = np.bincount(chosen, minlength=5)
    assert counts[2] == 0

    def alarm(scale):
        wanted = np.exp(score / scale) * BLOCKS.free
        keep = BLOCKS.free
        return chisquare(counts[keep], 20_000 * (wanted / wanted.sum())[keep]).pvalue

    assert alarm(scale) > ALARM
    assert alarm(0.9 * scale) < ALARM
