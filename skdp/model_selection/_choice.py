"""The private choice of a search, sampled exactly (private_selection.md, Theorems 1 and 6).

Scores are integers, rates are fractions, and every draw is made of fair bits. Nothing is rounded,
so the computer draws from exactly the distributions of the theorems.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from skdp.privacy.ledger import Budget
from skdp.privacy.rounding import as_decimal, float_below, subtract


@dataclass(frozen=True)
class Choice:
    """How one of the candidates is chosen by their scores.

    By permute-and-flip at ``amount`` or, if ``mu`` is known, by the exponential mechanism whose
    log probabilities change within an interval of length ``amount``. The whole search is then
    private by Gaussian DP with ``mu``.
    """

    amount: float
    mu: float | None = None

    @property
    def name(self) -> str:
        """The mechanism."""
        return "permute-and-flip" if self.mu is None else "exponential mechanism"

    def draw(self, scores: Sequence[int], sensitivity: int, rng: np.random.Generator) -> int:
        """Return the position of the chosen score."""
        # One score may increase and another one decrease.
        rate = exactly(self.amount) / (2 * sensitivity)
        choose = permute_and_flip if self.mu is None else exponential_mechanism
        return choose(scores, rate, rng)


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
        found = int.from_bytes(rng.bytes((bits + spare) // 8), "big") >> spare
        if found < n:
            return found
