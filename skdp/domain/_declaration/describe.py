"""The printed form of a domain, and its form as a dict or as JSON text.

The printed form is the call that builds the domain, shortened if it is long.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import reduce
from importlib import import_module
from typing import Any, Self, cast

from skdp._checks import fail
from skdp._json import VERSION, as_floats, check_keys, check_list, entries, from_text, is_plain
from skdp._json import to_text as json_of
from skdp.domain._declaration import declare as _declare
from skdp.domain._declaration.declare import Target
from skdp.domain.columns import UNIT, Column, Indicators, Levels, Number, listed
from skdp.domain.interactions import Interaction, as_interaction
from skdp.domain.splines import Spline, SplineBlock

# What is declared of a spline.
_SPLINE = ("bounds", "knots", "degree", "missing")


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
        columns - [{'name': 'age', 'bounds': [17.0, 90.0], 'missing': None},
            {'name': 'sex', 'levels': ['Female', 'Male'], 'other': 'Female', 'missing': None}]
        target - {'levels': [0, 1]}
        radius - None
        estimated - None
        >>> Domain.from_dict(domain.to_dict()) == domain
        True
        """
        names = iter(self._labels)
        labels = [[next(names) for _ in range(column.n_in)] for column in self._columns]
        columns = [
            _column_entries(column, own, self._names is not None)
            for column, own in zip(self._columns, labels, strict=True)
        ]
        found = {
            "kind": "Domain",
            "version": VERSION,
            "columns": columns,
            "target": self._target and _target_entries("the target", self._target),
            "radius": self._radius,
            "estimated": self.estimated and self.estimated.to_dict(),
        }
        return found | ({"interactions": _pairs(self)} if self._pairs else {})

    def to_json(self: Any) -> str:
        """Return the domain as JSON text; see `to_dict`."""
        return json_of(self.to_dict()) + "\n"

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
        keys = "columns", "target", "radius", "estimated"
        found = check_keys(name, entries(name, content, ("Domain",)), keys, ("interactions",))
        joined = _checked_pairs(found.get("interactions", []))
        declared = check_list("the domain's columns", found["columns"], dict)
        pairs = [_column(place, part) for place, part in enumerate(declared)]
        columns = tuple(column for _, column in pairs)
        names = [own for own, _ in pairs]
        named = None
        if any(own is not None for own in names):
            if None in names:
                raise fail(name, "have a name for every column, or for none")
            named = _declare.as_names([one for own in names for one in own or ()])
        target, radius = found["target"], found["radius"]
        if target is not None:
            target = _declare_target(target)
        estimated = found["estimated"]
        if estimated is not None:
            # By name: domains do not depend on guarantees.
            estimated = import_module("skdp.privacy").Guarantee.from_dict(estimated)
        if radius is None:
            if not columns:
                raise fail(name, "have at least one column")
            built = domain._build(columns, named, target, None, (), estimated)
            return cast(Self, reduce(lambda built, pair: built.interact(*pair), joined, built))
        radius = float(as_floats("radius", radius, ()))
        ball = domain.l2_ball(max(1, len(columns)), radius)
        if named is not None or columns != ball._columns or joined:
            raise fail(name, "have columns with the bounds -radius and radius, without names")
        return cast(Self, domain._build(columns, None, target, radius, (), estimated))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the domain of JSON text; see `from_dict`."""
        return cls.from_dict(from_text("the domain", text))


def _declaration(
    columns: Sequence[Column], names: Sequence[str] | None, target: Target, radius: float | None
) -> str:
    end = "" if target is None else f", target={_target_text(target)}"
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


def _target_text(target: Number | tuple[Hashable, ...]) -> str:
    return repr(target) if isinstance(target, Number) else f"[{listed(map(repr, target))}]"


def _column_entries(column: Column, names: list[str], named: bool) -> dict[str, Any]:
    """Return what is declared of a column. `_column` reads it back."""
    if isinstance(column, Indicators):
        return {"indicators": names}
    if isinstance(column, SplineBlock):
        spline = column.spline
        if isinstance(spline, Spline):
            return {"splines": names} | _spline_entries(spline)
        own = [_column_entries(single, [""], False) for single in (spline.first, spline.second)]
        return {"splines": names, "interaction": own}
    found: dict[str, Any] = {"name": names[0] if named else None}
    if isinstance(column, Spline):
        return found | _spline_entries(column)
    found |= _target_entries(_declare.label_of(names[0]), _declared(column))
    if isinstance(column, Levels):
        found["other"] = column.other
    return found | {"missing": column.missing}


def _column(place: int, part: dict[str, Any]) -> tuple[list[str] | None, Column]:
    """Return the names of a column, or None, and the column."""
    name = part.get("name")
    label = _declare.label_of(place if name is None else name)
    if "indicators" in part:
        check_keys(label, part, ("indicators",))
        names = check_list("indicators", part["indicators"], str)
        return names, Indicators(len(names))
    if "splines" in part:
        own = ("interaction",) if "interaction" in part else _SPLINE
        check_keys(label, part, ("splines", *own))
        names = check_list("splines", part["splines"], str)
        block = SplineBlock(_of_two(label, part) if own != _SPLINE else _spline(label, part))
        if len(names) != block.n_in:
            raise fail(label, f"have {block.n_in} names of encoded columns", len(names))
        return names, block
    named = None if name is None else [name]
    if "knots" in part:
        check_keys(label, part, ("name", *_SPLINE))
        return named, _spline(label, part)
    column: Column
    if "bounds" in part:
        check_keys(label, part, ("name", "bounds", "missing"))
        column = _declare.as_number(label, _pair(label, part))
    else:
        check_keys(label, part, ("name", "levels", "other", "missing"))
        levels = _checked_levels(label, part["levels"])
        column = _declare.as_column(label, levels, {label: part["other"]}, label)
    rule = part["missing"]
    return named, column if rule is None else _declare.with_rule(f"{label}: missing", column, rule)


def _pairs(domain: Any) -> list[list[str]]:
    """Return the names of the two columns of each interaction."""
    return [[domain._labels[place] for place in pair] for pair in domain._pairs]


def _checked_pairs(pairs: Any) -> list[list[str]]:
    name = "the domain's interactions"
    for pair in check_list(name, pairs, list):
        if len(check_list(name, pair, str)) != 2:
            raise fail(name, "be pairs of names of columns", pair)
    return list(pairs)


def _of_two(label: str, part: dict[str, Any]) -> Interaction:
    parts = check_list(f"{label}: interaction", part["interaction"], dict)
    columns = [_column(place, own)[1] for place, own in enumerate(parts)]
    return as_interaction(label, columns)


def _spline_entries(spline: Spline) -> dict[str, Any]:
    knots = spline.knots if isinstance(spline.knots, int) else list(spline.knots)
    values = [spline.lower, spline.upper], knots, spline.degree, spline.missing
    return dict(zip(_SPLINE, values, strict=True))


def _spline(label: str, part: dict[str, Any]) -> Spline:
    bounds, knots = _pair(label, part), part["knots"]
    if isinstance(knots, list):
        knots = tuple(as_floats(f"{label}: knots", knots, (len(knots),)).tolist())
    return _declare.as_spline(label, Spline(*bounds, knots, part["degree"], part["missing"]))


def _declared(column: Number | Levels) -> Number | tuple[Hashable, ...]:
    return column.levels if isinstance(column, Levels) else column


def _target_entries(label: str, target: Number | tuple[Hashable, ...]) -> dict[str, Any]:
    if isinstance(target, Number):
        return {"bounds": [target.lower, target.upper]}
    return {"levels": _checked_levels(label, list(target))}


def _declare_target(part: Any) -> Target:
    own = "bounds" if isinstance(part, dict) and "bounds" in part else "levels"
    check_keys("the target", part, (own,))
    if own == "bounds":
        return _declare.as_target(_pair("the target", part))
    return _declare.as_target(_checked_levels("the target", part[own]))


def _pair(label: str, part: dict[str, Any]) -> tuple[float, float]:
    lower, upper = as_floats(f"{label}: bounds", part["bounds"], (2,)).tolist()
    return lower, upper


def _checked_levels(label: str, levels: Any) -> list[Any]:
    """Return a list of levels that JSON can hold."""
    for level in check_list(f"{label}: levels", levels, object):
        if not is_plain(level):
            rule = "have levels that are strings, finite numbers or bools, to be exported"
            raise fail(label, rule, level, "Declare its levels as strings.")
    return list(levels)
