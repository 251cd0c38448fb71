"""The printed form of a domain: the call that builds it, shortened if it is long."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from skdp.domain._declare import Target
from skdp.domain.columns import Column, Levels, Number, listed


def describe(
    columns: Sequence[Column],
    names: Sequence[str] | None,
    target: Target,
    radius: float | None,
    estimated: Any,
) -> str:
    """Return the declaration in one line, and the cost of bounds that were estimated."""
    text = _declaration(columns, names, target, radius)
    if estimated is None:
        return text
    cost = f"epsilon = {estimated.epsilon:g}, delta = {estimated.delta:g}"
    return f"{text}, estimated with {cost}"


def _declaration(
    columns: Sequence[Column], names: Sequence[str] | None, target: Target, radius: float | None
) -> str:
    end = "" if target is None else f", target={_target_text(target)}"
    if radius is not None:
        return f"Domain.l2_ball({len(columns)}, {radius!r}{end})"
    numbers = [column for column in columns if isinstance(column, Number)]
    if names is None and all(number.is_unit for number in numbers):
        return f"Domain.unit_box({len(columns)}{end})"
    if names is None:
        lower, upper = ([getattr(n, bound) for n in numbers] for bound in ("lower", "upper"))
        return f"Domain.box([{listed(map(str, lower))}], [{listed(map(str, upper))}]{end})"
    declared = [f"{name!r}: {column!r}" for name, column in _by_name(columns, names)]
    others = [
        f"{name!r}: {column.other!r}"
        for name, column in _by_name(columns, names)
        if isinstance(column, Levels) and column.other != column.levels[0]
    ]
    middle = f", other={{{listed(others)}}}" if others else ""
    return f"Domain({{{listed(declared)}}}{end}{middle})"


def _by_name(columns: Sequence[Column], names: Sequence[str]) -> Iterator[tuple[str, Column]]:
    # A block of indicators stands for several names.
    every = (column for column in columns for _ in range(column.n_in))
    return zip(names, every, strict=True)


def _target_text(target: Number | tuple[Hashable, ...]) -> str:
    return repr(target) if isinstance(target, Number) else f"[{listed(map(repr, target))}]"
