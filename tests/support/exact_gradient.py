"""The gradient of an objective in 120-digit arithmetic: the second truth for the certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
from inner_fits import Design
from inner_objective import DesignRows, Objective
from numpy.typing import NDArray

from skdp import Domain, Spline
from skdp.domain.splines import Interaction
from skdp.linear_model.losses import (
    CappedPoisson,
    LogisticLoss,
    Loss,
    PseudoHuber,
    SharpLogistic,
    SmoothedQuantile,
)
from skdp.rows import KeptBlocks

FloatArray = NDArray[np.float64]
LOSSES: list[Loss] = [
    *(LogisticLoss(), SharpLogistic(), SharpLogistic(0.95), PseudoHuber(0.3)),
    *(CappedPoisson(0.25, 0.125), SmoothedQuantile(0.9, 0.1)),
]
STEP = 2.0**-20
# Whether there is an intercept, and the sizes of columns of levels.
SHAPES = {
    "numbers": (False, ()),
    "intercept": (True, ()),
    "centred levels": (True, (2, 5)),
    "levels": (False, (3,)),
}


def on_grid(numbers: FloatArray) -> FloatArray:
    """Return the nearest multiples of 2^-20."""
    return np.asarray(np.rint(numbers / STEP) * STEP)


@dataclass(frozen=True)
class Problem:
    """An objective of rows that are written out.

    The coordinates are the intercept, the first number, the indicators of each column of levels
    without those of the first level, and the other numbers.

    Attributes
    ----------
    design : ndarray of float64, shape (n, numbers)
        The numbers of the rows: multiples of 2^-20 in [-1, 1].
    sizes : tuple of int
        Number of levels of each column of levels.
    codes : ndarray of int, shape (n, len(sizes) + len(splines))
        Positions of the levels, and of the nodes.
    splines : tuple of Spline or Interaction
        Further columns, after those of levels.
    radius : float or None
        The rows are those of a ball, without columns of levels.
    """

    loss: Loss
    design: FloatArray
    target: FloatArray
    ridge: FloatArray
    linear_term: FloatArray
    weight: FloatArray | None = None
    intercept: bool = False
    sizes: tuple[int, ...] = ()
    codes: NDArray[np.intp] | None = None
    radius: float | None = None
    splines: tuple[Spline | Interaction, ...] = ()

    @property
    def n(self) -> int:
        return len(self.target)

    @property
    def dim(self) -> int:
        return len(self.ridge)

    @property
    def row_norm(self) -> float:
        return self.layout.row_norm

    @cached_property
    def layout(self) -> Design:
        if self.radius is not None:
            return Design(Domain.l2_ball(self.design.shape[1], self.radius), self.intercept)
        first, *others = [f"x{j}" for j in range(self.design.shape[1])]
        levels = {f"c{k}": [f"l{j}" for j in range(m)] for k, m in enumerate(self.sizes)}
        box = (-1.0, 1.0)
        curves, pairs = {}, []
        for k, own in enumerate(self.splines):
            parts = [own] if isinstance(own, Spline) else [own.first, own.second]
            curves |= {f"s{k}{part}": parts[part] for part in range(len(parts))}
            pairs += [(f"s{k}0", f"s{k}1")] * (len(parts) - 1)
        columns = {first: box, **levels, **curves, **dict.fromkeys(others, box)}
        domain = reduce(lambda domain, pair: domain.interact(*pair), pairs, Domain(columns))
        return Design(domain, self.intercept)

    def states(self, cuts: Sequence[int] = ()) -> list[DesignRows]:
        """Return the rows, cut before these positions."""
        codes = np.zeros((self.n, 0), dtype=int) if self.codes is None else self.codes
        whole = DesignRows(
            np.ascontiguousarray((self.design / self.layout.unit).T, dtype=np.float32),
            codes.T.astype(np.uint16 if self.splines else np.uint8),
            self.target,
            self.weight,
        )
        ends = [0, *cuts, self.n]
        return [whole.chosen(slice(a, b)) for a, b in pairwise(ends)]

    def objective(self, cuts: Sequence[int] | None = None) -> Objective:
        """Return the objective; without cuts its blocks have 2^13 rows."""
        cuts = range(2**13, self.n, 2**13) if cuts is None else cuts
        return Objective(
            self.loss,
            KeptBlocks(self.states(cuts)),
            self.layout,
            self.ridge,
            self.linear_term,
            self.n,
        )

    def rows(self) -> Iterator[list[Any]]:
        """Yield the exact rows in the precision of mpmath."""
        for row in self.fractions():
            yield [mpmath.mpf(x.numerator) / x.denominator for x in row]

    def fractions(self) -> Iterator[list[Fraction]]:
        """Yield the exact rows: e_k - 1 / (m + 1) for centred levels."""
        for i, row in enumerate(self.design.tolist()):
            numbers, levels = list(map(Fraction, row)), list[Fraction]()
            for k, size in enumerate(self.sizes):
                assert self.codes is not None
                share = Fraction(int(self.intercept), size)
                levels += [int(self.codes[i, k] == level) - share for level in range(1, size)]
            for k, spline in enumerate(self.splines, start=len(self.sizes)):
                assert self.codes is not None
                share = Fraction(int(self.intercept), spline.n_out + 1)
                levels += [Fraction(x) - share for x in spline.table[self.codes[i, k]].tolist()]
            yield [Fraction(1)] * self.intercept + numbers[:1] + levels + numbers[1:]

    def matrix(self) -> FloatArray:
        """Return the rows as floats."""
        return np.array([[float(x) for x in row] for row in self.fractions()])


def exact_slope(loss: Loss, z: Any, y: float) -> Any:
    one = mpmath.mpf(1)
    if isinstance(loss, LogisticLoss):
        return one / (1 + mpmath.exp(-z)) - y
    if isinstance(loss, PseudoHuber | CappedPoisson):
        mean = z
        if isinstance(loss, CappedPoisson):
            v, y = z + mpmath.mpf(loss.shift) - mpmath.log(2), (y + 1) / 2
            mean = mpmath.exp(v) if v <= -mpmath.log(2) else 1 - mpmath.exp(-v) / 4
        c, r = mpmath.mpf(loss.threshold), mean - y
        return c * r / mpmath.sqrt(c * c + r * r)
    if isinstance(loss, SmoothedQuantile):
        return one / (1 + mpmath.exp(-(z - y) / mpmath.mpf(loss.bandwidth))) - loss.level
    assert isinstance(loss, SharpLogistic)
    m = mpmath.mpf(loss.middle)
    k, t = m / (2 * (1 - m)), z if y == 0 else -z
    size = (1 - (1 - m) * mpmath.exp(-k * abs(t))) * mpmath.exp(min(t, 0))
    return size if y == 0 else -size


def exact_gradient(problem: Problem, theta: FloatArray) -> list[Any]:
    weight = np.ones(problem.n) if problem.weight is None else problem.weight
    with mpmath.workdps(120):
        point = [mpmath.mpf(t) for t in theta.tolist()]
        smooth = penalised(problem, point)
        regular = zip(problem.ridge.tolist(), smooth, problem.linear_term.tolist(), strict=True)
        total = [mpmath.mpf(r) * t + mpmath.mpf(v) for r, t, v in regular]
        for x, y, w in zip(problem.rows(), problem.target.tolist(), weight.tolist(), strict=True):
            z = mpmath.fdot(x, point)
            slope = mpmath.mpf(w) * exact_slope(problem.loss, z, y)
            total = [g + slope * mpmath.mpf(entry) for g, entry in zip(total, x, strict=True)]
        return total


def penalised(problem: Problem, point: list[Any]) -> list[Any]:
    """Return the point times the matrix of the penalty, for ridges of 1."""
    found, design = point.copy(), problem.layout
    for block, penalty in zip(design.blocks, design.penalties, strict=True):
        if penalty is not None:
            terms = ([w * t for w, t in zip(row, point[block], strict=True)] for row in penalty)
            found[block] = [sum(own[1:], own[0]) for own in terms]
    return found


def distance(exact: list[Any], value: FloatArray | None = None) -> Any:
    """Return |exact - value|_2."""
    values = [0.0] * len(exact) if value is None else value.tolist()
    with mpmath.workdps(120):
        return mpmath.norm([e - mpmath.mpf(v) for e, v in zip(exact, values, strict=True)])


def problem(
    n: int,
    d: int,
    loss: Loss,
    *,
    seed: int = 0,
    ridge: float | FloatArray = 1.0,
    linear_term: float = 1.0,
    weighted: bool = False,
    intercept: bool = False,
    sizes: tuple[int, ...] = (),
    splines: tuple[Spline | Interaction, ...] = (),
) -> Problem:
    """Return random rows with d numbers in the unit box, and targets that follow them.

    Without an intercept the first number is 1.
    """
    rng = np.random.default_rng(seed)
    design = on_grid(rng.uniform(-1, 1, (n, d)))
    if not intercept:
        design[:, 0] = 1.0
    z = design @ rng.normal(size=d)
    counts = [*sizes, *(len(spline.table) for spline in splines)]
    codes = np.column_stack([rng.integers(0, m, n) for m in counts]) if counts else None
    if codes is not None:
        z = z + 0.3 * codes[:, : len(sizes)].sum(axis=1)
    target = (rng.uniform(size=n) < 1 / (1 + np.exp(-z))).astype(float)
    if isinstance(loss, PseudoHuber):
        target = np.clip(z + 0.1 * rng.standard_cauchy(n), -5, 5)
    if isinstance(loss, CappedPoisson):
        target = 2 * rng.exponential(size=n) - 1
    weight = rng.uniform(size=n) if weighted else None
    dim = intercept + d + sum(sizes) - len(sizes) + sum(spline.n_out for spline in splines)
    ridges = np.full(dim, ridge) if isinstance(ridge, float) else ridge
    linear = linear_term * rng.normal(size=dim)
    facts = ridges, linear, weight, intercept, sizes, codes
    return Problem(loss, design, target, *facts, splines=splines)


def in_ball(made: Problem, radius: float) -> Problem:
    """Return the problem with its rows scaled into a ball, on the grid of its unit."""
    unit = replace(made, radius=radius).layout.unit
    longest = np.linalg.norm(made.design, axis=1).max()
    design = np.trunc(made.design / longest * (radius / unit) * 2.0**20) * (unit * 2.0**-20)
    scaled = replace(made, design=design, radius=radius)
    # The predictors and the ridges in units of the radius are those of a unit ball.
    ridge = made.ridge.copy()
    ridge[int(made.intercept) :] *= radius**2
    return replace(scaled, ridge=ridge, linear_term=made.linear_term * np.sqrt(ridge))


def dense_hessian(objective: Objective, theta: FloatArray) -> FloatArray:
    """Return the Hessian as one matrix, (d, d); all coordinates must be part of the core."""
    cores, matrices, diagonal = objective.hessian(theta)
    found = np.zeros((len(theta), len(theta)))
    for core, matrix in zip(cores, matrices, strict=True):
        found[np.ix_(core, core)] = matrix
    np.testing.assert_allclose(found.diagonal(), diagonal, rtol=1e-12)
    return found
