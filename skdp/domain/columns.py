"""Declared columns: bounded numbers, levels, and blocks of indicators.

`skdp.domain._declare` builds them from the user's declaration and checks it. Each kind has the
number of columns that it reads (``n_in``) and is encoded as (``n_out``), and the kind of the
encoded columns (``encoded``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray


def listed(items: Iterable[str]) -> str:
    """Join with commas; of more than 8 items, some are replaced by their number."""
    shown = list(items)
    if len(shown) > 8:
        shown = [*shown[:4], f"... {len(shown) - 5} more ...", shown[-1]]
    return ", ".join(shown)


@dataclass(frozen=True)
class Number:
    """A number in [lower, upper], encoded as a number in [-1, 1]."""

    lower: float
    upper: float
    n_in = n_out = 1

    @property
    def half_range(self) -> float:
        """Half of upper - lower."""
        # The difference itself overflows for bounds of opposite sign near the largest float.
        return self.upper / 2 - self.lower / 2

    @property
    def centre(self) -> float:
        """Middle of the bounds, which is encoded as 0."""
        return self.upper / 2 + self.lower / 2

    @property
    def is_unit(self) -> bool:
        """Whether the bounds are -1 and 1, as those of an encoded number."""
        return (self.lower, self.upper) == (-1.0, 1.0)

    @property
    def encoded(self) -> Number:
        """Kind of the encoded column."""
        return UNIT

    def __repr__(self) -> str:
        lower, upper = (repr(bound).removesuffix(".0") for bound in (self.lower, self.upper))
        return f"({lower}, {upper})"


UNIT = Number(-1.0, 1.0)


@dataclass(frozen=True)
class Levels:
    """One of finitely many levels, encoded as an indicator of each level but the first.

    Levels are compared by ``==`` and ``hash``, like keys of a dict: 1, 1.0 and True are the same
    level, 1 and "1" are two.
    """

    levels: tuple[Hashable, ...]
    other: Hashable
    n_in = 1

    @property
    def n_out(self) -> int:
        """Number of encoded columns."""
        return len(self.levels) - 1

    @property
    def encoded(self) -> Indicators:
        """Kind of the encoded columns."""
        return Indicators(self.n_out)

    def names_out(self, name: str) -> list[str]:
        """Return the names of the indicators, from the name of the column."""
        return [f"{name}_{level}" for level in self.levels[1:]]

    @cached_property
    def _position(self) -> dict[Hashable, int]:
        return {level: position for position, level in enumerate(self.levels)}

    def encode(self, positions: NDArray[np.intp], out: FloatArray) -> None:
        """Write the indicators of levels into ``out`` of shape (len(positions), n_out)."""
        rows = np.flatnonzero(positions)
        out[...] = 0.0
        out[rows, positions[rows] - 1] = 1.0

    def positions(self, values: list[Any]) -> NDArray[np.intp]:
        """Return the position of the level of each of ``values``."""
        # A dict is as fast as pandas' hash tables here, and has one definition of "equal".
        other = self._position[self.other]
        try:
            found = map(self._position.get, values, repeat(other))
            return np.fromiter(found, dtype=np.intp, count=len(values))
        except TypeError:  # a cell without a hash is not a level
            return np.array([self._position_or(value, other) for value in values], dtype=np.intp)

    def _position_or(self, value: Any, other: int) -> int:
        try:
            return self._position.get(value, other)
        except TypeError:
            return other

    def __reduce__(self) -> tuple[object, ...]:
        return (Levels, (self.levels, self.other))  # without the cached lookup

    def __repr__(self) -> str:
        return f"[{listed(map(repr, self.levels))}]"


@dataclass(frozen=True)
class Indicators:
    """A block of columns of zeros with at most one 1: encoded levels."""

    n_in: int

    @property
    def n_out(self) -> int:
        """Number of encoded columns."""
        return self.n_in

    @property
    def encoded(self) -> Indicators:
        """Kind of the encoded columns."""
        return self

    def __repr__(self) -> str:
        return "indicator"


Column: TypeAlias = Number | Levels | Indicators
