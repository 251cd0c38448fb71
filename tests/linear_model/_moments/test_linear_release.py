"""What leaves the machine: lattice points, with the stated law, and no more private than stated."""

import numpy as np
import pytest
from inner_fits import Design, Task, release_exact
from inner_moments import plan_moments

from skdp import Domain, DPLinearRegression
from skdp.rows import MemoryRows

UNIT = 2.0**-40
RELATIONS = ["replace_one", "add_remove"]
ONE = Domain.unit_box(1, target=(-1.0, 1.0))


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
