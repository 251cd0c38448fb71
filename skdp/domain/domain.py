"""Domain: the public declaration of columns from which all bounds of the package follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from importlib import import_module
from typing import Any, NoReturn, Optional
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import InputTags, Tags

from skdp._codec import VERSION, decode, document, from_text, is_plain, to_text
from skdp._codec import encode as written
from skdp._estimators import Documented
from skdp.domain import declaration as _declare
from skdp.domain.columns import UNIT, Levels, Number, listed, refuse_repeated
from skdp.domain.layout import BoxProjection, Layout, Pairs, Piece, encode, number_units
from skdp.domain.splines import Column, Interaction, Spline, SplineBlock, as_interaction, with_nodes
from skdp.domain.tables import Frame, as_table, read_target
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_count, check_interval, fail

# Each column is an object of its own.
_MOST_COLUMNS = 10**6
# The arrays that encoders returned, while they exist, with their domains; by the ids of the arrays.
_RETURNED: dict[int, tuple[Callable[[], object], Domain]] = {}
# The entries of a file. A column has its name, or the names of its block, besides.
_HINTS = {
    "columns": list[dict[str, Any]],
    "target": Number | tuple[Hashable, ...] | None,
    "radius": float | None,
    "interactions": list[tuple[str, str]],
    "estimated": Optional["Guarantee"],  # noqa: F821 - domains do not import guarantees
}


class Domain:
    """Public declaration of the columns of a table and of its target.

    All bounds, scales and sensitivities of the package follow from the domain. So nothing in it may
    be taken from the private data: use a code book, a form, a law of nature, or public data. Rows
    outside the domain are mapped into it one by one: numbers are clipped, and unknown levels
    replaced.

    Parameters
    ----------
    columns : dict of str to tuple or list
        For each column, in order, a tuple ``(lower, upper)`` of finite numbers with
        ``lower < upper`` in the units of the column, or a list of levels: strings, numbers, bools
        or other hashable objects. Note the brackets: ``(0, 1)`` declares all numbers from 0 to 1,
        ``[0, 1]`` the two levels 0 and 1. Levels are compared by ``==``: the number 1 and the
        string "1" are different levels.
    target : tuple, list or None, default=None
        Bounds ``(lower, upper)`` of a regression target in its own units, or the list of labels
        of a classification target.
    other : dict of str to level, default=None
        For categorical columns, the level that replaces unknown levels, and missing cells if there
        is no rule for them. The default is the first level of the column.
    missing : "indicator", "middle", float, or dict of str to these, default=None
        Rule for missing cells, for all columns or by name. With "indicator" a missing level is a
        separate level; a missing number is encoded as 0, the middle of its bounds, and an
        additional encoded column is 1 if the number is missing. For numeric columns there are two
        other rules: "middle", or a number within the bounds that replaces missing cells. Without a
        rule a missing number raises an error.

    Raises
    ------
    ValueError
        If a declaration is invalid. The message states column, rule, declared value and remedy.

    Notes
    -----
    *Encoding.* In the order of the columns, a number is scaled to [-1, 1], and a level of a column
    with m levels is encoded as m - 1 indicators, 0 or 1, for all levels but the first. At most one
    indicator of a block is 1; for the first level all are 0. This is also true with rounding.

    *Missing cells* are None, NaN, NA, NaT and, if there is a rule, empty strings that are not a
    declared level. A rule costs no privacy, because it uses one row at a time. Without a rule, the
    error for a missing number names only the column, but whether it occurs depends on the data.
    Infinite numbers always raise an error.

    A domain is immutable, compares by value, and can be pickled, copied, cloned and exported. The
    attribute ``estimated`` is None, or the guarantee of `skdp.estimate_domain`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.domain import Domain
    >>> domain = Domain({"age": (17, 90), "sex": ["Female", "Male"]}, target=(0, 50_000))
    >>> domain
    Domain({'age': (17, 90), 'sex': ['Female', 'Male']}, target=(0, 50000))
    >>> domain.encoded_names()
    ('age', 'sex_Male')
    >>> rows = np.array([[53.5, "Male"], [17, "Female"], [107, "unknown"]], dtype=object)
    >>> domain.encode(rows)
    array([[ 0.,  1.],
           [-1.,  0.],
           [ 1.,  0.]])
    >>> domain = Domain({"age": (17, 90), "sex": ["Female", "Male"]}, missing="indicator")
    >>> domain.encoded_names()
    ('age', 'age_missing', 'sex_Male', 'sex_missing')
    >>> domain.encode([[None, "Male"], [90, None]])
    array([[0., 1., 1., 0.],
           [1., 0., 0., 1.]])
    """

    _columns: tuple[Column, ...]
    _names: tuple[str, ...] | None
    _target: _declare.Target
    _radius: float | None
    _pairs: Pairs
    estimated: Any

    def __init__(
        self,
        columns: Mapping[str, object],
        target: object = None,
        other: Mapping[str, object] | None = None,
        missing: object = None,
    ) -> None:
        names, declared = _declare.as_columns(columns, {} if other is None else other, missing)
        self._set(declared, names, _declare.as_target(target), None)

    @classmethod
    def box(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        target: object = None,
        names: Sequence[str] | None = None,
        missing: object = None,
    ) -> Domain:
        """Return a domain of columns of numbers, from arrays of bounds.

        Parameters
        ----------
        lower, upper : array-like of shape (n_columns,), units of the columns
            Finite bounds, with ``lower < upper`` in every column.
        target : tuple, list or None, default=None
            As in the class.
        names : sequence of str, default=None
            Names of the columns. Without names, columns are identified by position.
        missing : "indicator", "middle", float, or dict of str or int to these, default=None
            As in the class; columns without names have their positions as keys.
        """
        named, numbers = _declare.as_numbers(lower, upper, names, missing)
        return cls._build(numbers, named, _declare.as_target(target), None)

    @classmethod
    def unit_box(cls, d: int, target: object = None) -> Domain:
        """Return the domain of ``d`` >= 1 columns of numbers in [-1, 1], without names."""
        columns = (UNIT,) * check_count("d", d, most=_MOST_COLUMNS)
        return cls._build(columns, None, _declare.as_target(target), None)

    @classmethod
    def l2_ball(cls, d: int, radius: float, target: object = None) -> Domain:
        """Return the domain of rows of Euclidean norm at most ``radius``.

        Longer rows are scaled to this norm. Encoded rows have the units of the original rows.

        Parameters
        ----------
        d : int >= 1
            Number of columns; they have no names.
        radius : float in [1e-150, 1e150], units of the columns
        target : tuple, list or None, default=None
            As in the class.
        """
        radius = check_interval("radius", radius, 1e-150, 1e150)
        columns = (Number(-radius, radius),) * check_count("d", d, most=_MOST_COLUMNS)
        return cls._build(columns, None, _declare.as_target(target), radius)

    @classmethod
    def _build(cls, *facts: Any) -> Domain:
        return cls.__new__(cls)._set(*facts)

    def _set(
        self,
        columns: tuple[Column, ...],
        names: tuple[str, ...] | None,
        target: _declare.Target,
        radius: float | None,
        pairs: Pairs = (),
        estimated: object = None,
    ) -> Domain:
        # Not by __setattr__, which raises.
        self.__dict__.update(_columns=columns, _names=names, _target=target)
        self.__dict__.update(_radius=radius, _pairs=pairs, estimated=estimated)
        what, remedy = "the names of encoded columns", "Rename a column or one of its levels."
        refuse_repeated(what, self.encoded_names(), remedy)
        return self

    # Declaration

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None if they are identified by position."""
        return self._names

    @property
    def n_columns(self) -> int:
        """Number of columns of a table of this domain."""
        return sum(column.n_in for column in self._columns)

    @property
    def target(self) -> tuple[float, float] | list[Hashable] | None:
        """Target as declared: a tuple of bounds, a list of labels, or None."""
        return self.target_bounds or (self.target_labels and list(self.target_labels)) or None

    @property
    def target_bounds(self) -> tuple[float, float] | None:
        """Bounds (lower, upper) of a regression target, in its own units, or None."""
        target = self._target
        return (target.lower, target.upper) if isinstance(target, Number) else None

    @property
    def target_labels(self) -> tuple[Hashable, ...] | None:
        """Labels of a classification target, in the order declared, or None."""
        return self._target if isinstance(self._target, tuple) else None

    @property
    def is_ball(self) -> bool:
        """Whether rows are bounded by their Euclidean norm and not column by column."""
        return self._radius is not None

    @property
    def radius(self) -> float | None:
        """Greatest Euclidean norm of a row, or None if the domain is not a ball."""
        return self._radius

    def additive(
        self,
        *,
        knots: int = 8,
        degree: int = 3,
        columns: Iterable[str] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> Domain:
        """Return the domain with a curve instead of the linear effect of each number.

        Parameters
        ----------
        knots : int >= 0, default=8
            Number of knots, equally spaced between the bounds of each column.
        degree : {0, 1, 2, 3}, default=3
            Degree of the polynomials between knots.
        columns : iterable of str, default=None
            Names of numeric columns. None stands for all.
        bounds : dict from names to pairs of float, default=None
            Narrower bounds of a column, in its units, between which the knots lie. Numbers outside
            are clipped to them. They must be public or privately estimated.

        Returns
        -------
        Domain
            The numeric columns are replaced by :class:`~skdp.domain.Spline` objects. Rules for
            missing cells, other columns and the target are unchanged.

        Raises
        ------
        ValueError
            If the domain bounds the length of rows, or a name is not the name of a numeric column.

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
            got = strangers if isinstance(columns, list | tuple | set) else columns
            raise fail("columns", f"be names of numeric columns, {numbers}", got)
        narrower, curves = bounds or {}, []
        for name, column in placed:
            if isinstance(column, Number) and name in chosen:
                lower, upper = narrower.get(name, (column.lower, column.upper))
                lower, upper = max(column.lower, lower), min(column.upper, upper)
                # Missing cells stay at the same place.
                missing = column.missing
                if missing == "middle" and name in narrower:
                    missing = column.centre
                if isinstance(missing, float):
                    missing = min(max(missing, lower), upper)
                curve = Spline(lower, upper, knots, degree, missing)
                column = _declare.as_spline(_declare.label_of(name), curve)
            curves.append(column)
        facts = self._names, self._target, None, self._pairs, self.estimated
        return self._build(tuple(curves), *facts)

    def interact(self, first: str, second: str) -> Domain:
        """Return the domain with a joint effect of two columns instead of their separate effects.

        The joint effect of two categorical columns is a value for each pair of levels, that of a
        categorical column and a number, or a :class:`~skdp.domain.Spline`, is a line or a curve for
        each level, and that of two numbers or splines is a surface. The sum of two separate effects
        is a special case. Call the method again for another pair. A column may be in several pairs.

        Parameters
        ----------
        first, second : str
            Names of two columns. Columns without names are x0, x1, ...

        Returns
        -------
        Domain
            A domain for tables with the same columns. Two columns with m and k levels or B-splines
            are encoded as m k - 1 columns, and need as much noise as m k levels; a number has two.

        Raises
        ------
        ValueError
            If there is no such column, if the pair was declared before, or if m k is too large.

        Notes
        -----
        The encoded values are products of the encoded values of the two columns, rounded to
        multiples of 2^-20 such that they add up to 1. Numbers are rounded to fewer nodes than in a
        single column: there are 32, 16, 8 or 4 steps between two knots, the greatest number for
        which the table has at most 2^13 rows and 2^21 entries. A number is encoded like
        ``Spline(lower, upper, knots=0)``: the coefficients of a line are its values at both bounds,
        less the value of the first line at its lower bound.

        Examples
        --------
        >>> from skdp import Domain
        >>> domain = Domain({"age": (20, 80), "sex": ["f", "m"]}).interact("age", "sex")
        >>> domain
        Domain({'age': (20, 80), 'sex': ['f', 'm']}).interact('age', 'sex')
        >>> domain.encoded_names()
        ('age_20 x sex_m', 'age_80 x sex_f', 'age_80 x sex_m')
        >>> domain.encode([[35, "f"], [35, "m"]])
        array([[0.  , 0.25, 0.  ],
               [0.75, 0.  , 0.25]])
        """
        columns = [column for column in self._columns for _ in range(column.n_in)]
        declared = dict(zip(self._labels, columns, strict=True))
        kinds = () if self.is_ball else (Number, Levels, Spline)
        kept = [name for name, own in declared.items() if isinstance(own, kinds)]
        for name in (first, second):
            if name not in kept:
                rule = f"be names of columns with bounds or levels, which are {kept}"
                raise fail("first and second", rule, name)
            if isinstance(curve := with_nodes(declared[name]), Spline):
                _declare.as_spline(_declare.label_of(name), curve)
        places = sorted(list(declared).index(name) for name in (first, second))
        pair = places[0], places[1]
        if first == second or pair in self._pairs:
            raise fail("first and second", "be an undeclared pair of columns", [first, second])
        as_interaction(f"columns {first!r} and {second!r}", [columns[place] for place in pair])
        pairs = tuple(sorted((*self._pairs, pair)))
        return self._build(self._columns, self._names, self._target, None, pairs, self.estimated)

    # Encoded columns

    @cached_property
    def n_encoded(self) -> int:
        """Number of encoded columns, without an intercept."""
        return sum(column.n_out for column, *_ in self._layout.placed)

    @cached_property
    def n_numbers(self) -> int:
        """Number of columns of numbers; each has one encoded number."""
        return len(self.number_index)

    @cached_property
    def number_index(self) -> NDArray[np.intp]:
        """Positions of the numbers among the encoded columns, of shape (n_numbers,)."""
        placed = self._layout.placed
        return np.array([own.start for c, _, own in placed if isinstance(c, Number)], np.intp)

    @cached_property
    def blocks(self) -> tuple[slice, ...]:
        """Encoded columns of each block of indicators: of levels, or of one for missing numbers."""
        pairs = self._layout.with_blocks
        return tuple(slice(own.start + isinstance(c, Number), own.stop) for c, own in pairs)

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of indicators in each block: the number of levels, with missing, less one."""
        return tuple(block.stop - block.start for block in self.blocks)

    @property
    def block_tables(self) -> tuple[FloatArray | None, ...]:
        """For each block of B-splines the encoded values of its positions; None for indicators."""
        return tuple(getattr(column, "table", None) for column, _ in self._layout.with_blocks)

    @property
    def block_penalties(self) -> tuple[FloatArray | None, ...]:
        """For each block of B-splines the matrix of its smoothness penalty; None for others."""
        return tuple(getattr(column, "penalty", None) for column, _ in self._layout.with_blocks)

    @property
    def block_positions(self) -> tuple[int, ...]:
        """Number of positions of each block, of which a row has one; 0 is that of no indicator."""
        pairs = zip(self.block_tables, self.block_sizes, strict=True)
        return tuple(size + 1 if table is None else len(table) for table, size in pairs)

    def encoded_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns; columns without names are x0, x1, ..."""
        placed, labels = self._layout.placed, self._labels
        return tuple(name for column, read, _ in placed for name in column.names_out(labels[read]))

    @property
    def encoded(self) -> Domain:
        """Domain of the encoded rows; encoding them again changes nothing.

        The blocks of indicators are the same. In each row of a block, the first of the greatest
        entries becomes 1 if it is above 1/2, and all others become 0. The target is the same.
        """
        if self.is_ball:
            return self
        columns = tuple(own for column, *_ in self._layout.placed for own in column.encoded)
        names = self.encoded_names() if self._names is not None or self.blocks else None
        return self._build(columns, names, self._target, None, (), self.estimated)

    def row_norm(self, p: float, intercept: bool = False) -> float:
        """Return the greatest l_p norm of an encoded row, rounded up.

        Parameters
        ----------
        p : float in [1, inf]
        intercept : bool, default=False
            Whether the encoded rows are extended by a column of ones.
        """
        p = check_interval("p", p, 1, math.inf)
        if self._radius is None:
            # All numbers are -1 or 1, and one indicator is 1 in every block that has any.
            n_ones = self.n_numbers + sum(map(bool, self.block_sizes)) + intercept
            return _root_up(n_ones, 1 / p) if n_ones else 0.0
        # The l_p norm is at most d^(1/p - 1/2) times the Euclidean one if p < 2, else at most it.
        widest = self._radius * _root_up(self.n_encoded, max(0.0, 1 / p - 0.5))
        if not intercept or p == math.inf:
            return max(widest, float(intercept))
        larger, smaller = max(1.0, widest), min(1.0, widest)
        return _up(larger * (1 + (smaller / larger) ** p) ** (1 / p))

    # Encoding and decoding

    def encode(self, X: object, out: FloatArray | None = None) -> FloatArray:
        """Map rows into the domain and encode them.

        Parameters
        ----------
        X : DataFrame, Arrow table, dict of columns or array-like of shape (n, n_columns)
            If the domain has names, columns of a DataFrame are identified by name, in any order.
            Otherwise columns are identified by position.
        out : ndarray of shape (n, n_encoded), float64, default=None
            Array for the result, for example a part of a wider array. It must not overlap ``X``.

        Returns
        -------
        ndarray of shape (n, n_encoded), float64
            ``out``, or a new array.

        Raises
        ------
        ValueError
            If columns are missing or undeclared, if ``X`` is masked, complex or structured, or if a
            numeric column contains anything but finite numbers and, if there is a rule, missing
            cells. The message never contains a value, a row, the number of rows, or the message of
            an error that a cell raised.
        """
        return encode(self, X, out)

    def encode_target(self, y: object) -> FloatArray:
        """Clip a regression target to its bounds and scale it to [-1, 1].

        Parameters
        ----------
        y : array-like of shape (n,) or (n, 1), units of the target

        Returns
        -------
        ndarray of shape (n,)
        """
        target = self._target_number()
        with np.errstate(all="ignore"):
            scaled = read_target(y, "target")
            box = BoxProjection(np.array([target.lower]), np.array([target.upper]), target.is_unit)
            box(scaled[:, None])
        return scaled

    def decode_target(self, t: ArrayLike) -> FloatArray:
        """Return predictions in [-1, 1] in the units of the target, without clipping."""
        target = self._target_number()
        return np.asarray(t, dtype=np.float64) * target.half_range + target.centre

    def decode_coef(
        self, coef: ArrayLike, intercept: ArrayLike | None = None, *, regression: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return a linear model of the encoded columns in the units of the columns.

        For rows within the bounds, ``encode(X) @ coef + intercept`` equals the product of the
        original numbers and the indicators with the decoded coefficients, plus the decoded
        intercept. A missing number counts as the number of its rule, which is the middle of the
        bounds for "indicator".

        Parameters
        ----------
        coef : array-like of shape (..., n_encoded)
        intercept : array-like of shape (...), default=None
            None stands for 0. The decoded model still has an intercept, because an encoded 0 is
            the middle of the bounds.
        regression : bool, default=False
            Whether the model predicts a target scaled by `encode_target`. The decoded model then
            predicts it in the units of the target.

        Returns
        -------
        coef : ndarray of shape (..., n_encoded)
        intercept : ndarray of shape (...)
        """
        slopes = np.asarray(coef, dtype=np.float64)
        if not slopes.ndim or slopes.shape[-1] != self.n_encoded:
            raise fail("coef", f"have {self.n_encoded} columns", slopes.shape)
        half, centre = np.ones(self.n_encoded), np.zeros(self.n_encoded)
        if not self.is_ball:
            half[self.number_index], centre[self.number_index] = number_units(self)
        constant = np.asarray(0.0 if intercept is None else intercept, dtype=np.float64)
        constant, slopes = constant - (slopes * (centre / half)).sum(axis=-1), slopes / half
        if regression:
            target = self._target_number()
            slopes = slopes * target.half_range
            constant = constant * target.half_range + target.centre
        return slopes, np.asarray(constant)

    def encoder(self) -> DomainEncoder:
        """Return a scikit-learn transformer that encodes rows and learns nothing from data."""
        return DomainEncoder(self)

    sample = _declare.sample

    def check(self, X: object, y: object = None, *, target: str | None = None) -> Any:
        """Count cells outside the bounds, unlisted levels and missing cells of a private table.

        A fit clips numbers and reads unlisted levels as ``other`` in silence, because how many they
        are is private. The counts are for those who may see the table, **not for publication**.
        Correct a misspelt declaration, but do not choose bounds by them.

        Parameters
        ----------
        X : DataFrame, array-like, dict of columns, collection, path or callable
            As in ``fit``. It is read once; other named columns are ignored.
        y : array-like of shape (n,), default=None
            The target of a table in memory.
        target : str, default=None
            Name of the column of ``X`` that is the target.

        Returns
        -------
        DomainCheck
            Print it, or use ``to_frame()``. The notes have the most frequent unlisted levels, and
            the levels that never occur.

        Examples
        --------
        >>> from skdp import Domain
        >>> domain = Domain({"age": (17, 90), "sex": ["female", "male"]})
        >>> print(domain.check({"age": [50, 107, 30], "sex": ["F", "F", "male"]}))
        Not for publication: counts of private cells, which no guarantee covers
        column  declared            cells  outside   share  missing  notes
        age     (17, 90)                3        1  33.33%        0  above 1
        sex     ['female', 'male']      3        2  66.67%        0  'F' 2, never 'female'
        """
        # By name: the readers of files import domains.
        return import_module("skdp.rows.check").check(self, X, y, target)

    # Text and files

    def __repr__(self) -> str:
        """Return the declaration in one line, with the cost of estimated bounds."""
        text = _declaration(self._columns, self._names, self._target, self._radius)
        text += "".join(f".interact({', '.join(map(repr, pair))})" for pair in _pairs(self))
        estimated = self.estimated
        if estimated is None:
            return text
        cost = f"epsilon = {estimated.epsilon:g}, delta = {estimated.delta:g}"
        unit = " per person" if estimated.unit == "person" else ""
        return f"{text}, estimated with {cost}{unit}"

    def to_dict(self) -> dict[str, Any]:
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
            columns.append({"name": own, **written(label, column)})
        _check_levels("the target", self._target)
        return {
            "kind": "Domain",
            "version": VERSION,
            "columns": columns,
            "target": written("the target", self._target),
            "radius": self._radius,
            "interactions": _pairs(self),
            "estimated": written("estimated", self.estimated),
        }

    def to_json(self) -> str:
        """Return the domain as JSON text; see `to_dict`."""
        return to_text(self.to_dict()) + "\n"

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> Domain:
        """Return the domain of a dict.

        Parameters
        ----------
        content : dict
            A result of `to_dict`.

        Raises
        ------
        ValueError
            If an entry is unknown, missing or of another type, or the declaration is invalid.
        """
        name = "the domain"
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
            built = cls._build(columns, named, target, None, (), found["estimated"])
            return reduce(lambda built, pair: built.interact(*pair), joined, built)
        ball = cls.l2_ball(max(1, len(columns)), radius)
        if named is not None or columns != ball._columns or joined:
            raise fail(name, "have columns with the bounds -radius and radius, without names")
        return cls._build(columns, None, target, radius, (), found["estimated"])

    @classmethod
    def from_json(cls, text: str) -> Domain:
        """Return the domain of JSON text; see `from_dict`."""
        return cls.from_dict(from_text("the domain", text))

    @cached_property
    def _labels(self) -> tuple[str, ...]:
        return self._names or tuple(f"x{k}" for k in range(self.n_columns))

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self._columns, self._pairs)

    @cached_property
    def _pieces(self) -> tuple[Piece, ...]:
        return tuple(self._layout.pieces(self._radius))

    def _target_number(self) -> Number:
        if not isinstance(self._target, Number):
            remedy = "Declare target=(lower, upper) in the target's own units."
            raise fail("the domain's target", "have bounds", self.target, remedy)
        return self._target

    def _label_at(self, position: int) -> str:
        return _declare.label_of(position if self._names is None else self._names[position])

    def _key(self) -> tuple[object, ...]:
        return (self._columns, self._names, self._target, self._radius, self._pairs)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Domain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[object, ...]:
        return (self._build, (*self._key(), self.estimated))

    def __deepcopy__(self, memo: object = None) -> Domain:
        return self

    __copy__ = __deepcopy__

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise AttributeError(f"A domain cannot be changed; build a new one to set {name!r}.")

    __delattr__ = __setattr__


