"""Domains made of others: of some of the columns, and of columns that were estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skdp._checks import fail
from skdp.domain._declaration.declare import Pairs
from skdp.domain.columns import Column, Number
from skdp.domain.domain import Domain
from skdp.domain.interactions import Interaction


def subset(
    domain: Domain, columns: Sequence[str] | None, target: str | None
) -> tuple[Domain, list[int], int | None]:
    """Return the domain of some columns and a target, and their positions.

    Parameters
    ----------
    domain : Domain
    columns : sequence of str or None
        Declared columns; columns without names are x0, x1, ... A block of indicators can only be
        chosen as a whole, and so can the columns of an interaction. None takes all columns but the
        target.
    target : str or None
        A column of numbers without a rule for missing cells, which would be wrong values of a
        target. None takes the target of the domain.

    Returns
    -------
    Domain
    list of int
        Positions of the chosen columns among the encoded columns, in the domain's order.
    int or None
        Position of the target among the encoded columns; None for the target of the domain.
    """
    names = domain._labels
    known = set(names)
    if isinstance(columns, str):
        raise fail("columns", "be a list of names", columns, f"Write [{columns!r}].")
    asked = known - {target} if columns is None else set(columns)
    strangers = sorted(map(str, (asked | ({target} - {None})) - known))
    if strangers:
        got = strangers if isinstance(columns, list | tuple | set | None) else columns
        raise fail("columns", "be declared columns", got, f"Declared are {list(names)}.")
    if not asked or target in asked:
        raise fail("columns", "hold a column, and not the target", sorted(asked))
    kept, places, pairs = _kept(domain, names, asked)
    own, place = _target(domain, names, target)
    if domain.is_ball and target is not None:
        raise fail("target", "be None for rows in a ball", target, "Its columns have no bounds.")
    kept_names = tuple(n for n in names if n in asked) if domain.names else None
    found = Domain._build(kept, kept_names, own, domain.radius, pairs, domain.estimated)
    return found, places, place


def with_estimate(domain: Domain, guarantee: Any) -> Domain:
    """Return the same domain with the guarantee of a release of its bounds or levels."""
    return Domain._build(*domain._key(), guarantee)


def _kept(
    domain: Domain, names: tuple[str, ...], asked: set[str]
) -> tuple[tuple[Column, ...], list[int], Pairs]:
    """Return the kept columns, their encoded columns, and the pairs with an interaction."""
    places: list[int] = []
    pairs: list[tuple[int, int]] = []
    new = [name for name in names if name in asked]
    for column, read, write in domain._layout.placed:
        within = asked.intersection(names[read])
        if not within:
            continue
        if len(within) < column.n_in:
            remedy = f"Give all of {list(names[read])}."
            rule = "hold all indicators of a block, both columns of an interaction, or none"
            raise fail("columns", rule, sorted(within), remedy)
        if isinstance(column, Interaction):
            first, second = map(new.index, names[read])
            pairs.append((first, second))
        places.extend(range(write.start, write.stop))
    kept = (column for column, read in domain._layout.declared if asked.intersection(names[read]))
    return tuple(kept), places, tuple(pairs)


def _target(
    domain: Domain, names: tuple[str, ...], target: str | None
) -> tuple[object, int | None]:
    if target is None:
        return domain._target, None
    for column, read, write in domain._layout.placed:
        if target in names[read] and isinstance(column, Number):
            if column.missing is not None:
                remedy = "Its missing cells were released as numbers: declare it without a rule."
                rule = "be a column without a rule for missing cells"
                raise fail("target", rule, target, remedy)
            return column, write.start
    raise fail("target", "be a column of numbers", target, "Levels cannot be regressed on.")
