"""One declared column: a bounded number, a set of levels, or a block of indicators.

They are built by `skdp.domain.declare`, which checks what the user wrote. Each kind says how many
columns it reads (``n_in``), how many it becomes (``n_out``), what these are called, and what kind
of column they are in turn (``encoded``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray


def listed(items: Iterable[str]) -> str:
    """Join with commas, and tell the number of those left out where there are many."""
    shown = list(items)
    if len(shown) > 8:
        shown = [*shown[:4], f"... {len(shown) - 5} more ...", shown[-1]]
    return ", ".join(shown)


@dataclass(frozen=True)
class Number:
    """A number in [lower, upper]; encoded, a number in [-1, 1]."""

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
        """Middle of the bounds: what is encoded as 0."""
        return self.upper / 2 + self.lower / 2

    @property
    def is_unit(self) -> bool:
        """Whether the bounds are those of an encoded number."""
        return (self.lower, self.upper) == (-1.0, 1.0)

    @property
    def encoded(self) -> Number:
        """Kind of the encoded column."""
        return UNIT

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns."""
        return list(names)

    def __repr__(self) -> str:
        lower, upper = (repr(bound).removesuffix(".0") for bound in (self.lower, self.upper))
        return f"({lower}, {upper})"


UNIT = Number(-1.0, 1.0)


@dataclass(frozen=True)
class Levels:
    """One of finitely many levels; encoded, an indicator of each level but the first.

    Levels are told apart by ``==`` and ``hash``, as the keys of a dict are: 1, 1.0 and True are
    one level, 1 and "1" are two.
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

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns."""
        return [f"{names[0]}_{level}" for level in self.levels[1:]]

    @cached_property
    def _position(self) -> dict[Hashable, int]:
        return {level: position for position, level in enumerate(self.levels)}

    def encode(self, positions: NDArray[np.intp], out: FloatArray) -> None:
        """Write the indicators of levels into ``out`` of shape (len(positions), n_out)."""
        rows = np.flatnonzero(positions)
        out[...] = 0.0
        out[rows, positions[rows] - 1] = 1.0

    def positions(self, values: list[Any]) -> NDArray[np.intp]:
        """Return which level each of ``values`` is."""
        # A dict matches the speed of pandas' hash tables here, and has one meaning of "equal".
        other = self._position[self.other]
        try:
            found = map(self._position.get, values, repeat(other))
            return np.fromiter(found, dtype=np.intp, count=len(values))
        except TypeError:  # a cell that cannot be hashed is no level
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
    """A block of columns of zeros with at most one 1: what the encoder makes of levels."""

    n_in: int

    @property
    def n_out(self) -> int:
        """Number of encoded columns."""
        return self.n_in

    @property
    def encoded(self) -> Indicators:
        """Kind of the encoded columns."""
        return self

    def names_out(self, names: Sequence[str]) -> list[str]:
        """Return the names of the encoded columns."""
        return list(names)

    def __repr__(self) -> str:
        return "indicator"


Column: TypeAlias = Number | Levels | Indicators
