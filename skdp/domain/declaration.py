"""Checks of declarations, and their conversion to columns and targets.

Declarations are public, and error messages contain them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from skdp._checks import check_count, fail
from skdp.domain.columns import Levels, Number, is_missing
from skdp.domain.splines import Column, Spline

Target: TypeAlias = Number | tuple[Hashable, ...] | None

# Half a range and its inverse must both be normal numbers, with room for one more halving.
SMALLEST_HALF_RANGE = 4 * sys.float_info.min
# Limits of splines: positions of nodes then need at most two bytes, and knots beyond the bounds
# and their sums are finite.
MOST_KNOTS, MOST_DEGREE, MOST_BOUND = 100, 3, 1e300
# Rules for missing cells in place of a number.
_WORDS = ("indicator", "middle")


def label_of(name: str | int) -> str:
    """Return the text for a column in an error message, from its name or position."""
    return f"column {name!r}"


def as_number(name: str, pair: object) -> Number:
    """Return a pair of bounds as a `Number`; ``name`` starts the error message."""
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(_is_real, pair)):
        raise fail(
            name,
            "have a pair of real numbers (lower, upper) as its bounds",
            pair,
            "Levels are given as a list, [first, second, ...].",
        )
    lower, upper = map(_as_float, pair)
    if not (math.isfinite(lower) and math.isfinite(upper)):
        raise fail(name, "have finite bounds", pair, "Choose bounds from public knowledge.")
    if not lower < upper:
        raise fail(name, "have lower < upper", pair, "A constant column can be left out.")
    number = Number(lower, upper)
    if number.half_range < SMALLEST_HALF_RANGE:
        raise fail(
            name, f"have bounds at least {2 * SMALLEST_HALF_RANGE:.1g} apart", pair, "Rescale it."
        )
    return number


def as_levels(name: str, levels: object) -> tuple[Hashable, ...]:
    """Return a sequence of levels as a tuple of plain Python objects."""
    unordered = isinstance(levels, (str, bytes, Mapping, set, frozenset))
    unordered |= isinstance(levels, np.ndarray) and not levels.ndim
    if unordered or not isinstance(levels, Iterable):
        raise fail(
            name,
            "be declared as a tuple of bounds or a list of levels",
            levels,
            "Write (lower, upper) or [first, second, ...]; the order of levels matters.",
        )
    found = tuple(x.item() if isinstance(x, np.generic) else x for x in levels)
    if not found:
        raise fail(name, "have at least one level", levels, "Name the levels, or leave it out.")
    seen: set[Hashable] = set()
    for level in found:
        if not isinstance(level, Hashable):
            raise fail(name, "have hashable levels", type(level), "Use strings or numbers.")
        if is_missing(level):
            raise fail(
                name, "have levels that are not missing values", level, "Use `other` instead."
            )
        if level in seen:
            raise fail(
                name,
                "have levels that differ (1, 1.0 and True are the same level)",
                level if type(levels) is list else None,  # an array may be a private column
                "Write each public level once, in a list.",
            )
        seen.add(level)
    return found


def as_column(name: str, declared: object, other: Mapping[str, Any], key: str) -> Column:
    """Return the column that ``declared`` describes: a tuple is bounds, a list is levels."""
    if isinstance(declared, tuple):
        return as_number(name, declared)
    if isinstance(declared, Spline):
        return as_spline(name, declared)
    levels = as_levels(name, declared)
    _refuse_range(name, levels, type(declared) is list)
    fallback = other.get(key, levels[0])
    if fallback not in levels:
        named = f" {list(levels)}" if type(declared) is list else ""  # an array may be private
        raise fail(f"other[{key!r}]", f"be one of the levels{named}", fallback)
    # The declared object: 1 given for the level True is stored as True.
    return Levels(levels, levels[levels.index(fallback)])


def as_spline(name: str, declared: Spline) -> Spline:
    """Return a checked spline, with its knots between the bounds as floats."""
    number = as_number(name, (declared.lower, declared.upper))
    knots: Any = declared.knots
    for bound in (number.lower, number.upper):
        if abs(bound) > MOST_BOUND:
            raise fail(f"{name}: bounds", f"be at most {MOST_BOUND:g} in size for a spline", bound)
    degree: Any = declared.degree
    is_whole = type(degree) is not bool and isinstance(degree, Integral)
    if not (is_whole and 0 <= degree <= MOST_DEGREE):
        raise fail(f"{name}: degree", f"be 0, 1, 2 or {MOST_DEGREE}", declared.degree)
    if type(knots) is not bool and isinstance(knots, Integral):
        knots = check_count(f"{name}: knots", knots, 0)
        count = knots
    else:
        places = as_vector(f"{name}: knots", knots)
        rule = "be a number of knots, or increasing numbers between the bounds"
        ends = [number.lower, *map(_as_float, filter(_is_real, places)), number.upper]
        if len(ends) < len(places) + 2 or not all(a < b for a, b in pairwise(ends)):
            raise fail(f"{name}: knots", rule, knots)
        knots, count = tuple(ends[1:-1]), len(places)
    if count > MOST_KNOTS:
        raise fail(f"{name}: knots", f"be at most {MOST_KNOTS}", count)
    if count + declared.degree == 0:
        raise fail(f"{name}: knots", "be at least 1 for degree 0", count)
    found = Spline(number.lower, number.upper, knots, int(declared.degree))
    if not (np.diff(found.breaks) >= 2 * SMALLEST_HALF_RANGE).all():
        raise fail(f"{name}: knots", "be farther apart", declared.knots)
    if declared.missing is None:
        return found
    ruled = with_rule(name, found, declared.missing)
    assert isinstance(ruled, Spline)
    return ruled


def _refuse_range(name: str, levels: tuple[Hashable, ...], is_shown: bool) -> None:
    """Raise for two numbers that are more likely the ends of a range than codes of levels."""
    if len(levels) != 2 or not all(map(_is_real, levels)):
        return
    lower, upper = sorted(map(_as_float, levels))
    if upper - lower > 2:
        ends, got = (f"({lower:g}, {upper:g})", [*levels]) if is_shown else ("(lower, upper)", None)
        remedy = (
            f"Write {ends} for the numbers of a range, with round brackets."
            " Two such levels can be declared as strings, or with a third that does not occur."
        )
        raise fail(name, "not have two distant numbers as its levels", got, remedy)


def as_columns(
    columns: object, other: object, missing: object
) -> tuple[tuple[str, ...], tuple[Column, ...]]:
    """Return the names and the columns that a dict declares."""
    if not isinstance(columns, Mapping) or not columns:
        remedy = 'Write Domain({"age": (17, 90), "sex": ["Female", "Male"]}).'
        raise fail("columns", "be a dict with at least one column", columns, remedy)
    names = as_names(columns)
    if not isinstance(other, Mapping):
        raise fail("other", "be a dict from column names to levels", other)
    with_levels = [name for name in names if not isinstance(columns[name], tuple | Spline)]
    for name in other:
        if name not in with_levels:
            raise fail("other", f"name only columns of levels, which are {with_levels}", name)
    declared = [as_column(label_of(n), columns[n], other, n) for n in names]
    return names, with_rules(declared, names, missing)


def as_numbers(
    lower: Any, upper: Any, names: Iterable[str] | None, missing: object
) -> tuple[tuple[str, ...] | None, tuple[Column, ...]]:
    """Return the names, or None, and the columns of numbers that arrays of bounds declare."""
    lows, highs = as_vector("lower", lower), as_vector("upper", upper)
    if len(lows) != len(highs):
        rule = f"have as many entries as lower, which has {len(lows)}"
        raise fail("upper", rule, len(highs), "Give both bounds for every column.")
    check_count("the number of columns", len(lows))
    named = None if names is None else as_names(names)
    if named is not None and len(named) != len(lows):
        raise fail("names", f"have {len(lows)} entries, one for each column", len(named))
    keys = range(len(lows)) if named is None else named
    bounds = zip(map(label_of, keys), lows, highs, strict=True)
    numbers = [as_number(label, (low, high)) for label, low, high in bounds]
    return named, with_rules(numbers, keys, missing)


def with_rules(
    columns: Sequence[Column], keys: Sequence[str | int], missing: object
) -> tuple[Column, ...]:
    """Return the columns with the rules for missing cells, one for all columns or a dict."""
    if missing is None:
        return tuple(columns)
    declared = dict(zip(keys, columns, strict=True))
    if not isinstance(missing, Mapping):
        if not (_is_real(missing) or (isinstance(missing, str) and missing in _WORDS)):
            rule = 'be "indicator", "middle", a number, or a dict from columns to these'
            raise fail("missing", rule, missing)
        # Levels have one rule: the others are for numbers only.
        kinds = Number | Spline | Levels if missing == "indicator" else Number | Spline
        ruled = [key for key, column in declared.items() if isinstance(column, kinds)]
        missing = dict.fromkeys(ruled, missing)
    for key in missing:
        if key not in declared:
            raise fail("missing", f"name only declared columns, which are {list(declared)}", key)
    return tuple(
        with_rule(f"missing[{key!r}]", column, missing[key]) if key in missing else column
        for key, column in declared.items()
    )


def with_rule(name: str, column: Column, rule: Any) -> Column:
    """Return a column with a rule for missing cells."""
    is_word = isinstance(rule, str) and rule in _WORDS
    if isinstance(column, Number | Spline):
        if not (is_word or (_is_real(rule) and column.lower <= rule <= column.upper)):
            bounds = f"({column.lower:g}, {column.upper:g})"
            within = f'be "indicator", "middle" or a number within the bounds {bounds}'
            raise fail(name, within, rule)
        return replace(column, missing=rule if is_word else float(rule))
    if not isinstance(column, Levels) or not (is_word and rule == "indicator"):
        remedy = "Without a rule, missing cells are read as the level in `other`."
        raise fail(name, 'be "indicator" for a column of levels', rule, remedy)
    if "missing" in map(str, column.levels):
        remedy = "Rename the level, or give it as `other` without a rule."
        raise fail(name, "not be given for a column with the level 'missing'", rule, remedy)
    return replace(column, missing="indicator")


def as_target(target: object) -> Target:
    """Return the bounds or the labels of a target."""
    if target is None:
        return None
    name = "the target"
    return as_number(name, target) if isinstance(target, tuple) else as_levels(name, target)


def as_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return names as a tuple; raise unless they are strings that differ."""
    found: list[str] = []
    is_shown = isinstance(names, list | tuple | Mapping)  # anything else may be a private column
    for name in names:
        if not isinstance(name, str):
            got, remedy = name if is_shown else names, "Use Domain.box for columns without names."
            raise fail("column names", "be strings", got, remedy)
        found.append(str(name))
    if not is_shown and len({*found}) < len(found):
        raise fail("column names", "differ from each other", names)
    refuse_repeated("column names", found, "Rename one of them.")
    return tuple(found)


def refuse_repeated(what: str, names: Iterable[str], remedy: str) -> None:
    """Raise if two of the names are the same."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise fail(what, "differ from each other", name, remedy)
        seen.add(name)


def as_vector(name: str, values: Any) -> list[Any]:
    """Return a one-dimensional array or sequence as a list of its entries."""
    entries = np.asarray(values, dtype=object)
    if entries.ndim != 1:
        raise fail(name, "have one entry for each column", values, "Give a list or 1-D array.")
    found: list[Any] = entries.tolist()
    return found


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
