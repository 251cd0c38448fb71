"""Trusted. Fits to disjoint parts of the records, and the private choice of one of them.

Scores are whole numbers, and choices are drawn by comparisons of whole numbers: no float rounds.
Statements and proofs: ``docs/proofs/private_selection.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from skdp.privacy.conversions import pure_of_mu
from skdp.privacy.ledger import Budget
from skdp.trusted.arrays import as_decimal
from skdp.trusted.certify import PrivateChoice
from skdp.trusted.losses import GaussianLoss, PairLoss
from skdp.trusted.randomness import publish
from skdp.trusted.statement import NotPrivate, Public, Spent


@dataclass(frozen=True)
class SearchChoice:
    """How one of the candidates is chosen by their scores.

    By permute-and-flip at ``amount`` or, if ``mus`` are known, by the exponential mechanism whose
    log probabilities change within an interval of length ``amount``. Then the fits, the choice
    and the last fit are private by Gaussian DP: the first two with the first of ``mus``.
    """

    amount: float
    mus: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        return "permute-and-flip" if self.mus is None else "exponential mechanism"

    def draw(self, scores: Sequence[int], sensitivity: int, rng: np.random.Generator) -> int:
        # One score may increase and another one decrease.
        rate = Fraction(as_decimal(self.amount)) / (2 * sensitivity)
        choose = permute_and_flip if self.mus is None else exponential_mechanism
        release = PrivateChoice(self.name, self.amount, theorem="private_selection.md")
        draw = partial(choose, scores, rate)
        return publish(release, list(scores), draw, rng, scale=1 / rate)


@dataclass(frozen=True)
class PrivateFits:
    """Fits to disjoint parts of the records, and a choice by scores on one more part.

    A record is in one part, which is drawn without looking at it. So the privacy loss is at most
    the greatest of those of the fits, each of at most ``budget``, and of the choice. With ``mu``
    they are private by Gaussian DP.
    """

    name: str
    budget: Budget
    neighbors: str
    unit: str
    mu: float | None = None
    choice: SearchChoice | None = None
    theorem: ClassVar[str] = "private_selection.md, Theorems 1 to 6"
    publication: ClassVar[None] = None  # the fits publish their own values

    @property
    def description(self) -> str:
        return self.name

    def spent(self, public: Public) -> Spent:
        if (self.neighbors, self.unit) != (public.relation, public.unit):
            raise NotPrivate(f"{self.name}: the fits are private under another relation or unit")
        epsilon, delta = self.budget.epsilon, self.budget.delta
        # An interval of length 2 e is e-private, and by Gaussian DP with the mu of this e.
        most = epsilon if self.mu is None else 2 * pure_of_mu(self.mu)
        if self.choice is not None and self.choice.amount > most:
            raise NotPrivate(f"{self.name}: the choice spends {self.choice.amount:.9g}")
        if self.mu is not None:
            return Spent(math.inf, ((GaussianLoss(self.mu), 1),))
        return Spent(math.inf if delta else epsilon, ((PairLoss(epsilon, delta), 1),))


def permute_and_flip(scores: Sequence[int], rate: Fraction, rng: np.random.Generator) -> int:
    """Return the position of a score, chosen by permute-and-flip (McKenna & Sheldon 2020).

    Candidates are visited in a random order, and each is accepted with probability
    ``exp(-rate (greatest - score))``; the first accepted one is returned. This is the distribution
    of the argmax of scores plus exponential noise of this rate (private_selection.md, Theorem 1).
    For a choice at epsilon the rate is epsilon / (2 D) if one record changes each score by at most
    D.
    """
    greatest = max(scores)
    for place in rng.permutation(len(scores)):
        if bernoulli_exp(rate * (greatest - scores[place]), rng):
            return int(place)
    raise AssertionError("the greatest score is always accepted")


def exponential_mechanism(scores: Sequence[int], rate: Fraction, rng: np.random.Generator) -> int:
    """Return the position of a score with probability in proportion to ``exp(rate score)``.

    If one record changes each score by at most D, the log probabilities change by numbers from an
    interval of length 2 D rate (private_selection.md, Theorem 6).
    """
    greatest = max(scores)
    while True:
        place = uniform_below(len(scores), rng)
        if bernoulli_exp(rate * (greatest - scores[place]), rng):
            return place


def bernoulli_exp(exponent: Fraction, rng: np.random.Generator) -> bool:
    """Return True with probability exactly ``exp(-exponent)``, for an exponent >= 0.

    Canonne, Kamath & Steinke (2020), Algorithm 1.
    """
    whole, rest = divmod(exponent.numerator, exponent.denominator)
    # One draw for each unit of the exponent; it ends with the first False, after 1.6 on average.
    return all(_bernoulli_exp_below_one(1, 1, rng) for _ in range(whole)) and (
        _bernoulli_exp_below_one(rest, exponent.denominator, rng)
    )


def _bernoulli_exp_below_one(x: int, per: int, rng: np.random.Generator) -> bool:
    """Return True with probability exp(-x / per), for a quotient in [0, 1].

    Let A_k be True with probability x / (per k). The first k with A_k False is odd with this
    probability. Integers are used because fractions would be reduced in every step.
    """
    k = 1
    while uniform_below(per * k, rng) < x:
        k += 1
    return k % 2 == 1


def uniform_below(n: int, rng: np.random.Generator) -> int:
    """Return a uniform integer from 0 to ``n - 1``; n may have any size."""
    bits = (n - 1).bit_length()
    spare = -bits % 8
    while True:
        drawn = int.from_bytes(rng.bytes((bits + spare) // 8), "big") >> spare
        if drawn < n:
            return drawn
