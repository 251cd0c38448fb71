"""Which records a fit sees: parts of the data that have no record in common.

Under "replace_one" the number of records is public, and a random order is cut into parts of
public sizes. Under "add_remove" each record goes to a part of its own drawing, so that one
record more changes one part and nothing of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from skdp._checks import fail

Rows = NDArray[np.intp]


def parts(n: int, shares: Sequence[float], neighbors: str, rng: np.random.Generator) -> list[Rows]:
    """Return the positions of the records of each part.

    Parameters
    ----------
    n : int
        Number of records; its value is used under "replace_one" alone.
    shares : sequence of float > 0
        With sum 1.
    neighbors : {"replace_one", "add_remove"}
    rng : Generator
    """
    if neighbors == "add_remove":
        drawn = rng.choice(len(shares), size=n, p=np.asarray(shares) / np.sum(shares))
        return [np.flatnonzero(drawn == part) for part in range(len(shares))]
    return np.split(rng.permutation(n), np.cumsum(sizes(n, shares))[:-1])


def sizes(n: int, shares: Sequence[float]) -> list[int]:
    """Return sizes of at least 1 that are near ``n`` times the shares."""
    if n < len(shares):
        rule = f"have at least {len(shares)} records, one for each part: found {n} sample(s)"
        raise fail("X", rule, None, "Random stopping needs 2, whatever the number of candidates.")
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int)
    # Each part keeps one record for itself and leaves one for each that comes after it.
    index = np.arange(len(shares))
    ends = np.maximum.accumulate(np.maximum(ends - index, 1)) + index
    ends = np.minimum(ends, n - index[::-1])
    return [int(size) for size in np.diff(ends, prepend=0)]


def take(table: Any, rows: Rows) -> Any:
    """Return some rows of a table or some entries of a list."""
    return _safe_indexing(table, rows)


def own_copy(table: Any) -> Any:
    """Return a copy of an array or a DataFrame: the dry run sees what is fitted later."""
    return table.copy()
