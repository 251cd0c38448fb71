"""The task of one search: the data, cut into disjoint parts, the candidates and the score.

Under "replace_one" the number of records is public, and a random order is cut into parts of
public sizes. Under "add_remove" a part is drawn for each record independently, so that an
additional record changes one part and leaves all others as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from skdp._checks import fail
from skdp.model_selection._candidates import Candidates, fit_to
from skdp.model_selection._scoring import Score
from skdp.privacy.ledger import Budget

Rows = NDArray[np.intp]
# The table, the target, and the persons or None.
Data = tuple[Any, Any, Any]


@dataclass(frozen=True, eq=False)
class PlannedFit:
    """A fit that may be made: of which candidate, at which budget, to which records."""

    candidate: int
    budget: Budget
    rows: Rows
    share: float  # of all records, in expectation


@dataclass(frozen=True, eq=False)
class SearchTask:
    """The data of a search, and the planned fits: one for each candidate."""

    X: Any
    y: Any
    candidates: Candidates
    score: Score
    fits: tuple[PlannedFit, ...]
    held_out: Rows  # for the scores: no candidate is fitted to these records
    rng: np.random.Generator  # of the choice, and of the seeds of the fits
    is_seeded: bool  # whether the fits have seeds, as the search has a random_state
    n_jobs: int | None
    persons: NDArray[np.intp] | None = None  # the position of each row's person

    @property
    def unit(self) -> str:
        """The unit of privacy."""
        return "row" if self.persons is None else "person"

    @property
    def sensitivity(self) -> int:
        """The greatest change of the total score of a candidate if one record changes."""
        return self.score.sensitivity(self.candidates.neighbors)

    def records(self, rows: Rows) -> Data:
        """Return the records at the given positions."""
        persons = None if self.persons is None else self.persons[rows]
        return _safe_indexing(self.X, rows), _safe_indexing(self.y, rows), persons

    def model(self, fit: PlannedFit) -> Any:
        """Return the unfitted model of a fit; its seed is drawn here."""
        seed = int(self.rng.integers(2**31)) if self.is_seeded else None
        return self.candidates.model(fit.candidate, fit.budget, fit.share, seed)

    def fit_and_score(self) -> Iterator[tuple[Any, int]]:
        """Make all fits; yield each model with its total score on the held-out records."""
        held_out = self.records(self.held_out)
        # All seeds are drawn before the first fit: the order in which workers run is not fixed.
        models = [self.model(fit) for fit in self.fits]
        calls = (
            delayed(_fit_and_score)(model, self.records(fit.rows), self.score, held_out)
            for model, fit in zip(models, self.fits, strict=True)
        )
        yield from Parallel(n_jobs=self.n_jobs, return_as="generator")(calls)


def _fit_and_score(model: Any, train: Data, score: Score, held_out: Data) -> tuple[Any, int]:
    fit_to(model, *train)
    # An empty part, which may occur under "add_remove", has the score 0.
    return model, score.total(model, *held_out) if len(held_out[1]) else 0


def parts(
    n: int,
    shares: Sequence[float],
    neighbors: str,
    rng: np.random.Generator,
    persons: NDArray[np.intp] | None = None,
) -> list[Rows]:
    """Return the positions of the rows of each part; the shares are positive and sum to 1.

    Parameters
    ----------
    n : int
        The number of rows, or of persons.
    persons : ndarray of shape (rows,), optional
        The position of each row's person. All rows of a person are in one part.
    """
    if persons is not None:
        part_of = np.empty(n, dtype=np.intp)
        for number, own in enumerate(parts(n, shares, neighbors, rng)):
            part_of[own] = number
        return [np.flatnonzero(part_of[persons] == number) for number in range(len(shares))]
    if neighbors == "add_remove":
        drawn = rng.choice(len(shares), size=n, p=np.asarray(shares) / np.sum(shares))
        return [np.flatnonzero(drawn == part) for part in range(len(shares))]
    return np.split(rng.permutation(n), np.cumsum(sizes(n, shares))[:-1])


def sizes(n: int, shares: Sequence[float]) -> list[int]:
    """Return sizes near ``n`` times the shares, each at least 1."""
    if n < len(shares):
        rule = f"have at least {len(shares)} records, one for each part: found {n} sample(s)"
        raise fail("X", rule, None, "Give fewer candidates, or more records.")
    ends = np.rint(np.cumsum(shares) / np.sum(shares) * n).astype(int)
    # Each part has at least one record, and leaves one for each part after it.
    index = np.arange(len(shares))
    ends = np.maximum.accumulate(np.maximum(ends - index, 1)) + index
    ends = np.minimum(ends, n - index[::-1])
    return [int(size) for size in np.diff(ends, prepend=0)]
