"""What leaves the machine: lattice points, with the stated law, and no more private than stated."""

import math

import numpy as np
import pytest
from inner_fits import Design, Task, release_exact
from inner_moments import plan_moments
from scipy.stats import chi2, gamma, kstest, laplace

from skdp import Domain, DPLinearRegression
from skdp.geometry.moments import MomentLayout
from skdp.rows import MemoryRows

UNIT = 2.0**-40
RELATIONS = ["replace_one", "add_remove"]
ONE = Domain.unit_box(1, target=(-1.0, 1.0))
COUNT_AND_MEAN = MomentLayout(0, (), (), neighbors="add_remove")


def chi_square(counts):
    """The p-value of equal shares."""
    expected = sum(counts) / len(counts)
    return chi2(len(counts) - 1).sf(((np.asarray(counts) - expected) ** 2).sum() / expected)


def plan_of(domain, mechanism, neighbors="replace_one", epsilon=1.0, n=2, delta=0.0):
    public = n if neighbors == "replace_one" else None
    return plan_moments(Task(Design(domain, True), public, epsilon, delta, neighbors), mechanism)


def rows_of(domain, rows):
    rows = np.array(rows, dtype=float)
    return MemoryRows(domain, rows[:, :-1], rows[:, -1].copy())


@pytest.mark.parametrize("mechanism", ["matrix", "hull", "l1", "gaussian"])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_releases_are_lattice_points_whatever_the_data(mechanism, neighbors):
    """Multiples of 2^-40 for data on the grid, off it, and for every size of noise."""
    rng = np.random.default_rng(0)
    for epsilon in (1e3, 1.0, 1e-3):
        plan = plan_of(ONE, mechanism, neighbors, epsilon, delta=1e-6)
        for rows in ([[1 / 3, -1 / 7]], [[1.0, 1.0]], rng.uniform(-1, 1, (50, 2))):
            released = release_exact(plan.releases[0], plan.sums(rows_of(ONE, rows)), rng)
            assert released.shape == (plan.layout.dim,)
            steps = released / UNIT
            assert (steps == np.rint(steps)).all()
    # The twin, noise as it was drawn, is not.
    fine = plan_of(ONE, mechanism, neighbors, 1e3, delta=1e-6).noise.rvs(rng) / UNIT
    assert (fine != np.rint(fine)).any()


def moments_of(model, X, y, seeds):
    """The released Gram matrices of fits with these seeds."""
    fits = (model.set_params(random_state=s).fit(X, y) for s in seeds)
    return np.array([fit.moments_.gram for fit in fits])


@pytest.mark.slow("a law needs thousands of fits")
def test_the_mean_of_the_target_has_exactly_the_laplace_law():
    """Where noise drowns all else the sum of y is released with Laplace noise of scale 2 / epsilon.

    From end to end, 300 fits; one p-value at 1e-8. Twins of 40 % less and 60 % more noise are
    caught by the mean size, Gamma(n): 6 % wide.
    """
    domain, y = Domain.box([0.0], [4.0], target=(0.0, 10.0)), [10.0, 2.0, 7.0]
    model = DPLinearRegression(epsilon=0.1, domain=domain)
    gram = moments_of(model, [[1.0], [2.0], [3.0]], y, range(300))
    assert gram.shape == (300, 2, 2)
    noise = gram[:, 0, 1] - sum(v / 5 - 1 for v in y)
    assert kstest(noise, laplace(scale=2 / 0.1).cdf).pvalue > 1e-8
    for factor, alarm in ((1.0, False), (0.6, True), (1.6, True)):
        share = gamma(len(noise)).cdf(factor * np.abs(noise).sum() * 0.1 / 2)
        assert (2 * min(share, 1 - share) < 1e-8) == alarm


@pytest.mark.slow("a law needs thousands of fits")
def test_matrix_noise_in_the_mean_has_exactly_its_law():
    """Two rows: an entry off the diagonal is (G - G') / (2 sqrt(S_11 S_22)), each of law Gamma(3).

    6 products z w = ((z + w)^2 - (z - w)^2) / 4 make chi-squares of 6 degrees. From end to end,
    600 fits; the p-value against 20,000 draws of that law at 1e-8; 30 % less noise is caught
    by the variance, which has a relative error of 7 % (fourth moment 4 times the square).
    """
    domain = Domain({"a": ["x"]}, target=(-1.0, 1.0))
    model = DPLinearRegression(epsilon=1.0, domain=domain, mechanism="matrix")
    gram = moments_of(model, [["x"], ["x"]], [0.5, 0.25], range(600))
    precision = model.noise_.precision
    noise = (gram[:, 0, 1] - 0.75) * 2 * math.sqrt(precision[0] * precision[1])
    rng = np.random.default_rng(4)
    law = rng.gamma(3, size=20_000) - rng.gamma(3, size=20_000)
    assert kstest(noise, law).pvalue > 1e-8
    assert abs(np.mean(noise**2) / 6 - 1) < 6 * 0.07
    assert abs(np.mean((0.7 * noise) ** 2) / 6 - 1) > 6 * 0.07


@pytest.mark.parametrize(("mechanism", "size", "least"), [("hull", 5, 1 - 1e-9), ("l1", 9, 0.99)])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_the_density_ratio_of_neighbours_is_epsilon_and_no_more_on_the_ball(
    neighbors, mechanism, size, least
):
    """For every two records on a grid, at the changes and at random results.

    With 5 % less noise, the twin, the ratio exceeds epsilon.
    """
    plan, grid = plan_of(ONE, mechanism, neighbors), np.linspace(-1, 1, size)
    records = np.array([[1.0, x, y] for x in grid for y in grid])
    changes = plan.layout.statistic(records[:, :, None] * records[:, None, :])
    if not plan.layout.adds:
        changes = (changes[:, None] - changes).reshape(-1, plan.noise.dim)
    at = np.concatenate([changes[::7], np.random.default_rng(0).normal(0, 4, (50, plan.noise.dim))])
    gauge = plan.noise.ball.gauge
    ratio = np.abs(gauge(at[:, None] - changes) - gauge(at)[:, None]).max() / plan.noise.scale
    assert least < ratio <= 1
    assert ratio / 0.95 > 1


def test_a_record_outside_of_its_bounds_counts_as_one_at_the_bound():
    model = DPLinearRegression(domain=ONE, mechanism="hull")
    first, *others = (
        moments_of(model, [[0.0], [0.0]], [value, 0.0], range(3)) for value in (1.0, 4.0, 1e300)
    )
    for other in others:
        np.testing.assert_array_equal(first, other)
