"""The two ways to search; both are private at their budget: private_selection.md.

Both keep some records aside for scores. A record is in the scores of all candidates or in the
fits, so that a choice at epsilon costs nothing beside fits at epsilon (Theorem 2).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from skdp.model_selection._candidates.silence import silence
from skdp.model_selection._choice import discrete_laplace, permute_and_flip
from skdp.model_selection._material import Found, Material
from skdp.model_selection._progress import Bar
from skdp.model_selection._scoring import UNITS
from skdp.model_selection._stopping import StoppingLaw
from skdp.privacy.decimals import as_decimal, float_below
from skdp.privacy.ledger import Budget

# A quotient of floats is within this of the true one.
_ROUNDING = 1e-12


class Strategy(Protocol):
    """A way to search.

    ``how`` ends the sentence that names the mechanism, ``hides_runs`` says whether more is fitted
    than the guarantee counts, and ``refit_share`` is the share of the budget for a last fit where
    none is asked for.
    """

    how: ClassVar[str]
    hides_runs: ClassVar[bool]
    refit_share: ClassVar[float]

    def n_parts(self, m: int) -> int:
        """Return the number of parts into which the records for fits are cut."""

    def of_each(self, trial: Budget) -> Budget:
        """Return the budget of one fit."""

    def search(self, material: Material, trial: Budget, verbose: int) -> Found:
        """Fit and choose, at the budget ``trial``."""


@dataclass(frozen=True)
class Disjoint:
    """Each candidate has records of its own."""

    how: ClassVar[str] = "fits to disjoint parts of the records, permute-and-flip"
    hides_runs: ClassVar[bool] = False
    refit_share: ClassVar[float] = 0.75

    def n_parts(self, m: int) -> int:
        """Return the number of parts: one for each candidate."""
        return m

    def of_each(self, trial: Budget) -> Budget:
        """Return the budget of one fit: all of it, as no record is in two parts."""
        return trial

    def search(self, material: Material, trial: Budget, verbose: int) -> Found:
        """Fit all and choose one."""
        return choose(material, trial.epsilon, verbose)


@dataclass(frozen=True)
class RandomStopping:
    """The best of a random number of fits of random candidates, each to the same records."""

    law: StoppingLaw
    how: ClassVar[str] = "the best of a random number of fits"
    hides_runs: ClassVar[bool] = True
    refit_share: ClassVar[float] = 0.0

    def n_parts(self, m: int) -> int:
        """Return the number of parts: one for all."""
        return 1

    def of_each(self, trial: Budget) -> Budget:
        """Return the budget of one run (Theorems 4 and 5)."""
        delta = trial.delta / self.law.mean * (1 - _ROUNDING)
        return Budget(self.law.base_of(trial.epsilon), delta)

    def search(self, material: Material, trial: Budget, verbose: int) -> Found:
        """Run; nothing is shown of how many runs there are, nor of any of them.

        Raises
        ------
        RuntimeError
            If a fit or its score fails. What failed is not told, as it may quote the run.
        """
        with silence(), suppress(Exception):
            return best_of_runs(material, self.law)
        # Raised here, or the error would come along as the context, with all runs before it.
        raise RuntimeError(
            "A fit or a score failed. Its error is not shown, since it may tell of runs that the"
            ' guarantee does not count. With strategy="disjoint" errors are shown.'
        )


def choose(material: Material, epsilon: float, verbose: int) -> Found:
    """Make all fits and choose one by permute-and-flip (Theorem 1)."""
    models, totals = [], []
    with Bar(len(material.fits), "candidate", verbose) as bar:
        for model, total in material.fitted(material.fits, silent=False):
            models.append(model)
            totals.append(total)
            bar.step()
    # A record more adds to all sums; one in place of another may raise some and lower others.
    directions = 1 if material.neighbors == "add_remove" else 2
    best = permute_and_flip(totals, exactly(epsilon) / (UNITS * directions), material.rng)
    return Found(best, models[best])


def best_of_runs(material: Material, law: StoppingLaw) -> Found:
    """Run as often as the law says, and return the run with the greatest noisy score."""
    count, m = law.rvs(material.rng), len(material.fits)
    drawn = [material.fits[k] for k in material.rng.integers(m, size=count)]
    best, greatest = Found(-1, None), None
    for fit, (model, total) in zip(drawn, material.fitted(drawn, silent=True), strict=True):
        rate = exactly(fit.budget.epsilon) / UNITS
        noisy = total + discrete_laplace(rate, material.rng)
        # The first of equals: runs come in an order that means nothing.
        if greatest is None or noisy > greatest:
            best, greatest = Found(fit.which, model, _mean(material, noisy)), noisy
    return best


def _mean(material: Material, noisy: int) -> float | None:
    """Return a mean score, where the number of records is public."""
    if material.neighbors != "replace_one":
        return None
    return material.score.mean(noisy, len(material.held))


def exactly(epsilon: float) -> Fraction:
    """Return the number that a budget's shortest decimal says."""
    return Fraction(as_decimal(epsilon))


def split(whole: Budget, share: float) -> tuple[Budget, Budget]:
    """Return what is left beside a share, and the share; their sum is at most the whole."""
    amounts = whole.epsilon, whole.delta
    first = [(1 - share) * value for value in amounts]
    pairs = zip(amounts, first, strict=True)
    rest = [float_below(as_decimal(value) - as_decimal(part)) for value, part in pairs]
    return Budget(*first), Budget(*rest)
