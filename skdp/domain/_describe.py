"""The printed form of a domain: the call that builds it, shortened if it is long."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from skdp.domain._declare import Target
from skdp.domain.columns import UNIT, Column, Levels, Number, listed


def describe(
    columns: Sequence[Column], names: Sequence[str] | None, target: Target, radius: float | None
) -> str:
    """Return the declaration in one line."""
    end = "" if target is None else f", target={_target_text(target)}"
    if radius is not None:
        return f"Domain.l2_ball({len(columns)}, {radius!r}{end})"
    numbers = [column for column in columns if isinstance(column, Number)]
    end += _missing_text(columns, names)
    if names is None and all(number == UNIT for number in numbers):
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


def _missing_text(columns: Sequence[Column], names: Sequence[str] | None) -> str:
    pairs = enumerate(columns) if names is None else _by_name(columns, names)
    rules = {key: rule for key, c in pairs if (rule := getattr(c, "missing", None)) is not None}
    if not rules:
        return ""
    if len(rules) == len(columns) and set(rules.values()) == {"indicator"}:
        return ", missing='indicator'"
    return f", missing={{{listed(f'{key!r}: {rule!r}' for key, rule in rules.items())}}}"


def _by_name(columns: Sequence[Column], names: Sequence[str]) -> Iterator[tuple[str, Column]]:
    # A block of indicators stands for several names.
    every = (column for column in columns for _ in range(column.n_in))
    return zip(names, every, strict=True)


def _target_text(target: Number | tuple[Hashable, ...]) -> str:
    return repr(target) if isinstance(target, Number) else f"[{listed(map(repr, target))}]"
