"""Domain: the public declaration of columns from which all bounds of the package follow."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_interval, fail
from skdp.domain._declaration import declare as _declare
from skdp.domain._declaration.describe import Described
from skdp.domain._declaration.sample import sample
from skdp.domain._projections import Box, ball_norm, box_norm
from skdp.domain.columns import UNIT, Column, Number
from skdp.domain.encoder import DomainEncoder, decode_coef
from skdp.domain.interactions import interact
from skdp.domain.layout import Layout, Piece, encode
from skdp.domain.reading import read_target

# Each column is an object of its own.
_MOST_COLUMNS = 10**6


class Domain(Described):
    """Public declaration of the columns of a table and of its target.

    All bounds, scales and sensitivities of the package follow from the domain. Therefore nothing
    in it may be read from the private data: take it from a code book, a form, a law of nature, or
    public data. Rows outside the domain are mapped into it one by one: numbers are clipped, and
    unknown levels are replaced by a declared one.

    Parameters
    ----------
    columns : dict of str to tuple or list
        For each column, in order, a tuple ``(lower, upper)`` of finite numbers with
        ``lower < upper`` in the units of the column, or a list of levels: strings, numbers, bools
        or other hashable objects. Note the brackets: ``(0, 1)`` are all numbers from 0 to 1,
        ``[0, 1]`` are the two levels 0 and 1. Levels are compared by ``==``: the number 1 and the
        string "1" are different levels.
    target : tuple, list or None, default=None
        Bounds ``(lower, upper)`` of a regression target in its own units, or the list of labels
        of a classification target.
    other : dict of str to level, default=None
        For columns of levels, the level that replaces unknown ones, and missing ones without a
        rule. The default is the first level of the column.
    missing : "indicator", "middle", float, or dict of str to these, default=None
        Rule for missing cells, of all columns or by name. With "indicator" a missing level is a
        level of its own; a missing number is encoded as 0, the middle of its bounds, and a
        further encoded column is 1 where the number is missing. For columns of numbers there are
        two other rules: "middle", or a number within the bounds that is read instead. Without a
        rule a missing number is an error.

    Raises
    ------
    ValueError
        If a declaration is invalid. The message gives the column, the rule, the declared value
        and a remedy.

    Notes
    -----
    *Encoding.* In the order of the columns, a number is encoded as one number in [-1, 1], and m
    levels are encoded as m - 1 indicators, 0 or 1, for all levels but the first. At most one
    indicator of a block is 1; all are 0 for the first level. This holds in floating point,
    rounding included.

    *Missing cells* are None, NaN, NA, NaT and, under a rule, empty texts that are no declared
    level. A rule costs no privacy: each row is mapped by itself. An indicator is one more encoded
    column. Without a rule, the error of a missing number names the column only, but that it
    occurs depends on the data. Infinite numbers are always an error.

    A domain is immutable. It compares by value, and can be pickled, copied, cloned and exported.
    Its attribute ``estimated`` is None, or the guarantee of `skdp.estimate_domain`.

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
    _pairs: _declare.Pairs
    estimated: Any

    def __init__(
        self,
        columns: Mapping[str, Any],
        target: Any = None,
        other: Mapping[str, Any] | None = None,
        missing: Any = None,
    ) -> None:
        names, declared = _declare.as_columns(columns, {} if other is None else other, missing)
        self._set(declared, names, _declare.as_target(target), None)

    @classmethod
    def box(
        cls,
        lower: ArrayLike,
        upper: ArrayLike,
        target: Any = None,
        names: Sequence[str] | None = None,
        missing: Any = None,
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
    def unit_box(cls, d: int, target: Any = None) -> Domain:
        """Return the domain of ``d`` >= 1 columns of numbers in [-1, 1], without names."""
        columns = (UNIT,) * check_count("d", d, most=_MOST_COLUMNS)
        return cls._build(columns, None, _declare.as_target(target), None)

    @classmethod
    def l2_ball(cls, d: int, radius: float, target: Any = None) -> Domain:
        """Return the domain of rows of Euclidean norm at most ``radius``.

        Rows outside are scaled back to the sphere. Encoded rows have the units of the raw ones.

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
        pairs: _declare.Pairs = (),
        estimated: Any = None,
    ) -> Domain:
        # Not by __setattr__, which raises.
        self.__dict__.update(_columns=columns, _names=names, _target=target)
        self.__dict__.update(_radius=radius, _pairs=pairs, estimated=estimated)
        what, remedy = "the names of encoded columns", "Rename a column or one of its levels."
        _declare.refuse_repeated(what, self.encoded_names(), remedy)
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

    # Encoded columns

    @property
    def n_encoded(self) -> int:
        """Number of encoded columns, without an intercept."""
        return self._layout.n_encoded

    @property
    def n_numbers(self) -> int:
        """Number of columns of numbers; each has one encoded number."""
        return len(self._layout.numbers)

    @property
    def number_index(self) -> NDArray[np.intp]:
        """Positions of the numbers among the encoded columns, of shape (n_numbers,)."""
        return np.array([position for position, _ in self._layout.numbers], dtype=np.intp)

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Encoded columns of each block of indicators: of levels, or of one for missing numbers."""
        return self._layout.blocks

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Number of indicators in each block: the number of levels, with missing, less one."""
        return tuple(block.stop - block.start for block in self.blocks)

    @property
    def block_tables(self) -> tuple[FloatArray | None, ...]:
        """For each block of B-splines the encoded values of its positions; None for indicators."""
        return self._layout.tables

    @property
    def block_penalties(self) -> tuple[FloatArray | None, ...]:
        """For each block of B-splines the matrix of its smoothness penalty; None for others."""
        return self._layout.penalties

    @property
    def block_positions(self) -> tuple[int, ...]:
        """Number of positions of each block, of which a row has one; 0 is that of no indicator."""
        pairs = zip(self.block_tables, self.block_sizes, strict=True)
        return tuple(size + 1 if table is None else len(table) for table, size in pairs)

    def encoded_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns; columns without names are x0, x1, ..."""
        return tuple(self._layout.names_out(self._labels))

    @property
    def encoded(self) -> Domain:
        """Domain of the encoded rows; encoding them again changes nothing.

        The blocks of indicators are kept. In a row of a block the first of the greatest entries
        becomes 1 if it is above 1/2, and all others become 0. The target is the same.
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
        if self._radius is not None:
            return ball_norm(self.n_encoded, self._radius, p, intercept)
        # All numbers are -1 or 1, and one indicator is 1 in every block that has any.
        return box_norm(self.n_numbers + sum(map(bool, self.block_sizes)) + intercept, p)

    # Encoding and decoding

    def encode(self, X: Any, out: FloatArray | None = None) -> FloatArray:
        """Map rows into the domain and encode them.

        Parameters
        ----------
        X : DataFrame, Arrow table, dict of columns or array-like of shape (n, n_columns)
            Columns of a DataFrame are taken by name, in any order, if the domain has names. All
            others are taken by position.
        out : ndarray of shape (n, n_encoded), float64, default=None
            Array for the result, such as a part of a wider array. It must not overlap with ``X``.

        Returns
        -------
        ndarray of shape (n, n_encoded), float64
            ``out``, or a new array.

        Raises
        ------
        ValueError
            If columns are missing, undeclared or too many, ``X`` is masked, complex or structured,
            or a column of numbers holds anything but finite numbers and, under a rule, missing
            cells. No message contains a value, a row, the number of rows, or the message of an
            error that a cell raised.
        """
        return encode(self, X, out)

    def encode_target(self, y: Any, *, again: bool = False) -> FloatArray:
        """Clip a regression target to its bounds and scale it to [-1, 1].

        Parameters
        ----------
        y : array-like of shape (n,) or (n, 1), units of the target
        again : bool, default=False
            Whether ``y`` was read before. Then entries that are not finite count as 0.

        Returns
        -------
        ndarray of shape (n,)
        """
        target = self._target_number()
        with np.errstate(all="ignore"):
            scaled = read_target(y, "target", again)
            box = Box(np.array([target.lower]), np.array([target.upper]), target.is_unit)
            box(scaled[:, None])
        return scaled

    def decode_target(self, t: ArrayLike) -> FloatArray:
        """Return predictions in [-1, 1] in the units of the target, without clipping."""
        target = self._target_number()
        return np.asarray(t, dtype=np.float64) * target.half_range + target.centre

    def encoder(self) -> DomainEncoder:
        """Return a scikit-learn transformer that encodes rows and learns nothing from data."""
        return DomainEncoder(self)

    additive, interact, decode_coef, sample = _declare.additive, interact, decode_coef, sample

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
