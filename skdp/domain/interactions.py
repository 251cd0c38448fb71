"""Joint effects of two columns.

The products of the encoded values of two columns are a point of a simplex, as those of each column
are. So all bounds for columns of levels hold for an interaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain._projections import largest_indicators
from skdp.domain.columns import Column, Levels
from skdp.domain.splines import GRID, STEPS, Spline, SplineBlock, on_grid

D = TypeVar("D", bound=Any)  # a Domain, which imports this module

# Limits of an interaction: corners of its simplex, nodes, and entries of its table.
MOST_CORNERS, MOST_POSITIONS, MOST_ENTRIES = 2**13, 2**13, 2**21


@dataclass(frozen=True)
class Interaction:
    """Two columns, each of levels or a `Spline`, whose joint effect has a value for each pair.

    Its encoded values are the products of those of the two columns, the first ones included. The
    product of the first two is left out. Between two knots there are fewer nodes than for single
    columns, so that the table is small.
    """

    first: Levels | Spline
    second: Levels | Spline
    n_in = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Number of levels or B-splines of the two columns, with the first ones."""
        return self.first.n_out + 1, self.second.n_out + 1

    @property
    def n_out(self) -> int:
        """Number of encoded columns."""
        return self.shape[0] * self.shape[1] - 1

    @property
    def encoded(self) -> tuple[Any, ...]:
        """Kinds of the encoded columns."""
        return (SplineBlock(self),)

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns, from the names of the two columns."""
        first, second = self.first.corners(names[0]), self.second.corners(names[1])
        return [f"{a} x {b}" for a in first for b in second][1:]

    @cached_property
    def steps(self) -> int | None:
        """Equal steps between two knots: the most with a small table. None if all are too many."""
        if self.n_out >= MOST_CORNERS:
            return None
        for steps in (STEPS, 16, 8, 4):
            count = len(_nodes(self.first, steps)) * len(_nodes(self.second, steps))
            if self.is_of_levels or (
                count <= MOST_POSITIONS and count * self.n_out <= MOST_ENTRIES
            ):
                return steps
        return None

    @property
    def is_of_levels(self) -> bool:
        """Whether both are columns of levels, so that the encoded columns are indicators."""
        return not isinstance(self.first, Spline) and not isinstance(self.second, Spline)

    @cached_property
    def table(self) -> FloatArray | None:
        """The encoded values of the pairs of nodes, (positions, n_out); None for indicators."""
        if self.is_of_levels:
            return None
        own = [
            _whole(column)[nodes] for column, nodes in zip(self._columns, self._kept, strict=True)
        ]
        return on_grid(np.kron(own[0], own[1]))[:, 1:]

    @property
    def penalty(self) -> FloatArray | None:
        """Matrix of the penalty on coefficients: the identity. None for indicators."""
        return None if self.is_of_levels else np.eye(self.n_out)

    def joined(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return the position of pairs of positions of the two columns, (n,)."""
        m, k = self.counts
        a, b = (near[own] for near, own in zip(self._near, (first, second), strict=True))
        found: NDArray[Any] = a * k + b
        return found.astype(np.min_scalar_type(m * k - 1))

    def nearest(self, block: FloatArray) -> NDArray[Any]:
        """Return the position whose encoded values a row has, or one of similar values, (n,)."""
        if self.is_of_levels:
            return largest_indicators(block)
        # Sums of multiples of the grid are exact, in any order.
        units = np.rint(np.clip(block, 0.0, 1.0) / GRID)
        first = np.maximum(1 / GRID - units.sum(axis=1), 0.0)
        whole = np.column_stack([first, units]).reshape(-1, *self.shape) * GRID
        sums = whole.sum(axis=2)[:, 1:], whole.sum(axis=1)[:, 1:]
        places = [
            column.nearest(own) if isinstance(column, Spline) else largest_indicators(own)
            for column, own in zip(self._columns, sums, strict=True)
        ]
        return self.joined(*places)

    @property
    def counts(self) -> tuple[int, int]:
        """Number of positions of the two columns: a position of the pair is i * counts[1] + j."""
        first, second = self._kept
        return len(first), len(second)

    @property
    def values(self) -> tuple[Any, Any]:
        """Numbers of the nodes of each column, or a list of its levels, in their order."""
        first, second = (
            column.nodes[kept[kept < len(column.nodes)]]
            if isinstance(column, Spline)
            else [*column.levels, "missing"][: column.n_out + 1]
            for column, kept in zip(self._columns, self._kept, strict=True)
        )
        return first, second

    @property
    def _columns(self) -> tuple[Levels | Spline, Levels | Spline]:
        return self.first, self.second

    @cached_property
    def _kept(self) -> list[NDArray[np.intp]]:
        """The positions of each column that are nodes of the interaction."""
        return [_nodes(column, self.steps or STEPS) for column in self._columns]

    @cached_property
    def _near(self) -> list[NDArray[np.intp]]:
        """For each position of a column the nearest of those that are kept."""
        return [
            np.searchsorted((kept[:-1] + kept[1:]) / 2, np.arange(kept[-1] + 1))
            for kept in self._kept
        ]

    def __reduce__(self) -> tuple[object, ...]:
        return Interaction, self._columns  # without the table


