"""The design matrix: what is said about its rows holds for every row of every domain."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inner_fits import LISTABLE, Design

from skdp import Domain
from skdp.geometry import LpBall, MappedBall, NormBall

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None)
ROUNDING = 1 + 1e-11
P = [1.0, 1.5, 2.0, 3.0, math.inf]


def number(seed):
    lower = -(10.0 ** (seed % 5 - 2))
    return (lower, lower + 10.0 ** (seed % 7 - 3))


columns = st.lists(
    st.one_of(st.integers(0, 34).map(number), st.integers(1, 5).map(lambda m: list(range(m)))),
    min_size=1,
    max_size=5,
)


@st.composite
def designs(draw):
    """Numbers and levels in any order, single levels, balls, encoded domains, an intercept."""
    intercept = draw(st.booleans())
    if draw(st.integers(0, 4)) == 0:
        domain = Domain.l2_ball(draw(st.integers(1, 5)), draw(st.sampled_from([0.2, 1.0, 30.0])))
        return Design(domain, intercept)
    declared = draw(columns)
    domain = Domain({f"c{k}": column for k, column in enumerate(declared)})
    if domain.n_encoded == 0:
        intercept = True
    return Design(domain.encoded if draw(st.booleans()) and domain.n_encoded else domain, intercept)


def tables(design, rng, n=40):
    """Raw rows, some beyond the bounds; a third of the numbers at their ends."""
    domain = design.domain
    cells = 10.0 ** rng.uniform(-3, 3, (n, domain.n_columns)) * rng.choice([-1, 1], (n, 1))
    cells = np.where(rng.random(cells.shape) < 0.3, 1e30 * np.sign(cells), cells)
    for j, column in enumerate(getattr(domain, "_columns", ())):
        if hasattr(column, "levels"):
            cells[:, j] = rng.integers(0, len(column.levels) + 1, n)  # one of them is unknown
    return cells


def corners(design):
    """The rows of all ends and levels, the convex hull of which holds every row."""
    ends = []
    for column in design.domain._columns:
        if hasattr(column, "levels"):
            ends.append(list(column.levels))
        elif hasattr(column, "lower"):
            ends.append([column.lower, column.upper])
        else:
            return None
    raw = np.array(list(itertools.product(*ends)), dtype=float)
    return design.matrix(raw, len(raw))


@SETTINGS
@given(designs(), st.integers(0, 2**32 - 1))
def test_every_row_lies_in_the_hull(design, seed):
    """The gauge of the hull is at most 1 on rows, and its radius is said to be 1."""
    rng = np.random.default_rng(seed)
    z = design.matrix(tables(design, rng), 40)
    hull = design.hull
    assert isinstance(hull, NormBall)
    assert hull.exact
    assert hull.dim == design.dim == z.shape[1]
    assert hull.gauge(z).max() <= ROUNDING
    assert design.radius_in(hull) == 1.0
    # It is a hull: some row is on its boundary.
    found = corners(design)
    if found is not None:
        assert hull.gauge(found).max() == pytest.approx(1, rel=1e-9)


@SETTINGS
@given(designs(), st.integers(0, 2**32 - 1))
def test_every_row_lies_in_every_ball_of_clusters(design, seed):
    """Any partition of the groups, any weights that sum to one."""
    rng = np.random.default_rng(seed)
    z = design.matrix(tables(design, rng), 40)
    n_groups = len(design.groups)
    assert sorted(i for group in design.groups for i in group.index) == list(range(design.dim))
    label = rng.integers(0, rng.integers(1, n_groups + 1), n_groups)
    clusters = [np.flatnonzero(label == k).tolist() for k in np.unique(label)]
    weights = rng.dirichlet(np.ones(len(clusters)))
    ball = design.clustered(clusters, weights.tolist())
    assert ball.dim == design.dim
    assert ball.gauge(z).max() <= ROUNDING
    # By definition: the greatest gauge in each cluster, weighted and added.
    parts = [
        np.max([design.groups[g].ball.gauge(z[:, list(design.groups[g].index)]) for g in c], axis=0)
        for c in clusters
    ]
    np.testing.assert_allclose(ball.gauge(z), weights @ np.array(parts), rtol=1e-9, atol=1e-12)


class Slanted:
    """A ball that the package knows nothing about, with no corners and no box."""

    exact = True

    def __init__(self, dim):
        self.dim = dim
        self.matrix = np.eye(dim) + 0.5 * np.eye(dim, k=1)

    def gauge(self, v):
        return np.linalg.norm(np.asarray(v) @ self.matrix, axis=-1)

    def sample(self, n, rng):
        return LpBall(self.dim).sample(n, rng) @ np.linalg.inv(self.matrix)


def balls(design):
    d = design.dim
    yield from (LpBall(d, p=p, radius=0.5) for p in P)
    yield from (LpBall(d, p=p, weights=np.linspace(1, 3, d)) for p in (1.0, 2.5, math.inf))
    yield MappedBall(LpBall(d), np.linspace(0.5, 2, d))
    yield Slanted(d)


@SETTINGS
@given(designs(), st.integers(0, 2**32 - 1))
def test_the_radius_bounds_every_row_and_is_reached(design, seed):
    """In any ball; reached by a corner wherever the corners are few or the ball is plain."""
    z = design.matrix(tables(design, np.random.default_rng(seed)), 40)
    found = corners(design) if not design.domain.is_ball else None
    for ball in balls(design):
        radius = design.radius_in(ball)
        assert ball.gauge(z).max() <= radius * ROUNDING
        if found is not None:
            assert ball.gauge(found).max() == pytest.approx(radius, rel=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_radius_over_many_corners_is_safe(intercept):
    """Where corners are too many to list, the bound comes from the parts; for l_p it is exact."""
    declared = {f"x{k}": (0, 1) for k in range(14)} | {"a": list("abc"), "b": list("uv")}
    design = Design(Domain(declared), intercept)
    assert LISTABLE < 2**14
    rng = np.random.default_rng(0)
    rows = np.array([[*rng.integers(0, 2, 14), rng.choice(list("abc")), rng.choice(list("uv"))]
                     for _ in range(3000)], dtype=object)  # fmt: skip
    z = design.matrix(rows, len(rows))
    for ball in balls(design):
        radius, seen = design.radius_in(ball), ball.gauge(z).max()
        assert seen <= radius * ROUNDING
        assert radius <= 20 * seen
        if isinstance(ball, LpBall) and ball.weights is None:
            assert seen == pytest.approx(radius, rel=1e-9)


def test_the_radius_on_a_ball_of_rows():
    """Rows of Euclidean norm 2 next to a one: |x|_p^p = 1 + 2^p, or 1 + (2 d^(1/p - 1/2))^p."""
    design = Design(Domain.l2_ball(4, 2.0), True)
    assert design.radius_in(LpBall(5, p=3.0)) == pytest.approx(9 ** (1 / 3))
    assert design.radius_in(LpBall(5, p=1.0)) == pytest.approx(5)
    assert design.radius_in(LpBall(5, p=math.inf)) == pytest.approx(2)
    z = design.matrix([[50.0, 50.0, -50.0, 50.0], [0.0, 0.0, 9.0, 0.0]], 2)
    assert np.abs(z).sum(axis=1).max() == pytest.approx(5)
    assert design.radius_in(Slanted(5)) >= Slanted(5).gauge(z).max()


@SETTINGS
@given(designs(), st.integers(0, 2**32 - 1))
def test_the_row_norm_bounds_every_row(design, seed):
    """And is attained by a corner. The least length of the part of a group is attained too."""
    z = design.matrix(tables(design, np.random.default_rng(seed)), 40)
    assert np.linalg.norm(z, axis=1).max() <= design.row_norm
    found = corners(design) if not design.domain.is_ball else None
    if found is not None:
        for group in design.groups:
            squares = np.square(found[:, list(group.index)]).sum(axis=1)
            assert squares.max() == pytest.approx(group.square, rel=1e-12)
            if group.kind != "numbers":  # they can all be 0
                assert squares.min() == pytest.approx(group.least, rel=1e-12)
        greatest = np.square(found).sum(axis=1).max()
        assert greatest == pytest.approx(design.row_norm**2, rel=1e-9)


@pytest.mark.parametrize("m", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_squares_of_levels_are_those_of_all_encoded_rows(m, intercept):
    """By brute force over the m + 1 levels of a column."""
    levels = [f"{k:03}" for k in range(m + 1)]
    design = Design(Domain({"level": levels}), intercept)
    rows = design.matrix([[level] for level in levels], m + 1)
    squares = np.square(rows[:, int(intercept) :]).sum(axis=1)
    group = design.groups[-1]
    assert (squares.max(), squares.min()) == pytest.approx((group.square, group.least), rel=1e-12)
