"""The two strategies of a search; both are private at their budget (private_selection.md).

Both hold records out for the scores. A record is either in the scores of all candidates or in
the fits, so a choice at epsilon costs nothing beside fits at the same epsilon (Theorem 2).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from skdp._progress import with_bar
from skdp.model_selection._exact_draws import (
    discrete_laplace,
    exponential_mechanism,
    permute_and_flip,
)
from skdp.model_selection._silence import silence
from skdp.model_selection._stopping import StoppingLaw
from skdp.model_selection._task import SearchTask
from skdp.privacy.decimals import as_decimal, float_below, subtract
from skdp.privacy.ledger import Budget

# A quotient of floats is within this of the true one.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Selection:
    """The result of a strategy: the chosen candidate, its model, and its score if released."""

    candidate: int
    model: Any
    score: float | None = None


@dataclass(frozen=True)
class Disjoint:
    """Fit each candidate to its own part of the records; choose one privately.

    The choice is made by permute-and-flip at the epsilon of the budget or, with a ``width``, by
    the exponential mechanism whose log probabilities change within an interval of this length.
    The whole search is then private by Gaussian DP with ``mu``.
    """

    width: float | None = None
    mu: float | None = None
    name: ClassVar[str] = "disjoint"
    hides_runs: ClassVar[bool] = False  # whether more is fitted than the guarantee covers
    refit_share: ClassVar[float] = 0.75  # of the budget, by default, for a fit to all records

    @property
    def description(self) -> str:
        """The fits and the choice, in words."""
        choice = "permute-and-flip" if self.width is None else "exponential mechanism"
        return f"fits to disjoint parts of the records, {choice}"

    def n_parts(self, m: int) -> int:
        """Return the number of parts for the fits of m candidates: one for each."""
        return m

    def fit_budget(self, budget: Budget) -> Budget:
        """Return the budget of one fit: all of it, because no record is in two parts."""
        return budget

    def select(self, task: SearchTask, budget: Budget, verbose: int) -> Selection:
        """Make all fits, and choose one (Theorem 1, or Theorem 9)."""
        fitted = task.fit_and_score(task.fits, is_silent=False)
        models, totals = zip(*with_bar(fitted, len(task.fits), "candidate", verbose), strict=True)
        # One total may increase and another one decrease.
        choose, amount = permute_and_flip, budget.epsilon
        if self.width is not None:
            choose, amount = exponential_mechanism, self.width
        chosen = choose(totals, exactly(amount) / (2 * task.sensitivity), task.rng)
        return Selection(chosen, models[chosen])


@dataclass(frozen=True)
class RandomStopping:
    """Return the best of a random number of fits of random candidates to the same records."""

    law: StoppingLaw
    mu: ClassVar[None] = None
    name: ClassVar[str] = "random_stopping"
    description: ClassVar[str] = "the best of a random number of fits"
    hides_runs: ClassVar[bool] = True
    refit_share: ClassVar[float] = 0.0

    def n_parts(self, m: int) -> int:
        """Return the number of parts for the fits of m candidates: one for all."""
        return 1

    def fit_budget(self, budget: Budget) -> Budget:
        """Return the budget of one run (Theorems 4 and 5)."""
        delta = budget.delta / self.law.mean * (1 - _ROUNDING)
        return Budget(self.law.base_of(budget.epsilon), delta)

    def select(self, task: SearchTask, budget: Budget, verbose: int) -> Selection:
        """Return the best run, without showing any run, its errors, or the number of runs."""
        with silence(), suppress(Exception):
            return self._best_run(task)
        # Raised outside of the block above: else the error would be its context.
        raise RuntimeError(
            "A fit or a score failed. Its error is not shown, because it may describe runs that"
            ' the guarantee does not cover. With strategy="disjoint" errors are shown.'
        )

    def _best_run(self, task: SearchTask) -> Selection:
        count = self.law.rvs(task.rng)
        runs = [task.fits[k] for k in task.rng.integers(len(task.fits), size=count)]
        rate = exactly(runs[0].budget.epsilon) / task.sensitivity
        chosen, best, greatest = -1, None, -math.inf
        fitted = task.fit_and_score(runs, is_silent=True)
        for run, (model, total) in zip(runs, fitted, strict=True):
            noisy = total + discrete_laplace(rate, task.rng)
            # Of equal runs the first one is kept: the order of runs is random.
            if noisy > greatest:
                chosen, best, greatest = run.candidate, model, noisy
        if task.candidates.neighbors != "replace_one":
            return Selection(chosen, best)  # the mean would tell the number of records
        return Selection(chosen, best, task.score.mean(int(greatest), task.n_scored))


Strategy = Disjoint | RandomStopping


def exactly(epsilon: float) -> Fraction:
    """Return the shortest decimal of a budget as a fraction."""
    return Fraction(as_decimal(epsilon))


def split(whole: Budget, share: float) -> tuple[Budget, Budget]:
    """Return the rest and the share of a budget; as decimals they sum to at most the whole."""
    amounts = whole.epsilon, whole.delta
    first = [(1 - share) * value for value in amounts]
    pairs = zip(amounts, first, strict=True)
    rest = [float_below(subtract(value, as_decimal(part))) for value, part in pairs]
    return Budget(*first), Budget(*rest)
