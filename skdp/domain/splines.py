"""Curves of numbers, and joint effects of two columns.

B-splines are at least 0 and add up to 1, so that an encoded number is a point of the simplex whose
corners are the indicators of levels. All bounds for columns of levels therefore hold. A number is
first rounded to one of finitely many nodes between the knots: its row of the ``table`` is then a
fixed vector, and a column is stored as positions, like a column of levels.

The products of the encoded values of two columns are a point of a simplex, as those of each column
are. So the bounds for columns of levels hold for an interaction too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from sklearn.isotonic import isotonic_regression

from skdp.domain.columns import EncodedBlock, Indicators, Levels, Number, largest_indicators
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import fail, remembered

T = TypeVar("T")
# Equal steps between two knots, to whose ends numbers are rounded.
STEPS = 32
# The penalty on differences of neighbouring coefficients, in ridges for each step between knots.
STIFFNESS, MOST_STIFF = 0.3, 1000.0
# Values of B-splines are multiples of this, and those at a node add up to exactly 1.
GRID = 2.0**-20
# Limits of an interaction: corners of its simplex, nodes, and entries of its table.
MOST_CORNERS, MOST_POSITIONS, MOST_ENTRIES = 2**13, 2**13, 2**21


@dataclass(frozen=True)
class Spline:
    """A number whose effect is a curve, for the columns of a :class:`~skdp.domain.Domain`.

    The effect of the number on the linear predictor is a spline: a piecewise polynomial with public
    knots. It is private at the cost of a column of levels.

    Parameters
    ----------
    lower, upper : float
        Bounds in the units of the column, as of a column of numbers.
    knots : int >= 0 or sequence of float, default=8
        Knots between the bounds: the number of equally spaced ones, or their positions in the units
        of the column, increasing.
    degree : {0, 1, 2, 3}, default=1
        Degree of the polynomials. 0 is a step function, 1 a continuous function that is linear
        between knots, 3 a smooth curve.
    missing : float, "middle", "indicator" or None, default=None
        Rule for missing cells, as that of a column of numbers. The argument ``missing`` of the
        domain replaces it.
    monotone : {"increasing", "decreasing"} or None, default=None
        Public knowledge about the direction of the effect on the target, or on the log-odds of
        ``classes_[1]``. The released coefficients are then replaced by the nearest ones of a curve
        that never falls, or never rises. This needs no budget. It is not possible in an
        interaction, or for more than two labels.

    Notes
    -----
    The number is encoded as ``n_knots + degree`` values: all B-splines but the first. They are at
    least 0 and add up to at most 1. Between two knots a number is rounded to one of 33 equally
    spaced nodes; with degree 0 the value is the same between two knots.

    Examples
    --------
    >>> from skdp import Domain, Spline
    >>> domain = Domain({"age": Spline(20, 80, knots=2)})
    >>> domain.encoded_names()
    ('age_40', 'age_60', 'age_80')
    >>> domain.encode([[20], [50], [75]])
    array([[0.  , 0.  , 0.  ],
           [0.5 , 0.5 , 0.  ],
           [0.  , 0.25, 0.75]])
    """

    lower: float
    upper: float
    knots: int | tuple[float, ...] = 8
    degree: int = 1
    missing: float | Literal["middle", "indicator"] | None = None
    monotone: Literal["increasing", "decreasing"] | None = None
    n_in = 1

    @property
    def n_out(self) -> int:
        """Number of encoded columns."""
        return len(self.breaks) - 2 + self.degree + (self.missing == "indicator")

    @cached_property
    def breaks(self) -> FloatArray:
        """The bounds and the knots between them, increasing."""
        inner = self.knots
        if isinstance(inner, int):
            share = np.linspace(0, 1, inner + 2)
            found = self.lower * (1 - share) + self.upper * share
            found[-1] = self.upper
            return found
        return np.array([self.lower, *inner, self.upper])

    @property
    def encoded(self) -> tuple[SplineBlock]:
        """Kinds of the encoded columns."""
        return (SplineBlock(self),)

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns: each has the place of its B-spline's peak."""
        return self.corners(names[0])[1:]

    def corners(self, name: str) -> list[str]:
        """Return the names of all B-splines, the first one included, and of a missing cell."""
        places = [f"{place:.6g}" for place in self.peaks]
        if len(set(places)) < len(places):
            places = [repr(place) for place in self.peaks.tolist()]
        missing = ["missing"] if self.missing == "indicator" else []
        return [f"{name}_{place}" for place in (*places, *missing)]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Smallest unsigned integer type of positions."""
        return np.min_scalar_type(len(self.table) - 1)

    @cached_property
    def nodes(self) -> FloatArray:
        """The numbers to which others are rounded, increasing; with degree 0 one for each step."""
        low, high = self.breaks[:-1, None], self.breaks[1:, None]
        if self.degree == 0:
            return np.asarray((low / 2 + high / 2).ravel())
        share = np.arange(STEPS) / STEPS
        return np.append((low * (1 - share) + high * share).ravel(), self.upper)

    @cached_property
    def peaks(self) -> FloatArray:
        """The mean of the inner knots of each B-spline; sum_j peak_j B_j(x) = x for degree >= 1."""
        if self.degree == 0:
            return self.nodes
        knots = self._extended
        inner = [knots[k : len(knots) - self.degree - 1 + k] for k in range(1, self.degree + 1)]
        return np.asarray(np.mean(inner, axis=0))

    @cached_property
    def _extended(self) -> FloatArray:
        """Knots, continued beyond the bounds with the first and the last distance."""
        b, steps = self.breaks, np.arange(1, self.degree + 1)
        before = b[0] - (b[1] - b[0]) * steps[::-1]
        return np.concatenate([before, b, b[-1] + (b[-1] - b[-2]) * steps])

    @cached_property
    def table(self) -> FloatArray:
        """The encoded values of each node, and of a missing cell, (positions, n_out)."""
        if isinstance(self.knots, int) and (self.lower, self.upper) != (-1.0, 1.0):
            return _of_equal_knots(self.knots, self.degree, self.missing == "indicator").table
        if self.degree == 0:
            found = np.eye(len(self.nodes))
        else:
            # The last interval is closed on the right by evaluating just inside.
            found = BSpline.design_matrix(self.nodes, self._extended, self.degree).toarray()
            found = on_grid(found)
        found = found[:, 1:]
        if self.missing != "indicator":
            return found
        own = np.zeros((len(found) + 1, found.shape[1] + 1))
        own[:-1, :-1], own[-1, -1] = found, 1.0
        return own

    @cached_property
    def penalty(self) -> FloatArray:
        """Matrix P of the penalty t'P t on coefficients t, (n_out, n_out), of whole numbers.

        It is the identity, plus squared differences of neighbouring coefficients. These count more
        the nearer the peaks of their B-splines are; the coefficient of the first one is 0.
        """
        distances = np.diff(self.peaks / (self.upper / 2 - self.lower / 2))
        share = STIFFNESS * (len(self.breaks) - 1) / len(distances)
        weights = np.clip(share * distances.sum() / distances, 1.0, MOST_STIFF)
        # Halves are rounded down, whatever the rounding errors of equal distances.
        weights = np.floor(weights + (0.5 - 1e-6))
        found, at = np.eye(self.n_out), np.arange(len(weights))
        found[at, at] += weights
        found[at[:-1], at[:-1]] += weights[1:]
        found[at[1:], at[:-1]] = found[at[:-1], at[1:]] = -weights[1:]
        return found

    def positions(self, numbers: FloatArray) -> Array:
        """Return the position of the nearest node of each number, or of its missing cell, (n,).

        A number is clipped to the bounds. The result depends on no other number.
        """
        is_missing = np.isnan(numbers)
        filled = np.where(is_missing, self._fill, numbers)
        x, breaks = np.clip(filled, self.lower, self.upper), self.breaks
        step = np.clip(np.searchsorted(breaks, x, side="right") - 1, 0, len(breaks) - 2)
        if self.degree > 0:
            low, high = breaks[step], breaks[step + 1]
            # Halves, since the difference of bounds may overflow.
            share = (x / 2 - low / 2) / (high / 2 - low / 2)
            step = step * STEPS + np.rint(share * STEPS).astype(np.intp)
        if self.missing == "indicator":
            step = np.where(is_missing, len(self.table) - 1, step)
        return step.astype(self.dtype)

    def ordered(self, coef: FloatArray, intercept: float | None) -> tuple[FloatArray, float]:
        """Return the nearest coefficients of a monotone curve, (n_out,), and the intercept.

        A curve is monotone if the coefficients of all B-splines are. Nearest is in squares that
        are weighted by the means of the B-splines over the nodes, so that the mean of the curve is
        kept. The coefficient of the first one is 0; None stands for a model without an intercept,
        which cannot move the others.
        """
        sign = -1.0 if self.monotone == "decreasing" else 1.0
        size = self.n_out - (self.missing == "indicator")
        whole = sign * np.append(0.0, coef[:size])
        if self.monotone is None or (np.diff(whole) >= 0).all():
            return coef, intercept or 0.0
        weights = self.table[: len(self.nodes), :size].mean(axis=0)
        weights = np.append(1 - weights.sum(), weights)
        if intercept is None:
            whole[1:] = isotonic_regression(whole[1:], sample_weight=weights[1:], y_min=0.0)
        else:
            whole = isotonic_regression(whole, sample_weight=weights)
        moved = sign * float(whole[0])
        # A missing cell keeps its prediction.
        found = np.append(sign * (whole[1:] - whole[0]), coef[size:] - moved)
        return found, (intercept or 0.0) + moved

    def nearest(self, block: FloatArray) -> Array:
        """Return the position whose encoded values a row has, or one of similar values, (n,)."""
        with_indicator = self.missing == "indicator"
        values = block[:, :-1] if with_indicator else block
        if self.degree == 0:
            found = np.where(values.max(axis=1) > 0.5, values.argmax(axis=1) + 1, 0)
        else:
            # Differences to the first place, because the first B-spline is left out.
            values = np.clip(values, 0.0, 1.0)
            first, moved = self.peaks[0], self.peaks[1:] - self.peaks[0]
            x = np.full(len(values), first)
            for k, own in enumerate(moved.tolist()):  # in one order for every number of rows
                x += own * values[:, k]
            found = self.positions(x)
        if with_indicator:
            found = np.where(block[:, -1] > 0.5, len(self.table) - 1, found)
        return found.astype(self.dtype)

    @property
    def _fill(self) -> float:
        if isinstance(self.missing, float):
            return self.missing
        return self.lower / 2 + self.upper / 2

    def __reduce__(self) -> tuple[object, ...]:
        # A copy computes its table anew: the table may be large.
        facts = self.lower, self.upper, self.knots, self.degree, self.missing, self.monotone
        return Spline, facts

    def __repr__(self) -> str:
        bounds = ", ".join(repr(bound).removesuffix(".0") for bound in (self.lower, self.upper))
        knots = self.knots if isinstance(self.knots, int) else list(self.knots)
        order = "" if self.monotone is None else f", monotone={self.monotone!r}"
        return f"Spline({bounds}, knots={knots}, degree={self.degree}{order})"


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
        return self.shape[0] * self.shape[1] - 1

    @property
    def encoded(self) -> tuple[SplineBlock]:
        return (SplineBlock(self),)

    def names_out(self, names: Sequence[str]) -> list[str]:
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
        kept = zip(self._columns, self._kept, strict=True)
        return on_grid(np.kron(*(_whole(column)[nodes] for column, nodes in kept)))[:, 1:]

    @property
    def penalty(self) -> FloatArray | None:
        """Matrix of the penalty on coefficients: the identity. None for indicators."""
        return None if self.is_of_levels else np.eye(self.n_out)

    def joined(self, first: Array, second: Array) -> Array:
        """Return the position of pairs of positions of the two columns, (n,)."""
        m, k = self.counts
        a, b = (near[own] for near, own in zip(self._near, (first, second), strict=True))
        found: Array = a * k + b
        return found.astype(np.min_scalar_type(m * k - 1))

    def nearest(self, block: FloatArray) -> Array:
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
    def values(self) -> tuple[FloatArray | list[object], FloatArray | list[object]]:
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


@dataclass(frozen=True)
class SplineBlock(EncodedBlock):
    """Encoded columns of a `Spline` or of an `Interaction`, with its table and its penalty."""

    spline: Spline | Interaction

    @property
    def n_in(self) -> int:  # type: ignore[override]
        return self.spline.n_out

    @property
    def table(self) -> FloatArray | None:
        """The encoded values of each position; None for indicators."""
        return self.spline.table

    @property
    def penalty(self) -> FloatArray | None:
        """Matrix of the penalty on coefficients; None for indicators."""
        return self.spline.penalty

    def positions(self, block: FloatArray) -> Array:
        """Return the position whose encoded values a row has, or one of similar values, (n,)."""
        return self.spline.nearest(block)

    def __repr__(self) -> str:
        return "spline" if isinstance(self.spline, Spline) else "interaction"


Column: TypeAlias = Number | Levels | Indicators | Spline | SplineBlock


def with_nodes(column: T | Number) -> T | Spline:
    """Return a number as the spline without knots, and any other column as it is."""
    if not isinstance(column, Number):
        return column
    return Spline(column.lower, column.upper, 0, 1, column.missing)


def as_interaction(label: str, columns: Sequence[object]) -> Interaction:
    """Return the interaction of two columns after a check of its size."""
    kept = [own for own in map(with_nodes, columns) if isinstance(own, Levels | Spline)]
    if not len(kept) == len(columns) == 2:
        raise fail(label, "be two columns of numbers, levels or splines")
    if any(getattr(own, "monotone", None) for own in kept):
        raise fail(label, "not be monotone: their effect is a surface", kept)
    found = Interaction(*kept)
    if found.steps is None:
        most = f"{MOST_CORNERS} pairs of levels or B-splines"
        table = f"a table of {MOST_POSITIONS} rows and {MOST_ENTRIES} entries"
        rule = f"have at most {most}, and {table}"
        raise fail(label, rule, "{} x {}".format(*found.shape), "Use fewer knots or levels.")
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


@remembered(maxsize=64)
def _of_equal_knots(knots: int, degree: int, indicates: bool) -> Spline:
    """Return the spline between -1 and 1, whose table others with equally spaced knots share."""
    return Spline(-1.0, 1.0, knots, degree, "indicator" if indicates else None)


def units_of(table: FloatArray) -> NDArray[np.int64]:
    """Return the values of a table in units of 2^-20."""
    return (table / GRID).astype(np.int64)


def on_grid(values: Array) -> FloatArray:
    """Return values rounded to the grid, those of a row adding up to exactly 1."""
    units = np.rint(values / GRID)
    at = units.argmax(axis=1)
    units[np.arange(len(units)), at] += 1 / GRID - units.sum(axis=1)
    return np.asarray(units * GRID)
