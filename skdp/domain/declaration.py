"""Checks of declarations, their conversion to columns and targets, and rows drawn from them.

Declarations are public, and error messages contain them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp.domain.columns import Levels, Number, is_missing, refuse_repeated
from skdp.domain.splines import Column, Spline
from skdp.trusted.arrays import Array
from skdp.trusted.checks import check_choice, check_count, fail

if TYPE_CHECKING:
    from skdp.domain.domain import Domain

Target: TypeAlias = Number | tuple[Hashable, ...] | None

# Half a range and its inverse must both be normal numbers, with room for one more halving.
SMALLEST_HALF_RANGE = 4 * sys.float_info.min
# Limits of splines: positions of nodes then need at most two bytes, and knots beyond the bounds
# and their sums are finite.
MOST_KNOTS, MOST_DEGREE, MOST_BOUND = 100, 3, 1e300
# Rules for missing cells in place of a number.
_WORDS = ("indicator", "middle")
# Standard deviations of a synthetic target: of the log-odds of labels, and for numbers of the
# explained part and of the rest, in halves of the target's range.
_LOG_ODDS, _EXPLAINED, _REST = 2.0, 0.35, 0.15
# Share of missing cells in columns with a rule for them.
MISSING_SHARE = 0.1


def label_of(name: str | int) -> str:
    """Return the text for a column in an error message, from its name or position."""
    return f"column {name!r}"


def as_number(name: str, pair: object) -> Number:
    """Return a pair of bounds as a `Number`; ``name`` starts the error message."""
    if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(_is_real, pair)):
        rule = "have a pair of real numbers (lower, upper) as its bounds"
        remedy = f"Declare levels as a list, [first, second, ...]. {_unknown(name)}"
        raise fail(name, rule, pair, remedy)
    lower, upper = map(_as_float, pair)
    if not (math.isfinite(lower) and math.isfinite(upper)):
        remedy = f"Choose bounds from public knowledge. {_unknown(name)}"
        raise fail(name, "have finite bounds", pair, remedy)
    if not lower < upper:
        raise fail(name, "have lower < upper", pair, "Leave out constant columns.")
    number = Number(lower, upper)
    if number.half_range < SMALLEST_HALF_RANGE:
        rule = f"have bounds at least {2 * SMALLEST_HALF_RANGE:.1g} apart"
        raise fail(name, rule, pair, "Rescale it.")
    return number


def _unknown(name: str) -> str:
    what = f"columns={{{name.removeprefix('column ')}: 'bounds'}}"
    what = what if name.startswith("column ") else "target='bounds'"
    return f"If bounds are unknown, estimate them: skdp.estimate_domain(X, {what}, epsilon=0.2)."


def as_levels(name: str, levels: object) -> tuple[Hashable, ...]:
    """Return a sequence of levels as a tuple of plain Python objects."""
    unordered = isinstance(levels, (str, bytes, Mapping, set, frozenset))
    unordered |= isinstance(levels, np.ndarray) and not levels.ndim
    if unordered or not isinstance(levels, Iterable):
        remedy = "Write (lower, upper) or [first, second, ...]; the order of levels matters."
        rule = "be declared as a tuple of bounds or a list of levels"
        raise fail(name, rule, levels, f"{remedy} {_unknown(name)}")
    found = tuple(x.item() if isinstance(x, np.generic) else x for x in levels)
    if not found:
        raise fail(name, "have at least one level", levels, "Name the levels, or leave it out.")
    seen: set[Hashable] = set()
    for level in found:
        if not isinstance(level, Hashable):
            raise fail(name, "have hashable levels", type(level), "Use strings or numbers.")
        if is_missing(level):
            rule = "not have missing values as levels"
            raise fail(name, rule, level, "Use `other` instead.")
        if level in seen:
            rule = "have distinct levels (1, 1.0 and True are the same level)"
            shown = level if type(levels) is list else None  # an array may be a private column
            raise fail(name, rule, shown, "List each public level once.")
        seen.add(level)
    return found


def as_column(name: str, declared: object, other: Mapping[str, object], key: str) -> Column:
    """Return the column that ``declared`` describes: a tuple is bounds, a list is levels."""
    if isinstance(declared, tuple):
        return as_number(name, declared)
    if isinstance(declared, Spline):
        return as_spline(name, declared)
    levels = as_levels(name, declared)
    is_shown = type(declared) is list  # an array may be private
    are_two_numbers = len(levels) == 2 and all(map(_is_real, levels))
    ends = sorted(map(_as_float, levels)) if are_two_numbers else [0.0, 0.0]
    if ends[1] - ends[0] > 2:
        # They are more likely the ends of a range than codes of levels.
        bounds = "({:g}, {:g})".format(*ends) if is_shown else "(lower, upper)"
        remedy = (
            f"Write {bounds} for the numbers of a range, with round brackets."
            " Two such levels can be declared as strings, or with a third that does not occur."
        )
        rule = "not have two distant numbers as its levels"
        raise fail(name, rule, [*levels] if is_shown else None, remedy)
    fallback = other.get(key, levels[0])
    if fallback not in levels:
        named = f" {list(levels)}" if is_shown else ""
        raise fail(f"other[{key!r}]", f"be one of the levels{named}", fallback)
    # The declared object: 1 given for the level True is stored as True.
    return Levels(levels, levels[levels.index(fallback)])


def as_spline(name: str, declared: Spline) -> Column:
    """Return a checked spline, with its knots between the bounds as floats."""
    number = as_number(name, (declared.lower, declared.upper))
    knots: object = declared.knots
    for bound in (number.lower, number.upper):
        if abs(bound) > MOST_BOUND:
            raise fail(f"{name}: bounds", f"be at most {MOST_BOUND:g} in size for a spline", bound)
    degree = declared.degree
    is_whole = type(degree) is not bool and isinstance(degree, Integral)
    if not (is_whole and 0 <= degree <= MOST_DEGREE):
        raise fail(f"{name}: degree", f"be 0, 1, 2 or {MOST_DEGREE}", degree)
    if type(knots) is not bool and isinstance(knots, Integral):
        knots = count = check_count(f"{name}: knots", knots, 0)
    else:
        places = as_vector(f"{name}: knots", knots)
        rule = "be a number of knots, or increasing numbers between the bounds"
        ends = [number.lower, *map(_as_float, filter(_is_real, places)), number.upper]
        if len(ends) < len(places) + 2 or not all(a < b for a, b in pairwise(ends)):
            raise fail(f"{name}: knots", rule, knots)
        knots, count = tuple(ends[1:-1]), len(places)
    if count > MOST_KNOTS:
        raise fail(f"{name}: knots", f"be at most {MOST_KNOTS}", count)
    if count + degree == 0:
        raise fail(f"{name}: knots", "be at least 1 for degree 0", count)
    if declared.monotone is not None:
        check_choice(f"{name}: monotone", declared.monotone, ("increasing", "decreasing"))
    order = declared.monotone
    spline = Spline(number.lower, number.upper, knots, int(degree), monotone=order)
    if not (np.diff(spline.breaks) >= 2 * SMALLEST_HALF_RANGE).all():
        raise fail(f"{name}: knots", "be farther apart", declared.knots)
    return spline if declared.missing is None else with_rule(name, spline, declared.missing)


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
            raise fail("other", f"name only categorical columns, which are {with_levels}", name)
    declared = [as_column(label_of(n), columns[n], other, n) for n in names]
    return names, with_rules(declared, names, missing)


def as_numbers(
    lower: object, upper: object, names: Iterable[str] | None, missing: object
) -> tuple[tuple[str, ...] | None, tuple[Column, ...]]:
    """Return the names, or None, and the columns of numbers that arrays of bounds declare."""
    lows, highs = as_vector("lower", lower), as_vector("upper", upper)
    if len(lows) != len(highs):
        rule = f"have as many entries as lower, which has {len(lows)}"
        raise fail("upper", rule, len(highs), "Pass both bounds for every column.")
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
    is_word = isinstance(rule, str) and rule in _WORDS
    if isinstance(column, Number | Spline):
        if not (is_word or (_is_real(rule) and column.lower <= rule <= column.upper)):
            bounds = f"({column.lower:g}, {column.upper:g})"
            within = f'be "indicator", "middle" or a number within the bounds {bounds}'
            raise fail(name, within, rule)
        return replace(column, missing=rule if is_word else float(rule))
    if not isinstance(column, Levels) or not (is_word and rule == "indicator"):
        remedy = "Without a rule, missing cells are read as the level in `other`."
        raise fail(name, 'be "indicator" for a categorical column', rule, remedy)
    if "missing" in map(str, column.levels):
        remedy = "Rename the level, or use it as `other` without a rule."
        raise fail(name, "not be given for a column with the level 'missing'", rule, remedy)
    return replace(column, missing="indicator")


def as_target(target: object) -> Target:
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


def as_vector(name: str, values: object) -> list[object]:
    """Return a one-dimensional array or sequence as a list of its entries."""
    entries = np.asarray(values, dtype=object)
    if entries.ndim != 1:
        raise fail(name, "have one entry for each column", values, "Pass a list or 1-D array.")
    return list(entries)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


# Synthetic rows; using them costs no privacy


def sample(self: Domain, n: int, random_state: Any = None, *, with_target: bool = False) -> Any:
    """Draw rows of the domain: numbers uniform within their bounds, levels equally likely.

    The rows depend on the declaration only, so that using them costs no privacy. Columns are
    independent, unlike those of most real data. Where the domain has a rule for missing cells, a
    tenth of the cells is missing: NaN for numbers and None for levels.

    Parameters
    ----------
    n : int >= 1
        Number of rows.
    random_state : None, int or Generator, default=None
    with_target : bool, default=False
        Whether to draw a target too. It depends on the encoded row through a random linear
        model: labels have log-odds of standard deviation 2, and of the variance of numbers the
        row explains about five sixths.

    Returns
    -------
    X : DataFrame or ndarray of shape (n, n_columns)
        A DataFrame if the columns have names and pandas is installed. An array has objects if
        there are levels, and floats otherwise.
    y : ndarray of shape (n,)
        Target; only if ``with_target``.

    Raises
    ------
    ValueError
        If ``n`` is out of range, or the domain has no target and ``with_target`` is true.

    Examples
    --------
    >>> from skdp.domain import Domain
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(1000, random_state=0, with_target=True)
    >>> bool(X["age"].between(17, 90).all()), sorted(X["sex"].unique()), sorted(set(y.tolist()))
    (True, ['f', 'm'], ['no', 'yes'])
    """
    n, rng = check_count("n", n), np.random.default_rng(random_state)
    if with_target and self.target is None:
        remedy = "Declare target=(lower, upper) or target=[first, second, ...]."
        raise fail("the domain's target", "be declared to be drawn", None, remedy)
    X = _drawn_rows(self, n, rng)
    return (X, _drawn_target(self, X, rng)) if with_target else X


def _drawn_rows(domain: Domain, n: int, rng: np.random.Generator) -> Any:
    if domain.radius is not None:
        direction = rng.normal(size=(n, domain.n_columns))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return direction * (domain.radius * rng.random((n, 1)) ** (1 / domain.n_columns))
    columns = [values for column in domain._columns for values in _drawn(column, n, rng)]
    if domain.names is not None:
        with suppress(ImportError):
            import pandas as pd

            return pd.DataFrame(dict(zip(domain.names, columns, strict=True)))
    mixed = any(isinstance(column, Levels) for column in domain._columns)
    X = np.empty((n, len(columns)), dtype=object if mixed else np.float64)
    for k, values in enumerate(columns):
        X[:, k] = values
    return X


def _drawn(column: Column, n: int, rng: np.random.Generator) -> Iterator[Array | list[Hashable]]:
    if isinstance(column, Number | Spline):
        share = rng.random(n)
        found = np.clip(
            column.lower * (1 - share) + column.upper * share, column.lower, column.upper
        )
        found[_absent(column, n, rng)] = np.nan
        yield found
    elif isinstance(column, Levels):
        which = rng.integers(len(column.levels), size=n)
        which[_absent(column, n, rng)] = len(column.levels)
        levels = [*column.levels, None]
        drawn = [levels[k] for k in which]
        # Integers with None would become floats in a DataFrame.
        yield drawn if column.missing is None else np.fromiter(drawn, dtype=object)
    elif (table := getattr(column, "table", None)) is not None:
        yield from table[rng.integers(len(table), size=n)].T
    else:
        which = rng.integers(column.n_in + 1, size=n)
        yield from ((which == k).astype(float) for k in range(column.n_in))


def _absent(
    column: Number | Spline | Levels, n: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    return np.zeros(n, bool) if column.missing is None else rng.random(n) < MISSING_SHARE


def _drawn_target(domain: Domain, X: object, rng: np.random.Generator) -> Array:
    """Return a target that depends on the rows through a random linear model."""
    rows, labels = domain.encode(X), domain.target_labels
    models = 1 if labels is None else len(labels)
    signal = (rows - rows.mean(axis=0)) @ rng.normal(size=(rows.shape[1], models))
    signal /= np.maximum(signal.std(axis=0), np.finfo(float).tiny)
    if labels is None:
        assert domain.target_bounds is not None
        rest = rng.normal(size=len(rows))
        found = domain.decode_target(_EXPLAINED * signal[:, 0] + _REST * rest)
        return np.asarray(np.clip(found, *domain.target_bounds))
    # The difference of two models has twice the variance of one. With Gumbel noise it is the
    # log-odds of two labels.
    odds = _LOG_ODDS / np.sqrt(2) * signal + rng.gumbel(size=signal.shape)
    return np.asarray([list(labels)[k] for k in odds.argmax(axis=1)])