def interact(self: D, first: str, second: str) -> D:
    """Return the domain with a joint effect of two columns in the place of their own effects.

    Two columns of levels have an effect for each pair of levels, a column of levels and a
    :class:`~skdp.domain.Spline` have a curve for each level, and two splines have a surface. It
    contains the sum of two separate effects. Call the method again for another pair. A column may
    be in several pairs.

    Parameters
    ----------
    first, second : str
        Names of two columns, each of levels or a `Spline`. Columns without names are x0, x1, ...

    Returns
    -------
    Domain
        Its tables have the same columns. With m and k levels or B-splines the two columns are
        encoded as m k - 1 columns, at the privacy cost of a column of m k levels.

    Raises
    ------
    ValueError
        If a name is not that of such a column, the pair was declared before, or m k is too large.

    Notes
    -----
    The encoded values are the products of those of the two columns, rounded to multiples of 2^-20
    such that all add up to 1. Numbers are rounded to fewer nodes than in a single column: between
    two knots 32, 16, 8 or 4 steps, the most with a table of at most 2^13 rows and 2^21 entries.

    Examples
    --------
    >>> from skdp import Domain, Spline
    >>> domain = Domain({"age": Spline(20, 80, knots=0), "sex": ["f", "m"]})
    >>> domain = domain.interact("age", "sex")
    >>> domain
    Domain({'age': Spline(20, 80, knots=0, degree=1), 'sex': ['f', 'm']}).interact('age', 'sex')
    >>> domain.encoded_names()
    ('age_20 x sex_m', 'age_80 x sex_f', 'age_80 x sex_m')
    >>> domain.encode([[35, "f"], [35, "m"]])
    array([[0.  , 0.25, 0.  ],
           [0.75, 0.  , 0.25]])
    """
    columns = [column for column in self._columns for _ in range(column.n_in)]
    declared = dict(zip(self._labels, columns, strict=True))
    kept = [name for name, own in declared.items() if isinstance(own, Levels | Spline)]
    for name in (first, second):
        if name not in kept:
            rule = f"be names of columns of levels or splines, which are {kept}"
            remedy = "Declare a number as a Spline, or use domain.additive()."
            raise fail("first and second", rule, name, remedy)
    places = sorted(list(declared).index(name) for name in (first, second))
    pair = places[0], places[1]
    if first == second or pair in self._pairs:
        raise fail("first and second", "be a new pair of two columns", [first, second])
    as_interaction(f"columns {first!r} and {second!r}", [columns[place] for place in pair])
    pairs = tuple(sorted((*self._pairs, pair)))
    built: D = self._build(self._columns, self._names, self._target, None, pairs, self.estimated)
    return built


def as_interaction(label: str, columns: Sequence[Column]) -> Interaction:
    """Return the interaction of two columns after a check of its size."""
    kept = [own for own in columns if isinstance(own, Levels | Spline)]
    if not len(kept) == len(columns) == 2:
        raise fail(label, "be two columns of levels or splines")
    found = Interaction(*kept)
    if found.steps is None:
        most = f"{MOST_CORNERS} pairs of levels or B-splines"
        table = f"a table of {MOST_POSITIONS} rows and {MOST_ENTRIES} entries"
        rule = f"have at most {most}, and {table}"
        raise fail(label, rule, "{} x {}".format(*found.shape), "Take fewer knots or levels.")
    return found


def _nodes(column: Levels | Spline, steps: int) -> NDArray[np.intp]:
    """Return the positions of a column that are nodes with so many steps between two knots."""
    if not isinstance(column, Spline):
        return np.arange(column.n_out + 1)
    count = len(column.nodes)
    kept = np.arange(0, count, STEPS // steps if column.degree else 1)
    return np.append(kept, count) if column.missing == "indicator" else kept


def _whole(column: Levels | Spline) -> NDArray[np.float64]:
    """Return the values of all levels or B-splines at each position, the first ones included."""
    if not isinstance(column, Spline):
        return np.eye(column.n_out + 1)
    return np.column_stack([1 - column.table.sum(axis=1), column.table])
