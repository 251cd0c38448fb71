"""Domains with other effects of their columns: curves of numbers, and joint effects of two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skdp._checks import fail
from skdp.domain._declaration.declare import as_spline, label_of
from skdp.domain.columns import Column, Levels, Number
from skdp.domain.splines import (
    MOST_CORNERS,
    MOST_ENTRIES,
    MOST_POSITIONS,
    Interaction,
    Spline,
)


def additive(
    self: Any,
    *,
    knots: int = 8,
    degree: int = 3,
    columns: Iterable[str] | None = None,
) -> Any:
    """Return the domain with a curve in the place of the linear effect of each number.

    Parameters
    ----------
    knots : int >= 0, default=8
        Equally spaced knots between the bounds of each column.
    degree : {0, 1, 2, 3}, default=3
        Degree of the polynomials between knots.
    columns : iterable of str, default=None
        Names of columns of numbers. None stands for all.

    Returns
    -------
    Domain
        Its columns are :class:`~skdp.domain.Spline` where they were numbers. Rules for missing
        cells, the other columns and the target are the same.

    Raises
    ------
    ValueError
        If the domain bounds the length of rows, or a name is not that of a column of numbers.

    Examples
    --------
    >>> from skdp import Domain
    >>> Domain({"age": (17, 90), "sex": ["f", "m"]}).additive(knots=4)
    Domain({'age': Spline(17, 90, knots=4, degree=3), 'sex': ['f', 'm']})
    """
    if self.is_ball:
        rule, remedy = "bound every column to have curves", "Declare it by Domain.box."
        raise fail("the domain", rule, None, remedy)
    placed = [(self._labels[read.start], column) for column, read in self._layout.declared]
    numbers = [name for name, column in placed if isinstance(column, Number)]
    if isinstance(columns, str):
        raise fail("columns", "be a list of names", columns, f"Write [{columns!r}].")
    chosen = set(numbers if columns is None else columns)
    if strangers := sorted(map(str, chosen - set(numbers))):
        raise fail("columns", f"be names of columns of numbers, {numbers}", strangers)
    found = tuple(
        as_spline(label_of(name), Spline(c.lower, c.upper, knots, degree, c.missing))
        if isinstance(c, Number) and name in chosen
        else c
        for name, c in placed
    )
    return self._build(found, self._names, self._target, None, self.estimated, self._pairs)


def interact(self: Any, first: str, second: str) -> Any:
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
    return self._build(self._columns, self._names, self._target, None, self.estimated, pairs)


def as_interaction(label: str, columns: Sequence[Column]) -> Interaction:
    """Return the interaction of two columns after a check of its size."""
    if len(columns) != 2 or not all(isinstance(own, Levels | Spline) for own in columns):
        raise fail(label, "be two columns of levels or splines")
    found = Interaction(*columns)
    if found.steps is None:
        most = f"{MOST_CORNERS} pairs of levels or B-splines"
        table = f"a table of {MOST_POSITIONS} rows and {MOST_ENTRIES} entries"
        rule = f"have at most {most}, and {table}"
        raise fail(label, rule, "{} x {}".format(*found.shape), "Take fewer knots or levels.")
    return found
