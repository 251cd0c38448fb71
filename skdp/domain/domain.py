"""Domain: the public facts about columns that every bound of the package comes from."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_interval, fail
from skdp.domain.columns import UNIT, Column, Number
from skdp.domain.declare import Target, as_columns, as_numbers, as_target, label_of, refuse_repeated
from skdp.domain.describe import describe
from skdp.domain.encoder import DomainEncoder
from skdp.domain.layout import Layout, Piece, pieces_of
from skdp.domain.projections import Box, ball_norm, box_norm
from skdp.domain.sample import sample
from skdp.domain.tables import as_table, read_target, room_for


class Domain:
    """What is publicly known about the columns of a table and about its target.

    Every bound, scale and sensitivity of the package comes from here, so that nothing in it may
    be read off the private data: take it from a code book, a form, a law of nature, or data that
    is public. Data that does not fit is brought into the domain by a rule that looks at one row
    at a time: numbers are clipped, unknown levels go to a declared one.

    Parameters
    ----------
    columns : dict of str to tuple or list
        For each column, in this order, a tuple ``(lower, upper)`` of finite numbers with
        ``lower < upper``, in the column's own units, or a list of levels: strings, numbers,
        bools, or anything else that is hashable. Note the brackets: ``(0, 1)`` is every number
        from 0 to 1, ``[0, 1]`` the two levels 0 and 1. Levels are compared by ``==``: the number
        1 and the string "1" are different levels.
    target : tuple, list or None, default=None
        Bounds ``(lower, upper)`` of a regression target, in its own units, or the list of labels
        of a classification target.
    other : dict of str to level, default=None
        For each column of levels, the level that an unknown or missing (None, NaN) one is read
        as. By default it is the column's first level.

    Raises
    ------
    ValueError
        If a declaration contradicts itself. The message names the column, the rule, the declared
        value, and what to do.

    Notes
    -----
    *Encoding.* In the order of the columns, a number becomes one number in [-1, 1]; m levels
    become m - 1 indicators, 0 or 1, of each level but the first. At most one indicator of a block
    is 1, and none is for the first level. These promises hold in floating point, rounding
    included.

    *Missing numbers.* NaN and infinity in a number column raise an error. It tells the column's
    name and nothing else, but that it was raised is a fact about the data: drop or fill missing
    numbers by a public rule beforehand.

    A domain cannot be changed. It compares by value, and can be pickled, copied and cloned.

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
    """

    _columns: tuple[Column, ...]
    _names: tuple[str, ...] | None
    _target: Target
    _radius: float | None

    def __init__(
        self,
        columns: Mapping[str, Any],
        target: Any = None,
        other: Mapping[str, Any] | None = None,
    ) -> None:
        names, declared = as_columns(columns, {} if other is None else other)
        self._set(declared, names, as_target(target), None)

    @classmethod
    def box(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        target: Any = None,
        names: Sequence[str] | None = None,
    ) -> Domain:
        """Return the domain of numbers only, from arrays of bounds.

        Parameters
        ----------
        lower, upper : array-like of shape (n_columns,), the columns' own units
            Finite, with ``lower < upper`` in every column.
        target : tuple, list or None, default=None
            As in the class.
        names : sequence of str, default=None
            Names of the columns; without them columns are known by their position.
        """
        named, numbers = as_numbers(lower, upper, names)
        return cls._build(numbers, named, as_target(target), None)

    @classmethod
    def unit_box(cls, d: int, target: Any = None) -> Domain:
        """Return the domain of ``d`` >= 1 nameless columns of numbers in [-1, 1]."""
        return cls._build((UNIT,) * check_count("d", d), None, as_target(target), None)

    @classmethod
    def l2_ball(cls, d: int, radius: float, target: Any = None) -> Domain:
        """Return the domain of rows of Euclidean norm at most ``radius``.

        Rows outside are scaled back to the sphere, and are not scaled otherwise: encoded rows
        keep the units of the raw ones.

        Parameters
        ----------
        d : int >= 1
            Number of columns, which have no names.
        radius : float in [1e-150, 1e150], the columns' own units
        target : tuple, list or None, default=None
            As in the class.
        """
        radius = check_interval("radius", radius, 1e-150, 1e150)
        columns = (Number(-radius, radius),) * check_count("d", d)
        return cls._build(columns, None, as_target(target), radius)

    @classmethod
    def _build(cls, *facts: Any) -> Domain:
        domain = cls.__new__(cls)
        domain._set(*facts)
        return domain

    def _set(
        self,
        columns: tuple[Column, ...],
        names: tuple[str, ...] | None,
        target: Target,
        radius: float | None,
    ) -> None:
        facts = {"_columns": columns, "_names": names, "_target": target, "_radius": radius}
        self.__dict__.update(facts)  # past __setattr__, which refuses
        remedy = "Rename a column or one of its levels."
        refuse_repeated("the names of encoded columns", self.encoded_names(), remedy)

    # What was declared

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None where they are known by position."""
        return self._names

    @property
    def n_columns(self) -> int:
        """Number of columns that a table of this domain has."""
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
        """Whether rows are bounded by their Euclidean norm, not column by column."""
        return self._radius is not None

    @property
    def radius(self) -> float | None:
        """Greatest Euclidean norm of a row, if the domain is a ball."""
        return self._radius

    # What the encoded columns are

    @property
    def n_encoded(self) -> int:
        """Number of encoded columns; an intercept is not among them."""
        return self._layout.n_encoded

    @property
    def n_numbers(self) -> int:
        """Number of columns of numbers; each is one encoded column."""
        return len(self._layout.numbers)

    @property
    def number_index(self) -> NDArray[np.intp]:
        """Positions of the numbers among the encoded columns, of shape (n_numbers,)."""
        return np.array([position for position, _ in self._layout.numbers], dtype=np.intp)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Places of the blocks of indicators among the encoded columns, block by block."""
        return self._layout.blocks

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of indicators in each block: one less than the column has levels."""
        return tuple(block.stop - block.start for block in self.blocks)

    def encoded_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns; nameless columns are x0, x1, ..."""
        names = self._names or tuple(f"x{k}" for k in range(self.n_columns))
        return tuple(self._layout.names_out(names))

    @property
    def encoded(self) -> Domain:
        """Domain of the encoded rows; encoding these once more changes nothing.

        It remembers which columns are the indicators of one block. A row of a block that is not
        of zeros and one 1 is made one: the largest entry, if above 1/2, becomes 1, the first of
        equals, and the others 0. The target is as before.
        """
        if self.is_ball:
            return self
        columns = tuple(column.encoded for column in self._columns)
        names = None if self._names is None else self.encoded_names()
        return self._build(columns, names, self._target, None)

    def row_norm(self, p: float, intercept: bool = False) -> float:
        """Return the greatest l_p norm of an encoded row, rounded up.

        Parameters
        ----------
        p : float in [1, inf]
        intercept : bool, default=False
            Whether a column of ones stands next to the encoded columns.
        """
        p = check_interval("p", p, 1, math.inf)
        if self._radius is not None:
            return ball_norm(self.n_encoded, self._radius, p, intercept)
        # All numbers at -1 or 1, and one indicator in every block that has any.
        return box_norm(self.n_numbers + sum(map(bool, self.block_sizes)) + intercept, p)

    # Encoding and decoding

    def encode(self, X: Any, out: FloatArray | None = None) -> FloatArray:
        """Bring rows into the domain and encode them.

        Parameters
        ----------
        X : pandas DataFrame or array-like of shape (n, n_columns)
            Columns of a DataFrame are taken by name, in whatever order, if the domain has names;
            of anything else by position.
        out : ndarray of shape (n, n_encoded), float64, default=None
            Where to write, for instance a part of a wider array. It must not overlap with ``X``.

        Returns
        -------
        ndarray of shape (n, n_encoded), float64
            ``out``, or a new array.

        Raises
        ------
        ValueError
            If columns are missing, undeclared or too many, ``X`` is masked, complex or structured,
            or a column of numbers holds anything but finite numbers. No message tells a value, a
            row or the number of rows, nor what code of a cell's own raised.
        """
        table = as_table(X, self._names, self.n_columns)
        encoded = room_for(table.n_rows, self.n_encoded, out)
        with np.errstate(all="ignore"):  # a warning would be about the data
            for start in range(0, table.n_rows, table.block):
                rows = slice(start, start + table.block)
                for piece in self._pieces:
                    piece.encode(table, rows, encoded[rows], self._label_at)
        return encoded

    def encode_target(self, y: Any) -> FloatArray:
        """Clip a regression target to its bounds and scale it to [-1, 1].

        Parameters
        ----------
        y : array-like of shape (n,) or (n, 1), the target's own units

        Returns
        -------
        ndarray of shape (n,)
        """
        target = self._target_number()
        with np.errstate(all="ignore"):
            scaled = read_target(y, "target")
            Box(np.array(target.lower), np.array(target.upper), target.is_unit)(scaled)
        return scaled

    def decode_target(self, t: ArrayLike) -> FloatArray:
        """Return predictions in [-1, 1] in the target's own units; the map is not clipped."""
        target = self._target_number()
        return np.asarray(t, dtype=np.float64) * target.half_range + target.centre

    def decode_coef(
        self, coef: ArrayLike, intercept: ArrayLike | None = None, *, regression: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return a linear model of the encoded columns in the user's own units.

        For rows within the bounds, ``encode(X) @ coef + intercept`` is the same as the numbers
        of ``X`` next to the indicators times the first result, plus the second.

        Parameters
        ----------
        coef : array-like of shape (..., n_encoded)
        intercept : array-like of shape (...), default=None
            None stands for 0. The decoded model has an intercept all the same, since 0 in the
            encoded space is the middle of the bounds.
        regression : bool, default=False
            Whether the model predicts a target that `encode_target` scaled, and is to predict
            it in the target's own units.

        Returns
        -------
        coef : ndarray of shape (..., n_encoded)
        intercept : ndarray of shape (...)
        """
        slopes = np.asarray(coef, dtype=np.float64)
        if not slopes.ndim or slopes.shape[-1] != self.n_encoded:
            raise fail("coef", f"have {self.n_encoded} columns", slopes.shape)
        half, centre = (1.0, 0.0) if self.is_ball else self._layout.units()
        constant = np.asarray(0.0 if intercept is None else intercept, dtype=np.float64)
        constant, slopes = constant - (slopes * (centre / half)).sum(axis=-1), slopes / half
        if regression:
            target = self._target_number()
            slopes = slopes * target.half_range
            constant = constant * target.half_range + target.centre
        return slopes, np.asarray(constant)

    def encoder(self) -> DomainEncoder:
        """Return a scikit-learn transformer that encodes, and learns nothing from data."""
        return DomainEncoder(self)

    sample = sample

    # Inner workings

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self._columns)

    @cached_property
    def _pieces(self) -> tuple[Piece, ...]:
        return tuple(pieces_of(self._columns, self._radius))

    def _target_number(self) -> Number:
        if not isinstance(self._target, Number):
            remedy = "Declare target=(lower, upper) in the target's own units."
            raise fail("the domain's target", "have bounds", self.target, remedy)
        return self._target

    def _label_at(self, position: int) -> str:
        return label_of(position if self._names is None else self._names[position])

    def _key(self) -> tuple[object, ...]:
        return (self._columns, self._names, self._target, self._radius)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Domain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[object, ...]:
        return (self._build, self._key())

    def __copy__(self) -> Domain:
        return self

    def __deepcopy__(self, memo: object) -> Domain:
        return self

    def __setattr__(self, name: str, value: object = None) -> NoReturn:
        raise AttributeError(f"A domain cannot be changed; build a new one to set {name!r}.")

    __delattr__ = __setattr__

    def __repr__(self) -> str:
        return describe(self._columns, self._names, self._target, self._radius)