class DomainEncoder(Documented, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transformer that clips, scales and one-hot encodes by a public domain.

    Nothing is learned from data. Therefore the encoder costs no privacy, needs no ``fit``, and
    encodes a row independently of all others, as described in `Domain`. It can be used in
    pipelines and column transformers; the estimator after it takes ``domain.encoded`` as its
    domain.

    Parameters
    ----------
    domain : Domain
        Public bounds and levels of the columns.

    Attributes
    ----------
    n_features_in_ : int
        Number of declared columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the declared columns; only if the domain has names.

    Examples
    --------
    >>> from skdp.domain import Domain
    >>> encoder = Domain.box([0, 10], [1, 20], names=["dose", "weight"]).encoder()
    >>> encoder.transform([[0.5, 12.5], [3, 20]])
    array([[ 0. , -0.5],
           [ 1. ,  1. ]])
    >>> encoder.get_feature_names_out()
    array(['dose', 'weight'], dtype=object)
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain

    def fit(self, X: object, y: object = None) -> DomainEncoder:
        """Check the columns of ``X``; no value is read, and nothing is stored."""
        domain = self._checked_domain()
        as_table(X, domain.names, domain.n_columns)
        return self

    def transform(self, X: object) -> FloatArray:
        """Encode rows.

        Parameters
        ----------
        X : DataFrame, Arrow table, dict of columns or array-like, (n, n_features_in_)

        Returns
        -------
        ndarray or DataFrame of shape (n, domain.n_encoded)
            A DataFrame if ``set_output`` asks for one.
        """
        domain = self._checked_domain()
        encoded = domain.encode(X)
        key = id(encoded)
        _RETURNED[key] = ref(encoded, lambda _: _RETURNED.pop(key, None)), domain
        return encoded

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> Array:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the columns; if the domain has names, they must be the same.

        Returns
        -------
        ndarray of str objects
        """
        domain = self._checked_domain()
        given, declared = input_features, domain.names
        if given is not None and declared is not None and tuple(given) != declared:
            raise fail("input_features", f"be the domain's names {list(declared)}", list(given))
        if given is not None and len(given) != domain.n_columns:
            raise fail("input_features", f"have {domain.n_columns} names", len(given))
        return np.array(domain.encoded_names(), dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of declared columns."""
        return self._checked_domain().n_columns

    @property
    def feature_names_in_(self) -> Array:
        """Names of the columns, if the domain has names."""
        names = self._checked_domain().names
        if names is None:
            raise AttributeError("A domain without column names has no feature_names_in_.")
        return np.array(names, dtype=object)

    def _checked_domain(self) -> Domain:
        if not isinstance(self.domain, Domain):
            raise fail("domain", "be a Domain", self.domain, "Build it from public knowledge.")
        return self.domain

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        declare_input(tags.input_tags, self.domain)
        return tags


def declare_input(tags: InputTags, domain: Domain | None) -> None:
    """Set what scikit-learn's tags say about tables of a domain; without one they hold numbers."""
    columns = getattr(domain, "_columns", ())
    levels = [column for column in columns if isinstance(column, Levels)]
    tags.categorical = bool(levels)
    tags.string = any(isinstance(level, str) for column in levels for level in column.levels)
    # A missing level without a rule is read as another one.
    ruled = [column in levels or getattr(column, "missing", None) is not None for column in columns]
    tags.allow_nan = bool(ruled) and all(ruled)


def refuse_encoded(X: object, table: Frame, domain: Domain) -> None:
    """Raise if ``X`` is an encoded table of a domain, where ``domain`` declares it not encoded.

    All numbers would be clipped to bounds in other units. Recognised are arrays that an encoder
    of the same columns returned, tables with the names of the encoded columns, and arrays with as
    many columns. Names, numbers of columns and declarations decide. ``table`` has the cells of
    ``X`` as a DataFrame or an array.
    """
    array, encoder = _RETURNED.get(id(X), (lambda: None, None))
    is_encoded = array() is X and getattr(encoder, "_columns", None) == domain._columns
    if hasattr(table, "columns"):
        names = domain.encoded_names()
        is_encoded |= names != domain.names and tuple(table.columns) == names
    else:
        is_encoded |= domain.n_columns != table.shape[1] == domain.n_encoded
    if is_encoded and domain.encoded._columns != domain._columns:
        rule = f"have the domain's {domain.n_columns} columns and not the encoded ones"
        remedy = "Behind domain.encoder() give the model domain=domain.encoded."
        raise fail("X", rule, None, remedy)


def subset(
    domain: Domain, columns: Sequence[str] | None, target: str | None
) -> tuple[Domain, list[int], int | None]:
    """Return the domain of some columns and a target, and their positions when encoded.

    Columns without names are x0, x1, ... A block of indicators can only be chosen as a whole, and
    so can the columns of an interaction. ``columns=None`` takes all columns but the target.

    The target is a column of numbers without a rule for missing cells, which would be wrong values
    of a target. None takes the target of the domain, which has no position.
    """
    names = domain._labels
    known = set(names)
    if isinstance(columns, str):
        raise fail("columns", "be a list of names", columns, f"Write [{columns!r}].")
    asked = known - {target} if columns is None else set(columns)
    strangers = sorted(map(str, (asked | ({target} - {None})) - known))
    if strangers:
        got = strangers if isinstance(columns, list | tuple | set | None) else columns
        raise fail("columns", "be declared columns", got, f"The domain has {list(names)}.")
    if not asked or target in asked:
        raise fail("columns", "contain a column other than the target", sorted(asked))
    places: list[int] = []
    pairs: list[tuple[int, int]] = []
    new = [name for name in names if name in asked]
    for column, read, write in domain._layout.placed:
        within = asked.intersection(names[read])
        if not within:
            continue
        if len(within) < column.n_in:
            remedy = f"Pass all of {list(names[read])}."
            rule = "contain all indicators of a block, both columns of an interaction, or none"
            raise fail("columns", rule, sorted(within), remedy)
        if isinstance(column, Interaction):
            first, second = map(new.index, names[read])
            pairs.append((first, second))
        places.extend(range(write.start, write.stop))
    own, place = _target(domain, names, target)
    if domain.is_ball and target is not None:
        raise fail("target", "be None for rows in a ball", target, "Its columns have no bounds.")
    kept = tuple(c for c, read in domain._layout.declared if asked.intersection(names[read]))
    kept_names = tuple(new) if domain.names else None
    found = Domain._build(kept, kept_names, own, domain.radius, tuple(pairs), domain.estimated)
    return found, places, place


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
    raise fail("target", "be a numeric column", target, "Levels cannot be regressed on.")


def _declaration(
    columns: Sequence[Column],
    names: Sequence[str] | None,
    target: _declare.Target,
    radius: float | None,
) -> str:
    shown = f"[{listed(map(repr, target))}]" if isinstance(target, tuple) else repr(target)
    end = "" if target is None else f", target={shown}"
    if radius is not None:
        return f"Domain.l2_ball({len(columns)}, {radius!r}{end})"
    # A block of indicators stands for several names.
    every = [column for column in columns for _ in range(column.n_in)]
    keys = range(len(every)) if names is None else names
    rules = {key: getattr(column, "missing", None) for key, column in zip(keys, every, strict=True)}
    if set(rules.values()) == {"indicator"}:
        end += ", missing='indicator'"
    elif rules := {key: rule for key, rule in rules.items() if rule is not None}:
        end += f", missing={{{listed(f'{key!r}: {rule!r}' for key, rule in rules.items())}}}"
    numbers = [column for column in columns if isinstance(column, Number)]
    if names is None and len(numbers) < len(columns):
        names = [f"x{k}" for k in keys]  # of splines; only names are shown
    if names is None and all(number == UNIT for number in numbers):
        return f"Domain.unit_box({len(columns)}{end})"
    if names is None:
        lower, upper = ([getattr(n, bound) for n in numbers] for bound in ("lower", "upper"))
        return f"Domain.box([{listed(map(str, lower))}], [{listed(map(str, upper))}]{end})"
    named = list(zip(names, every, strict=True))
    declared = [f"{name!r}: {column!r}" for name, column in named]
    others = [
        f"{name!r}: {column.other!r}"
        for name, column in named
        if isinstance(column, Levels) and column.other != column.levels[0]
    ]
    middle = f", other={{{listed(others)}}}" if others else ""
    return f"Domain({{{listed(declared)}}}{end}{middle})"


def _pairs(domain: Domain) -> list[list[str]]:
    """Return the names of the two columns of each interaction."""
    return [[domain._labels[place] for place in pair] for pair in domain._pairs]


def _column(place: int, part: dict[str, object]) -> tuple[Column, list[str] | None]:
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


def _checked(label: str, column: object) -> Any:
    """Return a column of a file after the checks of a declaration."""
    if isinstance(column, SplineBlock):
        return SplineBlock(_checked(label, column.spline))
    if isinstance(column, Interaction):
        pair = [_checked(label, own) for own in (column.first, column.second)]
        return as_interaction(label, pair)
    if isinstance(column, Spline):
        return _declare.as_spline(label, column)
    declared: Column
    if isinstance(column, Number):
        declared = _declare.as_number(label, (column.lower, column.upper))
    elif isinstance(column, Levels):
        declared = _declare.as_column(label, [*column.levels], {label: column.other}, label)
    else:
        return column
    rule = column.missing
    return declared if rule is None else _declare.with_rule(f"{label}: missing", declared, rule)


def _check_levels(label: str, declared: object) -> None:
    levels = getattr(declared, "levels", declared if isinstance(declared, tuple) else ())
    for level in levels:
        if not is_plain(level):
            rule = "have levels that are strings, finite numbers or bools, to be exported"
            raise fail(label, rule, level, "Declare its levels as strings.")


# Norms are rounded up: sensitivities follow from them.


def _root_up(count: int, exponent: float) -> float:
    root = float(count**exponent)
    return root if count == 1 or exponent in (0.0, 1.0) else _up(root)


def _up(value: float) -> float:
    # Sixteen units of rounding: more than the error of two roots, a product and 1/p.
    return value * (1 + 2.0**-48)
