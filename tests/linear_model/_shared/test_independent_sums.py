"""Independent noise for sums and squares: how far one record changes them, in its units."""

import math
from dataclasses import replace

import numpy as np
import pytest
from inner_descent import independent
from inner_moments import ColumnSums, sizes_of

from skdp.trusted import NotPrivate


def sums_of(k, n, levels=0):
    blocks = tuple(slice(k + 2 * j, k + 2 * j + 2) for j in range(levels))
    return ColumnSums(tuple(range(k)), n, tuple(range(k)), 1, blocks)


def square(planned):
    return math.fsum(count * size**2 for size, count in planned.shifts)


def statistics(planned, x):
    """What records (rows of x) add to the sums of columns and squares, in units of the noise."""
    factor, added = planned.sums.factor, planned.sums.is_counted
    found = np.hstack([np.ones((len(x), 1))] * added + [x, factor * x**2 - added * (factor - 1)])
    return found / planned.units


def changes(planned, x, other):
    """Changes by records x, replaced by others if their number is public."""
    if planned.sums.is_counted:
        return statistics(planned, x)
    return statistics(planned, x) - statistics(planned, other)


def excess(planned, found, gaussian):
    """How far changes go beyond the sizes that are stated: a squared length, or partial sums."""
    declared = sorted((size for size, count in planned.shifts for _ in range(count)), reverse=True)
    declared = np.array(declared)
    if gaussian:
        return (found**2).sum(axis=1).max() / (declared**2).sum() - 1
    width = max(found.shape[1], len(declared))
    falling = -np.sort(-np.abs(found), axis=1)
    partial = np.pad(falling, ((0, 0), (0, width - found.shape[1]))).cumsum(axis=1)
    bounds = np.pad(declared, (0, width - len(declared))).cumsum()
    return (partial / bounds).max() - 1


def tried(k, in_ball, rng):
    """Pairs of records: corners, random ones, and in a ball also pairs close to each other."""
    x, other = rng.uniform(-1, 1, (2, 40_000, k))
    x[::2], other[::4] = np.sign(x[::2]), np.sign(other[::4])
    other[1::4] = np.where(rng.random(other[1::4].shape) < 0.5, -x[1::4] / 3, other[1::4])
    x[::8], other[::8] = 1.0, -1.0
    x[1::8], other[1::8] = 1.0, -1 / 3
    if in_ball:
        for part in (x[:, :in_ball], other[:, :in_ball]):
            part *= rng.random((len(part), in_ball)) < rng.random((len(part), 1))
            part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-9)
        # Turned by an angle in two coordinates: where the bound for Gaussian noise is attained.
        near = math.sqrt(1 + 0.5 / math.sqrt(in_ball))
        far = math.sqrt(2 - near**2)
        x[0], other[0] = 0.0, 0.0
        x[0, :2] = (near + far) / 2, (far - near) / 2
        other[0, :2] = x[0, 1::-1]
        x[0, in_ball:], other[0, in_ball:] = 1.0, -1.0
    return x, other


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("n", [None, 50])
@pytest.mark.parametrize(("k", "in_ball"), [(1, 0), (3, 0), (2, 2), (4, 3), (12, 12)])
def test_no_record_changes_the_sums_by_more_than_is_stated(k, in_ball, n, gaussian):
    """And some by as much: a twin with 5 % less noise does not cover them."""
    planned = independent(sums_of(k, n), gaussian, in_ball)
    found = changes(planned, *tried(k, in_ball, np.random.default_rng(k)))
    assert excess(planned, found, gaussian) <= 1e-12
    less = tuple((0.95 * size, count) for size, count in planned.shifts)
    assert excess(replace(planned, shifts=less), found, gaussian) > 0
    if not in_ball:  # all changes together, too
        declared = math.fsum(size * count for size, count in planned.shifts)
        assert gaussian or np.abs(found).sum(axis=1).max() > 0.999 * declared


@pytest.mark.parametrize("n", [None, 50])
def test_levels_add_their_own_changes(n):
    without, found = (independent(sums_of(3, n, levels), True) for levels in (0, 3))
    (added,) = [count for size, count in found.shifts if size == pytest.approx(1.0)]
    assert added == (3 if n is None else 6)
    assert square(found) == pytest.approx(square(without) + added)
    assert len(found.units) == found.sums.dim


@pytest.mark.parametrize("n", [None, 50])
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("gaussian", [True, False])
def test_sizes_bound_the_changes_for_any_units(n, factor, gaussian):
    """A grid of records reaches them: the greatest change, the sum of both, or the length."""
    sums, x = ColumnSums((0,), n, (0,), factor), np.linspace(-1, 1, 401)
    left_out = 0.0 if n else (factor - 1) / factor
    for a, b in ((0.3, 1.0), (1.0, 0.5), (1.0, 1.5), (1.0, 2.5), (2.0, 1.0)):
        units = np.array([*[1.0] * (n is None), 1 / a, factor / b])
        number, square = a * np.abs(x), b * np.abs(x**2 - left_out)
        if n:
            number, square = (
                k * np.abs(np.subtract.outer(v, v)).ravel() for k, v in ((a, x), (b, x**2))
            )
        own = sizes_of(sums, units, gaussian)[: 1 if gaussian else 2]
        bounds = np.cumsum([size for size, _ in own])
        reached = [np.hypot(number, square).max()]
        if not gaussian:
            reached = [max(number.max(), square.max()), (number + square).max()]
        assert np.all(reached <= bounds * (1 + 1e-12))
        assert np.all(bounds < np.array(reached) * 1.01)


def test_sums_that_no_theorem_covers_are_refused():
    """A public count of added records, three times a square, and a ball with a rest left out."""
    public, private = (ColumnSums((0, 1), n, (0, 1)) for n in (50, None))
    for sums, neighbors in ((public, "add_remove"), (private, "replace_one")):
        with pytest.raises(NotPrivate, match="if and only if"):
            sums.change(neighbors)
    with pytest.raises(NotPrivate, match="twice its square"):
        replace(public, factor=3).change("replace_one")
    with pytest.raises(NotPrivate, match="left out"):
        sizes_of(private, np.ones(5), True, in_ball=2)
