"""The printed form of a domain, and its form as a dict or as JSON text.

The printed form is the call that builds the domain, shortened if it is long.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Optional, Self, cast

from skdp._checks import fail
from skdp._codec import VERSION, decode, document, encode, from_text, is_plain, to_text
from skdp.domain import declaration as _declare
from skdp.domain.columns import UNIT, Levels, Number, listed
from skdp.domain.declaration import Target
from skdp.domain.splines import Column, Interaction, Spline, SplineBlock, as_interaction

# The entries of a file. A column has its name, or the names of its block, besides.
_HINTS = {
    "columns": list[dict[str, Any]],
    "target": Number | tuple[Hashable, ...] | None,
    "radius": float | None,
    "interactions": list[tuple[str, str]],
    "estimated": Optional["Guarantee"],  # noqa: F821 - domains do not import guarantees
}


class Described:
    """Methods of a domain that print it, and that write and read it."""

    def __repr__(self: Any) -> str:
        """Return the declaration in one line, and the cost of bounds that were estimated."""
        text = _declaration(self._columns, self._names, self._target, self._radius)
        text += "".join(f".interact({', '.join(map(repr, pair))})" for pair in _pairs(self))
        estimated = self.estimated
        if estimated is None:
            return text
        cost = f"epsilon = {estimated.epsilon:g}, delta = {estimated.delta:g}"
        unit = " per person" if estimated.unit == "person" else ""
        return f"{text}, estimated with {cost}{unit}"

    def to_dict(self: Any) -> dict[str, Any]:
        """Return the domain as a dict of strings, numbers, bools, lists and None.

        Returns
        -------
        dict
            `from_dict` returns an equal domain, with levels of the same types.

        Raises
        ------
        ValueError
            If a level is not a string, a finite number or a bool. The message names the column.

        Examples
        --------
        >>> from skdp import Domain
        >>> domain = Domain({"age": (17, 90), "sex": ["Female", "Male"]}, target=[0, 1])
        >>> for key, value in domain.to_dict().items():
        ...     print(key, "-", value)
        kind - Domain
        version - 1
        columns - [{'name': 'age', 'kind': 'Number', 'lower': 17.0, 'upper': 90.0, 'missing': None},
            {'name': 'sex', 'kind': 'Levels', 'levels': ['Female', 'Male'], 'other': 'Female',
             'missing': None}]
        target - [0, 1]
        radius - None
        interactions - []
        estimated - None
        >>> Domain.from_dict(domain.to_dict()) == domain
        True
        """
        labels, columns = iter(self._labels), []
        for place, column in enumerate(self._columns):
            names = [next(labels) for _ in range(column.n_in)]
            label = _declare.label_of(names[0] if names else place)
            _check_levels(label, column)
            own = None if self._names is None else names[0] if len(names) == 1 else names
            columns.append({"name": own, **encode(label, column)})
        _check_levels("the target", self._target)
        return {
            "kind": "Domain",
            "version": VERSION,
            "columns": columns,
            "target": encode("the target", self._target),
            "radius": self._radius,
            "interactions": _pairs(self),
            "estimated": encode("estimated", self.estimated),
        }

    def to_json(self: Any) -> str:
        """Return the domain as JSON text; see `to_dict`."""
        return to_text(self.to_dict()) + "\n"

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the domain of a dict.

        Parameters
        ----------
        content : dict
            A result of `to_dict`.

        Returns
        -------
        Domain

        Raises
        ------
        ValueError
            If an entry is unknown, missing or of another type, or the declaration is invalid.
        """
        name, domain = "the domain", cast(Any, cls)
        found = document(name, _HINTS, content, ("Domain",))
        read = [_column(place, part) for place, part in enumerate(found["columns"])]
        columns, names = tuple(column for column, _ in read), [own for _, own in read]
        named = None
        if any(own is not None for own in names):
            if None in names:
                raise fail(name, "have a name for every column, or for none")
            named = _declare.as_names([one for own in names for one in own or ()])
        target, joined, radius = found["target"], found["interactions"], found["radius"]
        if isinstance(target, Number):
            target = _checked("the target", target)
            if target.missing is not None:
                raise fail("the target: missing", "be null", target.missing)
        elif target is not None:
            target = _declare.as_levels("the target", target)
        if radius is None:
            if not columns:
                raise fail(name, "have at least one column")
            built = domain._build(columns, named, target, None, (), found["estimated"])
            return cast(Self, reduce(lambda built, pair: built.interact(*pair), joined, built))
        ball = domain.l2_ball(max(1, len(columns)), radius)
        if named is not None or columns != ball._columns or joined:
            raise fail(name, "have columns with the bounds -radius and radius, without names")
        return cast(Self, domain._build(columns, None, target, radius, (), found["estimated"]))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the domain of JSON text; see `from_dict`."""
        return cls.from_dict(from_text("the domain", text))


def _declaration(
    columns: Sequence[Column], names: Sequence[str] | None, target: Target, radius: float | None
) -> str:
    shown = f"[{listed(map(repr, target))}]" if isinstance(target, tuple) else repr(target)
    end = "" if target is None else f", target={shown}"
    if radius is not None:
        return f"Domain.l2_ball({len(columns)}, {radius!r}{end})"
    numbers = [column for column in columns if isinstance(column, Number)]
    end += _missing_text(columns, names)
    if names is None and len(numbers) < len(columns):
        names = [f"x{k}" for k in range(len(columns))]  # of splines; only names are shown
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


def _pairs(domain: Any) -> list[list[str]]:
    """Return the names of the two columns of each interaction."""
    return [[domain._labels[place] for place in pair] for pair in domain._pairs]


def _column(place: int, part: dict[str, Any]) -> tuple[Column, list[str] | None]:
    """Return a column, and its names or None."""
    given = part.get("name")
    label = _declare.label_of(given if isinstance(given, str) else place)
    if "name" not in part:
        raise fail(label, "have the entry 'name'")
    own = {key: value for key, value in part.items() if key != "name"}
    column = _checked(label, decode(label, Column, own))
    names = decode(f"{label}: name", str | list[str] | None, given)
    names = [names] if isinstance(names, str) else names
    if column.n_in != (1 if names is None else len(names)):
        raise fail(f"{label}: name", f"be {column.n_in} names")
    return column, names


def _checked(label: str, column: Any) -> Any:
    """Return a column of a file after the checks of a declaration."""
    if isinstance(column, SplineBlock):
        return SplineBlock(_checked(label, column.spline))
    if isinstance(column, Interaction):
        pair = [_checked(label, own) for own in (column.first, column.second)]
        return as_interaction(label, pair)
    if isinstance(column, Spline):
        return _declare.as_spline(label, column)
    found: Column
    if isinstance(column, Number):
        found = _declare.as_number(label, (column.lower, column.upper))
    elif isinstance(column, Levels):
        levels = [*column.levels]
        found = _declare.as_column(label, levels, {label: column.other}, label)
    else:
        return column
    rule = column.missing
    return found if rule is None else _declare.with_rule(f"{label}: missing", found, rule)


def _check_levels(label: str, declared: Any) -> None:
    """Raise an error unless a file can hold the levels of a column or target."""
    levels = getattr(declared, "levels", declared if isinstance(declared, tuple) else ())
    for level in levels:
        if not is_plain(level):
            rule = "have levels that are strings, finite numbers or bools, to be exported"
            raise fail(label, rule, level, "Declare its levels as strings.")
