"""The interface of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from skdp.domain import Domain
from skdp.rows.block import Block
from skdp.rows.threads import T


class Kept(Protocol):
    """What was kept of blocks of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain
    >>> from skdp.rows import Kept, MemoryRows
    >>> domain = Domain({"age": (20, 100)}, target=(0, 10))
    >>> rows = MemoryRows(domain, [[40], [60]], np.array([0.0, 1.0]))
    >>> kept: Kept = rows.keep(lambda block: block.target.copy())
    >>> kept.sum(lambda target: float(target.sum()))
    1.0
    """

    @property
    def is_read_again(self) -> bool:
        """Whether each sum reads the rows from their source, which may take long."""

    @property
    def may_change(self) -> bool:
        """Whether a function of `map` may change a state: it is called once for each."""

    def sum(self, part: Callable[[Any], T]) -> T:
        """Return the sum of ``part(state)`` over the blocks."""

    def map(self, function: Callable[[Any], object]) -> Kept:
        """Return ``function(state)`` of every block, kept in place of the states."""


class Rows(Protocol):
    """Encoded rows of a domain with their targets, in blocks.

    Statistics are arrays, numbers, or tuples or lists of them. Arrays of int64 are added exactly,
    as integers of any size, if no entry exceeds 2^55. Floats are added in an order that is fixed
    for the same rows, in the same blocks. Lists are joined. Functions must not change their
    argument, and they may run in other threads or processes.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain
    >>> from skdp.rows import MemoryRows, Rows
    >>> domain = Domain({"age": (20, 100)}, target=(0, 10))
    >>> rows: Rows = MemoryRows(domain, [[40], [80]], np.array([0.0, 1.0]))
    >>> rows.sum(lambda block: float(block.numbers.sum()))
    0.0
    """

    @property
    def domain(self) -> Domain:
        """The domain of the rows."""

    @property
    def n(self) -> int:
        """The number of rows; it may be private."""

    def sum(self, part: Callable[[Block], T]) -> T:
        """Return the sum of ``part(block)`` over all rows, in blocks of at most 2^13 rows.

        A result must not keep arrays of its block, whose memory may be used again.
        """

    def keep(
        self,
        build: Callable[[Block], object],
        blocks: int = 1,
        caches: bool = False,
        dtype: type | None = None,
    ) -> Kept:
        """Return the states ``build(block)``, each of the rows of so many ``blocks``.

        If a ``dtype`` is given, encoded numbers are rounded to it. Then the entries of each column
        lie next to each other, and states may keep the array.
        The states are kept where the blocks are. Where rows are streamed, states are built anew at
        each sum, unless they have ``caches``: then they are kept in memory.
        """
