"""What a search works on: data cut into parts, candidates, a score, and where chance comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from skdp.model_selection._candidates.candidates import Candidates
from skdp.model_selection._candidates.silence import silence
from skdp.model_selection._rows import Rows, take
from skdp.model_selection._scoring import RecordScore
from skdp.privacy.ledger import Budget


@dataclass(frozen=True, eq=False)
class Fit:
    """One fit that may be made: which candidate, at which budget, on which records.

    ``share`` is the part of all records that these are expected to be.
    """

    which: int
    budget: Budget
    rows: Rows
    share: float


@dataclass(frozen=True, eq=False)
class Found:
    """What a strategy releases: a candidate, its model, and its score if that was released."""

    which: int
    model: Any
    score: float | None = None


@dataclass(frozen=True, eq=False)
class Material:
    """The data and what is done with it.

    Attributes
    ----------
    X, y : table of shape (n, n_features), array of shape (n,)
    candidates : Candidates
    score : RecordScore
    fits : tuple of Fit
        One for each candidate.
    held : ndarray of int
        Positions of the records on which scores are computed, and no fit sees.
    neighbors : {"replace_one", "add_remove"}
    rng : Generator
        Of the choice and its noise.
    seed : callable
        Returns what the next fit takes as its ``random_state``.
    n_jobs : int or None
    """

    X: Any
    y: Any
    candidates: Candidates
    score: RecordScore
    fits: tuple[Fit, ...]
    held: Rows
    neighbors: str
    rng: np.random.Generator
    seed: Callable[[], int | None]
    n_jobs: int | None = None

    def records(self, rows: Rows) -> tuple[Any, Any]:
        """Return some records."""
        return take(self.X, rows), take(self.y, rows)

    def model(self, fit: Fit) -> Any:
        """Return the model that a fit is about to fit."""
        return self.candidates.model(fit.which, fit.budget, fit.share, self.seed())

    def fitted(self, fits: Sequence[Fit], silent: bool) -> Iterator[tuple[Any, int]]:
        """Make fits; yield each model with its whole score on the records kept aside.

        Where they are silent nothing is shown of a fit, nor of how many there are.
        """
        held = self.records(self.held)
        # Before the first of them runs: workers are served in an order that nobody knows.
        models = [self.model(fit) for fit in fits]
        calls = (
            delayed(_fitted)(model, self.records(fit.rows), self.score, held, silent)
            for model, fit in zip(models, fits, strict=True)
        )
        yield from Parallel(n_jobs=self.n_jobs, return_as="generator")(calls)


def _fitted(
    model: Any, data: tuple[Any, Any], score: RecordScore, held: Any, silent: bool
) -> tuple[Any, int]:
    # Silence is of a process, and this may run in one of its own.
    with silence() if silent else nullcontext():
        model.fit(*data)
    with silence():  # how often a score is computed tells how many records there are
        return model, score.total(model, *held)
